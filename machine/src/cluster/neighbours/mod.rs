//! Pods that want to be near others, apart from others, or spread among others: their places, and
//! the nodes that these leave to others.
//!
//! Nothing here is proportional to all pods. Each different term ([`repellers`], [`opinions`]:
//! terms of pods on nodes) or class ([`crowd`]: terms of pods that are to be placed) is one entry,
//! with counts by domain ([`topology`], [`tally`]) that a pod changes when it comes or goes;
//! [`interest`] leads from a pod's labels to the entries that may count it, and [`occupants`] from
//! a selector's labels to the pods it may count.

mod company;
mod crowd;
mod interest;
mod namespaces;
mod nominees;
mod occupants;
mod opinions;
mod part;
mod rating;
mod reach;
mod repellers;
mod tally;
mod terms;
mod topology;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::filters::Rejection;
use super::node::Node;
use super::presence::Presence;
use crate::defect::OrDefect;
use crate::fluxion::{Rank, RankSet};
use crowd::Crowd;
use fluxqueue_workload::constraints::{Constraints, PodTerm, SpreadConstraint};
use fluxqueue_workload::metadata::Labels;
use fluxqueue_workload::{Pod, Uid};
use part::Part;

use interest::Interest;
use namespaces::Namespaces;
use occupants::{Occupant, Occupants};
use opinions::Opinions;
use repellers::Repellers;
use tally::Tally;
use topology::DomainTable;

pub use company::Company;
pub(super) use company::Until;
pub(super) use rating::Ratings;
pub use topology::KeyId;

pub use crowd::{CrowdId, OwnTerms, Stance};
pub use occupants::OccupantId;
pub use reach::Reach;
pub use repellers::ChangedTerms;

/// The pods on nodes, and what asks about them.
#[derive(Debug, Clone, Default)]
pub struct Neighbours {
    topology: DomainTable,
    occupants: Occupants,
    repellers: Repellers,
    opinions: Opinions,
    /// The nodes to which pods are nominated, and how many.
    nominated: BTreeMap<Rank, usize>,
    namespaces: Namespaces,
    crowds: Vec<Crowd>,
    /// The number of changes of crowds: a crowd's version is the number of its last change.
    changes: u64,
    /// The parts of crowds that may count a pod.
    askers: Interest<(CrowdId, Part)>,
}

/// The versions before a trial.
#[derive(Debug)]
pub struct Trial {
    changes: u64,
    crowds: Vec<u64>,
    repellers: (usize, u64),
}

impl Neighbours {
    // --- nodes and namespaces ---

    pub(super) fn add_node(&mut self, rank: Rank, node: &Arc<Node>) {
        self.topology.put(rank, node);
        self.changes += 1;
        for crowd in &mut self.crowds {
            crowd.add_node(rank, &self.topology);
            crowd.version = self.changes;
        }
    }

    pub(super) fn change_node(&mut self, rank: Rank, old: &Node, new: &Arc<Node>) {
        if crowd::is_alike(old, new) {
            return;
        }
        let there: Vec<OccupantId> = self.occupants.on(rank).map(|(id, _)| id).collect();
        for id in &there {
            self.count(*id, false);
        }
        for crowd in &mut self.crowds {
            crowd.remove_node(rank, &self.topology);
        }
        self.add_node(rank, new);
        for id in &there {
            self.count(*id, true);
        }
    }

    /// The node is gone, with all pods on it.
    pub(super) fn remove_node(&mut self, rank: Rank) {
        let there: Vec<OccupantId> = self.occupants.on(rank).map(|(id, _)| id).collect();
        for id in there {
            self.leave(id);
        }
        self.changes += 1;
        for crowd in &mut self.crowds {
            crowd.remove_node(rank, &self.topology);
            crowd.version = self.changes;
        }
        self.topology.take(rank);
    }

    /// Puts a namespace. True if answers have to be computed again: its labels have changed, and
    /// some selector chooses namespaces by them.
    pub(super) fn put_namespace(&mut self, name: &Arc<str>, labels: &Labels) -> bool {
        let changed = self.namespaces.put(name, labels);
        changed && self.namespaces_matter()
    }

    /// Removes a namespace. True if answers have to be computed again.
    pub(super) fn remove_namespace(&mut self, name: &str) -> bool {
        let known = self.namespaces.remove(name);
        known && self.namespaces_matter()
    }

