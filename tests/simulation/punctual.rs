//! Worlds where nothing is late or lost, and everything happens at whole seconds: in each second
//! everything that is under way arrives.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_core::{Action, Event};
use fluxqueue_machine::cluster::{Node, Readiness};
use fluxqueue_workload::{NodeName, Phase, Pod, PriorityClass, Resources, Time, Uid};

use crate::adversary;
use crate::machine::{Factory, Machine, Start};
use crate::objects::{HOST, NAMESPACE, ZONE, suspending};
use crate::server::{PRIORITY_CLASSES, Server};
use crate::stats::Stats;
use crate::trace::{self, Trace};

/// Most rounds in one instant until nothing moves.
pub(crate) const ROUNDS_MAX: usize = 200;

/// A control plane with its process.
pub(crate) struct Punctual<'a> {
    factory: &'a Factory,
    pub(crate) start: Start,
    core: Box<dyn Machine>,
    pub(crate) server: Server,
    pub(crate) now: i64,
    /// Run time of pods, by their uids.
    pub(crate) runs: BTreeMap<Uid, i64>,
    pub(crate) steps: u64,
    pub(crate) stats: Stats,
    pub(crate) trace: Trace,
}

impl<'a> Punctual<'a> {
    pub(crate) fn new(start: Start, factory: &'a Factory, traced: bool) -> Self {
        Punctual {
            core: factory(&start),
            factory,
            start,
            server: Server::default(),
            now: 1_700_000_000,
            runs: BTreeMap::new(),
            steps: 0,
            stats: Stats::default(),
            trace: Trace::new(traced),
        }
    }

    /// Adds a node in a zone.
    pub(crate) fn join(&mut self, name: &str, zone: &str, allocatable: Resources) {
        let labels = vec![(Arc::from(HOST), Arc::from(name)), (Arc::from(ZONE), Arc::from(zone))];
        let uid = self.server.new_uid();
        self.server.put_node(Node {
            name: NodeName::from(name),
            uid,
            allocatable,
            labels,
            taints: Vec::new(),
            unschedulable: false,
            readiness: Readiness::Ready,
            declared_features: Vec::new(),
        });
    }

    pub(crate) fn time(&self) -> Time {
        Time::from_seconds(self.now)
    }

    /// Gives the process a list of all objects.
    pub(crate) fn list(&mut self) {
        self.server.take_changes();
        self.tell(Event::ClockOffset(0));
        let server = &self.server;
        let nodes = server.nodes.values().map(|node| Event::Node(Arc::clone(node)));
        let pods = server.pods.values().map(|pod| Event::Pod(Arc::clone(pod)));
        let records = server.flux_jobs.values().map(|job| Event::FluxJob(Arc::clone(job)));
        let queues = server.queues.values().map(|queue| Event::Queue(Arc::clone(queue)));
        let classes = PRIORITY_CLASSES.map(|(name, value)| {
            let class = PriorityClass {
                name: name.into(),
                uid: format!("class-{name}").into(),
                value,
                is_default: false,
            };
            Event::PriorityClass(Arc::new(class))
        });
        let makers = server.controllers.values().map(|maker| Event::Controller(Arc::clone(maker)));
        let namespaces = adversary::NAMESPACES.into_iter().chain([NAMESPACE]);
        let namespaces = namespaces.map(|name| Event::Namespace(Arc::new(suspending(name))));
        let all = nodes
            .chain(pods)
            .chain(makers)
            .chain(records)
            .chain(queues)
            .chain(classes)
            .chain(namespaces);
        let all: Vec<Event> = all.collect();
        for event in all {
            self.tell(event);
        }
        self.tell(Event::Synced);
    }

    /// Lets another process take over.
    pub(crate) fn restart(&mut self) {
        self.start.epoch += 1;
        self.core = (self.factory)(&self.start);
        self.list();
    }

    fn tell(&mut self, event: Event) {
        let (steps, now) = (self.steps, self.now);
        self.trace.add(|| format!("{steps:>6} {now} -> {}", trace::event(&event)));
        self.core.handle(event, Time::from_seconds(now));
    }

    /// Delivers everything that is under way. Returns the actions of the process, or `None` if
    /// nothing moves any more.
    pub(crate) fn round(&mut self) -> Option<Vec<Action>> {
        let changes = self.server.take_changes();
        let has_news = !changes.is_empty();
        for event in changes {
            self.tell(event);
        }
        let actions = self.core.step(self.time());
        let is_passing = self.core.next_wake().is_some_and(|at| at <= self.time());
        (!actions.is_empty() || has_news || is_passing).then_some(actions)
    }

    /// Carries out an action, and answers it. Events have no effect.
    pub(crate) fn carry_out(&mut self, action: &Action) {
        let (steps, now) = (self.steps, self.now);
        self.trace.add(|| format!("{steps:>6} {now} <- {}", trace::action(action)));
        let outcome = self.server.apply(&action.kind, self.time());
        self.tell(Event::Done(action.id, outcome));
    }

    /// Lets pods with a node run.
    pub(crate) fn run_pods(&mut self) {
        let bound = |pod: &&Arc<Pod>| pod.node.is_some() && pod.phase == Phase::Pending;
        let bound: Vec<Arc<Pod>> = self.server.pods.values().filter(bound).cloned().collect();
        for pod in bound {
            self.server.put_pod(Pod { phase: Phase::Running, ..Pod::clone(&pod) });
        }
    }

    /// Lets time pass up to the next second in which something happens, but not beyond `until`.
    pub(crate) fn pass_time(&mut self, until: i64) {
        let wake = self.core.next_wake().map(|at| at.0.div_euclid(1_000_000) + 1);
        let ends = self.server.pods.values().filter_map(|pod| self.end_of(pod));
        let next = ends.chain(wake).filter(|at| *at > self.now).min().unwrap_or(until);
        self.now = next.clamp(self.now + 1, until);
        let has_ended = |pod: &&Arc<Pod>| self.end_of(pod).is_some_and(|end| end <= self.now);
        let ended: Vec<Arc<Pod>> = self.server.pods.values().filter(has_ended).cloned().collect();
        for pod in ended {
            let ended = Some(self.time());
            self.server.put_pod(Pod { phase: Phase::Succeeded, ended, ..Pod::clone(&pod) });
        }
    }

    /// Returns when a running pod really ends, if it does.
    fn end_of(&self, pod: &Pod) -> Option<i64> {
        let started = pod.started.filter(|_| pod.phase == Phase::Running)?;
        Some(started.seconds() + self.runs.get(&pod.id.uid)?)
    }
}
