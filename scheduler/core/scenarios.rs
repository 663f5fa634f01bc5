//! Scenarios: the core step by step, with every action in the test's hands.
//!
//! The simulation finds what nobody thought of; these say what was meant.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::{FluxJob, FluxJobSpec, JobState, PlacementRange, placement};

use fluxion_sys::FunctionTable;

use super::{Action, ActionKind, BindOutcome, Core, CoreSettings, Event, NodePolicy, Outcome, WriteOutcome};
use crate::cluster::Node;
use crate::workload::constraints::Constraints;
use crate::workload::{
    Controller, GroupLabels, Lifetime, ObjectKey, ObjectRef, Owner, OwnerKind, Phase, Pod, Resources, Shape, Time,
    Unsupported,
};

/// Other libraries than the built-in one.
mod library;

/// A core, the time, and what an API server would hold.
struct World {
    core: Core,
    now: Time,
    pods: BTreeMap<String, Pod>,
    records: BTreeMap<ObjectKey, FluxJob>,
    uids: u32,
    /// Every Binding that was asked for: pod and node.
    bindings: Vec<(String, String)>,
    /// Every reason of an Event.
    notes: Vec<String>,
}

fn settings() -> CoreSettings {
    CoreSettings {
        scheduler_names: vec![Arc::from("fluxqueue")],
        node_policy: NodePolicy::LoNode,
        default_walltime_secs: None,
        ttl_after_finished_secs: 60,
        slot_keep_secs: 15,
        group_grace_secs: 3,
    }
}

fn node(name: &str, cores: u64) -> Arc<Node> {
    let allocatable = [("cpu", cores * 1000), ("memory", 64 << 30), ("pods", 110)];
    Arc::new(Node {
        name: Arc::from(name),
        uid: Arc::from(format!("uid-{name}")),
        allocatable: allocatable.into_iter().collect(),
        labels: Vec::new(),
        taints: Vec::new(),
        unschedulable: false,
        not_ready: false,
        declared_features: Vec::new(),
    })
}

fn pod(name: &str, cores: u64) -> Pod {
    let requests: Resources = [("cpu", cores * 1000), ("pods", 1)].into_iter().collect();
    Pod {
        id: ObjectRef { key: ObjectKey::new("ns", name), uid: Arc::from(format!("uid-{name}")) },
        scheduler: Arc::from("fluxqueue"),
        node: None,
        nominated: None,
        phase: Phase::Pending,
        deleting: false,
        gates: Vec::new(),
        owner: None,
        group: None,
        completion_index: None,
        priority: 0,
        created: Time::from_seconds(1000),
        labels: Arc::from([]),
        shape: Arc::new(Shape { requests, constraints: Constraints::default() }),
        lifetime: Lifetime::Eventually,
        unsupported: Vec::new(),
        soft_ignored: Vec::new(),
        scheduled_condition: None,
    }
}

fn job(name: &str, parallelism: u32, completions: u32) -> Controller {
    Controller {
        id: ObjectRef { key: ObjectKey::new("ns", name), uid: Arc::from(format!("uid-{name}")) },
        kind: OwnerKind::Job,
        owner: None,
        wants: parallelism.min(completions),
        can_start_together: parallelism.min(completions),
        succeeded: 0,
        completions: Some(completions),
        parallelism,
        finished: false,
        failed: false,
        deadline: None,
        deleting: false,
        walltime: None,
    }
}

fn of_job(mut pod: Pod, job: &str) -> Pod {
    pod.owner = Some(Owner {
        kind: OwnerKind::Job,
        name: Arc::from(job),
        uid: Arc::from(format!("uid-{job}")),
        api_version: Arc::from("batch/v1"),
    });
    pod
}

fn of_group(mut pod: Pod, group: &str, size: Result<u32, String>) -> Pod {
    pod.group = Some(GroupLabels { name: Arc::from(group), size });
    pod
}

