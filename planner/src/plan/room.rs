//! The nodes and the bookings on them, as the placement of requests sees them.
//!
//! [`Room`] says which nodes a group may use, and asks the resource graph about them. Modules
//! that build on it find nodes for pods that have rules about each other, and nodes to hold for
//! requests that wait.

use std::sync::Arc;

use super::capacity::Version;
use super::group::Group;
use super::request::Request;
use crate::queues::Queues;
use fluxqueue_machine::cluster::{Cluster, Company};
use fluxqueue_machine::fluxion::{Forecast, Rank, RankSet};
use fluxqueue_machine::ledger::{Allocation, Allocations, GroupRequest, Ledger};
use fluxqueue_machine::rules::{self, Applicants, Horizon, Site};
use fluxqueue_workload::Pod;

/// Pods that a trial puts on nodes in about the time of a question.
const PODS_OF_A_QUESTION: usize = 64;

/// Nodes in a copy without the pods that have an end, if the copy is to take about the time of a
/// question.
const NODES_OF_A_QUESTION: usize = 1_024;

/// The resource graph and the nodes, by the rules of the queues.
pub struct Room<'a> {
    /// The bookings.
    pub ledger: &'a mut Ledger,
    /// The nodes, and the pods on them.
    pub cluster: &'a mut Cluster,
    /// The queues, with their rules.
    pub queues: &'a Queues,
}

