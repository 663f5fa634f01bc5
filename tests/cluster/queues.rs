//! Queues: FluxQueue objects, and what they say to jobs.

use serde_json::Value;

use crate::harness::{Namespace, job, shared, until};

/// A FluxQueue of this name, with these lines of spec.
fn queue(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: jobs.converged-computing.org/v1alpha1\nkind: FluxQueue\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
    )
}

/// A Job whose pods name a queue.
fn job_of(queue: &str, name: &str, pods: u32, seconds: &str) -> String {
    let labels = format!("    metadata:\n      labels: {{fluxqueue/queue-name: {queue}}}\n    spec:");
    job(name, pods, "100m", seconds).replace("    spec:", &labels)
}

/// What the columns of a queue show: waiting and running.
fn counts(ns: &Namespace<'_>, queue: &str) -> (Value, Value) {
    let shown: Value =
        serde_json::from_str(&ns.plane.kubectl(&["get", "fluxqueue", queue, "-o", "json"])).expect("JSON");
    (shown["status"]["waiting"].clone(), shown["status"]["running"].clone())
}

#[test]
fn a_queue_is_made_used_stopped_and_deleted() {
    let ns = shared().namespace("queues");
    let name = format!("team-{}", ns.name);
    ns.apply(&job_of(&name, "first", 2, "infinity"));
    let refused = ns.state("first", "Refused");
    assert_eq!(refused["status"]["blockedBy"]["reason"], "QueueNotUsable", "{refused}");
    ns.apply(&queue(
        &name,
        &format!("namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {}}}}}", ns.name),
    ));
    ns.running(2);
    assert_eq!(ns.state("first", "Running")["status"]["queueName"], *name);
    ns.kubectl(&["patch", "fluxqueue", &name, "--type=merge", "-p", r#"{"spec": {"stopPolicy": "Hold"}}"#]);
    ns.apply(&job_of(&name, "second", 1, "1"));
    let held = ns.state("second", "Held");
    assert!(held["status"]["blockedBy"]["message"].as_str().is_some_and(|text| text.contains(&name)), "{held}");
    until("the columns", || (counts(&ns, &name) == (1.into(), 1.into())).then_some(()));
    let table = ns.plane.kubectl(&["get", "fluxqueues"]);
    assert!(table.lines().any(|line| line.starts_with(&name) && line.contains("Hold")), "{table}");
    ns.plane.kubectl(&["delete", "fluxqueue", &name]);
    ns.flux_job("second", "is told", |job| {
        job["status"]["blockedBy"]["message"].as_str().is_some_and(|text| text.contains("was deleted"))
    });
    let told = |event: &Value| event["reason"] == "Held" && event["regarding"]["kind"] == "FluxJob";
    until("an Event", || ns.list("events.events.k8s.io").iter().any(told).then_some(()));
    ns.apply(&queue(&name, "maxWalltimeSeconds: 60"));
    ns.pods(1, "succeeded", |pod| pod["status"]["phase"] == "Succeeded");
    let (ok, _, err) = ns.plane.try_kubectl(
        &["apply", "--dry-run=server", "-f", "-"],
        &queue("wrong", "defaultWalltimeSeconds: 61, maxWalltimeSeconds: 60"),
    );
    assert!(!ok && err.contains("defaultWalltimeSeconds is more than maxWalltimeSeconds"), "{err}");
    ns.plane.kubectl(&["delete", "fluxqueue", &name]);
}

#[test]
fn the_jobs_of_a_namespace_are_in_its_queue() {
    let ns = shared().namespace("annotated");
    let name = format!("lab-{}", ns.name);
    ns.apply(&queue(&name, ""));
    ns.kubectl(&["annotate", "namespace", &ns.name, &format!("fluxqueue/default-queue={name}")]);
    until("the annotation to be known", || {
        ns.apply(&job("probe", 1, "100m", "1"));
        let record = ns.state("probe", "Completed");
        ns.kubectl(&["delete", "job", "probe"]);
        (record["status"]["queueName"] == *name).then_some(())
    });
    ns.plane.kubectl(&["delete", "fluxqueue", &name]);
}