impl World {
    fn new(nodes: &[(&str, u64)]) -> Self {
        Self::on(FunctionTable::builtin(), nodes)
    }

    fn on(library: FunctionTable, nodes: &[(&str, u64)]) -> Self {
        let mut world = World {
            core: Core::new(settings(), library, 1).expect("a core"),
            now: Time::from_seconds(2000),
            pods: BTreeMap::new(),
            records: BTreeMap::new(),
            uids: 0,
            bindings: Vec::new(),
            notes: Vec::new(),
        };
        for (name, cores) in nodes {
            world.tell(Event::Node(node(name, *cores)));
        }
        world.tell(Event::Synced);
        world
    }

    fn tell(&mut self, event: Event) {
        self.core.handle(event, self.now);
    }

    fn submit(&mut self, pod: Pod) {
        self.pods.insert(pod.id.key.name.to_string(), pod.clone());
        self.tell(Event::Pod(Arc::new(pod)));
    }

    fn change(&mut self, name: &str, how: impl FnOnce(&mut Pod)) {
        let pod = self.pods.get_mut(name).expect("the pod is there");
        how(pod);
        let pod = Arc::new(pod.clone());
        self.tell(Event::Pod(pod));
    }

    /// A person edits a FluxJob.
    fn edit(&mut self, workload: &str, how: impl FnOnce(&mut FluxJobSpec)) {
        let key = key_of(self.record(workload));
        let record = self.records.get_mut(&key).expect("it is there");
        how(&mut record.spec);
        record.metadata.generation = Some(2);
        let record = Arc::new(record.clone());
        self.tell(Event::FluxJob(record));
    }

    fn delete(&mut self, name: &str) {
        let pod = self.pods.remove(name).expect("the pod is there");
        self.tell(Event::PodGone(pod.id));
    }

    fn pass_seconds(&mut self, seconds: i64) {
        self.now = self.now.plus_millis(seconds * 1000);
    }

    /// One step; its actions are returned, not carried out.
    fn step(&mut self) -> Vec<Action> {
        self.core.step(self.now)
    }

