//! What the adversary does: whatever the role `edit` allows in its own namespace.
//!
//! Some acts ask for nothing: objects that can never start, or that are not for this scheduler. Others are lies about requests that an
//! honest tenant could make, too; the twin has these requests without the lies. Some do delay others, which are told; and some writes are
//! refused by the API server.

use std::sync::Arc;

use fluxqueue_api::{
    FluxJob, FluxJobSpec, FluxJobStatus, JobState, PlacementRange, Reservation, WorkloadKind, WorkloadRef, names,
};
use fluxqueue_workload::{
    Controller, GroupLabels, Lifetime, NodeName, ObjectKey, OwnerKind, Phase, Pod, ShapeInterner,
};
use k8s_openapi::api::core::v1::Pod as KubePod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::side::{CORE, Side, shape, walltime};
use crate::controllers::owner_of;
use crate::objects::{FOREIGN, FOREIGN_GATE, OURS};
use crate::refusals::Refusal;
use crate::rng::Rng;
use crate::server::flux_job_key;
use crate::stats::Stats;

/// One way to be a nuisance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Act {
    // --- acts that ask for nothing ---
    /// A gated pod says that an object of another namespace has made it.
    ForeignOwner,
    /// A ReplicaSet says that a Deployment of another namespace has made it, and makes gated pods.
    ForeignMaker,
    /// Gated pods stay when they are deleted.
    Finalizer,
    /// Gated pods are given other labels: groups, queues, apps.
    Relabel,
    /// Gated pods are edited all the time.
    Churn,
    /// Annotations and labels that nobody can read.
    Texts,
    /// Wishes for what cannot start, however odd.
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
    /// FluxJobs that say that they are for objects of other namespaces.
    ForgedRecords,
    // --- lies about requests ---
    /// A pod that asks says that an object of another namespace has made it.
    LieAboutOwner,
    /// Labels of others, and half of a group's labels.
    LieByLabels,
    /// Pods that ask have finalizers, so they stay when they have ended.
    KeepEnded,
    /// FluxJobs of jobs that run are deleted. One that waits would go to the end of the queue for that.
    DeleteTrueRecords,
    /// A pod of higher priority joins a gang that waits, and goes again.
    Spark,
    // --- what does delay others ---
    /// Pods run for longer than they say.
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
}

/// All acts.
pub(super) const ALL: [Act; 23] = [
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
    Act::KeepEnded,
    Act::DeleteTrueRecords,
    Act::Spark,
    Act::Overrun,
    Act::TakeNodes,
    Act::Waves,
    Act::RefuseConditions,
    Act::RefuseRecords,
];

/// The adversary's own objects, and its stream of random numbers.
pub(super) struct Adversary {
    namespace: Arc<str>,
    rng: Rng,
    acts: Vec<Act>,
    made: u64,
    shapes: ShapeInterner,
    /// Gated pods and others that never start, the oldest first.
    idle: Vec<ObjectKey>,
    /// Pods that joined a gang for a moment, and when they go.
    sparks: Vec<(i64, ObjectKey)>,
}

/// Idle pods that there are at most.
const IDLE_MAX: usize = 10;
/// In this many of a hundred seconds the adversary does something.
const ACT_PERCENT: usize = 40;
/// In this many of a hundred of these seconds everything is allowed again before that.
const ALLOWED_PERCENT: usize = 15;
/// It takes a node in this many of a hundred cases in which it could.
const TAKEN_PERCENT: usize = 20;
/// For how many seconds a spark is a member of its gang.
const SPARK_SECONDS: i64 = 3;

impl Adversary {
    /// An adversary that knows these acts.
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

