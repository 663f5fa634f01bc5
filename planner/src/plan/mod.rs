//! The plan: one walk over the queue decides which requests start, and what each of the others
//! waits for.
//!
//! [`walk`] goes by the queue policy. The policies with reservations are in `backfill`, and need
//! [`Promising`] besides. First come, first served is here: within priority, a request that does
//! not fit holds the nodes that it could use once everything with an end has ended, against all
//! that come later, if it could start then at all; otherwise (services are in the way, or no node
//! is large enough) it is passed over.
//!
//! A walk is a function: its only effect is on the [`Capacity`] that it is given, where the
//! requests that start have their slots afterwards. A request is tried again only if something that
//! its last answer rests on has changed; requests of one class get one answer. Explaining to people
//! why something waits is not done here: the core does that.

mod attempt;
mod backfill;
#[cfg(test)]
mod backfill_tests;
mod crowded;
mod effort;
mod enough;
mod group;
mod held;
mod kept_away;
mod live;
mod mounting;
mod nodes;
mod pods;
mod preferred;
mod promising;
mod request;
#[cfg(test)]
mod tests;
mod together;
mod within_limits;

pub use crate::policies::QueuePolicy;
pub use crate::policies::{Depths, Policies, QueueDefaults};
pub use attempt::{Attempt, Outcome, Standing};
pub use effort::Effort;
pub use group::slice_size;
pub use held::HeldNodes;
pub use live::Live;
pub use promising::{Booking, Delay, Kept, Late, Promising, Remade, Reserved};
pub use request::PodTerms;

use std::collections::BTreeSet;
use std::sync::Arc;

use self::attempt::attempt;
pub use self::pods::Pods;
use super::queues::AtLimit;
use crate::queue::{ClassId, JobId, PendingRequest, Place, Queue, QueueId};
use fluxqueue_machine::cluster::volumes::VolumeNeeds;
use fluxqueue_machine::cluster::{Company, Stance};
use fluxqueue_machine::fluxion::{Fit, Forecast, Rank, RankSet, Tenancy};
use fluxqueue_machine::ledger::{Change, LevelWants, SlotRequest};
use fluxqueue_workload::constraints::Constraints;
use fluxqueue_workload::{Lifetime, Pod, Shape};

/// A request for pods: all of them get slots, or none.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its pods, by the nodes that they may use.
    pub groups: Vec<Group>,
    /// True if its job has no nodes yet.
    pub starts_job: bool,
}

/// Pods that may use the same nodes, and for as long.
#[derive(Debug, Clone)]
pub struct Group {
    /// The pods, by shape.
    pub wants: Vec<SlotRequest>,
    /// Per want, the pods.
    pub pods: Vec<Pods>,
    /// The time for which they are planned.
    pub lifetime: Lifetime,
    /// The time for which they are planned if they start later, where that differs.
    pub lifetime_later: Option<Lifetime>,
    /// One of them.
    pub sample: Arc<Pod>,
    /// The stance of all of them to pods on nodes.
    pub stance: Stance,
    /// Whether others come with each of them.
    pub company: Company,
    /// The queue that determines which nodes they may use.
    pub queue: QueueId,
    /// What all of them ask of nodes for their volumes.
    pub volumes: Option<Arc<VolumeNeeds>>,
    /// What all of them ask of levels of the machine.
    pub levels: LevelWants,
    /// The tenancy that says with which pods they share nodes: the same for all groups.
    pub tenancy: Tenancy,
    /// The nodes of their queue, where it matters to which they are admitted.
    pub queue_nodes: Option<Arc<Constraints>>,
}

/// What makes two requests ask for the same, by the same rules.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestKey {
    /// The queue that rules it.
    pub queue: QueueId,
    /// Where that matters: its namespace, and whether its job has nothing yet.
    pub counts: Option<(Arc<str>, bool)>,
    /// Its pods.
    pub slots: Vec<SlotKey>,
}

