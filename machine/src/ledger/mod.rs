//! The account of every node's use: every pod on a node, every slot given to a pod that is not
//! there yet, every slot that is retained.
//!
//! The one place where the resource graph and the [`Cluster`]'s own count are written, always both.
//! An [`Allocation`] is made by [`Ledger::allocate`] or [`Ledger::charge`] and given back by
//! [`Ledger::free`]; it is neither copied nor dropped.

mod allocation;
mod booked;
mod changes;
mod housing;
mod rebuilding;
mod requests;
mod reservation;
mod reservations;
mod role;

use std::any::Any;
use std::sync::Arc;

use shared_map::SharedMap;
use tracing::error;

use crate::cluster::{Cluster, Node, NodeChange, Topology};
use crate::fluxion::{
    End, Explanation, Fit, Forecast, Graph, GraphError, Placement, Rank, RankSet, Request, Tenancy,
};
use booked::AllBooked;
use fluxqueue_workload::{Lifetime, NodeName, Pod, Resources, Shape, Time};
use requests::{label_of, with_request};

pub use allocation::{Allocation, Allocations, valid};
pub use booked::BookingId;
pub use changes::{Change, Changes};
pub use requests::{GroupRequest, LevelWant, LevelWants, Slice, SlotRequest};
pub use reservation::{Remade, Reservation};
pub use role::Role;

/// Most removed nodes that the graph may hold before it is rebuilt; in a larger cluster as many as
/// it has nodes.
const REMOVED_MAX: usize = 10_000;

/// The steps of a search in about the time of an ordinary question, half a millisecond.
const STEPS_OF_A_QUESTION: u64 = 16_384;

/// The graph, and the bookings in it.
pub struct Ledger {
    graph: Graph,
    /// The levels in the graph.
    topology: Arc<Topology>,
    next_gid: u64,
    /// The graph's time, in seconds.
    now: i64,
    /// The changes on nodes, for requests that wait for them.
    pub changes: Changes,
    /// Every allocation there is.
    booked: AllBooked,
    /// The amounts of each node that are taken until some unknown second.
    unknown_ends: SharedMap<Rank, UnknownEnds>,
    /// The number of questions to the graph for places. Other work that takes about as long as a
    /// number of questions is counted with them, and so is a long search.
    pub questions: u64,
    /// Calls of the graph that failed: each is a defect, and is logged.
    pub errors: u64,
    /// Nodes that were removed since the graph was made: it keeps a little of each.
    removed: usize,
    /// True if the library has lost the graph: every call fails.
    lost: bool,
}

/// The amounts of a node that are taken until some unknown second.
#[derive(Debug, Clone, Default)]
struct UnknownEnds {
    count: u32,
    amounts: Resources,
}

impl Ledger {
    /// Makes a ledger in which nothing is booked.
    pub fn new(graph: Graph, topology: Arc<Topology>) -> Self {
        Ledger {
            graph,
            topology,
            next_gid: 1,
            now: 0,
            changes: Changes::default(),
            booked: AllBooked::default(),
            unknown_ends: SharedMap::default(),
            questions: 0,
            errors: 0,
            removed: 0,
            lost: false,
        }
    }

    /// Returns the steps of the searches that gave up, since this graph or copy was made.
    pub fn steps_in_vain(&self) -> u64 {
        self.graph.steps().in_vain
    }

    /// True if it can be copied.
    pub fn can_be_copied(&self) -> bool {
        self.graph.can_be_copied()
    }

    /// Takes it into parts that can be dropped one by one.
    pub fn into_parts(self) -> Vec<Box<dyn Any + Send>> {
        let Ledger { graph, booked, unknown_ends, changes, topology, .. } = self;
        vec![Box::new(graph), Box::new((booked, unknown_ends, changes, topology))]
    }

    /// A copy with all that is booked, to try what would come: nothing of it comes back. `None` if
    /// there can be none.
    pub fn copy(&mut self) -> Option<Ledger> {
        if !self.can_be_copied() {
            return None;
        }
        let copied = self.graph.copy();
        let graph = self.check("copying the graph", copied)?;
        Some(Ledger {
            graph,
            topology: Arc::clone(&self.topology),
            changes: self.changes.clone(),
            booked: self.booked.clone(),
            unknown_ends: self.unknown_ends.clone(),
            questions: 0,
            errors: 0,
            ..*self
        })
    }

