//! Runs manifests: the whole core, pods, records and Bindings included, against a perfect API
//! server in virtual time.
//!
//! At each instant the ends of pods come first, then the submissions, and the core gets all of them
//! together. Then the core and the server exchange actions and answers until the core has no more.
//! Timers of the core that are due within the same second belong to it; later ones are waited for
//! as long as anything waits.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::path::Path;
use std::sync::Arc;

use fluxion_sys::FunctionTable;
use fluxqueue_core::{Core, CoreError, CoreSettings, Event};
use fluxqueue_machine::cluster::Node;
use fluxqueue_workload::{NodeName, ObjectKey, ObjectRef, Phase, Pod, Time};

use super::groups::Groups;
use super::manifests::{self, Item, ManifestError};
use super::progress::Progress;
use super::server::Server;
use super::{Outcome, Ran, Skipped, policy_name, ranges};

/// The Unix time of the first second: times on record have to be plausible.
const BEGIN: i64 = 1_700_000_000;
/// The most turns of the core and the server within one instant.
const TURNS_MAX: usize = 1_000_000;
/// The time for which jobs wait on after the last end and arrival: other jobs may be allowed to
/// pass them for a while.
const LAST_WAIT_SECS: u64 = 3_600;

/// The reason why manifests cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The manifests cannot be read.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The core cannot be made.
    #[error(transparent)]
    Core(#[from] CoreError),
    /// The core asks for more and more at one instant, which is a defect.
    #[error("the core does not come to rest at second {0}")]
    Restless(u64),
}

struct World {
    core: Core,
    server: Server,
    /// The seconds since the beginning.
    second: u64,
    now: Time,
    items: Vec<Item>,
    /// The ends of pods, the earliest first.
    ends: BinaryHeap<Reverse<(u64, ObjectKey)>>,
    /// The item of each existing pod.
    made_for: BTreeMap<ObjectKey, usize>,
    /// The number of pods made so far, by item.
    made: Vec<usize>,
    ranks: BTreeMap<NodeName, u32>,
    nodes: Vec<Node>,
    rows: BTreeMap<Arc<str>, ItemRun>,
}

/// The fate of an item, or of a group.
#[derive(Debug, Default)]
struct ItemRun {
    submit: u64,
    start: Option<u64>,
    end: u64,
    nodes: BTreeSet<u32>,
    node_seconds: f64,
    /// The number of pods that run.
    running: usize,
}

/// Runs the workload of one file on the nodes of another.
pub fn run(
    (cluster, workload): (&Path, &Path),
    settings: &CoreSettings,
    library: FunctionTable,
    progress: &mut Progress,
) -> Result<Outcome, WorldError> {
    let scheduler = settings.scheduler_names.first().cloned().unwrap_or_default();
    let nodes = manifests::nodes(cluster)?;
    let mut server = Server::default();
    let (items, groups) = manifests::items(workload, &scheduler, &mut server.shapes)?;
    let mut world = World {
        core: Core::new(settings.clone(), library, 1)?,
        server,
        second: 0,
        now: Time::from_seconds(BEGIN),
        ends: BinaryHeap::new(),
        made_for: BTreeMap::new(),
        made: vec![0; items.len()],
        ranks: nodes.iter().map(|node| node.name.clone()).zip(0..).collect(),
        rows: BTreeMap::new(),
        items,
        nodes,
    };
    world.run(&groups, progress)?;
    let name =
        |path: &Path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Ok(world.outcome(format!("{} on {}", name(workload), name(cluster)), policy_name(settings)))
}

