//! The nodes as one table: a rank for each, its use, and the nodes that a pod of given constraints
//! may use.
//!
//! Pods with equal [`Constraints`] form a class. The filters run once per class and node; after
//! that a node change costs one filter run per class, and a pod costs nothing. Usage is kept here a
//! second time beside the graph's own account: every Binding is checked against it, and an audit
//! compares the two.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shared_map::SharedMap;

use super::exclusive::Taken;
use super::fills::Fills;
use super::filters::{self, Liking, Rejection};
use super::neighbours::{
    ChangedTerms, Company, CrowdId, KeyId, Neighbours, OccupantId, Stance, Trial, Until,
};
use super::node::Node;
use super::presence::Presence;
use super::score::FillScore;
use super::volumes;
use super::volumes::Volumes;
use crate::fluxion::{Rank, RankSet};
use crate::table::Table;
use fluxqueue_workload::constraints::{Constraints, Disk, HostPort};
use fluxqueue_workload::metadata::Labels;
use fluxqueue_workload::storage::PersistentVolume;
use fluxqueue_workload::{NodeName, ObjectKey, Pod, Resources, Shape};

/// Classes kept at most. Beyond it all are dropped, and computed again when they are needed.
const CLASSES_MAX: usize = 2048;

/// Classes that are thrown away in one go, with a copy of all nodes that is not needed any more.
const CLASSES_PER_PART: usize = 64;

/// All nodes.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    by_name: SharedMap<NodeName, Rank>,
    /// Shared with copies of the cluster, in which the plan is run forward, as long as neither
    /// changes it.
    by_rank: Vec<Option<Arc<Entry>>>,
    free_ranks: BTreeSet<Rank>,
    pub(super) present: RankSet,
    next_generation: u64,
    nodes_version: u64,
    /// Shared with copies of the cluster, in which the plan is run forward: there may be hundreds,
    /// each of which knows of every node.
    classes: Table<Arc<Constraints>, Arc<Class>>,
    pub(super) ports: Taken<HostPort>,
    pub(super) disks: Taken<Disk>,
    /// Those of pods that never end.
    pub(super) ports_for_ever: Taken<HostPort>,
    pub(super) disks_for_ever: Taken<Disk>,
    pub(super) fills: Fills,
    pub(super) fill_score: FillScore,
    /// Pods on nodes, and the pods that want to be near them, apart from them, or spread among
    /// them.
    pub(super) neighbours: Neighbours,
    /// The storage; a plan that runs forward on a copy of the nodes shares it.
    pub(super) volumes: Arc<Volumes>,
}

#[derive(Debug, Clone)]
struct Entry {
    node: Arc<Node>,
    generation: u64,
    used: Resources,
}

/// Where pods of one class may go.
#[derive(Debug, Clone, Default)]
pub struct Class {
    /// Nodes that pass every filter now.
    pub now: RankSet,
    /// Nodes that pass all but the passing ones (cordon, not ready): where it could go one day.
    pub lasting: RankSet,
    /// How much it likes a node, where that is worth a word.
    pub(super) liking: BTreeMap<Rank, Liking>,
    /// Why the other nodes are closed.
    why: BTreeMap<Rank, Rejection>,
    /// The nodes closed for each reason.
    closed: BTreeMap<Rejection, RankSet>,
    /// What other pods mean for it, if it asks about others or prefers some.
    pub(super) crowd: Option<CrowdId>,
}

/// The effect of a node's change on its pods.
#[derive(Debug, PartialEq, Eq)]
pub enum NodeChange {
    /// It is new, at this rank.
    Added(Rank),
    /// It was deleted and created again: the old rank is void.
    Replaced {
        /// The rank that is void.
        old: Rank,
        /// The rank of the new node.
        new: Rank,
    },
    /// Same node; `allocatable` differs in these resources.
    Changed {
        /// The node's rank.
        rank: Rank,
        /// New sizes of the resources that differ.
        resized: Vec<(Arc<str>, u64)>,
    },
    /// Nothing that matters here has changed.
    Same,
}

