//! The questions that each rule answers, and the machine and the pods that they are about.

use std::sync::Arc;

use crate::cluster::filters::Rejection;
use crate::cluster::{Cluster, Company, Stance, volumes};
use crate::fluxion::{Rank, RankSet, Tenancy};
use crate::ledger::{Allocation, Ledger, LevelWants};
use fluxqueue_workload::constraints::Constraints;
use fluxqueue_workload::{Pod, Shape};

/// The machine as rules see it.
pub struct Site<'a> {
    /// The nodes, and the pods on them.
    pub cluster: &'a mut Cluster,
    /// The bookings.
    pub ledger: &'a mut Ledger,
}

/// Pods that may use the same nodes, as rules see them.
#[derive(Clone, Copy)]
pub struct Applicants<'a> {
    /// One of them.
    pub pod: &'a Pod,
    /// The stance of all of them to pods on nodes.
    pub stance: &'a Stance,
    /// Whether others come with each of them.
    pub company: Company,
    /// True if they ask something of nodes for their volumes.
    pub have_volumes: bool,
    /// The terms about levels of the machine.
    pub levels: &'a LevelWants,
    /// The tenancy that says with which pods they share nodes.
    pub tenancy: Tenancy,
    /// The nodes of their queue; `None`: all.
    pub queue: Option<&'a Constraints>,
    /// The nodes of their queue by which parts of levels count.
    pub counted: Option<&'a Constraints>,
}

impl<'a> Applicants<'a> {
    /// A pod as kube-scheduler sees it: it comes alone, has no queue, and asks for no levels.
    pub fn alone(pod: &'a Pod, stance: &'a Stance) -> Self {
        Applicants {
            pod,
            stance,
            company: Company::Alone,
            have_volumes: volumes::concern(pod),
            levels: &None,
            tenancy: Tenancy::Shared,
            queue: None,
            counted: None,
        }
    }
}

/// The time that a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Horizon {
    /// The present.
    Now,
    /// Once all pods with an end have ended, on the nodes that are ready now.
    SomeDay,
    /// Once nodes that are cordoned or not ready have come back. Pods on nodes do
    /// not count, but for the volumes that they use.
    Lasting,
}

/// kube-scheduler's two looks at a node, both of which have to admit a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Pods that are nominated to the node count as if they were there.
    WithNominated,
    /// They do not count. This look tells only findings that the first does not.
    WithoutNominated,
}

/// Something that keeps pods off nodes.
pub(super) trait Rule: Sync {
    /// True if the resource graph keeps the rule: then it closes no nodes in questions to the
    /// graph, only in trials without it.
    fn is_kept_by_graph(&self) -> bool;

    /// Grows with each change after which the rule may close other nodes to these pods.
    fn version(&self, cluster: &Cluster, pods: &Applicants<'_>) -> u64;

    /// Takes the nodes out that it closes to these pods.
    fn narrow(
        &self,
        site: &mut Site<'_>,
        pods: &Applicants<'_>,
        horizon: Horizon,
        nodes: &mut RankSet,
    );

    /// Returns the nodes that it closes to these pods now, at least those among `among`, by reason.
    /// A node counts for each reason under which it stands. A shortage that the graph explains is
    /// left out.
    fn closed(
        &self,
        site: &mut Site<'_>,
        pods: &Applicants<'_>,
        among: &RankSet,
    ) -> Vec<(RankSet, Rejection)>;

    /// Returns why a pod that is not there yet may not use this node, by one of kube-scheduler's
    /// looks.
    fn reject(&self, cluster: &mut Cluster, rank: Rank, pod: &Pod, look: Look) -> Vec<Rejection>;

    /// True if pods with an end may be the reason for which it closes nodes to these pods, beside
    /// those that take room.
    fn may_end(&self, pods: &Applicants<'_>) -> bool;

    /// True if a pod that has its slot may be there, beside all other pods.
    fn admits(&self, site: &mut Site<'_>, slot: &Allocation, pod: &Pod) -> bool;

    /// Returns the account of the use of nodes by this rule, if slots take something of them.
    fn account(&self) -> Option<&dyn Account>;
}

/// The use of a node by the shapes of its slots: for a rule about things of which a node has a
/// limited number.
pub(super) trait Account {
    /// True if the node has room for a slot of this shape.
    fn has_room(&self, cluster: &Cluster, rank: Rank, shape: &Shape) -> bool;

    /// Returns the differences between the count on a node and the sum of slots of these shapes. It
    /// adds up the shapes with code of its own, so that a mistake of the booking shows.
    fn differences(&self, site: &mut Site<'_>, rank: Rank, there: &[Arc<Shape>]) -> Vec<String>;

    /// Counts the slots of a node again. Another part rebuilds the graph.
    fn recount(&self, cluster: &mut Cluster, rank: Rank, there: &[Arc<Shape>]);
}
