//! Claims: nodes that are kept for a request, against requests that come after it in a walk.
//!
//! A request that waits and could start one day claims nodes. So does one that has slots of which
//! no Binding has left: others may come to its nodes, but not where they would make it uneven, or
//! draw it away. A reservation keeps its nodes by itself, in the graph.

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

/// Claims at most that add no nodes to those of earlier requests, only terms about other pods. A
/// walk looks at each of them for each later request. The terms of further requests count once an
/// earlier one has started.
const TERMS_MAX: usize = 64;

/// The claims of earlier requests against later ones.
#[derive(Debug, Clone, Default)]
pub struct Claims {
    /// The nodes of all requests that wait: no other request gets them.
    held: RankSet,
    /// The claims of requests that wait, in the order of the walk.
    waiting: Vec<Claim>,
    /// The number of these with terms about others: to be apart from them, spread among them, or
    /// near to them.
    asking: usize,
    /// The claims of requests that have slots and have not begun.
    starting: Vec<Claim>,
    /// True if requests were kept off nodes by these.
    has_followers: Cell<bool>,
    of_queues: BTreeMap<QueueId, InQueue>,
    /// The place that the walk has come to.
    end: Option<Place>,
}

/// Nodes that are kept for a request.
#[derive(Debug, Clone)]
struct Claim {
    nodes: Arc<RankSet>,
    request: Arc<Request>,
    holder: Holder,
}

/// The requests that have a claim.
#[derive(Debug, Clone)]
enum Holder {
    /// A request of this job waits.
    Waiting(JobId),
    /// These have slots of which no Binding has left: gangs one by one; pods that come alone
    /// together with those of their shape.
    Starting(BTreeSet<PendingRequest>),
}

impl Claim {
    /// Returns the job that it is for, or the first of them.
    fn job(&self) -> Option<JobId> {
        match &self.holder {
            Holder::Waiting(job) => Some(*job),
            Holder::Starting(requests) => Some(requests.first()?.job()),
        }
    }

    fn is_of(&self, pending: &PendingRequest) -> bool {
        matches!(&self.holder, Holder::Starting(requests) if requests.contains(pending))
    }

    /// Returns the nodes where pods of a request would keep the holder away from its nodes by the
    /// holder's own terms: it is to be apart from them, spread among pods like them, or near to
    /// them.
    fn closed_by_its_terms<C: Capacity>(
        &self,
        request: &Request,
        capacity: &mut C,
    ) -> Vec<RankSet> {
        let Claim { nodes, request: own, holder } = self;
        let waits = matches!(holder, Holder::Waiting(_));
        let mut closed = Vec::new();
        for group in &own.groups {
            // A request that has its slots is apart from others already.
            if group.repels_pods() && waits {
                closed.push(capacity.out_of_reach(group, request, nodes));
            }
            // Beside one that has its slots, pods that are to be as even leave it so.
            if group.is_spread()
                && (waits || !request.groups.iter().all(|other| other.is_as_even_as(group)))
            {
                closed.push(capacity.crowded_by(group, request, nodes));
            }
            if group.is_near_its_own() {
                closed.push(capacity.drawn_away_by(group, request, nodes));
            }
        }
        closed
    }
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

impl Claims {
    /// Returns the state at the beginning of a walk: it holds nothing, except for requests that
    /// have not begun since the last one.
    pub(super) fn after(last: &Self) -> Self {
        let has_followers = last.has_followers.clone();
        Claims { starting: last.starting.clone(), has_followers, ..Claims::default() }
    }

    /// Notes that a request has slots on these nodes and has not begun.
    pub fn note_beginning(&mut self, nodes: RankSet, request: &Request, pending: &PendingRequest) {
        let mut like = self.starting.iter_mut().filter(|claim| request.is_one_like(&claim.request));
        if let Some(Claim { nodes: known, holder: Holder::Starting(requests), .. }) = like.next() {
            Arc::make_mut(known).union_with(&nodes);
            requests.insert(pending.clone());
            return;
        }
        let holder = Holder::Starting(BTreeSet::from([pending.clone()]));
        let (nodes, request) = (Arc::new(nodes), Arc::new(request.clone()));
        self.starting.push(Claim { nodes, request, holder });
    }