impl Cluster {
    /// Without nodes.
    pub fn new(fill_score: FillScore) -> Self {
        Cluster { fill_score, ..Cluster::default() }
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// True without nodes.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The rank of a node.
    pub fn rank(&self, name: &str) -> Option<Rank> {
        self.by_name.get(name).copied()
    }

    /// The node of a rank.
    pub fn node(&self, rank: Rank) -> Option<&Arc<Node>> {
        self.entry(rank).map(|entry| &entry.node)
    }

    /// Changes whenever a rank is given to another node: an allocation of an older generation is
    /// void.
    pub fn generation(&self, rank: Rank) -> Option<u64> {
        self.entry(rank).map(|entry| entry.generation)
    }

    /// Returns the used amounts of a node.
    pub fn used(&self, rank: Rank) -> Option<&Resources> {
        self.entry(rank).map(|entry| &entry.used)
    }

    /// Counts changes of nodes: what could never fit may fit when it differs.
    pub fn nodes_version(&self) -> u64 {
        self.nodes_version
    }

    /// Returns the free amounts of these nodes together.
    pub fn free_on(&self, nodes: &RankSet) -> Resources {
        let mut free = Resources::new();
        for entry in nodes.iter().filter_map(|rank| self.entry(rank)) {
            let mut of_node = entry.node.allocatable.clone();
            of_node.subtract(&entry.used);
            free.add(&of_node);
        }
        free
    }

    /// Every node with its rank, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&NodeName, Rank)> {
        self.by_name.iter().map(|(name, rank)| (name, *rank))
    }

    /// Nodes by name, those after this one.
    pub fn names_after(&self, last: Option<&NodeName>) -> impl Iterator<Item = &NodeName> {
        let is_before = move |name: &NodeName| last.is_some_and(|last| name <= last);
        self.by_name.from(is_before).map(|(name, _)| name)
    }

    fn entry(&self, rank: Rank) -> Option<&Entry> {
        self.by_rank.get(rank as usize)?.as_deref()
    }

    fn entry_mut(&mut self, rank: Rank) -> Option<&mut Entry> {
        self.by_rank.get_mut(rank as usize)?.as_mut().map(Arc::make_mut)
    }

    // --- nodes ---

    /// Takes up a node's newest state.
    pub fn apply(&mut self, node: &Arc<Node>) -> NodeChange {
        let Some(rank) = self.rank(&node.name) else {
            return NodeChange::Added(self.add(node));
        };
        let Some(entry) = self.entry_mut(rank) else {
            return NodeChange::Added(self.add(node));
        };
        if entry.node.uid != node.uid {
            self.remove(&node.name.clone());
            return NodeChange::Replaced { old: rank, new: self.add(node) };
        }
        if *entry.node == *node.as_ref() {
            return NodeChange::Same;
        }
        let resized = differing(&entry.node.allocatable, &node.allocatable);
        self.nodes_version += 1;
        let entry = self.entry_mut(rank).expect("it was found above");
        let old = std::mem::replace(&mut entry.node, Arc::clone(node));
        self.fills.resize(rank, node);
        self.neighbours.change_node(rank, &old, node);
        self.reclassify(rank);
        NodeChange::Changed { rank, resized }
    }

    fn add(&mut self, node: &Arc<Node>) -> Rank {
        let rank = self.free_ranks.pop_first().unwrap_or_else(|| {
            self.by_rank.push(None);
            Rank::try_from(self.by_rank.len() - 1).expect("fewer than 2^32 nodes")
        });
        self.next_generation += 1;
        self.nodes_version += 1;
        let entry = Entry {
            node: Arc::clone(node),
            generation: self.next_generation,
            used: Resources::new(),
        };
        self.by_rank[rank as usize] = Some(Arc::new(entry));
        self.by_name.insert(node.name.clone(), rank);
        self.present.insert(rank);
        self.fills.put(rank, node);
        self.neighbours.add_node(rank, node);
        self.reclassify(rank);
        rank
    }

    /// Forgets a node and all that was used of it.
    pub fn remove(&mut self, name: &NodeName) -> Option<Rank> {
        let rank = self.by_name.remove(name)?;
        self.nodes_version += 1;
        self.by_rank[rank as usize] = None;
        self.neighbours.remove_node(rank);
        self.free_ranks.insert(rank);
        self.present.remove(rank);
        self.ports.forget(rank);
        self.disks.forget(rank);
        self.ports_for_ever.forget(rank);
        self.disks_for_ever.forget(rank);
        for class in self.classes.values_mut() {
            let class = Arc::make_mut(class);
            class.now.remove(rank);
            class.lasting.remove(rank);
            class.liking.remove(&rank);
            class.reopen(rank);
        }
        Some(rank)
    }

