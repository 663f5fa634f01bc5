//! Promises of an earlier process: puts them back before the first walk, and when they are heard
//! of.

use crate::cycle::Core;
use crate::jobs::job::starts_job;
use crate::records::times::time_of;
use crate::sound::Sound;
use fluxqueue_machine::fluxion::End;
use fluxqueue_planner::PlannerParts;
use fluxqueue_planner::plan::{self, Booking, Delay, Kept, Late, Requests};
use fluxqueue_planner::queue::{ClassId, JobId, PendingRequest};

impl Core {
    /// Restores the promises that an earlier process has put on record, in the order of the queue,
    /// before anything starts.
    pub(crate) fn put_promises_back(&mut self) {
        let mut written = Vec::new();
        let mut order: Vec<_> = self.planner.queue.iter().collect();
        order.sort_unstable_by_key(|(place, _)| *place);
        for (place, class) in order {
            let pending = place.request();
            if self.planner.queue.first_of(pending.job()) != Some(pending) {
                continue;
            }
            let job = self.jobs.all.get(&pending.job());
            if let Some(status) = job.and_then(|job| job.record.seen.status.as_ref())
                && (status.passed_by_since.is_some() || status.reservation.is_some())
            {
                let since = status.passed_by_since.as_ref().map(|at| self.clock.core(time_of(at)));
                written.push((pending.clone(), class, since, status.reservation.clone()));
            }
        }
        for (pending, class, since, reservation) in written {
            if self.jobs.all.get(&pending.job()).is_some_and(|job| !starts_job(job, &pending)) {
                let nodes = reservation
                    .map(|reservation| self.sight().nodes_of(&reservation.nodes))
                    .unwrap_or_default();
                self.planner.promises.was_passed_by(pending.job(), since, nodes);
                continue;
            }
            if let Some(since) = since {
                self.planner.promises.pass_by(&pending, since);
            }
            if let Some(reservation) = reservation {
                if let Some(was) = self.sight().kept_of(&reservation) {
                    let done = self.put_back((&pending, class), was);
                    self.agenda.heed(done);
                } else {
                    let nodes = self.sight().nodes_of(&reservation.nodes);
                    if !nodes.is_empty() {
                        self.planner.promises.lose_date(
                            &pending,
                            since.unwrap_or(self.clock.now),
                            nodes,
                        );
                    }
                }
            }
        }
        self.promise_keeping().tell_promises_of_kept_outside();
        self.promise_keeping().restore_patience();
        // The patience of some has run out by now: the walk that follows passes no request by ahead
        // of them.
        self.promise_keeping().end_patience();
    }

    /// Restores the promises that an earlier leader turns out to have made, if there is room for
    /// them around all promises made since. Returns the requests for which that was tried: if the
    /// walk finds nothing for one of them either, its delay has to be reported.
    pub(crate) fn put_heard_promises_back(&mut self) -> Vec<PendingRequest> {
        let slack = i64::try_from(self.settings.start_slack_secs).unwrap_or(i64::MAX);
        let mut tried = Vec::new();
        for (pending, was) in self.planner.promises.take_heard() {
            // The request may have started since the promise was heard of.
            let Some(class) = self.planner.queue.class_of(&pending) else { continue };
            match self.planner.promises.reservation(&pending).map(|promise| promise.place.start) {
                None => {
                    let done = self.put_back((&pending, class), was);
                    self.agenda.heed(done);
                    tried.push(pending);
                }
                Some(start) if start > was.start.saturating_add(slack) => {
                    let done = self.promise_keeping().tell_delay(
                        pending.job(),
                        &Late { cause: Delay::Capacity, was, by: None },
                        Some(start),
                    );
                    self.agenda.heed(done);
                }
                Some(_) => {}
            }
        }
        tried
    }

    fn put_back(&mut self, (pending, class): (&PendingRequest, ClassId), was: Kept) -> Sound {
        let (asking, PlannerParts { mut live, .. }) = self.parts(self.clock.now);
        // A request that has no pods any more needs no promise.
        let Some(request) = asking.request(pending) else { return Ok(()) };
        let booking = plan::reserve_again(&mut live, (pending, class), &request, &was);
        let slack = i64::try_from(self.settings.start_slack_secs).unwrap_or(i64::MAX);
        match booking {
            Booking::Now(slots) => self.slots().start(pending, &request, slots)?,
            // Planned ends are counted by another clock now, which may show the next second.
            Booking::At(at) if at <= was.start.saturating_add(slack) => {
                self.planner.promises.inherit(pending, Some(was));
            }
            // The walk that follows makes the promise again elsewhere. The promise on record is
            // then broken, or improved.
            Booking::At(_) | Booking::Never => {
                if let Some(promise) = self.planner.promises.take(pending) {
                    self.planner.ledger.give_up(&promise.place);
                }
                let by = self.stays_by_wish(&was);
                let cause = if by.is_some() { Delay::Edit } else { Delay::Capacity };
                self.planner.promises.must_be_made_again(pending, Late { cause, was, by });
            }
        }
        Ok(())
    }

    /// Returns a job on these nodes that is planned to run beyond a start that an earlier process
    /// has promised, if a person has wished a walltime for it. The wish came after the promise,
    /// which had been made behind the job.
    fn stays_by_wish(&self, was: &Kept) -> Option<JobId> {
        let stays = |end: End| end.is_later_than(End::At(was.start));
        let mut holders =
            self.holders().on(&was.nodes).filter(|holder| stays(holder.allocation.end));
        holders.find_map(|holder| {
            let job = self.jobs.all.get(&holder.job?)?;
            job.record.overrides.walltime_seconds.map(|_| job.id)
        })
    }
}
