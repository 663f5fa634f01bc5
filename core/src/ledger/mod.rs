//! Who takes what of which node: every pod on a node, every slot given to a pod that is not there yet, every slot that is retained.
//!
//! The one place where the resource graph and the [`Cluster`]'s own count are written, always both. An [`Allocation`] is made
//! by [`Ledger::allocate`] or [`Ledger::force`] and given back by [`Ledger::free`]; it is neither copied nor dropped.

mod reservations;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tracing::error;

use crate::cluster::filters::Rejection;
use crate::cluster::{Cluster, Node, NodeChange, OccupantId, Topology};
use crate::fluxion::{
    End, Explanation, Fit, Forecast, Graph, GraphError, LevelRule, Placement, Rank, RankSet, Request, SlotShape, Within,
};
use fluxqueue_workload::constraints::Constraints;
use fluxqueue_workload::levels::RuleScope;
use fluxqueue_workload::{Lifetime, NodeName, Pod, Resources, Shape, Time};

pub(super) use reservations::{Remade, Reservation};

/// So many removed nodes are nothing to speak of, however small the cluster is.
const REMOVED_MAX: usize = 10_000;

/// A part of a node that is taken.
#[derive(Debug)]
pub(super) struct Allocation {
    /// The job number in the graph under which it is booked.
    pub gid: u64,
    pub rank: Rank,
    generation: u64,
    label: Arc<str>,
    pub node: NodeName,
    pub shape: Arc<Shape>,
    /// When it ends, as far as was known when it was made.
    pub end: End,
    /// It has outlived its planned end.
    pub is_overdue: bool,
    /// The pod that is there, or will be; none where a slot waits for its next one.
    occupant: Option<OccupantId>,
}

/// The graph, and what is booked in it.
pub(super) struct Ledger {
    graph: Graph,
    /// The levels that the graph is told of.
    topology: Arc<Topology>,
    next_gid: u64,
    /// The graph's time, in seconds.
    now: i64,
    /// What has changed on which node, for those who wait for that.
    pub changes: Changes,
    /// What is taken of each node until some second that nobody knows.
    unknown_ends: BTreeMap<Rank, UnknownEnds>,
    /// How often the graph was asked for places.
    pub questions: u64,
    /// Calls of the graph that failed: each is a defect, and is logged.
    pub errors: u64,
    /// Nodes that were removed since the graph was made: it keeps a little of each.
    removed: usize,
    /// The library has lost the graph: whatever it is asked fails.
    lost: bool,
}

/// What is taken of a node until some second that nobody knows.
#[derive(Debug, Clone, Default)]
struct UnknownEnds {
    count: u32,
    amounts: Resources,
}

/// Something changed on a node that may let wait, or start, what could not before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Room that would have become free some day is free.
    Freed(Rank),
    /// The same of room that would have become free at a second that nobody knew: what waits for others there may have a date now.
    FreedUnknown(Rank),
    /// What was taken without an end is not any more.
    FreedForGood(Rank),
    /// Room was taken without an end.
    TakenForGood(Rank),
    /// The node came or went, has more or less than before, or other labels or taints.
    Node(Rank),
}

/// The latest changes, numbered.
#[derive(Debug, Clone, Default)]
pub(super) struct Changes {
    count: u64,
    latest: VecDeque<Change>,
}

/// Changes that are remembered; who last looked before the first of them looks again as if everything had changed.
const CHANGES_MAX: usize = 4_096;

impl Changes {
    /// How many there were so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    fn push(&mut self, change: Change) {
        self.count += 1;
        if self.latest.len() == CHANGES_MAX {
            self.latest.pop_front();
        }
        self.latest.push_back(change);
    }

    /// Everything may have changed.
    fn forget(&mut self) {
        self.count += CHANGES_MAX as u64;
        self.latest.clear();
    }

    /// One of those since then matters, or there were too many to know.
    pub(super) fn any_since(&self, then: u64, matters: &mut dyn FnMut(Change) -> bool) -> bool {
        let since = usize::try_from(self.count.saturating_sub(then)).unwrap_or(usize::MAX);
        since > self.latest.len() || self.latest.iter().rev().take(since).any(|change| matters(*change))
    }
}

/// Pods of one shape that are wanted.
#[derive(Debug, Clone)]
pub(super) struct SlotRequest {
    pub shape: Arc<Shape>,
    pub count: usize,
    /// How many pods each slice of it has, if rules are about slices; else empty.
    pub slices: Vec<usize>,
}

