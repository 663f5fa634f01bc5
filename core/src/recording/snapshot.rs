//! The status of a FluxJob as its job is now.

use crate::jobs::job::{Job, Said, Style, is_as_written};
use crate::lookahead::estimates;
use crate::recording::Recording;
use crate::records::record::Snapshot;
use crate::records::times::time_of;
use fluxqueue_workload::Time;

impl Recording<'_> {
    pub(crate) fn snapshot<'a>(&'a self, job: &'a Job) -> Snapshot<'a> {
        let live = self.jobs.counted(job);
        let walltimes = live.first().map(|member| self.jobs.recorded_walltimes(&member.pod, job));
        let waits = !job.waiting.requests.is_empty();
        // A job with an unwritable FluxJob claims nothing, so nothing is promised to it either.
        let is_promised = waits && !job.lacks_record();
        let said = job
            .told
            .promise
            .as_ref()
            .filter(|_| is_promised)
            .map(|said| self.said_by_wall(job, said));
        let estimated_start =
            if waits { estimates::to_say(job, said.as_ref(), self.clock) } else { None };
        let next = self
            .planner
            .queue
            .first_of(job.id)
            .filter(|_| job.style == Style::Gang && job.life.is_placed());
        let next_pod =
            next.and_then(|next| self.planner.promises.reservation(next)).map(|promise| {
                let start = self.clock.wall(Time::from_seconds(promise.place.start));
                Said { start: Some(start), nodes: self.sight().names_of(promise.nodes_to_say()) }
            });
        Snapshot {
            job,
            live,
            wanted: self.jobs.wanted(job),
            asked: self.jobs.asked(job),
            min_count: self.jobs.controllers.groups.min_count(&job.workload.identity),
            scheduled: self.jobs.scheduled(job),
            walltimes,
            position: job.waiting.position.filter(|_| waits),
            estimated_start,
            said,
            next_pod,
            passed_by_since: self.sight().passed_by_since(job).map(|at| self.clock.wall(at)),
            now: self.clock.wall_now(),
        }
    }

    /// Returns the promise in times of the API server's clock. A small shift of that clock against
    /// the core's does not change the written time.
    pub(crate) fn said_by_wall(&self, job: &Job, said: &Said) -> Said {
        let start = said.start.map(|at| self.clock.wall(at));
        let written = job.status_on_record().and_then(|status| status.reservation.as_ref());
        let written = written.filter(|written| is_as_written(said, start, written));
        let start = written.and_then(|written| written.start.as_ref()).map(time_of).or(start);
        Said { start, nodes: said.nodes.clone() }
    }
}
