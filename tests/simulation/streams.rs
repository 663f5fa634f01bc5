//! Worlds with an endless stream of small jobs, beside gangs and pods with inter-pod constraints:
//! the first job in the queue starts.
//!
//! Nothing is late or lost here, and the machine is always full. Our pods end after some seconds,
//! whatever their walltime; services take a part of it for ever. Many pods of the stream have the
//! label that the gangs' constraints select, and are in their way by that. The start of a gang is
//! not foretold. Whether it ever could start is tried, with every way of placing its pods on the
//! machine without the stream.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_core::{ActionKind, QueuePolicy};
use fluxqueue_machine::cluster::Node;
use fluxqueue_workload::constraints::{Constraints, PodTerm, SpreadConstraint};
use fluxqueue_workload::levels::{LevelBound, LevelRule, LevelRules, RuleScope, Spread};
use fluxqueue_workload::metadata::Labels;
use fluxqueue_workload::{
    GroupLabels, Lifetime, NodeName, ObjectKey, Phase, Pod, Resources, Shape,
};

use crate::jobs::{self, Unit};
use crate::machine::{self, Factory, Start};
use crate::objects::{self, FOREIGN, HOST, OURS, ZONE};
use crate::punctual::{Punctual, ROUNDS_MAX};
use crate::rng::Rng;
use crate::violation::{Violation, broken};

/// First seed of the runs of such worlds.
pub(crate) const STREAMS: u64 = 3_000_000_000;

/// Events that a run of many seeds must have met.
pub(crate) const MUST_HAPPEN: [&str; 14] = [
    "started after it was first: spread",
    "started after it was first: near",
    "started after it was first: apart",
    "started after it was first: apart and near",
    "started after it was first: spread and near",
    "started after it was first: near others",
    "started after it was first: alone on its nodes",
    "started after it was first: lone",
    "gang that asks for levels besides",
    "gang with a launcher",
    "node cordoned beside a stream",
    "nodes held for a gang that asks about pods",
    "gang that can never start",
    "restart beside a gang that waits",
];

pub(crate) const PASSED_BY: &str =
    "the first job in the queue starts when the pods before it have ended";

/// The pod label that gangs' constraints select.
const LIKE: (&str, &str) = ("app", "mpi");
/// The pod label of services that some gangs have to be near to.
const DATABASE: (&str, &str) = ("app", "database");
const CORE: u64 = 1_000;
/// Seconds for which a job may be passed by.
const BYPASS_SECONDS: u64 = 60;
/// Most seconds that a pod runs.
const RUN_SECONDS_MAX: u64 = 40;
/// Seconds within which the first job starts: others pass it by, promised jobs start on its nodes
/// and end, and as much again.
const FIRST_SECONDS_MAX: i64 = 240;
/// Fewest pods of the stream that wait.
const BACKLOG: usize = 4;
const GANGS_MAX: usize = 2;
const LONE_CORES_MAX: u64 = 2;
/// Average seconds between cordons of a node, and the seconds of each.
const CLOSED_ONCE_IN_SECONDS: usize = 300;
const CLOSED_SECONDS: i64 = 15;

/// The constraints of a job's pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Asks {
    /// Spread over nodes or zones, among all pods with the label.
    spread: Option<(&'static str, u32)>,
    /// In one zone, with a pod that has the label.
    near: bool,
    /// On no node, or in no zone, with a pod that has the label.
    apart: Option<&'static str>,
    /// In a zone of a database.
    near_database: bool,
    /// In one zone, or spread over zones, with others of their job.
    level: Option<LevelBound>,
    /// On nodes without pods of other jobs.
    exclusive: bool,
}

struct Job {
    unit: Unit,
    pods: Vec<ObjectKey>,
    cores: u64,
    asks: Asks,
    submitted: i64,
    /// True if it could start once every pod with an end were gone.
    is_possible: bool,
    /// The time since when no job waits before it that could start.
    first_since: Option<i64>,
}

