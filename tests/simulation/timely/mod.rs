//! Worlds in which a naive planner computes every promise exactly: the job, the time, and the cause
//! of a delay.
//!
//! Nothing is late or lost here, everything happens at whole seconds, and after each event enough
//! time passes for everything to come to rest. Pods request CPU and memory, and may select a zone;
//! no two pods of a gang fit on one node, or may share one. In every other world there are also
//! pods, ours and another scheduler's, that keep those with some label off their node or zone, and
//! pods of ours of which no two of any job share a node; there are no other constraints. Our pods
//! have walltimes; the ends of another scheduler's pods may be unknown. There is one queue, with or
//! without a limit on CPU, under EASY, hybrid or conservative backfill. Pods end early, on time,
//! late, or without a planned end; nodes come, go, shrink and are cordoned; another scheduler takes
//! room; users change their minds; the process is replaced, at rest or between any two of its
//! writes.
//!
//! - [`planner`]: the naive planner
//! - [`world`]: the events
//! - [`judge`]: the rules

mod judge;
mod planner;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_core::{Action, ActionKind, QueuePolicy};
use fluxqueue_machine::cluster::Node;
use fluxqueue_workload::{Lifetime, NodeName, ObjectKey, Pod};

use crate::jobs::{self, Unit};
use crate::machine::{self, Factory, Start};
use crate::objects::{OURS, ZONE};
use crate::punctual::{Punctual, ROUNDS_MAX};
use crate::rng::Rng;
use crate::room;
use crate::violation::{Violation, broken};
use judge::Happened;
use planner::Amounts;

/// Seeds from here on are runs of such worlds.
pub(crate) const TIMELY: u64 = 2_000_000_000;

/// Events that a run of many seeds must have met.
pub(crate) const MUST_HAPPEN: [&str; 14] = [
    "promise held against the naive planner's",
    "promised job started",
    "nodes held for a job that was passed by",
    "nodes held for a job that is kept away from them",
    "delay: walltime",
    "delay: capacity",
    "delay: priority",
    "delay: edit",
    "restart with promises",
    "death between two writes with promises",
    "promise within limits",
    "promise held beside a repelling job",
    "kept from nodes promised to a job that it repels",
    "kept off by another scheduler's pod",
];

/// Seconds for which a job may be passed by in these worlds.
const BYPASS_SECONDS: u64 = 60;
/// Percentage of events after which the process dies before everything is at rest, and the most
/// actions that it carries out first.
const DEATH_PERCENT: usize = 15;
const DEATH_ACTIONS_MAX: u64 = 6;
/// Seconds without a change after which nothing is under way: a better promise is written within
/// five.
const QUIET_SECONDS: usize = 7;
/// Most seconds until that is so.
const WAIT_SECONDS: usize = 60;

/// True if some pods of this world repel others.
pub(crate) fn has_repellers(seed: u64) -> bool {
    !seed.is_multiple_of(2)
}

/// A job that was submitted.
#[derive(Debug, Clone)]
struct Job {
    unit: Unit,
    pods: Vec<ObjectKey>,
    amounts: Amounts,
    zone: Option<Arc<str>>,
    lifetime: Lifetime,
    priority: i32,
    /// True if its pods repel others.
    repels: bool,
    submitted: i64,
    /// The promised start, as it was last written.
    told: Option<i64>,
    /// True if an Event has said since then that it starts later.
    is_delayed: bool,
    /// The time since when it is the first waiting job without a known start, by the simulation's
    /// own account.
    first_undated: Option<i64>,
    /// The nodes that it holds or was promised, as last written.
    nodes: BTreeSet<NodeName>,
    has_started: bool,
}

/// One run.
pub(crate) struct Timely<'a> {
    pub(crate) world: Punctual<'a>,
    rng: Rng,
    jobs: BTreeMap<Arc<str>, Job>,
    cpu_max: Option<u64>,
    /// True if some pods repel others.
    has_repellers: bool,
    happened: Happened,
    /// Number of actions after which the process dies, if it dies before everything is at rest.
    dies_in: Option<u64>,
    made: u64,
}

