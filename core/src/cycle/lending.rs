//! The parts of the state that a walk over the queue takes.

use crate::asking::Asking;
use crate::cycle::Core;
use crate::jobs::clock::Clock;
use fluxqueue_planner::{PlannerParts, Surroundings};
use fluxqueue_workload::Time;

impl Core {
    /// Lends the parts of the state that one walk over the queue reads, goes over and changes.
    pub(crate) fn parts(&mut self, now: Time) -> (Asking<'_>, PlannerParts<'_>) {
        let clock = Clock { now, ..self.clock };
        let around = Surroundings { queues: &self.queues, now };
        let asking = Asking { jobs: &self.jobs, queues: &self.queues, clock };
        (asking, self.planner.parts(around))
    }
}
