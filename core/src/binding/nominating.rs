//! `status.nominatedNodeName` of our pods: said while a pod has a node and cannot be bound to it
//! yet, because claims have to be bound first, its own or those of other pods of its gang.
//!
//! As kube-scheduler does it ([KEP-5278](https://kep.k8s.io/5278)), so that an autoscaler does not
//! remove the node, and a scheduler that takes over tries it first. Nothing rests on it: no Binding
//! waits for it, and where it cannot be written it is left out. A Binding takes it away (since
//! Kubernetes 1.35). If there is none we do, unless somebody else has written another node by then.
//! What a process that died has left on a pod stays until the pod is placed again.

use crate::parts::Binding;
use crate::sound::{Lookup, Sound};
use crate::{ActionId, WriteOutcome};
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
    pub(crate) is_due: bool,
    /// The node that is written, or on its way, and ours to take away.
    pub(crate) said: Option<NodeName>,
    pub(crate) writing: Option<ActionId>,
    /// It could not be written, and is not tried again before.
    pub(crate) retry_at: Time,
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
