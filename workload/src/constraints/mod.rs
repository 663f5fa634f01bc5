//! The nodes that a pod may use, and those that it prefers: the parts of a pod's spec that
//! kube-scheduler's filters read.

mod disk;
mod matching;
mod of_pod;
pub(crate) mod read;
pub(crate) mod terms;

pub use disk::Disk;
pub use matching::all_match;
pub use of_pod::{Constraints, NamedNodes};
pub use read::{of_spec, selector};
pub use terms::{
    HostPort, NamespaceScope, NodeSelectorTerm, Operator, PodSelector, PodTerm, Requirement,
    SpreadConstraint, Toleration,
};
