//! Pods that keep each other off nodes for as long as they are there, or for ever.
//!
//! A pod that is kept away by pods with an end waits for these, as a pod does when its nodes are
//! full of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Cluster;
use crate::cluster::filters::Rejection;
use crate::cluster::neighbours::{Company, CrowdId, Until};
use crate::cluster::volumes::Volumes;
use crate::fluxion::{Rank, RankSet};
use fluxqueue_workload::Pod;

impl Cluster {
    /// Returns the nodes off which other pods keep this one even once all pods with an end have
    /// ended that it is to be apart from, or that are to be apart from it. The pods that it is to
    /// be near to, or spread among, count as now. Where that closes nodes to a pod that comes
    /// alone, those are open that would be so if only the ones without an end counted.
    pub(crate) fn repelled_for_ever(&mut self, pod: &Pod, company: Company) -> RankSet {
        let closed = self.repelled_beside_others(pod, company);
        if company == Company::Together
            || pod.shape.constraints.spreads.is_empty()
            || closed.is_empty()
        {
            return closed;
        }
        let mut copy = self.without_passing();
        copy.count_only_endless(std::iter::once(pod));
        closed.intersection(&copy.repelled_beside_others(pod, company))
    }

    fn repelled_beside_others(&mut self, pod: &Pod, company: Company) -> RankSet {
        let crowd = self.crowd(pod);
        let mut closed = RankSet::new();
        for (nodes, _) in
            self.neighbours.closed(pod, company, crowd, (self.nodes.present(), Until::ForEver))
        {
            closed.union_with(&nodes);
        }
        closed
    }

    /// Returns how many pods with an end keep this one off each of these nodes by anti-affinity,
    /// theirs or its own.
    pub fn passing(&mut self, pod: &Pod, ranks: &[Rank]) -> Vec<u32> {
        let crowd = self.crowd(pod);
        self.neighbours.passing(pod, crowd, ranks)
    }

    /// Makes a copy in which pods with an end keep no pod away, and have no host port or disk. The
    /// pods that others are to be near to, or spread among, count as now, and so does room.
    #[must_use]
    pub fn without_passing(&self) -> Cluster {
        let mut cluster = self.clone();
        cluster.taken.keep_for_ever();
        cluster.neighbours.keep_endless();
        cluster
    }

    /// In a copy: detaches volumes that only pods with an end have, and frees the claims that these
    /// use.
    pub fn forget_volumes_of_passing(&mut self) {
        self.volumes = Arc::new(self.volumes_for_ever());
    }

    fn volumes_for_ever(&self) -> Volumes {
        let mut volumes = Volumes::clone(&self.volumes);
        volumes.keep_endless(&self.neighbours.endless());
        volumes
    }

    /// Returns the nodes on which the pod could not have its volumes even if all pods with an end
    /// had ended.
    pub(crate) fn closed_by_volumes_for_ever(&self, pod: &Pod) -> RankSet {
        let mut closed = self.closed_by_volumes(pod);
        if closed
            .iter()
            .any(|(_, why)| matches!(why, Rejection::VolumeLimit | Rejection::ClaimInUse))
        {
            closed = self.volumes_for_ever().closed_to(pod, self.nodes.all());
        }
        let mut all = RankSet::new();
        for (nodes, _) in &closed {
            all.union_with(nodes);
        }
        all
    }

    /// In a copy: counts, of the pods that these are to be near to, or spread among, only those
    /// that never end.
    pub fn count_only_endless<'a>(&mut self, pods: impl Iterator<Item = &'a Pod>) {
        let crowds: BTreeSet<CrowdId> = pods.filter_map(|pod| self.crowd(pod)).collect();
        for crowd in crowds {
            self.neighbours.count_only_endless(crowd);
        }
    }
}
