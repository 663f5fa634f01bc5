//! `fluxqueue simulate` against a plain simulator over sets of nodes.
//!
//! - [`plain`]: the simulator, obviously right, which shares nothing with the core
//! - [`examples`]: small situations worked out by hand, which it has to get right
//! - [`random`]: traces of every kind, made by seeds
//! - [`against_plain`]: on each of these both say the same
//! - [`manifests`]: so does the whole core, with pods
//! - [`command`]: the command as people use it

#![allow(clippy::unwrap_used, reason = "a test may unwrap: its panic is the report")]

mod against_plain;
mod command;
mod examples;
mod manifests;
mod plain;
mod random;
#[path = "../splitmix.rs"]
mod splitmix;
