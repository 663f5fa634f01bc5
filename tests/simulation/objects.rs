//! The makers of a run's objects: pod templates, nodes, and their names.

use std::sync::Arc;

use fluxqueue_api::names;
use fluxqueue_machine::cluster::{Node, Readiness};
use fluxqueue_planner::queues::Namespace;
use fluxqueue_workload::constraints::{
    Constraints, Disk, HostPort, NamespaceScope, NodeSelectorTerm, Operator, PodSelector, PodTerm,
    Requirement, SpreadConstraint, Toleration,
};
use fluxqueue_workload::levels::{LevelBound, LevelRule, LevelRules, RuleScope, Spread};
use fluxqueue_workload::metadata::Labels;
use fluxqueue_workload::{
    GroupLabels, Lifetime, NodeName, ObjectRef, Owner, Pod, Resources, Shape, Time, Uid,
    Unsupported,
};

use crate::pod_groups::InGroup;
use crate::rng::Rng;

/// The scheduler name under test.
pub(crate) const OURS: &str = "fluxqueue";
/// The scheduler name of the second Fluxqueue, in runs that have one.
pub(crate) const SECOND: &str = "fluxqueue-b";
/// Prefix of the uids of its pods and of their owners.
pub(crate) const SECOND_UID: &str = "b-";
/// The name of the other scheduler on the same nodes.
pub(crate) const FOREIGN: &str = "default-scheduler";
/// A gate that another controller puts on a pod, and removes later.
pub(crate) const FOREIGN_GATE: &str = "example.com/quota";
/// The only namespace of most runs.
pub(crate) const NAMESPACE: &str = "sim";
/// A node label that selectors use.
pub(crate) const ZONE: &str = "zone";
/// Another one.
pub(crate) const KIND: &str = "kind";
/// The pod label that anti-affinity selects by.
const APP: &str = "app";
/// The node label that names the node.
pub(crate) const HOST: &str = "kubernetes.io/hostname";
/// The taint that some pods tolerate.
pub(crate) const TAINT: &str = "example.com/dedicated";

const GIB: u64 = 1 << 30;

/// The common properties of a workload's pods.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    pub(crate) scheduler: Arc<str>,
    pub(crate) shape: Arc<Shape>,
    pub(crate) lifetime: Lifetime,
    pub(crate) priority: i32,
    pub(crate) gates: Vec<Arc<str>>,
    pub(crate) labels: Labels,
    pub(crate) group: Option<GroupLabels>,
    pub(crate) pod_group: Option<InGroup>,
    pub(crate) unsupported: Vec<Unsupported>,
    pub(crate) levels: LevelRules,
    /// True if it requires its nodes alone.
    pub(crate) exclusive: bool,
    pub(crate) run: Run,
}

/// True if a Fluxqueue under test schedules the pod.
pub(crate) fn is_ours(pod: &Pod) -> bool {
    *pod.scheduler == *OURS || *pod.scheduler == *SECOND
}

/// The fate of a pod once it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// Seconds until it ends; none for a service.
    pub(crate) seconds: Option<u64>,
    /// Percentage of such pods that fail.
    pub(crate) fails_percent: usize,
}

impl Template {
    /// Makes a pod of this template.
    pub(crate) fn pod(
        &self,
        id: ObjectRef,
        created: Time,
        owner: Option<Owner>,
        completion_index: Option<u32>,
    ) -> Pod {
        Pod {
            gates: self.gates.clone(),
            owner,
            group: self.group.clone(),
            completion_index,
            priority: self.priority,
            created,
            labels: Arc::clone(&self.labels),
            lifetime: self.lifetime,
            unsupported: self.unsupported.clone(),
            levels: self.levels.clone(),
            exclusive: self.exclusive.then_some(true),
            ..Pod::waiting(id, Arc::clone(&self.scheduler), Arc::clone(&self.shape))
        }
    }