impl World {
    fn run(&mut self, groups: &Groups, progress: &mut Progress) -> Result<(), WorldError> {
        let nodes = self.nodes.clone();
        let mut events: Vec<Event> =
            nodes.into_iter().map(|node| self.server.put_node(node)).collect();
        events.extend(groups.list());
        events.push(Event::Synced);
        self.settle(events)?;
        let mut order: Vec<usize> = (0..self.items.len()).collect();
        order.sort_by_key(|at| self.items[*at].submit);
        let mut order = order.into_iter().peekable();
        let mut last = 0;
        loop {
            let submit = order.peek().map(|at| self.items[*at].submit);
            let end = self.ends.peek().map(|Reverse((at, _))| *at);
            let next = submit.into_iter().chain(end).min();
            last = next.unwrap_or(last);
            let until = next.unwrap_or(last + LAST_WAIT_SECS);
            let timer = self.next_timer().filter(|at| *at <= until && self.any_job_waits());
            let Some(second) = next.into_iter().chain(timer).min() else { break };
            self.second = second;
            self.now =
                self.now.max(Time::from_seconds(BEGIN + i64::try_from(second).unwrap_or(i64::MAX)));
            let mut events = self.end_pods();
            while let Some(at) = order.next_if(|at| self.items[*at].submit == second) {
                events.extend(self.submit(at));
            }
            self.settle(events)?;
            progress.show(
                self.rows.values().filter(|row| row.start.is_some()).count(),
                self.items.len(),
            );
        }
        progress.clear();
        self.end_services();
        Ok(())
    }

    /// Returns the second at which the core wants to be woken.
    fn next_timer(&self) -> Option<u64> {
        let at = self.core.next_wake()?;
        let second =
            at.seconds().saturating_sub(BEGIN).saturating_add(i64::from(at.0 % 1_000_000 != 0));
        Some(u64::try_from(second).unwrap_or(0).max(self.second + 1))
    }

    fn any_job_waits(&self) -> bool {
        self.rows.values().any(|row| row.start.is_none())
    }

    /// Lets the core and the server talk until neither has more for this second.
    fn settle(&mut self, mut events: Vec<Event>) -> Result<(), WorldError> {
        for _ in 0..TURNS_MAX {
            for event in events.drain(..) {
                self.core.handle(event, self.now);
            }
            let actions = self.core.step(self.now);
            if !actions.is_empty() {
                events = self.server.answer(actions, self.now);
                self.note_starts(&events);
                continue;
            }
            let due = self
                .core
                .next_wake()
                .filter(|at| at.seconds() == self.now.seconds() || *at < self.now);
            // A core without a timer in this second waits for the next event.
            let Some(due) = due else { return Ok(()) };
            let later = due.max(self.now.plus_millis(1));
            if later.seconds() != self.now.seconds() {
                return Ok(());
            }
            self.now = later;
        }
        Err(WorldError::Restless(self.second))
    }

    fn row(&mut self, item: usize) -> &mut ItemRun {
        let (name, submit) = (Arc::clone(&self.items[item].name), self.items[item].submit);
        self.rows.entry(name).or_insert_with(|| ItemRun { submit, ..ItemRun::default() })
    }

    // --- arrivals ---

    fn submit(&mut self, item: usize) -> Vec<Event> {
        self.row(item);
        let controllers = self.items[item].controllers.clone();
        let group = self.items[item].pod_group.clone();
        let mut events: Vec<Event> = group.map(Event::PodGroup).into_iter().collect();
        events.extend(controllers.into_iter().map(|it| self.server.put_controller(it)));
        for _ in 0..self.items[item].at_once {
            events.push(self.make_pod(item));
        }
        events
    }

    fn make_pod(&mut self, at: usize) -> Event {
        let item = &self.items[at];
        let mut pod = item.pod.clone();
        if !item.controllers.is_empty() {
            let name = format!("{}-{}", pod.id.key.name, self.made[at]);
            pod.id = ObjectRef {
                key: ObjectKey::new(Arc::clone(&pod.id.key.namespace), name),
                uid: pod.id.uid,
            };
        }
        pod.id.uid = self.server.new_uid();
        pod.completion_index =
            item.is_indexed.then(|| u32::try_from(self.made[at]).unwrap_or(u32::MAX));
        pod.created = self.now;
        self.made[at] += 1;
        self.made_for.insert(pod.id.key.clone(), at);
        self.server.put_pod(pod)
    }

    // --- starts and ends ---

