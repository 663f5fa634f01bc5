//! Searches for places that gave up, by namespace.
//!
//! A search that gives up proves nothing, so it has to be repeated when something has changed; and
//! a tenant can submit any number of gangs with long searches. So each of them costs its
//! namespace a pause of twenty times its duration, in which no gang of the namespace is searched
//! for. These searches take at most a twentieth of the core's time for each namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::jobs::job::{Job, Style};
use fluxqueue_workload::Time;

/// The pauses that namespaces owe for searches that gave up. One entry for each namespace in a
/// pause.
#[derive(Debug, Default)]
pub(crate) struct Searches(BTreeMap<Arc<str>, Time>);

impl Searches {
    /// Adds a pause, in milliseconds, to those of a namespace. Returns when they are over.
    pub(crate) fn owe(&mut self, namespace: &Arc<str>, pause: i64, now: Time) -> Time {
        self.0.retain(|_, until| *until > now);
        let until = self.0.entry(Arc::clone(namespace)).or_insert(now);
        *until = until.plus_millis(pause);
        *until
    }

    /// Returns until when no places are searched for a gang; `None` if they may be.
    pub(crate) fn pause_of(&self, job: &Job, now: Time) -> Option<Time> {
        let is_gang = job.style == Style::Gang && job.start.size > 1;
        if is_gang { self.paused(&job.key.namespace, now) } else { None }
    }

    /// Returns until when the namespace pauses; `None` if it does not.
    pub(crate) fn paused(&self, namespace: &str, now: Time) -> Option<Time> {
        self.0.get(namespace).copied().filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_add_up_and_end() {
        let (mut searches, namespace) = (Searches::default(), Arc::from("ns"));
        let now = Time::from_seconds(100);
        assert_eq!(searches.paused("ns", now), None);
        assert_eq!(searches.owe(&namespace, 2_000, now), Time::from_seconds(102));
        assert_eq!(searches.owe(&namespace, 3_000, now), Time::from_seconds(105));
        assert_eq!(searches.paused("ns", Time::from_seconds(104)), Some(Time::from_seconds(105)));
        assert_eq!(searches.paused("other", now), None);
        assert_eq!(searches.paused("ns", Time::from_seconds(105)), None);
        let later = Time::from_seconds(200);
        assert_eq!(searches.owe(&Arc::from("other"), 1_000, later), Time::from_seconds(201));
        assert_eq!(searches.0.len(), 1, "an old pause is forgotten");
    }
}
