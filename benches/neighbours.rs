//! Time that the core needs for pods with inter-pod constraints, on 5,000 nodes in 50 racks with
//! 20,000 pods: `cargo bench --bench neighbours`. It prints a table of medians, beside those of
//! pods without such constraints, and of pods that mount claims. `cargo test` runs it at a small
//! size.

#![allow(clippy::unwrap_used, reason = "a bench may unwrap: its panic is the report")]

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluxion_sys::FunctionTable;
use fluxqueue::simulate::server::Server;
use fluxqueue_api::names;
use fluxqueue_core::{Core, CoreSettings, Event, NodePolicy, QueuePolicy};
use fluxqueue_machine::cluster::volumes::StorageNews;
use fluxqueue_machine::cluster::{Level, Node, Readiness, Topology};
use fluxqueue_workload::constraints::{
    Constraints, NamespaceScope, NodeSelectorTerm, Operator, PodSelector, PodTerm, Requirement,
    SpreadConstraint,
};
use fluxqueue_workload::levels::{LevelBound, LevelRule, LevelRules, RuleScope};
use fluxqueue_workload::storage::{
    Claim, ClaimRef, PersistentVolume, PodClaim, StorageClass, VolumeWants,
};
use fluxqueue_workload::{GroupLabels, ObjectKey, ObjectRef, Phase, Pod, Resources, Shape, Time};

const HOST: &str = "kubernetes.io/hostname";
const RACK: &str = "rack";
const CLASS: &str = "made-later";

struct Size {
    nodes: usize,
    racks: usize,
    pods: usize,
    gang: u32,
    rounds: usize,
}

/// The constraint that the pods of a job have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    Nothing,
    ApartPerHost,
    NearPerRack,
    SpreadOverRacks,
    SpreadOverHosts,
    /// No inter-pod constraint, but a level of the machine: all pods are in one rack.
    WithinOneRack,
    /// No required constraint, but a preference for some racks.
    PreferringRacks,
    /// A preferred anti-affinity.
    PreferringApart,
    /// A preferred spread, over racks and hosts.
    PreferringSpread,
    /// Each pod mounts a volume of its own that is available in one rack.
    MountingInRacks,
    /// Each pod mounts a claim of its own, and the volume is provisioned once the pod's node is
    /// known.
    MountingAnywhere,
}

impl Asks {
    fn prefers(self) -> bool {
        matches!(self, Asks::PreferringRacks | Asks::PreferringApart | Asks::PreferringSpread)
    }
}

const ALL: [Asks; 11] = [
    Asks::Nothing,
    Asks::ApartPerHost,
    Asks::NearPerRack,
    Asks::SpreadOverRacks,
    Asks::SpreadOverHosts,
    Asks::WithinOneRack,
    Asks::PreferringRacks,
    Asks::PreferringApart,
    Asks::PreferringSpread,
    Asks::MountingInRacks,
    Asks::MountingAnywhere,
];

fn main() {
    let is_small = !std::env::args().any(|argument| argument == "--bench");
    let size = if is_small {
        Size { nodes: 50, racks: 5, pods: 100, gang: 20, rounds: 2 }
    } else {
        Size { nodes: 5_000, racks: 50, pods: 20_000, gang: 1_000, rounds: 9 }
    };
    let mut table = String::from("| pods that are | one pod | a gang |\n|---|---|---|\n");
    for asks in ALL {
        let lone = measure(&size, asks, 1);
        // One rack has too little room for a thousand.
        let is_of_a_rack = matches!(asks, Asks::NearPerRack | Asks::WithinOneRack);
        let gang = measure(&size, asks, if is_of_a_rack { size.gang.min(32) } else { size.gang });
        let _ = writeln!(table, "| {asks:?} | {lone:.2?} | {gang:.2?} |");
    }
    println!(
        "{} nodes, {} racks, {} pods, gangs of {}\n\n{table}",
        size.nodes, size.racks, size.pods, size.gang
    );
    let [first, again, held] = measure_waiting(&size);
    println!(
        "A gang that is spread over the racks, of which one is full: {first:.2?} until it waits, {again:.2?} when a pod has ended \
         elsewhere, {held:.2?} when nodes are held for it."
    );
}

