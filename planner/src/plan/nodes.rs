//! Sets of nodes, one for each group of a request.

use fluxqueue_machine::fluxion::RankSet;

/// Returns the nodes of all groups together.
pub(super) fn union(nodes: &[RankSet]) -> RankSet {
    let mut all = RankSet::new();
    for nodes in nodes {
        all.union_with(nodes);
    }
    all
}
