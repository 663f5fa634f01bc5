//! A graph whose nodes are whole vertices: what the core asks, in a library that has nothing but what upstream offers.
//!
//! A node has one vertex for each whole core, each GiB of memory, each pod it may run and each device. The library chooses
//! where slots go, by its policy, among the nodes that are named to it. What it cannot say is kept here, in an account of
//! every node ([`node`]), and answered from it ([`room`]): what pods take that nobody asked it for, until when something is
//! taken, when a request could start, and why it does not fit.
//!
//! - Slots that a request was given are *booked*: a job of the library holds their vertices. What was put on a node without
//!   asking is *charged*: one job of the library for each node holds the vertices that all charges together leave unusable.
//! - Upstream gives back what a job has on a rank, not a slot of it. So slots that stay when another of theirs on the same
//!   node goes become charges; they take the same or less.
//! - The library is told of changes right before it is asked something, and all at once: upstream walks the whole graph with
//!   each change of it. Nothing that fails there is lost here: a node whose vertices it will not take is left alone, and
//!   whenever it did what it should not, its graph is made anew from the accounts [`RENEW_SECONDS`] later.
//! - Its clock is not used: what it holds it holds for ever, until it is cancelled. Upstream searches for an instant at which
//!   a job fits among those at which one type of vertices changes, which is wrong for pods that need none of that type.
//! - Several shapes, limits per node and tiers of nodes are several jobs of the library, all or none of which stay.

mod kinds;
mod node;
mod room;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use fluxion_sys::{FunctionTable, errno, match_op};

use super::answer::{self, Explanation, NodeUsage, PoolUsage};
use super::context::{Context, lacks};
use super::{End, Forecast, GraphError, Placement, Policy, Rank, RankSet, Request, SlotShape, SlotsAt, json};
use crate::cluster::Resources;
use crate::workload::Lifetime;
use node::{Claim, Node, When};
pub(crate) use room::NOT_A_VERTEX;
use room::{Needs, Nodes};

/// A graph that went wrong is not made anew more often than this.
const RENEW_SECONDS: i64 = 10;

/// A resource graph of nodes with whole vertices.
#[derive(Debug)]
pub(super) struct VertexGraph {
    context: Context,
    policy: Policy,
    nodes: Nodes,
    /// Nodes of which the library does not know the newest.
    stale: BTreeSet<Rank>,
    /// How many claims each job has.
    jobs: HashMap<u64, usize>,
    /// How many nodes each job of the library has slots on.
    bookings: HashMap<u64, usize>,
    /// The library did what it should not: its graph is to be made anew, but not before this second.
    renew_from: Option<i64>,
    now: i64,
}

/// Where one shape went, as one job of the library.
struct Booked {
    job: u64,
    slots: Vec<(Rank, u64)>,
}

impl VertexGraph {
    pub(super) fn new(table: FunctionTable, policy: Policy) -> Result<Self, GraphError> {
        let needed = [
            ("reapi_cli_match", table.match_op.is_some()),
            ("reapi_cli_partial_cancel", table.partial_cancel.is_some()),
            ("reapi_cli_add_subgraph", table.add_subgraph.is_some()),
            ("reapi_cli_remove_subgraph", table.remove_subgraph.is_some()),
        ];
        if let Some((name, _)) = needed.iter().find(|(_, there)| !there) {
            return Err(lacks("new", &format!("{name} (flux-sched 0.53 has it)")));
        }
        Ok(VertexGraph {
            context: empty(table, policy)?,
            policy,
            nodes: Nodes::new(),
            stale: BTreeSet::new(),
            jobs: HashMap::new(),
            bookings: HashMap::new(),
            renew_from: None,
            now: 0,
        })
    }

    /// A resource of these that cannot be asked for.
    pub(super) fn refuses(requests: &Resources) -> Option<&str> {
        kinds::needed_for(requests).err()
    }

    pub(super) fn set_time(&mut self, now_seconds: i64) {
        self.now = self.now.max(now_seconds);
    }

    // --- nodes ---

    pub(super) fn add_node(&mut self, rank: Rank, name: &str, pools: &Resources) -> Result<(), GraphError> {
        if self.nodes.contains_key(&rank) {
            let text = format!("rank {rank}: another node has it");
            return Err(GraphError { operation: "add_node", errno: errno::EEXIST, text });
        }
        self.nodes.insert(rank, Node::new(name, pools));
        self.stale.insert(rank);
        Ok(())
    }

