//! The metrics of the process: counters of the shell, and numbers that the core reports on request.
//!
//! Where kube-scheduler has a metric of the same meaning, stem and labels are the same, so that a
//! dashboard needs only another prefix. One label differs: `queue` is always a queue of jobs.
//! `prometheus-client` adds `_total` and unit suffixes.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::process::ProcessCollector;
use fluxqueue_core::report::{DELAY_CAUSES, Gauges, Hours, QueueLoad};
use fluxqueue_workload::Resources;

/// The labels of one counter: all values come from closed sets.
pub type Labels<const N: usize> = [(&'static str, &'static str); N];

/// The prefix of our metrics' names.
pub const PREFIX: &str = "fluxqueue";

/// The labels of a histogram that is empty, and so without labels, until the first job starts.
pub const WAIT_LABELS: [&str; 1] = ["queue"];

/// The same, until the first job with an estimate starts.
pub const ESTIMATE_ERROR_LABELS: [&str; 3] = ["estimate", "kind", "direction"];

/// All counters of the shell, shared by its tasks.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    snapshot: Arc<Snapshot>,
    /// The duration of a Binding, from the request to its answer.
    pub binding_duration: Histogram,
    /// Bindings by result.
    pub bindings: Family<Labels<1>, Counter>,
    /// Other writes by operation and result.
    pub writes: Family<Labels<2>, Counter>,
    /// Errors of watches by kind.
    pub watch_errors: Family<Labels<1>, Counter>,
    /// Objects that could not be read, by kind.
    pub invalid_objects: Family<Labels<1>, Counter>,
    /// Changes that were received, by kind.
    pub changes: Family<Labels<1>, Counter>,
    /// Events that were written.
    pub notes_sent: Counter,
    /// Events that were not written because too many were waiting, or because the server refused
    /// them.
    pub notes_dropped: Counter,
    /// Events that only repeated an earlier one.
    pub notes_repeated: Counter,
    /// The duration of one scheduling pass of the core.
    pub algorithm_duration: Histogram,
    /// The time from the decision to bind a pod to the Binding's answer, queueing included.
    pub attempt_duration: Histogram,
    /// 1 while this process leads.
    pub leader: Gauge,
}

/// The numbers that are read at scrape time.
#[derive(Debug, Default)]
struct Snapshot(Mutex<Scrape>);

#[derive(Debug, Default)]
struct Scrape {
    core: Option<Gauges>,
    depths: Vec<(&'static str, usize)>,
}

// === impl Metrics ===

impl Metrics {
    /// Registers all metrics.
    pub fn new(version: &'static str, commit: &'static str) -> Self {
        let mut all = registry(version, commit);
        let registry = all.sub_registry_with_prefix(PREFIX);
        let snapshot = Arc::new(Snapshot::default());
        registry.register_collector(Box::new(Arc::clone(&snapshot)));
        Metrics {
            binding_duration: seconds(
                registry,
                "binding_duration",
                "Duration of a Binding request",
            ),
            bindings: family(registry, "bindings", "Bindings, by result"),
            writes: family(
                registry,
                "writes",
                "Writes other than Bindings, by operation and result",
            ),
            watch_errors: family(
                registry,
                "watch_errors",
                "Errors of watches, by kind; each is retried",
            ),
            invalid_objects: family(
                registry,
                "invalid_objects",
                "Objects that could not be read, by kind",
            ),
            changes: family(registry, "watch_changes", "Changes received from watches, by kind"),
            notes_sent: counter(registry, "events_sent", "Kubernetes Events written"),
            notes_dropped: counter(
                registry,
                "events_dropped",
                "Kubernetes Events that were dropped",
            ),
            notes_repeated: counter(
                registry,
                "events_repeated",
                "Kubernetes Events that repeated an earlier one",
            ),
            algorithm_duration: seconds(
                registry,
                "scheduling_algorithm_duration",
                "Duration of a scheduling pass",
            ),
            attempt_duration: seconds(
                registry,
                "scheduling_attempt_duration",
                "Time from the decision to bind a pod to the answer to its Binding",
            ),
            leader: {
                let gauge = Gauge::default();
                registry.register("leader", "1 while this process leads", gauge.clone());
                gauge
            },
            registry: all,
            snapshot,
        }
    }