    fn reclassify(&mut self, rank: Rank) {
        let Some(Some(entry)) = self.by_rank.get(rank as usize) else { return };
        for (constraints, class) in &mut self.classes {
            Arc::make_mut(class).judge(rank, &entry.node, constraints);
        }
    }

    // --- usage ---

    /// Counts a pod of this shape on a node.
    pub fn occupy(&mut self, rank: Rank, shape: &Shape) {
        let Some(entry) = self.entry_mut(rank) else { return };
        entry.used.add(&shape.requests);
        self.fills.count(rank, &shape.requests, true);
        self.ports.take(rank, &shape.constraints.host_ports);
        self.disks.take(rank, &shape.constraints.disks);
    }

    /// Takes back an [`Cluster::occupy`].
    pub fn vacate(&mut self, rank: Rank, shape: &Shape) {
        let Some(entry) = self.entry_mut(rank) else { return };
        entry.used.subtract(&shape.requests);
        self.fills.count(rank, &shape.requests, false);
        self.give_back_ports_and_disks(rank, shape);
    }

    /// Takes back the part of an [`Cluster::occupy`] that [`Cluster::count_anew`] does not count.
    pub(crate) fn give_back_ports_and_disks(&mut self, rank: Rank, shape: &Shape) {
        self.ports.give_back(rank, &shape.constraints.host_ports);
        self.disks.give_back(rank, &shape.constraints.disks);
    }

    /// Sets the use of a node, whatever was counted so far.
    pub fn count_anew(&mut self, rank: Rank, used: Resources) {
        self.fills.count_anew(rank, &used);
        if let Some(entry) = self.entry_mut(rank) {
            entry.used = used;
        }
    }

    // --- neighbours ---

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

