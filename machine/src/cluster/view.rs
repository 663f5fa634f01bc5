//! The cluster: the nodes, their use, and the nodes that a pod of given constraints may use.
//!
//! Pods with equal [`Constraints`] form a class. The filters run once per class and node; after
//! that a node change costs one filter run per class, and a pod costs nothing. Usage is kept here a
//! second time beside the graph's own account: every Binding is checked against it, and an audit
//! compares the two.

mod apart;
mod scores;

use std::any::Any;
use std::sync::Arc;

use super::classes::{Class, Classes};
use super::exclusive::TakenThings;
use super::fills::Fills;
use super::filters::Rejection;
use super::neighbours::{
    ChangedTerms, Company, CrowdId, KeyId, Neighbours, OccupantId, Reach, Trial, Until,
};
use super::node::Node;
use super::nodes::{NodeChange, Nodes, differing};
use super::presence::Presence;
use super::quarantine::Quarantine;
use super::score::FillScore;
use super::volumes::Volumes;
use crate::fluxion::{Rank, RankSet};
use fluxqueue_workload::constraints::Constraints;
use fluxqueue_workload::metadata::Labels;
use fluxqueue_workload::{NodeName, Pod, Resources, Shape};

/// Classes that are thrown away in one go, with a copy of all nodes that is not needed any more.
const CLASSES_PER_PART: usize = 64;

/// All nodes, and the pods on them.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    nodes: Nodes,
    classes: Classes,
    taken: TakenThings,
    quarantine: Quarantine,
    fills: Fills,
    fill_score: FillScore,
    /// Pods on nodes, and the pods that want to be near them, apart from them, or spread among
    /// them.
    neighbours: Neighbours,
    /// The storage; a plan that runs forward on a copy of the nodes shares it.
    volumes: Arc<Volumes>,
}

impl Cluster {
    /// Without nodes.
    pub fn new(fill_score: FillScore) -> Self {
        Cluster { fill_score, ..Cluster::default() }
    }

