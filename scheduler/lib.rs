//! Fluxqueue: a batch scheduler for Kubernetes.
//!
//! [`kube`] and [`serve`] are the shell around `fluxqueue_core`, which decides; [`simulate`] is
//! another shell, in virtual time; [`cli`] turns arguments into a run. docs/ARCHITECTURE.md is the
//! map.

pub mod cli;
pub mod kube;
#[cfg(test)]
mod reference;
pub mod serve;
pub mod settings;
pub mod simulate;
mod submission;
