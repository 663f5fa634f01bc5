//! One attempt at a request: whether it gets slots now, why not, and for how long that answer
//! stands.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::capacity::{Capacity, Version};
use super::claims::{Claims, Left};
use super::nodes::union;
use super::outcome::Outcome;
use super::request::Request;
use crate::queue::{JobId, PendingRequest};
use fluxqueue_machine::cluster::Cluster;
use fluxqueue_machine::fluxion::{Fit, Forecast, RankSet};
use fluxqueue_machine::ledger::Change;
use fluxqueue_workload::Time;
use fluxqueue_workload::constraints::HostPort;

/// The last attempt at requests of a class.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The answer.
    pub outcome: Outcome,
    version: Version,
    /// Of the first of the class at that time: the others ask for the same.
    pub request: Arc<Request>,
    /// Per group: nodes it may use, and those of them that no earlier job held.
    pub open: Arc<[RankSet]>,
    free: Arc<[RankSet]>,
    /// True if it has to be made again, whatever it rests on.
    pub is_in_doubt: bool,
    /// The steps of its searches that gave up.
    pub steps_in_vain: u64,
}

/// An attempt that still stands.
#[derive(Debug)]
pub struct Standing {
    /// The version as of which it stands.
    version: Version,
    /// Per group, the nodes for which it stands, if these are others than before.
    free: Option<Vec<RankSet>>,
}

/// Tries to give a request slots.
pub(super) fn attempt<C: Capacity>(
    (pending, request): (&PendingRequest, Request),
    known: Option<&Attempt>,
    capacity: &mut C,
    holds: &Claims,
) -> Result<(Request, C::Slots), Box<Attempt>> {
    let (version, before) = (capacity.version(&request), capacity.steps_in_vain());
    let open: Vec<RankSet> = request.groups.iter().map(|group| capacity.open(group)).collect();
    let Left { nodes: free, spares } = holds.left_to(&request, &open, capacity);
    let outcome = if open.iter().any(RankSet::is_empty) {
        if could_reopen(&request, &open, capacity) { Outcome::NodesAway } else { Outcome::NoNodes }
    } else {
        let shut = free.iter().any(RankSet::is_empty);
        let limit = capacity.limit(pending, &request);
        let shut = shut || limit.as_ref().is_some_and(|limit| limit.is_everywhere);
        match (if shut { Fit::NotNow } else { capacity.place(&request, &free) }, limit) {
            (Fit::Placed(slots), _) => return Ok((request, slots)),
            (_, Some(limit)) => Outcome::AtLimit(Arc::new(limit.at)),
            (Fit::NotFound, None) if open == free => Outcome::NotFound,
            (Fit::NotNow | Fit::NotFound, None) => {
                // A trial is expensive: its result stands as long as no permanent change has
                // happened.
                let is_known =
                    known.is_some_and(|known| known.may_still_be_together(version, capacity));
                judge(&request, &open, capacity, holds, (spares, is_known))
            }
        }
    };
    let held = if outcome.is_in_vain() {
        capacity.waits_for_others(&request, &open, &outcome)
    } else {
        None
    };
    let outcome = match held.map(Arc::new) {
        None => outcome,
        Some(held) if outcome == Outcome::NotFound && request.needs_a_trial() => {
            Outcome::Scattered { held }
        }
        Some(held) => Outcome::KeptAway { held },
    };
    let steps_in_vain = capacity.steps_in_vain() - before;
    let attempt = Attempt::new(outcome, version, request, (open, free));
    Err(Box::new(Attempt { steps_in_vain, ..attempt }))
}

/// Finds out why the request does not fit, and which nodes it holds. Nodes that earlier jobs hold
/// do not matter here: the question is which nodes the request itself could use.
fn judge<C: Capacity>(
    request: &Request,
    open: &[RankSet],
    capacity: &mut C,
    holds: &Claims,
    (spares, may_be_together): (Option<JobId>, bool),
) -> Outcome {
    let held = |capacity: &mut C| Arc::new(capacity.eligible(request, open));
    match capacity.forecast(request, open) {
        // The graph does not know the rules of pods about each other. These may be in the way,
        // rather than any request ahead.
        Forecast::Now if !capacity.are_allowed_together(request, open) => Outcome::NotFound,
        Forecast::At(_) | Forecast::Eventually
            if !may_be_together && !capacity.are_allowed_together_some_day(request) =>
        {
            Outcome::NotFound
        }
        Forecast::Now => match spares.or_else(|| holds.first_in_the_way(open)) {
            Some(job) => Outcome::Behind { held: held(capacity), job },
            None => Outcome::Waits { held: held(capacity), at: None },
        },
        Forecast::At(seconds) => {
            Outcome::Waits { held: held(capacity), at: Some(Time::from_seconds(seconds)) }
        }
        Forecast::Eventually => Outcome::Waits { held: held(capacity), at: None },
        Forecast::Blocked => Outcome::PassedOver,
        Forecast::NotFound => Outcome::NotFound,
        Forecast::Never if could_reopen(request, open, capacity) => Outcome::NodesAway,
        Forecast::Never => Outcome::Never,
    }
}

