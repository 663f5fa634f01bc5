//! Hides one pod of a gang from the core, from the moment at which the core has a place for the
//! whole gang.
//!
//! A gang that does not fit, or that is never complete, breaks other rules first: it would be
//! called Unsatisfiable, or not be recorded. So the core may find a place first. Then one of the
//! pods is mislaid, and the gang waits for it for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::{FluxJob, WorkloadKind};
use fluxqueue_core::{ActionKind, Event, Write};
use fluxqueue_workload::{ObjectKey, ObjectRef, Pod, Uid};

use crate::server::flux_job_key;

/// A pod of a group, and the size that it states.
type Member = (ObjectRef, Option<u32>);

/// The known gangs, with the mislaid pod of each.
#[derive(Default)]
pub(super) struct Mislaying {
    /// Waiting pods of groups, by the name of the group.
    waiting: BTreeMap<Arc<str>, BTreeMap<Uid, Member>>,
    /// The groups that FluxJobs stand for.
    recorded: BTreeMap<ObjectKey, Arc<str>>,
    mislaid: BTreeSet<Uid>,
}

impl Mislaying {
    /// Takes note of an event. True if the core must not see it.
    pub(super) fn hides(&mut self, event: &Event) -> bool {
        match event {
            Event::Pod(pod) => self.hides_pod(pod),
            Event::FluxJob(job) => {
                self.note_record(job);
                false
            }
            _ => false,
        }
    }

    fn hides_pod(&mut self, pod: &Pod) -> bool {
        let Some(group) = &pod.group else { return false };
        let waiting = self.waiting.entry(Arc::clone(&group.name)).or_default();
        if pod.node.is_none() && !pod.phase.is_terminal() && !pod.deleting {
            waiting.insert(pod.id.uid.clone(), (pod.id.clone(), group.size.clone().ok()));
            return self.mislaid.contains(&pod.id.uid);
        }
        waiting.remove(&pod.id.uid);
        self.mislaid.remove(&pod.id.uid);
        false
    }

    fn note_record(&mut self, job: &FluxJob) {
        let of = &job.spec.workload_ref;
        if of.kind == WorkloadKind::Group {
            self.recorded.insert(flux_job_key(job), Arc::from(of.name.as_str()));
        }
    }

    /// Returns the pod to mislay now, if this write is the placement of a gang of several shapes
    /// that has not begun.
    pub(super) fn mislay(&mut self, write: &ActionKind) -> Option<ObjectRef> {
        let ActionKind::Write(Write::WriteStatus { job, status, .. }) = write else { return None };
        let sets: BTreeSet<&String> = status.placement.iter().map(|range| &range.pod_set).collect();
        if sets.len() < 2 || status.start_time.is_some() {
            return None;
        }
        let waiting = self.waiting.get(self.recorded.get(&job.key)?)?;
        // Without one of them the gang must not start.
        if waiting.values().any(|(_, size)| size.map(|size| size as usize) != Some(waiting.len())) {
            return None;
        }
        let (uid, (pod, _)) = waiting.first_key_value()?;
        self.mislaid.insert(uid.clone());
        Some(pod.clone())
    }
}
