//! `fluxqueue simulate`: the same core in virtual time.
//!
//! A trace of jobs ([`swf`]), or manifests, are run on nodes that do not exist, and what came of it
//! is shown: as a [`report`], as a table of starts and ends, as a [`gantt`] chart. Who starts when,
//! and where, is the core's decision; what is added here is the time, which passes at once where
//! nothing happens.
//!
//! - [`swf`]: reads a trace
//! - [`machine`]: runs the jobs of a trace, each on so many whole nodes
//! - [`world`]: runs manifests, on the whole core and a perfect API server ([`server`])
//! - [`report`]: what came of it, as numbers
//! - [`output`]: as text; [`gantt`]: as a picture
//! - [`progress`]: that it goes on, for who watches

pub mod gantt;
pub mod machine;
mod manifests;
pub mod output;
pub mod progress;
pub mod report;
pub mod server;
pub mod swf;
pub mod world;

use std::ops::RangeInclusive;
use std::sync::Arc;

use fluxqueue_core::{CoreSettings, NodePolicy, QueuePolicy};
use fluxqueue_workload::NodeName;

/// What the core is told: it takes the lowest-numbered nodes that will do, only the number of
/// reservations is limited, and what is decided has its effect at once.
pub fn settings(policy: QueuePolicy, reservation_depth: Option<usize>) -> CoreSettings {
    let default = CoreSettings::default();
    CoreSettings {
        node_policy: NodePolicy::LoNode,
        queue_policy: policy,
        queue_depth: usize::MAX,
        reservation_depth: reservation_depth.unwrap_or(default.reservation_depth),
        // One person reads all of it.
        names_across_namespaces: true,
        // Nobody comes while it plans.
        questions_per_slice: u64::MAX,
        start_slack_secs: 0,
        end_slack_secs: 0,
        ..default
    }
}

/// What came of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What was simulated, for titles.
    pub title: String,
    /// Who may start before whom, for titles.
    pub policy: String,
    /// How many nodes there were.
    pub nodes: u32,
    /// Their names, if they have any.
    pub node_names: Vec<NodeName>,
    /// Jobs that ran, in the order in which they are shown.
    pub ran: Vec<Ran>,
    /// Jobs that did not.
    pub skipped: Vec<Skipped>,
    /// What was left out besides, in words.
    pub remarks: Vec<String>,
}

/// A job that ran. Times are seconds from the beginning of the trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// Its number or name.
    pub job: Arc<str>,
    /// When it came.
    pub submit: u64,
    /// When it started.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// On which nodes, ascending; runs of them as ranges.
    pub nodes: Vec<RangeInclusive<u32>>,
    /// How much of the machine that was, over time: a whole node for a second is 1.
    pub node_seconds: f64,
}

/// A job that did not run, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its number or name.
    pub job: Arc<str>,
    /// Why.
    pub reason: String,
}

// === impl Ran ===

impl Ran {
    /// How long it waited.
    pub fn wait(&self) -> u64 {
        self.start - self.submit
    }

    /// How long it ran.
    pub fn run(&self) -> u64 {
        self.end - self.start
    }

    /// How many nodes it had.
    pub fn node_count(&self) -> u32 {
        self.nodes.iter().map(|range| range.end() - range.start() + 1).sum()
    }
}

/// The queue policy, for titles.
pub fn policy_name(settings: &CoreSettings) -> String {
    match settings.queue_policy {
        QueuePolicy::Hybrid => format!("hybrid with {} reservations", settings.reservation_depth),
        policy => policy.as_str().to_owned(),
    }
}

/// Ascending numbers as ranges.
fn ranges(numbers: impl IntoIterator<Item = u32>) -> Vec<RangeInclusive<u32>> {
    let mut ranges: Vec<RangeInclusive<u32>> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some(last) if *last.end() >= number => {}
            Some(last) if last.end() + 1 == number => *last = *last.start()..=number,
            _ => ranges.push(number..=number),
        }
    }
    ranges
}
