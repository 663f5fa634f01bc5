//! The way back: an older Fluxqueue reads the FluxJobs that this one writes. `older/` has the
//! fields that each older version reads, as its own definition had them.
#![expect(clippy::unwrap_used, reason = "a panic is a test's report, also of what its tests share")]

use std::fs;
use std::path::Path;

use flux_lists::hostlist;
use fluxqueue_api::{FluxJobStatus, Reservation, placement};
use serde_json::Value;

/// Required fields that this version writes though its own definition does not require them, while
/// they are short. [`written_names_of_nodes_are_read_by_older_versions`] looks at them.
const WRITTEN_WHILE_SHORT: [&str; 2] = [".status.placement[].nodes", ".status.reservation.nodes"];

/// Values that are newer than some version that reads the field, each with its way back in
/// docs/versions.md.
const NEWER: [&str; 1] = [".spec.workloadRef.kind: may be PodGroup"];

fn read(path: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = fs::read_to_string(&path).unwrap();
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn older() -> Value {
    read("tests/older/1b91024.yaml")
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().map(|value| value.as_str().unwrap())
}

/// Collects the contradictions between the definition of this version and that of an older one: an
/// object that the first allows and the second could not read.
fn compare(older: &Value, newer: &Value, path: &str, found: &mut Vec<String>) {
    if !older["type"].is_null() && older["type"] != newer["type"] {
        found.push(format!("{path}: type {}, and not {}", newer["type"], older["type"]));
    }
    for required in strings(&older["required"]) {
        let field = format!("{path}.{required}");
        if !strings(&newer["required"]).any(|name| name == required)
            && newer["properties"][required]["default"].is_null()
            && !WRITTEN_WHILE_SHORT.contains(&&*field)
        {
            found.push(format!("{field}: may be absent"));
        }
    }
    if !older["enum"].is_null() {
        let known: Vec<&str> = strings(&older["enum"]).collect();
        let unknown = strings(&newer["enum"]).filter(|value| !known.contains(value));
        found.extend(unknown.map(|value| format!("{path}: may be {value}")));
        if newer["enum"].is_null() {
            found.push(format!("{path}: may be anything"));
        }
    }
    for (name, older) in older["properties"].as_object().into_iter().flatten() {
        let newer = &newer["properties"][name];
        if newer.is_null() {
            found.push(format!("{path}.{name}: is gone"));
        } else {
            compare(older, newer, &format!("{path}.{name}"), found);
        }
    }
    for (of_parts, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if !older[of_parts].is_null() {
            compare(&older[of_parts], &newer[of_parts], &format!("{path}{suffix}"), found);
        }
    }
}

#[test]
fn an_older_version_knows_the_values_of_its_fields() {
    let newer = read("../manifests/chart/files/crds/fluxjobs.yaml");
    let newer = &newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut found = Vec::new();
    compare(&older(), newer, "", &mut found);
    assert_eq!(found, NEWER);
}

/// Returns the required fields that an object lacks.
fn lacks(schema: &Value, object: &Value, path: &str) -> Vec<String> {
    let mut found: Vec<String> = strings(&schema["required"])
        .filter(|name| object.get(name).is_none())
        .map(|name| format!("{path}.{name}"))
        .collect();
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = object.get(name) {
            found.extend(lacks(schema, value, &format!("{path}.{name}")));
        }
    }
    for (at, item) in object.as_array().into_iter().flatten().enumerate() {
        found.extend(lacks(&schema["items"], item, &format!("{path}[{at}]")));
    }
    found
}

#[test]
fn written_names_of_nodes_are_read_by_older_versions() {
    let names = |count: u64| -> Vec<String> {
        // Names of a cloud, which share no number.
        let number = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        (0..count).map(|at| format!("gke-pool-{:012x}-abcd", number(at))).collect()
    };
    let written = |count| {
        let names = names(count);
        let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut status = FluxJobStatus {
            placement: placement::compress("set-0", &nodes),
            reservation: Some(Reservation {
                nodes: hostlist::encode_set(nodes.iter().copied()),
                ..Reservation::default()
            }),
            ..FluxJobStatus::default()
        };
        placement::compact(&mut status).unwrap();
        serde_json::to_value(&status).unwrap()
    };
    let schema = &older()["properties"]["status"];
    assert_eq!(lacks(schema, &written(200), ""), Vec::<String>::new());
    // Longer ones are written once, in `nodeList`.
    assert_eq!(lacks(schema, &written(5000), ""), [".placement[0].nodes", ".reservation.nodes"]);
}
