//! `status.nominatedNodeName` of members: written while a pod has a node and cannot be bound to it
//! yet, because claims have to be bound first, its own or those of other pods of its gang.
//!
//! As kube-scheduler does it ([KEP-5278](https://kep.k8s.io/5278)), so that an autoscaler does not
//! remove the node, and a scheduler that takes over tries it first. No decision depends on it: no
//! Binding waits for it, and where it cannot be written it is left out. A Binding removes it (since
//! Kubernetes 1.35). Without a Binding Fluxqueue removes it, unless another client has written
//! another node by then. A nomination that a dead process has left on a pod stays until the pod is
//! placed again.

use crate::event::WriteOutcome;
use crate::jobs::nomination::SOON_MILLIS;
use crate::parts::Binding;
use crate::sound::{Lookup, Sound};
use fluxqueue_workload::{NodeName, Uid};

/// The pause, in milliseconds, after a write has failed.
const FAILED_MILLIS: i64 = 30_000;

impl Binding<'_> {
    /// Nominates a pod with a slot, since its Binding takes a while: other controllers are to know
    /// its node.
    pub(crate) fn nominate(&mut self, uid: &Uid) -> Sound {
        let member = self.jobs.members.known_mut(uid)?;
        member.nomination.is_due = true;
        self.slots().see_to_nomination(uid)?;
        Ok(())
    }

    /// Takes up the outcome of a nomination's write. `before` is the nomination until then.
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
            // The nomination is to be removed all the same.
            WriteOutcome::Failed(_) if member.nomination.said.is_none() => {
                member.nomination.said = before;
                self.slots().nominate_later(uid, FAILED_MILLIS);
            }
            // A nomination that failed may exist too: it is removed when it is seen.
            _ => self.slots().see_to_nomination(uid)?,
        }
        Ok(())
    }
}
