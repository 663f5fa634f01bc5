//! The core's knowledge of one job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::{BlockedReason, ConditionType, FluxJobStatus, Reservation, WorkloadKind};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::jobs::expected::Expected;
use crate::jobs::lifecycle::Lifecycle;
use crate::jobs::member::Member;
use crate::jobs::order::PodOrder;
use crate::jobs::retained::RetainedSlot;
use crate::jobs::seats::Seats;
use crate::jobs::setbacks::Setbacks;
use crate::jobs::stalled::Stalled;
use crate::jobs::suspended::Suspended;
use crate::records::stored::Record;
use crate::records::times::time_of;
use crate::telling::blockers::Blockers;
use fluxqueue_planner::plan::Kept;
use fluxqueue_planner::queue::{JobId, PendingRequest, QueueId};
use fluxqueue_planner::queues::{QueueStanding, Walltimes};
use fluxqueue_workload::{ObjectKey, Time, Uid};

/// The difference in microseconds below which two starts are the same one. Starts are whole seconds
/// of the core's time, and another clock may show another fraction.
const SAME_START_MICROS: u64 = 1_000_000;

/// The common property that makes pods belong to one job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    /// The pods carry the same group label, in one namespace.
    Group(ObjectKey),
    /// The pods name the same PodGroup, and the same uid of it or none.
    PodGroup(ObjectKey, Option<Uid>),
    /// The same object makes the pods: a Job, Deployment, ReplicaSet or StatefulSet of this
    /// namespace and uid.
    Controller(Arc<str>, Uid),
    /// The pod is a job by itself.
    Pod(Uid),
}

impl Identity {
    /// True if pods say of themselves that they belong together: by their labels, or by a PodGroup.
    pub(crate) fn is_group(&self) -> bool {
        matches!(self, Identity::Group(_) | Identity::PodGroup(..))
    }
}

/// How the pods of a job start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// The job has one pod only.
    Lone,
    /// A number of pods start together, all or none; pods that come later join them.
    Gang,
    /// The pods start one by one, each with its own age.
    Elastic,
}

/// A job: the unit for which there is one FluxJob.
pub(crate) struct Job {
    pub id: JobId,
    /// Namespace and name of the FluxJob.
    pub key: ObjectKey,
    pub style: Style,
    pub workload: Workload,
    pub pods: JobPods,
    pub life: Lifecycle,
    pub start: JobStart,
    /// The state of Fluxqueue's suspension of its Job.
    pub suspended: Suspended,
    pub queue: InQueue,
    pub waiting: Wait,
    pub told: Told,
    pub record: Record,
}

/// The workload that a job is, as its record names it.
#[derive(Debug)]
pub(crate) struct Workload {
    pub identity: Identity,
    pub kind: WorkloadKind,
    pub name: Arc<str>,
    /// The uid that the FluxJob's name is made of.
    pub uid: Uid,
    pub owners: Vec<OwnerReference>,
    /// The scheduler name by which its events are reported.
    pub reporter: Arc<str>,
}

/// The pods of a job, and the objects that make them.
#[derive(Debug)]
pub(crate) struct JobPods {
    /// The pods that exist, ended ones too.
    pub all: BTreeSet<Uid>,
    /// The pods that have not ended, in the order in which they get seats.
    pub live: BTreeMap<PodOrder, Uid>,
    /// The lowest priority among the pods that are to run. Without such a pod the value stays as
    /// it was.
    pub priority: Option<i32>,
    /// The objects that have made pods of the job.
    pub makers: BTreeSet<Uid>,
    /// The makers that are gone: the pods that they have left will be deleted too.
    pub gone_makers: BTreeSet<Uid>,
    /// The number of pods that succeeded, and of pods that ended otherwise.
    pub succeeded: u32,
    pub failed: u32,
    /// The time when the last pod joined.
    pub joined_at: Time,
    /// The time when the last pod that had been deleted while it ran was gone.
    pub left_at: Time,
    /// The latest end among the pods that the API server reports.
    pub last_end: Option<Time>,
    /// The number of pods that the one stand-in represents while the Job waits without pods and
    /// without a place; else 1.
    pub stands_for: usize,
}

