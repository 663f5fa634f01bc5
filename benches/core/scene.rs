//! The scene: a full cluster with a long queue.
//!
//! Each node has 32 cores, of which ten pods of 3 cores leave 2. Waiting pods request at least 8
//! cores each. One pod that ends therefore makes room for no waiting pod, and two on the same node
//! make room for one pod of a gang.
//!
//! Of ten nodes, eight are in about three of the overlapping sets that most gangs select. One is in
//! no set, so any pod without a selector may use it. One is in sets of its own and is full of
//! services, so gangs that select these sets are passed over.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use fluxqueue_api::fluxqueue::{FluxQueue, FluxQueueSpec, Limits, LimitsOfScope};
use fluxqueue_api::names;
use fluxqueue_core::{Event, QueuePolicy};
use fluxqueue_machine::cluster::{Node, Readiness};
use fluxqueue_planner::queues::QueueObject;
use fluxqueue_workload::constraints::{
    Constraints, NamespaceScope, Operator, PodSelector, PodTerm, Requirement,
};
use fluxqueue_workload::{
    Controller, GroupLabels, JobGroup, Lifetime, NodeName, ObjectKey, ObjectRef, Owner, OwnerKind,
    Phase, Pod, Resources, Shape, Time, Uid,
};

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::turning::{QUEUE_DEPTH, RESERVATION_DEPTH, policy};
use fluxqueue::simulate::server::{Server, scheduled};

/// Scheduler name of the pods that are measured.
pub(crate) const OURS: &str = "fluxqueue";
/// Time at which the scene begins.
pub(crate) const START: Time = Time(1_700_000_000_000_000);

const NAMESPACE: &str = "bench";
/// Label of nodes that are in no set.
const GENERAL: &str = "example.com/general";
/// App label of pods that tolerate no other pod of their kind on the same node.
const LONELY: &str = "lonely";
const GIB: u64 = 1 << 30;
const NODE_CORES: u64 = 32;
const RUNNING_CORES: u64 = 3;
const PODS_PER_NODE: usize = 10;
/// The smallest CPU request of a waiting gang's pod, in cores: the room that two ended pods leave.
const WAITING_CORES: u64 = 8;
/// Number of pods of a waiting gang.
pub(crate) const GANG: usize = 8;
/// Walltime of the Jobs that state one, in seconds: far longer than the bench takes.
const WALLTIME_SECS: u64 = 300_000;
/// Pods of a running Job that start at the same time. Each wave starts a little earlier than the
/// one before, so the waves have different ends.
const WAVE: usize = 4;
const WAVE_MILLIS: i64 = 20_000;
/// Number of gangs that end, with all pods at once, one gang a round.
pub(crate) const LARGE_GANGS: usize = 3;

/// The size of the scene. All other numbers follow from that of the nodes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Number of nodes: 5,000 in a full run.
    pub(crate) nodes: usize,
}

/// The difference between a scene and the plain one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Twist {
    None,
    /// A pod with required anti-affinity is on some node.
    Repeller,
    /// A Job has completed very many pods, and runs on.
    Completions,
    /// The jobs are in ten queues, with limits that hold up no job.
    Queues,
}

/// Number of queues in the scene with several.
const QUEUES: usize = 10;

/// The prospect of a waiting gang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prospect {
    /// The gang starts when pods end.
    Room,
    /// Services are in the way of the gang.
    PassedOver,
    /// No node is large enough for the gang's pods.
    Unsatisfiable,
}

/// The shape of a waiting gang's pods.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variant {
    pub(crate) set: usize,
    pub(crate) prospect: Prospect,
    cores: u64,
    memory: u64,
}

impl Size {
    pub(crate) fn gangs(self) -> usize {
        self.nodes * 2
    }

    /// Returns the number of different known ends of running pods.
    pub(crate) fn ends(self) -> usize {
        self.nodes
    }

    fn jobs(self) -> usize {
        self.nodes
    }