/// Returns the times for a gang that has room but cannot meet its spread: when it arrives, when it
/// is tried again, and when nodes are held for it.
fn measure_waiting(size: &Size) -> [Duration; 3] {
    let mut scene = Scene::new(size, Asks::SpreadOverRacks);
    for at in (0..size.nodes).filter(|at| at % size.racks == 0) {
        let mut there = pod(&format!("large-{at}"), &large(), "other");
        there.scheduler = "default-scheduler".into();
        there.node = Some(format!("node-{at:05}").into());
        let came = scene.server.put_pod(there);
        scene.tell(vec![came]);
    }
    scene.settle();
    scene.submit(Asks::SpreadOverRacks, size.gang, "waits");
    let first = scene.step();
    let look = |scene: &mut Scene, round: usize| {
        // The pod that ends is on a node of another rack.
        let gone = scene
            .server
            .remove_pod(&ObjectKey::new("ns", format!("there-{}", size.racks * round + 1)));
        scene.tell(vec![gone.unwrap()]);
        scene.step()
    };
    let again = (0..size.rounds).map(|round| look(&mut scene, round)).min().unwrap();
    scene.now = scene.now.plus_secs(301);
    scene.settle();
    let held = (0..size.rounds).map(|round| look(&mut scene, size.rounds + round)).min().unwrap();
    [first, again, held]
}

/// Returns the median time from the event of the last pod to the placement of all.
fn measure(size: &Size, asks: Asks, pods: u32) -> Duration {
    let mut scene = Scene::new(size, asks);
    let mut times: Vec<Duration> =
        (0..size.rounds).map(|round| scene.place(asks, pods, round)).collect();
    times.sort_unstable();
    times[times.len() / 2]
}

struct Scene {
    core: Core,
    racks: usize,
    server: Server,
    now: Time,
}

impl Scene {
    fn new(size: &Size, asks: Asks) -> Self {
        let rack = Level { name: RACK.into(), node_labels: vec![RACK.into()] };
        let settings = CoreSettings {
            // With `LoNode` the use of nodes is scored as well.
            node_policy: if asks.prefers() { NodePolicy::First } else { NodePolicy::LoNode },
            ttl_after_finished_secs: 60,
            queue_policy: QueuePolicy::Easy,
            start_slack_secs: 0,
            end_slack_secs: 0,
            topology: Arc::new(Topology::new(vec![vec![rack]]).unwrap()),
            ..CoreSettings::default()
        };
        let core = Core::new(settings, FunctionTable::builtin(), 1).unwrap();
        let now = Time::from_seconds(1_000);
        let mut scene = Scene { core, racks: size.racks, server: Server::default(), now };
        for at in 0..size.nodes {
            scene.server.put_node(node(at, size.racks));
        }
        let class = StorageClass {
            name: CLASS.into(),
            uid: CLASS.into(),
            waits_for_pod: true,
            provisioner: "made.example.com".into(),
            allowed_topologies: Vec::new(),
        };
        scene.tell(vec![Event::Storage(StorageNews::Class(Arc::new(class)))]);
        for at in 0..size.pods {
            let mut there = pod(&format!("there-{at}"), &shape(Asks::Nothing, "other"), "other");
            there.scheduler = "default-scheduler".into();
            there.node = Some(format!("node-{:05}", at * 7 % size.nodes).into());
            there.phase = Phase::Running;
            scene.server.put_pod(there);
        }
        let listed = scene.server.list();
        scene.tell(listed);
        scene.settle();
        scene
    }

