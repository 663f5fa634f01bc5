//! What is under test, seen from outside: events and the time go in, actions come out.

use std::sync::Arc;

use fluxion_sys::FunctionTable;
use fluxqueue_core::{Action, Core, CoreSettings, Event, NodePolicy, QueuePolicy};
use fluxqueue_machine::cluster::{Level, Topology};
use fluxqueue_workload::Time;

use crate::objects::ZONE;
use crate::rng::WHOLE;
use crate::timely::TIMELY;

/// The sans-IO core, or one of the saboteurs around it.
pub(crate) trait Machine {
    /// Takes note of an event.
    fn handle(&mut self, event: Event, now: Time);
    /// Decides, and hands out what is to be done.
    fn step(&mut self, now: Time) -> Vec<Action>;
    /// When `step` wants to be called though nothing happens.
    fn next_wake(&self) -> Option<Time>;
    /// How often its own audit found an account of what is taken wrong.
    fn audit_differences(&self) -> u64;
}

/// How long the core keeps the slot of a pod that has ended, and that of one whose Job waits longer
/// before it replaces it.
pub(crate) const SLOT_KEEP_SECONDS: u64 = 15;
pub(crate) const SLOT_KEEP_MAX_SECONDS: u64 = 40;

/// How long it holds the place of a suspended Job for the pods to come.
pub(crate) const SUSPEND_HOLD_SECONDS: u64 = 20;

/// What a process is told at its start.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    /// The scheduler name that it serves.
    pub(crate) scheduler: Arc<str>,
    /// Its number in the succession of leaders.
    pub(crate) epoch: i64,
    /// Each lone pod has a FluxJob, and not only those that wait.
    pub(crate) record_lone_pods: bool,
    /// Who may start before whom.
    pub(crate) queue_policy: QueuePolicy,
    /// How long it holds the place of a suspended Job for the pods to come.
    pub(crate) suspend_hold_secs: u64,
    /// How long one may be passed by of whom nobody knows when he can start.
    pub(crate) bypass_secs: u64,
    /// A pass is left after so many questions to the resource graph.
    pub(crate) questions_per_slice: u64,
}

/// Runs the simulation with this queue policy, instead of one for each seed.
pub(crate) const POLICY: &str = "FLUXQUEUE_SIM_POLICY";

/// The queue policy of the runs of this seed.
pub(crate) fn queue_policy_of(seed: u64) -> QueuePolicy {
    if seed >= WHOLE {
        // No other goes without extensions.
        return QueuePolicy::Fcfs;
    }
    match std::env::var(POLICY) {
        Ok(name) => QueuePolicy::from_name(&name).expect("FLUXQUEUE_SIM_POLICY names a policy"),
        // Beside what else goes by the number of the seed.
        Err(_) => QueuePolicy::ALL[usize::try_from(seed / 6 % 4).expect("a small number")],
    }
}

/// How long one may be passed by of whom nobody knows when it can start.
pub(crate) const BYPASS_SECONDS: u64 = 300;

/// Makes a machine for a process that starts.
pub(crate) type Factory = dyn Fn(&Start) -> Box<dyn Machine> + Sync;

/// In the runs of this seed there are FluxQueues. Not beside a second instance, with which it would
/// share their status.
pub(crate) fn has_queues(seed: u64) -> bool {
    seed < WHOLE && seed % 6 == 4
}

/// In the runs of this seed there are Jobs that wait without pods.
pub(crate) fn has_suspended(seed: u64) -> bool {
    seed % 5 == 2 || seed % 5 == 3
}

/// The FluxJobs of lone pods in the runs of this seed.
pub(crate) fn records_lone_pods(seed: u64) -> bool {
    !seed.is_multiple_of(2)
}

/// The core as the tests set it, on the library that the seed says.
pub(crate) fn of_seed(seed: u64) -> &'static Factory {
    if (WHOLE..TIMELY).contains(&seed) {
        &|start| core_on(FunctionTable { extensions: None, ..FunctionTable::builtin() }, start)
    } else {
        &core
    }
}

/// After how many questions to the resource graph a pass is left in the runs of this seed: in half
/// of them after each. Beside what else goes by the number.
pub(crate) fn questions_per_slice(seed: u64) -> u64 {
    if (seed / 24).is_multiple_of(2) { 1 } else { u64::MAX }
}

/// The core, as the tests set it.
pub(crate) fn core(start: &Start) -> Box<dyn Machine> {
    core_on(FunctionTable::builtin(), start)
}

/// The same on another library.
pub(crate) fn core_on(library: FunctionTable, start: &Start) -> Box<dyn Machine> {
    let zone = Level { name: Arc::from(ZONE), node_labels: vec![Arc::from(ZONE)] };
    let settings = CoreSettings {
        scheduler_names: vec![Arc::clone(&start.scheduler)],
        node_policy: NodePolicy::First,
        slot_keep_secs: SLOT_KEEP_SECONDS,
        slot_keep_max_secs: SLOT_KEEP_MAX_SECONDS,
        suspend_hold_secs: start.suspend_hold_secs,
        // All its users share one namespace, so each pause stops all of them.
        release_pause_secs: 1,
        record_lone_pods: start.record_lone_pods,
        queue_policy: start.queue_policy,
        reservation_depth: 3,
        bypass_secs: start.bypass_secs,
        questions_per_slice: start.questions_per_slice,
        start_slack_secs: 0,
        end_slack_secs: 0,
        topology: Arc::new(
            Topology::new(vec![vec![zone]]).expect("one level with a name and a label"),
        ),
        ..CoreSettings::default()
    };
    Box::new(
        Core::new(settings, library, start.epoch).expect("the built-in library is always there"),
    )
}

impl Machine for Core {
    fn handle(&mut self, event: Event, now: Time) {
        Core::handle(self, event, now);
    }

    fn step(&mut self, now: Time) -> Vec<Action> {
        Core::step(self, now)
    }

    fn next_wake(&self) -> Option<Time> {
        Core::next_wake(self)
    }

    fn audit_differences(&self) -> u64 {
        self.gauges().audit_differences
    }
}
