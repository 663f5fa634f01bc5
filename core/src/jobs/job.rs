//! What the core knows of one thing that was submitted, and of each of its pods.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::{BlockedReason, ConditionType, DegradedReason, FinishedReason, WorkloadKind};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::ActionId;
use crate::jobs::expected::Expected;
use crate::jobs::nomination::Nomination;
use crate::jobs::seats::{PodIndex, Seats};
use crate::jobs::setbacks::Setbacks;
use crate::jobs::stage::Stage;
use crate::records::stored::Record;
use crate::telling::blockers::Blockers;
use fluxqueue_machine::cluster::Stance;
use fluxqueue_machine::cluster::volumes::{Unready, VolumeNeeds};
use fluxqueue_machine::fluxion::Tenancy;
use fluxqueue_machine::ledger::{Allocation, LevelWants};
use fluxqueue_planner::plan::Kept;
use fluxqueue_planner::queue::{JobId, PendingRequest, QueueId};
use fluxqueue_planner::queues::{Standing, Walltimes};
use fluxqueue_workload::{ObjectKey, Pod, Time, Uid};

/// What makes pods belong to one job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    /// The same group label, in one namespace.
    Group(ObjectKey),
    /// The same object makes them: a Job, Deployment, ReplicaSet or StatefulSet of this namespace
    /// and uid.
    Controller(Arc<str>, Uid),
    /// Alone.
    Pod(Uid),
}

/// How the pods of a job start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// There is only one.
    Lone,
    /// A number of them together, all or none; whoever comes later joins.
    Gang,
    /// One by one, each at its own age.
    Elastic,
}

/// A job: what one FluxJob stands for.
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
    /// Its pods, as long as they exist, ended ones too.
    pub members: BTreeSet<Uid>,
    /// The lowest priority of a pod of it that is to run. Without one it stays as it was.
    pub pod_priority: Option<i32>,
    /// Those of them that have not ended, in the order in which they get seats.
    pub live: BTreeMap<PodOrder, Uid>,
    /// The objects that have made pods of it.
    pub controllers: BTreeSet<Uid>,
    /// Those of them that are gone: the pods that they have left will be deleted too.
    pub gone_makers: BTreeSet<Uid>,
    /// Pods that ended by success; and otherwise.
    pub succeeded: u32,
    pub failed: u32,
    /// When the last member joined.
    pub joined: Time,
    /// When the last pod was gone that had been deleted while it ran.
    pub left_at: Time,
    pub queued_at: Option<Time>,
    /// It was in the queue before, or could have been but for a hold, a gate or its queue: it goes
    /// around what is promised to others.
    pub is_late_entrant: bool,
    pub started_at: Option<Time>,
    pub completed_at: Option<Time>,
    /// The latest end of a pod of it that the API server knows.
    pub last_end: Option<Time>,
    pub life: Lifecycle,
    /// How many pods start together; decides whether the placement is written ahead.
    pub start_size: usize,
    /// Placements withdrawn in a row, and the pause that follows.
    pub setbacks: Setbacks,
    /// A Binding was refused before any took effect: no more are sent, and the placement is about
    /// to be withdrawn. What the API server says.
    pub refusal: Option<String>,
    /// How many of its pods were bound at the same time since it began, or as many as it wanted
    /// since then.
    pub most_bound: usize,
    /// Pods that have ended on their nodes before all that start together were bound.
    pub ended_early: usize,
    /// Since its first Binding it should have become whole, and has not: why.
    pub stalled: Option<Stalled>,
    /// How it ended, by its record as found after a restart.
    pub ended_as: Option<FinishedReason>,
    /// Where its pods go, of a job that is written ahead.
    pub seats: Seats,
    pub retained: Vec<RetainedSlot>,
    /// What has become of our suspension of its Job.
    pub suspended: Suspended,
    /// How many pods its one stand-in stands for while its Job waits without pods and without a
    /// place; else 1.
    pub stands_for: usize,
    /// What of it waits in the queue.
    pub pending: BTreeSet<PendingRequest>,
    /// What a person reads about why it waits.
    pub blocker: Option<Blockers>,
    /// Whose reasons these are: the first of what waits.
    pub blocked_request: Option<PendingRequest>,
    /// While what an earlier process said is kept: what this one found then.
    pub found_first: Option<Blockers>,
    /// What was said about it once: warnings that are not repeated.
    pub warnings: BTreeMap<ConditionType, String>,
    /// When it is expected to start, besides what it is promised.
    pub expected: Expected,
    /// Its place in the queue.
    pub position: Option<usize>,
    /// What its record says, or is to say, that it is promised.
    pub said: Option<Said>,
    pub said_at: Time,
    /// That is to be written at once.
    pub must_say: bool,
    /// What it was promised, until its first Binding leaves: if its placement is withdrawn that was
    /// in vain.
    pub promised_before: Option<Kept>,
    pub queue: InQueue,
    pub record: Record,
}

