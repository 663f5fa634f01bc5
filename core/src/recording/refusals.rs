//! Writes of FluxJobs that are refused, and the consequences for their jobs.

use fluxqueue_api::fluxjob::STATUS_BYTES_MAX;

use crate::jobs::job::Job;
use crate::jobs::lifecycle::Lifecycle;
use crate::jobs::member::Member;
use crate::jobs::registry::blocking::block_by;
use crate::jobs::seats::Seats;
use crate::parts::Recording;
use crate::records::bounds::size;
use crate::sound::{Lookup, Sound};
use crate::telling::blockers::Blockers;
use crate::telling::obstacle::Obstacle;
use crate::telling::words;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::Uid;

impl Recording<'_> {
    /// Handles a FluxJob that cannot be written: a gang that has not begun, and waits for the
    /// write, gives its nodes back, and so do pods that joined a gang later and have no seat on
    /// record.
    pub(crate) fn record_refused(&mut self, id: JobId, text: &str) -> Sound {
        let refused = text.to_owned();
        let text = words::record_refused(text);
        let job = self.jobs.all.get(&id).map(Box::as_ref).filter(|job| job.writes_ahead());
        if job.is_some_and(|job| job.life == Lifecycle::Placed && !job.may_send_all()) {
            self.binding().withdraw_refused(id, &text)?;
            return Ok(());
        }
        let pods = |is: &dyn Fn(&Job, &Member) -> bool| -> Vec<Uid> {
            let of_job =
                job.into_iter().flat_map(|job| self.jobs.live(job).filter(move |pod| is(job, pod)));
            of_job.map(|member| member.pod.id.uid.clone()).collect()
        };
        let unrecorded = pods(&|job, member| member.stage.is_unsent() && !job.may_send(member));
        let waiting = pods(&|_, member| member.stage.is_waiting());
        for uid in &unrecorded {
            self.binding().give_slot_back(uid, &text)?;
        }
        if !waiting.is_empty() {
            let job = self.jobs.all.known_mut(&id)?;
            block_by(job, Obstacle::RecordRefused(refused));
            self.binding().tell_refusal(&waiting, &text)?;
        }
        Ok(())
    }

    /// Handles a FluxJob that can be written again: the other obstacles of its pods are reported
    /// again, as they were found last.
    pub(crate) fn record_taken(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known_mut(&id)?;
        let is_told =
            |blockers: &mut Blockers| matches!(blockers.first(), Obstacle::RecordRefused(_));
        if job.told.blocker.take_if(is_told).is_none() {
            return Ok(());
        }
        self.agenda.dirty.insert(id);
        if let Some(first) = self.planner.queue.first_of(id).cloned()
            && let Some(class) = self.planner.queue.class_of(&first)
        {
            self.telling().report_request(&first, class)?;
        }
        Ok(())
    }
}

impl Recording<'_> {
    /// Checks a new placement: if it is larger than a FluxJob can hold, the job gives it back
    /// before any write, and claims nothing until the next attempt. The size is known only now: the
    /// map of pods to nodes may take a few words, or one word for each pod.
    pub(crate) fn check_placement(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if !may_be_large(&job.start.seats) {
            return Ok(());
        }
        let size = size(&self.snapshot(job).status());
        if size > STATUS_BYTES_MAX {
            let text = format!(
                "its placement makes a status of {size} bytes, and {STATUS_BYTES_MAX} is the limit"
            );
            self.record_refused(id, &text)?;
        }
        Ok(())
    }
}

/// False if a placement is far below the bound, as nearly every one is: then its size need not be
/// computed.
fn may_be_large(seats: &Seats) -> bool {
    /// The largest size of a seat, in bytes, besides the name of its node, if nothing of it can be
    /// shortened.
    const SEAT: usize = 128;
    seats.iter().map(|(_, seat)| SEAT + seat.node().len()).sum::<usize>() > STATUS_BYTES_MAX / 2
}
