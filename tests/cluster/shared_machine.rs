//! Two schedulers on the same nodes, which are full, and pods that say nothing of how long they run.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{ControlPlane, Namespace, node_of, pod, within};

const NODES: &str = "groups:\n- {namePrefix: n-, count: 24, cpu: '8', memory: 64Gi, pods: 110}\n";

/// Pods for each scheduler: so many that some of each size are left when they are counted.
const PODS: usize = 450;

/// When they are counted, from the first that is bound: by then the nodes have been full several times over.
const COUNTED_AFTER: Duration = Duration::from_mins(1);

/// How long the first may take.
const PATIENCE: Duration = Duration::from_mins(2);

/// How many pods were bound on one machine.
#[derive(Debug, Clone, Copy)]
struct Bound {
    /// By Fluxqueue, or the kube-scheduler in its place.
    by_tested: usize,
    /// By the kube-scheduler beside it.
    by_other: usize,
    /// Of the pods of the first, those that still wait.
    waiting: usize,
    /// Pods of both that a kubelet has refused: two schedulers had taken the same room.
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

/// What is bound in the same time. Kubelets end the pods when their time has come, so on a computer that does nothing else this says how
/// well the nodes are used: where one scheduler leaves them idle though its pods could use them, it has bound less.
fn bound(plane: &ControlPlane) -> Bound {
    let namespace = plane.namespace("shared-machine");
    let manifest = pods();
    let bound = std::thread::scope(|scope| {
        // In the background: nobody waits for the last pod before the first is bound.
        scope.spawn(|| namespace.apply(&manifest));
        let first_bound = within(PATIENCE, "the first pod to be bound", || {
            let bound = count(&namespace);
            (bound.by_tested + bound.by_other > 0).then(Instant::now)
        });
        std::thread::sleep(COUNTED_AFTER.saturating_sub(first_bound.elapsed()));
        count(&namespace)
    });
    // It goes with its control plane: to delete hundreds of pods would take longer than all else.
    std::mem::forget(namespace);
    bound
}

/// Three times on a computer that did nothing else Fluxqueue bound 1.05, 1.16 and 1.08 of what the second kube-scheduler did, such as 283 pods where
/// that bound 261; and fewer pods were refused by kubelets, of which there are many where two schedulers do not know of each other.
#[test]
#[ignore = "what is bound in a minute differs by more than a tenth from run to run where the computer is busy"]
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