    /// Carries everything out until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..100 {
            let actions = self.step();
            if actions.is_empty() {
                // What is put off for a moment belongs to it.
                let soon = self.now.plus_millis(100);
                match self.core.next_wake().filter(|wake| *wake <= soon) {
                    Some(wake) => self.now = self.now.max(wake),
                    None => return,
                }
                continue;
            }
            for action in actions {
                self.carry_out(action);
            }
        }
        panic!("the core does not come to rest");
    }

    fn carry_out(&mut self, action: Action) {
        let outcome = match action.kind {
            ActionKind::Bind { pod, node } => {
                let name = pod.key.name.to_string();
                self.bindings.push((name.clone(), node.to_string()));
                self.change(&name, |pod| pod.node = Some(node));
                Outcome::Bind(BindOutcome::Bound)
            }
            ActionKind::CreateFluxJob { job, .. } => {
                self.uids += 1;
                let mut job = *job;
                job.metadata.uid = Some(format!("record-{}", self.uids));
                job.metadata.generation = Some(1);
                self.tell(Event::FluxJob(Arc::new(job.clone())));
                self.records.insert(key_of(&job), job.clone());
                Outcome::Write(WriteOutcome::Written(Some(Arc::new(job))))
            }
            ActionKind::WriteStatus { job, status, .. } => match self.records.get_mut(&job.key) {
                Some(record) => {
                    record.status = Some(*status);
                    let record = Arc::new(record.clone());
                    self.tell(Event::FluxJob(record));
                    Outcome::Write(WriteOutcome::Written(None))
                }
                None => Outcome::Write(WriteOutcome::Gone),
            },
            ActionKind::DeleteFluxJob { job } => {
                self.records.remove(&job.key);
                self.tell(Event::FluxJobGone(job));
                Outcome::Write(WriteOutcome::Written(None))
            }
            ActionKind::Ungate { pod, gate } => {
                self.change(&pod.key.name, |pod| pod.gates.retain(|held| *held != gate));
                Outcome::Write(WriteOutcome::Written(None))
            }
            ActionKind::SetPodScheduled { .. } => Outcome::Write(WriteOutcome::Written(None)),
            ActionKind::Note(note) => {
                self.notes.push(note.reason.to_owned());
                return;
            }
        };
        self.tell(Event::Done(action.id, outcome));
    }

    fn node_of(&self, pod: &str) -> Option<&str> {
        self.pods.get(pod)?.node.as_deref()
    }

    fn bound(&self) -> usize {
        self.pods.values().filter(|pod| pod.node.is_some()).count()
    }

    /// The record of this workload.
    fn record(&self, workload: &str) -> &FluxJob {
        let of_it = self.records.values().find(|record| record.spec.name == workload);
        of_it.unwrap_or_else(|| panic!("no FluxJob for {workload}: {:?}", self.records.keys()))
    }

    fn state(&self, workload: &str) -> Option<JobState> {
        self.record(workload).status.as_ref()?.state
    }

    fn blocked(&self, workload: &str) -> (String, String) {
        let status = self.record(workload).status.as_ref().expect("a status");
        let blocker = status.blocked_by.as_ref().expect("it is blocked");
        (blocker.reason.clone(), blocker.message.clone())
    }

    /// A new process: everything is listed anew.
    fn restart(&mut self) {
        self.core = Core::new(settings(), FunctionTable::builtin(), 2).expect("a core");
        self.now = self.now.plus_millis(1);
    }

    fn list(&mut self, nodes: &[(&str, u64)], controllers: &[Controller]) {
        for record in self.records.values().cloned().collect::<Vec<_>>() {
            self.tell(Event::FluxJob(Arc::new(record)));
        }
        for pod in self.pods.values().cloned().collect::<Vec<_>>() {
            self.tell(Event::Pod(Arc::new(pod)));
        }
        for controller in controllers {
            self.tell(Event::Controller(Arc::new(controller.clone())));
        }
        for (name, cores) in nodes {
            self.tell(Event::Node(node(name, *cores)));
        }
        self.tell(Event::Synced);
    }
}

fn key_of(job: &FluxJob) -> ObjectKey {
    ObjectKey::new(job.metadata.namespace.clone().unwrap_or_default(), job.metadata.name.clone().unwrap_or_default())
}

fn planned(ranges: &[PlacementRange]) -> Vec<String> {
    placement::expand(ranges).expect("a placement").into_iter().map(|(_, _, node)| node.to_string()).collect()
}

fn binds(actions: &[Action]) -> usize {
    actions.iter().filter(|action| matches!(action.kind, ActionKind::Bind { .. })).count()
}

#[test]
fn a_lone_pod_is_bound_first_and_recorded_after() {
    let mut world = World::new(&[("n", 4)]);
    world.submit(pod("p", 1));
    let actions = world.step();
    assert_eq!(actions.len(), 1, "{actions:?}");
    assert_eq!(binds(&actions), 1);
    for action in actions {
        world.carry_out(action);
    }
    world.settle();
    assert_eq!(world.state("p"), Some(JobState::Running));
    world.change("p", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.state("p"), Some(JobState::Completed));
}

#[test]
fn a_gang_is_bound_after_its_placement_is_acknowledged() {
    let mut world = World::new(&[("a", 2), ("b", 2)]);
    world.tell(Event::Controller(Arc::new(job("j", 4, 4))));
    for name in ["p0", "p1", "p2", "p3"] {
        world.submit(of_job(pod(name, 1), "j"));
        if name != "p3" {
            world.settle();
            assert_eq!(world.bound(), 0, "the gang is not complete");
        }
    }
    let mut written = false;
    for _ in 0..10 {
        for action in world.step() {
            if let ActionKind::WriteStatus { status, .. } = &action.kind
                && !status.placement.is_empty()
            {
                assert_eq!(planned(&status.placement), ["a", "a", "b", "b"]);
                written = true;
            }
            assert!(written || !matches!(action.kind, ActionKind::Bind { .. }), "bound before it was written");
            world.carry_out(action);
        }
    }
    assert_eq!(world.bound(), 4);
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Running));
}

