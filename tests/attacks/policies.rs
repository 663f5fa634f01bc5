//! Holds, records and schedulers that belong to other users.

use serde_json::Value;

use super::tenants::{Tenant, Tenants};
use crate::harness::{job, overrides, until};

const NODES: &str = "groups: [{namePrefix: n-, count: 2, cpu: '4', memory: 16Gi, pods: 110}]";

/// User name of Fluxqueue's ServiceAccount.
const FLUXQUEUE: &str = "system:serviceaccount:fluxqueue-system:fluxqueue";

/// Checks that the tenant is refused this command with a message that contains these words.
fn refused(tenant: Tenant<'_>, words: &str, args: &[&str], stdin: &str) {
    let (ok, out, error) = tenant.try_kubectl(args, stdin);
    assert!(!ok && error.contains(words), "{args:?} {stdin}: {out}{error}");
}

fn allowed(tenant: Tenant<'_>, args: &[&str], stdin: &str) {
    let (ok, _, error) = tenant.try_kubectl(args, stdin);
    assert!(ok, "{args:?}: {error}");
}

/// Submits a job of alice that waits for ever, and returns the name of its FluxJob.
fn waiting(tenants: &Tenants) -> String {
    tenants.bob().create(&job("full", 2, "3", "infinity"));
    tenants.bob().seen_by_admin().running(2);
    tenants.alice().create(&job("vast", 2, "1900m", "1"));
    let name = tenants.alice().seen_by_admin().flux_job("vast", "is there", |_| true);
    name["metadata"]["name"].as_str().expect("a name").to_owned()
}

/// Alice gets every permission in her namespace.
fn own_the_namespace(tenants: &Tenants) {
    let role = [
        "create",
        "rolebinding",
        "owner",
        "--clusterrole=cluster-admin",
        "--user=alice",
        "-n",
        "team-a",
    ];
    tenants.plane.kubectl(&role);
    let may = ["auth", "can-i", "update", "fluxjobs", "--subresource=status"];
    until("the role to count", || tenants.alice().try_kubectl(&may, "").0.then_some(()));
}

