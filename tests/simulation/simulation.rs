//! One run: the core, the world around it, and chance between them.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_core::{Action, ActionId, ActionKind, Event};
use fluxqueue_workload::{NodeName, Time, Uid};

use crate::channel::Channel;
use crate::checks::{self, Violation, broken};
use crate::executor::{Executor, Weather};
use crate::foreign::{self, Foreign};
use crate::jobs;
use crate::kubelet::{self, Kubelets, Refusal};
use crate::machine::{Factory, Machine};
use crate::objects::OURS;
use crate::quiescence;
use crate::rng::Rng;
use crate::server::Server;
use crate::stats::Stats;
use crate::succession::Succession;
use crate::trace::{self, Trace};
use crate::view::View;
use crate::world::World;

/// Everything of a run.
pub(crate) struct Simulation<'a> {
    factory: &'a Factory,
    core: Box<dyn Machine>,
    epoch: i64,
    pub(crate) rng: Rng,
    pub(crate) now: Time,
    pub(crate) server: Server,
    pub(crate) channel: Channel,
    pub(crate) executor: Executor,
    pub(crate) world: World,
    pub(crate) kubelets: Kubelets,
    foreign: Foreign,
    pub(crate) view: View,
    last_id: Option<ActionId>,
    pub(crate) succession: Succession,
    /// When our Bindings were decided, by pod; for the question who is to blame if a kubelet refuses.
    decided: BTreeMap<Uid, Decision>,
    /// When somebody else last changed something on a node.
    disturbed: BTreeMap<NodeName, u64>,
    pub(crate) steps: u64,
    pub(crate) stats: Stats,
    pub(crate) trace: Trace,
}

/// A Binding that was decided.
#[derive(Debug)]
struct Decision {
    step: u64,
    node: NodeName,
    /// The core then knew of everything on that node.
    informed: bool,
}

/// Steps between two points at which the system is brought to rest.
const REST_EVERY: u64 = 350;
/// Of so many rests, one ends with everything deleted.
const CLEAR_EVERY: u64 = 6;

impl<'a> Simulation<'a> {
    /// A cluster of a few nodes and a core that knows nothing yet.
    pub(crate) fn new(seed: u64, factory: &'a Factory, traced: bool) -> Self {
        let mut simulation = Simulation {
            factory,
            core: factory(1),
            epoch: 1,
            rng: Rng::new(seed),
            now: Time::from_seconds(1_700_000_000),
            server: Server::default(),
            channel: Channel::default(),
            executor: Executor::default(),
            world: World::default(),
            kubelets: Kubelets::default(),
            foreign: Foreign::default(),
            view: View::default(),
            last_id: None,
            succession: Succession::default(),
            decided: BTreeMap::new(),
            disturbed: BTreeMap::new(),
            steps: 0,
            stats: Stats::default(),
            trace: Trace::new(traced),
        };
        for _ in 0..4 {
            simulation.kubelets.join(&mut simulation.server, &mut simulation.rng, &mut simulation.stats);
        }
        simulation.server.take_changes();
        simulation.channel.relist(&simulation.server);
        simulation
    }

    /// Runs so many steps, with rests between them.
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

    /// One thing happens, chosen at random, and the core decides.
    fn chance(&mut self) -> Result<(), Violation> {
        self.steps += 1;
        match self.rng.weighted(&[400, 160, 200, 60, 110, 90, 40, 60, 60, 10, 3]) {
            0 => {
                for _ in 0..=self.rng.below(8) {
                    self.deliver();
                }
            }
            1 => {
                for _ in 0..=self.rng.below(4) {
                    self.answer();
                }
            }
            2 => {
                for _ in 0..=self.rng.below(5) {
                    self.execute(Weather::Rough);
                }
            }
            3 => self.world.act(&mut self.server, self.now, &mut self.rng, &mut self.stats),
            4 => self.control(),
            5 => drop(self.admit()?),
            6 => drop(self.kubelets.let_go(&mut self.server, &mut self.rng, &mut self.stats)),
            7 => self.foreigners(),
            8 => self.pass_time(),
            9 => self.trouble(),
            _ => self.crash(),
        }
        self.publish();
        if self.rng.chance(75) { self.decide().map(drop) } else { Ok(()) }
    }