impl SlotRequest {
    /// So many pods, all alike.
    pub(super) fn new(shape: Arc<Shape>, count: usize) -> Self {
        SlotRequest { shape, count, slices: Vec::new() }
    }

    /// For how many pods the graph is asked at a time.
    fn pieces(&self) -> &[usize] {
        if self.slices.is_empty() { std::slice::from_ref(&self.count) } else { &self.slices }
    }
}

/// Pods that share one set of nodes.
#[derive(Debug, Clone)]
pub(super) struct GroupRequest {
    pub wants: Vec<SlotRequest>,
    /// `None`: every node.
    pub ranks: Option<RankSet>,
    pub prefer: Vec<RankSet>,
    pub lifetime: Lifetime,
    /// So many of them together on one node at most.
    pub max_per_node: Option<u64>,
    pub levels: LevelWants,
}

impl GroupRequest {
    /// Without what is wanted of slices.
    pub(super) fn unsliced(mut self) -> Self {
        if self.wants.iter().any(|want| !want.slices.is_empty()) {
            self.wants.iter_mut().for_each(|want| want.slices.clear());
            let of_all = |want: &&LevelWant| !matches!(want.of, RuleScope::Slice(_));
            self.levels = self.levels.map(|levels| levels.iter().filter(of_all).cloned().collect());
        }
        self
    }

    /// For one slice of each want.
    pub(super) fn one_slice(&self, size: u32) -> Self {
        let mut slice = self.clone();
        for want in &mut slice.wants {
            want.count = want.count.min(size as usize);
            want.slices = vec![want.count];
        }
        slice
    }
}

/// What pods want of levels; most want nothing.
pub(super) type LevelWants = Option<Arc<[LevelWant]>>;

/// Where pods want to lie in a level of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LevelWant {
    pub level: Arc<str>,
    pub within: Within,
    /// With which others of the request that want the same.
    pub of: RuleScope,
    /// Others come later, and are to be where it is.
    pub leads: bool,
}

/// What groups were given: per group and want, lowest rank first.
pub(super) type Allocations = Vec<Vec<Vec<Allocation>>>;

impl Allocation {
    /// The same allocation in a copy of the ledger.
    pub(super) fn in_copy(&self) -> Allocation {
        Allocation { label: Arc::clone(&self.label), node: self.node.clone(), shape: Arc::clone(&self.shape), ..*self }
    }
}

impl Ledger {
    pub(super) fn new(graph: Graph, topology: Arc<Topology>) -> Self {
        Ledger {
            graph,
            topology,
            next_gid: 1,
            now: 0,
            changes: Changes::default(),
            unknown_ends: BTreeMap::new(),
            questions: 0,
            errors: 0,
            removed: 0,
            lost: false,
        }
    }

    /// There can be copies of it.
    pub(super) fn can_be_copied(&self) -> bool {
        self.graph.can_be_copied()
    }

    /// A copy with all that is booked, to try what would come: nothing of it comes back. `None` if there can be none.
    pub(super) fn copy(&mut self) -> Option<Ledger> {
        if !self.can_be_copied() {
            return None;
        }
        let copied = self.graph.copy();
        let graph = self.check("copying the graph", copied)?;
        Some(Ledger {
            graph,
            topology: Arc::clone(&self.topology),
            changes: self.changes.clone(),
            unknown_ends: self.unknown_ends.clone(),
            questions: 0,
            errors: 0,
            ..*self
        })
    }

    /// Moves the present.
    pub(super) fn set_time(&mut self, now: Time) {
        if now.seconds() <= self.now {
            return;
        }
        self.now = now.seconds();
        let result = self.graph.set_time(now.seconds());
        self.check("setting the time", result);
    }

