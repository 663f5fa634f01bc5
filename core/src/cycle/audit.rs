//! The audit: do the accounts of what is taken of the nodes still say what the pods say?
//!
//! The resource graph and `cluster` are kept in step with what happens, one change at a time. Here
//! what is taken of a node is added up from what there is: pods on it, pods that have a slot on it,
//! slots that are retained. Nothing of the code that keeps the accounts is used for that, so that a
//! mistake in it shows. Some nodes are looked at at a time, and some jobs: whether they contradict
//! themselves (`consistency`).

use std::ops::Bound;
use std::sync::Arc;

use fluxion_sys::FunctionTable;

use crate::Core;
use crate::cycle::consistency::Seen;
use crate::jobs::job::Member;
use crate::jobs::registry::Jobs;
use crate::jobs::stage::Stage;
use crate::occupancy::Occupancy;
use crate::timers::Timer;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{NodeName, Pod, Resources, Shape, Time};

/// In how much time all nodes and jobs are looked at once, unless there are too many for that; how
/// many at a time, and the least pause between two looks: it takes a thousandth of the time or so.
pub(crate) const ROUND_MILLIS: i64 = 10_000;
const AT_ONCE: usize = 16;
const PAUSE_MILLIS: i64 = 500;

/// Pods of these jobs that are looked at at a time: a microsecond or two each where many are there.
const PODS_AT_ONCE: usize = 1_024;

/// Where looks follow each other as soon as they may, each is taken in so many parts: who comes
/// meanwhile waits for one of them.
const PARTS: u8 = 4;

/// A slot that is retained, and where.
type Retained = (NodeName, Arc<Shape>);

/// How far the audit has come.
pub(crate) struct Audit {
    /// The library that makes the graph anew.
    pub library: FunctionTable,
    /// The last node that was looked at in this round, and the last job.
    last: Option<NodeName>,
    last_job: Option<JobId>,
    /// A job of more pods than are looked at at a time, and how far that has come.
    unfinished: Option<(JobId, Seen)>,
    /// How often it has looked at some.
    looks: u64,
    /// A job that contradicts itself may be rebuilt from this time on.
    pub makes_anew_from: Time,
}

impl Audit {
    /// Makes an audit that has looked at nothing yet.
    pub(crate) fn new(library: FunctionTable) -> Self {
        Audit {
            library,
            last: None,
            last_job: None,
            unfinished: None,
            looks: 0,
            makes_anew_from: Time(0),
        }
    }
}

impl Core {
    /// How many looks the audit has taken.
    pub fn audit_looks(&self) -> u64 {
        self.walks.audit.looks
    }

