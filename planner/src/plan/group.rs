//! A group of a request: the facts about where its pods may go, and its questions to the ledger.

use std::sync::Arc;

use super::pods::Pods;
use super::terms::Terms;
use crate::queue::QueueId;
use fluxqueue_machine::cluster::{Cluster, Company, KeyId};
use fluxqueue_machine::fluxion::{RankSet, Within};
use fluxqueue_machine::ledger::Role;
use fluxqueue_machine::ledger::{GroupRequest, LevelWants, SlotRequest};
use fluxqueue_machine::rules::{self, Applicants};
use fluxqueue_workload::Lifetime;
use fluxqueue_workload::Pod;
use fluxqueue_workload::constraints::Constraints;
use fluxqueue_workload::constraints::SpreadConstraint;
use fluxqueue_workload::levels::{RuleScope, Spread};

/// Pods that may use the same nodes, and for as long.
#[derive(Debug, Clone)]
pub struct Group {
    /// The pods, by shape.
    pub wants: Vec<SlotRequest>,
    /// Per want, the pods.
    pub pods: Vec<Pods>,
    /// The time for which they are planned.
    pub lifetime: Lifetime,
    /// The time for which they are planned if they start later, where that differs.
    pub lifetime_later: Option<Lifetime>,
    /// One of them.
    pub sample: Arc<Pod>,
    /// The terms of each of them; the tenancy is the same for all groups.
    pub terms: Terms,
    /// Whether others come with each of them.
    pub company: Company,
    /// The queue that determines which nodes they may use.
    pub queue: QueueId,
    /// The nodes of their queue, where it matters to which they are admitted.
    pub queue_nodes: Option<Arc<Constraints>>,
}

impl Group {
    /// Returns its pods as rules see them, with the nodes of their queue.
    pub fn applicants<'a>(&'a self, queue: Option<&'a Constraints>) -> Applicants<'a> {
        let Terms { stance, volumes, levels, tenancy } = &self.terms;
        Applicants {
            pod: &self.sample,
            stance,
            company: self.company,
            have_volumes: volumes.is_some(),
            levels,
            tenancy: *tenancy,
            queue,
            counted: self.queue_nodes.as_deref(),
        }
    }

    /// True if pods that end may keep its pods off nodes until then.
    pub(super) fn may_be_kept_away(&self) -> bool {
        rules::may_end(&self.applicants(None))
    }

    /// Adds `times` more pods like this one.
    pub(super) fn add(&mut self, pod: &Arc<Pod>, times: usize) {
        let known = self
            .wants
            .iter()
            .position(|want| Arc::ptr_eq(&want.shape, &pod.shape) || want.shape == pod.shape);
        let at = known.unwrap_or_else(|| {
            self.wants.push(SlotRequest::new(Arc::clone(&pod.shape), 0));
            self.pods.push(Pods::with_capacity(0));
            self.pods.len() - 1
        });
        self.wants[at].count += times;
        self.pods[at].add(pod, times);
    }

    /// Returns the number of its pods.
    pub(super) fn size(&self) -> u64 {
        self.wants.iter().map(|want| want.count as u64).sum()
    }

    /// Returns the number of pods in a slice.
    pub fn slice_size(&self) -> Option<u32> {
        slice_size(&self.terms.levels)
    }

    /// True if its pods keep others away by required anti-affinity.
    pub fn repels_pods(&self) -> bool {
        !self.sample.shape.constraints.repels.is_empty()
    }

    /// True if its pods keep pods of other namespaces away by required anti-affinity.
    pub(crate) fn repels_other_namespaces(&self) -> bool {
        let Pod { id, shape, .. } = &*self.sample;
        shape.constraints.repels.iter().any(|term| term.reaches_beyond(&id.key.namespace))
    }

    /// True if its pods are to be spread among others, themselves included.
    pub(crate) fn is_spread(&self) -> bool {
        !self.sample.shape.constraints.spreads.is_empty()
    }

    /// True if its pods are to be near to each other.
    pub(crate) fn is_near_its_own(&self) -> bool {
        self.terms.stance.own.near
    }