    fn tell(&mut self, events: Vec<Event>) {
        for event in events {
            self.core.handle(event, self.now);
        }
    }

    /// Carries out the actions of the core until none is left.
    fn settle(&mut self) {
        loop {
            let actions = self.core.step(self.now);
            if actions.is_empty() {
                return;
            }
            let events = self.server.answer(actions, self.now);
            self.tell(events);
        }
    }

    /// Makes one step and carries out its actions. Returns how long the step has taken.
    fn step(&mut self) -> Duration {
        let begin = Instant::now();
        let actions = self.core.step(self.now);
        let took = begin.elapsed();
        let events = self.server.answer(actions, self.now);
        self.tell(events);
        self.settle();
        took
    }

    /// Submits the pods of one job.
    fn submit(&mut self, asks: Asks, pods: u32, app: &str) {
        let (shape, levels) = (shape(asks, app), levels(asks));
        for at in 0..pods {
            let mut member = pod(&format!("{app}-{at}"), &shape, app);
            member.levels.clone_from(&levels);
            if matches!(asks, Asks::MountingInRacks | Asks::MountingAnywhere) {
                let name = format!("{app}-{at}");
                let rack = (asks == Asks::MountingInRacks).then(|| at as usize % self.racks);
                self.tell(storage(&name, rack));
                member.claims = vec![PodClaim { name: name.into(), is_ephemeral: false }];
            }
            if pods > 1 {
                member.group = Some(GroupLabels { name: app.into(), size: Ok(pods) });
            }
            let came = self.server.put_pod(member);
            self.core.handle(came, self.now);
        }
    }

    fn place(&mut self, asks: Asks, pods: u32, round: usize) -> Duration {
        self.submit(asks, pods, &format!("app-{round}"));
        let before = self.core.gauges().assumed_pods;
        let begin = Instant::now();
        let actions = self.core.step(self.now);
        let took = begin.elapsed();
        let placed = self.core.gauges().assumed_pods - before;
        assert_eq!(placed, u64::from(pods), "{asks:?}, round {round}: not all were placed");
        let events = self.server.answer(actions, self.now);
        self.tell(events);
        self.settle();
        took
    }
}

fn node(at: usize, racks: usize) -> Node {
    let name = format!("node-{at:05}");
    Node {
        name: name.as_str().into(),
        uid: name.as_str().into(),
        allocatable: [("cpu", 64_000), ("memory", 256 << 30), ("pods", 110)].into_iter().collect(),
        labels: vec![
            (HOST.into(), name.as_str().into()),
            (RACK.into(), format!("r{}", at % racks).into()),
        ],
        taints: Vec::new(),
        unschedulable: false,
        readiness: Readiness::Ready,
        declared_features: Vec::new(),
    }
}

fn pod(name: &str, shape: &Arc<Shape>, app: &str) -> Pod {
    let id = ObjectRef { key: ObjectKey::new("ns", name), uid: name.into() };
    let labels = Arc::from([("app".into(), app.into())]);
    Pod {
        labels,
        created: Time::from_seconds(1),
        ..Pod::waiting(id, "fluxqueue".into(), Arc::clone(shape))
    }
}

/// Makes the shape of a pod that takes everything the pods on a node leave free.
fn large() -> Arc<Shape> {
    let requests: Resources = [("cpu", 62_000), ("pods", 1)].into_iter().collect();
    Arc::new(Shape { requests, constraints: Constraints::default() })
}