/// A start of the pods that start together, from the first slot on, and what came of it.
#[derive(Default)]
pub(crate) struct JobStart {
    /// How many pods start together; the number decides whether the placement is written ahead.
    pub size: usize,
    /// The time when the first pod was on its node.
    pub at: Option<Time>,
    /// The placements withdrawn in a row, and the pause that follows.
    pub setbacks: Setbacks,
    /// The promise that the job had, until its first Binding leaves, or has an answer if the job is
    /// not written ahead. If the placement is withdrawn before, or all its pods go, that promise is
    /// made again, or reported as broken.
    pub promised_before: Option<Kept>,
    /// The message of the API server that refused a Binding before any took effect. No more
    /// Bindings are sent, and the placement is about to be withdrawn.
    pub refusal: Option<String>,
    /// The nodes of its pods, for a job with a placement that is written ahead.
    pub seats: Seats,
    /// The slots that pods have left, for the pods that their controllers will make.
    pub retained: Vec<RetainedSlot>,
    /// The largest number of pods that were bound at the same time since the job began; for a Job,
    /// no more than it wanted at any time since then.
    pub most_bound: usize,
    /// The number of pods that have ended on their nodes before all pods of the start were bound.
    pub ended_early: usize,
    /// Why the job has not become whole in time after its first Binding.
    pub stalled: Option<Stalled>,
}

/// The wait of a job in its queue.
#[derive(Debug, Default)]
pub(crate) struct Wait {
    /// Its requests that wait in the queue.
    pub requests: BTreeSet<PendingRequest>,
    /// The time since which the job waits, by the API server's clock.
    pub since: Option<Time>,
    /// True if the job was in the queue before, or could have been but for a hold, a gate or its
    /// queue. Such a job is planned around the promises to others.
    pub is_late_entrant: bool,
    /// Its place in the queue.
    pub position: Option<usize>,
    /// When the job is expected to start, besides the start that it is promised.
    pub expected: Expected,
}

/// The facts about a job that its record, its conditions and its events state, or are to state.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The reason why the job waits, as a user reads it.
    pub blocker: Option<Blockers>,
    /// The request that has these reasons: the first of the waiting ones.
    pub blocked_request: Option<PendingRequest>,
    /// The first reason that this process found, while the reason from an earlier process is kept.
    pub found_first: Option<Blockers>,
    /// The warnings that were already reported, which are not repeated.
    pub warnings: BTreeMap<ConditionType, String>,
    /// The promise that the record states, or is to state.
    pub promise: Option<Said>,
    pub promised_at: Time,
    /// True if that promise is to be written at once.
    pub is_promise_due: bool,
}

/// A job in its queue, as of the last look at the queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct InQueue {
    /// The name of the queue; empty before the first look.
    pub name: Arc<str>,
    pub id: QueueId,
    /// The name that the workload states.
    pub said: Option<Arc<str>>,
    /// The queue's answer to the job.
    pub standing: QueueStanding,
    pub walltimes: Walltimes,
    /// True if the queue existed at some time and admitted the job.
    pub had_place: bool,
}

/// The promise to a job, as its record has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    /// The promised start, in the core's time; `None` if it is not known.
    pub start: Option<Time>,
    /// The promised nodes, as a hostlist.
    pub nodes: String,
}

impl InQueue {
    /// True if the job is in this queue.
    pub(crate) fn is(&self, name: &str) -> bool {
        *self.name == *name
    }

    /// True if no job starts from the queue.
    pub(crate) fn is_held(&self) -> bool {
        matches!(
            self.standing,
            QueueStanding::Stopped | QueueStanding::Paused | QueueStanding::Invalid
        ) || (self.standing == QueueStanding::Missing && self.had_place)
    }
}

impl JobPods {
    /// Returns the pods of a job that begins at this time of the core, and has none yet.
    pub(crate) fn none(now: Time) -> Self {
        JobPods {
            all: BTreeSet::new(),
            live: BTreeMap::new(),
            priority: None,
            makers: BTreeSet::new(),
            gone_makers: BTreeSet::new(),
            succeeded: 0,
            failed: 0,
            joined_at: now,
            left_at: Time(0),
            last_end: None,
            stands_for: 1,
        }
    }
}

impl Job {
    /// Forgets a start of which no pod has a slot any more: the job starts again, all or none.
    pub(crate) fn forget_start(&mut self) {
        self.life = Lifecycle::Waiting;
        self.start.refusal = None;
        (self.start.ended_early, self.start.most_bound) = (0, 0);
        self.start.stalled = None;
        self.start.seats.clear();
    }

    /// Returns the status of its FluxJob as last seen.
    pub(crate) fn status_on_record(&self) -> Option<&FluxJobStatus> {
        self.record.seen.status.as_deref()
    }

    /// Returns how many of its pods were seen to succeed. Pods of a group have several makers, and
    /// each counts its own.
    pub(crate) fn succeeded_seen(&self) -> u32 {
        if self.workload.kind.is_group() { 0 } else { self.pods.succeeded }
    }

