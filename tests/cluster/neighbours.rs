//! Two Fluxqueues in one cluster, each with scheduler names and a Lease of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{ControlPlane, Fluxqueue, Namespace, job, node_of, planned, pod, until};

const NAMES: [&str; 2] = ["alpha", "beta"];

fn start(plane: &ControlPlane, name: &str) -> Fluxqueue {
    let (served, lease) =
        (format!("--scheduler-name={name}"), format!("--leader-elect-resource-name={name}"));
    plane.fluxqueue(&["--leader-elect=true", &served, &lease])
}

/// Returns uid and placement of each FluxJob, by the name of its workload.
fn records(ns: &Namespace<'_>) -> BTreeMap<String, Value> {
    let of = |job: &Value| job["spec"]["workloadRef"]["name"].as_str().unwrap_or("").to_owned();
    ns.list("fluxjobs").into_iter().map(|job| (of(&job), job)).collect()
}

/// Returns the number of pods of one workload on each node.
fn nodes_of(ns: &Namespace<'_>, workload: &str) -> BTreeMap<String, usize> {
    let mut nodes = BTreeMap::new();
    for pod in ns.list("pods") {
        let labels = &pod["metadata"]["labels"];
        if labels["job-name"] == workload || labels["fluxqueue.pod-group"] == workload {
            *nodes.entry(node_of(&pod).to_owned()).or_default() += 1;
        }
    }
    nodes
}

#[test]
fn each_fluxqueue_has_its_own_jobs_and_leaves_the_others_alone() {
    let nodes = "groups:\n- {namePrefix: n-, count: 20, cpu: '4', memory: 16Gi, pods: 110}\n";
    let plane = ControlPlane::start(nodes, &[]);
    // The manifests allow the Lease of the default name only.
    let role = [
        "--verb=get,update,patch",
        "--resource=leases.coordination.k8s.io",
        "-n",
        "fluxqueue-system",
    ];
    plane.kubectl(&[&["create", "role", "other-leases"], &role[..]].concat());
    let account = [
        "--role=other-leases",
        "--serviceaccount=fluxqueue-system:fluxqueue",
        "-n",
        "fluxqueue-system",
    ];
    plane.kubectl(&[&["create", "rolebinding", "other-leases"], &account[..]].concat());
    let [mut alpha, _beta] = NAMES.map(|name| start(&plane, name));
    let ns = plane.namespace("neighbours");
    let mut known: BTreeMap<String, Value> = BTreeMap::new();
    for number in 0..12_usize {
        let scheduler = NAMES[number % 2];
        let own = |text: String| {
            text.replace("schedulerName: fluxqueue", &format!("schedulerName: {scheduler}"))
        };
        let name = format!("{}-{number}", if number % 4 < 2 { "job" } else { "group" });
        if number % 4 < 2 {
            ns.apply(&own(job(&name, 3, "1", "infinity")));
        } else {
            let labels =
                format!("  labels: {{fluxqueue.pod-group: {name}, fluxqueue.group-size: '3'}}");
            ns.apply(&own((0..3)
                .map(|member| pod(&format!("{name}-{member}"), "1", "infinity", &labels))
                .collect()));
        }
        // The pods come one after the other, so that none is refused by a node that both schedulers
        // fill at once.
        ns.running(3 * (number + 1));
        until(&format!("a right placement of {name}"), || {
            let record = records(&ns).remove(&name)?;
            let is_right = record["status"]["placement"].is_array()
                && planned(&record) == nodes_of(&ns, &name);
            is_right.then(|| drop(known.insert(name.clone(), record)))
        });
        check(&ns, &known);
    }
    // By now, and after a restart of either, each would have changed the other's objects if it did
    // so at all.
    std::thread::sleep(Duration::from_secs(5));
    check(&ns, &known);
    assert_eq!(alpha.terminate(), Some(0));
    let _alpha = start(&plane, NAMES[0]);
    std::thread::sleep(Duration::from_secs(5));
    check(&ns, &known);
    assert_eq!(plane.testbed(&["refusals"]).trim(), "0");
}

/// Checks that every FluxJob is still the same object, and that its placement matches the nodes of
/// its pods.
fn check(ns: &Namespace<'_>, known: &BTreeMap<String, Value>) {
    let now = records(ns);
    assert_eq!(now.keys().collect::<Vec<_>>(), known.keys().collect::<Vec<_>>());
    for (name, record) in &now {
        assert_eq!(
            record["metadata"]["uid"], known[name]["metadata"]["uid"],
            "{name} was deleted and made again"
        );
        assert_eq!(
            record["status"]["placement"], known[name]["status"]["placement"],
            "{name} was rewritten"
        );
        assert_eq!(planned(record), nodes_of(ns, name), "{name}");
    }
}