    pub(super) fn resize(&mut self, rank: Rank, resource: &str, size: u64) -> Result<(), GraphError> {
        self.node("resize", rank)?.resize(resource, size);
        self.stale.insert(rank);
        Ok(())
    }

    pub(super) fn remove_node(&mut self, rank: Rank) -> Result<(), GraphError> {
        self.node("remove_node", rank)?;
        let withdrawn = self.withdraw(rank).inspect_err(|_| self.renew());
        self.stale.remove(&rank);
        if let Some(node) = self.nodes.remove(&rank) {
            node.claims().iter().for_each(|claim| self.forget(claim.job));
        }
        withdrawn
    }

    pub(super) fn set_up(&mut self, rank: Rank, up: bool) -> Result<(), GraphError> {
        self.node("set_up", rank)?.up = up;
        Ok(())
    }

    fn node(&mut self, operation: &'static str, rank: Rank) -> Result<&mut Node, GraphError> {
        self.nodes.get_mut(&rank).ok_or_else(|| not_found(operation, format!("rank {rank}: there is no such node")))
    }

    // --- what is taken ---

    pub(super) fn charge(
        &mut self,
        job: u64,
        rank: Rank,
        label: &str,
        requests: &Resources,
        count: u64,
        end: End,
    ) -> Result<(), GraphError> {
        let requests = Arc::new(requests.clone());
        let claim = Claim { job, label: label.into(), count, requests, end, booking: None };
        self.node("charge", rank)?.change_claims(|claims| claims.push(claim));
        *self.jobs.entry(job).or_default() += 1;
        self.stale.insert(rank);
        Ok(())
    }

    pub(super) fn release(&mut self, job: u64, rank: Rank, label: &str, count: u64) -> Result<(), GraphError> {
        let node = self.node("release", rank)?;
        let is_meant = |claim: &Claim| claim.job == job && *claim.label == *label;
        let there: u64 = node.claims().iter().filter(|claim| is_meant(claim)).map(|claim| claim.count).sum();
        if there < count {
            let text = format!("job {job} has {there} slots {label:?} on rank {rank}, not {count}");
            return Err(not_found("release", text));
        }
        let mut left = count;
        let (mut ended, mut given_back) = (0, Vec::new());
        node.change_claims(|claims| {
            for claim in claims.iter_mut().filter(|claim| is_meant(claim)) {
                if left > 0 {
                    let taken = claim.count.min(left);
                    claim.count -= taken;
                    left -= taken;
                    ended += usize::from(claim.count == 0);
                    given_back.extend(claim.booking.take());
                }
            }
            claims.retain(|claim| claim.count > 0);
        });
        self.stale.insert(rank);
        (0..ended).for_each(|_| self.forget(job));
        given_back.into_iter().try_for_each(|booking| self.give_back(booking, rank))
    }

    pub(super) fn cancel(&mut self, job: u64) -> Result<(), GraphError> {
        if !self.jobs.contains_key(&job) {
            return Ok(());
        }
        let has = |node: &Node| node.claims().iter().any(|claim| claim.job == job);
        let ranks: Vec<Rank> = self.nodes.iter().filter(|(_, node)| has(node)).map(|(rank, _)| *rank).collect();
        let mut bookings = BTreeSet::new();
        for rank in ranks {
            self.stale.insert(rank);
            self.node("cancel", rank)?.change_claims(|claims| {
                bookings.extend(claims.iter().filter(|claim| claim.job == job).filter_map(|claim| claim.booking));
                claims.retain(|claim| claim.job != job);
            });
        }
        self.jobs.remove(&job);
        bookings.into_iter().try_for_each(|booking| {
            self.bookings.remove(&booking);
            self.context.cancel(booking).inspect_err(|_| self.renew())
        })
    }

    pub(super) fn usage(&mut self, rank: Rank) -> Result<NodeUsage, GraphError> {
        let node = self.node("usage", rank)?;
        let used = node.used();
        let names: BTreeSet<_> = node.pools().iter().chain(used.iter()).map(|(name, _)| Arc::clone(name)).collect();
        let pool = |name: Arc<str>| {
            let size = node.pools().get(&name);
            PoolUsage { resource: name.to_string(), size, used: used.get(&name) }
        };
        Ok(NodeUsage { rank, pools: names.into_iter().map(pool).collect() })
    }

    /// A claim of a job is gone.
    fn forget(&mut self, job: u64) {
        if let Some(claims) = self.jobs.get_mut(&job) {
            *claims -= 1;
            if *claims == 0 {
                self.jobs.remove(&job);
            }
        }
    }