    /// Makes a template of our scheduler, of any kind.
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let (lifetime, seconds) = lifetime(rng);
        let mut gates = Vec::new();
        if rng.chance(20) {
            gates.push(Arc::from(fluxqueue_api::names::GATE));
        }
        if rng.chance(8) {
            gates.push(Arc::from(FOREIGN_GATE));
        }
        let mut unsupported = Vec::new();
        if rng.chance(3) {
            unsupported.push(Unsupported {
                field: "spec.volumes[0].persistentVolumeClaim".into(),
                message: "volume claims are not supported yet".into(),
            });
        }
        let mut shape = shape(rng);
        if rng.chance(8) {
            shape.constraints.repels.push(anti_affinity(rng));
        }
        if is_in_slices(&shape.requests) {
            shape.constraints.repels.push(term("a", HOST));
        }
        let exclusive = is_exclusive(&shape.requests);
        let levels = levels(rng, &shape.requests);
        Template {
            scheduler: Arc::from(OURS),
            shape: Arc::new(shape),
            exclusive,
            lifetime,
            labels: labels(rng),
            priority: *rng.pick(&[0, 0, 0, 0, 10, -5]).unwrap_or(&0),
            gates,
            group: None,
            pod_group: None,
            unsupported,
            levels,
            run: Run { seconds, fails_percent: if rng.chance(30) { 40 } else { 3 } },
        }
    }

    /// Makes a template of the other scheduler.
    pub(crate) fn foreign(rng: &mut Rng) -> Self {
        let mut template = Template::random(rng);
        template.scheduler = Arc::from(FOREIGN);
        template.gates.clear();
        template.unsupported.clear();
        template.levels = None;
        template.exclusive = false;
        if rng.chance(15) {
            Arc::make_mut(&mut template.shape).constraints.repels.push(anti_affinity(rng));
        }
        template
    }

    /// Gives the template an end, as the pods of Jobs have.
    pub(crate) fn ending(mut self, rng: &mut Rng) -> Self {
        if self.lifetime == Lifetime::Endless {
            self.lifetime = Lifetime::Eventually;
            self.run.seconds = Some(rng.between(1, 90));
        }
        self
    }

    /// Removes the end of the template, as for the pods of services.
    pub(crate) fn endless(mut self) -> Self {
        self.lifetime = Lifetime::Endless;
        self.run.seconds = None;
        self
    }
}

/// Returns the walltime of a pod, and its true run time. Most batch work has a walltime, which a
/// few overrun: an annotation ends no pod.
pub(crate) fn lifetime(rng: &mut Rng) -> (Lifetime, Option<u64>) {
    match rng.weighted(&[12, 4, 4]) {
        0 => {
            let seconds = rng.between(5, 120);
            let overrun = if rng.chance(6) { 60 } else { 0 };
            (Lifetime::Seconds(seconds), Some(rng.between(1, seconds) + overrun))
        }
        1 => (Lifetime::Eventually, Some(rng.between(1, 180))),
        _ => (Lifetime::Endless, None),
    }
}

/// Returns labels of pods, by which pods of other schedulers keep them away.
pub(crate) fn labels(rng: &mut Rng) -> Labels {
    if rng.chance(30) { Arc::from([]) } else { Arc::from([(Arc::from(APP), Arc::from(app(rng)))]) }
}

fn app(rng: &mut Rng) -> &'static str {
    ["a", "b", "c"][rng.below(3)]
}

fn anti_affinity(rng: &mut Rng) -> PodTerm {
    let operator = if rng.chance(80) { Operator::In } else { Operator::NotIn };
    let app = Requirement { key: Arc::from(APP), operator, values: vec![Arc::from(app(rng))] };
    let namespaces = NamespaceScope { named: vec![Arc::from(NAMESPACE)], selected: None };
    PodTerm {
        pods: PodSelector { namespaces, labels: Some(vec![app]) },
        topology_key: Arc::from(if rng.chance(70) { HOST } else { ZONE }),
    }
}

/// Returns the requests and constraints of a pod.
pub(crate) fn shape(rng: &mut Rng) -> Shape {
    let mut requests = Resources::new();
    requests.set("pods", 1);
    requests.set("cpu", *rng.pick(&[0, 100, 500, 1000, 1000, 2000, 3999, 4000]).unwrap_or(&1));
    requests.set("memory", rng.between(0, 4) * GIB / 2);
    if rng.chance(10) {
        requests.set("nvidia.com/gpu", rng.between(1, 2));
    }
    if rng.chance(3) {
        // No node ever has this much.
        requests.set("cpu", 1_000_000);
    }
    if rng.whole_amounts {
        requests.set("cpu", requests.get("cpu").next_multiple_of(1000));
        requests.set("memory", requests.get("memory").next_multiple_of(GIB));
    }
    let mut constraints = Constraints::default();
    if rng.chance(12) {
        constraints.node_selector.push((Arc::from(ZONE), Arc::from(zone(rng))));
    }
    if rng.chance(6) {
        constraints.node_selector.push((Arc::from(KIND), Arc::from(kind(rng))));
        constraints.node_selector.sort();
    }
    if rng.chance(8) {
        let operator = if rng.chance(50) { Operator::In } else { Operator::NotIn };
        let requirement =
            Requirement { key: Arc::from(ZONE), operator, values: vec![Arc::from(zone(rng))] };
        constraints.required =
            Some(vec![NodeSelectorTerm { labels: vec![requirement], fields: Vec::new() }]);
    }
    if rng.chance(15) {
        constraints.tolerations.push(Toleration {
            key: Arc::from(TAINT),
            exists: true,
            value: Arc::from(""),
            effect: Arc::from(""),
        });
    }
    if rng.chance(8) {
        constraints.host_ports.push(host_port(rng));
    }
    if rng.chance(6) {
        let iqn =
            if rng.chance(50) { "iqn.2001-04.com.example:a" } else { "iqn.2001-04.com.example:b" };
        constraints.disks.push(Disk::Iscsi { iqn: Arc::from(iqn), read_only: rng.chance(50) });
    }
    prefer(&requests, &mut constraints);
    Shape { requests, constraints }
}

