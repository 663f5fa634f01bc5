//! The shell against a small API server that misbehaves on demand.

mod binder;
mod driver;
mod lease;
mod server;
mod watch;
mod writer;
