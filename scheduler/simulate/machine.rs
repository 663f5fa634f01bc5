//! Runs the jobs of a trace on equal nodes, each job on a number of whole nodes.
//!
//! A node has one unit, which a pod takes whole. At each instant at which a job ends or arrives,
//! completions are handled first, then arrivals, and then there is one sweep over the queue.
//! Arrivals are in order of submit time, job number and line.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use fluxion_sys::FunctionTable;
use fluxqueue_core::{CoreError, CoreSettings};
use fluxqueue_machine::cluster::{Node, Readiness};
use fluxqueue_planner::forward::{Ask, Began};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::constraints::Constraints;
use fluxqueue_workload::{
    Lifetime, NodeName, ObjectKey, ObjectRef, Pod, Resources, Shape, Time, Uid,
};

use super::progress::Progress;
use super::swf::Trace;
use super::{Ran, Skipped, ranges};

/// The resource of which each node has one unit.
const WHOLE: &str = "pods";

/// A job in the simulation. Times are seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Its number.
    pub number: u64,
    /// The time at which it is submitted.
    pub submit: u64,
    /// The number of whole nodes that it takes.
    pub nodes: u32,
    /// The longest time for which it says that it runs: after that it is ended.
    pub walltime: u64,
    /// The time for which it runs if it is not ended.
    pub run: u64,
}

impl Job {
    /// Returns the time for which it has its nodes.
    fn takes(&self) -> u64 {
        self.run.min(self.walltime)
    }

    fn ran(&self, start: u64, end: u64, ranks: Vec<u32>) -> Ran {
        // Exact, as long as it is below 2^53.
        #[allow(clippy::cast_precision_loss, reason = "for the report alone")]
        let node_seconds = f64::from(self.nodes) * (end - start) as f64;
        let job = Arc::from(self.number.to_string());
        Ran { job, submit: self.submit, start, end, nodes: ranges(ranks), node_seconds }
    }
}

/// Returns the jobs of a trace that can run on this number of nodes, and those that cannot.
pub fn jobs_for(trace: &Trace, nodes: u32) -> (Vec<Job>, Vec<Skipped>) {
    let (mut jobs, mut skipped) = (Vec::new(), Vec::new());
    for line in &trace.jobs {
        let mut skip = |reason: String| {
            skipped.push(Skipped { job: Arc::from(line.number.to_string()), reason });
        };
        let Some((run, walltime)) = line.run.zip(line.walltime) else {
            skip("its run time is not more than 0".to_owned());
            continue;
        };
        let Some(size) = line.size else {
            skip("its size is not more than 0".to_owned());
            continue;
        };
        let Some(submit) = line.submit else {
            skip("its submit time is less than 0".to_owned());
            continue;
        };
        match u32::try_from(size).ok().filter(|size| *size <= nodes) {
            Some(size) => {
                jobs.push(Job { number: line.number, submit, nodes: size, walltime, run });
            }
            None => skip(format!("it is larger than {nodes} nodes")),
        }
    }
    (jobs, skipped)
}

/// Runs jobs on this number of nodes until all have ended. The jobs must fit, and run for more than
/// 0 seconds. The result is in the order of job numbers; jobs with the same number, or with the
/// same submit time, keep the order in which they are given.
pub fn run(
    jobs: &[Job],
    nodes: u32,
    settings: &CoreSettings,
    library: FunctionTable,
    progress: &mut Progress,
) -> Result<Vec<Ran>, CoreError> {
    let mut order: Vec<(usize, &Job)> = jobs.iter().enumerate().collect();
    order.sort_by_key(|(given, job)| (job.submit, job.number, *given));
    let mut core = settings.forward(library, (0..nodes).map(node))?;
    let sample = Arc::new(pod(settings));
    let mut ends: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut ran: Vec<((u64, usize), Ran)> = Vec::with_capacity(jobs.len());
    let mut next = 0;
    loop {
        let arrival = order.get(next).map(|(_, job)| job.submit);
        let end = ends.peek().map(|Reverse((at, _))| *at);
        let Some(now) = arrival.into_iter().chain(end).min() else { break };
        while let Some(Reverse((_, at))) =
            ends.peek().copied().filter(|Reverse((end, _))| *end == now)
        {
            core.end(id(at));
            ends.pop();
        }
        while let Some((_, job)) = order.get(next).filter(|(_, job)| job.submit == now) {
            let ask = Ask {
                pods: job.nodes as usize,
                sample: Arc::clone(&sample),
                walltime: Lifetime::Seconds(job.walltime),
            };
            core.submit(id(next), time(now), 0, ask);
            next += 1;
        }
        for Began { job, ranks } in core.sweep(time(now)) {
            let at = place(job);
            let (given, job) = order[at];
            let end = now + job.takes();
            ends.push(Reverse((end, at)));
            ran.push(((job.number, given), job.ran(now, end, ranks)));
        }
        progress.show(ran.len(), jobs.len());
    }
    progress.clear();
    ran.sort_by_key(|(place, _)| *place);
    Ok(ran.into_iter().map(|(_, ran)| ran).collect())
}

/// Returns the number of a job: its place in the order of arrival.
fn id(place: usize) -> JobId {
    JobId::from(place as u64 + 1)
}

fn place(id: JobId) -> usize {
    usize::try_from(id.number() - 1).unwrap_or(usize::MAX)
}

fn time(seconds: u64) -> Time {
    Time::from_seconds(i64::try_from(seconds).unwrap_or(i64::MAX))
}

fn node(number: u32) -> Node {
    let name = NodeName::from(format!("node-{number}"));
    Node {
        uid: Uid::from(&*name),
        name,
        allocatable: [(WHOLE, 1)].into_iter().collect(),
        labels: Vec::new(),
        taints: Vec::new(),
        unschedulable: false,
        readiness: Readiness::Ready,
        declared_features: Vec::new(),
    }
}

/// Returns the form of every pod of a trace.
fn pod(settings: &CoreSettings) -> Pod {
    let requests: Resources = [(WHOLE, 1)].into_iter().collect();
    let id = ObjectRef { key: ObjectKey::new("simulation", "pod"), uid: Uid::from("pod") };
    let scheduler =
        settings.scheduler_names.first().cloned().unwrap_or_else(|| Arc::from("fluxqueue"));
    Pod::waiting(id, scheduler, Arc::new(Shape { requests, constraints: Constraints::default() }))
}
