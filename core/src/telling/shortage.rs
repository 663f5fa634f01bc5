//! Shortages: why no node will do, and which resource is short, with the requested and the free
//! amount.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::BlockedReason;

use crate::jobs::exclusive::Apart;
use crate::parts::Telling;
use crate::telling::closed::Closed;
use crate::telling::obstacle::{Amounts, CrampedLevel, Finding, NoNodes, Obstacle};
use fluxqueue_machine::fluxion::{PoolSupply, RankSet};
use fluxqueue_machine::ledger::GroupRequest;
use fluxqueue_planner::plan::{Attempt, Outcome};

/// A resource that pods request, and the amount of it.
struct Shortage<'a> {
    amounts: Amounts,
    /// The number of pods that request it, and the nodes that they may use.
    pods: u64,
    nodes: &'a RankSet,
    /// Those of them that have too little of it for one pod.
    short: RankSet,
}

impl Telling<'_> {
    /// Returns the obstacle for which no node will do, with the scarcest resource; and the other
    /// resources that are short in total.
    pub(crate) fn short_of(&mut self, attempt: &Attempt) -> (Obstacle, Vec<Obstacle>) {
        let mut closed = Closed::default();
        let mut shortages: Vec<Shortage> = Vec::new();
        let (outcome, groups) = (&attempt.outcome, &attempt.request.groups);
        let mut cramped = CrampedLevel::cut(
            &attempt.request,
            &attempt.open,
            &self.planner.ledger,
            &self.planner.cluster,
        );
        let mut apart = Apart::default();
        let mut with_levels: Vec<GroupRequest> = Vec::new();
        let mut is_divided = false;
        let pods: usize = groups.iter().flat_map(|group| &group.wants).map(|want| want.count).sum();
        for (group, open) in groups.iter().zip(&*attempt.open) {
            if pods > 1 {
                self.note_closed(group, &mut closed);
            }
            cramped = cramped.or_else(|| CrampedLevel::beside(group, &mut self.planner.site()));
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
                        CrampedLevel::of(&levels, shape, supply, *outcome == Outcome::Never)
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
                cramped = cramped.or_else(|| {
                    CrampedLevel::of(&levels, shape, supply, *outcome == Outcome::Never)
                });
                is_divided |= supply.room < shape.wanted;
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
                all.and_then(|all| CrampedLevel::together(&all.shapes, *outcome == Outcome::Never));
        }
        let (used_by_others, nodes_for_each) =
            (apart.used_by_others(), attempt.nodes_for_each(&mut self.planner.cluster));
        let (port, finding) = (attempt.short_of_port(), finding(attempt));
        // Where something else is in the way, a resource of which there is enough is not.
        let is_explained = used_by_others.is_some()
            || nodes_for_each.is_some()
            || port.is_some()
            || finding.is_some();
        // Of equally short resources, the first one counts.
        let worst =
            (0..shortages.len()).filter(|at| !is_explained || shortages[*at].is_short()).reduce(
                |worst, at| {
                    if shortages[at].is_worse_than(&shortages[worst]) { at } else { worst }
                },
            );
        let worst = worst.map(|at| shortages.remove(at));
        let is_short_in_all = worst.as_ref().is_some_and(Shortage::is_short_in_all);
        let reason = reason_of(outcome);
        let mut said: BTreeSet<String> =
            worst.iter().map(|worst| worst.amounts.resource.clone()).collect();
        let tied = self.where_volumes_are(&attempt.request);
        let (closed, stuck) = self.closed(attempt, pods, &closed, &apart);
        let first = Obstacle::Nodes(Box::new(NoNodes {
            reason,
            pods,
            nodes: self.planner.cluster.nodes().len(),
            closed,
            stuck,
            scarcest: worst.map(|worst| (worst.amounts, worst.pods)),
            is_of_idle: *outcome == Outcome::Never,
            is_divided,
            used_by_others,
            apart: nodes_for_each,
            port: port
                .filter(|(_, pods, _)| *pods > 1)
                .map(|(port, pods, open)| (port.clone(), pods, open)),
            tied,
            finding,
        }));
        let others = shortages
            .into_iter()
            .filter(|shortage| !shortage.short.is_empty() && shortage.is_short_in_all())
            .filter(|shortage| said.insert(shortage.amounts.resource.clone()))
            .map(|shortage| Obstacle::Resource(reason, shortage.amounts));
        let mut all: Vec<Obstacle> = std::iter::once(first).chain(others).collect();
        if let Some(cramped) = cramped {
            // If there is enough in total, the level is the most important obstacle, unless the
            // request can never start, which matters more.
            let at = usize::from(is_short_in_all || reason != BlockedReason::InsufficientResources);
            all.insert(at, Obstacle::Level(cramped));
        }
        let first = all.remove(0);
        (first, all)
    }

    /// Returns the number of closed nodes for each reason, in kube-scheduler's words; and a pod
    /// that may use no node, if others of its gang may use some.
    fn closed(
        &mut self,
        attempt: &Attempt,
        pods: usize,
        closed: &Closed,
        apart: &Apart,
    ) -> (BTreeMap<String, usize>, Option<Arc<str>>) {
        let (mut counts, stuck) = match attempt.request.groups.as_slice() {
            [group] if pods == 1 => (self.closed_to_one(group, &attempt.open[0]), None),
            _ => (closed.counts(), closed.stuck_pod()),
        };
        apart.count(&mut counts);
        (counts, stuck)
    }
}

