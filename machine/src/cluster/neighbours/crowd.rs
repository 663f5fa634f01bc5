//! The effect of the pods on nodes on pods of one class with rules about others: where these want
//! to be near some, apart from some, and spread evenly among some.
//!
//! The meaning is that of kube-scheduler's plugins InterPodAffinity and PodTopologySpread.

use super::company::Until;
use super::namespaces::Namespaces;
use super::nominees::Nominees;
use super::occupants::Occupant;
use super::part::Part;
use super::tally::{SpreadTally, Tally};
use super::topology::{Domain, DomainTable, KeyId};
use crate::cluster::filters::{self, Rejection};
use crate::cluster::node::Node;
use crate::cluster::presence::Presence;
use crate::defect::OrDefect;
use crate::fluxion::{Rank, RankSet};
use fluxqueue_workload::Pod;
use fluxqueue_workload::constraints::{Constraints, PodSelector, Requirement, SpreadConstraint};

/// A class that asks about other pods, by number.
pub type CrowdId = usize;

/// The heaviest weight of a preferred term.
const HEAVIEST: i64 = 100;

/// A class, and the counts that it needs.
#[derive(Debug, Clone)]
pub(super) struct Crowd {
    pub(super) says: Constraints,
    /// Changes when a count does.
    pub(super) version: u64,
    /// Per term of required affinity: pods that all the terms select.
    near: Vec<Tally>,
    /// Per term of required anti-affinity: pods that it selects.
    apart: Vec<Tally>,
    /// The same of pods that never end.
    apart_for_ever: Vec<Tally>,
    /// Per constraint: pods that it selects.
    spreads: Vec<SpreadTally>,
    /// The same of preferred affinity and anti-affinity.
    preferred: Vec<Tally>,
    /// The same of constraints that may be broken.
    preferred_spreads: Vec<SpreadTally>,
    /// Pods that are only nominated to nodes.
    nominees: Nominees,
}

/// Which of its own terms select a pod itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OwnTerms {
    /// True if all terms of its required affinity select it.
    pub near: bool,
    /// Each term of its required anti-affinity.
    pub apart: Vec<bool>,
    /// Each of its spread constraints.
    pub spreads: Vec<bool>,
}

/// How a pod stands to those on nodes: pods that ask for the same and stand alike may use the same
/// nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stance {
    /// The anti-affinity terms of pods on nodes that repel it, by number, in order.
    pub repelled_by: Vec<u32>,
    /// The terms of its own that select it.
    pub own: OwnTerms,
}

impl OwnTerms {
    /// Finds the own terms of a pod.
    pub(super) fn of(pod: &Pod, namespaces: &Namespaces) -> Self {
        let constraints = &pod.shape.constraints;
        let selects = |pods: &PodSelector| {
            namespaces.selects_as_own(pods, &pod.id.key.namespace, &pod.labels)
        };
        OwnTerms {
            near: !constraints.near.is_empty()
                && constraints.near.iter().all(|term| selects(&term.pods)),
            apart: constraints.repels.iter().map(|term| selects(&term.pods)).collect(),
            spreads: constraints
                .spreads
                .iter()
                .map(|spread| spread.pods.selects_labels(&pod.labels))
                .collect(),
        }
    }
}

impl Crowd {
    /// No pod is counted yet.
    pub(super) fn new(constraints: &Constraints, topology: &mut DomainTable) -> Self {
        let mut tally = |key: &_| Tally::new(topology.key(key));
        let near = constraints.near.iter().map(|term| tally(&term.topology_key)).collect();
        let apart: Vec<Tally> =
            constraints.repels.iter().map(|term| tally(&term.topology_key)).collect();
        let apart_for_ever = apart.clone();
        let preferred =
            constraints.preferred_pods.iter().map(|(_, term)| tally(&term.topology_key)).collect();
        let mut spreads = |constraints: &[SpreadConstraint]| -> Vec<SpreadTally> {
            constraints
                .iter()
                .map(|spread| SpreadTally::new(topology.key(&spread.topology_key)))
                .collect()
        };
        let (spreads, preferred_spreads) =
            (spreads(&constraints.spreads), spreads(&constraints.preferred_spreads));
        let says = constraints.clone();
        let nominees = Nominees::default();
        let mut crowd = Crowd {
            says,
            version: 0,
            near,
            apart,
            apart_for_ever,
            spreads,
            preferred,
            preferred_spreads,
            nominees,
        };
        let nodes: Vec<Rank> = topology.nodes().map(|(rank, _)| rank).collect();
        for rank in nodes {
            crowd.add_node(rank, topology);
        }
        crowd
    }