    fn namespaces_matter(&mut self) -> bool {
        let matter =
            self.repellers.choose_namespaces() || self.crowds.iter().any(Crowd::chooses_namespaces);
        if matter {
            self.repellers.namespaces_changed();
        }
        matter
    }

    // --- pods ---

    /// A pod is on a node, or will be, or is nominated to it; and perhaps never ends.
    pub(super) fn settle(
        &mut self,
        rank: Rank,
        pod: &Pod,
        presence: Presence,
        endless: bool,
    ) -> OccupantId {
        let id = self.occupants.insert(Occupant::of(pod, rank, presence, endless));
        if presence == Presence::Nominated {
            *self.nominated.entry(rank).or_default() += 1;
        }
        self.count(id, true);
        id
    }

    /// A pod never ends, or has an end after all.
    pub(super) fn set_endless(&mut self, id: OccupantId, endless: bool) {
        let Neighbours {
            topology, occupants, repellers, namespaces, crowds, changes, askers, ..
        } = self;
        let pod = occupants.get(id).or_defect("no such occupant");
        // Nothing changes.
        let Some(pod) = pod.filter(|pod| pod.endless != endless) else { return };
        repellers.set_endless(topology, pod.rank, &pod.shape.constraints.repels, endless);
        for (at, part) in askers.of(&pod.labels) {
            let crowd = &mut crowds[at];
            if crowd.counts(part, pod, namespaces) {
                crowd.set_endless(part, pod.rank, endless, topology);
                *changes += 1;
                crowd.version = *changes;
            }
        }
        occupants.set_endless(id, endless);
    }

    /// Takes back a [`Neighbours::settle`].
    pub(super) fn leave(&mut self, id: OccupantId) {
        self.count(id, false);
        let left = self.occupants.remove(id).filter(|pod| pod.presence == Presence::Nominated);
        if let Some(rank) = left.map(|pod| pod.rank)
            && let Some(others) = self.nominated.get_mut(&rank)
        {
            *others -= 1;
            if *others == 0 {
                self.nominated.remove(&rank);
            }
        }
    }

    /// True if the occupant is this pod as it is now.
    pub(crate) fn is_settled(
        &self,
        id: OccupantId,
        rank: Rank,
        pod: &Pod,
        presence: Presence,
    ) -> bool {
        self.occupants.get(id).is_some_and(|known| {
            known.rank == rank
                && known.presence == presence
                && known.uid == pod.id.uid
                && known.deleting == pod.deleting
                && (Arc::ptr_eq(&known.labels, &pod.labels) || known.labels == pod.labels)
                && (Arc::ptr_eq(&known.shape, &pod.shape) || known.shape == pod.shape)
        })
    }

    /// Counts a pod wherever it counts, or takes that back.
    fn count(&mut self, id: OccupantId, comes: bool) {
        let Neighbours {
            topology,
            occupants,
            repellers,
            opinions,
            namespaces,
            crowds,
            changes,
            askers,
            ..
        } = self;
        let Some(pod) = occupants.get(id).or_defect("no such occupant") else { return };
        let (terms, at) = (&pod.shape.constraints.repels, (pod.rank, pod.presence));
        if comes {
            repellers.add(topology, at, terms, pod.endless);
        } else {
            repellers.remove(topology, at, terms, pod.endless);
        }
        // One that may yet go elsewhere has no say in where others would rather be.
        if pod.presence == Presence::There {
            opinions.count(topology, pod.rank, &pod.shape.constraints, comes);
        }
        for (number, part) in askers.of(&pod.labels) {
            let crowd = &mut crowds[number];
            if crowd.counts(part, pod, namespaces) {
                // Preferences neither open nodes nor close them.
                if part.is_required() {
                    *changes += 1;
                    crowd.version = *changes;
                }
                crowd.count(part, pod, comes, topology);
            }
        }
    }

    // --- askers ---

