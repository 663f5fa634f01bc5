//! Requests: how they are put together of pods, and told apart.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::group::{Group, slicing};
use super::pods::Pods;
use super::terms::Terms;
use crate::queue::QueueId;
use fluxqueue_machine::cluster::volumes::concern;
use fluxqueue_machine::cluster::{Cluster, Company};
use fluxqueue_machine::ledger::{Role, Slice, SlotRequest};
use fluxqueue_workload::{Lifetime, Pod, Shape};

/// A request for pods: all of them get slots, or none.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its pods, by the nodes that they may use.
    pub groups: Vec<Group>,
    /// True if its job has no nodes yet.
    pub starts_job: bool,
}

/// What makes two requests ask for the same, by the same rules.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestKey {
    /// The queue that rules it.
    pub queue: QueueId,
    /// Where that matters: its namespace, and whether its job has nothing yet.
    pub counts: Option<(Arc<str>, bool)>,
    /// Its pods.
    pub slots: Vec<SlotKey>,
}

/// Pods of one shape that run for as long, on the same terms.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SlotKey {
    /// Their shape.
    pub shape: Same<Shape>,
    /// The time for which they are planned.
    pub walltime: Lifetime,
    /// The second at which they are ended whatever they do.
    pub deadline: Option<i64>,
    /// Their terms. The tenant is left out as long as the job has none.
    pub terms: Terms,
    /// Of pods with an index that are in slices, the numbers of these slices: it matters which pods
    /// are together.
    pub slices: Vec<u32>,
    /// The number of pods.
    pub count: usize,
}

/// A shared value that is compared by identity: equal values that are not shared count as
/// different.
#[derive(Debug, Clone)]
pub struct Same<T>(pub Arc<T>);

impl<T> PartialEq for Same<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> Eq for Same<T> {}

impl<T> std::hash::Hash for Same<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::ptr::hash(Arc::as_ptr(&self.0), state);
    }
}

/// Pods out of which slices are cut: of one role, or of one shape where roles are not given.
struct Sliced {
    size: u32,
    role: Option<Role>,
    shape: Option<Arc<Shape>>,
    /// The number of known pods.
    pods: u32,
}

impl Request {
    /// Returns the number of its pods.
    pub fn pods(&self) -> usize {
        self.groups.iter().flat_map(|group| &group.wants).map(|want| want.count).sum()
    }

    /// True if a pod of it would rather be where others are, or are not.
    pub(super) fn prefers_by_pods(&self) -> bool {
        self.groups.iter().any(|group| group.sample.shape.constraints.prefers_by_pods())
    }

    /// True if none of its pods is among those that its rules are about. Checked for one group
    /// only, else false.
    pub(super) fn is_about_others(&self) -> bool {
        let [group] = &self.groups[..] else { return false };
        let constraints = &group.sample.shape.constraints;
        let is_plain = constraints.near.is_empty()
            && constraints.spreads.is_empty()
            && !constraints.prefers_by_pods();
        is_plain && !group.terms.stance.own.apart.iter().any(|apart| *apart)
    }

    /// True if the graph does not know whether all its pods may be on some nodes.
    pub(super) fn asks_about_each_other(&self) -> bool {
        self.needs_a_trial()
            || (self.pods() > 1 && self.asks_about_pods() && !self.is_about_others())
    }

    /// True if pods that may not come to a node now may be let in by others that come before.
    pub(super) fn depends_on_order(&self) -> bool {
        let constraints = self.groups.iter().map(|group| &group.sample.shape.constraints);
        constraints.into_iter().any(|of| !of.near.is_empty() || !of.spreads.is_empty())
    }

    /// True if a pod of it asks about other pods.
    pub fn asks_about_pods(&self) -> bool {
        self.groups.iter().any(|group| group.sample.shape.constraints.asks_about_pods())
    }

    /// True if some of its pods are to be near to each other.
    pub fn is_to_be_near(&self) -> bool {
        self.pods() > 1 && self.groups.iter().any(Group::is_near_its_own)
    }

    /// Returns which of its groups are to be near to each other, by number.
    pub(super) fn near_their_own(&self) -> Vec<usize> {
        (0..self.groups.len()).filter(|at| self.groups[*at].is_near_its_own()).collect()
    }

    /// True if only a trial can tell whether all its pods may be on some nodes together.
    pub(super) fn needs_a_trial(&self) -> bool {
        self.pods() > 1 && (self.depends_on_order() || self.rests_on_volumes())
    }

    /// True if its needs of nodes for volumes cannot be reserved in time.
    pub(crate) fn rests_on_volumes(&self) -> bool {
        self.groups
            .iter()
            .any(|group| group.terms.volumes.as_ref().is_some_and(|needs| needs.rests_on_others()))
    }

    /// True if pods that end may keep some of its pods off nodes until then, as far as was known
    /// when the walk began.
    pub(super) fn may_be_kept_away(&self) -> bool {
        self.groups.iter().any(Group::may_be_kept_away)
    }

    /// True if a pod on a node may have to go before one of it can come there.
    pub fn is_kept_away_by(&self, pod: &Pod, cluster: &Cluster) -> bool {
        let keeps_away = |group: &Group| {
            let takes_volumes = || {
                let volumes = group.terms.volumes.as_ref();
                volumes.is_some_and(|needs| needs.rests_on_others()) && concern(pod)
            };
            cluster.neighbours().are_apart(&group.sample, pod)
                || cluster.neighbours().crowds(pod, &group.sample)
                || takes_volumes()
        };
        self.groups.iter().any(keeps_away)
    }

    /// All its pods that differ from each other.
    pub fn all_pods(&self) -> impl Iterator<Item = &Arc<Pod>> + Clone {
        self.groups.iter().flat_map(|group| &group.pods).flat_map(Pods::distinct)
    }

