//! The shell: everything that talks to the API server.
//!
//! [`watch`] turns the API server's news into events, [`driver`] passes them to the core,
//! [`executors`] carry out the core's decisions, and [`lease`] decides which process may. Nothing
//! here decides where or when anything runs.

mod admission;
pub mod ask;
pub mod binder;
pub mod client;
pub mod clock;
pub mod convert;
pub mod driver;
mod edits;
mod error_chain;
pub mod events;
pub mod executors;
pub mod fence;
pub mod fenced;
mod kinds;
pub mod lean;
pub mod lease;
mod pauses;
mod pod_groups;
pub mod protobuf;
mod request;
pub(crate) mod reviews;
pub mod seen;
mod served_crd;
pub mod shell;
pub(crate) mod signals;
mod storage;
pub(crate) mod tasks;
mod throttle;
pub mod trailing_statuses;
pub mod watch;
pub mod work_queue;
pub mod writer;

#[cfg(test)]
mod tests;
