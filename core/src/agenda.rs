//! The agenda: what follows from what was decided, until the cycle comes to it.

use std::collections::{BTreeSet, VecDeque};

use crate::in_flight::Actions;
use crate::telling::lost::Lost;
use crate::telling::report::Gauges;
use crate::timers::Timers;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::Uid;

/// What is to be done next: looks at jobs, writes, Bindings, and a walk over the queue. Every part
/// of the core adds to it; the cycle alone takes from it.
#[derive(Default)]
pub(crate) struct Agenda {
    /// The jobs to be looked at before the next walk.
    pub touched: BTreeSet<JobId>,
    /// The jobs whose record may have to be written.
    pub dirty: BTreeSet<JobId>,
    /// The pods with a slot whose Binding may leave, in the order of the decisions. A pod may be in
    /// it more than once, or have lost its slot: its stage decides.
    pub outbox: VecDeque<Uid>,
    pub timers: Timers,
    pub actions: Actions,
    /// True if the queue has changed in a way that may let other requests start.
    pub queue_changed: bool,
    /// The room that has been lost since the last walk.
    pub lost: Lost,
    /// The jobs that run, and for which a person has wished more time since the last walk.
    pub extended: BTreeSet<JobId>,
    /// Numbers that only grow; the others are counted when they are asked for.
    pub gauges: Gauges,
}
