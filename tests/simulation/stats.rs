//! Counts of the events of a run, which show whether every rule was put to the test.

use std::collections::BTreeMap;

/// Counts by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stats(BTreeMap<&'static str, u64>);

/// Events that every full run must have met at least once.
pub(crate) const MUST_HAPPEN: [&str; 56] = [
    "Binding: bound",
    "Binding: bound elsewhere",
    "Binding: pod being deleted",
    "Binding: pod gone",
    "FluxJob deleted by hand",
    "FluxJob held by hand",
    "FluxJob priority edited by hand",
    "Job failed",
    "Job finished",
    "Job let go past us",
    "Job made again under its name",
    "Job resumed",
    "Job suspended",
    "Job that was let go suspended again",
    "Job that waits without pods submitted",
    "answer of a Binding lost",
    "answer of a write lost",
    "bare group submitted",
    "contradicting group submitted",
    "crash",
    "crash with a half-bound gang",
    "foreign gate removed",
    "foreign pod nominated",
    "foreign pod refused by its kubelet",
    "gang of several shapes waits",
    "gang placement written",
    "group of several roles submitted",
    "half-bound gang left to a successor",
    "head of the queue would have to be checked",
    "lone pod bound beside a pass under way",
    "lone pod without a FluxJob",
    "member of a gang that starts deleted",
    "node cordoned",
    "node joined",
    "node relabelled",
    "node left",
    "node not ready",
    "node of a gang that starts changed",
    "node resized",
    "nomination taken back",
    "our pod refused by its kubelet",
    "owner deleted",
    "pod bound to a node that is gone",
    "pods come out other than their template",
    "pod name reused",
    "pod that stops has ended",
    "pod that asks for its node alone submitted",
    "quiescence reached",
    "quiet restart",
    "quiet restart beside jobs that wait",
    "release of a Job asked for",
    "room of a gang that starts taken",
    "service pod replaced",
    "too few pods can be made",
    "whole node filled again",
    "write of a dead process took effect",
];

impl Stats {
    /// Counts one more of these.
    pub(crate) fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    /// Adds to the count of these.
    pub(crate) fn add(&mut self, what: &'static str, count: u64) {
        *self.0.entry(what).or_default() += count;
    }

    /// Adds the counts of another run.
    pub(crate) fn merge(&mut self, other: &Stats) {
        other.0.iter().for_each(|(what, count)| self.add(what, *count));
    }

    /// Returns the count of these.
    pub(crate) fn get(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// Fails with the names of the events that should have happened and never did.
    pub(crate) fn has_met(&self, must_happen: &[&str]) -> Result<(), String> {
        let missing: Vec<&&str> = must_happen.iter().filter(|what| self.get(what) == 0).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("never happened: {missing:?}")) }
    }

    /// Returns one line for each count.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(what, count)| format!("{count:>9}  {what}"))
    }
}
