//! A gang from its placement until it is whole: all of it begins or nothing, and what has begun is
//! completed, or says why not.

use crate::jobs::registry::Jobs;
use crate::sound::{Lookup, Sound};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{NodeName, Uid};

impl Jobs {
    /// Gives a pod that another scheduler has bound the seat on its node.
    pub(crate) fn seat_bound(
        &mut self,
        id: JobId,
        uid: &Uid,
        node: &NodeName,
        index: Option<u32>,
    ) -> Sound {
        let job = self.all.known_mut(&id)?;
        let at = job.seats.next_free_on(node, index, &job.retained_seats());
        job.seats.take(at, 0, node, uid);
        if let Some(member) = self.members.get_mut(uid) {
            member.seat = Some(at);
        }
        Ok(())
    }
}