    /// True if some term chooses namespaces by their labels.
    pub(super) fn chooses_namespaces(&self) -> bool {
        let preferred = self.says.preferred_pods.iter().map(|(_, term)| term);
        let mut terms = self.says.near.iter().chain(&self.says.repels).chain(preferred);
        terms.any(|term| term.pods.namespaces.is_by_labels())
    }

    /// Returns all parts that count pods, each with the requirements that a pod must meet to be
    /// counted there.
    pub(super) fn parts(&self) -> Vec<(Part, &[Requirement])> {
        let near = self.says.near.first().map(|first| (Part::Near, &first.pods));
        let apart =
            self.says.repels.iter().enumerate().map(|(at, term)| (Part::Apart(at), &term.pods));
        let spreads = self
            .says
            .spreads
            .iter()
            .enumerate()
            .map(|(at, spread)| (Part::Spread(at), &spread.pods));
        let preferred = self
            .says
            .preferred_pods
            .iter()
            .enumerate()
            .map(|(at, (_, term))| (Part::Preferred(at), &term.pods));
        let softly = self.says.preferred_spreads.iter().enumerate();
        let softly = softly.map(|(at, spread)| (Part::PreferredSpread(at), &spread.pods));
        let all = near.into_iter().chain(apart).chain(spreads).chain(preferred).chain(softly);
        all.filter_map(|(part, pods)| Some((part, pods.labels.as_deref()?))).collect()
    }

    /// True if this part counts the pod.
    pub(super) fn counts(&self, part: Part, pod: &Occupant, namespaces: &Namespaces) -> bool {
        let selects =
            |pods: &PodSelector| namespaces.selects_as_own(pods, &pod.namespace, &pod.labels);
        let is_overlooked = |pods: &PodSelector| {
            pod.presence == Presence::There && (pod.deleting || selects_all(pods))
        };
        let spreads = |pods: &PodSelector| !is_overlooked(pods) && selects(pods);
        match part {
            Part::Near => self.says.near.iter().all(|term| selects(&term.pods)),
            Part::Apart(at) => selects(&self.says.repels[at].pods),
            Part::Spread(at) => spreads(&self.says.spreads[at].pods),
            Part::Preferred(at) => selects(&self.says.preferred_pods[at].1.pods),
            Part::PreferredSpread(at) => spreads(&self.says.preferred_spreads[at].pods),
        }
    }

    /// A pod that this part counts comes to a node, or leaves it; or is nominated to it, or is not
    /// any more.
    pub(super) fn count(
        &mut self,
        part: Part,
        pod: &Occupant,
        comes: bool,
        topology: &DomainTable,
    ) {
        let rank = pod.rank;
        if pod.presence == Presence::Nominated {
            return self.nominees.count(part, rank, comes);
        }
        let count: fn(&mut Tally, Option<Domain>, u32) =
            if comes { Tally::add } else { Tally::remove };
        let spread: fn(&mut SpreadTally, Domain, u32) =
            if comes { SpreadTally::add } else { SpreadTally::remove };
        let count = |tally: &mut Tally| count(tally, topology.domain(tally.key, rank), 1);
        let spread = |tally: &mut SpreadTally| {
            if let Some(domain) =
                topology.domain(tally.key(), rank).filter(|_| tally.counts_on(rank))
            {
                spread(tally, domain, 1);
            }
        };
        match part {
            Part::Near => self.near.iter_mut().for_each(count),
            Part::Apart(at) => {
                count(&mut self.apart[at]);
                if pod.endless {
                    count(&mut self.apart_for_ever[at]);
                }
            }
            Part::Spread(at) => spread(&mut self.spreads[at]),
            Part::Preferred(at) => count(&mut self.preferred[at]),
            Part::PreferredSpread(at) => spread(&mut self.preferred_spreads[at]),
        }
    }

