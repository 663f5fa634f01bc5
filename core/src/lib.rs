//! The state machine: (state, event, now) -> actions. No clock, no network, no randomness.
//!
//! [`Core::handle`] takes up events: it counts pods where they are, and takes back the slots that
//! have become void. [`Core::step`] decides what starts, so a burst of events costs one pass. The
//! modules:
//!
//! Entrance and exit: `event`, `action`, `settings`; `in_flight` has the writes without an answer.
//!
//! Owners of the state, in the order of the fields of [`Core`]:
//! - `intake`: the first lists, and pods of ours that have no job yet
//! - `jobs`: jobs and their pods, with all that can be said from these alone; `labelled` finds jobs
//!   that wait by the labels of their pods
//! - `records`: FluxJobs as last seen, and the promises in them
//! - `occupancy`: pods of other schedulers, pods by node, and nodes in doubt; `taken`, the
//!   allocations of these pods and of jobs
//! - `agenda`: the work to be done next; `timers`, when; `outbox`, the Bindings that may leave;
//!   `sound`, how work on a job or pod ended
//!
//! Parts, in the order in which they may call each other (`parts`): each is a folder.
//! - `sight`: questions that most parts ask
//! - `queueing`: jobs in their queues, and quotas
//! - `notices`: conditions and Events
//! - `promise_keeping`: the causes of delayed promises, and reports of the delays
//! - `telling`: why something waits, and at which place
//! - `slots`: slots given to pods, planned, and taken back
//! - `record_order`: starts that rest on promises wait until these are on record
//! - `binding`: from a slot to a Binding: gates, volumes, nominations, and refusals
//! - `members`: pods as they come, change and go
//! - `stand_ins`: places for the pods of suspended Jobs
//! - `recovery`: the same jobs again after a restart
//! - `recording`: FluxJobs written and read
//! - `refresh`: a look at each job that has changed
//! - `nodes`: nodes as they come, change and go
//! - `lookahead`: the expected starts of waiting requests
//!
//! The cycle (`cycle`): the core itself, where it sees all of its parts. `asking` has the requests
//! of jobs that wait, as the plan asks for them.
//!
//! The queue, the plan and promises are [`fluxqueue_planner`]'s, nodes and the resource graph
//! [`fluxqueue_machine`]'s.
//!
//! The rules that hold after every step are in docs/internals/simulation.md, and are checked by the
//! simulation.

mod action;
mod agenda;
mod asking;
mod backoff;
mod binding;
mod cycle;
mod error;
mod event;
mod in_flight;
mod intake;
mod jobs;
mod labelled;
mod lookahead;
mod members;
mod nodes;
mod notices;
mod occupancy;
mod outbox;
mod parts;
mod promise_keeping;
mod queueing;
mod record_order;
mod recording;
mod records;
mod recovery;
mod refresh;
#[cfg(test)]
mod scenarios;
mod settings;
mod sight;
mod slots;
mod sound;
mod stand_ins;
mod taken;
mod telling;
mod timers;

pub use action::{Action, ActionId, ActionKind, EventKind, Note, Subject, Urgency, Write};
pub use cycle::Core;
pub use cycle::what_if::{Answer, Delayed, Later, Preview, Submitted, Verdict, WhatIf};
pub use error::CoreError;
pub use event::{BindOutcome, Event, Outcome, WriteOutcome};
pub use fluxqueue_machine::NodePolicy;
pub use fluxqueue_planner::plan::QueuePolicy;
pub use settings::CoreSettings;
pub use telling::outlook::{NodeOutlook, Outlook};
pub use telling::report;
