//! Estimates on record: which of them are written, and when.

use fluxqueue_api::{EstimateKind, FluxJobStatus};

use crate::agenda::Agenda;
use crate::jobs::clock::Clock;
use crate::jobs::expected::Expected;
use crate::jobs::registry::Jobs;
use crate::lookahead::Lookahead;
use crate::lookahead::estimates::has_moved;
use crate::timers::{AGAIN_MILLIS, Timer};
use fluxqueue_planner::queue::{JobId, PendingRequest};

/// Says on record when jobs are expected to start, at a bounded rate.
pub(crate) struct Estimating<'a> {
    pub clock: Clock,
    pub jobs: &'a mut Jobs,
    pub lookahead: &'a mut Lookahead,
    pub agenda: &'a mut Agenda,
}

impl Estimating<'_> {
    /// Takes up the expected start of a request. If the pods of a job start one by one, the first
    /// counts.
    pub(crate) fn expect(&mut self, pending: &PendingRequest, found: Expected) {
        let id: JobId = pending.job();
        let clock = self.clock;
        // The request may have started, or gone, since the projection was made.
        let Some(job) =
            self.jobs.all.get_mut(&id).filter(|job| job.waiting.requests.contains(pending))
        else {
            return;
        };
        let as_of = |expected: Expected| match expected {
            Expected::At { start, as_of } => Some((start, as_of)),
            Expected::Unasked | Expected::NoDate => None,
        };
        let is_first = match (as_of(job.waiting.expected), as_of(found)) {
            // Both come from the same projection.
            (Some((known, then)), Some((start, now))) => then != now || start < known,
            (Some((_, then)), None) => Some(then) != self.lookahead.ahead.begun,
            (None, _) => true,
        };
        if !is_first {
            return;
        }
        job.waiting.expected = found;
        let written = job.status_on_record().and_then(|status| status.estimated_start.as_ref());
        let is_news = match (written, found.projected(clock)) {
            (Some(written), Some(_)) if written.kind == EstimateKind::Reserved => true,
            (Some(written), Some(found)) => has_moved(written, &found, clock.wall_now()),
            (written, found) => written.is_some() != found.is_some(),
        };
        if is_news {
            self.agenda.dirty.insert(id);
        }
    }

    /// Holds back a status that brings nothing new but another estimate until its turn comes: until
    /// then the estimate on record stays.
    pub(crate) fn ration(&mut self, id: JobId, mut status: FluxJobStatus) -> FluxJobStatus {
        let Some(written) = self.jobs.all.get(&id).and_then(|job| job.status_on_record()) else {
            return status;
        };
        if written.estimated_start == status.estimated_start {
            return status;
        }
        let wanted =
            std::mem::replace(&mut status.estimated_start, written.estimated_start.clone());
        let said = std::mem::replace(&mut status.start_estimates, written.start_estimates.clone());
        let says_more = *written != status;
        if says_more || self.lookahead.estimates.may_write(self.clock.now) {
            (status.estimated_start, status.start_estimates) = (wanted, said);
        } else {
            self.lookahead.estimates.wait(id);
            self.wake_for_estimates();
        }
        status
    }

    /// Lets the jobs whose turn has come write their estimates, if these still differ from the
    /// record.
    pub(crate) fn tell_estimates(&mut self) {
        self.agenda.dirty.extend(self.lookahead.estimates.take());
        self.wake_for_estimates();
    }

    fn wake_for_estimates(&mut self) {
        if self.lookahead.estimates.has_waiting() {
            let at =
                self.lookahead.estimates.next_write().max(self.clock.now.plus_millis(AGAIN_MILLIS));
            self.agenda.timers.wake(Timer::Estimates, at);
        }
    }
}
