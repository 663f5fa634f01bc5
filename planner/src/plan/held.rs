//! The nodes that a walk holds for requests it has met, against requests that come after them.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::capacity::Capacity;
use super::group::Group;
use super::outcome::Outcome;
use super::request::Request;
use crate::queue::{JobId, PendingRequest, Place, QueueId};
use fluxqueue_machine::fluxion::RankSet;

/// What earlier requests hold against later ones.
#[derive(Debug, Clone, Default)]
pub struct HeldNodes {
    held: RankSet,
    holders: Vec<Holder>,
    /// True if some of these are to be apart from others, spread among others, or near to others.
    ask_about_others: bool,
    /// Requests that have slots and have not begun: pods that would make them uneven, or draw them
    /// away, come after them.
    beginning: Vec<Beginning>,
    /// True if requests were kept off nodes by these.
    has_followers: Cell<bool>,
    of_queues: BTreeMap<QueueId, InQueue>,
    /// The place that the walk has come to.
    end: Option<Place>,
}

/// A request that holds nodes.
#[derive(Debug, Clone)]
struct Holder {
    nodes: Arc<RankSet>,
    request: Arc<Request>,
    job: JobId,
}

/// Pods with slots of which no Binding has left.
#[derive(Debug, Clone)]
struct Beginning {
    nodes: RankSet,
    request: Arc<Request>,
    /// Gangs one by one; pods that come alone together with those of their shape.
    who: BTreeSet<PendingRequest>,
}

/// The nodes left to a request among those that it may use.
pub(super) struct Left {
    /// Per group.
    pub(super) nodes: Vec<RankSet>,
    /// The first job that would lose promised or held nodes to the request's pods, if the request
    /// took others.
    pub(super) spares: Option<JobId>,
}

/// The progress of a walk in one queue.
#[derive(Debug, Clone, Default)]
pub(super) struct InQueue {
    /// The number of reservations.
    pub(super) reservations: usize,
    pub(super) has_blocked: bool,
    /// The request that waits in a queue where no request overtakes.
    pub(super) head: Option<Place>,
}

impl HeldNodes {
    /// Returns the state at the beginning of a walk: it holds nothing, except for requests that
    /// have not begun since the last one.
    pub(super) fn after(last: &Self) -> Self {
        let has_followers = last.has_followers.clone();
        HeldNodes { beginning: last.beginning.clone(), has_followers, ..HeldNodes::default() }
    }

    /// Notes that a request has slots on these nodes and has not begun.
    pub fn note_beginning(&mut self, nodes: RankSet, request: &Request, pending: &PendingRequest) {
        let is_like = |known: &&mut Beginning| request.is_one_like(&known.request);
        if let Some(known) = self.beginning.iter_mut().find(is_like) {
            known.nodes.union_with(&nodes);
            known.who.insert(pending.clone());
        } else {
            let (request, who) = (Arc::new(request.clone()), BTreeSet::from([pending.clone()]));
            self.beginning.push(Beginning { nodes, request, who });
        }
    }

    /// Others wait for this one to begin, or may.
    pub fn is_waited_for(&self, pending: &PendingRequest) -> bool {
        self.has_followers.get() && self.beginning.iter().any(|one| one.who.contains(pending))
    }

    /// Keeps only the requests that have not begun.
    pub fn keep_beginning(&mut self, is_beginning: impl Fn(&PendingRequest) -> bool) {
        self.beginning.retain_mut(|one| {
            one.who.retain(&is_beginning);
            !one.who.is_empty()
        });
        if self.beginning.is_empty() {
            self.has_followers.set(false);
        }
    }

    /// What an attempt has come to holds, if it holds anything.
    pub(super) fn add(&mut self, outcome: &Outcome, request: &Arc<Request>, job: JobId) {
        if let Outcome::Waits { held, .. }
        | Outcome::KeptAway { held }
        | Outcome::Scattered { held }
        | Outcome::Behind { held, .. } = outcome
            && !held.is_subset(&self.held)
        {
            self.add_nodes(held, request, job);
        }
    }

    /// Holds these nodes for a job, for the pods of this request.
    pub(super) fn add_nodes(&mut self, nodes: &Arc<RankSet>, request: &Arc<Request>, job: JobId) {
        if !nodes.is_empty() {
            self.held.union_with(nodes);
            let asks =
                |group: &Group| group.repels_pods() || group.is_spread() || group.is_near_its_own();
            self.ask_about_others |= request.groups.iter().any(asks);
            self.holders.push(Holder {
                nodes: Arc::clone(nodes),
                request: Arc::clone(request),
                job,
            });
        }
    }

