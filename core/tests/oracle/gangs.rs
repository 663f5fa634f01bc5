//! Gangs that the core has placed, checked with kube-scheduler's plugins: for each member, with all
//! other members on their nodes, the member's own node must pass the filters.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxion_sys::FunctionTable;
use fluxqueue_api::FluxJob;
use fluxqueue_core::{
    Action, ActionKind, BindOutcome, Core, CoreSettings, Event, Outcome, Write, WriteOutcome,
};
use fluxqueue_machine::cluster::Node;
use fluxqueue_planner::queues::Namespace;
use fluxqueue_workload::{Pod, ShapeInterner, Time};
use serde_json::{Value, json};

use super::cases::{self, Case, Question};
use super::rng::Rng;
use super::storage;

/// Most members that a gang has.
const MEMBERS_MAX: usize = 6;

/// A gang that the core has placed, with one case for each member, in which the other members are
/// on their nodes.
pub(crate) struct Placed {
    /// The cases, one for each member.
    pub cases: Vec<Case>,
    /// The node of each member.
    pub nodes: Vec<String>,
}

/// Lets the core place the first waiting pod of a case as a lone pod. Returns its node, if it gets
/// one.
pub(crate) fn place_alone(settings: CoreSettings, case: &Case) -> Option<String> {
    begin_alone(settings, case).node
}

/// Outcome of a lone pod in the core.
pub(crate) struct Begun {
    /// Node of the pod, if it gets one.
    pub node: Option<String>,
    /// Message of the pod's condition, if the core writes one to say why the pod waits.
    pub condition: Option<String>,
}

/// Gives the core the first waiting pod of a case as a lone pod.
pub(crate) fn begin_alone(settings: CoreSettings, case: &Case) -> Begun {
    let mut world = World::of(settings, case);
    let mut pod = case.questions[0].pod.clone();
    pod["spec"]["schedulerName"] = json!(cases::SCHEDULER);
    world.submit(pod.clone());
    world.settle();
    let name = name_of(&pod);
    Begun { node: node_of(&world.pods[name]), condition: world.conditions.remove(name) }
}

/// A core with a cluster around it that accepts each write.
struct World {
    core: Core,
    shapes: ShapeInterner,
    pods: BTreeMap<String, Value>,
    records: BTreeMap<String, FluxJob>,
    /// Message of the condition of each pod that waits.
    conditions: BTreeMap<String, String>,
    now: Time,
}

/// Makes a cluster and a gang from a seed, and lets the core place it. `None` if the gang waits.
pub(crate) fn place(settings: CoreSettings, seed: u64) -> Option<Placed> {
    let case = Case::of(seed);
    let mut rng = Rng::new(!seed);
    let mut template = rng.pick(&case.questions).pod.clone();
    // Nothing in this test binds claims, so a member with a claim would wait for ever. Disks
    // remain, and count against the limits of nodes.
    if let Some(volumes) = template["spec"]["volumes"].as_array_mut() {
        volumes.retain(|volume| {
            volume.get("persistentVolumeClaim").is_none() && volume.get("ephemeral").is_none()
        });
    }
    let size = rng.between(2, MEMBERS_MAX);
    let members: Vec<Value> = (0..size).map(|at| member(&template, at, size)).collect();
    let mut world = World::of(settings, &case);
    for pod in &members {
        world.submit(pod.clone());
    }
    world.settle();
    let nodes = members.iter().map(|member| node_of(&world.pods[name_of(member)]));
    let nodes: Vec<String> = nodes.collect::<Option<_>>()?;
    let asked = |at: usize| {
        let others = members.iter().enumerate().filter(|(other, _)| *other != at);
        let others = others.map(|(_, member)| world.pods[name_of(member)].clone());
        Case {
            seed,
            namespaces: case.namespaces.clone(),
            nodes: case.nodes.clone(),
            storage: case.storage.clone(),
            pods: case.pods.iter().cloned().chain(others).collect(),
            nominated: case.nominated.clone(),
            questions: vec![Question { pod: members[at].clone(), scores: false }],
        }
    };
    Some(Placed { cases: (0..size).map(asked).collect(), nodes })
}