    /// Gives back what a job of the library has on a rank.
    fn give_back(&mut self, booking: u64, rank: Rank) -> Result<(), GraphError> {
        let Some(ranks) = self.bookings.get_mut(&booking) else { return Ok(()) };
        *ranks -= 1;
        if *ranks == 0 {
            self.bookings.remove(&booking);
            return self.context.cancel(booking).inspect_err(|_| self.renew());
        }
        let all = self.context.partial_cancel(booking, |out| {
            // Only the rank is looked at.
            let _ = write!(
                out,
                r#"{{"version":1,"execution":{{"R_lite":[{{"rank":"{rank}","children":{{"core":"0"}}}}],"starttime":0,"expiration":0}}}}"#
            );
        });
        match all {
            Ok(false) => Ok(()),
            Ok(true) => {
                self.renew();
                let text = format!("rank {rank}: with it all of a job went that has other nodes");
                Err(GraphError { operation: "partial_cancel", errno: errno::EPROTO, text })
            }
            Err(error) => {
                self.renew();
                Err(error)
            }
        }
    }

    /// What the library holds is not what it should hold.
    fn renew(&mut self) {
        self.renew_from.get_or_insert(self.now + RENEW_SECONDS);
    }

    // --- telling the library ---

    /// Makes the library's graph anew. All that is booked becomes charges.
    fn start_over(&mut self) -> Result<(), GraphError> {
        self.context = empty(self.context.table, self.policy)?;
        self.bookings.clear();
        for (rank, node) in &mut self.nodes {
            node.change_claims(|claims| claims.iter_mut().for_each(|claim| claim.booking = None));
            (node.known, node.charged, node.broken) = (None, None, false);
            self.stale.insert(*rank);
        }
        Ok(())
    }

