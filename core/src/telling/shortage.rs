//! Shortages: why no node will do, in kube-scheduler's words, and which resource is short, with the
//! requested and the free amount.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use fluxqueue_api::{BlockedBy, BlockedReason};

use crate::jobs::exclusive::Apart;
use crate::parts::Telling;
use crate::telling::closed::Closed;
use crate::telling::cramped::Cramped;
use fluxqueue_machine::cluster::summary;
use fluxqueue_machine::fluxion::{PoolSupply, RankSet};
use fluxqueue_machine::ledger::GroupRequest;
use fluxqueue_planner::plan::{Attempt, Outcome};
use fluxqueue_workload::quantity::quantity;

/// A resource that pods request, and the amount of it.
struct Shortage<'a> {
    resource: String,
    /// The number of pods that request it, and the nodes that they may use.
    pods: u64,
    nodes: &'a RankSet,
    requested: u128,
    free: u64,
    /// True if usable nodes have too little of it.
    is_on_nodes: bool,
}

impl Telling<'_> {
    /// Returns the reason for which no node will do, in kube-scheduler's words, with the scarcest
    /// resource; and the other resources that are short in total.
    pub(crate) fn short_of(&mut self, attempt: &Attempt) -> (BlockedBy, Vec<BlockedBy>) {
        let mut closed = Closed::default();
        let mut shortages: Vec<Shortage> = Vec::new();
        let (outcome, groups) = (&attempt.outcome, &attempt.request.groups);
        let mut cramped = Cramped::cut(
            &attempt.request,
            &attempt.open,
            &self.planner.ledger,
            &self.planner.cluster,
        );
        let mut apart = Apart::default();
        let mut with_levels: Vec<GroupRequest> = Vec::new();
        let pods: usize = groups.iter().flat_map(|group| &group.wants).map(|want| want.count).sum();
        for (group, open) in groups.iter().zip(&*attempt.open) {
            if pods > 1 {
                self.note_closed(group, &mut closed);
            }
            cramped = cramped.or_else(|| Cramped::beside(group, &mut self.planner.site()));
            let request = group.request(open, &mut self.planner.cluster);
            if let Some(size) = group.slice_size() {
                // The numbers cover all pods; for slices, the text tells whether there is a part
                // with room for one.
                let slice = request.one_slice(size);
                let (levels, explanation) =
                    (slice.levels.clone(), self.planner.ledger.explain(&[slice]));
                for shape in explanation.iter().flat_map(|explanation| &explanation.shapes) {
                    let supply = if *outcome == Outcome::Never { &shape.idle } else { &shape.now };
                    cramped = cramped.or_else(|| {
                        Cramped::of(&levels, shape, supply, *outcome == Outcome::Never)
                    });
                }
            }
            let request = request.unsliced();
            let levels = request.levels.clone();
            if levels.is_some() {
                with_levels.push(request.clone());
            }
            // A call that fails is counted by the ledger.
            let Some(explanation) = self.planner.ledger.explain(&[request]) else { continue };
            if *outcome != Outcome::Never {
                apart.note(group, &explanation);
            }
            for shape in &explanation.shapes {
                // For a request that never fits, the shortage of the idle cluster counts.
                let supply = if *outcome == Outcome::Never { &shape.idle } else { &shape.now };
                cramped = cramped
                    .or_else(|| Cramped::of(&levels, shape, supply, *outcome == Outcome::Never));
                for pool in &supply.pools {
                    closed.note_short(pool);
                    Shortage::add(&mut shortages, pool, shape.wanted, open);
                }
            }
        }
        // Each shape may fit by itself while all together do not.
        if cramped.is_none()
            && with_levels.iter().map(|request| request.wants.len()).sum::<usize>() > 1
        {
            let all = self.planner.ledger.explain(&with_levels);
            cramped =
                all.and_then(|all| Cramped::together(&all.shapes, *outcome == Outcome::Never));
        }
        // Of equally short resources, the first one counts.
        let worst = (0..shortages.len()).reduce(|worst, at| {
            if shortages[at].is_worse_than(&shortages[worst]) { at } else { worst }
        });
        let worst = worst.map(|at| shortages.remove(at));
        let mut message = self.unavailable(attempt, pods, &closed, &apart);
        if let Some(worst) = worst.as_ref().filter(|_| pods > 1) {
            let idle = if *outcome == Outcome::Never { "in all" } else { "free" };
            let (requested, free) = worst.amounts();
            let who = match worst.pods {
                asking if asking < pods as u64 => {
                    format!("{asking} of the {pods} pods that start together")
                }
                _ => format!("{pods} pods start together and"),
            };
            let _ = write!(
                message,
                " {who} ask for {requested} {}, {free} {idle} on the nodes they may use.",
                worst.resource,
            );
        }
        message += &apart.text(pods);
        if let Some((needed, open)) = attempt.nodes_for_each(&mut self.planner.cluster) {
            let _ = write!(
                message,
                " By their own anti-affinity they need {needed} nodes, and may use {open}."
            );
        }
        if let Some((port, pods, open)) = attempt.short_of_port().filter(|(_, pods, _)| *pods > 1) {
            let (number, protocol) = (port.port, &port.protocol);
            let _ = write!(
                message,
                " Each of {pods} pods needs a node of its own for host port {number}/{protocol}, and they may use {open}."
            );
        }
        message += &self.where_volumes_are(&attempt.request);
        let reason = reason_of(outcome);
        message += &more_about(attempt);
        let mut said: BTreeSet<String> = worst.iter().map(|worst| worst.resource.clone()).collect();
        let others = shortages
            .into_iter()
            .filter(|shortage| shortage.is_on_nodes && shortage.is_short_in_all());
        let others =
            others.filter(|shortage| said.insert(shortage.resource.clone())).map(|shortage| {
                let (requested, free) = shortage.amounts();
                let message = format!("{requested} {} asked for, {free} free", shortage.resource);
                shortage.of(BlockedBy::new(reason, message))
            });
        let is_short_in_all = worst.as_ref().is_some_and(Shortage::is_short_in_all);
        let of_resources = BlockedBy::new(reason, message);
        let of_resources = worst.map_or(of_resources.clone(), |worst| worst.of(of_resources));
        let mut all: Vec<BlockedBy> = std::iter::once(of_resources).chain(others).collect();
        if let Some(cramped) = cramped {
            // If there is enough in total, the level is the most important blocker, unless the
            // request can never start, which matters more.
            let at = usize::from(is_short_in_all || reason != BlockedReason::InsufficientResources);
            all.insert(at, cramped.into());
        }
        let first = all.remove(0);
        (first, all)
    }

    /// Returns the number of closed nodes for each reason, in kube-scheduler's words.
    fn unavailable(
        &mut self,
        attempt: &Attempt,
        pods: usize,
        closed: &Closed,
        apart: &Apart,
    ) -> String {
        let alone = match attempt.request.groups.as_slice() {
            [group] if pods == 1 => Some(self.closed_to_one(group, &attempt.open[0])),
            _ => None,
        };
        let others = if alone.is_some() { String::new() } else { closed.text() };
        let mut counts = alone.unwrap_or_else(|| closed.counts());
        apart.count(&mut counts);
        summary::unavailable(self.planner.cluster.nodes().len(), &counts) + &others
    }
}

