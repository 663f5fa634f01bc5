//! What is under test, seen from outside: events and the time go in, actions come out.

use fluxqueue::core::{Action, Event};
use fluxqueue::workload::Time;

/// The sans-IO core, or one of the saboteurs around it.
pub(crate) trait Machine {
    /// Takes note of an event.
    fn handle(&mut self, event: Event, now: Time);
    /// Decides, and hands out what is to be done.
    fn step(&mut self, now: Time) -> Vec<Action>;
    /// When `step` wants to be called though nothing happens.
    fn next_wake(&self) -> Option<Time>;
}

/// Makes a machine for a process that starts, given its epoch.
pub(crate) type Factory = dyn Fn(i64) -> Box<dyn Machine> + Sync;

/// Does nothing.
#[derive(Debug)]
struct Idle;

impl Machine for Idle {
    fn handle(&mut self, _: Event, _: Time) {}
    fn step(&mut self, _: Time) -> Vec<Action> {
        Vec::new()
    }
    fn next_wake(&self) -> Option<Time> {
        None
    }
}

/// The core.
pub(crate) fn core(_epoch: i64) -> Box<dyn Machine> {
    Box::new(Idle)
}
