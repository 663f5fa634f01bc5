//! Consistency: finds jobs for which two parts of the state disagree, and rebuilds them.
//!
//! Such a contradiction is a defect of the core. Tests panic. A scheduler in use logs and counts
//! it, and rebuilds the job from stored objects as after a restart: from its pods, its FluxJob and
//! the placement in it.

use std::ops::Bound;

use crate::cycle::Core;
use crate::cycle::walks::Seen;
use crate::jobs::job::{Job, Style};
use crate::jobs::member::Member;
use crate::jobs::order::PodOrder;
use crate::jobs::registry::Jobs;
use crate::jobs::stage::Stage;
use crate::sound::Reference;
use fluxqueue_planner::queue::{JobId, PendingRequest};
use fluxqueue_workload::Uid;

/// The least time between two rebuilds of a job, in milliseconds.
const ANEW_MILLIS: i64 = 60_000;

impl Core {
    /// Reports the contradictions that were found since the last call, and rebuilds the jobs that
    /// they are about.
    pub(crate) fn mend_contradictions(&mut self) {
        for found in self.agenda.take_contradictions() {
            let job = job_around(&self.jobs, &found.about);
            let key = job.and_then(|id| self.jobs.all.get(&id)).map(|job| job.key.to_string());
            tracing::error!(job = key, %found, "the state contradicts itself");
            if let Some(id) = job {
                self.rebuild_job(id);
            }
        }
    }

    /// Checks a job from the point that `seen` has reached, visiting at most `pods` of its pods,
    /// and rebuilds the job if it contradicts itself. Returns the number of pods visited, and the
    /// point from which the next look continues if pods are left.
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
            of_job.or_else(|| contradiction_of_pods(&self.jobs, job, &mut seen, &mut left))
        else {
            return (pods - left, (left == 0).then_some(seen));
        };
        tracing::error!(job = %job.key, %contradiction, "a job contradicts itself");
        debug_assert!(false, "{}: {contradiction}", job.key);
        self.agenda.gauges.interruptions.contradictions += 1;
        self.rebuild_job(id);
        (pods - left, None)
    }

    /// Returns the first contradiction of a job.
    #[cfg(test)]
    pub(crate) fn contradiction(&self, job: &Job) -> Option<String> {
        let (mut seen, mut all) = (Seen::default(), usize::MAX);
        self.contradiction_of_job(job)
            .or_else(|| contradiction_of_pods(&self.jobs, job, &mut seen, &mut all))
    }

    /// Returns the first contradiction of a job itself, apart from those of its pods.
    fn contradiction_of_job(&self, job: &Job) -> Option<String> {
        if self.jobs.index.by_key.get(&job.key) != Some(&job.id) {
            return Some("its FluxJob's name leads to another job".to_owned());
        }
        if let Some(pending) =
            job.waiting.requests.iter().find(|pending| !self.planner.queue.contains(pending))
        {
            return Some(format!("{pending:?} is not in the queue"));
        }
        let kept = job.start.retained.iter().filter_map(|slot| slot.seat);
        if let Some(seat) = kept.into_iter().find(|seat| !job.start.seats.is_kept(*seat)) {
            return Some(format!("{seat:?} belongs to a retained slot, and is not kept"));
        }
        // While a walk is under way, and until changed terms have been taken up, such a difference
        // is allowed.
        if self.walks.under_way.is_none()
            && self.planner.cluster.neighbours().changed_terms().is_none()
            && !self.agenda.touched.contains(&job.id)
            && self.sight().is_seen_again(job.id)
        {
            return Some("it waits by anti-affinity terms of others as they were".to_owned());
        }
        None
    }

    /// Forgets everything that was derived about a job, and finds the job again: from its pods, and
    /// from the promise and the placement on record.
    ///
    /// At most one job per [`ANEW_MILLIS`] is rebuilt, so that a defect that recurs at once costs
    /// other jobs little. A job with Bindings on their way, or one that is found too soon after
    /// another, is left to the next look of the audit.
    pub(crate) fn rebuild_job(&mut self, id: JobId) {
        let is_its_own = |member: &&Member| member.job == id;
        let its_own = self.jobs.members.values().filter(is_its_own);
        let mut uids: Vec<Uid> = its_own.clone().map(|member| member.pod.id.uid.clone()).collect();
        let is_sent = |member: &Member| member.stage.is_binding();
        let is_too_soon =
            self.walks.under_way.is_some() || self.clock.now < self.walks.audit.rebuilds_from;
        if is_too_soon || its_own.clone().any(is_sent) {
            return;
        }
        uids.sort_unstable();
        self.walks.audit.rebuilds_from = self.clock.now.plus_millis(ANEW_MILLIS);
        self.agenda.gauges.interruptions.jobs_made_anew += 1;
        while let Some(pending) = self.planner.queue.first_of(id).cloned() {
            self.planner.queue.remove(&pending);
            self.promise_keeping().forget_promise(&pending);
        }
        if let Some(job) = self.jobs.all.get_mut(&id) {
            job.waiting.requests.clear();
        } else {
            self.jobs.index.by_identity.retain(|_, of| *of != id);
            self.jobs.index.by_key.retain(|_, of| *of != id);
        }
        let pods = self.members().take_out(id, &uids);
        self.recording().forget(id);
        let first_new = self.jobs.index.next;
        self.recovery().find_jobs(pods);
        for job in self.jobs.all.range(first_new..).map(|(_, job)| job) {
            let promise = job.status_on_record().and_then(|it| it.reservation.as_ref());
            let kept = promise.and_then(|promise| self.sight().kept_of(promise));
            if let Some((first, kept)) = first_request(job).zip(kept) {
                self.planner.promises.hear(&first, kept);
            }
        }
        self.agenda.queue_changed = true;
    }
}

