//! The cluster: nodes, the use of them, and the rules that admit pods to them.

mod classes;
mod exclusive;
mod fills;
pub mod filters;
#[cfg(test)]
mod golden;
mod levels;
mod neighbours;
pub(crate) mod node;
mod nodes;
pub(crate) mod presence;
mod quarantine;
mod score;
pub mod summary;
mod view;
pub mod volumes;

pub use classes::Class;
pub(crate) use exclusive::{Exclusive, Taken, TakenThings};
pub use levels::{Level, Topology, TopologyError, readable};
pub use neighbours::OccupantId;
pub use neighbours::{ChangedTerms, Company, OwnTerms, Stance};
pub use neighbours::{CrowdId, KeyId, Neighbours, Reach};
pub use node::{InvalidAmount, Node, Readiness, Taint};
pub use nodes::{NodeChange, Nodes};
pub use presence::Presence;
pub use quarantine::Quarantine;
pub use score::{FillScore, Score};
pub use view::Cluster;
