//! The same core without a cluster.

pub mod server;
