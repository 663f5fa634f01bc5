//! The adversary's acts: anything that the role `edit` allows in its own namespace.
//!
//! Some acts request nothing: objects that can never start, or that are not for this scheduler.
//! Others are lies about requests that an honest tenant could make, too; the twin has these
//! requests without the lies. Some acts do delay others, which Events explain. Some writes are
//! refused by the API server.

use std::sync::Arc;

use fluxqueue_api::{FluxJob, JobState, WorkloadKind};
use fluxqueue_workload::{Controller, NodeName, ObjectKey, Phase, Pod, ShapeInterner};

use super::side::{CORE, Side, shape, walltime};
use crate::objects::FOREIGN;
use crate::refusals::Refusal;
use crate::rng::Rng;
use crate::server::flux_job_key;
use crate::stats::Stats;

/// One way to be a nuisance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Act {
    // --- acts that ask for nothing ---
    /// A gated pod names an object of another namespace as its owner.
    ForeignOwner,
    /// A ReplicaSet names a Deployment of another namespace as its owner, and makes gated pods.
    ForeignMaker,
    /// Gated pods stay when they are deleted.
    Finalizer,
    /// Gated pods get other labels: groups, queues, apps.
    Relabel,
    /// Gated pods are edited again and again.
    Churn,
    /// Annotations and labels that cannot be parsed.
    Texts,
    /// Overrides of jobs that cannot start, however odd.
    Wishes,
    /// Objects that are refused.
    Refused,
    /// Pods and gangs that fit nowhere.
    NeverFits,
    /// Gangs that are never complete.
    HalfGangs,
    /// FluxJobs are deleted by hand.
    DeleteRecords,
    /// Pods of another scheduler, with our gate.
    OtherSchedulers,
    /// FluxJobs claim to be for objects of other namespaces.
    ForgedRecords,
    // --- lies about requests ---
    /// A pod with a request names an object of another namespace as its owner.
    LieAboutOwner,
    /// Labels of others, and half of a group's labels.
    LieByLabels,
    /// Annotations and labels that cannot be parsed, on pods with requests.
    LieByTexts,
    /// Members of a gang disagree about its priority, which is the lowest, or about its size, which
    /// is that of the first.
    Disagree,
    /// Pods with requests have finalizers, so they stay when they have ended.
    KeepEnded,
    /// FluxJobs of running lone pods and gangs are deleted. A waiting job would go to the end of
    /// the queue for that, and Jobs of several waves would begin the next one later.
    DeleteTrueRecords,
    /// A pod of higher priority joins a gang that waits, and goes again.
    Spark,
    /// Running pods get other labels: groups, queues.
    RelabelRunning,
    /// Overrides that make no difference to a request.
    WishInVain,
    // --- what does delay others ---
    /// Pods run for longer than their walltime.
    Overrun,
    /// Pods of another scheduler are bound to nodes, past Fluxqueue.
    TakeNodes,
    /// Jobs have more completions than pods at a time, also those of the others.
    Waves,
    // --- refusals by the API server ---
    /// Conditions and gates of the adversary's pods cannot be written.
    RefuseConditions,
    /// Its FluxJobs cannot be written.
    RefuseRecords,
    /// Its pods cannot be bound.
    RefuseBindings,
}

/// All acts.
pub(super) const ALL: [Act; 28] = [
    Act::ForeignOwner,
    Act::ForeignMaker,
    Act::Finalizer,
    Act::Relabel,
    Act::Churn,
    Act::Texts,
    Act::Wishes,
    Act::Refused,
    Act::NeverFits,
    Act::HalfGangs,
    Act::DeleteRecords,
    Act::OtherSchedulers,
    Act::ForgedRecords,
    Act::LieAboutOwner,
    Act::LieByLabels,
    Act::LieByTexts,
    Act::Disagree,
    Act::KeepEnded,
    Act::DeleteTrueRecords,
    Act::Spark,
    Act::RelabelRunning,
    Act::WishInVain,
    Act::Overrun,
    Act::TakeNodes,
    Act::Waves,
    Act::RefuseConditions,
    Act::RefuseRecords,
    Act::RefuseBindings,
];

/// The adversary's own objects, and its stream of random numbers.
pub(super) struct Adversary {
    pub(super) namespace: Arc<str>,
    pub(super) rng: Rng,
    pub(super) acts: Vec<Act>,
    pub(super) made: u64,
    pub(super) shapes: ShapeInterner,
    /// Gated pods and others that never start, the oldest first.
    pub(super) idle: Vec<ObjectKey>,
    /// Pods that joined a gang for a moment, with the time at which they leave.
    pub(super) sparks: Vec<(i64, ObjectKey)>,
}