#[test]
fn a_gang_that_does_not_fit_holds_its_nodes_and_a_hopeless_one_holds_none() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("runs", 2));
    world.settle();
    for name in ["g1", "g2"] {
        world.submit(of_group(pod(name, 2), "gang", Ok(2)));
    }
    world.settle();
    world.submit(pod("small", 1));
    world.settle();
    assert_eq!(world.bound(), 1, "the small one would delay the gang");
    assert_eq!(world.blocked("gang").0, "InsufficientResources");
    assert_eq!(world.blocked("small").0, "QueuedBehind");
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!((world.node_of("g1"), world.node_of("g2"), world.node_of("small")), (Some("a"), Some("a"), None));

    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("vast", 9));
    world.submit(pod("small", 1));
    world.settle();
    assert_eq!((world.node_of("vast"), world.node_of("small")), (None, Some("a")));
    assert_eq!(world.blocked("vast").0, "Unsatisfiable");
    world.tell(Event::Node(node("b", 16)));
    world.settle();
    assert_eq!(world.node_of("vast"), Some("b"));
}

#[test]
fn work_without_an_end_is_passed_by() {
    let mut world = World::new(&[("a", 4)]);
    let mut service = pod("service", 3);
    service.lifetime = Lifetime::Endless;
    world.submit(service);
    world.settle();
    world.submit(pod("large", 2));
    world.submit(pod("small", 1));
    world.settle();
    assert_eq!((world.node_of("large"), world.node_of("small")), (None, Some("a")));
    assert!(world.blocked("large").1.contains("no end"), "{:?}", world.blocked("large"));
}

#[test]
fn a_seat_that_somebody_else_has_moved_is_written_before_it_is_passed_on() {
    let mut world = World::new(&[("a", 4), ("b", 4)]);
    world.tell(Event::Controller(Arc::new(job("j", 2, 4))));
    for name in ["p0", "p1"] {
        world.submit(of_job(pod(name, 1), "j"));
    }
    world.settle();
    assert_eq!((world.node_of("p0"), world.node_of("p1")), (Some("a"), Some("a")));
    world.change("p0", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    world.submit(of_job(pod("p2", 1), "j"));
    for action in world.step() {
        if !matches!(action.kind, ActionKind::Bind { .. }) {
            world.carry_out(action);
            continue;
        }
        // It comes too late.
        world.change("p2", |pod| pod.node = Some(Arc::from("b")));
        world.tell(Event::Done(action.id, Outcome::Bind(BindOutcome::BoundElsewhere(Arc::from("b")))));
    }
    let mut unanswered = world.step();
    world.change("p2", |pod| pod.phase = Phase::Succeeded);
    world.submit(of_job(pod("p3", 1), "j"));
    unanswered.extend(world.step());
    assert_eq!(binds(&unanswered), 0, "the placement that is written does not say so yet");
    for action in unanswered {
        world.carry_out(action);
    }
    world.settle();
    assert_eq!(world.node_of("p3"), Some("b"));
    let record = world.record("j").status.as_ref().expect("a status");
    assert_eq!(planned(&record.placement), ["b", "a"]);
}

#[test]
fn each_pod_of_a_gang_is_booked_for_as_long_as_it_runs_itself() {
    let mut world = World::new(&[("a", 4)]);
    for (name, lifetime) in [("batch", Lifetime::Seconds(50)), ("service", Lifetime::Endless)] {
        let mut member = of_group(pod(name, 1), "gang", Ok(2));
        member.lifetime = lifetime;
        world.submit(member);
    }
    world.settle();
    assert_eq!(world.bound(), 2);
    world.submit(pod("large", 4));
    world.submit(pod("small", 1));
    world.settle();
    assert!(world.blocked("large").1.contains("no end"), "{:?}", world.blocked("large"));
    assert_eq!(world.node_of("small"), Some("a"));
}

#[test]
fn nobody_waits_behind_a_job_that_a_service_has_just_made_hopeless() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("runs", 2));
    world.settle();
    world.submit(pod("large", 4));
    world.submit(pod("small", 1));
    world.settle();
    assert_eq!(world.blocked("small").0, "QueuedBehind", "large could start once what runs has ended");
    let mut service = pod("service", 1);
    service.lifetime = Lifetime::Endless;
    service.priority = 5;
    world.submit(service);
    world.settle();
    assert_eq!(
        (world.node_of("service"), world.node_of("large"), world.node_of("small")),
        (Some("a"), None, Some("a"))
    );
}

