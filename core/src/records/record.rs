//! The content of a job's FluxJob.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flux_lists::hostlist;
use fluxqueue_api::fluxjob::POD_SETS_MAX;
use fluxqueue_api::placement::compress;
use fluxqueue_api::{
    BlockedBy, ConditionType, DegradedReason, EstimatedStart, FinishedReason, FluxJob, FluxJobSpec,
    FluxJobStatus, JobState, LostPods, ObservedWorkload, Overrides, PlacementRange, PodSet,
    Reservation, ScheduledReason, WorkloadRef, names, text,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    Condition, MicroTime, ObjectMeta, Time as MetaTime,
};

use crate::jobs::grouping;
use crate::jobs::job::{Identity, Job, Said, Style};
use crate::jobs::member::Member;
use crate::lookahead::estimates;
use crate::records::bounds;
use crate::records::times::micro_time;
use crate::telling::blockers::Blockers;
use crate::telling::words;
use fluxqueue_workload::quantity::quantities;
use fluxqueue_workload::{Lifetime, Shape, Time};

/// The largest length of a node list, in characters, so that it suits a table; a longer list is
/// replaced by the number of nodes.
const NODE_LIST_CHARS_MAX: usize = 48;

/// A job as its record shows it: the job itself, and the values that [`Job`] does not hold.
pub(crate) struct Snapshot<'a> {
    pub job: &'a Job,
    pub live: Vec<&'a Member>,
    /// The number of pods that it wants to run now.
    pub wanted: usize,
    /// The number of pods that its workload asks for; `None` if that is not known any more.
    pub asked: Option<usize>,
    /// The number of pods without which none starts, by its PodGroup; `None` if that is not known.
    pub min_count: Option<u32>,
    pub scheduled: ScheduledReason,
    /// The walltime that its workload states, and the one that counts; `None` if none of its pods
    /// is left.
    pub walltimes: Option<(Lifetime, Lifetime)>,
    pub position: Option<usize>,
    /// The expected start.
    pub estimated_start: Option<EstimatedStart>,
    /// The promise, by the API server's clock.
    pub said: Option<Said>,
    /// The promise for the first pod that is to join the running ones.
    pub next_pod: Option<Said>,
    pub passed_by_since: Option<Time>,
    /// The present by the API server's clock.
    pub now: Time,
}

/// Returns the shapes of a job's pods, in the order of its members: its pod sets.
pub(crate) fn pod_sets<'a>(members: &[&'a Member]) -> Vec<(&'a Arc<Shape>, usize)> {
    let mut pod_sets: Vec<(&Arc<Shape>, usize)> = Vec::new();
    for member in members {
        let shape = &member.pod.shape;
        match pod_sets.iter_mut().find(|(known, _)| Arc::ptr_eq(known, shape) || *known == shape) {
            Some((_, count)) => *count += 1,
            None => pod_sets.push((shape, 1)),
        }
    }
    pod_sets
}