/// Most idle pods at a time.
const IDLE_MAX: usize = 10;
/// Percentage of seconds in which the adversary acts.
const ACT_PERCENT: usize = 40;
/// Percentage of these seconds in which all refusals end first.
const ALLOWED_PERCENT: usize = 15;
/// Percentage of cases in which it takes a node that it could take.
const TAKEN_PERCENT: usize = 20;

impl Adversary {
    /// Makes an adversary with these acts.
    pub(super) fn new(namespace: &str, rng: Rng, acts: Vec<Act>) -> Self {
        Adversary {
            namespace: Arc::from(namespace),
            rng,
            acts,
            made: 0,
            shapes: ShapeInterner::default(),
            idle: Vec::new(),
            sparks: Vec::new(),
        }
    }

    /// Acts once, in some seconds.
    pub(super) fn act(&mut self, side: &mut Side, stats: &mut Stats) {
        self.tidy(side);
        if self.acts.is_empty() || !self.rng.chance(ACT_PERCENT) {
            return;
        }
        if self.rng.chance(ALLOWED_PERCENT) {
            side.world.server.refusals.clear();
        }
        let act = *self.rng.pick(&self.acts).expect("it knows some");
        let did = match act {
            Act::ForeignOwner => self.submit_foreign(side),
            Act::ForeignMaker => self.make_foreign(side),
            Act::Finalizer => self.delete_in_vain(side),
            Act::Relabel => self.relabel(side),
            Act::Churn => self.churn(side),
            Act::Texts => self.submit_texts(side),
            Act::Wishes => self.wish(side),
            Act::Refused => self.submit_refused(side),
            Act::NeverFits => self.submit_never(side),
            Act::HalfGangs => self.submit_half(side),
            Act::DeleteRecords => self.delete_record(side, true),
            Act::OtherSchedulers => self.submit_other(side),
            Act::ForgedRecords => self.forge(side),
            Act::DeleteTrueRecords => self.delete_record(side, false),
            Act::Spark => self.spark(side),
            Act::RelabelRunning => self.relabel_running(side),
            Act::WishInVain => self.wish_in_vain(side),
            // These acts accompany a request.
            Act::LieAboutOwner
            | Act::LieByLabels
            | Act::LieByTexts
            | Act::Disagree
            | Act::KeepEnded
            | Act::Overrun
            | Act::Waves => false,
            Act::TakeNodes => self.take_node(side),
            Act::RefuseConditions => refuse(side, Refusal { others: true, ..Refusal::default() }),
            Act::RefuseRecords => {
                let is_invalid = self.rng.chance(30);
                refuse(side, Refusal { records: true, is_invalid, ..Refusal::default() })
            }
            Act::RefuseBindings => refuse(side, Refusal { bindings: true, ..Refusal::default() }),
        };
        if did {
            stats.count(act.name());
        }
    }

    // --- acts ---

    fn delete_record(&mut self, side: &mut Side, idle: bool) -> bool {
        let Some(job) = self.pick_record(side, idle) else { return false };
        side.world.server.remove_flux_job(&flux_job_key(&job));
        true
    }

    /// Binds a pod of another scheduler itself, which takes everything that is free on a node.
    fn take_node(&mut self, side: &mut Side) -> bool {
        let nodes: Vec<NodeName> = side.world.server.nodes.keys().cloned().collect();
        let node = self.rng.pick(&nodes).expect("there are some").clone();
        let there = side
            .world
            .server
            .pods
            .values()
            .filter(|pod| pod.uses_node() && pod.node.as_ref() == Some(&node));
        let taken: u64 = there.map(|pod| pod.shape.requests.get("cpu")).sum();
        let free = side.world.server.nodes[&node].allocatable.get("cpu").saturating_sub(taken);
        if free < CORE || !self.rng.chance(TAKEN_PERCENT) {
            return false;
        }
        self.made += 1;
        let id = side.world.server.new_ref_in(
            &self.namespace,
            FOREIGN,
            &format!("intruder-{}", self.made),
        );
        let seconds = i64::try_from(self.rng.between(10, 70)).expect("a minute");
        let (started, phase) = (Some(side.world.time()), Phase::Running);
        let pod = Pod::waiting(id, Arc::from(FOREIGN), Arc::new(shape(free)));
        let (node, created, lifetime) = (Some(node), side.world.time(), walltime(seconds));
        side.put_pod(Pod { node, started, phase, created, lifetime, ..pod }, Some(seconds));
        true
    }

