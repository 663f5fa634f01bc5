//! The core's knowledge of one job, and of each of its pods.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::{
    BlockedReason, ConditionType, DegradedReason, FinishedReason, Reservation, WorkloadKind,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::action::ActionId;
use crate::jobs::expected::Expected;
use crate::jobs::nomination::Nomination;
use crate::jobs::seats::{PodIndex, Seats};
use crate::jobs::setbacks::Setbacks;
use crate::jobs::stage::Stage;
use crate::records::stored::Record;
use crate::records::times::time_of;
use crate::telling::blockers::Blockers;
use fluxqueue_machine::cluster::Stance;
use fluxqueue_machine::cluster::volumes::{Unready, VolumeNeeds};
use fluxqueue_machine::fluxion::Tenancy;
use fluxqueue_machine::ledger::{Allocation, LevelWants};
use fluxqueue_planner::plan::Kept;
use fluxqueue_planner::queue::{JobId, PendingRequest, QueueId};
use fluxqueue_planner::queues::{QueueStanding, Walltimes};
use fluxqueue_workload::{ObjectKey, Pod, Time, Uid};

/// The difference in microseconds below which two starts are the same one. Starts are whole seconds
/// of the core's time, and another clock may show another fraction.
const SAME_START_MICROS: u64 = 1_000_000;

/// The common property that makes pods belong to one job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    /// The pods carry the same group label, in one namespace.
    Group(ObjectKey),
    /// The same object makes the pods: a Job, Deployment, ReplicaSet or StatefulSet of this
    /// namespace and uid.
    Controller(Arc<str>, Uid),
    /// The pod is a job by itself.
    Pod(Uid),
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
    pub identity: Identity,
    pub kind: WorkloadKind,
    pub style: Style,
    /// The name of the workload.
    pub name: Arc<str>,
    /// Namespace and name of the FluxJob.
    pub key: ObjectKey,
    /// The uid that the FluxJob's name is made of.
    pub workload_uid: Uid,
    pub owners: Vec<OwnerReference>,
    /// The scheduler name by which its events are reported.
    pub reporter: Arc<str>,
    /// Its pods, as long as they exist, ended pods too.
    pub members: BTreeSet<Uid>,
    /// The lowest priority among its pods that are to run. Without such a pod the value stays as it
    /// was.
    pub pod_priority: Option<i32>,
    /// Its pods that have not ended, in the order in which they get seats.
    pub live: BTreeMap<PodOrder, Uid>,
    /// The objects that have made pods of the job.
    pub controllers: BTreeSet<Uid>,
    /// The makers that are gone: the pods that they have left will be deleted too.
    pub gone_makers: BTreeSet<Uid>,
    /// The number of pods that succeeded, and of pods that ended otherwise.
    pub succeeded: u32,
    pub failed: u32,
    /// The time when the last member joined.
    pub joined: Time,
    /// The time when the last pod that had been deleted while it ran was gone.
    pub left_at: Time,
    pub queued_at: Option<Time>,
    /// True if the job was in the queue before, or could have been but for a hold, a gate or its
    /// queue. Such a job is planned around the promises to others.
    pub is_late_entrant: bool,
    pub started_at: Option<Time>,
    pub completed_at: Option<Time>,
    /// The latest end among its pods that the API server reports.
    pub last_end: Option<Time>,
    pub life: Lifecycle,
    /// How many pods start together; the number decides whether the placement is written ahead.
    pub start_size: usize,
    /// The placements withdrawn in a row, and the pause that follows.
    pub setbacks: Setbacks,
    /// The message of the API server that refused a Binding before any took effect. No more
    /// Bindings are sent, and the placement is about to be withdrawn.
    pub refusal: Option<String>,
    /// The largest number of pods that were bound at the same time since the job began; for a Job,
    /// no more than it wanted at any time since then.
    pub most_bound: usize,
    /// The number of pods that have ended on their nodes before all pods of the start were bound.
    pub ended_early: usize,
    /// Why the job has not become whole in time after its first Binding.
    pub stalled: Option<Stalled>,
    /// How the job ended, by its record as found after a restart.
    pub ended_as: Option<FinishedReason>,
    /// The nodes of its pods, for a job with a placement that is written ahead.
    pub seats: Seats,
    pub retained: Vec<RetainedSlot>,
    /// The state of Fluxqueue's suspension of its Job.
    pub suspended: Suspended,
    /// The number of pods that its one stand-in represents while its Job waits without pods and
    /// without a place; else 1.
    pub stands_for: usize,
    /// Its requests that wait in the queue.
    pub pending: BTreeSet<PendingRequest>,
    /// The reason why the job waits, as a user reads it.
    pub blocker: Option<Blockers>,
    /// The request that has these reasons: the first of the waiting ones.
    pub blocked_request: Option<PendingRequest>,
    /// The first reason that this process found, while the reason from an earlier process is kept.
    pub found_first: Option<Blockers>,
    /// The warnings that were already reported, which are not repeated.
    pub warnings: BTreeMap<ConditionType, String>,
    /// When the job is expected to start, besides the start that it is promised.
    pub expected: Expected,
    /// Its place in the queue.
    pub position: Option<usize>,
    /// The promise that its record states, or is to state.
    pub said: Option<Said>,
    pub said_at: Time,
    /// True if that promise is to be written at once.
    pub must_say: bool,
    /// The promise that the job had, until its first Binding leaves: if the placement is withdrawn
    /// before, that promise is reported as broken.
    pub promised_before: Option<Kept>,
    pub queue: InQueue,
    pub record: Record,
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

