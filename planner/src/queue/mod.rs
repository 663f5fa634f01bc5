//! Order: decides which pending request is tried next. By the priority of its queue, then its own,
//! then first come, first served.
//!
//! Requests with the same demand form a class: if one of them cannot start, none behind it in the
//! class can. So findings are remembered per class, and a walk visits the first of each class only,
//! however many wait.
//!
//! Pure: no clock, no I/O. The rules of overtaking are in `plan`, which walks this order and asks
//! the resource graph.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::Arc;

use shared_map::SharedMap;

use fluxqueue_machine::table::Table;
use fluxqueue_workload::{ObjectKey, Time, Uid};

/// The number of a job within the process. They are given in the order in which jobs are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u64);

impl JobId {
    /// The number of the first job.
    pub const FIRST: JobId = JobId(1);

    /// The number of the job that is seen next.
    #[must_use]
    pub fn next(self) -> JobId {
        JobId(self.0 + 1)
    }

    /// The number.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl From<u64> for JobId {
    fn from(number: u64) -> Self {
        JobId(number)
    }
}

/// The number of a queue within the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct QueueId(u32);

impl QueueId {
    /// The queue of those that name none.
    pub const DEFAULT: QueueId = QueueId(0);

    /// The number of the queue that is seen next.
    #[must_use]
    pub fn next(self) -> QueueId {
        QueueId(self.0 + 1)
    }

    /// The number, to count places in a list with.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of a class within the process.
pub type ClassId = u32;

/// What waits to be placed, all or nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PendingRequest {
    /// The pods with which a job starts.
    Start(JobId),
    /// One pod: a lone one, one of a service, or one that joins a job that runs.
    Member(JobId, Uid),
}

impl PendingRequest {
    /// The job it belongs to.
    pub fn job(&self) -> JobId {
        match self {
            PendingRequest::Start(job) | PendingRequest::Member(job, _) => *job,
        }
    }
}

/// A place in the queue; smaller goes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The queue's, likewise negated.
    negated_queue_priority: i64,
    /// Higher priority first, so it is stored negated.
    negated_priority: i64,
    /// The time since when it waits.
    queued_at: Time,
    /// Jobs that came at the same instant go by name: numbers are other ones in the next process.
    name: Option<ObjectKey>,
    job: JobId,
    /// Pods of one job: lower index first.
    index: u32,
    pending: PendingRequest,
    queue: QueueId,
}

impl Place {
    /// The place of a request in the default queue.
    pub fn new(priority: i32, queued_at: Time, index: u32, pending: PendingRequest) -> Self {
        let (job, queue) = (pending.job(), QueueId::DEFAULT);
        Place {
            negated_queue_priority: 0,
            negated_priority: -i64::from(priority),
            queued_at,
            name: None,
            job,
            index,
            pending,
            queue,
        }
    }

    /// The same of a job of this name.
    #[must_use]
    pub fn named(self, name: ObjectKey) -> Self {
        Place { name: Some(name), ..self }
    }

    /// The same in this queue, of this priority.
    #[must_use]
    pub fn in_queue(self, queue: QueueId, priority: i32) -> Self {
        Place { queue, negated_queue_priority: -i64::from(priority), ..self }
    }

    /// True if the other is ahead by its queue's priority or its own, whenever both came.
    pub fn has_lower_priority_than(&self, other: &Place) -> bool {
        let priority = |place: &Place| (place.negated_queue_priority, place.negated_priority);
        priority(self) > priority(other)
    }

    /// The queue in which it is.
    pub fn queue(&self) -> QueueId {
        self.queue
    }

    /// Returns the request that has this place.
    pub fn request(&self) -> &PendingRequest {
        &self.pending
    }
}

