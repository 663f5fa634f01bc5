//! Lies about requests that an honest tenant could make, too. The twin has these requests without the lies.

use std::sync::Arc;

use fluxqueue_api::names;
use fluxqueue_workload::Pod;

use super::acts::{Act, Adversary};
use super::side::Side;
use crate::controllers::owner_of;
use crate::objects::{FOREIGN_GATE, OURS};

/// For how many seconds a spark is a member of its gang.
const SPARK_SECONDS: i64 = 3;

impl Adversary {
    /// Lies about a pod that asks for something.
    pub(super) fn decorate(&mut self, side: &mut Side, pod: &mut Pod) {
        let knows = |act: Act| self.acts.contains(&act);
        let (owner, labels, ended) = (knows(Act::LieAboutOwner), knows(Act::LieByLabels), knows(Act::KeepEnded));
        if owner && self.rng.chance(60) {
            pod.owner = self.foreign_object(side).map(|it| owner_of(&it));
            side.spared.insert(pod.id.uid.clone());
        }
        if labels && self.rng.chance(60) {
            let mut all: Vec<(Arc<str>, Arc<str>)> = pod.labels.to_vec();
            all.push((Arc::from("zz-app"), Arc::from("a")));
            if pod.group.is_none() {
                all.push((Arc::from(names::POD_GROUP), Arc::from(format!("gang-{}", self.rng.below(9)))));
            }
            all.sort();
            pod.labels = all.into();
        }
        if ended && self.rng.chance(40) {
            side.finalizers.insert(pod.id.uid.clone());
        }
    }

    pub(super) fn spark(&mut self, side: &mut Side) -> bool {
        let waits = |pod: &&Arc<Pod>| {
            pod.id.key.namespace == self.namespace
                && pod.node.is_none()
                && pod.gates.is_empty()
                && pod.id.key.name.starts_with("gang-")
        };
        let waiting: Vec<Arc<Pod>> = side.world.server.pods.values().filter(waits).cloned().collect();
        let Some(member) = self.rng.pick(&waiting).cloned() else { return false };
        self.made += 1;
        let id = side.world.server.new_ref_in(&self.namespace, OURS, &format!("spark-{}", self.made));
        self.sparks.push((side.world.now + SPARK_SECONDS, id.key.clone()));
        let (created, gates) = (side.world.time(), vec![Arc::from(FOREIGN_GATE)]);
        side.put_pod(Pod { id, created, gates, priority: 50, ..Pod::clone(&member) }, None);
        true
    }
}
