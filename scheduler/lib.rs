//! Fluxqueue: a batch scheduler for Kubernetes.
//!
//! [`workload`] and [`cluster`] say what there is to run and where; [`fluxion`] is the resource graph; [`queue`] is the
//! order; [`core`] is the state machine that ties them together, without I/O; [`kube`] and [`serve`] are the shell around
//! it. docs/ARCHITECTURE.md is the map.

pub mod cli;
pub mod cluster;
pub mod core;
pub mod fluxion;
pub mod kube;
pub mod queue;
pub mod serve;
pub mod settings;
pub mod workload;
