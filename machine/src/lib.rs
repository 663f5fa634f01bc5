//! The machine: nodes, the pods on them, and the resource graph with its bookings.
//!
//! - [`fluxion`]: the safe wrapper over the C ABI of the resource graph
//! - [`cluster`]: nodes and the pods on them, with all that is counted for the rules
//! - [`ledger`]: bookings in the graph, with their jobs and their ends
//! - [`rules`]: what keeps a pod off a node, one file for each rule
//! - [`table`]: maps by hash
//!
//! The machine knows pods and nodes, and neither jobs nor records. It reads no clock and holds no
//! lock.

pub mod cluster;
pub mod defect;
pub mod fluxion;
pub mod ledger;
mod node_policy;
pub mod rules;
pub mod table;

pub use node_policy::NodePolicy;
