//! `fluxqueue simulate`: the same core in virtual time.
//!
//! A trace of jobs ([`swf`]), or manifests, are run on nodes that do not exist, and the outcome is
//! shown as a [`report`], as a table of starts and ends, or as a [`gantt`] chart. The core decides
//! which job starts when and where; this module adds the time, which passes at once where nothing
//! happens.
//!
//! - [`swf`]: reads a trace
//! - [`machine`]: runs the jobs of a trace, each on a number of whole nodes
//! - [`world`]: runs manifests, on the whole core and a perfect API server ([`server`])
//! - [`report`]: the outcome as numbers
//! - [`output`]: as text; [`gantt`]: as a picture
//! - [`progress`]: shows people that the simulation goes on

pub mod duration;
mod gantt;
mod groups;
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

/// Returns the settings of the core: it takes the lowest-numbered nodes that fit, only the number
/// of reservations is limited, and every decision takes effect at once.
pub fn settings(policy: QueuePolicy, reservation_depth: Option<usize>) -> CoreSettings {
    let default = CoreSettings::default();
    CoreSettings {
        node_policy: NodePolicy::LoNode,
        queue_policy: policy,
        queue_depth: usize::MAX,
        reservation_depth: reservation_depth.unwrap_or(default.reservation_depth),
        // One person reads all texts.
        names_across_namespaces: true,
        // No event arrives while it plans.
        questions_per_slice: u64::MAX,
        start_slack_secs: 0,
        end_slack_secs: 0,
        ..default
    }
}

/// The outcome of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The title of the simulation.
    pub title: String,
    /// The queue policy, for titles.
    pub policy: String,
    /// The number of nodes.
    pub nodes: u32,
    /// Their names, if they have any.
    pub node_names: Vec<NodeName>,
    /// Jobs that ran, in the order in which they are shown.
    pub ran: Vec<Ran>,
    /// Jobs that did not run.
    pub skipped: Vec<Skipped>,
    /// Remarks about other things that were left out.
    pub remarks: Vec<String>,
}

/// A job that ran. Times are seconds from the beginning of the trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// Its number or name.
    pub job: Arc<str>,
    /// The time at which it was submitted.
    pub submit: u64,
    /// The time at which it started.
    pub start: u64,
    /// The time at which it ended.
    pub end: u64,
    /// Its nodes, ascending; runs of them as ranges.
    pub nodes: Vec<RangeInclusive<u32>>,
    /// Its share of the machine, over time: a whole node for a second is 1.
    pub node_seconds: f64,
}

/// A job that did not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its number or name.
    pub job: Arc<str>,
    /// The reason.
    pub reason: String,
}

// === impl Ran ===

impl Ran {
    /// Returns how long it waited.
    pub fn wait(&self) -> u64 {
        self.start - self.submit
    }

    /// Returns how long it ran.
    pub fn run(&self) -> u64 {
        self.end - self.start
    }

    /// Returns how many nodes it had.
    pub fn node_count(&self) -> u32 {
        self.nodes.iter().map(|range| range.end() - range.start() + 1).sum()
    }
}

/// Returns the queue policy, for titles.
pub fn policy_name(settings: &CoreSettings) -> String {
    match settings.queue_policy {
        QueuePolicy::Hybrid => {
            format!("hybrid with {}", counted(settings.reservation_depth, "reservation"))
        }
        policy => policy.as_str().to_owned(),
    }
}

/// Returns a number with its noun, such as `1 job` or `2 jobs`.
fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns ascending numbers as ranges.
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