    /// Returns the text of a scrape. `core` is absent while this process does not lead.
    pub fn render(
        &self,
        core: Option<Gauges>,
        depths: Vec<(&'static str, usize)>,
    ) -> Result<String, fmt::Error> {
        *self.snapshot.0.lock().unwrap_or_else(PoisonError::into_inner) = Scrape { core, depths };
        render(&self.registry)
    }

    /// Counts one Binding.
    pub fn count_binding(&self, result: &'static str, took: Duration) {
        self.bindings.get_or_create(&[("result", result)]).inc();
        self.binding_duration.observe(took.as_secs_f64());
    }

    /// Counts one write other than a Binding.
    pub fn count_write(&self, operation: &'static str, result: &'static str) {
        self.writes.get_or_create(&[("operation", operation), ("result", result)]).inc();
    }
}

/// Returns a registry with the metrics that every process of ours has.
pub fn registry(version: &'static str, commit: &'static str) -> Registry {
    let mut all = Registry::default();
    // The process metrics have names that all programs share.
    all.register_collector(Box::new(ProcessCollector::new()));
    let build = Info::new(vec![("version", version), ("git_commit", commit)]);
    all.sub_registry_with_prefix(PREFIX).register("build", "The build of this binary", build);
    all
}

/// Returns the text of a scrape of metrics that need no other source.
pub fn render(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    encode(&mut text, registry)?;
    Ok(text)
}

fn seconds(registry: &mut Registry, name: &str, help: &str) -> Histogram {
    // kube-scheduler's buckets: 1 ms to 16 s.
    let histogram = Histogram::new(exponential_buckets(0.001, 2.0, 15));
    registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
    histogram
}

fn family<const N: usize>(
    registry: &mut Registry,
    name: &str,
    help: &str,
) -> Family<Labels<N>, Counter> {
    let family = Family::default();
    registry.register(name, help, family.clone());
    family
}

fn counter(registry: &mut Registry, name: &str, help: &str) -> Counter {
    let counter = Counter::default();
    registry.register(name, help, counter.clone());
    counter
}

// === impl Snapshot ===

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let scrape = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let depths = scrape.depths.iter().map(|(lane, depth)| (*lane, *depth as u64));
        gauges(
            &mut encoder,
            "lane_outstanding",
            "Requests waiting or in flight, by lane",
            "lane",
            depths,
        )?;
        match &scrape.core {
            Some(core) => encode_core(&mut encoder, core),
            None => Ok(()),
        }
    }
}