/// One run.
pub(crate) struct Streams<'a> {
    pub(crate) world: Punctual<'a>,
    rng: Rng,
    jobs: BTreeMap<Arc<str>, Job>,
    made: u64,
    /// Nodes are closed until then.
    closed_until: Option<i64>,
    /// The time since when all nodes are open.
    opened_at: i64,
}

impl<'a> Streams<'a> {
    /// Makes two or three zones of a few nodes, some of which services take in part.
    pub(crate) fn new(seed: u64, factory: &'a Factory, traced: bool) -> Self {
        let start = Start {
            suspend_hold_secs: machine::SUSPEND_HOLD_SECONDS,
            scheduler: Arc::from(OURS),
            epoch: 1,
            record_lone_pods: true,
            queue_policy: QueuePolicy::ALL[usize::try_from(seed % 4).expect("a small number")],
            bypass_secs: BYPASS_SECONDS,
            questions_per_slice: machine::questions_per_slice(seed),
        };
        let mut streams = Streams {
            world: Punctual::new(start, factory, traced),
            rng: Rng::new(seed),
            jobs: BTreeMap::new(),
            made: 0,
            closed_until: None,
            opened_at: 0,
        };
        for zone in ["a", "b", "c"].iter().take(streams.count(2, 3)) {
            for at in 1..=streams.count(1, 3) {
                let mut allocatable = Resources::new();
                allocatable.set("pods", 110);
                allocatable.set("cpu", CORE * streams.rng.between(3, 6));
                streams.world.join(&format!("{zone}{at}"), zone, allocatable);
            }
        }
        for _ in 0..streams.count(0, 2) {
            streams.serve();
        }
        streams.opened_at = streams.world.now;
        streams.world.list();
        streams
    }

    fn count(&mut self, low: u64, high: u64) -> usize {
        usize::try_from(self.rng.between(low, high)).expect("a few")
    }