fn lasting<C: Capacity>(request: &Request, capacity: &mut C) -> Vec<RankSet> {
    request.groups.iter().map(|group| capacity.lasting(group)).collect()
}

/// True if it would fit once nodes that are cordoned, not ready or left alone for the moment came
/// back.
fn could_reopen<C: Capacity>(request: &Request, open: &[RankSet], capacity: &mut C) -> bool {
    let lasting = lasting(request, capacity);
    if lasting.iter().any(RankSet::is_empty) {
        return false;
    }
    let more = lasting.iter().zip(open).any(|(lasting, open)| !lasting.is_subset(open));
    more && !matches!(capacity.forecast(request, &lasting), Forecast::Never)
}

impl Standing {
    pub(super) fn differs_from(&self, known: &Attempt) -> bool {
        self.version != known.version || self.free.is_some()
    }
}

impl Attempt {
    fn new(
        outcome: Outcome,
        version: Version,
        request: Request,
        (open, free): (Vec<RankSet>, Vec<RankSet>),
    ) -> Self {
        Attempt {
            outcome,
            version,
            request: Arc::new(request),
            open: open.into(),
            free: free.into(),
            is_in_doubt: false,
            steps_in_vain: 0,
        }
    }

    /// Returns as of when the attempt still stands, if nothing that it rests on has changed: its
    /// nodes, the room on those that are left to it, the work there that never ends, and the nodes
    /// that earlier jobs hold.
    pub(super) fn still_stands<C: Capacity>(
        &self,
        capacity: &mut C,
        holds: &Claims,
    ) -> Option<Standing> {
        // Room within limits is checked without the graph.
        if self.is_in_doubt || matches!(self.outcome, Outcome::AtLimit(_)) {
            return None;
        }
        let version = capacity.version(&self.request);
        if version.nodes != self.version.nodes {
            let rests_on_others =
                matches!(self.outcome, Outcome::KeptAway { .. }) || self.outcome.is_in_vain();
            if self.request.asks_about_pods()
                || (rests_on_others && self.request.may_be_kept_away())
            {
                // How many may go where has changed, or some day may, even if the nodes that are
                // open have not.
                return None;
            }
            let groups = self.request.groups.iter().zip(&*self.open);
            for (group, open) in groups {
                if capacity.open(group) != *open {
                    return None;
                }
            }
        }
        let left = holds.left_to(&self.request, &self.open, capacity).nodes;
        let is_left_more = left.iter().zip(&*self.free).any(|(left, free)| !left.is_subset(free));
        if is_left_more && self.is_helped_by(&left, capacity, holds) {
            return None;
        }
        if version.changes != self.version.changes && self.is_concerned(capacity) {
            return None;
        }
        let union = |(mut left, free): (RankSet, &RankSet)| {
            left.union_with(free);
            left
        };
        Some(Standing {
            version,
            free: is_left_more.then(|| left.into_iter().zip(&*self.free).map(union).collect()),
        })
    }

    /// True if it was found to be allowed together some day, and no permanent change has happened
    /// since.
    fn may_still_be_together<C: Capacity>(&self, version: Version, capacity: &C) -> bool {
        let for_good = &mut |change| matches!(change, Change::Node(_) | Change::TakenForGood(_));
        matches!(self.outcome, Outcome::Waits { .. })
            && !self.is_in_doubt
            && version.nodes == self.version.nodes
            && !capacity.changed_since(self.version.changes, for_good)
    }

    /// True if earlier jobs leave more nodes to it than they did, and on one of these a pod of it
    /// fits; or it had to wait for nothing but such nodes, and others are the first to hold them
    /// now.
    fn is_helped_by<C: Capacity>(&self, left: &[RankSet], capacity: &C, holds: &Claims) -> bool {
        match &self.outcome {
            outcome if outcome.needs_nodes() => return false,
            Outcome::NotFound => return true,
            Outcome::Behind { job, .. } if holds.first_in_the_way(&self.open) != Some(*job) => {
                return true;
            }
            _ => {}
        }
        left.iter().zip(&*self.free).any(|(left, free)| {
            let mut more = left.clone();
            more.subtract(free);
            more.iter().any(|rank| capacity.fits_one(&self.request, rank))
        })
    }