/// Returns a finding of the plan about pods for which there would be room.
fn finding(attempt: &Attempt) -> Option<Finding> {
    let ask_about_pods = attempt.request.asks_about_pods();
    match attempt.outcome {
        Outcome::Scattered { .. } if attempt.request.is_to_be_near() => Some(Finding::NoDomain),
        Outcome::Scattered { .. } => Some(Finding::NotTogether { ask_about_pods }),
        Outcome::PassedOver => Some(Finding::WorkWithoutEnd),
        Outcome::NotFound => Some(Finding::NotFound { ask_about_pods }),
        Outcome::Waits { .. }
        | Outcome::KeptAway { .. }
        | Outcome::Behind { .. }
        | Outcome::NodesAway
        | Outcome::NoNodes
        | Outcome::Never
        | Outcome::AtLimit(_) => None,
    }
}

/// Returns the reason for the outcome of an attempt that waits neither behind a job nor for a
/// limit.
fn reason_of(outcome: &Outcome) -> BlockedReason {
    match outcome {
        Outcome::Never | Outcome::NoNodes => BlockedReason::Unsatisfiable,
        Outcome::NodesAway | Outcome::KeptAway { .. } => BlockedReason::NoMatchingNodes,
        Outcome::Waits { .. }
        | Outcome::Scattered { .. }
        | Outcome::Behind { .. }
        | Outcome::PassedOver
        | Outcome::NotFound
        | Outcome::AtLimit(_) => BlockedReason::InsufficientResources,
    }
}

impl<'a> Shortage<'a> {
    /// Adds the demand of these pods for a resource on these nodes to the demand that is known.
    fn add(all: &mut Vec<Self>, pool: &PoolSupply, pods: u64, nodes: &'a RankSet) {
        let requested = u128::from(pool.per_slot) * u128::from(pods);
        let is_same =
            |known: &&mut Self| known.amounts.resource == pool.resource && known.nodes == nodes;
        match all.iter_mut().find(is_same) {
            Some(known) => {
                known.pods += pods;
                known.amounts.requested = known.amounts.requested.saturating_add(requested);
                known.short.union_with(&pool.short);
            }
            None => {
                let resource = pool.resource.clone();
                let amounts = Amounts { resource, requested, free: pool.free };
                all.push(Shortage { amounts, pods, nodes, short: pool.short.clone() });
            }
        }
    }

    /// True if all the nodes together have too little.
    fn is_short_in_all(&self) -> bool {
        u128::from(self.amounts.free) < self.amounts.requested
    }

    /// True if a node, or all of them together, have too little.
    fn is_short(&self) -> bool {
        self.is_short_in_all() || !self.short.is_empty()
    }

    /// True if all nodes together have too little of this resource alone, or else some nodes have,
    /// or else a smaller share of the nodes has enough for one pod, or else a smaller share of the
    /// request is free.
    fn is_worse_than(&self, other: &Self) -> bool {
        let rank = |it: &Self| (!it.is_short_in_all(), it.short.is_empty());
        let open = |it: &Self| it.nodes.len().saturating_sub(it.short.len()) as u128;
        let share = |a: &Self, b: &Self| {
            if a.is_short_in_all() { 0 } else { open(a) * b.nodes.len() as u128 }
        };
        let ratio = |a: &Self, b: &Self| {
            u128::from(a.amounts.free).saturating_mul(b.amounts.requested.max(1))
        };
        rank(self)
            .cmp(&rank(other))
            .then_with(|| share(self, other).cmp(&share(other, self)))
            .then_with(|| ratio(self, other).cmp(&ratio(other, self)))
            .is_lt()
    }
}
