//! Two schedulers on the same full nodes, with pods that state no walltime.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fluxqueue_api::hostlist;
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

/// Looks that are kept.
const LOOKS_MAX: usize = 16;

/// Longest time from the choice of a node for a pod until the pod can be seen there.
const BOUND_WITHIN: Duration = Duration::from_secs(1);

/// The state at one time.
struct Look {
    at: Instant,
    held: Held,
    /// The nodes of Fluxqueue's pods.
    places: BTreeMap<String, String>,
    starving: Vec<String>,
}

impl Look {
    /// Lists records and then pods with one command: on a busy computer each command takes long.
    fn take(namespace: &Namespace<'_>) -> Look {
        let at = Instant::now();
        let (records, pods): (Vec<Value>, Vec<Value>) = namespace
            .list("fluxjobs,pods")
            .into_iter()
            .partition(|object| object["kind"] == "FluxJob");
        let starving = starving(&records, now());
        Look { at, held: held(&records), places: places(&pods), starving }
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
fn starving(records: &[Value], now: f64) -> Vec<String> {
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

/// Checks that pods that got a node between the last two of these looks went to no node that was
/// held for another all the while, until now. Counts the holds. A hold has to be there
/// [`BOUND_WITHIN`] before already, because such a pod may have been placed that long ago.
fn judge(looks: &VecDeque<Look>, now: &Look) -> usize {
    let Some(last) = looks.len().checked_sub(2) else { return 0 };
    let (before, then) = (&looks[last], &looks[last + 1]);
    let is_long_before = |look: &Look| look.at + BOUND_WITHIN <= before.at;
    let Some(first) = looks.iter().rposition(is_long_before) else { return 0 };
    let stands = |(holder, nodes): &(&String, &BTreeSet<String>)| {
        let mut since = looks.iter().skip(first).chain([now]);
        since.all(|look| look.held.get(*holder) == Some(nodes))
    };
    let mut judged = 0;
    for (holder, nodes) in looks[first].held.iter().filter(stands) {
        judged += 1;
        for (pod, node) in then
            .places
            .iter()
            .filter(|(pod, _)| !before.places.contains_key(*pod) && *pod != holder)
        {
            assert!(!nodes.contains(node), "{pod} went to {node}, which is held for {holder}");
        }
    }
    judged
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
    let namespace = plane.namespace("passed-by");
    let (mut holds, mut judged) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| namespace.apply(&pods(150)));
        // The last looks, the oldest first.
        let mut looks: VecDeque<Look> = VecDeque::new();
        let begin = Instant::now();
        // On a busy computer a look takes long, and short holds are seen less often.
        while begin.elapsed() < COUNTED_AFTER
            || (!is_enough(holds, judged) && begin.elapsed() < PATIENCE)
        {
            std::thread::sleep(Duration::from_millis(250));
            let now = Look::take(&namespace);
            assert_eq!(now.starving, Vec::<String>::new(), "nothing is held for them");
            let was_held =
                |name: &&String| looks.back().is_some_and(|look| look.held.contains_key(*name));
            holds += now.held.keys().filter(|name| !was_held(name)).count();
            judged += judge(&looks, &now);
            looks.push_back(now);
            if looks.len() > LOOKS_MAX {
                looks.pop_front();
            }
        }
    });
    println!("nodes were held {holds} times; looked at them in {judged} rounds");
    assert!(
        is_enough(holds, judged),
        "hardly anything was held: {holds} times, seen in {judged} rounds"
    );
    std::mem::forget(namespace);
}
