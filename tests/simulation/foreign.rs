//! The other scheduler on the same nodes: it binds its own pods by its own late view, so that real
//! races happen.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_machine::cluster::Node;
use fluxqueue_workload::{NodeName, ObjectRef, Pod, Time};

use crate::objects::{FOREIGN, Run, Template, is_ours};
use crate::rng::Rng;
use crate::room;
use crate::server::Server;
use crate::stats::Stats;

/// Most pods of the other scheduler.
const PODS_MAX: usize = 10;

/// The pods on each node, as it last saw them.
#[derive(Debug, Default)]
pub(crate) struct Foreign {
    seen: BTreeMap<NodeName, Vec<Arc<Pod>>>,
    made: u64,
}

impl Foreign {
    /// Takes a new look at the cluster.
    pub(crate) fn look(&mut self, server: &Server) {
        self.seen.clear();
        for pod in server.pods.values().filter(|pod| pod.uses_node()) {
            if let Some(node) = &pod.node {
                self.seen.entry(node.clone()).or_default().push(Arc::clone(pod));
            }
        }
    }

    /// Submits a pod of its users. Some name their node themselves.
    pub(crate) fn submit(
        &mut self,
        server: &mut Server,
        now: Time,
        rng: &mut Rng,
        stats: &mut Stats,
    ) -> Option<(ObjectRef, Run)> {
        if server.pods.values().filter(|pod| &*pod.scheduler == FOREIGN).count() >= PODS_MAX {
            return None;
        }
        self.made += 1;
        let template = Template::foreign(rng);
        let id = server.new_ref(&format!("foreign-{}", self.made));
        let mut pod = template.pod(id.clone(), now, None, None);
        if rng.chance(10) {
            let names: Vec<&NodeName> = server.nodes.keys().collect();
            pod.node = rng.pick(&names).map(|name| NodeName::clone(name));
            stats.count("pod with a node of its own choice");
        }
        server.put_pod(pod);
        Some((id, template.run))
    }

    /// Binds one of its pods where it last saw room. Returns the node.
    pub(crate) fn bind(
        &mut self,
        server: &mut Server,
        wall: Time,
        rng: &mut Rng,
        stats: &mut Stats,
    ) -> Option<NodeName> {
        let waiting: Vec<&Arc<Pod>> = server
            .pods
            .values()
            .filter(|pod| {
                &*pod.scheduler == FOREIGN && pod.node.is_none() && !pod.phase.is_terminal()
            })
            .collect();
        let pod = rng.pick(&waiting)?;
        let fitting: Vec<&NodeName> = server
            .nodes
            .values()
            .filter(|node| self.fits(server, node, pod))
            .map(|node| &node.name)
            .collect();
        let node = NodeName::clone(rng.pick(&fitting)?);
        let mut pod = Pod::clone(pod);
        pod.node = Some(node.clone());
        pod.started = Some(wall);
        pod.nominated = None;
        self.seen.entry(node.clone()).or_default().push(Arc::new(pod.clone()));
        server.put_pod(pod);
        stats.count("foreign pod bound");
        Some(node)
    }

    /// True if the node takes the pod by the last look, with its anti-affinity and that of the pods
    /// there.
    fn fits(&self, server: &Server, node: &Node, pod: &Pod) -> bool {
        let beside =
            self.seen.get(&node.name).map_or(&[][..], Vec::as_slice).iter().map(|it| &**it);
        let there =
            || self.seen.iter().flat_map(|(name, pods)| pods.iter().map(move |pod| (name, &**pod)));
        let repels_some = || {
            let mut others = there();
            let alone = || [(&node.name, pod)].into_iter();
            others.any(|(place, other)| {
                let place = server.nodes.get(place);
                place.is_some_and(|place| {
                    room::repeller(&server.nodes, alone(), place, other).is_some()
                })
            })
        };
        room::barred(node, pod).is_none()
            && room::shortage(node, beside, pod).is_none()
            && room::repeller(&server.nodes, there(), node, pod).is_none()
            && !repels_some()
    }
}

/// Lets the other scheduler nominate a node for one of its pods, or withdraw the nomination.
pub(crate) fn nominate(server: &mut Server, rng: &mut Rng, stats: &mut Stats) {
    let waits = |pod: &&Arc<Pod>| {
        &*pod.scheduler == FOREIGN && pod.node.is_none() && !pod.phase.is_terminal()
    };
    let waiting: Vec<&Arc<Pod>> = server.pods.values().filter(waits).collect();
    let Some(pod) = rng.pick(&waiting) else { return };
    let names: Vec<&NodeName> = server
        .nodes
        .values()
        .filter(|node| room::barred(node, pod).is_none())
        .map(|node| &node.name)
        .collect();
    let mut pod = Pod::clone(pod);
    pod.nominated = if pod.nominated.is_some() && rng.chance(50) {
        None
    } else {
        rng.pick(&names).copied().cloned()
    };
    stats.count(if pod.nominated.is_some() {
        "foreign pod nominated"
    } else {
        "nomination taken back"
    });
    server.put_pod(pod);
}

/// Lets a user bind one of our pods by hand. Returns the node.
pub(crate) fn meddle(
    server: &mut Server,
    wall: Time,
    rng: &mut Rng,
    stats: &mut Stats,
) -> Option<NodeName> {
    let ours = |pod: &&Arc<Pod>| is_ours(pod) && pod.node.is_none() && pod.gates.is_empty();
    let waiting: Vec<&Arc<Pod>> = server
        .pods
        .values()
        .filter(ours)
        .filter(|pod| !pod.deleting && !pod.phase.is_terminal())
        .collect();
    let pod = rng.pick(&waiting)?;
    let names: Vec<&NodeName> = server.nodes.keys().collect();
    let node = NodeName::clone(rng.pick(&names)?);
    let mut pod = Pod::clone(pod);
    pod.node = Some(node.clone());
    pod.started = Some(wall);
    server.bound_by_others.insert(pod.id.uid.clone());
    server.put_pod(pod);
    stats.count("our pod bound by another party");
    Some(node)
}
