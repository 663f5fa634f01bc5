//! How long a Job that needs more pods than it has at once holds its slots: each slot passes from
//! pod to pod, in waves.
//!
//! A promise behind such a Job has to begin after its last wave. Pods that take their walltimes at
//! most keep to that end in any order in which they end, since each of them begins when a slot is
//! free.

use std::collections::{BTreeMap, BTreeSet};

use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::Uid;

/// The pods of a job that one object has made.
pub(crate) type PodsOf = (JobId, Uid);

/// When the last waves end. They are planned once a step for all pods of a Job: planning them for
/// each pod that changes would cost the square of a Job's pods.
#[derive(Debug, Default)]
pub(crate) struct Waves {
    /// The Jobs of which pods have begun or ended since the last plan.
    pub(crate) due: BTreeSet<PodsOf>,
    /// The core's second at which the last wave ends, where there is one to come.
    pub(crate) ends: BTreeMap<PodsOf, i64>,
}