fn encode_core(encoder: &mut DescriptorEncoder, core: &Gauges) -> Result<(), fmt::Error> {
    let pending = core.pending_pods;
    let states = [
        ("active", pending.active),
        ("backoff", pending.backoff),
        ("unschedulable", pending.unschedulable),
        ("gated", pending.gated),
    ];
    let help = "Waiting pods, by kube-scheduler's name of the queue in which they wait";
    gauges(encoder, "pending_pods", help, "state", states)?;
    let cached = [("nodes", core.nodes), ("pods", core.pods), ("assumed_pods", core.assumed_pods)];
    gauges(
        encoder,
        "scheduler_cache_size",
        "Objects in the scheduler's view of the cluster, by type",
        "type",
        cached,
    )?;
    gauges(encoder, "jobs", "FluxJobs, by state", "state", core.jobs.iter().copied())?;
    gauge(encoder, "synced", "1 once the first lists have been received", u64::from(core.synced))?;
    gauge(encoder, "reservations", "Promised starts", core.reservations)?;
    let help = "Nodes held for jobs without a known start date, after other jobs have passed \
                    them by for bypassSeconds";
    gauge(encoder, "nodes_held_without_a_date", help, core.nodes_drained)?;
    encode_held_idle(encoder, &core.held_idle)?;
    let help = "Promised starts that were delayed, by cause";
    let mut delayed =
        encoder.encode_descriptor("reservations_delayed", help, None, MetricType::Counter)?;
    for cause in DELAY_CAUSES {
        let count = ConstCounter::new(core.reservations_delayed.get(cause).copied().unwrap_or(0));
        count.encode(delayed.encode_family(&[("cause", cause)])?)?;
    }
    let help = "Promised starts that were delayed by pods that outlived their planned ends, by \
                    namespace of the pod; \
                of the first 256 namespaces, and of all others together under an empty name";
    let mut overruns =
        encoder.encode_descriptor("walltime_overruns", help, None, MetricType::Counter)?;
    for (namespace, count) in core.overruns.named().chain([("", core.overruns.of_others())]) {
        ConstCounter::new(count).encode(overruns.encode_family(&[("namespace", namespace)])?)?;
    }
    encode_queues(encoder, &core.waits.now)?;
    encode_attempts(encoder, core)?;
    encode_sli(encoder, core)?;
    encode_starts(encoder, core)?;
    let totals = [
        ("pods_bound", "Pods bound by this process", core.pods_bound),
        (
            "kubelet_refusals",
            "Placed pods that a kubelet refused or evicted",
            core.kubelet_refusals,
        ),
        (
            "bound_elsewhere",
            "Pods that were bound to another node than planned",
            core.bound_elsewhere,
        ),
        (
            "placements_withdrawn",
            "Placements of gangs that were withdrawn before their first Binding",
            core.placements_withdrawn,
        ),
        (
            "records_given_up",
            "Times that other jobs stopped waiting for the write of a FluxJob, because it had no \
                 answer for 10 s or was refused",
            core.records_given_up,
        ),
        (
            "releases_failed",
            "Jobs that waited without pods, were released, and did not get all pods in time",
            core.releases_failed,
        ),
        ("slots_passed_on", "Slots that a successor pod took over", core.slots_passed_on),
        ("graph_errors", "Failed calls into the resource graph", core.graph_errors),
        (
            "placement_not_found",
            "Times that no placement was found for pods that start together, and none was proved \
                 impossible",
            core.placements_not_found,
        ),
        (
            "audit_differences",
            "Differences that the audit found between an account of nodes and the requests of pods",
            core.audit_differences,
        ),
        (
            "jobs_made_anew",
            "Jobs that were rebuilt because their state contradicted itself",
            core.interruptions.jobs_made_anew,
        ),
        (
            "contradictions",
            "Contradictions that were found in the scheduler's own state",
            core.interruptions.contradictions,
        ),
        (
            "outdated_news",
            "News about jobs and pods that were gone by then",
            core.interruptions.outdated,
        ),
        ("passes", "Scheduling passes", core.passes),
        ("jobs_looked_at", "Times that a job was evaluated again", core.jobs_looked_at),
    ];
    for (name, help, value) in totals {
        let counter = ConstCounter::new(value);
        counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
    }
    Ok(())
}