    /// Returns the number of nodes in sets that gangs wait for. These nodes come first.
    pub(crate) fn normal(self) -> usize {
        self.nodes * 8 / 10
    }

    /// Returns the nodes with services. These come last.
    fn services(self) -> Range<usize> {
        self.nodes * 9 / 10..self.nodes
    }

    fn normal_sets(self) -> usize {
        (self.nodes * 36 / 5_000).max(1)
    }

    fn sets(self) -> usize {
        self.normal_sets() + (self.nodes * 4 / 5_000).max(1)
    }

    fn shapes(self) -> usize {
        self.sets() * 25 / 2
    }

    pub(crate) fn large_gang(self) -> usize {
        self.nodes / 5
    }

    /// Returns how many pods of the Job that completes very many run at a time.
    pub(crate) fn sweep(self) -> usize {
        self.nodes / 10
    }

    pub(crate) fn completions(self) -> usize {
        self.nodes * 20
    }

    /// Returns how many ended pods are kept: the pod garbage collector removes them from 12,500 on.
    pub(crate) fn ended_kept(self) -> usize {
        self.nodes * 5 / 2
    }

    /// Returns the shape of the gang with this number.
    pub(crate) fn variant(self, gang: usize) -> Variant {
        let shape = gang % self.shapes();
        let (set, step) = (shape % self.sets(), (shape / self.sets()) as u64);
        let prospect = match set {
            _ if set >= self.normal_sets() => Prospect::PassedOver,
            _ if shape % 9 == 4 => Prospect::Unsatisfiable,
            _ => Prospect::Room,
        };
        let cores =
            if prospect == Prospect::Unsatisfiable { 2 * NODE_CORES } else { WAITING_CORES + step };
        Variant { set, prospect, cores, memory: (1 + step) * GIB }
    }

    /// Returns the sets of a node.
    pub(crate) fn sets_of(self, node: usize) -> Vec<usize> {
        let (first, count) = if node < self.normal() {
            (0, self.normal_sets())
        } else if self.services().contains(&node) {
            (self.normal_sets(), self.sets() - self.normal_sets())
        } else {
            return Vec::new();
        };
        let mut sets: Vec<usize> = [node, node / count, node / count / count]
            .iter()
            .map(|at| first + at % count)
            .collect();
        sets.sort_unstable();
        sets.dedup();
        sets
    }
}

impl Variant {
    /// True if two pods that end on a node make room for one of the gang's.
    pub(crate) fn fits_where_two_ended(self) -> bool {
        self.cores <= WAITING_CORES
    }
}

/// Makes queues of the measured policy, each with limits that are never reached. Under policies
/// with many reservations, all queues together have as many as the one queue of the plain scene.
fn make_queues(server: &mut Server) {
    let share = |depth: usize| i32::try_from(depth / QUEUES).ok();
    let (queue_depth, reservation_depth) = match policy() {
        QueuePolicy::Fcfs | QueuePolicy::Easy => (None, None),
        QueuePolicy::Hybrid => (None, share(RESERVATION_DEPTH)),
        QueuePolicy::Conservative => (share(QUEUE_DEPTH), None),
    };
    for number in 0..QUEUES {
        let resources = [("cpu".to_owned(), IntOrString::Int(i32::MAX))].into();
        let in_all =
            LimitsOfScope { running_jobs: Some(i32::MAX), resources, ..LimitsOfScope::default() };
        let limits = Limits { in_all, ..Limits::default() };
        let spec =
            FluxQueueSpec { limits, queue_depth, reservation_depth, ..FluxQueueSpec::default() };
        let mut queue = FluxQueue::new(&queue_name(number), spec);
        queue.metadata.uid = Some(server.new_uid().to_string());
        let queue = QueueObject::from_api(&queue).expect("a queue");
        server.queues.insert(Arc::clone(&queue.name), Arc::new(queue));
    }
}

fn queue_name(number: usize) -> String {
    format!("queue-{}", number % QUEUES)
}

