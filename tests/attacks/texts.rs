//! Long texts, odd quantities and many shapes.

use serde_json::Value;

use super::tenants::Tenants;
use crate::harness::{job, pod, until};

/// Two nodes of four CPUs, with a resource that is counted in devices.
const TWO: &str = "groups: [{namePrefix: n-, count: 2, cpu: '4', memory: 16Gi, pods: 110}]";

/// Returns the length of the longest text in a status, in bytes, with its quotes.
fn longest(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(longest).max().unwrap_or(0),
        Value::Object(fields) => fields.values().map(longest).max().unwrap_or(0),
        _ => 0,
    }
}

/// A Job with an annotation of 200 KiB starts, reports that the text cannot be read, and keeps no
/// nodes from others.
#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_long_annotation_keeps_no_nodes_and_makes_no_long_texts() {
    let tenants = Tenants::start(TWO, &[]);
    let (alice, bob) = (tenants.alice(), tenants.bob());
    for (name, text) in [("controls", "\\x7f".repeat(5_440)), ("long", "x".repeat(200_000))] {
        let annotated =
            format!("metadata: {{name: {name}, annotations: {{fluxqueue/walltime: \"{text}\"}}}}");
        let manifest = job(name, 2, "1", "infinity")
            .replace(&format!("metadata: {{name: {name}}}"), &annotated);
        assert!(manifest.len() > text.len(), "the annotation is in the manifest");
        alice.create(&manifest);
        let record = alice.seen_by_admin().state(name, "Running");
        assert!(longest(&record["status"]) <= 1024, "{}", longest(&record["status"]));
    }
    bob.create(&job("honest", 2, "2", "infinity"));
    bob.seen_by_admin().running(2);
    for event in alice.seen_by_admin().list("events") {
        assert!(longest(&event["note"]).max(longest(&event["message"])) <= 1024, "{event}");
    }
    drop(tenants.fluxqueue);
}

/// 1,025 pods of a group, each with its own request, are refused, and the nodes stay free for
/// others.
#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_group_of_too_many_shapes_takes_nothing_from_others() {
    let tenants = Tenants::start(
        "groups: [{namePrefix: n-, count: 2, cpu: '4', memory: 16Gi, pods: 1100}]",
        &[],
    );
    let labels = "  labels: {fluxqueue/pod-group: many, fluxqueue/group-size: '1025'}";
    let pods: Vec<String> = (1..=1025)
        .map(|at| pod(&format!("p{at}"), &format!("{at}m"), "infinity", labels))
        .collect();
    // Bob's quota is larger than alice's.
    tenants.bob().create(&pods.concat());
    let refused = tenants.bob().seen_by_admin().state("many", "Refused");
    let message = refused["status"]["blockedBy"][0]["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("1025 different requests") && message.contains("status.workload.podSets"),
        "{message}"
    );
    tenants.alice().create(&job("after", 2, "2", "infinity"));
    tenants.alice().seen_by_admin().running(2);
    drop(tenants.fluxqueue);
}

