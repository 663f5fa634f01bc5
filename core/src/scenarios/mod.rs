//! Scenarios: the core step by step, with every action in the test's hands.
//!
//! The simulation finds cases that were not foreseen; scenarios state the intended ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::{
    BlockedBy, EstimateKind, FluxJob, FluxJobSpec, FluxQueueStatus, JobState, PlacementRange,
    placement,
};

use fluxion_sys::FunctionTable;

use super::{
    Action, ActionKind, BindOutcome, Core, CoreSettings, Event, NodePolicy, Outcome, Urgency,
    Write, WriteOutcome,
};
use crate::telling::blockers::Blockers;
use fluxqueue_machine::cluster::{Node, Readiness};
use fluxqueue_workload::constraints::Constraints;
use fluxqueue_workload::pod_group::GroupCondition;
use fluxqueue_workload::{
    Controller, GroupLabels, JobGroup, Lifetime, NodeName, ObjectKey, ObjectRef, Owner, OwnerKind,
    Phase, Pod, PriorityClass, Resources, ScheduledCondition, Shape, Time, Uid, Unsupported,
};

mod audit;
mod awaited;
mod blocked;
mod both_rules;
mod charges;
mod contradictions;
mod deadlines;
mod delays;
mod device_classes;
mod dying_members;
mod edited_pods;
mod endings;
mod estimates;
mod exclusive;
mod gangs;
mod gangs_after_restart;
mod group_changes;
mod group_terms;
mod held_nodes;
mod kept_away;
mod kept_slots;
mod last_pods;
mod late;
mod late_owners;
mod library;
mod limits;
mod lone_pods;
mod long_texts;
mod mishaps;
mod neighbours;
mod never_together;
mod nominated;
mod on_record;
mod operators;
mod outlook;
mod paused;
mod preferences;
mod promises;
mod promises_after_restart;
mod quantities;
mod queue_limits;
mod queues;
mod quotas;
mod rebuilt_graph;
mod refused;
mod releases;
mod repelling;
mod restarts;
mod roles;
mod scaling;
mod scheduling_groups;
mod searches;
mod several_shapes;
mod slices;
mod slices_of_pods;
mod slices_that_ask;
mod spread_over_levels;
mod stand_ins;
mod stand_ins_changed;
mod starting;
mod storage;
mod together;
mod topology;
mod unread_changes;
mod versions;
mod volume_choices;
mod volume_limits;
mod volumes;
mod walls;
mod waves;
mod what_if;
mod whole;
mod wide_racks;
mod wishes;

/// A core, the time, and what an API server would hold.
struct World {
    core: Core,
    now: Time,
    pods: BTreeMap<String, Pod>,
    records: BTreeMap<ObjectKey, FluxJob>,
    /// Jobs that are suspended for us.
    jobs: BTreeMap<String, Controller>,
    uids: u32,
    /// Every Binding that the core has sent: pod and node.
    bindings: Vec<(String, String)>,
    storage: storage::Storage,
    /// Every reason of an Event.
    notes: Vec<String>,
    /// And what they said.
    texts: Vec<String>,
    /// The status of queues that was last written, by name.
    queues: BTreeMap<String, FluxQueueStatus>,
    /// The condition PodScheduled that was last written, by pod.
    conditions: BTreeMap<String, ScheduledCondition>,
    /// Every condition of a PodGroup that was written, with the name of the group.
    group_conditions: Vec<(String, GroupCondition)>,
    /// The answer to such a write.
    group_outcome: WriteOutcome,
}

fn settings() -> CoreSettings {
    CoreSettings {
        node_policy: NodePolicy::LoNode,
        ttl_after_finished_secs: 60,
        queue_policy: crate::QueuePolicy::Fcfs,
        start_slack_secs: 0,
        end_slack_secs: 0,
        record_lone_pods: true,
        ..CoreSettings::default()
    }
}

fn node(name: &str, cores: u64) -> Arc<Node> {
    let allocatable = [("cpu", cores * 1000), ("memory", 64 << 30), ("pods", 110)];
    Arc::new(Node {
        name: NodeName::from(name),
        uid: Uid::from(format!("uid-{name}")),
        allocatable: allocatable.into_iter().collect(),
        labels: Vec::new(),
        taints: Vec::new(),
        unschedulable: false,
        readiness: Readiness::Ready,
        declared_features: Vec::new(),
    })
}