/// The stage of a job's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    /// The pods that start together have no slots. Lone pods and elastic jobs stay in this stage
    /// until they end.
    Waiting,
    /// The pods have slots, and no Binding has left yet: the placement can still be withdrawn.
    Placed,
    /// The first Binding left at this time. From here on the gang is completed, on other nodes if
    /// need be.
    Starting { since: Time },
    /// All pods that the job wanted were bound at some time.
    Whole,
    /// None of its pods is left, and no object makes more.
    Finished(FinishedReason),
}

/// Why a gang that has begun does not become whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stalled {
    /// The reason of its condition Degraded.
    pub reason: DegradedReason,
    pub message: String,
    /// True if the finding is from an earlier process.
    pub is_inherited: bool,
    /// The first message that this process found, while the message of an earlier process is kept.
    pub found_first: Option<String>,
}

impl Stalled {
    /// Creates a finding of this process.
    pub(crate) fn new(reason: DegradedReason, message: String) -> Self {
        Stalled { reason, message, is_inherited: false, found_first: None }
    }

    /// Returns the finding that counts. A finding of an earlier process for the same reason stays
    /// until this process finds a message other than its first one.
    pub(crate) fn after(self, known: Option<Stalled>) -> Stalled {
        let is_kept = |known: &Stalled| {
            let is_no_news = known.found_first.as_ref().is_none_or(|first| *first == self.message);
            known.is_inherited && known.reason == self.reason && is_no_news
        };
        match known.filter(is_kept) {
            Some(known) => Stalled { found_first: Some(self.message), ..known },
            None => self,
        }
    }
}

/// The seat that a pod gets.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Seating {
    /// This seat.
    At(PodIndex),
    /// The seat of the pod's own number if it has one, else the first free seat of its pod set.
    Free {
        /// The place of its shape among the job's pod sets.
        pod_set: usize,
    },
}

/// The state of Fluxqueue's suspension of a Job, from its mark until its pods wait for themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Suspended {
    /// The Job is not suspended by Fluxqueue.
    #[default]
    No,
    /// The Job waits for its place, and others stand in for its pods.
    Waits(JobWrite),
    /// The Job was released, and this process knew of it at this time of the core. Others stand in
    /// for its pods until all pods exist.
    Released { since: Time },
    /// The suspension is over: no pod has a stand-in any more.
    Over,
}

/// A write into a suspended Job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct JobWrite {
    /// The action that is under way, and the change that it makes.
    pub under_way: Option<(ActionId, JobChange)>,
    /// The number of writes that failed in a row, why the last one did, and when the next may
    /// leave.
    pub attempts: u32,
    pub failure: Option<String>,
    pub retry_at: Time,
}

/// A change of a suspended Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobChange {
    /// Removes the mark and the suspension.
    Release,
    /// Suspends a Job again that another client has let go.
    Suspend,
}

/// A slot without a pod, for the pod that the controller will make.
pub(crate) struct RetainedSlot {
    pub allocation: Allocation,
    pub seat: Option<PodIndex>,
    /// The controller that makes the pod for the slot.
    pub controller: Uid,
    /// True if the number of pods that the controller wants is not known, by its kind.
    pub is_of_unknown_kind: bool,
    pub until: Time,
}

