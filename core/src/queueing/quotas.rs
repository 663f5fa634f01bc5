//! Quotas that change, and jobs that wait for one.

use std::sync::Arc;

use crate::jobs::job::Job;
use crate::jobs::quotas::Coming;
use crate::jobs::registry::Jobs;
use crate::jobs::suspended::{JobChange, Suspended};
use crate::parts::Queueing;
use crate::sound::{Lookup, Sound};
use crate::telling::outside::QuotaShortage;
use crate::timers::Timer;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{ObjectRef, Quota, Resources, Time};

/// The least time in milliseconds for which a released job counts beside the used part that a quota
/// reports. That number comes by a watch, about once a second.
const USE_SEEN_MILLIS: i64 = 2_000;

/// The pause in milliseconds before a job is refreshed again that finds too little left beside
/// other jobs with pods about to come.
const LOOK_AGAIN_MILLIS: i64 = 5_000;

impl Queueing<'_> {
    /// Takes up a quota that is new or has changed.
    pub(crate) fn put_quota(&mut self, quota: Arc<Quota>) {
        let key = quota.id.key.clone();
        let quotas = self.jobs.releases.quotas.known.entry(Arc::clone(&key.namespace)).or_default();
        quotas.insert(key.name, quota);
        self.look_at_quota_again(&key.namespace);
    }

    /// Removes a quota that is gone.
    pub(crate) fn remove_quota(&mut self, gone: &ObjectRef) {
        let known = &mut self.jobs.releases.quotas.known;
        if let Some(quotas) = known.get_mut(&gone.key.namespace) {
            if quotas.get(&gone.key.name).is_some_and(|quota| quota.id.uid == gone.uid) {
                quotas.remove(&gone.key.name);
            }
            if quotas.is_empty() {
                known.remove(&gone.key.namespace);
            }
            self.look_at_quota_again(&gone.key.namespace);
        }
    }

    /// Refreshes the jobs that wait for a quota of the namespace.
    fn look_at_quota_again(&mut self, namespace: &str) {
        let waiting = self.jobs.releases.quotas.waiting.remove(namespace);
        self.agenda.touched.extend(waiting.into_iter().flatten());
    }

    /// Notes that the pods of a job are about to come, since its Job is released.
    pub(crate) fn note_coming(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let namespace = Arc::clone(&job.key.namespace);
        if self.jobs.releases.quotas.known.contains_key(&namespace) {
            let coming = Coming {
                requests: asked_of_quotas(self.jobs, job),
                until: self.clock.now.plus_millis(USE_SEEN_MILLIS),
            };
            self.jobs.releases.quotas.coming.entry(namespace).or_default().insert(id, coming);
        }
        Ok(())
    }

    /// Lets a job wait because a quota leaves too little for its pods. The job is refreshed when
    /// the quota changes.
    pub(crate) fn wait_for_quota(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let namespace = Arc::clone(&job.key.namespace);
        let quotas = &mut self.jobs.releases.quotas;
        let is_beside_others = match quotas.coming.get_mut(&namespace) {
            None => false,
            Some(coming) => {
                coming.retain(|id, coming| {
                    coming.until > self.clock.now
                        || self.jobs.all.get(id).is_some_and(|job| is_to_have_pods(job))
                });
                !coming.is_empty()
            }
        };
        quotas.waiting.entry(namespace).or_default().insert(id);
        if is_beside_others {
            self.agenda.timers.wake(Timer::Job(id), self.clock.now.plus_millis(LOOK_AGAIN_MILLIS));
        }
        Ok(())
    }
}

/// Returns the reason for which a job that waits without pods is not released now: a quota leaves
/// too little for its pods. `None` if no quota does.
pub(crate) fn shortage(jobs: &Jobs, job: &Job, now: Time) -> Option<QuotaShortage> {
    let quotas = &jobs.releases.quotas;
    let known = quotas.known.get(&job.key.namespace)?;
    let asked = asked_of_quotas(jobs, job);
    let mut requests = asked.clone();
    for (id, coming) in quotas.coming.get(&job.key.namespace).into_iter().flatten() {
        if *id != job.id
            && (coming.until > now || jobs.all.get(id).is_some_and(|job| is_to_have_pods(job)))
        {
            requests.add(&coming.requests);
        }
    }
    let (quota, left) =
        known.values().find_map(|quota| Some((quota, quota.exceeded_by(&requests)?)))?;
    Some(QuotaShortage {
        quota: Arc::clone(&quota.id.key.name),
        name: left.name.clone(),
        resource: left.resource.clone(),
        left: left.amount,
        asked: asked.sum(&left.resource),
        is_beside_others: quota.exceeded_by(&asked).is_none(),
    })
}

/// True if the Job of a job was released, or is being released, and not all of its pods are there.
pub(crate) fn is_to_have_pods(job: &Job) -> bool {
    match &job.suspended {
        Suspended::Released { .. } => true,
        Suspended::Waits(write) => matches!(write.under_way, Some((_, JobChange::Release))),
        Suspended::No | Suspended::Over => false,
    }
}

/// Returns the requests that the pods of a job that waits without pods will make on the quotas of
/// their namespace.
fn asked_of_quotas(jobs: &Jobs, job: &Job) -> Resources {
    let stand_ins = || jobs.live(job).filter(|member| member.pod.stands_in);
    let pods = stand_ins().count().max(job.pods.stands_for);
    let requests = stand_ins().next().map(|member| member.pod.shape.requests.times(pods as u64));
    requests.unwrap_or_default()
}