    /// True if it is to be spread, or near to its own: until it begins no other request may make it
    /// uneven, or draw it away.
    pub fn is_to_stay_undisturbed(&self) -> bool {
        self.groups.iter().any(|group| group.is_spread() || group.is_near_its_own())
    }

    /// True if both are one pod each, of the same shape.
    pub(super) fn is_one_like(&self, other: &Request) -> bool {
        let ([one], [other]) = (self.groups.as_slice(), other.groups.as_slice()) else {
            return false;
        };
        [one, other].iter().all(|group| group.company == Company::Alone)
            && Arc::ptr_eq(&one.sample.shape, &other.sample.shape)
    }

    /// The same as it is planned if it starts later.
    pub(super) fn if_later(&self) -> Cow<'_, Request> {
        if self.groups.iter().all(|group| group.lifetime_later.is_none()) {
            return Cow::Borrowed(self);
        }
        let mut later = self.clone();
        for group in &mut later.groups {
            group.lifetime = group.lifetime_later.unwrap_or(group.lifetime);
        }
        Cow::Owned(later)
    }

    /// Says of which slices its pods are, where rules are about these: by their numbers if they
    /// have some, else in their order. Pods of a slice may be of several groups, since their
    /// volumes are in different places, say.
    pub fn cut_into_slices(&mut self, number: impl Fn(&Pod) -> Option<u32>) {
        let mut kinds: Vec<Sliced> = Vec::new();
        let mut cut: Vec<(&mut SlotRequest, Vec<(usize, u32)>)> = Vec::new();
        for group in &mut self.groups {
            // No rule is about slices of this group.
            let Some((size, role)) = slicing(&group.terms.levels) else { continue };
            for (want, pods) in group.wants.iter_mut().zip(&mut group.pods) {
                let shape = if role.is_none() { Some(&want.shape) } else { None };
                let is_known = |kind: &Sliced| {
                    (kind.size, &kind.role, kind.shape.as_ref()) == (size, &role, shape)
                };
                let kind = kinds.iter().position(is_known).unwrap_or_else(|| {
                    kinds.push(Sliced { size, role: role.clone(), shape: shape.cloned(), pods: 0 });
                    kinds.len() - 1
                });
                let mut nth = |pod: &Arc<Pod>| {
                    let position = kinds[kind].pods;
                    kinds[kind].pods += 1;
                    number(pod).unwrap_or(position) / size
                };
                let mut of_pods: Vec<(u32, &Arc<Pod>)> =
                    pods.iter().map(|pod| (nth(pod), pod)).collect();
                // Of several Jobs the pods come index by index, and are numbered Job by Job.
                of_pods.sort_by_key(|(slice, _)| *slice);
                let of_slices = of_pods.iter().map(|(slice, _)| (kind, *slice)).collect();
                let in_order: Vec<Arc<Pod>> =
                    of_pods.into_iter().map(|(_, pod)| Arc::clone(pod)).collect();
                pods.put_in_order(in_order.into_iter());
                cut.push((want, of_slices));
            }
        }
        let known: BTreeSet<(usize, u32)> =
            cut.iter().flat_map(|(_, of_pods)| of_pods).copied().collect();
        let numbers: BTreeMap<(usize, u32), u32> = known.into_iter().zip(0..).collect();
        for (want, of_pods) in cut {
            let of_slices = of_pods.chunk_by(|one, other| one == other);
            want.slices = of_slices
                .map(|pods| Slice { number: numbers[&pods[0]], count: pods.len() })
                .collect();
        }
    }

    /// Adds this number of pods like this one, with their lifetime; the request has `of`
    /// pods that differ.
    pub fn add(
        &mut self,
        (pod, terms): (&Arc<Pod>, &Terms),
        times: usize,
        (lifetime, later): (Lifetime, Option<Lifetime>),
        (queue, of): (QueueId, usize),
    ) {
        let same_nodes = |group: &&mut Group| {
            let sample = &group.sample.shape;
            (group.lifetime, group.lifetime_later) == (lifetime, later)
                && (Arc::ptr_eq(sample, &pod.shape) || sample.constraints == pod.shape.constraints)
                && group.terms == *terms
        };
        match self.groups.iter_mut().find(same_nodes) {
            Some(group) => group.add(pod, times),
            None => {
                // Mostly they are all alike.
                let expected = if self.groups.is_empty() { of } else { 0 };
                let mut group = Group {
                    wants: vec![SlotRequest::new(Arc::clone(&pod.shape), 0)],
                    pods: vec![Pods::with_capacity(expected)],
                    lifetime,
                    lifetime_later: later,
                    sample: Arc::clone(pod),
                    terms: terms.clone(),
                    company: Company::Together,
                    queue,
                    queue_nodes: None,
                };
                group.add(pod, times);
                self.groups.push(group);
            }
        }
    }
}

impl RequestKey {
    /// True if their demands are equal, but other pods keep theirs away.
    pub fn differs_by_repellers(&self, other: &Self) -> bool {
        let alone = |key: &Self| {
            let mut key = key.clone();
            key.slots.iter_mut().for_each(|slot| slot.terms.stance.repelled_by.clear());
            key
        };
        self != other && alone(self) == alone(other)
    }
}

impl SlotKey {
    /// True if they differ in their number at most, and in the slices that they are of.
    pub fn is_like(&self, other: &Self) -> bool {
        let SlotKey { shape, walltime, deadline, terms, slices: _, count: _ } = self;
        (shape, walltime, deadline, terms)
            == (&other.shape, &other.walltime, &other.deadline, &other.terms)
    }
}
