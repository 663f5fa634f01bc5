//! A walk as far as it has come, and the decisions that come of it.

use std::collections::BTreeSet;

use super::attempt::{Attempt, Standing};
use super::claims::Claims;
use super::promising::{Kept, Late};
use super::request::{Request, RequestKey};
use super::resting::Resting;
use crate::queue::{ClassId, PendingRequest, Place, Queue};

/// The pending requests, with the last attempt of each class.
pub type Pending = Queue<RequestKey, Attempt>;

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
    /// It may not start for now, and so has no reservation any more.
    PutOff {
        /// The request.
        pending: PendingRequest,
        /// The promise that this breaks.
        was: Kept,
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

/// The state of a walk, whatever its policy.
pub(super) struct Progress<S> {
    /// The next request to visit of each class.
    pub(super) heads: BTreeSet<(Place, ClassId)>,
    /// The nodes that are held for requests it has met.
    pub(super) holds: Claims,
    /// The decisions so far.
    pub(super) plan: Plan<S>,
    pub(super) resting: Resting,
    /// True if the requests to visit are found as the walk goes on.
    pub(super) is_found_on_the_way: bool,
}

impl<S> Progress<S> {
    /// Begins a walk that visits these: after arrivals it goes on with the nodes that the last one
    /// held.
    pub(super) fn begin(heads: BTreeSet<(Place, ClassId)>, news: News, last: &mut Claims) -> Self {
        let holds = if news == News::Arrivals { std::mem::take(last) } else { Claims::after(last) };
        let (plan, resting) = (Plan::default(), Resting::default());
        Progress { heads, holds, plan, resting, is_found_on_the_way: false }
    }
}

/// The first of each class that has come and of which nothing is known.
pub(super) fn untried(queue: &Pending) -> impl Iterator<Item = (&Place, ClassId)> {
    let untried = queue.arrivals().filter(|(class, _)| queue.last_attempt(*class).is_none());
    untried.filter_map(|(class, places)| Some((places.first()?, class)))
}
