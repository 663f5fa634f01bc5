//! The kubelets: each admits or refuses the pods bound to its node by the true state of the node,
//! runs them, and lets them end. The node's own fate, and the garbage collector of pods on deleted
//! nodes, are here as well.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_machine::cluster::{Node, Readiness, Taint};
use fluxqueue_workload::{NodeName, ObjectKey, Phase, Pod, Time, Uid};

use crate::objects::{self, Run, TAINT};
use crate::rng::Rng;
use crate::room;
use crate::server::Server;
use crate::stats::Stats;

/// Most nodes.
const NODES_MAX: usize = 8;

/// Knowledge of the kubelets that the server does not have.
#[derive(Debug, Default)]
pub(crate) struct Kubelets {
    /// The end of each admitted pod; none, for a service.
    admitted: BTreeMap<Uid, Option<Time>>,
    nodes_made: u64,
}

/// A pod of ours that its kubelet refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) pod: Uid,
    pub(crate) node: NodeName,
    pub(crate) reason: String,
}

impl Kubelets {
    /// Lets one kubelet look at one new pod. `run_of` returns how the pod fares.
    pub(crate) fn admit(
        &mut self,
        server: &mut Server,
        now: Time,
        wall: Time,
        run_of: impl Fn(&Uid) -> Run,
        rng: &mut Rng,
        stats: &mut Stats,
    ) -> Option<Refusal> {
        let new: Vec<&Arc<Pod>> = server
            .pods
            .values()
            .filter(|pod| self.is_new(pod) && live_node(server, pod).is_some())
            .collect();
        let pod = Arc::clone(rng.pick(&new)?);
        let node = Arc::clone(live_node(server, &pod)?);
        let there = server
            .pods
            .values()
            .filter(|it| it.node.as_ref() == Some(&node.name) && !it.phase.is_terminal())
            .filter(|it| self.admitted.contains_key(&it.id.uid))
            .map(|it| &**it);
        let refusal = room::refused(&node, &pod).or_else(|| room::shortage(&node, there, &pod));
        let mut changed = Pod::clone(&pod);
        if let Some(reason) = refusal {
            let ours = objects::is_ours(&pod);
            stats.count(if ours {
                "our pod refused by its kubelet"
            } else {
                "foreign pod refused by its kubelet"
            });
            changed.phase = Phase::Refused { reason: Arc::from(reason.as_str()) };
            changed.ended = Some(wall);
            server.put_pod(changed);
            return ours.then(|| Refusal {
                pod: pod.id.uid.clone(),
                node: node.name.clone(),
                reason,
            });
        }
        let run = run_of(&pod.id.uid);
        let end = run
            .seconds
            .map(|seconds| now.plus_millis(i64::try_from(seconds * 1000).expect("minutes")));
        self.admitted.insert(pod.id.uid.clone(), end);
        changed.phase = Phase::Running;
        changed.started = Some(wall);
        server.put_pod(changed);
        None
    }

    fn is_new(&self, pod: &Pod) -> bool {
        pod.node.is_some()
            && !pod.deleting
            && !pod.phase.is_terminal()
            && !self.admitted.contains_key(&pod.id.uid)
    }

    /// Ends the pods after their run time.
    pub(crate) fn end(
        &mut self,
        server: &mut Server,
        now: Time,
        wall: Time,
        run_of: impl Fn(&Uid) -> Run,
        rng: &mut Rng,
        stats: &mut Stats,
    ) {
        let over: Vec<Arc<Pod>> = server
            .pods
            .values()
            .filter(|pod| !pod.phase.is_terminal() && live_node(server, pod).is_some())
            .filter(|pod| {
                self.admitted.get(&pod.id.uid).is_some_and(|end| end.is_some_and(|end| end <= now))
            })
            .cloned()
            .collect();
        for pod in over {
            let failed = rng.chance(run_of(&pod.id.uid).fails_percent);
            stats.count(if failed { "pod failed" } else { "pod succeeded" });
            let mut pod = Pod::clone(&pod);
            pod.phase = if failed { Phase::Failed } else { Phase::Succeeded };
            pod.ended = Some(wall);
            server.put_pod(pod);
        }
    }

    /// Returns when the next pod ends.
    pub(crate) fn next_end(&self, server: &Server) -> Option<Time> {
        let running = server
            .pods
            .values()
            .filter(|pod| !pod.phase.is_terminal() && live_node(server, pod).is_some());
        running.filter_map(|pod| *self.admitted.get(&pod.id.uid)?).min()
    }

