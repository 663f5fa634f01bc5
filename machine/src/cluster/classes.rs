//! Where pods of equal constraints may go.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::filters::{self, Liking, Rejection};
use super::neighbours::CrowdId;
use super::node::Node;
use super::nodes::Nodes;
use crate::fluxion::{Rank, RankSet};
use crate::table::Table;
use fluxqueue_workload::constraints::Constraints;

/// Classes kept at most. Beyond it all are dropped, and computed again when they are needed.
const CLASSES_MAX: usize = 2048;

/// The classes of pods that have been asked about, by their constraints.
///
/// They are shared with copies of the cluster, in which the plan is run forward: there may be
/// hundreds, each of which knows of every node.
#[derive(Debug, Clone, Default)]
pub(super) struct Classes(pub(super) Table<Arc<Constraints>, Arc<Class>>);

/// Where pods of one class may go.
#[derive(Debug, Clone, Default)]
pub struct Class {
    /// Nodes that pass every filter now.
    pub now: RankSet,
    /// Nodes that pass all but the passing ones (cordon, not ready): where it could go one day.
    pub lasting: RankSet,
    /// How much it likes a node, where that is worth a word.
    pub(super) liking: BTreeMap<Rank, Liking>,
    /// Why the other nodes are closed.
    why: BTreeMap<Rank, Rejection>,
    /// The nodes closed for each reason.
    closed: BTreeMap<Rejection, RankSet>,
    /// What other pods mean for it, if it asks about others or prefers some.
    pub(super) crowd: Option<CrowdId>,
}

impl Classes {
    /// Returns the class of these constraints, if it is known.
    pub(super) fn get(&self, constraints: &Constraints) -> Option<&Class> {
        self.0.get(constraints).map(|class| &**class)
    }

    /// True if there is no room for a class that is not known.
    pub(super) fn are_too_many_with(&self, constraints: &Constraints) -> bool {
        self.0.len() >= CLASSES_MAX && !self.0.contains_key(constraints)
    }

    /// Judges all nodes for the class of these constraints, which is not known.
    pub(super) fn insert(
        &mut self,
        constraints: &Constraints,
        crowd: Option<CrowdId>,
        nodes: &Nodes,
    ) {
        let mut class = Class { crowd, ..Class::default() };
        for (rank, node) in nodes.all() {
            class.judge(rank, node, constraints);
        }
        self.0.insert(Arc::new(constraints.clone()), Arc::new(class));
    }

    /// Judges a node again, for all classes.
    pub(super) fn judge(&mut self, rank: Rank, node: &Node) {
        for (constraints, class) in &mut self.0 {
            Arc::make_mut(class).judge(rank, node, constraints);
        }
    }

    /// Forgets a node.
    pub(super) fn remove(&mut self, rank: Rank) {
        for class in self.0.values_mut() {
            let class = Arc::make_mut(class);
            class.now.remove(rank);
            class.lasting.remove(rank);
            class.liking.remove(&rank);
            class.reopen(rank);
        }
    }
}

impl Class {
    fn judge(&mut self, rank: Rank, node: &Node, constraints: &Constraints) {
        let verdict = filters::admit(node, constraints);
        set(&mut self.now, rank, verdict.is_ok());
        set(
            &mut self.lasting,
            rank,
            verdict.as_ref().err().is_none_or(|rejected| !rejected.lasting),
        );
        self.reopen(rank);
        if let Err(rejected) = verdict {
            let first = filters::named(node, constraints).unwrap_or(rejected.first);
            self.closed.entry(first.clone()).or_default().insert(rank);
            self.why.insert(rank, first);
        }
        match filters::liking(node, constraints) {
            liking if liking == Liking::default() => drop(self.liking.remove(&rank)),
            liking => drop(self.liking.insert(rank, liking)),
        }
    }

    /// The node is closed for no reason any more.
    fn reopen(&mut self, rank: Rank) {
        if let Some(rejection) = self.why.remove(&rank)
            && let Some(nodes) = self.closed.get_mut(&rejection)
        {
            nodes.remove(rank);
            if nodes.is_empty() {
                self.closed.remove(&rejection);
            }
        }
    }

    /// Returns the nodes that are closed to it, by reason.
    pub(crate) fn closed(&self) -> impl Iterator<Item = (&Rejection, &RankSet)> {
        self.closed.iter()
    }

    /// The nodes that are closed to it for this reason.
    pub(crate) fn closed_for(&self, reason: &Rejection) -> RankSet {
        self.closed.get(reason).cloned().unwrap_or_default()
    }
}

fn set(ranks: &mut RankSet, rank: Rank, member: bool) {
    if member {
        ranks.insert(rank);
    } else {
        ranks.remove(rank);
    }
}
