//! The measurements, one row at a time, on a scene at rest.
//!
//! Each round takes pods and nodes that no other round has used, so the traces of one row do not
//! matter to the next. Time passes between two rounds, so that work with a timer is done in
//! between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fluxqueue_core::{Event, QueuePolicy};
use fluxqueue_machine::cluster::Node;
use fluxqueue_workload::{Lifetime, NodeName, ObjectKey, Pod};

use crate::scene::{self, GANG, LARGE_GANGS, Prospect, Size, Twist};
use crate::turning::{Restless, Turning, policy};

/// Number of steps in which the pods of a large gang end.
const STEPS: usize = 20;
/// Most rounds of a row.
const ROUNDS_MAX: usize = 25;
/// Time for a Job to complete very many pods. After it the bench goes on, however few have ended.
const SWEEP_WITHIN: Duration = Duration::from_mins(2);

/// An event that the bench measures, with its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Row {
    Restart,
    Labels,
    Leave,
    Join,
    Lone,
    Recorded,
    Repels,
    Nothing,
    Meanwhile,
    Head,
    Large,
    Copy,
    WhatIf,
    Answer,
    Slice,
    Idle,
}

/// The measurements of one scene.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    pub(crate) times: BTreeMap<Row, Vec<Duration>>,
    /// Rows during which the core did not come to rest.
    pub(crate) restless: BTreeSet<Row>,
    /// Resident memory of this process, in bytes, with the scene at rest.
    pub(crate) memory: u64,
    /// Number of reservations, with the scene at rest.
    pub(crate) reservations: u64,
    /// Number of different known ends of running pods, before the first round.
    pub(crate) known_ends: usize,
    /// Time for making the scene.
    pub(crate) making: Duration,
    /// Number of pods of one Job that had completed before.
    pub(crate) completed: usize,
}

/// A scene that is being measured.
pub(crate) struct Bench {
    size: Size,
    turning: Turning,
    /// Pods of running Jobs by node, without those of the large gangs.
    running: BTreeMap<NodeName, Vec<ObjectKey>>,
    used: BTreeSet<usize>,
    completed: usize,
    submitted: usize,
    next_head: usize,
    next_large: usize,
    next_node: usize,
}

impl Row {
    pub(crate) const ALL: [Row; 16] = [
        Row::Head,
        Row::Nothing,
        Row::Meanwhile,
        Row::Lone,
        Row::Recorded,
        Row::Repels,
        Row::Labels,
        Row::Join,
        Row::Leave,
        Row::Large,
        Row::Restart,
        Row::Copy,
        Row::WhatIf,
        Row::Answer,
        Row::Slice,
        Row::Idle,
    ];

    /// Returns the rows that are measured under a queue policy. Under policies with many
    /// reservations a gang does not start on the nodes that have just come free. There the row
    /// measures the pass after a pod has ended.
    pub(crate) fn of(policy: QueuePolicy, twist: Twist) -> &'static [Row] {
        match policy {
            // The first job of each queue holds a reservation, so this scene has many as well.
            QueuePolicy::Easy if twist == Twist::Queues => &[
                Row::Restart,
                Row::Copy,
                Row::Labels,
                Row::Leave,
                Row::Lone,
                Row::Nothing,
                Row::Meanwhile,
                Row::Large,
            ],
            QueuePolicy::Fcfs | QueuePolicy::Easy => &[
                Row::Restart,
                Row::Copy,
                Row::Labels,
                Row::Leave,
                Row::Lone,
                Row::Repels,
                Row::Nothing,
                Row::Meanwhile,
                Row::Head,
                Row::Large,
                Row::Recorded,
            ],
            QueuePolicy::Hybrid | QueuePolicy::Conservative => {
                &[Row::Restart, Row::Copy, Row::Labels, Row::Repels, Row::Nothing, Row::Meanwhile]
            }
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Row::Meanwhile => "a pod ends, and a lone pod comes during that pass: its wait at most",
            Row::Head => "a pod ends, the head of the queue starts",
            Row::Nothing => "a pod ends, nothing can start",
            Row::Lone => "a new lone pod arrives that fits",
            Row::Recorded => "the same, and it has a FluxJob (recordLonePods)",
            Row::Repels => "a new lone pod arrives that fits, and keeps others away",
            Row::Labels => "a node's labels change",
            Row::Join => "a node joins, its ten pods are there",
            Row::Leave => "a node leaves, its ten pods are there",
            Row::Large => "all pods of a large gang end, in 20 steps",
            Row::Restart => "first pass after a restart, lists in memory",
            Row::Copy => "a what-if question: the core is copied",
            Row::WhatIf => "the same, apart from the core, until the job has its place",
            Row::Answer => "both, until the answer",
            Row::Slice => "in the background, ahead or as audit: the longest slice",
            Row::Idle => "eleven seconds in which nothing happens",
        }
    }

    /// True if the longest of its rounds counts, not their median: each wait has to stay within the
    /// limit.
    pub(crate) fn is_at_most(self) -> bool {
        matches!(self, Row::Meanwhile | Row::Slice)
    }

    /// Returns the limit of the row, if it has one.
    pub(crate) fn limit(self) -> Option<Duration> {
        Some(match self {
            Row::Head => Duration::from_millis(5),
            Row::Nothing => match policy() {
                QueuePolicy::Fcfs => Duration::from_millis(2),
                QueuePolicy::Easy => Duration::from_millis(10),
                QueuePolicy::Hybrid => Duration::from_millis(40),
                QueuePolicy::Conservative => Duration::from_millis(500),
            },
            Row::Lone | Row::Recorded => Duration::from_micros(200),
            Row::Repels => Duration::from_millis(1),
            Row::Labels | Row::Join | Row::Leave => Duration::from_millis(50),
            Row::Large | Row::Copy | Row::WhatIf => Duration::from_millis(100),
            Row::Answer => Duration::from_millis(200),
            Row::Restart => Duration::from_millis(1_500),
            // A lone pod that arrives meanwhile waits for the slice.
            Row::Slice | Row::Meanwhile => Duration::from_millis(20),
            Row::Idle => return None,
        })
    }
}

