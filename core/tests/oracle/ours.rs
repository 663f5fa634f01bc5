//! The same questions, answered by our own filters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxion_sys::FunctionTable;
use fluxqueue_machine::NodePolicy;
use fluxqueue_machine::cluster::volumes;
use fluxqueue_machine::cluster::{Cluster, Node, Topology};
use fluxqueue_machine::fluxion::{Rank, RankSet};
use fluxqueue_machine::ledger::Ledger;
use fluxqueue_machine::rules::{self, Applicants, Horizon, Site};
use fluxqueue_workload::{Pod, Resources, ShapeInterner, metadata};

use super::cases::{self, Case, Question};
use super::kube_scheduler::Answer;
use super::kubernetes;
use super::storage;

/// Plugins that score by the preferences of pods.
pub(crate) const PREFERENCES: [&str; 4] =
    ["TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity"];

pub(crate) struct Ours {
    cluster: Cluster,
    /// In it nothing is booked: pods are put into the cluster alone.
    ledger: Ledger,
    shapes: ShapeInterner,
}

impl Ours {
    /// Builds the cluster of a case, with the pods on its nodes.
    pub(crate) fn of(case: &Case) -> Self {
        let graph = NodePolicy::First.graph(FunctionTable::builtin()).unwrap();
        let mut ours = Ours {
            cluster: Cluster::default(),
            ledger: Ledger::new(graph, Arc::new(Topology::default())),
            shapes: ShapeInterner::new(),
        };
        for node in &case.nodes {
            let node = serde_json::from_value(node.clone()).unwrap();
            let (node, invalid) = Node::from_kubernetes(&node).unwrap();
            assert_eq!(invalid, []);
            ours.cluster.apply(&Arc::new(node));
        }
        for news in storage::news(&case.storage) {
            ours.cluster.volumes_mut().take_up(news);
        }
        ours.detour(case);
        for namespace in &case.namespaces {
            let namespace: k8s_openapi::api::core::v1::Namespace =
                serde_json::from_value(namespace.clone()).unwrap();
            let labels: metadata::Labels =
                metadata::sorted(namespace.metadata.labels.as_ref()).collect();
            ours.cluster.put_namespace(&namespace.metadata.name.unwrap().into(), &labels);
        }
        for pod in &case.nominated {
            let pod = ours.read(pod);
            let rank = ours.cluster.rank(pod.nominated.as_ref().unwrap()).unwrap();
            ours.cluster.nominate(rank, &pod);
            if volumes::concern(&pod) {
                let (pod, node) = (Arc::new(pod), ours.cluster.node(rank).unwrap().name.clone());
                ours.cluster.volumes_mut().note_pod(&pod);
                ours.cluster.volumes_mut().nominate(&pod.id.uid, &node);
            }
        }
        for pod in case.pods.iter().filter(|pod| !cases::has_ended(pod)) {
            let pod = Arc::new(ours.read(pod));
            let node = pod.node.clone().unwrap();
            ours.cluster.put(ours.cluster.rank(&node).unwrap(), &pod);
            if volumes::concern(&pod) {
                ours.cluster.volumes_mut().note_pod(&pod);
                ours.cluster.volumes_mut().place(&pod.id.uid, &node);
            }
        }
        ours
    }

    /// Gives the cluster a past that must not matter: nodes with other labels, other pods on them,
    /// and the same questions.
    fn detour(&mut self, case: &Case) {
        let nodes: Vec<(Rank, Node)> = self
            .cluster
            .nodes()
            .present()
            .clone()
            .iter()
            .map(|rank| (rank, Node::clone(self.cluster.node(rank).unwrap())))
            .collect();
        for ((rank, node), (_, other)) in nodes.iter().zip(nodes.iter().cycle().skip(1)) {
            let _ = rank;
            let changed =
                Node { labels: other.labels.clone(), taints: other.taints.clone(), ..node.clone() };
            self.cluster.apply(&Arc::new(changed));
        }
        let mut were_there = Vec::new();
        for (pod, (rank, _)) in case.pods.iter().zip(nodes.iter().cycle()) {
            let pod = self.read(pod);
            were_there.push((self.cluster.put(*rank, &pod), *rank, pod));
        }
        for question in case.questions.iter().step_by(2) {
            let pod = self.read(&question.pod);
            rules::unavailable(&mut self.site(), &pod);
        }
        for (_, node) in nodes {
            self.cluster.apply(&Arc::new(node));
        }
        for (occupant, rank, pod) in were_there {
            self.cluster.take_away(occupant, rank, &pod.shape);
        }
    }

