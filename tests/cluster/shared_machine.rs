//! Two schedulers on the same full nodes, with pods that state no walltime.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flux_lists::hostlist;
use serde_json::Value;

use crate::harness::{ControlPlane, Namespace, node_of, pod, reserved, testbed, within};
use crate::promised::seconds;

const NODES: &str = "groups:\n- {namePrefix: n-, count: 24, cpu: '8', memory: 64Gi, pods: 110}\n";

/// Number of pods for each scheduler, large enough that some of each size are left at the count.
const PODS: usize = 450;

/// Time of the count, from the first pod that is bound: by then the nodes have been full several
/// times over.
const COUNTED_AFTER: Duration = Duration::from_mins(1);

/// Longest time until the first pod is bound.
const PATIENCE: Duration = Duration::from_mins(2);

/// Numbers of pods on one machine.
#[derive(Debug, Clone, Copy)]
struct Bound {
    /// Pods bound by Fluxqueue, or by the kube-scheduler in its place.
    by_tested: usize,
    /// Pods bound by the kube-scheduler beside it.
    by_other: usize,
    /// Pods of the first that still wait.
    waiting: usize,
    /// Pods of both that a kubelet has refused, because two schedulers had used the same room.
    refused: usize,
}

/// A kube-scheduler that serves Fluxqueue's name in its place.
struct InItsPlace(Child);

impl InItsPlace {
    fn start(plane: &ControlPlane) -> Self {
        let config = plane.dir.join("second-kube-scheduler.yaml");
        let kubeconfig = plane.dir.join("kube-scheduler.kubeconfig");
        let text = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
             leaderElection: {{leaderElect: false}}\n\
             clientConnection: {{kubeconfig: {}, qps: 10000, burst: 10000}}\n\
             profiles: [{{schedulerName: fluxqueue}}]\n",
            kubeconfig.display()
        );
        std::fs::write(&config, text).expect("it is written");
        let mut command = Command::new(testbed());
        command
            .arg("kube-scheduler")
            .arg(format!("--config={}", config.display()))
            .arg("--secure-port=0");
        let log =
            std::fs::File::create(plane.dir.join("second-kube-scheduler.log")).expect("a log file");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        InItsPlace(child.expect("kube-scheduler starts"))
    }
}

impl Drop for InItsPlace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes the same pods for both schedulers of a machine, small and large, far more than fit.
fn pods(count: usize) -> String {
    let mut manifest = String::new();
    for number in 0..count {
        let (cpu, seconds) =
            (["500m", "1", "6", "2", "500m"][number % 5], ["12", "30", "18"][number % 3]);
        manifest += &pod(&format!("ours-{number}"), cpu, seconds, "");
        manifest += &pod(&format!("theirs-{number}"), cpu, seconds, "")
            .replace("schedulerName: fluxqueue", "schedulerName: default-scheduler");
    }
    manifest
}

fn count(namespace: &Namespace<'_>) -> Bound {
    let pods = namespace.list("pods");
    let is_tested = |pod: &Value| pod["spec"]["schedulerName"] == "fluxqueue";
    // Such a pod was bound in vain.
    let is_refused = |pod: &Value| pod["status"]["phase"] == "Failed";
    let is_bound = |pod: &Value| !node_of(pod).is_empty() && !is_refused(pod);
    let how_many = |of: &dyn Fn(&Value) -> bool| pods.iter().filter(|pod| of(pod)).count();
    Bound {
        by_tested: how_many(&|pod| is_bound(pod) && is_tested(pod)),
        by_other: how_many(&|pod| is_bound(pod) && !is_tested(pod)),
        waiting: how_many(&|pod| is_tested(pod) && node_of(pod).is_empty()),
        refused: how_many(&is_refused),
    }
}

/// Counts the pods that are bound in the same time. Kubelets end the pods after their run time, so
/// on an otherwise idle computer the count shows how well the nodes are used: a scheduler that
/// leaves nodes idle though its pods could use them has bound fewer.
fn bound(plane: &ControlPlane) -> Bound {
    let namespace = plane.namespace("shared-machine");
    let manifest = pods(PODS);
    let bound = std::thread::scope(|scope| {
        // The manifest is applied in the background: the first pod is bound before the last one
        // exists.
        scope.spawn(|| namespace.apply(&manifest));
        let first_bound = within(PATIENCE, "the first pod to be bound", || {
            let bound = count(&namespace);
            (bound.by_tested + bound.by_other > 0).then(Instant::now)
        });
        std::thread::sleep(COUNTED_AFTER.saturating_sub(first_bound.elapsed()));
        count(&namespace)
    });
    // The namespace ends with its control plane: deleting hundreds of pods would take longer than
    // the rest of the test.
    std::mem::forget(namespace);
    bound
}

