//! The shell against a small API server that misbehaves on demand.

mod admission;
mod ask;
mod binary;
mod binder;
mod clock;
mod driver;
mod encodings;
mod events;
mod executors;
mod kinds;
mod lease;
mod pod_groups;
mod reviews;
mod server;
mod shell;
mod throttle;
mod watch;
mod writer;
