//! Pods that prefer some nodes to others, because of the nodes' labels or taints or because of the
//! pods on them.

use serde_json::{Value, json};

use super::cases::{self, Case, Question};
use super::kube_scheduler::Answer;
use super::ours;
use super::rng::Rng;
use super::storage;
use super::terms;

/// Number of waiting pods per cluster.
const QUESTIONS: usize = 10;

/// The part of kube-scheduler's scores that counts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Counts {
    /// The scores of all default plugins.
    Everything,
    /// The scores of preferences of pods, nodes and other pods, without those of the use of nodes.
    Preferences,
}

/// Makes a cluster that is larger and emptier than those of [`Case::of`], so that there is a
/// choice, and pods that prefer some nodes.
pub(crate) fn case(seed: u64) -> Case {
    asked_by(seed, QUESTIONS)
}

/// Makes the same cluster with one waiting pod.
pub(crate) fn case_of_one(seed: u64) -> Case {
    asked_by(seed, 1)
}

fn asked_by(seed: u64, questions: usize) -> Case {
    let mut rng = Rng::new(seed ^ 0x5c0_7e5);
    let nodes = rng.between(10, 60);
    Case {
        seed,
        namespaces: cases::namespaces(&mut rng),
        nodes: (0..nodes).map(|at| node(&mut rng, at)).collect(),
        storage: storage::none(),
        nominated: Vec::new(),
        pods: (0..rng.between(0, 3 * nodes)).map(|at| placed(&mut rng, at, nodes)).collect(),
        questions: (0..questions)
            .map(|at| Question { pod: preferring(&mut rng, at), scores: true })
            .collect(),
    }
}

fn node(rng: &mut Rng, at: usize) -> Value {
    let mut node = cases::node(rng, at);
    node["status"]["allocatable"]["pods"] = json!("20");
    let preferring = |rng: &mut Rng| {
        let (key, value) = (*rng.pick(&["dedicated", "broken"]), *rng.pick(&["", "x", "y"]));
        json!({"key": key, "value": value, "effect": "PreferNoSchedule"})
    };
    if rng.chance(30) {
        node["spec"]["taints"] = json!(rng.some(2, preferring));
        node["status"]["conditions"] = json!([]);
    }
    node
}

fn placed(rng: &mut Rng, at: usize, nodes: usize) -> Value {
    let mut pod = cases::placed(rng, at, nodes);
    simplify(&mut pod);
    if rng.chance(25) {
        pod["spec"]["affinity"] = json!({});
        for kind in ["podAffinity", "podAntiAffinity"] {
            if rng.chance(60) {
                pod["spec"]["affinity"][kind] = preferred_terms(rng);
            }
        }
    } else if rng.chance(10) {
        let required = vec![terms::pod_term(rng)];
        pod["spec"]["affinity"] =
            json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
    }
    pod
}

/// Leaves one container and no volumes. For a container without requests kube-scheduler assumes a
/// default for each container, where our score assumes one for the pod.
fn simplify(pod: &mut Value) {
    for list in ["volumes", "initContainers"] {
        pod["spec"][list] = json!([]);
    }
    pod["spec"]["containers"].as_array_mut().unwrap().truncate(1);
    for field in ["overhead", "resources"] {
        pod["spec"][field] = Value::Null;
    }
    // A kubelet reports all requests of a container and no others, as actual and as allocated.
    // Otherwise kube-scheduler assumes the default in one sum of resources, and not in another.
    let requests = pod["spec"]["containers"][0]["resources"]["requests"].clone();
    let statuses = pod.pointer_mut("/status/containerStatuses").and_then(Value::as_array_mut);
    for status in statuses.into_iter().flatten() {
        for list in ["/resources/requests", "/allocatedResources"] {
            let Some(amounts) = status.pointer_mut(list) else { continue };
            for name in ["cpu", "memory"] {
                match requests.get(name) {
                    Some(asked) if amounts.get(name).is_none() => amounts[name] = asked.clone(),
                    None => drop(amounts.as_object_mut().unwrap().remove(name)),
                    Some(_) => {}
                }
            }
        }
        if status.get("allocatedResources").is_none()
            && let Some(actual) = status.pointer("/resources/requests").cloned()
        {
            status["allocatedResources"] = actual;
        }
    }
}

fn preferring(rng: &mut Rng, at: usize) -> Value {
    let mut pod = cases::pod(rng, &format!("preferring-{at}"), 1);
    simplify(&mut pod);
    pod["spec"]["schedulerName"] = json!(cases::SCHEDULER);
    let spec = &mut pod["spec"];
    if rng.chance(50) {
        let term = |rng: &mut Rng| {
            let requirements = vec![terms::node_requirement(rng)];
            json!({"weight": rng.between(1, 100), "preference": {"matchExpressions": requirements}})
        };
        let terms: Vec<Value> = (0..rng.between(1, 3)).map(|_| term(rng)).collect();
        spec["affinity"]["nodeAffinity"] =
            json!({"preferredDuringSchedulingIgnoredDuringExecution": terms});
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        if rng.chance(35) {
            spec["affinity"][kind] = preferred_terms(rng);
        }
    }
    let mut spreads: Vec<Value> = Vec::new();
    for _ in 0..if rng.chance(50) { rng.between(1, 2) } else { 0 } {
        let mut spread = terms::spread(rng);
        if rng.chance(85) {
            spread["whenUnsatisfiable"] = json!("ScheduleAnyway");
            spread.as_object_mut().map(|spread| spread.remove("minDomains"));
        }
        spreads.push(spread);
    }
    // The API server rejects two constraints with the same key and the same `whenUnsatisfiable`.
    spreads.dedup_by_key(|spread| {
        (spread["topologyKey"].clone(), spread["whenUnsatisfiable"].clone())
    });
    spec["topologySpreadConstraints"] = json!(spreads);
    if rng.chance(40) {
        spec["tolerations"] = json!([terms::toleration(rng)]);
    }
    pod
}

fn preferred_terms(rng: &mut Rng) -> Value {
    let term = |rng: &mut Rng| json!({"weight": rng.between(1, 100), "podAffinityTerm": terms::pod_term(rng)});
    let terms: Vec<Value> = (0..rng.between(1, 2)).map(|_| term(rng)).collect();
    json!({"preferredDuringSchedulingIgnoredDuringExecution": terms})
}

/// True if fewer than a tenth of the nodes that pass have a higher score.
pub(crate) fn is_of_the_best_tenth(answer: &Answer, node: &str, counts: Counts) -> bool {
    let total = |node: &str| -> i64 {
        let scores = answer.passing[node].as_ref();
        match counts {
            Counts::Everything => scores.into_iter().flat_map(|scores| scores.values()).sum(),
            Counts::Preferences => {
                ours::PREFERENCES.iter().map(|plugin| ours::by_plugin(scores, plugin)).sum()
            }
        }
    };
    let chosen = total(node);
    let better = answer.passing.keys().filter(|other| total(other) > chosen).count();
    better * 10 < answer.passing.len()
}
