//! What the core tells about itself: numbers for the metrics, without any metrics library.
//!
//! Counters only grow, from 0 at the start of the process; gauges say how it is now.

mod starts;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use fluxqueue_planner::queues::QueueLoad;
pub use starts::{EstimateSaid, Hours, StartErrors, Waits};

use fluxqueue_planner::plan::Delay;
use fluxqueue_workload::Resources;

/// The causes for which a promised start is put off, as the metrics have them.
pub const DELAY_CAUSES: [&str; 4] = {
    let [walltime, capacity, priority, edit] = Delay::ALL;
    [walltime.as_str(), capacity.as_str(), priority.as_str(), edit.as_str()]
};

/// How many namespaces are counted by name: each is a time series of its own, and tenants make
/// namespaces.
pub const NAMESPACES_MAX: usize = 256;

/// All numbers of the core at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Gauges {
    /// Pods that wait, by why.
    pub pending_pods: PendingPods,
    /// FluxJobs by state, with the state's name as users see it.
    pub jobs: Vec<(&'static str, u64)>,
    /// Nodes in the picture of the cluster.
    pub nodes: u64,
    /// Pods in the picture of the cluster, whoever schedules them.
    pub pods: u64,
    /// Pods that we decided to bind and whose Binding has no outcome yet.
    pub assumed_pods: u64,
    /// Attempts to place, per scheduler name.
    pub attempts: Vec<Attempts>,
    /// From the moment at which a pod could first have been placed to its Binding.
    pub scheduling_sli: DurationCounts,
    /// How long jobs waited, by queue, of those that this process has started; and the contents of
    /// the queues now.
    pub waits: Waits,
    /// How much later or earlier they started than was said.
    pub start_estimates: StartErrors,
    /// Pods bound by this process.
    pub pods_bound: u64,
    /// Pods that a kubelet refused or evicted after we had placed them.
    pub kubelet_refusals: u64,
    /// Pods that another scheduler bound, or that ended up elsewhere than we meant.
    pub bound_elsewhere: u64,
    /// Reservations that were made later than promised, by cause.
    pub reservations_delayed: BTreeMap<&'static str, u64>,
    /// Those of them that were delayed by pods that outlived their planned ends, by the namespace
    /// of the pod: of the first [`NAMESPACES_MAX`], and of all others together under `""`.
    pub overruns: BTreeMap<Arc<str>, u64>,
    /// Reservations that stand now.
    pub reservations: u64,
    /// Nodes that are held for those who were passed by for long enough.
    pub nodes_drained: u64,
    /// What is free of the nodes that waiting jobs hold without a date, whatever the policy: what
    /// stands idle for them.
    pub held_idle: Resources,
    /// Placements of gangs that were withdrawn before their first Binding.
    pub placements_withdrawn: u64,
    /// Times that other jobs stopped waiting for the write of a FluxJob, which had no answer for 10
    /// s or was refused.
    pub records_given_up: u64,
    /// Jobs that waited without pods, were released, and whose pods did not all come in time.
    pub releases_failed: u64,
    /// Slots that were retained for a successor and passed on to it.
    pub slots_passed_on: u64,
    /// Calls into the resource graph that failed: each is a defect.
    pub graph_errors: u64,
    /// Times that no place was found for pods that start together, and none was proved impossible.
    pub placements_not_found: u64,
    /// Differences that the audit found between the graph and what was received.
    pub audit_differences: u64,
    /// Work on jobs and pods that ended early.
    pub interruptions: Interruptions,
    /// Scheduling passes.
    pub passes: u64,
    /// Times that a job was looked at anew.
    pub jobs_looked_at: u64,
    /// The first lists have been received.
    pub synced: bool,
}

/// How often work on a job or a pod ended early, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interruptions {
    /// News about jobs and pods that had gone meanwhile.
    pub outdated: u64,
    /// Contradictions in the state: each is a defect.
    pub contradictions: u64,
    /// Jobs that contradicted themselves, and were rebuilt.
    pub jobs_made_anew: u64,
}

impl Gauges {
    /// A promised start was delayed by a pod of this namespace that has outlived its planned end.
    pub(crate) fn count_overrun(&mut self, namespace: &Arc<str>) {
        let is_named =
            self.overruns.len() < NAMESPACES_MAX || self.overruns.contains_key(namespace);
        let name = if is_named { Arc::clone(namespace) } else { Arc::default() };
        *self.overruns.entry(name).or_default() += 1;
    }
}

/// Waiting pods, by kube-scheduler's names of queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PendingPods {
    /// They wait for their turn or for room.
    pub active: u64,
    /// Something failed; they are tried again later.
    pub backoff: u64,
    /// They can never run on the nodes there are, or were refused.
    pub unschedulable: u64,
    /// Gated by someone else, held, or of a group that is not complete.
    pub gated: u64,
}

/// Attempts to place pods that name one scheduler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempts {
    /// The scheduler name.
    pub profile: Arc<str>,
    /// Pods that were placed.
    pub scheduled: u64,
    /// Pods that found no room.
    pub unschedulable: u64,
    /// Attempts that failed otherwise.
    pub error: u64,
}

/// How many buckets have a bound.
const BOUNDS: usize = 20;

/// A histogram of durations, with kube-scheduler's buckets of the SLI: 10 ms times 2^0 to 2^19.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DurationCounts {
    /// Per bucket; the last has no bound.
    counts: [u64; BOUNDS + 1],
    /// Sum in microseconds, exact, so that equal runs give equal reports.
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

    /// Bucket bounds in seconds (the last is infinite) with the number of durations in each bucket,
    /// not accumulated.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        self.counts.iter().enumerate().map(|(at, count)| {
            let bound = if at < BOUNDS { seconds(Self::bound_micros(at)) } else { f64::INFINITY };
            (bound, *count)
        })
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum, in seconds.
    pub fn sum_seconds(&self) -> f64 {
        seconds(self.sum_micros)
    }

    fn bound_micros(bucket: usize) -> u64 {
        10_000 << bucket
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "sums of durations stay far below 2^53 microseconds"
)]
fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
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
