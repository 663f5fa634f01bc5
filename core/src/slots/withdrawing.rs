//! Placements that are taken back: those of a gang, of a pod that has lost its slot, and of slots
//! kept for pods to come.

use crate::jobs::job::Style;
use crate::jobs::lifecycle::Lifecycle;
use crate::jobs::setbacks::{FirstPause, Setback, Setbacks};
use crate::parts::Slots;
use crate::slots::retaining::have_retained_slots;
use crate::sound::{Lookup, Sound};
use crate::telling::outside::Outside;
use crate::timers::Timer;
use fluxqueue_planner::plan::Delay;
use fluxqueue_planner::queue::{JobId, PendingRequest};
use fluxqueue_workload::Uid;

impl Slots<'_> {
    /// Lets pods start that would have made this request's spread uneven, or would have drawn it
    /// away: the request begins now.
    pub(crate) fn let_others_come_after(&mut self, pending: &PendingRequest) {
        self.agenda.queue_changed |= self.planner.claims.is_waited_for(pending);
    }

    /// Forgets the start of a gang without remaining pods on nodes, or without a Binding that had
    /// an effect. The gang starts again, all or none.
    pub(crate) fn forget_empty_start(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if job.style != Style::Gang || !job.life.is_placed() || !self.jobs.is_new_start(job) {
            return Ok(());
        }
        let (unsent, life) = (self.jobs.unsent(job), job.life);
        let mut begins_again = matches!(life, Lifecycle::Starting { .. }) && job.start.at.is_none();
        if !job.start.retained.is_empty() {
            // The pods start in the slots that are retained for them, if each has one and all pods
            // exist; else they start where there is room for all. Pods with slots do not begin
            // without a pod that is yet to replace one that has ended, but together with it.
            let is_short = self
                .jobs
                .is_short_of(job, self.settings.group_grace_secs, self.clock.now)
                .is_some();
            let goes_on = if unsent.is_empty() {
                is_short || have_retained_slots(self.jobs, &mut self.planner.cluster, job)
            } else {
                !is_short || life == Lifecycle::Placed
            };
            if goes_on && (unsent.is_empty() || life == Lifecycle::Placed) {
                return Ok(());
            }
            begins_again |= goes_on;
            if !goes_on {
                self.free_retained(id);
            }
        }
        if unsent.is_empty() {
            self.jobs.forget_start(id)?;
        } else if begins_again {
            // The pods that were sent are gone: whether the others may begin without them is
            // checked again.
            self.jobs.all.known_mut(&id)?.life = Lifecycle::Placed;
            for uid in unsent {
                // The pause is the gang's.
                self.jobs.members.known_mut(&uid)?.setbacks = Setbacks::default();
                self.agenda.outbox.add(self.jobs, &uid);
            }
        } else if life != Lifecycle::Placed {
            // These pods were to join pods that have gone since: they start with the pods that are
            // to come.
            for uid in unsent {
                self.unassign(&uid)?;
            }
            self.jobs.forget_start(id)?;
        }
        Ok(())
    }

    /// Frees the slots that are kept for the successors of pods that have ended.
    pub(crate) fn free_retained(&mut self, id: JobId) {
        let Some(job) = self.jobs.all.get_mut(&id) else { return };
        let retained = job.start.unretain(|_| true);
        self.free_allocations(retained.into_iter().map(|slot| slot.allocation));
    }

    /// Takes the slot from a pod for which no Binding has left. If its gang has not begun, all its
    /// pods lose their slots.
    pub(crate) fn lose_slot(&mut self, uid: &Uid, why: &str) -> Sound {
        let member = self.jobs.members.known(uid)?;
        let id = member.job;
        if self.jobs.all.get(&id).is_some_and(|job| job.life == Lifecycle::Placed) {
            self.withdraw(id, why, Setback::LostRace)?;
        } else {
            self.unassign_one(uid)?;
        }
        Ok(())
    }

    /// Withdraws the placement of a gang for which no Binding has left: it waits at its place in
    /// the queue again, whole or not at all. The setback decides about the pause that follows.
    pub(crate) fn withdraw(&mut self, id: JobId, why: &str, setback: Setback) -> Sound {
        if self.jobs.all.known(&id)?.life != Lifecycle::Placed {
            return Ok(());
        }
        self.take_back(id, why, setback)
    }

    /// Does the same for a gang of which Bindings may have left, and none has taken effect.
    pub(crate) fn take_back(&mut self, id: JobId, why: &str, setback: Setback) -> Sound {
        let job = self.jobs.all.known(&id)?;
        for uid in self.jobs.unsent(job) {
            self.unassign(&uid)?;
        }
        self.free_retained(id);
        let now = self.clock.now;
        self.jobs.forget_start(id)?;
        let job = self.jobs.all.known_mut(&id)?;
        let pause = job.start.setbacks.count(setback, now, FirstPause::OneSecond);
        tracing::info!(job = %job.key, why, pause_millis = pause, "a placement is withdrawn \
            before its first Binding");
        let why = why.to_owned();
        let obstacle = match setback {
            Setback::Refused => Outside::WriteFailed(why),
            Setback::LostRace | Setback::Changed => Outside::Withdrawn(why),
        };
        self.jobs.block(id, obstacle);
        self.agenda.timers.wake(Timer::Backoff(id), now.plus_millis(pause));
        self.agenda.touched.insert(id);
        self.agenda.gauges.placements_withdrawn += 1;
        self.promise_keeping().start_is_off(id, Delay::Capacity)?;
        Ok(())
    }

    /// Takes back a slot that does not suit its pod any more: the pod waits again.
    pub(crate) fn replan(&mut self, uid: &Uid) -> Sound {
        if self.jobs.members.get(uid).is_some_and(|member| member.stage.is_assigned()) {
            self.unassign_one(uid)?;
        }
        Ok(())
    }

    /// Takes a slot back from a pod that does not begin with others.
    pub(crate) fn unassign_one(&mut self, uid: &Uid) -> Sound {
        self.unassign(uid)?;
        let id = self.jobs.members.known(uid)?.job;
        if self.jobs.all.get(&id).is_some_and(|job| job.style == Style::Lone) {
            self.promise_keeping().start_is_off(id, Delay::Capacity)?;
        }
        Ok(())
    }
}
