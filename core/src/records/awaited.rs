//! Records for which other jobs wait, and for how long.
//!
//! A job that takes nodes which another one has given up waits until the other one's FluxJob states
//! that (`on_record`). A FluxJob is in the namespace of a tenant, and the policies and quotas there
//! may keep it from being written. So a write without an answer delays other jobs for 10 s at most,
//! and once a write in a namespace is refused, no job of another namespace waits for the records
//! there until one of them is written. A successor may then find a promise that cannot be kept: it
//! breaks the promise, and reports that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::Time;

/// How long, in milliseconds, other jobs wait for a record.
pub(crate) const WAIT_MILLIS: i64 = 10_000;

/// The records for which jobs wait, and those that were given up.
#[derive(Clone, Default)]
pub(crate) struct Awaited {
    /// The time since when jobs wait for a record.
    since: BTreeMap<JobId, Time>,
    /// Jobs that were given up: no job waits for their records until these state the current
    /// promises.
    given_up: BTreeSet<JobId>,
    /// Namespaces in which the last write of a FluxJob was refused.
    pub(crate) refusing: BTreeSet<Arc<str>>,
}

impl Awaited {
    /// Notes that a job waits for the record of another one. Returns the end of that wait.
    pub(crate) fn begin(&mut self, on: JobId, now: Time) -> Time {
        self.since.entry(on).or_insert(now).plus_millis(WAIT_MILLIS)
    }

    /// Notes that a record states its job's promise, or that there is no record any more.
    pub(crate) fn end(&mut self, on: JobId) {
        self.since.remove(&on);
        self.given_up.remove(&on);
    }

    /// True if no job of that namespace waits for the record of this job, which is in the other
    /// one.
    pub(crate) fn is_given_up(
        &self,
        on: JobId,
        of_namespace: &Arc<str>,
        by_namespace: &Arc<str>,
    ) -> bool {
        self.given_up.contains(&on)
            || (of_namespace != by_namespace && self.refusing.contains(of_namespace))
    }

    /// Forgets a namespace that is gone, and its records with it.
    pub(crate) fn forget_namespace(&mut self, name: &str) {
        self.refusing.remove(name);
    }

    /// Gives up the records that have kept jobs waiting for long enough, and returns their jobs.
    pub(crate) fn give_up_due(&mut self, now: Time) -> Vec<JobId> {
        let is_due = |since: Time| since.plus_millis(WAIT_MILLIS) <= now;
        let due: Vec<JobId> =
            self.since.iter().filter(|(_, since)| is_due(**since)).map(|(job, _)| *job).collect();
        for job in &due {
            self.since.remove(job);
            self.given_up.insert(*job);
        }
        due
    }
}
