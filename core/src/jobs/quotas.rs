//! ResourceQuotas: a release that is known to fail is not tried.
//!
//! The API server refuses pods beyond a quota when they are made. Nodes would be idle for a Job
//! that waits without pods until its pods have not come, so it waits without a claim where a quota
//! is known to leave too little for them. That is a forecast, and only of pods that do not exist: a
//! quota with scopes, or what admission adds to pods, is left to the API server (`releases`), and
//! pods that exist have passed their quotas.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::jobs::Jobs;
use crate::jobs::job::{Job, JobChange, Suspended};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::quantity::quantity;
use fluxqueue_workload::{Quota, Resources, Time};

/// The quotas that there are, and the jobs that depend on them, by namespace.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    pub(crate) known: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Arc<Quota>>>,
    /// Jobs that were released, until all of their pods are counted by the quotas.
    pub(crate) coming: BTreeMap<Arc<str>, BTreeMap<JobId, Coming>>,
    /// Jobs for which a quota leaves too little.
    pub(crate) waiting: BTreeMap<Arc<str>, BTreeSet<JobId>>,
}

/// The pods of a job that was released.
#[derive(Debug)]
pub(crate) struct Coming {
    pub(crate) requests: Resources,
    /// They count as long as the job holds their places, and until then.
    pub(crate) until: Time,
}

impl Quotas {
    /// Forgets a job.
    pub(crate) fn forget(&mut self, namespace: &str, id: JobId) {
        if let Some(jobs) = self.waiting.get_mut(namespace) {
            jobs.remove(&id);
        }
        if let Some(jobs) = self.coming.get_mut(namespace) {
            jobs.remove(&id);
        }
    }
}

/// Why a job that waits without pods is not released now: a quota leaves too little for its pods.
pub(crate) fn shortage(jobs: &Jobs, job: &Job, now: Time) -> Option<String> {
    let quotas = &jobs.releases.quotas;
    let known = quotas.known.get(&job.key.namespace)?;
    let asked = jobs.asked_of_quotas(job);
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
    let beside = if quota.exceeded_by(&asked).is_none() {
        " beside those of Jobs that were just released"
    } else {
        ""
    };
    let amount = |amount| quantity(&left.resource, amount);
    Some(format!(
        "resourcequota {} leaves {} of {}, and its pods ask for {}{beside}",
        quota.id.key.name,
        amount(u128::from(left.amount)),
        left.name,
        amount(asked.sum(&left.resource))
    ))
}

/// Its Job was released, or is being released, and not all of its pods are there.
pub(crate) fn is_to_have_pods(job: &Job) -> bool {
    match &job.suspended {
        Suspended::Released { .. } => true,
        Suspended::Waits(write) => matches!(write.under_way, Some((_, JobChange::Release))),
        Suspended::No | Suspended::Over => false,
    }
}

impl Jobs {
    /// What the pods of a job that waits without pods will ask of the quotas of their namespace.
    pub(crate) fn asked_of_quotas(&self, job: &Job) -> Resources {
        let stand_ins = || self.live(job).filter(|member| member.pod.stands_in);
        let pods = stand_ins().count().max(job.stands_for);
        let requests =
            stand_ins().next().map(|member| member.pod.shape.requests.times(pods as u64));
        requests.unwrap_or_default()
    }
}
