//! Nominations of pods that have a slot: when they are written, and withdrawn.

use crate::ActionKind;
use crate::binding::nominating::SOON_MILLIS;
use crate::in_flight::InFlight;
use crate::parts::Slots;
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use fluxqueue_workload::Uid;

impl Slots<'_> {
    /// A pod has lost its slot.
    pub(crate) fn withdraw_nomination(&mut self, uid: &Uid) -> Sound {
        if let Some(member) = self.jobs.members.get_mut(uid) {
            member.nomination.is_due = false;
            self.see_to_nomination(uid)?;
        }
        Ok(())
    }

    /// Makes what a pod says agree with where it is to be.
    pub(crate) fn see_to_nomination(&mut self, uid: &Uid) -> Sound {
        let member = self.jobs.members.current_mut(uid)?;
        let (pod, nomination) = (&member.pod, &mut member.nomination);
        if !nomination.is_due && nomination.said.is_none() {
            return Ok(());
        }
        // Its Binding says it all, once that is sent.
        let is_to_be_bound = member.stage.is_waiting() || member.stage.is_unsent();
        if !is_to_be_bound || pod.deleting || pod.stands_in || nomination.writing.is_some() {
            return Ok(());
        }
        let slot =
            member.stage.allocation().filter(|_| nomination.is_due && member.stage.is_unsent());
        let node = slot.map(|allocation| allocation.node.clone());
        if nomination.said == node {
            return Ok(());
        }
        if node.is_some() && pod.nominated == node {
            // Whoever has written it, it is true now.
            nomination.said = node;
            return Ok(());
        }
        if node.is_none() && pod.nominated != nomination.said {
            // What is there is not ours to take away, or ours has not been seen yet: then it comes.
            return Ok(());
        }
        let retry_at = nomination.retry_at;
        if retry_at > self.clock.now {
            self.agenda.timers.wake(Timer::Nomination(uid.clone()), retry_at);
            return Ok(());
        }
        if member.telling.is_some() {
            self.nominate_later(uid, SOON_MILLIS);
            return Ok(());
        }
        let before = std::mem::replace(&mut nomination.said, node.clone());
        let (pod, resource_version) = (pod.id.clone(), pod.resource_version.clone());
        let kind = ActionKind::Nominate { pod, resource_version, node };
        nomination.writing =
            Some(self.agenda.actions.ask(kind, InFlight::Nomination(uid.clone(), before)));
        Ok(())
    }

    pub(crate) fn nominate_later(&mut self, uid: &Uid, pause_millis: i64) {
        let at = self.clock.now.plus_millis(pause_millis);
        if let Some(member) = self.jobs.members.get_mut(uid) {
            member.nomination.retry_at = at;
            self.agenda.timers.wake(Timer::Nomination(uid.clone()), at);
        }
    }
}