/// A pod that Fluxqueue schedules.
pub(crate) struct Member {
    pub pod: Arc<Pod>,
    pub job: JobId,
    pub stage: Stage,
    pub seat: Option<PodIndex>,
    /// The slots that the pod had to give back in a row, and the pause that follows.
    pub setbacks: Setbacks,
    /// The number of writes for the pod that failed in a row, and when the next is due.
    pub attempts: u32,
    pub retry_at: Time,
    /// True if the API server said that the pod is gone or being deleted: it is not placed any
    /// more.
    pub deletion_observed: bool,
    /// True if the answer to a Binding got lost, so that the pod may be on a node without the
    /// core's knowledge.
    pub maybe_bound: bool,
    /// The time until which the watch may still show the pod on the node of a Binding with a lost
    /// answer. The pod keeps that slot until then.
    pub doubt_until: Time,
    /// The removal of Fluxqueue's gate that is under way. It goes on even if the pod loses its slot
    /// meanwhile.
    pub ungating: Option<ActionId>,
    /// True if Fluxqueue's gate has been removed, though the last seen state of the pod has it.
    pub ungated: bool,
    /// The last report on the pod: condition message and time.
    pub reported: Option<(String, Time)>,
    /// The pod's rules about pods on nodes, as of when it was last queued.
    pub stance: Stance,
    /// The requirements that its volumes place on nodes, as of the last look at them.
    pub volumes: Option<Arc<VolumeNeeds>>,
    /// The requirements on levels of the machine, as of when the pod was last queued.
    pub levels: LevelWants,
    /// Whether the pod may share its node, and with which jobs, as of when it was last queued.
    pub tenancy: Tenancy,
    /// Why its claims do not allow the pod to be placed.
    pub unready: Option<Unready>,
    /// How often its volumes could not be bound.
    pub mountings_failed: u32,
    /// The write of the pod's condition that is under way.
    pub telling: Option<ActionId>,
    /// The nomination of the pod.
    pub nomination: Nomination,
}

impl Member {
    /// Creates a pod of this job that has no slot yet, and on which nothing has been reported.
    pub(crate) fn new(pod: Arc<Pod>, job: JobId, stage: Stage) -> Self {
        Member {
            pod,
            job,
            stage,
            seat: None,
            setbacks: Setbacks::default(),
            attempts: 0,
            retry_at: Time(0),
            deletion_observed: false,
            maybe_bound: false,
            doubt_until: Time(0),
            ungating: None,
            ungated: false,
            reported: None,
            stance: Stance::default(),
            volumes: None,
            levels: None,
            tenancy: Tenancy::Shared,
            unready: None,
            mountings_failed: 0,
            telling: None,
            nomination: Nomination::none(),
        }
    }

    /// True if the pod can be given a slot, as far as the pod itself is concerned.
    pub(crate) fn is_ready(&self, gate: &str) -> bool {
        self.stage.is_waiting()
            && !self.deletion_observed
            && !self.pod.deleting
            && self.pod.unsupported.is_empty()
            && self.unready.is_none()
            && self.pod.gates.iter().all(|held| **held == *gate)
            && !matches!(self.pod.group, Some(ref group) if group.size.is_err())
    }

    /// True if a Binding with an unknown outcome may have left for the pod.
    pub(crate) fn is_in_doubt(&self, now: Time) -> bool {
        self.maybe_bound && now < self.doubt_until
    }

    pub(crate) fn is_bound(&self) -> bool {
        self.stage.is_bound()
    }

    /// Returns the pod's allocation on the node where it is or is to be.
    pub(crate) fn allocation(&self) -> Option<&Allocation> {
        self.stage.allocation()
    }

    /// Returns when the next write for the pod may leave.
    pub(crate) fn leaves_from(&self) -> Time {
        self.retry_at.max(self.setbacks.leaves_from())
    }

    /// True if the pod is being deleted and has no node: it never will have one.
    pub(crate) fn goes_unbound(&self) -> bool {
        self.pod.deleting && self.pod.node.is_none()
    }
}

/// The order in which pods of a job get seats: completion index, age, name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PodOrder(u32, Time, CountedName);

impl PodOrder {
    pub(crate) fn of(pod: &Pod) -> Self {
        PodOrder(
            pod.completion_index.unwrap_or(u32::MAX),
            pod.created,
            CountedName(Arc::clone(&pod.id.key.name)),
        )
    }
}

/// A name in which numbers count as numbers: `w-2` is before `w-10`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CountedName(Arc<str>);

