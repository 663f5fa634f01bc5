//! Edits of one object, of which the core gets one a second.
//!
//! An author may edit a pod or a Job as often as the API server answers, and each edit that is read
//! costs the core time that others wait for. The first edit is passed on at once. Those that follow
//! within a second replace each other, and the last of them is passed on when the second is over.
//! So at most one edit is held for each object, and none without an object.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use fluxqueue_workload::ObjectKey;

/// The time from one edit of an object that is passed on to the next one.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

/// The edits of one kind that are held.
#[derive(Debug)]
pub(super) struct Edits<T> {
    /// The objects of which an edit was passed on within the last second, each with the edit that
    /// follows.
    resting: HashMap<ObjectKey, Option<T>>,
    /// The time at which the second of each of these is over, the first one first.
    ends: VecDeque<(Instant, ObjectKey)>,
}

// === impl Edits ===

impl<T> Default for Edits<T> {
    fn default() -> Self {
        Edits { resting: HashMap::new(), ends: VecDeque::new() }
    }
}

impl<T> Edits<T> {
    /// Takes in an edit. Returns it if it is to be passed on now, and otherwise holds it.
    pub(super) fn pace(&mut self, key: &ObjectKey, edit: T, now: Instant) -> Option<T> {
        if let Some(held) = self.resting.get_mut(key) {
            *held = Some(edit);
            return None;
        }
        self.rest(key.clone(), now);
        Some(edit)
    }

    /// Drops the held edit of an object, since something newer about it is passed on.
    pub(super) fn drop_held(&mut self, key: &ObjectKey) {
        if let Some(held) = self.resting.get_mut(key) {
            *held = None;
        }
    }

    /// Returns when the next second is over.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.ends.front().map(|(end, _)| *end)
    }

    /// Returns the edits that are to be passed on by now.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<(ObjectKey, T)> {
        let mut due = Vec::new();
        while let Some((_, key)) = self.ends.pop_front_if(|(end, _)| *end <= now) {
            if let Some(edit) = self.resting.remove(&key).flatten() {
                self.rest(key.clone(), now);
                due.push((key, edit));
            }
        }
        due
    }

    fn rest(&mut self, key: ObjectKey, now: Instant) {
        self.resting.insert(key.clone(), None);
        self.ends.push_back((now + PERIOD, key));
    }
}
