//! What has been received of one kind, so that the core is told changes and nothing else.
//!
//! Pure: fed with the watch's events, it answers with the core's. It turns a relist into the difference to what was known,
//! notices that a name has passed on to another object, and drops changes of fields that the core does not know.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use fluxqueue_api::FluxJob;

use fluxqueue_core::Event;
use fluxqueue_core::cluster::Node;
use fluxqueue_core::queues::{Namespace, QueueObject};
use fluxqueue_workload::{Controller, ObjectKey, ObjectRef, Pod, PriorityClass};

/// A value of the core that stands for a Kubernetes object.
pub trait Known: PartialEq + Send + Sync + 'static {
    /// Namespace and name; the namespace is empty for a node.
    fn key(&self) -> ObjectKey;
    /// The object's uid.
    fn uid(&self) -> &str;
    /// It is there, as it is now.
    fn there(self: Arc<Self>) -> Event;
    /// It is gone.
    fn gone(&self) -> Event;
}

/// All objects of one kind, by name.
#[derive(Debug)]
pub struct Seen<T> {
    known: HashMap<ObjectKey, Arc<T>>,
    /// During a list: the names that it has shown so far.
    listed: Option<HashSet<ObjectKey>>,
}

// === impl Seen ===

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Seen { known: HashMap::new(), listed: None }
    }
}

impl<T: Known> Seen<T> {
    /// A list begins. What an earlier list showed that did not end is forgotten: this one shows everything again.
    pub fn list_begins(&mut self) {
        self.listed = Some(HashSet::new());
    }

    /// An object is there, listed or changed.
    pub fn apply(&mut self, value: T, events: &mut Vec<Event>) {
        let key = value.key();
        self.mark(&key);
        match self.known.get_mut(&key) {
            Some(known) if **known == value => {}
            Some(known) => {
                if known.uid() != value.uid() {
                    events.push(known.gone());
                }
                *known = Arc::new(value);
                events.push(Arc::clone(known).there());
            }
            None => {
                let value = Arc::new(value);
                self.known.insert(key, Arc::clone(&value));
                events.push(value.there());
            }
        }
    }

    /// An object is there, but cannot be understood: what was known of it, if anything, stays.
    pub fn mark(&mut self, key: &ObjectKey) {
        if let Some(listed) = &mut self.listed {
            listed.insert(key.clone());
        }
    }

    /// An object was deleted. A late word about one whose name has passed on says nothing about its successor.
    pub fn delete(&mut self, key: &ObjectKey, uid: &str, events: &mut Vec<Event>) {
        if self.known.get(key).is_some_and(|known| known.uid() == uid)
            && let Some(known) = self.known.remove(key)
        {
            events.push(known.gone());
        }
    }

    /// A list has ended: what it did not show is gone.
    pub fn list_ends(&mut self, events: &mut Vec<Event>) {
        let listed = self.listed.take().unwrap_or_default();
        self.known.retain(|key, known| {
            let there = listed.contains(key);
            if !there {
                events.push(known.gone());
            }
            there
        });
    }
}

// === impl Known ===

impl Known for Node {
    fn key(&self) -> ObjectKey {
        ObjectKey::new("", &*self.name)
    }
    fn uid(&self) -> &str {
        &self.uid
    }
    fn there(self: Arc<Self>) -> Event {
        Event::Node(self)
    }
    fn gone(&self) -> Event {
        Event::NodeGone(self.name.clone(), self.uid.clone())
    }
}

impl Known for Pod {
    fn key(&self) -> ObjectKey {
        self.id.key.clone()
    }
    fn uid(&self) -> &str {
        &self.id.uid
    }
    fn there(self: Arc<Self>) -> Event {
        Event::Pod(self)
    }
    fn gone(&self) -> Event {
        Event::PodGone(self.id.clone())
    }
}

impl Known for Controller {
    fn key(&self) -> ObjectKey {
        self.id.key.clone()
    }
    fn uid(&self) -> &str {
        &self.id.uid
    }
    fn there(self: Arc<Self>) -> Event {
        Event::Controller(self)
    }
    fn gone(&self) -> Event {
        Event::ControllerGone(self.id.uid.clone())
    }
}