fn member(template: &Value, at: usize, size: usize) -> Value {
    let mut pod = template.clone();
    let name = format!("member-{at}");
    (pod["metadata"]["name"], pod["metadata"]["uid"]) = (json!(name), json!(name));
    pod["metadata"]["labels"]["fluxqueue.pod-group"] = json!("gang");
    pod["metadata"]["labels"]["fluxqueue.group-size"] = json!(size.to_string());
    pod["spec"]["schedulerName"] = json!(cases::SCHEDULER);
    pod
}

fn name_of(pod: &Value) -> &str {
    pod["metadata"]["name"].as_str().unwrap()
}

fn node_of(pod: &Value) -> Option<String> {
    Some(pod["spec"].get("nodeName")?.as_str()?.to_owned())
}

impl World {
    fn of(settings: CoreSettings, case: &Case) -> Self {
        let mut world = World {
            core: Core::new(settings, FunctionTable::builtin(), 1).unwrap(),
            shapes: ShapeInterner::new(),
            pods: BTreeMap::new(),
            records: BTreeMap::new(),
            conditions: BTreeMap::new(),
            now: Time::from_seconds(1_000),
        };
        world.begin(case);
        world
    }

    fn begin(&mut self, case: &Case) {
        for namespace in &case.namespaces {
            let mut namespace = namespace.clone();
            namespace["metadata"]["uid"] = namespace["metadata"]["name"].clone();
            let namespace =
                Namespace::from_kubernetes(&serde_json::from_value(namespace).unwrap()).unwrap();
            self.tell(Event::Namespace(Arc::new(namespace)));
        }
        for node in &case.nodes {
            let (node, _) =
                Node::from_kubernetes(&serde_json::from_value(node.clone()).unwrap()).unwrap();
            self.tell(Event::Node(Arc::new(node)));
        }
        for news in storage::news(&case.storage) {
            self.tell(Event::Storage(news));
        }
        for pod in case.pods.iter().chain(&case.nominated) {
            self.submit(pod.clone());
        }
        self.tell(Event::Synced);
    }

    fn tell(&mut self, event: Event) {
        self.core.handle(event, self.now);
    }

    fn submit(&mut self, pod: Value) {
        let read =
            Pod::from_kubernetes(&serde_json::from_value(pod.clone()).unwrap(), &mut self.shapes)
                .unwrap();
        self.pods.insert(name_of(&pod).to_owned(), pod);
        self.tell(Event::Pod(Arc::new(read)));
    }

    fn settle(&mut self) {
        loop {
            let actions = self.core.step(self.now);
            if actions.is_empty() {
                return;
            }
            for action in actions {
                self.carry_out(action);
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        let outcome = match action.kind {
            ActionKind::Bind { pod, node, .. } => {
                let mut bound = self.pods[&*pod.key.name].clone();
                bound["spec"]["nodeName"] = json!(&*node);
                self.submit(bound);
                Outcome::Bind(BindOutcome::Bound)
            }
            ActionKind::Write(Write::CreateFluxJob { job, .. }) => {
                let mut job = *job;
                job.metadata.uid = Some(format!("record-{}", self.records.len()));
                self.records.insert(job.metadata.name.clone().unwrap(), job.clone());
                self.tell(Event::FluxJob(Arc::new(job.clone())));
                Outcome::Write(WriteOutcome::Written(Some(Arc::new(job))))
            }
            ActionKind::Write(Write::WriteStatus { job, status, .. }) => {
                let record = self.records.get_mut(&*job.key.name).unwrap();
                record.status = Some(Arc::unwrap_or_clone(status));
                let record = Arc::new(record.clone());
                self.tell(Event::FluxJob(record));
                Outcome::Write(WriteOutcome::Written(None))
            }
            ActionKind::Write(Write::SetPodScheduled { pod, message, .. }) => {
                self.conditions.insert(pod.key.name.to_string(), message);
                Outcome::Write(WriteOutcome::Written(None))
            }
            ActionKind::Note(_) => return,
            ActionKind::Write(_) => Outcome::Write(WriteOutcome::Written(None)),
        };
        self.tell(Event::Done(action.id, outcome));
    }
}