/// A job in its queue, as of when it was last looked at.
#[derive(Debug, Clone, Default)]
pub(crate) struct InQueue {
    /// The queue; none before it was looked at.
    pub name: Arc<str>,
    pub id: QueueId,
    /// The one that the workload names.
    pub said: Option<Arc<str>>,
    /// What it says to the job.
    pub standing: Standing,
    pub walltimes: Walltimes,
    /// It was there, and for the job, at some time.
    pub had_place: bool,
}

/// What a job is promised, as its record has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    /// When it starts, in the core's time; `None`: nobody knows.
    pub start: Option<Time>,
    /// A hostlist.
    pub nodes: String,
}

/// Where a job is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    /// The pods that start together have no slots. Lone pods and elastic jobs are here until they
    /// end.
    Waiting,
    /// They have slots, and no Binding has left yet: the placement can still be withdrawn.
    Placed,
    /// The first Binding left at this time. From here on the gang is completed, elsewhere if need
    /// be.
    Starting { since: Time },
    /// All that it wanted was bound at some time.
    Whole,
    /// None of its pods is left, and nobody makes more.
    Finished(FinishedReason),
}

/// Why a gang that has begun does not become whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stalled {
    /// The reason of its condition Degraded.
    pub reason: DegradedReason,
    pub message: String,
    /// An earlier process said so.
    pub is_inherited: bool,
    /// While that is kept: what this one found first.
    pub found_first: Option<String>,
}

impl Stalled {
    /// What this process has found.
    pub(crate) fn new(reason: DegradedReason, message: String) -> Self {
        Stalled { reason, message, is_inherited: false, found_first: None }
    }

    /// What goes now. What an earlier process said for the same reason does until this one finds
    /// something else than it found first.
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

/// Which seat a pod gets.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Seating {
    /// This one.
    At(PodIndex),
    /// Its own if it has a number, else the first free one of its pod set.
    Free {
        /// Place of its shape among the job's pod sets.
        pod_set: usize,
    },
}

/// Our suspension of a Job, from its mark until its pods go for themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Suspended {
    /// There is none.
    #[default]
    No,
    /// The Job waits for its place, and others stand in for its pods.
    Waits(JobWrite),
    /// The Job was released, and was known to be at this time of the core. Others stand in for its
    /// pods until all are there.
    Released { since: Time },
    /// That is over: nobody stands in for its pods any more.
    Over,
}

/// What is being written into a suspended Job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct JobWrite {
    /// What is on its way.
    pub under_way: Option<(ActionId, JobChange)>,
    /// Writes that failed in a row, why the last did, and when the next may leave.
    pub attempts: u32,
    pub failure: Option<String>,
    pub retry_at: Time,
}

/// What is written into a suspended Job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobChange {
    /// Mark and suspension are taken off.
    Release,
    /// It is suspended again that somebody has let go.
    Suspend,
}

/// A slot without a pod, for the pod that the controller will make.
pub(crate) struct RetainedSlot {
    pub allocation: Allocation,
    pub seat: Option<PodIndex>,
    /// The controller whose next pod may take it.
    pub controller: Uid,
    /// That is of a kind of which nobody knows how many pods it wants.
    pub is_of_unknown_kind: bool,
    pub until: Time,
}

/// One of our pods.
pub(crate) struct Member {
    pub pod: Arc<Pod>,
    pub job: JobId,
    pub stage: Stage,
    pub seat: Option<PodIndex>,
    /// Slots that it had to give back in a row, and the pause that follows.
    pub setbacks: Setbacks,
    /// Writes for it that failed in a row, and when the next is due.
    pub attempts: u32,
    pub retry_at: Time,
    /// The API server said that it is gone or going: it is not placed any more.
    pub deletion_observed: bool,
    /// The answer to a Binding got lost, so it may be on a node without our knowing.
    pub maybe_bound: bool,
    /// Until then the watch may still show it on the node of a Binding whose answer got lost: it
    /// keeps that slot.
    pub doubt_until: Time,
    /// The removal of our gate that is on its way: it goes on also when the pod loses its slot
    /// meanwhile.
    pub ungating: Option<ActionId>,
    /// Our gate has been taken off, though the pod as last seen has it.
    pub ungated: bool,
    /// What was last said about it: condition message and time.
    pub reported: Option<(String, Time)>,
    /// How it stands to pods on nodes, as of when it was last queued.
    pub stance: Stance,
    /// What it asks of nodes for its volumes, as of when it was last looked at.
    pub volumes: Option<Arc<VolumeNeeds>>,
    /// What it asks of levels of the machine, as of when it was last queued.
    pub levels: LevelWants,
    /// With whom it is to be on a node, as of when it was last queued.
    pub tenancy: Tenancy,
    /// Its claims are not such that it could be placed.
    pub unready: Option<Unready>,
    /// How often its volumes could not be bound.
    pub mountings_failed: u32,
    /// The condition that is to be written.
    pub telling: Option<ActionId>,
    /// What it says of the node that it is to go to.
    pub nomination: Nomination,
}

