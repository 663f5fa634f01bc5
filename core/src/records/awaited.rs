//! Records for which other jobs wait, and for how long.
//!
//! A job that takes what another one has left waits until the other one's FluxJob says so
//! (`on_record`). A FluxJob is in a namespace of somebody, whose policies and quotas may keep it
//! from being written. So a write without an answer delays other jobs for 10 s at most, and once a
//! write in a namespace is refused, no job of another namespace waits for the records there until
//! one of them is written. A successor may then find a promise that cannot be kept: it is broken,
//! and that is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::Time;

/// How long other jobs wait for a record.
pub(crate) const WAIT_MILLIS: i64 = 10_000;

/// Which records are waited for, and which are not any more.
#[derive(Clone, Default)]
pub(crate) struct Awaited {
    /// Since when a record is waited for.
    since: BTreeMap<JobId, Time>,
    /// Jobs whose records are waited for no longer, until they say what their jobs are promised.
    given_up: BTreeSet<JobId>,
    /// Namespaces in which the last write of a FluxJob was refused.
    pub(crate) refusing: BTreeSet<Arc<str>>,
}

impl Awaited {
    /// A job comes to wait for the record of another one. Returns until when.
    pub(crate) fn begin(&mut self, on: JobId, now: Time) -> Time {
        self.since.entry(on).or_insert(now).plus_millis(WAIT_MILLIS)
    }

    /// A record says what its job is promised, or there is none any more.
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

    /// A namespace is gone, and its records with it.
    pub(crate) fn forget_namespace(&mut self, name: &str) {
        self.refusing.remove(name);
    }

    /// Records that were waited for long enough: from now on they are not.
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
