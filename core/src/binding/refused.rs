//! Writes for a start that the API server refuses, or does not answer: which pods give their nodes
//! back, and the message for them.
//!
//! Before the first Binding of a gang has taken effect, its whole placement is withdrawn and
//! nothing is claimed until the next attempt (`setbacks`). From then on the gang is completed: a
//! refused pod keeps its seat for `gangStartTimeout`, and gives it back after that. A pod that
//! starts alone gives its slot back at once.

use crate::jobs::job::Style;
use crate::jobs::lifecycle::Lifecycle;
use crate::jobs::member::{FailedWrites, Member};
use crate::jobs::setbacks::{FirstPause, Setback};
use crate::jobs::stage::Sending;
use crate::parts::Binding;
use crate::sound::{Lookup, Sound};
use crate::telling::outside::Outside;
use crate::timers::Timer;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{ObjectRef, Time, Uid};

impl Binding<'_> {
    /// Handles a refused write for a pod with a slot: its Binding, the removal of its gate, or the
    /// write that gives a claim its volume.
    pub(crate) fn pod_refused(&mut self, uid: &Uid, text: &str) -> Sound {
        let now = self.clock.now;
        let member = self.jobs.members.get_mut(uid).map(|member| {
            member.stage.send_by(Sending::Due);
            member.failed = FailedWrites::default();
            (member.job, member.pod.id.clone(), member.is_in_doubt(now))
        });
        let Some((id, pod, is_in_doubt)) = member else {
            tracing::error!(uid = &**uid, "a write was refused for a pod that is not known");
            return Ok(());
        };
        tracing::warn!(%pod, error = %text, "the API server refuses to let a pod start");
        let text = format!("pod {pod}: {text}");
        let is_gang = self.jobs.all.get(&id).is_some_and(|job| job.style == Style::Gang);
        if !is_gang && !is_in_doubt {
            self.give_slot_back(uid, &text)?;
        } else if !is_gang {
            // An earlier Binding may still take effect: until that is known, no other pod gets the
            // place.
            self.keep_seat(uid, text)?;
        } else if self.has_begun_or_was_whole(id) {
            let keeps_for = self.settings.gang_start_timeout_secs;
            let refused_since =
                self.jobs.members.get(uid).and_then(|member| member.setbacks.first_refusal());
            if !is_in_doubt && refused_since.is_some_and(|since| now >= since.plus_secs(keeps_for))
            {
                self.give_slot_back(uid, &text)?;
            } else {
                self.keep_seat(uid, text)?;
            }
        } else {
            self.stop_start(id, text)?;
        }
        Ok(())
    }

    /// Handles a refused write that was to give a claim of a pod with a slot its volume.
    pub(crate) fn claim_refused(&mut self, uid: &Uid, claim: &ObjectRef, text: &str) -> Sound {
        if self.jobs.members.get(uid).is_some_and(|member| member.stage.is_assigned()) {
            let lost = self
                .planner
                .cluster
                .volumes()
                .claim(claim)
                .and_then(|claim| claim.lost_node.clone());
            let lost = lost
                .map(|node| format!(", which names node {node:?} that is not there,"))
                .unwrap_or_default();
            let text = format!(
                "persistentvolumeclaim {}{lost} cannot be given its volume: {text}",
                claim.key
            );
            self.pod_refused(uid, &text)?;
        }
        Ok(())
    }

    /// Stops the Bindings of a gang, since some were refused, or not answered: when it is known
    /// that none has taken effect, its placement is withdrawn.
    pub(crate) fn stop_start(&mut self, id: JobId, text: String) -> Sound {
        let job = self.jobs.all.known_mut(&id)?;
        job.start.refusal.get_or_insert(text);
        self.settle_refusal(id)?;
        Ok(())
    }

    /// Stops the Bindings of a gang with no pod that has begun, after several writes in a row for
    /// one pod had no answer.
    pub(crate) fn no_answer(&mut self, id: JobId, text: String) -> Sound {
        let is_gang = self
            .jobs
            .all
            .get(&id)
            .is_some_and(|job| job.style == Style::Gang && job.life.is_placed());
        if is_gang && !self.has_begun_or_was_whole(id) {
            self.stop_start(id, text)?;
        }
        Ok(())
    }

    /// Checks a gang that sends no more Bindings. It goes on if one of them has taken effect, and
    /// is withdrawn if none has.
    pub(crate) fn settle_refusal(&mut self, id: JobId) -> Sound {
        let now = self.clock.now;
        let job = self.jobs.all.get(&id).map(Box::as_ref);
        let refused = job.and_then(|job| {
            let refusal = job.start.refusal.clone()?;
            Some((refusal, open_bindings(&self.jobs.live_members(job), now)))
        });
        match refused {
            None | Some((_, Open::Unanswered)) => {}
            Some((_, Open::Until(at))) => self.agenda.timers.wake(Timer::Backoff(id), at),
            Some((refusal, Open::None)) => self.withdraw_refused(id, &refusal)?,
            Some((_, Open::Bound)) => {
                let job = self.jobs.all.known_mut(&id)?;
                job.start.refusal = None;
                self.record_order().release(id)?;
            }
        }
        Ok(())
    }

    /// Withdraws the placement of a gang for which no Binding has taken effect, and reports why.
    pub(crate) fn withdraw_refused(&mut self, id: JobId, text: &str) -> Sound {
        let job = self.jobs.all.known_mut(&id)?;
        job.start.refusal = None;
        let is_placed = job.life.is_placed();
        let pods = self.jobs.unsent(self.jobs.all.known(&id)?);
        for uid in &pods {
            // The pause is the gang's.
            let member = self.jobs.members.known_mut(uid)?;
            (member.failed, member.retry_at) = (FailedWrites::default(), self.clock.now);
        }
        if is_placed {
            self.slots().take_back(id, text, Setback::Refused)?;
        }
        self.tell_refusal(&pods, text)?;
        Ok(())
    }

    /// Takes the slot from a pod that does not begin with others; the pod waits for a while without
    /// a claim.
    pub(crate) fn give_slot_back(&mut self, uid: &Uid, text: &str) -> Sound {
        let now = self.clock.now;
        self.slots().unassign_one(uid)?;
        let member = self.jobs.members.known_mut(uid)?;
        let pause = member.setbacks.count(Setback::Refused, now, FirstPause::None);
        let id = member.job;
        self.agenda.timers.wake(Timer::Pod(uid.clone()), now.plus_millis(pause));
        self.jobs.block(id, Outside::WriteFailed(text.to_owned()));
        self.agenda.touched.insert(id);
        self.tell_refusal(std::slice::from_ref(uid), text)?;
        Ok(())
    }

    /// Keeps the seat of a pod of a gang that has begun; its Binding is sent again after a pause.
    fn keep_seat(&mut self, uid: &Uid, text: String) -> Sound {
        let now = self.clock.now;
        let member = self.jobs.members.known_mut(uid)?;
        let pause = member.setbacks.count(Setback::Refused, now, FirstPause::None);
        let id = member.job;
        self.agenda.timers.wake(Timer::Pod(uid.clone()), now.plus_millis(pause));
        self.tell_refusal(std::slice::from_ref(uid), &text)?;
        self.jobs.block(id, Outside::WriteFailed(text));
        self.agenda.touched.insert(id);
        Ok(())
    }

    /// Reports on pods that the API server refuses a write that they need.
    pub(crate) fn tell_refusal(&mut self, pods: &[Uid], text: &str) -> Sound {
        for uid in pods {
            self.notices().report_unscheduled(uid, "SchedulerError", text)?;
        }
        Ok(())
    }

    /// True if a Binding of a gang has taken effect, or if it was whole before. The pods that come
    /// after all pods of an earlier start have ended are a new start.
    fn has_begun_or_was_whole(&self, id: JobId) -> bool {
        self.jobs.all.get(&id).is_some_and(|job| {
            let was_begun = job.life == Lifecycle::Whole || job.start.at.is_some();
            self.jobs.live(job).any(Member::is_bound) || (was_begun && !self.jobs.is_new_start(job))
        })
    }
}

/// The state of the Bindings of a gang.
enum Open {
    /// At least one has taken effect.
    Bound,
    /// At least one has no answer yet.
    Unanswered,
    /// The answer to one was lost: until this time the watch may still show its effect.
    Until(Time),
    /// None has taken effect, and none will.
    None,
}

fn open_bindings(live: &[&Member], now: Time) -> Open {
    if live.iter().any(|member| member.is_bound()) {
        return Open::Bound;
    }
    if live.iter().any(|member| member.stage.is_binding()) {
        return Open::Unanswered;
    }
    let in_doubt =
        live.iter().filter(|member| member.is_in_doubt(now)).map(|member| member.doubt_until);
    in_doubt.max().map_or(Open::None, Open::Until)
}
