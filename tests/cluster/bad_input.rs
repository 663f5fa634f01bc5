use crate::harness::{job, node_of, pod, shared, until};

#[test]
fn a_group_size_that_is_no_size_is_refused_and_can_be_mended() {
    let ns = shared().namespace("bad-size");
    // The API server takes no label that begins with a sign; a negative size is tested where labels are read.
    for (name, size) in [("word", "three"), ("fraction", "1.5"), ("zero", "0")] {
        let labels = format!("  labels: {{fluxqueue.pod-group: {name}, fluxqueue.group-size: '{size}'}}");
        ns.apply(&pod(name, "100m", "infinity", &labels));
        let record = ns.state(name, "Refused");
        let message = record["status"]["blockedBy"]["message"].as_str().unwrap_or("").to_owned();
        assert!(message.contains(name) && message.contains("fluxqueue.group-size"), "{message}");
        assert_eq!(record["status"]["blockedBy"]["reason"], "InvalidRequest");
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
        job["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(|c| c["type"] == "SizeClamped"))
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
    ns.apply(&pod("a", "100m", "infinity", "  labels: {fluxqueue.pod-group: g, fluxqueue.group-size: '2'}"));
    std::thread::sleep(std::time::Duration::from_millis(1100));
    ns.apply(&pod("b", "100m", "infinity", "  labels: {fluxqueue.pod-group: g, fluxqueue.group-size: '7'}"));
    ns.running(2);
    ns.flux_job("g", "says that the sizes differ", |job| {
        job["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(|c| c["type"] == "SizeContradiction"))
    });
}

#[test]
fn an_amount_that_no_machine_has_is_unsatisfiable_or_refused() {
    let ns = shared().namespace("amount");
    ns.apply(&pod("vast", "1", "infinity", "").replace("cpu: '1'", "memory: '9223372036854775808'"));
    let record = ns.flux_job("vast", "is turned down", |job| {
        matches!(job["status"]["state"].as_str(), Some("Refused" | "Unsatisfiable"))
    });
    assert!(record["status"]["blockedBy"]["message"].as_str().is_some_and(|text| text.contains("memory")), "{record}");
    ns.apply(&pod("after", "100m", "infinity", ""));
    ns.running(1);
}

#[test]
fn what_is_not_supported_is_refused_with_its_field() {
    let ns = shared().namespace("unsupported");
    let claim = "spec:\n  volumes: [{name: data, persistentVolumeClaim: {claimName: none}}]";
    ns.apply(&pod("claims", "100m", "infinity", "").replace("spec:", claim));
    let spread = "spec:\n  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]";
    ns.apply(&pod("spreads", "100m", "infinity", "").replace("spec:", spread));
    for (name, field) in [("claims", "spec.volumes[0]"), ("spreads", "spec.topologySpreadConstraints[0]")] {
        let record = ns.state(name, "Refused");
        assert_eq!(record["status"]["blockedBy"]["reason"], "UnsupportedConstraint");
        let message = record["status"]["blockedBy"]["message"].as_str().unwrap_or("").to_owned();
        assert!(message.contains(field), "{message}");
    }
    assert!(ns.list("pods").iter().all(|pod| node_of(pod).is_empty()));
}

#[test]
fn a_scheduler_name_that_nobody_serves_is_left_alone() {
    let ns = shared().namespace("nobody");
    ns.apply(&pod("stranger", "100m", "infinity", "").replace("schedulerName: fluxqueue", "schedulerName: nobody"));
    ns.apply(&job("ours", 1, "100m", "infinity"));
    ns.state("ours", "Running");
    assert!(ns.list("fluxjobs").iter().all(|job| job["spec"]["name"] == "ours"));
}

#[test]
fn of_a_flux_job_people_may_change_four_fields() {
    let ns = shared().namespace("edits");
    ns.apply(&job("vast", 2, "300", "1"));
    let record = ns.state("vast", "Unsatisfiable");
    let name = record["metadata"]["name"].as_str().expect("a name").to_owned();
    let patch =
        |text: &str| ns.plane.try_kubectl(&["patch", "fluxjob", &name, "-n", &ns.name, "--type=merge", "-p", text], "");
    let (ok, _, err) = patch(r#"{"spec": {"nodes": 1}}"#);
    assert!(!ok && err.contains("spec"), "{err}");
    assert!(patch(r#"{"spec": {"priority": 7, "hold": true}}"#).0);
    ns.state("vast", "Held");
    assert!(patch(r#"{"spec": {"hold": false}}"#).0);
    ns.state("vast", "Unsatisfiable");
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