    fn check<T>(&mut self, what: &str, result: Result<T, GraphError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.errors += 1;
                self.lost |= error.is_lost();
                error!(%error, "resource graph: {what}");
                None
            }
        }
    }

    fn new_gid(&mut self) -> u64 {
        self.next_gid += 1;
        self.next_gid - 1
    }

    /// The part of a level that a node is in.
    pub(super) fn part_of(&self, cluster: &Cluster, level: &str, rank: Rank) -> Option<String> {
        self.topology.part(level, cluster.node(rank)?)
    }

    /// The levels that are wider than this one, the narrowest first.
    pub(super) fn wider_levels(&self, level: &str) -> impl Iterator<Item = &Arc<str>> {
        self.topology.wider(level).map(|level| &level.name)
    }

    /// Requests can ask for parts of levels.
    pub(super) fn has_levels(&self) -> bool {
        self.graph.has_levels()
    }

    /// A resource of these that the library in use has no graph for.
    pub(super) fn refuses<'a>(&self, requests: &'a Resources) -> Option<&'a str> {
        self.graph.refuses(requests)
    }

    // --- nodes ---

    /// Takes up a node; says which rank has become void, and which is new.
    pub(super) fn apply_node(&mut self, cluster: &mut Cluster, node: &Arc<Node>) -> NodeChange {
        let change = cluster.apply(node);
        match &change {
            NodeChange::Added(rank) => self.add_node(*rank, node),
            NodeChange::Replaced { old, new } => {
                self.cut_node(*old);
                self.add_node(*new, node);
            }
            NodeChange::Changed { rank, resized } => {
                for (resource, size) in resized {
                    let resized = self.graph.resize(*rank, resource, *size);
                    self.check("resizing a node", resized);
                }
                self.set_parts(*rank, node);
                self.changes.push(Change::Node(*rank));
            }
            NodeChange::Same => {}
        }
        change
    }

    fn add_node(&mut self, rank: Rank, node: &Node) {
        let added = self.graph.add_node(rank, &node.name, &node.allocatable);
        self.check("adding a node", added);
        self.set_parts(rank, node);
        self.changes.push(Change::Node(rank));
    }

    /// Puts a node into the parts of levels that its labels name, and out of others.
    fn set_parts(&mut self, rank: Rank, node: &Node) {
        if !self.graph.has_levels() {
            return;
        }
        let topology = Arc::clone(&self.topology);
        for (level, part) in topology.parts(node) {
            let set = self.graph.set_part(&level.name, rank, part.as_deref());
            self.check("putting a node into a part of a level", set);
        }
    }

    /// Removes a node with all that was taken of it.
    pub(super) fn remove_node(&mut self, cluster: &mut Cluster, name: &NodeName) -> Option<Rank> {
        let rank = cluster.remove(name)?;
        self.cut_node(rank);
        Some(rank)
    }

    fn cut_node(&mut self, rank: Rank) {
        let removed = self.graph.remove_node(rank);
        self.check("removing a node", removed);
        self.unknown_ends.remove(&rank);
        self.changes.push(Change::Node(rank));
        self.removed += 1;
    }

    /// The graph had better be made anew: it is lost, or remembers many more nodes that are gone than there are.
    pub(super) fn needs_rebuild(&self, cluster: &Cluster) -> bool {
        self.lost || self.removed > REMOVED_MAX.max(cluster.len())
    }

    // --- allocations ---

    /// Books a pod where it is, whether it fits or not.
    pub(super) fn charge(
        &mut self,
        cluster: &mut Cluster,
        node: &NodeName,
        shape: &Arc<Shape>,
        end: End,
    ) -> Option<Allocation> {
        let rank = cluster.rank(node)?;
        let gid = self.new_gid();
        let charged = self.graph.charge(gid, rank, "0", &shape.requests, 1, end);
        self.check("charging a node", charged)?;
        if matches!(end, End::Never) {
            self.changes.push(Change::TakenForGood(rank));
        }
        Some(self.note(allocation(cluster, gid, rank, Arc::from("0"), shape, end)))
    }

    /// Counts an allocation that was made.
    fn note(&mut self, allocation: Allocation) -> Allocation {
        self.note_end(&allocation);
        allocation
    }

    fn note_end(&mut self, allocation: &Allocation) {
        if allocation.end == End::Eventually {
            let unknown = self.unknown_ends.entry(allocation.rank).or_default();
            unknown.count += 1;
            unknown.amounts.add(&allocation.shape.requests);
        }
    }

    fn forget_end(&mut self, allocation: &Allocation) {
        if allocation.end == End::Eventually
            && let Some(unknown) = self.unknown_ends.get_mut(&allocation.rank)
        {
            unknown.count = unknown.count.saturating_sub(1);
            unknown.amounts.subtract(&allocation.shape.requests);
        }
    }

    /// How many allocations on a node end at a second that nobody knows.
    pub(super) fn unknown_ends(&self, rank: Rank) -> u32 {
        self.unknown_ends.get(&rank).map_or(0, |unknown| unknown.count)
    }

    /// A node has room for so much once all has ended of which it is known when.
    pub(super) fn has_room_some_day(&self, cluster: &Cluster, rank: Rank, requests: &Resources) -> bool {
        let nothing = Resources::new();
        let taken = self.unknown_ends.get(&rank).map_or(&nothing, |unknown| &unknown.amounts);
        cluster.has_room_beside(rank, requests, taken)
    }

    /// Gives an allocation back. On a node that is gone there is nothing to give back.
    pub(super) fn free(&mut self, cluster: &mut Cluster, allocation: Allocation) {
        if valid(cluster, &allocation) {
            let change = match allocation.end {
                End::Never => Change::FreedForGood,
                End::Eventually => Change::FreedUnknown,
                End::At(_) => Change::Freed,
            };
            self.changes.push(change(allocation.rank));
            self.forget_end(&allocation);
            cluster.vacate(allocation.rank, &allocation.shape);
            if let Some(occupant) = allocation.occupant {
                cluster.leave(occupant);
            }
            let released = self.graph.release(allocation.gid, allocation.rank, &allocation.label, 1);
            self.check("releasing a slot", released);
        }
    }

    /// This pod is what an allocation is for, as it is now.
    pub(super) fn house(cluster: &mut Cluster, allocation: &mut Allocation, pod: &Pod) {
        if !valid(cluster, allocation) {
            return;
        }
        let same = |occupant: &OccupantId| cluster.is_settled(*occupant, allocation.rank, pod);
        if allocation.occupant.as_ref().is_none_or(|occupant| !same(occupant)) {
            Self::turn_out(cluster, allocation);
            allocation.occupant = Some(cluster.settle(allocation.rank, pod));
        }
    }

    /// The pod that an allocation was for is there no more.
    pub(super) fn turn_out(cluster: &mut Cluster, allocation: &mut Allocation) {
        if valid(cluster, allocation)
            && let Some(occupant) = allocation.occupant.take()
        {
            cluster.leave(occupant);
        }
    }

    /// What of all other pods keeps the one that an allocation is for off its node.
    pub(super) fn judge(cluster: &mut Cluster, allocation: &mut Allocation, pod: &Pod) -> Option<Rejection> {
        Self::turn_out(cluster, allocation);
        let rejection = cluster.judge_neighbours(allocation.rank, pod);
        Self::house(cluster, allocation, pod);
        rejection
    }

    /// Books an allocation with another end.
    pub(super) fn set_end(&mut self, cluster: &Cluster, allocation: &mut Allocation, end: End) {
        if !valid(cluster, allocation) {
            return;
        }
        let released = self.graph.release(allocation.gid, allocation.rank, &allocation.label, 1);
        self.check("releasing a slot", released);
        allocation.gid = self.new_gid();
        self.forget_end(allocation);
        allocation.end = end;
        self.note_end(allocation);
        let charged =
            self.graph.charge(allocation.gid, allocation.rank, &allocation.label, &allocation.shape.requests, 1, end);
        self.check("charging a node", charged);
        // The room is the same, but what waits for it may start at another time.
        self.changes.push(Change::FreedForGood(allocation.rank));
    }

    /// Places everybody in the groups now, or nobody.
    pub(super) fn allocate(&mut self, cluster: &mut Cluster, groups: &[GroupRequest]) -> Fit<Allocations> {
        let gid = self.new_gid();
        match self.query(groups, None, |graph, request| graph.allocate(gid, request)) {
            Some(Fit::Placed(placement)) => Fit::Placed(self.allocations(cluster, gid, groups, placement)),
            Some(Fit::NotNow) | None => Fit::NotNow,
            Some(Fit::NotFound) => Fit::NotFound,
        }
    }

    /// What groups were given now under a job number of the graph.
    fn allocations(
        &mut self,
        cluster: &mut Cluster,
        gid: u64,
        groups: &[GroupRequest],
        placement: Placement,
    ) -> Allocations {
        let mut slots = placement.slots;
        slots.sort_by_key(|slot| (slot.shape, slot.rank));
        let mut allocations = Allocations::with_capacity(groups.len());
        let mut shape = 0;
        for group in groups {
            let end = End::of(group.lifetime, self.now);
            let mut of_group = Vec::with_capacity(group.wants.len());
            for want in &group.wants {
                let mut of_want = Vec::with_capacity(want.count);
                for _ in want.pieces() {
                    let label: Arc<str> = Arc::from(label_of(shape));
                    let from = slots.partition_point(|slots| slots.shape < shape);
                    for slots in slots[from..].iter().take_while(|slots| slots.shape == shape) {
                        if matches!(end, End::Never) {
                            self.changes.push(Change::TakenForGood(slots.rank));
                        }
                        for _ in 0..slots.count {
                            let label = Arc::clone(&label);
                            let made = allocation(cluster, gid, slots.rank, label, &want.shape, end);
                            of_want.push(self.note(made));
                        }
                    }
                    shape += 1;
                }
                of_group.push(of_want);
            }
            allocations.push(of_group);
        }
        allocations
    }

    /// Places one pod on this node, if it fits there now.
    pub(super) fn allocate_on(
        &mut self,
        cluster: &mut Cluster,
        rank: Rank,
        pod: &Pod,
        lifetime: Lifetime,
    ) -> Option<Allocation> {
        let mut ranks = RankSet::new();
        ranks.insert(rank);
        let want = SlotRequest::new(Arc::clone(&pod.shape), 1);
        let (wants, ranks) = (vec![want], Some(ranks));
        let group = GroupRequest { wants, ranks, prefer: Vec::new(), lifetime, max_per_node: None, levels: None };
        self.allocate(cluster, &[group]).placed()?.into_iter().flatten().flatten().next()
    }

    /// When all groups could start together.
    pub(super) fn forecast(&mut self, groups: &[GroupRequest]) -> Option<Forecast> {
        self.query(groups, None, Graph::forecast)
    }

    /// The nodes that could hold one of the groups' pods once everything with an end has ended.
    pub(super) fn eligible(&mut self, groups: &[GroupRequest]) -> Option<RankSet> {
        self.query(groups, None, Graph::eligible)
    }

    /// What is short, per want.
    pub(super) fn explain(&mut self, groups: &[GroupRequest]) -> Option<Explanation> {
        self.query(groups, None, Graph::explain)
    }

    /// Asks for all groups at once: a shape for each want, or for each slice of it.
    fn query<T>(
        &mut self,
        groups: &[GroupRequest],
        not_before: Option<i64>,
        call: impl FnOnce(&mut Graph, &Request<'_>) -> Result<T, GraphError>,
    ) -> Option<T> {
        let wants = groups.iter().flat_map(|group| group.wants.iter().map(move |want| (group, want)));
        let pieces = wants.flat_map(|(group, want)| want.pieces().iter().map(move |count| ((group, want), *count)));
        let (wants, counts): (Vec<(&GroupRequest, &SlotRequest)>, Vec<usize>) = pieces.unzip();
        let labels: Vec<String> = (0..wants.len()).map(label_of).collect();
        let mut shapes = Vec::with_capacity(wants.len());
        for (((group, want), count), label) in wants.iter().zip(counts).zip(&labels) {
            shapes.push(SlotShape {
                label,
                count: count as u64,
                requests: &want.shape.requests,
                end: group.lifetime,
                ranks: group.ranks.as_ref(),
                prefer: &group.prefer,
            });
        }
        let mut max_per_node = exclusive_limits(&wants, &labels);
        let mut limited: Option<&SlotRequest> = None;
        for ((group, want), label) in wants.iter().zip(&labels) {
            let Some(limit) = group.max_per_node else { continue };
            match max_per_node.last_mut().filter(|_| limited.is_some_and(|limited| std::ptr::eq(limited, *want))) {
                // Slices of one want share its limit.
                Some((labels, _)) => labels.push(label.clone()),
                None => max_per_node.push((vec![label.clone()], limit)),
            }
            limited = Some(want);
        }
        let levels = level_rules(&wants, &labels);
        let (shapes, max_per_node, levels) = (&shapes, &max_per_node, &levels);
        let request = Request { shapes, max_per_node, policy: None, not_before, levels };
        self.questions += 1;
        let answer = call(&mut self.graph, &request);
        self.check("matching a request", answer)
    }

    /// Puts another graph in place of this one, and books all that is taken in it.
    pub(super) fn rebuild<'a>(
        &mut self,
        graph: Graph,
        now: Time,
        cluster: &Cluster,
        allocations: impl Iterator<Item = &'a mut Allocation>,
    ) {
        self.graph = graph;
        self.removed = 0;
        self.lost = false;
        self.changes.forget();
        self.now = 0;
        self.set_time(now);
        for (_, rank) in cluster.iter() {
            if let Some(node) = cluster.node(rank) {
                self.add_node(rank, node);
            }
        }
        for allocation in allocations.filter(|allocation| valid(cluster, allocation)) {
            allocation.gid = self.new_gid();
            let charged = self.graph.charge(
                allocation.gid,
                allocation.rank,
                &allocation.label,
                &allocation.shape.requests,
                1,
                allocation.end,
            );
            self.check("charging a node", charged);
        }
    }

    /// What is taken of a node by the graph's account.
    pub(super) fn used(&mut self, rank: Rank) -> Option<Resources> {
        let usage = self.graph.usage(rank);
        let usage = self.check("reading usage", usage)?;
        Some(usage.pools.iter().map(|pool| (&*pool.resource, pool.used)).collect())
    }
}

