//! The cluster: nodes, the use of them, and the rules that admit pods to them.

mod apart;
mod exclusive;
mod fills;
pub mod filters;
#[cfg(test)]
mod golden;
mod judge;
mod levels;
mod neighbours;
pub(crate) mod node;
pub(crate) mod presence;
mod score;
mod scores;
pub mod summary;
mod view;
pub mod volumes;

pub use levels::{Level, Topology, TopologyError, readable};
pub use neighbours::OccupantId;
pub use neighbours::{ChangedTerms, Company, OwnTerms, Stance};
pub use neighbours::{CrowdId, KeyId};
pub use node::{InvalidAmount, Node, Readiness, Taint};
pub use presence::Presence;
pub use score::{FillScore, Score};
pub use view::{Class, Cluster, NodeChange};