impl Snapshot<'_> {
    /// Returns the FluxJob, without its status.
    pub(crate) fn object(&self) -> FluxJob {
        let job = self.job;
        let uid = match &job.workload.identity {
            Identity::PodGroup(_, Some(uid)) => uid,
            _ => &job.workload.uid,
        };
        let workload_ref = WorkloadRef {
            api_version: job.workload.kind.api_version().map(str::to_owned),
            kind: job.workload.kind,
            name: job.workload.name.to_string(),
            uid: uid.to_string(),
        };
        FluxJob {
            metadata: ObjectMeta {
                name: Some(job.key.name.to_string()),
                namespace: Some(job.key.namespace.to_string()),
                labels: Some(names::fluxjob_labels(job.workload.kind, &job.workload.name, uid)),
                owner_references: (!job.workload.owners.is_empty())
                    .then(|| job.workload.owners.clone()),
                ..ObjectMeta::default()
            },
            spec: FluxJobSpec {
                workload_ref,
                scheduler_name: Some(job.workload.reporter.to_string()),
                overrides: Overrides::default(),
            },
            status: None,
        }
    }

    /// Returns the whole status, with the names of nodes in full: they are made compact when the
    /// status is written.
    pub(crate) fn status(&self) -> FluxJobStatus {
        let job = self.job;
        let bound = self.live.iter().filter(|member| member.is_bound()).count();
        let written = job.status_on_record();
        let position = self.position.and_then(coarse_position);
        let placement = self.placement();
        // The leader that wrote a placement first has placed the job, even if a later one found the
        // same.
        let known = written.map(|written| (&written.placement, written.epoch));
        let known =
            known.or(job.record.seen.placed.as_ref().map(|(placement, epoch)| (placement, *epoch)));
        let placed_by =
            known.filter(|(written, _)| **written == placement).and_then(|(_, epoch)| epoch);
        let lost_pods = self.lost_pods(bound, written);
        let conditions = self.conditions(
            bound,
            lost_pods.as_ref(),
            written.map_or(&[], |status| status.conditions.as_slice()),
        );
        let state = JobState::from_conditions(&conditions);
        let workload = self.workload();
        // The values on record stay after the end: ended pods that a new process finds may belong
        // to another group of the name.
        let priority = written.filter(|_| job.is_finished()).and_then(|written| written.priority);
        let said = self.said.as_ref();
        let reservation = said.map(|said| Reservation {
            start: said.start.map(micro_time),
            nodes: said.nodes.clone(),
            ..Reservation::default()
        });
        bounds::summed_up(FluxJobStatus {
            conditions,
            state: Some(state),
            observed_generation: job.record.seen.generation,
            priority: priority.or(Some(job.priority())),
            queue_name: self.queue_name(),
            walltime_seconds: self.walltime_that_counts(),
            workload: Some(workload),
            queued_at: job.waiting.since.map(micro_time),
            position: position.and_then(|at| i32::try_from(at).ok()),
            estimated_start: self.estimated_start.clone(),
            start_estimates: estimates::on_record(
                written,
                self.estimated_start.as_ref(),
                reservation.as_ref(),
                job.start.at,
            ),
            reservation,
            passed_by_since: self.passed_by_since.map(micro_time),
            start_time: job.start.at.map(micro_time),
            completion_time: job.completed_at().map(micro_time),
            display_nodes: self.node_list(),
            placement,
            node_list: None,
            epoch: job.start.seats.epoch().map(|epoch| placed_by.unwrap_or(epoch)),
            bound: number(bound),
            total: number(self.wanted),
            lost_pods,
            display_size: Some(format!("{bound}/{}", self.wanted)),
            blocked_by: job
                .told
                .blocker
                .as_ref()
                .filter(|_| waits(state))
                .map(Blockers::list)
                .unwrap_or_default(),
            ..FluxJobStatus::default()
        })
    }

    // --- the values of the workload ---

    fn workload(&self) -> ObservedWorkload {
        let written = self.job.status_on_record().and_then(|status| status.workload.as_ref());
        let kept = || written.cloned().unwrap_or_default();
        let queue_name = match self.live.first() {
            Some(_) => self.job.queue.said.as_deref().map(str::to_owned),
            None => kept().queue_name,
        };
        ObservedWorkload {
            pod_sets: self.pod_sets(written.map_or(&[], |workload| workload.pod_sets.as_slice())),
            priority: written
                .filter(|_| self.job.is_finished())
                .and_then(|workload| workload.priority)
                .or(self.job.pods.priority),
            queue_name,
            walltime_seconds: match self.walltimes {
                Some((said, _)) => seconds(said),
                None => kept().walltime_seconds,
            },
        }
    }

    /// Returns the name of the queue. The value on record stays after the end.
    fn queue_name(&self) -> Option<String> {
        let known = Some(self.job.queue.name.to_string()).filter(|name| !name.is_empty());
        known.or_else(|| self.job.status_on_record()?.queue_name.clone())
    }

    fn walltime_that_counts(&self) -> Option<i64> {
        match self.walltimes {
            Some((_, counts)) => seconds(counts),
            None => self.job.status_on_record().and_then(|status| status.walltime_seconds),
        }
    }

    /// Returns the pod sets. Those of a placed gang stay as its placement names them: if they
    /// followed its pods, they would appear and disappear with these.
    fn pod_sets(&self, written: &[PodSet]) -> Vec<PodSet> {
        let job = self.job;
        let stay = !written.is_empty()
            && (self.live.is_empty() || (job.style == Style::Gang && job.life.is_placed()));
        let mut sets: Vec<PodSet> = if stay { written.to_vec() } else { self.sets_of_pods() };
        // The pods that are still to come are like the first.
        if let ([set], Some(asked)) = (sets.as_mut_slice(), self.asked) {
            set.count = number(asked);
        }
        for set in &mut sets {
            set.min_count = set.min_count.filter(|min| *min < set.count);
        }
        bounds::bounded_sets(sets, POD_SETS_MAX)
    }

    fn sets_of_pods(&self) -> Vec<PodSet> {
        let pod_sets = pod_sets(&self.live);
        let min_count = match (&self.job.workload.identity, self.job.style) {
            (_, Style::Elastic) => Some(1),
            (Identity::Group(_), _) if pod_sets.len() == 1 => {
                grouping::group_size(&self.live).map(number)
            }
            _ if pod_sets.len() == 1 => self.min_count.map(|count| number(count as usize)),
            _ => None,
        };
        let set = |(at, (shape, count)): (usize, &(&Arc<Shape>, usize))| PodSet {
            name: pod_set_name(at),
            count: number(*count),
            min_count,
            requests: bounds::bounded_requests(quantities(&shape.requests)),
        };
        pod_sets.iter().enumerate().map(set).collect()
    }

    // --- the nodes of the job ---

    /// Returns the nodes that its pods are on, or go to; of an ended gang, those of all its pods.
    fn node_list(&self) -> Option<String> {
        let of_pods = self.live.iter().filter_map(|member| Some(&*member.allocation()?.node));
        let seats = self.job.start.seats.iter().filter(|_| self.job.is_finished());
        let nodes: BTreeSet<&str> = of_pods.chain(seats.map(|(_, seat)| &**seat.node())).collect();
        if nodes.is_empty() {
            let written = self.job.status_on_record().filter(|_| self.job.is_finished());
            return written.and_then(FluxJobStatus::shown_nodes).map(str::to_owned);
        }
        let count = nodes.len();
        let list = hostlist::encode(nodes);
        Some(if list.len() > NODE_LIST_CHARS_MAX { format!("{count} nodes") } else { list })
    }

    fn placement(&self) -> Vec<PlacementRange> {
        let mut by_set: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for (_, seat) in self.job.start.seats.iter() {
            by_set.entry(seat.pod_set()).or_default().push(seat.node());
        }
        by_set.iter().flat_map(|(set, nodes)| compress(&pod_set_name(*set), nodes)).collect()
    }

    // --- conditions ---

    fn conditions(
        &self,
        bound: usize,
        lost: Option<&LostPods>,
        written: &[Condition],
    ) -> Vec<Condition> {
        let job = self.job;
        let mut out = vec![self.scheduled(bound, written)];
        if !job.start.seats.is_empty() {
            let (status, reason, message) = match (&job.start.stalled, lost) {
                (Some(stalled), _) => ("True", stalled.reason(), words::stalled::message(stalled)),
                (None, Some(lost)) => ("True", DegradedReason::MemberLost, self.loss(bound, lost)),
                (None, None) => ("False", DegradedReason::Whole, String::new()),
            };
            out.push(self.condition(
                ConditionType::Degraded,
                (status, reason.as_str(), message),
                written,
            ));
        }
        if let Some(end) = job.life.end() {
            let message = match end.reason {
                FinishedReason::Succeeded => String::new(),
                FinishedReason::Failed => self.failures(written),
            };
            out.push(self.condition(
                ConditionType::Finished,
                ("True", end.reason.as_str(), message),
                written,
            ));
        }
        for (type_, message) in &job.told.warnings {
            out.push(self.condition(*type_, ("True", type_.as_str(), message.clone()), written));
        }
        out
    }

    /// Returns the pods that the job has lost, if `bound` pods are left.
    fn lost_pods(&self, bound: usize, written: Option<&FluxJobStatus>) -> Option<LostPods> {
        let job = self.job;
        if job.is_finished()
            || job.start.stalled.is_some()
            || job.start.seats.is_empty()
            || self.scheduled != ScheduledReason::Scheduled
        {
            return None;
        }
        // Pods that a job only asks for since it became larger are not lost.
        let count = job.start.most_bound.min(self.wanted).saturating_sub(bound);
        let next = self.next_pod.as_ref().and_then(|next| next.start).map(micro_time);
        let said = written.and_then(|status| status.lost_pods.as_ref()?.next_start.clone());
        // A small shift of the API server's clock does not change the written time.
        let seconds = |time: &MicroTime| time.0.as_second();
        let next_start = next.map(|next| {
            said.filter(|said| seconds(said).abs_diff(seconds(&next)) <= 1).unwrap_or(next)
        });
        (count > 0).then(|| LostPods { count: number(count), next_start })
    }

    /// Returns the message on lost pods of a job of which `bound` pods are left: how many are
    /// missing, and when the next one has a place.
    fn loss(&self, bound: usize, lost: &LostPods) -> String {
        let LostPods { count, next_start } = lost;
        let missing = format!("{count} of {} pods are missing", number(bound) + count);
        match (next_start, &self.next_pod) {
            (Some(start), Some(next)) => {
                let start = Time::from_seconds(start.0.as_second()).timestamp();
                format!("{missing}; the next one has a place from {start} on {}", next.nodes)
            }
            _ => missing,
        }
    }

    fn scheduled(&self, bound: usize, written: &[Condition]) -> Condition {
        let message = match self.scheduled {
            ScheduledReason::Scheduled => "its pods have been bound".to_owned(),
            ScheduledReason::Starting => format!("{bound} of {} pods are bound", self.wanted),
            ScheduledReason::Queued => String::new(),
            ScheduledReason::NeverScheduled => {
                "it has ended, and no pod of it was bound".to_owned()
            }
            ScheduledReason::Blocked(_) => {
                self.job.told.blocker.as_ref().map(Blockers::text).unwrap_or_default()
            }
        };
        let status = if self.scheduled == ScheduledReason::Scheduled { "True" } else { "False" };
        self.condition(
            ConditionType::Scheduled,
            (status, &self.scheduled.to_string(), message),
            written,
        )
    }

    /// Returns the message on failed pods. The written message stays: the pods that an earlier
    /// process counted may be gone.
    fn failures(&self, written: &[Condition]) -> String {
        let said = fluxqueue_api::conditions::of_type(written, ConditionType::Finished);
        let said = said.filter(|said| said.reason == FinishedReason::Failed.as_str());
        match said {
            Some(said) => said.message.clone(),
            None if self.job.pods.failed == 0
                && self.scheduled == ScheduledReason::NeverScheduled =>
            {
                "it was deleted before a pod of it was bound".to_owned()
            }
            None if self.job.pods.failed == 1 => "1 pod failed".to_owned(),
            None => format!("{} pods failed", self.job.pods.failed),
        }
    }

    fn condition(
        &self,
        type_: ConditionType,
        (status, reason, message): (&str, &str, String),
        written: &[Condition],
    ) -> Condition {
        let old = fluxqueue_api::conditions::of_type(written, type_)
            .filter(|condition| condition.status == status);
        let since = old.map_or_else(
            || MetaTime(self.now.timestamp()),
            |condition| condition.last_transition_time.clone(),
        );
        Condition {
            type_: type_.as_str().to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: text::into_message(message),
            observed_generation: self.job.record.seen.generation,
            last_transition_time: since,
        }
    }
}

