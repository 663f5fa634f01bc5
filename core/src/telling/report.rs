//! Numbers of the core for the metrics, without any metrics library.
//!
//! Counters only grow, from 0 at the start of the process; gauges give the present value.

mod starts;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use fluxqueue_planner::queues::QueueLoad;
use starts::seconds;
pub use starts::{EstimateSaid, Hours, StartErrors, Waits};

use fluxqueue_planner::plan::Delay;
use fluxqueue_workload::Resources;

/// The causes of delayed starts, as labels of the metrics.
pub const DELAY_CAUSES: [&str; 4] = {
    let [walltime, capacity, priority, edit] = Delay::ALL;
    [walltime.as_str(), capacity.as_str(), priority.as_str(), edit.as_str()]
};

/// Most namespaces that are counted by name: each is a time series of its own, and tenants can make
/// namespaces at will.
pub const NAMESPACES_MAX: usize = 256;

/// All numbers of the core at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Gauges {
    /// The pods that wait, by reason.
    pub pending_pods: PendingPods,
    /// The FluxJobs by state, with the state's name as users see it.
    pub jobs: Vec<(&'static str, u64)>,
    /// The nodes in the picture of the cluster.
    pub nodes: u64,
    /// The pods in the picture of the cluster, of any scheduler.
    pub pods: u64,
    /// The pods with a decided node and a Binding that has no outcome yet.
    pub assumed_pods: u64,
    /// The attempts to place pods, per scheduler name.
    pub attempts: Vec<Attempts>,
    /// The time from the moment at which a pod could first have been placed to its Binding.
    pub scheduling_sli: DurationCounts,
    /// The waiting times of jobs that this process has started, by queue; and the contents of the
    /// queues now.
    pub waits: Waits,
    /// The differences between the estimated and the real starts.
    pub start_estimates: StartErrors,
    /// The pods bound by this process.
    pub pods_bound: u64,
    /// The pods that a kubelet refused or evicted after this scheduler had placed them.
    pub kubelet_refusals: u64,
    /// The pods that another scheduler bound, or that ended up on another node than intended.
    pub bound_elsewhere: u64,
    /// The reservations that were made later than promised, by cause.
    pub reservations_delayed: BTreeMap<&'static str, u64>,
    /// The delays among them that are due to pods that outlived their planned ends.
    pub overruns: ByNamespace,
    /// The reservations that stand now.
    pub reservations: u64,
    /// The nodes that are held for requests that were passed by for long enough.
    pub nodes_drained: u64,
    /// The free resources of the nodes that waiting jobs hold without a date, under any policy:
    /// they stand idle for these jobs.
    pub held_idle: Resources,
    /// The placements of gangs that were withdrawn before their first Binding.
    pub placements_withdrawn: u64,
    /// The number of times that other jobs stopped waiting for the write of a FluxJob, which had no
    /// answer for 10 s or was refused.
    pub records_given_up: u64,
    /// The jobs that waited without pods and were released, but did not get all their pods in time.
    pub releases_failed: u64,
    /// The slots that were retained for a successor and passed on to it.
    pub slots_passed_on: u64,
    /// The failed calls into the resource graph: each is a defect.
    pub graph_errors: u64,
    /// The number of times that no place was found for pods that start together, and none was
    /// proved impossible.
    pub placements_not_found: u64,
    /// The differences that the audit found between the accounts and the pods.
    pub audit_differences: u64,
    /// The work on jobs and pods that ended early.
    pub interruptions: Interruptions,
    /// The scheduling passes.
    pub passes: u64,
    /// The number of times that a job was refreshed.
    pub jobs_looked_at: u64,
    /// True once the first lists have been received.
    pub synced: bool,
}

/// How often work on a job or a pod ended early, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interruptions {
    /// The news about jobs and pods that had gone meanwhile.
    pub outdated: u64,
    /// The contradictions in the state: each is a defect.
    pub contradictions: u64,
    /// The jobs that contradicted themselves and were rebuilt.
    pub jobs_made_anew: u64,
}

