//! The same questions to our own filters.

use std::collections::BTreeSet;
use std::sync::Arc;

use fluxqueue_core::cluster::{Cluster, Node};
use fluxqueue_core::fluxion::Rank;
use fluxqueue_workload::{Pod, Resources, ShapeInterner};

use super::cases::{Case, Question};
use super::kube_scheduler::Answer;

pub(crate) struct Ours {
    cluster: Cluster,
    shapes: ShapeInterner,
}

impl Ours {
    /// The cluster of a case, with the pods that are there.
    pub(crate) fn of(case: &Case) -> Self {
        let mut ours = Ours { cluster: Cluster::default(), shapes: ShapeInterner::new() };
        for node in &case.nodes {
            let node = serde_json::from_value(node.clone()).unwrap();
            let (node, invalid) = Node::from_kubernetes(&node).unwrap();
            assert_eq!(invalid, []);
            ours.cluster.apply(&Arc::new(node));
        }
        for pod in &case.pods {
            let pod = ours.read(pod);
            let rank = ours.cluster.rank(pod.node.as_ref().unwrap()).unwrap();
            ours.cluster.occupy(rank, &pod.shape);
        }
        ours
    }

    fn read(&mut self, pod: &serde_json::Value) -> Pod {
        Pod::from_kubernetes(&serde_json::from_value(pod.clone()).unwrap(), &mut self.shapes).unwrap()
    }

    /// An error says what differs.
    pub(crate) fn compare(&mut self, question: &Question, answer: &Answer) -> Result<(), String> {
        let pod = self.read(&question.pod);
        let open = self.planned_for(&pod);
        let mut passing = 0;
        for (name, rank) in self.cluster.iter() {
            let mut said: Vec<String> =
                self.cluster.judge(rank, &pod).iter().map(|rejection| rejection.reason().into_owned()).collect();
            let mut expected = answer.rejected.get(&**name).cloned().unwrap_or_default();
            said.sort_unstable();
            expected.sort_unstable();
            if said != expected {
                return Err(format!("node {name}: {said:?}; kube-scheduler says {expected:?}"));
            }
            if open.contains(&rank) != expected.is_empty() {
                return Err(format!("node {name}: the planner may use it: {}", open.contains(&rank)));
            }
            passing += usize::from(expected.is_empty());
        }
        let text = if passing == 0 { self.cluster.unavailable(&pod) } else { String::new() };
        if passing != answer.passing.len() || text != answer.text {
            return Err(format!("{text:?}; kube-scheduler says {:?}", answer.text));
        }
        Ok(())
    }

    /// The nodes that the planner gives to the graph, as far as they have room.
    fn planned_for(&mut self, pod: &Pod) -> BTreeSet<Rank> {
        let mut open = self.cluster.class(&pod.shape.constraints).now.clone();
        for (closed, _) in self.cluster.repelled(pod) {
            open.subtract(&closed);
        }
        let has_room = |rank: &Rank| self.cluster.would_hold(*rank, &pod.shape.requests, &Resources::new());
        open.iter().filter(has_room).collect()
    }
}