    /// A pod that this part counts never ends, or has an end after all.
    pub(super) fn set_endless(
        &mut self,
        part: Part,
        rank: Rank,
        endless: bool,
        topology: &DomainTable,
    ) {
        // Only required anti-affinity counts pods without an end apart.
        let Part::Apart(at) = part else { return };
        let tally = &mut self.apart_for_ever[at];
        let domain = topology.domain(tally.key, rank);
        if endless { tally.add(domain, 1) } else { tally.remove(domain, 1) }
    }

    /// A node came, or has changed. Its pods come afterwards.
    pub(super) fn add_node(&mut self, rank: Rank, topology: &DomainTable) {
        let Some(node) = topology.node(rank).or_defect("a node that came is not there") else {
            return;
        };
        let required = (&mut self.spreads, &self.says.spreads);
        for (tallies, constraints) in
            [required, (&mut self.preferred_spreads, &self.says.preferred_spreads)]
        {
            // A node that lacks a label of any constraint counts for none.
            if tallies.iter().any(|tally| topology.domain(tally.key(), rank).is_none()) {
                continue;
            }
            for (tally, says) in tallies.iter_mut().zip(constraints) {
                let is_excluded = (says.honors_affinity
                    && !filters::matches_node_affinity(node, &self.says))
                    || (says.honors_taints
                        && filters::untolerated(node, &self.says.tolerations).next().is_some());
                if let Some(domain) = topology.domain(tally.key(), rank).filter(|_| !is_excluded) {
                    tally.add_node(rank, domain);
                }
            }
        }
    }

    /// The weight of each term of preferred affinity and anti-affinity, and pods that it selects.
    pub(super) fn preferred(&self) -> impl Iterator<Item = (i64, &Tally)> {
        self.says.preferred_pods.iter().map(|(weight, _)| i64::from(*weight)).zip(&self.preferred)
    }

    /// Per spread constraint that may be broken: pods that it selects.
    pub(super) fn preferred_spreads(&self) -> &[SpreadTally] {
        &self.preferred_spreads
    }

    /// A node goes, or is about to change. Its pods have left before.
    pub(super) fn remove_node(&mut self, rank: Rank, topology: &DomainTable) {
        for tally in self.spreads.iter_mut().chain(&mut self.preferred_spreads) {
            if let Some(domain) =
                topology.domain(tally.key(), rank).filter(|_| tally.counts_on(rank))
            {
                tally.remove_node(rank, domain);
            }
        }
    }

    /// What keeps a pod of the class off a node, by the plugins' order: with the pods that are
    /// nominated to the node, or without.
    pub(super) fn judge(
        &self,
        rank: Rank,
        own: &OwnTerms,
        topology: &DomainTable,
        with: bool,
    ) -> Option<Rejection> {
        for (at, says) in self.says.spreads.iter().enumerate() {
            let tally = &self.spreads[at];
            let Some(domain) = topology.domain(tally.key(), rank) else {
                return Some(Rejection::SpreadLabel);
            };
            let nominated = if with && tally.counts_on(rank) {
                self.nominees.on(Part::Spread(at), rank)
            } else {
                0
            };
            let pods = tally.of(domain) + nominated + u32::from(own.spreads[at]);
            if pods > tally.least_with(says.min_domains, domain, nominated) + says.max_skew {
                return Some(Rejection::Spread);
            }
            debug_assert!(says.max_skew > 0, "as the API server has it");
        }
        if !self.is_near(rank, own, topology, with) {
            return Some(Rejection::Affinity);
        }
        let is_met = |(at, tally): (usize, &Tally)| {
            let nominated = with && self.nominees.on(Part::Apart(at), rank) > 0;
            topology.domain(tally.key, rank).is_some_and(|domain| nominated || tally.of(domain) > 0)
        };
        self.apart.iter().enumerate().any(is_met).then_some(Rejection::OwnAntiAffinity)
    }