/// A counter by namespace: the first [`NAMESPACES_MAX`] have a count of their own, and all others
/// together have the count of `""`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ByNamespace(BTreeMap<Arc<str>, u64>);

impl ByNamespace {
    /// Counts one more in this namespace.
    pub(crate) fn count(&mut self, namespace: &Arc<str>) {
        let is_named = self.0.len() < NAMESPACES_MAX || self.0.contains_key(namespace);
        let name = if is_named { Arc::clone(namespace) } else { Arc::default() };
        *self.0.entry(name).or_default() += 1;
    }

    /// Returns the counts of the namespaces that have one of their own.
    pub fn named(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().filter(|(name, _)| !name.is_empty()).map(|(name, count)| (&**name, *count))
    }

    /// Returns the count of all others.
    pub fn of_others(&self) -> u64 {
        self.0.get("").copied().unwrap_or(0)
    }
}

/// Waiting pods, by kube-scheduler's names of queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PendingPods {
    /// The pods that wait for their turn or for room.
    pub active: u64,
    /// The pods that are tried again later after a failure.
    pub backoff: u64,
    /// The pods that can never run on the present nodes, or were refused.
    pub unschedulable: u64,
    /// The pods that are gated by another controller, held, or of an incomplete group.
    pub gated: u64,
}

/// Attempts to place pods that name one scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempts {
    /// The scheduler name.
    pub profile: Arc<str>,
    /// The number of pods that were placed.
    pub scheduled: u64,
    /// The number of pods that found no room.
    pub unschedulable: u64,
    /// The number of attempts that failed otherwise.
    pub error: u64,
}

/// The number of buckets that have a bound.
const BOUNDS: usize = 20;

/// A histogram of durations, with kube-scheduler's buckets of the SLI: 10 ms times 2^0 to 2^19.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DurationCounts {
    /// The count per bucket; the last has no bound.
    counts: [u64; BOUNDS + 1],
    /// The sum in microseconds, exact, so that equal runs give equal reports.
    sum_micros: u64,
}

// === impl DurationCounts ===

impl DurationCounts {
    /// Counts one duration; a negative one (clocks differ) counts as 0.
    pub fn observe_micros(&mut self, micros: i64) {
        let micros = u64::try_from(micros).unwrap_or(0);
        let bucket = (0..BOUNDS).find(|&at| micros <= Self::bound_micros(at)).unwrap_or(BOUNDS);
        self.counts[bucket] += 1;
        self.sum_micros = self.sum_micros.saturating_add(micros);
    }

    /// Returns the bucket bounds in seconds (the last is infinite), each with the number of
    /// durations in its bucket, not accumulated.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        self.counts.iter().enumerate().map(|(at, count)| {
            let bound = if at < BOUNDS { seconds(Self::bound_micros(at)) } else { f64::INFINITY };
            (bound, *count)
        })
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns their sum, in seconds.
    pub fn sum_seconds(&self) -> f64 {
        seconds(self.sum_micros)
    }

    fn bound_micros(bucket: usize) -> u64 {
        10_000 << bucket
    }
}

#[cfg(test)]
mod tests {
    use super::DurationCounts;

    #[test]
    fn durations_fall_into_kube_schedulers_buckets() {
        let mut counts = DurationCounts::default();
        for micros in [-5, 0, 10_000, 10_001, 20_000, i64::MAX] {
            counts.observe_micros(micros);
        }
        let buckets: Vec<(f64, u64)> = counts.buckets().collect();
        assert_eq!(buckets.len(), 21);
        assert_eq!(buckets[0], (0.01, 3));
        assert_eq!(buckets[1], (0.02, 2));
        assert_eq!(buckets[19], (5242.88, 0));
        assert_eq!(buckets[20], (f64::INFINITY, 1));
        assert_eq!(counts.count(), 6);
    }
}