    /// Moves the present.
    pub fn set_time(&mut self, now: Time) {
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
    pub fn part_of(&self, cluster: &Cluster, level: &str, rank: Rank) -> Option<String> {
        self.topology.part(level, cluster.node(rank)?)
    }

    /// The levels that are wider than this one, the narrowest first.
    pub fn wider_levels(&self, level: &str) -> impl Iterator<Item = &Arc<str>> {
        self.topology.wider(level).map(|level| &level.name)
    }

    /// True if requests can ask for parts of levels.
    pub fn has_levels(&self) -> bool {
        self.graph.has_levels()
    }

    /// True if requests can ask for nodes alone.
    pub fn has_tenants(&self) -> bool {
        self.graph.has_tenants()
    }

    /// True if the tenancies of an allocation and of all others on its node suit each other.
    pub fn is_in_company(&self, allocation: &Allocation) -> bool {
        self.booked.is_in_company(allocation.rank, allocation.number)
    }

    /// True if slots of this tenancy suit all that is on a node, but for allocations of these
    /// numbers.
    pub fn is_open_without(&self, rank: Rank, tenancy: Tenancy, gone: &[u64]) -> bool {
        self.booked.is_open_without(rank, tenancy, gone)
    }

    /// Returns the nodes among these on which slots of this tenancy suit all allocations.
    pub fn open_to(&self, tenancy: Tenancy, nodes: &RankSet) -> RankSet {
        if !matches!(tenancy, Tenancy::Alone(_)) && !self.booked.has_nodes_alone() {
            return nodes.clone();
        }
        nodes.iter().filter(|rank| self.booked.is_open_to(*rank, tenancy)).collect()
    }

    /// A resource of these that the library in use has no graph for.
    pub fn refuses<'a>(&self, requests: &'a Resources) -> Option<&'a str> {
        self.graph.refuses(requests)
    }

    // --- nodes ---

    /// Takes up a node; says which rank has become void, and which is new.
    pub fn apply_node(&mut self, cluster: &mut Cluster, node: &Arc<Node>) -> NodeChange {
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
                self.set_parts(*rank, node, false);
                self.changes.push(Change::Node(*rank));
            }
            NodeChange::Same => {}
        }
        change
    }

    fn add_node(&mut self, rank: Rank, node: &Node) {
        let added = self.graph.add_node(rank, &node.name, &node.allocatable);
        self.check("adding a node", added);
        self.set_parts(rank, node, true);
        self.changes.push(Change::Node(rank));
    }

    /// Puts a node into the parts of levels that its labels name, and out of others. One that is
    /// new is in none.
    fn set_parts(&mut self, rank: Rank, node: &Node, is_new: bool) {
        if !self.graph.has_levels() {
            return;
        }
        let topology = Arc::clone(&self.topology);
        for (level, part) in topology.parts(node).filter(|(_, part)| !is_new || part.is_some()) {
            let set = self.graph.set_part(&level.name, rank, part.as_deref());
            self.check("putting a node into a part of a level", set);
        }
    }

    /// Removes a node with all that was taken of it.
    pub fn remove_node(&mut self, cluster: &mut Cluster, name: &NodeName) -> Option<Rank> {
        let rank = cluster.remove(name)?;
        self.cut_node(rank);
        Some(rank)
    }

    fn cut_node(&mut self, rank: Rank) {
        let removed = self.graph.remove_node(rank);
        self.check("removing a node", removed);
        self.booked.forget(rank);
        self.unknown_ends.remove(&rank);
        self.changes.push(Change::Node(rank));
        self.removed += 1;
    }

    /// True if the graph should be made again: it is lost, or remembers many more nodes that are
    /// gone than there are.
    pub fn needs_rebuild(&self, cluster: &Cluster) -> bool {
        self.lost || self.removed > REMOVED_MAX.max(cluster.nodes().len())
    }

    // --- allocations ---

    /// Books a pod where it is, whether it fits or not.
    pub fn charge(
        &mut self,
        cluster: &mut Cluster,
        node: &NodeName,
        shape: &Arc<Shape>,
        (end, tenancy): (End, Tenancy),
    ) -> Option<Allocation> {
        let rank = cluster.rank(node)?;
        let gid = self.new_gid();
        let charged = self.graph.charge_beside(gid, rank, "0", &shape.requests, end, tenancy);
        self.check("charging a node", charged)?;
        if matches!(end, End::Never) {
            self.changes.push(Change::TakenForGood(rank));
        }
        let made = allocation(cluster, (gid, Arc::from("0")), rank, shape, (end, tenancy));
        Some(self.note(cluster, made))
    }

    /// Counts an allocation that was made.
    fn note(&mut self, cluster: &mut Cluster, mut allocation: Allocation) -> Allocation {
        let Allocation { rank, gid, ref label, ref shape, end, tenancy, .. } = allocation;
        allocation.number = self.booked.add(rank, (gid, label), shape, (end, tenancy));
        self.note_end(cluster, rank, shape, end);
        allocation
    }

    fn note_end(&mut self, cluster: &mut Cluster, rank: Rank, shape: &Shape, end: End) {
        match end {
            End::Eventually => {
                let unknown = self.unknown_ends.get_or_insert_with(rank, UnknownEnds::default);
                unknown.count += 1;
                unknown.amounts.add(&shape.requests);
            }
            End::Never => cluster.taken_mut().take_for_ever(rank, &shape.constraints),
            End::At(_) => {}
        }
    }

    fn forget_end(&mut self, cluster: &mut Cluster, rank: Rank, shape: &Shape, end: End) {
        match end {
            End::Eventually => {
                if let Some(unknown) = self.unknown_ends.get_mut(&rank) {
                    unknown.count = unknown.count.saturating_sub(1);
                    unknown.amounts.subtract(&shape.requests);
                }
            }
            End::Never => cluster.taken_mut().give_back_for_ever(rank, &shape.constraints),
            End::At(_) => {}
        }
    }

    /// Returns how many allocations on a node end at an unknown second.
    pub fn unknown_ends(&self, rank: Rank) -> u32 {
        self.unknown_ends.get(&rank).map_or(0, |unknown| unknown.count)
    }

    /// True if a node has room for these requests once all allocations with a known end have ended.
    pub fn has_room_some_day(&self, cluster: &Cluster, rank: Rank, requests: &Resources) -> bool {
        let nothing = Resources::new();
        let taken = self.unknown_ends.get(&rank).map_or(&nothing, |unknown| &unknown.amounts);
        cluster.nodes().has_room_beside(rank, requests, taken)
    }

    /// Returns how many pods of this shape a node has room for once everything with an end has
    /// ended.
    pub fn room_some_day(&self, cluster: &Cluster, rank: Rank, shape: &Shape) -> u64 {
        cluster.nodes().room_beside(rank, shape, &self.taken_for_ever(rank))
    }

    /// Returns the amounts of a node that are taken without an end.
    pub fn taken_for_ever(&self, rank: Rank) -> Resources {
        let mut taken = Resources::new();
        for booked in self.booked.on(rank).filter(|booked| booked.end == End::Never) {
            taken.add(&booked.shape.requests);
        }
        taken
    }

    /// True if something on a node has an end.
    pub fn has_passing(&self, rank: Rank) -> bool {
        self.booked.on(rank).any(|booked| booked.end != End::Never)
    }

    /// Gives an allocation back. On a node that is gone there is nothing to give back.
    pub fn free(&mut self, cluster: &mut Cluster, allocation: Allocation) {
        if valid(cluster, &allocation) {
            self.free_booked(cluster, allocation.booking());
        }
    }

    /// In a copy: gives back an allocation that remains with its owner, which does not learn of it.
    pub fn free_booked(
        &mut self,
        cluster: &mut Cluster,
        BookingId { rank, number, .. }: BookingId,
    ) {
        // In a copy the node may be gone, with its bookings.
        let Some(booked) = self.booked.remove(rank, number) else { return };
        let change = match booked.end {
            End::Never => Change::FreedForGood,
            End::Eventually => Change::FreedUnknown,
            End::At(_) => Change::Freed,
        };
        self.changes.push(change(rank));
        self.forget_end(cluster, rank, &booked.shape, booked.end);
        cluster.vacate(rank, &booked.shape);
        if let Some(occupant) = booked.occupant {
            cluster.leave(occupant);
        }
        let released = self.graph.release(booked.gid, rank, &booked.label, 1);
        self.check("releasing a slot", released);
    }

    /// Returns the allocations with a known end on this number of nodes from this rank on, and the
    /// rank of the node behind these, if there is one.
    pub fn planned_ends(
        &self,
        from: Rank,
        nodes: usize,
    ) -> (impl Iterator<Item = (i64, BookingId)>, Option<Rank>) {
        let next = from.saturating_add(Rank::try_from(nodes).unwrap_or(Rank::MAX));
        (self.booked.ends(from, nodes), (next < self.booked.end_of_ranks()).then_some(next))
    }

    /// Books an allocation with another end.
    pub fn set_end(&mut self, cluster: &mut Cluster, allocation: &mut Allocation, end: End) {
        if !valid(cluster, allocation) {
            return;
        }
        let released = self.graph.release(allocation.gid, allocation.rank, &allocation.label, 1);
        self.check("releasing a slot", released);
        allocation.gid = self.new_gid();
        self.forget_end(cluster, allocation.rank, &allocation.shape, allocation.end);
        allocation.end = end;
        self.note_end(cluster, allocation.rank, &allocation.shape, end);
        if let Some(booked) = self.booked.get_mut(allocation.rank, allocation.number) {
            (booked.gid, booked.end) = (allocation.gid, end);
            if let Some(occupant) = booked.occupant {
                cluster.set_endless(occupant, end == End::Never);
            }
        }
        let Allocation { rank, gid, ref label, ref shape, tenancy, .. } = *allocation;
        let charged = self.graph.charge_beside(gid, rank, label, &shape.requests, end, tenancy);
        self.check("charging a node", charged);
        // The room is the same, but what waits for it may start at another time.
        self.changes.push(Change::FreedForGood(allocation.rank));
    }

    /// Places all pods of the groups now, or none.
    pub fn allocate(&mut self, cluster: &mut Cluster, groups: &[GroupRequest]) -> Fit<Allocations> {
        let gid = self.new_gid();
        match self.query(groups, None, |graph, request| graph.allocate(gid, request)) {
            Some(Fit::Placed(placement)) => {
                Fit::Placed(self.allocations(cluster, gid, groups, placement))
            }
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
                            let terms = (end, group.tenancy);
                            let made =
                                allocation(cluster, (gid, label), slots.rank, &want.shape, terms);
                            of_want.push(self.note(cluster, made));
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
    pub fn allocate_on(
        &mut self,
        cluster: &mut Cluster,
        rank: Rank,
        pod: &Pod,
        (lifetime, tenancy): (Lifetime, Tenancy),
    ) -> Option<Allocation> {
        let mut ranks = RankSet::new();
        ranks.insert(rank);
        let want = SlotRequest::new(Arc::clone(&pod.shape), 1);
        let (wants, ranks) = (vec![want], Some(ranks));
        let (prefer, counted, max_per_node, are_apart, levels) =
            (Vec::new(), None, None, false, None);
        let group = GroupRequest {
            wants,
            ranks,
            prefer,
            counted,
            lifetime,
            max_per_node,
            are_apart,
            levels,
            tenancy,
        };
        self.allocate(cluster, &[group]).placed()?.into_iter().flatten().flatten().next()
    }

    /// Returns when all groups could start together.
    pub fn forecast(&mut self, groups: &[GroupRequest]) -> Option<Forecast> {
        self.query(groups, None, Graph::forecast)
    }

    /// The nodes that could hold one of the groups' pods once everything with an end has ended.
    pub fn eligible(&mut self, groups: &[GroupRequest]) -> Option<RankSet> {
        self.query(groups, None, Graph::eligible)
    }

    /// Explains the shortage, per want.
    pub fn explain(&mut self, groups: &[GroupRequest]) -> Option<Explanation> {
        self.query(groups, None, Graph::explain)
    }

    /// Asks for all groups at once: a shape for each want, or for each slice of it.
    fn query<T>(
        &mut self,
        groups: &[GroupRequest],
        not_before: Option<i64>,
        call: impl FnOnce(&mut Graph, &Request<'_>) -> Result<T, GraphError>,
    ) -> Option<T> {
        let before = self.graph.steps().all;
        let answer = with_request(groups, not_before, |request| call(&mut self.graph, request));
        self.questions += 1 + (self.graph.steps().all - before) / STEPS_OF_A_QUESTION;
        match answer {
            Err(error) if error.has_given_up() => None,
            answer => self.check("matching a request", answer),
        }
    }
}

fn allocation(
    cluster: &mut Cluster,
    (gid, label): (u64, Arc<str>),
    rank: Rank,
    shape: &Arc<Shape>,
    (end, tenancy): (End, Tenancy),
) -> Allocation {
    cluster.occupy(rank, shape);
    let node = cluster.node(rank).map_or_else(|| NodeName::from(""), |node| node.name.clone());
    Allocation {
        gid,
        rank,
        generation: cluster.nodes().generation(rank).unwrap_or(0),
        label,
        node,
        shape: Arc::clone(shape),
        end,
        tenancy,
        is_overdue: false,
        number: 0,
    }
}
