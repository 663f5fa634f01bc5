//! Admission: what happens to pods, and to what makes pods, before the API server stores them.
//!
//! [`Admission`] decides and [`router`] answers the API server. Who is asked about at all is
//! decided by the API server, from the selectors and conditions in `manifests/webhook`: nothing
//! here reads namespaces, or remembers anything. [`certificates`] are those that the API server
//! knows this server by, where nobody else makes them. Sockets and signals are whoever's that calls
//! this.

mod admission;
mod bodies;
pub mod certificates;
mod metrics;
mod mutate;
mod objects;
mod review;
mod server;
mod suspend;
mod validate;

pub use admission::{Admission, Gating, NoSchedulerName};
pub use metrics::Metrics;
pub use server::{Paths, Readiness, router};
