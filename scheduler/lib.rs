//! Fluxqueue: a batch scheduler for Kubernetes.
//!
//! [`workload`] and [`cluster`] say what there is to run and where; [`core`] is the state machine that ties them
//! together, without I/O; [`kube`] and [`serve`] are the shell around it. docs/ARCHITECTURE.md is the map.

pub mod cli;
pub mod cluster;
pub mod core;
pub mod kube;
pub mod serve;
pub mod settings;
pub mod workload;
