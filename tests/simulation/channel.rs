//! The channel of news: per object in order, but late, repeated, and with states left out; between
//! objects in any order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use fluxqueue_core::Event;
use fluxqueue_workload::{NodeName, ObjectKey, PriorityClass, Uid};

use crate::objects::{NAMESPACE, own_namespace, suspending};
use crate::rng::Rng;
use crate::server::{PRIORITY_CLASSES, Server, flux_job_key};

/// A stream that keeps its order: all objects that ever had one name, because a watch reports the
/// end of one before its successor.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Stream {
    Clock,
    Node(NodeName),
    Pod(ObjectKey),
    Controller(Uid),
    FluxJob(ObjectKey),
    PriorityClass(Arc<str>),
    Queue(Arc<str>),
    Namespace(Arc<str>),
    PodGroup(ObjectKey),
}

/// News on its way to the core.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    waiting: BTreeMap<Stream, VecDeque<Event>>,
    /// The event of each stream that was delivered last, for repeats.
    delivered: BTreeMap<Stream, Event>,
    /// Streams of the first list that have not arrived yet; `Synced` comes after the last.
    unlisted: BTreeSet<Stream>,
    synced: bool,
}

/// Delivered streams that are remembered for repeats.
const REMEMBERED_MAX: usize = 300;

impl Channel {
    /// Takes up a change.
    pub(crate) fn push(&mut self, event: Event) {
        if let Some(stream) = stream_of(&event) {
            self.waiting.entry(stream).or_default().push_back(event);
        }
    }

    /// Forgets everything, compares the clocks and lists all objects again, as a new process does.
    pub(crate) fn relist(&mut self, server: &Server, clock_offset: i64) {
        *self = Channel::default();
        self.push(Event::ClockOffset(clock_offset));
        server.nodes.values().for_each(|node| self.push(Event::Node(Arc::clone(node))));
        server.pods.values().for_each(|pod| self.push(Event::Pod(Arc::clone(pod))));
        server.controllers.values().for_each(|it| self.push(Event::Controller(Arc::clone(it))));
        server.flux_jobs.values().for_each(|job| self.push(Event::FluxJob(Arc::clone(job))));
        server.queues.values().for_each(|queue| self.push(Event::Queue(Arc::clone(queue))));
        server.pod_groups.values().for_each(|it| self.push(Event::PodGroup(Arc::clone(it))));
        for (name, value) in PRIORITY_CLASSES {
            let class = PriorityClass {
                name: name.into(),
                uid: format!("class-{name}").into(),
                value,
                is_default: false,
            };
            self.push(Event::PriorityClass(Arc::new(class)));
        }
        self.push(Event::Namespace(Arc::new(suspending(NAMESPACE))));
        if server.is_paused {
            self.push(Event::Namespace(Arc::new(own_namespace(true))));
        }
        self.unlisted = self.waiting.keys().cloned().collect();
    }

    /// True if nothing is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.synced
    }

    /// Returns the next piece of news, chosen at random; `None` if there is none.
    pub(crate) fn deliver(&mut self, rng: &mut Rng) -> Option<Event> {
        if self.unlisted.is_empty() && !self.synced {
            self.synced = true;
            return Some(Event::Synced);
        }
        if self.synced && rng.chance(4) {
            let again = rng.below(self.delivered.len());
            if let Some(event) = self.delivered.values().nth(again) {
                return Some(event.clone());
            }
        }
        let stream = self.waiting.keys().nth(rng.below(self.waiting.len()))?.clone();
        let queue = self.waiting.get_mut(&stream)?;
        while queue.len() > 1 && rng.chance(30) && skippable(&queue[0], &queue[1]) {
            queue.pop_front();
        }
        let event = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&stream);
        }
        self.unlisted.remove(&stream);
        if self.delivered.len() > REMEMBERED_MAX {
            self.delivered.pop_first();
        }
        self.delivered.insert(stream, event.clone());
        Some(event)
    }
}

/// True if a state may be left out because a later state of the same object is already there.
fn skippable(first: &Event, second: &Event) -> bool {
    match (first, second) {
        (Event::ClockOffset(_), Event::ClockOffset(_)) => true,
        (Event::Node(a), Event::Node(b)) => a.uid == b.uid,
        (Event::Pod(a), Event::Pod(b)) => a.id.uid == b.id.uid,
        (Event::Controller(a), Event::Controller(b)) => a.id.uid == b.id.uid,
        (Event::FluxJob(a), Event::FluxJob(b)) => a.metadata.uid == b.metadata.uid,
        (Event::Queue(a), Event::Queue(b)) => a.uid == b.uid,
        (Event::PodGroup(a), Event::PodGroup(b)) => a.id.uid == b.id.uid,
        _ => false,
    }
}

fn stream_of(event: &Event) -> Option<Stream> {
    Some(match event {
        Event::Node(node) => Stream::Node(node.name.clone()),
        Event::NodeGone(name, _) => Stream::Node(name.clone()),
        Event::Pod(pod) => Stream::Pod(pod.id.key.clone()),
        Event::PodGone(id) => Stream::Pod(id.key.clone()),
        Event::Controller(controller) => Stream::Controller(controller.id.uid.clone()),
        Event::ControllerGone(uid) => Stream::Controller(uid.clone()),
        Event::FluxJob(job) => Stream::FluxJob(flux_job_key(job)),
        Event::FluxJobGone(id) => Stream::FluxJob(id.key.clone()),
        Event::PriorityClass(class) => Stream::PriorityClass(Arc::clone(&class.name)),
        Event::PriorityClassGone(name) => Stream::PriorityClass(Arc::clone(name)),
        Event::Queue(queue) => Stream::Queue(Arc::clone(&queue.name)),
        Event::QueueGone(name) => Stream::Queue(Arc::clone(name)),
        Event::Namespace(namespace) => Stream::Namespace(Arc::clone(&namespace.name)),
        Event::NamespaceGone(name) => Stream::Namespace(Arc::clone(name)),
        Event::ClockOffset(_) => Stream::Clock,
        Event::PodGroup(group) => Stream::PodGroup(group.id.key.clone()),
        Event::PodGroupGone(id) => Stream::PodGroup(id.key.clone()),
        // The simulation has no storage, no DeviceClasses, no quotas and no Workloads.
        Event::Storage(_)
        | Event::PodGroupsHidden(_)
        | Event::Workload(_)
        | Event::WorkloadGone(_)
        | Event::DeviceClass(_)
        | Event::DeviceClassGone(_)
        | Event::Quota(_)
        | Event::QuotaGone(_)
        | Event::Synced
        | Event::Done(..) => return None,
    })
}