/// Returns the request by which a job starts, once it has one.
fn first_request(job: &Job) -> Option<PendingRequest> {
    match job.style {
        Style::Gang => Some(PendingRequest::Start(job.id)),
        Style::Lone => job.pods.all.first().map(|uid| PendingRequest::Member(job.id, uid.clone())),
        Style::Elastic => None,
    }
}

/// Returns the job of a reference that leads nowhere.
fn job_around(jobs: &Jobs, reference: &Reference) -> Option<JobId> {
    let has = |job: &Job, uid: &Uid| {
        job.pods.all.contains(uid) || job.pods.live.values().any(|live| live == uid)
    };
    match reference {
        Reference::Job(id) => Some(*id),
        Reference::Pod(uid) => jobs.all.values().find(|job| has(job, uid)).map(|job| job.id),
    }
}

fn contradiction_of_pod(jobs: &Jobs, job: &Job, uid: &Uid) -> Option<String> {
    let Some(member) = jobs.members.get(uid) else {
        return Some(format!("pod {uid} is not known"));
    };
    let about = &member.pod.id;
    if member.job != job.id {
        return Some(format!("pod {about} belongs to another job"));
    }
    let is_alive = job.pods.live.get(&PodOrder::of(&member.pod)) == Some(uid);
    if is_alive == member.stage.has_ended() {
        return Some(format!("pod {about} is {:?}, and counts as the opposite", member.stage));
    }
    if member.seat.is_some() && matches!(member.stage, Stage::Waiting | Stage::Ended) {
        return Some(format!("pod {about} has a seat, and is {:?}", member.stage));
    }
    let sits = member.seat.is_none_or(|seat| job.start.seats.occupant(seat) == Some(uid));
    (!sits).then(|| format!("pod {about} has a seat that another pod has"))
}

/// Returns the first contradiction among the pods of a job. Visits at most `left` pods, and counts
/// `left` down.
pub(crate) fn contradiction_of_pods(
    jobs: &Jobs,
    job: &Job,
    seen: &mut Seen,
    left: &mut usize,
) -> Option<String> {
    if !seen.has_seen_alive {
        let from = seen.alive.take().map_or(Bound::Unbounded, Bound::Excluded);
        for (order, uid) in job.pods.live.range((from, Bound::Unbounded)).take(*left) {
            *left -= 1;
            if !job.pods.all.contains(uid) {
                return Some(format!("pod {uid} counts as alive, and is not one of its pods"));
            }
            seen.alive = Some(order.clone());
        }
        seen.has_seen_alive = *left > 0;
    }
    let from = seen.of_all.take().map_or(Bound::Unbounded, Bound::Excluded);
    for uid in job.pods.all.range((from, Bound::Unbounded)).take(*left) {
        *left -= 1;
        if let Some(contradiction) = contradiction_of_pod(jobs, job, uid) {
            return Some(contradiction);
        }
        seen.of_all = Some(uid.clone());
    }
    None
}