pub(crate) fn pod(name: &str, cores: u64) -> Pod {
    let requests: Resources = [("cpu", cores * 1000), ("pods", 1)].into_iter().collect();
    let id = ObjectRef { key: ObjectKey::new("ns", name), uid: Uid::from(format!("uid-{name}")) };
    let shape = Arc::new(Shape { requests, constraints: Constraints::default() });
    Pod { created: Time::from_seconds(1000), ..Pod::waiting(id, Arc::from("fluxqueue"), shape) }
}

fn job(name: &str, parallelism: u32, completions: u32) -> Controller {
    Controller {
        id: ObjectRef { key: ObjectKey::new("ns", name), uid: Uid::from(format!("uid-{name}")) },
        kind: OwnerKind::Job,
        owner: None,
        created: Time::default(),
        wants: parallelism.min(completions),
        can_start_together: parallelism.min(completions),
        succeeded: 0,
        completions: Some(completions),
        parallelism,
        finished: false,
        failed: false,
        deadline: None,
        deadline_secs: None,
        group: None,
        queue: None,
        deleting: false,
        walltime: None,
        levels: Ok(None),
        exclusive: Ok(None),
        scheduling: None,
        said_of_group: JobGroup::Unsaid,
        suspension: None,
    }
}

/// A Job of this size that has succeeded.
fn succeeded_job(name: &str, size: u32) -> Controller {
    Controller { finished: true, succeeded: size, wants: 0, ..job(name, size, size) }
}

fn priority_class(name: &str, value: i32) -> Arc<PriorityClass> {
    let uid = Uid::from(format!("uid-{name}-{value}"));
    Arc::new(PriorityClass { name: Arc::from(name), uid, value, is_default: false })
}

