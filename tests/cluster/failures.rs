use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{ControlPlane, job, node_of, planned, pod, until, within};

const FIFTY: &str = "groups:\n- {namePrefix: n-, count: 50, cpu: '4', memory: 16Gi, pods: 110}\n";

#[test]
fn a_gang_of_200_survives_kill_9_at_any_moment() {
    let plane = ControlPlane::start(FIFTY, &[]);
    let mut fluxqueue = plane.fluxqueue(&[]);
    for round in 0..6_u64 {
        let ns = plane.namespace("kill");
        ns.apply(&job("gang", 200, "1", "infinity"));
        // The kill comes before the gang is complete, while it is being bound, or after.
        std::thread::sleep(Duration::from_millis(200 + round * 350));
        fluxqueue.kill();
        let before: BTreeMap<String, String> = bound(&ns.list("pods"));
        fluxqueue = plane.fluxqueue(&[]);
        let pods = ns.running(200);
        let after = bound(&pods);
        assert!(
            before.iter().all(|(pod, node)| after.get(pod) == Some(node)),
            "a bound pod has moved"
        );
        let record = ns.state("gang", "Running");
        let mut nodes = BTreeMap::new();
        for node in after.into_values() {
            *nodes.entry(node).or_default() += 1;
        }
        assert_eq!(planned(&record), nodes, "round {round}: pods are not where the placement says");
        // All 200 cores are in use. The pod fits only if cores have been freed by mistake.
        ns.apply(&pod("extra", "1", "infinity", ""));
        ns.flux_job("extra", "waits", |job| job["status"]["blockedBy"].is_array());
        ns.kubectl(&["delete", "job", "gang", "--wait=false"]);
        ns.kubectl(&["delete", "pods", "--all", "--grace-period=0", "--force"]);
        until("nothing to be left", || {
            (ns.list("pods").is_empty() && ns.list("fluxjobs").is_empty()).then_some(())
        });
    }
    assert_eq!(plane.testbed(&["refusals"]).trim(), "0", "a kubelet refused a pod");
}

fn bound(pods: &[Value]) -> BTreeMap<String, String> {
    let on_a_node = pods.iter().filter(|pod| !node_of(pod).is_empty());
    on_a_node.map(|pod| (pod["metadata"]["name"].to_string(), node_of(pod).to_owned())).collect()
}

#[test]
fn the_queue_keeps_its_order_over_a_restart() {
    let plane = ControlPlane::start(
        "groups:\n- {namePrefix: n-, count: 1, cpu: '2', memory: 16Gi, pods: 110}\n",
        &[],
    );
    let mut fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("order");
    ns.apply(&job("running", 1, "2", "infinity"));
    ns.running(1);
    // The names are in reverse order, so that an order by name would show.
    let names = ["d", "c", "b", "a"];
    for name in names {
        ns.apply(&job(name, 1, "2", "1"));
        ns.flux_job(name, "has its place", |job| job["status"]["queuedAt"].is_string());
    }
    let places = |ns: &crate::harness::Namespace<'_>| -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = ns
            .list("fluxjobs")
            .iter()
            .map(|job| {
                (
                    job["status"]["queuedAt"].to_string(),
                    job["spec"]["workloadRef"]["name"].to_string(),
                )
            })
            .collect();
        all.sort();
        all
    };
    let before = places(&ns);
    fluxqueue.kill();
    let _fluxqueue = plane.fluxqueue(&[]);
    ns.kubectl(&["delete", "job", "running", "--wait=false"]);
    ns.kubectl(&["delete", "pods", "-l", "job-name=running", "--grace-period=0", "--force"]);
    for name in names {
        ns.state(name, "Completed");
    }
    let after: Vec<_> = places(&ns);
    assert!(
        before.iter().filter(|(_, name)| name != "\"running\"").all(|place| after.contains(place)),
        "{before:?} {after:?}"
    );
    let mut ended: Vec<(String, String)> = ns
        .list("fluxjobs")
        .iter()
        .filter(|job| job["spec"]["workloadRef"]["name"] != "running")
        .map(|job| {
            (
                job["status"]["startTime"].to_string(),
                job["spec"]["workloadRef"]["name"].as_str().unwrap_or("").to_owned(),
            )
        })
        .collect();
    ended.sort();
    let order: Vec<&str> = ended.iter().map(|(_, name)| &**name).collect();
    assert_eq!(order, names);
}

