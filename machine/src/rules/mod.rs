//! The rules that keep pods off nodes: one file each, and one list of them.
//!
//! Each rule answers the same few questions: the nodes that it closes, now and once the pods with
//! an end have ended; the reasons; whether a pod may still be in its slot; whether the count on a
//! node agrees with the pods there. The planner, the check before a Binding, the explanations and
//! the audit ask the list for a verdict. A new rule is a file, its line below, and its place in
//! `list.rs`.
//!
//! The state that a rule reads belongs to its owner in [`cluster`](crate::cluster) or
//! [`ledger`](crate::ledger), which books it. The resource graph keeps two of the rules itself
//! (`Rule::is_kept_by_graph`). The rules among the pods of one request belong to the search.

mod disks;
mod exclusives;
mod features;
mod host_ports;
mod in_quarantine;
mod judging;
mod levels;
mod list;
mod node_filters;
mod other_pods;
mod queue_nodes;
mod resources;
mod rule;
mod storage;
mod whole_nodes;

#[cfg(test)]
mod tests;

pub use judging::{judge, refusals, unavailable};
pub use levels::full_parts;
pub use list::{
    admit, closed, differences, has_room, may_end, narrow_for_trial, open, recount, version,
};
pub use rule::{Applicants, Horizon, Site};