    /// Returns the nodes left to a request among those that its groups may use: nodes that no other
    /// request holds, and on which it keeps no other request away from nodes that are held for it
    /// or promised to it, neither by its own terms nor by those of the other.
    pub(super) fn left_to<C: Capacity>(
        &self,
        request: &Request,
        open: &[RankSet],
        capacity: &mut C,
    ) -> Left {
        let mut spares = None;
        let around = self.around_askers(request, capacity);
        let nodes = request.groups.iter().zip(open).map(|(group, open)| {
            let mut left = self.left_of(open);
            let mut closed = Vec::new();
            if group.repels_pods() {
                closed = capacity.out_of_reach_of_promises(group);
                for Holder { nodes, request, job } in &self.holders {
                    closed.push((capacity.out_of_reach(group, request, nodes), *job));
                }
            }
            for (closed, job) in closed.iter().chain(&around) {
                if left.intersects(closed) {
                    left.subtract(closed);
                    spares.get_or_insert(*job);
                }
            }
            left
        });
        Left { nodes: nodes.collect(), spares }
    }

    /// Returns the nodes where pods of a request would keep a holder away from its nodes, since the
    /// holder is to be apart from it, or spread among pods like its own, or near to them.
    fn around_askers<C: Capacity>(
        &self,
        request: &Request,
        capacity: &mut C,
    ) -> Vec<(RankSet, JobId)> {
        let mut around = Vec::new();
        for holder in self.holders.iter().filter(|_| self.ask_about_others) {
            for group in &holder.request.groups {
                if group.repels_pods() {
                    around.push((capacity.out_of_reach(group, request, &holder.nodes), holder.job));
                }
                if group.is_spread() {
                    around.push((capacity.crowded_by(group, request, &holder.nodes), holder.job));
                }
                if group.is_near_its_own() {
                    around
                        .push((capacity.drawn_away_by(group, request, &holder.nodes), holder.job));
                }
            }
        }
        let of_holders = around.len();
        let beginning = self.beginning.iter().filter_map(|one| Some((one, one.who.first()?.job())));
        for (Beginning { nodes, request: theirs, .. }, job) in beginning {
            for group in &theirs.groups {
                // Pods that are to be as even leave it so.
                if group.is_spread()
                    && !request.groups.iter().all(|other| other.is_as_even_as(group))
                {
                    around.push((capacity.crowded_by(group, request, nodes), job));
                }
                if group.is_near_its_own() {
                    around.push((capacity.drawn_away_by(group, request, nodes), job));
                }
            }
        }
        if around[of_holders..].iter().any(|(nodes, _)| !nodes.is_empty()) {
            self.has_followers.set(true);
        }
        around
    }

    /// Returns the nodes that holders close to a request: the held nodes themselves, and nodes
    /// where the request would keep a holder away.
    pub(super) fn closed_to<C: Capacity>(
        &self,
        request: Option<&Request>,
        capacity: &mut C,
    ) -> Cow<'_, RankSet> {
        let mut closed = Cow::Borrowed(&self.held);
        for (nodes, _) in request.iter().flat_map(|request| self.around_askers(request, capacity)) {
            closed.to_mut().union_with(&nodes);
        }
        closed
    }

    /// All nodes that are held.
    pub fn nodes(&self) -> &RankSet {
        &self.held
    }

    /// True if a holder is to be apart from others, spread among others, or near to others, or if
    /// some request with slots has not begun.
    pub(super) fn ask_about_others(&self) -> bool {
        self.ask_about_others || !self.beginning.is_empty()
    }

    /// Returns those of the nodes that no request holds.
    pub(super) fn left_of(&self, open: &RankSet) -> RankSet {
        let mut left = open.clone();
        left.subtract(&self.held);
        left
    }

    /// Returns the progress of the walk in this queue.
    pub(super) fn of(&mut self, queue: QueueId) -> &mut InQueue {
        self.of_queues.entry(queue).or_default()
    }

    /// Returns the first job in the queue that holds some of these nodes.
    pub(super) fn first_in_the_way(&self, open: &[RankSet]) -> Option<JobId> {
        let in_the_way = self
            .holders
            .iter()
            .find(|holder| open.iter().any(|open| holder.nodes.intersects(open)));
        in_the_way.or(self.holders.first()).map(|holder| holder.job)
    }

    /// The walk has come to this place.
    pub(super) fn come_to(&mut self, place: Place) {
        self.end = self.end.take().max(Some(place));
    }

    /// The walk did not come to this place.
    pub(super) fn is_before(&self, place: &Place) -> bool {
        self.end.as_ref().is_none_or(|end| end < place)
    }
}
