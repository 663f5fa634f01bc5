//! Where the ranks of a job go, in few words: `status.placement` of a FluxJob.
//!
//! A gang of 5000 pods on 500 alike nodes is one range of some sixty bytes; in the worst case (no two neighbours on one
//! node, names without numbers) it is as long as the names. Which pod is which rank is decided by the scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::PlacementRange;
use crate::hostlist::{self, HostlistError};
use crate::idset::{self, IdsetError};

/// A placement holds at most this many ranks: what [`expand`] is ready to make of one FluxJob.
pub const RANKS_MAX: usize = 1_000_000;

/// Role, rank and node.
pub type Placed<'a> = (&'a str, u32, Arc<str>);

/// Why a placement cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// `ranks` is no idset.
    #[error("placement of role {role:?}: ranks")]
    Ranks {
        /// The role.
        role: String,
        /// What is wrong.
        #[source]
        source: IdsetError,
    },
    /// `nodes` is no hostlist.
    #[error("placement of role {role:?}: nodes")]
    Nodes {
        /// The role.
        role: String,
        /// What is wrong.
        #[source]
        source: HostlistError,
    },
    /// `perNode` is not at least 1.
    #[error("placement of role {role:?}: perNode is {per_node}")]
    PerNode {
        /// The role.
        role: String,
        /// `perNode`
        per_node: i32,
    },
    /// Ranks and nodes do not match.
    #[error("placement of role {role:?}: {ranks} ranks, {per_node} to a node, do not fill {nodes} nodes")]
    Count {
        /// The role.
        role: String,
        /// How many ranks.
        ranks: usize,
        /// How many nodes.
        nodes: usize,
        /// `perNode`
        per_node: usize,
    },
    /// A rank is placed twice.
    #[error("placement of role {role:?}: rank {rank} is placed twice")]
    Twice {
        /// The role.
        role: String,
        /// The rank.
        rank: u32,
    },
    /// More than [`RANKS_MAX`].
    #[error("placement has more than {RANKS_MAX} ranks")]
    TooMany,
}

/// Writes that rank i of `role` goes to `nodes[i]`.
///
/// There is one range for each number of neighbouring ranks that share a node, so most placements have one or two.
pub fn compress(role: &str, nodes: &[&str]) -> Vec<PlacementRange> {
    debug_assert!(nodes.len() <= RANKS_MAX, "{} ranks are more than {RANKS_MAX}", nodes.len());
    let mut runs: BTreeMap<usize, Vec<(usize, &str)>> = BTreeMap::new();
    let mut rank = 0;
    for run in nodes.chunk_by(|a, b| a == b) {
        runs.entry(run.len()).or_default().push((rank, run[0]));
        rank += run.len();
    }
    // The range with the lowest rank first: it reads better, and has no other meaning.
    let mut runs: Vec<_> = runs.into_iter().collect();
    runs.sort_by_key(|(_, runs)| runs[0].0);
    runs.into_iter()
        .map(|(length, runs)| PlacementRange {
            role: role.to_owned(),
            ranks: idset::encode(runs.iter().flat_map(|(rank, _)| (*rank..rank + length).map(rank_number))),
            nodes: hostlist::encode(runs.iter().map(|(_, node)| *node)),
            per_node: i32::try_from(length).unwrap_or(i32::MAX),
        })
        .collect()
}

/// Reads a placement: role, rank and node, in order of roles as they first appear, then of ranks.
pub fn expand(ranges: &[PlacementRange]) -> Result<Vec<Placed<'_>>, PlacementError> {
    let mut roles: Vec<(&str, BTreeMap<u32, Arc<str>>)> = Vec::new();
    let mut count = 0;
    for range in ranges {
        let placed = expand_range(range)?;
        count += placed.len();
        if count > RANKS_MAX {
            return Err(PlacementError::TooMany);
        }
        let at = roles.iter().position(|(role, _)| *role == range.role).unwrap_or_else(|| {
            roles.push((&range.role, BTreeMap::new()));
            roles.len() - 1
        });
        for (rank, node) in placed {
            if roles[at].1.insert(rank, node).is_some() {
                return Err(PlacementError::Twice { role: range.role.clone(), rank });
            }
        }
    }
    Ok(roles
        .into_iter()
        .flat_map(|(role, ranks)| ranks.into_iter().map(move |(rank, node)| (role, rank, node)))
        .collect())
}

/// The nodes of a placement as one hostlist, each node once, in order of names: `status.nodes`.
pub fn node_list(ranges: &[PlacementRange]) -> Result<String, PlacementError> {
    let mut names = BTreeSet::new();
    for range in ranges {
        names.extend(decode_nodes(range)?);
    }
    Ok(hostlist::encode(names.iter().map(String::as_str)))
}

