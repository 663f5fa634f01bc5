//! The users of jobs: which user an object is noted as, that no tenant changes or forges it, and
//! `kubectl fluxqueue queue -u`.

use serde_json::{Value, json};

use crate::command::{done, failed};
use crate::harness::{ControlPlane, NODES, Namespace, job, pod, shared, until};
use crate::newer;
use crate::webhook::Webhook;

/// Runs kubectl as a user without any group of administrators.
fn by(ns: &Namespace<'_>, user: &str, args: &[&str], stdin: &str) -> Result<String, String> {
    let who = format!("--as={user}");
    let args = [&["-n", &ns.name, &who], args].concat();
    let (ok, out, err) = ns.plane.try_kubectl(&args, stdin);
    if ok { Ok(out) } else { Err(err) }
}

fn create(ns: &Namespace<'_>, user: &str, manifest: &str) -> Result<Value, String> {
    let made = by(ns, user, &["create", "-o", "json", "-f", "-"], manifest)?;
    Ok(serde_json::from_str(&made).expect("JSON"))
}

/// Returns the users that an object names, from the outside to the inside.
fn noted(object: &Value) -> Vec<&str> {
    ["", "/spec/jobTemplate", "/spec/template", "/spec/jobTemplate/spec/template"]
        .iter()
        .filter_map(|path| {
            object.pointer(&format!("{path}/metadata/annotations/fluxqueue~1user"))?.as_str()
        })
        .collect()
}

/// Lets these users edit the namespace.
fn admit(ns: &Namespace<'_>, users: &[&str]) {
    for user in users {
        let of = format!("--user={user}");
        ns.kubectl(&["create", "rolebinding", user, "--clusterrole=edit", &of]);
        until("the role to count", || {
            by(ns, user, &["auth", "can-i", "list", "fluxjobs"], "").ok()
        });
    }
}

/// Returns the manifest with this user in all its metadata.
fn forged(manifest: &str, user: &str) -> String {
    let mut object: Value = serde_saphyr::from_multiple(manifest).expect("YAML").remove(0);
    let mut put = |path: &str| {
        if let Some(part) = object.pointer_mut(path) {
            part["metadata"]["annotations"]["fluxqueue/user"] = json!(user);
        }
    };
    ["", "/spec/template"].into_iter().for_each(&mut put);
    object.to_string()
}

const SERVICE: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: fluxqueue
      containers:
      - {name: main, image: busybox, command: [sleep, infinity], resources: {requests: {cpu: 100m}}}
---";

/// No Job comes of it in the time of a test.
const NIGHTLY: &str = "
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: 0 3 29 2 *
  jobTemplate:
    spec:
      template:
        spec:
          schedulerName: fluxqueue
          restartPolicy: Never
          containers:
          - {name: main, image: busybox, command: [sleep, '1'], resources: {requests: {cpu: 10m}}}
---";

#[test]
fn a_job_is_that_of_the_user_that_created_it() {
    let plane = ControlPlane::start(NODES, &[]);
    let _fluxqueue = plane.fluxqueue(&[]);
    let mut webhook = Webhook::start(&plane, &[]);
    let ns = plane.namespace("users");
    admit(&ns, &["ann", "bob"]);
    until("the policy to count", || {
        let others = forged(&pod("others", "10m", "1", ""), "ann");
        let others = others.replace("\"fluxqueue\"", "\"nobody\"");
        by(&ns, "bob", &["create", "--dry-run=server", "-f", "-"], &others).err()
    });

    noted_over_what_clients_say(&ns);
    unchanged(&ns);
    listed(&ns);
    webhook.process.kill();
    unforged_while_nothing_answers(&ns);
}