/// Makes a scene and measures every row of it. No row goes on for much longer than `row_time`.
pub(crate) fn measure(size: Size, twist: Twist, row_time: Duration) -> Result<Samples, Restless> {
    let begin = Instant::now();
    let mut bench = Bench::begin(size, twist)?;
    let (making, completed) = (begin.elapsed(), bench.completed);
    let (reservations, known_ends) =
        (bench.turning.reservations(), scene::known_ends(&bench.turning.server));
    let memory = resident();
    let mut samples =
        Samples { memory, reservations, known_ends, making, completed, ..Samples::default() };
    let asked = std::env::var("FLUXQUEUE_BENCH_ROW").unwrap_or_default();
    for row in Row::of(policy(), twist).iter().copied().filter(|row| row.name().contains(&asked)) {
        let begin = Instant::now();
        for _ in 0..ROUNDS_MAX {
            match bench.round(row, &mut samples) {
                Ok(true) => {}
                Ok(false) => break,
                // The core's last actions were not carried out, so no other row can be measured.
                Err(Restless) => {
                    samples.restless.insert(row);
                    return Ok(samples);
                }
            }
            if begin.elapsed() > row_time {
                break;
            }
        }
    }
    Ok(samples)
}

impl Bench {
    fn begin(size: Size, twist: Twist) -> Result<Self, Restless> {
        let turning = Turning::begin(scene::build(size, twist))?;
        let mut running: BTreeMap<NodeName, Vec<ObjectKey>> = BTreeMap::new();
        for pod in turning.server.pods.values().filter(|pod| pod.id.key.name.starts_with("job-")) {
            if let Some(node) = &pod.node {
                running.entry(node.clone()).or_default().push(pod.id.key.clone());
            }
        }
        let mut bench = Bench {
            size,
            turning,
            running,
            used: BTreeSet::new(),
            completed: 0,
            submitted: 0,
            next_head: 0,
            next_large: 0,
            next_node: 0,
        };
        if twist == Twist::Completions {
            bench.sweep()?;
        }
        bench.submit_gangs()?;
        bench.turning.pause()?;
        Ok(bench)
    }

    /// Lets a Job complete very many pods, before any gang waits.
    fn sweep(&mut self) -> Result<(), Restless> {
        let (owner, shape) = scene::sweep_job(&mut self.turning.server, self.size);
        let made_by = Event::Controller(Arc::clone(&self.turning.server.controllers[&owner.uid]));
        self.turning.settle(vec![made_by])?;
        let mut ended: Vec<ObjectKey> = Vec::new();
        let mut wave = Vec::new();
        let begin = Instant::now();
        while self.completed < self.size.completions() && begin.elapsed() < SWEEP_WITHIN {
            let succeeded = self.turning.server.succeed(&wave);
            self.turning.settle(succeeded)?;
            let counted = self.turning.server.count(&wave);
            self.turning.settle(counted)?;
            self.completed += wave.len();
            ended.append(&mut wave);
            let surplus = ended.len().saturating_sub(self.size.ended_kept());
            let mut events: Vec<Event> = ended
                .drain(..surplus)
                .filter_map(|key| self.turning.server.remove_pod(&key))
                .collect();
            for at in 0..self.size.sweep() {
                let name = format!("sweep-{}-abcde", self.completed + at);
                let pod = scene::owned(
                    &mut self.turning.server,
                    &name,
                    &owner,
                    &shape,
                    Lifetime::Eventually,
                );
                wave.push(pod.id.key.clone());
                events.push(self.turning.server.put_pod(pod));
            }
            self.turning.settle(events)?;
        }
        Ok(())
    }

