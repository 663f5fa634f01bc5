//! Records without a job: they are adopted by a job that can have them, or removed.

use std::sync::Arc;

use fluxqueue_api::{FluxJob, names};

use crate::jobs::grouping;
use crate::jobs::grouping::Belonging;
use crate::parts::Members;
use crate::records::stored::{UNSEEN_MILLIS, completion_of};
use crate::sound::Sound;
use crate::timers::Timer;
use fluxqueue_workload::{ObjectKey, ObjectRef};

impl Members<'_> {
    /// Arranges the removal of a record without a job. A record without an owner is removed by
    /// Fluxqueue: at once if its job never ended, else when its time is over. The same holds for
    /// the record of a pod that is a part of another job by now. Other records go with their
    /// owners. FluxJobs that users made themselves stay.
    pub(crate) fn consider_stray(&mut self, key: &ObjectKey) -> Sound {
        // The watch has not shown the record yet, or the record is gone.
        let Some(object) = self.records.get(key) else { return Ok(()) };
        let (label, value) = names::MANAGED_BY;
        let ours = object
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(label))
            .is_some_and(|by| by == value);
        if !ours {
            return Ok(());
        }
        let ended = completion_of(object);
        let owned =
            object.metadata.owner_references.as_ref().is_some_and(|owners| !owners.is_empty());
        let due = match ended {
            Some(at) if owned => self.sight().record_due(at),
            None if owned && !self.is_of_a_part(object) => {
                let object = Arc::clone(object);
                return self.adopt_memberless(key, &object);
            }
            // The watch may show a FluxJob a little earlier than its pods.
            _ => self.clock.now.plus_millis(UNSEEN_MILLIS),
        };
        self.agenda.timers.wake(Timer::Stray(key.clone()), due.max(self.clock.now.plus_millis(1)));
        Ok(())
    }

    /// Makes the job for a FluxJob of an object that has no pods now: the record is to state the
    /// object's end all the same.
    fn adopt_memberless(&mut self, key: &ObjectKey, object: &FluxJob) -> Sound {
        let workload = &object.spec.workload_ref;
        let made_by = self.jobs.controllers.get(&key.namespace, &workload.uid);
        let belonging = made_by.and_then(|made_by| {
            let ObjectRef { key: named, uid } = &made_by.id;
            grouping::of_maker(&key.namespace, &made_by.kind, &named.name, uid)
        });
        let is_workload = |it: &Belonging| it.kind == workload.kind && *it.name == *workload.name;
        // The API server removes the record with its owner, which is gone or was never there.
        let Some(belonging) = belonging.filter(is_workload) else { return Ok(()) };
        if self.jobs.index.by_identity.contains_key(&belonging.identity) {
            return Ok(());
        }
        let owners = object.metadata.owner_references.clone().unwrap_or_default();
        let id = self.new_job(&belonging, key.clone(), owners, self.settings.reporter());
        self.slots().restore_placement(id)?;
        self.agenda.touched.insert(id);
        Ok(())
    }
}
