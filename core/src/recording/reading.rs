//! FluxJobs as they appear, change and go: the wishes of users, and records that are deleted.

use std::sync::Arc;

use fluxqueue_api::{FluxJob, Overrides};

use crate::jobs::setbacks::Setback;
use crate::parts::Recording;
use crate::records::stored::{Stored, is_old_news};
use crate::records::{is_of_its_workload, reference};
use crate::sound::{Lookup, Sound};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::ObjectRef;

impl Recording<'_> {
    // --- reading ---

    /// Takes up a FluxJob as the watch shows it.
    pub(crate) fn flux_job(&mut self, object: Arc<FluxJob>) -> Sound {
        let Some((reference, is_new)) = self.note_object(&object) else { return Ok(()) };
        let Some(id) = self.jobs.index.by_key.get(&reference.key).copied() else {
            if self.intake.synced && is_new {
                self.members().consider_stray(&reference.key)?;
            }
            return Ok(());
        };
        self.take_up(id, &reference, &object)
    }

    /// Takes up the FluxJob of a job as a write was answered with it.
    pub(crate) fn flux_job_written(&mut self, id: JobId, object: &Arc<FluxJob>) -> Sound {
        match self.note_object(object) {
            Some((reference, _)) => self.take_up(id, &reference, object),
            None => Ok(()),
        }
    }

    /// Keeps a FluxJob that this Fluxqueue serves, if it is not older than the known version.
    /// Returns its name and uid, and true if there was none of this name.
    fn note_object(&mut self, object: &Arc<FluxJob>) -> Option<(ObjectRef, bool)> {
        // An object without a name or a uid is not from an API server.
        let reference = reference(object)?;
        if !self.serves(object) || !is_of_its_workload(object, &reference.key) {
            return None;
        }
        // The answer to a write may come after newer versions in the watch.
        if self.records.get(&reference.key).is_some_and(|known| is_old_news(object, known)) {
            return None;
        }
        let old = self.records.insert(reference.key.clone(), Arc::clone(object));
        Some((reference, old.is_none()))
    }

    fn take_up(&mut self, id: JobId, reference: &ObjectRef, object: &FluxJob) -> Sound {
        let job = self.jobs.all.known_mut(&id)?;
        if object.metadata.deletion_timestamp.is_some()
            || job.record.seen.gone.as_ref() == Some(&reference.uid)
        {
            return Ok(());
        }
        if job.record.knows(object) {
            // The watch shows the version that a write returned.
            return Ok(());
        }
        match &job.record.stored {
            // A deletion that conflicts with the version just seen is decided again on that
            // version.
            Stored::Present { uid }
            | Stored::Writing { uid, .. }
            | Stored::Deleting { uid, .. }
                if *uid == reference.uid => {}
            Stored::Deleting { .. } => return Ok(()),
            Stored::Present { .. } | Stored::Writing { .. } => {
                // Another object has the same name: the known one is gone.
                job.record.forget_object();
                job.start.seats.forget_acknowledgements();
                job.record.stored = Stored::Present { uid: reference.uid.clone() };
            }
            // After a deletion, this is an unanswered creation that took effect late. The object is
            // finished like the first.
            Stored::Absent | Stored::Creating(..) | Stored::Unseen | Stored::Deleted => {
                job.record.stored = Stored::Present { uid: reference.uid.clone() };
            }
        }
        job.record.observe(object);
        if let Some(status) = &object.status {
            self.slots().heed_status(id, object)?;
            self.promise_keeping().heed_promise(id, status);
        }
        self.record_order().note_on_record(id)?;
        let job = self.jobs.all.known_mut(&id)?;
        let job_has_ended = job.is_finished();
        if job.record.overrides != object.spec.overrides {
            self.members().heed_wishes(id, &object.spec.overrides)?;
            self.agenda.queue_changed = true;
        }
        if job_has_ended {
            self.agenda.touched.insert(id);
        }
        self.agenda.dirty.insert(id);
        Ok(())
    }

    /// False for the FluxJob of a Fluxqueue that serves other scheduler names.
    pub(crate) fn serves(&self, object: &FluxJob) -> bool {
        let name = object.spec.scheduler_name.as_deref();
        name.is_none_or(|name| self.settings.scheduler_names.iter().any(|ours| **ours == *name))
    }

    pub(crate) fn flux_job_gone(&mut self, gone: &ObjectRef) -> Sound {
        let known = self.records.get(&gone.key).and_then(|object| reference(object));
        if known.is_some_and(|known| known.uid == gone.uid) {
            self.records.remove(&gone.key);
        }
        if let Some(id) = self.jobs.index.by_key.get(&gone.key).copied() {
            self.record_vanished(id, gone)?;
        }
        Ok(())
    }

    /// Handles the deletion of a FluxJob. A waiting job goes to the end of the queue; the record of
    /// a running job is written again, if the job would get a record now.
    pub(crate) fn record_vanished(&mut self, id: JobId, gone: &ObjectRef) -> Sound {
        let (wall, now) = (self.clock.wall_now(), self.clock.now);
        let job = self.jobs.all.known_mut(&id)?;
        if job.record.uid() != Some(&gone.uid) {
            return Ok(());
        }
        self.agenda.touched.insert(id);
        job.record.seen.gone = Some(gone.uid.clone());
        job.record.forget_object();
        job.told.is_promise_due = false;
        if job.is_finished() {
            job.record.stored = Stored::Deleted;
            return Ok(());
        }
        job.record.stored = Stored::Absent;
        job.record.note_deletion(now);
        job.start.seats.forget_acknowledgements();
        // No pod of the job can begin until there is a record, and its nodes are free for other
        // jobs meanwhile.
        self.slots().withdraw(id, "its FluxJob was deleted", Setback::Refused)?;
        let job = self.jobs.all.known_mut(&id)?;
        if !job.waiting.requests.is_empty() && !job.life.is_placed() && job.start.at.is_none() {
            job.waiting.since = Some(wall);
        }
        self.members().heed_wishes(id, &Overrides::default())?;
        self.record_order().owe_nothing(id);
        self.agenda.queue_changed = true;
        self.agenda.dirty.insert(id);
        Ok(())
    }
}
