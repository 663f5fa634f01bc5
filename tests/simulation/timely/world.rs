//! The events of these worlds: one at a time, with the causes that each may be.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::FluxJob;
use fluxqueue_machine::cluster::Node;
use fluxqueue_planner::queues::{Counted, Limit, Limits, QueueObject, Rules};
use fluxqueue_workload::constraints::{Constraints, PodTerm};
use fluxqueue_workload::metadata::Labels;
use fluxqueue_workload::{
    GroupLabels, Lifetime, NodeName, ObjectKey, Phase, Pod, Resources, Shape, Time, Uid,
};

use super::planner::Amounts;
use super::{Job, Timely};
use crate::jobs::{self, Unit};
use crate::objects::{self, FOREIGN, HOST, OURS, ZONE};
use crate::rng::Rng;
use crate::server::PRIORITY_CLASSES;
use crate::violation::Violation;

const GIB: u64 = 1 << 30;
/// Most pods of ours that wait.
const WAITING_MAX: usize = 12;
const NODES_MAX: usize = 7;

/// The label of pods that repelling pods keep away.
const SHY: (&str, &str) = ("manner", "shy");

/// The label of pods of which no two share a node.
const APART: (&str, &str) = ("manner", "apart");

/// The anti-affinity of a job's pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// They repel none, and none repel them.
    Plain,
    /// Repelling pods keep them away.
    Shy,
    /// They keep shy pods off their node, or out of their zone.
    Repelling(&'static str),
    /// They keep pods of their own manner off their node.
    Apart,
}

/// Half of the largest node: of pods that request more, one fits.
const HALF_A_NODE: u64 = 4_000;