/// Pods of one shape that run for as long, and stand alike to pods on nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SlotKey {
    /// Their shape.
    pub shape: Same<Shape>,
    /// The time for which they are planned.
    pub walltime: Lifetime,
    /// The second at which they are ended whatever they do.
    pub deadline: Option<i64>,
    /// Their terms about pods on nodes.
    pub stance: Stance,
    /// What they ask of nodes for their volumes.
    pub volumes: Option<Arc<VolumeNeeds>>,
    /// What they ask of levels of the machine.
    pub levels: LevelWants,
    /// The tenancy that says with which pods they may share nodes. The tenant is left out as long
    /// as the job has none.
    pub tenancy: Tenancy,
    /// Of pods with an index that are in slices, the numbers of these slices: it matters which pods
    /// are together.
    pub slices: Vec<u32>,
    /// The number of pods.
    pub count: usize,
}

/// A shared value that is compared by identity: equal values that are not shared count as
/// different.
#[derive(Debug, Clone)]
pub struct Same<T>(pub Arc<T>);

impl<T> PartialEq for Same<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Eq for Same<T> {}

impl<T> std::hash::Hash for Same<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::ptr::hash(Arc::as_ptr(&self.0), state);
    }
}

/// The pending requests, with the last attempt of each class.
pub type Pending = Queue<RequestKey, Attempt>;

/// Where the requests come from.
pub trait Requests {
    /// True if it is to be left alone for a while, after something failed.
    fn is_put_off(&self, pending: &PendingRequest) -> bool;
    /// Returns the present demand of a request; `None` if it has none.
    fn request(&self, pending: &PendingRequest) -> Option<Request>;
}

/// What can be asked of the machine. Nodes are given per group of the request.
pub trait Capacity {
    /// Slots that were taken.
    type Slots;

    /// Returns as of when answers for this request are given.
    fn version(&self, request: &Request) -> Version;
    /// The nodes that a group may use now.
    fn open(&mut self, group: &Group) -> RankSet;
    /// Returns the nodes that a group could use now if the pods with an end were gone that keep it
    /// away, or that occupy something it needs for itself.
    fn some_day(&mut self, group: &Group) -> RankSet {
        self.open(group)
    }
    /// The nodes for which a request waits that has come to nothing for the only reason that pods
    /// with an end keep its pods away.
    fn waits_for_others(
        &mut self,
        _request: &Request,
        _open: &[RankSet],
        _outcome: &Outcome,
    ) -> Option<RankSet> {
        None
    }
    /// Nodes are held for this request no more: it keeps pods of other namespaces off whole
    /// domains, and has held them for long enough.
    fn has_held_its_time(&mut self, _pending: &PendingRequest, _request: &Request) -> bool {
        false
    }
    /// Pods of a request may come to some of these nodes together now, by what they ask about other
    /// pods.
    fn are_allowed_together(&mut self, _request: &Request, _nodes: &[RankSet]) -> bool {
        true
    }
    /// The same on whatever nodes once everything with an end has ended.
    fn are_allowed_together_some_day(&mut self, _request: &Request) -> bool {
        true
    }
    /// The nodes that a group could use if those that are cordoned or not ready came back.
    fn lasting(&mut self, group: &Group) -> RankSet;
    /// Takes slots for all pods on these nodes.
    fn place(&mut self, request: &Request, nodes: &[RankSet]) -> Fit<Self::Slots>;
    /// Returns when all pods could start on these nodes.
    fn forecast(&mut self, request: &Request, nodes: &[RankSet]) -> Forecast;
    /// The nodes that could hold a pod of it once everything with an end has ended.
    fn eligible(&mut self, request: &Request, nodes: &[RankSet]) -> RankSet;
    /// True if one of the changes since then matters, or there were too many to know.
    fn changed_since(&self, then: u64, matters: &mut dyn FnMut(Change) -> bool) -> bool;
    /// A pod of the request fits on this node now, as far as its amounts go.
    fn fits_one(&self, request: &Request, rank: Rank) -> bool;
    /// True if one pod fits there once all pods with a known end have ended.
    fn fits_one_some_day(&self, request: &Request, rank: Rank) -> bool;
    /// The limit of its queue that a request is at now, if it is at one.
    fn limit(&mut self, _request: &Request) -> Option<Limited> {
        None
    }
    /// The nodes on which pods of a group would keep pods of another request, which has these nodes
    /// for later, away from some of them.
    fn out_of_reach(&mut self, _group: &Group, _other: &Request, _nodes: &RankSet) -> RankSet {
        RankSet::new()
    }
    /// The nodes on which pods of another request would count for the spread of a group that has
    /// these nodes for later, in the domains of these.
    fn crowded_by(&mut self, _group: &Group, _other: &Request, _nodes: &RankSet) -> RankSet {
        RankSet::new()
    }
    /// The nodes on which pods of another request would draw a group that has these nodes for later
    /// away from them, since its pods are to be near to each other, and to those.
    fn drawn_away_by(&mut self, _group: &Group, _other: &Request, _nodes: &RankSet) -> RankSet {
        RankSet::new()
    }
    /// Returns the nodes of a request that starts, if it is to be spread or near to its own: until
    /// it begins no other request may make it uneven, or draw it away.
    fn is_to_stay_undisturbed(&self, _request: &Request, _slots: &Self::Slots) -> Option<RankSet> {
        None
    }
    /// The nodes on which pods of a group would keep each request that is promised a start away
    /// from some of its nodes, with its job.
    fn out_of_reach_of_promises(&mut self, _group: &Group) -> Vec<(RankSet, JobId)> {
        Vec::new()
    }
    /// True if the request is known not to start now, without a question, and to wait for the same
    /// as before.
    fn rules_out(&self, _request: &Request) -> bool {
        false
    }
    /// True if it can list the requests that are not ruled out, without visiting the others. It may
    /// say so only if every request that it rules out waits for work with a known end, and no
    /// request comes in ahead of others or is put off.
    fn tells_who_may_start(&self) -> bool {
        false
    }
    /// Returns, if it can, the next first of a class behind this place that it does not rule out.
    fn next_who_may_start(&self, _behind: &Place) -> Option<(Place, ClassId)> {
        None
    }
}