impl Member {
    /// A pod of this job that has nothing yet, and of which nothing has been said.
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

    /// It can be given a slot, as far as it itself is concerned.
    pub(crate) fn is_ready(&self, gate: &str) -> bool {
        self.stage.is_waiting()
            && !self.deletion_observed
            && !self.pod.deleting
            && self.pod.unsupported.is_empty()
            && self.unready.is_none()
            && self.pod.gates.iter().all(|held| **held == *gate)
            && !matches!(self.pod.group, Some(ref group) if group.size.is_err())
    }

    /// A Binding may have left for it of which nobody knows yet what came.
    pub(crate) fn is_in_doubt(&self, now: Time) -> bool {
        self.maybe_bound && now < self.doubt_until
    }

    pub(crate) fn is_bound(&self) -> bool {
        self.stage.is_bound()
    }

    /// Its allocation on the node where it is or is to be.
    pub(crate) fn allocation(&self) -> Option<&Allocation> {
        self.stage.allocation()
    }

    /// When the next write for it may leave.
    pub(crate) fn leaves_from(&self) -> Time {
        self.retry_at.max(self.setbacks.leaves_from())
    }

    /// It is being deleted, and has no node: it never will have one.
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

/// A name whose numbers count as numbers: `w-2` is before `w-10`.
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

/// The digits with which a text begins.
fn leading_digits(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_ascii_digit());
    &text[..end.unwrap_or(text.len())]
}

impl Lifecycle {
    /// The pods that start together have been given slots: whoever comes now joins.
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
    /// The job is in this queue.
    pub(crate) fn is(&self, name: &str) -> bool {
        *self.name == *name
    }

    /// Nobody starts from it.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self.standing, Standing::Stopped | Standing::Invalid)
            || (self.standing == Standing::Missing && self.had_place)
    }
}

impl RetainedSlot {
    /// The pod is one that may take it, as far as the pod itself is concerned.
    pub(crate) fn is_for(&self, pod: &Pod) -> bool {
        pod.owner.as_ref().is_some_and(|owner| owner.uid == self.controller)
            && *self.allocation.shape == *pod.shape
    }
}

impl Job {
    /// Nothing of it has a slot any more: it starts anew, all or none.
    pub(crate) fn forget_start(&mut self) {
        self.life = Lifecycle::Waiting;
        self.refusal = None;
        (self.ended_early, self.most_bound) = (0, 0);
        self.stalled = None;
        self.seats.clear();
    }

    /// These requests of it wait from now on.
    pub(crate) fn wait_for(&mut self, pending: BTreeSet<PendingRequest>) {
        self.pending = pending;
        if self.pending.is_empty() {
            // What was in the way of a request that is gone is in the way of nothing.
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

    /// What kept it out of the queue is over.
    pub(crate) fn may_queue(&mut self) {
        self.blocker.take_if(|blocker| blocker.reason().is_outside_the_queue());
    }

    /// The priority that a person wishes, else that of its pods.
    pub(crate) fn priority(&self) -> i32 {
        self.record.wished_priority.or(self.pod_priority).unwrap_or(0)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.life.end().is_some()
    }

    /// The placement is written before the first Binding: several pods start together. A placement
    /// that is on record is followed, or taken back first, even if only one pod is wanted by now;
    /// and one that others have joined meanwhile is written with them. So is that of a Job of one
    /// pod that is released when it is acknowledged.
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

    /// What the job asks for is asked for this member. While others stand in for its pods, for
    /// these alone.
    pub(crate) fn counts(&self, member: &Member) -> bool {
        member.pod.stands_in == self.suspended.has_stand_ins()
    }

    /// Seats whose slots are retained for pods that are to come.
    pub(crate) fn retained_seats(&self) -> Vec<PodIndex> {
        self.retained.iter().filter_map(|retained| retained.seat).collect()
    }
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
