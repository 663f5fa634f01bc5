//! Fluxqueue: a batch scheduler for Kubernetes.
//!
//! [`workload`] and [`cluster`] say what there is to run and where; [`core`] is the state machine that ties them
//! together, without I/O. docs/ARCHITECTURE.md is the map.

pub mod cluster;
pub mod core;
pub mod fluxion;
pub mod workload;
