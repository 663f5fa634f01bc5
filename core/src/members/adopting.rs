//! Records that a new job finds, and records without a job.

use std::sync::Arc;

use fluxqueue_api::{ConditionType, FluxJob, Overrides, WorkloadKind, names, text};

use crate::jobs::grouping;
use crate::jobs::grouping::Belonging;
use crate::jobs::job::{Identity, Style};
use crate::members::attaching::completion_of;
use crate::parts::Members;
use crate::recording::UNSEEN_MILLIS;
use crate::records::reference;
use crate::records::stored::Stored;
use crate::records::times::time_of;
use crate::recovery::{ended_as, version_of};
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{Controller, ObjectKey, OwnerKind};

impl Members<'_> {
    /// Takes up the FluxJob of this name, if there is one.
    pub(crate) fn adopt_record(&mut self, id: JobId, key: &ObjectKey) -> Sound {
        let Some(object) = self.records.get(key).cloned() else { return Ok(()) };
        let job = self.jobs.all.known_mut(&id)?;
        if object.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
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
        let Some(status) = &object.status else { return Ok(()) };
        let job = self.jobs.all.known_mut(&id)?;
        job.pod_priority =
            job.pod_priority.or(status.workload.as_ref().and_then(|workload| workload.priority));
        job.seats.note_on_record(!status.placement.is_empty());
        job.queued_at = job.queued_at.or(place);
        job.is_late_entrant |= status.queued_at.is_some() && job.style != Style::Elastic;
        job.ended_as = ended_as(status);
        job.completed_at = status.completion_time.as_ref().map(time_of);
        job.started_at = status.start_time.as_ref().map(time_of).or(job.started_at);
        job.seats.placed_by(status.epoch);
        if job.ended_as.is_some() {
            // After the end, the number on record is the only one.
            job.start_size = usize::try_from(status.total).unwrap_or(0);
        }
        if matches!(job.identity, Identity::Group(_)) && status.placement.is_empty() {
            // The start size of a group is not computed while its pods are refused.
            job.start_size = usize::try_from(status.total).unwrap_or(0);
        }
        for condition in &status.conditions {
            if let Some(warning) =
                ConditionType::from_name(&condition.type_).filter(|type_| type_.is_warning())
            {
                job.warnings.insert(warning, text::message(&condition.message).into_owned());
            }
        }
        Ok(())
    }

    /// Arranges the removal of a record without a job. A record without an owner is removed by
    /// Fluxqueue: at once if its job never ended, else when its time is over. The same holds for
    /// the record of a pod that is a part of another job by now. Other records go with their
    /// owners. FluxJobs that users made themselves stay.
    pub(crate) fn consider_stray(&mut self, key: &ObjectKey) -> Sound {
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
            None if owned && !self.is_of_a_part(object) => return self.adopt_memberless(key),
            // The watch may show a FluxJob a little earlier than its pods.
            _ => self.clock.now.plus_millis(UNSEEN_MILLIS),
        };
        self.agenda.timers.wake(Timer::Stray(key.clone()), due.max(self.clock.now.plus_millis(1)));
        Ok(())
    }

    /// Makes the job for a FluxJob of an object that has no pods now: the record is to state the
    /// object's end all the same.
    fn adopt_memberless(&mut self, key: &ObjectKey) -> Sound {
        let Some(object) = self.records.get(key).cloned() else { return Ok(()) };
        let workload = &object.spec.workload_ref;
        let is_workload = |made_by: &&Arc<Controller>| {
            grouping::workload_kind(&made_by.kind) == Some(workload.kind)
                && *made_by.id.key.name == *workload.name
        };
        let made_by = self.jobs.controllers.get(&key.namespace, &workload.uid).filter(is_workload);
        let Some(made_by) = made_by else { return Ok(()) };
        let style = if made_by.kind == OwnerKind::Job { Style::Gang } else { Style::Elastic };
        let belonging = Belonging {
            identity: Identity::Controller(Arc::clone(&key.namespace), made_by.id.uid.clone()),
            kind: object.spec.workload_ref.kind,
            style,
            name: Arc::clone(&made_by.id.key.name),
            uid: made_by.id.uid.clone(),
        };
        let Some(reporter) = self.settings.scheduler_names.first().cloned() else { return Ok(()) };
        if self.jobs.index.by_identity.contains_key(&belonging.identity) {
            return Ok(());
        }
        let owners = object.metadata.owner_references.clone().unwrap_or_default();
        let id = self.new_job(&belonging, key.clone(), owners, reporter);
        self.slots().restore_placement(id)?;
        self.agenda.touched.insert(id);
        Ok(())
    }

    /// True if the record is of a pod that counted as a lone pod and still exists: with the pods of
    /// its controller or of its group, or without a known job.
    fn is_of_a_part(&self, object: &FluxJob) -> bool {
        let pod = &*object.spec.workload_ref.uid;
        let is_of_pod = object.spec.workload_ref.kind == WorkloadKind::Pod;
        is_of_pod
            && (self.jobs.members.contains_key(pod) || self.intake.awaiting_owner.contains(pod))
    }
}

impl Members<'_> {
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
            class.and_then(|class| self.jobs.priority_classes.value(class));
        self.agenda.touched.insert(id);
        Ok(())
    }
}
