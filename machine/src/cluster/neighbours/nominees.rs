//! Pods that other schedulers mean to put on nodes, as a class counts them: kube-scheduler runs its
//! filters for a node with those that are nominated to it, and once more without, and a pod has to
//! pass both.
//!
//! So they can close the one node that they are nominated to, and open none.

use std::collections::BTreeMap;

use super::part::Part;
use crate::fluxion::Rank;

/// The nominated pods that parts of a class count: how many on which nodes.
#[derive(Debug, Clone, Default)]
pub(super) struct Nominees {
    counts: BTreeMap<(Part, Rank), u32>,
}

impl Nominees {
    /// Counts a pod that this part counts and that is nominated to a node, or is not any more.
    /// Parts that are mere preferences are left out.
    pub(super) fn count(&mut self, part: Part, rank: Rank, comes: bool) {
        if !part.is_required() {
            return;
        }
        let count = self.counts.entry((part, rank)).or_default();
        *count = if comes { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            self.counts.remove(&(part, rank));
        }
    }

    /// Forgets the pods that these parts count.
    pub(super) fn forget(&mut self, is_forgotten: impl Fn(Part) -> bool) {
        self.counts.retain(|(part, _), _| !is_forgotten(*part));
    }

    /// Returns the number on a node.
    pub(super) fn on(&self, part: Part, rank: Rank) -> u32 {
        self.counts.get(&(part, rank)).copied().unwrap_or(0)
    }

    /// The nodes that have some.
    pub(super) fn nodes(&self, part: Part) -> impl Iterator<Item = Rank> + '_ {
        self.counts.range((part, Rank::MIN)..=(part, Rank::MAX)).map(|((_, rank), _)| *rank)
    }
}