/// Gives pods of some sizes preferences for nodes with or without certain pods, or for a spread.
/// This draws no random number, so that everything else that follows from a seed stays the same.
fn prefer(requests: &Resources, constraints: &mut Constraints) {
    match requests.get("memory") {
        GIB => constraints.preferred_pods = vec![(-80, term("a", HOST)), (30, term("b", ZONE))],
        memory if memory == GIB / 2 => constraints.preferred_spreads.push(SpreadConstraint {
            pods: term("c", ZONE).pods,
            topology_key: Arc::from(ZONE),
            max_skew: 1,
            min_domains: 1,
            honors_affinity: true,
            honors_taints: false,
        }),
        _ => {}
    }
}

/// Makes a term about pods of an app in a domain of this label.
fn term(app: &str, key: &str) -> PodTerm {
    PodTerm { pods: pods_with((APP, app)), topology_key: Arc::from(key) }
}

/// Returns a selector of pods with a label.
pub(crate) fn pods_with((key, value): (&str, &str)) -> PodSelector {
    let has_label =
        Requirement { key: Arc::from(key), operator: Operator::In, values: vec![Arc::from(value)] };
    let namespaces = NamespaceScope { named: vec![Arc::from(NAMESPACE)], selected: None };
    PodSelector { namespaces, labels: Some(vec![has_label]) }
}

/// True for pods of some sizes, which are in slices of two, each in one zone, and keep those of an
/// app away. This draws no random number, as above.
fn is_in_slices(requests: &Resources) -> bool {
    requests.get("memory") == GIB / 2 && requests.get("cpu") != 1000
}

/// True for pods of some sizes, which require their nodes alone. This draws no random number, as
/// above. Where amounts are whole, no pod does, because a library without extensions cannot keep
/// nodes for one job.
fn is_exclusive(requests: &Resources) -> bool {
    requests.get("memory") == 3 * GIB / 2 && matches!(requests.get("cpu"), 500 | 1000 | 2000)
}

/// Returns constraints on levels: all pods of a job in one zone, or in as few as possible; most
/// have none. Pods of some sizes without one get a spread, which draws no random number, as above.
fn levels(rng: &mut Rng, requests: &Resources) -> LevelRules {
    let bound = if rng.chance(70) { LevelBound::Required } else { LevelBound::Preferred };
    let is_spread = requests.get("cpu") == 1000 && requests.get("memory") == GIB / 2;
    let bound = if rng.chance(15) { Some(bound) } else { is_spread.then_some(SPREAD) };
    let of_zone = |bound, of| LevelRule {
        level: Arc::from(ZONE),
        bound,
        of,
        annotation: "fluxqueue/required-level",
    };
    let of_slices =
        is_in_slices(requests).then(|| of_zone(LevelBound::Required, RuleScope::Slice(2)));
    // The constraint applies to each role by itself, or to all together.
    let of = if requests.get("cpu") == 500 { RuleScope::Role } else { RuleScope::Job };
    let rules: Arc<[LevelRule]> =
        bound.map(|bound| of_zone(bound, of)).into_iter().chain(of_slices).collect();
    (!rules.is_empty()).then_some(rules)
}

/// At most three pods in a zone, and at most one more than in another.
const SPREAD: LevelBound = LevelBound::Spread(Spread { max_per_part: Some(3), max_skew: Some(1) });

/// True if the pod's nodes depend on those of others of its job, by parts of a level.
pub(crate) fn is_bound_to_others(pod: &Pod) -> bool {
    let mut rules = pod.levels.iter().flat_map(|rules| rules.iter());
    rules.any(|rule| rule.bound != LevelBound::Preferred)
}

