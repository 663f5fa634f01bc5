//! One run: the instances of the scheduler, the world around them, and random choices between them.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_core::{Action, ActionKind, Event, Write};
use fluxqueue_workload::{NodeName, Time, Uid};

use crate::executor::Weather;
use crate::foreign::{self, Foreign};
use crate::instance::Instance;
use crate::intruders::{Intruders, Intrusion};
use crate::jobs;
use crate::kubelet::{self, Kubelets, Refusal};
use crate::late::Late;
use crate::machine::{self, Factory, Start};
use crate::objects;
use crate::pod_groups;
use crate::quiescence;
use crate::rng::Rng;
use crate::server::Server;
use crate::stats::Stats;
use crate::trace::{self, Trace};
use crate::violation::{Violation, broken};
use crate::world::World;

/// The state of a run.
pub(crate) struct Simulation<'a> {
    factory: &'a Factory,
    pub(crate) rng: Rng,
    /// The instances' own time, which only grows.
    pub(crate) now: Time,
    /// The server's clock minus that time, in microseconds. It jumps.
    pub(crate) offset: i64,
    pub(crate) offset_max: i64,
    pub(crate) server: Server,
    pub(crate) instances: Vec<Instance>,
    pub(crate) late: Late,
    pub(crate) world: World,
    pub(crate) kubelets: Kubelets,
    foreign: Foreign,
    intruders: Intruders,
    /// The decision on each of our Bindings, by pod, to find out who is to blame if a kubelet
    /// refuses it.
    decided: BTreeMap<Uid, Decision>,
    /// The last change on a node by each party.
    disturbed: BTreeMap<(NodeName, Who), u64>,
    /// While this is set nothing may be written, by this rule.
    pub(crate) quiet_by: Option<&'static str>,
    pub(crate) steps: u64,
    pub(crate) stats: Stats,
    pub(crate) trace: Trace,
}

/// An instance by its place among them, or another party.
type Who = usize;
const SOMEBODY_ELSE: Who = usize::MAX;

/// A Binding that was decided.
#[derive(Debug)]
struct Decision {
    step: u64,
    by: Who,
    node: NodeName,
    /// True if the core then knew of everything on that node.
    informed: bool,
}

/// Steps between two points at which the system is brought to rest.
const REST_EVERY: u64 = 350;
/// One of this number of rests ends with everything deleted.
const CLEAR_EVERY: u64 = 6;
/// One of this number of seeds has a second instance.
const SECOND_EVERY: u64 = 3;

impl<'a> Simulation<'a> {
    /// Makes a cluster of a few nodes and a core that knows nothing yet.
    pub(crate) fn new(seed: u64, factory: &'a Factory, traced: bool) -> Self {
        let second = seed.is_multiple_of(SECOND_EVERY);
        let schedulers: &[&str] =
            if second { &[objects::OURS, objects::SECOND] } else { &[objects::OURS] };
        let schedulers: Vec<Arc<str>> = schedulers.iter().map(|name| Arc::from(*name)).collect();
        let (record_lone_pods, queue_policy) =
            (machine::records_lone_pods(seed), machine::queue_policy_of(seed));
        let start = |scheduler: &Arc<str>| Start {
            scheduler: Arc::clone(scheduler),
            epoch: 1,
            record_lone_pods,
            queue_policy,
            suspend_hold_secs: machine::SUSPEND_HOLD_SECONDS,
            bypass_secs: machine::BYPASS_SECONDS,
            questions_per_slice: machine::questions_per_slice(seed),
        };
        let mut rng = Rng::new(seed);
        let offset = clock_jump(&mut rng);
        let mut simulation = Simulation {
            factory,
            rng,
            now: Time::from_seconds(1_700_000_000),
            offset,
            offset_max: offset,
            server: Server::default(),
            instances: schedulers
                .iter()
                .map(|scheduler| Instance::new(start(scheduler), factory))
                .collect(),
            late: Late::default(),
            world: World::new(
                schedulers,
                machine::has_queues(seed),
                machine::has_suspended(seed),
                pod_groups::has_groups(seed),
            ),
            kubelets: Kubelets::default(),
            foreign: Foreign::default(),
            intruders: Intruders::default(),
            decided: BTreeMap::new(),
            disturbed: BTreeMap::new(),
            quiet_by: None,
            steps: 0,
            stats: Stats::default(),
            trace: Trace::new(traced),
        };
        for _ in 0..4 {
            simulation.kubelets.join(
                &mut simulation.server,
                &mut simulation.rng,
                &mut simulation.stats,
            );
        }
        simulation.server.take_changes();
        for instance in &mut simulation.instances {
            instance.channel.relist(&simulation.server, offset);
        }
        simulation
    }

