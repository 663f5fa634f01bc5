//! A graph with nodes made of whole vertices: the questions of the core, in a library with
//! upstream's functions alone.
//!
//! A node has one vertex for each whole core, each GiB of memory, each pod it may run and each
//! device. The library chooses where slots go, by its policy, among the nodes in its request.
//! Everything it cannot express is kept here, in an account of every node ([`node`]), and answered
//! from it ([`room`]): the amounts of pods that the library did not place, the ends of taken
//! amounts, when a request could start, and why it does not fit.
//!
//! - Slots that a request got are *booked*: a job of the library holds their vertices. Amounts that
//!   were put on a node without a request are *charged*: one job of the library for each node holds
//!   the vertices that all charges together leave unusable.
//! - Upstream gives back all that a job has on a rank, not a slot of it. So slots that stay when
//!   another of theirs on the same node goes become charges; they take the same or less.
//! - The library gets changes right before a question, and all at once: upstream walks the whole
//!   graph with each change of it. Nothing that fails there is lost here: a node is left alone if
//!   the library refuses its vertices, and after every wrong answer the library's graph is made
//!   again from the accounts `RENEW_SECONDS` later.
//! - Its clock is not used: it holds vertices for ever, until they are cancelled. Upstream searches
//!   for an instant at which a job fits among those at which one type of vertices changes, which is
//!   wrong for pods that need none of that type.
//! - Several shapes, limits per node and tiers of nodes are several jobs of the library, all or
//!   none of which stay. They are placed one after the other in a few orders, so that not every
//!   placement is found: the answer then is that there is none.

mod kinds;
mod node;
mod placing;
mod room;
mod telling;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use fluxion_sys::{FunctionTable, errno};

use super::answer::{NodeUsage, PoolUsage};
use super::context::{Context, lacks};
use crate::fluxion::error::GraphError;
use crate::fluxion::json;
use crate::fluxion::rankset::Rank;
use crate::fluxion::request::{End, Policy};
use fluxqueue_workload::Resources;
use node::{Claim, VertexNode};
pub use room::NOT_A_VERTEX;
use room::Nodes;

/// Nodes added at once. Upstream walks its graph with each document, hence the
/// large number; a node may be tens of kilobytes, which bounds it.
const NODES_PER_DOCUMENT: usize = 1000;

/// A resource graph of nodes with whole vertices.
#[derive(Debug)]
pub(super) struct VertexGraph {
    context: Context,
    policy: Policy,
    nodes: Nodes,
    /// Nodes of which the library does not know the newest.
    stale: BTreeSet<Rank>,
    /// The number of claims of each job.
    jobs: HashMap<u64, usize>,
    /// The number of nodes on which each job of the library has slots.
    bookings: HashMap<u64, usize>,
    /// The id of the next vertex of the library's graph; none is used twice.
    next_vertex: u64,
    /// The second from which the library's graph may be made again, after the library went wrong.
    renew_from: Option<i64>,
    now: i64,
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
        if matches!(policy, Policy::Binpack | Policy::Spread) {
            let text = format!("policy {}: this Fluxion library does not know it", policy.as_str());
            return Err(GraphError { operation: "new", errno: errno::ENOTSUP, text });
        }
        Ok(VertexGraph {
            context: empty(table, policy)?,
            policy,
            nodes: Nodes::new(),
            stale: BTreeSet::new(),
            jobs: HashMap::new(),
            bookings: HashMap::new(),
            next_vertex: 1,
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

    pub(super) fn add_node(
        &mut self,
        rank: Rank,
        name: &str,
        pools: &Resources,
    ) -> Result<(), GraphError> {
        if self.nodes.contains_key(&rank) {
            let text = format!("rank {rank}: another node has it");
            return Err(GraphError { operation: "add_node", errno: errno::EEXIST, text });
        }
        self.nodes.insert(rank, VertexNode::new(name, pools));
        self.stale.insert(rank);
        Ok(())
    }

    pub(super) fn resize(
        &mut self,
        rank: Rank,
        resource: &str,
        size: u64,
    ) -> Result<(), GraphError> {
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

    fn node(&mut self, operation: &'static str, rank: Rank) -> Result<&mut VertexNode, GraphError> {
        self.nodes
            .get_mut(&rank)
            .ok_or_else(|| not_found(operation, format!("rank {rank}: there is no such node")))
    }

    // --- taken amounts ---

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

    pub(super) fn release(
        &mut self,
        job: u64,
        rank: Rank,
        label: &str,
        count: u64,
    ) -> Result<(), GraphError> {
        let node = self.node("release", rank)?;
        let is_meant = |claim: &Claim| claim.job == job && *claim.label == *label;
        let there: u64 =
            node.claims().iter().filter(|claim| is_meant(claim)).map(|claim| claim.count).sum();
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
        let has = |node: &VertexNode| node.claims().iter().any(|claim| claim.job == job);
        let ranks: Vec<Rank> =
            self.nodes.iter().filter(|(_, node)| has(node)).map(|(rank, _)| *rank).collect();
        let mut bookings = BTreeSet::new();
        for rank in ranks {
            self.stale.insert(rank);
            self.node("cancel", rank)?.change_claims(|claims| {
                bookings.extend(
                    claims
                        .iter()
                        .filter(|claim| claim.job == job)
                        .filter_map(|claim| claim.booking),
                );
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
        let names: BTreeSet<_> =
            node.pools().iter().chain(used.iter()).map(|(name, _)| Arc::clone(name)).collect();
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
}

/// Makes a context with a graph without nodes.
fn empty(table: FunctionTable, policy: Policy) -> Result<Context, GraphError> {
    // Without counts of nodes: upstream does not count those that are added later, and refuses
    // requests for more.
    let options = format!(
        r#"{{"load_format":"jgf","matcher_name":"CA","matcher_policy":"{}","traverser_policy":"simple","match_format":"jgf","prune_filters":"ALL:core"}}"#,
        policy.as_str()
    );
    Context::new(table, json::empty_graph(), options)
}

fn not_found(operation: &'static str, text: String) -> GraphError {
    GraphError { operation, errno: errno::ENOENT, text }
}