/// Writes the contents of each queue, and its limits.
#[expect(clippy::cast_precision_loss, reason = "amounts stay below 2^53")]
fn encode_queues(encoder: &mut DescriptorEncoder, queues: &[QueueLoad]) -> Result<(), fmt::Error> {
    let each = |count: fn(&QueueLoad) -> u64| queues.iter().map(move |it| (&*it.queue, count(it)));
    let help = "Jobs that wait in a queue";
    gauges(encoder, "queue_waiting_jobs", help, "queue", each(|it| it.waiting))?;
    let help = "Jobs of a queue that have nodes";
    gauges(encoder, "queue_running_jobs", help, "queue", each(|it| it.running))?;
    let help = "How long the first of the waiting jobs of a queue has waited; 0 if none waits";
    let unit = Some(&Unit::Seconds);
    let mut oldest =
        encoder.encode_descriptor("queue_oldest_wait", help, unit, MetricType::Gauge)?;
    for it in queues {
        let seconds = it.oldest_wait_micros as f64 / 1e6;
        ConstGauge::new(seconds).encode(oldest.encode_family(&[("queue", &*it.queue)])?)?;
    }
    let help = "Requests of the pods of running jobs of a queue, by resource";
    let mut used =
        encoder.encode_descriptor("queue_used_resources", help, None, MetricType::Gauge)?;
    for it in queues {
        for (resource, amount) in it.used.iter() {
            let labels = [("queue", &*it.queue), ("resource", &**resource)];
            ConstGauge::new(in_units(resource, amount)).encode(used.encode_family(&labels)?)?;
        }
    }
    let help = "How much the jobs of a queue may use, in all and on all nodes, by resource";
    let mut limits =
        encoder.encode_descriptor("queue_limit_resources", help, None, MetricType::Gauge)?;
    for it in queues {
        for (resource, most) in &it.limits {
            let labels = [("queue", &*it.queue), ("resource", &**resource)];
            ConstGauge::new(in_units(resource, *most)).encode(limits.encode_family(&labels)?)?;
        }
    }
    let help = "How many jobs of a queue may run and may wait, by state";
    let mut jobs = encoder.encode_descriptor("queue_limit_jobs", help, None, MetricType::Gauge)?;
    for it in queues {
        let of_states = [("running", it.running_max), ("waiting", it.waiting_max)];
        for (state, most) in of_states.into_iter().filter_map(|(state, most)| Some((state, most?)))
        {
            let labels = [("queue", &*it.queue), ("state", state)];
            ConstGauge::new(most).encode(jobs.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn encode_attempts(encoder: &mut DescriptorEncoder, core: &Gauges) -> Result<(), fmt::Error> {
    let help = "Attempts to place a pod, by result and scheduler name";
    let mut family =
        encoder.encode_descriptor("schedule_attempts", help, None, MetricType::Counter)?;
    for attempts in &core.attempts {
        let results = [
            ("scheduled", attempts.scheduled),
            ("unschedulable", attempts.unschedulable),
            ("error", attempts.error),
        ];
        for (result, value) in results {
            let labels = [("result", result), ("profile", &*attempts.profile)];
            ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn encode_sli(encoder: &mut DescriptorEncoder, core: &Gauges) -> Result<(), fmt::Error> {
    let help = "Time from when a pod could first have been placed to its Binding";
    let sli = &core.scheduling_sli;
    let buckets: Vec<(f64, u64)> = sli.buckets().collect();
    let name = "pod_scheduling_sli_duration";
    let mut metric =
        encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
    metric.encode_histogram::<NoLabelSet>(sli.sum_seconds(), sli.count(), &buckets, None)
}

/// Writes how long jobs waited, and how true the estimates of that were. Histograms have no buckets
/// below 0, so later and earlier starts are apart.
fn encode_starts(encoder: &mut DescriptorEncoder, core: &Gauges) -> Result<(), fmt::Error> {
    let help = "Time from when a job could first have been placed to its first Binding, by queue";
    let unit = Some(&Unit::Seconds);
    let mut waits =
        encoder.encode_descriptor("job_wait_duration", help, unit, MetricType::Histogram)?;
    let [of_queue] = WAIT_LABELS;
    for (queue, hours) in core.waits.iter() {
        encode_hours(waits.encode_family(&[(of_queue, queue)])?, hours)?;
    }
    let help =
        "By how much jobs started later or earlier than estimated, by estimate, kind and direction";
    let mut errors =
        encoder.encode_descriptor("job_start_estimate_error", help, unit, MetricType::Histogram)?;
    let [of_estimate, of_kind, of_direction] = ESTIMATE_ERROR_LABELS;
    for (said, direction, hours) in core.start_estimates.iter() {
        let (estimate, kind) = said.labels();
        let labels = [(of_estimate, estimate), (of_kind, kind), (of_direction, direction)];
        encode_hours(errors.encode_family(&labels)?, hours)?;
    }
    Ok(())
}

fn encode_hours(mut metric: MetricEncoder<'_>, hours: &Hours) -> Result<(), fmt::Error> {
    let buckets: Vec<(f64, u64)> = hours.buckets().collect();
    metric.encode_histogram::<NoLabelSet>(hours.sum_seconds(), hours.count(), &buckets, None)
}

fn encode_held_idle(encoder: &mut DescriptorEncoder, idle: &Resources) -> Result<(), fmt::Error> {
    let help = "Idle resources of nodes held for jobs without a known start date, by resource";
    let mut family =
        encoder.encode_descriptor("held_idle_resources", help, None, MetricType::Gauge)?;
    // CPU is always present, so that an alert finds the metric even if nothing is held.
    let others = idle.iter().filter(|(name, _)| ***name != *"cpu");
    for (resource, amount) in
        others.map(|(name, amount)| (&**name, amount)).chain([("cpu", idle.get("cpu"))])
    {
        let amount = in_units(resource, amount);
        ConstGauge::new(amount).encode(family.encode_family(&[("resource", resource)])?)?;
    }
    Ok(())
}

/// Converts an amount to cores, bytes or devices, the units of Kubernetes' own metrics of
/// resources.
#[expect(clippy::cast_precision_loss, reason = "amounts stay below 2^53")]
fn in_units(resource: &str, amount: u64) -> f64 {
    if resource == "cpu" { amount as f64 / 1000.0 } else { amount as f64 }
}

fn gauge(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    value: u64,
) -> Result<(), fmt::Error> {
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

fn gauges<'a>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    label: &'static str,
    values: impl IntoIterator<Item = (&'a str, u64)>,
) -> Result<(), fmt::Error> {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (value_of_label, value) in values {
        ConstGauge::new(value).encode(family.encode_family(&[(label, value_of_label)])?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluxqueue_core::report::{Attempts, PendingPods};

    #[test]
    fn a_scrape_carries_kube_schedulers_stems() {
        let metrics = Metrics::new("1.2.3", "abc");
        metrics.count_binding("bound", Duration::from_millis(3));
        let mut core = Gauges {
            held_idle: [("cpu", 2500), ("memory", 64)].into_iter().collect(),
            pending_pods: PendingPods { active: 7, ..PendingPods::default() },
            attempts: vec![Attempts {
                profile: "fluxqueue".into(),
                scheduled: 5,
                unschedulable: 2,
                error: 0,
            }],
            ..Gauges::default()
        };
        core.scheduling_sli.observe_micros(15_000);
        let text = metrics.render(Some(core), vec![("bind", 4)]).unwrap();
        for line in [
            "fluxqueue_build_info{version=\"1.2.3\",git_commit=\"abc\"} 1",
            "fluxqueue_bindings_total{result=\"bound\"} 1",
            "fluxqueue_pending_pods{state=\"active\"} 7",
            "fluxqueue_held_idle_resources{resource=\"memory\"} 64",
            "fluxqueue_held_idle_resources{resource=\"cpu\"} 2.5",
            "fluxqueue_schedule_attempts_total{result=\"scheduled\",profile=\"fluxqueue\"} 5",
            "fluxqueue_pod_scheduling_sli_duration_seconds_bucket{le=\"0.02\"} 1",
            "fluxqueue_pod_scheduling_sli_duration_seconds_bucket{le=\"+Inf\"} 1",
            "fluxqueue_lane_outstanding{lane=\"bind\"} 4",
            "fluxqueue_scheduling_algorithm_duration_seconds_count 0",
            "# EOF",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }

    /// The label `queue` is a queue of jobs in every metric that has it.
    #[test]
    fn each_queue_says_how_full_it_is() {
        let gpu = QueueLoad {
            queue: "gpu".into(),
            waiting: 3,
            running: 2,
            oldest_wait_micros: 90_500_000,
            used: [("cpu", 1500), ("memory", 64)].into_iter().collect(),
            limits: vec![("cpu".into(), 4000)],
            running_max: None,
            waiting_max: Some(10),
        };
        let none = QueueLoad { queue: "default".into(), ..QueueLoad::default() };
        let mut core = Gauges::default();
        core.waits.now = vec![gpu, none];
        let text = Metrics::new("1", "a").render(Some(core), Vec::new()).unwrap();
        for line in [
            "fluxqueue_queue_waiting_jobs{queue=\"gpu\"} 3",
            "fluxqueue_queue_waiting_jobs{queue=\"default\"} 0",
            "fluxqueue_queue_running_jobs{queue=\"gpu\"} 2",
            "fluxqueue_queue_oldest_wait_seconds{queue=\"gpu\"} 90.5",
            "fluxqueue_queue_oldest_wait_seconds{queue=\"default\"} 0.0",
            "fluxqueue_queue_used_resources{queue=\"gpu\",resource=\"cpu\"} 1.5",
            "fluxqueue_queue_used_resources{queue=\"gpu\",resource=\"memory\"} 64.0",
            "fluxqueue_queue_limit_resources{queue=\"gpu\",resource=\"cpu\"} 4.0",
            "fluxqueue_queue_limit_jobs{queue=\"gpu\",state=\"waiting\"} 10",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is missing in\n{text}");
        }
        let of_queues = text.lines().filter(|line| line.contains("{queue=\""));
        for line in of_queues {
            assert!(line.contains("queue=\"gpu\"") || line.contains("queue=\"default\""), "{line}");
        }
        assert!(!text.contains("state=\"running\"} "), "no limit is no series");
    }

    #[test]
    fn a_standby_reports_no_core() {
        let text = Metrics::new("1", "a").render(None, Vec::new()).unwrap();
        assert!(!text.contains("pending_pods"));
        assert!(text.contains("fluxqueue_leader 0"));
    }
}
