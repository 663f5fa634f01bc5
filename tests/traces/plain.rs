//! A plain simulator of a trace over sets of nodes: what the core's starts are held against. It
//! shares nothing with the core.
//!
//! Time is whole seconds. Planned intervals are half-open: what ends at 10 is not in the way of
//! what begins at 10. At each instant at which something ends or comes, completions are taken up
//! first, then arrivals, and then there is one sweep over the queue, in order of submit time and
//! job number. Whoever is given nodes gets the lowest-numbered ones that will do.
//!
//! # Reservations
//!
//! A reservation is a start time and that many nodes, which are free for the job from then on for
//! all of its walltime. The *plan* is what runs, each until its walltime has passed, and all
//! reservations. A sweep comes to each job once:
//!
//! 1. Its reservation, if it has one, is withdrawn: the plan is all the others now, those of jobs
//!    *before and behind* it in the queue alike, as they stand at this moment of the sweep.
//! 2. The earliest instant, from now on, at which enough nodes are free for its walltime is found
//!    in that plan. Its old place is free, so this is never later than it was; it may lie in a gap
//!    between others, or before all of them.
//! 3. If that is now, it starts. Else, if it is among the first so many that are blocked, this is
//!    its reservation. What comes later in this sweep meets it there; what came earlier is not
//!    looked at again before the next sweep.
//!
//! So a job that is behind can move to an earlier place, or start, and so free a place for one
//! ahead of it: that one moves there with the next sweep. There is always one in time. Let the next
//! reservation be due at `t`. Of the last sweep that made it so, something ended at `t` by the
//! plan: it runs, and then it has ended by `t`, with a sweep; or it is a reservation, due before
//! `t`, which contradicts that `t` is the next; or it has moved to an earlier place since, for
//! which the same holds.

use std::collections::{BTreeMap, BTreeSet};

/// A job of a trace, as the simulator takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) number: u64,
    pub(crate) submit: u64,
    pub(crate) nodes: usize,
    /// What it says that it runs at most, and at which it is ended.
    pub(crate) walltime: u64,
    /// What it would run if nobody ended it.
    pub(crate) run: u64,
}

/// Who may start before whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// In order, strictly.
    Fcfs,
    /// The first so many blocked jobs hold reservations, and the others start only around these.
    /// One: EASY; all: conservative.
    Backfill(usize),
}

/// A part of the plan: these nodes from `start` until `end`.
#[derive(Debug, Clone)]
struct Interval {
    start: u64,
    end: u64,
    nodes: BTreeSet<usize>,
}

/// What became of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) nodes: BTreeSet<usize>,
    /// Starts that it was promised, in the order in which they were.
    pub(crate) promised: Vec<u64>,
}

/// Runs jobs on so many nodes until all have ended. Every one must fit, and run for a while.
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

/// The first instant from now on at which enough nodes are free in the plan for the job's walltime,
/// and the lowest-numbered of these. Only now and the ends of others come into question: at any
/// other instant, what is free was free just before.
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
