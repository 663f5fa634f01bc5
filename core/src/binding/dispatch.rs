//! From a slot to a Binding, and the handling of its outcome.
//!
//! A Binding leaves only if the job's placement is acknowledged (where it is written ahead), the
//! gate is off, and the pod still fits beside everything that is known of the node. A Binding with
//! a lost answer is sent again to the same node: the uid makes that safe, and 409 then means
//! success.

use std::sync::Arc;

use fluxqueue_api::{EventReason, names};

use crate::action::{ActionId, EventKind, Subject};
use crate::backoff::Backoff;
use crate::binding::mounting::Mounting;
use crate::event::{BindOutcome, WriteOutcome};
use crate::in_flight::InFlight;
use crate::jobs::job::Style;
use crate::jobs::lifecycle::Lifecycle;
use crate::jobs::member::{FailedWrites, Member};
use crate::jobs::setbacks::{FirstPause, Setback, Setbacks};
use crate::jobs::stage::{Cause, Sending};
use crate::outbox::Turn;
use crate::parts::Binding;
use crate::sound::{Lookup, Sound};
use crate::telling::outside::Outside;
use crate::telling::words;
use crate::timers::Timer;
use fluxqueue_machine::defect::OrDefect;
use fluxqueue_planner::queue::{JobId, PendingRequest};
use fluxqueue_workload::NodeName;
use fluxqueue_workload::Uid;

/// Most Bindings on their way. Enough to keep the binder's workers busy; few enough that each
/// Binding was checked against recent news.
const BINDINGS_MAX: usize = 128;

/// The number of failed writes for one pod before a lone pod gives its slot back and queues again.
const ATTEMPTS_MAX: u32 = 6;
const RETRY: Backoff = Backoff { min_millis: 200, max_millis: 30_000 };

/// How long, in milliseconds, a Binding with a lost answer may take to show in the watch.
const DOUBT_MILLIS: i64 = 10_000;

/// The pods that a round of Bindings has checked, and not sent.
#[derive(Debug, Default)]
struct Checked {
    /// Pods that do not fit where they have their slots.
    misfits: Vec<Uid>,
    /// Pods of which the writes failed too often, with the last error.
    unanswered: Vec<(Uid, Box<str>)>,
}