    /// Counts for a class from now on, if its pods ask about others, or prefer some.
    pub(super) fn watch(&mut self, constraints: &Constraints) -> Option<CrowdId> {
        if !constraints.asks_about_pods() && !constraints.prefers_by_pods() {
            return None;
        }
        let at = self.crowds.len();
        let mut crowd = Crowd::new(constraints, &mut self.topology);
        let parts: Vec<(Part, Vec<_>)> = crowd
            .parts()
            .into_iter()
            .map(|(part, requirements)| (part, requirements.to_vec()))
            .collect();
        for (part, requirements) in parts {
            self.askers.insert(&requirements, (at, part));
            let candidates = self.occupants.candidates(&requirements);
            for pod in candidates.into_iter().filter_map(|id| self.occupants.get(id)) {
                if crowd.counts(part, pod, &self.namespaces) {
                    crowd.count(part, pod, true, &self.topology);
                }
            }
        }
        self.changes += 1;
        crowd.version = self.changes;
        self.crowds.push(crowd);
        Some(at)
    }

    /// Stops counting for every class.
    pub(super) fn forget_crowds(&mut self) {
        self.crowds.clear();
        self.askers = Interest::default();
        self.occupants.watch_nothing();
        self.topology.retain(&(&self.repellers.keys() | &self.opinions.keys()));
    }

    /// Changes when a count that a class rests on does.
    pub(super) fn version(&self, crowd: CrowdId) -> u64 {
        self.crowds[crowd].version
    }

    /// Changes when a count changes that some class rests on.
    pub fn crowds_version(&self) -> u64 {
        self.changes
    }

    /// Returns which of its own terms select a pod itself.
    fn own_terms(&self, pod: &Pod) -> OwnTerms {
        OwnTerms::of(pod, &self.namespaces)
    }

    /// Returns the rule by which other pods keep this one off a node.
    pub(super) fn judge(&self, rank: Rank, pod: &Pod, crowd: Option<CrowdId>) -> Option<Rejection> {
        self.judge_with_nominated(rank, pod, crowd)
            .or_else(|| self.judge_without_nominated(rank, pod, crowd))
    }

    /// The same by kube-scheduler's first look, where those count that are nominated to the node.
    pub(super) fn judge_with_nominated(
        &self,
        rank: Rank,
        pod: &Pod,
        crowd: Option<CrowdId>,
    ) -> Option<Rejection> {
        let by_own = crowd.and_then(|crowd| {
            self.crowds[crowd].judge(rank, &self.own_terms(pod), &self.topology, true)
        });
        by_own.or_else(|| self.is_repelled(rank, pod).then_some(Rejection::AntiAffinity))
    }

    /// Returns the rejection of its second look alone, where they do not count.
    pub(super) fn judge_without_nominated(
        &self,
        rank: Rank,
        pod: &Pod,
        crowd: Option<CrowdId>,
    ) -> Option<Rejection> {
        let crowd = crowd.filter(|_| self.nominated.contains_key(&rank))?;
        self.crowds[crowd].judge(rank, &self.own_terms(pod), &self.topology, false)
    }

    /// Returns the nodes that other pods keep this one off, in the order of kube-scheduler's
    /// plugins. Pods that it is to be apart from, or that are to be apart from it, count if they
    /// stay for that long.
    pub(super) fn closed(
        &self,
        pod: &Pod,
        company: Company,
        crowd: Option<CrowdId>,
        (present, until): (&RankSet, Until),
    ) -> Vec<(RankSet, Rejection)> {
        let of_crowd = |crowd: CrowdId| match company {
            Company::Alone => {
                self.crowds[crowd].closed(&self.own_terms(pod), &self.topology, present, until)
            }
            Company::Together => self.crowds[crowd].closed_for_good(&self.topology, present, until),
        };
        let mut all = crowd.map_or_else(Vec::new, of_crowd);
        all.push((
            self.repellers.closed(&self.topology, pod, &self.namespaces, until),
            Rejection::AntiAffinity,
        ));
        if company == Company::Alone && crowd.is_some() {
            for rank in self.nominated.keys() {
                let found = self.judge(*rank, pod, crowd);
                let found = match until {
                    // There it matters which of the two looks finds something first.
                    Until::Now => {
                        for (nodes, _) in &mut all {
                            nodes.remove(*rank);
                        }
                        found
                    }
                    // A pod that is only nominated to a node is apart from no pod for ever.
                    Until::ForEver => found.filter(|found| *found == Rejection::Spread),
                };
                all.extend(found.map(|found| (std::iter::once(*rank).collect(), found)));
            }
        }
        all.retain(|(nodes, _)| !nodes.is_empty());
        all
    }

    /// The pods on nodes that never end.
    pub(super) fn endless(&self) -> HashSet<Uid> {
        self.occupants.endless().map(|pod| pod.uid.clone()).collect()
    }