    fn submit_gangs(&mut self) -> Result<(), Restless> {
        // Gangs arrive in portions, as they would in a cluster: each portion is queued before the
        // next arrives.
        const PORTION: usize = 2_000;
        for from in (0..self.size.gangs()).step_by(PORTION) {
            let mut events = Vec::new();
            for number in from..self.size.gangs().min(from + PORTION) {
                events.extend(scene::submit_gang(
                    &mut self.turning.server,
                    self.size,
                    number,
                    self.turning.now,
                ));
            }
            self.turning.settle(events)?;
        }
        Ok(())
    }

    /// Runs one round of a row. False if the scene has nothing left for another.
    fn round(&mut self, row: Row, samples: &mut Samples) -> Result<bool, Restless> {
        if row == Row::Recorded {
            self.turning.record_lone_pods()?;
        }
        let idle = self.turning.pause()?;
        let took = match row {
            Row::Restart => Some(self.turning.restart()),
            Row::Labels => Some(self.labels_change()?),
            Row::Leave | Row::Join => {
                let (left, joined) = self.node_leaves_and_comes_back()?;
                samples.add(Row::Join, joined);
                Some(left)
            }
            Row::Lone | Row::Recorded => Some(self.lone_pod_arrives()?),
            Row::Repels => Some(self.repelling_pod_arrives()?),
            Row::Nothing => self.pod_ends()?,
            Row::Meanwhile => self.lone_pod_comes_meanwhile()?,
            Row::Head => self.head_starts()?,
            Row::Large => self.large_gang_ends()?,
            Row::Copy => {
                let [copied, placed, answered] = self.somebody_asks();
                samples.add(Row::WhatIf, placed);
                samples.add(Row::Answer, answered);
                Some(copied)
            }
            Row::WhatIf | Row::Answer | Row::Slice | Row::Idle => None,
        };
        let Some(took) = took else { return Ok(false) };
        samples.add(Row::Idle, idle);
        samples.add(row, took);
        self.turning.take_slices().into_iter().for_each(|slice| samples.add(Row::Slice, slice));
        Ok(true)
    }

    /// The node leaves the first of its sets.
    fn labels_change(&mut self) -> Result<Duration, Restless> {
        let name = scene::node_name(self.next_normal_node());
        let Some(node) = self.turning.server.nodes.get(&name) else { return Ok(Duration::ZERO) };
        let mut node = Node::clone(node);
        node.labels.retain(|(key, _)| !key.starts_with("example.com/set-00"));
        node.labels.push(("zone.example.com/rack".into(), "7".into()));
        let event = self.turning.server.put_node(node);
        self.turning.settle(vec![event])
    }

    fn node_leaves_and_comes_back(&mut self) -> Result<(Duration, Duration), Restless> {
        let at = self.next_normal_node();
        let event = self.turning.server.remove_node(&scene::node_name(at));
        let left = self.turning.settle(event.into_iter().collect())?;
        self.turning.pause()?;
        let uid = self.turning.server.new_uid();
        let event = self.turning.server.put_node(scene::node(self.size, at, uid));
        Ok((left, self.turning.settle(vec![event])?))
    }

    fn next_normal_node(&mut self) -> usize {
        self.next_node = (self.next_node + 1) % self.size.normal();
        self.next_node
    }

    fn next_lone_pod(&mut self) -> Pod {
        self.submitted += 1;
        scene::lone_pod(&mut self.turning.server, self.submitted, self.turning.now)
    }

    fn lone_pod_arrives(&mut self) -> Result<Duration, Restless> {
        let pod = self.next_lone_pod();
        self.arrives(pod)
    }

    fn repelling_pod_arrives(&mut self) -> Result<Duration, Restless> {
        self.submitted += 1;
        let pod = scene::repelling_pod(&mut self.turning.server, self.submitted, self.turning.now);
        let key = pod.id.key.clone();
        let took = self.arrives(pod)?;
        // The pod ends again: the other rows measure a cluster without such pods.
        self.end(&[key])?;
        Ok(took)
    }

