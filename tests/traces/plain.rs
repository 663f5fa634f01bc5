//! A plain simulator of a trace over sets of nodes. The starts of the core are compared with its
//! own. It shares no code with the core.
//!
//! Time is in whole seconds. Planned intervals are half-open: one that ends at 10 does not overlap
//! one that begins at 10. At each instant with an end or an arrival, completions are taken up first
//! and arrivals next. Then one sweep goes over the queue, in order of submit time and job number. A
//! job gets the lowest-numbered nodes that will do.
//!
//! # Reservations
//!
//! A reservation is a start time with the nodes of the job, which are free for it from then on for
//! all of its walltime. The *plan* consists of the running jobs, each until its walltime has
//! passed, and of all reservations. A sweep visits each job once:
//!
//! 1. The job's reservation, if it has one, is withdrawn. The plan then consists of all others:
//!    those of jobs *before and behind* it in the queue alike, as they stand at this moment of the
//!    sweep.
//! 2. The earliest instant, from now on, at which enough nodes are free for the walltime is
//!    searched in that plan. The job's old place is free, so this instant is never later than the
//!    old one. It may lie in a gap between others, or before all of them.
//! 3. If that instant is now, the job starts. Otherwise, if the job is within the policy's number
//!    of blocked jobs, this is its reservation. Jobs that come later in this sweep meet it there;
//!    jobs that came earlier are not visited again before the next sweep.
//!
//! So a job further behind can move to an earlier place, or start, and thereby free a place for a
//! job ahead of it, which moves there in the next sweep. There is always a sweep in time. Let the
//! next reservation be due at `t`. The last sweep that placed it there did so because something
//! ends at `t` by the plan. Either that is a running job, which has then ended by `t`, with a
//! sweep; or it is a reservation, due before `t`, which contradicts that `t` is the next; or it has
//! moved to an earlier place since, for which the same holds.

use std::collections::{BTreeMap, BTreeSet};

/// A job of a trace in the simulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) number: u64,
    pub(crate) submit: u64,
    pub(crate) nodes: usize,
    /// Longest run time of the job, at which it is ended.
    pub(crate) walltime: u64,
    /// Run time of the job if it were never ended.
    pub(crate) run: u64,
}

/// The order in which jobs may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// In queue order, strictly.
    Fcfs,
    /// This number of blocked jobs, the first ones, hold reservations, and the others start only
    /// around these. With 1 it is EASY, with all jobs conservative backfill.
    Backfill(usize),
}

/// A part of the plan: these nodes from `start` until `end`.
#[derive(Debug, Clone)]
struct Interval {
    start: u64,
    end: u64,
    nodes: BTreeSet<usize>,
}

/// The outcome of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) nodes: BTreeSet<usize>,
    /// Starts that the job was promised, in the order of the promises.
    pub(crate) promised: Vec<u64>,
}

/// Runs jobs on this number of nodes until all have ended. Every job must fit, and run for at least
/// a second.
pub(crate) fn run(jobs: &[Job], nodes: usize, policy: Policy) -> BTreeMap<u64, Ran> {
    let mut arrivals: Vec<Job> = jobs.to_vec();
    arrivals.sort_by_key(|job| (job.submit, job.number));
    let mut queue: Vec<Job> = Vec::new();
    let mut running: BTreeMap<u64, Interval> = BTreeMap::new();
    let mut reserved: BTreeMap<u64, Interval> = BTreeMap::new();
    let mut ran: BTreeMap<u64, Ran> = BTreeMap::new();
    let mut promised: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    while ran.len() < jobs.len() || !running.is_empty() {
        let ends = running.keys().map(|number| ran[number].end);
        let now = ends
            .chain(arrivals.first().map(|job| job.submit))
            .min()
            .expect("a job that fits starts one day");
        running.retain(|number, _| ran[number].end > now);
        let come = arrivals.partition_point(|job| job.submit == now);
        queue.extend(arrivals.drain(..come));

        let mut blocked = 0;
        for job in std::mem::take(&mut queue) {
            reserved.remove(&job.number);
            let is_shut = policy == Policy::Fcfs && blocked > 0;
            let plan: Vec<&Interval> = running.values().chain(reserved.values()).collect();
            let place = earliest(&job, now, nodes, &plan);
            if place.start == now && !is_shut {
                let promised = promised.remove(&job.number).unwrap_or_default();
                let end = now + job.run.min(job.walltime);
                ran.insert(
                    job.number,
                    Ran { start: now, end, nodes: place.nodes.clone(), promised },
                );
                running.insert(job.number, place);
                continue;
            }
            if matches!(policy, Policy::Backfill(depth) if blocked < depth) {
                promised.entry(job.number).or_default().push(place.start);
                reserved.insert(job.number, place);
            }
            blocked += 1;
            queue.push(job);
        }
    }
    ran
}

/// Finds the first instant from now on at which enough nodes are free in the plan for the job's
/// walltime, and takes the lowest-numbered of these. Only now and the ends of others can be that
/// instant: at any other instant, the same nodes were free just before.
fn earliest(job: &Job, now: u64, nodes: usize, plan: &[&Interval]) -> Interval {
    let mut starts: Vec<u64> =
        plan.iter().map(|other| other.end).filter(|end| *end > now).collect();
    starts.push(now);
    starts.sort_unstable();
    for start in starts {
        let end = start + job.walltime;
        let taken = |node: &usize| {
            plan.iter()
                .any(|other| other.start < end && start < other.end && other.nodes.contains(node))
        };
        let free: BTreeSet<usize> =
            (0..nodes).filter(|node| !taken(node)).take(job.nodes).collect();
        if free.len() == job.nodes {
            return Interval { start, end, nodes: free };
        }
    }
    unreachable!("after all others have ended every node is free")
}
