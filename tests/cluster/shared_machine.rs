//! Two schedulers on the same nodes, which are full, and pods that say nothing of how long they run.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::harness::{ControlPlane, Namespace, node_of, pod, within};

const NODES: &str = "groups:\n- {namePrefix: n-, count: 24, cpu: '8', memory: 64Gi, pods: 110}\n";

/// Pods for each scheduler, and how many of both are bound when they are counted: enough for the nodes to have been full several times
/// over, and so few that some of each size are left.
const PODS: usize = 300;
const COUNTED_AT: usize = 320;

/// How long that may take on a machine that has other things to do. Nothing depends on how long it takes.
const PATIENCE: Duration = Duration::from_mins(10);

/// How many pods were bound on one machine.
#[derive(Debug, Clone, Copy)]
struct Bound {
    /// By Fluxqueue, or the kube-scheduler in its place.
    by_tested: usize,
    /// By the kube-scheduler beside it.
    by_other: usize,
    /// Pods that were there, and that were not bound.
    waiting: usize,
}

impl Bound {
    fn share(self) -> f64 {
        let count = |pods: usize| f64::from(u32::try_from(pods).expect("hundreds"));
        count(self.by_tested) / count(self.by_tested + self.by_other)
    }
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
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/testbed/bin/testbed"));
        command.arg("kube-scheduler").arg(format!("--config={}", config.display())).arg("--secure-port=0");
        let log = std::fs::File::create(plane.dir.join("second-kube-scheduler.log")).expect("a log file");
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

/// The same pods for both schedulers of a machine, small and large, far more than fit.
fn pods() -> String {
    let mut manifest = String::new();
    for number in 0..PODS {
        let (cpu, seconds) = (["500m", "1", "6", "2", "500m"][number % 5], ["12", "30", "18"][number % 3]);
        manifest += &pod(&format!("ours-{number}"), cpu, seconds, "");
        manifest += &pod(&format!("theirs-{number}"), cpu, seconds, "")
            .replace("schedulerName: fluxqueue", "schedulerName: default-scheduler");
    }
    manifest
}

fn count(namespace: &Namespace<'_>) -> Bound {
    let pods = namespace.list("pods");
    // A pod that a kubelet refused was bound in vain.
    let is_bound = |pod: &&Value| !node_of(pod).is_empty() && pod["status"]["phase"] != "Failed";
    let (by_tested, by_other): (Vec<_>, Vec<_>) =
        pods.iter().filter(is_bound).partition(|pod| pod["spec"]["schedulerName"] == "fluxqueue");
    let waiting = pods.iter().filter(|pod| node_of(pod).is_empty()).count();
    Bound { by_tested: by_tested.len(), by_other: by_other.len(), waiting }
}

/// Of so many pods that are bound on a machine, how many has the scheduler under test bound? So it does not matter how fast the computer is,
/// and what else it does: where one leaves nodes idle that its pods could use, the other one takes them.
fn bound(plane: &ControlPlane) -> Bound {
    let namespace = plane.namespace("shared-machine");
    let manifest = pods();
    let bound = std::thread::scope(|scope| {
        // In the background: nobody waits for the last pod before the first is bound.
        scope.spawn(|| namespace.apply(&manifest));
        within(PATIENCE, "both schedulers to bind their share", || {
            Some(count(&namespace)).filter(|bound| bound.by_tested + bound.by_other >= COUNTED_AT)
        })
    });
    // It goes with its control plane: to delete hundreds of pods would take longer than all else.
    std::mem::forget(namespace);
    bound
}

/// On a computer at a load of 8 to 20 a second kube-scheduler had between 0.45 and 0.53 of what was bound, and Fluxqueue in its place 0.51, 0.55, 0.58
/// and once 0.39: below 0.9 by chance in one run of four. With first come, first served it had 0.31.
#[test]
#[ignore = "shares differ by more than a tenth from run to run where the computer is busy"]
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
    for machine in [in_its_place, fluxqueue] {
        assert!(machine.waiting > 0, "the machine was not full: {machine:?}");
    }
    assert!(
        fluxqueue.share() >= 0.9 * in_its_place.share(),
        "Fluxqueue {fluxqueue:?}, kube-scheduler {in_its_place:?}"
    );
}