    /// Returns the nodes.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Returns the pods on nodes, for questions about them.
    pub fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    /// Lends the labels by which terms of pods reach other nodes.
    pub fn reach(&mut self) -> Reach<'_> {
        self.neighbours.reach()
    }

    /// Returns the host ports and disks that pods have for themselves.
    pub(crate) fn taken(&self) -> &TakenThings {
        &self.taken
    }

    /// Returns the same, to be changed.
    pub(crate) fn taken_mut(&mut self) -> &mut TakenThings {
        &mut self.taken
    }

    /// Returns the nodes that get no pods for a moment.
    pub(crate) fn quarantine(&self) -> &Quarantine {
        &self.quarantine
    }

    /// Returns the same, to be changed.
    pub fn quarantine_mut(&mut self) -> &mut Quarantine {
        &mut self.quarantine
    }

    /// Returns the rank of a node.
    pub fn rank(&self, name: &str) -> Option<Rank> {
        self.nodes.rank(name)
    }

    /// Returns the node of a rank.
    pub fn node(&self, rank: Rank) -> Option<&Arc<Node>> {
        self.nodes.node(rank)
    }

    /// Returns the node of a name.
    pub fn node_named(&self, name: &str) -> Option<&Arc<Node>> {
        self.node(self.rank(name)?)
    }

    /// Takes up a node's newest state.
    pub fn apply(&mut self, node: &Arc<Node>) -> NodeChange {
        let Some((rank, known)) =
            self.rank(&node.name).and_then(|rank| Some((rank, Arc::clone(self.node(rank)?))))
        else {
            return NodeChange::Added(self.add(node));
        };
        if known.uid != node.uid {
            self.remove(&node.name);
            return NodeChange::Replaced { old: rank, new: self.add(node) };
        }
        if *known == **node {
            return NodeChange::Same;
        }
        let resized = differing(&known.allocatable, &node.allocatable);
        self.nodes.replace(rank, node);
        self.fills.resize(rank, node);
        self.neighbours.change_node(rank, &known, node);
        self.classes.judge(rank, node);
        NodeChange::Changed { rank, resized }
    }

    fn add(&mut self, node: &Arc<Node>) -> Rank {
        let rank = self.nodes.add(node);
        self.fills.put(rank, node);
        self.neighbours.add_node(rank, node);
        self.classes.judge(rank, node);
        rank
    }

    /// Forgets a node and all that was used of it.
    pub fn remove(&mut self, name: &NodeName) -> Option<Rank> {
        let rank = self.nodes.remove(name)?;
        self.neighbours.remove_node(rank);
        self.taken.forget(rank);
        self.quarantine.remove(rank);
        self.classes.remove(rank);
        Some(rank)
    }

    /// Counts a pod of this shape on a node.
    pub fn occupy(&mut self, rank: Rank, shape: &Shape) {
        if self.nodes.change_use(rank, |used| used.add(&shape.requests)) {
            self.fills.count(rank, &shape.requests, true);
            self.taken.take(rank, &shape.constraints);
        }
    }

    /// Takes back a [`Cluster::occupy`].
    pub fn vacate(&mut self, rank: Rank, shape: &Shape) {
        if self.nodes.change_use(rank, |used| used.subtract(&shape.requests)) {
            self.fills.count(rank, &shape.requests, false);
            self.taken.give_back(rank, &shape.constraints);
        }
    }

    /// Sets the use of a node, whatever was counted so far.
    pub fn set_use(&mut self, rank: Rank, used: Resources) {
        if self.nodes.node(rank).is_some() {
            self.fills.set_use(rank, &used);
            self.nodes.change_use(rank, |known| *known = used);
        }
    }

    /// A pod is on a node, or will be, and perhaps never ends: others are near to it, or apart from
    /// it, from now on.
    pub(crate) fn settle(
        &mut self,
        rank: Rank,
        pod: &Pod,
        presence: Presence,
        endless: bool,
    ) -> OccupantId {
        self.neighbours.settle(rank, pod, presence, endless)
    }

    /// Takes back a [`Cluster::settle`]. The node must not have been removed since, for its pods
    /// went with it.
    pub(crate) fn leave(&mut self, occupant: OccupantId) {
        self.neighbours.leave(occupant);
    }

    /// A pod on a node never ends, or has an end after all.
    pub(crate) fn set_endless(&mut self, occupant: OccupantId, endless: bool) {
        self.neighbours.set_endless(occupant, endless);
    }

    /// Puts a pod on a node: callers that only search places for other pods need no more.
    pub fn put(&mut self, rank: Rank, pod: &Pod) -> OccupantId {
        self.occupy(rank, &pod.shape);
        self.settle(rank, pod, Presence::There, false)
    }

    /// The same of a pod that another scheduler means to put there.
    pub fn nominate(&mut self, rank: Rank, pod: &Pod) -> OccupantId {
        self.occupy(rank, &pod.shape);
        self.settle(rank, pod, Presence::Nominated, false)
    }

    /// Takes back a [`Cluster::put`] or a [`Cluster::nominate`].
    pub fn take_away(&mut self, occupant: OccupantId, rank: Rank, shape: &Shape) {
        self.leave(occupant);
        self.vacate(rank, shape);
    }

    /// What changes from now on is taken back before [`Cluster::end_trial`]: then nothing has
    /// changed.
    pub fn begin_trial(&self) -> (Trial, (u64, u64)) {
        (self.neighbours.begin_trial(), self.taken.versions())
    }

    /// Ends what [`Cluster::begin_trial`] began: versions are again what they were then.
    pub fn end_trial(&mut self, (trial, versions): (Trial, (u64, u64))) {
        self.neighbours.end_trial(trial);
        self.taken.set_versions(versions);
    }

    /// The same for a question about a pod that is on a node: `away` asks it with the pod taken
    /// away, and has put it back as it was.
    pub(crate) fn try_without<T>(&mut self, pod: &Pod, away: impl FnOnce(&mut Self) -> T) -> T {
        let terms = &pod.shape.constraints.repels;
        let versions = self.taken.versions();
        let trial = self.neighbours.begin_trial_without(terms);
        let answer = away(self);
        self.neighbours.end_trial_without(terms, trial);
        self.taken.set_versions(versions);
        answer
    }

    /// A namespace has these labels. True if that may open nodes to pods, or close them.
    pub fn put_namespace(&mut self, name: &Arc<str>, labels: &Labels) -> bool {
        let matters = self.neighbours.put_namespace(name, labels);
        if matters {
            self.forget_classes();
        }
        matters
    }

    /// A namespace is gone. True if that may open nodes to pods, or close them.
    pub fn remove_namespace(&mut self, name: &str) -> bool {
        let matters = self.neighbours.remove_namespace(name);
        if matters {
            self.forget_classes();
        }
        matters
    }

    /// The same, which is known from now on.
    pub fn take_changed_terms(&mut self) -> ChangedTerms {
        self.neighbours.take_changed_terms()
    }

    /// Changes when pods come or go that those of these constraints ask about.
    pub fn crowd_version(&self, constraints: &Constraints) -> u64 {
        if !constraints.asks_about_pods() {
            return 0;
        }
        let crowd = self.classes.get(constraints).and_then(|class| class.crowd);
        crowd.map_or(0, |crowd| self.neighbours.version(crowd))
    }

    pub(super) fn crowd(&mut self, pod: &Pod) -> Option<CrowdId> {
        let constraints = &pod.shape.constraints;
        if constraints.asks_about_pods() { self.class(constraints).crowd } else { None }
    }

    /// Returns the counts of pods for this one's spread constraints and preferences; they are valid
    /// until another class is read.
    pub fn crowd_for_scores(&mut self, pod: &Pod) -> Option<CrowdId> {
        self.class(&pod.shape.constraints).crowd
    }

    /// True if no pod is there that this one wants to be near to, and it would be one itself.
    pub fn is_first(&mut self, pod: &Pod) -> bool {
        self.crowd(pod).is_some_and(|crowd| self.neighbours.is_first(pod, crowd))
    }

    /// The nodes of each domain of the narrowest term of the pod's required affinity.
    pub fn narrowest_domains(&mut self, pod: &Pod) -> Vec<RankSet> {
        self.crowd(pod).map_or_else(Vec::new, |crowd| self.neighbours.narrowest_domains(crowd))
    }

    /// The labels that terms of these constraints name.
    pub fn topology_keys<'a>(&mut self, of: impl Iterator<Item = &'a Constraints>) -> Vec<KeyId> {
        self.neighbours.topology_keys(of)
    }

    /// Returns the rule by which the pods that are there keep this one, which is not among them,
    /// off a node.
    pub fn judge_neighbours(&mut self, rank: Rank, pod: &Pod) -> Option<Rejection> {
        let crowd = self.crowd(pod);
        self.neighbours.judge(rank, pod, crowd)
    }

    /// Returns the same by kube-scheduler's first look, where pods count that are nominated to the
    /// node.
    pub(crate) fn judge_with_nominated(&mut self, rank: Rank, pod: &Pod) -> Option<Rejection> {
        let crowd = self.crowd(pod);
        self.neighbours.judge_with_nominated(rank, pod, crowd)
    }

    /// Returns the same by its second look alone, where they do not count.
    pub(crate) fn judge_without_nominated(&mut self, rank: Rank, pod: &Pod) -> Option<Rejection> {
        let crowd = self.crowd(pod);
        self.neighbours.judge_without_nominated(rank, pod, crowd)
    }

    /// Returns the nodes among these to which pods are nominated.
    pub(crate) fn nominated_among(&self, nodes: &RankSet) -> Vec<Rank> {
        self.neighbours.nominated_among(nodes)
    }

    /// Returns the nodes to which pods of these constraints may go, now or some day, if their queue
    /// has these nodes.
    pub fn admitted(&mut self, pods: &Constraints, of_queue: Option<&Constraints>) -> RankSet {
        let mut admitted = self.class(pods).lasting.clone();
        if let Some(of_queue) = of_queue {
            admitted.intersect_with(&self.class(of_queue).lasting);
        }
        admitted
    }

    /// Returns the class of these constraints, with the nodes to which its pods may go.
    pub fn class(&mut self, constraints: &Constraints) -> &Class {
        if self.classes.are_too_many_with(constraints) {
            self.forget_classes();
        }
        // Looked up twice: a clone of the key for every pod would cost more.
        if self.classes.get(constraints).is_none() {
            let crowd = self.neighbours.watch(constraints);
            self.classes.insert(constraints, crowd, &self.nodes);
        }
        &self.classes.0[constraints]
    }

    /// Takes it into parts that can be dropped one by one.
    pub fn into_parts(mut self) -> Vec<Box<dyn Any + Send>> {
        let mut classes = std::mem::take(&mut self.classes.0).into_iter();
        let mut parts: Vec<Box<dyn Any + Send>> = vec![Box::new(self)];
        while classes.len() > 0 {
            parts.push(Box::new(classes.by_ref().take(CLASSES_PER_PART).collect::<Vec<_>>()));
        }
        parts
    }

    fn forget_classes(&mut self) {
        self.classes.0.clear();
        self.neighbours.forget_crowds();
        // Their counts start over, and so do the versions of these.
        self.nodes.start_over();
    }

    /// Returns the nodes off which the pods there, or around them, keep this one, by reason. A node
    /// may be named for several.
    pub(crate) fn closed_by_neighbours(
        &mut self,
        pod: &Pod,
        company: Company,
    ) -> Vec<(RankSet, Rejection)> {
        let crowd = self.crowd(pod);
        self.neighbours.closed(pod, company, crowd, (self.nodes.present(), Until::Now))
    }

    /// Returns the account of storage.
    pub fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// The same, to be changed.
    pub fn volumes_mut(&mut self) -> &mut Volumes {
        Arc::make_mut(&mut self.volumes)
    }

    /// Nodes on which the pod cannot have its volumes.
    pub(crate) fn closed_by_volumes(&self, pod: &Pod) -> Vec<(RankSet, Rejection)> {
        self.volumes.closed_to(pod, self.nodes.all())
    }
}
