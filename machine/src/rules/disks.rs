//! Disks that pods name themselves: some can be in use once on a node, as kube-scheduler's filter
//! VolumeRestrictions has it.

use super::exclusives::{Exclusives, Thing};
use crate::cluster::filters::Rejection;
use crate::cluster::{Taken, TakenThings};
use fluxqueue_workload::constraints::{Constraints, Disk};

/// The rule about them.
pub(super) const RULE: Exclusives<Disk> = Exclusives::RULE;

impl Thing for Disk {
    const REJECTION: Rejection = Rejection::DiskConflict;

    fn wanted(constraints: &Constraints) -> &[Self] {
        &constraints.disks
    }

    fn taken(things: &TakenThings) -> &Taken<Self> {
        &things.disks
    }

    fn taken_mut(things: &mut TakenThings) -> &mut Taken<Self> {
        &mut things.disks
    }
}