    /// The occupant is this pod, as it is now.
    pub(crate) fn is_settled(
        &self,
        occupant: OccupantId,
        rank: Rank,
        pod: &Pod,
        presence: Presence,
    ) -> bool {
        self.neighbours.is(occupant, rank, pod, presence)
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
    pub fn begin_trial(&self) -> (Trial, u64, u64) {
        (self.neighbours.begin_trial(), self.ports.version(), self.disks.version())
    }

    /// Ends what [`Cluster::begin_trial`] began: versions are again what they were then.
    pub fn end_trial(&mut self, (trial, ports, disks): (Trial, u64, u64)) {
        self.neighbours.end_trial(trial);
        self.ports.set_version(ports);
        self.disks.set_version(disks);
    }

    /// The same for a question about a pod that is on a node: `away` asks it with the pod taken
    /// away, and has put it back as it was.
    pub(crate) fn try_without<T>(&mut self, pod: &Pod, away: impl FnOnce(&mut Self) -> T) -> T {
        let terms = &pod.shape.constraints.repels;
        let (ports, disks) = (self.ports.version(), self.disks.version());
        let trial = self.neighbours.begin_trial_without(terms);
        let answer = away(self);
        self.neighbours.end_trial_without(terms, trial);
        self.ports.set_version(ports);
        self.disks.set_version(disks);
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

    /// Returns the different terms of pods on nodes that have come or gone since they were last
    /// taken: for the pods that they select, the terms that repel them have to be found again.
    pub fn changed_terms(&self) -> &ChangedTerms {
        self.neighbours.changed_terms()
    }

    /// The same, which is known from now on.
    pub fn take_changed_terms(&mut self) -> ChangedTerms {
        self.neighbours.take_changed_terms()
    }

    /// Changes when a pod that repels others comes to a node or leaves one.
    pub fn repellers_version(&self) -> u64 {
        self.neighbours.repellers_version()
    }

    /// Changes when a thing that pods of these constraints want for themselves is given back or
    /// taken.
    pub fn exclusive_version(&self, constraints: &Constraints) -> u64 {
        let ports = self.ports.version() + self.ports_for_ever.version();
        let ports = if constraints.host_ports.is_empty() { 0 } else { ports };
        let disks = self.disks.version() + self.disks_for_ever.version();
        ports + if constraints.disks.is_empty() { 0 } else { disks }
    }

    /// Returns the stance of a pod to those on nodes.
    pub fn stance(&self, pod: &Pod) -> Stance {
        self.neighbours.stance(pod)
    }

    /// Changes when pods come or go that those of these constraints ask about.
    pub fn crowd_version(&self, constraints: &Constraints) -> u64 {
        if !constraints.asks_about_pods() {
            return 0;
        }
        let crowd = self.classes.get(constraints).and_then(|class| class.crowd);
        crowd.map_or(0, |crowd| self.neighbours.version(crowd))
    }

    /// Changes when pods come or go that some class counts.
    pub fn crowds_version(&self) -> u64 {
        self.neighbours.changes()
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

    /// Returns how crowded a node's domains of these labels are, by those counts.
    pub fn crowding(&self, rank: Rank, crowd: Option<CrowdId>, of: impl Fn(KeyId) -> bool) -> i64 {
        crowd.map_or(0, |crowd| self.neighbours.crowding(rank, crowd, of))
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

    /// A node's domains of these labels, by number; `None` for those that it lacks.
    pub fn domains(&self, rank: Rank, keys: &[KeyId]) -> Vec<Option<u32>> {
        self.neighbours.domains(rank, keys)
    }

    /// Returns how many pods of this shape the node has room for.
    pub fn room(&self, rank: Rank, shape: &Shape) -> u64 {
        self.used(rank).map_or(0, |used| self.room_beside(rank, shape, used))
    }

    /// Returns the same for a node with this use.
    pub(crate) fn room_beside(&self, rank: Rank, shape: &Shape, used: &Resources) -> u64 {
        let Some(node) = self.node(rank) else { return 0 };
        let asked = shape.requests.iter().filter(|(_, amount)| *amount > 0);
        let rooms = asked.map(|(name, amount)| {
            node.allocatable.get(name).saturating_sub(used.get(name)) / amount
        });
        rooms.min().unwrap_or(u64::MAX)
    }

    /// True if the node has room for a pod of this shape, and the things that it needs for itself
    /// are free.
    pub fn has_room(&self, rank: Rank, shape: &Shape) -> bool {
        self.room(rank, shape) > 0
            && !self.has_port_conflict(rank, &shape.constraints.host_ports)
            && !self.has_disk_conflict(rank, &shape.constraints.disks)
    }

    /// Returns the rule by which the pods that are there keep this one, which is not among them,
    /// off a node.
    pub fn judge_neighbours(&mut self, rank: Rank, pod: &Pod) -> Option<Rejection> {
        let crowd = self.crowd(pod);
        self.neighbours.judge(rank, pod, crowd)
    }

    /// The same by kube-scheduler's first look, where those count that are nominated to the node.
    pub(super) fn judge_with_nominated(&mut self, rank: Rank, pod: &Pod) -> Option<Rejection> {
        let crowd = self.crowd(pod);
        self.neighbours.judge_with_nominated(rank, pod, crowd)
    }

    /// Returns the rejection of its second look alone, where they do not count.
    pub(super) fn judge_without_nominated(&mut self, rank: Rank, pod: &Pod) -> Option<Rejection> {
        let crowd = self.crowd(pod);
        self.neighbours.judge_without_nominated(rank, pod, crowd)
    }

    /// The node holds no more than it has, of every resource that `requests` names.
    pub fn holds(&self, rank: Rank, requests: &Resources) -> bool {
        self.entry(rank).is_some_and(|entry| {
            requests
                .iter()
                .all(|(name, _)| entry.used.get(name) <= entry.node.allocatable.get(name))
        })
    }

    /// True if the node would have room for these requests after the amounts `freed` were given
    /// back.
    pub fn would_hold(&self, rank: Rank, requests: &Resources, freed: &Resources) -> bool {
        self.takes(rank, requests, |entry, name| {
            entry.used.get(name).saturating_sub(freed.get(name))
        })
    }

    /// True if the node has room for these requests beside the amounts `taken`.
    pub fn has_room_beside(&self, rank: Rank, requests: &Resources, taken: &Resources) -> bool {
        self.takes(rank, requests, |_, name| taken.get(name))
    }

    /// True if the node has room for these requests beside the use of each resource.
    fn takes(&self, rank: Rank, requests: &Resources, used: impl Fn(&Entry, &str) -> u64) -> bool {
        self.entry(rank).is_some_and(|entry| {
            let has = |name: &str| entry.node.allocatable.get(name);
            requests
                .iter()
                .all(|(name, amount)| used(entry, name).saturating_add(amount) <= has(name))
        })
    }

    /// The pod shares none of its host ports and disks with another on the node (where it is
    /// counted already).
    pub fn has_its_own(&self, rank: Rank, shape: &Shape) -> bool {
        self.ports.are_its_own(rank, &shape.constraints.host_ports)
            && self.disks.are_its_own(rank, &shape.constraints.disks)
    }

    /// The nodes on which a pod with these constraints would keep one of these pods off some of
    /// these nodes.
    pub fn out_of_reach<'a>(
        &mut self,
        constraints: &Constraints,
        pods: impl Iterator<Item = &'a Arc<Pod>> + Clone,
        nodes: &RankSet,
    ) -> RankSet {
        self.neighbours.out_of_reach(&constraints.repels, pods, nodes)
    }

    // --- classes ---

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
        if self.classes.len() >= CLASSES_MAX && !self.classes.contains_key(constraints) {
            self.forget_classes();
        }
        let by_rank = &self.by_rank;
        // Looked up twice: a clone of the key for every pod would cost more.
        if !self.classes.contains_key(constraints) {
            let mut class = Class { crowd: self.neighbours.watch(constraints), ..Class::default() };
            for (rank, entry) in by_rank.iter().enumerate() {
                if let Some(entry) = entry {
                    let rank = Rank::try_from(rank).expect("ranks are u32");
                    class.judge(rank, &entry.node, constraints);
                }
            }
            self.classes.insert(Arc::new(constraints.clone()), Arc::new(class));
        }
        &self.classes[constraints]
    }

    /// Takes it into parts that can be dropped one by one.
    pub fn into_parts(mut self) -> Vec<Box<dyn Any + Send>> {
        let mut classes = std::mem::take(&mut self.classes).into_iter();
        let mut parts: Vec<Box<dyn Any + Send>> = vec![Box::new(self)];
        while classes.len() > 0 {
            parts.push(Box::new(classes.by_ref().take(CLASSES_PER_PART).collect::<Vec<_>>()));
        }
        parts
    }

    fn forget_classes(&mut self) {
        self.classes.clear();
        self.neighbours.forget_crowds();
        // Their counts start over, and so do the versions of these.
        self.nodes_version += 1;
    }

    /// Every node.
    pub fn present(&self) -> &RankSet {
        &self.present
    }

    /// Returns the nodes that are out of bounds for this pod because of pods on them or around
    /// them: taken host ports and disks, and other pods that it is to be near to, apart from, or
    /// spread among, or that keep it away.
    pub fn repelled(&mut self, pod: &Pod, company: Company) -> Vec<(RankSet, Rejection)> {
        let constraints = &pod.shape.constraints;
        let mut all = vec![
            (self.closed_by_ports(constraints), Rejection::HostPorts),
            (self.closed_by_disks(constraints), Rejection::DiskConflict),
        ];
        all.retain(|(ranks, _)| !ranks.is_empty());
        all.extend(self.closed_by_neighbours(pod, company));
        all
    }

    pub(super) fn closed_by_ports(&self, constraints: &Constraints) -> RankSet {
        self.ports.closed_to(&constraints.host_ports)
    }

    pub(super) fn closed_by_disks(&self, constraints: &Constraints) -> RankSet {
        self.disks.closed_to(&constraints.disks)
    }

    pub(super) fn closed_by_neighbours(
        &mut self,
        pod: &Pod,
        company: Company,
    ) -> Vec<(RankSet, Rejection)> {
        let crowd = self.crowd(pod);
        self.neighbours.closed(pod, company, crowd, (&self.present, Until::Now))
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
    pub fn closed_by_volumes(&self, pod: &Pod) -> Vec<(RankSet, Rejection)> {
        self.volumes.closed_to(pod, self.nodes())
    }

    /// All of them, in order of rank.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (Rank, &Node)> {
        self.by_rank
            .iter()
            .zip(0..)
            .filter_map(|(entry, rank)| Some((rank, &*entry.as_ref()?.node)))
    }

    /// Describes, for people, the nodes that can use the volume of a claim.
    pub fn where_claim_is(&self, claim: &ObjectKey, volume: &PersistentVolume) -> String {
        let can_use =
            |rank: Rank| self.node(rank).is_some_and(|node| self.volumes.can_use(volume, node));
        let names: Vec<&str> = self
            .by_name
            .iter()
            .filter(|(_, rank)| can_use(**rank))
            .map(|(name, _)| &**name)
            .collect();
        let only = match names.as_slice() {
            [] => "no node can use".to_owned(),
            [name] => format!("only {name} can use"),
            names => format!("only {} of {} nodes can use", names.len(), self.len()),
        };
        format!("claim {claim} is bound to volume {}, which {only}", volume.name)
    }

    /// The pod, which has a slot on the node, can still have its volumes there.
    pub fn volumes_suit(&self, rank: Rank, pod: &Pod) -> bool {
        !volumes::concern(pod)
            || self.node(rank).is_some_and(|node| self.volumes.still_suit(pod, node))
    }

    /// A host port of these is taken on the node.
    pub(super) fn has_port_conflict(&self, rank: Rank, wanted: &[HostPort]) -> bool {
        self.ports.is_closed_to(rank, wanted)
    }

    /// A disk of these is in use on the node.
    pub(super) fn has_disk_conflict(&self, rank: Rank, wanted: &[Disk]) -> bool {
        self.disks.is_closed_to(rank, wanted)
    }
}

impl Class {
    fn judge(&mut self, rank: Rank, node: &Node, constraints: &Constraints) {
        let verdict = filters::admit(node, constraints);
        set(&mut self.now, rank, verdict.is_ok());
        set(
            &mut self.lasting,
            rank,
            verdict.as_ref().err().is_none_or(|rejected| !rejected.lasting),
        );
        self.reopen(rank);
        if let Err(rejected) = verdict {
            let first = filters::named(node, constraints).unwrap_or(rejected.first);
            self.closed.entry(first.clone()).or_default().insert(rank);
            self.why.insert(rank, first);
        }
        match filters::liking(node, constraints) {
            liking if liking == Liking::default() => drop(self.liking.remove(&rank)),
            liking => drop(self.liking.insert(rank, liking)),
        }
    }

    /// The node is closed for no reason any more.
    fn reopen(&mut self, rank: Rank) {
        let Some(rejection) = self.why.remove(&rank) else { return };
        if let Some(nodes) = self.closed.get_mut(&rejection) {
            nodes.remove(rank);
            if nodes.is_empty() {
                self.closed.remove(&rejection);
            }
        }
    }

    /// Returns how many nodes are closed to it, by reason.
    pub(super) fn closed(&self) -> impl Iterator<Item = (&Rejection, usize)> {
        self.closed.iter().map(|(reason, nodes)| (reason, nodes.len()))
    }

    /// The nodes that are closed to it for this reason.
    pub(super) fn closed_for(&self, reason: &Rejection) -> RankSet {
        self.closed.get(reason).cloned().unwrap_or_default()
    }

    /// The nodes that are closed to it, by kube-scheduler's text for the reason.
    pub fn rejections(&self) -> BTreeMap<String, RankSet> {
        let mut closed: BTreeMap<String, RankSet> = BTreeMap::new();
        for (rejection, nodes) in &self.closed {
            closed.entry(rejection.reason().into_owned()).or_default().union_with(nodes);
        }
        closed
    }
}

fn set(ranks: &mut RankSet, rank: Rank, member: bool) {
    if member {
        ranks.insert(rank);
    } else {
        ranks.remove(rank);
    }
}

fn differing(old: &Resources, new: &Resources) -> Vec<(Arc<str>, u64)> {
    let mut out: Vec<(Arc<str>, u64)> = new
        .iter()
        .filter(|(name, size)| old.get(name) != *size)
        .map(|(name, size)| (Arc::clone(name), size))
        .collect();
    out.extend(
        old.iter().filter(|(name, _)| new.get(name) == 0).map(|(name, _)| (Arc::clone(name), 0)),
    );
    out
}
