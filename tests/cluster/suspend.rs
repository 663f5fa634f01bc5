//! Jobs that are suspended while they wait: they have no pods before they have a place, and
//! suspensions by others are left alone.

use std::time::Duration;

use serde_json::Value;

use crate::admission::{labelled, unnamed};
use crate::harness::{ControlPlane, Namespace, job, node_of, planned, until, within};
use crate::webhook::Webhook;

const NODES: &str = "groups:\n- {namePrefix: n-, count: 2, cpu: '4', memory: 16Gi, pods: 110}\n";

/// Makes a namespace in which Jobs wait without pods, and returns once the API server asks about
/// them.
fn suspending<'a>(plane: &'a ControlPlane, prefix: &str) -> Namespace<'a> {
    let ns = labelled(plane, prefix, &["fluxqueue/admission=enabled", "fluxqueue/suspend=enabled"]);
    let args = ["create", "-n", &ns.name, "--dry-run=server", "-o", "json", "-f", "-"];
    until("Jobs to be suspended", || {
        let (ok, out, err) = plane.try_kubectl(&args, &unnamed(&job("probe", 1, "1", "1")));
        assert!(ok, "{err}");
        let stored: Value = serde_json::from_str(&out).expect("JSON");
        (stored["spec"]["suspend"] == true).then_some(())
    });
    ns
}

fn job_of(ns: &Namespace<'_>, name: &str) -> Value {
    serde_json::from_str(&ns.kubectl(&["get", "job", name, "-o", "json"])).expect("JSON")
}

fn is_suspended(ns: &Namespace<'_>, name: &str) -> bool {
    job_of(ns, name)["spec"]["suspend"] == true
}

fn mark(job: &Value) -> &Value {
    &job["metadata"]["annotations"]["fluxqueue/suspended"]
}

fn pods_of(ns: &Namespace<'_>, job: &str) -> Vec<Value> {
    let is_its = |pod: &Value| pod["metadata"]["labels"]["job-name"] == job;
    ns.list("pods").into_iter().filter(is_its).collect()
}

