//! Two schedulers on the same nodes, which are full, and pods that say nothing of how long they run.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::harness::{ControlPlane, node_of, pod};

const NODES: &str = "groups:\n- {namePrefix: n-, count: 24, cpu: '8', memory: 64Gi, pods: 110}\n";

/// How long pods are counted for.
const COUNTED: Duration = Duration::from_secs(25);

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

/// Submits the same pods to both schedulers, small and large, far more than fit. How many each has bound after some time.
fn bound(plane: &ControlPlane) -> (usize, usize) {
    let ns = plane.namespace("shared-machine");
    let mut manifest = String::new();
    for number in 0..300 {
        let (cpu, seconds) = (["500m", "1", "6", "2", "500m"][number % 5], ["2", "5", "3"][number % 3]);
        manifest += &pod(&format!("ours-{number}"), cpu, seconds, "");
        manifest += &pod(&format!("theirs-{number}"), cpu, seconds, "")
            .replace("schedulerName: fluxqueue", "schedulerName: default-scheduler");
    }
    // In the background: pods are counted from when the first come, and come faster than they run.
    std::thread::scope(|scope| {
        scope.spawn(|| ns.apply(&manifest));
        std::thread::sleep(COUNTED);
        let pods = ns.list("pods");
        // A pod that a kubelet refused was bound in vain.
        let is_bound = |pod: &&serde_json::Value| !node_of(pod).is_empty() && pod["status"]["phase"] != "Failed";
        let (ours, theirs): (Vec<_>, Vec<_>) =
            pods.iter().filter(is_bound).partition(|pod| pod["spec"]["schedulerName"] == "fluxqueue");
        assert!(pods.len() > ours.len() + theirs.len(), "the machine was not full");
        (ours.len(), theirs.len())
    })
}

#[test]
#[ignore = "compares two halves of a minute, in which nothing else may run"]
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
    println!("kube-scheduler in its place: {in_its_place:?}; Fluxqueue: {fluxqueue:?} (its own, the other's)");
    assert!(fluxqueue.0 * 10 >= in_its_place.0 * 9, "Fluxqueue {fluxqueue:?}, kube-scheduler {in_its_place:?}");
}