    fn read(&mut self, pod: &serde_json::Value) -> Pod {
        Pod::from_kubernetes(&serde_json::from_value(pod.clone()).unwrap(), &mut self.shapes)
            .unwrap()
    }

    /// Compares both answers. An error says what differs.
    pub(crate) fn compare(&mut self, question: &Question, answer: &Answer) -> Result<(), String> {
        let pod = self.read(&question.pod);
        let open = self.planned_for(&pod);
        let mut passing = 0;
        let nodes: Vec<_> =
            self.cluster.nodes().iter().map(|(name, rank)| (name.clone(), rank)).collect();
        for (name, rank) in nodes {
            let mut said: Vec<String> = rules::judge(&mut self.cluster, rank, &pod)
                .iter()
                .map(|rejection| rejection.reason().into_owned())
                .collect();
            let mut expected = answer.rejected.get(&*name).cloned().unwrap_or_default();
            said.sort_unstable();
            expected.sort_unstable();
            if said != expected {
                return Err(format!("node {name}: {said:?}; kube-scheduler says {expected:?}"));
            }
            if open.contains(&rank) != expected.is_empty() {
                return Err(format!(
                    "node {name}: the planner may use it: {}",
                    open.contains(&rank)
                ));
            }
            passing += usize::from(expected.is_empty());
        }
        let text =
            if passing == 0 { rules::unavailable(&mut self.site(), &pod) } else { String::new() };
        if passing != answer.passing.len() || text != answer.text {
            return Err(format!("{text:?}; kube-scheduler says {:?}", answer.text));
        }
        Ok(())
    }

    /// Compares both scores. An error says what differs.
    pub(crate) fn compare_scores(
        &mut self,
        question: &Question,
        answer: &Answer,
    ) -> Result<(), String> {
        let pod = self.read(&question.pod);
        let open: RankSet = self.planned_for(&pod).into_iter().collect();
        let ours = self.cluster.scores(&pod, &open);
        if ours.is_empty() {
            // For a pod without preferences, only the scores that depend on the use of nodes may
            // differ.
            let preferred = answer
                .passing
                .values()
                .map(|theirs| PREFERENCES.map(|plugin| by_plugin(theirs.as_ref(), plugin)));
            let differing: BTreeSet<_> = preferred.collect();
            return if differing.len() > 1 {
                Err(format!("not scored: {differing:?}"))
            } else {
                Ok(())
            };
        }
        if ours.len() != answer.passing.len() {
            return Err(format!(
                "{} nodes are scored, {} take the pod",
                ours.len(),
                answer.passing.len()
            ));
        }
        for (rank, score) in ours {
            let name = self.cluster.node(rank).unwrap().name.clone();
            let theirs = answer.passing.get(&*name).and_then(Option::as_ref);
            let said = [
                ("TaintToleration", score.taints),
                ("NodeAffinity", score.node_affinity),
                ("PodTopologySpread", score.spread),
                ("InterPodAffinity", score.pod_affinity),
                ("NodeResourcesFit", score.fit),
                ("NodeResourcesBalancedAllocation", score.balance),
            ];
            // kube-scheduler 1.35 scores a balanced use by another formula.
            let is_same = |plugin: &str| {
                plugin != "NodeResourcesBalancedAllocation" || kubernetes::is_at_least("1.36")
            };
            for (plugin, said) in said.into_iter().filter(|(plugin, _)| is_same(plugin)) {
                let expected = by_plugin(theirs, plugin);
                if said != expected {
                    return Err(format!(
                        "node {name}: {plugin}: {said}; kube-scheduler says {expected}"
                    ));
                }
            }
        }
        Ok(())
    }

    fn site(&mut self) -> Site<'_> {
        Site { cluster: &mut self.cluster, ledger: &mut self.ledger }
    }

    /// Returns the nodes that the planner offers to the graph, as far as they have room.
    fn planned_for(&mut self, pod: &Pod) -> BTreeSet<Rank> {
        if self.cluster.volumes().needs(pod).is_err() {
            return BTreeSet::new();
        }
        let stance = self.cluster.neighbours().stance(pod);
        let open = rules::open(&mut self.site(), &Applicants::alone(pod, &stance), Horizon::Now);
        let has_room = |rank: &Rank| {
            self.cluster.nodes().would_hold(*rank, &pod.shape.requests, &Resources::new())
        };
        open.iter().filter(has_room).collect()
    }
}

/// Returns a plugin's score, or 0 if the plugin gave none.
pub(crate) fn by_plugin(scores: Option<&BTreeMap<String, i64>>, plugin: &str) -> i64 {
    scores.and_then(|scores| scores.get(plugin).copied()).unwrap_or(0)
}