/// The allocation's node is still the one it was made on.
pub(super) fn valid(cluster: &Cluster, allocation: &Allocation) -> bool {
    cluster.generation(allocation.rank) == Some(allocation.generation)
}

fn allocation(
    cluster: &mut Cluster,
    gid: u64,
    rank: Rank,
    label: Arc<str>,
    shape: &Arc<Shape>,
    end: End,
) -> Allocation {
    cluster.occupy(rank, shape);
    let node = cluster.node(rank).map_or_else(|| NodeName::from(""), |node| node.name.clone());
    Allocation {
        gid,
        rank,
        generation: cluster.generation(rank).unwrap_or(0),
        label,
        node,
        shape: Arc::clone(shape),
        end,
        is_overdue: false,
        occupant: None,
    }
}

fn label_of(at: usize) -> String {
    at.to_string()
}

/// The rules of all wants: those that want the same of a level together are under one.
fn level_rules(wants: &[(&GroupRequest, &SlotRequest)], labels: &[String]) -> Vec<LevelRule> {
    let mut rules: Vec<(&LevelWant, &Arc<Shape>, LevelRule)> = Vec::new();
    for ((group, want), label) in wants.iter().zip(labels) {
        for wanted in group.levels.iter().flat_map(|levels| levels.iter()) {
            let is_same = |known: &LevelWant, shape: &Arc<Shape>| {
                known == wanted
                    && match wanted.of {
                        RuleScope::Job | RuleScope::Group(_) => true,
                        RuleScope::PodSet => *shape == want.shape,
                        // Each piece is a slice.
                        RuleScope::Slice(_) => false,
                    }
            };
            match rules.iter_mut().find(|(known, shape, _)| is_same(known, shape)) {
                Some((.., rule)) => rule.labels.push(label.clone()),
                None => {
                    let (level, within) = (Arc::clone(&wanted.level), wanted.within.clone());
                    rules.push((wanted, &want.shape, LevelRule { level, labels: vec![label.clone()], within }));
                }
            }
        }
    }
    rules.into_iter().map(|(.., rule)| rule).collect()
}

/// Wants that exclude each other, themselves included, share a node at most once: their host ports collide, or their disks. Wants
/// with the same are one limit: a search over few limits is a short one.
fn exclusive_limits(wants: &[(&GroupRequest, &SlotRequest)], labels: &[String]) -> Vec<(Vec<String>, u64)> {
    let mut groups: Vec<(&Constraints, Vec<String>)> = Vec::new();
    for ((_, want), label) in wants.iter().zip(labels) {
        let own = &want.shape.constraints;
        let is_same = |other: &Constraints| other.host_ports == own.host_ports && other.disks == own.disks;
        match groups.iter_mut().find(|(known, _)| is_same(known)) {
            _ if own.host_ports.is_empty() && own.disks.is_empty() => {}
            Some((_, labels)) => labels.push(label.clone()),
            None => groups.push((own, vec![label.clone()])),
        }
    }
    let mut limits = Vec::new();
    for (at, (own, labels)) in groups.iter().enumerate() {
        // A disk that is only read is shared.
        if own.exclude(own) {
            limits.push((labels.clone(), 1));
        }
        for (others, more) in &groups[at + 1..] {
            if own.exclude(others) {
                limits.push(([&labels[..], more].concat(), 1));
            }
        }
    }
    limits
}