    /// Returns the time by the API server's clock.
    pub(crate) fn wall(&self) -> Time {
        Time(self.now.0 + self.offset)
    }

    /// Runs this number of steps, with rests between them.
    pub(crate) fn run(&mut self, steps: u64) -> Result<(), Violation> {
        while self.steps < steps {
            self.chance()?;
            if self.steps.is_multiple_of(REST_EVERY) {
                quiescence::rest(self)?;
                if self.steps.is_multiple_of(REST_EVERY * CLEAR_EVERY) {
                    quiescence::clear(self)?;
                }
            }
        }
        Ok(())
    }

    /// Lets one random event happen, and a core decide.
    fn chance(&mut self) -> Result<(), Violation> {
        self.steps += 1;
        let who = self.anyone();
        match self.rng.weighted(&[400, 160, 200, 60, 110, 90, 40, 60, 60, 10, 3]) {
            0 => {
                for _ in 0..=self.rng.below(8) {
                    self.deliver(who);
                }
            }
            1 => {
                for _ in 0..=self.rng.below(4) {
                    self.answer(who);
                }
            }
            2 => {
                for _ in 0..=self.rng.below(5) {
                    self.execute(who, Weather::Rough);
                }
            }
            3 => self.users(),
            4 => self.control(),
            5 => drop(self.admit()?),
            6 => drop(self.kubelets.let_go(&mut self.server, &mut self.rng, &mut self.stats)),
            7 => self.foreigners(),
            8 => self.pass_time(),
            9 => self.trouble(),
            _ => self.crash(who),
        }
        self.land_sometimes()?;
        self.publish();
        if self.rng.chance(75) {
            self.decide(who)?;
            self.intrude();
        }
        Ok(())
    }

    /// Picks the instance that acts next.
    fn anyone(&mut self) -> Who {
        if self.instances.len() > 1 { self.rng.below(self.instances.len()) } else { 0 }
    }

    /// Returns all instances.
    pub(crate) fn everyone(&self) -> std::ops::Range<Who> {
        0..self.instances.len()
    }

    /// Delivers one piece of news to a core. False if there is none.
    pub(crate) fn deliver(&mut self, who: Who) -> bool {
        let Some(event) = self.instances[who].channel.deliver(&mut self.rng) else { return false };
        self.tell(who, event);
        true
    }

    /// Delivers one answer to a core. False if there is none.
    pub(crate) fn answer(&mut self, who: Who) -> bool {
        let Some(event) = self.instances[who].executor.answer(&mut self.rng) else { return false };
        self.tell(who, event);
        true
    }

    fn tell(&mut self, who: Who, event: Event) {
        let (steps, now) = (self.steps, self.now);
        self.trace
            .add(|| format!("{steps:>6} {} {}-> {}", now.0, name_of(who), trace::event(&event)));
        self.instances[who].tell(event, now);
    }

    /// Lets one action reach the server.
    pub(crate) fn execute(&mut self, who: Who, weather: Weather) {
        let wall = self.wall();
        let executor = &mut self.instances[who].executor;
        let bound =
            executor.execute(&mut self.server, wall, weather, &mut self.rng, &mut self.stats);
        if let Some(node) = bound {
            self.disturb(node, who);
        }
    }

    fn disturb(&mut self, node: NodeName, who: Who) {
        self.disturbed.insert((node, who), self.steps);
    }

    /// Perhaps lets a write of a paused leader reach the server, while its successor works.
    fn land_sometimes(&mut self) -> Result<(), Violation> {
        if self.late.is_empty() || !self.rng.chance(8) { Ok(()) } else { self.land() }
    }

