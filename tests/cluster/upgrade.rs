//! An upgrade from an older version while jobs run and wait, and the way back.
//!
//! `make upgrade` builds the older version and names it: `FLUXQUEUE_OLD` is its program, and
//! `FLUXQUEUE_OLD_MANIFESTS` is its folder of manifests.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::harness::{ControlPlane, Fluxqueue, Namespace, job, node_of, until};

const TWO: &str = "groups:\n- {namePrefix: n-, count: 2, cpu: '4', memory: 16Gi, pods: 110}\n";

/// Flags that both versions know, for a quick takeover.
const FLAGS: [&str; 4] = [
    "--leader-elect=true",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=500ms",
];

/// The older version.
struct Old {
    program: PathBuf,
    manifests: PathBuf,
}

impl Old {
    fn from_environment() -> Self {
        let path = |name| {
            let path = std::env::var_os(name).unwrap_or_else(|| panic!("{name}: `make upgrade`"));
            let path = PathBuf::from(path);
            assert!(path.exists(), "{name}: {} is missing", path.display());
            path
        };
        Old { program: path("FLUXQUEUE_OLD"), manifests: path("FLUXQUEUE_OLD_MANIFESTS") }
    }

    /// Applies files of its manifests, as its administrator does.
    fn apply(&self, plane: &ControlPlane, folder: &str, names: &[&str]) {
        let files = names.iter().map(|name| self.manifests.join(format!("{folder}/{name}.yaml")));
        let files: Vec<String> = files.map(|file| file.display().to_string()).collect();
        let mut apply = vec!["apply", "--server-side"];
        apply.extend(files.iter().flat_map(|file| ["-f", file]));
        plane.kubectl(&apply);
    }

    fn apply_base(&self, plane: &ControlPlane) {
        self.apply(plane, "base", &["namespace", "rbac", "roles", "admission-policy"]);
    }

    fn start(&self, plane: &ControlPlane) -> Fluxqueue {
        let mut command = Command::new(&self.program);
        command.args(["run", "--metrics-bind-address=127.0.0.1:0", "--kubeconfig"]);
        command.arg(plane.account("fluxqueue")).args(FLAGS);
        Fluxqueue::guarded(command, &plane.dir.join("old.log"))
    }
}

/// Returns the identity of the leader, if there is one.
fn holder(plane: &ControlPlane) -> Option<String> {
    let (found, holder, _) = plane.try_kubectl(
        &[
            "get",
            "lease",
            "fluxqueue",
            "--namespace=fluxqueue-system",
            "--output=jsonpath={.spec.holderIdentity}",
        ],
        "",
    );
    (found && !holder.is_empty()).then_some(holder)
}

/// Makes a Job that takes both nodes and promises to end after an hour.
fn whole(name: &str) -> String {
    job(name, 2, "4", "infinity")
        .replace("  parallelism", "  activeDeadlineSeconds: 3600\n  parallelism")
}

/// The parts of a job that stay the same under another version.
#[derive(Debug, PartialEq)]
struct Kept {
    uid: String,
    queued_at: String,
    state: String,
    promise: Option<String>,
}

impl Kept {
    fn of(record: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let status = &record["status"];
        Kept {
            uid: text(&record["metadata"]["uid"]),
            queued_at: text(&status["queuedAt"]),
            state: text(&status["state"]),
            promise: status["reservation"]["start"].as_str().map(str::to_owned),
        }
    }
}

/// Returns the parts of each job that must be kept, by the name of its workload.
fn kept(ns: &Namespace<'_>) -> BTreeMap<String, Kept> {
    let records = ns.list("fluxjobs");
    let named = |record: &Value| {
        let name = record["spec"]["workloadRef"]["name"].as_str().unwrap_or_default();
        (name.to_owned(), Kept::of(record))
    };
    records.iter().map(named).collect()
}

