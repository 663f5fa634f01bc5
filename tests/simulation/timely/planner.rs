//! A naive planner: the amounts of each node, the amounts taken of it in each interval, and the
//! first second at which a job has room beside all of these.
//!
//! It tries every second at which something ends, and adds up the amounts at every second at which
//! something begins. It shares no code with the core. It is exact where no two pods of a job fit on
//! one node, because it ignores how many pods of a job are on which node.

use std::collections::{BTreeMap, BTreeSet};

use fluxqueue_workload::NodeName;

/// The end of an interval that has none.
pub(crate) const NEVER: i64 = i64::MAX;

/// Amounts that a pod requests, or a node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub(crate) cpu: u64,
    pub(crate) memory: u64,
}

/// Amounts taken of each of these nodes, from one second until before another.
#[derive(Debug, Clone)]
pub(crate) struct Interval {
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) nodes: BTreeSet<NodeName>,
    pub(crate) amounts: Amounts,
    /// True if it counts against the limit of the queue.
    pub(crate) counts: bool,
}

/// The request of a job: this number of pods, each on another of these nodes.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) pods: usize,
    pub(crate) amounts: Amounts,
    pub(crate) nodes: BTreeSet<NodeName>,
    /// Duration in seconds; `None` if it is unknown.
    pub(crate) seconds: Option<i64>,
}

/// The nodes, and all known intervals on them.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) now: i64,
    pub(crate) nodes: BTreeMap<NodeName, Amounts>,
    pub(crate) intervals: Vec<Interval>,
    /// Most CPU that all jobs of the queue may have at a time.
    pub(crate) cpu_max: Option<u64>,
}

impl Plan {
    /// Returns the first second, from now on, at which a job has room. Only now and the ends of
    /// others can be that second: at any other, the same nodes were free just before.
    pub(crate) fn earliest(&self, ask: &Ask) -> Option<i64> {
        let ends =
            self.intervals.iter().map(|it| it.to).filter(|end| (self.now + 1..NEVER).contains(end));
        let starts: BTreeSet<i64> = ends.chain([self.now]).collect();
        starts.into_iter().find(|start| self.has_room(*start, ask))
    }

    /// True if there is room from this second on, for as long as requested.
    pub(crate) fn has_room(&self, start: i64, ask: &Ask) -> bool {
        let end = ask.seconds.map_or(NEVER, |seconds| start + seconds);
        let begins =
            self.intervals.iter().map(|it| it.from).filter(|from| (start + 1..end).contains(from));
        let seconds: BTreeSet<i64> = begins.chain([start]).collect();
        let fits = |node: &&NodeName| seconds.iter().all(|at| self.fits(node, *at, ask.amounts));
        ask.nodes.iter().filter(fits).count() >= ask.pods
            && seconds.iter().all(|at| self.is_allowed(*at, ask))
    }

    /// True if a pod fits on the node at this second.
    fn fits(&self, node: &NodeName, at: i64, amounts: Amounts) -> bool {
        let Some(has) = self.nodes.get(node) else { return false };
        let there = || self.at(at).filter(|it| it.nodes.contains(node)).map(|it| it.amounts);
        let cpu: u64 = there().map(|it| it.cpu).sum();
        let memory: u64 = there().map(|it| it.memory).sum();
        cpu + amounts.cpu <= has.cpu && memory + amounts.memory <= has.memory
    }

    /// True if the queue may have this request more at this second.
    fn is_allowed(&self, at: i64, ask: &Ask) -> bool {
        let counted = self.at(at).filter(|it| it.counts);
        let cpu: u64 = counted.map(|it| it.amounts.cpu * it.nodes.len() as u64).sum();
        self.cpu_max.is_none_or(|most| cpu + ask.amounts.cpu * ask.pods as u64 <= most)
    }

    fn at(&self, second: i64) -> impl Iterator<Item = &Interval> {
        self.intervals.iter().filter(move |it| it.from <= second && second < it.to)
    }
}