    /// Deletes the oldest idle pods, and sparks after their time.
    fn tidy(&mut self, side: &mut Side) {
        let now = side.world.now;
        let (over, stay) =
            std::mem::take(&mut self.sparks).into_iter().partition(|(at, _)| *at <= now);
        self.sparks = stay;
        let over: Vec<(i64, ObjectKey)> = over;
        for (_, key) in &over {
            side.delete_pod(key);
        }
        while self.idle.len() > IDLE_MAX {
            let key = self.idle.remove(0);
            if let Some(pod) = side.world.server.pods.get(&key) {
                side.finalizers.remove(&pod.id.uid.clone());
            }
            side.delete_pod(&key);
        }
    }

    /// Picks one of its own FluxJobs: of objects that never start, or of the others.
    pub(super) fn pick_record(&mut self, side: &Side, idle: bool) -> Option<FluxJob> {
        let own = side
            .world
            .server
            .flux_jobs
            .values()
            .filter(|job| flux_job_key(job).namespace == self.namespace);
        let is_whole = |job: &FluxJob| {
            matches!(job.spec.workload_ref.kind, WorkloadKind::Pod | WorkloadKind::Group)
        };
        let is_running = |job: &FluxJob| {
            job.status.as_ref().is_some_and(|status| status.state == Some(JobState::Running))
        };
        let runs = |job: &FluxJob| is_running(job) && is_whole(job);
        let own: Vec<&Arc<FluxJob>> =
            own.filter(|job| if idle { is_idle(job) } else { runs(job) }).collect();
        self.rng.pick(&own).map(|job| FluxJob::clone(job))
    }

    /// Returns an object of another namespace that makes pods.
    pub(super) fn foreign_object(&mut self, side: &Side) -> Option<Arc<Controller>> {
        let others = side
            .world
            .server
            .controllers
            .values()
            .filter(|it| it.id.key.namespace != self.namespace);
        let others: Vec<&Arc<Controller>> = others.collect();
        self.rng.pick(&others).map(|it| Arc::clone(it))
    }
}

impl Act {
    /// Returns the name by which the act is selected.
    pub(super) fn name(self) -> &'static str {
        match self {
            Act::ForeignOwner => "act: ForeignOwner",
            Act::ForeignMaker => "act: ForeignMaker",
            Act::Finalizer => "act: Finalizer",
            Act::Relabel => "act: Relabel",
            Act::Churn => "act: Churn",
            Act::Texts => "act: Texts",
            Act::Wishes => "act: Wishes",
            Act::Refused => "act: Refused",
            Act::NeverFits => "act: NeverFits",
            Act::HalfGangs => "act: HalfGangs",
            Act::DeleteRecords => "act: DeleteRecords",
            Act::OtherSchedulers => "act: OtherSchedulers",
            Act::ForgedRecords => "act: ForgedRecords",
            Act::LieAboutOwner => "act: LieAboutOwner",
            Act::LieByLabels => "act: LieByLabels",
            Act::LieByTexts => "act: LieByTexts",
            Act::Disagree => "act: Disagree",
            Act::KeepEnded => "act: KeepEnded",
            Act::DeleteTrueRecords => "act: DeleteTrueRecords",
            Act::Spark => "act: Spark",
            Act::RelabelRunning => "act: RelabelRunning",
            Act::WishInVain => "act: WishInVain",
            Act::Overrun => "act: Overrun",
            Act::TakeNodes => "act: TakeNodes",
            Act::Waves => "act: Waves",
            Act::RefuseConditions => "act: RefuseConditions",
            Act::RefuseRecords => "act: RefuseRecords",
            Act::RefuseBindings => "act: RefuseBindings",
        }
    }
}

/// Lets writes into the namespace of the adversary be refused from now on.
fn refuse(side: &mut Side, refusal: Refusal) -> bool {
    side.world.server.refusals.insert(Arc::from(super::RIVAL), refusal);
    true
}

/// True if this is the FluxJob of an object that never starts.
pub(super) fn is_idle(job: &FluxJob) -> bool {
    let name = &job.spec.workload_ref.name;
    ["act-", "never-", "half-"].iter().any(|prefix| name.starts_with(prefix))
}
