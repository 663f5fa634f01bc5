//! The role of a pod in its job, as the ledger knows it: rules about levels may be for each role by
//! itself.

use std::sync::Arc;

use fluxqueue_workload::Uid;

/// A role. Pods without a known role have the same as others of their shape.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Role {
    /// By a label.
    Named(Arc<str>),
    /// Of all that one object makes, where several make pods of the job.
    MadeBy(Uid),
    /// Of all that the one object makes which makes pods of the job.
    Only,
}
