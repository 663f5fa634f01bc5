//! Stand-ins that can be told apart by the numbers of the pods that they stand for.

use std::sync::Arc;

use crate::jobs::member::Member;
use crate::jobs::registry::Jobs;
use crate::jobs::stage::Stage;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::GROUP_SIZE_MAX;

impl Jobs {
    /// Replaces the single stand-in of a job that has a place now by one for each pod that it will
    /// have. So there are never more stand-ins than the machine can hold. False if the job has pods
    /// of its own.
    pub(crate) fn tell_stand_ins_apart(&mut self, id: JobId) -> bool {
        let Some(job) = self.all.get_mut(&id).filter(|job| job.suspended.has_stand_ins()) else {
            return false;
        };
        let count = std::mem::replace(&mut job.pods.stands_for, 1);
        let job = self.all.get(&id);
        let one = job.and_then(|job| self.live(job).find(|member| member.pod.stands_in));
        let made_by = job.and_then(|job| self.controllers.of_job(&job.workload.identity));
        let suspension = made_by.and_then(|made_by| made_by.suspension.as_ref());
        let (Some(one), Some(suspension)) = (one, suspension) else { return false };
        let (is_indexed, terms) = (suspension.is_indexed, one.terms.clone());
        let pod = Arc::clone(&one.pod);
        let count = u32::try_from(count).unwrap_or(GROUP_SIZE_MAX);
        self.take_out(id, &pod);
        for number in 0..count {
            let mut like = pod.stand_in_of_number(number);
            like.completion_index = is_indexed.then_some(number);
            let member = Member::new(Arc::new(like), id, Stage::Waiting);
            self.put_in(id, Member { terms: terms.clone(), ..member });
        }
        true
    }
}
