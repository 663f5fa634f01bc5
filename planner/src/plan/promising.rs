//! The abilities that backfill needs of the machine beside its capacity: places that are kept for
//! later, and the requests to which they were promised.

use std::sync::Arc;

use super::capacity::Capacity;
use super::request::Request;
use crate::queue::{ClassId, JobId, PendingRequest, QueueId};
use fluxqueue_machine::fluxion::RankSet;

/// A machine on which places are kept for later.
pub trait Promising: Capacity {
    /// True if others may go ahead of this request for now, while its start is unknown.
    fn may_be_passed_by(&self, pending: &PendingRequest) -> bool;
    /// Gives the request the patience that an earlier process put on record. It is the first of its
    /// job's requests that waits for work with an unknown end, and has been passed by for as long
    /// as the record says.
    fn inherit_patience(&mut self, pending: &PendingRequest, queue: QueueId);
    /// Returns the cause if it has just come in ahead of others, and may delay those behind it.
    fn displaces(&self, pending: &PendingRequest) -> Option<Delay>;
    /// Returns the requests that have a reservation, or were the first to wait without a known
    /// start.
    fn promised(&self) -> Vec<PendingRequest>;
    /// The reservation of a request.
    fn reserved(&self, pending: &PendingRequest) -> Option<Reserved>;
    /// Takes slots for all pods on these nodes, or makes a reservation at the earliest second, but
    /// not before `not_before`.
    fn reserve(
        &mut self,
        pending: (&PendingRequest, ClassId),
        request: &Request,
        nodes: &[RankSet],
        not_before: Option<i64>,
    ) -> Booking<Self::Slots>;
    /// Withdraws a reservation and makes it again at the earliest second around all others, for the
    /// present demand if the request is of another class now. `left_of` returns the nodes left to
    /// it among those that a group may use.
    fn remake(
        &mut self,
        pending: &PendingRequest,
        asked_now: Option<(ClassId, Request)>,
        left_of: &dyn Fn(&RankSet) -> RankSet,
    ) -> Remade<Self::Slots>;
    /// Returns, once, the promise that was made to a request before and could not be kept.
    fn take_lost(&mut self, pending: &PendingRequest) -> Option<Late>;
    /// Gives a reservation up, and returns it.
    fn withdraw(&mut self, pending: &PendingRequest) -> Option<Kept>;
    /// Gives up the nodes that are held for a request.
    fn let_go(&mut self, pending: &PendingRequest);
    /// A set of these nodes, no larger than needed, on which all pods fit once everything with an
    /// end has ended: those with the fewest unknown ends in the way. The same as before, if that is
    /// still one.
    fn drain(
        &mut self,
        pending: &PendingRequest,
        request: &Request,
        nodes: &[RankSet],
    ) -> Arc<RankSet>;
}

/// Makes a reservation where one was: on those of its nodes that are open still, and not before it
/// was to start.
pub fn reserve_again<C: Promising>(
    capacity: &mut C,
    pending: (&PendingRequest, ClassId),
    request: &Request,
    was: &Kept,
) -> Booking<C::Slots> {
    let nodes: Vec<RankSet> =
        request.groups.iter().map(|group| capacity.open(group).intersection(&was.nodes)).collect();
    if nodes.iter().any(RankSet::is_empty) {
        return Booking::Never;
    }
    capacity.reserve(pending, request, &nodes, Some(was.start))
}

/// What came of asking for slots now or later.
pub type Booking<S> = fluxqueue_machine::fluxion::Booking<S, i64>;

/// A reservation, as the plan sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserved {
    /// The second at which it starts.
    pub start: i64,
    /// The class of the request when it was made.
    pub class: ClassId,
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Late {
    /// The cause.
    pub cause: Delay,
    /// The promise before.
    pub was: Kept,
    /// The job that came in ahead, or was changed.
    pub by: Option<JobId>,
}

impl Delay {
    /// All of them.
    pub const ALL: [Delay; 4] = [Delay::Walltime, Delay::Capacity, Delay::Priority, Delay::Edit];

    /// Returns its name in metrics and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Delay::Walltime => "walltime",
            Delay::Capacity => "capacity",
            Delay::Priority => "priority",
            Delay::Edit => "edit",
        }
    }
}

/// A reservation that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The second of its start.
    pub start: i64,
    /// Its nodes.
    pub nodes: RankSet,
}

/// The outcome of making a reservation again.
#[derive(Debug)]
pub enum Remade<S> {
    /// The request starts now, and has these slots.
    Starts(S),
    /// It starts at this second; it is on other nodes or at another time if it has moved.
    Kept {
        /// The second of its start.
        start: i64,
        /// The promise that this breaks.
        later: Option<Late>,
        /// True if it is on other nodes or at another time.
        moved: bool,
    },
    /// There is no room for it at any second that is known: where it was is held for it.
    Lost(Late),
}

/// Why a reservation starts later than was promised. There is no other cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Delay {
    /// A job outlived its planned end.
    Walltime,
    /// A node went, shrank or was closed; another scheduler's or an unplanned pod took the room.
    Capacity,
    /// A job came in ahead by higher priority.
    Priority,
    /// A person changed a job, a queue or a setting.
    Edit,
}