    /// Returns how many pods a domain may have, at most, for one of these to be allowed to come by
    /// a spread constraint.
    fn most(&self, spread: usize, own: &OwnTerms) -> u32 {
        let says = &self.says.spreads[spread];
        let itself = u32::from(own.spreads[spread]);
        (self.spreads[spread].least(says.min_domains) + says.max_skew).saturating_sub(itself)
    }

    /// Returns how many pods have to leave the domains of a node, over all spread constraints,
    /// before one more may come.
    pub(super) fn too_many(&self, rank: Rank, own: &OwnTerms, topology: &DomainTable) -> u32 {
        let of_constraint = |(at, tally): (usize, &SpreadTally)| {
            topology
                .domain(tally.key(), rank)
                .map_or(0, |domain| tally.of(domain).saturating_sub(self.most(at, own)))
        };
        self.spreads.iter().enumerate().map(of_constraint).sum()
    }

    fn is_near(&self, rank: Rank, own: &OwnTerms, topology: &DomainTable, with: bool) -> bool {
        if with && self.nominees.on(Part::Near, rank) > 0 {
            return self.near.iter().all(|tally| topology.domain(tally.key, rank).is_some());
        }
        let mut is_alone = false;
        for tally in &self.near {
            let Some(domain) = topology.domain(tally.key, rank) else { return false };
            is_alone |= tally.of(domain) == 0;
        }
        !is_alone || self.is_first(own)
    }

    /// Returns how crowded the node's domains of these labels are: the pods that count there, over
    /// all spread constraints. Constraints that may be broken and preferred terms only tell apart
    /// nodes that are alike by the others; a pod more weighs as much as the heaviest term.
    pub(super) fn crowding(
        &self,
        rank: Rank,
        topology: &DomainTable,
        of: impl Fn(KeyId) -> bool,
    ) -> i64 {
        let count = |tallies: &[SpreadTally]| -> i64 {
            let counting = tallies.iter().filter(|tally| of(tally.key()));
            let here = counting
                .filter_map(|tally| topology.domain(tally.key(), rank).map(|at| tally.of(at)));
            here.map(i64::from).sum()
        };
        let liked = |(weight, tally): (i64, &Tally)| {
            topology
                .domain(tally.key, rank)
                .map_or(0, |domain| weight * i64::from(tally.of(domain)))
        };
        let preferred = self.preferred().filter(|(_, tally)| of(tally.key)).map(liked).sum::<i64>();
        let preferred = HEAVIEST * count(&self.preferred_spreads) - preferred;
        (count(&self.spreads) << 32) + preferred
    }

    /// The domains of the term of required affinity that has most.
    pub(super) fn narrowest_domains(&self, topology: &DomainTable) -> Vec<RankSet> {
        let keys = self.near.iter().map(|tally| tally.key);
        let narrowest = keys.max_by_key(|key| topology.domains(*key).count());
        let of_key = |key| {
            topology.domains(key).map(|domain| topology.members(key, domain).clone()).collect()
        };
        narrowest.map_or_else(Vec::new, of_key)
    }

    /// True if no pod is there that it wants to be near to, and it would be one itself.
    pub(super) fn is_first(&self, own: &OwnTerms) -> bool {
        own.near && self.near.iter().all(Tally::is_empty)
    }