    /// Forgets that pods with an end keep others away. None of the present pods may leave after
    /// that.
    pub(super) fn keep_endless(&mut self) {
        self.repellers.keep_endless();
        self.crowds.iter_mut().for_each(Crowd::keep_endless);
    }

    /// Stops counting pods with an end among those that pods of a class are to be near to, or
    /// spread among. None of the present pods may leave after that.
    pub(super) fn count_only_endless(&mut self, at: CrowdId) {
        let Neighbours { topology, occupants, namespaces, crowds, .. } = self;
        let crowd = &mut crowds[at];
        let parts: Vec<(Part, Vec<_>)> = crowd
            .parts()
            .into_iter()
            .map(|(part, requirements)| (part, requirements.to_vec()))
            .collect();
        for (part, requirements) in
            parts.into_iter().filter(|(part, _)| matches!(part, Part::Near | Part::Spread(_)))
        {
            for id in occupants.candidates(&requirements) {
                let passing = occupants
                    .get(id)
                    .filter(|pod| !pod.endless && crowd.counts(part, pod, namespaces));
                if let Some(pod) = passing {
                    crowd.count(part, pod, false, topology);
                }
            }
        }
    }

    /// Returns how many pods with an end keep this one off each of these nodes: they are to be
    /// apart from it, or it from them; and how many have to leave its domains for its spread to let
    /// it come.
    pub(super) fn passing(&self, pod: &Pod, crowd: Option<CrowdId>, ranks: &[Rank]) -> Vec<u32> {
        let own = self.own_terms(pod);
        let (mut all, mut endless) = self.repellers.tallies(pod, &self.namespaces);
        if let Some(crowd) = crowd {
            let (of_crowd, endless_of_crowd) = self.crowds[crowd].apart();
            all.extend(of_crowd);
            endless.extend(endless_of_crowd);
        }
        let count = |tallies: &[&Tally], rank: Rank| -> u32 {
            tallies
                .iter()
                .filter_map(|tally| Some(tally.of(self.topology.domain(tally.key, rank)?)))
                .sum()
        };
        let too_many = |rank: Rank| {
            crowd.map_or(0, |crowd| self.crowds[crowd].too_many(rank, &own, &self.topology))
        };
        ranks
            .iter()
            .map(|rank| count(&all, *rank) - count(&endless, *rank) + too_many(*rank))
            .collect()
    }

    /// True if each of these nodes is a domain of the label for itself.
    pub fn tells_apart(&self, key: KeyId, nodes: &RankSet) -> bool {
        self.topology.tells_apart(key, nodes)
    }

    /// Returns the nodes among these to which pods are nominated.
    pub(super) fn nominated_among(&self, nodes: &RankSet) -> Vec<Rank> {
        self.nominated.keys().copied().filter(|rank| nodes.contains(*rank)).collect()
    }

    /// Returns how crowded a node's domains of these labels are, by the spread constraints of a
    /// class and its preferences.
    pub fn crowding(&self, rank: Rank, crowd: Option<CrowdId>, of: impl Fn(KeyId) -> bool) -> i64 {
        crowd.map_or(0, |crowd| self.crowds[crowd].crowding(rank, &self.topology, of))
    }

    /// True if no pod is there that this one wants to be near to, and it would be one itself.
    pub(super) fn is_first(&self, pod: &Pod, crowd: CrowdId) -> bool {
        self.crowds[crowd].is_first(&self.own_terms(pod))
    }

    /// The nodes of each domain of the narrowest term of required affinity of a class.
    pub(super) fn narrowest_domains(&self, crowd: CrowdId) -> Vec<RankSet> {
        self.crowds[crowd].narrowest_domains(&self.topology)
    }