/// In three runs on an otherwise idle computer, Fluxqueue bound 1.05, 1.16 and 1.08 times as many
/// pods as the second kube-scheduler, for example 283 pods against 261. Kubelets also refused fewer
/// pods. They refuse many of them where two schedulers do not know of each other.
#[test]
#[ignore = "the number of pods bound in a minute differs by more than a tenth from run to run where the computer is busy"]
fn beside_kube_scheduler_it_binds_what_another_kube_scheduler_would() {
    let in_its_place = {
        let plane = ControlPlane::start(NODES, &["--kube-scheduler"]);
        let _second = InItsPlace::start(&plane);
        bound(&plane)
    };
    let fluxqueue = {
        let plane = ControlPlane::start(NODES, &["--kube-scheduler"]);
        let _fluxqueue = plane.fluxqueue(&[]);
        bound(&plane)
    };
    println!("kube-scheduler in its place: {in_its_place:?}; Fluxqueue: {fluxqueue:?}");
    println!("refused by kubelets: {} and {}", in_its_place.refused, fluxqueue.refused);
    for machine in [in_its_place, fluxqueue] {
        assert!(machine.waiting > 0, "the machine was not full: {machine:?}");
    }
    assert!(
        fluxqueue.by_tested * 10 >= in_its_place.by_tested * 9,
        "Fluxqueue {fluxqueue:?}, kube-scheduler {in_its_place:?}"
    );
}

const EIGHT: &str = "groups:\n- {namePrefix: n-, count: 8, cpu: '8', memory: 64Gi, pods: 110}\n";

/// Seconds for which others may go ahead of a pod that waits for unknown ends, and the delay until
/// that can be observed.
const BYPASS_SECONDS: f64 = 5.0;
const SEEN_LATE: f64 = 5.0;

/// The nodes that are held for each pod that may no longer be passed.
type Held = BTreeMap<String, BTreeSet<String>>;

/// The state at one time.
struct Look {
    held: Held,
    /// The nodes of Fluxqueue's pods.
    places: BTreeMap<String, String>,
    starving: BTreeSet<String>,
    /// True if no write was outstanding after the rest had been read.
    is_written: bool,
}

impl Look {
    /// Lists records and then pods with one command: on a busy computer each command takes long.
    fn take(namespace: &Namespace<'_>, port: u16) -> Look {
        let (records, pods): (Vec<Value>, Vec<Value>) = namespace
            .list("fluxjobs,pods")
            .into_iter()
            .partition(|object| object["kind"] == "FluxJob");
        let starving = starving(&records, now());
        Look { held: held(&records), places: places(&pods), starving, is_written: is_written(port) }
    }
}

fn held(records: &[Value]) -> Held {
    let of_record = |record: &Value| {
        let reservation = &record["status"]["reservation"];
        let nodes = reserved(&record["status"]).filter(|_| reservation["start"].is_null())?;
        let nodes = hostlist::decode(&nodes).expect("a hostlist").into_iter().collect();
        Some((record["spec"]["workloadRef"]["name"].as_str()?.to_owned(), nodes))
    };
    records.iter().filter_map(of_record).collect()
}

/// Returns waiting jobs that hold no nodes though others have passed them for longer than the rule
/// allows.
fn starving(records: &[Value], now: f64) -> BTreeSet<String> {
    let is_starving = |record: &&Value| {
        let since = record["status"]["passedBySince"].as_str().map(seconds);
        let waits =
            record["status"]["state"] == "Pending" && record["status"]["reservation"].is_null();
        waits && since.is_some_and(|since| now > since + BYPASS_SECONDS + SEEN_LATE)
    };
    let names =
        records.iter().filter(is_starving).map(|record| record["metadata"]["name"].to_string());
    names.collect()
}

fn now() -> f64 {
    jiff::Timestamp::now().as_duration().as_secs_f64()
}

/// Returns the nodes of Fluxqueue's pods.
fn places(pods: &[Value]) -> BTreeMap<String, String> {
    let ours = pods
        .iter()
        .filter(|pod| pod["spec"]["schedulerName"] == "fluxqueue" && !node_of(pod).is_empty());
    ours.map(|pod| {
        (pod["metadata"]["name"].as_str().expect("a name").to_owned(), node_of(pod).to_owned())
    })
    .collect()
}

/// True if nodes were held often enough, and observed often enough meanwhile, for a verdict.
fn is_enough(holds: usize, judged: usize) -> bool {
    holds >= 2 && judged >= 6
}