/// All that waits, in order. `K` describes a demand: equal keys make a class. `M` is the memory
/// about a class.
///
/// Copies share all unchanged parts: looking ahead makes a copy.
#[derive(Debug, Clone)]
pub struct Queue<K, M> {
    /// Per queue.
    order: BTreeMap<QueueId, SharedMap<Place, ClassId>>,
    places: SharedMap<PendingRequest, (Place, ClassId)>,
    of_jobs: SharedMap<(JobId, Place), ()>,
    classes: SharedMap<ClassId, Arc<Class<K, M>>>,
    by_key: Table<Arc<K>, ClassId>,
    /// The first of each class.
    heads: SharedMap<Place, ClassId>,
    /// Classes that have had another first since these were last taken.
    new_heads: BTreeSet<ClassId>,
    /// Requests that came since they were last taken, by class.
    arrivals: BTreeMap<ClassId, BTreeSet<Place>>,
    next_class: ClassId,
    /// The number of times that a request was put in or taken out.
    changes: u64,
}

#[derive(Debug)]
struct Class<K, M> {
    key: Arc<K>,
    places: SharedMap<Place, ()>,
    last_attempt: Option<Arc<M>>,
}

impl<K, M> Clone for Class<K, M> {
    fn clone(&self) -> Self {
        let Class { key, places, last_attempt } = self;
        Class { key: Arc::clone(key), places: places.clone(), last_attempt: last_attempt.clone() }
    }
}

impl<K, M> Default for Queue<K, M> {
    fn default() -> Self {
        Queue {
            order: BTreeMap::new(),
            places: SharedMap::default(),
            of_jobs: SharedMap::default(),
            classes: SharedMap::default(),
            by_key: Table::default(),
            heads: SharedMap::default(),
            new_heads: BTreeSet::new(),
            arrivals: BTreeMap::new(),
            next_class: 0,
            changes: 0,
        }
    }
}

impl<K: Eq + Hash, M: Clone> Queue<K, M> {
    /// Puts a request at its place, moving it if it had another or asked for something else. True
    /// if it is new or moved.
    pub fn put(&mut self, place: Place, key: K) -> bool {
        let mut number = None;
        if let Some((known, class)) = self.places.get(&place.pending) {
            let is_same = self.classes.get(class).is_some_and(|class| *class.key == key);
            if *known == place && is_same {
                return false;
            }
            // A request with the same demand at another place stays in its class, also as the last
            // of it.
            number = is_same.then_some(*class);
            self.remove(&place.pending.clone());
        }
        self.changes += 1;
        let id = self.by_key.get(&key).copied().unwrap_or_else(|| {
            let id = number.unwrap_or_else(|| {
                self.next_class += 1;
                self.next_class
            });
            let key = Arc::new(key);
            self.by_key.insert(Arc::clone(&key), id);
            self.classes.insert(
                id,
                Arc::new(Class { key, places: SharedMap::default(), last_attempt: None }),
            );
            id
        });
        let class = Arc::make_mut(self.classes.get_mut(&id).expect("a class with this key"));
        let head = class.places.first().map(|(head, ())| head.clone());
        class.places.insert(place.clone(), ());
        if head.as_ref().is_none_or(|head| place < *head) {
            head.map(|head| self.heads.remove(&head));
            self.heads.insert(place.clone(), id);
            self.new_heads.insert(id);
        }
        self.arrivals.entry(id).or_default().insert(place.clone());
        self.order.entry(place.queue).or_default().insert(place.clone(), id);
        self.of_jobs.insert((place.job, place.clone()), ());
        self.places.insert(place.pending.clone(), (place, id));
        true
    }

