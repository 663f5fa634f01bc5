//! Queues: FluxQueue objects, and their effects on jobs.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{ControlPlane, Namespace, job, shared, until, within};
use crate::promised::{Recorder, SLACK, broken, delays, table, timed};

/// Makes a FluxQueue of this name, with these lines of spec.
fn queue(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: jobs.converged-computing.org/v1alpha1\nkind: FluxQueue\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
    )
}

/// Makes a Job with pods that name a queue.
fn job_of(queue: &str, name: &str, pods: u32, seconds: &str) -> String {
    let labels =
        format!("    metadata:\n      labels: {{fluxqueue/queue-name: {queue}}}\n    spec:");
    job(name, pods, "100m", seconds).replace("    spec:", &labels)
}

/// Returns the columns of a queue: waiting and running jobs.
fn counts(ns: &Namespace<'_>, queue: &str) -> (Value, Value) {
    let shown: Value =
        serde_json::from_str(&ns.plane.kubectl(&["get", "fluxqueue", queue, "-o", "json"]))
            .expect("JSON");
    (shown["status"]["waiting"].clone(), shown["status"]["running"].clone())
}

#[test]
fn a_queue_is_made_used_stopped_and_deleted() {
    let ns = shared().namespace("queues");
    let name = format!("team-{}", ns.name);
    ns.apply(&job_of(&name, "first", 2, "infinity"));
    let refused = ns.state("first", "Refused");
    assert_eq!(refused["status"]["blockedBy"][0]["reason"], "QueueNotUsable", "{refused}");
    ns.apply(&queue(
        &name,
        &format!(
            "namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {}}}}}",
            ns.name
        ),
    ));
    ns.running(2);
    assert_eq!(ns.state("first", "Running")["status"]["queueName"], *name);
    ns.kubectl(&[
        "patch",
        "fluxqueue",
        &name,
        "--type=merge",
        "-p",
        r#"{"spec": {"stopPolicy": "Hold"}}"#,
    ]);
    ns.apply(&job_of(&name, "second", 1, "1"));
    let held = ns.state("second", "Held");
    assert!(
        held["status"]["blockedBy"][0]["message"].as_str().is_some_and(|text| text.contains(&name)),
        "{held}"
    );
    until("the columns", || (counts(&ns, &name) == (1.into(), 1.into())).then_some(()));
    let table = ns.plane.kubectl(&["get", "fluxqueues"]);
    assert!(table.lines().any(|line| line.starts_with(&name) && line.contains("Hold")), "{table}");
    ns.plane.kubectl(&["delete", "fluxqueue", &name]);
    ns.flux_job("second", "is told", |job| {
        job["status"]["blockedBy"][0]["message"]
            .as_str()
            .is_some_and(|text| text.contains("was deleted"))
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

/// Makes a Job of whole nodes with a true walltime, in this queue.
fn timed_in(queue: &str, name: &str, nodes: u32, seconds: u32) -> String {
    let labels =
        format!("    metadata:\n      labels: {{fluxqueue/queue-name: {queue}}}\n    spec:");
    timed(name, nodes, seconds, f64::from(seconds)).replace("    spec:", &labels)
}

/// There are eight nodes. Queue `gold` goes first and may have four of them, `line` is in order and
/// may have five, and `bulk` may have two jobs.
#[test]
fn three_queues_with_limits_start_as_promised_and_within_them() {
    let plane = ControlPlane::start(
        "groups:\n- {namePrefix: n-, count: 8, cpu: '4', memory: 16Gi, pods: 110}\n",
        &[],
    );
    let _fluxqueue = plane.fluxqueue(&["--queue-policy=conservative"]);
    let ns = plane.namespace("three");
    ns.apply(&queue("gold", "priority: 10, policy: conservative, limits: {resources: {cpu: 16}}"));
    ns.apply(&queue("line", "policy: fcfs, limits: {resources: {cpu: '20'}}"));
    ns.apply(&queue("bulk", "policy: conservative, limits: {perNamespace: {runningJobs: 2}}"));
    until("the queues to be known", || {
        ns.apply(&job_of("bulk", "probe", 1, "1"));
        let known = ns.flux_job("probe", "is seen", |job| !job["status"]["state"].is_null())["status"]
            ["state"]
            != "Refused";
        ns.kubectl(&["delete", "job", "probe"]);
        known.then_some(())
    });
    let recorder = Recorder::start(&ns);
    let (sizes, walltimes) = ([1, 3, 2, 4, 1, 2], [2, 4, 3]);
    let mut text = String::new();
    for number in 0..24 {
        let of = ["gold", "line", "bulk"][number % 3];
        let name = format!("{of}-{number:02}");
        let _ =
            write!(text, "{}", timed_in(of, &name, sizes[number % 6], walltimes[number / 2 % 3]));
    }
    ns.apply(&text);
    let mut most = std::collections::BTreeMap::<String, (usize, usize)>::new();
    within(Duration::from_mins(3), "all jobs to complete", || {
        // The API server's view at one instant: pods that have a node and have not ended.
        let pods = ns.list("pods");
        let mut jobs =
            std::collections::BTreeMap::<String, std::collections::BTreeSet<String>>::new();
        let mut nodes = std::collections::BTreeMap::<String, usize>::new();
        let has_ended =
            |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        for pod in pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string() && !has_ended(pod))
        {
            let label = |name: &str| {
                pod["metadata"]["labels"][name].as_str().unwrap_or_default().to_owned()
            };
            let queue = label("fluxqueue/queue-name");
            *nodes.entry(queue.clone()).or_default() += 1;
            jobs.entry(queue).or_default().insert(label("batch.kubernetes.io/job-name"));
        }
        for (queue, count) in nodes {
            let seen = most.entry(queue.clone()).or_default();
            *seen = (seen.0.max(count), seen.1.max(jobs[&queue].len()));
        }
        let histories = recorder.histories();
        let done = histories
            .iter()
            .filter(|(name, it)| *name != "probe" && it.state == "Completed")
            .count();
        (done == 24).then_some(())
    });
    let mut histories = recorder.histories();
    histories.remove("probe");
    let delays = delays(&ns, &histories);
    println!("{}\nnodes and jobs at most: {most:?}", table(&histories, &delays));
    assert!(most["gold"].0 <= 4 && most["line"].0 <= 5 && most["bulk"].1 <= 2, "{most:?}");
    assert!(most["gold"].0 >= 3 && most["line"].0 >= 3, "the limits are used: {most:?}");
    let promised = histories.values().filter(|history| !history.promises.is_empty()).count();
    assert!(promised >= 12, "{promised} were promised a start");
    assert_eq!(broken(&histories, &delays), Vec::<String>::new());
    // In `line` no job starts before an earlier one.
    let mut line: Vec<_> =
        histories.iter().filter(|(name, _)| name.starts_with("line")).map(|(_, it)| it).collect();
    line.sort_by(|one, other| one.queued.partial_cmp(&other.queued).expect("they are numbers"));
    let starts: Vec<f64> = line.iter().filter_map(|it| it.started).collect();
    assert!(starts.windows(2).all(|pair| pair[0] <= pair[1] + SLACK), "{starts:?}");
    assert_eq!(plane.testbed(&["refusals"]).trim(), "0", "a kubelet refused a pod");
}
