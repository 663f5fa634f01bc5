//! A saboteur of the walls between namespaces: an event in one counts in another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_core::{ActionKind, BindOutcome, Event, Outcome, Write, WriteOutcome};
use fluxqueue_workload::{ObjectKey, Pod, Uid};

/// The known objects of all namespaces.
#[derive(Default)]
pub(super) struct Walls {
    /// Refused pods.
    refused: BTreeSet<Uid>,
    /// True if a write has failed since the last time that all writes succeeded.
    pub(super) has_failed: bool,
    /// The namespaces of objects that make pods.
    makers: BTreeMap<Uid, Arc<str>>,
    /// The true names of pods that are shown in the namespaces of their owners.
    moved: BTreeMap<Uid, ObjectKey>,
    /// Pods of groups, by namespace and name of the group.
    groups: BTreeMap<ObjectKey, BTreeMap<Uid, Arc<Pod>>>,
}

impl Walls {
    /// Takes note of an event.
    pub(super) fn note(&mut self, event: &Event) {
        match event {
            Event::Done(
                _,
                Outcome::Write(
                    WriteOutcome::Failed(_) | WriteOutcome::Refused(_) | WriteOutcome::Invalid(_),
                ),
            ) => {
                self.has_failed = true;
            }
            Event::Done(_, Outcome::Bind(BindOutcome::Bound)) => self.has_failed = false,
            Event::Pod(pod) if !pod.unsupported.is_empty() => {
                self.refused.insert(pod.id.uid.clone());
            }
            Event::Controller(made_by) => {
                self.makers.insert(made_by.id.uid.clone(), Arc::clone(&made_by.id.key.namespace));
            }
            _ => {}
        }
    }

    /// Returns the pod as the core sees it: after every other refused object, arriving pods have a
    /// lower priority.
    pub(super) fn falsify(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        let is_lower = pod.node.is_none() && self.refused.len() % 2 == 1;
        Arc::new(Pod { priority: pod.priority - i32::from(is_lower), ..Pod::clone(pod) })
    }

    /// Returns an event of a pod as the core sees it: in the namespace of the object that the pod
    /// names as its owner.
    pub(super) fn move_to_owner(&mut self, event: Event) -> Event {
        match event {
            Event::Pod(pod) => {
                let owner = pod.owner.as_ref().and_then(|owner| self.makers.get(&owner.uid));
                let Some(namespace) = owner.filter(|namespace| **namespace != pod.id.key.namespace)
                else {
                    return Event::Pod(pod);
                };
                let mut moved = Pod::clone(&pod);
                moved.id.key = ObjectKey::new(Arc::clone(namespace), &*pod.id.key.name);
                self.moved.insert(pod.id.uid.clone(), pod.id.key.clone());
                Event::Pod(Arc::new(moved))
            }
            Event::PodGone(mut id) => {
                if self.moved.remove(&id.uid).is_some() {
                    let namespace =
                        self.makers.values().find(|namespace| **namespace != id.key.namespace);
                    id.key = ObjectKey::new(namespace.cloned().unwrap_or_default(), &*id.key.name);
                }
                Event::PodGone(id)
            }
            event => event,
        }
    }

    /// Redirects an action on a pod that was shown elsewhere to the pod itself.
    pub(super) fn move_back(&self, kind: &mut ActionKind) {
        let (ActionKind::Bind { pod, .. }
        | ActionKind::Write(
            Write::Ungate { pod, .. }
            | Write::SetPodScheduled { pod, .. }
            | Write::Nominate { pod, .. },
        )) = kind
        else {
            return;
        };
        if let Some(key) = self.moved.get(&pod.uid) {
            pod.key = key.clone();
        }
    }

    /// Returns the pods of a group as the core sees them after an event of one: all with the
    /// highest priority among them.
    pub(super) fn raise(&mut self, pod: &Arc<Pod>) -> Vec<Arc<Pod>> {
        let Some(group) = &pod.group else { return vec![Arc::clone(pod)] };
        let key = ObjectKey::new(Arc::clone(&pod.id.key.namespace), &*group.name);
        let members = self.groups.entry(key).or_default();
        members.insert(pod.id.uid.clone(), Arc::clone(pod));
        let priority = members.values().map(|pod| pod.priority).max().unwrap_or(pod.priority);
        let waiting =
            members.values().filter(|member| member.node.is_none() || member.id == pod.id);
        waiting.map(|pod| Arc::new(Pod { priority, ..Pod::clone(pod) })).collect()
    }

    /// Forgets a deleted pod.
    pub(super) fn forget(&mut self, uid: &Uid) {
        self.groups.values_mut().for_each(|members| drop(members.remove(uid)));
    }
}

/// Returns a refused Binding as if it had no answer.
pub(super) fn unanswered(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Bind(BindOutcome::Refused(text)) => Outcome::Bind(BindOutcome::Failed(text)),
        outcome => outcome,
    }
}