    fn arrives(&mut self, pod: Pod) -> Result<Duration, Restless> {
        let key = pod.id.key.clone();
        let event = self.turning.server.put_pod(pod);
        let took = self.turning.settle(vec![event])?;
        assert!(self.is_bound(&key), "a lone pod that fits was not bound");
        Ok(took)
    }

    fn somebody_asks(&mut self) -> [Duration; 3] {
        let pod = self.next_lone_pod();
        self.turning.what_if(vec![Event::Pod(Arc::new(pod))])
    }

    fn pod_ends(&mut self) -> Result<Option<Duration>, Restless> {
        let Some(node) = self.fresh_node(|_| true) else { return Ok(None) };
        let key = self.pods_on(node, 1).remove(0);
        self.end(&[key]).map(Some)
    }

    fn lone_pod_comes_meanwhile(&mut self) -> Result<Option<Duration>, Restless> {
        let Some(node) = self.fresh_node(|_| true) else { return Ok(None) };
        let ends = self.pods_on(node, 1);
        let ended = self.turning.server.succeed(&ends);
        let pod = self.next_lone_pod();
        let key = pod.id.key.clone();
        let comes = self.turning.server.put_pod(pod);
        let waits = self.turning.meanwhile(ended, comes)?;
        assert!(self.is_bound(&key), "a lone pod that fits was not bound");
        let counted = self.turning.server.count(&ends);
        self.turning.settle(counted)?;
        Ok(Some(waits))
    }

    /// Ends the last pod in the way of the first gang in the queue. All others have ended before.
    fn head_starts(&mut self) -> Result<Option<Duration>, Restless> {
        while self.size.variant(self.next_head).prospect != Prospect::Room {
            self.next_head += 1;
        }
        let (gang, set) = (self.next_head, self.size.variant(self.next_head).set);
        if !self.size.variant(gang).fits_where_two_ended() {
            return Ok(None);
        }
        self.next_head += 1;
        let mut keys = Vec::new();
        for _ in 0..GANG {
            let size = self.size;
            let Some(node) = self.fresh_node(|node| size.sets_of(node).contains(&set)) else {
                return Ok(None);
            };
            keys.extend(self.pods_on(node, 2));
        }
        let Some(last) = keys.pop() else { return Ok(None) };
        self.end(&keys)?;
        self.turning.pause()?;
        let first = ObjectKey::new(Arc::clone(&last.namespace), format!("gang-{gang:05}-0-abcde"));
        assert!(!self.is_bound(&first), "gang {gang} has started though a pod is in its way");
        let took = self.end(&[last])?;
        assert!(self.is_bound(&first), "gang {gang} did not start");
        Ok(Some(took))
    }

    fn large_gang_ends(&mut self) -> Result<Option<Duration>, Restless> {
        if self.next_large >= LARGE_GANGS {
            return Ok(None);
        }
        let name = format!("{}-", scene::large_gang(self.next_large));
        self.next_large += 1;
        let pods = self.turning.server.pods.keys().filter(|key| key.name.starts_with(&name));
        let pods: Vec<ObjectKey> = pods.cloned().collect();
        let mut took = Duration::ZERO;
        for portion in pods.chunks(pods.len().div_ceil(STEPS)) {
            took += self.end(portion)?;
        }
        Ok(Some(took))
    }

    /// Reports that the pods have ended: first as kubelets do, then as their controllers do when
    /// they have counted them.
    fn end(&mut self, keys: &[ObjectKey]) -> Result<Duration, Restless> {
        let ended = self.turning.server.succeed(keys);
        let took = self.turning.settle(ended)?;
        let counted = self.turning.server.count(keys);
        Ok(took + self.turning.settle(counted)?)
    }

    /// Returns a node in sets that gangs wait for, on which no pod has ended. The nodes of the
    /// large gangs come first, and are skipped.
    fn fresh_node(&mut self, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let from = LARGE_GANGS * self.size.large_gang();
        let found =
            (from..self.size.normal()).find(|node| !self.used.contains(node) && fits(*node))?;
        self.used.insert(found);
        Some(found)
    }

    fn pods_on(&self, node: usize, count: usize) -> Vec<ObjectKey> {
        self.running[&scene::node_name(node)][..count].to_vec()
    }

    fn is_bound(&self, key: &ObjectKey) -> bool {
        self.turning.server.pods.get(key).is_some_and(|pod| pod.node.is_some())
    }
}

impl Samples {
    fn add(&mut self, row: Row, took: Duration) {
        self.times.entry(row).or_default().push(took);
    }
}

/// Returns the resident memory of this process by the kernel's account, or 0 where the kernel does
/// not report it.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
