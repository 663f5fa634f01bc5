use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Applicants, Horizon, Site};
use crate::NodePolicy;
use crate::cluster::{Cluster, Company, Node, Topology};
use crate::fluxion::{Rank, RankSet};
use crate::ledger::Ledger;
use fluxqueue_workload::{Pod, ShapeInterner};

fn cluster(nodes: &[Value]) -> (Cluster, Ledger) {
    let mut cluster = Cluster::default();
    let graph = NodePolicy::First.graph(fluxion_sys::FunctionTable::builtin()).unwrap();
    let mut ledger = Ledger::new(graph, Arc::new(Topology::default()));
    for node in nodes {
        let (node, _) = Node::from_kubernetes(&serde_json::from_value(node.clone()).unwrap())
            .expect("the node has a name");
        ledger.apply_node(&mut cluster, &Arc::new(node));
    }
    (cluster, ledger)
}

fn node(name: &str, zone: &str, more: &Value) -> Value {
    let mut node = json!({
        "metadata": {
            "name": name,
            "uid": name,
            "labels": {"kubernetes.io/hostname": name, "zone": zone},
        },
        "spec": {},
        "status": {
            "allocatable": {"cpu": "4", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    merge(&mut node, more);
    node
}

fn pod(name: &str, spec: &Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    });
    merge(&mut pod, &json!({"spec": spec}));
    Pod::from_kubernetes(&serde_json::from_value(pod).unwrap(), &mut ShapeInterner::new()).unwrap()
}

fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more.clone(),
    }
}

fn with_port(port: u16) -> Value {
    json!({"containers": [{
        "name": "c",
        "ports": [{"containerPort": port, "hostPort": port}],
        "resources": {"requests": {"cpu": "1"}},
    }]})
}

fn apart_by(key: &str) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "labelSelector": {"matchLabels": {"app": "x"}},
        "topologyKey": key,
    }]}}})
}

fn near_by(key: &str) -> Value {
    json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "labelSelector": {"matchLabels": {"app": "x"}},
        "topologyKey": key,
    }]}}})
}

fn spread_by(key: &str) -> Value {
    json!({"topologySpreadConstraints": [{
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }]})
}

/// Nodes of which each rule closes some, with pods on them.
fn world() -> (Cluster, Ledger) {
    let (mut cluster, ledger) = cluster(&[
        node("plain", "a", &json!({})),
        node("cordoned", "a", &json!({"spec": {"unschedulable": true}})),
        node(
            "tainted",
            "b",
            &json!({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}}),
        ),
        node("small", "b", &json!({"status": {"allocatable": {"cpu": "500m"}}})),
        node("used", "b", &json!({})),
        node("unlabelled", "b", &json!({"metadata": {"labels": {"zone": ""}}})),
    ]);
    let mut put = |node: &str, pod: Pod| {
        let rank = cluster.rank(node).unwrap();
        cluster.put(rank, &pod);
    };
    put("used", pod("port", &with_port(80)));
    put("used", pod("port-2", &with_port(81)));
    put("cordoned", pod("other", &json!({})));
    put("plain", pod("apart", &apart_by("kubernetes.io/hostname")));
    (cluster, ledger)
}

fn questions() -> Vec<Pod> {
    [
        json!({}),
        json!({"nodeSelector": {"zone": "a"}}),
        json!({"tolerations": [{"operator": "Exists"}]}),
        with_port(80),
        with_port(8080),
        apart_by("kubernetes.io/hostname"),
        apart_by("zone"),
        near_by("zone"),
        near_by("kubernetes.io/hostname"),
        spread_by("zone"),
        spread_by("kubernetes.io/hostname"),
    ]
    .iter()
    .map(|spec| pod("question", spec))
    .collect()
}

/// The sets of nodes that the list gives for a class of pods, and its answers for one node after
/// the other, are two ways to the same result.
#[test]
fn what_is_open_to_a_class_of_pods_is_what_each_node_admits() {
    let (mut cluster, mut ledger) = world();
    let ranks: Vec<Rank> = cluster.nodes().present().iter().collect();
    let mut refused_somewhere = 0;
    for pod in questions() {
        let stance = cluster.neighbours().stance(&pod);
        let alone = Applicants::alone(&pod, &stance);
        let mut site = Site { cluster: &mut cluster, ledger: &mut ledger };
        let open = super::open(&mut site, &alone, Horizon::Now);
        let refusals = super::refusals(&mut site, &alone, &RankSet::new());
        let (mut admitted, mut counts) = (RankSet::new(), BTreeMap::<String, usize>::new());
        for rank in &ranks {
            let rejections = super::judge(&mut cluster, *rank, &pod);
            if rejections.is_empty() {
                admitted.insert(*rank);
            }
            for rejection in rejections {
                *counts.entry(rejection.reason().into_owned()).or_default() += 1;
            }
        }
        let has_room = |rank: &Rank| super::has_room(&cluster, *rank, &pod.shape);
        let with_room: RankSet = open.iter().filter(has_room).collect();
        assert_eq!(with_room, admitted, "{:?}", pod.shape.constraints);
        assert_eq!(refusals, counts, "{:?}", pod.shape.constraints);
        refused_somewhere += counts.len();
    }
    assert!(refused_somewhere > 20, "the world has nodes that each rule closes");
}