#[test]
fn an_answer_that_got_lost_is_asked_for_on_the_same_node() {
    let mut world = World::new(&[("a", 4), ("b", 4)]);
    world.submit(pod("p", 1));
    let actions = world.step();
    let ActionKind::Bind { node: first, .. } = &actions[0].kind else { panic!("{actions:?}") };
    world.tell(Event::Done(actions[0].id, Outcome::Bind(BindOutcome::Failed("timeout".into()))));
    assert_eq!(binds(&world.step()), 0, "not at once");
    world.pass_seconds(1);
    let again = world.step();
    let bind = again.iter().find_map(|action| match &action.kind {
        ActionKind::Bind { node, .. } => Some(node),
        _ => None,
    });
    assert_eq!(bind, Some(first));
}

#[test]
fn a_binding_on_its_way_counts_on_a_node_that_comes_back() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(pod("sent", 3));
    let unanswered = world.step();
    assert_eq!(binds(&unanswered), 1);
    world.tell(Event::NodeGone(Arc::from("a"), Arc::from("uid-a")));
    world.step();
    let mut back = Node::clone(&node("a", 4));
    back.uid = Arc::from("uid-of-another");
    world.tell(Event::Node(Arc::new(back)));
    world.submit(pod("next", 2));
    assert_eq!(binds(&world.step()), 0, "it may be there already");
    for action in unanswered {
        world.carry_out(action);
    }
    world.settle();
    assert_eq!((world.node_of("sent"), world.node_of("next")), (Some("a"), None));
    world.change("sent", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.node_of("next"), Some("a"));
}

#[test]
fn a_binding_is_not_sent_where_another_scheduler_came_first() {
    let mut world = World::new(&[("a", 4)]);
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    world.submit(of_job(pod("p0", 2), "j"));
    world.submit(of_job(pod("p1", 2), "j"));
    let actions = world.step();
    assert_eq!(binds(&actions), 0, "the placement is to be written first");
    let mut theirs = pod("theirs", 3);
    theirs.scheduler = Arc::from("default-scheduler");
    theirs.node = Some(Arc::from("a"));
    world.submit(theirs);
    for action in actions {
        world.carry_out(action);
    }
    world.settle();
    assert!(world.bindings.is_empty(), "{:?}", world.bindings);
    world.tell(Event::Node(node("b", 4)));
    world.settle();
    assert_eq!((world.node_of("p0"), world.node_of("p1")), (Some("b"), Some("b")));
}

#[test]
fn a_slot_passes_to_the_next_pod_of_its_job() {
    let mut world = World::new(&[("a", 2)]);
    world.tell(Event::Controller(Arc::new(job("j", 2, 4))));
    world.submit(of_job(pod("p0", 1), "j"));
    world.submit(of_job(pod("p1", 1), "j"));
    world.settle();
    world.submit(pod("other", 1));
    world.change("p0", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.node_of("other"), None, "the slot is the job's");
    world.submit(of_job(pod("p2", 1), "j"));
    world.settle();
    assert_eq!((world.node_of("p2"), world.node_of("other")), (Some("a"), None));
    // The controller takes too long: the slot is given back.
    world.change("p1", |pod| pod.phase = Phase::Failed);
    world.settle();
    world.pass_seconds(16);
    world.settle();
    assert_eq!(world.node_of("other"), Some("a"));
}