/// Makes the server with the whole scene on it, before any scheduler has started.
pub(crate) fn build(size: Size, twist: Twist) -> Server {
    let mut server = Server::default();
    if twist == Twist::Queues {
        make_queues(&mut server);
    }
    for at in 0..size.nodes {
        let uid = server.new_uid();
        server.put_node(node(size, at, uid));
    }
    run_services(&mut server, size);
    run_jobs(&mut server, size);
    if twist == Twist::Repeller {
        run_repeller(&mut server, size);
    }
    server
}

pub(crate) fn node_name(at: usize) -> NodeName {
    NodeName::from(format!("node-{at:05}"))
}

/// Makes a node as it joins.
pub(crate) fn node(size: Size, at: usize, uid: Uid) -> Node {
    let name = node_name(at);
    let text = |text: &str| Arc::<str>::from(text);
    let mut labels: Vec<(Arc<str>, Arc<str>)> = vec![
        (text("kubernetes.io/arch"), text("amd64")),
        (text("kubernetes.io/hostname"), text(&name)),
        (text("kubernetes.io/os"), text("linux")),
        (text("topology.kubernetes.io/zone"), text(["a", "b", "c"][at % 3])),
    ];
    labels.extend(size.sets_of(at).into_iter().map(|set| (set_label(set), text("yes"))));
    if size.sets_of(at).is_empty() {
        labels.push((text(GENERAL), text("yes")));
    }
    labels.sort();
    let allocatable: Resources =
        [("cpu", NODE_CORES * 1000), ("memory", 256 * GIB), ("pods", 110)].into_iter().collect();
    Node {
        name,
        uid,
        allocatable,
        labels,
        taints: Vec::new(),
        unschedulable: false,
        readiness: Readiness::Ready,
        declared_features: Vec::new(),
    }
}

pub(crate) fn set_label(set: usize) -> Arc<str> {
    Arc::from(format!("example.com/set-{set:02}"))
}

/// Fills the nodes of services with pods that never end.
fn run_services(server: &mut Server, size: Size) {
    let shape = shape(server, RUNNING_CORES, 4 * GIB, &[]);
    let nodes: Vec<usize> = size.services().collect();
    for number in 0..nodes.len() {
        let name = format!("service-{number:04}");
        let owner = controller(server, &name, OwnerKind::StatefulSet, PODS_PER_NODE);
        for pod in 0..PODS_PER_NODE {
            let at = nodes[(number * PODS_PER_NODE + pod) % nodes.len()];
            let mut pod =
                owned(server, &format!("{name}-{pod}"), &owner, &shape, Lifetime::Endless);
            start(&mut pod, at);
            server.put_pod(pod);
        }
    }
}

/// Fills the other nodes with Jobs. The first ones are large, with one pod on a node each.
fn run_jobs(server: &mut Server, size: Size) {
    let nodes = size.services().start;
    let pods = nodes * PODS_PER_NODE;
    let mut sizes = vec![size.large_gang(); LARGE_GANGS];
    let small = size.jobs() - size.services().len() - LARGE_GANGS;
    let rest = pods - LARGE_GANGS * size.large_gang();
    sizes.extend((0..small).map(|job| rest * (job + 1) / small - rest * job / small));
    let shape = shape(server, RUNNING_CORES, 4 * GIB, &[]);
    let (mut placed, mut dated) = (0, 0);
    for (number, pods) in sizes.into_iter().enumerate() {
        let name =
            if number < LARGE_GANGS { large_gang(number) } else { format!("job-{number:04}") };
        let owner = controller(server, &name, OwnerKind::Job, pods);
        // Half of them state their walltime.
        let lifetime = match number % 2 {
            0 => Lifetime::Seconds(WALLTIME_SECS),
            _ => Lifetime::Eventually,
        };
        for index in 0..pods {
            let mut pod = owned(server, &format!("{name}-{index}-abcde"), &owner, &shape, lifetime);
            pod.completion_index = u32::try_from(index).ok();
            start(&mut pod, placed % nodes);
            placed += 1;
            if number % 2 == 0 {
                start_earlier(&mut pod, dated / WAVE % size.ends());
                dated += 1;
            }
            server.put_pod(pod);
        }
    }
}

