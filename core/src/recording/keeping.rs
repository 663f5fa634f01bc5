//! Records of jobs that have ended: how long they are kept, and when a job is forgotten.

use fluxqueue_api::WorkloadKind;

use crate::action::Write;
use crate::in_flight::InFlight;
use crate::jobs::job::Job;
use crate::parts::Recording;
use crate::records::stored::Stored;
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{ObjectRef, Time};

impl Recording<'_> {
    // --- the end ---

    /// Returns the time until which the record of a job that has ended is kept.
    pub(crate) fn kept_until(&self, job: &Job) -> Time {
        self.sight().record_due(job.completed_at().unwrap_or(self.clock.wall_now()))
    }

    pub(crate) fn is_past_keeping(&self, job: &Job) -> bool {
        self.clock.now >= self.kept_until(job)
    }

    /// Cleans up after a job that has ended: its FluxJob is removed when its time is over, and the
    /// job is forgotten with its last pod.
    pub(crate) fn finalize(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let due = self.kept_until(job);
        // A group of bare pods has no owner that takes its FluxJob along; and the pods that waited
        // for a PodGroup may turn out to start one by one.
        let has_gone_elsewhere = job.workload.kind == WorkloadKind::PodGroup && job.was_left();
        let over = self.clock.now >= due
            || (job.pods.all.is_empty() && (job.workload.owners.is_empty() || has_gone_elsewhere));
        let retry_at = job.record.setbacks.retry_at;
        match &job.record.stored {
            Stored::Present { .. } if over && retry_at > self.clock.now => {
                self.agenda.timers.wake(Timer::Job(id), retry_at);
            }
            Stored::Present { uid } if over && job.record.overtaken.is_none() => {
                let reference = ObjectRef { key: job.key.clone(), uid: uid.clone() };
                let uid = uid.clone();
                let based_on = job.record.seen.resource_version.clone();
                let write =
                    Write::DeleteFluxJob { job: reference, resource_version: based_on.clone() };
                let action = self.agenda.actions.ask(write, InFlight::Record(id));
                let job = self.jobs.all.known_mut(&id)?;
                job.record.stored = Stored::Deleting { uid, action, based_on };
            }
            Stored::Absent | Stored::Deleted if job.pods.all.is_empty() => self.forget(id),
            // The API server removes the record with its owner, unless that pod is a part of
            // another job now.
            Stored::Present { .. } | Stored::Unseen
                if job.pods.all.is_empty() && job.workload.kind == WorkloadKind::Pod =>
            {
                let key = job.key.clone();
                self.forget(id);
                self.members().consider_stray(&key)?;
            }
            _ if due > self.clock.now => self.agenda.timers.wake(Timer::Job(id), due),
            // The time is over, but a write is under way or a pod still exists: the end of either
            // touches the job again.
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn forget(&mut self, id: JobId) {
        self.record_order().owe_nothing(id);
        self.jobs.labelled.forget(id);
        self.jobs.classes.devices.forget(id);
        if let Some(job) = self.jobs.all.get(&id) {
            self.jobs.releases.quotas.forget(&job.key.namespace, id);
        }
        self.agenda.timers.forget_job(id);
        self.jobs.forget(id);
        self.queueing().leave_queue(id);
        self.jobs.retaining.remove(&id);
        self.agenda.touched.remove(&id);
        self.agenda.dirty.remove(&id);
    }
}
