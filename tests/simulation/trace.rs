//! The last events, for the reader of a failure, and a digest of all of them, to compare runs by.

use std::collections::VecDeque;

use fluxqueue_api::{FluxJob, FluxJobStatus, PlacementRange};
use fluxqueue_core::{Action, ActionKind, Event, Outcome, Write, WriteOutcome};
use fluxqueue_machine::cluster::Readiness;
use fluxqueue_workload::{Controller, Pod};

use crate::server::Server;

/// Most lines that are kept.
const LINES_MAX: usize = 20_000;

/// The record of a run.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    enabled: bool,
    lines: VecDeque<String>,
    digest: Digest,
}

/// A digest of lines: FNV-1a with 64 bits. The hasher of the standard library may change in its
/// next version.
#[derive(Debug)]
struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Adds a line. No line contains a line feed, which ends it here.
    fn add(&mut self, line: &[u8]) {
        for byte in line.iter().chain(b"\n") {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

impl Trace {
    /// A disabled trace costs nothing: its lines are not even made.
    pub(crate) fn new(enabled: bool) -> Self {
        Trace { enabled, ..Trace::default() }
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Adds a line.
    pub(crate) fn add(&mut self, line: impl FnOnce() -> String) {
        if self.enabled {
            let line = line();
            self.digest.add(line.as_bytes());
            if self.lines.len() == LINES_MAX {
                self.lines.pop_front();
            }
            self.lines.push_back(line);
        }
    }

    /// Returns a number that is the same for the same lines, on every machine and with every
    /// compiler.
    pub(crate) fn digest(&self) -> u64 {
        self.digest.0
    }

    /// Returns the last lines.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}

/// Renders an event in a line.
pub(crate) fn event(event: &Event) -> String {
    match event {
        Event::Node(node) => {
            let trouble = [
                (node.unschedulable, "cordoned"),
                (node.readiness != Readiness::Ready, "not ready"),
            ];
            let trouble: Vec<&str> =
                trouble.into_iter().filter(|(is, _)| *is).map(|(_, what)| what).collect();
            let has: Vec<String> =
                node.allocatable.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
            format!(
                "node {} ({}) {} {trouble:?} taints {}",
                node.name,
                node.uid,
                has.join(" "),
                node.taints.len()
            )
        }
        Event::NodeGone(name, uid) => format!("node {name} ({uid}) gone"),
        Event::Pod(pod) => self::pod(pod),
        Event::PodGone(id) => format!("pod {id} ({}) gone", id.uid),
        Event::Controller(it) => controller(it),
        Event::ControllerGone(uid) => format!("controller ({uid}) gone"),
        Event::FluxJob(job) => flux_job(job),
        Event::FluxJobGone(id) => format!("FluxJob {id} ({}) gone", id.uid),
        Event::Queue(queue) => format!("FluxQueue {} {:?}", queue.name, queue.rules),
        Event::QueueGone(name) => format!("FluxQueue {name} gone"),
        Event::Namespace(namespace) => {
            format!("Namespace {} {:?}", namespace.name, namespace.queue)
        }
        Event::NamespaceGone(name) => format!("Namespace {name} gone"),
        Event::PriorityClass(class) => format!("PriorityClass {} {}", class.name, class.value),
        Event::PriorityClassGone(name) => format!("PriorityClass {name} gone"),
        Event::DeviceClass(class) => format!("{class:?}"),
        Event::DeviceClassGone(name) => format!("DeviceClass {name} gone"),
        Event::Quota(quota) => format!("{quota:?}"),
        Event::QuotaGone(id) => format!("ResourceQuota {id} gone"),
        Event::Storage(news) => format!("{news:?}"),
        Event::PodGroup(group) => format!(
            "PodGroup {} ({}) version {:?} {:?} condition {:?}",
            group.id, group.id.uid, group.resource_version, group.policy, group.condition
        ),
        Event::PodGroupGone(id) => format!("PodGroup {id} ({}) gone", id.uid),
        Event::PodGroupsHidden(why) => format!("PodGroups hidden: {why:?}"),
        Event::Workload(workload) => format!("{workload:?}"),
        Event::WorkloadGone(id) => format!("Workload {id} ({}) gone", id.uid),
        Event::Synced => "synced".to_string(),
        Event::Done(id, Outcome::Bind(outcome)) => format!("outcome of {id}: {outcome:?}"),
        Event::Done(id, Outcome::Write(WriteOutcome::Written(stored))) => {
            format!(
                "outcome of {id}: written {}",
                stored.as_ref().map_or(String::new(), |job| flux_job(job))
            )
        }
        Event::ClockOffset(micros) => format!("clock offset {micros}"),
        Event::Done(id, Outcome::Write(outcome)) => format!("outcome of {id}: {outcome:?}"),
    }
}

/// Renders an action in a line.
pub(crate) fn action(action: &Action) -> String {
    format!("#{} {}", action.id, kind(&action.kind))
}

/// Renders the effect of an action in a line.
pub(crate) fn kind(kind: &ActionKind) -> String {
    match kind {
        ActionKind::Bind { pod, node, .. } => format!("bind pod {pod} ({}) to {node}", pod.uid),
        ActionKind::Write(write) => self::write(write),
        ActionKind::Note(note) => {
            format!("note {} {}: {}", note.subject.key(), note.reason, note.note)
        }
    }
}

/// Renders the effect of a write in a line.
pub(crate) fn write(write: &Write) -> String {
    match write {
        Write::Ungate { pod, gate, .. } => {
            format!("take gate {gate} off pod {pod} ({})", pod.uid)
        }
        Write::SetPodScheduled { pod, reason, message, .. } => {
            format!("tell pod {pod} ({}) {reason}: {message}", pod.uid)
        }
        Write::Nominate { pod, node, .. } => {
            format!("nominate pod {pod} ({}) to {node:?}", pod.uid)
        }
        Write::CreateFluxJob { job, urgency } => {
            format!("create {urgency:?} {}", flux_job(job))
        }
        Write::WriteStatus { job, status, urgency, .. } => {
            format!("write {urgency:?} FluxJob {job} ({}) {}", job.uid, self::status(status))
        }
        Write::DeleteFluxJob { job, .. } => format!("delete FluxJob {job} ({})", job.uid),
        Write::WriteQueueStatus { queue, status, .. } => {
            format!("write FluxQueue {queue} {status:?}")
        }
        Write::SelectNode { claim, node, .. } => {
            format!("select {node} for claim {claim} ({})", claim.uid)
        }
        Write::ReleaseJob { job, .. } => format!("release {job} ({})", job.uid),
        Write::SuspendJob { job, .. } => format!("suspend {job} ({})", job.uid),
        Write::SetGroupCondition { group, condition, .. } => {
            format!("condition of PodGroup {group} ({}): {condition:?}", group.uid)
        }
        Write::ClaimVolume { volume, claim, .. } => {
            format!("claim volume {volume} for {claim} ({})", claim.uid)
        }
    }
}

/// Renders a pod in a line.
pub(crate) fn pod(pod: &Pod) -> String {
    let asks: Vec<String> =
        pod.shape.requests.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    let owner =
        pod.owner.as_ref().map_or(String::new(), |it| format!(" of {:?} {}", it.kind, it.uid));
    let group =
        pod.group.as_ref().map_or(String::new(), |it| format!(" group {} {:?}", it.name, it.size));
    let named = pod
        .scheduling_group
        .as_ref()
        .map_or(String::new(), |it| format!(" in PodGroup {} {:?}", it.name, it.uid));
    let deleting = if pod.deleting { " deleting" } else { "" };
    format!(
        "pod {} ({}) {:?} on {:?}{deleting} gates {:?}{owner}{group}{named} {} {:?} priority {} \
            by {}",
        pod.id,
        pod.id.uid,
        pod.phase,
        pod.node,
        pod.gates,
        asks.join(" "),
        pod.lifetime,
        pod.priority,
        pod.scheduler
    )
}

fn controller(it: &Controller) -> String {
    let flags = [(it.finished, "finished"), (it.failed, "failed"), (it.deleting, "deleting")];
    let flags: Vec<&str> = flags.into_iter().filter(|(is, _)| *is).map(|(_, what)| what).collect();
    format!(
        "{:?} {} ({}) wants {} together {} succeeded {} of {:?} at {} {flags:?}",
        it.kind,
        it.id,
        it.id.uid,
        it.wants,
        it.can_start_together,
        it.succeeded,
        it.completions,
        it.parallelism
    )
}

/// Renders the fields of a status that differ from the stored one.
pub(crate) fn news(server: &Server, write: &ActionKind) -> String {
    if let ActionKind::Write(Write::WriteQueueStatus { queue, .. }) = write {
        return server
            .queues
            .get(queue)
            .map_or_else(String::new, |queue| format!("after {:?}", queue.status));
    }
    let ActionKind::Write(Write::WriteStatus { job, status, .. }) = write else {
        return String::new();
    };
    let stored = server.flux_job(job).and_then(|stored| stored.status.clone()).unwrap_or_default();
    let fields = |status: &FluxJobStatus| serde_json::to_value(status).unwrap_or_default();
    let (before, after) = (fields(&stored), fields(status));
    let names =
        before.as_object().into_iter().chain(after.as_object()).flat_map(serde_json::Map::keys);
    let names: std::collections::BTreeSet<&String> =
        names.filter(|name| before[*name] != after[*name]).collect();
    let lines =
        names.into_iter().map(|name| format!("{name}: {} -> {}", before[name], after[name]));
    lines.collect::<Vec<_>>().join("\n  ")
}

/// Renders a `FluxJob` in a line.
pub(crate) fn flux_job(job: &FluxJob) -> String {
    let meta = &job.metadata;
    let name = meta.name.as_deref().unwrap_or("");
    let uid = meta.uid.as_deref().unwrap_or("new");
    let owners: Vec<&str> =
        meta.owner_references.iter().flatten().map(|owner| &*owner.uid).collect();
    let (of, wishes) = (&job.spec.workload_ref, &job.spec.overrides);
    format!(
        "FluxJob {name} ({uid}) gen {:?} for {} ({}) owners {owners:?} wishes {wishes:?} {}",
        meta.generation,
        of.name,
        of.uid,
        job.status.as_ref().map_or("without status".to_string(), status)
    )
}

fn status(status: &FluxJobStatus) -> String {
    let place = |it: &PlacementRange| {
        format!("{}[{}]={}x{}", it.pod_set, it.pod_indexes, it.nodes, it.pods_per_node)
    };
    let placement: Vec<String> = status.placement.iter().map(place).collect();
    format!(
        "{:?} priority {:?} queued {:?} {} placement [{}] promised {:?} passed by since {:?} blocked {:?} conditions {:?}",
        status.state,
        status.priority,
        status.queued_at.as_ref().map(|at| at.0.as_microsecond()),
        status.display_size.as_deref().unwrap_or(""),
        placement.join(" "),
        status
            .reservation
            .as_ref()
            .map(|it| (it.start.as_ref().map(|at| at.0.as_microsecond()), &it.nodes)),
        status.passed_by_since.as_ref().map(|at| at.0.as_microsecond()),
        status.blocked_by.first().map(|it| format!("{}: {}", it.reason, it.message)),
        status
            .conditions
            .iter()
            .map(|it| format!("{}={} {}", it.type_, it.status, it.reason))
            .collect::<Vec<_>>()
    )
}
