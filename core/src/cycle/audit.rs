//! The audit: checks that the accounts of node resources still agree with the pods.
//!
//! The resource graph and `cluster` follow events, one change at a time. The audit instead collects
//! the slots of a node from scratch: those of the pods on it, of the pods that are to come, and the
//! retained ones. Each rule with an account adds these up, without the code that keeps the account,
//! so that a mistake in that code shows. Each look covers a few nodes, and a few jobs, which are
//! checked for contradictions (`consistency`).

use std::ops::Bound;
use std::sync::Arc;

use crate::cycle::Core;
use crate::cycle::walks::Seen;
use crate::jobs::registry::Jobs;
use crate::jobs::stage::Stage;
use crate::occupancy::Occupancy;
use crate::taken;
use crate::timers::Timer;
use fluxqueue_machine::rules;
use fluxqueue_workload::{NodeName, Pod, Shape};

/// The time in milliseconds in which the audit visits all nodes and jobs once, unless there are too
/// many of them; the number of them per look; and the least pause between two looks. A look takes
/// about a thousandth of that time.
pub(crate) const ROUND_MILLIS: i64 = 10_000;
const AT_ONCE: usize = 16;
const PAUSE_MILLIS: i64 = 500;

/// Most pods of jobs that one look visits: each takes a microsecond or two when a job has many.
const PODS_AT_ONCE: usize = 1_024;

/// The number of parts into which each look is split when looks follow each other as fast as they
/// may. Events that arrive meanwhile wait for one part only.
const PARTS: u8 = 4;

/// A retained slot: its node, and the shape of its pod.
type Retained = (NodeName, Arc<Shape>);

impl Core {
    /// Returns the number of looks that the audit has taken.
    pub fn audit_looks(&self) -> u64 {
        self.walks.audit.looks
    }

    /// Checks some nodes and jobs, and corrects the accounts that are wrong. Rebuilds the graph if
    /// an account was wrong, if the graph is lost, or if too many nodes have come and gone since it
    /// was built.
    pub(crate) fn audit(&mut self) {
        self.walks.audit.looks += 1;
        let (at_once, pause_millis) =
            pace(self.planner.cluster.nodes().len().max(self.jobs.all.len()));
        let nodes: Vec<NodeName> = self
            .planner
            .cluster
            .nodes()
            .names_after(self.walks.audit.last.as_ref())
            .take(at_once)
            .cloned()
            .collect();
        let retained = retained_on(&self.jobs, &nodes);
        let mut wrong = Vec::new();
        for node in &nodes {
            let differences = self.differences(node, &retained);
            for difference in &differences {
                tracing::error!(%node, %difference, "audit: an account of this node is wrong, and \
                    is counted again");
            }
            self.agenda.gauges.audit_differences += differences.len() as u64;
            if !differences.is_empty() {
                wrong.push(node.clone());
            }
        }
        for node in &wrong {
            self.charge_pods(node);
        }
        if !wrong.is_empty() || self.planner.ledger.needs_rebuild(&self.planner.cluster) {
            self.rebuild_graph();
        }
        for node in &wrong {
            if let Some(rank) = self.planner.cluster.rank(node) {
                let there = there(&self.jobs, &self.occupancy, node, &retained);
                rules::recount(&mut self.planner.cluster, rank, &there);
            }
        }
        self.audit_jobs(at_once);
        self.walks.audit.last = nodes.last().filter(|_| nodes.len() == at_once).cloned();
        self.agenda.timers.wake(Timer::Audit, self.clock.now.plus_millis(pause_millis));
    }

    fn audit_jobs(&mut self, at_once: usize) {
        let mut pods_left = PODS_AT_ONCE;
        for _ in 0..at_once {
            let (id, seen) = match self.walks.audit.unfinished.take() {
                Some(unfinished) => unfinished,
                None => {
                    let from = self.walks.audit.last_job.map_or(Bound::Unbounded, Bound::Excluded);
                    let next =
                        self.jobs.all.range((from, Bound::Unbounded)).next().map(|(id, _)| *id);
                    self.walks.audit.last_job = next;
                    // All jobs have been looked at.
                    let Some(next) = next else { return };
                    (next, Seen::default())
                }
            };
            let (looked_at, rest) = self.mend_contradiction(id, seen, pods_left);
            self.walks.audit.unfinished = rest.map(|rest| (id, rest));
            pods_left -= looked_at;
            if pods_left == 0 {
                return;
            }
        }
    }

