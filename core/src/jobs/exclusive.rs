//! Jobs that ask for nodes alone: which pods ask, which wishes cannot be honoured, and with which
//! other pods a pod may share its node.
//!
//! The graph keeps other jobs off these nodes, now and later; the bookings are checked once more
//! before a Binding.

use std::collections::BTreeMap;

use fluxqueue_machine::fluxion::{Explanation, Tenancy};
use fluxqueue_planner::plan::Group;

/// The reasons why a node does not suit a pod that asks for it alone, and why a node that is held
/// alone does not suit others.
const USED_BY_OTHERS: &str = "node(s) were used by others";
const HELD_ALONE: &str = "node(s) were held by exclusive jobs";

/// The nodes that a waiting group cannot use because of the pods that are there.
#[derive(Debug, Default)]
pub(crate) struct Apart {
    /// For a group that asks for nodes alone: the number of nodes in use by others, and the number
    /// of nodes that the group may use at all.
    used: u64,
    of: u64,
    /// The number of unsuitable nodes, by the reason that the user reads.
    counts: BTreeMap<&'static str, u64>,
}

impl Apart {
    /// Counts the unsuitable nodes of a group. They are the same for all shapes in it.
    pub(crate) fn note(&mut self, group: &Group, explanation: &Explanation) {
        if let Some(now) = explanation.shapes.first().map(|shape| &shape.now) {
            let asks = matches!(group.terms.tenancy, Tenancy::Alone(_));
            if now.apart > 0 {
                let why = if asks { USED_BY_OTHERS } else { HELD_ALONE };
                // Groups of one gang may be kept off the same nodes.
                let known = self.counts.entry(why).or_default();
                *known = (*known).max(now.apart);
            }
            if asks && now.nodes > self.of {
                (self.used, self.of) = (now.apart, now.nodes);
            }
        }
    }

    /// Adds the counts to the number of nodes for each reason.
    pub(crate) fn count(&self, counts: &mut BTreeMap<String, usize>) {
        let nodes = self
            .counts
            .iter()
            .map(|(why, nodes)| (why.to_string(), usize::try_from(*nodes).unwrap_or(usize::MAX)));
        counts.extend(nodes);
    }

    /// Returns the number of usable nodes that others use, and of all usable nodes; `None` if no
    /// node is in use by others.
    pub(crate) fn used_by_others(&self) -> Option<(u64, u64)> {
        (self.used > 0).then_some((self.used, self.of))
    }
}