    /// Sets the requests of the job that wait from now on.
    pub(crate) fn wait_for(&mut self, pending: BTreeSet<PendingRequest>) {
        self.waiting.requests = pending;
        if self.waiting.requests.is_empty() {
            // A reason that concerned a request in the queue ends with that request.
            let blocker = self.told.blocker.take();
            let stays = |reason: BlockedReason| {
                reason.is_outside_the_queue() || self.says_until_it_begins(reason)
            };
            self.told.blocker = blocker.filter(|blocker| stays(blocker.reason()));
        }
    }

    /// True if this is why the job has not begun yet, though it is placed again after a lost race.
    pub(crate) fn says_until_it_begins(&self, reason: BlockedReason) -> bool {
        self.style == Style::Gang
            && self.life == Lifecycle::Placed
            && reason == BlockedReason::PlacementWithdrawn
    }

    /// Clears the reason that kept the job out of the queue.
    pub(crate) fn may_queue(&mut self) {
        self.told.blocker.take_if(|blocker| blocker.reason().is_outside_the_queue());
    }

    /// Returns the priority that a user wishes, else that of the job's pods.
    pub(crate) fn priority(&self) -> i32 {
        self.record.wished_priority.or(self.pods.priority).unwrap_or(0)
    }

    /// Returns the time of its end, by the API server's clock. A job that goes on after an end that
    /// is on record has that one.
    pub(crate) fn completed_at(&self) -> Option<Time> {
        self.life.end().or(self.record.seen.end)?.at
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.life.end().is_some()
    }

    /// True if it has ended only because its pods became parts of other jobs, or were deleted
    /// before one of them began.
    pub(crate) fn was_left(&self) -> bool {
        let comes_back =
            matches!(self.workload.identity, Identity::Pod(_) | Identity::PodGroup(..));
        comes_back && self.is_finished() && self.pods.all.is_empty() && self.start.at.is_none()
    }

    /// True if the placement is written before the first Binding: several pods start together. A
    /// placement that is on record is followed, or taken back first, even if only one pod is wanted
    /// by now; and a placement that other pods have joined meanwhile is written with them. The
    /// placement of a suspended Job of one pod is written ahead too: the Job is released when its
    /// placement is acknowledged.
    pub(crate) fn writes_ahead(&self) -> bool {
        let is_gang = self.style == Style::Gang;
        is_gang
            && (self.start.size > 1
                || self.suspended.has_stand_ins()
                || self.start.seats.is_on_record()
                || self.start.seats.len() > 1)
    }

    /// True if the job's FluxJob cannot be written, and no pod of it may start before that.
    pub(crate) fn lacks_record(&self) -> bool {
        self.record.setbacks.refused.is_some() && self.writes_ahead()
    }

    /// True if the API server has acknowledged the place of this pod, or need not: its Binding may
    /// leave.
    pub(crate) fn may_send(&self, member: &Member) -> bool {
        !self.writes_ahead() || member.seat.is_none_or(|seat| self.start.seats.may_leave(seat))
    }

    /// True if the same holds for all pods that have a place.
    pub(crate) fn may_send_all(&self) -> bool {
        !self.writes_ahead() || self.start.seats.may_all_leave()
    }

    /// True if the requirements of the job apply to this member. While others stand in for the
    /// job's pods, they apply to the stand-ins alone.
    pub(crate) fn counts(&self, member: &Member) -> bool {
        member.pod.stands_in == self.suspended.has_stand_ins()
    }
}

impl JobStart {
    /// Keeps a slot, with its seat, for a pod that is to come.
    pub(crate) fn retain(&mut self, slot: RetainedSlot) {
        if let Some(seat) = slot.seat {
            self.seats.keep(seat);
        }
        self.retained.push(slot);
    }

    /// Takes out the retained slots that these are, and frees their seats.
    pub(crate) fn unretain(
        &mut self,
        is_it: impl FnMut(&mut RetainedSlot) -> bool,
    ) -> Vec<RetainedSlot> {
        let out: Vec<RetainedSlot> = self.retained.extract_if(.., is_it).collect();
        for seat in out.iter().filter_map(|slot| slot.seat) {
            self.seats.leave(seat);
        }
        out
    }
}

/// True if the job starts with this request. Otherwise its pods start one by one, and this is one
/// of several.
pub(crate) fn starts_job(job: &Job, pending: &PendingRequest) -> bool {
    matches!(pending, PendingRequest::Start(_)) || job.style == Style::Lone
}

/// True if a record contains this promise already.
pub(crate) fn is_as_written(said: &Said, start: Option<Time>, written: &Reservation) -> bool {
    let is_same_start = match (start, written.start.as_ref().map(time_of)) {
        (Some(start), Some(written)) => start.0.abs_diff(written.0) < SAME_START_MICROS,
        (start, written) => start == written,
    };
    is_same_start && said.nodes == written.nodes
}