impl Ord for CountedName {
    fn cmp(&self, other: &Self) -> Ordering {
        let (mut one, mut two) = (&*self.0, &*other.0);
        while let (Some(first), Some(second)) = (one.chars().next(), two.chars().next()) {
            let (digits, others) = (leading_digits(one), leading_digits(two));
            let order = if digits.is_empty() || others.is_empty() {
                (one, two) = (&one[first.len_utf8()..], &two[second.len_utf8()..]);
                first.cmp(&second)
            } else {
                (one, two) = (&one[digits.len()..], &two[others.len()..]);
                let (digits, others) =
                    (digits.trim_start_matches('0'), others.trim_start_matches('0'));
                digits.len().cmp(&others.len()).then_with(|| digits.cmp(others))
            };
            if order.is_ne() {
                return order;
            }
        }
        one.len().cmp(&two.len()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for CountedName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns the digits with which a text begins.
fn leading_digits(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_ascii_digit());
    &text[..end.unwrap_or(text.len())]
}

impl Lifecycle {
    /// True if the pods that start together have been given slots: pods that come now join them.
    pub(crate) fn is_placed(self) -> bool {
        matches!(self, Lifecycle::Placed | Lifecycle::Starting { .. } | Lifecycle::Whole)
    }

    pub(crate) fn end(self) -> Option<FinishedReason> {
        match self {
            Lifecycle::Finished(end) => Some(end),
            _ => None,
        }
    }
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

impl RetainedSlot {
    /// True if the pod is one that may take the slot, as far as the pod itself is concerned.
    pub(crate) fn is_for(&self, pod: &Pod) -> bool {
        pod.owner.as_ref().is_some_and(|owner| owner.uid == self.controller)
            && *self.allocation.shape == *pod.shape
    }
}

impl Job {
    /// Forgets a start of which no pod has a slot any more: the job starts again, all or none.
    pub(crate) fn forget_start(&mut self) {
        self.life = Lifecycle::Waiting;
        self.refusal = None;
        (self.ended_early, self.most_bound) = (0, 0);
        self.stalled = None;
        self.seats.clear();
    }

    /// Sets the requests of the job that wait from now on.
    pub(crate) fn wait_for(&mut self, pending: BTreeSet<PendingRequest>) {
        self.pending = pending;
        if self.pending.is_empty() {
            // A reason that concerned a request in the queue ends with that request.
            let blocker = self.blocker.take();
            let stays = |reason: BlockedReason| {
                reason.is_outside_the_queue() || self.says_until_it_begins(reason)
            };
            self.blocker = blocker.filter(|blocker| stays(blocker.reason()));
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
        self.blocker.take_if(|blocker| blocker.reason().is_outside_the_queue());
    }

    /// Returns the priority that a user wishes, else that of the job's pods.
    pub(crate) fn priority(&self) -> i32 {
        self.record.wished_priority.or(self.pod_priority).unwrap_or(0)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.life.end().is_some()
    }

    /// True if the placement is written before the first Binding: several pods start together. A
    /// placement that is on record is followed, or taken back first, even if only one pod is wanted
    /// by now; and a placement that other pods have joined meanwhile is written with them. The
    /// placement of a suspended Job of one pod is written ahead too: the Job is released when its
    /// placement is acknowledged.
    pub(crate) fn writes_ahead(&self) -> bool {
        let is_gang = self.style == Style::Gang;
        is_gang
            && (self.start_size > 1
                || self.suspended.has_stand_ins()
                || self.seats.is_on_record()
                || self.seats.len() > 1)
    }

    /// True if the job's FluxJob cannot be written, and no pod of it may start before that.
    pub(crate) fn lacks_record(&self) -> bool {
        self.record.refused.is_some() && self.writes_ahead()
    }

    /// True if the requirements of the job apply to this member. While others stand in for the
    /// job's pods, they apply to the stand-ins alone.
    pub(crate) fn counts(&self, member: &Member) -> bool {
        member.pod.stands_in == self.suspended.has_stand_ins()
    }

    /// Returns the seats with slots that are retained for pods that are to come.
    pub(crate) fn retained_seats(&self) -> Vec<PodIndex> {
        self.retained.iter().filter_map(|retained| retained.seat).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let in_order = [
            "a", "a-1", "a-1-b", "a-2", "a-10", "a-10-2", "a-010-3", "a-10-10", "a-b", "b0", "b00",
            "b1", "\u{e4}1", "\u{e4}2",
        ];
        let mut names: Vec<CountedName> =
            in_order.iter().rev().map(|name| CountedName(Arc::from(*name))).collect();
        names.sort();
        assert_eq!(names.iter().map(|name| &*name.0).collect::<Vec<_>>(), in_order);
    }
}
