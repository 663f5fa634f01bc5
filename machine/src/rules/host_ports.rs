//! Host ports: two pods on a node cannot have the same, as kube-scheduler's filter NodePorts has
//! it.

use super::exclusives::{Exclusives, Thing};
use crate::cluster::filters::Rejection;
use crate::cluster::{Taken, TakenThings};
use fluxqueue_workload::constraints::{Constraints, HostPort};

/// The rule about them.
pub(super) const RULE: Exclusives<HostPort> = Exclusives::RULE;

impl Thing for HostPort {
    const REJECTION: Rejection = Rejection::HostPorts;

    fn wanted(constraints: &Constraints) -> &[Self] {
        &constraints.host_ports
    }

    fn taken(things: &TakenThings) -> &Taken<Self> {
        &things.ports
    }

    fn taken_mut(things: &mut TakenThings) -> &mut Taken<Self> {
        &mut things.ports
    }
}