    fn note_starts(&mut self, events: &[Event]) {
        for event in events {
            // Only pods start.
            let Event::Pod(pod) = event else { continue };
            if pod.phase != Phase::Running {
                continue;
            }
            // Pods of the machine itself are of no item.
            let Some(item) = self.made_for.get(&pod.id.key).copied() else { continue };
            let (second, rank) =
                (self.second, pod.node.as_ref().and_then(|node| self.ranks.get(node)).copied());
            let end = self.items[item].run.map(|run| second + run);
            self.ends.extend(end.map(|end| Reverse((end, pod.id.key.clone()))));
            let share = self.share(pod);
            let row = self.row(item);
            row.start.get_or_insert(second);
            row.nodes.extend(rank);
            row.running += 1;
            if let Some(end) = end {
                row.end = row.end.max(end);
                #[allow(clippy::cast_precision_loss, reason = "for the report alone")]
                let seconds = (end - second) as f64;
                row.node_seconds += share * seconds;
            }
        }
    }

    /// Returns the share of its node that a pod takes, by the resource of which it takes most.
    #[allow(clippy::cast_precision_loss, reason = "for the report alone")]
    fn share(&self, pod: &Pod) -> f64 {
        let Some(node) = pod.node.as_ref().and_then(|node| self.server.nodes.get(node)) else {
            return 0.0;
        };
        let shares = pod.shape.requests.iter().map(|(resource, amount)| {
            let has = node.allocatable.get(resource);
            if has == 0 { 0.0 } else { amount as f64 / has as f64 }
        });
        shares.fold(0.0, f64::max)
    }

    /// Plays the kubelets and controllers: ends pods when their time is over, and makes their
    /// successors.
    fn end_pods(&mut self) -> Vec<Event> {
        let mut keys = Vec::new();
        while let Some(Reverse((_, key))) =
            self.ends.peek().filter(|Reverse((at, _))| *at == self.second)
        {
            keys.push(key.clone());
            self.ends.pop();
        }
        let mut events = self.server.succeed(&keys);
        events.extend(self.server.count(&keys));
        for key in &keys {
            events.extend(self.server.remove_pod(key));
            if let Some(item) = self.made_for.remove(key) {
                self.row(item).running -= 1;
                if self.items[item].in_all.is_some_and(|in_all| self.made[item] < in_all) {
                    events.push(self.make_pod(item));
                }
            }
        }
        events
    }

    /// Lets pods without an end run until all others have ended.
    fn end_services(&mut self) {
        let last =
            self.rows.values().map(|row| row.end.max(row.start.unwrap_or(0))).max().unwrap_or(0);
        let services: Vec<(usize, f64)> = self
            .made_for
            .iter()
            .filter(|(_, item)| self.items[**item].run.is_none())
            .filter_map(|(key, item)| Some((*item, self.share(self.server.pods.get(key)?))))
            .collect();
        for (item, share) in services {
            let row = self.row(item);
            if let Some(start) = row.start {
                row.end = last;
                #[allow(clippy::cast_precision_loss, reason = "for the report alone")]
                let seconds = (last - start) as f64;
                row.node_seconds += share * seconds;
            }
        }
    }

    fn outcome(self, title: String, policy: String) -> Outcome {
        let (mut ran, mut skipped) = (Vec::new(), Vec::new());
        for (job, row) in &self.rows {
            match row.start {
                Some(start) => ran.push(Ran {
                    job: Arc::clone(job),
                    submit: row.submit,
                    start,
                    end: row.end,
                    nodes: ranges(row.nodes.iter().copied()),
                    node_seconds: row.node_seconds,
                }),
                None => skipped.push(Skipped { job: Arc::clone(job), reason: self.why_not(job) }),
            }
        }
        let nodes = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let node_names = self.nodes.into_iter().map(|node| node.name).collect();
        Outcome { title, policy, nodes, node_names, ran, skipped, remarks: Vec::new() }
    }

    /// Returns the reason from the pods of a job that never started.
    fn why_not(&self, job: &str) -> String {
        let mut pods = self.made_for.iter().filter(|(_, item)| *self.items[**item].name == *job);
        let said = pods.find_map(|(key, _)| self.server.pods.get(key)?.scheduled_condition.clone());
        let said = said.map(|condition| condition.message).unwrap_or_default();
        let said = said.trim_end_matches('.');
        if said.is_empty() {
            "it never started".to_owned()
        } else {
            format!("it never started ({said})")
        }
    }
}