pub(crate) fn large_gang(number: usize) -> String {
    format!("large-{number}")
}

/// Adds a pod of another scheduler that tolerates no other pod of its kind on the same node.
fn run_repeller(server: &mut Server, size: Size) {
    let requests = [("cpu", 100), ("pods", 1)].into_iter().collect();
    let shape = Arc::new(Shape { requests, constraints: keeps_lonely_away() });
    let mut lonely = pod(server, "lonely", &shape, Lifetime::Endless);
    lonely.scheduler = "default-scheduler".into();
    lonely.labels = labels(LONELY);
    start(&mut lonely, size.normal());
    server.put_pod(lonely);
}

/// Returns a required anti-affinity to pods with the app label [`LONELY`] on the same host.
fn keeps_lonely_away() -> Constraints {
    let of_its_own =
        Requirement { key: "app".into(), operator: Operator::In, values: vec![LONELY.into()] };
    let namespaces = NamespaceScope { named: vec![NAMESPACE.into()], selected: None };
    let repels = PodTerm {
        pods: PodSelector { namespaces, labels: Some(vec![of_its_own]) },
        topology_key: "kubernetes.io/hostname".into(),
    };
    Constraints { repels: vec![repels], ..Constraints::default() }
}

/// Submits a gang. Nine of ten are Jobs, the others bare pods with labels.
pub(crate) fn submit_gang(server: &mut Server, size: Size, number: usize, at: Time) -> Vec<Event> {
    let variant = size.variant(number);
    let name = format!("gang-{number:05}");
    let shape = shape(server, variant.cores, variant.memory, &[(set_label(variant.set), "yes")]);
    let lifetime =
        if number.is_multiple_of(2) { Lifetime::Seconds(3_600) } else { Lifetime::Eventually };
    let owner = (number % 10 != 7).then(|| controller(server, &name, OwnerKind::Job, GANG));
    let made_by = owner.as_ref().and_then(|owner| server.controllers.get(&owner.uid));
    let mut events: Vec<Event> = made_by.cloned().map(Event::Controller).into_iter().collect();
    for index in 0..GANG {
        let mut pod = pod(server, &format!("{name}-{index}-abcde"), &shape, lifetime);
        pod.labels = labels(&name);
        if !server.queues.is_empty() {
            let queue = (Arc::from(names::QUEUE_NAME), queue_name(number).into());
            pod.labels = pod.labels.iter().cloned().chain([queue]).collect();
        }
        pod.created = at;
        match &owner {
            Some(owner) => {
                pod.owner = Some(owner.clone());
                pod.completion_index = u32::try_from(index).ok();
            }
            None => {
                pod.group = Some(GroupLabels {
                    name: name.as_str().into(),
                    size: u32::try_from(GANG).map_err(|error| error.to_string()),
                });
            }
        }
        events.push(server.put_pod(pod));
    }
    events
}

/// Submits a pod of one core that may use any node.
pub(crate) fn lone_pod(server: &mut Server, number: usize, at: Time) -> Pod {
    let shape = shape(server, 1, GIB, &[]);
    let mut pod = pod(server, &format!("lone-{number:05}"), &shape, Lifetime::Seconds(3_600));
    pod.created = at;
    pod
}

/// Submits the same pod with a required anti-affinity. It selects no waiting pod, but each has to
/// be checked against it.
pub(crate) fn repelling_pod(server: &mut Server, number: usize, at: Time) -> Pod {
    let mut pod = lone_pod(server, number, at);
    let requests = pod.shape.requests.clone();
    pod.shape = Arc::new(Shape { requests, constraints: keeps_lonely_away() });
    pod.labels = labels(LONELY);
    pod
}