/// Returns the uid and the node of each pod.
fn seats(ns: &Namespace<'_>) -> BTreeMap<String, String> {
    let pods = ns.list("pods");
    pods.iter().map(|pod| (pod["metadata"]["uid"].to_string(), node_of(pod).to_owned())).collect()
}

/// Lets one version take over from the other, and checks that no job notices.
fn hand_over(ns: &Namespace<'_>, mut leader: Fluxqueue, what: &str) {
    let before = (kept(ns), seats(ns));
    let identity = until("a leader", || holder(ns.plane));
    assert_eq!(leader.terminate(), Some(0), "{what}: the leader ends in order");
    until(what, || holder(ns.plane).filter(|now| *now != identity));
    // The new leader writes all records that it would write otherwise.
    std::thread::sleep(std::time::Duration::from_secs(5));
    let after = (kept(ns), seats(ns));
    assert_eq!(before.1, after.1, "{what}: a pod has gone or moved");
    let names = |of: &BTreeMap<String, Kept>| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&before.0), names(&after.0), "{what}: a job has gone, or is twice there");
    for (name, before) in &before.0 {
        let after = &after.0[name];
        assert_eq!(before.uid, after.uid, "{what}: {name} has another FluxJob");
        assert_eq!(before.queued_at, after.queued_at, "{what}: {name} has lost its place");
        assert_eq!(before.state, after.state, "{what}: {name} is in another state");
        // A promise only moves earlier; times of one form are ordered as texts.
        assert!(
            before.promise.is_none()
                || (after.promise.is_some() && after.promise <= before.promise),
            "{what}: {name} was promised {:?}, and now {:?}",
            before.promise,
            after.promise
        );
    }
}

#[test]
#[ignore = "`make upgrade` builds the older version for it"]
fn jobs_keep_nodes_places_promises_and_holds_in_an_upgrade_and_on_the_way_back() {
    let old = Old::from_environment();
    let plane = ControlPlane::bare(TWO, &[]);
    old.apply(&plane, "crds", &["fluxjobs", "fluxqueues"]);
    old.apply_base(&plane);
    let leader = old.start(&plane);
    let ns = plane.namespace("upgrade");
    ns.apply(&whole("runs"));
    ns.running(2);
    ns.apply(&whole("next"));
    ns.flux_job("next", "is promised a start", |job| {
        job["status"]["reservation"]["start"].is_string()
    });
    ns.apply(&whole("held"));
    let held = ns.state("held", "Pending");
    let held = held["metadata"]["name"].as_str().expect("it has a name").to_owned();
    ns.wish(&held, r#""hold": true"#);
    ns.state("held", "Held");

    // The upgrade: definitions and rules first, while the old version leads and takes a job.
    plane.install();
    ns.apply(&whole("meanwhile"));
    ns.state("meanwhile", "Pending");
    let new = plane.fluxqueue(&FLAGS);
    hand_over(&ns, leader, "the new version leads");
    ns.state("held", "Held");
    ns.kubectl(&["delete", "job", "runs"]);
    ns.state("next", "Running");
    ns.running(2);
    ns.apply(&whole("after"));
    ns.state("after", "Pending");
    until("a promise of the new version", || {
        kept(&ns).get("meanwhile")?.promise.is_some().then_some(())
    });

    // The way back: the newer definitions stay.
    old.apply_base(&plane);
    let standby = old.start(&plane);
    hand_over(&ns, new, "the old version leads again");
    ns.state("held", "Held");
    ns.kubectl(&["delete", "job", "next"]);
    ns.state("meanwhile", "Running");
    ns.running(2);
    until("a promise of the old version", || {
        kept(&ns).get("after")?.promise.is_some().then_some(())
    });
    ns.wish(&held, r#""hold": false"#);
    ns.kubectl(&["delete", "job", "meanwhile"]);
    // Held has an earlier place than after, and delays no promise that was made during the hold.
    ns.state("after", "Running");
    ns.state("held", "Pending");
    ns.kubectl(&["delete", "job", "after"]);
    ns.state("held", "Running");
    drop(standby);
}
