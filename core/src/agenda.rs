//! The agenda: the consequences of decisions, until the cycle comes to them.

use std::collections::{BTreeSet, VecDeque};

use crate::in_flight::Actions;
use crate::sound::{Contradiction, Interruption, Sound};
use crate::telling::lost::Lost;
use crate::telling::report::Gauges;
use crate::timers::Timers;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{Time, Uid};

/// Most contradictions that are kept until they are reported: one job in a minute is rebuilt, and
/// those beyond it are only counted.
const CONTRADICTIONS_MAX: usize = 64;

/// The work to be done next: looks at jobs, writes, Bindings, and a walk over the queue. Every part
/// of the core adds to it; the cycle alone takes from it.
#[derive(Default)]
pub(crate) struct Agenda {
    /// The jobs to be looked at before the next walk.
    pub touched: BTreeSet<JobId>,
    /// The jobs that may need a write of their record.
    pub dirty: BTreeSet<JobId>,
    /// The pods with a slot and a Binding that may leave, in the order of the decisions. A pod may
    /// be in it more than once, or have lost its slot: its stage decides.
    pub outbox: VecDeque<Uid>,
    pub timers: Timers,
    pub actions: Actions,
    /// True if the queue has changed in a way that may let other requests start.
    pub queue_changed: bool,
    /// The room that has been lost since the last walk.
    pub lost: Lost,
    /// The running jobs for which a person has wished more time since the last walk.
    pub extended: BTreeSet<JobId>,
    /// The time until which a new process may count its queues in another way than the one before
    /// it: some pods have no known job yet, and some slots may have been given back. The status of
    /// queues is not written until then.
    pub counts_are_sure_from: Time,
    /// Numbers that only grow; the others are counted when they are read.
    pub gauges: Gauges,
    /// The contradictions that are not reported yet.
    contradictions: Vec<Contradiction>,
}

impl Agenda {
    /// Takes note of how work on a job or a pod ended: counts news that is out of date, and keeps a
    /// contradiction until the work at hand is done.
    pub(crate) fn heed(&mut self, outcome: Sound) {
        match outcome {
            Ok(()) => {}
            Err(Interruption::Outdated) => self.gauges.interruptions.outdated += 1,
            Err(Interruption::Contradiction(found)) => {
                self.gauges.interruptions.contradictions += 1;
                if self.contradictions.len() < CONTRADICTIONS_MAX {
                    self.contradictions.push(found);
                }
            }
        }
    }

    /// Returns the contradictions that are not reported yet, oldest first.
    pub(crate) fn take_contradictions(&mut self) -> Vec<Contradiction> {
        std::mem::take(&mut self.contradictions)
    }
}