    /// The labels that terms of these constraints name.
    pub(super) fn topology_keys<'a>(
        &mut self,
        of: impl Iterator<Item = &'a Constraints>,
    ) -> Vec<KeyId> {
        let mut keys: Vec<KeyId> = Vec::new();
        for constraints in of {
            let preferred = constraints.preferred_pods.iter().map(|(_, term)| term);
            let terms = constraints.near.iter().chain(&constraints.repels).chain(preferred);
            let spreads = constraints.spreads.iter().chain(&constraints.preferred_spreads);
            let spreads = spreads.map(|spread| &spread.topology_key);
            for label in terms.map(|term| &term.topology_key).chain(spreads) {
                keys.push(self.topology.key(label));
            }
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// A node's domains of these labels.
    pub fn domains(&self, rank: Rank, keys: &[KeyId]) -> Vec<Option<u32>> {
        keys.iter().map(|key| self.topology.domain(*key, rank)).collect()
    }

    /// What changes from now on is taken back before [`Neighbours::end_trial`]: then nothing has
    /// changed.
    pub(super) fn begin_trial(&self) -> Trial {
        Trial {
            changes: self.changes,
            crowds: self.crowds.iter().map(|crowd| crowd.version).collect(),
            repellers: self.repellers.as_now(),
        }
    }

    /// A trial in which a pod with these terms leaves its node and comes back: their numbers stay.
    pub(super) fn begin_trial_without(&mut self, terms: &[PodTerm]) -> Trial {
        let trial = self.begin_trial();
        self.repellers.pin(&mut self.topology, terms);
        trial
    }

    /// The pod is back.
    pub(super) fn end_trial_without(&mut self, terms: &[PodTerm], trial: Trial) {
        self.repellers.unpin(terms);
        self.end_trial(trial);
    }

    pub(super) fn end_trial(&mut self, trial: Trial) {
        self.changes = trial.changes;
        for (crowd, version) in self.crowds.iter_mut().zip(trial.crowds) {
            crowd.version = version;
        }
        self.repellers.set_as_before(trial.repellers);
    }

    // --- pods that repel ---

    /// Returns the different terms that have come or gone since they were last taken.
    pub fn changed_terms(&self) -> &ChangedTerms {
        self.repellers.changed()
    }

    /// The same, which is known from now on.
    pub(super) fn take_changed_terms(&mut self) -> ChangedTerms {
        self.repellers.take_changed()
    }

    /// Changes when a pod that repels others comes to a node or leaves one.
    pub fn repellers_version(&self) -> u64 {
        self.repellers.version()
    }

    /// Returns the stance of a pod to those on nodes.
    pub fn stance(&self, pod: &Pod) -> Stance {
        Stance {
            repelled_by: self.repellers.repelling(pod, &self.namespaces),
            own: self.own_terms(pod),
        }
    }

    /// True if a pod that is there counts for a spread constraint.
    fn counts_for(&self, spread: &SpreadConstraint, pod: &Pod) -> bool {
        !crowd::selects_all(&spread.pods)
            && self.namespaces.selects_as_own(&spread.pods, &pod.id.key.namespace, &pod.labels)
    }

    /// True if, by its own required anti-affinity, a pod is to be apart from this other one.
    fn repels(&self, pod: &Pod, other: &Pod) -> bool {
        let mut terms = pod.shape.constraints.repels.iter();
        terms.any(|term| {
            self.namespaces.selects_as_own(&term.pods, &other.id.key.namespace, &other.labels)
        })
    }

    fn is_repelled(&self, rank: Rank, pod: &Pod) -> bool {
        self.repellers.repel(&self.topology, rank, pod, &self.namespaces)
    }

    /// True if a pod on a node has an opinion of this pod.
    pub(super) fn has_opinions_of(&self, pod: &Pod) -> bool {
        !self.opinions.of(pod, &self.namespaces).is_empty()
    }

    /// Returns the opinions of these nodes of a pod of the class.
    pub(super) fn rate(&self, pod: &Pod, crowd: Option<CrowdId>, ranks: &[Rank]) -> Ratings {
        let opinions = self.opinions.of(pod, &self.namespaces);
        rating::rate(opinions, crowd.map(|crowd| &self.crowds[crowd]), &self.topology, ranks)
    }

    /// True if a pod that is there counts for the spread of another one.
    pub fn crowds(&self, there: &Pod, other: &Pod) -> bool {
        other.shape.constraints.spreads.iter().any(|spread| self.counts_for(spread, there))
    }

    /// True if two pods may not be near to each other: one is to be apart from the other, or both
    /// want the same host port or disk.
    pub fn are_apart(&self, one: &Pod, other: &Pod) -> bool {
        one.shape.constraints.exclude(&other.shape.constraints)
            || self.repels(one, other)
            || self.repels(other, one)
    }

    /// Lends the labels by which terms of pods reach other nodes.
    pub(super) fn reach(&mut self) -> Reach<'_> {
        Reach { topology: &mut self.topology, namespaces: &self.namespaces }
    }
}
