//! Records that a new job finds, and records without a job.

use fluxqueue_api::{ConditionType, FluxJob, Overrides, WorkloadKind, text};

use crate::jobs::job::Style;
use crate::jobs::lifecycle::End;
use crate::parts::Members;
use crate::records::reference;
use crate::records::stored::{Stored, version_of};
use crate::records::times::time_of;
use crate::sound::{Lookup, Sound};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::ObjectKey;

impl Members<'_> {
    /// Takes up the FluxJob of this name, if there is one.
    pub(crate) fn adopt_record(&mut self, id: JobId, key: &ObjectKey) -> Sound {
        // A job that is new to the cluster has no FluxJob yet.
        let Some(object) = self.records.get(key).cloned() else { return Ok(()) };
        let job = self.jobs.all.known_mut(&id)?;
        if object.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        // An object without a uid is not from an API server, and is no record.
        let Some(reference) = reference(&object) else { return Ok(()) };
        job.record.stored = match self.records.removal(&reference) {
            Some(action) => {
                Stored::Deleting { uid: reference.uid, action, based_on: version_of(&object) }
            }
            None => Stored::Present { uid: reference.uid },
        };
        job.record.observe(&object);
        self.heed_wishes(id, &object.spec.overrides)?;
        let place = self.jobs.place_on_record(id, &object, self.clock);
        // A FluxJob without a status says nothing about its job yet.
        let Some(status) = &object.status else { return Ok(()) };
        let job = self.jobs.all.known_mut(&id)?;
        job.pods.priority =
            job.pods.priority.or(status.workload.as_ref().and_then(|workload| workload.priority));
        job.start.seats.note_on_record(!status.placement.is_empty());
        job.waiting.since = job.waiting.since.or(place);
        job.waiting.is_late_entrant |= status.queued_at.is_some() && job.style != Style::Elastic;
        job.record.seen.end = End::on_record(status);
        job.start.at = status.start_time.as_ref().map(time_of).or(job.start.at);
        job.start.seats.placed_by(status.epoch);
        if job.record.seen.end.is_some() {
            // After the end, the number on record is the only one.
            job.start.size = usize::try_from(status.total).unwrap_or(0);
        }
        if job.workload.identity.is_group() && status.placement.is_empty() {
            // The start size of a group is not computed while its pods are refused.
            job.start.size = usize::try_from(status.total).unwrap_or(0);
        }
        for condition in &status.conditions {
            if let Some(warning) =
                ConditionType::from_name(&condition.type_).filter(|type_| type_.is_warning())
            {
                job.told.warnings.insert(warning, text::message(&condition.message).into_owned());
            }
        }
        Ok(())
    }

    /// True if the record is of a pod that counted as a lone pod and still exists: with the pods of
    /// its controller or of its group, or without a known job.
    pub(crate) fn is_of_a_part(&self, object: &FluxJob) -> bool {
        let pod = &*object.spec.workload_ref.uid;
        let is_of_pod = object.spec.workload_ref.kind == WorkloadKind::Pod;
        is_of_pod
            && (self.jobs.members.contains_key(pod) || self.intake.awaiting_owner.contains(pod))
    }

    /// Takes up the wishes of users for a job.
    pub(crate) fn heed_wishes(&mut self, id: JobId, wishes: &Overrides) -> Sound {
        let job = self.jobs.all.known_mut(&id)?;
        let has_new_ends = job.record.overrides.walltime_seconds != wishes.walltime_seconds;
        job.record.overrides.clone_from(wishes);
        self.weigh_wish(id)?;
        if has_new_ends {
            self.slots().plan_ends_of(id)?;
        }
        Ok(())
    }

    pub(crate) fn weigh_wish(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known_mut(&id)?;
        let class = job.record.overrides.priority_class_name.as_deref();
        job.record.wished_priority =
            class.and_then(|class| self.jobs.classes.priorities.value(class));
        self.agenda.touched.insert(id);
        Ok(())
    }
}
