//! ResourceQuotas: a release that is known to fail is not tried.
//!
//! The API server refuses pods beyond a quota when they are made. Nodes would be idle for a Job
//! that waits without pods until its pods have not come, so it waits without a claim where a quota
//! is known to leave too little for them. That is a forecast, and only of pods that do not exist: a
//! quota with scopes, or what admission adds to pods, is left to the API server (`releases`), and
//! pods that exist have passed their quotas.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{Quota, Resources, Time};

/// The known quotas, and the jobs that depend on them, by namespace.
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
    /// The time until which the pods count at least. They count for longer while the job holds
    /// places for them.
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