    /// Lets one of those writes reach the server, or be lost.
    pub(crate) fn land(&mut self) -> Result<(), Violation> {
        let wall = self.wall();
        let landed = self.late.land(&mut self.server, wall, &mut self.rng, &mut self.stats)?;
        if let Some(line) = landed.line {
            self.trace.add(|| format!("{:>6} {} late: {line}", self.steps, self.now.0));
        }
        if let Some(node) = landed.node {
            self.disturb(node, SOMEBODY_ELSE);
        }
        if let Some(job) = landed.wrote {
            for instance in &mut self.instances {
                instance.succession.note_late_write(&self.server, &job);
            }
        }
        Ok(())
    }

    /// Lets a core decide, and judges each action. Returns them without notes.
    pub(crate) fn decide(&mut self, who: Who) -> Result<Vec<Action>, Violation> {
        let mut actions = self.instances[who].step(self.now);
        for action in &actions {
            let line = || {
                format!(
                    "{:>6} {} {}<- {}",
                    self.steps,
                    self.now.0,
                    name_of(who),
                    trace::action(action)
                )
            };
            self.trace.add(line);
        }
        self.instances[who].judge(&self.server, self.now, &actions)?;
        let is_passing = self.instances[who].next_wake().is_some_and(|wake| wake <= self.now);
        for action in &actions {
            match &action.kind {
                ActionKind::Bind { pod, node, .. } => {
                    self.note_decision(who, &pod.uid, node);
                    self.stats.add("lone pod bound beside a pass under way", u64::from(is_passing));
                }
                ActionKind::Write(Write::WriteStatus { status, .. })
                    if !status.placement.is_empty() =>
                {
                    self.stats.count("gang placement written");
                }
                ActionKind::Write(Write::ReleaseJob { .. }) => {
                    self.stats.count("release of a Job asked for");
                }
                ActionKind::Write(Write::SuspendJob { .. }) => {
                    self.stats.count("Job that was let go suspended again");
                }
                ActionKind::Write(Write::SetGroupCondition { .. }) => {
                    self.stats.count("condition of a PodGroup written");
                }
                ActionKind::Note(note) => self.stats.count(note.reason),
                ActionKind::Write(_) => {}
            }
            self.intruders.note(action);
            self.instances[who].executor.ask(action, &mut self.rng);
        }
        actions.retain(|action| !matches!(action.kind, ActionKind::Note(_)));
        if let Some(rule) = self.quiet_by
            && let Some(action) = actions.iter().find(|it| breaks_quiet(&it.kind))
        {
            let news = trace::news(&self.server, &action.kind);
            return broken(rule, format!("{} {news}", trace::action(action)));
        }
        Ok(actions)
    }