    /// Does one thing, in some seconds.
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
            // These are done when a request comes.
            Act::LieAboutOwner | Act::LieByLabels | Act::KeepEnded | Act::Overrun | Act::Waves => false,
            Act::TakeNodes => self.take_node(side),
            Act::RefuseConditions => refuse(side, Refusal { others: true, ..Refusal::default() }),
            Act::RefuseRecords => {
                let is_invalid = self.rng.chance(30);
                refuse(side, Refusal { records: true, is_invalid, ..Refusal::default() })
            }
        };
        if did {
            stats.count(act.name());
        }
    }

    /// Lies about a pod that asks for something.
    pub(super) fn decorate(&mut self, side: &mut Side, pod: &mut Pod) {
        let knows = |act: Act| self.acts.contains(&act);
        let (owner, labels, ended) = (knows(Act::LieAboutOwner), knows(Act::LieByLabels), knows(Act::KeepEnded));
        if owner && self.rng.chance(60) {
            pod.owner = self.foreign_object(side).map(|it| owner_of(&it));
            side.spared.insert(pod.id.uid.clone());
        }
        if labels && self.rng.chance(60) {
            let mut all: Vec<(Arc<str>, Arc<str>)> = pod.labels.to_vec();
            all.push((Arc::from("zz-app"), Arc::from("a")));
            if pod.group.is_none() {
                all.push((Arc::from(names::POD_GROUP), Arc::from(format!("gang-{}", self.rng.below(9)))));
            }
            all.sort();
            pod.labels = all.into();
        }
        if ended && self.rng.chance(40) {
            side.finalizers.insert(pod.id.uid.clone());
        }
    }

    // --- acts ---

    fn submit_foreign(&mut self, side: &mut Side) -> bool {
        let Some(maker) = self.foreign_object(side) else { return false };
        let mut pod = self.gated(side, json!({}));
        pod.owner = Some(owner_of(&maker));
        pod.priority = [0, 50][self.rng.below(2)];
        if self.rng.chance(40) {
            side.finalizers.insert(pod.id.uid.clone());
        }
        self.put(side, pod);
        true
    }

    fn make_foreign(&mut self, side: &mut Side) -> bool {
        let Some(maker) = self.foreign_object(side) else { return false };
        self.made += 1;
        let id = side.world.server.new_ref_in(&self.namespace, OURS, &format!("act-set-{}", self.made));
        let set =
            Controller { id, kind: OwnerKind::ReplicaSet, owner: Some(owner_of(&maker)), ..Controller::clone(&maker) };
        let owner = owner_of(&set);
        side.world.server.put_controller(Controller { suspension: None, wants: 2, parallelism: 2, ..set });
        let pod = self.gated(side, json!({}));
        self.put(side, Pod { owner: Some(owner), ..pod });
        true
    }

    fn delete_in_vain(&mut self, side: &mut Side) -> bool {
        let pod = self.gated(side, json!({}));
        let key = pod.id.key.clone();
        side.finalizers.insert(pod.id.uid.clone());
        self.put(side, pod);
        side.delete_pod(&key);
        true
    }

    fn relabel(&mut self, side: &mut Side) -> bool {
        let Some(pod) = self.pick_idle(side) else { return false };
        let mut pod = Pod::clone(&pod);
        match self.rng.below(3) {
            0 => {
                let size = Ok(u32::try_from(self.rng.between(1, 4)).expect("a few"));
                pod.group = Some(GroupLabels { name: Arc::from(format!("gang-{}", self.rng.below(9))), size });
            }
            1 => pod.group = None,
            _ => {
                let queue = ["nowhere", "default", "services"][self.rng.below(3)];
                pod.labels = Arc::from([(Arc::from(names::QUEUE_NAME), Arc::from(queue))]);
            }
        }
        side.world.server.put_pod(pod);
        true
    }

    fn churn(&mut self, side: &mut Side) -> bool {
        let pods: Vec<Arc<Pod>> = self.idle.iter().filter_map(|key| side.world.server.pods.get(key).cloned()).collect();
        for pod in &pods {
            let labels = Arc::from([(Arc::from("turn"), Arc::from(self.rng.below(1_000).to_string()))]);
            side.world.server.put_pod(Pod { labels, ..Pod::clone(pod) });
        }
        !pods.is_empty()
    }

    fn submit_texts(&mut self, side: &mut Side) -> bool {
        let annotations = self.odd_annotations();
        let labels = json!({ names::POD_GROUP: "x".repeat(63), names::GROUP_SIZE: self.odd_label() });
        let more = json!({ "metadata": { "annotations": annotations, "labels": labels } });
        let pod = self.gated(side, more);
        self.put(side, pod);
        true
    }

    fn wish(&mut self, side: &mut Side) -> bool {
        let Some(mut job) = self.pick_record(side, true) else { return false };
        let wishes = &mut job.spec.overrides;
        match self.rng.below(4) {
            0 => wishes.hold = !wishes.hold,
            1 => wishes.priority_class_name = Some(["high", "unknown"][self.rng.below(2)].to_owned()),
            2 => wishes.walltime_seconds = Some([1, i64::MAX, 1_000_000_000_000][self.rng.below(3)]),
            _ => wishes.queue_name = Some(["default", "nowhere"][self.rng.below(2)].to_owned()),
        }
        job.metadata.generation = job.metadata.generation.map(|generation| generation + 1);
        side.world.server.put_flux_job(job);
        true
    }

    fn submit_refused(&mut self, side: &mut Side) -> bool {
        let annotations = self.odd_annotations();
        let mut pod = self.gated(side, json!({ "metadata": { "annotations": annotations } }));
        if pod.unsupported.is_empty() {
            return false;
        }
        pod.gates.clear();
        pod.priority = [0, 50][self.rng.below(2)];
        self.put(side, pod);
        true
    }

    fn submit_never(&mut self, side: &mut Side) -> bool {
        let group = self.rng.chance(40).then(|| format!("never-{}", self.made));
        for _ in 0..if group.is_some() { 2 } else { 1 } {
            let cpu = ["1000000", "9223372036854775807m", "1"][self.rng.below(3)];
            let spec = json!({
                "nodeSelector": { "zone": "nowhere" },
                "containers": [{ "name": "main", "resources": { "requests": { "cpu": cpu } } }],
            });
            let mut pod = self.gated(side, json!({ "spec": spec }));
            pod.gates.clear();
            pod.priority = [0, 50][self.rng.below(2)];
            pod.lifetime = Lifetime::Seconds(20);
            pod.group = group.as_deref().map(|name| GroupLabels { name: Arc::from(name), size: Ok(2) });
            self.put(side, pod);
        }
        true
    }

    fn submit_half(&mut self, side: &mut Side) -> bool {
        let size = u32::try_from(self.rng.between(2, 200)).expect("a few");
        let name: Arc<str> = Arc::from(format!("half-{}", self.made));
        let mut pod = self.gated(side, json!({}));
        pod.gates.clear();
        pod.priority = [0, 50][self.rng.below(2)];
        pod.group = Some(GroupLabels { name, size: Ok(size) });
        self.put(side, pod);
        true
    }

    fn delete_record(&mut self, side: &mut Side, idle: bool) -> bool {
        let Some(job) = self.pick_record(side, idle) else { return false };
        side.world.server.remove_flux_job(&flux_job_key(&job));
        true
    }

    fn submit_other(&mut self, side: &mut Side) -> bool {
        let mut pod = self.gated(side, json!({ "spec": { "schedulerName": FOREIGN } }));
        pod.gates = vec![Arc::from(names::GATE)];
        self.put(side, pod);
        true
    }

    fn forge(&mut self, side: &mut Side) -> bool {
        let Some(maker) = self.foreign_object(side) else { return false };
        self.made += 1;
        let kind = match maker.kind {
            OwnerKind::Job => WorkloadKind::Job,
            OwnerKind::StatefulSet => WorkloadKind::StatefulSet,
            _ => WorkloadKind::Deployment,
        };
        let workload_ref =
            WorkloadRef { api_version: None, kind, name: maker.id.key.name.to_string(), uid: maker.id.uid.to_string() };
        let spec = FluxJobSpec { workload_ref, scheduler_name: Some(OURS.to_owned()), ..FluxJobSpec::default() };
        // Half of them have the name that the FluxJob of the other has in its own namespace.
        let theirs = names::fluxjob_name(&maker.id.key.name, kind, &maker.id.uid);
        let name = if self.rng.chance(50) { theirs } else { format!("forged-{}", self.made) };
        let key = ObjectKey::new(Arc::clone(&self.namespace), name.as_str());
        if side.world.server.flux_jobs.contains_key(&key) {
            return false;
        }
        let mut job = FluxJob::new(&name, spec);
        job.metadata.namespace = Some(self.namespace.to_string());
        job.metadata.uid = Some(side.world.server.new_uid_of(&format!("{}.forged", self.namespace)).to_string());
        job.metadata.generation = Some(1);
        job.status = Some(forged_status(side));
        side.world.server.put_flux_job(job);
        true
    }

    fn spark(&mut self, side: &mut Side) -> bool {
        let waits = |pod: &&Arc<Pod>| {
            pod.id.key.namespace == self.namespace
                && pod.node.is_none()
                && pod.gates.is_empty()
                && pod.id.key.name.starts_with("gang-")
        };
        let waiting: Vec<Arc<Pod>> = side.world.server.pods.values().filter(waits).cloned().collect();
        let Some(member) = self.rng.pick(&waiting).cloned() else { return false };
        self.made += 1;
        let id = side.world.server.new_ref_in(&self.namespace, OURS, &format!("spark-{}", self.made));
        self.sparks.push((side.world.now + SPARK_SECONDS, id.key.clone()));
        let (created, gates) = (side.world.time(), vec![Arc::from(FOREIGN_GATE)]);
        side.put_pod(Pod { id, created, gates, priority: 50, ..Pod::clone(&member) }, None);
        true
    }

    /// Binds a pod of another scheduler itself, to all that is free of a node.
    fn take_node(&mut self, side: &mut Side) -> bool {
        let nodes: Vec<NodeName> = side.world.server.nodes.keys().cloned().collect();
        let node = self.rng.pick(&nodes).expect("there are some").clone();
        let there = side.world.server.pods.values().filter(|pod| pod.uses_node() && pod.node.as_ref() == Some(&node));
        let taken: u64 = there.map(|pod| pod.shape.requests.get("cpu")).sum();
        let free = side.world.server.nodes[&node].allocatable.get("cpu").saturating_sub(taken);
        if free < CORE || !self.rng.chance(TAKEN_PERCENT) {
            return false;
        }
        self.made += 1;
        let id = side.world.server.new_ref_in(&self.namespace, FOREIGN, &format!("intruder-{}", self.made));
        let seconds = i64::try_from(self.rng.between(10, 70)).expect("a minute");
        let (started, phase) = (Some(side.world.time()), Phase::Running);
        let pod = Pod::waiting(id, Arc::from(FOREIGN), Arc::new(shape(free)));
        let (node, created, lifetime) = (Some(node), side.world.time(), walltime(seconds));
        side.put_pod(Pod { node, started, phase, created, lifetime, ..pod }, Some(seconds));
        true
    }

    // --- what they are made of ---

    /// A pod that waits for a gate that is never taken off.
    fn gated(&mut self, side: &mut Side, more: Value) -> Pod {
        self.made += 1;
        let id = side.world.server.new_ref_in(&self.namespace, OURS, &format!("act-{}", self.made));
        let mut object = json!({
            "metadata": { "name": &*id.key.name, "namespace": &*id.key.namespace, "uid": &*id.uid },
            "spec": {
                "schedulerName": OURS,
                "restartPolicy": "Never",
                "schedulingGates": [{ "name": FOREIGN_GATE }],
                "containers": [{ "name": "main", "resources": { "requests": { "cpu": "1" } } }],
            },
        });
        merge(&mut object, more);
        let object: KubePod = serde_json::from_value(object).expect("it is a pod");
        let pod = Pod::from_kubernetes(&object, &mut self.shapes).expect("it has a name and a uid");
        Pod { created: side.world.time(), ..pod }
    }

    fn put(&mut self, side: &mut Side, pod: Pod) {
        self.idle.push(pod.id.key.clone());
        side.put_pod(pod, None);
    }

    /// The oldest go, and so do sparks.
    fn tidy(&mut self, side: &mut Side) {
        let now = side.world.now;
        let (over, stay) = std::mem::take(&mut self.sparks).into_iter().partition(|(at, _)| *at <= now);
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

    fn pick_idle(&mut self, side: &Side) -> Option<Arc<Pod>> {
        let pods = self.idle.iter().filter_map(|key| side.world.server.pods.get(key));
        let gated: Vec<&Arc<Pod>> = pods.filter(|pod| !pod.gates.is_empty()).collect();
        self.rng.pick(&gated).map(|pod| Arc::clone(pod))
    }

    /// One of its own FluxJobs: of what never starts, or of the others.
    fn pick_record(&mut self, side: &Side, idle: bool) -> Option<FluxJob> {
        let is_idle = |job: &FluxJob| {
            let name = &job.spec.workload_ref.name;
            ["act-", "never-", "half-"].iter().any(|prefix| name.starts_with(prefix))
        };
        let own = side.world.server.flux_jobs.values().filter(|job| flux_job_key(job).namespace == self.namespace);
        let runs = |job: &FluxJob| job.status.as_ref().is_some_and(|status| status.state == Some(JobState::Running));
        let own: Vec<&Arc<FluxJob>> = own.filter(|job| if idle { is_idle(job) } else { runs(job) }).collect();
        self.rng.pick(&own).map(|job| FluxJob::clone(job))
    }

    /// An object of another namespace that makes pods.
    fn foreign_object(&mut self, side: &Side) -> Option<Arc<Controller>> {
        let others = side.world.server.controllers.values().filter(|it| it.id.key.namespace != self.namespace);
        let others: Vec<&Arc<Controller>> = others.collect();
        self.rng.pick(&others).map(|it| Arc::clone(it))
    }

    fn odd_annotations(&mut self) -> Value {
        let keys = [
            names::WALLTIME,
            names::EXCLUSIVE,
            names::REQUIRED_LEVEL,
            names::LEVEL_SCOPE,
            names::SLICE_LEVEL,
            names::SLICE_SIZE,
            names::SPREAD_LEVEL,
            names::MAX_PER_PART,
            names::MAX_SKEW,
            names::SUSPENDED,
            names::RELEASED_AT,
        ];
        let mut annotations = serde_json::Map::new();
        for _ in 0..self.rng.between(1, 4) {
            let key = (*self.rng.pick(&keys).expect("there are some")).to_owned();
            annotations.insert(key, Value::String(self.odd_text()));
        }
        Value::Object(annotations)
    }

    fn odd_text(&mut self) -> String {
        let texts = [
            "",
            "0",
            "-1",
            "1e999",
            "99999999999999999999",
            "\u{7f}\u{1b}[2J\r\n",
            "true",
            "zone",
            "nowhere",
            "24:00:00",
        ];
        match self.rng.below(4) {
            0 => "x".repeat(32_768),
            1 => "\u{7f}".repeat(5_440),
            _ => (*self.rng.pick(&texts).expect("there are some")).to_owned(),
        }
    }

    fn odd_label(&mut self) -> &'static str {
        ["", "0", "-1", "many", "100001", "4294967296", "00002"][self.rng.below(7)]
    }
}

