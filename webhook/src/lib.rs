//! Admission: changes to pods, and to the objects that make pods, before the API server stores
//! them.
//!
//! [`Admission`] decides and [`router`] answers the API server. The API server decides which
//! objects it asks about, from the selectors and conditions in `manifests/webhook`: nothing here
//! reads namespaces, or remembers anything. [`certificates`] makes the server's certificate if no
//! other program does. Sockets and signals are the caller's concern.

mod admission;
mod bodies;
pub mod certificates;
mod metrics;
mod mutate;
mod objects;
mod review;
mod server;
mod suspend;
mod user;
mod validate;

pub use admission::{Admission, Gating, NoSchedulerName};
pub use metrics::Metrics;
pub use server::{Paths, Readiness, router};