    /// Returns when a core wants to be called again.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.instances.iter().filter_map(Instance::next_wake).min()
    }

    fn note_decision(&mut self, who: Who, pod: &Uid, node: &NodeName) {
        let view = &self.instances[who].view;
        let truly_there =
            self.server.pods.values().filter(|it| it.node.as_ref() == Some(node) && it.uses_node());
        let informed = self.server.nodes.get(node) == view.nodes.get(node)
            && truly_there
                .into_iter()
                .all(|it| view.charged(node, self.now).any(|known| known.id.uid == it.id.uid));
        let decision = Decision { step: self.steps, by: who, node: node.clone(), informed };
        self.decided.insert(pod.clone(), decision);
    }

    /// Perhaps lets an intruder strike a gang that is about to start. The core learns of it at
    /// once, or too late.
    fn intrude(&mut self) {
        let wall = self.wall();
        let (server, rng, stats) = (&mut self.server, &mut self.rng, &mut self.stats);
        let Some(Intrusion { node, made }) = self.intruders.act(server, wall, rng, stats) else {
            return;
        };
        if let Some(node) = node {
            self.disturb(node, SOMEBODY_ELSE);
        }
        self.world.runs.extend(made);
        self.publish();
        for who in self.everyone() {
            for _ in 0..self.rng.below(12) {
                self.deliver(who);
            }
        }
    }

    /// Lets a kubelet look at a pod. If it refuses one of ours, another party must be the cause.
    /// Returns whether it looked.
    pub(crate) fn admit(&mut self) -> Result<bool, Violation> {
        let before = self
            .server
            .pods
            .values()
            .filter(|pod| pod.phase == fluxqueue_workload::Phase::Pending)
            .count();
        let (runs, wall) = (&self.world.runs, self.wall());
        let run_of = |uid: &Uid| World::run_of(runs, uid);
        let refusal = self.kubelets.admit(
            &mut self.server,
            self.now,
            wall,
            run_of,
            &mut self.rng,
            &mut self.stats,
        );
        let after = self
            .server
            .pods
            .values()
            .filter(|pod| pod.phase == fluxqueue_workload::Phase::Pending)
            .count();
        let Some(Refusal { pod, node, reason }) = refusal else { return Ok(before != after) };
        // Without a decision of ours, the pod's author chose the node.
        if let Some(decision) = self.decided.get(&pod) {
            let since = |(_, step): (&(NodeName, Who), &u64)| *step >= decision.step;
            let of_node = (node.clone(), 0)..=(node.clone(), SOMEBODY_ELSE);
            let disturbed = self
                .disturbed
                .range(of_node)
                .filter(|((_, who), _)| *who != decision.by)
                .any(since);
            if decision.node == node && decision.informed && !disturbed {
                let text = format!(
                    "pod {pod} on {node}: {reason}, though nobody else changed anything there"
                );
                return broken("no node is booked twice", text);
            }
            self.stats.count("race lost to another scheduler");
        }
        Ok(true)
    }

    /// Lets users submit, change and edit something.
    fn users(&mut self) {
        let wall = self.wall();
        self.world.act(&mut self.server, wall, &mut self.rng, &mut self.stats);
    }

    /// Lets a controller do its next thing.
    fn control(&mut self) {
        let wall = self.wall();
        let (server, rng, stats) = (&mut self.server, &mut self.rng, &mut self.stats);
        if rng.chance(25) {
            self.world.controllers.collect_garbage(server, rng);
        } else if let Some((uid, run)) = self.world.controllers.sync(server, wall, rng, stats) {
            self.world.runs.insert(uid, run);
        }
    }

    fn foreigners(&mut self) {
        let wall = self.wall();
        match self.rng.weighted(&[40, 60, 120, 3, 12]) {
            0 => {
                let run =
                    self.foreign.submit(&mut self.server, wall, &mut self.rng, &mut self.stats);
                if let Some((id, run)) = run {
                    if let Some(node) = self.server.pods[&id.key].node.clone() {
                        self.disturb(node, SOMEBODY_ELSE);
                    }
                    self.world.runs.insert(id.uid, run);
                }
            }
            1 => self.foreign.look(&self.server),
            4 => foreign::nominate(&mut self.server, &mut self.rng, &mut self.stats),
            3 => {
                if let Some(node) =
                    foreign::meddle(&mut self.server, wall, &mut self.rng, &mut self.stats)
                {
                    self.disturb(node, SOMEBODY_ELSE);
                }
            }
            _ => {
                if let Some(node) =
                    self.foreign.bind(&mut self.server, wall, &mut self.rng, &mut self.stats)
                {
                    self.disturb(node, SOMEBODY_ELSE);
                }
            }
        }
    }

    fn pass_time(&mut self) {
        let millis = match self.rng.weighted(&[5, 5, 2]) {
            0 => self.rng.between(1, 100),
            1 => self.rng.between(100, 3_000),
            _ => self.rng.between(3_000, 30_000),
        };
        self.now = self.now.plus_millis(i64::try_from(millis).expect("seconds"));
        if self.rng.chance(3) {
            let offset = self.offset + clock_jump(&mut self.rng);
            self.stats.count("clock jumped");
            self.set_offset(offset);
        }
        self.end_pods();
    }

    /// Lets the server's clock jump. The instances learn of it late.
    pub(crate) fn set_offset(&mut self, offset: i64) {
        self.offset = offset;
        self.offset_max = self.offset_max.max(offset);
        for instance in &mut self.instances {
            instance.channel.push(Event::ClockOffset(offset));
        }
    }

    /// Ends the pods after their run time.
    pub(crate) fn end_pods(&mut self) {
        let (runs, wall) = (&self.world.runs, self.wall());
        let run_of = |uid: &Uid| World::run_of(runs, uid);
        self.kubelets.end(&mut self.server, self.now, wall, run_of, &mut self.rng, &mut self.stats);
    }

    fn trouble(&mut self) {
        let wall = self.wall();
        match self.rng.weighted(&[6, 3, 2]) {
            0 => {
                if let Some(node) =
                    kubelet::trouble(&mut self.server, &mut self.rng, &mut self.stats)
                {
                    self.disturb(node, SOMEBODY_ELSE);
                }
            }
            1 => self.kubelets.join(&mut self.server, &mut self.rng, &mut self.stats),
            _ => kubelet::evict(&mut self.server, wall, &mut self.rng, &mut self.stats),
        }
    }

    /// Lets a process die between two actions, or pauses it for so long that another takes over:
    /// after the last Binding of the old one has had its time, or while its last writes are still
    /// under way.
    fn crash(&mut self, who: Who) {
        self.stats.count("crash");
        if self.half_bound_gang() {
            self.stats.count("crash with a half-bound gang");
        }
        let wall = self.wall();
        let executor = &mut self.instances[who].executor;
        if self.rng.chance(50) {
            self.late.extend(executor.pause());
        } else {
            let nodes = executor.crash(&mut self.server, wall, &mut self.rng, &mut self.stats);
            for node in nodes {
                self.disturb(node, who);
            }
        }
        for _ in 0..self.rng.below(20) {
            match self.rng.below(4) {
                0 => self.users(),
                1 => self.control(),
                2 => self.pass_time(),
                _ => self.foreigners(),
            }
        }
        self.publish();
        self.restart(who);
        self.stats.add(
            "half-bound gang left to a successor",
            self.instances[who].succession.len() as u64,
        );
    }

    /// Lets a new process take over from one without anything under way.
    pub(crate) fn restart(&mut self, who: Who) {
        self.instances[who].succeed(self.factory, &self.server, self.offset);
        let epoch = self.instances[who].start.epoch;
        self.trace.add(|| {
            format!("{:>6} {} {}restart: epoch {epoch}", self.steps, self.now.0, name_of(who))
        });
        self.intruders.forget();
    }

    fn half_bound_gang(&self) -> bool {
        self.server.flux_jobs.values().any(|job| {
            let placed = job.status.as_ref().is_some_and(|status| !status.placement.is_empty());
            let members = || {
                self.server
                    .pods
                    .values()
                    .filter(|pod| objects::is_ours(pod) && !pod.phase.is_terminal())
                    .filter(|pod| jobs::Unit::of(pod).is_recorded_by(job))
            };
            placed
                && members().any(|pod| pod.node.is_some())
                && members().any(|pod| pod.node.is_none())
        })
    }

    /// Sends the server's changes on their way.
    pub(crate) fn publish(&mut self) {
        for change in self.server.take_changes() {
            for instance in &mut self.instances {
                instance.channel.push(change.clone());
            }
        }
        if self.steps.is_multiple_of(64) {
            self.world.tidy(&self.server);
            self.kubelets.tidy(&self.server);
            let there: std::collections::BTreeSet<&Uid> =
                self.server.pods.values().map(|pod| &pod.id.uid).collect();
            self.decided.retain(|uid, _| there.contains(uid));
        }
    }
}

/// Returns a jump of the server's clock: minutes or hours, both ways, in microseconds.
fn clock_jump(rng: &mut Rng) -> i64 {
    let seconds = if rng.chance(60) { rng.between(60, 1_800) } else { rng.between(3_600, 20_000) };
    let micros = i64::try_from(seconds).expect("hours") * 1_000_000;
    if rng.chance(50) { micros } else { -micros }
}

/// Returns the name of an instance in the trace. The first has none.
fn name_of(who: Who) -> &'static str {
    if who == 0 { "" } else { "second " }
}

/// True if the action may not happen where nothing happens.
fn breaks_quiet(action: &ActionKind) -> bool {
    // The retention of a job that ended long ago may be over just now.
    !matches!(action, ActionKind::Write(Write::DeleteFluxJob { .. }))
}