    /// True if its pods are to be spread at least as evenly as those of another group, among the
    /// same.
    pub(super) fn is_as_even_as(&self, other: &Group) -> bool {
        let [own, others] = [self, other].map(|group| &group.sample.shape.constraints.spreads);
        others.iter().all(|of| {
            let is_as_even = |spread: &SpreadConstraint| {
                spread.max_skew <= of.max_skew
                    && SpreadConstraint { max_skew: of.max_skew, ..spread.clone() } == *of
            };
            own.iter().any(is_as_even)
        })
    }

    /// True if other pods have something to do with where its pods may go.
    pub(crate) fn depends_on_pods(&self) -> bool {
        self.sample.shape.constraints.asks_about_pods() || !self.terms.stance.repelled_by.is_empty()
    }

    /// Nodes to which its pods are admitted, now or some day, if parts of a level may differ by so
    /// much only: the parts of these count. As kube-scheduler's nodeAffinityPolicy has it, it does
    /// not matter what else keeps the pods off them now.
    pub(crate) fn counted(&self, cluster: &mut Cluster) -> Option<RankSet> {
        self.terms
            .level_wants()
            .find(|want| matches!(want.within, Within::Spread(Spread { max_skew: Some(_), .. })))?;
        Some(self.admitted(cluster))
    }

    fn admitted(&self, cluster: &mut Cluster) -> RankSet {
        cluster.admitted(&self.sample.shape.constraints, self.queue_nodes.as_deref())
    }

    /// True if, by their own anti-affinity, no two of its pods may share one of these nodes, and
    /// nothing else follows from it for them: the graph can keep that.
    pub(super) fn has_nodes_for_itself(&self, nodes: &RankSet, cluster: &mut Cluster) -> bool {
        self.apart_by(cluster).into_iter().any(|key| cluster.neighbours().tells_apart(key, nodes))
    }

    /// The labels of which no two of its pods may be in one domain.
    pub(super) fn apart_by(&self, cluster: &mut Cluster) -> Vec<KeyId> {
        if self.company == Company::Alone || !self.terms.stance.own.apart.contains(&true) {
            return Vec::new();
        }
        cluster
            .reach()
            .kept_out_of(&self.sample.shape.constraints.repels, std::iter::once(&self.sample))
    }

    /// The group as the ledger takes it, on these nodes, those first where it would rather be.
    pub(crate) fn ordered_request(&self, nodes: &RankSet, cluster: &mut Cluster) -> GroupRequest {
        let is_alone = self.pods.iter().map(Pods::len).sum::<usize>() == 1;
        let prefer = cluster.tiers(&self.sample, nodes, is_alone);
        GroupRequest { prefer, ..self.request(nodes, cluster) }
    }

    /// The group as the ledger takes it, on these nodes, wherever it would rather be.
    pub fn request(&self, nodes: &RankSet, cluster: &mut Cluster) -> GroupRequest {
        GroupRequest {
            wants: self.wants.clone(),
            ranks: (nodes.len() < cluster.nodes().len()).then(|| nodes.clone()),
            prefer: Vec::new(),
            counted: self.counted(cluster),
            lifetime: self.lifetime,
            are_apart: self.has_nodes_for_itself(nodes, cluster),
            max_per_node: self
                .terms
                .volumes
                .as_ref()
                .and_then(|_| cluster.volumes().most_on_a_node(&self.sample)),
            levels: self.terms.levels.clone(),
            tenancy: self.terms.tenancy,
        }
    }
}

/// Returns the number of pods in a slice, by their wants about levels.
pub fn slice_size(wants: &LevelWants) -> Option<u32> {
    slicing(wants).map(|(size, _)| size)
}

/// The same, and of which role the pods are.
pub(super) fn slicing(wants: &LevelWants) -> Option<(u32, Option<Role>)> {
    wants.iter().flat_map(|wants| wants.iter()).find_map(|want| match want.of {
        RuleScope::Slice(size) => Some((size, want.role.clone())),
        _ => None,
    })
}
