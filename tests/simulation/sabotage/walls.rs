//! What a saboteur does to the walls between namespaces: what happens in one counts in another.

use std::collections::BTreeSet;
use std::sync::Arc;

use fluxqueue_core::{BindOutcome, Event, Outcome, WriteOutcome};
use fluxqueue_workload::{Pod, Uid};

/// What is known of all namespaces.
#[derive(Default)]
pub(super) struct Walls {
    /// Pods that are refused.
    refused: BTreeSet<Uid>,
    /// A write has failed since the last time that all went well.
    pub(super) has_failed: bool,
}

impl Walls {
    /// Takes note of an event.
    pub(super) fn note(&mut self, event: &Event) {
        match event {
            Event::Done(
                _,
                Outcome::Write(WriteOutcome::Failed(_) | WriteOutcome::Refused(_) | WriteOutcome::Invalid(_)),
            ) => {
                self.has_failed = true;
            }
            Event::Done(_, Outcome::Bind(BindOutcome::Bound)) => self.has_failed = false,
            Event::Pod(pod) if !pod.unsupported.is_empty() => {
                self.refused.insert(pod.id.uid.clone());
            }
            _ => {}
        }
    }

    /// The pod as the core is to see it: after every other refused object, what comes in has a lower priority.
    pub(super) fn falsify(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        let is_lower = pod.node.is_none() && self.refused.len() % 2 == 1;
        Arc::new(Pod { priority: pod.priority - i32::from(is_lower), ..Pod::clone(pod) })
    }
}