/// Checks that a pod that got a node between two looks got none that was held for another pod all
/// the while. Counts the holds that were judged, once for each pair of looks.
///
/// A node is chosen before the pod can be seen there, and a hold is let go, or its pod is bound,
/// before its record says so. So a hold is judged that was seen before a look at which no write was
/// outstanding while the pod was not there yet, and is still there after such a look when the pod
/// is.
fn judge(looks: &[Look]) -> usize {
    let mut judged = 0;
    for (last, (before, then)) in looks.iter().zip(looks.iter().skip(1)).enumerate() {
        let first = looks[..last].iter().rposition(|look| look.is_written);
        let written = looks.iter().skip(last + 1).position(|look| look.is_written);
        let (Some(first), Some(written)) = (first, written) else { continue };
        let Some(seen) = looks.get(first..=last + written + 2) else { continue };
        let stands = |(holder, nodes): &(&String, &BTreeSet<String>)| {
            seen.iter().all(|look| look.held.get(*holder) == Some(nodes))
        };
        for (holder, nodes) in looks[first].held.iter().filter(stands) {
            judged += 1;
            let is_new = |pod: &str| !before.places.contains_key(pod) && pod != holder;
            for (pod, node) in then.places.iter().filter(|(pod, _)| is_new(pod)) {
                assert!(!nodes.contains(node), "{pod} went to {node}, which is held for {holder}");
            }
        }
    }
    judged
}

/// True if no write of this Fluxqueue waits or is in flight.
fn is_written(port: u16) -> bool {
    let metrics = get(port, "/metrics");
    let lanes = metrics.lines().filter(|line| line.starts_with("fluxqueue_lane_outstanding{"));
    let lanes: Vec<&str> = lanes.collect();
    assert!(!lanes.is_empty(), "{metrics}");
    lanes.iter().all(|lane| lane.ends_with("} 0"))
}

/// Returns an answer of a Fluxqueue that serves without TLS.
fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// Where the ends of pods are unknown, large pods wait for as long as the rule allows, and then
/// nodes are held for them: none of our pods goes there any more, whatever kube-scheduler does.
#[test]
fn no_pod_is_passed_by_for_longer_than_the_rule_says() {
    let plane = ControlPlane::start(EIGHT, &["--kube-scheduler"]);
    let config = plane.dir.join("bypass.yaml");
    let text = format!(
        "apiVersion: config.converged-computing.org/v1alpha1\nkind: FluxqueueConfiguration\nbypassSeconds: {BYPASS_SECONDS}\n"
    );
    std::fs::write(&config, text).expect("it is written");
    let _fluxqueue = plane.fluxqueue(&["--config", &config.display().to_string()]);
    let port = plane.served_port();
    let namespace = plane.namespace("passed-by");
    let (mut holds, mut judged) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| namespace.apply(&pods(150)));
        let mut looks: Vec<Look> = Vec::new();
        let begin = Instant::now();
        // On a busy computer a look takes long, and short holds are seen less often.
        while begin.elapsed() < COUNTED_AFTER
            || (!is_enough(holds, judged) && begin.elapsed() < PATIENCE)
        {
            std::thread::sleep(Duration::from_millis(250));
            let now = Look::take(&namespace, port);
            if let Some(last) = looks.last().filter(|last| last.is_written) {
                let starving: Vec<_> = now.starving.intersection(&last.starving).collect();
                assert!(starving.is_empty(), "nothing is held for {starving:?}");
            }
            let was_held =
                |name: &&String| looks.last().is_some_and(|look| look.held.contains_key(*name));
            holds += now.held.keys().filter(|name| !was_held(name)).count();
            looks.push(now);
            judged = judge(&looks);
        }
    });
    println!("nodes were held {holds} times; looked at them in {judged} rounds");
    assert!(
        is_enough(holds, judged),
        "hardly anything was held: {holds} times, seen in {judged} rounds"
    );
    std::mem::forget(namespace);
}

#[test]
fn a_pod_that_goes_to_a_held_node_is_found_and_one_that_was_on_its_way_is_not() {
    let names = |of: &[(&str, &str)]| -> BTreeMap<String, String> {
        of.iter().map(|(pod, node)| (pod.to_string(), node.to_string())).collect()
    };
    let look = |is_held: bool, is_written: bool, places: &[(&str, &str)]| Look {
        held: is_held
            .then(|| ("large".to_owned(), BTreeSet::from(["n".to_owned()])))
            .into_iter()
            .collect(),
        places: names(places),
        starving: BTreeSet::new(),
        is_written,
    };
    let (none, small): (&[_], &[_]) = (&[], &[("small", "n")]);
    let arrives = |first: bool, last: bool, is_held_at_last: bool| {
        [
            look(true, first, none),
            look(true, true, none),
            look(true, last, small),
            look(is_held_at_last, true, small),
        ]
    };
    assert!(std::panic::catch_unwind(|| judge(&arrives(true, true, true))).is_err());
    assert_eq!(judge(&arrives(false, true, true)), 0, "it may have been bound before the hold");
    assert_eq!(judge(&arrives(true, false, true)), 0, "the hold may be let go");
    assert_eq!(judge(&arrives(true, true, false)), 0, "the hold was let go");
    assert_eq!(judge(&[0, 1, 2, 3].map(|_| look(true, true, none))), 1);
}