impl Room<'_> {
    /// Returns as of when answers for this request are given.
    pub(super) fn version(&self, request: &Request) -> Version {
        let by_rules = |group: &Group| rules::version(self.cluster, &self.applicants(group));
        let nodes = self.queues.version() + request.groups.iter().map(by_rules).sum::<u64>();
        Version { nodes, changes: self.ledger.changes.count() }
    }

    /// Returns the pods of a group as rules see them.
    fn applicants<'g>(&'g self, group: &'g Group) -> Applicants<'g> {
        group.applicants(self.queues.nodes(group.queue))
    }

    /// Returns the nodes that no rule closes to a group.
    fn by_rules(&mut self, group: &Group, horizon: Horizon) -> RankSet {
        let pods = group.applicants(self.queues.nodes(group.queue));
        rules::open(&mut self.site(), &pods, horizon)
    }

    /// Returns the machine as rules see it.
    fn site(&mut self) -> Site<'_> {
        Site { cluster: self.cluster, ledger: self.ledger }
    }

    /// Returns the nodes that a group may use now.
    pub(super) fn open(&mut self, group: &Group) -> RankSet {
        self.by_rules(group, Horizon::Now)
    }

    /// Returns the nodes that a group could use now if the pods with an end were gone.
    pub(super) fn some_day(&mut self, group: &Group) -> RankSet {
        if group.is_spread() && group.company == Company::Alone {
            self.count_copy(self.cluster.nodes().len());
        }
        self.by_rules(group, Horizon::SomeDay)
    }

    /// Returns the nodes that a group could use if those that are cordoned or not ready came back.
    pub(super) fn lasting(&mut self, group: &Group) -> RankSet {
        self.by_rules(group, Horizon::Lasting)
    }

    /// Returns the nodes that are open to a trial. A trial goes without the graph: it counts room,
    /// and does not know the other rules that the graph keeps.
    pub(super) fn open_to(&mut self, request: &Request, nodes: &[RankSet]) -> Vec<RankSet> {
        let mut nodes = nodes.to_vec();
        for (group, nodes) in request.groups.iter().zip(&mut nodes) {
            let pods = group.applicants(self.queues.nodes(group.queue));
            rules::narrow_for_trial(&mut self.site(), &pods, nodes);
        }
        nodes
    }

    pub(super) fn groups(&mut self, request: &Request, nodes: &[RankSet]) -> Vec<GroupRequest> {
        request
            .groups
            .iter()
            .zip(nodes)
            .map(|(group, nodes)| group.request(nodes, self.cluster))
            .collect()
    }

    /// The same, each group first where it would rather be.
    pub(super) fn ordered_groups(
        &mut self,
        request: &Request,
        nodes: &[RankSet],
    ) -> Vec<GroupRequest> {
        request
            .groups
            .iter()
            .zip(nodes)
            .map(|(group, nodes)| group.ordered_request(nodes, self.cluster))
            .collect()
    }

    /// The same, and before that on these nodes.
    pub(super) fn ordered_groups_from(
        &mut self,
        first: Option<&RankSet>,
        request: &Request,
        nodes: &[RankSet],
    ) -> Vec<GroupRequest> {
        let mut groups = self.ordered_groups(request, nodes);
        let Some(first) = first else { return groups };
        for group in &mut groups {
            group.prefer.iter_mut().for_each(|tier| tier.subtract(first));
            group.prefer.retain(|tier| !tier.is_empty());
            group.prefer.insert(0, first.clone());
        }
        groups
    }

    /// Returns when all pods could start on these nodes.
    pub(super) fn forecast(&mut self, request: &Request, nodes: &[RankSet]) -> Forecast {
        let groups = self.groups(request, nodes);
        match self.ledger.forecast(&groups).unwrap_or(Forecast::Blocked) {
            // Whether it finds its volumes then is not known.
            Forecast::At(_) if request.rests_on_volumes() => Forecast::Eventually,
            forecast => forecast,
        }
    }

    /// True if all pods could start on these nodes once everything with an end has ended, as far as
    /// the graph knows.
    pub(super) fn could_start(&mut self, request: &Request, nodes: &[RankSet]) -> bool {
        matches!(
            self.forecast(request, nodes),
            Forecast::Now | Forecast::At(_) | Forecast::Eventually
        )
    }

    /// Returns the nodes that could hold a pod of it once everything with an end has ended.
    pub(super) fn eligible(&mut self, request: &Request, nodes: &[RankSet]) -> RankSet {
        let groups = self.groups(request, nodes);
        self.ledger.eligible(&groups).unwrap_or_default()
    }

    /// Per group, those of these nodes where a pod of it could be once everything with an end has
    /// ended.
    pub(super) fn eligible_by_group(
        &mut self,
        request: &Request,
        nodes: &[RankSet],
    ) -> Vec<RankSet> {
        let groups = self.groups(request, nodes).into_iter();
        let eligible = groups.map(|group| self.ledger.eligible(&[group]).unwrap_or_default());
        eligible.zip(nodes).map(|(eligible, nodes)| eligible.intersection(nodes)).collect()
    }

    /// Returns these nodes in ascending order of the ends that are in the way: ends that are
    /// unknown, or of pods that keep pods of the request away. Those with equally many are in the
    /// order of their names, which is the same in each process; ranks are not.
    pub(super) fn fewest_in_the_way_first(
        &mut self,
        request: &Request,
        nodes: &RankSet,
    ) -> Vec<Rank> {
        let by_name = self.cluster.nodes().iter().map(|(_, rank)| rank);
        let ranks: Vec<Rank> = by_name.filter(|rank| nodes.contains(*rank)).collect();
        let mut in_the_way: Vec<u32> =
            ranks.iter().map(|rank| self.ledger.unknown_ends(*rank)).collect();
        for group in request.groups.iter().filter(|group| group.depends_on_pods()) {
            let passing = self.cluster.passing(&group.sample, &ranks);
            in_the_way.iter_mut().zip(passing).for_each(|(all, more)| *all += more);
        }
        let mut ranks: Vec<(u32, Rank)> = in_the_way.into_iter().zip(ranks).collect();
        ranks.sort_by_key(|(in_the_way, _)| *in_the_way);
        ranks.into_iter().map(|(_, rank)| rank).collect()
    }

    /// The same view of other nodes.
    pub(super) fn on<'a>(&'a mut self, cluster: &'a mut Cluster) -> Room<'a> {
        Room { ledger: self.ledger, cluster, queues: self.queues }
    }

    /// Lets the pods into their slots. Of a request that asks about pods each is checked with those
    /// before it; false if there is no order in which all may come.
    pub(super) fn house(&mut self, request: &Request, slots: &mut Allocations) -> bool {
        let is_checked = request.asks_about_pods();
        let (mut left, mut others): (Vec<(&Arc<Pod>, &mut Allocation)>, Vec<_>) =
            (Vec::new(), Vec::new());
        for (group, of_wants) in request.groups.iter().zip(slots.iter_mut()) {
            let pods =
                group.pods.iter().zip(of_wants).flat_map(|(pods, slots)| pods.iter().zip(slots));
            // Pods that are to be near to each other may be the first of their like only before
            // others of it come elsewhere.
            if group.is_near_its_own() { left.extend(pods) } else { others.extend(pods) }
        }
        left.extend(others);
        while !left.is_empty() {
            let before = left.len();
            let mut later = Vec::new();
            for (pod, slot) in left {
                if is_checked && self.cluster.judge_neighbours(slot.rank, pod).is_some() {
                    later.push((pod, slot));
                } else {
                    self.ledger.house(self.cluster, slot, pod);
                }
            }
            left = later;
            if left.len() == before {
                return false;
            }
        }
        self.stay_near(request, slots)
    }

    /// True if pods that are to be near to each other would also be admitted beside the pods that
    /// come after them. The same is checked again before their Bindings leave.
    fn stay_near(&mut self, request: &Request, slots: &Allocations) -> bool {
        let near = request.groups.iter().zip(slots).filter(|(group, _)| group.is_near_its_own());
        let mut near = near
            .filter(|_| request.groups.len() > 1)
            .flat_map(|(group, slots)| group.pods.iter().zip(slots));
        near.all(|(pods, slots)| {
            pods.iter()
                .zip(slots)
                .all(|(pod, slot)| self.ledger.judge(self.cluster, slot, pod).is_none())
        })
    }

    /// Counts a trial of this number of pods.
    pub(super) fn count_trial(&mut self, pods: usize) {
        self.ledger.questions += (pods / PODS_OF_A_QUESTION) as u64;
    }

    /// Counts a copy of this number of nodes.
    pub(super) fn count_copy(&mut self, nodes: usize) {
        self.ledger.questions += (nodes / NODES_OF_A_QUESTION) as u64;
    }
}