    /// Runs this number of seconds.
    pub(crate) fn run(&mut self, steps: u64) -> Result<(), Violation> {
        while self.world.steps < steps {
            self.world.steps += 1;
            self.submit();
            self.close_and_open();
            if self.rng.chance(1) {
                self.restart();
            }
            self.settle()?;
            let waits: Vec<String> =
                if self.world.trace.is_enabled() { self.who_waits().collect() } else { Vec::new() };
            for line in waits {
                self.world.trace.add(|| line);
            }
            self.judge()?;
            self.world.pass_time(self.world.now + 1);
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Violation> {
        for _ in 0..ROUNDS_MAX {
            let Some(actions) = self.world.round() else { return Ok(()) };
            for action in
                actions.iter().filter(|action| !matches!(action.kind, ActionKind::Note(_)))
            {
                self.world.carry_out(action);
            }
            self.world.run_pods();
        }
        broken("the core becomes quiet", format!("{ROUNDS_MAX} rounds in one instant"))
    }

    // --- what happens ---

    /// Adds a pod of another scheduler that runs for ever.
    fn serve(&mut self) {
        let names: Vec<NodeName> = self.world.server.nodes.keys().cloned().collect();
        let node = self.rng.pick(&names).cloned();
        let cores = self.rng.between(1, 3);
        self.made += 1;
        let id = self.world.server.new_ref(&format!("service-{}", self.made));
        let pod = Pod::waiting(id, Arc::from(FOREIGN), Arc::new(shape(cores, &Asks::default())));
        let (labels, started) = (labels(DATABASE), Some(self.world.time()));
        let lifetime = Lifetime::Endless;
        self.world.server.put_pod(Pod {
            node,
            started,
            labels,
            phase: Phase::Running,
            lifetime,
            ..pod
        });
    }

    /// Cordons a node for some seconds, now and then.
    fn close_and_open(&mut self) {
        if self.closed_until.is_none() && self.rng.below(CLOSED_ONCE_IN_SECONDS) == 0 {
            let nodes: Vec<Arc<Node>> = self.world.server.nodes.values().cloned().collect();
            let node = self.rng.pick(&nodes).expect("there are some");
            self.world.server.put_node(Node { unschedulable: true, ..Node::clone(node) });
            self.closed_until = Some(self.world.now + CLOSED_SECONDS);
            self.world.stats.count("node cordoned beside a stream");
        }
        if self.closed_until.is_some_and(|until| until <= self.world.now) {
            let nodes: Vec<Arc<Node>> = self.world.server.nodes.values().cloned().collect();
            for node in nodes {
                self.world.server.put_node(Node { unschedulable: false, ..Node::clone(&node) });
            }
            (self.closed_until, self.opened_at) = (None, self.world.now);
        }
    }

    /// Continues the stream, and submits a gang now and then.
    fn submit(&mut self) {
        let (gangs, lone): (Vec<&Job>, Vec<&Job>) =
            self.waiting().map(|(_, job)| job).partition(|job| job.is_gang());
        let (gangs, lone) = (gangs.len(), lone.len());
        if gangs < GANGS_MAX && self.rng.chance(4) {
            self.submit_gang();
        }
        for _ in lone..BACKLOG {
            let asks = match self.rng.weighted(&[12, 1, 1]) {
                0 => Asks::default(),
                1 => Asks { spread: Some((ZONE, 1)), ..Asks::default() },
                _ => Asks { apart: Some(HOST), ..Asks::default() },
            };
            let cores = self.rng.between(1, LONE_CORES_MAX);
            let is_like = asks != Asks::default() || self.rng.chance(40);
            self.put((1, cores), asks, is_like, false);
        }
    }

    fn submit_gang(&mut self) {
        let key = *self.rng.pick(&[HOST, ZONE]).expect("there are two");
        let skew = u32::try_from(self.rng.between(1, 2)).expect("a few");
        let mut asks = Asks::default();
        match self.rng.below(7) {
            0 => asks.spread = Some((key, skew)),
            1 => asks.near = true,
            2 => asks.apart = Some(key),
            3 => (asks.near, asks.apart) = (true, Some(HOST)),
            4 => (asks.near, asks.spread) = (true, Some((HOST, 2))),
            5 => asks.near_database = true,
            _ => asks.exclusive = true,
        }
        if self.rng.chance(25) {
            let spread = Spread { max_per_part: Some(2), max_skew: Some(1) };
            asks.level = Some(if self.rng.chance(60) {
                LevelBound::Required
            } else {
                LevelBound::Spread(spread)
            });
        }
        let (pods, cores) = (self.rng.between(2, 4), self.rng.between(1, 4));
        let has_launcher = self.rng.chance(25);
        self.put((pods, cores), asks, true, has_launcher);
    }

    fn put(&mut self, (count, cores): (u64, u64), asks: Asks, is_like: bool, has_launcher: bool) {
        self.made += 1;
        let name: Arc<str> = Arc::from(format!("job-{:05}", self.made));
        let lifetime = match self.rng.weighted(&[3, 5]) {
            0 => Lifetime::Eventually,
            _ => Lifetime::Seconds(self.rng.between(5, RUN_SECONDS_MAX)),
        };
        let run = match lifetime {
            // Most pods end early or on time, a few later.
            Lifetime::Seconds(seconds) if self.rng.chance(80) => {
                self.rng.between(seconds.div_ceil(2), seconds)
            }
            _ => self.rng.between(5, RUN_SECONDS_MAX),
        };
        // A launcher is small, and has no inter-pod constraints.
        let (worker, launcher) =
            (Arc::new(shape(cores, &asks)), Arc::new(shape(1, &Asks::default())));
        let labels = if is_like { labels(LIKE) } else { Labels::default() };
        let mut pods = Vec::new();
        for at in 0..count {
            let id = self.world.server.new_ref_for(OURS, &format!("{name}-{at}"));
            let size = u32::try_from(count).expect("a few");
            let group =
                (count > 1).then(|| GroupLabels { name: Arc::clone(&name), size: Ok(size) });
            self.world.runs.insert(id.uid.clone(), i64::try_from(run).expect("seconds"));
            pods.push(id.key.clone());
            let shape = if has_launcher && at == 0 { &launcher } else { &worker };
            let pod = Pod::waiting(id, Arc::from(OURS), Arc::clone(shape));
            let (labels, levels) = (Arc::clone(&labels), level_rules(&asks));
            let (exclusive, created) = (asks.exclusive.then_some(true), self.world.time());
            self.world.server.put_pod(Pod {
                group,
                lifetime,
                labels,
                levels,
                exclusive,
                created,
                ..pod
            });
        }
        let unit = Unit::of(&self.world.server.pods[&pods[0]]);
        let submitted = self.world.now;
        let mut job =
            Job { unit, pods, cores, asks, submitted, is_possible: false, first_since: None };
        let orders = if has_launcher { vec![0, job.pods.len() - 1] } else { vec![usize::MAX] };
        job.is_possible = orders
            .into_iter()
            .any(|launcher_at| self.could_start(&job, launcher_at, &mut Vec::new()));
        if job.is_possible && has_launcher {
            self.world.stats.count("gang with a launcher");
        }
        if job.is_gang() && !job.is_possible {
            self.world.stats.count("gang that can never start");
        } else if job.asks.level.is_some() {
            self.world.stats.count("gang that asks for levels besides");
        }
        self.jobs.insert(name, job);
    }

    fn restart(&mut self) {
        if self.waiting().any(|(_, job)| job.is_gang()) {
            self.world.stats.count("restart beside a gang that waits");
        }
        self.world.restart();
    }

    // --- what must hold ---

    fn judge(&mut self) -> Result<(), Violation> {
        let waiting: Vec<Arc<str>> = self.waiting().map(|(name, _)| Arc::clone(name)).collect();
        // A gang that has to be near to other pods may be possible now, and waited for, where it is
        // not possible without them.
        let may_be_ahead = |job: &&Job| job.is_possible || job.asks.near;
        let ahead = waiting.iter().map(|name| &self.jobs[name]).filter(may_be_ahead);
        let first = ahead.map(|job| job.submitted).min();
        let now = self.world.now;
        for name in &waiting {
            let job = self.jobs.get_mut(name).expect("it waits");
            if job.is_possible && Some(job.submitted) == first && self.closed_until.is_none() {
                let since = (*job.first_since.get_or_insert(now)).max(self.opened_at);
                if now - since > FIRST_SECONDS_MAX {
                    return broken(
                        PASSED_BY,
                        format!("{name} is first since {since}, now {now}: {:?}", job.asks),
                    );
                }
            }
            let held = || {
                let records = jobs::records(&self.jobs[name].unit, &self.world.server.flux_jobs);
                let mut kept = records
                    .iter()
                    .filter_map(|record| record.status.as_ref()?.reservation.as_ref());
                kept.any(|kept| kept.start.is_none())
            };
            if self.jobs[name].is_gang() && held() {
                self.world.stats.count("nodes held for a gang that asks about pods");
            }
        }
        self.tidy(&waiting);
        Ok(())
    }

    /// Forgets started jobs, and after a while gangs that can never start.
    fn tidy(&mut self, waiting: &[Arc<str>]) {
        let now = self.world.now;
        let is_given_up = |job: &Job| {
            job.is_gang() && !job.is_possible && now - job.submitted > FIRST_SECONDS_MAX
        };
        let (stay, go): (Vec<_>, Vec<_>) = std::mem::take(&mut self.jobs)
            .into_iter()
            .partition(|(name, job)| waiting.contains(name) && !is_given_up(job));
        self.jobs = stay.into_iter().collect();
        for (_, job) in go {
            if job.first_since.is_some_and(|since| now - since > 1) {
                self.world.stats.count(job.what_started());
            }
            if is_given_up(&job) {
                job.pods.iter().for_each(|pod| self.world.server.remove_pod(pod));
            }
        }
        let ended = self.world.server.pods.values().filter(|pod| pod.phase.is_terminal());
        let ended: Vec<ObjectKey> = ended.map(|pod| pod.id.key.clone()).collect();
        for pod in &ended {
            self.world.server.remove_pod(pod);
        }
    }

    fn waiting(&self) -> impl Iterator<Item = (&Arc<str>, &Job)> {
        let waits =
            |key: &ObjectKey| self.world.server.pods.get(key).is_some_and(|pod| pod.node.is_none());
        self.jobs.iter().filter(move |(_, job)| job.pods.iter().all(waits))
    }

    /// True if there is a way to place the pods that are left, beside services and those of the job
    /// that have these nodes. The launcher counts as this one of them.
    fn could_start(
        &self,
        job: &Job,
        launcher_at: usize,
        placed: &mut Vec<(NodeName, u64)>,
    ) -> bool {
        let on: Vec<NodeName> = placed.iter().map(|(node, _)| node.clone()).collect();
        if on.len() == job.pods.len() {
            // Pods that came after it leave no pod without one with its label near to it.
            let is_near = |at: usize| at == launcher_at || self.beside(&on[at], ZONE, &on) > 1;
            return self.is_within_level(job, &on)
                && (!job.asks.near || (0..on.len()).all(is_near));
        }
        let is_launcher = on.len() == launcher_at;
        let cores = if is_launcher { 1 } else { job.cores };
        let nodes: Vec<NodeName> = self.world.server.nodes.keys().cloned().collect();
        nodes.into_iter().any(|node| {
            // A pod that has to be apart from it keeps it away as well.
            let asks = if is_launcher {
                Asks { apart: job.asks.apart, ..Asks::default() }
            } else {
                job.asks.clone()
            };
            if !self.is_allowed(&asks, &node, &on) || !self.is_free(job, &node, cores, placed) {
                return false;
            }
            placed.push((node, cores));
            let could = self.could_start(job, launcher_at, placed);
            placed.pop();
            could
        })
    }

    fn services(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.world.server.pods.values().filter(|pod| pod.lifetime == Lifetime::Endless)
    }

    fn is_free(&self, job: &Job, node: &NodeName, cores: u64, placed: &[(NodeName, u64)]) -> bool {
        let there: Vec<&Arc<Pod>> =
            self.services().filter(|pod| pod.node.as_ref() == Some(node)).collect();
        let own: u64 =
            placed.iter().filter(|(other, _)| other == node).map(|(_, cores)| cores).sum();
        let taken: u64 = there.iter().map(|pod| pod.shape.requests.get("cpu")).sum();
        let is_to_itself = !job.asks.exclusive || there.is_empty();
        is_to_itself
            && taken + (own + cores) * CORE <= self.world.server.nodes[node].allocatable.get("cpu")
    }

    fn domain(&self, node: &NodeName, key: &str) -> Option<&Arc<str>> {
        let labels = &self.world.server.nodes[node].labels;
        labels.iter().find(|(known, _)| **known == *key).map(|(_, value)| value)
    }

    /// Returns how many of these are in the same domain as a node.
    fn beside(&self, node: &NodeName, key: &str, placed: &[NodeName]) -> usize {
        placed.iter().filter(|other| self.domain(other, key) == self.domain(node, key)).count()
    }

    /// True if another pod of the job may be on this node, beside those that have these.
    fn is_allowed(&self, asks: &Asks, node: &NodeName, placed: &[NodeName]) -> bool {
        let is_even = |(key, skew): (&str, u32)| {
            let least =
                self.world.server.nodes.keys().map(|node| self.beside(node, key, placed)).min();
            self.beside(node, key, placed) < least.unwrap_or(0) + skew as usize
        };
        let services: Vec<NodeName> = self.services().filter_map(|pod| pod.node.clone()).collect();
        asks.spread.is_none_or(is_even)
            && asks.apart.is_none_or(|key| self.beside(node, key, placed) == 0)
            && (!asks.near || placed.is_empty() || self.beside(node, ZONE, placed) > 0)
            && (!asks.near_database || self.beside(node, ZONE, &services) > 0)
    }

    /// True if all pods of a job may be on these nodes, by the parts of the level in which they
    /// are.
    fn is_within_level(&self, job: &Job, placed: &[NodeName]) -> bool {
        let in_parts = self.world.server.nodes.keys().map(|node| self.beside(node, ZONE, placed));
        let in_parts: Vec<usize> = in_parts.collect();
        let (least, most) = (in_parts.iter().min().copied(), in_parts.iter().max().copied());
        let (least, most) = (least.unwrap_or(0), most.unwrap_or(0));
        match job.asks.level {
            Some(LevelBound::Required) => most == placed.len(),
            Some(LevelBound::Spread(Spread { max_per_part, max_skew })) => {
                max_per_part.is_none_or(|max| most <= max as usize)
                    && max_skew.is_none_or(|max| most - least <= max as usize)
            }
            _ => true,
        }
    }

    fn who_waits(&self) -> impl Iterator<Item = String> {
        self.waiting().map(|(name, job)| {
            let records = jobs::records(&job.unit, &self.world.server.flux_jobs);
            let status = records.iter().find_map(|record| record.status.as_ref());
            let said = status.map(|it| {
                let blocked_by = it.blocked_by.first().map(|by| &by.message);
                (&it.reservation, &it.passed_by_since, &it.estimated_start, blocked_by)
            });
            let (pods, Job { cores, asks, submitted, first_since, .. }) = (job.pods.len(), job);
            format!(
                "waits {name}: {pods} of {cores}, {asks:?}, since {submitted}, first since {first_since:?}: {said:?}"
            )
        })
    }

    /// Returns the details of a failure.
    pub(crate) fn describe(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.world.trace.lines().map(str::to_string).collect();
        lines.push(format!("now {}, policy {:?}", self.world.now, self.world.start.queue_policy));
        for node in self.world.server.nodes.values() {
            lines.push(format!("node {} {:?} of {:?}", node.name, node.labels, node.allocatable));
        }
        for pod in self.world.server.pods.values().filter(|pod| pod.uses_node()) {
            let (cpu, labels) = (pod.shape.requests.get("cpu"), &pod.labels);
            lines.push(format!(
                "pod {} on {:?}: {cpu} {labels:?} {:?}",
                pod.id, pod.node, pod.lifetime
            ));
        }
        lines.extend(self.who_waits());
        lines
    }
}

impl Job {
    fn is_gang(&self) -> bool {
        self.pods.len() > 1
    }

    fn what_started(&self) -> &'static str {
        let Asks { spread, near, apart, near_database, .. } = &self.asks;
        match (spread, near, apart) {
            _ if !self.is_gang() => "started after it was first: lone",
            _ if self.asks.exclusive => "started after it was first: alone on its nodes",
            _ if *near_database => "started after it was first: near others",
            (Some(_), true, _) => "started after it was first: spread and near",
            (Some(_), false, _) => "started after it was first: spread",
            (None, true, Some(_)) => "started after it was first: apart and near",
            (None, true, None) => "started after it was first: near",
            (None, false, _) => "started after it was first: apart",
        }
    }
}

fn labels((key, value): (&str, &str)) -> Labels {
    Arc::from([(Arc::from(key), Arc::from(value))])
}

/// Returns the constraints of its pods on the zones of others of their job.
fn level_rules(asks: &Asks) -> LevelRules {
    let bound = asks.level?;
    let rule = LevelRule {
        level: Arc::from(ZONE),
        bound,
        of: RuleScope::Job,
        annotation: "fluxqueue/required-level",
    };
    Some(Arc::from([rule]))
}

fn shape(cores: u64, asks: &Asks) -> Shape {
    let mut requests = Resources::new();
    requests.set("pods", 1);
    requests.set("cpu", CORE * cores);
    let mut constraints = Constraints::default();
    let term =
        |label, key: &str| PodTerm { pods: objects::pods_with(label), topology_key: key.into() };
    constraints.near.extend(asks.near.then(|| term(LIKE, ZONE)));
    constraints.near.extend(asks.near_database.then(|| term(DATABASE, ZONE)));
    constraints.repels.extend(asks.apart.map(|key| term(LIKE, key)));
    constraints.spreads.extend(asks.spread.map(|(key, max_skew)| SpreadConstraint {
        pods: objects::pods_with(LIKE),
        topology_key: key.into(),
        max_skew,
        min_domains: 1,
        honors_affinity: true,
        honors_taints: false,
    }));
    Shape { requests, constraints }
}