impl Timely<'_> {
    /// Lets one event happen.
    pub(super) fn happen(&mut self) -> Result<(), Violation> {
        let is_full = self.waiting().len() >= WAITING_MAX;
        match self.rng.weighted(&[if is_full { 0 } else { 22 }, 12, 3, 6, 1, 2, 2]) {
            0 => self.submit(),
            1 => {
                let seconds = self.rng.between(1, 40);
                self.pass(i64::try_from(seconds).expect("seconds"))?;
            }
            2 => self.change_node(),
            3 => self.intrude(),
            4 => self.withdraw(),
            5 => self.edit(),
            _ => self.restart(),
        }
        Ok(())
    }

    /// Submits a pod, or a gang of pods of which no two fit on one node.
    fn submit(&mut self) {
        self.made += 1;
        let name: Arc<str> = Arc::from(format!("job-{:04}", self.made));
        let manner = self.manner();
        let repels = matches!(manner, Manner::Repelling(_) | Manner::Apart);
        let is_alone =
            self.rng.chance(if matches!(manner, Manner::Repelling(_)) { 80 } else { 55 });
        let count = if is_alone { 1 } else { self.rng.between(2, 4) };
        let cpu = match (is_alone, manner) {
            // These pods fit beside others.
            (_, Manner::Apart) | (true, Manner::Repelling(_)) => 500 * self.rng.between(1, 5),
            (false, _) => HALF_A_NODE + 100 * self.rng.between(1, 15),
            (true, _) => 500 * self.rng.between(1, 14),
        };
        let amounts = Amounts { cpu, memory: self.rng.between(0, 5) * GIB };
        let zone = self.rng.chance(25).then(|| Arc::from(zone(&mut self.rng)));
        let (lifetime, run) = self.walltime();
        let priority = if self.rng.chance(12) { 10 } else { 0 };
        let shape = Arc::new(shape(amounts, zone.clone(), manner));
        let mut pods = Vec::new();
        for at in 0..count {
            let id = self.world.server.new_ref_for(OURS, &format!("{name}-{at}"));
            let size = u32::try_from(count).expect("a few");
            let group =
                (count > 1).then(|| GroupLabels { name: Arc::clone(&name), size: Ok(size) });
            self.world.runs.extend(run.map(|run| (id.uid.clone(), run)));
            pods.push(id.key.clone());
            let pod = Pod::waiting(id, Arc::from(OURS), Arc::clone(&shape));
            let labels = manner.labels();
            self.world.server.put_pod(Pod {
                group,
                lifetime,
                priority,
                labels,
                created: self.world.time(),
                ..pod
            });
        }
        let unit = Unit::of(&self.world.server.pods[&pods[0]]);
        let job = Job {
            unit,
            pods,
            amounts,
            zone,
            lifetime,
            priority,
            repels,
            submitted: self.world.now,
            told: None,
            is_delayed: false,
            first_undated: None,
            nodes: std::collections::BTreeSet::new(),
            has_started: false,
        };
        self.jobs.insert(name, job);
        self.happened.came = self.happened.came.max(Some(priority));
    }

    /// Adds a node.
    pub(super) fn join(&mut self) {
        self.made += 1;
        let name = format!("node-{}", self.made);
        let mut allocatable = Resources::new();
        allocatable.set("pods", 110);
        allocatable.set("cpu", 1_000 * self.rng.between(5, 8));
        allocatable.set("memory", GIB * self.rng.between(4, 12));
        let zone = zone(&mut self.rng);
        self.world.join(&name, zone, allocatable);
    }

    /// Limits the queue to about half of the cluster's CPU.
    pub(super) fn limit(&mut self) {
        let most = 1_000 * self.rng.between(10, 18);
        let what = Counted::Resource(Arc::from("cpu"));
        let limit =
            Limit { per_namespace: false, nodes: None, what, most, path: Arc::from("spec.limits") };
        let rules = Rules {
            limits: Limits { running: vec![limit], ..Limits::default() },
            ..Rules::default()
        };
        let (name, uid) = (Arc::from("default"), self.world.server.new_uid());
        self.world.server.put_queue(QueueObject::of_rules(name, uid, rules));
        self.cpu_max = Some(most);
    }

    /// Lets a node come, go with all of its pods, shrink, be cordoned or opened again.
    fn change_node(&mut self) {
        let nodes: Vec<Arc<Node>> = self.world.server.nodes.values().cloned().collect();
        let Some(node) = self.rng.pick(&nodes).cloned() else { return self.join() };
        match self.rng.weighted(&[if nodes.len() < NODES_MAX { 4 } else { 0 }, 1, 2, 3]) {
            0 => self.join(),
            1 => {
                self.happened.capacity = true;
                let there = |pod: &&Arc<Pod>| pod.node.as_ref() == Some(&node.name);
                let there: Vec<ObjectKey> = self
                    .world
                    .server
                    .pods
                    .values()
                    .filter(there)
                    .map(|pod| pod.id.key.clone())
                    .collect();
                self.world.server.remove_node(&node.name);
                for key in &there {
                    self.world.server.remove_pod(key);
                }
            }
            2 => {
                self.happened.capacity = true;
                let mut node = Node::clone(&node);
                node.allocatable.set("cpu", 1_000 * self.rng.between(3, 8));
                self.world.server.put_node(node);
            }
            _ => {
                self.happened.capacity = true;
                self.world
                    .server
                    .put_node(Node { unschedulable: !node.unschedulable, ..Node::clone(&node) });
            }
        }
    }

    /// Lets another scheduler put a pod where it has room now.
    fn intrude(&mut self) {
        let amounts =
            Amounts { cpu: 500 * self.rng.between(1, 8), memory: self.rng.between(0, 3) * GIB };
        let names: Vec<NodeName> = self.world.server.nodes.keys().cloned().collect();
        let Some(node) = self.rng.pick(&names).cloned() else { return };
        let has = &self.world.server.nodes[&node].allocatable;
        let there = || {
            self.world
                .server
                .pods
                .values()
                .filter(|pod| pod.uses_node() && pod.node.as_ref() == Some(&node))
        };
        let taken = |name: &str| there().map(|pod| pod.shape.requests.get(name)).sum::<u64>();
        if taken("cpu") + amounts.cpu > has.get("cpu")
            || taken("memory") + amounts.memory > has.get("memory")
        {
            return;
        }
        self.made += 1;
        let id = self.world.server.new_ref(&format!("foreign-{}", self.made));
        let (lifetime, run) = self.foreign_lifetime();
        self.world.runs.extend(run.map(|run| (id.uid.clone(), run)));
        let repels = self.has_repellers && self.rng.chance(40);
        let manner = if repels { self.repelling() } else { Manner::Plain };
        let pod = Pod::waiting(id, Arc::from(FOREIGN), Arc::new(shape(amounts, None, manner)));
        let now = self.world.time();
        let (node, started, phase) = (Some(node), Some(now), Phase::Running);
        self.world.server.put_pod(Pod { node, started, phase, lifetime, created: now, ..pod });
        self.happened.capacity = true;
    }

    /// Returns the anti-affinity of another job's pods.
    fn manner(&mut self) -> Manner {
        if !self.has_repellers {
            return Manner::Plain;
        }
        match self.rng.weighted(&[3, 4, 3, 3]) {
            0 => Manner::Plain,
            1 => Manner::Shy,
            2 => self.repelling(),
            _ => Manner::Apart,
        }
    }

    fn repelling(&mut self) -> Manner {
        Manner::Repelling(if self.rng.chance(50) { HOST } else { ZONE })
    }

    /// Returns the walltime of a pod and its true run time: most end early or on time, a few later.
    fn walltime(&mut self) -> (Lifetime, Option<i64>) {
        let walltime = self.rng.between(10, 150);
        // Nodes that are held within limits for jobs without a known start are on no record.
        let late = usize::from(self.cpu_max.is_none());
        let run = match self.rng.weighted(&[4, 5, late]) {
            0 => self.rng.between(1, walltime),
            1 => walltime,
            _ => walltime + self.rng.between(2, 50),
        };
        (Lifetime::Seconds(walltime), i64::try_from(run).ok())
    }

    /// Returns the same two for a pod of another scheduler, with an end that may be unknown.
    fn foreign_lifetime(&mut self) -> (Lifetime, Option<i64>) {
        let unknown = usize::from(self.cpu_max.is_none());
        let run = |seconds: u64| i64::try_from(seconds).ok();
        match self.rng.weighted(&[3, 5 * unknown, unknown]) {
            0 => self.walltime(),
            1 => (Lifetime::Eventually, run(self.rng.between(20, 400))),
            // Services are deleted in the end, too.
            _ => (Lifetime::Endless, run(self.rng.between(100, 600))),
        }
    }

    /// Deletes a waiting job.
    fn withdraw(&mut self) {
        let names: Vec<Arc<str>> =
            self.waiting().iter().map(|(name, _)| Arc::clone(name)).collect();
        let Some(job) = self.rng.pick(&names).and_then(|name| self.jobs.remove(name)) else {
            return;
        };
        for key in &job.pods {
            self.world.server.remove_pod(key);
        }
    }

    /// Edits a job: another priority or walltime for a waiting one, or more time for a running one.
    fn edit(&mut self) {
        let runs = self.rng.chance(30);
        let names: Vec<Arc<str>> = if runs {
            self.jobs
                .iter()
                .filter(|(_, job)| job.has_started)
                .map(|(name, _)| Arc::clone(name))
                .collect()
        } else {
            self.waiting().iter().map(|(name, _)| Arc::clone(name)).collect()
        };
        let Some(name) = self.rng.pick(&names).cloned() else { return };
        let records = jobs::records(&self.jobs[&name].unit, &self.world.server.flux_jobs);
        let [record] = records.as_slice() else { return };
        let mut record = FluxJob::clone(record);
        let job = self.jobs.get_mut(&name).expect("it was just found");
        if !runs && self.rng.chance(50) {
            let (class, value) = *self.rng.pick(&PRIORITY_CLASSES).expect("there are four");
            record.spec.overrides.priority_class_name = Some(class.to_owned());
            job.priority = value;
        } else {
            let pods = || job.pods.iter().filter_map(|key| self.world.server.pods.get(key));
            let started = pods().filter_map(|pod| pod.started).map(Time::seconds).min();
            let run_by_now =
                started.map_or(0, |started| u64::try_from(self.world.now - started).unwrap_or(0));
            let seconds = run_by_now + self.rng.between(5, 200);
            record.spec.overrides.walltime_seconds = i64::try_from(seconds).ok();
            job.lifetime = Lifetime::Seconds(seconds);
            let pods: Vec<Uid> = pods().map(|pod| pod.id.uid.clone()).collect();
            self.world.runs.extend(
                pods.into_iter().map(|uid| (uid, i64::try_from(seconds).expect("minutes"))),
            );
        }
        record.metadata.generation = record.metadata.generation.map(|generation| generation + 1);
        self.world.server.put_flux_job(record);
        self.happened.edit = true;
    }

    /// Lets the process die amid its actions. Its successor has to keep the promises that are on
    /// record by then.
    pub(super) fn die(&mut self) -> Result<(), Violation> {
        self.dies_in = None;
        self.note_what_is_written()?;
        if self.jobs.values().any(|job| job.told.is_some()) {
            self.world.stats.count("death between two writes with promises");
        }
        self.world.trace.add(|| "the process dies".to_owned());
        self.restart();
        Ok(())
    }

    /// Lets another process take over.
    fn restart(&mut self) {
        self.world.restart();
        if self.jobs.values().any(|job| job.told.is_some()) {
            self.world.stats.count("restart with promises");
        }
    }

    /// Forgets ended jobs and pods.
    pub(super) fn tidy(&mut self) {
        let server = &self.world.server;
        let lives =
            |key: &ObjectKey| server.pods.get(key).is_some_and(|pod| !pod.phase.is_terminal());
        self.jobs.retain(|_, job| job.pods.iter().any(lives));
        let ended = server
            .pods
            .values()
            .filter(|pod| pod.phase.is_terminal())
            .map(|pod| pod.id.key.clone());
        let ended: Vec<ObjectKey> = ended.collect();
        for key in &ended {
            self.world.server.remove_pod(key);
        }
    }

    /// Returns the amounts of the nodes.
    pub(super) fn capacities(&self) -> BTreeMap<NodeName, Amounts> {
        let amounts = |node: &Node| Amounts {
            cpu: node.allocatable.get("cpu"),
            memory: node.allocatable.get("memory"),
        };
        self.world.server.nodes.iter().map(|(name, node)| (name.clone(), amounts(node))).collect()
    }
}