    /// Returns the differences between the accounts of a node and its pods.
    fn differences(&mut self, node: &NodeName, retained: &[Retained]) -> Vec<String> {
        let Some(rank) = self.planner.cluster.rank(node) else { return Vec::new() };
        let there = there(&self.jobs, &self.occupancy, node, retained);
        rules::differences(&mut self.planner.site(), rank, &there)
    }

    /// Charges pods that are on a node without being charged.
    fn charge_pods(&mut self, node: &NodeName) {
        for uid in self.occupancy.by_node.listed(node) {
            let done = self.slots().settle(&uid);
            self.agenda.heed(done);
        }
    }

    /// Rebuilds the graph, with everything that is charged to it.
    fn rebuild_graph(&mut self) {
        match self.settings.graph(self.walks.audit.library) {
            Ok(graph) => {
                self.planner.ledger.rebuild(
                    graph,
                    self.clock.now,
                    &mut self.planner.cluster,
                    taken::each_mut(&mut self.jobs, &mut self.occupancy),
                );
                self.planner.promises.unbook_all();
                self.agenda.queue_changed = true;
            }
            Err(error) => {
                tracing::error!(%error, "audit: the resource graph could not be rebuilt");
            }
        }
    }
}

/// Returns the number of nodes or jobs per look, and the pause until the next look in milliseconds,
/// for a total of `of`.
fn pace(of: usize) -> (usize, i64) {
    let looks = i64::try_from(of.div_ceil(AT_ONCE).max(1)).unwrap_or(i64::MAX);
    match ROUND_MILLIS / looks {
        pause if pause >= PAUSE_MILLIS => (AT_ONCE, pause),
        _ => (AT_ONCE / usize::from(PARTS), PAUSE_MILLIS / i64::from(PARTS)),
    }
}

/// True if a pod placed by another scheduler takes this node, or is about to.
fn is_there(pod: &Pod, node: &NodeName) -> bool {
    !pod.phase.is_terminal() && pod.node.as_ref().or(pod.nominated.as_ref()) == Some(node)
}

/// Returns the slots on these nodes that wait for the next pods of their jobs.
fn retained_on(jobs: &Jobs, nodes: &[NodeName]) -> Vec<Retained> {
    let jobs = jobs.retaining.iter().filter_map(|id| jobs.all.get(id));
    let slots = jobs.flat_map(|job| &job.start.retained).map(|slot| &slot.allocation);
    let there = slots.filter(|allocation| nodes.contains(&allocation.node));
    there.map(|allocation| (allocation.node.clone(), Arc::clone(&allocation.shape))).collect()
}

/// Returns the shapes of all slots that are taken of a node: by pods on it, by pods with a slot
/// there, and by retained slots.
fn there(
    jobs: &Jobs,
    occupancy: &Occupancy,
    node: &NodeName,
    retained: &[Retained],
) -> Vec<Arc<Shape>> {
    let of_node = retained.iter().filter(|(at, _)| at == node);
    let mut there: Vec<Arc<Shape>> = of_node.map(|(_, shape)| Arc::clone(shape)).collect();
    for uid in occupancy.by_node.each(node) {
        let pod = match (occupancy.foreign.get(uid), jobs.members.get(uid)) {
            (Some(foreign), _) => Some(&foreign.pod).filter(|pod| is_there(pod, node)),
            (None, Some(member)) => {
                let on_the_way =
                    || member.allocation().is_some_and(|allocation| allocation.node == *node);
                let counts = match (&member.pod.node, &member.stage) {
                    (_, Stage::Ended) => false,
                    (Some(there), _) => there == node,
                    (None, _) => on_the_way(),
                };
                Some(&member.pod).filter(|_| counts)
            }
            (None, None) => None,
        };
        if let Some(pod) = pod {
            there.push(Arc::clone(&pod.shape));
        }
    }
    there
}
