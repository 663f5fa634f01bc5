//! Compares `fluxqueue simulate` with a plain simulator over sets of nodes.
//!
//! - [`plain`]: the simulator, simple enough to be obviously right, which shares no code with the
//!   core
//! - [`examples`]: small situations worked out by hand, in which the simulator has to be right
//! - [`random`]: traces of every kind, made from seeds
//! - [`against_plain`]: compares both on each of these traces
//! - [`manifests`]: compares the whole core, with pods
//! - [`command`]: the command, run as users run it

#![allow(clippy::unwrap_used, reason = "a test may unwrap: its panic is the report")]

mod against_plain;
mod command;
mod examples;
mod manifests;
mod plain;
mod random;
#[path = "../splitmix.rs"]
mod splitmix;