    /// Takes a request out. False if it was not in. The memory about a class goes with its last
    /// request.
    pub fn remove(&mut self, pending: &PendingRequest) -> bool {
        let Some((place, id)) = self.places.remove(pending) else { return false };
        self.changes += 1;
        let of_job = (place.job, place);
        self.of_jobs.remove(&of_job);
        let (_, place) = of_job;
        if let Some(order) = self.order.get_mut(&place.queue) {
            order.remove(&place);
        }
        if let Some(arrivals) = self.arrivals.get_mut(&id) {
            arrivals.remove(&place);
        }
        let Some(class) = self.classes.get_mut(&id).map(Arc::make_mut) else { return true };
        class.places.remove(&place);
        if self.heads.remove(&place).is_some()
            && let Some((head, ())) = class.places.first()
        {
            self.heads.insert(head.clone(), id);
            self.new_heads.insert(id);
        }
        if class.places.is_empty()
            && let Some(class) = self.classes.remove(&id)
        {
            self.by_key.remove(&*class.key);
            self.new_heads.remove(&id);
            self.arrivals.remove(&id);
        }
        true
    }

    /// True if it waits.
    pub fn contains(&self, pending: &PendingRequest) -> bool {
        self.places.contains_key(pending)
    }

    /// Returns the first of a job's waiting requests.
    pub fn first_of(&self, job: JobId) -> Option<&PendingRequest> {
        let (of_job, ()) = self.of_jobs.from(|(other, _)| *other < job).next()?;
        (of_job.0 == job).then_some(&of_job.1.pending)
    }

    /// The place of a job in a queue, from 1, counted in jobs.
    pub fn position_of(&self, job: JobId, queue: QueueId) -> usize {
        let jobs = self.of_queue(queue).map(|place| place.request().job());
        jobs.take_while(|other| *other != job).collect::<BTreeSet<JobId>>().len() + 1
    }

    /// Returns how often a request was put in or taken out so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The first of each class, in order.
    pub fn heads(&self) -> impl Iterator<Item = (&Place, ClassId)> {
        self.heads.iter().map(|(place, class)| (place, *class))
    }

    /// The next first of a class behind this place.
    pub fn next_head(&self, behind: &Place) -> Option<(&Place, ClassId)> {
        self.heads.from(|place| place <= behind).next().map(|(place, class)| (place, *class))
    }

    /// The next of a class behind this place.
    pub fn next_of(&self, class: ClassId, after: &Place) -> Option<&Place> {
        Some(self.classes.get(&class)?.places.from(|place| place <= after).next()?.0)
    }

    /// All of a class, from this place on.
    pub fn of_class(&self, class: ClassId, from: Option<&Place>) -> impl Iterator<Item = &Place> {
        let is_before = move |place: &Place| from.is_some_and(|from| place < from);
        self.classes
            .get(&class)
            .into_iter()
            .flat_map(move |class| class.places.from(is_before))
            .map(|(place, ())| place)
    }

    /// Classes that have had another first since the last call.
    pub fn take_new_heads(&mut self) -> BTreeSet<ClassId> {
        std::mem::take(&mut self.new_heads)
    }

    /// The first of a class.
    pub fn head_of(&self, class: ClassId) -> Option<&PendingRequest> {
        Some(self.classes.get(&class)?.places.first()?.0.request())
    }

    /// Takes the requests that have come since the last call, by class.
    pub fn take_arrivals(&mut self) -> BTreeMap<ClassId, BTreeSet<Place>> {
        std::mem::take(&mut self.arrivals)
    }

    /// True if something has come since the arrivals were last taken.
    pub fn has_arrivals(&self) -> bool {
        self.arrivals.values().any(|places| !places.is_empty())
    }

    /// Returns the requests that have come since the arrivals were last taken, by class.
    pub fn arrivals(&self) -> impl Iterator<Item = (ClassId, &BTreeSet<Place>)> {
        self.arrivals.iter().map(|(class, places)| (*class, places))
    }

    /// The classes behind this one, or all.
    pub fn classes_after(&self, last: Option<ClassId>) -> impl Iterator<Item = ClassId> {
        self.classes
            .from(move |class| last.is_some_and(|last| *class <= last))
            .map(|(class, _)| *class)
    }

