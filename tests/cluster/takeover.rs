//! A leader that is stopped, replaced, and continued.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout};
use std::time::Duration;

use serde_json::Value;

use crate::harness::{ControlPlane, Fluxqueue, Namespace, job, node_of, planned, until, within};

const SIXTY: &str = "groups:\n- {namePrefix: n-, count: 60, cpu: '4', memory: 16Gi, pods: 110}\n";

/// Flags for a quick takeover and slow binding, so that there is a middle in which to stop the
/// leader.
const FLAGS: [&str; 5] = [
    "--leader-elect=true",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=500ms",
    "--bind-concurrency=1",
];

const PODS: usize = 150;

/// Returns the leader's identity from the Lease.
fn holder(plane: &ControlPlane) -> Option<String> {
    let path = [
        "get",
        "lease",
        "-n",
        "fluxqueue-system",
        "fluxqueue",
        "-o",
        "jsonpath={.spec.holderIdentity}",
    ];
    let (found, holder, _) = plane.try_kubectl(&path, "");
    (found && !holder.is_empty()).then_some(holder)
}

/// Returns name and node of each pod that has one.
fn bound(ns: &Namespace<'_>) -> BTreeMap<String, String> {
    let pods = ns.list("pods");
    let on_a_node = pods.iter().filter(|pod| !node_of(pod).is_empty());
    on_a_node.map(|pod| (pod["metadata"]["name"].to_string(), node_of(pod).to_owned())).collect()
}

/// The time at which a leader is stopped: this long after an object of this kind has this field.
struct Moment {
    kind: &'static str,
    field: &'static str,
    pause: Duration,
}

/// Most watches that may end before the moment comes.
const WATCHES: usize = 10;

/// A watch for a moment, which would be over by the next list.
struct Lookout<'a> {
    ns: &'a Namespace<'a>,
    moment: &'a Moment,
    watch: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl<'a> Lookout<'a> {
    fn start(ns: &'a Namespace<'a>, moment: &'a Moment) -> Self {
        let template = format!(r#"jsonpath={{{}}}{{"\n"}}"#, moment.field);
        let watch = ["get", moment.kind, "-n", &ns.name, "--watch", "-o", &template];
        let mut watch = ns.plane.kubectl_in_background(&watch);
        let lines = BufReader::new(watch.stdout.take().expect("stdout is piped")).lines();
        Lookout { ns, moment, watch, lines }
    }

    /// Returns when the moment has come. A watch may end earlier: another one follows, which begins
    /// with a list.
    fn wait(mut self) {
        for _ in 0..WATCHES {
            let has_come = self.lines.any(|line| line.is_ok_and(|field| !field.is_empty()));
            if has_come {
                std::thread::sleep(self.moment.pause);
                self.watch.kill().expect("it is killed");
            }
            let status = self.watch.wait().expect("it is gone");
            if has_come {
                return;
            }
            eprintln!("a watch of {} ended: {status}", self.moment.kind);
            std::thread::sleep(Duration::from_millis(200));
            self = Lookout::start(self.ns, self.moment);
        }
        panic!("the watch ended too often");
    }
}

/// Returns the number of pods on each node.
fn per_node(bound: &BTreeMap<String, String>) -> BTreeMap<String, usize> {
    let mut nodes = BTreeMap::new();
    for node in bound.values() {
        *nodes.entry(node.clone()).or_default() += 1;
    }
    nodes
}

/// Returns the FluxJob of the gang, once it has not been written for some seconds.
fn settled(ns: &Namespace<'_>) -> Value {
    let mut before = ns.state("gang", "Running");
    until("the FluxJob to come to rest", || {
        std::thread::sleep(Duration::from_secs(2));
        let now = ns.state("gang", "Running");
        let same = now["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"];
        before = now;
        same.then(|| before.clone())
    })
}

/// Stops `first` at that moment, lets `second` take over and finish, lets `first` continue, and
/// checks that it undoes nothing.
fn round(plane: &ControlPlane, first: &mut Fluxqueue, moment: &Moment, meanwhile: impl FnOnce()) {
    let leader = until("a leader", || holder(plane));
    let ns = plane.namespace("takeover");
    let lookout = Lookout::start(&ns, moment);
    ns.apply(&job("gang", 150, "1", "infinity"));
    lookout.wait();
    first.signal("-STOP");
    let before = bound(&ns);
    eprintln!("stopped with {} of {PODS} bound", before.len());
    meanwhile();
    until("another leader", || holder(plane).filter(|now| *now != leader));
    within(Duration::from_mins(2), "the successor to bind the whole gang", || {
        (bound(&ns).len() == PODS).then_some(())
    });
    let (record, after) = (settled(&ns), bound(&ns));
    assert!(before.iter().all(|(pod, node)| after.get(pod) == Some(node)), "a bound pod has moved");
    assert_eq!(planned(&record), per_node(&after), "pods are not where the placement says");

    first.signal("-CONT");
    assert_eq!(first.exit_status(), Some(1), "it has lost the Lease, and ends");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(bound(&ns), after, "the old leader has bound or undone something");
    let now = ns.state("gang", "Running");
    assert_eq!(
        now["status"], record["status"],
        "the old leader has written over its successor's status"
    );
    assert_eq!(now["metadata"]["uid"], record["metadata"]["uid"]);
    assert_eq!(plane.testbed(&["refusals"]).trim(), "0", "a kubelet refused a pod");
    ns.kubectl(&["delete", "job", "gang", "--wait=false"]);
    ns.kubectl(&["delete", "pods", "--all", "--grace-period=0", "--force"]);
    until("nothing to be left", || {
        (ns.list("pods").is_empty() && ns.list("fluxjobs").is_empty()).then_some(())
    });
}

#[test]
fn a_leader_stopped_while_it_binds_undoes_nothing_when_it_goes_on() {
    let plane = ControlPlane::start(SIXTY, &[]);
    let mut leader = plane.fluxqueue(&FLAGS);
    for _ in 0..2 {
        until("a leader", || holder(&plane));
        let second = plane.fluxqueue(&FLAGS);
        let binds = Moment { kind: "pods", field: ".spec.nodeName", pause: Duration::ZERO };
        round(&plane, &mut leader, &binds, || {});
        leader = second;
    }
}

#[test]
fn a_leader_stopped_while_it_writes_a_placement_overwrites_nothing_when_it_goes_on() {
    let plane = ControlPlane::start(SIXTY, &[]);
    let mut leader = plane.fluxqueue(&FLAGS);
    // The record exists as soon as the first pod does. The placement follows the last pod.
    for pause in [0, 30, 90] {
        until("a leader", || holder(&plane));
        let second = plane.fluxqueue(&FLAGS);
        let pause = Duration::from_millis(pause);
        let writes = Moment { kind: "fluxjobs", field: ".metadata.uid", pause };
        // If the placement was not written, the successor has to decide otherwise.
        let cordon =
            || (0..5).for_each(|node| drop(plane.kubectl(&["cordon", &format!("n-{node}")])));
        round(&plane, &mut leader, &writes, cordon);
        (0..5).for_each(|node| drop(plane.kubectl(&["uncordon", &format!("n-{node}")])));
        leader = second;
    }
}