    /// True if a change since concerns its nodes in a way that its outcome rests on.
    fn is_concerned<C: Capacity>(&self, capacity: &mut C) -> bool {
        let is_open = |rank| self.open.iter().any(|open| open.contains(rank));
        let is_free = |rank| self.free.iter().any(|free| free.contains(rank));
        let mut nodes = Vec::new();
        let concerned = capacity.changed_since(self.version.changes, &mut |change| match (
            change,
            &self.outcome,
        ) {
            (Change::Node(_), Outcome::KeptAway { .. } | Outcome::Scattered { .. }) => true,
            (Change::FreedForGood(_), outcome)
                if outcome.is_in_vain() && self.request.may_be_kept_away() =>
            {
                true
            }
            (Change::Node(rank), _) => {
                nodes.push(rank);
                is_open(rank)
            }
            (_, outcome) if outcome.needs_nodes() => false,
            // Others may have taken the room, and it is known when these end.
            (Change::FreedUnknown(rank), Outcome::Waits { at: None, .. }) => {
                is_open(rank) && capacity.fits_one_some_day(&self.request, rank)
            }
            (Change::Freed(rank) | Change::FreedUnknown(rank), _) => {
                is_free(rank) && capacity.fits_one(&self.request, rank)
            }
            (Change::FreedForGood(rank), _) => is_open(rank),
            (Change::TakenForGood(rank), outcome) => {
                outcome.held().is_some_and(|held| held.contains(rank))
            }
        });
        if concerned || nodes.is_empty() || !self.outcome.needs_nodes() {
            return concerned;
        }
        // Which nodes might have come back is not remembered: one of these may be gone for good
        // now.
        if self.outcome == Outcome::NodesAway {
            return true;
        }
        // What needs nodes that are not there now also looks at those that may come back.
        let lasting = lasting(&self.request, capacity);
        nodes.into_iter().any(|rank| lasting.iter().any(|lasting| lasting.contains(rank)))
    }

    /// Returns the attempt at a request that waits for one ahead of it, and for nothing else: where
    /// it could start was not asked.
    pub(super) fn behind<C: Capacity>(job: JobId, request: Request, capacity: &mut C) -> Self {
        let open: Vec<RankSet> = request.groups.iter().map(|group| capacity.open(group)).collect();
        let (version, free) =
            (capacity.version(&request), open.iter().map(|_| RankSet::new()).collect());
        let outcome = Outcome::Behind { held: Arc::default(), job };
        Attempt::new(outcome, version, request, (open, free))
    }

    /// Confirms that it still stands, as of now.
    pub(super) fn confirm(&mut self, standing: Standing) {
        self.version = standing.version;
        if let Some(free) = standing.free {
            self.free = free.into();
        }
    }

    /// True if others need not wait for it to start.
    pub fn holds_up_no_other(&self) -> bool {
        self.is_hopeless()
            || matches!(self.outcome, Outcome::PassedOver | Outcome::NodesAway | Outcome::NotFound)
    }

    /// True if more nodes, or larger ones, are needed.
    pub fn is_hopeless(&self) -> bool {
        matches!(self.outcome, Outcome::Never | Outcome::NoNodes)
    }

    /// Returns how many nodes the pods need that may share none with each other, and how many they
    /// may use; `None` if they may share.
    pub fn nodes_for_each(&self, cluster: &mut Cluster) -> Option<(u64, usize)> {
        let groups = self.request.groups.iter().zip(&*self.open);
        let apart: Vec<_> =
            groups.filter(|(group, open)| group.has_nodes_for_itself(open, cluster)).collect();
        let open: Vec<RankSet> = apart.iter().map(|(_, open)| RankSet::clone(open)).collect();
        (!apart.is_empty())
            .then(|| (apart.iter().map(|(group, _)| group.size()).sum(), union(&open).len()))
    }

    /// A host port that more of the pods want than there are nodes for them: which one, how many
    /// pods, and how many nodes.
    pub fn short_of_port(&self) -> Option<(&HostPort, u64, usize)> {
        let mut ports: BTreeMap<&HostPort, (u64, RankSet)> = BTreeMap::new();
        for (group, open) in self.request.groups.iter().zip(&*self.open) {
            for port in &group.sample.shape.constraints.host_ports {
                let (pods, nodes) = ports.entry(port).or_default();
                *pods += group.size();
                nodes.union_with(open);
            }
        }
        let ports = ports.into_iter().map(|(port, (pods, nodes))| (port, pods, nodes.len()));
        ports.into_iter().find(|(_, pods, nodes)| *pods > *nodes as u64)
    }
}
