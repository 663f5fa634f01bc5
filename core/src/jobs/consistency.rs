//! What cannot be: a job of which two parts of the state say different things.
//!
//! That is a defect of ours. Tests panic. A scheduler that is in use logs and counts it, and makes
//! the job anew from what is stored, as after a restart: from its pods, its FluxJob and the
//! placement there.

use std::ops::Bound;
use std::sync::Arc;

use crate::Core;
use crate::jobs::job::{Job, PodOrder, Stage};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{Pod, Uid};

/// How far a look at the pods of a job has come: there may be more of them than are looked at in
/// one go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Seen {
    /// The last of those that count as alive.
    alive: Option<PodOrder>,
    /// The last of all, once those that count as alive have been seen.
    of_all: Option<Uid>,
    has_seen_alive: bool,
}

impl Core {
    /// Looks at a job from where the last look has come to, at no more than `pods` of its pods, and
    /// makes it anew if it contradicts itself. How many pods were looked at, and where the next
    /// look goes on, if there is more to see.
    pub(crate) fn mend_contradiction(
        &mut self,
        id: JobId,
        mut seen: Seen,
        pods: usize,
    ) -> (usize, Option<Seen>) {
        let Some(job) = self.jobs.all.get(&id) else { return (0, None) };
        let is_begun = seen != Seen::default();
        let mut left = pods;
        let of_job = if is_begun { None } else { self.contradiction_of_job(job) };
        let Some(contradiction) =
            of_job.or_else(|| self.contradiction_of_pods(job, &mut seen, &mut left))
        else {
            return (pods - left, (left == 0).then_some(seen));
        };
        tracing::error!(job = %job.key, %contradiction, "a job contradicts itself, and is made anew");
        debug_assert!(false, "{}: {contradiction}", job.key);
        self.gauges.jobs_made_anew += 1;
        self.make_anew(id);
        (pods - left, None)
    }

    /// The first thing about a job that cannot be.
    #[cfg(test)]
    pub(crate) fn contradiction(&self, job: &Job) -> Option<String> {
        let (mut seen, mut all) = (Seen::default(), usize::MAX);
        self.contradiction_of_job(job)
            .or_else(|| self.contradiction_of_pods(job, &mut seen, &mut all))
    }

    /// The first thing about a job as such that cannot be.
    fn contradiction_of_job(&self, job: &Job) -> Option<String> {
        if self.jobs.by_key.get(&job.key) != Some(&job.id) {
            return Some("its FluxJob's name leads to another job".to_owned());
        }
        if let Some(pending) = job.pending.iter().find(|pending| !self.queue.contains(pending)) {
            return Some(format!("{pending:?} is not in the queue"));
        }
        // While a walk is under way, and until terms that have changed are looked at, it may.
        if self.under_way.is_none()
            && self.cluster.changed_terms().is_none()
            && !self.touched.contains(&job.id)
            && self.is_seen_anew(job.id)
        {
            return Some("it waits by anti-affinity terms of others as they were".to_owned());
        }
        None
    }

    /// The first thing about pods of a job that cannot be, of so many of them as are left to look
    /// at.
    pub(crate) fn contradiction_of_pods(
        &self,
        job: &Job,
        seen: &mut Seen,
        left: &mut usize,
    ) -> Option<String> {
        if !seen.has_seen_alive {
            let from = seen.alive.take().map_or(Bound::Unbounded, Bound::Excluded);
            for (order, uid) in job.live.range((from, Bound::Unbounded)).take(*left) {
                *left -= 1;
                if !job.members.contains(uid) {
                    return Some(format!("pod {uid} counts as alive, and is not one of its pods"));
                }
                seen.alive = Some(order.clone());
            }
            seen.has_seen_alive = *left > 0;
        }
        let from = seen.of_all.take().map_or(Bound::Unbounded, Bound::Excluded);
        for uid in job.members.range((from, Bound::Unbounded)).take(*left) {
            *left -= 1;
            if let Some(contradiction) = self.contradiction_of_pod(job, uid) {
                return Some(contradiction);
            }
            seen.of_all = Some(uid.clone());
        }
        None
    }

    fn contradiction_of_pod(&self, job: &Job, uid: &Uid) -> Option<String> {
        let Some(member) = self.jobs.members.get(uid) else {
            return Some(format!("pod {uid} is not known"));
        };
        let about = &member.pod.id;
        if member.job != job.id {
            return Some(format!("pod {about} belongs to another job"));
        }
        let is_alive = job.live.get(&PodOrder::of(&member.pod)) == Some(uid);
        if is_alive == (member.stage == Stage::Ended) {
            return Some(format!("pod {about} is {:?}, and counts as the opposite", member.stage));
        }
        let has_slot = member.allocation.is_some() || member.seat.is_some();
        if has_slot && matches!(member.stage, Stage::Waiting | Stage::Ended) {
            return Some(format!("pod {about} has a slot, and is {:?}", member.stage));
        }
        if member.stage.is_on_the_way() && member.allocation.is_none() {
            return Some(format!("pod {about} is {:?}, and has no slot", member.stage));
        }
        let sits = member.seat.is_none_or(|seat| job.seats.occupant(seat) == Some(uid));
        (!sits).then(|| format!("pod {about} has a seat that another pod has"))
    }

    /// Forgets all that was worked out about a job, and finds it again. Bindings that are on their
    /// way are waited for: the next look does it then.
    pub(crate) fn make_anew(&mut self, id: JobId) {
        let Some(job) = self.jobs.all.get(&id) else { return };
        let its_own =
            |uid: &&Uid| self.jobs.members.get(*uid).is_some_and(|member| member.job == id);
        let uids: Vec<Uid> = job.members.iter().filter(its_own).cloned().collect();
        let is_sent = |uid: &Uid| matches!(self.jobs.members[uid].stage, Stage::Binding(_));
        if uids.iter().any(is_sent) {
            return;
        }
        let Some(job) = self.jobs.all.get_mut(&id) else { return };
        let (pending, retained) =
            (std::mem::take(&mut job.pending), std::mem::take(&mut job.retained));
        for pending in &pending {
            self.queue.remove(pending);
        }
        for slot in retained {
            self.free_allocation(Some(slot.allocation));
        }
        let mut pods: Vec<Arc<Pod>> = Vec::new();
        for uid in &uids {
            let allocation = self.take_allocation(uid);
            self.free_allocation(allocation);
            let Some(member) = self.jobs.members.remove(uid) else { continue };
            self.by_node.unlist(&member.pod);
            // Who stands in for others is made again with the job.
            if !member.pod.stands_in {
                pods.push(member.pod);
            }
        }
        self.retaining.remove(&id);
        self.forget(id);
        self.find_jobs(pods);
        self.queue_changed = true;
    }
}