#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_tenant_lifts_no_hold_of_an_administrator() {
    let tenants = Tenants::start(NODES, &[]);
    let alice = tenants.alice();
    let name = waiting(&tenants);
    let held = r#""holds": [{"by": "kubernetes-admin", "reason": "audit"}]"#;
    let who = tenants.plane.kubectl(&["auth", "whoami", "-o=jsonpath={.status.userInfo.username}"]);
    alice.seen_by_admin().wish(&name, &held.replace("kubernetes-admin", &who));
    alice.seen_by_admin().state("vast", "Held");
    let wish = |wishes: &str| overrides(wishes);
    let patch = ["patch", "fluxjob", &name, "--type=merge", "-p"];
    let needs = "needs verb release on fluxjobs/hold";
    refused(alice, needs, &[&patch[..], &[&wish(r#""holds": null"#)]].concat(), "");
    refused(alice, needs, &[&patch[..], &[r#"{"spec": {"overrides": null}}"#]].concat(), "");
    let other = format!(r#""holds": [{{"by": "{who}", "reason": "go on"}}]"#);
    refused(alice, "under that name, and no other", &[&patch[..], &[&wish(&other)]].concat(), "");
    refused(
        alice,
        "under that name, and no other",
        &[&patch[..], &[&wish(r#""holds": [{"by": "bob"}]"#)]].concat(),
        "",
    );
    refused(alice, needs, &["delete", "fluxjob", &name], "");
    refused(alice, needs, &["delete", "fluxjobs", "--all"], "");
    // The garbage collector would delete the object after its owner.
    let orphan = r#"{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y"}]}}"#;
    refused(alice, "changed by Fluxqueue alone", &[&patch[..], &[orphan]].concat(), "");
    // Her own hold is hers, and so is the Job, whose deletion deletes its FluxJob.
    let entry = r#"[{"op": "add", "path": "/spec/overrides/holds/-", "value": {"by": "alice"}}]"#;
    allowed(alice, &["patch", "fluxjob", &name, "--type=json", "-p", entry], "");
    let entry = r#"[{"op": "remove", "path": "/spec/overrides/holds/1"}]"#;
    allowed(alice, &["patch", "fluxjob", &name, "--type=json", "-p", entry], "");
    alice.seen_by_admin().state("vast", "Held");
    // A user with the right to release a hold can release it.
    let role = [
        "create",
        "rolebinding",
        "release",
        "--clusterrole=fluxqueue-release-holds",
        "--user=alice",
    ];
    alice.seen_by_admin().kubectl(&role);
    let lift = wish(r#""holds": null"#);
    until("the permission to count", || {
        alice.try_kubectl(&[&patch[..], &[&lift]].concat(), "").0.then_some(())
    });
    alice
        .seen_by_admin()
        .flux_job("vast", "is held no more", |job| job["status"]["state"] != "Held");
}

#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_held_job_goes_with_its_workload() {
    let tenants = Tenants::start(NODES, &[]);
    let name = waiting(&tenants);
    let alice = tenants.alice();
    let who = tenants.plane.kubectl(&["auth", "whoami", "-o=jsonpath={.status.userInfo.username}"]);
    alice.seen_by_admin().wish(&name, &format!(r#""holds": [{{"by": "{who}"}}]"#));
    allowed(alice, &["delete", "job", "vast"], "");
    until("the FluxJob to be gone", || {
        alice.seen_by_admin().list("fluxjobs").is_empty().then_some(())
    });
}

#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn the_owner_of_a_namespace_writes_no_records() {
    let tenants = Tenants::start(NODES, &[]);
    let alice = tenants.alice();
    let name = waiting(&tenants);
    own_the_namespace(&tenants);
    let status = ["patch", "fluxjob", &name, "--subresource=status", "--type=merge", "-p"];
    for forged in [
        r#"{"status": {"queuedAt": "1970-01-01T00:00:00.000000Z"}}"#,
        r#"{"status": {"workload": {"priority": 2000000000}}}"#,
        r#"{"status": {"placement": [{"podSet": "set-0", "podIndexes": "0-9", "nodes": "n-0", "podsPerNode": 9}]}}"#,
    ] {
        refused(
            alice,
            "status is written by Fluxqueue alone",
            &[&status[..], &[forged]].concat(),
            "",
        );
    }
    let forged = "
apiVersion: jobs.converged-computing.org/v1alpha1
kind: FluxJob
metadata: {name: forged}
spec: {workloadRef: {kind: Group, name: g, uid: u}, overrides: {priorityClassName: system-node-critical}}
";
    refused(alice, "denied request", &["create", "-f", "-"], forged);
    // Nor may she name the queue that a pod is charged to: not when she creates the pod, not later,
    // and not in a Binding.
    let pod = crate::harness::pod(
        "charged",
        "100m",
        "1",
        "  annotations: {fluxqueue/charged-queue: other}",
    );
    refused(alice, "written by Fluxqueue alone", &["create", "-f", "-"], &pod);
    tenants.bob().seen_by_admin().running(2);
    // An administrator repairs a record as a member of the exempt group.
    let repaired = r#"{"status": {"position": 7}}"#;
    alice.seen_by_admin().kubectl(&[&status[..], &[repaired]].concat());
}

#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn fluxqueue_itself_is_confined_to_the_fields_that_it_changes() {
    let tenants = Tenants::start(NODES, &[]);
    let alice = tenants.alice();
    let half = "  labels: {fluxqueue/pod-group: g, fluxqueue/group-size: '2'}";
    alice.create(&crate::harness::pod("held", "100m", "1", half));
    let as_fluxqueue = |args: &[&str]| {
        let all = [args, &["-n", "team-a", "--as", FLUXQUEUE]].concat();
        tenants.plane.try_kubectl(&all, "")
    };
    // Two policies refuse the second patch, and the API server returns the message of one of them.
    let (nothing, queue) =
        ("Fluxqueue changes nothing there", "written by Fluxqueue alone, when it binds");
    for (patch, words) in [
        (r#"{"metadata": {"labels": {"a": "b"}}}"#, [nothing, nothing]),
        (r#"{"metadata": {"annotations": {"fluxqueue/charged-queue": "b"}}}"#, [nothing, queue]),
        (
            r#"{"spec": {"activeDeadlineSeconds": 5}}"#,
            ["Fluxqueue changes only schedulingGates"; 2],
        ),
    ] {
        let (ok, _, error) = as_fluxqueue(&["patch", "pod", "held", "--type=merge", "-p", patch]);
        assert!(!ok && words.iter().any(|words| error.contains(words)), "{patch}: {error}");
        // Membership of the group that is exempt from another policy does not help.
        let group =
            ["patch", "pod", "held", "--type=merge", "-p", patch, "--as-group=system:masters"];
        assert!(!as_fluxqueue(&group).0, "{patch}");
    }
    // Fluxqueue's own everyday writes are allowed.
    alice.create(&job("works", 2, "1", "infinity"));
    alice.seen_by_admin().running(2);
    let pods: Vec<Value> = alice.seen_by_admin().list("pods");
    let charged = pods
        .iter()
        .filter(|pod| pod["metadata"]["annotations"]["fluxqueue/charged-queue"] == "default");
    assert_eq!(charged.count(), 2, "the Binding brings the queue into the pod");
}

#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_namespace_that_requires_fluxqueue_is_not_left() {
    let tenants = Tenants::start(NODES, &[]);
    let (alice, plane) = (tenants.alice(), &tenants.plane);
    own_the_namespace(&tenants);
    plane.kubectl(&[
        "label",
        "namespace",
        "team-a",
        "fluxqueue/required=enabled",
        "fluxqueue/admission=enabled",
    ]);
    let plain =
        crate::harness::pod("plain", "100m", "1", "  labels: {fluxqueue/admission: disabled}");
    let other = plain.replace("schedulerName: fluxqueue", "schedulerName: default-scheduler");
    let words = "this namespace requires fluxqueue";
    until("the label to count", || {
        (!alice.try_kubectl(&["create", "--dry-run=server", "-f", "-"], &other).0).then_some(())
    });
    refused(alice, words, &["create", "-f", "-"], &other);
    refused(
        alice,
        words,
        &["create", "-f", "-"],
        &plain.replace("schedulerName: fluxqueue", "schedulerName: another"),
    );
    let on_node =
        plain.replace("schedulerName: fluxqueue", "schedulerName: fluxqueue\n  nodeName: n-0");
    refused(alice, "chooses the node", &["create", "-f", "-"], &on_node);
    let mirror =
        other.replace("  labels:", "  annotations: {kubernetes.io/config.mirror: x}\n  labels:");
    let mirror = mirror.replace("default-scheduler", "default-scheduler\n  nodeName: n-0");
    refused(alice, words, &["create", "-f", "-"], &mirror);
    for kind in ["job", "deployment"] {
        refused(alice, words, &["create", kind, "x", "--image=busybox"], "");
    }
    refused(
        alice,
        words,
        &["create", "cronjob", "x", "--image=busybox", "--schedule=* * * * *"],
        "",
    );
    // Only Fluxqueue binds its pods.
    let half = "  labels: {fluxqueue/pod-group: g, fluxqueue/group-size: '2'}";
    alice.create(&crate::harness::pod("vast", "100m", "1", half));
    let binding = r#"{"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "vast"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n-0"}}"#;
    let raw = ["create", "--raw", "/api/v1/namespaces/team-a/pods/vast/binding", "-f", "-"];
    refused(alice, "requires that Fluxqueue binds pods", &raw, binding);
    // Her role includes the Namespace object itself, but not the labels on it that concern
    // Fluxqueue.
    refused(
        alice,
        "in the whole cluster",
        &["label", "namespace", "team-a", "fluxqueue/required-"],
        "",
    );
    refused(
        alice,
        "in the whole cluster",
        &["label", "namespace", "team-a", "fluxqueue/daemonsets=enabled"],
        "",
    );
    // DaemonSets are exempt where a label says so. A pod that only claims to belong to one is not.
    let set = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i,
  resources: {requests: {cpu: 1m}}}]}}}
";
    refused(alice, words, &["create", "-f", "-"], set);
    plane.kubectl(&["label", "namespace", "team-a", "fluxqueue/daemonsets=enabled"]);
    until("the label to count", || alice.try_kubectl(&["create", "-f", "-"], set).0.then_some(()));
    let owner = "  ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: u, controller: true}]\n  labels:";
    refused(alice, words, &["create", "-f", "-"], &other.replace("  labels:", owner));
    alice.seen_by_admin().pods(2, "of the DaemonSet", |pod| pod["metadata"]["labels"]["a"] == "b");
}

#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn no_user_changes_a_walltime_without_the_permission() {
    let tenants = Tenants::start(NODES, &[]);
    let (alice, plane) = (tenants.alice(), &tenants.plane);
    alice.create(&job("runs", 1, "100m", "infinity"));
    let name = alice.seen_by_admin().state("runs", "Running");
    let name = name["metadata"]["name"].as_str().expect("a name").to_owned();
    // This role may change pods, Jobs and FluxJobs, but not walltimes.
    let resources = "--resource=pods,pods/status,jobs.batch,fluxjobs.jobs.converged-computing.org";
    alice.seen_by_admin().kubectl(&[
        "create",
        "role",
        "changer",
        "--verb=get,list,patch,update",
        resources,
    ]);
    alice.seen_by_admin().kubectl(&[
        "create",
        "rolebinding",
        "hugo",
        "--role=changer",
        "--user=hugo",
    ]);
    let as_hugo =
        |args: &[&str]| plane.try_kubectl(&[args, &["-n", "team-a", "--as", "hugo"]].concat(), "");
    until("the role to count", || as_hugo(&["get", "pods"]).0.then_some(()));
    let needs = "needs verb update on fluxjobs/walltime";
    let annotation = r#"{"metadata": {"annotations": {"fluxqueue/walltime": "1s"}}}"#;
    let wish = overrides(r#""walltimeSeconds": 1"#);
    let pod = alice.seen_by_admin().running(1)[0]["metadata"]["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    for (kind, name, patch) in
        [("pod", &*pod, annotation), ("job", "runs", annotation), ("fluxjob", &name, &wish)]
    {
        let (ok, _, error) = as_hugo(&["patch", kind, name, "--type=merge", "-p", patch]);
        assert!(!ok && error.contains(needs), "{kind}: {error}");
    }
    let by_status =
        ["patch", "pod", &pod, "--subresource=status", "--type=merge", "-p", annotation];
    let (ok, _, error) = as_hugo(&by_status);
    assert!(!ok && error.contains(needs), "{error}");
    assert!(as_hugo(&["annotate", "pod", &pod, "note=mine"]).0, "other annotations are free");
}
