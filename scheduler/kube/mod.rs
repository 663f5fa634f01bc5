//! The shell: everything that talks to the API server.
//!
//! [`watch`] turns what it says into the core's events, [`driver`] turns the core, [`hands`] carry out what it decides, and
//! [`lease`] says who may. Nothing here decides where or when anything runs.

pub mod binder;
mod chain;
pub mod client;
pub mod convert;
pub mod driver;
pub mod events;
pub mod fence;
pub mod hands;
pub mod lane;
pub mod lean;
pub mod lease;
mod pauses;
mod request;
pub mod seen;
pub mod shell;
mod signals;
mod tasks;
mod trail;
pub mod watch;
pub mod writer;

#[cfg(test)]
mod tests;
