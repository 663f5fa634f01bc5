//! Updates of the library: its graph, and the jobs by which it holds taken vertices.

use std::fmt::Write as _;

use std::sync::Arc;

use fluxion_sys::{errno, match_op};

use super::node::VertexNode;
use super::{NODES_PER_DOCUMENT, VertexGraph, empty, kinds};
use crate::defect::OrDefect;
use crate::fluxion::error::GraphError;
use crate::fluxion::rankset::{Rank, RankSet};
use crate::fluxion::request::{Request, SlotShape};
use crate::fluxion::{answer, json};
use fluxqueue_workload::Resources;

/// The least time in seconds before a graph that went wrong is made again, so that a broken library
/// does not take all the time.
const RENEW_SECONDS: i64 = 10;

/// Where one shape went, as one job of the library.
pub(super) struct BookedVertices {
    pub(super) job: u64,
    pub(super) slots: Vec<(Rank, u64)>,
}

impl VertexGraph {
    /// Makes the library's graph again. All bookings become charges.
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

    /// Brings the library's graph up to date. An error names the vertices that the library refused;
    /// the nodes are broken then.
    pub(super) fn settle(&mut self) -> Result<(), GraphError> {
        if self.renew_from.is_some_and(|from| from <= self.now) {
            self.renew_from = None;
            self.start_over()?;
        }
        let stale = std::mem::take(&mut self.stale);
        let mut first_error = None;
        let mut new = Vec::new();
        for rank in &stale {
            // It may have been removed since it became stale.
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
        for new in new.chunks(NODES_PER_DOCUMENT) {
            let (nodes, next) = (&self.nodes, &mut self.next_vertex);
            let added = self.context.add_subgraph("add_node", |out| {
                json::nodes_of_vertices(
                    out,
                    next,
                    new.iter().filter_map(|rank| Some((*rank, described(nodes.get(rank)?)))),
                );
            });
            for rank in new {
                match &added {
                    Ok(()) => {
                        if let Some(node) = self.nodes.get_mut(rank) {
                            node.known = Some(node.vertices().clone());
                        }
                    }
                    Err(error) => self.broken(*rank, error.clone(), &mut first_error),
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
            first.get_or_insert(GraphError {
                text: format!("node {}: {}", node.name, error.text),
                ..error
            });
        }
    }

    /// Takes a node out of the library's graph. Bookings there become charges.
    pub(super) fn withdraw(&mut self, rank: Rank) -> Result<(), GraphError> {
        let node = self.nodes.get_mut(&rank).or_defect("a node to withdraw is not there");
        let Some(node) = node else { return Ok(()) };
        let bookings: Vec<u64> = node.change_claims(|claims| {
            claims.iter_mut().filter_map(|claim| claim.booking.take()).collect()
        });
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
        // The vertices of a broken node are held once the graph is made again.
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

    /// Lets the library choose vertices for `count` slots on these ranks, which have room for them.
    pub(super) fn book(
        &mut self,
        operation: &'static str,
        per_slot: &Resources,
        count: u64,
        ranks: &RankSet,
    ) -> Result<BookedVertices, GraphError> {
        let vertices: Resources = per_slot
            .iter()
            .map(|(name, needed)| (Arc::from(kinds::vertex_type(name)), needed))
            .collect();
        let shapes = [SlotShape { ranks: Some(ranks), ..SlotShape::of("0", count, &vertices) }];
        let request = Request::of(&shapes);
        let matched =
            self.context.matched(operation, match_op::ALLOCATE, |out| json::jobspec(out, &request));
        let matched = matched.map_err(|error| match error.errno {
            errno::EBUSY | errno::ENODEV => {
                let text = format!(
                    "the library has no place for {count} slots on ranks {ranks}, which have room"
                );
                GraphError { operation, errno: errno::EPROTO, text }
            }
            _ => error,
        });
        let matched = matched.inspect_err(|_| self.renew())?;
        match answer::vertices(&matched.r, &vertices, count, ranks) {
            Ok(slots) => Ok(BookedVertices { job: matched.job, slots }),
            Err(text) => {
                self.renew();
                // Vertices that no account knows must not stay taken.
                self.context.cancel(matched.job)?;
                Err(GraphError { operation, errno: errno::EPROTO, text })
            }
        }
    }

    /// Gives back the vertices that a job of the library has on a rank.
    pub(super) fn give_back(&mut self, booking: u64, rank: Rank) -> Result<(), GraphError> {
        let ranks = self.bookings.get_mut(&booking).or_defect("a claim has an unknown booking");
        let Some(ranks) = ranks else { return Ok(()) };
        *ranks -= 1;
        if *ranks == 0 {
            self.bookings.remove(&booking);
            return self.context.cancel(booking).inspect_err(|_| self.renew());
        }
        let all = self.context.partial_cancel(booking, |out| {
            // The library reads only the rank.
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

    /// Notes that the vertices held by the library are not the ones it should hold.
    pub(super) fn renew(&mut self) {
        self.renew_from.get_or_insert(self.now + RENEW_SECONDS);
    }
}

/// Describes a node for the library: its name, and the types and numbers of its vertices.
fn described(node: &VertexNode) -> (&str, Vec<(String, u64)>) {
    let vertices =
        node.vertices().iter().map(|(name, count)| (kinds::vertex_type(name).into_owned(), count));
    (&node.name, vertices.collect())
}