impl Known for FluxJob {
    fn key(&self) -> ObjectKey {
        let metadata = &self.metadata;
        ObjectKey::new(metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
    }
    fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }
    fn there(self: Arc<Self>) -> Event {
        Event::FluxJob(self)
    }
    fn gone(&self) -> Event {
        Event::FluxJobGone(ObjectRef { key: self.key(), uid: self.uid().into() })
    }
}

impl Known for QueueObject {
    fn key(&self) -> ObjectKey {
        ObjectKey::new("", &*self.name)
    }
    fn uid(&self) -> &str {
        &self.uid
    }
    fn there(self: Arc<Self>) -> Event {
        Event::Queue(self)
    }
    fn gone(&self) -> Event {
        Event::QueueGone(Arc::clone(&self.name))
    }
}

impl Known for Namespace {
    fn key(&self) -> ObjectKey {
        ObjectKey::new("", &*self.name)
    }
    fn uid(&self) -> &str {
        &self.uid
    }
    fn there(self: Arc<Self>) -> Event {
        Event::Namespace(self)
    }
    fn gone(&self) -> Event {
        Event::NamespaceGone(Arc::clone(&self.name))
    }
}

impl Known for PriorityClass {
    fn key(&self) -> ObjectKey {
        ObjectKey::new("", &*self.name)
    }
    fn uid(&self) -> &str {
        &self.uid
    }
    fn there(self: Arc<Self>) -> Event {
        Event::PriorityClass(self)
    }
    fn gone(&self) -> Event {
        Event::PriorityClassGone(Arc::clone(&self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluxqueue_core::cluster::Readiness;

    fn node(name: &str, uid: &str, unschedulable: bool) -> Node {
        Node {
            name: name.into(),
            uid: uid.into(),
            allocatable: [("cpu", 1000)].into_iter().collect(),
            labels: Vec::new(),
            taints: Vec::new(),
            unschedulable,
            readiness: Readiness::Ready,
            declared_features: Vec::new(),
        }
    }

    /// Events as short texts: `+name/uid` and `-name/uid`.
    fn told(events: &mut Vec<Event>) -> Vec<String> {
        events
            .drain(..)
            .map(|event| match event {
                Event::Node(node) => format!("+{}/{}", node.name, node.uid),
                Event::NodeGone(name, uid) => format!("-{name}/{uid}"),
                other => panic!("unexpected {other:?}"),
            })
            .collect()
    }

    #[test]
    fn only_changes_are_told() {
        let (mut seen, mut events) = (Seen::default(), Vec::new());
        seen.apply(node("a", "1", false), &mut events);
        seen.apply(node("a", "1", false), &mut events);
        assert_eq!(told(&mut events), ["+a/1"]);
        seen.apply(node("a", "1", true), &mut events);
        assert_eq!(told(&mut events), ["+a/1"]);
    }

    #[test]
    fn a_relist_tells_what_vanished() {
        let (mut seen, mut events) = (Seen::default(), Vec::new());
        for name in ["a", "b", "c"] {
            seen.apply(node(name, "1", false), &mut events);
        }
        told(&mut events);
        // A list that breaks off shows nothing by what it leaves out.
        seen.list_begins();
        seen.apply(node("a", "1", false), &mut events);
        seen.list_begins();
        seen.apply(node("b", "1", false), &mut events);
        // An object that cannot be understood any more is there all the same.
        seen.mark(&ObjectKey::new("", "c"));
        seen.list_ends(&mut events);
        assert_eq!(told(&mut events), ["-a/1"]);
    }

    #[test]
    fn a_name_that_passed_on_ends_the_old_object_first() {
        let (mut seen, mut events) = (Seen::default(), Vec::new());
        seen.apply(node("a", "1", false), &mut events);
        seen.apply(node("a", "2", false), &mut events);
        assert_eq!(told(&mut events), ["+a/1", "-a/1", "+a/2"]);
        seen.delete(&ObjectKey::new("", "a"), "1", &mut events);
        assert_eq!(told(&mut events), Vec::<String>::new());
        seen.delete(&ObjectKey::new("", "a"), "2", &mut events);
        assert_eq!(told(&mut events), ["-a/2"]);
    }
}
