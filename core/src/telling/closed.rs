//! Nodes that are closed to the waiting pods, and the reasons: each node counts once for a reason,
//! however many groups and shapes there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::parts::Telling;
use fluxqueue_machine::cluster::filters::Rejection;
use fluxqueue_machine::fluxion::{PoolSupply, RankSet};
use fluxqueue_machine::rules;
use fluxqueue_planner::plan::Group;

/// The closed nodes of each group, and the nodes that have too little of a resource.
#[derive(Default)]
pub(crate) struct Closed {
    groups: Vec<OfGroup>,
    short: BTreeMap<String, RankSet>,
}

struct OfGroup {
    /// The name of one of its pods.
    pod: Arc<str>,
    /// The closed nodes by reason. A node may be closed for several.
    closed: BTreeMap<String, RankSet>,
    /// The other nodes.
    open: RankSet,
}

impl OfGroup {
    fn close(&mut self, nodes: RankSet, why: String) {
        self.open.subtract(&nodes);
        if !nodes.is_empty() {
            self.closed.entry(why).or_default().union_with(&nodes);
        }
    }
}

impl Closed {
    /// Notes the nodes that have too little of a resource for a pod of some shape.
    pub(crate) fn note_short(&mut self, pool: &PoolSupply) {
        if !pool.short.is_empty() {
            self.short.entry(insufficient(&pool.resource)).or_default().union_with(&pool.short);
        }
    }

    /// Returns the number of nodes for each reason. A node that some group may use does not count
    /// as closed. If some groups may use no node, only the reasons of these groups count.
    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        let stuck: Vec<&OfGroup> = self.stuck().collect();
        let is_some_stuck = (1..self.groups.len()).contains(&stuck.len());
        let told = if is_some_stuck { stuck } else { self.groups.iter().collect() };
        let mut nodes: BTreeMap<&str, RankSet> = BTreeMap::new();
        for (why, closed) in told.iter().flat_map(|group| &group.closed) {
            nodes.entry(why).or_default().union_with(closed);
        }
        for group in &told {
            for nodes in nodes.values_mut() {
                nodes.subtract(&group.open);
            }
        }
        if !is_some_stuck {
            for (why, short) in &self.short {
                nodes.entry(why).or_default().union_with(short);
            }
        }
        nodes.retain(|_, nodes| !nodes.is_empty());
        nodes.into_iter().map(|(why, nodes)| (why.to_owned(), nodes.len())).collect()
    }

    /// Returns a pod that may use no node, if other pods of its gang may use some.
    pub(crate) fn stuck_pod(&self) -> Option<Arc<str>> {
        let group = self.stuck().next().filter(|_| self.stuck().count() < self.groups.len())?;
        Some(Arc::clone(&group.pod))
    }

    /// Returns the groups that may use no node.
    fn stuck(&self) -> impl Iterator<Item = &OfGroup> {
        self.groups.iter().filter(|group| group.open.is_empty())
    }
}

impl Telling<'_> {
    /// Counts the nodes that are closed to a pod that comes alone, as kube-scheduler counts them:
    /// each node for its first reason, full nodes too.
    pub(crate) fn closed_to_one(
        &mut self,
        group: &Group,
        open: &RankSet,
    ) -> BTreeMap<String, usize> {
        // Nodes with other users that the pod must not join are counted elsewhere, and get no
        // further reason here.
        let mut elsewhere = open.clone();
        elsewhere.subtract(&self.planner.ledger.open_to(group.terms.tenancy, open));
        let pods = group.applicants(self.queues.nodes(group.queue));
        rules::refusals(&mut self.planner.site(), &pods, &elsewhere)
    }

    /// Finds the nodes that are closed to a group.
    pub(crate) fn note_closed(&mut self, group: &Group, all: &mut Closed) {
        let pods = group.applicants(self.queues.nodes(group.queue));
        let open = self.planner.cluster.nodes().present().clone();
        let pod = Arc::clone(&group.sample.id.key.name);
        let mut of_group = OfGroup { pod, closed: BTreeMap::new(), open };
        for (nodes, rejection) in rules::closed(&mut self.planner.site(), &pods) {
            of_group.close(nodes, rejection.reason().into_owned());
        }
        all.groups.push(of_group);
    }
}

/// Returns kube-scheduler's words for a node that has too little of a resource.
fn insufficient(resource: &str) -> String {
    match resource {
        "pods" => Rejection::TooManyPods,
        other => Rejection::Insufficient(Arc::from(other)),
    }
    .reason()
    .into_owned()
}