fn let_go(ns: &Namespace<'_>, name: &str) {
    ns.kubectl(&["patch", "job", name, "--type=merge", "-p", r#"{"spec": {"suspend": false}}"#]);
}

#[test]
fn a_job_waits_without_pods_and_starts_whole_where_it_was_placed() {
    let plane = ControlPlane::start(NODES, &[]);
    let _webhook = Webhook::start(&plane, &[]);
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = suspending(&plane, "suspended");
    ns.apply(&unnamed(&job("busy", 2, "4", "infinity")));
    ns.running(2);
    for name in ["first", "second"] {
        ns.apply(&unnamed(&job(name, 2, "3", "1")));
    }
    let waiting = ns.state("first", "Pending");
    assert_eq!(waiting["status"]["total"], 2, "{waiting}");
    ns.state("second", "Pending");
    assert!(is_suspended(&ns, "first") && is_suspended(&ns, "second"));
    assert_eq!(ns.list("pods").len(), 2, "those of the one that runs");

    // No user can resume the Job past us, and none can change the mark that says which program
    // suspended it. (An administrator could, as a member of the break-glass group.)
    ns.kubectl(&["create", "rolebinding", "sue", "--clusterrole=edit", "--user=sue"]);
    let_go(&ns, "first");
    assert!(is_suspended(&ns, "first"));
    for change in ["fluxqueue/suspended-", "fluxqueue/released-at=2026-01-01T00:00:00Z"] {
        let (ok, _, err) = plane
            .try_kubectl(&["annotate", "job", "first", change, "-n", &ns.name, "--as=sue"], "");
        assert!(!ok && err.contains("are changed by Fluxqueue alone"), "{err}");
    }
    // A job with a hold waits for its release.
    let second =
        ns.state("second", "Pending")["metadata"]["name"].as_str().expect("a name").to_owned();
    ns.wish(&second, r#""hold": true"#);
    ns.state("second", "Held");

    // Suspensions by others stay as they are.
    let theirs =
        unnamed(&job("theirs", 1, "1", "1")).replace("\nspec:", "\nspec:\n  suspend: true");
    ns.apply(&theirs);
    let queued = "{name: kueues, labels: {kueue.x-k8s.io/queue-name: q}}";
    ns.apply(&unnamed(&job("kueues", 1, "1", "1")).replace("{name: kueues}", queued));
    for name in ["theirs", "kueues"] {
        assert!(mark(&job_of(&ns, name)).is_null(), "{name}");
    }
    ns.kubectl(&["delete", "job", "kueues"]);

    ns.kubectl(&["delete", "job", "busy"]);
    let placed = ns.flux_job("first", "has a place", |job| !job["status"]["placement"].is_null());
    ns.state("first", "Completed");
    let pods = pods_of(&ns, "first");
    assert_eq!(pods.len(), 2);
    for node in planned(&placed).keys() {
        assert_eq!(
            pods.iter().filter(|pod| node_of(pod) == node).count(),
            planned(&placed)[node],
            "{node}: {pods:?}"
        );
    }
    let first = job_of(&ns, "first");
    assert!(
        mark(&first).is_null()
            && first["metadata"]["annotations"]["fluxqueue/released-at"].is_string(),
        "{first}"
    );
    assert!(is_suspended(&ns, "second") && is_suspended(&ns, "theirs"), "held, and another's");
    ns.wish(&second, r#""hold": false"#);
    ns.state("second", "Completed");
    let_go(&ns, "theirs");
    ns.state("theirs", "Completed");
}

#[test]
fn three_hundred_jobs_wait_without_a_pod() {
    const JOBS: usize = 300;
    let plane = ControlPlane::start(NODES, &[]);
    let _webhook = Webhook::start(&plane, &[]);
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = suspending(&plane, "backlog");
    ns.apply(&unnamed(&job("busy", 2, "4", "infinity")));
    ns.running(2);
    let backlog: Vec<String> =
        (0..JOBS).map(|n| unnamed(&job(&format!("waits-{n}"), 2, "3", "1"))).collect();
    ns.apply(&backlog.concat());
    within(Duration::from_mins(2), "all of them to be on record", || {
        let waiting = ns
            .list("fluxjobs")
            .into_iter()
            .filter(|job| job["status"]["state"] == "Pending")
            .count();
        (waiting == JOBS).then_some(())
    });
    assert_eq!(ns.list("pods").len(), 2, "those of the one that runs");
    ns.kubectl(&["delete", "job", "busy"]);
    // The jobs start in their turn, and only these have pods.
    within(Duration::from_mins(1), "the first of them to run to their ends", || {
        let ended = |job: &Value| job["status"]["state"] == "Completed";
        (ns.list("fluxjobs").iter().filter(|job| ended(job)).count() >= 3).then_some(())
    });
    let without_pods = ns.list("jobs").iter().filter(|job| mark(job) == "true").count();
    assert!(without_pods > JOBS / 2, "{without_pods}");
}

#[test]
fn a_job_that_is_let_go_past_a_dead_webhook_is_suspended_again() {
    let plane = ControlPlane::start(NODES, &[]);
    let mut webhook = Webhook::start(&plane, &[]);
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = suspending(&plane, "let-go");
    ns.apply(&unnamed(&job("busy", 2, "4", "infinity")));
    ns.running(2);
    ns.apply(&unnamed(&job("waits", 2, "3", "1")));
    ns.state("waits", "Pending");
    webhook.process.kill();
    let_go(&ns, "waits");
    until("the Job to be suspended again", || is_suspended(&ns, "waits").then_some(()));
    until("its pods to be gone", || pods_of(&ns, "waits").is_empty().then_some(()));
    ns.kubectl(&["delete", "job", "busy"]);
    ns.state("waits", "Completed");
}

#[test]
fn pods_that_ask_for_more_than_the_template_are_placed_again_before_they_start() {
    let plane = ControlPlane::start(NODES, &[]);
    let _webhook = Webhook::start(&plane, &[]);
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = suspending(&plane, "larger");
    // The namespace's LimitRange gives each pod the request that the template lacks. Two such pods
    // do not fit on one node.
    ns.apply(
        "
apiVersion: v1
kind: LimitRange
metadata: {name: defaults}
spec: {limits: [{type: Container, defaultRequest: {cpu: '3'}}]}
",
    );
    ns.apply(
        &unnamed(&job("small", 2, "1", "5")).replace(", resources: {requests: {cpu: '1'}}", ""),
    );
    let pods = ns.running(2);
    assert_ne!(node_of(&pods[0]), node_of(&pods[1]));
    let record = ns.state("small", "Running");
    assert_eq!(planned(&record).len(), 2, "{record}");
}

#[test]
fn a_place_is_held_for_a_time_also_by_a_successor() {
    let plane = ControlPlane::start(NODES, &[]);
    let _webhook = Webhook::start(&plane, &[]);
    let settings = plane.dir.join("settings.yaml");
    let text = "apiVersion: config.converged-computing.org/v1alpha1\nkind: FluxqueueConfiguration\nsuspendHoldSeconds: 20\n";
    std::fs::write(&settings, text).expect("it is written");
    let flags = [&*format!("--config={}", settings.display())];
    let mut fluxqueue = plane.fluxqueue(&flags);
    let ns = suspending(&plane, "late");
    // Only one of the job's two pods can be created. Fluxqueue leaves quotas with scopes to the API
    // server, so the job is released.
    ns.kubectl(&["create", "quota", "pods", "--hard=pods=1", "--scopes=NotBestEffort"]);
    ns.apply(&unnamed(&job("late", 2, "3", "1")));
    until("its first pod", || (pods_of(&ns, "late").len() == 1).then_some(()));
    fluxqueue.kill();
    let _successor = plane.fluxqueue(&flags);
    let rival = plane.namespace("rival");
    rival.apply(&job("rival", 2, "3", "1"));
    rival.state("rival", "Pending");
    assert!(!is_suspended(&ns, "late"));
    // Afterwards the place is given back, and the job waits for its pods like any other.
    rival.state("rival", "Completed");
    ns.state("late", "Incomplete");
    assert!(pods_of(&ns, "late").iter().all(|pod| node_of(pod).is_empty()));
    ns.kubectl(&["delete", "quota", "pods"]);
    ns.state("late", "Completed");
}