impl Binding<'_> {
    /// Sends the Bindings that may leave.
    pub(crate) fn dispatch(&mut self) {
        self.record_order().rest_on_what_was_promised();
        let mut checked = Checked::default();
        while self.agenda.actions.bindings_in_flight() < BINDINGS_MAX
            && let Some(turn) = self.agenda.outbox.next()
        {
            let taken = match turn {
                Turn::Gang(id) => self.dispatch_gang(id),
                Turn::Pod(uid) => self.dispatch_pod(uid, &mut checked),
            };
            self.agenda.heed(taken);
        }
        for uid in checked.misfits {
            // Slots are given back after all pods were checked: the room is for the next pass.
            let lost = self.lose_race(&uid);
            self.agenda.heed(lost);
        }
        for (uid, error) in checked.unanswered {
            let given_back = self.give_slot_back(&uid, &error);
            self.agenda.heed(given_back);
        }
    }

    /// Lets a gang begin, if it may: its pods have the next turns.
    fn dispatch_gang(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.current(&id)?;
        if self.records.on_record.rests(id) {
            // The gang comes again when the records that it depends on are written.
            return Ok(());
        }
        if job.start.refusal.is_some() {
            return self.settle_refusal(id);
        }
        if job.life == Lifecycle::Placed {
            return self.begin(id);
        }
        // A pod of it has been seen on a node since its turn was noted: the others follow.
        let unsent = self.jobs.unsent(job);
        self.agenda.outbox.put_first(unsent);
        Ok(())
    }

    /// Sends the Binding of a pod that is in the outbox, if it may leave.
    fn dispatch_pod(&mut self, uid: Uid, checked: &mut Checked) -> Sound {
        let member = self.jobs.members.current(&uid)?;
        if !member.stage.is_assigned() || member.pod.deleting {
            return Ok(());
        }
        let job = self.jobs.all.known(&member.job)?;
        if self.records.on_record.rests(job.id) {
            // The pod comes again when the records that it depends on are written.
            return Ok(());
        }
        if job.start.refusal.is_some() {
            return self.settle_refusal(member.job);
        }
        if job.life == Lifecycle::Placed {
            // The gang was placed again since, and has a turn of its own.
            return Ok(());
        }
        if let Some(at) = member.held_until(self.clock.now) {
            self.agenda.timers.wake(Timer::Pod(uid), at);
            return Ok(());
        }
        if !job.may_send(member) {
            return Ok(());
        }
        // After this number of failures the pod queues again; a gang with a written placement stays
        // where it is.
        let given_up = member.failed.count >= ATTEMPTS_MAX && !job.writes_ahead();
        let error = if given_up { member.failed.error.clone() } else { None };
        let doubt_until = member.doubt_until;
        if let Some(why) = self.mounting_trouble(&uid) {
            self.mounting_failed(&uid, why)?;
        } else if !given_up && self.still_fits(&uid) {
            match self.mount(&uid) {
                Mounting::Done => self.send(&uid)?,
                Mounting::Later => self.nominate(&uid)?,
                Mounting::Failed(why) => self.mounting_failed(&uid, why)?,
            }
        } else if doubt_until > self.clock.now {
            // The pod may be there already: until that is known, no other pod gets the place.
            self.agenda.timers.wake(Timer::Pod(uid), doubt_until);
        } else if let Some(error) = error {
            checked.unanswered.push((uid, error));
        } else {
            checked.misfits.push(uid);
        }
        Ok(())
    }

    fn send(&mut self, uid: &Uid) -> Sound {
        let member = self.jobs.members.known(uid)?;
        if is_gated(member) {
            return self.ungate(uid);
        }
        let slot = member.stage.slot().or_defect("a pod without a slot is to be bound");
        let Some(slot) = slot else { return Ok(()) };
        let id = member.job;
        let queue =
            self.jobs.all.get(&id).map(|job| Arc::clone(&job.queue.name)).unwrap_or_default();
        let binding = slot.binding(member.pod.id.clone(), queue);
        let action = self.agenda.actions.ask(binding, InFlight::Bind(uid.clone()));
        let member = self.jobs.members.known_mut(uid)?;
        member.stage.send_by(Sending::Binding(action));
        if self.jobs.all.get(&id).is_some_and(|job| job.style == Style::Lone) {
            self.planner.promises.forget_patience(id);
        }
        self.slots().let_others_come_after(&PendingRequest::Member(id, uid.clone()));
        Ok(())
    }

    pub(crate) fn bind_done(&mut self, uid: &Uid, action: ActionId, outcome: BindOutcome) -> Sound {
        let member = self.jobs.members.current_mut(uid)?;
        let (id, waiting) = (member.job, member.stage.sending() == Some(Sending::Binding(action)));
        if outcome != BindOutcome::Bound {
            self.agenda.touched.insert(id);
        }
        match outcome {
            BindOutcome::Bound => {
                if waiting {
                    member.stage.bind();
                    member.setbacks = Setbacks::default();
                }
                self.bound(uid, id)?;
                self.agenda.touch_soon(id, self.clock.now);
            }
            BindOutcome::BoundElsewhere(node) => {
                self.agenda.gauges.bound_elsewhere += 1;
                if waiting {
                    self.slots().move_to(uid, &node)?;
                }
            }
            BindOutcome::Gone | BindOutcome::Deleting => {
                if waiting {
                    member.deletion_observed = true;
                    self.slots().end(uid, Cause::Deleted)?;
                }
            }
            BindOutcome::Gated => {
                if waiting {
                    member.ungated = false;
                    self.try_later(uid, "the pod is gated".to_owned())?;
                }
            }
            BindOutcome::Failed(text) => {
                if waiting {
                    member.maybe_bound = true;
                    member.doubt_until = self.clock.now.plus_millis(DOUBT_MILLIS);
                    self.try_later(uid, text)?;
                }
            }
            BindOutcome::Refused(text) => {
                if waiting {
                    self.count_write_error(uid)?;
                    self.pod_refused(uid, &text)?;
                }
            }
        }
        self.settle_refusal(id)
    }

    fn bound(&mut self, uid: &Uid, id: JobId) -> Sound {
        let now = self.clock.wall_now();
        self.agenda.gauges.pods_bound += 1;
        let job = self.jobs.all.known(&id)?;
        let since = job.waiting.since.unwrap_or(now);
        self.agenda.gauges.scheduling_sli.observe_micros(now.0 - since.0);
        self.slots().note_start(id, now)?;
        let member = self.jobs.members.known(uid)?;
        let pod = Arc::clone(&member.pod);
        let node = member.allocation().map(|allocation| &allocation.node).or(pod.node.as_ref());
        // A pod that has lost its slot meanwhile may not be seen on its node yet.
        let Some(node) = node.cloned() else { return Ok(()) };
        let text = format!("Successfully assigned {} to {node}", pod.id);
        self.agenda.note(
            Subject::Pod(pod.id.clone()),
            EventKind::Normal,
            EventReason::Scheduled.as_str(),
            "Binding",
            text,
            &pod.scheduler,
        );
        Ok(())
    }

    pub(crate) fn ungate_done(
        &mut self,
        uid: &Uid,
        action: ActionId,
        outcome: WriteOutcome,
    ) -> Sound {
        let member = self.jobs.members.current_mut(uid)?;
        member.ungating = None;
        member.ungated |= matches!(outcome, WriteOutcome::Written(_));
        if member.stage.sending() != Some(Sending::Ungating(action)) {
            return Ok(());
        }
        match outcome {
            WriteOutcome::Written(_) | WriteOutcome::Exists => {
                member.stage.send_by(Sending::Due);
                self.agenda.outbox.add(self.jobs, uid);
            }
            WriteOutcome::Gone => {
                member.deletion_observed = true;
                self.slots().end(uid, Cause::Deleted)?;
            }
            WriteOutcome::Conflict | WriteOutcome::Replaced => {
                self.try_later(uid, "the pod has changed".to_owned())?;
            }
            WriteOutcome::Invalid(text) | WriteOutcome::Refused(text) => {
                self.pod_refused(uid, &text)?;
            }
            WriteOutcome::Failed(text) => self.try_later(uid, text)?,
        }
        Ok(())
    }

    /// Repeats the write after a pause that doubles each time. After a number of attempts without
    /// an answer a pod gives its slot back and queues again, and so does a gang with no pod that
    /// has begun. A gang that has begun stays where it is.
    fn try_later(&mut self, uid: &Uid, text: String) -> Sound {
        let now = self.clock.now;
        self.count_write_error(uid)?;
        let member = self.jobs.members.known_mut(uid)?;
        let attempts = member.failed.count + 1;
        member.failed = FailedWrites { count: attempts, error: Some(text.as_str().into()) };
        member.retry_at = now.plus_millis(RETRY.after(attempts));
        member.stage.send_by(Sending::Due);
        let id = member.job;
        tracing::warn!(pod = %member.pod.id, attempts, error = %text, "placing a pod failed; it \
            is tried again");
        if attempts >= ATTEMPTS_MAX {
            member.retry_at = now.plus_millis(RETRY.max_millis);
            self.jobs.block(id, Outside::WriteFailed(text.clone()));
            self.no_answer(id, text)?;
        }
        self.agenda.timers.wake(
            Timer::Pod(uid.clone()),
            self.jobs.members.get(uid).map_or(now, |member| member.retry_at),
        );
        self.agenda.touched.insert(id);
        Ok(())
    }

    /// Handles a slot that does not suit its pod any more: the pod is placed again. If that happens
    /// several times in a row, its Binding leaves after a pause, and the pod's condition states
    /// why.
    fn lose_race(&mut self, uid: &Uid) -> Sound {
        let node = self.jobs.members.get(uid).and_then(|member| member.allocation());
        let node =
            node.map_or_else(|| NodeName::from("its node"), |allocation| allocation.node.clone());
        self.slots().replan(uid)?;
        let now = self.clock.now;
        if let Some(member) =
            self.jobs.members.get_mut(uid).filter(|member| member.stage.is_waiting())
        {
            let pause = member.setbacks.count(Setback::LostRace, now, FirstPause::None);
            let (id, pod) = (member.job, member.pod.id.clone());
            if pause > 0 {
                tracing::warn!(%pod, %node, pause_millis = pause, "a pod does not fit where it \
                    was placed, again");
                let misfit = Outside::Misfit(pod, node);
                let text = words::outside::message(&misfit);
                self.agenda.timers.wake(Timer::Pod(uid.clone()), now.plus_millis(pause));
                self.notices().report_unscheduled(uid, "SchedulerError", &text)?;
                self.jobs.block(id, misfit);
            }
        }
        Ok(())
    }
}

/// True if Fluxqueue's gate is on the pod, as far as is known.
pub(crate) fn is_gated(member: &Member) -> bool {
    !member.ungated && member.pod.gates.iter().any(|gate| **gate == *names::GATE)
}

impl Binding<'_> {
    /// Counts a failed attempt to bind a pod.
    fn count_write_error(&mut self, uid: &Uid) -> Sound {
        let scheduler = &self.jobs.members.known(uid)?.pod.scheduler;
        if let Some(attempts) =
            self.agenda.gauges.attempts.iter_mut().find(|it| it.profile == *scheduler)
        {
            attempts.error += 1;
        }
        Ok(())
    }
}