fn of_job(mut pod: Pod, job: &str) -> Pod {
    pod.owner = Some(Owner {
        kind: OwnerKind::Job,
        name: Arc::from(job),
        uid: Uid::from(format!("uid-{job}")),
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
        Self::told(settings(), library, nodes)
    }

    fn told(settings: CoreSettings, library: FunctionTable, nodes: &[(&str, u64)]) -> Self {
        let mut world = World {
            core: Core::new(settings, library, 1).expect("a core"),
            now: Time::from_seconds(2000),
            pods: BTreeMap::new(),
            records: BTreeMap::new(),
            jobs: BTreeMap::new(),
            uids: 0,
            bindings: Vec::new(),
            storage: storage::Storage::default(),
            notes: Vec::new(),
            texts: Vec::new(),
            queues: BTreeMap::new(),
            conditions: BTreeMap::new(),
            group_conditions: Vec::new(),
            group_outcome: WriteOutcome::Written(None),
        };
        world.list(nodes, &[]);
        world
    }

    fn tell(&mut self, event: Event) {
        self.core.handle(event, self.now);
    }

    fn submit(&mut self, pod: Pod) {
        self.pods.insert(pod.id.key.name.to_string(), pod.clone());
        self.tell(Event::Pod(Arc::new(pod)));
    }

    /// A Job `j` comes, with two pods `p0` and `p1` that start together.
    fn submit_gang(&mut self, cores: u64) {
        self.tell(Event::Controller(Arc::new(job("j", 2, 2))));
        for name in ["p0", "p1"] {
            self.submit(of_job(pod(name, cores), "j"));
        }
    }

    fn change(&mut self, name: &str, how: impl FnOnce(&mut Pod)) {
        let pod = self.pods.get_mut(name).expect("the pod is there");
        how(pod);
        let pod = Arc::new(pod.clone());
        self.tell(Event::Pod(pod));
    }

    /// A person edits a FluxJob.
    fn edit(&mut self, workload: &str, how: impl FnOnce(&mut FluxJobSpec)) {
        self.change_record(workload, |record| {
            how(&mut record.spec);
            record.metadata.generation =
                record.metadata.generation.map(|generation| generation + 1);
        });
    }

    /// Changes a FluxJob as a user does.
    fn change_record(&mut self, workload: &str, how: impl FnOnce(&mut FluxJob)) {
        let record = self.record_mut(workload);
        how(record);
        let record = Arc::new(record.clone());
        self.tell(Event::FluxJob(record));
    }

    /// Deletes a FluxJob as a user does.
    fn delete_record(&mut self, workload: &str) {
        let key = key_of(self.record(workload));
        let record = self.records.remove(&key).expect("it is there");
        let uid = Uid::from(record.metadata.uid.expect("a uid"));
        self.tell(Event::FluxJobGone(ObjectRef { key, uid }));
    }

    /// Shows the written conditions of these pods on the watch.
    fn show_conditions(&mut self, pods: &[&str]) {
        for name in pods {
            let said = self.conditions.get(*name).cloned();
            self.change(name, |pod| pod.scheduled_condition = said);
        }
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
                // Work that is put off for a moment belongs to it.
                let soon = self.now.plus_millis(100);
                match self.core.next_wake().filter(|wake| *wake <= soon) {
                    Some(wake) => self.now = self.now.max(wake),
                    None => return,
                }
                continue;
            }
            self.carry_out_all(actions);
        }
        panic!("the core does not come to rest");
    }

    fn carry_out_all(&mut self, actions: impl IntoIterator<Item = Action>) {
        for action in actions {
            self.carry_out(action);
        }
    }

    /// Carries out all actions up to the first Binding, and none after it.
    fn carry_out_to_first_binding(&mut self) {
        for _ in 0..20 {
            for action in self.step() {
                let is_binding = matches!(action.kind, ActionKind::Bind { .. });
                self.carry_out(action);
                if is_binding {
                    return;
                }
            }
        }
        panic!("nothing is bound");
    }

    fn write(&mut self, write: Write) -> WriteOutcome {
        match write {
            Write::CreateFluxJob { job, .. } => {
                self.uids += 1;
                let mut job = *job;
                job.metadata.uid = Some(format!("record-{}", self.uids));
                job.metadata.generation = Some(1);
                self.tell(Event::FluxJob(Arc::new(job.clone())));
                self.records.insert(key_of(&job), job.clone());
                WriteOutcome::Written(Some(Arc::new(job)))
            }
            Write::WriteStatus { job, status, .. } => match self.records.get_mut(&job.key) {
                Some(record) => {
                    record.status = Some(Arc::unwrap_or_clone(status));
                    let record = Arc::new(record.clone());
                    self.tell(Event::FluxJob(record));
                    WriteOutcome::Written(None)
                }
                None => WriteOutcome::Gone,
            },
            Write::DeleteFluxJob { job, .. } => {
                self.records.remove(&job.key);
                self.tell(Event::FluxJobGone(job));
                WriteOutcome::Written(None)
            }
            Write::Ungate { pod, gate, .. } => {
                self.change(&pod.key.name, |pod| pod.gates.retain(|held| *held != gate));
                WriteOutcome::Written(None)
            }
            Write::SetPodScheduled { pod, reason, message, .. } => {
                let said =
                    ScheduledCondition { scheduled: false, reason: reason.to_owned(), message };
                self.conditions.insert(pod.key.name.to_string(), said);
                WriteOutcome::Written(None)
            }
            Write::Nominate { pod, node, .. } => {
                self.change(&pod.key.name, |pod| pod.nominated = node);
                WriteOutcome::Written(None)
            }
            Write::WriteQueueStatus { queue, status, .. } => {
                self.queues.insert(queue.to_string(), *status);
                WriteOutcome::Written(None)
            }
            Write::SelectNode { claim, resource_version, node } => {
                self.select_node(&claim, resource_version.as_deref(), &node)
            }
            Write::ClaimVolume { volume, resource_version, claim, .. } => {
                self.claim_volume(&volume, resource_version.as_deref(), &claim)
            }
            Write::ReleaseJob { job, resource_version, at } => {
                self.write_job(&job, resource_version.as_deref(), Some(at))
            }
            Write::SuspendJob { job, resource_version } => {
                self.write_job(&job, resource_version.as_deref(), None)
            }
            Write::SetGroupCondition { group, condition, .. } => {
                let said = (group.key.name.to_string(), *condition);
                self.group_conditions.push(said);
                self.group_outcome.clone()
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        let outcome = match action.kind {
            ActionKind::Bind { pod, node, queue } => {
                let name = pod.key.name.to_string();
                self.bindings.push((name.clone(), node.to_string()));
                self.change(&name, |pod| {
                    (pod.node, pod.nominated, pod.charged_queue) = (Some(node), None, Some(queue));
                });
                Outcome::Bind(BindOutcome::Bound)
            }
            ActionKind::Write(write) => Outcome::Write(self.write(write)),
            ActionKind::Note(note) => {
                self.notes.push(note.reason.to_owned());
                self.texts.push(note.note);
                return;
            }
        };
        self.tell(Event::Done(action.id, outcome));
    }

    /// Everything settles, and there is time to look ahead.
    fn look_ahead(&mut self) {
        for _ in 0..10 {
            self.pass_seconds(1);
            self.settle();
        }
    }

    fn node_of(&self, pod: &str) -> Option<&str> {
        self.pods.get(pod)?.node.as_deref()
    }

    fn bound(&self) -> usize {
        self.pods.values().filter(|pod| pod.node.is_some()).count()
    }

    /// The record of this workload.
    fn record(&self, workload: &str) -> &FluxJob {
        let of_it = self.records.values().find(|record| record.spec.workload_ref.name == workload);
        of_it.unwrap_or_else(|| panic!("no FluxJob for {workload}: {:?}", self.records.keys()))
    }

    fn record_mut(&mut self, workload: &str) -> &mut FluxJob {
        let key = key_of(self.record(workload));
        self.records.get_mut(&key).expect("it is there")
    }

    fn state(&self, workload: &str) -> Option<JobState> {
        self.record(workload).status.as_ref()?.state
    }

    /// What its record says of its start, to the second.
    fn estimate(&self, workload: &str) -> Option<(EstimateKind, i64)> {
        let estimate = self.record(workload).status.as_ref()?.estimated_start.as_ref()?;
        Some((estimate.kind, crate::records::times::time_of(&estimate.time).seconds()))
    }

    /// Returns the most important reason, and the text about all.
    fn blocked(&self, workload: &str) -> (String, String) {
        let blockers = Blockers::of(self.blockers(workload)).expect("it is blocked");
        (blockers.reason().to_string(), blockers.text())
    }

    fn blockers(&self, workload: &str) -> Vec<BlockedBy> {
        self.record(workload).status.as_ref().expect("a status").blocked_by.clone()
    }

    /// Starts a new process: everything is listed again.
    fn restart(&mut self) {
        self.core =
            Core::new(self.core.settings.clone(), FunctionTable::builtin(), 2).expect("a core");
        self.now = self.now.plus_millis(1);
    }

    fn list(&mut self, nodes: &[(&str, u64)], controllers: &[Controller]) {
        self.tell(Event::PriorityClass(priority_class("high", 5)));
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
        self.list_storage();
        self.tell(Event::Synced);
    }
}

fn key_of(job: &FluxJob) -> ObjectKey {
    ObjectKey::new(
        job.metadata.namespace.clone().unwrap_or_default(),
        job.metadata.name.clone().unwrap_or_default(),
    )
}

fn planned(ranges: &[PlacementRange]) -> Vec<String> {
    placement::expand(ranges)
        .expect("a placement")
        .into_iter()
        .map(|(_, _, node)| node.to_string())
        .collect()
}

/// Returns the FluxJob, the status and the urgency of a write of a status.
fn status_written(action: &Action) -> Option<(&ObjectRef, &fluxqueue_api::FluxJobStatus, Urgency)> {
    match &action.kind {
        ActionKind::Write(Write::WriteStatus { job, status, urgency, .. }) => {
            Some((job, status, *urgency))
        }
        _ => None,
    }
}

/// True if a placement is written.
fn writes_placement(action: &Action) -> bool {
    status_written(action).is_some_and(|(_, status, _)| !status.placement.is_empty())
}

fn binds(actions: &[Action]) -> usize {
    actions.iter().filter(|action| matches!(action.kind, ActionKind::Bind { .. })).count()
}
