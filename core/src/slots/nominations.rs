//! Nominations of pods that have a slot: when they are written, and withdrawn.

use crate::action::Write;
use crate::in_flight::InFlight;
use crate::jobs::nomination::SOON_MILLIS;
use crate::parts::Slots;
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use fluxqueue_workload::Uid;

impl Slots<'_> {
    /// Withdraws the nomination of a pod that has lost its slot.
    pub(crate) fn withdraw_nomination(&mut self, uid: &Uid) -> Sound {
        let member = self.jobs.members.known_mut(uid)?;
        member.nomination.is_due = false;
        self.see_to_nomination(uid)?;
        Ok(())
    }

    /// Makes a pod's nomination agree with the node that it is to go to.
    pub(crate) fn see_to_nomination(&mut self, uid: &Uid) -> Sound {
        let member = self.jobs.members.current_mut(uid)?;
        let (pod, nomination) = (&member.pod, &mut member.nomination);
        if !nomination.is_due && nomination.said.is_none() {
            return Ok(());
        }
        // Once its Binding is sent, the pod needs no nomination.
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
            // The nomination is correct now, even if another client wrote it.
            nomination.said = node;
            return Ok(());
        }
        if node.is_none() && pod.nominated != nomination.said {
            // The nomination there is another client's, or Fluxqueue's own has not been seen yet:
            // then its arrival calls this again.
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
        let write = Write::Nominate { pod, resource_version, node };
        nomination.writing =
            Some(self.agenda.actions.ask(write, InFlight::Nomination(uid.clone(), before)));
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
