//! The FluxJob of a job: what is written into it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::hostlist;
use fluxqueue_api::placement::compress;
use fluxqueue_api::{FluxJob, FluxJobSpec, FluxJobStatus, JobState, PlacementRange, Role, WorkloadType, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, Time as MetaTime};
use k8s_openapi::jiff::Timestamp;

use super::job::{End, Job, Member};
use super::jobspec;
use fluxqueue_workload::{Lifetime, Resources, Shape, Time};

/// A job as its record shows it: what [`Job`] itself does not know.
pub(super) struct Snapshot<'a> {
    pub job: &'a Job,
    pub live: Vec<&'a Member>,
    /// How many pods it wants to run now.
    pub wanted: usize,
    pub state: JobState,
    pub priority: i32,
    pub lifetime: Lifetime,
    pub position: Option<usize>,
    pub estimate: Option<Time>,
    /// By the API server's clock.
    pub now: Time,
}

/// The shapes of a job's pods, in the order of its members: its roles.
pub(super) fn roles<'a>(members: &[&'a Member]) -> Vec<(&'a Arc<Shape>, usize)> {
    let mut roles: Vec<(&Arc<Shape>, usize)> = Vec::new();
    for member in members {
        let shape = &member.pod.shape;
        match roles.iter_mut().find(|(known, _)| Arc::ptr_eq(known, shape) || *known == shape) {
            Some((_, count)) => *count += 1,
            None => roles.push((shape, 1)),
        }
    }
    roles
}

