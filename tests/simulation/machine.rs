//! The machine under test, seen from outside: events and the time go in, actions come out.

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
    /// Decides, and returns the actions to carry out.
    fn step(&mut self, now: Time) -> Vec<Action>;
    /// Returns when `step` wants to be called though nothing happens.
    fn next_wake(&self) -> Option<Time>;
    /// Returns how often the core's own audit found a wrong account of taken amounts.
    fn audit_differences(&self) -> u64;
}

/// Seconds for which the core keeps the slot of a pod that has ended, and that of a pod with a Job
/// that waits longer before it replaces it.
pub(crate) const SLOT_KEEP_SECONDS: u64 = 15;
pub(crate) const SLOT_KEEP_MAX_SECONDS: u64 = 40;

/// Seconds for which the core holds the place of a released Job for its pods.
pub(crate) const SUSPEND_HOLD_SECONDS: u64 = 20;

/// The settings of a process at its start.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    /// The scheduler name that it serves.
    pub(crate) scheduler: Arc<str>,
    /// Its number in the succession of leaders.
    pub(crate) epoch: i64,
    /// True if each lone pod has a FluxJob, and not only those that wait.
    pub(crate) record_lone_pods: bool,
    /// The queue policy.
    pub(crate) queue_policy: QueuePolicy,
    /// Seconds for which it holds the place of a released Job for its pods.
    pub(crate) suspend_hold_secs: u64,
    /// Seconds for which a job without a known start may be passed by.
    pub(crate) bypass_secs: u64,
    /// Number of questions to the resource graph after which a pass is interrupted.
    pub(crate) questions_per_slice: u64,
}

/// Environment variable that sets one queue policy for all seeds.
pub(crate) const POLICY: &str = "FLUXQUEUE_SIM_POLICY";

/// Returns the queue policy of the runs of this seed.
pub(crate) fn queue_policy_of(seed: u64) -> QueuePolicy {
    if seed >= WHOLE {
        // No other policy works without extensions.
        return QueuePolicy::Fcfs;
    }
    match std::env::var(POLICY) {
        Ok(name) => QueuePolicy::from_name(&name).expect("FLUXQUEUE_SIM_POLICY names a policy"),
        // The policy varies independently of the other properties of a seed.
        Err(_) => QueuePolicy::ALL[usize::try_from(seed / 6 % 4).expect("a small number")],
    }
}

/// Seconds for which a job without a known start may be passed by.
pub(crate) const BYPASS_SECONDS: u64 = 300;

/// Makes a machine for a process that starts.
pub(crate) type Factory = dyn Fn(&Start) -> Box<dyn Machine> + Sync;

/// True if the runs of this seed have FluxQueues. Runs with a second instance have none, because
/// both would write their status.
pub(crate) fn has_queues(seed: u64) -> bool {
    seed < WHOLE && seed % 6 == 4
}

/// True if the runs of this seed have Jobs that wait without pods.
pub(crate) fn has_suspended(seed: u64) -> bool {
    seed % 5 == 2 || seed % 5 == 3
}

/// True if lone pods have FluxJobs in the runs of this seed.
pub(crate) fn records_lone_pods(seed: u64) -> bool {
    !seed.is_multiple_of(2)
}

/// Returns the core with the tests' settings, on the library of the seed.
pub(crate) fn of_seed(seed: u64) -> &'static Factory {
    if (WHOLE..TIMELY).contains(&seed) {
        &|start| core_on(FunctionTable { extensions: None, ..FunctionTable::builtin() }, start)
    } else {
        &core
    }
}

/// Returns after how many questions to the resource graph a pass is interrupted in the runs of this
/// seed: in half of them after each. This varies independently of the other properties of a seed.
pub(crate) fn questions_per_slice(seed: u64) -> u64 {
    if (seed / 24).is_multiple_of(2) { 1 } else { u64::MAX }
}

/// Makes the core with the tests' settings.
pub(crate) fn core(start: &Start) -> Box<dyn Machine> {
    core_on(FunctionTable::builtin(), start)
}

/// Makes the same core on another library.
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