#[test]
fn a_horizon_closes_no_more_than_a_nearer_one() {
    let (mut cluster, mut ledger) = world();
    for pod in questions() {
        let stance = cluster.neighbours().stance(&pod);
        let mut site = Site { cluster: &mut cluster, ledger: &mut ledger };
        let alone = Applicants::alone(&pod, &stance);
        let [now, some_day, lasting] = [Horizon::Now, Horizon::SomeDay, Horizon::Lasting]
            .map(|horizon| super::open(&mut site, &alone, horizon));
        assert!(now.is_subset(&some_day), "{:?}", pod.shape.constraints);
        assert!(some_day.is_subset(&lasting), "{:?}", pod.shape.constraints);
    }
}

#[test]
fn a_gang_reads_each_closed_node_under_the_first_rule_that_closes_it() {
    let (mut cluster, mut ledger) = world();
    let pod = pod("gang", &with_port(80));
    let stance = cluster.neighbours().stance(&pod);
    let gang = Applicants { company: Company::Together, ..Applicants::alone(&pod, &stance) };
    let mut site = Site { cluster: &mut cluster, ledger: &mut ledger };
    let open = super::open(&mut site, &gang, Horizon::Now);
    let mut left = site.cluster.nodes().present().clone();
    for (nodes, rejection) in super::closed(&mut site, &gang) {
        assert!(nodes.is_subset(&left), "{rejection:?} names nodes that another rule has named");
        left.subtract(&nodes);
    }
    assert_eq!(left, open);
}

#[test]
fn a_queue_closes_the_nodes_that_it_does_not_select() {
    let (mut cluster, mut ledger) = world();
    let of_queue = pod("queue", &json!({"nodeSelector": {"zone": "b"}})).shape.constraints.clone();
    let pod = pod("p", &json!({}));
    let stance = cluster.neighbours().stance(&pod);
    let queued = Applicants { queue: Some(&of_queue), ..Applicants::alone(&pod, &stance) };
    let plain = cluster.rank("plain").unwrap();
    let used = cluster.rank("used").unwrap();
    let mut site = Site { cluster: &mut cluster, ledger: &mut ledger };
    let open = super::open(&mut site, &queued, Horizon::Now);
    assert!(open.contains(used) && !open.contains(plain), "{open:?}");
    let refusals = super::refusals(&mut site, &queued, &RankSet::new());
    assert_eq!(
        refusals.get("node(s) didn't match the nodeSelector of its queue"),
        Some(&2),
        "{refusals:?}"
    );
}

#[test]
fn a_node_in_quarantine_is_closed_until_it_is_trusted_again() {
    let (mut cluster, mut ledger) = world();
    let rank = cluster.rank("unlabelled").unwrap();
    let pod = pod("p", &json!({}));
    let stance = cluster.neighbours().stance(&pod);
    let alone = Applicants::alone(&pod, &stance);
    let before = super::version(&cluster, &alone);
    cluster.quarantine_mut().add(rank);
    assert!(super::version(&cluster, &alone) > before);
    let mut open = |horizon| {
        let mut site = Site { cluster: &mut cluster, ledger: &mut ledger };
        super::open(&mut site, &alone, horizon).contains(rank)
    };
    let horizons = [Horizon::Now, Horizon::SomeDay, Horizon::Lasting];
    assert_eq!(horizons.map(&mut open), [false, false, true]);
    let mut site = Site { cluster: &mut cluster, ledger: &mut ledger };
    let refusals = super::refusals(&mut site, &alone, &RankSet::new());
    assert_eq!(refusals.get("node(s) refused a pod a moment ago"), Some(&1), "{refusals:?}");
    cluster.quarantine_mut().remove(rank);
    let mut site = Site { cluster: &mut cluster, ledger: &mut ledger };
    assert!(super::open(&mut site, &alone, Horizon::Now).contains(rank));
}

#[test]
fn the_audit_finds_what_is_counted_wrong_and_counts_it_again() {
    let (mut cluster, mut ledger) = cluster(&[node("n", "a", &json!({}))]);
    let rank = cluster.rank("n").unwrap();
    let (there, gone) = (pod("there", &with_port(80)), pod("gone", &with_port(81)));
    // One pod is counted that is gone, and one is not that is there. Both use as much CPU.
    cluster.put(rank, &gone);
    let shapes = [Arc::clone(&there.shape)];
    let mut site = Site { cluster: &mut cluster, ledger: &mut ledger };
    let differences = super::differences(&mut site, rank, &shapes).join("\n");
    for port in ["80", "81"] {
        assert!(differences.contains(port), "{differences}");
    }
    super::recount(&mut cluster, rank, &shapes);
    let [free, taken] =
        [81, 80].map(|port| super::judge(&mut cluster, rank, &pod("p", &with_port(port))));
    assert_eq!((free.len(), taken.len()), (0, 1));
    let mut site = Site { cluster: &mut cluster, ledger: &mut ledger };
    let of_graph = super::differences(&mut site, rank, &shapes);
    assert!(of_graph.iter().all(|text| text.contains("the resource graph")), "{of_graph:?}");
}