    /// The core is told one piece of news. False if there is none.
    pub(crate) fn deliver(&mut self) -> bool {
        let Some(event) = self.channel.deliver(&mut self.rng) else { return false };
        self.tell(event);
        true
    }

    /// The core hears one answer. False if there is none.
    pub(crate) fn answer(&mut self) -> bool {
        let Some(event) = self.executor.answer(&mut self.rng) else { return false };
        self.tell(event);
        true
    }

    fn tell(&mut self, event: Event) {
        self.trace.add(|| format!("{:>6} {} -> {}", self.steps, self.now.0, trace::event(&event)));
        self.view.tell(&event, self.now);
        self.core.handle(event, self.now);
    }

    /// One action reaches the server.
    pub(crate) fn execute(&mut self, weather: Weather) {
        self.executor.execute(&mut self.server, self.now, weather, &mut self.rng, &mut self.stats);
    }

    /// The core decides, and each action is judged. Returns them, notes apart.
    pub(crate) fn decide(&mut self) -> Result<Vec<Action>, Violation> {
        let mut actions = self.core.step(self.now);
        for action in &actions {
            self.trace.add(|| format!("{:>6} {} <- {}", self.steps, self.now.0, trace::action(action)));
        }
        self.succession.judge(&self.view, self.now, &actions)?;
        checks::judge(&mut self.view, &self.server, self.now, &mut self.last_id, &actions)?;
        for action in &actions {
            match &action.kind {
                ActionKind::Bind { pod, node } => self.note_decision(&pod.uid, node),
                ActionKind::WriteStatus { status, .. } if !status.placement.is_empty() => {
                    self.stats.count("gang placement written");
                }
                ActionKind::Note(note) => self.stats.count(note.reason),
                _ => {}
            }
            self.executor.ask(action, &mut self.rng);
        }
        actions.retain(|action| !matches!(action.kind, ActionKind::Note(_)));
        Ok(actions)
    }

