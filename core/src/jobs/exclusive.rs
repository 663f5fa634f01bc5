//! Jobs that ask for nodes alone: which pods do, what cannot be honoured, and with whom any pod is
//! on its node.
//!
//! That nobody else comes to their nodes, now and later, is the graph's matter; what is booked is
//! checked once more before a Binding.

use std::collections::BTreeMap;

use fluxqueue_machine::fluxion::{Explanation, Tenancy};
use fluxqueue_planner::plan::Group;

/// Why a node will not do for whoever asks for it alone, and why not for others.
const USED_BY_OTHERS: &str = "node(s) were used by others";
const HELD_ALONE: &str = "node(s) were held by exclusive jobs";

/// Nodes that somebody has with whom pods that wait must not be.
#[derive(Debug, Default)]
pub(crate) struct Apart {
    /// Of those who ask for nodes alone: such nodes, and all that they may use.
    used: u64,
    of: u64,
    /// How many such nodes there are, by what is said of them.
    counts: BTreeMap<&'static str, u64>,
}

impl Apart {
    /// Counts those of a group. Of all shapes in it they are the same.
    pub(crate) fn note(&mut self, group: &Group, explanation: &Explanation) {
        let Some(now) = explanation.shapes.first().map(|shape| &shape.now) else { return };
        let asks = matches!(group.tenancy, Tenancy::Alone(_));
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

    /// Adds them to how many nodes there are for each reason.
    pub(crate) fn count(&self, counts: &mut BTreeMap<String, usize>) {
        let nodes = self
            .counts
            .iter()
            .map(|(why, nodes)| (why.to_string(), usize::try_from(*nodes).unwrap_or(usize::MAX)));
        counts.extend(nodes);
    }

    /// What there is to say to so many pods; mostly nothing.
    pub(crate) fn text(&self, pods: usize) -> String {
        let Apart { used, of, .. } = self;
        let (ask, is) = (
            if pods == 1 { "It asks" } else { "They ask" },
            if of - used == 1 { "is" } else { "are" },
        );
        match used {
            0 => String::new(),
            _ => format!(" {ask} for nodes alone: {} of {of} {is} used by nobody else.", of - used),
        }
    }
}