impl Snapshot<'_> {
    /// The FluxJob, without its status.
    pub(super) fn object(&self) -> FluxJob {
        let job = self.job;
        let mut roles = roles(&self.live);
        if let [(_, count)] = roles.as_mut_slice() {
            // Pods of a Job that are still to come are like the first.
            *count = job.start_size.max(*count);
        }
        let size = i32::try_from(job.start_size.max(self.wanted)).unwrap_or(i32::MAX);
        let seconds = walltime_seconds(self.lifetime);
        let spec = FluxJobSpec {
            jobspec: Some(jobspec::canonical(&job.key.namespace, &job.name, &roles, seconds)),
            workload_type: job.kind,
            name: job.name.to_string(),
            nodes: size,
            duration: seconds,
            reservation: false,
            object: None,
            resources: None,
            roles: roles
                .iter()
                .enumerate()
                .map(|(at, (shape, count))| Role {
                    name: jobspec::role_name(at),
                    count: i32::try_from(*count).unwrap_or(i32::MAX),
                    min: if job.writes_ahead() { i32::try_from(*count).unwrap_or(i32::MAX) } else { 1 },
                    requests: quantities(&shape.requests),
                })
                .collect(),
            priority: self.priority,
            queue: job.record.edits.queue.clone(),
            hold: job.record.edits.hold,
            topology: None,
        };
        FluxJob {
            metadata: ObjectMeta {
                name: Some(job.key.name.to_string()),
                namespace: Some(job.key.namespace.to_string()),
                labels: Some(labels(job.kind)),
                annotations: Some(BTreeMap::from([
                    (names::WORKLOAD_UID.to_owned(), job.workload_uid.to_string()),
                    (names::SCHEDULER_NAME.to_owned(), job.reporter.to_string()),
                ])),
                owner_references: (!job.owners.is_empty()).then(|| job.owners.clone()),
                ..ObjectMeta::default()
            },
            spec,
            status: None,
        }
    }

    /// The whole status.
    pub(super) fn status(&self) -> FluxJobStatus {
        let job = self.job;
        let bound = self.live.iter().filter(|member| member.is_bound()).count();
        let written = job.record.status.as_ref();
        let position = self.position.and_then(coarse_position);
        let placement = self.placement();
        // Whoever wrote a placement first has placed it, also if it was found anew since.
        let known = written.map(|written| (&written.placement, written.epoch));
        let known = known.or(job.record.placed.as_ref().map(|(placement, epoch)| (placement, *epoch)));
        let placed_by = known.filter(|(written, _)| **written == placement).and_then(|(_, epoch)| epoch);
        FluxJobStatus {
            submit_status: Some(submit_status(self.state).to_owned()),
            state: Some(self.state),
            observed_generation: job.record.generation,
            // A job keeps its number for life, though the graph's own differ after a restart.
            jobid: written
                .and_then(|written| written.jobid)
                .or_else(|| self.live.iter().find_map(|m| Some(m.allocation.as_ref()?.gid.cast_signed()))),
            queued_at: job.queued_at.map(micro_time),
            position: position.and_then(|at| i32::try_from(at).ok()),
            estimated_start_time: self.estimate.map(|at| coarse_estimate(at, self.now)).map(micro_time),
            start_time: job.started_at.map(micro_time),
            completion_time: job.completed_at.map(micro_time),
            nodes: self.node_list(),
            placement,
            epoch: job.seats.epoch().map(|epoch| placed_by.unwrap_or(epoch)),
            bound: i32::try_from(bound).unwrap_or(i32::MAX),
            total: i32::try_from(self.wanted).unwrap_or(i32::MAX),
            size: Some(format!("{bound}/{}", self.wanted)),
            blocked_by: job.blocker.clone().filter(|_| waits(self.state)),
            conditions: self.conditions(bound, written.map_or(&[], |status| status.conditions.as_slice())),
        }
    }

    /// The nodes its pods are on, or go to.
    fn node_list(&self) -> Option<String> {
        let nodes: BTreeSet<&str> =
            self.live.iter().filter_map(|member| Some(&*member.allocation.as_ref()?.node)).collect();
        let written = self.job.record.status.as_ref().and_then(|status| status.nodes.clone());
        if nodes.is_empty() { written } else { Some(hostlist::encode(nodes)) }
    }

    fn placement(&self) -> Vec<PlacementRange> {
        let mut by_role: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for (_, seat) in self.job.seats.iter() {
            by_role.entry(seat.role()).or_default().push(seat.node());
        }
        by_role.iter().flat_map(|(role, nodes)| compress(&jobspec::role_name(*role), nodes)).collect()
    }

    fn conditions(&self, bound: usize, written: &[Condition]) -> Vec<Condition> {
        let job = self.job;
        let mut out = Vec::new();
        let scheduled = match self.state {
            JobState::Starting => {
                ("False", "Starting".to_owned(), format!("{bound} of {} pods are bound", self.wanted))
            }
            JobState::Running | JobState::Completed | JobState::Failed => {
                ("True", "Scheduled".to_owned(), "its pods have been bound".to_owned())
            }
            _ => match &job.blocker {
                Some(blocker) => ("False", blocker.reason.to_string(), blocker.message.clone()),
                None => ("False", "Queued".to_owned(), String::new()),
            },
        };
        out.push(self.condition("Scheduled", scheduled, written));
        if !job.seats.is_empty() {
            let missing = self.wanted.saturating_sub(bound);
            let degraded = if let Some(stalled) = &job.stalled {
                ("True", stalled.reason.to_owned(), stalled.message.clone())
            } else if missing > 0 && self.state == JobState::Running {
                ("True", "MemberLost".to_owned(), format!("{missing} of {} pods are missing", self.wanted))
            } else {
                ("False", "Whole".to_owned(), String::new())
            };
            out.push(self.condition("Degraded", degraded, written));
        }
        let finished = job.life.end().map(|end| match end {
            End::Completed => ("True", "Completed".to_owned(), String::new()),
            End::Failed => ("True", "Failed".to_owned(), self.failures(written)),
        });
        if let Some(finished) = finished {
            out.push(self.condition("Finished", finished, written));
        }
        for (reason, message) in &job.warnings {
            out.push(self.condition(reason, ("True", (*reason).to_owned(), message.clone()), written));
        }
        out
    }

    /// How many pods failed: of some that an earlier process counted nothing may be left.
    fn failures(&self, written: &[Condition]) -> String {
        let said = written.iter().find(|said| said.type_ == "Finished" && said.reason == "Failed");
        said.map_or_else(|| format!("{} pods failed", self.job.failed), |said| said.message.clone())
    }

    fn condition(
        &self,
        type_: &str,
        (status, reason, message): (&str, String, String),
        written: &[Condition],
    ) -> Condition {
        let old = written.iter().find(|condition| condition.type_ == type_ && condition.status == status);
        let since =
            old.map_or_else(|| MetaTime(timestamp(self.now)), |condition| condition.last_transition_time.clone());
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason,
            message,
            observed_generation: self.job.record.generation,
            last_transition_time: since,
        }
    }
}

