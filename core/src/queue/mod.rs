//! Order: which ask is tried next. First come, first served within priority.
//!
//! Pure: no clock, no I/O. Who may overtake whom is decided by the pass in [`crate::Core`], which walks this order and
//! asks the resource graph.

use std::collections::{BTreeMap, btree_map};

use fluxqueue_workload::{Time, Uid};

/// The number of a job within the process.
pub type JobId = u64;

/// What waits to be placed, all or nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ask {
    /// The pods with which a job starts.
    Start(JobId),
    /// One pod: a lone one, one of a service, or one that joins a job that runs.
    Member(JobId, Uid),
}

impl Ask {
    /// The job it belongs to.
    pub fn job(&self) -> JobId {
        match self {
            Ask::Start(job) | Ask::Member(job, _) => *job,
        }
    }
}

/// A place in the queue; smaller goes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Higher priority first, so it is stored negated.
    negated_priority: i64,
    /// Since when.
    queued_at: Time,
    /// Job numbers grow, so jobs that came at the same instant keep the order in which they were seen.
    job: JobId,
    /// Pods of one job: lower index first.
    index: u32,
    ask: Ask,
}

impl Place {
    /// The place of an ask.
    pub fn new(priority: i32, queued_at: Time, index: u32, ask: Ask) -> Self {
        Place { negated_priority: -i64::from(priority), queued_at, job: ask.job(), index, ask }
    }

    /// Whose place it is.
    pub fn ask(&self) -> &Ask {
        &self.ask
    }
}

/// All that waits, in order. `M` is what the caller wants to remember about each.
#[derive(Debug)]
pub struct Queue<M> {
    order: BTreeMap<Place, M>,
    places: BTreeMap<Ask, Place>,
}

impl<M> Default for Queue<M> {
    fn default() -> Self {
        Queue { order: BTreeMap::new(), places: BTreeMap::new() }
    }
}

impl<M: Default> Queue<M> {
    /// Puts an ask at its place, moving it if it had another. What was remembered about a moved ask is forgotten.
    /// True if it is new or moved.
    pub fn put(&mut self, place: Place) -> bool {
        match self.places.entry(place.ask.clone()) {
            btree_map::Entry::Occupied(known) if *known.get() == place => return false,
            btree_map::Entry::Occupied(mut known) => {
                let old = known.insert(place.clone());
                self.order.remove(&old);
            }
            btree_map::Entry::Vacant(new) => drop(new.insert(place.clone())),
        }
        self.order.insert(place, M::default());
        true
    }

    /// Takes an ask out. False if it was not in.
    pub fn remove(&mut self, ask: &Ask) -> bool {
        match self.places.remove(ask) {
            Some(place) => self.order.remove(&place).is_some(),
            None => false,
        }
    }

    /// Everything in order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Ask, &mut M)> {
        self.order.iter_mut().map(|(place, memo)| (&place.ask, memo))
    }

    /// Everything in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Ask, &M)> {
        self.order.iter().map(|(place, memo)| (&place.ask, memo))
    }

    /// What is remembered about an ask.
    pub fn get_mut(&mut self, ask: &Ask) -> Option<&mut M> {
        self.order.get_mut(self.places.get(ask)?)
    }

    /// What is remembered about an ask.
    pub fn get(&self, ask: &Ask) -> Option<&M> {
        self.order.get(self.places.get(ask)?)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// True if nobody waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(places: &[(i32, i64, JobId)]) -> Vec<JobId> {
        let mut queue: Queue<()> = Queue::default();
        for (priority, at, job) in places {
            queue.put(Place::new(*priority, Time(*at), 0, Ask::Start(*job)));
        }
        queue.iter().map(|(ask, ())| ask.job()).collect()
    }

    #[test]
    fn higher_priority_first_then_older_then_lower_number() {
        assert_eq!(order(&[(0, 5, 1), (0, 3, 2), (7, 9, 3), (0, 3, 4), (-1, 0, 5)]), [3, 2, 4, 1, 5]);
        assert_eq!(order(&[(i32::MIN, 0, 1), (i32::MAX, 9, 2)]), [2, 1]);
    }

    #[test]
    fn an_ask_has_one_place() {
        let mut queue: Queue<u8> = Queue::default();
        assert!(queue.put(Place::new(0, Time(1), 0, Ask::Start(1))));
        assert!(!queue.put(Place::new(0, Time(1), 0, Ask::Start(1))), "the same place again");
        *queue.get_mut(&Ask::Start(1)).expect("it waits") = 9;
        assert!(queue.put(Place::new(5, Time(1), 0, Ask::Start(1))));
        assert_eq!((queue.len(), queue.get(&Ask::Start(1))), (1, Some(&0)), "moved, and forgotten");
        assert!(queue.remove(&Ask::Start(1)) && !queue.remove(&Ask::Start(1)) && queue.is_empty());
    }
}
