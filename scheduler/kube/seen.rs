//! The objects of one kind that have been received, from which the core gets only changes.
//!
//! This is pure: it takes the watch's events, and returns the core's. It turns a relist into the
//! difference from the known objects, notices that a name has passed on to another object, drops
//! changes of fields that the core does not know, and paces edits.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use fluxqueue_api::FluxJob;

use fluxqueue_core::Event;
use fluxqueue_machine::cluster::Node;
use fluxqueue_planner::queues::{Namespace, QueueObject};
use fluxqueue_workload::device_class::DeviceClass;
use fluxqueue_workload::{
    Controller, ObjectKey, ObjectRef, Pod, PriorityClass, Quota, SuspensionPhase, Time,
};
use tokio::time::Instant;

use super::edits::Edits;

/// A value of the core that stands for a Kubernetes object.
pub trait Known: PartialEq + Send + Sync + 'static {
    /// Returns namespace and name; the namespace is empty for a node.
    fn key(&self) -> ObjectKey;
    /// Returns the object's uid.
    fn uid(&self) -> &str;
    /// Returns the event that the object exists, in this form.
    fn there(self: Arc<Self>) -> Event;
    /// Returns the event that the object is gone.
    fn gone(&self) -> Event;
    /// True if the changes since `known` are all in fields that the author of the object may write,
    /// as often as the author likes, and one of them is in a field that the core reads. Such
    /// changes are paced. Changes by a server report how the object fares, and are passed on at
    /// once; so is a new version alone, since writes are decided on it.
    fn is_edit_of(&self, known: &Self) -> bool;
}

/// All objects of one kind, by name.
#[derive(Debug)]
pub struct Seen<T> {
    known: HashMap<ObjectKey, Arc<T>>,
    /// The names that a list under way has shown so far.
    listed: Option<HashSet<ObjectKey>>,
    edits: Edits<T>,
}

// === impl Seen ===

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Seen { known: HashMap::new(), listed: None, edits: Edits::default() }
    }
}

impl<T: Known> Seen<T> {
    /// Begins a list. The names of an earlier list that did not end are forgotten: this list shows
    /// everything again.
    pub fn list_begins(&mut self) {
        self.listed = Some(HashSet::new());
    }