impl<'a> Timely<'a> {
    /// Makes a world with a few idle nodes.
    pub(crate) fn new(seed: u64, factory: &'a Factory, traced: bool) -> Self {
        let policies = [QueuePolicy::Easy, QueuePolicy::Hybrid, QueuePolicy::Conservative];
        let queue_policy = policies[usize::try_from(seed % 3).expect("a small number")];
        let start = Start {
            suspend_hold_secs: machine::SUSPEND_HOLD_SECONDS,
            scheduler: Arc::from(OURS),
            epoch: 1,
            record_lone_pods: true,
            queue_policy,
            bypass_secs: BYPASS_SECONDS,
            questions_per_slice: machine::questions_per_slice(seed),
        };
        let mut timely = Timely {
            world: Punctual::new(start, factory, traced),
            rng: Rng::new(seed),
            jobs: BTreeMap::new(),
            cpu_max: None,
            has_repellers: has_repellers(seed),
            happened: Happened::default(),
            dies_in: None,
            made: 0,
        };
        for _ in 0..4 {
            timely.join();
        }
        if seed.is_multiple_of(4) {
            timely.limit();
        }
        timely.world.list();
        timely
    }

    /// Runs this number of steps.
    pub(crate) fn run(&mut self, steps: u64) -> Result<(), Violation> {
        while self.world.steps < steps {
            self.world.steps += 1;
            self.happen()?;
            self.dies_in =
                self.rng.chance(DEATH_PERCENT).then(|| self.rng.between(0, DEATH_ACTIONS_MAX));
            self.settle()?;
            if self.come_to_rest()? {
                self.judge_promises()?;
                self.happened = Happened { since: self.world.now, ..Happened::default() };
            }
        }
        Ok(())
    }

    /// Delivers everything that is under way, with its consequences, within this second.
    fn settle(&mut self) -> Result<(), Violation> {
        for _ in 0..ROUNDS_MAX {
            let Some(actions) = self.world.round() else { return self.judge_instant() };
            for action in actions {
                if self.dies_now(&action) {
                    self.die()?;
                    break;
                }
                self.carry_out(&action)?;
            }
            self.world.run_pods();
        }
        broken("the core becomes quiet", format!("{ROUNDS_MAX} rounds in one instant"))
    }

    /// True if the process dies before this action. Events do not count: a user who reads records
    /// has not seen them.
    fn dies_now(&mut self, action: &Action) -> bool {
        match &mut self.dies_in {
            Some(0) => !matches!(action.kind, ActionKind::Note(_)),
            Some(left) if !matches!(action.kind, ActionKind::Note(_)) => {
                *left -= 1;
                false
            }
            _ => false,
        }
    }

    fn carry_out(&mut self, action: &Action) -> Result<(), Violation> {
        match &action.kind {
            ActionKind::Note(note) => self.hear(note),
            _ => {
                self.world.carry_out(action);
                Ok(())
            }
        }
    }

    /// Lets time pass, second by second where something happens.
    fn pass(&mut self, seconds: i64) -> Result<(), Violation> {
        let until = self.world.now + seconds;
        while self.world.now < until {
            self.world.pass_time(until);
            self.settle()?;
        }
        Ok(())
    }

