//! Terms: everything that a pod asks for beside room for its shape.

use std::sync::Arc;

use fluxqueue_machine::cluster::Stance;
use fluxqueue_machine::cluster::volumes::VolumeNeeds;
use fluxqueue_machine::fluxion::Tenancy;
use fluxqueue_machine::ledger::{LevelWant, LevelWants};

/// The terms of a pod's placement. By default there are none: any node with room will do.
///
/// Pods with equal terms and constraints may use the same nodes, and form one group of a request.
/// Two requests ask for the same only if the terms of their pods are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Terms {
    /// The pod's stance to pods on nodes.
    pub stance: Stance,
    /// The needs of its volumes.
    pub volumes: Option<Arc<VolumeNeeds>>,
    /// Its wants about levels of the machine.
    pub levels: LevelWants,
    /// The tenancy that says with which pods it may share nodes.
    pub tenancy: Tenancy,
}

impl Terms {
    /// Returns the wants about levels of the machine, one by one.
    pub fn level_wants(&self) -> impl Iterator<Item = &LevelWant> {
        self.levels.iter().flat_map(|wants| wants.iter())
    }
}