/// True if the two statuses say the same, but for numbers that are not worth a write.
pub(super) fn same(written: &FluxJobStatus, wanted: &FluxJobStatus) -> bool {
    written == wanted
}

fn waits(state: JobState) -> bool {
    matches!(
        state,
        JobState::Incomplete
            | JobState::Pending
            | JobState::Held
            | JobState::Unsatisfiable
            | JobState::Refused
            | JobState::Starting
    )
}

fn submit_status(state: JobState) -> &'static str {
    match state {
        JobState::Incomplete => "statusNew",
        JobState::Refused => "statusError",
        _ => "statusSubmit",
    }
}

/// The front of the queue exactly, then tens, then hundreds: what lies far back changes with every departure.
fn coarse_position(at: usize) -> Option<usize> {
    match at {
        0 => None,
        1..=10 => Some(at),
        11..=100 => Some(at.div_ceil(10) * 10),
        _ => Some(at.div_ceil(100) * 100),
    }
}

/// Minutes, then tens of minutes, rounded up.
fn coarse_estimate(at: Time, now: Time) -> Time {
    let step = if at.seconds() - now.seconds() < 3600 { 60 } else { 600 };
    Time::from_seconds((at.seconds() + step - 1).div_euclid(step) * step)
}

/// Seconds for `spec.duration`; 0 if there is no known limit.
pub(super) fn walltime_seconds(lifetime: Lifetime) -> i32 {
    match lifetime {
        Lifetime::Seconds(seconds) => i32::try_from(seconds).unwrap_or(i32::MAX),
        Lifetime::Eventually | Lifetime::Endless => 0,
    }
}

/// Amounts as Kubernetes quantities: millicores as `100m` or whole cores, everything else as plain integers.
pub(super) fn quantities(requests: &Resources) -> BTreeMap<String, String> {
    requests
        .iter()
        .filter(|(name, _)| name.as_ref() != "pods")
        .map(|(name, amount)| (name.to_string(), quantity(name, amount)))
        .collect()
}

/// One amount as a Kubernetes quantity.
pub(super) fn quantity(resource: &str, amount: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];
    if resource == "cpu" {
        return if amount.is_multiple_of(1000) { (amount / 1000).to_string() } else { format!("{amount}m") };
    }
    if resource == "memory" || resource == "ephemeral-storage" || resource.starts_with("hugepages-") {
        for (size, unit) in UNITS {
            if amount >= size && amount.is_multiple_of(size) {
                return format!("{}{unit}", amount / size);
            }
        }
    }
    amount.to_string()
}

pub(super) fn timestamp(at: Time) -> Timestamp {
    Timestamp::from_microsecond(at.0).unwrap_or(Timestamp::UNIX_EPOCH)
}

pub(super) fn micro_time(at: Time) -> MicroTime {
    MicroTime(timestamp(at))
}

/// The instant of a MicroTime.
pub(super) fn time_of(at: &MicroTime) -> Time {
    Time(at.0.as_microsecond())
}

/// The labels of the FluxJob of a job.
fn labels(kind: WorkloadType) -> BTreeMap<String, String> {
    BTreeMap::from([
        (names::MANAGED_BY.0.to_owned(), names::MANAGED_BY.1.to_owned()),
        (names::WORKLOAD_KIND.to_owned(), kind.suffix().to_owned()),
    ])
}