fn noted_over_what_clients_say(ns: &Namespace<'_>) {
    let made = create(ns, "ann", &forged(&job("solve", 2, "100m", "infinity"), "bob"))
        .expect("it is accepted");
    assert_eq!(noted(&made), ["ann", "ann"]);
    for pod in ns.running(2) {
        assert_eq!(noted(&pod), ["ann"], "pods of a Job are its user's");
    }
    let made = create(ns, "bob", &pod("lone", "100m", "infinity", "")).expect("it is accepted");
    assert_eq!(noted(&made), ["bob"]);
    // An owner reference makes no controller of a tenant.
    let owned = pod(
        "owned",
        "100m",
        "infinity",
        &format!(
            "  annotations: {{fluxqueue/user: ann}}\n  ownerReferences: [{{apiVersion: batch/v1, \
         kind: Job, name: x, uid: {}, controller: true}}]",
            made["metadata"]["uid"]
        ),
    );
    // The garbage collector removes it.
    assert_eq!(noted(&create(ns, "bob", &owned).expect("it is accepted")), ["bob"]);
    let others =
        forged(&pod("others", "10m", "1", ""), "ann").replace("\"fluxqueue\"", "\"nobody\"");
    let error = create(ns, "bob", &others).expect_err("it is not noted");
    assert!(error.contains("Pod others: metadata.annotations[fluxqueue/user]"), "{error}");
    let robot = format!("system:serviceaccount:{}:default", ns.name);
    admit_account(ns);
    let made = create(ns, &robot, &pod("robots", "10m", "1", "")).expect("it is accepted");
    assert_eq!(noted(&made), [robot.as_str()]);
    let made = create(ns, "ann", SERVICE).expect("it is accepted");
    assert_eq!(noted(&made), ["ann", "ann"]);
    let made = create(ns, "ann", NIGHTLY).expect("it is accepted");
    assert_eq!(noted(&made), ["ann", "ann", "ann"]);
    let tonight = ["create", "job", "tonight", "--from=cronjob/nightly", "-o", "json"];
    let made = by(ns, "bob", &tonight, "").expect("it is accepted");
    let made: Value = serde_json::from_str(&made).expect("JSON");
    assert_eq!(noted(&made), ["bob", "bob"], "a Job by hand is that of the user that makes it");
    let group = "  labels: {fluxqueue/pod-group: pair, fluxqueue/group-size: '2'}";
    for name in ["one", "two"] {
        create(ns, "bob", &pod(name, "100m", "infinity", group)).expect("it is accepted");
    }
}

fn admit_account(ns: &Namespace<'_>) {
    let of = format!("--serviceaccount={}:default", ns.name);
    ns.kubectl(&["create", "rolebinding", "robot", "--clusterrole=edit", &of]);
}

fn unchanged(ns: &Namespace<'_>) {
    let other = json!({"metadata": {"annotations": {"fluxqueue/user": "bob"}}});
    let in_template = json!({"spec": {"template": other}});
    for (object, patch, field) in [
        ("job/solve", &other, "Job solve: metadata.annotations[fluxqueue/user]:"),
        ("pod/lone", &json!({"metadata": {"annotations": {"fluxqueue/user": "ann"}}}), "Pod lone:"),
        ("deployment/web", &other, "Deployment web: metadata.annotations[fluxqueue/user]:"),
        ("cronjob/nightly", &other, "CronJob nightly: metadata.annotations[fluxqueue/user]:"),
        (
            "deployment/web",
            &in_template,
            "Deployment web: spec.template.metadata.annotations[fluxqueue/user]:",
        ),
    ] {
        for user in ["ann", "bob"] {
            let error = by(ns, user, &["patch", object, "-p", &patch.to_string()], "")
                .expect_err("the policy refuses it");
            assert!(error.contains(field) && error.contains("does not change"), "{error}");
        }
    }
    // A manifest without the annotation takes nothing away, and starts no rollout.
    let before =
        by(ns, "bob", &["get", "deployment", "web", "-o", "json"], "").expect("it is accepted");
    let before: Value = serde_json::from_str(&before).expect("JSON");
    by(ns, "bob", &["replace", "-f", "-"], SERVICE).expect("it is accepted");
    let after =
        by(ns, "bob", &["get", "deployment", "web", "-o", "json"], "").expect("it is accepted");
    let after: Value = serde_json::from_str(&after).expect("JSON");
    assert_eq!(noted(&after), ["ann", "ann"]);
    assert_eq!(after["spec"]["template"], before["spec"]["template"]);
    // Other changes are free, and a rollout keeps the user.
    by(ns, "bob", &["set", "env", "deployment/web", "A=b"], "").expect("it is accepted");
    until("the pod of the new template", || {
        let pods = ns.list("pods");
        let of_template = |pod: &&Value| {
            pod["metadata"]["labels"]["app"] == "web"
                && pod["spec"]["containers"][0]["env"][0]["value"] == "b"
        };
        let pod = pods.iter().find(of_template)?;
        assert_eq!(noted(pod), ["ann"]);
        Some(())
    });
}