/// A typing error in a FluxQueue is refused by the API server or named in the queue's conditions,
/// and the queue goes on with its last valid spec.
#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_typing_error_does_not_take_a_queue_away() {
    let mut tenants = Tenants::start(TWO, &[]);
    let queue = |spec: &str| {
        let head = "apiVersion: jobs.converged-computing.org/v1alpha1\nkind: FluxQueue\nmetadata: {name: gpu}\nspec: ";
        tenants.plane.try_kubectl(&["apply", "-f", "-"], &format!("{head}{spec}\n"))
    };
    let accepted = || {
        let queue: Value = serde_json::from_str(&tenants.plane.kubectl(&[
            "get",
            "fluxqueue",
            "gpu",
            "-o",
            "json",
        ]))
        .ok()?;
        let condition = queue["status"]["conditions"]
            .as_array()?
            .iter()
            .find(|it| it["type"] == "Accepted")?
            .clone();
        (condition["observedGeneration"] == queue["metadata"]["generation"])
            .then_some((condition, queue))
    };
    assert!(queue("{limits: {resources: {cpu: '2'}}}").0);
    until("the queue is accepted", || accepted().filter(|(it, _)| it["status"] == "True"));
    for (bad, field) in [
        ("{limits: {resources: {memory: 32GB}}}", "memory"),
        ("{limits: {resources: {cpu: 2e3m}}}", "cpu"),
        ("{limits: {resources: {cpu: -1}}}", "cpu"),
        ("{limits: {resources: {cpu: '-1'}}}", "cpu"),
        (
            "{namespaceSelector: {matchExpressions: [{key: a, operator: Like, values: [b]}]}}",
            "operator",
        ),
        ("{namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}", "values"),
    ] {
        let (ok, _, error) = queue(bad);
        assert!(!ok && error.contains(field), "{bad}: {error}");
    }
    for good in ["1E", "10P", "0.1", "1e3", "7Ei", "9223372036854775807"] {
        let (ok, _, error) =
            queue(&format!("{{limits: {{resources: {{cpu: '2', memory: '{good}'}}}}}}"));
        assert!(ok, "{good}: {error}");
    }
    // Only Fluxqueue can find this error.
    assert!(queue("{limits: {resources: {memroy: 1Gi}}}").0);
    let (condition, stored) =
        until("the error is named", || accepted().filter(|(it, _)| it["status"] == "False"));
    assert!(
        condition["message"]
            .as_str()
            .is_some_and(|text| text.contains("spec.limits.resources[memroy]")),
        "{condition}"
    );
    assert_eq!(stored["status"]["acceptedSpec"]["limits"]["resources"]["cpu"], "2");
    // The same holds after a restart.
    tenants.fluxqueue.kill();
    tenants.fluxqueue = tenants.plane.fluxqueue(&[]);
    let in_queue = job("limited", 3, "1", "infinity").replacen(
        "metadata: {",
        "metadata: {labels: {fluxqueue/queue-name: gpu}, ",
        1,
    );
    tenants.bob().create(&in_queue);
    let waits = tenants.bob().seen_by_admin().flux_job("limited", "waits for the limit", |job| {
        job["status"]["blockedBy"][0]["reason"] == "QueueLimit"
    });
    assert_eq!(waits["status"]["blockedBy"][0]["limit"], "2", "{waits}");
    drop(tenants.fluxqueue);
}

/// Texts that a parser, a log or a metric might trip over change nothing for others.
#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn hostile_strings_are_harmless() {
    let tenants = Tenants::start(TWO, &[]);
    let (alice, bob) = (tenants.alice(), tenants.bob());
    let longest_label = format!("A{}Z", "__-.".repeat(15));
    for (number, (place, text)) in [
        ("labels: {fluxqueue/queue-name", longest_label.as_str()),
        ("labels: {fluxqueue/queue-name", "default"),
        ("labels: {fluxqueue/group-size: '1', fluxqueue/pod-group", longest_label.as_str()),
        ("labels: {fluxqueue/group-size: '1', fluxqueue/pod-group", "n-0.9"),
        ("labels: {fluxqueue/pod-group: g, fluxqueue/group-size", "1e9999"),
        ("annotations: {fluxqueue/slice-level: rack, fluxqueue/slice-size", "9999999999999"),
        ("annotations: {fluxqueue/spread-level: rack, fluxqueue/max-skew", "-0"),
        ("annotations: {fluxqueue/required-level", "..\\n{\\\"level\\\":\\\"ERROR\\\"}\\n"),
        ("annotations: {fluxqueue/walltime", "\\u202e\\u0007\\e[2J"),
        ("annotations: {fluxqueue/exclusive", "0.0000000001"),
    ]
    .into_iter()
    .enumerate()
    {
        alice.create(&pod(
            &format!("odd-{number}"),
            "10m",
            "infinity",
            &format!("  {place}: \"{text}\"}}"),
        ));
    }
    bob.create(&job("honest", 2, "2", "1"));
    bob.seen_by_admin().succeeded(2);
    drop(tenants.fluxqueue);
}