    /// When the core wants to be called again.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.core.next_wake()
    }

    fn note_decision(&mut self, pod: &Uid, node: &NodeName) {
        let truly_there = self.server.pods.values().filter(|it| it.node.as_ref() == Some(node) && it.uses_node());
        let informed = self.server.nodes.get(node) == self.view.nodes.get(node)
            && truly_there
                .into_iter()
                .all(|it| self.view.charged(node, self.now).any(|known| known.id.uid == it.id.uid));
        let decision = Decision { step: self.steps, node: Arc::clone(node), informed };
        self.decided.insert(Arc::clone(pod), decision);
    }

    /// A kubelet looks at a pod; if it refuses one of ours, that must be somebody else's doing. Whether it looked.
    pub(crate) fn admit(&mut self) -> Result<bool, Violation> {
        let before = self.server.pods.values().filter(|pod| pod.phase == fluxqueue_workload::Phase::Pending).count();
        let runs = &self.world.runs;
        let run_of = |uid: &Uid| World::run_of(runs, uid);
        let refusal = self.kubelets.admit(&mut self.server, self.now, run_of, &mut self.rng, &mut self.stats);
        let after = self.server.pods.values().filter(|pod| pod.phase == fluxqueue_workload::Phase::Pending).count();
        let Some(Refusal { pod, node, reason }) = refusal else { return Ok(before != after) };
        // Without a decision of ours its author chose the node.
        if let Some(decision) = self.decided.get(&pod) {
            let disturbed = self.disturbed.get(&node).is_some_and(|step| *step >= decision.step);
            if decision.node == node && decision.informed && !disturbed {
                let text = format!("pod {pod} on {node}: {reason}, though nobody else changed anything there");
                return broken("no node is booked twice", text);
            }
            self.stats.count("race lost to somebody else");
        }
        Ok(true)
    }

    /// A controller does its next thing.
    fn control(&mut self) {
        let (server, rng, stats) = (&mut self.server, &mut self.rng, &mut self.stats);
        if rng.chance(25) {
            self.world.controllers.collect_garbage(server, rng);
        } else if let Some((uid, run)) = self.world.controllers.sync(server, self.now, rng, stats) {
            self.world.runs.insert(uid, run);
        }
    }

    fn foreigners(&mut self) {
        match self.rng.weighted(&[40, 60, 120, 3]) {
            0 => {
                let run = self.foreign.submit(&mut self.server, self.now, &mut self.rng, &mut self.stats);
                if let Some((id, run)) = run {
                    if let Some(node) = self.server.pods[&id.key].node.clone() {
                        self.disturbed.insert(node, self.steps);
                    }
                    self.world.runs.insert(id.uid, run);
                }
            }
            1 => self.foreign.look(&self.server),
            3 => {
                if let Some(node) = foreign::meddle(&mut self.server, &mut self.rng, &mut self.stats) {
                    self.disturbed.insert(node, self.steps);
                }
            }
            _ => {
                if let Some(node) = self.foreign.bind(&mut self.server, &mut self.rng, &mut self.stats) {
                    self.disturbed.insert(node, self.steps);
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
        self.end_pods();
    }

    /// Pods whose time is over end.
    pub(crate) fn end_pods(&mut self) {
        let runs = &self.world.runs;
        let run_of = |uid: &Uid| World::run_of(runs, uid);
        self.kubelets.end(&mut self.server, self.now, run_of, &mut self.rng, &mut self.stats);
    }

    fn trouble(&mut self) {
        match self.rng.weighted(&[6, 3, 2]) {
            0 => {
                if let Some(node) = kubelet::trouble(&mut self.server, &mut self.rng, &mut self.stats) {
                    self.disturbed.insert(node, self.steps);
                }
            }
            1 => self.kubelets.join(&mut self.server, &mut self.rng, &mut self.stats),
            _ => kubelet::evict(&mut self.server, &mut self.rng, &mut self.stats),
        }
    }

    /// The process dies between two actions. A new one starts after the last Binding of the old one has had its time.
    fn crash(&mut self) {
        self.stats.count("crash");
        if self.half_bound_gang() {
            self.stats.count("crash with a half-bound gang");
        }
        self.executor.crash(&mut self.server, self.now, &mut self.rng, &mut self.stats);
        for _ in 0..self.rng.below(20) {
            match self.rng.below(4) {
                0 => self.world.act(&mut self.server, self.now, &mut self.rng, &mut self.stats),
                1 => self.control(),
                2 => self.pass_time(),
                _ => self.foreigners(),
            }
        }
        self.server.take_changes();
        self.epoch += 1;
        self.trace.add(|| format!("{:>6} {} crash: epoch {}", self.steps, self.now.0, self.epoch));
        self.core = (self.factory)(self.epoch);
        self.view = View::default();
        self.last_id = None;
        self.succession = Succession::of(&self.server);
        self.stats.add("half-bound gang left to a successor", self.succession.len() as u64);
        self.channel.relist(&self.server);
    }

    fn half_bound_gang(&self) -> bool {
        self.server.flux_jobs.values().any(|job| {
            let placed = job.status.as_ref().is_some_and(|status| !status.placement.is_empty());
            let members = || {
                self.server
                    .pods
                    .values()
                    .filter(|pod| *pod.scheduler == *OURS && !pod.phase.is_terminal())
                    .filter(|pod| jobs::Unit::of(pod).is_recorded_by(job))
            };
            placed && members().any(|pod| pod.node.is_some()) && members().any(|pod| pod.node.is_none())
        })
    }

    /// What changed at the server goes on its way.
    pub(crate) fn publish(&mut self) {
        for change in self.server.take_changes() {
            self.channel.push(change);
        }
        if self.steps.is_multiple_of(64) {
            self.world.tidy(&self.server);
            self.kubelets.tidy(&self.server);
            let there: std::collections::BTreeSet<&Uid> = self.server.pods.values().map(|pod| &pod.id.uid).collect();
            self.decided.retain(|uid, _| there.contains(uid));
        }
    }
}
