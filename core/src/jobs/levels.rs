//! The requirements of jobs on levels of the machine: that all pods are in one rack, say.
//!
//! This module decides which rules count for a pod, by the levels that exist; where its job is
//! already, for pods that join it; and whether the rules still hold before the first Binding. The
//! graph keeps the rules, from `plan` on.

use std::sync::Arc;

use fluxqueue_machine::fluxion::Within;
use fluxqueue_machine::ledger::{LevelWant, LevelWants, Role};
use fluxqueue_workload::Shape;
use fluxqueue_workload::levels::LevelRule;

/// A survey of the pods of one job while the job is examined.
pub(crate) struct Survey {
    /// True if an object that makes its pods asks for levels. For most pods, this shows already
    /// that they ask for none.
    pub(crate) by_makers: bool,
    /// The requirements of the pods, by their rules, their shape and their role: many pods have
    /// these in common.
    pub(crate) wants: Vec<(Asks, LevelWants)>,
}

/// Rules, a shape and a role, if that matters.
pub(crate) type Asks = (Arc<[LevelRule]>, Arc<Shape>, Option<Role>);

/// Parts of the machine, each with its level.
pub(crate) type Parts = Vec<(Arc<str>, String)>;

/// Returns the requirements that depend on the places of other pods of the job.
pub(crate) fn open_wants(wants: &LevelWants) -> Vec<LevelWant> {
    let open = wants.iter().flat_map(|wants| wants.iter());
    open.filter(|want| matches!(want.within, Within::One | Within::Beside(..))).cloned().collect()
}