fn listed(ns: &Namespace<'_>) {
    ns.state("pair", "Running");
    let jobs = |args: &[&str]| -> Vec<String> {
        let words = [&["queue", "--no-headers"], args].concat();
        let table = done(ns, &words);
        let mut jobs: Vec<String> = table
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .map(str::to_owned)
            .collect();
        jobs.retain(|job| job != "pod/robots" && job != "job/tonight");
        jobs.sort();
        jobs
    };
    assert_eq!(jobs(&["--me", "--as", "ann"]), ["deployment/web", "job/solve"]);
    assert_eq!(jobs(&["-u", "ann", "--as", "bob"]), ["deployment/web", "job/solve"]);
    assert_eq!(jobs(&["--me", "--as", "bob"]), ["group/pair", "pod/lone"]);
    assert_eq!(jobs(&["-u", "ann,bob"]).len(), 4);
    assert_eq!(jobs(&["-A", "-u", "nobody"]), [""; 0]);
    let wide = done(ns, &["queue", "-o", "wide"]);
    let row = wide.lines().find(|line| line.starts_with("job/solve")).expect("the job");
    assert!(row.contains("   ann   "), "{wide}");
    let names = done(ns, &["queue", "-u", "bob", "-o", "name"]);
    assert!(names.contains("fluxjob.") && names.contains("pair") && !names.contains("solve"));
}

fn unforged_while_nothing_answers(ns: &Namespace<'_>) {
    let error = create(ns, "bob", &forged(&pod("late", "10m", "1", ""), "ann"))
        .expect_err("the policy refuses it");
    let field = "Pod late: metadata.annotations[fluxqueue/user]: is the user that creates";
    assert!(error.contains(field), "{error}");
    let error = create(ns, "bob", &forged(&job("late", 1, "10m", "1"), "ann"))
        .expect_err("the policy refuses it");
    assert!(error.contains(", spec.template.metadata.annotations[fluxqueue/user]:"), "{error}");
    assert_eq!(
        noted(&create(ns, "bob", &pod("late", "10m", "1", "")).expect("it is accepted")),
        [""; 0]
    );
}

#[test]
fn the_job_of_a_pod_group_is_that_of_the_user_of_its_pods() {
    if newer::is_left_out("users::the_job_of_a_pod_group_is_that_of_the_user_of_its_pods") {
        return;
    }
    let plane = ControlPlane::start(NODES, &["--workload-with-job"]);
    let _fluxqueue = plane.fluxqueue(&[]);
    let _webhook = Webhook::start(&plane, &[]);
    let ns = plane.namespace("users");
    admit(&ns, &["ann", "bob"]);
    ns.apply(
        "{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: ring}, \
         spec: {schedulingPolicy: {gang: {minCount: 2}}}}",
    );
    let named = "spec:\n  schedulingGroup: {podGroupName: ring}";
    for name in ["ring-0", "ring-1"] {
        let member = pod(name, "100m", "infinity", "").replace("spec:", named);
        create(&ns, "ann", &member).expect("it is accepted");
    }
    create(&ns, "bob", &pod("lone", "100m", "infinity", "")).expect("it is accepted");
    ns.running(3);
    let jobs = |args: &[&str]| -> Vec<String> {
        let table = done(&ns, &[&["queue", "--no-headers"], args].concat());
        let jobs = table.lines().filter_map(|line| line.split_whitespace().next());
        jobs.map(str::to_owned).collect()
    };
    let is_known = || (jobs(&["-u", "ann"]) == ["podgroup/ring"]).then_some(());
    until("the job of the group", is_known);
    assert_eq!(jobs(&["--me", "--as", "bob"]), ["pod/lone"]);
    assert_eq!(jobs(&[]).len(), 2, "the pods of the group are no jobs of their own");
    let shown = done(&ns, &["show", "pod/ring-1"]);
    assert!(shown.contains("podgroup/ring"), "{shown}");
    // The record is named after the first pod.
    for name in ["ring-0", "ring-1"] {
        plane.kubectl(&["delete", "pod", name, "-n", &ns.name, "--wait=false"]);
        let again = pod(&format!("{name}-again"), "100m", "infinity", "").replace("spec:", named);
        create(&ns, "ann", &again).expect("it is accepted");
    }
    ns.running(3);
    until("the job of the group", is_known);
}

#[test]
fn users_are_not_asked_for_where_nothing_notes_them() {
    let ns = shared().namespace("users");
    for args in [&["queue", "--me"][..], &["queue", "-u", "ann"], &["history", "--me"]] {
        let error = failed(&ns, args);
        assert!(error.contains(args[1]) && error.contains("is not on this cluster"), "{error}");
    }
    let wide = done(&ns, &["queue", "-o", "wide"]);
    assert_eq!(wide, "", "an empty queue");
}