    /// Waits until nothing moves any more. False if it never does.
    fn come_to_rest(&mut self) -> Result<bool, Violation> {
        let mut calm = 0;
        for _ in 0..WAIT_SECONDS {
            let before = self.picture();
            self.pass(1)?;
            calm = if before == self.picture() { calm + 1 } else { 0 };
            if calm == QUIET_SECONDS {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the state that must not change for a while: the places of pods, the promises, and
    /// the overdue pods.
    fn picture(&self) -> Vec<String> {
        let pods = self.world.server.pods.values();
        let pods = pods.map(|pod| {
            format!("{} {:?} {:?} {}", pod.id.uid, pod.node, pod.phase, self.is_overdue(pod))
        });
        let promises = self.world.server.flux_jobs.values().map(|job| {
            let kept = job.status.as_ref().and_then(|status| status.reservation.as_ref());
            format!("{:?} {kept:?}", job.metadata.name)
        });
        pods.chain(promises).collect()
    }

    // --- the state of the world ---

    /// Returns the time at which a running pod should end, if it is known.
    fn planned_end(&self, pod: &Pod) -> Option<i64> {
        let of_job = self.jobs.values().find(|job| job.pods.contains(&pod.id.key));
        let Lifetime::Seconds(seconds) = of_job.map_or(pod.lifetime, |job| job.lifetime) else {
            return None;
        };
        Some(pod.started?.seconds() + i64::try_from(seconds).expect("minutes"))
    }

    fn is_overdue(&self, pod: &Pod) -> bool {
        pod.uses_node() && self.planned_end(pod).is_some_and(|end| end < self.world.now)
    }

    /// Returns the waiting jobs in queue order.
    fn waiting(&self) -> Vec<(&Arc<str>, &Job)> {
        let waits =
            |key: &ObjectKey| self.world.server.pods.get(key).is_some_and(|pod| pod.node.is_none());
        let jobs =
            self.jobs.iter().filter(|(_, job)| !job.has_started && job.pods.iter().all(waits));
        let mut waiting: Vec<_> = jobs.collect();
        waiting
            .sort_by_key(|(name, job)| (-i64::from(job.priority), job.submitted, Arc::clone(name)));
        waiting
    }

    /// Returns the nodes on which the pods of a job may be: those without pods that repel them or
    /// that they repel.
    fn usable(&self, job: &Job) -> BTreeSet<NodeName> {
        self.usable_beside(job, &[])
    }

    /// Returns the same nodes as if the pods of some jobs did not exist.
    fn usable_beside(&self, job: &Job, but: &[&Job]) -> BTreeSet<NodeName> {
        self.usable_beside_those(job, |pod| {
            !but.iter().any(|other| other.pods.contains(&pod.id.key))
        })
    }

    /// Returns the same nodes as if only these pods existed.
    fn usable_beside_those(&self, job: &Job, counts: impl Fn(&Pod) -> bool) -> BTreeSet<NodeName> {
        let sample = self.sample(job);
        let there = self.world.server.pods.values().filter(|pod| pod.uses_node() && counts(pod));
        let there: Vec<(&NodeName, &Pod)> =
            there.filter_map(|pod| Some((pod.node.as_ref()?, &**pod))).collect();
        let is_usable = |node: &&Arc<Node>| {
            let in_zone =
                |zone| node.labels.iter().any(|(key, value)| **key == *ZONE && value == zone);
            !node.unschedulable
                && job.zone.as_ref().is_none_or(in_zone)
                && sample.is_none_or(|sample| !self.is_closed_by(&there, node, sample))
        };
        self.world.server.nodes.values().filter(is_usable).map(|node| node.name.clone()).collect()
    }

    /// Returns the same nodes as if all pods with an end were gone.
    fn usable_some_day(&self, job: &Job) -> BTreeSet<NodeName> {
        self.usable_beside_those(job, |pod| pod.lifetime == Lifetime::Endless)
    }

    /// True if one of these pods, each with its node, repels this pod from the other node, or is
    /// repelled by it.
    fn is_closed_by(&self, there: &[(&NodeName, &Pod)], node: &Node, pod: &Pod) -> bool {
        let (nodes, there) = (&self.world.server.nodes, || there.iter().copied());
        room::repeller(nodes, there(), node, pod).is_some()
            || room::avoided(nodes, there(), node, pod).is_some()
    }

    /// Returns one of a job's pods, which are alike.
    fn sample(&self, job: &Job) -> Option<&Arc<Pod>> {
        job.pods.iter().find_map(|key| self.world.server.pods.get(key))
    }

    /// Returns the promise on record: a start, or none, and nodes.
    fn said(&self, job: &Job) -> Option<(Option<i64>, BTreeSet<NodeName>)> {
        let records = jobs::records(&job.unit, &self.world.server.flux_jobs);
        let reservation =
            records.iter().find_map(|record| record.status.as_ref()?.reservation.as_ref())?;
        let start = reservation.start.as_ref().map(|at| at.0.as_microsecond() / 1_000_000);
        let nodes = flux_lists::hostlist::decode(&reservation.nodes).expect("a hostlist");
        Some((start, nodes.iter().map(|name| NodeName::from(name.as_str())).collect()))
    }
}