/// A limit that keeps a request from starting now.
#[derive(Debug)]
pub struct Limited {
    /// The limit.
    pub at: AtLimit,
    /// True if it counts on all nodes, not only on some that it may use.
    pub is_everywhere: bool,
}

/// As of when something is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Version {
    /// Differs whenever the nodes that a request may use may be others.
    pub nodes: u64,
    /// The number of changes of taken room there, up to then.
    pub changes: u64,
}

/// A decision of a walk about a request, or a class.
#[derive(Debug)]
pub enum Decision<S> {
    /// The request starts.
    Start {
        /// The request.
        pending: PendingRequest,
        /// The pods for which it asked.
        request: Request,
        /// Their slots.
        slots: S,
    },
    /// The requests of a class do not start.
    Blocked {
        /// The class.
        class: ClassId,
        /// Its first request.
        pending: PendingRequest,
        /// The attempt at that one.
        attempt: Box<Attempt>,
    },
    /// It is promised to start at this second; and why later than it was, if it does.
    Reserved {
        /// The request.
        pending: PendingRequest,
        /// The second of its start.
        start: i64,
        /// The promise that this breaks.
        later: Option<Late>,
    },
    /// It has no reservation any more; and why, if that is not its own doing.
    Withdrawn {
        /// The request.
        pending: PendingRequest,
        /// The promise that this breaks.
        later: Option<Late>,
    },
}

/// The kind of events since the last walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// Requests came, and nothing else: they are behind all others, where the last walk ended.
    Arrivals,
    /// Anything.
    Anything,
}

/// What came of a walk.
#[derive(Debug)]
pub struct Plan<S> {
    /// The decisions, in the order in which they were made.
    pub decisions: Vec<Decision<S>>,
    /// Classes with a last attempt that still stands, and as of when.
    pub confirmed: Vec<(ClassId, Standing)>,
    /// Per queue, the first of the requests that wait, if its start is unknown.
    pub first_undated: Vec<PendingRequest>,
}

