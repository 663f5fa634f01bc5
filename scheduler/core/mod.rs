//! The state machine: (state, event, now) -> actions. No clock, no network, no randomness.

mod action;
mod event;
pub mod report;
mod settings;

pub use action::{Action, ActionId, ActionKind, EventKind, Note, Subject, Urgency};
pub use event::{BindOutcome, Event, Outcome, WriteOutcome};
pub use settings::{CoreSettings, NodePolicy};