    /// True if others wait for this one to begin, or may.
    pub fn is_waited_for(&self, pending: &PendingRequest) -> bool {
        self.has_followers.get() && self.starting.iter().any(|claim| claim.is_of(pending))
    }

    /// Keeps only the requests that have not begun.
    pub fn keep_beginning(&mut self, is_beginning: impl Fn(&PendingRequest) -> bool) {
        self.starting.retain_mut(|claim| {
            if let Holder::Starting(requests) = &mut claim.holder {
                requests.retain(&is_beginning);
            }
            claim.job().is_some()
        });
        if self.starting.is_empty() {
            self.has_followers.set(false);
        }
    }

    /// What an attempt has come to holds, if it holds anything.
    pub(super) fn add(&mut self, outcome: &Outcome, request: &Arc<Request>, job: JobId) {
        if let Some(held) = outcome.held()
            && (!held.is_subset(&self.held)
                || (asks_about_others(request) && self.asking < TERMS_MAX))
        {
            self.add_nodes(held, request, job);
        }
    }

    /// Holds these nodes for a job, for the pods of this request.
    pub(super) fn add_nodes(&mut self, nodes: &Arc<RankSet>, request: &Arc<Request>, job: JobId) {
        if !nodes.is_empty() {
            self.held.union_with(nodes);
            self.asking += usize::from(asks_about_others(request));
            self.waiting.push(Claim {
                nodes: Arc::clone(nodes),
                request: Arc::clone(request),
                holder: Holder::Waiting(job),
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
                for (claim, job) in self.waiting.iter().filter_map(|of| Some((of, of.job()?))) {
                    closed.push((capacity.out_of_reach(group, &claim.request, &claim.nodes), job));
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

    /// Returns the nodes where pods of a request would keep a holder away from its nodes by the
    /// holder's own terms, each with the holder's job.
    fn around_askers<C: Capacity>(
        &self,
        request: &Request,
        capacity: &mut C,
    ) -> Vec<(RankSet, JobId)> {
        let waiting = self.waiting.iter().filter(|_| self.asking > 0);
        let mut around = closed_by_terms(waiting, request, capacity);
        let by_starting = closed_by_terms(self.starting.iter(), request, capacity);
        if by_starting.iter().any(|(nodes, _)| !nodes.is_empty()) {
            self.has_followers.set(true);
        }
        around.extend(by_starting);
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
        self.asking > 0 || !self.starting.is_empty()
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
        let is_in_the_way = |claim: &&Claim| open.iter().any(|open| claim.nodes.intersects(open));
        let first = self.waiting.iter().find(is_in_the_way).or(self.waiting.first());
        first.and_then(Claim::job)
    }

    /// The walk has come to this place.
    pub(super) fn come_to(&mut self, place: Place) {
        self.end = self.end.take().max(Some(place));
    }

    /// True if the walk did not come to this place.
    pub(super) fn is_before(&self, place: &Place) -> bool {
        self.end.as_ref().is_none_or(|end| end < place)
    }
}

/// True if pods of the request are to be apart from others, spread among others, or near to others.
fn asks_about_others(request: &Request) -> bool {
    let asks = |group: &Group| group.repels_pods() || group.is_spread() || group.is_near_its_own();
    request.groups.iter().any(asks)
}

/// Returns the nodes that each of these claims closes to a request by the holder's own terms.
fn closed_by_terms<'a, C: Capacity>(
    claims: impl Iterator<Item = &'a Claim>,
    request: &Request,
    capacity: &mut C,
) -> Vec<(RankSet, JobId)> {
    let mut all = Vec::new();
    for (claim, job) in claims.filter_map(|claim| Some((claim, claim.job()?))) {
        let closed = claim.closed_by_its_terms(request, capacity).into_iter();
        all.extend(closed.map(|nodes| (nodes, job)));
    }
    all
}
