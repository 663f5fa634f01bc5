//! Random tolerations, and terms of affinity and spread.

use serde_json::{Value, json};

use super::kubernetes;
use super::names::{POD_LABELS, RACKS, TOPOLOGY_KEYS, UNREACHABLE, ZONES};
use super::rng::Rng;

pub(crate) fn toleration(rng: &mut Rng) -> Value {
    // Lt and Gt are alpha in Kubernetes 1.36, and off by default: such a toleration tolerates
    // nothing.
    let operators = [
        "Equal", "Equal", "Equal", "Equal", "Exists", "Exists", "Exists", "Exists", "Exists", "Lt",
        "Gt",
    ];
    let mut toleration = json!({"operator": rng.pick(&operators)});
    let keys = ["dedicated", "broken", "node.kubernetes.io/unschedulable", UNREACHABLE];
    if toleration["operator"] != "Exists" || rng.chance(85) {
        toleration["key"] = json!(rng.pick(&keys));
    }
    if toleration["operator"] == "Equal" {
        toleration["value"] = json!(rng.pick(&["", "x", "y"]));
        if rng.chance(30) {
            toleration.as_object_mut().unwrap().remove("operator");
        }
    }
    if rng.chance(50) {
        toleration["effect"] = json!(rng.pick(&["NoSchedule", "NoExecute", "PreferNoSchedule"]));
    }
    toleration
}

/// Makes a term of node affinity. One in five names nodes.
pub(crate) fn node_term(rng: &mut Rng, nodes: usize) -> Value {
    if rng.chance(20) {
        let name = |rng: &mut Rng| {
            let operator = rng.pick(&["In", "In", "NotIn"]);
            let node = format!("n{}", rng.between(0, nodes));
            json!({"key": "metadata.name", "operator": operator, "values": [node]})
        };
        let names: Vec<Value> = (0..rng.between(1, 2)).map(|_| name(rng)).collect();
        let mut term = json!({"matchFields": names});
        if rng.chance(30) {
            term["matchExpressions"] = json!([node_requirement(rng)]);
        }
        return term;
    }
    json!({"matchExpressions": rng.some(2, node_requirement)})
}

pub(crate) fn node_requirement(rng: &mut Rng) -> Value {
    match rng.between(0, 6) {
        0 => {
            let operator = rng.pick(&["Gt", "Lt"]);
            json!({"key": "cores", "operator": operator, "values": [rng.between(1, 32).to_string()]})
        }
        3 => {
            json!({"key": "kubernetes.io/hostname", "operator": rng.pick(&["In", "NotIn"]), "values": ["n0", "n1", "n2"]})
        }
        4 => json!({"key": "disk", "operator": rng.pick(&["In", "NotIn"]), "values": ["ssd"]}),
        1 => json!({"key": "disk", "operator": rng.pick(&["Exists", "DoesNotExist"])}),
        2 => {
            json!({"key": "rack", "operator": "NotIn", "values": [rng.pick(&RACKS), rng.pick(&RACKS)]})
        }
        _ => {
            json!({"key": "zone", "operator": "In", "values": [rng.pick(&ZONES), rng.pick(&ZONES)]})
        }
    }
}

/// Makes a term of inter-pod affinity as the API server stores it: matchLabelKeys are merged into
/// its selector.
pub(crate) fn pod_term(rng: &mut Rng) -> Value {
    let mut term = json!({"topologyKey": rng.pick(&TOPOLOGY_KEYS)});
    if rng.chance(95) {
        term["labelSelector"] = pod_selector(rng);
    }
    if rng.chance(30) {
        let namespaces = ["a", "b", "c", "d"];
        term["namespaces"] =
            json!((0..rng.between(1, 2)).map(|_| *rng.pick(&namespaces)).collect::<Vec<&str>>());
    }
    // The API server has merged these keys into the selector, and kube-scheduler ignores the
    // fields.
    for keys in ["matchLabelKeys", "mismatchLabelKeys"] {
        if rng.chance(10) {
            term[keys] = json!([rng.pick(&["app", "tier", "none"])]);
        }
    }
    if rng.chance(20) {
        let is_newest = kubernetes::version() == kubernetes::SUPPORTED[0];
        let team = rng.pick(&["x", "y", "z"]);
        let expressions = |operator: &str, values: &[&str]| {
            let expression = json!({"key": "team", "operator": operator, "values": values});
            json!({"matchExpressions": [expression]})
        };
        term["namespaceSelector"] = match rng.between(0, 11) {
            0..3 => json!({}),
            3 | 4 => expressions("In", &[team, "x"]),
            5 => expressions("Exists", &[]),
            // By these, a waiting pod selects all namespaces in older versions.
            6 if is_newest => expressions("NotIn", &[team]),
            7 if is_newest => expressions("DoesNotExist", &[]),
            _ => json!({"matchLabels": {"team": team}}),
        };
    }
    term
}

pub(crate) fn spread(rng: &mut Rng) -> Value {
    let mut spread = json!({
        "maxSkew": rng.between(1, 3),
        "topologyKey": rng.pick(&TOPOLOGY_KEYS[..3]),
        "whenUnsatisfiable": "DoNotSchedule",
    });
    if rng.chance(90) {
        spread["labelSelector"] = pod_selector(rng);
    }
    if rng.chance(20) {
        spread["minDomains"] = json!(rng.between(1, 5));
    }
    for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        if rng.chance(40) {
            spread[policy] = json!(rng.pick(&["Honor", "Ignore"]));
        }
    }
    if rng.chance(25) {
        let keys = ["app", "tier", "version", "none"];
        let keys: Vec<&str> = (0..rng.between(1, 2)).map(|_| *rng.pick(&keys)).collect();
        spread["matchLabelKeys"] = json!(keys);
    }
    spread
}

fn pod_selector(rng: &mut Rng) -> Value {
    let label = |rng: &mut Rng| {
        let (key, values) = rng.pick(&POD_LABELS);
        (*key, *rng.pick(values))
    };
    let expression = |rng: &mut Rng| {
        let (key, value) = label(rng);
        let key = if rng.chance(5) { "none" } else { key };
        let operator = *rng.pick(&["In", "NotIn", "Exists", "DoesNotExist"]);
        let (_, other) = label(rng);
        let values = if rng.chance(30) { json!([value, other]) } else { json!([value]) };
        let values = if operator.ends_with("In") { values } else { json!([]) };
        json!({"key": key, "operator": operator, "values": values})
    };
    let mut selector = json!({});
    if rng.chance(60) {
        for _ in 0..rng.between(1, 2) {
            let (key, value) = label(rng);
            selector["matchLabels"][key] = json!(value);
        }
    }
    if rng.chance(40) {
        let expressions: Vec<Value> = (0..rng.between(1, 2)).map(|_| expression(rng)).collect();
        selector["matchExpressions"] = json!(expressions);
    }
    selector
}
