//! Pods that stop slowly, restart, or are made again under their names.

use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use super::tenants::Tenants;
use crate::harness::{Namespace, until};

/// Each node has room for one pod of a gang.
const NODES: &str = "groups: [{namePrefix: n-, count: 4, cpu: '4', memory: 16Gi, pods: 110}]";
/// Finalizer that keeps a terminating pod.
const FINALIZER: &str = "example.com/slow";

/// Makes a Job of four pods that take a node each, and that stay until their finalizer is removed.
fn slow_job(labels: &str) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata: {{name: gang}}
spec:
  parallelism: 4
  completions: 4
  template:
    metadata:
      labels: {{{labels}}}
      finalizers: [{FINALIZER}]
    spec:
      schedulerName: fluxqueue
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers:
      - {{name: main, image: busybox, command: [sleep, infinity], resources: {{requests: {{cpu: '3'}}}}}}
"
    )
}

fn is_stopping(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

fn name_of(pod: &Value) -> String {
    pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// Removes the finalizer.
fn let_go(ns: &Namespace, pod: &str) {
    ns.kubectl(&[
        "patch",
        "pod",
        pod,
        "--type=merge",
        "-p",
        r#"{"metadata": {"finalizers": null}}"#,
    ]);
}

/// Returns how many pods that are not terminating have a node, and how many such pods there are.
fn begun(ns: &Namespace) -> (usize, usize) {
    let pods: Vec<Value> = ns.list("pods").into_iter().filter(|pod| !is_stopping(pod)).collect();
    (pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count(), pods.len())
}

/// Lets the old pods go one by one. While node n-0 is cordoned no new pod begins; afterwards all of
/// them do. The node is cordoned before new pods arrive, because old pods that have stopped leave
/// their room to new ones, whether they are deleted or not.
fn starts_whole_or_not_at_all(ns: &Namespace) {
    let new = || ns.list("pods").into_iter().filter(|pod| !is_stopping(pod)).count();
    until("four new pods", || (new() == 4).then_some(()));
    let old: Vec<String> =
        ns.list("pods").iter().filter(|pod| is_stopping(pod)).map(name_of).collect();
    for pod in &old {
        let_go(ns, pod);
        for _ in 0..5 {
            sleep(Duration::from_millis(500));
            assert_eq!(begun(ns), (0, 4), "{pod} is gone, of {old:?}");
        }
    }
    ns.plane.kubectl(&["uncordon", "n-0"]);
    until("all have begun", || (begun(ns) == (4, 4)).then_some(()));
    for pod in ns.list("pods") {
        let_go(ns, &name_of(&pod));
    }
}

#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_job_that_is_resumed_while_its_pods_stop_does_not_start_by_halves() {
    let tenants = Tenants::start(NODES, &[]);
    let (bob, ns) = (tenants.bob(), tenants.bob().seen_by_admin());
    bob.create(&slow_job(""));
    ns.running(4);
    ns.plane.kubectl(&["cordon", "n-0"]);
    ns.kubectl(&["patch", "job", "gang", "--type=merge", "-p", r#"{"spec": {"suspend": true}}"#]);
    until("all are told to stop", || ns.list("pods").iter().all(is_stopping).then_some(()));
    ns.kubectl(&["patch", "job", "gang", "--type=merge", "-p", r#"{"spec": {"suspend": false}}"#]);
    starts_whole_or_not_at_all(&ns);
    drop(tenants.fluxqueue);
}

#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_group_that_is_made_again_under_its_name_does_not_start_by_halves() {
    let tenants = Tenants::start(NODES, &[]);
    let (bob, ns) = (tenants.bob(), tenants.bob().seen_by_admin());
    let labelled = slow_job("fluxqueue/pod-group: gang, fluxqueue/group-size: '4'");
    bob.create(&labelled);
    ns.running(4);
    ns.plane.kubectl(&["cordon", "n-0"]);
    ns.kubectl(&["delete", "job", "gang", "--wait=false"]);
    until("the name is free", || {
        bob.try_kubectl(&["create", "-f", "-"], &labelled).0.then_some(())
    });
    until("the old pods stop", || {
        (ns.list("pods").iter().filter(|pod| is_stopping(pod)).count() == 4).then_some(())
    });
    starts_whole_or_not_at_all(&ns);
    drop(tenants.fluxqueue);
}

/// Two of the job's three pods have succeeded, and its size is two.
#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn the_last_pod_of_a_labelled_job_does_not_wait_for_those_that_have_succeeded() {
    let tenants = Tenants::start(NODES, &[]);
    let (bob, ns) = (tenants.bob(), tenants.bob().seen_by_admin());
    let labels = "fluxqueue/pod-group: tail, fluxqueue/group-size: '2'";
    let tail = slow_job(labels)
        .replace("parallelism: 4", "parallelism: 2")
        .replace("completions: 4", "completions: 3");
    let tail = tail
        .replace("sleep, infinity", "sleep, '8'")
        .replace(&format!("finalizers: [{FINALIZER}]"), "");
    bob.create(&tail);
    ns.succeeded(2);
    ns.running(1);
    ns.kubectl(&["patch", "job", "gang", "--type=merge", "-p", r#"{"spec": {"suspend": true}}"#]);
    until("the third is gone", || (ns.list("pods").len() == 2).then_some(()));
    ns.kubectl(&["patch", "job", "gang", "--type=merge", "-p", r#"{"spec": {"suspend": false}}"#]);
    ns.running(1);
    drop(tenants.fluxqueue);
}