impl<S> Default for Plan<S> {
    fn default() -> Self {
        Plan { decisions: Vec::new(), confirmed: Vec::new(), first_undated: Vec::new() }
    }
}

/// Walks all queues, each by its policy.
pub(crate) fn walk<C: Promising>(
    policies: &Policies,
    queue: &Pending,
    requests: &impl Requests,
    capacity: &mut C,
    news: News,
    last: &mut HeldNodes,
) -> Plan<C::Slots> {
    let mut walking = Walking::begin(policies, queue, capacity, news, last);
    walking.go_on(policies, queue, requests, capacity, |_| false);
    walking.end(last)
}

/// A walk under way. A caller may leave it between two requests, and continue as long as nothing
/// else has changed the machine.
pub struct Walking<S> {
    /// The next request to visit of each class.
    heads: BTreeSet<(Place, ClassId)>,
    holds: HeldNodes,
    plan: Plan<S>,
    /// True if the requests to visit are found as the walk goes on.
    is_found_on_the_way: bool,
    backfill: backfill::Memory,
}

impl<S> Walking<S> {
    /// A walk at its beginning.
    pub fn begin<C: Promising<Slots = S>>(
        policies: &Policies,
        queue: &Pending,
        capacity: &C,
        news: News,
        last: &mut HeldNodes,
    ) -> Self {
        let (heads, is_found_on_the_way) = match policies {
            Policies::FirstComeFirstServed => (heads(queue, news), false),
            Policies::PerQueue(_) => {
                let is_found_on_the_way = news == News::Anything && capacity.tells_who_may_start();
                (backfill::heads(queue, capacity, news, is_found_on_the_way), is_found_on_the_way)
            }
        };
        Walking { is_found_on_the_way, ..Self::of(heads, news, last) }
    }

    fn of(heads: BTreeSet<(Place, ClassId)>, news: News, last: &mut HeldNodes) -> Self {
        let holds =
            if news == News::Arrivals { std::mem::take(last) } else { HeldNodes::after(last) };
        let (plan, backfill) = (Plan::default(), backfill::Memory::default());
        Walking { heads, holds, plan, is_found_on_the_way: false, backfill }
    }

    /// Goes on until all have been looked at, or it is `enough` for now: asked after each. Returns
    /// whether all have been.
    pub fn go_on<C: Promising<Slots = S>>(
        &mut self,
        policies: &Policies,
        queue: &Pending,
        requests: &impl Requests,
        capacity: &mut C,
        enough: impl FnMut(&C) -> bool,
    ) -> bool {
        match policies {
            Policies::FirstComeFirstServed => plan(queue, requests, capacity, self, enough),
            Policies::PerQueue(depths) => {
                backfill::go_on(queue, requests, capacity, depths, self, enough);
            }
        }
        self.heads.is_empty()
    }

    /// True if the walk has found a place for this request.
    pub fn has_started(&self, pending: &PendingRequest) -> bool {
        self.backfill.has_started(pending)
    }

    /// Finds slots for a request that is not a part of the walk, between two that are. It avoids
    /// the nodes that this walk or the last one came to hold, nodes where it would keep a holder
    /// away, and these others.
    pub fn place_beside<C: Capacity<Slots = S>>(
        &self,
        request: &Request,
        capacity: &mut C,
        last: &HeldNodes,
        others: &RankSet,
    ) -> Option<S> {
        let held = self.holds.closed_to(Some(request), capacity);
        let held_before = last.closed_to(Some(request), capacity);
        let mut nodes: Vec<RankSet> =
            request.groups.iter().map(|group| capacity.open(group)).collect();
        for nodes in &mut nodes {
            nodes.subtract(&held);
            nodes.subtract(&held_before);
            nodes.subtract(others);
        }
        if nodes.iter().any(RankSet::is_empty) || capacity.limit(request).is_some() {
            return None;
        }
        match capacity.place(request, &nodes) {
            Fit::Placed(slots) => Some(slots),
            Fit::NotNow | Fit::NotFound => None,
        }
    }