/// Reduces a status that the API server does not accept: that the job waits, and why.
pub(crate) fn reduced(status: FluxJobStatus) -> FluxJobStatus {
    let is_scheduled = |condition: &Condition| condition.type_ == ConditionType::Scheduled.as_str();
    let cut = |message: &str| text::bounded(message, text::VALUE_BYTES_MAX).into_owned();
    let conditions = status.conditions.into_iter().filter(is_scheduled);
    let blocked_by = status.blocked_by.into_iter().take(1);
    FluxJobStatus {
        conditions: conditions.map(|it| Condition { message: cut(&it.message), ..it }).collect(),
        blocked_by: blocked_by.map(|it| BlockedBy { message: cut(&it.message), ..it }).collect(),
        state: status.state,
        observed_generation: status.observed_generation,
        priority: status.priority,
        queue_name: status.queue_name,
        queued_at: status.queued_at,
        bound: status.bound,
        total: status.total,
        display_size: status.display_size,
        ..FluxJobStatus::default()
    }
}

/// Returns the name of a pod set; [`pod_set_at`] reads it.
fn pod_set_name(at: usize) -> String {
    format!("set-{at}")
}

/// Returns the place of a pod set among the job's, by its name.
pub(crate) fn pod_set_at(name: &str) -> usize {
    name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Returns a walltime in seconds, if there is one.
fn seconds(lifetime: Lifetime) -> Option<i64> {
    match lifetime {
        Lifetime::Seconds(seconds) => i64::try_from(seconds).ok(),
        Lifetime::Eventually | Lifetime::Endless => None,
    }
}

/// Returns how many pods a gang had at once, by a status that says how many it has lost.
pub(crate) fn most_bound(status: &FluxJobStatus) -> Option<usize> {
    let lost = status.lost_pods.as_ref()?;
    usize::try_from(status.bound.saturating_add(lost.count)).ok()
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

/// Returns the position to show: the front of the queue exactly, then tens, then hundreds. A
/// position far back changes with every departure.
fn coarse_position(at: usize) -> Option<usize> {
    match at {
        0 => None,
        1..=10 => Some(at),
        11..=100 => Some(at.div_ceil(10) * 10),
        _ => Some(at.div_ceil(100) * 100),
    }
}
