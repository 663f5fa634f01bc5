//! Intruders, which strike a gang between its write-ahead and its first Binding, when it hurts
//! most: they take room on one of its nodes, change or remove one, or delete a member.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_core::{Action, ActionKind, Write};
use fluxqueue_workload::{NodeName, ObjectKey, Pod, Time, Uid};

use crate::jobs::{self, Unit};
use crate::kubelet;
use crate::objects::{Run, Template};
use crate::rng::Rng;
use crate::room;
use crate::server::Server;
use crate::stats::Stats;

/// Percentage of steps with a gang that is about to start after which one strikes.
const CHANCE_PERCENT: usize = 30;

/// Gangs that are about to start.
#[derive(Debug, Default)]
pub(crate) struct Intruders {
    /// The nodes of their placements, by the key of their `FluxJob`.
    gangs: BTreeMap<ObjectKey, Vec<NodeName>>,
    made: u64,
}

/// The effect of an intruder.
#[derive(Debug)]
pub(crate) struct Intrusion {
    /// The node on which something changed.
    pub(crate) node: Option<NodeName>,
    /// A pod that was made.
    pub(crate) made: Option<(Uid, Run)>,
}

impl Intruders {
    /// Takes note of an action of the core.
    pub(crate) fn note(&mut self, action: &Action) {
        match &action.kind {
            ActionKind::Write(Write::WriteStatus { job, status, .. })
                if status.bound == 0 && !status.placement.is_empty() =>
            {
                let slots = jobs::slots(&status.placement).unwrap_or_default();
                self.gangs.insert(job.key.clone(), slots.into_keys().map(NodeName::from).collect());
            }
            ActionKind::Bind { node, .. } => self.gangs.retain(|_, nodes| !nodes.contains(node)),
            _ => {}
        }
    }

    /// Forgets everything, because the process has died.
    pub(crate) fn forget(&mut self) {
        self.gangs.clear();
    }

    /// Strikes one of the gangs, perhaps.
    pub(crate) fn act(
        &mut self,
        server: &mut Server,
        now: Time,
        rng: &mut Rng,
        stats: &mut Stats,
    ) -> Option<Intrusion> {
        if self.gangs.is_empty() || !rng.chance(CHANCE_PERCENT) {
            return None;
        }
        let keys: Vec<&ObjectKey> = self.gangs.keys().collect();
        let key = ObjectKey::clone(rng.pick(&keys)?);
        // Once is enough: a gang that is disturbed for ever never starts.
        let node = NodeName::clone(rng.pick(&self.gangs.remove(&key)?)?);
        match rng.weighted(&[6, 3, 3]) {
            0 => self.take_room(server, &node, now, rng, stats),
            1 => {
                stats.count("node of a gang that starts changed");
                kubelet::change(server, &node, rng, stats);
                Some(Intrusion { node: Some(node), made: None })
            }
            _ => {
                delete_member(server, &key, rng, stats);
                None
            }
        }
    }

    /// Lets another scheduler bind a pod of its own to the node, at best one that takes everything
    /// left there.
    fn take_room(
        &mut self,
        server: &mut Server,
        name: &NodeName,
        now: Time,
        rng: &mut Rng,
        stats: &mut Stats,
    ) -> Option<Intrusion> {
        let node = server.nodes.get(name)?;
        let there: Vec<&Pod> =
            server.pods.values().map(|pod| &**pod).filter(|pod| is_on(pod, name)).collect();
        let mut template = Template::foreign(rng);
        let used: u64 = there.iter().map(|pod| pod.shape.requests.get("cpu")).sum();
        let shape = Arc::make_mut(&mut template.shape);
        if rng.chance(70) {
            shape.requests.set("cpu", node.allocatable.get("cpu").saturating_sub(used));
        }
        self.made += 1;
        let id = server.new_ref(&format!("intruder-{}", self.made));
        let mut pod = template.pod(id.clone(), now, None, None);
        let node = server.nodes.get(name)?;
        let there = server.pods.values().map(|pod| &**pod).filter(|pod| is_on(pod, name));
        if room::barred(node, &pod).is_some() || room::shortage(node, there, &pod).is_some() {
            return None;
        }
        pod.node = Some(name.clone());
        pod.started = Some(now);
        server.put_pod(pod);
        stats.count("room of a gang that starts taken");
        Some(Intrusion { node: Some(name.clone()), made: Some((id.uid, template.run)) })
    }
}

fn is_on(pod: &Pod, node: &NodeName) -> bool {
    pod.uses_node() && pod.node.as_ref() == Some(node)
}

fn delete_member(server: &mut Server, key: &ObjectKey, rng: &mut Rng, stats: &mut Stats) {
    let Some(job) = server.flux_jobs.get(key) else { return };
    let members: Vec<ObjectKey> = server
        .pods
        .values()
        .filter(|pod| !pod.phase.is_terminal() && Unit::of(pod).is_recorded_by(job))
        .map(|pod| pod.id.key.clone())
        .collect();
    if let Some(member) = rng.pick(&members) {
        stats.count("member of a gang that starts deleted");
        server.delete_pod(member);
    }
}