/// Makes a claim that is bound to a volume in this rack, or one that waits for its pod.
fn storage(name: &str, rack: Option<usize>) -> Vec<Event> {
    let wants = VolumeWants {
        class: CLASS.into(),
        bytes: Some(1 << 30),
        access_modes: vec!["ReadWriteOnce".into()],
        is_block: false,
        attributes_class: "".into(),
        selector: None,
    };
    let id =
        ObjectRef { key: ObjectKey::new("ns", name), uid: format!("claim-{name}").as_str().into() };
    let in_rack = |rack: usize| {
        let in_rack = Requirement {
            key: RACK.into(),
            operator: Operator::In,
            values: vec![format!("r{rack}").into()],
        };
        vec![NodeSelectorTerm { labels: vec![in_rack], fields: Vec::new() }]
    };
    let volume = rack.map(|rack| PersistentVolume {
        name: name.into(),
        uid: format!("volume-{name}").as_str().into(),
        resource_version: None,
        deleting: false,
        labels: Arc::from([]),
        offers: wants.clone(),
        claim: Some(ClaimRef { key: id.key.clone(), uid: Some(id.uid.clone()) }),
        is_available: false,
        affinity: Some(in_rack(rack)),
        zones: Vec::new(),
        attachable: None,
        taken_over: None,
    });
    let claim = Claim {
        id,
        resource_version: volume.is_none().then(|| "1".into()),
        deleting: false,
        owner: None,
        volume: volume.as_ref().map(|volume| Arc::clone(&volume.name)),
        is_bound: volume.is_some(),
        is_lost: false,
        selected_node: None,
        lost_node: None,
        wants,
    };
    let volume = volume.map(|volume| StorageNews::Volume(Arc::new(volume)));
    volume.into_iter().chain([StorageNews::Claim(Arc::new(claim))]).map(Event::Storage).collect()
}

fn levels(asks: Asks) -> LevelRules {
    let (bound, of, annotation) = (LevelBound::Required, RuleScope::Job, names::REQUIRED_LEVEL);
    (asks == Asks::WithinOneRack)
        .then(|| Arc::from([LevelRule { level: RACK.into(), bound, of, annotation }]))
}

fn shape(asks: Asks, app: &str) -> Arc<Shape> {
    let like_it =
        Requirement { key: "app".into(), operator: Operator::In, values: vec![app.into()] };
    let namespaces = NamespaceScope { named: vec!["ns".into()], selected: None };
    let pods = PodSelector { namespaces, labels: Some(vec![like_it]) };
    let term = |topology_key: &str| {
        vec![PodTerm { pods: pods.clone(), topology_key: topology_key.into() }]
    };
    let spread = |topology_key: &str| {
        vec![SpreadConstraint {
            pods: pods.clone(),
            topology_key: topology_key.into(),
            max_skew: 1,
            min_domains: 1,
            honors_affinity: true,
            honors_taints: false,
        }]
    };
    let plain = Constraints::default;
    let constraints = match asks {
        Asks::Nothing | Asks::WithinOneRack | Asks::MountingInRacks | Asks::MountingAnywhere => {
            plain()
        }
        Asks::ApartPerHost => Constraints { repels: term(HOST), ..plain() },
        Asks::NearPerRack => Constraints { near: term(RACK), ..plain() },
        Asks::SpreadOverRacks => Constraints { spreads: spread(RACK), ..plain() },
        Asks::SpreadOverHosts => Constraints { spreads: spread(HOST), ..plain() },
        Asks::PreferringRacks => {
            let labels = ["r1", "r2"].map(|rack| Requirement {
                key: RACK.into(),
                operator: Operator::In,
                values: vec![rack.into()],
            });
            let term =
                |requirement| NodeSelectorTerm { labels: vec![requirement], fields: Vec::new() };
            let [one, other] = labels.map(term);
            Constraints { preferred: vec![(50, one), (20, other)], ..plain() }
        }
        Asks::PreferringApart => {
            let apart = term(HOST).into_iter().map(|term| (-100, term)).collect();
            Constraints { preferred_pods: apart, ..plain() }
        }
        Asks::PreferringSpread => {
            Constraints { preferred_spreads: [spread(RACK), spread(HOST)].concat(), ..plain() }
        }
    };
    let requests: Resources = [("cpu", 500), ("pods", 1)].into_iter().collect();
    Arc::new(Shape { requests, constraints })
}
