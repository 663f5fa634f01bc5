//! Jobs that ask for nodes alone.

use crate::parts::Sight;
use fluxqueue_machine::fluxion::Tenancy;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{Pod, Unsupported, exclusive};

/// The tenant of pods that have our scheduler's name and no known job yet.
const UNKNOWN: u64 = u64::MAX;

impl Sight<'_> {
    /// Returns the tenancy of a pod of one of our jobs.
    pub(crate) fn tenancy(&self, pod: &Pod, job: JobId) -> Tenancy {
        if pod.stays_on_its_node() {
            Tenancy::Guest
        } else if self.jobs.is_exclusive(pod) && self.planner.ledger.has_tenants() {
            Tenancy::Alone(job.number())
        } else {
            Tenancy::Shared
        }
    }

    /// Returns the tenancy of a pod that belongs to none of our jobs, or to one that is not known
    /// yet: then its own annotation decides.
    pub(crate) fn tenancy_of_others(&self, pod: &Pod) -> Tenancy {
        let may_be_ours = self.settings.scheduler_names.contains(&pod.scheduler);
        if pod.stays_on_its_node() {
            Tenancy::Guest
        } else if may_be_ours && pod.exclusive == Some(true) && self.planner.ledger.has_tenants() {
            Tenancy::Alone(UNKNOWN)
        } else {
            Tenancy::Shared
        }
    }

    /// Returns the reason for which a pod that asks for its node alone cannot have that.
    pub(crate) fn exclusive_trouble(&self, pod: &Pod) -> Option<Unsupported> {
        let is_asked_for = pod.exclusive == Some(true);
        is_asked_for.then(|| self.no_exclusive(pod.stays_on_its_node())).flatten()
    }

    pub(crate) fn no_exclusive(&self, stays_on_its_node: bool) -> Option<Unsupported> {
        if !self.planner.ledger.has_tenants() {
            return Some(exclusive::refused("this Fluxion library keeps no nodes for one job"));
        }
        stays_on_its_node
            .then(|| exclusive::refused("pods of DaemonSets are on nodes with all others"))
    }
}