fn zone(rng: &mut Rng) -> &'static str {
    if rng.chance(60) { "a" } else { "b" }
}

fn shape(amounts: Amounts, zone: Option<Arc<str>>, manner: Manner) -> Shape {
    let mut requests = Resources::new();
    requests.set("pods", 1);
    requests.set("cpu", amounts.cpu);
    requests.set("memory", amounts.memory);
    let mut constraints = Constraints::default();
    constraints.node_selector.extend(zone.map(|zone| (Arc::from(ZONE), zone)));
    match manner {
        Manner::Repelling(key) => constraints.repels.push(apart_from(SHY, key)),
        Manner::Apart => constraints.repels.push(apart_from(APART, HOST)),
        Manner::Plain | Manner::Shy => {}
    }
    Shape { requests, constraints }
}

fn apart_from(label: (&str, &str), topology_key: &str) -> PodTerm {
    PodTerm { pods: objects::pods_with(label), topology_key: topology_key.into() }
}

impl Manner {
    fn labels(self) -> Labels {
        let (key, value) = match self {
            Manner::Shy => SHY,
            Manner::Apart => APART,
            Manner::Plain | Manner::Repelling(_) => return Labels::default(),
        };
        Arc::from([(Arc::from(key), Arc::from(value))])
    }
}