    /// Returns the memory about a class.
    pub fn last_attempt(&self, class: ClassId) -> Option<&M> {
        self.classes.get(&class)?.last_attempt.as_deref()
    }

    /// Returns the memory about a class, for changes.
    pub fn last_attempt_mut(&mut self, class: ClassId) -> Option<&mut M> {
        Arc::make_mut(self.classes.get_mut(&class)?).last_attempt.as_mut().map(Arc::make_mut)
    }

    /// Remembers something about a class.
    pub fn remember(&mut self, class: ClassId, last_attempt: M) {
        if let Some(class) = self.classes.get_mut(&class) {
            Arc::make_mut(class).last_attempt = Some(Arc::new(last_attempt));
        }
    }

    /// The place of a request, and its class.
    pub fn place_of(&self, pending: &PendingRequest) -> Option<(&Place, ClassId)> {
        self.places.get(pending).map(|(place, class)| (place, *class))
    }

    /// The queue that a request is in; the default one if it is in none.
    pub fn queue_of(&self, pending: &PendingRequest) -> QueueId {
        self.place_of(pending).map_or(QueueId::DEFAULT, |(place, _)| place.queue())
    }

    /// The class of a request.
    pub fn class_of(&self, pending: &PendingRequest) -> Option<ClassId> {
        self.places.get(pending).map(|(_, class)| *class)
    }

    /// Returns the key of a request's demand.
    pub fn key_of(&self, pending: &PendingRequest) -> Option<&K> {
        self.classes.get(&self.class_of(pending)?).map(|class| &*class.key)
    }

    /// Returns the memory about the class of a request.
    pub fn last_attempt_of(&self, pending: &PendingRequest) -> Option<&M> {
        self.last_attempt(self.class_of(pending)?)
    }

    /// Everything, queue by queue, in order within each, with its class.
    pub fn iter(&self) -> impl Iterator<Item = (&Place, ClassId)> {
        self.order.values().flat_map(SharedMap::iter).map(|(place, class)| (place, *class))
    }

    /// What waits in one queue, in order.
    pub fn of_queue(&self, queue: QueueId) -> impl Iterator<Item = &Place> {
        self.order.get(&queue).into_iter().flat_map(SharedMap::keys)
    }

    /// Returns how many requests wait in one queue.
    pub fn len_of(&self, queue: QueueId) -> usize {
        self.order.get(&queue).map_or(0, SharedMap::len)
    }

    /// Returns the queues in which a request waits, or did.
    pub fn queues(&self) -> impl Iterator<Item = QueueId> {
        self.order.keys().copied()
    }