    /// Looks at some nodes and jobs. Where the accounts are wrong they are made anew; so is the
    /// graph when it is lost, or has seen too many nodes come and go.
    pub(crate) fn audit(&mut self) {
        self.walks.audit.looks += 1;
        let (at_once, pause_millis) = pace(self.planner.cluster.len().max(self.jobs.all.len()));
        let nodes: Vec<NodeName> = self
            .planner
            .cluster
            .names_after(self.walks.audit.last.as_ref())
            .take(at_once)
            .cloned()
            .collect();
        let retained = retained_on(&self.jobs, &nodes);
        let mut wrong = Vec::new();
        for node in &nodes {
            let differences = self.differences(node, &retained);
            for difference in &differences {
                tracing::error!(%node, %difference, "audit: an account of what is taken is wrong, and is made anew");
            }
            self.agenda.gauges.audit_differences += differences.len() as u64;
            if !differences.is_empty() {
                wrong.push(node.clone());
            }
        }
        for node in &wrong {
            self.count_anew(node, &retained);
        }
        if !wrong.is_empty() || self.planner.ledger.needs_rebuild(&self.planner.cluster) {
            self.rebuild_graph();
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

    /// What the two accounts of a node say otherwise than the pods.
    fn differences(&mut self, node: &NodeName, retained: &[Retained]) -> Vec<String> {
        let Some(rank) = self.planner.cluster.rank(node) else { return Vec::new() };
        let taken = taken(&self.jobs, &self.occupancy, node, retained);
        let mut differences = Vec::new();
        let mut compare = |account: &str, says: &Resources| {
            let mut both = taken.clone();
            both.add(says);
            for (resource, _) in both.iter().filter(|(name, _)| taken.get(name) != says.get(name)) {
                let (expected, found) = (taken.get(resource), says.get(resource));
                differences.push(format!("{resource}: {expected} by pods, {found} in {account}"));
            }
        };
        if let Some(used) = self.planner.cluster.used(rank).filter(|used| **used != taken) {
            compare("what Bindings are checked against", used);
        }
        if let Some(used) = self.planner.ledger.used_otherwise(rank, &taken) {
            compare("the resource graph", &used);
        }
        differences
    }

    /// Charges what is on a node without being charged, and counts what is used of it anew.
    fn count_anew(&mut self, node: &NodeName, retained: &[Retained]) {
        let Some(rank) = self.planner.cluster.rank(node) else { return };
        for uid in self.occupancy.by_node.listed(node) {
            let done = self.slots().settle(&uid);
            self.agenda.heed(done);
        }
        let taken = taken(&self.jobs, &self.occupancy, node, retained);
        self.planner.cluster.count_anew(rank, taken);
    }

    /// Makes the graph anew, with all that is charged to it.
    fn rebuild_graph(&mut self) {
        match self.settings.node_policy.graph(self.walks.audit.library) {
            Ok(graph) => {
                let mut members: Vec<&mut Member> = self.jobs.members.values_mut().collect();
                members.sort_unstable_by(|a, b| a.pod.id.uid.cmp(&b.pod.id.uid));
                let of_members =
                    members.into_iter().filter_map(|member| member.stage.allocation_mut());
                let of_others = self
                    .occupancy
                    .foreign
                    .values_mut()
                    .filter_map(|foreign| foreign.allocation.as_mut());
                let retained = self.jobs.all.values_mut().flat_map(|job| {
                    job.retained.iter_mut().map(|retained| &mut retained.allocation)
                });
                self.planner.ledger.rebuild(
                    graph,
                    self.clock.now,
                    &mut self.planner.cluster,
                    of_members.chain(of_others).chain(retained),
                );
                self.planner.promises.unbook_all();
                self.agenda.queue_changed = true;
            }
            Err(error) => {
                tracing::error!(%error, "audit: the resource graph could not be made anew");
            }
        }
    }
}

/// How many are looked at at a time, of so many nodes or jobs, and the pause until the next look.
fn pace(of: usize) -> (usize, i64) {
    let looks = i64::try_from(of.div_ceil(AT_ONCE).max(1)).unwrap_or(i64::MAX);
    match ROUND_MILLIS / looks {
        pause if pause >= PAUSE_MILLIS => (AT_ONCE, pause),
        _ => (AT_ONCE / usize::from(PARTS), PAUSE_MILLIS / i64::from(PARTS)),
    }
}

/// A pod that others placed takes this node, or is about to.
fn is_there(pod: &Pod, node: &NodeName) -> bool {
    !pod.phase.is_terminal() && pod.node.as_ref().or(pod.nominated.as_ref()) == Some(node)
}

/// Slots on these nodes that wait for the next pods of their jobs.
fn retained_on(jobs: &Jobs, nodes: &[NodeName]) -> Vec<Retained> {
    let jobs = jobs.retaining.iter().filter_map(|id| jobs.all.get(id));
    let slots = jobs.flat_map(|job| &job.retained).map(|slot| &slot.allocation);
    let there = slots.filter(|allocation| nodes.contains(&allocation.node));
    there.map(|allocation| (allocation.node.clone(), Arc::clone(&allocation.shape))).collect()
}

/// What is taken of a node by all that is on it or has a slot there.
fn taken(jobs: &Jobs, occupancy: &Occupancy, node: &NodeName, retained: &[Retained]) -> Resources {
    let mut taken = Resources::new();
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
            taken.add(&pod.shape.requests);
        }
    }
    retained.iter().filter(|(at, _)| at == node).for_each(|(_, shape)| taken.add(&shape.requests));
    taken
}