#[test]
fn a_succeeded_rank_that_nobody_follows_frees_its_share_alone() {
    let mut world = World::new(&[("a", 2)]);
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    world.submit(of_job(pod("p0", 1), "j"));
    world.submit(of_job(pod("p1", 1), "j"));
    world.settle();
    world.submit(pod("x", 1));
    world.submit(pod("y", 1));
    world.change("p0", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!((world.node_of("x"), world.node_of("y")), (Some("a"), None));
}

#[test]
fn a_half_bound_gang_is_finished_where_its_placement_says() {
    let nodes = [("a", 2), ("b", 2)];
    let mut world = World::new(&nodes);
    let j = job("j", 4, 4);
    world.tell(Event::Controller(Arc::new(j.clone())));
    for name in ["p0", "p1", "p2", "p3"] {
        world.submit(of_job(pod(name, 1), "j"));
    }
    // Up to the Bindings, of which two take effect.
    loop {
        let actions = world.step();
        let leaves = binds(&actions) > 0;
        let mut taken = 0;
        for action in actions {
            if matches!(action.kind, ActionKind::Bind { .. }) {
                taken += 1;
                if taken > 2 {
                    continue;
                }
            }
            world.carry_out(action);
        }
        if leaves {
            break;
        }
    }
    let before = world.bindings.clone();
    assert_eq!(before.len(), 2);
    let queued_at = world.record("j").status.as_ref().and_then(|status| status.queued_at.clone());
    world.restart();
    // A larger node that is emptier must not tempt it.
    world.list(&[("0", 64), ("a", 2), ("b", 2)], &[j]);
    world.settle();
    let mut nodes: Vec<&str> = ["p0", "p1", "p2", "p3"].iter().filter_map(|pod| world.node_of(pod)).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["a", "a", "b", "b"]);
    let status = world.record("j").status.as_ref().expect("a status");
    assert_eq!((status.queued_at.clone(), status.epoch), (queued_at, Some(2)));
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let mut world = World::new(&[("a", 4)]);
    let mut refused = pod("p", 1);
    refused
        .unsupported
        .push(Unsupported { field: "spec.volumes[0]".into(), message: "claims are not supported".into() });
    world.submit(refused);
    world.settle();
    assert_eq!(world.state("p"), Some(JobState::Refused));
    let (reason, message) = world.blocked("p");
    assert!(reason == "UnsupportedConstraint" && message.contains("spec.volumes[0]"), "{reason}: {message}");
    assert!(world.notes.iter().any(|reason| reason == "FailedScheduling"));
}

