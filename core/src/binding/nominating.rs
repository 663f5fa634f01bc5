//! `status.nominatedNodeName` of our pods: said while a pod has a node and cannot be bound to it
//! yet, because claims have to be bound first, its own or those of other pods of its gang.
//!
//! As kube-scheduler does it ([KEP-5278](https://kep.k8s.io/5278)), so that an autoscaler does not
//! remove the node, and a scheduler that takes over tries it first. Nothing rests on it: no Binding
//! waits for it, and where it cannot be written it is left out. A Binding takes it away (since
//! Kubernetes 1.35). If there is none we do, unless somebody else has written another node by then.
//! What a process that died has left on a pod stays until the pod is placed again.

use crate::in_flight::InFlight;
use crate::parts::{Binding, Slots};
use crate::sound::{Lookup, Sound};
use crate::{ActionId, ActionKind, Timer, WriteOutcome};
use fluxqueue_workload::{NodeName, Time, Uid};

/// The pause until a write is repeated that was decided on an older version of the pod, or beside
/// another write to it.
pub(crate) const SOON_MILLIS: i64 = 1_000;

/// The pause after a write has failed.
const FAILED_MILLIS: i64 = 30_000;

/// What a pod says of the node that it is to go to.
#[derive(Debug)]
pub(crate) struct Nomination {
    /// It has a slot, and claims are being bound.
    is_due: bool,
    /// The node that is written, or on its way, and ours to take away.
    said: Option<NodeName>,
    writing: Option<ActionId>,
    /// It could not be written, and is not tried again before.
    retry_at: Time,
}

impl Nomination {
    /// Nothing is said.
    pub(crate) fn none() -> Self {
        Nomination { is_due: false, said: None, writing: None, retry_at: Time(0) }
    }

    /// A write is on its way.
    pub(crate) fn is_being_written(&self) -> bool {
        self.writing.is_some()
    }
}

impl Binding<'_> {
    /// Others are to know where a pod with a slot will be, since that takes a while.
    pub(crate) fn nominate(&mut self, uid: &Uid) -> Sound {
        if let Some(member) = self.jobs.members.get_mut(uid) {
            member.nomination.is_due = true;
            self.slots().see_to_nomination(uid)?;
        }
        Ok(())
    }

    /// What came of it. `before` is what was said until then.
    pub(crate) fn nomination_written(
        &mut self,
        uid: &Uid,
        before: Option<NodeName>,
        outcome: &WriteOutcome,
    ) -> Sound {
        let member = self.jobs.members.current_mut(uid)?;
        member.nomination.writing = None;
        match outcome {
            WriteOutcome::Conflict => {
                member.nomination.said = before;
                self.slots().nominate_later(uid, SOON_MILLIS);
            }
            // It is to be taken away all the same.
            WriteOutcome::Failed(_) if member.nomination.said.is_none() => {
                member.nomination.said = before;
                self.slots().nominate_later(uid, FAILED_MILLIS);
            }
            // Also a nomination that failed may be there: it is taken away when it is seen.
            _ => self.slots().see_to_nomination(uid)?,
        }
        Ok(())
    }
}

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

    fn nominate_later(&mut self, uid: &Uid, pause_millis: i64) {
        let at = self.clock.now.plus_millis(pause_millis);
        if let Some(member) = self.jobs.members.get_mut(uid) {
            member.nomination.retry_at = at;
            self.agenda.timers.wake(Timer::Nomination(uid.clone()), at);
        }
    }
}