    /// Takes in an object, listed or changed.
    pub fn apply(&mut self, value: T, now: Instant, events: &mut Vec<Event>) {
        let key = value.key();
        self.mark(&key);
        match self.known.get_mut(&key) {
            Some(known) if **known == value => self.edits.drop_held(&key),
            Some(known) if known.uid() == value.uid() && value.is_edit_of(known) => {
                if let Some(value) = self.edits.pace(&key, value, now) {
                    *known = Arc::new(value);
                    events.push(Arc::clone(known).there());
                }
            }
            Some(known) => {
                self.edits.drop_held(&key);
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

    /// Returns when an edit may be due.
    pub fn next_due(&self) -> Option<Instant> {
        self.edits.next_end()
    }

    /// Passes on the edits that are due.
    pub fn tell_due(&mut self, now: Instant, events: &mut Vec<Event>) {
        for (key, value) in self.edits.take_due(now) {
            let value = Arc::new(value);
            self.known.insert(key, Arc::clone(&value));
            events.push(value.there());
        }
    }

    /// Notes an object that exists but cannot be understood: its last known value, if any, stays.
    pub fn mark(&mut self, key: &ObjectKey) {
        if let Some(listed) = &mut self.listed {
            listed.insert(key.clone());
        }
    }

    /// Takes in the deletion of an object. News of an object that comes late says nothing about a
    /// successor of the same name.
    pub fn delete(&mut self, key: &ObjectKey, uid: &str, events: &mut Vec<Event>) {
        if self.known.get(key).is_some_and(|known| known.uid() == uid)
            && let Some(known) = self.known.remove(key)
        {
            self.edits.drop_held(key);
            events.push(known.gone());
        }
    }

    /// Ends a list: objects that it did not show are gone.
    pub fn list_ends(&mut self, events: &mut Vec<Event>) {
        let listed = self.listed.take().unwrap_or_default();
        self.known.retain(|key, known| {
            let there = listed.contains(key);
            if !there {
                self.edits.drop_held(key);
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
    /// Only administrators and controllers write it.
    fn is_edit_of(&self, _known: &Self) -> bool {
        false
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
    fn is_edit_of(&self, known: &Self) -> bool {
        let is_as_served = self.node == known.node
            && self.nominated == known.nominated
            && self.phase == known.phase
            && self.deleting == known.deleting
            && self.gates == known.gates
            && self.started == known.started
            && self.ended == known.ended
            && self.scheduled_condition == known.scheduled_condition;
        let unversioned = |pod: &Pod| Pod { resource_version: None, ..pod.clone() };
        is_as_served && unversioned(self) != unversioned(known)
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
    fn is_edit_of(&self, known: &Self) -> bool {
        let is_as_served = self.deleting == known.deleting
            && self.finished == known.finished
            && self.failed == known.failed
            && self.succeeded == known.succeeded
            && released_at(self) == released_at(known);
        is_as_served && unversioned(self) != unversioned(known)
    }
}

fn released_at(controller: &Controller) -> Option<Time> {
    match controller.suspension.as_ref()?.phase {
        SuspensionPhase::Released { at } => Some(at),
        SuspensionPhase::Marked { .. } => None,
    }
}

fn unversioned(controller: &Controller) -> Controller {
    let mut controller = controller.clone();
    if let Some(SuspensionPhase::Marked { resource_version, .. }) =
        controller.suspension.as_mut().map(|it| &mut it.phase)
    {
        *resource_version = None;
    }
    controller
}

impl Known for FluxJob {
    fn key(&self) -> ObjectKey {
        let metadata = &self.metadata;
        ObjectKey::new(
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        )
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
    fn is_edit_of(&self, known: &Self) -> bool {
        self.status == known.status
            && self.metadata.deletion_timestamp == known.metadata.deletion_timestamp
            && self.spec != known.spec
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
    /// Only administrators and controllers write it.
    fn is_edit_of(&self, _known: &Self) -> bool {
        false
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
    /// Only administrators and controllers write it.
    fn is_edit_of(&self, _known: &Self) -> bool {
        false
    }
}

impl Known for Quota {
    fn key(&self) -> ObjectKey {
        self.id.key.clone()
    }
    fn uid(&self) -> &str {
        &self.id.uid
    }
    fn there(self: Arc<Self>) -> Event {
        Event::Quota(self)
    }
    fn gone(&self) -> Event {
        Event::QuotaGone(self.id.clone())
    }
    /// The remainder of a quota changes with each pod that an author makes.
    fn is_edit_of(&self, _known: &Self) -> bool {
        true
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
    /// Only administrators and controllers write it.
    fn is_edit_of(&self, _known: &Self) -> bool {
        false
    }
}

impl Known for DeviceClass {
    fn key(&self) -> ObjectKey {
        ObjectKey::new("", &*self.name)
    }
    fn uid(&self) -> &str {
        &self.uid
    }
    fn there(self: Arc<Self>) -> Event {
        Event::DeviceClass(self)
    }
    fn gone(&self) -> Event {
        Event::DeviceClassGone(Arc::clone(&self.name))
    }
    /// Only administrators and their operators write it.
    fn is_edit_of(&self, _known: &Self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluxqueue_machine::cluster::Readiness;
    use fluxqueue_workload::ShapeInterner;

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

    /// Shows events as short texts: `+name/uid` and `-name/uid`.
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
        seen.apply(node("a", "1", false), Instant::now(), &mut events);
        seen.apply(node("a", "1", false), Instant::now(), &mut events);
        assert_eq!(told(&mut events), ["+a/1"]);
        seen.apply(node("a", "1", true), Instant::now(), &mut events);
        assert_eq!(told(&mut events), ["+a/1"]);
    }

    #[test]
    fn a_relist_reports_objects_that_vanished() {
        let (mut seen, mut events) = (Seen::default(), Vec::new());
        for name in ["a", "b", "c"] {
            seen.apply(node(name, "1", false), Instant::now(), &mut events);
        }
        told(&mut events);
        // From a list that breaks off no absence can be concluded.
        seen.list_begins();
        seen.apply(node("a", "1", false), Instant::now(), &mut events);
        seen.list_begins();
        seen.apply(node("b", "1", false), Instant::now(), &mut events);
        // An object that cannot be understood any more still exists.
        seen.mark(&ObjectKey::new("", "c"));
        seen.list_ends(&mut events);
        assert_eq!(told(&mut events), ["-a/1"]);
    }

    #[test]
    fn a_name_that_passed_on_ends_the_old_object_first() {
        let (mut seen, mut events) = (Seen::default(), Vec::new());
        seen.apply(node("a", "1", false), Instant::now(), &mut events);
        seen.apply(node("a", "2", false), Instant::now(), &mut events);
        assert_eq!(told(&mut events), ["+a/1", "-a/1", "+a/2"]);
        seen.delete(&ObjectKey::new("", "a"), "1", &mut events);
        assert_eq!(told(&mut events), Vec::<String>::new());
        seen.delete(&ObjectKey::new("", "a"), "2", &mut events);
        assert_eq!(told(&mut events), ["-a/2"]);
    }
    /// Makes a pod that waits, with changes to it.
    fn pod(changes: &[serde_json::Value]) -> Pod {
        let mut object = serde_json::json!({
            "metadata": {
                "name": "p", "namespace": "ns", "uid": "1", "resourceVersion": "1",
                "labels": {"app": "a"},
            },
            "spec": {
                "containers": [{"name": "c", "image": "i"}], "schedulingGates": [{"name": "g"}],
            },
            "status": {"phase": "Pending"},
        });
        for change in changes {
            json_patch::merge(&mut object, change);
        }
        let object = serde_json::from_value(object).expect("a pod");
        Pod::from_kubernetes(&object, &mut ShapeInterner::default()).expect("it has a name")
    }

    /// Shows labels and phases in events about pods.
    fn told_of_pods(events: &mut Vec<Event>) -> Vec<String> {
        let name = |event| match event {
            Event::Pod(pod) => format!("{:?} {:?}", pod.labels[0].1, pod.phase),
            Event::PodGone(id) => format!("-{}", id.uid),
            other => panic!("unexpected {other:?}"),
        };
        events.drain(..).map(name).collect()
    }

    fn labelled(value: &str) -> serde_json::Value {
        serde_json::json!({"metadata": {"labels": {"app": value}, "resourceVersion": value}})
    }

    #[test]
    fn one_edit_a_second_is_told_and_of_those_between_the_last_one() {
        let (mut seen, mut events, begin) = (Seen::default(), Vec::new(), Instant::now());
        let at = |millis| begin + std::time::Duration::from_millis(millis);
        seen.apply(pod(&[]), at(0), &mut events);
        for (millis, value) in [(0, "b"), (50, "c"), (100, "d"), (999, "e")] {
            seen.apply(pod(&[labelled(value)]), at(millis), &mut events);
            seen.tell_due(at(millis), &mut events);
        }
        assert_eq!(
            told_of_pods(&mut events),
            [r#""a" Pending"#, r#""b" Pending"#],
            "new, and the first edit"
        );
        assert_eq!(seen.next_due(), Some(at(1000)));
        seen.tell_due(at(1000), &mut events);
        assert_eq!(told_of_pods(&mut events), [r#""e" Pending"#]);
        // The last edit that was passed on starts another second; and an edit that is taken back
        // never counts.
        seen.apply(pod(&[labelled("f")]), at(1500), &mut events);
        seen.apply(pod(&[labelled("e")]), at(1600), &mut events);
        seen.tell_due(at(2000), &mut events);
        assert_eq!((told_of_pods(&mut events), seen.next_due()), (Vec::new(), None));
    }

    #[test]
    fn changes_by_a_server_are_passed_on_at_once_with_earlier_edits() {
        let runs = serde_json::json!({"status": {"phase": "Running"}});
        let (mut seen, mut events, now) = (Seen::default(), Vec::new(), Instant::now());
        seen.apply(pod(&[]), now, &mut events);
        seen.apply(pod(&[labelled("b")]), now, &mut events);
        seen.apply(pod(&[labelled("c")]), now, &mut events);
        seen.apply(pod(&[labelled("c"), runs.clone()]), now, &mut events);
        assert_eq!(told_of_pods(&mut events)[2..], [r#""c" Running"#]);
        // A held edit is passed on only once, and not at all if the pod is gone.
        seen.tell_due(now + super::super::edits::PERIOD, &mut events);
        seen.apply(pod(&[labelled("d"), runs.clone()]), now, &mut events);
        seen.apply(pod(&[labelled("e"), runs]), now, &mut events);
        seen.delete(&ObjectKey::new("ns", "p"), "1", &mut events);
        seen.tell_due(now + 3 * super::super::edits::PERIOD, &mut events);
        assert_eq!(told_of_pods(&mut events), [r#""d" Running"#, "-1"]);
    }

    #[test]
    fn edits_are_changes_that_an_author_may_repeat() {
        let edits = [
            r#"{"metadata": {"labels": {"app": "b"}}}"#,
            r#"{"metadata": {"labels": {"fluxqueue/queue": "other"}}}"#,
            r#"{"metadata": {"annotations": {"fluxqueue/walltime": "1h"}}}"#,
            r#"{"metadata": {"annotations": {"fluxqueue/exclusive": "true"}}}"#,
            r#"{"metadata": {"ownerReferences": [
                {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "2", "controller": true}
            ]}}"#,
            r#"{"spec": {"tolerations": [{"operator": "Exists"}]}}"#,
            r#"{"spec": {"containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
            ]}}"#,
        ];
        let not_edits = [
            "{}",
            r#"{"metadata": {"resourceVersion": "2"}}"#,
            r#"{"metadata": {"annotations": {"anything": "else"}, "resourceVersion": "2"}}"#,
            r#"{"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}"#,
            r#"{"spec": {"nodeName": "n"}}"#,
            r#"{"spec": {"schedulingGates": []}}"#,
            r#"{"status": {"phase": "Failed"}}"#,
            r#"{"status": {"nominatedNodeName": "n"}}"#,
            r#"{"status": {"startTime": "2026-01-01T00:00:00Z"}}"#,
            r#"{"status": {"conditions": [
                {"type": "PodScheduled", "status": "False", "message": "m"}
            ]}}"#,
        ];
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        let is_edit = |text: &&&str| pod(&[parse(text)]).is_edit_of(&pod(&[]));
        assert_eq!(
            edits.iter().filter(is_edit).count(),
            edits.len(),
            "{:?}",
            edits.iter().find(|text| !is_edit(text))
        );
        assert_eq!(not_edits.iter().find(is_edit), None);
        // A change of both parts is no edit: the server's part is passed on at once.
        let both = pod(&[parse(edits[0]), parse(not_edits[6])]);
        assert!(!both.is_edit_of(&pod(&[])));
    }
}
