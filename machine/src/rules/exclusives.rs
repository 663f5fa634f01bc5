//! Things of a node of which one pod at a time can have each.

use std::marker::PhantomData;
use std::sync::Arc;

use super::rule::{Account, Applicants, Horizon, Look, Rule, Site};
use crate::cluster::filters::Rejection;
use crate::cluster::{Cluster, Exclusive, Taken, TakenThings};
use crate::fluxion::{Rank, RankSet};
use crate::ledger::Allocation;
use fluxqueue_workload::constraints::Constraints;
use fluxqueue_workload::{Pod, Shape};

/// A kind of such things.
pub(super) trait Thing: Exclusive {
    /// The reason for which a node is closed that cannot give one.
    const REJECTION: Rejection;

    /// Returns those that pods of these constraints want.
    fn wanted(constraints: &Constraints) -> &[Self];
    /// Returns those that are taken.
    fn taken(things: &TakenThings) -> &Taken<Self>;
    /// Returns the same, to be changed.
    fn taken_mut(things: &mut TakenThings) -> &mut Taken<Self>;
}

/// Closes nodes where a thing of this kind that the pods want is taken.
pub(super) struct Exclusives<T>(PhantomData<fn() -> T>);

impl<T> Exclusives<T> {
    /// The rule for this kind.
    pub(super) const RULE: Self = Exclusives(PhantomData);
}

impl<T: Thing> Rule for Exclusives<T> {
    fn is_kept_by_graph(&self) -> bool {
        false
    }

    fn version(&self, cluster: &Cluster, pods: &Applicants<'_>) -> u64 {
        T::taken(cluster.taken()).version(T::wanted(&pods.pod.shape.constraints))
    }

    fn narrow(
        &self,
        site: &mut Site<'_>,
        pods: &Applicants<'_>,
        horizon: Horizon,
        nodes: &mut RankSet,
    ) {
        let wanted = T::wanted(&pods.pod.shape.constraints);
        let taken = T::taken(site.cluster.taken());
        match horizon {
            Horizon::Now => nodes.subtract(&taken.closed_to(wanted)),
            Horizon::SomeDay => nodes.subtract(&taken.closed_for_ever_to(wanted)),
            Horizon::Lasting => {}
        }
    }

    fn closed(
        &self,
        site: &mut Site<'_>,
        pods: &Applicants<'_>,
        _: &RankSet,
    ) -> Vec<(RankSet, Rejection)> {
        let wanted = T::wanted(&pods.pod.shape.constraints);
        vec![(T::taken(site.cluster.taken()).closed_to(wanted), T::REJECTION)]
    }

    fn reject(&self, cluster: &mut Cluster, rank: Rank, pod: &Pod, look: Look) -> Vec<Rejection> {
        let has_room = look == Look::WithoutNominated || self.has_room(cluster, rank, &pod.shape);
        if has_room { Vec::new() } else { vec![T::REJECTION] }
    }

    fn may_end(&self, pods: &Applicants<'_>) -> bool {
        !T::wanted(&pods.pod.shape.constraints).is_empty()
    }

    fn admits(&self, site: &mut Site<'_>, slot: &Allocation, pod: &Pod) -> bool {
        let own = T::wanted(&pod.shape.constraints);
        T::taken(site.cluster.taken()).are_its_own(slot.rank, own)
    }

    fn account(&self) -> Option<&dyn Account> {
        Some(self)
    }
}

impl<T: Thing> Account for Exclusives<T> {
    fn has_room(&self, cluster: &Cluster, rank: Rank, shape: &Shape) -> bool {
        !T::taken(cluster.taken()).is_closed_to(rank, T::wanted(&shape.constraints))
    }

    fn differences(&self, site: &mut Site<'_>, rank: Rank, there: &[Arc<Shape>]) -> Vec<String> {
        let expected = there.iter().flat_map(|shape| T::wanted(&shape.constraints));
        T::taken(site.cluster.taken()).differences(rank, expected)
    }

    fn recount(&self, cluster: &mut Cluster, rank: Rank, there: &[Arc<Shape>]) {
        let taken = there.iter().flat_map(|shape| T::wanted(&shape.constraints));
        T::taken_mut(cluster.taken_mut()).set(rank, taken.cloned().collect());
    }
}