impl Act {
    /// Its name, by which it is switched on.
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
            Act::KeepEnded => "act: KeepEnded",
            Act::DeleteTrueRecords => "act: DeleteTrueRecords",
            Act::Spark => "act: Spark",
            Act::Overrun => "act: Overrun",
            Act::TakeNodes => "act: TakeNodes",
            Act::Waves => "act: Waves",
            Act::RefuseConditions => "act: RefuseConditions",
            Act::RefuseRecords => "act: RefuseRecords",
        }
    }
}

/// Writes into the namespace of the adversary are refused from now on.
fn refuse(side: &mut Side, refusal: Refusal) -> bool {
    side.world.server.refusals.insert(Arc::from(super::RIVAL), refusal);
    true
}

/// A status that claims every node, from the beginning of time.
fn forged_status(side: &Side) -> FluxJobStatus {
    let nodes: Vec<&str> = side.world.server.nodes.keys().map(|name| &**name).collect();
    let at = MicroTime(Timestamp::UNIX_EPOCH);
    let range = PlacementRange {
        pod_set: "main".to_owned(),
        pod_indexes: "0-3".to_owned(),
        nodes: nodes.join(","),
        node_indexes: String::new(),
        pods_per_node: 1,
    };
    FluxJobStatus {
        queued_at: Some(at.clone()),
        priority: Some(1_000_000),
        reservation: Some(Reservation { start: Some(at), nodes: nodes.join(","), node_indexes: String::new() }),
        placement: vec![range],
        epoch: Some(1),
        total: 4,
        ..FluxJobStatus::default()
    }
}

/// Adds fields to an object; what is there already is replaced, but for objects, which are merged.
fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}
