//! What cannot be: a job of which two parts of the state say different things.
//!
//! That is a defect of ours. Tests panic. A scheduler that is in use logs and counts it, and makes the job anew from what is
//! stored, as after a restart: from its pods, its FluxJob and the placement there.

use std::sync::Arc;

use super::Core;
use super::job::{Job, Stage};
use crate::queue::JobId;
use fluxqueue_workload::{Pod, Uid};

impl Core {
    /// Looks at these jobs, and makes those anew that contradict themselves.
    pub(super) fn mend_contradictions(&mut self, ids: &[JobId]) {
        for id in ids {
            let Some(job) = self.jobs.all.get(id) else { continue };
            let Some(contradiction) = self.contradiction(job) else { continue };
            tracing::error!(job = %job.key, %contradiction, "a job contradicts itself, and is made anew");
            debug_assert!(false, "{}: {contradiction}", job.key);
            self.gauges.jobs_made_anew += 1;
            self.make_anew(*id);
        }
    }

    /// The first thing about a job that cannot be.
    pub(super) fn contradiction(&self, job: &Job) -> Option<String> {
        if self.jobs.by_key.get(&job.key) != Some(&job.id) {
            return Some("its FluxJob's name leads to another job".to_owned());
        }
        if let Some(pending) = job.pending.iter().find(|pending| !self.queue.contains(pending)) {
            return Some(format!("{pending:?} is not in the queue"));
        }
        if let Some(uid) = job.live.values().find(|uid| !job.members.contains(*uid)) {
            return Some(format!("pod {uid} counts as alive, and is not one of its pods"));
        }
        // While a walk is under way, and until terms that have changed are looked at, it may.
        if self.under_way.is_none()
            && self.cluster.changed_terms().is_none()
            && !self.touched.contains(&job.id)
            && self.is_seen_anew(job.id)
        {
            return Some("it waits by anti-affinity terms of others as they were".to_owned());
        }
        let mut alive: Vec<&Uid> = job.live.values().collect();
        alive.sort_unstable();
        // Both in order, so that one walk finds who of the members is alive.
        let mut alive = alive.into_iter().peekable();
        job.members.iter().find_map(|uid| {
            while alive.next_if(|next| *next < uid).is_some() {}
            let is_alive = alive.peek().is_some_and(|next| *next == uid);
            self.contradiction_of_pod(job, uid, is_alive)
        })
    }

    fn contradiction_of_pod(&self, job: &Job, uid: &Uid, is_alive: bool) -> Option<String> {
        let Some(member) = self.jobs.members.get(uid) else { return Some(format!("pod {uid} is not known")) };
        let about = &member.pod.id;
        if member.job != job.id {
            return Some(format!("pod {about} belongs to another job"));
        }
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

    /// Forgets all that was worked out about a job, and finds it again. Bindings that are on their way are waited for: the next
    /// look does it then.
    pub(super) fn make_anew(&mut self, id: JobId) {
        let Some(job) = self.jobs.all.get(&id) else { return };
        let its_own = |uid: &&Uid| self.jobs.members.get(*uid).is_some_and(|member| member.job == id);
        let uids: Vec<Uid> = job.members.iter().filter(its_own).cloned().collect();
        let is_sent = |uid: &Uid| matches!(self.jobs.members[uid].stage, Stage::Binding(_));
        if uids.iter().any(is_sent) {
            return;
        }
        let Some(job) = self.jobs.all.get_mut(&id) else { return };
        let (pending, retained) = (std::mem::take(&mut job.pending), std::mem::take(&mut job.retained));
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
