//! What jobs ask of levels of the machine: that all pods are in one rack, say.
//!
//! Here it is said which rules count for a pod, by the levels that there are; where its job is
//! already, for those who join it; and whether it is still so before the first Binding. Keeping the
//! rules is the graph's matter, from `plan` on.

use std::sync::Arc;

use fluxqueue_machine::fluxion::Within;
use fluxqueue_machine::ledger::{LevelWant, LevelWants, Role};
use fluxqueue_workload::Shape;
use fluxqueue_workload::levels::LevelRule;

/// What is known of the pods of one job while it is looked at.
pub(crate) struct Asked {
    /// Some object that makes its pods asks for levels. Most pods need no more than this to be told
    /// that they ask for nothing.
    pub(crate) by_makers: bool,
    /// What pods want, by what they ask for, their shape and their role: many have these in common.
    pub(crate) wants: Vec<(Asks, LevelWants)>,
}

/// Rules, a shape and a role, if that matters.
pub(crate) type Asks = (Arc<[LevelRule]>, Arc<Shape>, Option<Role>);

/// Parts, each with its level.
pub(crate) type Parts = Vec<(Arc<str>, String)>;

/// What depends on where others of the job will be.
pub(crate) fn open_wants(wants: &LevelWants) -> Vec<LevelWant> {
    let open = wants.iter().flat_map(|wants| wants.iter());
    open.filter(|want| matches!(want.within, Within::One | Within::Beside(..))).cloned().collect()
}