    /// What came of it.
    pub fn end(self, last: &mut HeldNodes) -> Plan<S> {
        *last = self.holds;
        self.plan
    }
}

/// Remembers which attempts still stand.
pub fn confirm(queue: &mut Pending, confirmed: Vec<(ClassId, Standing)>) {
    for (class, standing) in confirmed {
        if let Some(attempt) = queue.last_attempt_mut(class) {
            attempt.confirm(standing);
        }
    }
}

/// Returns the requests that are visited first, one of each class.
fn heads(queue: &Pending, news: News) -> BTreeSet<(Place, ClassId)> {
    match news {
        News::Arrivals => untried(queue).map(|(place, class)| (place.clone(), class)).collect(),
        News::Anything => queue.heads().map(|(place, class)| (place.clone(), class)).collect(),
    }
}

/// Walks the queue in order. What starts has its slots in `capacity` afterwards.
fn plan<C: Capacity>(
    queue: &Pending,
    requests: &impl Requests,
    capacity: &mut C,
    Walking { heads, holds, plan, .. }: &mut Walking<C::Slots>,
    mut enough: impl FnMut(&C) -> bool,
) {
    while let Some((place, class)) = heads.pop_first() {
        let pending = place.request();
        let next = queue.next_of(class, &place).map(|next| (next.clone(), class));
        if requests.is_put_off(pending) {
            heads.extend(next);
        } else if let Some(known) = queue.last_attempt(class)
            && let Some(standing) = known.still_stands(capacity, holds)
        {
            hold(known, pending, capacity, holds, &mut plan.first_undated);
            if standing.differs_from(known) {
                plan.confirmed.push((class, standing));
            }
        } else if let Some(request) = requests.request(pending) {
            match attempt(request, queue.last_attempt(class), capacity, holds) {
                Ok((request, slots)) => {
                    heads.extend(next);
                    if let Some(nodes) = capacity.is_to_stay_undisturbed(&request, &slots) {
                        holds.note_beginning(nodes, &request, pending);
                    }
                    plan.decisions.push(Decision::Start {
                        pending: pending.clone(),
                        request,
                        slots,
                    });
                }
                Err(attempt) => {
                    hold(&attempt, pending, capacity, holds, &mut plan.first_undated);
                    plan.decisions.push(Decision::Blocked {
                        class,
                        pending: pending.clone(),
                        attempt,
                    });
                }
            }
        }
        holds.come_to(place);
        if enough(capacity) {
            break;
        }
    }
}

/// A request that waits holds the nodes that it could use; of those that hold them for some time
/// only, the first is counted the time.
fn hold<C: Capacity>(
    attempt: &Attempt,
    pending: &PendingRequest,
    capacity: &mut C,
    holds: &mut HeldNodes,
    undated: &mut Vec<PendingRequest>,
) {
    let is_over = capacity.has_held_its_time(pending, &attempt.request);
    if !is_over {
        let is_first = holds.nodes().is_empty();
        holds.add(attempt, pending.job());
        let is_for_a_time = attempt.request.groups.iter().any(Group::repels_other_namespaces);
        if is_first && is_for_a_time && !holds.nodes().is_empty() {
            undated.push(pending.clone());
        }
    }
}

/// The first of each class that has come and of which nothing is known.
fn untried(queue: &Pending) -> impl Iterator<Item = (&Place, ClassId)> {
    let untried = queue.arrivals().filter(|(class, _)| queue.last_attempt(*class).is_none());
    untried.filter_map(|(class, places)| Some((places.first()?, class)))
}

/// True if all arrivals are behind the place where the last walk ended, so that they face exactly
/// the nodes that were held then.
pub fn is_behind(queue: &Pending, last: &HeldNodes) -> bool {
    untried(queue).all(|(place, _)| last.is_before(place))
}
