//! The core with a saboteur around it that does one thing wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxion_sys::FunctionTable;
use fluxqueue_api::{EstimateKind, FluxJob, JobState, StopPolicy};
use fluxqueue_core::{
    Action, ActionId, ActionKind, Event, Outcome, QueuePolicy, Write, WriteOutcome,
};
use fluxqueue_machine::cluster::Node;
use fluxqueue_planner::queues::{Namespace, QueueObject, Rules};
use fluxqueue_workload::metadata::Labels;
use fluxqueue_workload::pod_group::PodGroup;
use fluxqueue_workload::{
    Controller, Lifetime, ObjectKey, ObjectRef, OwnerKind, Pod, Shape, Suspension, SuspensionPhase,
    Time, Uid,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;

use super::Sabotage;
use super::mislaying::Mislaying;
use super::walls::{self, Walls};
use crate::leak;
use crate::machine::{self, Machine, Start};
use crate::objects::{self, FOREIGN_GATE, HOST, NAMESPACE, OURS};
use crate::pod_groups;

/// The core with a saboteur between it and the world.
pub(super) struct Saboteur {
    core: Box<dyn Machine>,
    sabotage: Sabotage,
    epoch: i64,
    /// The core's own id of each action that went out. An action that the core did not request, or
    /// with a known outcome, has none.
    asked: BTreeMap<ActionId, ActionId>,
    next_id: ActionId,
    /// A needless write that is under way.
    needless: Option<ActionId>,
    /// Bindings that are held back, with the number of steps left.
    held_back: Vec<(u32, Action)>,
    /// A pod to which this saboteur writes without a request of the core.
    victim: Option<ObjectRef>,
    /// A Job that it releases, with its version.
    hostage: Option<(ObjectRef, Option<Arc<str>>)>,
    /// A PodGroup with a condition that it takes back.
    started: Option<Arc<PodGroup>>,
    greeted: bool,
    synced: bool,
    /// Pods of groups.
    grouped: BTreeSet<Uid>,
    /// The shape of the first pod that was seen of each group.
    shapes: BTreeMap<Arc<str>, Arc<Shape>>,
    mislaying: Mislaying,
    walls: Walls,
}

/// Steps for which a saboteur holds Bindings back: enough for other events to arrive.
const LATE_STEPS: u32 = 12;

/// A place that is held for this long is held for ever.
const HELD_SECONDS: u64 = 1_000_000;

/// An hour, in microseconds.
const HOUR_MICROS: i64 = 3_600_000_000;

impl Saboteur {
    pub(super) fn new(sabotage: Sabotage, start: &Start) -> Self {
        let record_lone_pods = start.record_lone_pods || sabotage == Sabotage::RecordEverything;
        let library = if sabotage == Sabotage::LeakSlots {
            leak::library()
        } else {
            FunctionTable::builtin()
        };
        let suspend_hold_secs =
            if sabotage == Sabotage::HoldPlaces { HELD_SECONDS } else { start.suspend_hold_secs };
        let queue_policy =
            if sabotage == Sabotage::PromiseFewer { QueuePolicy::Easy } else { start.queue_policy };
        let is_passing = matches!(sabotage, Sabotage::PassByForEver | Sabotage::PassGangsByForEver);
        let bypass_secs = if is_passing { 1_000_000 } else { start.bypass_secs };
        let told = Start {
            record_lone_pods,
            queue_policy,
            suspend_hold_secs,
            bypass_secs,
            ..start.clone()
        };
        let mut core = machine::core_on(library, &told);
        if sabotage == Sabotage::DecideTooEarly {
            core.handle(Event::Synced, Time(1));
        }
        Saboteur {
            core,
            sabotage,
            epoch: start.epoch,
            asked: BTreeMap::new(),
            next_id: 1,
            needless: None,
            held_back: Vec::new(),
            victim: None,
            hostage: None,
            started: None,
            greeted: false,
            synced: false,
            grouped: BTreeSet::new(),
            shapes: BTreeMap::new(),
            mislaying: Mislaying::default(),
            walls: Walls::default(),
        }
    }

    /// True if the pod belongs to a group with an earlier pod of another shape. Groups of one name
    /// differ in the names of their pods, apart from the number at the end.
    fn is_of_another_shape(&mut self, pod: &Pod) -> bool {
        let Some((group, _)) = pod.id.key.name.rsplit_once('-').filter(|_| pod.group.is_some())
        else {
            return false;
        };
        *self.shapes.entry(Arc::from(group)).or_insert_with(|| Arc::clone(&pod.shape)) != pod.shape
    }

    /// Returns the Job to resume though it is not ours, or not released yet.
    fn job_to_resume(&self, job: &Controller) -> Option<(ObjectRef, Option<Arc<str>>)> {
        let version = match job.suspension.as_ref().map(|it| &it.phase) {
            Some(SuspensionPhase::Marked { resource_version, is_suspended: true }) => {
                resource_version.clone().filter(|_| self.sabotage == Sabotage::ReleaseEarly)?
            }
            // The Job wants no pods: a user has suspended it.
            None if job.kind == OwnerKind::Job && job.wants == 0 && !job.finished => {
                Some(Arc::from("1")).filter(|_| self.sabotage == Sabotage::ResumeOthers)?
            }
            _ => return None,
        };
        Some((job.id.clone(), Some(version)))
    }

    /// Returns the event as the core sees it, if it sees it at all.
    fn falsify(&mut self, event: Event) -> Option<Event> {
        Some(match (self.sabotage, event) {
            (Sabotage::IgnoreOtherSchedulers, Event::Pod(pod)) if *pod.scheduler != *OURS => {
                return None;
            }
            (Sabotage::IgnoreCordons, Event::Node(node)) => Event::Node(Arc::new(Node {
                unschedulable: false,
                taints: Vec::new(),
                ..Node::clone(&node)
            })),
            (Sabotage::IgnoreGates, Event::Pod(pod)) => {
                let mut pod = Pod::clone(&pod);
                pod.gates.retain(|gate| **gate != *FOREIGN_GATE);
                Event::Pod(Arc::new(pod))
            }
            (Sabotage::IgnoreHolds, Event::FluxJob(job)) => {
                let mut job = FluxJob::clone(&job);
                job.spec.overrides.hold = false;
                Event::FluxJob(Arc::new(job))
            }
            (Sabotage::IgnoreWhatIsUnsupported, Event::Pod(pod)) => {
                Event::Pod(Arc::new(Pod { unsupported: Vec::new(), ..Pod::clone(&pod) }))
            }
            (Sabotage::PlanLonger, Event::Pod(pod)) => {
                let lifetime = match pod.lifetime {
                    Lifetime::Seconds(seconds) => Lifetime::Seconds(seconds + 30),
                    other => other,
                };
                Event::Pod(Arc::new(Pod { lifetime, ..Pod::clone(&pod) }))
            }
            (sabotage, Event::Pod(pod)) if forgets_levels(sabotage, &pod) => anywhere(&pod),
            (Sabotage::IgnoreExclusive, Event::Pod(pod)) => {
                Event::Pod(Arc::new(Pod { exclusive: None, ..Pod::clone(&pod) }))
            }
            (Sabotage::IgnoreAntiAffinity, Event::Pod(mut pod)) => {
                Arc::make_mut(&mut Arc::make_mut(&mut pod).shape).constraints.repels.clear();
                Event::Pod(pod)
            }
            (Sabotage::IgnoreOwnAntiAffinity, Event::Pod(pod)) if *pod.scheduler == *OURS => {
                let mut pod = Pod::clone(&pod);
                Arc::make_mut(&mut pod.shape).constraints.repels.clear();
                Event::Pod(Arc::new(pod))
            }
            // Lone pods do not count until they are on nodes.
            (Sabotage::CrowdUnannounced, Event::Pod(pod)) if pod.group.is_none() => {
                labelled_once_there(&pod)
            }
            (Sabotage::RepelUnannounced, Event::Pod(pod)) if *pod.scheduler == *OURS => {
                repelling_once_there(&pod)
            }
            (Sabotage::WriteToOthers, Event::Pod(pod)) => {
                if *pod.scheduler != *OURS && pod.node.is_none() {
                    self.victim = Some(pod.id.clone());
                }
                Event::Pod(pod)
            }
            // Members with another shape than the group's first are made to fit nowhere.
            (Sabotage::PlaceNoGroups, Event::Pod(pod))
                if pod.node.is_none() && self.is_of_another_shape(&pod) =>
            {
                let mut pod = Pod::clone(&pod);
                let host = Arc::from("nowhere");
                Arc::make_mut(&mut pod.shape)
                    .constraints
                    .node_selector
                    .push((Arc::from(HOST), host));
                Event::Pod(Arc::new(pod))
            }
            (Sabotage::CountRefused, Event::Pod(pod)) => Event::Pod(self.walls.falsify(&pod)),
            (Sabotage::BelieveOwners, event @ (Event::Pod(_) | Event::PodGone(_))) => {
                self.walls.move_to_owner(event)
            }
            (Sabotage::KeepRefused, Event::Done(id, outcome)) => {
                Event::Done(self.asked.remove(&id)?, walls::unanswered(outcome))
            }
            (Sabotage::MislayMembers, event) if self.mislaying.hides(&event) => return None,
            (Sabotage::IgnoreStops, Event::Queue(queue)) => {
                let rules = Rules { stop: StopPolicy::None, ..queue.rules.clone() };
                Event::Queue(Arc::new(QueueObject { rules, ..QueueObject::clone(&queue) }))
            }
            (Sabotage::IgnorePause, Event::Namespace(namespace)) => {
                let namespace = Namespace { paused: None, ..Namespace::clone(&namespace) };
                Event::Namespace(Arc::new(namespace))
            }
            (Sabotage::IgnoreMarks, Event::Controller(job)) => {
                let mut job = Controller::clone(&job);
                let is_let_go = |it: &Suspension| {
                    matches!(it.phase, SuspensionPhase::Marked { is_suspended: false, .. })
                };
                job.suspension.take_if(|suspension| is_let_go(suspension));
                Event::Controller(Arc::new(job))
            }
            (Sabotage::ReleaseEarly | Sabotage::ResumeOthers, Event::Controller(job)) => {
                self.hostage = self.job_to_resume(&job).or(self.hostage.take());
                Event::Controller(job)
            }
            (_, Event::PodGroup(group)) => Event::PodGroup(self.falsify_group(group)),
            (Sabotage::ForgetTheClock, Event::ClockOffset(_)) => Event::ClockOffset(0),
            (Sabotage::ForgetToFree, Event::Pod(pod)) if pod.phase.is_terminal() => return None,
            (Sabotage::ForgetPlacements, Event::FluxJob(job)) if self.epoch > 1 => {
                let mut job = FluxJob::clone(&job);
                if let Some(status) = &mut job.status {
                    status.placement.clear();
                }
                Event::FluxJob(Arc::new(job))
            }
            (_, Event::Done(id, _)) if self.needless == Some(id) => {
                self.needless = None;
                return None;
            }
            // The saboteur's write is hidden from the core, which would write again.
            (Sabotage::SayPending, Event::FluxJob(job)) => {
                Event::FluxJob(as_its_conditions_say(&job))
            }
            (
                Sabotage::SayPending,
                Event::Done(id, Outcome::Write(WriteOutcome::Written(Some(job)))),
            ) => {
                let written = WriteOutcome::Written(Some(as_its_conditions_say(&job)));
                Event::Done(self.asked.remove(&id)?, Outcome::Write(written))
            }
            (_, Event::Done(id, outcome)) => Event::Done(self.asked.remove(&id)?, outcome),
            (_, event) => event,
        })
    }

    /// Returns a PodGroup as the core sees it.
    fn falsify_group(&mut self, group: Arc<PodGroup>) -> Arc<PodGroup> {
        if self.sabotage == Sabotage::LowerMinCount {
            return Arc::new(pod_groups::lowered(&group));
        }
        let has_started = group.condition.as_ref().is_some_and(|condition| condition.is_true);
        if self.sabotage == Sabotage::TakeBackConditions && has_started {
            self.started = Some(Arc::clone(&group));
        }
        group
    }

    /// Passes an action on as the world sees it.
    fn pass_on(&mut self, mut action: Action, now: Time, out: &mut Vec<Action>) {
        let written = |core: &mut dyn Machine| {
            core.handle(Event::Done(action.id, Outcome::Write(WriteOutcome::Written(None))), now);
        };
        if self.sabotage == Sabotage::MislayMembers
            && let Some(pod) = self.mislaying.mislay(&action.kind)
        {
            // The record changes under this write, so that the placement is not written.
            self.core.handle(Event::Done(action.id, Outcome::Write(WriteOutcome::Conflict)), now);
            self.core.handle(Event::PodGone(pod), now);
            return;
        }
        let mut is_answered = true;
        let places = match &action.kind {
            ActionKind::Write(Write::WriteStatus { status, .. }) => !status.placement.is_empty(),
            _ => false,
        };
        match (self.sabotage, &mut action.kind) {
            (Sabotage::KeepRecords, ActionKind::Write(Write::DeleteFluxJob { .. }))
            | (Sabotage::SilenceGroups, ActionKind::Write(Write::SetGroupCondition { .. })) => {
                written(&mut *self.core);
                return;
            }
            (Sabotage::StartBesideGates, ActionKind::Write(Write::Ungate { pod, .. }))
                if self.grouped.contains(&pod.uid) =>
            {
                written(&mut *self.core);
                return;
            }
            (Sabotage::HideDelays, ActionKind::Note(note))
                if note.reason == "ReservationDelayed" =>
            {
                return;
            }
            (Sabotage::ExcuseDelays, ActionKind::Note(note))
                if note.reason == "ReservationDelayed" =>
            {
                let (_, why) = note.note.split_once(':').expect("the cause comes first");
                note.note = format!("walltime:{why}");
                is_answered = false;
            }
            (Sabotage::BlameNodes, ActionKind::Note(note))
                if note.reason == "ReservationDelayed" =>
            {
                let (_, why) = note.note.split_once(':').expect("the cause comes first");
                note.note = format!("capacity:{why}");
                is_answered = false;
            }
            (Sabotage::BindBeforeTheAnswer, _) if places => written(&mut *self.core),
            (Sabotage::ForgetAnswers, _) if places => {}
            (Sabotage::BindToAnotherNode, ActionKind::Bind { node, .. }) => {
                let other = if **node == *"node-0" { "node-1" } else { "node-0" };
                *node = other.into();
                is_answered = false;
            }
            _ => is_answered = false,
        }
        self.falsify_status(&mut action.kind);
        self.walls.move_back(&mut action.kind);
        let is_start =
            matches!(&action.kind, ActionKind::Bind { pod, .. } if self.grouped.contains(&pod.uid));
        let is_binding = matches!(action.kind, ActionKind::Bind { .. });
        if is_binding && self.sabotage == Sabotage::WaitForRefusals && self.walls.has_failed {
            self.held_back.push((LATE_STEPS, action));
            return;
        }
        if is_start && self.sabotage == Sabotage::StartLate {
            self.held_back.push((LATE_STEPS, action));
            return;
        }
        let again = match action.kind {
            ActionKind::Bind { .. } => self.sabotage == Sabotage::BindTwice,
            ActionKind::Write(Write::WriteStatus { .. } | Write::CreateFluxJob { .. }) => {
                self.sabotage == Sabotage::WriteTwice
            }
            _ => false,
        };
        let asked = (!is_answered).then_some(action.id);
        for _ in 0..=usize::from(again) {
            self.send(action.kind.clone(), asked, out);
        }
    }

    /// Falsifies a status that the core writes.
    fn falsify_status(&self, kind: &mut ActionKind) {
        let ActionKind::Write(Write::WriteStatus { status, resource_version, .. }) = kind else {
            return;
        };
        let status = Arc::make_mut(status);
        match self.sabotage {
            Sabotage::LookAhead => {
                if let Some(at) = &mut status.queued_at {
                    at.0 = Timestamp::from_microsecond(at.0.as_microsecond() + HOUR_MICROS)
                        .expect("an instant");
                }
            }
            Sabotage::WriteBlindly => *resource_version = None,
            Sabotage::ClaimEpochs => status.epoch = status.epoch.map(|_| self.epoch),
            Sabotage::PromiseMore => {
                if let Some(estimate) = &mut status.estimated_start {
                    estimate.kind = EstimateKind::Reserved;
                }
            }
            Sabotage::LookBack => {
                if let Some(estimate) = &mut status.estimated_start {
                    estimate.time = MicroTime(Timestamp::UNIX_EPOCH);
                }
            }
            Sabotage::SayPending if status.state == Some(JobState::Unsatisfiable) => {
                status.state = Some(JobState::Pending);
            }
            _ => {}
        }
    }

    /// Sends the Bindings that were held back long enough.
    fn let_go(&mut self, out: &mut Vec<Action>) {
        for (steps, action) in std::mem::take(&mut self.held_back) {
            if steps > 0 {
                self.held_back.push((steps - 1, action));
            } else {
                self.send(action.kind, Some(action.id), out);
            }
        }
    }

    /// Writes a condition to a pod without need.
    fn tell_needlessly(&mut self, pod: ObjectRef, out: &mut Vec<Action>) {
        self.needless = Some(self.next_id);
        let kind = ActionKind::Write(Write::SetPodScheduled {
            pod,
            resource_version: None,
            reason: "Unschedulable",
            message: String::new(),
            newly: true,
        });
        self.send(kind, None, out);
    }

    fn send(&mut self, kind: ActionKind, asked: Option<ActionId>, out: &mut Vec<Action>) {
        self.asked.extend(asked.map(|asked| (self.next_id, asked)));
        out.push(Action { id: self.next_id, kind });
        self.next_id += 1;
    }
}

/// Returns the FluxJob with the state that follows from its conditions.
fn as_its_conditions_say(job: &FluxJob) -> Arc<FluxJob> {
    let mut job = job.clone();
    if let Some(status) = &mut job.status {
        status.state = status.state.map(|_| JobState::from_conditions(&status.conditions));
    }
    Arc::new(job)
}

impl Machine for Saboteur {
    fn handle(&mut self, event: Event, now: Time) {
        self.synced |= matches!(event, Event::Synced);
        self.walls.note(&event);
        if let Event::PodGone(gone) = &event {
            self.walls.forget(&gone.uid);
        }
        if let Event::Pod(pod) = &event
            && pod.group.is_some()
        {
            self.grouped.insert(pod.id.uid.clone());
        }
        match event {
            Event::Pod(pod) if self.sabotage == Sabotage::RaiseMembers => {
                self.walls
                    .raise(&pod)
                    .into_iter()
                    .for_each(|pod| self.core.handle(Event::Pod(pod), now));
            }
            event => {
                if let Some(event) = self.falsify(event) {
                    self.core.handle(event, now);
                }
            }
        }
    }

    fn step(&mut self, now: Time) -> Vec<Action> {
        let mut out = Vec::new();
        for action in self.core.step(now) {
            self.pass_on(action, now, &mut out);
        }
        self.let_go(&mut out);
        let nobody = ObjectRef { key: ObjectKey::new(NAMESPACE, "nobody"), uid: Uid::from("none") };
        match self.sabotage {
            Sabotage::NeverRest if self.next_id > 1 && self.needless.is_none() => {
                self.tell_needlessly(nobody, &mut out);
            }
            Sabotage::GreetOnRestart if self.epoch > 1 && self.synced && !self.greeted => {
                self.greeted = true;
                self.tell_needlessly(nobody, &mut out);
            }
            Sabotage::WriteToOthers if self.synced && self.needless.is_none() => {
                if let Some(victim) = self.victim.take() {
                    self.tell_needlessly(victim, &mut out);
                }
            }
            Sabotage::ReleaseEarly | Sabotage::ResumeOthers if self.synced => {
                if let Some((job, resource_version)) = self.hostage.take() {
                    self.send(
                        ActionKind::Write(Write::ReleaseJob { job, resource_version, at: now }),
                        None,
                        &mut out,
                    );
                }
            }
            Sabotage::TakeBackConditions if self.synced => {
                if let Some(group) = self.started.take() {
                    self.send(pod_groups::taken_back(&group).into(), None, &mut out);
                }
            }
            _ => {}
        }
        if self.sabotage == Sabotage::BindBeforeTheAnswer {
            for action in self.core.step(now) {
                self.pass_on(action, now, &mut out);
            }
        }
        out
    }

    fn next_wake(&self) -> Option<Time> {
        self.core.next_wake()
    }

    fn audit_differences(&self) -> u64 {
        self.core.audit_differences()
    }
}

/// True if this sabotage drops the pod's constraints on levels.
fn forgets_levels(sabotage: Sabotage, pod: &Pod) -> bool {
    match sabotage {
        Sabotage::IgnoreLevels => true,
        Sabotage::IgnoreSpreads => objects::spread_of(pod).is_some(),
        Sabotage::IgnoreSlices => objects::slice_of(pod).is_some(),
        _ => false,
    }
}

fn anywhere(pod: &Pod) -> Event {
    Event::Pod(Arc::new(Pod { levels: None, ..Pod::clone(pod) }))
}

/// Returns the pod without labels, as long as it has no node.
fn labelled_once_there(pod: &Pod) -> Event {
    let labels = if pod.node.is_none() { Labels::default() } else { Arc::clone(&pod.labels) };
    Event::Pod(Arc::new(Pod { labels, ..Pod::clone(pod) }))
}

/// Returns the pod without its anti-affinity, as long as it has no node.
fn repelling_once_there(pod: &Pod) -> Event {
    let mut pod = Pod::clone(pod);
    if pod.node.is_none() {
        let terms = &mut Arc::make_mut(&mut pod.shape).constraints.repels;
        let meant = terms.iter_mut().flat_map(|term| term.pods.labels.iter_mut().flatten());
        meant.for_each(|requirement| requirement.values = vec![Arc::from("nobody")]);
    }
    Event::Pod(Arc::new(pod))
}