    /// Brings the library's graph up to date. An error says what it would not take; the nodes are broken then.
    fn settle(&mut self) -> Result<(), GraphError> {
        if self.renew_from.is_some_and(|from| from <= self.now) {
            self.renew_from = None;
            self.start_over()?;
        }
        let stale = std::mem::take(&mut self.stale);
        let mut first_error = None;
        let mut new = Vec::new();
        for rank in &stale {
            let Some(node) = self.nodes.get(rank) else { continue };
            if node.known.as_ref().is_some_and(|known| known != node.vertices())
                && let Err(error) = self.withdraw(*rank)
            {
                self.broken(*rank, error, &mut first_error);
            }
            if self.nodes.get(rank).is_some_and(|node| node.known.is_none() && !node.broken) {
                new.push(*rank);
            }
        }
        if !new.is_empty() {
            let nodes = &self.nodes;
            let added = self.context.add_subgraph("add_node", |out| {
                json::nodes_of_vertices(out, new.iter().filter_map(|rank| Some((*rank, described(nodes.get(rank)?)))));
            });
            for rank in new {
                match &added {
                    Ok(()) => {
                        if let Some(node) = self.nodes.get_mut(&rank) {
                            node.known = Some(node.vertices().clone());
                        }
                    }
                    Err(error) => self.broken(rank, error.clone(), &mut first_error),
                }
            }
        }
        for rank in stale {
            if let Err(error) = self.settle_charges(rank) {
                self.broken(rank, error, &mut first_error);
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    fn broken(&mut self, rank: Rank, error: GraphError, first: &mut Option<GraphError>) {
        self.renew();
        if let Some(node) = self.nodes.get_mut(&rank) {
            node.broken = true;
            first.get_or_insert(GraphError { text: format!("node {}: {}", node.name, error.text), ..error });
        }
    }

    /// Takes a node out of the library's graph. What was booked there becomes charges.
    fn withdraw(&mut self, rank: Rank) -> Result<(), GraphError> {
        let Some(node) = self.nodes.get_mut(&rank) else { return Ok(()) };
        let bookings: Vec<u64> =
            node.change_claims(|claims| claims.iter_mut().filter_map(|claim| claim.booking.take()).collect());
        let charged = node.charged.take();
        let path = node.known.take().map(|_| json::node_path(&node.name));
        for booking in bookings {
            self.give_back(booking, rank)?;
        }
        if let Some((job, _)) = charged {
            self.context.cancel(job)?;
        }
        path.map_or(Ok(()), |path| self.context.remove_subgraph("remove_node", &path))
    }

    /// Holds the vertices that are unusable, and no others.
    fn settle_charges(&mut self, rank: Rank) -> Result<(), GraphError> {
        let Some(node) = self.nodes.get(&rank).filter(|node| !node.broken) else { return Ok(()) };
        let unusable = node.unusable();
        let held = node.charged.as_ref();
        if held.map_or(unusable.is_empty(), |(_, held)| *held == unusable) {
            return Ok(());
        }
        if let Some((job, _)) = self.nodes.get_mut(&rank).and_then(|node| node.charged.take()) {
            self.context.cancel(job)?;
        }
        if !unusable.is_empty() {
            let ranks = [rank].into_iter().collect();
            let booked = self.book("charge", &unusable, 1, &ranks)?;
            if let Some(node) = self.nodes.get_mut(&rank) {
                node.charged = Some((booked.job, unusable));
            }
        }
        Ok(())
    }

    /// Lets the library choose vertices for so many slots on these ranks, which have room for them.
    fn book(
        &mut self,
        operation: &'static str,
        per_slot: &Resources,
        count: u64,
        ranks: &RankSet,
    ) -> Result<Booked, GraphError> {
        let vertices: Resources =
            per_slot.iter().map(|(name, needed)| (Arc::from(kinds::vertex_type(name)), needed)).collect();
        let shapes = [SlotShape { label: "0", count, requests: &vertices }];
        let request = Request { ranks: Some(ranks), ..Request::of(&shapes) };
        let matched = self.context.matched(operation, match_op::ALLOCATE, |out| json::jobspec(out, &request));
        let matched = matched.map_err(|error| match error.errno {
            errno::EBUSY | errno::ENODEV => {
                let text = format!("the library has no place for {count} slots on ranks {ranks}, which have room");
                GraphError { operation, errno: errno::EPROTO, text }
            }
            _ => error,
        });
        let matched = matched.inspect_err(|_| self.renew())?;
        match answer::vertices(&matched.r, &vertices, count, ranks) {
            Ok(slots) => Ok(Booked { job: matched.job, slots }),
            Err(text) => {
                self.renew();
                // What nobody knows about must not stay taken.
                self.context.cancel(matched.job)?;
                Err(GraphError { operation, errno: errno::EPROTO, text })
            }
        }
    }

    // --- requests ---

    pub(super) fn allocate(&mut self, job: u64, request: &Request<'_>) -> Result<Option<Placement>, GraphError> {
        const ALLOCATE: &str = "allocate";
        let needs = self.needs(ALLOCATE, request)?;
        if self.jobs.contains_key(&job) {
            let text = format!("job {job}: there already is one");
            return Err(GraphError { operation: ALLOCATE, errno: errno::EEXIST, text });
        }
        self.settle()?;
        for order in room::orders(&self.nodes, request, &needs) {
            match self.place_all(job, request, &needs, &order) {
                Ok(Some(placement)) => return Ok(Some(placement)),
                Ok(None) => self.cancel(job)?,
                Err(error) => {
                    self.cancel(job)?;
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    fn place_all(
        &mut self,
        job: u64,
        request: &Request<'_>,
        needs: &[Needs<'_>],
        order: &[usize],
    ) -> Result<Option<Placement>, GraphError> {
        let mut placement = Placement::default();
        for &at in order {
            let mut left = needs[at].count;
            let mut rest: RankSet = room::open(&self.nodes, request, When::Now).map(|(rank, _)| rank).collect();
            let tiers = request.prefer.iter().map(Some).chain([None]);
            for tier in tiers {
                let mut ranks = rest.clone();
                if let Some(tier) = tier {
                    ranks.intersect_with(tier);
                    rest.subtract(tier);
                }
                left -= self.place(job, request, &needs[at], left, &ranks, &mut placement)?;
            }
            if left > 0 {
                return Ok(None);
            }
        }
        Ok(Some(placement))
    }

    /// Places up to `count` slots of a shape on these ranks; says how many.
    fn place(
        &mut self,
        job: u64,
        request: &Request<'_>,
        needs: &Needs<'_>,
        count: u64,
        ranks: &RankSet,
        placement: &mut Placement,
    ) -> Result<u64, GraphError> {
        let limit = |rank: Rank, placement: &Placement| {
            let of_limit = |limit: &usize| {
                let (labels, most) = &request.max_per_node[*limit];
                let counts = |slots: &&SlotsAt| {
                    slots.rank == rank && labels.iter().any(|label| *label == request.shapes[slots.shape].label)
                };
                most.saturating_sub(placement.slots.iter().filter(counts).map(|slots| slots.count).sum())
            };
            needs.limits.iter().map(of_limit).min().unwrap_or(u64::MAX)
        };
        let mut placed = 0;
        let mut ranks = ranks.clone();
        while placed < count {
            // The library cannot be told how many slots a node may get: where there is a limit, one after the other.
            let mut room = 0_u64;
            let mut roomy = RankSet::new();
            for rank in ranks.iter() {
                let free =
                    self.nodes.get(&rank).map_or(0, |node| room::slots_in(node.free(When::Now), &needs.per_slot));
                let here = free.min(limit(rank, placement));
                if here > 0 {
                    roomy.insert(rank);
                    room = room.saturating_add(here);
                }
            }
            let now = if needs.limits.is_empty() { room.min(count - placed) } else { room.min(1) };
            if now == 0 {
                break;
            }
            let booked = self.book("allocate", &needs.per_slot, now, &roomy)?;
            self.claim(job, request, needs, &booked);
            placed += now;
            for (rank, count) in booked.slots {
                let shape = needs.shape;
                let is_same = |known: &&mut SlotsAt| (known.shape, known.rank) == (shape, rank);
                let known = if needs.limits.is_empty() { None } else { placement.slots.iter_mut().find(is_same) };
                match known {
                    Some(known) => known.count += count,
                    None => placement.slots.push(SlotsAt { shape, rank, count }),
                }
            }
            ranks = roomy;
        }
        Ok(placed)
    }

    fn claim(&mut self, job: u64, request: &Request<'_>, needs: &Needs<'_>, booked: &Booked) {
        let end = match request.end {
            Lifetime::Seconds(seconds) => End::At(self.now.saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX))),
            Lifetime::Eventually => End::Eventually,
            Lifetime::Endless => End::Never,
        };
        let requests = Arc::new(request.shapes[needs.shape].requests.clone());
        for (rank, count) in &booked.slots {
            let requests = Arc::clone(&requests);
            let booking = Some(booked.job);
            let claim = Claim { job, label: needs.label.into(), count: *count, requests, end, booking };
            if let Some(node) = self.nodes.get_mut(rank) {
                node.change_claims(|claims| claims.push(claim));
            }
        }
        self.bookings.insert(booked.job, booked.slots.len());
        *self.jobs.entry(job).or_default() += booked.slots.len();
    }

    pub(super) fn forecast(&mut self, request: &Request<'_>) -> Result<Forecast, GraphError> {
        let needs = self.needs("forecast", request)?;
        Ok(room::forecast(&self.nodes, request, &needs, self.now))
    }

    pub(super) fn eligible(&mut self, request: &Request<'_>) -> Result<RankSet, GraphError> {
        let needs = self.needs("eligible", request)?;
        Ok(room::eligible(&self.nodes, request, &needs))
    }

    pub(super) fn explain(&mut self, request: &Request<'_>) -> Result<Explanation, GraphError> {
        let needs = self.needs("explain", request)?;
        let shapes = needs.iter().map(|needs| room::report(&self.nodes, request, needs)).collect();
        Ok(Explanation { shapes })
    }

    fn needs<'a>(&self, operation: &'static str, request: &Request<'a>) -> Result<Vec<Needs<'a>>, GraphError> {
        if request.policy.is_some_and(|policy| policy != self.policy) {
            let text = format!("policy: this Fluxion library has one for all requests, {}", self.policy.as_str());
            return Err(GraphError { operation, errno: errno::ENOTSUP, text });
        }
        room::needs(operation, request)
    }
}

/// A context whose graph has no nodes.
fn empty(table: FunctionTable, policy: Policy) -> Result<Context, GraphError> {
    // Without counts of nodes: upstream does not count those that are added later, and refuses requests for more.
    let options = format!(
        r#"{{"load_format":"jgf","matcher_name":"CA","matcher_policy":"{}","traverser_policy":"simple","match_format":"jgf","prune_filters":"ALL:core"}}"#,
        policy.as_str()
    );
    Context::new(table, json::empty_graph(), options)
}

/// A node as it is told: its name, and the types and numbers of its vertices.
fn described(node: &Node) -> (&str, Vec<(String, u64)>) {
    let vertices = node.vertices().iter().map(|(name, count)| (kinds::vertex_type(name).into_owned(), count));
    (&node.name, vertices.collect())
}

fn not_found(operation: &'static str, text: String) -> GraphError {
    GraphError { operation, errno: errno::ENOENT, text }
}
