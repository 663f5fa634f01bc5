//! Releases of Jobs that waited without pods, and then did not get all of their pods.
//!
//! Nodes stand idle for such a Job as long as its place is held. The cause does not matter: a
//! quota, a webhook, or a Job that was deleted. The Job's namespace has to wait for its next
//! release, and longer each time.
//!
//! The pauses are not on record. A new process counts the Jobs that it still sees, and forgets
//! those that are gone. No tenant can restart the scheduler; if another person does, the only gain
//! for a tenant is that the pauses begin with a minute again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::backoff::Backoff;
use crate::jobs::quotas::Quotas;
use fluxqueue_workload::{Time, Uid};

/// The longest pause, as a multiple of the first one.
const PAUSES_MAX: i64 = 60;

/// The time, in seconds, without another failed release after which a namespace has a clean record
/// again, counted from the end of its pause.
const FORGOTTEN_AFTER_SECS: u64 = 3_600;

/// Failed releases, by namespace.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    /// One entry for each namespace in which a release failed, until an hour after its pause.
    failed: BTreeMap<Arc<str>, Failed>,
    /// Existing Jobs with a failed release that has been counted: a Job is released once.
    counted: BTreeSet<Uid>,
    /// Existing Jobs for which the ignored mark has been reported.
    ignored_marks: BTreeSet<Uid>,
    /// The room that quotas leave for pods that are to come.
    pub quotas: Quotas,
}

/// The failed releases of a namespace.
#[derive(Debug)]
struct Failed {
    /// The number of failed releases, without those that successes have made up for.
    times: u32,
    /// The number of pods of the largest of them.
    pods: usize,
    /// The next release may come at this time.
    until: Time,
}

impl Releases {
    /// Counts a release of a Job of this namespace that had not got all of its pods by `at`. A
    /// first pause of no seconds means that releases are not counted.
    pub(crate) fn note_failed(
        &mut self,
        namespace: &Arc<str>,
        pods: usize,
        (at, now): (Time, Time),
        first_pause_secs: u64,
    ) {
        self.failed.retain(|_, failed| failed.until.plus_secs(FORGOTTEN_AFTER_SECS) > now);
        if first_pause_secs == 0 || at.plus_secs(FORGOTTEN_AFTER_SECS) <= now {
            return;
        }
        let min_millis = i64::try_from(first_pause_secs).unwrap_or(i64::MAX).saturating_mul(1_000);
        let pauses = Backoff { min_millis, max_millis: min_millis.saturating_mul(PAUSES_MAX) };
        let failed = self.failed.entry(Arc::clone(namespace)).or_insert(Failed {
            times: 0,
            pods,
            until: at,
        });
        failed.pods = failed.pods.max(pods);
        failed.times = failed.times.saturating_add(1);
        failed.until = failed.until.max(at.plus_millis(pauses.after(failed.times)));
    }

    /// Notes that the release of an existing Job failed. True if that is new.
    pub(crate) fn count(&mut self, job: &Uid) -> bool {
        self.counted.insert(job.clone())
    }

    /// Notes that the author of a Job was informed that its mark is ignored. True if that is new.
    pub(crate) fn ignore_mark(&mut self, job: &Uid) -> bool {
        self.ignored_marks.insert(job.clone())
    }

    /// Forgets a Job that is gone.
    pub(crate) fn forget(&mut self, job: &Uid) {
        self.counted.remove(job);
        self.ignored_marks.remove(job);
    }

    /// Notes that all pods of a released Job have come. That makes up for one release that failed,
    /// unless a failed release was for more pods: otherwise small Jobs could make up for large
    /// ones.
    pub(crate) fn note_done(&mut self, namespace: &str, pods: usize) {
        if let Some(failed) = self.failed.get_mut(namespace).filter(|failed| pods >= failed.pods) {
            failed.times -= 1;
            if failed.times == 0 {
                self.failed.remove(namespace);
            }
        }
    }

    /// Returns how many releases of this namespace have failed, and until when there is no other
    /// one; `None` if there may be one now.
    pub(crate) fn paused(&self, namespace: &str, now: Time) -> Option<(u32, Time)> {
        let failed = self.failed.get(namespace).filter(|failed| failed.until > now)?;
        Some((failed.times, failed.until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1_000_000_000);

    #[test]
    fn pauses_double_up_to_an_hour_and_are_forgotten() {
        let (mut releases, namespace) = (Releases::default(), Arc::from("a"));
        let mut now = NOW;
        for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
            releases.note_failed(&namespace, 6, (now, now), 60);
            let until = now.plus_secs(60 * minutes);
            assert_eq!(releases.paused("a", now).map(|(_, until)| until), Some(until));
            assert_eq!((releases.paused("a", until), releases.paused("b", now)), (None, None));
            now = until;
        }
        now = now.plus_secs(FORGOTTEN_AFTER_SECS);
        releases.note_failed(&namespace, 6, (now, now), 60);
        assert_eq!(releases.paused("a", now), Some((1, now.plus_secs(60))));
        // A failure that a new process finds long afterwards does not count.
        releases.note_failed(&Arc::from("b"), 6, (NOW, now), 60);
        releases.note_failed(&Arc::from("b"), 6, (now, now), 0);
        assert_eq!(releases.paused("b", now), None);
    }

    #[test]
    fn a_release_makes_up_for_one_that_was_no_larger() {
        let (mut releases, namespace) = (Releases::default(), Arc::from("a"));
        releases.note_failed(&namespace, 6, (NOW, NOW), 60);
        releases.note_failed(&namespace, 4, (NOW, NOW), 60);
        releases.note_done("a", 5);
        assert_eq!(releases.paused("a", NOW).map(|(times, _)| times), Some(2));
        releases.note_done("a", 6);
        assert_eq!(releases.paused("a", NOW).map(|(times, _)| times), Some(1));
        releases.note_done("a", 6);
        assert_eq!(releases.paused("a", NOW), None);
    }
}