/// Returns an addition for some outcomes: no domain has room for all pods, or why jobs behind the
/// request are not held back.
fn more_about(attempt: &Attempt) -> String {
    match attempt.outcome {
        Outcome::Scattered { .. } if attempt.request.is_to_be_near() => {
            " There is room for all of them, but in no one domain, as near to each other as they ask for.".to_owned()
        }
        Outcome::Scattered { .. } => {
            let by = if attempt.request.asks_about_pods() { "what they ask about other pods" } else { "their volumes" };
            format!(" There is room for all of them, but not where they may be together by {by}.")
        }
        Outcome::PassedOver => " Work that has no end is in the way, so later jobs are not held back.".to_owned(),
        Outcome::NotFound => {
            let rules =
                if attempt.request.asks_about_pods() { " that keeps what they ask about other pods" } else { "" };
            format!(
                " No placement of all of them together was found{rules}, and none was proved impossible, so later jobs are \
                 not held back."
            )
        }
        _ => String::new(),
    }
}

/// Returns the reason for the outcome of an attempt that waits neither behind a job nor for a
/// limit.
fn reason_of(outcome: &Outcome) -> BlockedReason {
    match outcome {
        Outcome::Never | Outcome::NoNodes => BlockedReason::Unsatisfiable,
        Outcome::NodesAway | Outcome::KeptAway { .. } => BlockedReason::NoMatchingNodes,
        _ => BlockedReason::InsufficientResources,
    }
}

impl<'a> Shortage<'a> {
    /// Adds the demand of these pods for a resource on these nodes to the demand that is known.
    fn add(all: &mut Vec<Self>, pool: &PoolSupply, pods: u64, nodes: &'a RankSet) {
        let (requested, is_on_nodes) =
            (u128::from(pool.per_slot) * u128::from(pods), !pool.short.is_empty());
        match all.iter_mut().find(|known| known.resource == pool.resource && known.nodes == nodes) {
            Some(known) => {
                known.pods += pods;
                known.requested = known.requested.saturating_add(requested);
                known.is_on_nodes |= is_on_nodes;
            }
            None => all.push(Shortage {
                resource: pool.resource.clone(),
                pods,
                nodes,
                requested,
                free: pool.free,
                is_on_nodes,
            }),
        }
    }

    /// Returns the requested and the free amount, as people write them.
    fn amounts(&self) -> (String, String) {
        let resource = &self.resource;
        (quantity(resource, self.requested), quantity(resource, self.free))
    }

    /// True if all the nodes together have too little.
    fn is_short_in_all(&self) -> bool {
        u128::from(self.free) < self.requested
    }

    /// Adds these numbers to a blocker.
    fn of(self, blocker: BlockedBy) -> BlockedBy {
        let (requested, available) = self.amounts();
        BlockedBy {
            requested: Some(requested),
            available: Some(available),
            resource: Some(self.resource),
            ..blocker
        }
    }

    /// True if a smaller share of the request is free.
    fn is_worse_than(&self, other: &Self) -> bool {
        let ratio = |a: &Self, b: &Self| u128::from(a.free).saturating_mul(b.requested.max(1));
        ratio(self, other) < ratio(other, self)
    }
}