/// Makes the Job that completes very many pods, on nodes that no gang waits for.
pub(crate) fn sweep_job(server: &mut Server, size: Size) -> (Owner, Arc<Shape>) {
    let owner = controller(server, "sweep", OwnerKind::Job, size.sweep());
    let mut job = Controller::clone(&server.controllers[&owner.uid]);
    job.completions = u32::try_from(2 * size.completions()).ok();
    server.put_controller(job);
    let shape = shape(server, 1, GIB, &[(GENERAL.into(), "yes")]);
    (owner, shape)
}

/// Makes a waiting pod of a controller.
pub(crate) fn owned(
    server: &mut Server,
    name: &str,
    owner: &Owner,
    shape: &Arc<Shape>,
    lifetime: Lifetime,
) -> Pod {
    let mut pod = pod(server, name, shape, lifetime);
    pod.owner = Some(owner.clone());
    pod.labels = labels(&owner.name);
    pod
}

fn pod(server: &mut Server, name: &str, shape: &Arc<Shape>, lifetime: Lifetime) -> Pod {
    let id = ObjectRef { key: ObjectKey::new(NAMESPACE, name), uid: server.new_uid() };
    let waiting = Pod::waiting(id, OURS.into(), Arc::clone(shape));
    Pod { created: START, labels: labels(name), lifetime, grace_secs: 30, ..waiting }
}

fn start(pod: &mut Pod, at: usize) {
    pod.node = Some(node_name(at));
    pod.phase = Phase::Running;
    pod.scheduled_condition = Some(scheduled());
    pod.created = START.plus_millis(-3_600_000);
}

fn start_earlier(pod: &mut Pod, waves: usize) {
    let waves = i64::try_from(waves).unwrap_or(i64::MAX);
    pod.created = pod.created.plus_millis(-WAVE_MILLIS * waves);
    pod.started = Some(pod.created);
}

/// Counts the different known ends of running pods.
pub(crate) fn known_ends(server: &Server) -> usize {
    let ends =
        server.pods.values().filter(|pod| pod.phase == Phase::Running).filter_map(|pod| match pod
            .lifetime
        {
            Lifetime::Seconds(seconds) => Some((pod.started?.seconds(), seconds)),
            _ => None,
        });
    // A planned end counts from the pod's own start.
    ends.map(|(from, seconds)| from + i64::try_from(seconds).unwrap_or(i64::MAX))
        .collect::<BTreeSet<i64>>()
        .len()
}

fn labels(app: &str) -> fluxqueue_workload::metadata::Labels {
    Arc::from([(Arc::from("app"), Arc::from(app))])
}

fn shape(
    server: &mut Server,
    cores: u64,
    memory: u64,
    selector: &[(Arc<str>, &str)],
) -> Arc<Shape> {
    let requests: Resources =
        [("cpu", cores * 1000), ("memory", memory), ("pods", 1)].into_iter().collect();
    let node_selector =
        selector.iter().map(|(key, value)| (Arc::clone(key), Arc::from(*value))).collect();
    server.shapes.intern(Shape {
        requests,
        constraints: Constraints { node_selector, ..Constraints::default() },
    })
}

fn controller(server: &mut Server, name: &str, kind: OwnerKind, pods: usize) -> Owner {
    let uid = server.new_uid();
    let count = u32::try_from(pods).unwrap_or(u32::MAX);
    let job = kind == OwnerKind::Job;
    server.put_controller(Controller {
        id: ObjectRef { key: ObjectKey::new(NAMESPACE, name), uid: uid.clone() },
        kind: kind.clone(),
        owner: None,
        created: Time::default(),
        wants: count,
        can_start_together: count,
        succeeded: 0,
        completions: job.then_some(count),
        parallelism: count,
        finished: false,
        failed: false,
        deadline: None,
        deadline_secs: None,
        group: None,
        queue: None,
        deleting: false,
        walltime: None,
        levels: Ok(None),
        exclusive: Ok(None),
        scheduling: None,
        said_of_group: JobGroup::Unsaid,
        suspension: None,
    });
    Owner {
        kind,
        name: name.into(),
        uid,
        api_version: if job { "batch/v1".into() } else { "apps/v1".into() },
    }
}
