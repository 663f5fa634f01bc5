//! The examples that need no more than a default installation, applied to one: each job does what
//! the annotation in its manifest says.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{ControlPlane, Namespace, root, within};

/// The annotation, as demo/src/expect.rs explains it. Only its outcome is checked here.
const EXPECTED: &str = "fluxqueue-demo/expect";

/// The longest time for all of them together: some wait for others.
const ALL_WITHIN: Duration = Duration::from_mins(4);

/// Returns the manifests of the examples that need nothing else.
fn manifests() -> Vec<String> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(root().join("manifests/examples")).expect("a folder") {
        let path = entry.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = std::fs::read_to_string(&path).expect("text");
            if !text.starts_with("# Needs ") {
                all.push(text);
            }
        }
    }
    all
}

/// Returns the expected outcome of each workload, by kind and name.
fn expected(manifests: &[String]) -> BTreeMap<(String, String), String> {
    let mut all = BTreeMap::new();
    for manifest in manifests {
        for object in serde_saphyr::from_multiple::<Value>(manifest).expect("YAML") {
            let text = |path: &str| object.pointer(path).and_then(Value::as_str).map(str::to_owned);
            if let Some(outcome) = object["metadata"]["annotations"][EXPECTED].as_str() {
                let outcome = outcome.split(", ").next().expect("an outcome").to_owned();
                all.insert(
                    (text("/kind").expect("a kind"), text("/metadata/name").expect("a name")),
                    outcome,
                );
            }
        }
    }
    all
}

/// Returns the outcome of a workload so far, in the words of the annotation.
fn outcome(objects: &[Value], kind: &str, name: &str) -> Option<String> {
    let is_record = |object: &&Value| {
        let workload = &object["spec"]["workloadRef"];
        workload["name"] == name && (workload["kind"] == kind || workload["kind"] == "Group")
    };
    let state = objects.iter().find(is_record).and_then(|it| it["status"]["state"].as_str());
    if let Some(state @ ("Unsatisfiable" | "Refused")) = state {
        return Some(state.to_owned());
    }
    let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
    let status = &objects.iter().find(is_it)?["status"];
    let failed = |reason: &Value| Some(format!("Failed: {}", reason.as_str()?));
    match kind {
        "Pod" => match status["phase"].as_str()? {
            "Running" => Some("Running: 1".to_owned()),
            "Succeeded" => Some("Complete".to_owned()),
            "Failed" => failed(&status["reason"]),
            _ => None,
        },
        "Job" => {
            let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
            let is = |name: &str| {
                conditions.iter().find(|it| it["type"] == name && it["status"] == "True")
            };
            match (is("Complete"), is("Failed")) {
                (Some(_), _) => Some("Complete".to_owned()),
                (_, Some(condition)) => failed(&condition["reason"]),
                _ => Some(format!("Running: {}", status["ready"].as_u64()?)),
            }
        }
        _ => Some(format!("Running: {}", status["readyReplicas"].as_u64()?)),
    }
}

/// Returns all objects of the namespace that have an outcome.
fn objects(ns: &Namespace<'_>) -> Vec<Value> {
    let kinds = "fluxjobs,pods,jobs,deployments,replicasets,statefulsets";
    let list: Value =
        serde_json::from_str(&ns.kubectl(&["get", kinds, "-o", "json"])).expect("JSON");
    list["items"].as_array().expect("a list").clone()
}

/// Writes the settings of a default installation to a file, and returns the flag that names it.
fn settings(plane: &ControlPlane) -> String {
    let path = root().join("manifests/chart/files/base/settings.yaml");
    let text = std::fs::read_to_string(path).expect("the settings");
    let map: Value = serde_saphyr::from_str(&text).expect("YAML");
    let files = map["data"].as_object().expect("files");
    let settings = files.values().next().and_then(Value::as_str).expect("a file");
    let path = plane.dir.join("settings.yaml");
    std::fs::write(&path, settings).expect("it is written");
    format!("--config={}", path.display())
}

#[test]
fn the_examples_run_on_a_default_installation() {
    let nodes = std::fs::read_to_string(root().join("tests/testbed/nodes/demo.yaml"))
        .expect("the nodes of the demo");
    let plane = ControlPlane::start(&nodes, &[]);
    let _fluxqueue = plane.fluxqueue(&[&settings(&plane)]);
    let ns = plane.namespace("examples");
    let manifests = manifests();
    let mut others = expected(&manifests);
    assert!(others.len() > 30, "{}", others.len());
    for manifest in &manifests {
        ns.apply(manifest);
    }
    within(ALL_WITHIN, "each example to do what it says", || {
        let objects = objects(&ns);
        others.retain(|(kind, name), it| outcome(&objects, kind, name).as_ref() != Some(it));
        others.is_empty().then_some(())
    });
}