    /// Removes one pod that is being deleted, also from a deleted node. False if there is none.
    pub(crate) fn let_go(&mut self, server: &mut Server, rng: &mut Rng, stats: &mut Stats) -> bool {
        let going: Vec<ObjectKey> = server
            .pods
            .values()
            .filter(|pod| match &pod.node {
                Some(name) => {
                    pod.deleting && live_node(server, pod).is_some()
                        || !server.nodes.contains_key(name)
                }
                None => pod.deleting,
            })
            // The finalizer of a Job's pod takes a while.
            .filter(|pod| pod.node.is_some() || rng.chance(30))
            .map(|pod| pod.id.key.clone())
            .collect();
        let Some(key) = rng.pick(&going) else { return false };
        let pod = &server.pods[key];
        if stops_slowly(pod) && rng.chance(70) {
            // The pod reports how it ended before it goes.
            if !pod.phase.is_terminal() && rng.chance(30) && live_node(server, pod).is_some() {
                let mut pod = Pod::clone(pod);
                pod.phase = if rng.chance(50) { Phase::Failed } else { Phase::Succeeded };
                server.put_pod(pod);
                stats.count("pod that stops has ended");
            }
            return true;
        }
        let had_started = self.admitted.remove(&pod.id.uid).is_some();
        let orphan = pod.node.as_ref().is_some_and(|name| !server.nodes.contains_key(name));
        if orphan && !had_started {
            stats.count("pod bound to a node that is gone");
        }
        server.remove_pod(key);
        true
    }

    /// Adds a node.
    pub(crate) fn join(&mut self, server: &mut Server, rng: &mut Rng, stats: &mut Stats) {
        if server.nodes.len() >= NODES_MAX {
            return;
        }
        // Names are used again: a node that comes back is another node.
        let unused: Vec<String> = (0..NODES_MAX)
            .map(|n| format!("node-{n}"))
            .filter(|name| !server.nodes.contains_key(&**name))
            .collect();
        if let Some(name) = rng.pick(&unused) {
            self.nodes_made += 1;
            let uid = server.new_uid();
            server.put_node(objects::node(name.as_str().into(), uid, rng));
            stats.count("node joined");
        }
    }

    /// Forgets deleted pods.
    pub(crate) fn tidy(&mut self, server: &Server) {
        let there: std::collections::BTreeSet<&Uid> =
            server.pods.values().map(|pod| &pod.id.uid).collect();
        self.admitted.retain(|uid, _| there.contains(uid));
    }
}

/// Lets a pod be evicted by its kubelet.
pub(crate) fn evict(server: &mut Server, wall: Time, rng: &mut Rng, stats: &mut Stats) {
    let running: Vec<&Arc<Pod>> =
        server.pods.values().filter(|pod| pod.phase == Phase::Running).collect();
    if let Some(pod) = rng.pick(&running) {
        let mut pod = Pod::clone(pod);
        pod.phase = Phase::Refused { reason: Arc::from("Evicted") };
        pod.ended = Some(wall);
        stats.count("pod evicted");
        server.put_pod(pod);
    }
}

/// Changes a random node.
pub(crate) fn trouble(server: &mut Server, rng: &mut Rng, stats: &mut Stats) -> Option<NodeName> {
    let names: Vec<NodeName> = server.nodes.keys().cloned().collect();
    let name = rng.pick(&names)?;
    change(server, name, rng, stats);
    Some(name.clone())
}

/// Changes this node.
pub(crate) fn change(server: &mut Server, name: &NodeName, rng: &mut Rng, stats: &mut Stats) {
    let Some(node) = server.nodes.get(name) else { return };
    let mut node = Node::clone(node);
    let leaving = if server.nodes.len() > 3 { 3 } else { 0 };
    let what = match rng.weighted(&[4, 4, 4, 3, 3, leaving]) {
        0 => {
            node.unschedulable = !node.unschedulable;
            "node cordoned"
        }
        1 => {
            node.readiness = if node.readiness == Readiness::Ready {
                Readiness::NotReady
            } else {
                Readiness::Ready
            };
            "node not ready"
        }
        2 => {
            node.allocatable = objects::allocatable(rng);
            "node resized"
        }
        3 => {
            if node.taints.pop().is_none() {
                let effect = if rng.chance(70) { "NoSchedule" } else { "NoExecute" };
                node.taints.push(Taint {
                    key: Arc::from(TAINT),
                    value: Arc::from(""),
                    effect: Arc::from(effect),
                });
            }
            "node tainted"
        }
        4 => {
            node.labels = objects::node_labels(name, rng);
            "node relabelled"
        }
        _ => {
            stats.count("node left");
            server.remove_node(name);
            return;
        }
    };
    stats.count(what);
    server.put_node(node);
}

/// Makes all nodes well again.
pub(crate) fn heal(server: &mut Server) {
    let nodes: Vec<Arc<Node>> = server.nodes.values().cloned().collect();
    for node in nodes {
        let well = Node {
            unschedulable: false,
            readiness: Readiness::Ready,
            taints: Vec::new(),
            ..Node::clone(&node)
        };
        if well != *node {
            server.put_node(well);
        }
    }
}

/// True for pods of some sizes, which need long to stop. This draws no random number, so that
/// everything else that follows from a seed stays the same.
fn stops_slowly(pod: &Pod) -> bool {
    pod.node.is_some() && pod.shape.requests.get("cpu").is_multiple_of(1000)
}

/// Returns the node of the pod, if its kubelet can act.
fn live_node<'a>(server: &'a Server, pod: &Pod) -> Option<&'a Arc<Node>> {
    server.nodes.get(pod.node.as_ref()?).filter(|node| node.readiness == Readiness::Ready)
}