fn expand_range(range: &PlacementRange) -> Result<Vec<(u32, Arc<str>)>, PlacementError> {
    let role = || range.role.clone();
    let per_node = usize::try_from(range.per_node)
        .ok()
        .filter(|per_node| *per_node > 0)
        .ok_or_else(|| PlacementError::PerNode { role: role(), per_node: range.per_node })?;
    let ranks = idset::decode(&range.ranks).map_err(|source| PlacementError::Ranks { role: role(), source })?;
    let nodes = decode_nodes(range)?;
    if nodes.len().checked_mul(per_node) != Some(ranks.len()) {
        return Err(PlacementError::Count { role: role(), ranks: ranks.len(), nodes: nodes.len(), per_node });
    }
    let mut placed = Vec::with_capacity(ranks.len());
    for (ranks, node) in ranks.chunks(per_node).zip(nodes) {
        let node: Arc<str> = node.into();
        placed.extend(ranks.iter().map(|rank| (*rank, Arc::clone(&node))));
    }
    Ok(placed)
}

fn decode_nodes(range: &PlacementRange) -> Result<Vec<String>, PlacementError> {
    hostlist::decode(&range.nodes).map_err(|source| PlacementError::Nodes { role: range.role.clone(), source })
}

fn rank_number(rank: usize) -> u32 {
    u32::try_from(rank).expect("RANKS_MAX is far below 2^32")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(role: &str, ranks: &str, nodes: &str, per_node: i32) -> PlacementRange {
        PlacementRange { role: role.into(), ranks: ranks.into(), nodes: nodes.into(), per_node }
    }

    #[test]
    fn a_large_gang_is_one_range() {
        let names: Vec<String> = (0..500).map(|id| format!("gke-pool-1-abc-{id:04}")).collect();
        let nodes: Vec<&str> = names.iter().flat_map(|name| [name.as_str(); 10]).collect();
        assert_eq!(compress("worker", &nodes), [range("worker", "0-4999", "gke-pool-1-abc-[0000-0499]", 10)]);
    }

    #[test]
    fn counts_that_differ_make_a_range_each() {
        assert_eq!(
            compress("r", &["n1", "n1", "n2", "n3", "n3", "n4"]),
            [range("r", "0-1,3-4", "n[1,3]", 2), range("r", "2,5", "n[2,4]", 1)]
        );
        assert_eq!(compress("r", &["n1", "n2", "n1", "n2"]), [range("r", "0-3", "n[1-2,1-2]", 1)]);
        assert_eq!(compress("r", &[]), []);
    }

    #[test]
    fn roles_come_in_order_of_appearance_and_ranks_ascend() {
        let ranges =
            [range("worker", "2-3", "n1", 2), range("launcher", "0", "n1", 1), range("worker", "0-1", "n2", 2)];
        let placed = expand(&ranges).unwrap();
        let placed: Vec<_> = placed.iter().map(|(role, rank, node)| (*role, *rank, &**node)).collect();
        assert_eq!(
            placed,
            [("worker", 0, "n2"), ("worker", 1, "n2"), ("worker", 2, "n1"), ("worker", 3, "n1"), ("launcher", 0, "n1")]
        );
        assert_eq!(node_list(&ranges).unwrap(), "n[1-2]");
    }

    #[test]
    fn what_does_not_add_up_is_refused() {
        let error = |range| expand(&[range]).unwrap_err();
        assert!(matches!(error(range("r", "0-2", "n[1-2]", 2)), PlacementError::Count { ranks: 3, .. }));
        assert!(matches!(error(range("r", "0-1", "n1", 0)), PlacementError::PerNode { per_node: 0, .. }));
        assert!(matches!(error(range("r", "0-1", "n1", -2)), PlacementError::PerNode { per_node: -2, .. }));
        assert!(matches!(error(range("r", "1,0", "n1", 2)), PlacementError::Ranks { .. }));
        assert!(matches!(error(range("r", "0", "n[", 1)), PlacementError::Nodes { .. }));
        let twice = [range("r", "0-1", "n[1-2]", 1), range("r", "1", "n3", 1)];
        assert_eq!(expand(&twice), Err(PlacementError::Twice { role: "r".into(), rank: 1 }));
        let many = [range("a", "0-999999", "n[0-999999]", 1), range("b", "0", "n0", 1)];
        assert_eq!(expand(&many), Err(PlacementError::TooMany));
    }

    proptest! {
        /// Any assignment comes back, whatever the order of nodes.
        #[test]
        fn reads_what_it_wrote(nodes in prop::collection::vec("(n|pool-)0?[0-3]|login", 0..60)) {
            let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
            let ranges = compress("r", &nodes);
            let placed = expand(&ranges).unwrap();
            prop_assert_eq!(placed.len(), nodes.len());
            for (at, (role, rank, node)) in placed.iter().enumerate() {
                prop_assert_eq!((*role, *rank as usize, &**node), ("r", at, nodes[at]));
            }
        }
    }
}