/// True if the pod is to be in one part of a level with others of its job.
pub(crate) fn is_to_be_in_one(pod: &Pod) -> bool {
    let mut rules = pod.levels.iter().flat_map(|rules| rules.iter());
    rules.any(|rule| rule.bound == LevelBound::Required && rule.of == RuleScope::Job)
}

/// True if the pod is to be in one part of a level with others of its role.
pub(crate) fn is_to_be_with_its_role(pod: &Pod) -> bool {
    let mut rules = pod.levels.iter().flat_map(|rules| rules.iter());
    rules.any(|rule| rule.bound == LevelBound::Required && rule.of == RuleScope::Role)
}

/// True if two pods have the same role in their job. Here the role follows only from their owner,
/// or from their requests.
pub(crate) fn have_one_role(pod: &Pod, other: &Pod) -> bool {
    match (&pod.owner, &other.owner) {
        (None, None) => pod.shape == other.shape,
        (owner, other) => {
            owner.as_ref().map(|owner| &owner.uid) == other.as_ref().map(|owner| &owner.uid)
        }
    }
}

/// Returns the slice of its Job that is to be in one part of a level with this pod, where the index
/// gives it.
pub(crate) fn slice_of(pod: &Pod) -> Option<u32> {
    let size = pod.levels.iter().flat_map(|rules| rules.iter()).find_map(|rule| match rule.of {
        RuleScope::Slice(size) => Some(size),
        _ => None,
    });
    pod.completion_index.zip(size).map(|(index, size)| index / size)
}

/// Returns the spread over a level of the pods of its job.
pub(crate) fn spread_of(pod: &Pod) -> Option<Spread> {
    pod.levels.iter().flat_map(|rules| rules.iter()).find_map(|rule| match rule.bound {
        LevelBound::Spread(spread) => Some(spread),
        _ => None,
    })
}

/// Returns one of two host ports.
pub(crate) fn host_port(rng: &mut Rng) -> HostPort {
    let port = if rng.chance(50) { 8080 } else { 9090 };
    HostPort { ip: Arc::from("0.0.0.0"), protocol: Arc::from("TCP"), port }
}

fn zone(rng: &mut Rng) -> &'static str {
    ["a", "b", "c"][rng.weighted(&[5, 4, 1])]
}

fn kind(rng: &mut Rng) -> &'static str {
    if rng.chance(60) { "plain" } else { "fat" }
}

/// Makes the labels of a node, sorted by key. They are drawn again when the node is relabelled.
pub(crate) fn node_labels(name: &NodeName, rng: &mut Rng) -> Vec<(Arc<str>, Arc<str>)> {
    let zone = if rng.chance(60) { "a" } else { "b" };
    vec![
        (Arc::from(KIND), Arc::from(kind(rng))),
        (Arc::from(HOST), Arc::from(&**name)),
        (Arc::from(ZONE), Arc::from(zone)),
    ]
}

/// Makes a node that has just joined.
pub(crate) fn node(name: NodeName, uid: Uid, rng: &mut Rng) -> Node {
    Node {
        allocatable: allocatable(rng),
        labels: node_labels(&name, rng),
        name,
        uid,
        taints: Vec::new(),
        unschedulable: false,
        readiness: if rng.chance(5) { Readiness::NotReady } else { Readiness::Ready },
        declared_features: Vec::new(),
    }
}

/// Makes the amounts of a node. They are drawn again when the node is resized.
pub(crate) fn allocatable(rng: &mut Rng) -> Resources {
    let mut allocatable = Resources::new();
    allocatable.set("pods", rng.between(4, 12));
    allocatable.set("cpu", rng.between(2, 9) * 1000);
    allocatable.set("memory", rng.between(4, 16) * GIB);
    if rng.chance(40) {
        allocatable.set("nvidia.com/gpu", rng.between(1, 4));
    }
    allocatable
}

/// Makes a namespace with Jobs that may wait without pods.
pub(crate) fn suspending(name: &str) -> Namespace {
    let label = (names::ADMISSION_SUSPEND.into(), names::ENABLED.into());
    Namespace {
        name: name.into(),
        uid: name.into(),
        labels: [label].into(),
        queue: None,
        paused: None,
    }
}

/// The namespace of Fluxqueue.
pub(crate) const OWN_NAMESPACE: &str = "fluxqueue-system";

/// Makes the namespace of Fluxqueue, paused or not.
pub(crate) fn own_namespace(is_paused: bool) -> Namespace {
    Namespace {
        name: OWN_NAMESPACE.into(),
        uid: OWN_NAMESPACE.into(),
        labels: [].into(),
        queue: None,
        paused: is_paused.then(|| "by an administrator".into()),
    }
}
