//! `status.nominatedNodeName` of our pods: said while a pod has a node and cannot be bound to it
//! yet, because claims have to be bound first, its own or those of other pods of its gang.
//!
//! As kube-scheduler does it ([KEP-5278](https://kep.k8s.io/5278)), so that an autoscaler does not
//! remove the node, and a scheduler that takes over tries it first. Nothing rests on it: no Binding
//! waits for it, and where it cannot be written it is left out. A Binding takes it away (since
//! Kubernetes 1.35). If there is none we do, unless somebody else has written another node by then.
//! What a process that died has left on a pod stays until the pod is placed again.

use crate::WriteOutcome;
use crate::parts::Binding;
use crate::sound::{Lookup, Sound};
use fluxqueue_workload::{NodeName, Uid};

/// The pause until a write is repeated that was decided on an older version of the pod, or beside
/// another write to it.
pub(crate) const SOON_MILLIS: i64 = 1_000;

/// The pause after a write has failed.
const FAILED_MILLIS: i64 = 30_000;

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