    /// Returns how many requests wait.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True if no request waits.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(places: &[(i32, i64, u64)]) -> Vec<JobId> {
        let mut queue: Queue<u8, ()> = Queue::default();
        for (priority, at, job) in places {
            queue.put(Place::new(*priority, Time(*at), 0, PendingRequest::Start(JobId(*job))), 0);
        }
        queue.iter().map(|(place, _)| place.request().job()).collect()
    }

    #[test]
    fn higher_priority_first_then_older_then_lower_number() {
        assert_eq!(
            order(&[(0, 5, 1), (0, 3, 2), (7, 9, 3), (0, 3, 4), (-1, 0, 5)]),
            [3, 2, 4, 1, 5].map(JobId)
        );
        assert_eq!(order(&[(i32::MIN, 0, 1), (i32::MAX, 9, 2)]), [2, 1].map(JobId));
    }

    #[test]
    fn who_came_at_the_same_instant_goes_by_name_and_not_by_the_number_in_this_process() {
        let mut queue: Queue<u8, ()> = Queue::default();
        for (job, name) in [(1, "b"), (2, "c"), (3, "a")] {
            let place = Place::new(0, Time(1), 0, PendingRequest::Start(JobId(job)));
            queue.put(place.named(ObjectKey::new("sim", name)), 0);
        }
        assert_eq!(
            queue.iter().map(|(place, _)| place.request().job()).collect::<Vec<_>>(),
            [3, 1, 2].map(JobId)
        );
    }

    #[test]
    fn the_priority_of_the_queue_goes_before_that_of_the_job_and_equal_queues_are_merged() {
        let (mut queue, slow) = (Queue::<u8, ()>::default(), QueueId::DEFAULT.next());
        let fast = slow.next();
        // queue, its priority, the job's, when it came
        let places = [
            (slow, 0, 9, 1),
            (QueueId::DEFAULT, 0, 9, 2),
            (fast, 1, 0, 3),
            (QueueId::DEFAULT, 0, 10, 4),
            (slow, 0, 9, 5),
        ];
        for (job, (of, of_queue, priority, at)) in (1..).zip(places) {
            let place = Place::new(priority, Time(at), 0, PendingRequest::Start(JobId(job)));
            queue.put(place.in_queue(of, of_queue), 0);
        }
        let mut next = queue.heads().next().map(|(place, _)| place.clone());
        let mut order = Vec::new();
        while let Some(place) = next {
            order.push(place.request().job());
            next = queue.next_of(1, &place).cloned();
        }
        assert_eq!(order, [3, 4, 1, 2, 5].map(JobId));
        assert_eq!(
            queue.of_queue(slow).map(|place| place.request().job()).collect::<Vec<_>>(),
            [1, 5].map(JobId)
        );
        assert_eq!(
            (queue.len(), queue.len_of(slow), queue.len_of(fast), queue.iter().count()),
            (5, 2, 1, 5)
        );
    }

    #[test]
    fn a_request_has_one_place_in_one_class() {
        let mut queue: Queue<u8, &str> = Queue::default();
        let place = |priority| Place::new(priority, Time(1), 0, PendingRequest::Start(JobId(1)));
        assert!(queue.put(place(0), 7));
        assert!(!queue.put(place(0), 7), "the same place again");
        queue.remember(1, "blocked");
        assert_eq!(queue.last_attempt_of(&PendingRequest::Start(JobId(1))), Some(&"blocked"));
        assert!(queue.put(place(0), 8), "it asks for something else");
        assert_eq!(queue.last_attempt_of(&PendingRequest::Start(JobId(1))), None);
        let class = queue.class_of(&PendingRequest::Start(JobId(1)));
        assert!(queue.put(place(5), 8));
        assert_eq!(queue.class_of(&PendingRequest::Start(JobId(1))), class, "it asks for the same");
        assert_eq!((queue.len(), queue.heads().count()), (1, 1));
        assert!(
            queue.remove(&PendingRequest::Start(JobId(1)))
                && !queue.remove(&PendingRequest::Start(JobId(1)))
                && queue.is_empty()
        );
    }

    #[test]
    fn the_head_of_a_class_is_its_first() {
        let mut queue: Queue<u8, ()> = Queue::default();
        let place = |job, at| Place::new(0, Time(at), 0, PendingRequest::Start(JobId(job)));
        for (job, at, key) in [(1, 5, 1), (2, 3, 1), (3, 4, 2), (4, 1, 1)] {
            queue.put(place(job, at), key);
        }
        let heads = |queue: &Queue<u8, ()>| {
            queue.heads().map(|(place, _)| place.request().job()).collect::<Vec<_>>()
        };
        assert_eq!(heads(&queue), [4, 3].map(JobId));
        queue.remove(&PendingRequest::Start(JobId(4)));
        assert_eq!(heads(&queue), [2, 3].map(JobId));
        let class = queue.heads().next().map(|(_, class)| class).unwrap();
        assert_eq!(
            queue.next_of(class, &place(2, 3)).map(|place| place.request().job()),
            Some(JobId(1))
        );
        assert_eq!(queue.take_arrivals().values().map(BTreeSet::len).sum::<usize>(), 3);
        assert!(queue.take_arrivals().is_empty());
    }
}