#[test]
fn a_held_job_waits_and_a_raised_one_overtakes() {
    let mut world = World::new(&[("a", 1)]);
    world.submit(pod("runs", 1));
    world.settle();
    world.submit(pod("first", 1));
    world.settle();
    world.submit(pod("second", 1));
    world.settle();
    world.edit("second", |spec| spec.priority = 5);
    world.settle();
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!((world.node_of("second"), world.node_of("first")), (Some("a"), None));
    world.edit("first", |spec| spec.hold = true);
    world.settle();
    assert_eq!(world.state("first"), Some(JobState::Held));
    world.change("second", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!(world.node_of("first"), None);
}

#[test]
fn a_waiting_job_whose_record_is_deleted_goes_to_the_end() {
    let mut world = World::new(&[("a", 1)]);
    world.submit(pod("runs", 1));
    world.settle();
    for name in ["first", "second"] {
        world.pass_seconds(1);
        world.submit(pod(name, 1));
        world.settle();
    }
    let record = world.record("first").clone();
    world.records.remove(&key_of(&record));
    let uid = Arc::from(record.metadata.uid.clone().expect("a uid"));
    world.pass_seconds(1);
    world.tell(Event::FluxJobGone(ObjectRef { key: key_of(&record), uid }));
    world.settle();
    assert_eq!(world.state("first"), Some(JobState::Pending), "it is written again");
    world.change("runs", |pod| pod.phase = Phase::Succeeded);
    world.settle();
    assert_eq!((world.node_of("first"), world.node_of("second")), (None, Some("a")));
}

#[test]
fn a_pod_waits_for_the_news_of_its_job_and_not_for_ever() {
    let mut world = World::new(&[("a", 4)]);
    world.submit(of_job(pod("p0", 1), "late"));
    world.settle();
    assert_eq!(world.bound(), 0, "its Job may want more than one");
    world.tell(Event::Controller(Arc::new(job("late", 2, 2))));
    world.settle();
    assert_eq!(world.bound(), 0, "the other is missing");
    world.submit(of_job(pod("p1", 1), "late"));
    world.settle();
    assert_eq!(world.bound(), 2);
    world.submit(of_job(pod("orphan", 1), "never-seen"));
    world.settle();
    world.pass_seconds(31);
    world.settle();
    assert_eq!(world.node_of("orphan"), Some("a"));
}

#[test]
fn pods_that_their_job_has_left_behind_stay_with_its_flux_job() {
    let mut world = World::new(&[("a", 2)]);
    world.submit(pod("runs", 1));
    world.settle();
    world.tell(Event::Controller(Arc::new(job("j", 2, 2))));
    for name in ["p0", "p1"] {
        world.submit(of_job(pod(name, 1), "j"));
    }
    world.settle();
    world.edit("j", |spec| spec.hold = true);
    world.settle();
    assert_eq!(world.state("j"), Some(JobState::Held));
    // The Job is deleted, and its pods and its FluxJob are not yet, when a new process begins.
    world.restart();
    world.list(&[("a", 2)], &[]);
    world.settle();
    world.pass_seconds(31);
    world.settle();
    assert_eq!(world.bound(), 1, "a pod of a held job has started as if it were one of its own");
    assert_eq!(world.records.len(), 2);
}

#[test]
fn everything_is_free_again_when_everything_is_gone() {
    let mut world = World::new(&[("a", 4), ("b", 4)]);
    world.tell(Event::Controller(Arc::new(job("j", 4, 4))));
    for name in ["p0", "p1", "p2", "p3"] {
        world.submit(of_job(pod(name, 2), "j"));
    }
    world.settle();
    assert_eq!(world.bound(), 4);
    world.tell(Event::ControllerGone(Arc::from("uid-j")));
    for name in ["p0", "p1", "p2", "p3"] {
        world.delete(name);
    }
    world.settle();
    for name in ["a-filler", "b-filler"] {
        world.submit(pod(name, 4));
    }
    world.settle();
    assert_eq!(world.bound(), 2);
    assert_eq!(world.core.gauges().graph_errors, 0);
}

#[test]
fn a_graph_that_has_seen_many_nodes_go_is_made_anew() {
    let mut world = World::new(&[("stays", 4)]);
    world.submit(pod("p", 3));
    world.settle();
    for at in 0..=10_000 {
        let passing = node(&format!("passing-{at}"), 4);
        world.tell(Event::Node(Arc::clone(&passing)));
        world.tell(Event::NodeGone(Arc::clone(&passing.name), Arc::clone(&passing.uid)));
    }
    assert!(world.core.ledger.is_worn(&world.core.cluster));
    world.pass_seconds(11);
    world.settle();
    assert!(!world.core.ledger.is_worn(&world.core.cluster));
    // What was taken still is.
    world.submit(pod("fits", 1));
    world.settle();
    world.submit(pod("too-much", 1));
    world.settle();
    assert_eq!(world.bound(), 2);
}