    /// Returns the nodes that are closed to a pod of the class that comes alone, each for the first
    /// reason. Of the pods that it has to be apart from, all count that are there now, or only
    /// those that stay for ever, by `until`.
    pub(super) fn closed(
        &self,
        own: &OwnTerms,
        topology: &DomainTable,
        present: &RankSet,
        until: Until,
    ) -> Vec<(RankSet, Rejection)> {
        let mut all = Vec::new();
        for (at, tally) in self.spreads.iter().enumerate() {
            let mut without = present.clone();
            without.subtract(topology.labelled(tally.key()));
            all.push((without, Rejection::SpreadLabel));
            let most = self.most(at, own);
            let mut full = RankSet::new();
            for domain in topology.domains(tally.key()).filter(|domain| tally.of(*domain) > most) {
                full.union_with(topology.members(tally.key(), domain));
            }
            all.push((full, Rejection::Spread));
        }
        if !self.near.is_empty() {
            let mut far = present.clone();
            far.subtract(&self.near_nodes(own, topology));
            all.push((far, Rejection::Affinity));
        }
        all.push((self.met(topology, until), Rejection::OwnAntiAffinity));
        all
    }

    /// Returns the same for a pod that comes with others, which may open to it nodes that are
    /// closed now.
    pub(super) fn closed_for_good(
        &self,
        topology: &DomainTable,
        present: &RankSet,
        until: Until,
    ) -> Vec<(RankSet, Rejection)> {
        let without = |key| {
            let mut without = present.clone();
            without.subtract(topology.labelled(key));
            without
        };
        let mut all: Vec<(RankSet, Rejection)> = self
            .spreads
            .iter()
            .map(|tally| (without(tally.key()), Rejection::SpreadLabel))
            .collect();
        all.extend(self.near.iter().map(|tally| (without(tally.key), Rejection::Affinity)));
        all.push((self.met(topology, until), Rejection::OwnAntiAffinity));
        all
    }

    /// Returns the nodes in the domains of pods that the pod has to be apart from.
    fn met(&self, topology: &DomainTable, until: Until) -> RankSet {
        let tallies = match until {
            Until::Now => &self.apart,
            Until::ForEver => &self.apart_for_ever,
        };
        let mut met = RankSet::new();
        for (at, tally) in tallies.iter().enumerate() {
            tally.add_occupied_to(&mut met, topology);
            // A pod that is only nominated to a node may yet go elsewhere.
            let nominated = self.nominees.nodes(Part::Apart(at)).filter(|_| until == Until::Now);
            met.union_with(
                &nominated.filter(|rank| topology.domain(tally.key, *rank).is_some()).collect(),
            );
        }
        met
    }

    /// Forgets the pods to be apart from that have an end, or are only nominated to a node.
    pub(super) fn keep_endless(&mut self) {
        self.apart.clone_from(&self.apart_for_ever);
        self.nominees.forget(|part| matches!(part, Part::Apart(_)));
    }

    /// Returns, by domain, the number of pods that the pod has to be apart from, and the number of
    /// these that never end.
    pub(super) fn apart(&self) -> (&[Tally], &[Tally]) {
        (&self.apart, &self.apart_for_ever)
    }

    /// The nodes that required affinity lets the pod use.
    fn near_nodes(&self, own: &OwnTerms, topology: &DomainTable) -> RankSet {
        let mut near: Option<RankSet> = None;
        let is_first = self.is_first(own);
        for tally in &self.near {
            let mut of_term = RankSet::new();
            if is_first {
                of_term.union_with(topology.labelled(tally.key));
            } else {
                tally.add_occupied_to(&mut of_term, topology);
            }
            match &mut near {
                Some(near) => near.intersect_with(&of_term),
                None => near = Some(of_term),
            }
        }
        near.unwrap_or_default()
    }
}

/// True for a selector that selects everything. As in kube-scheduler, it counts no present pod for
/// a spread.
pub(super) fn selects_all(pods: &PodSelector) -> bool {
    pods.labels.as_ref().is_none_or(Vec::is_empty)
}

/// True if a node is unchanged to spread, which reads only its labels, its name and its taints.
pub(super) fn is_alike(old: &Node, new: &Node) -> bool {
    (&old.labels, &old.taints) == (&new.labels, &new.taints)
}