#[test]
fn a_node_deleted_under_a_gang_is_replaced() {
    let plane = ControlPlane::start(
        "groups:\n- {namePrefix: n-, count: 5, cpu: '4', memory: 16Gi, pods: 110}\n",
        &[],
    );
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("lost");
    ns.apply(&job("gang", 8, "1", "infinity"));
    let pods = ns.running(8);
    let node = node_of(&pods[0]).to_owned();
    plane.kubectl(&["delete", "node", &node]);
    // The pod garbage collector removes the pods of a deleted node, which takes its time.
    within(Duration::from_mins(3), "8 pods running elsewhere", || {
        let elsewhere = |pod: &&Value| pod["status"]["phase"] == "Running" && node_of(pod) != node;
        (ns.list("pods").iter().filter(elsewhere).count() == 8).then_some(())
    });
    ns.flux_job("gang", "is whole again", |job| {
        job["status"]["displaySize"] == "8/8" && job["status"]["state"] == "Running"
    });
}

#[test]
fn the_api_server_may_go_away_and_come_back() {
    let plane = ControlPlane::start(FIFTY, &[]);
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("outage");
    ns.apply(&job("before", 10, "1", "infinity"));
    ns.running(10);
    plane.testbed(&["restart", "kube-apiserver"]);
    until("the API server", || plane.try_kubectl(&["get", "--raw", "/readyz"], "").0.then_some(()));
    ns.apply(&job("after", 10, "1", "infinity"));
    ns.running(20);
    assert_eq!(plane.testbed(&["refusals"]).trim(), "0");
}

#[test]
fn two_replicas_are_safe_and_the_second_takes_over() {
    let plane = ControlPlane::start(FIFTY, &[]);
    let quick = [
        "--leader-elect=true",
        "--leader-elect-lease-duration=4s",
        "--leader-elect-renew-deadline=3s",
        "--leader-elect-retry-period=500ms",
        "--bind-timeout=2s",
    ];
    let mut first = plane.fluxqueue(&quick);
    until("a leader", || {
        plane
            .try_kubectl(&["get", "lease", "-n", "fluxqueue-system", "fluxqueue"], "")
            .0
            .then_some(())
    });
    let mut second = plane.fluxqueue(&quick);
    let ns = plane.namespace("replicas");
    ns.apply(&job("one", 100, "1", "infinity"));
    ns.running(100);
    first.kill();
    ns.apply(&job("two", 100, "1", "infinity"));
    ns.running(200);
    assert_eq!(plane.testbed(&["refusals"]).trim(), "0");
    assert_eq!(second.terminate(), Some(0), "SIGTERM ends it cleanly");
}

/// Does the same as `kubectl rollout restart`: one replica after the other is told to end, and a
/// new one comes.
#[test]
fn an_upgrade_while_a_gang_of_200_is_bound_moves_no_pod() {
    let plane = ControlPlane::start(FIFTY, &[]);
    let replica = || plane.fluxqueue(&["--leader-elect=true", "--leader-elect-retry-period=500ms"]);
    let mut old = [replica(), replica()];
    for round in 0..2_u64 {
        let ns = plane.namespace("upgrade");
        ns.apply(&job("gang", 200, "1", "infinity"));
        let mut before = BTreeMap::new();
        for replica_to_end in &mut old {
            std::thread::sleep(Duration::from_millis(400 + round * 300));
            before.extend(bound(&ns.list("pods")));
            assert_eq!(replica_to_end.terminate(), Some(0), "SIGTERM ends it cleanly");
            *replica_to_end = replica();
        }
        let after = bound(&ns.running(200));
        assert!(
            before.iter().all(|(pod, node)| after.get(pod) == Some(node)),
            "a bound pod has moved"
        );
        let mut nodes = BTreeMap::new();
        for node in after.into_values() {
            *nodes.entry(node).or_default() += 1;
        }
        assert_eq!(
            planned(&ns.state("gang", "Running")),
            nodes,
            "round {round}: pods are not where the placement says"
        );
        ns.kubectl(&["delete", "job", "gang", "--wait=false"]);
        ns.kubectl(&["delete", "pods", "--all", "--grace-period=0", "--force"]);
        until("nothing to be left", || {
            (ns.list("pods").is_empty() && ns.list("fluxjobs").is_empty()).then_some(())
        });
    }
    assert_eq!(plane.testbed(&["refusals"]).trim(), "0", "a kubelet refused a pod");
}

#[test]
fn deleting_the_owner_at_any_stage_leaves_nothing() {
    let plane = ControlPlane::start(FIFTY, &[]);
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("delete");
    for pause in [0, 100, 300, 1000] {
        ns.apply(&job("gang", 100, "2", "infinity"));
        std::thread::sleep(Duration::from_millis(pause));
        ns.kubectl(&["delete", "job", "gang", "--wait=false"]);
        until("nothing to be left", || {
            (ns.list("pods").is_empty() && ns.list("fluxjobs").is_empty()).then_some(())
        });
    }
    // All cores are free again.
    ns.apply(&job("whole", 50, "4", "1"));
    ns.state("whole", "Completed");
    assert_eq!(plane.testbed(&["refusals"]).trim(), "0");
}
