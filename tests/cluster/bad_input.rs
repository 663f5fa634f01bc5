use serde_json::Value;

use crate::harness::{job, node_of, pod, shared, until};

#[test]
fn a_group_size_that_is_no_size_is_refused_and_can_be_mended() {
    let ns = shared().namespace("bad-size");
    // The API server accepts no label that begins with a sign; a negative size is tested where
    // labels are read.
    for (name, size) in [("word", "three"), ("fraction", "1.5"), ("zero", "0")] {
        let labels =
            format!("  labels: {{fluxqueue.pod-group: {name}, fluxqueue.group-size: '{size}'}}");
        ns.apply(&pod(name, "100m", "infinity", &labels));
        let record = ns.state(name, "Refused");
        let message = record["status"]["blockedBy"][0]["message"].as_str().unwrap_or("").to_owned();
        assert!(message.contains(name) && message.contains("fluxqueue.group-size"), "{message}");
        assert_eq!(record["status"]["blockedBy"][0]["reason"], "InvalidRequest");
    }
    assert!(ns.list("pods").iter().all(|pod| node_of(pod).is_empty()));
    ns.kubectl(&["label", "pods", "--all", "--overwrite", "fluxqueue.group-size=1"]);
    ns.running(3);
}

#[test]
fn a_size_larger_than_what_can_appear_is_clamped_and_said() {
    let ns = shared().namespace("clamp");
    let labels = "    metadata:\n      labels: {fluxqueue.pod-group: job-1, fluxqueue.group-size: '5'}\n    spec:";
    ns.apply(&job("job", 2, "100m", "1").replace("    spec:", labels));
    ns.succeeded(2);
    ns.state("job-1", "Completed");
    ns.flux_job("job-1", "says that it was clamped", |job| {
        job["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|c| c["type"] == "SizeClamped"))
    });
}

#[test]
fn a_size_smaller_than_the_pods_that_appear_is_how_many_start_together() {
    let ns = shared().namespace("small-size");
    let labels = "    metadata:\n      labels: {fluxqueue.pod-group: part, fluxqueue.group-size: '2'}\n    spec:";
    ns.apply(&job("job", 4, "100m", "1").replace("    spec:", labels));
    ns.succeeded(4);
    ns.state("part", "Completed");
}

#[test]
fn contradicting_sizes_are_said_and_the_oldest_counts() {
    let ns = shared().namespace("contradiction");
    ns.apply(&pod(
        "a",
        "100m",
        "infinity",
        "  labels: {fluxqueue.pod-group: g, fluxqueue.group-size: '2'}",
    ));
    std::thread::sleep(std::time::Duration::from_millis(1100));
    ns.apply(&pod(
        "b",
        "100m",
        "infinity",
        "  labels: {fluxqueue.pod-group: g, fluxqueue.group-size: '7'}",
    ));
    ns.running(2);
    ns.flux_job("g", "says that the sizes differ", |job| {
        job["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|c| c["type"] == "SizeContradiction"))
    });
}

#[test]
fn an_amount_that_no_machine_has_is_unsatisfiable_or_refused() {
    let ns = shared().namespace("amount");
    ns.apply(
        &pod("vast", "1", "infinity", "").replace("cpu: '1'", "memory: '9223372036854775808'"),
    );
    let record = ns.flux_job("vast", "is turned down", |job| {
        matches!(job["status"]["state"].as_str(), Some("Refused" | "Unsatisfiable"))
    });
    assert!(
        record["status"]["blockedBy"][0]["message"]
            .as_str()
            .is_some_and(|text| text.contains("memory")),
        "{record}"
    );
    ns.apply(&pod("after", "100m", "infinity", ""));
    ns.running(1);
}

#[test]
fn an_unsupported_field_is_refused_by_name() {
    let ns = shared().namespace("unsupported");
    let claim = "spec:\n  resourceClaims: [{name: gpu, resourceClaimName: none}]";
    ns.apply(&pod("claims", "100m", "infinity", "").replace("spec:", claim));
    let record = ns.state("claims", "Refused");
    assert_eq!(record["status"]["blockedBy"][0]["reason"], "UnsupportedConstraint");
    let message = record["status"]["blockedBy"][0]["message"].as_str().unwrap_or("").to_owned();
    assert!(message.contains("spec.resourceClaims"), "{message}");
    // No node here has this label.
    let spread = "spec:\n  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]";
    ns.apply(&pod("spreads", "100m", "infinity", "").replace("spec:", spread));
    let record =
        ns.flux_job("spreads", "to say why it waits", |job| job["status"]["blockedBy"].is_array());
    let message = record["status"]["blockedBy"][0]["message"].as_str().unwrap_or("").to_owned();
    assert!(
        message.contains("didn't match pod topology spread constraints (missing required label)"),
        "{message}"
    );
    assert!(ns.list("pods").iter().all(|pod| node_of(pod).is_empty()));
}

#[test]
fn a_scheduler_name_without_a_scheduler_is_left_alone() {
    let ns = shared().namespace("nobody");
    ns.apply(
        &pod("stranger", "100m", "infinity", "")
            .replace("schedulerName: fluxqueue", "schedulerName: nobody"),
    );
    ns.apply(&job("ours", 1, "100m", "infinity"));
    ns.state("ours", "Running");
    assert!(ns.list("fluxjobs").iter().all(|job| job["spec"]["workloadRef"]["name"] == "ours"));
}

#[test]
fn of_a_flux_job_people_change_wishes_and_nothing_else() {
    let ns = shared().namespace("edits");
    ns.apply(&job("vast", 2, "300", "1"));
    let record = ns.state("vast", "Unsatisfiable");
    let name = record["metadata"]["name"].as_str().expect("a name").to_owned();
    let patch = |text: &str| {
        ns.plane.try_kubectl(
            &["patch", "fluxjob", &name, "-n", &ns.name, "--type=merge", "-p", text],
            "",
        )
    };
    for fixed in
        [r#"{"spec": {"workloadRef": {"name": "other"}}}"#, r#"{"spec": {"schedulerName": null}}"#]
    {
        let (ok, _, err) = patch(fixed);
        assert!(!ok && err.contains("of spec only overrides can"), "{err}");
    }
    let (ok, _, err) = patch(r#"{"spec": {"overrides": {"walltimeSeconds": 0}}}"#);
    assert!(!ok && err.contains("walltimeSeconds"), "{err}");
    assert_eq!(record["status"]["walltimeSeconds"], Value::Null);
    assert!(patch(r#"{"spec": {"overrides": {"walltimeSeconds": 60, "hold": true}}}"#).0);
    assert_eq!(ns.state("vast", "Held")["status"]["walltimeSeconds"], 60);
    assert!(patch(r#"{"spec": {"overrides": null}}"#).0);
    let after = ns.state("vast", "Unsatisfiable");
    assert_eq!(
        (&after["status"]["walltimeSeconds"], &after["spec"]["overrides"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn a_wish_for_another_priority_is_that_of_a_class() {
    let ns = shared().namespace("classes");
    let class = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: wished}\nvalue: 77\n";
    ns.apply(&job("vast", 2, "300", "1"));
    let name =
        ns.state("vast", "Unsatisfiable")["metadata"]["name"].as_str().expect("a name").to_owned();
    ns.wish(&name, r#""priorityClassName": "wished""#);
    let warned =
        |job: &Value| job["status"]["conditions"].to_string().contains("UnknownPriorityClass");
    assert_eq!(
        ns.flux_job("vast", "says that there is no such class", warned)["status"]["priority"],
        0
    );
    ns.apply(class);
    ns.flux_job("vast", "has its priority", |job| job["status"]["priority"] == 77 && !warned(job));
    ns.kubectl(&["delete", "priorityclass", "wished"]);
    ns.flux_job("vast", "has its own priority again", |job| {
        job["status"]["priority"] == 0 && warned(job)
    });
}

#[test]
fn conditions_of_others_stay_and_ours_have_our_reasons() {
    let ns = shared().namespace("conditions");
    ns.apply(&job("vast", 2, "300", "1"));
    let name =
        ns.state("vast", "Unsatisfiable")["metadata"]["name"].as_str().expect("a name").to_owned();
    let patch = |how: &[&str]| {
        let whole = [&["patch", "fluxjob", &name, "-n", &ns.name], how].concat();
        ns.plane.try_kubectl(&whole, "")
    };
    let billed = r#"[{"op": "add", "path": "/status/conditions/-", "value": {"type": "example.com/Billed", "status": "True",
        "reason": "Paid", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}}]"#;
    let (ok, _, err) = patch(&["--subresource=status", "--type=json", "-p", billed]);
    assert!(ok, "{err}");
    let nonsense =
        r#"[{"op": "replace", "path": "/status/conditions/0/reason", "value": "Nonsense"}]"#;
    let (ok, _, err) = patch(&["--subresource=status", "--type=json", "-p", nonsense]);
    assert!(!ok && err.contains("the reason of Scheduled is one of"), "{err}");
    assert!(patch(&["--type=merge", "-p", r#"{"spec": {"overrides": {"hold": true}}}"#]).0);
    let held = ns.state("vast", "Held");
    let types: Vec<_> = held["status"]["conditions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| &it["type"])
        .collect();
    assert!(
        types.contains(&&"Scheduled".into()) && types.contains(&&"example.com/Billed".into()),
        "{types:?}"
    );
    // A message that no longer applies is removed.
    assert!(
        patch(&[
            "--type=merge",
            "-p",
            r#"{"spec": {"overrides": {"hold": null, "queueName": "gpu"}}}"#
        ])
        .0
    );
    ns.flux_job("vast", "is in a queue", |job| job["status"]["queueName"] == "gpu");
    assert!(patch(&["--type=merge", "-p", r#"{"spec": {"overrides": null}}"#]).0);
    ns.flux_job("vast", "is in no queue of its own", |job| job["status"]["queueName"] == "default");
}

#[test]
fn a_flux_job_is_found_from_its_workload() {
    let ns = shared().namespace("found");
    for name in ["one", "other"] {
        ns.apply(&job(name, 2, "100m", "infinity"));
    }
    let record = ns.state("one", "Running");
    ns.state("other", "Running");
    let uid = record["spec"]["workloadRef"]["uid"].as_str().expect("a uid");
    let (label, field) =
        (format!("fluxqueue/workload-uid={uid}"), format!("spec.workloadRef.uid={uid}"));
    let questions = [
        ["-l", "fluxqueue/workload-kind=job,fluxqueue/workload-name=one"],
        ["-l", &label],
        [
            "--field-selector",
            "spec.workloadRef.kind=Job,spec.workloadRef.name=one,status.state=Running",
        ],
        ["--field-selector", &field],
    ];
    for [how, what] in questions {
        let found = ns.kubectl(&["get", "fluxjobs", how, what, "-o", "name"]);
        let name = record["metadata"]["name"].as_str().expect("a name");
        assert_eq!(
            found.trim(),
            format!("fluxjob.jobs.converged-computing.org/{name}"),
            "{how} {what}"
        );
    }
    assert_eq!(
        ns.kubectl(&["get", "fluxjobs", "--field-selector", "status.state=Held", "-o", "name"]),
        ""
    );
    ns.kubectl(&[
        "wait",
        "--for=condition=Scheduled",
        "fluxjob",
        "-l",
        "fluxqueue/workload-name=one",
        "--timeout=10s",
    ]);
}

#[test]
fn pod_sets_follow_a_deployment() {
    let ns = shared().namespace("follows");
    ns.kubectl(&["create", "deployment", "web", "--image=busybox", "--replicas=0"]);
    let served =
        r#"{"spec": {"replicas": 1, "template": {"spec": {"schedulerName": "fluxqueue"}}}}"#;
    ns.kubectl(&["patch", "deployment", "web", "-p", served]);
    let count = |job: &Value| job["status"]["workload"]["podSets"][0]["count"].clone();
    let before = ns.flux_job("web", "has one pod", |job| count(job) == 1);
    ns.kubectl(&["scale", "deployment", "web", "--replicas=3"]);
    let after = ns.flux_job("web", "has three pods", |job| count(job) == 3);
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["metadata"]["generation"], 1, "its spec is people's");
}

#[test]
fn a_deleted_flux_job_is_written_again() {
    let ns = shared().namespace("deleted");
    ns.apply(&job("runs", 2, "100m", "infinity"));
    let before = ns.state("runs", "Running");
    ns.kubectl(&["delete", "fluxjobs", "--all"]);
    let after = ns.flux_job("runs", "is there again", |job| {
        job["metadata"]["uid"] != before["metadata"]["uid"] && job["status"]["state"] == "Running"
    });
    assert_eq!(after["status"]["placement"], before["status"]["placement"]);
    until("its pods to be left alone", || (ns.running(2).len() == 2).then_some(()));
}
