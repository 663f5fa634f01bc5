//! The state machine: (state, event, now) -> actions. No clock, no network, no randomness.
//!
//! [`Core::handle`] takes up events; [`Core::step`] decides what follows from them. Between the two
//! nothing is decided, so a burst of events costs one pass. The modules:
//!
//! Entrance and exit: `event`, `action`, `settings`; `in_flight` has the writes without an answer.
//!
//! Owners of the state, in the order of the fields of [`Core`]:
//! - `intake`: the first lists, and pods of ours that have no job yet
//! - `jobs`: jobs and their pods, with all that can be said from these alone; `labelled` finds jobs
//!   that wait by the labels of their pods
//! - `records`: FluxJobs as last seen, and the promises in them
//! - `occupancy`: pods of other schedulers, pods by node, and nodes in doubt
//! - `agenda`: the work to be done next; `timers`, when; `sound`, how work on a job or pod ended
//!
//! Parts, in the order in which they may call each other (`parts`): each is a folder.
//! - `sight`: questions that most parts ask
//! - `queueing`: jobs in their queues, and quotas
//! - `notices`: conditions and Events
//! - `promise_keeping`: the causes of delayed promises, and reports of the delays
//! - `telling`: why something waits, and at which place
//! - `slots`: slots given to pods, planned, and taken back
//! - `write_ahead`: starts that rest on promises wait until these are on record
//! - `binding`: from a slot to a Binding: gates, volumes, nominations, and refusals
//! - `members`: pods as they come, change and go
//! - `stand_ins`: places for the pods of suspended Jobs
//! - `recovery`: the same jobs again after a restart
//! - `recording`: FluxJobs written and read
//! - `nodes`: nodes as they come, change and go
//! - `refresh`: a look at each job that has changed
//! - `lookahead`: the expected starts of waiting requests
//!
//! The cycle (`cycle`): the core itself, where it sees all of its parts. `asking` has the requests
//! of jobs that wait, as the plan asks for them.
//!
//! The queue, the plan and promises are [`fluxqueue_planner`]'s, nodes and the resource graph
//! [`fluxqueue_machine`]'s.
//!
//! The rules that hold after every step are in docs/internals/simulation.md, and are checked by the
//! simulation.

mod action;
mod agenda;
mod asking;
mod backoff;
mod binding;
mod cycle;
mod event;
mod in_flight;
mod intake;
mod jobs;
mod labelled;
mod lookahead;
mod members;
mod nodes;
mod notices;
mod occupancy;
mod parts;
mod promise_keeping;
mod queueing;
mod recording;
mod records;
mod recovery;
mod refresh;
#[cfg(test)]
mod scenarios;
mod settings;
mod sight;
mod slots;
mod sound;
mod stand_ins;
mod telling;
mod timers;
mod write_ahead;

pub use action::{Action, ActionId, ActionKind, EventKind, Note, Subject, Urgency};
pub use cycle::what_if::{Answer, Delayed, Later, Preview, Submitted, Verdict, WhatIf};
pub use event::{BindOutcome, Event, Outcome, WriteOutcome};
pub use fluxqueue_machine::NodePolicy;
pub use fluxqueue_planner::plan::QueuePolicy;
pub use settings::CoreSettings;
pub use telling::report;

use std::collections::BTreeMap;
use std::sync::Arc;

use agenda::Agenda;
use cycle::pass::Walks;
use fluxion_sys::FunctionTable;
use fluxqueue_api::{JobState, names};
use intake::Intake;
use jobs::clock::Clock;
use jobs::registry::Jobs;
use jobs::registry::Times;
use lookahead::Lookahead;
use occupancy::Occupancy;
use records::Records;
use sound::Sound;
use telling::Reporting;
use telling::report::Gauges;
use timers::Timer;

use fluxqueue_machine::cluster::Cluster;
use fluxqueue_machine::fluxion::GraphError;
use fluxqueue_machine::ledger::Ledger;
use fluxqueue_planner::Planner;
use fluxqueue_planner::plan::Attempt;
use fluxqueue_planner::queue::PendingRequest;
use fluxqueue_planner::queues::Queues;
use fluxqueue_workload::{Time, Uid};

/// Most passes in one step, and the pause in milliseconds before the next step if there is more to
/// do.
const ROUNDS_MAX: u32 = 4;
const AGAIN_MILLIS: i64 = 10;

/// Most Bindings on their way. Enough to keep the binder's workers busy; few enough that each
/// Binding was checked against recent news.
const BINDINGS_MAX: usize = 128;

/// The scheduler's state. One task owns it.
pub struct Core {
    settings: CoreSettings,
    clock: Clock,
    intake: Intake,
    jobs: Jobs,
    /// The FluxJobs as last seen: those of jobs, and those without a known job.
    records: Records,
    /// Nodes, bookings, the requests that wait, and promises.
    planner: Planner,
    queues: Queues,
    occupancy: Occupancy,
    walks: Walks,
    lookahead: Lookahead,
    reporting: Reporting,
    agenda: Agenda,
}

/// The reason for which a core cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// The graph could not be made.
    #[error("making the resource graph")]
    Graph(#[from] GraphError),
    /// A policy needs a feature that this library does not have.
    #[error("queuePolicy {}: this Fluxion library keeps no reservations; only fcfs goes without", .0.as_str())]
    Policy(QueuePolicy),
}

// === impl Core ===

impl Core {
    /// Makes a core that knows nothing yet. `epoch` is the leader's: it goes into every placement
    /// that is written.
    pub fn new(
        settings: CoreSettings,
        library: FunctionTable,
        epoch: i64,
    ) -> Result<Self, CoreError> {
        let graph = settings.node_policy.graph(library)?;
        if settings.queue_policy != QueuePolicy::Fcfs && !graph.has_reservations() {
            return Err(CoreError::Policy(settings.queue_policy));
        }
        let queues = Queues::new(settings.queue_defaults(), graph.has_reservations());
        let topology = Arc::clone(&settings.topology);
        let times = Times {
            default_walltime: settings.default_walltime_secs,
            start_slack: settings.start_slack_secs,
            end_slack: settings.end_slack_secs,
        };
        let fill_score = settings.node_policy.fill_score();
        Ok(Core {
            settings,
            clock: Clock { now: Time(0), offset: 0 },
            intake: Intake::default(),
            jobs: Jobs::new(times),
            records: Records::new(epoch),
            planner: Planner::new(Cluster::new(fill_score), Ledger::new(graph, topology)),
            queues,
            occupancy: Occupancy::default(),
            walks: Walks::new(library),
            lookahead: Lookahead::default(),
            reporting: Reporting::default(),
            agenda: Agenda::default(),
        })
    }

    /// Takes up an event. Decides nothing.
    pub fn handle(&mut self, event: Event, now: Time) {
        self.advance(now);
        if let Some(event) = self.keep_for_later(event) {
            let taken = self.take_up_event(event);
            self.agenda.heed(taken);
            self.mend_contradictions();
        }
    }

    fn take_up_event(&mut self, event: Event) -> Sound {
        match event {
            Event::Node(node) => self.nodes().node(&node),
            Event::NodeGone(name, uid) => self.nodes().node_gone(&name, &uid),
            Event::Pod(pod) => self.members().pod(pod)?,
            Event::PodGone(pod) => self.members().pod_gone(&pod)?,
            Event::Controller(made_by) => self.controller(made_by),
            Event::ControllerGone(uid) => self.controller_gone(&uid),
            Event::FluxJob(object) => self.recording().flux_job(object)?,
            Event::FluxJobGone(object) => self.recording().flux_job_gone(&object)?,
            Event::Quota(quota) => self.queueing().put_quota(quota),
            Event::QuotaGone(quota) => self.queueing().remove_quota(&quota),
            Event::PriorityClass(class) => self.recovery().priority_class(&class),
            Event::PriorityClassGone(name) => self.recovery().priority_class_gone(&name),
            Event::Queue(queue) => self.queue_object(&queue),
            Event::QueueGone(name) => self.queue_object_gone(&name),
            Event::Namespace(namespace) => {
                self.agenda.queue_changed |=
                    self.planner.cluster.put_namespace(&namespace.name, &namespace.labels);
                self.namespace(&namespace);
            }
            Event::NamespaceGone(name) => {
                self.agenda.queue_changed |= self.planner.cluster.remove_namespace(&name);
                self.queues.remove_namespace(&name);
                self.records.on_record.awaited.forget_namespace(&name);
            }
            Event::Storage(news) => self.binding().storage(news),
            Event::ClockOffset(micros) => self.set_clock_offset(micros),
            Event::Synced => self.intake.listed = true,
            Event::Done(action, outcome) => self.done(action, outcome)?,
        }
        Ok(())
    }

    /// Decides what follows from the events so far, and from the time.
    pub fn step(&mut self, now: Time) -> Vec<Action> {
        self.advance(now);
        if self.intake.listed {
            if self.go_on_walking() {
                self.turn();
            }
            if self.walks.under_way.is_none() {
                // The changes of all rounds are written once.
                self.recording().write_records();
                if self.projecting().look_ahead() {
                    // This writes the new estimates.
                    self.recording().write_records();
                }
            }
        }
        self.agenda.actions.take()
    }

    /// Takes up due work, plans, and sends the Bindings that may leave.
    fn turn(&mut self) {
        if !self.intake.synced {
            self.planner.ledger.set_time(self.clock.now);
        }
        self.sync();
        self.fire_timers();
        self.refreshing().refresh_touched();
        self.mend_contradictions();
        // Allocations that end at this second have been given back by now, and due reservations
        // begin.
        self.planner.ledger.set_time(self.clock.now);
        self.promise_keeping().keep_promises();
        self.intake.taking_over = false;
        for round in 0.. {
            self.run_pass();
            if self.walks.under_way.is_some() {
                break;
            }
            self.binding().dispatch();
            self.refreshing().refresh_touched();
            self.mend_contradictions();
            // If a slot did not fit any more, another one is searched at once, but not for ever.
            if !self.agenda.queue_changed && !self.planner.queue.has_arrivals() {
                break;
            }
            if round + 1 == ROUNDS_MAX {
                self.agenda.timers.wake(Timer::Again, self.clock.now.plus_millis(AGAIN_MILLIS));
                break;
            }
        }
    }

    /// Returns the time at which [`Core::step`] is due even if nothing happens.
    pub fn next_wake(&self) -> Option<Time> {
        if self.is_passing() { Some(self.clock.now) } else { self.agenda.timers.next() }
    }

    /// Returns the numbers for metrics.
    pub fn gauges(&self) -> Gauges {
        let mut gauges = self.agenda.gauges.clone();
        for (place, class) in self.planner.queue.iter() {
            let pods = match place.request() {
                PendingRequest::Start(id) => {
                    self.jobs.all.get(id).map_or(1, |job| job.start_size as u64)
                }
                PendingRequest::Member(..) => 1,
            };
            if self.planner.queue.last_attempt(class).is_some_and(Attempt::is_hopeless) {
                gauges.pending_pods.unschedulable += pods;
            } else {
                gauges.pending_pods.active += pods;
            }
        }
        let mut states: BTreeMap<&'static str, u64> = BTreeMap::new();
        for job in self.jobs.all.values() {
            *states.entry(state_name(self.jobs.state(job))).or_default() += 1;
        }
        let mut stand_ins = 0;
        for member in self.jobs.members.values() {
            stand_ins += usize::from(member.pod.stands_in);
            if member.stage.is_waiting() && !member.is_ready(names::GATE) {
                gauges.pending_pods.gated += 1;
            } else if member.stage.is_assigned() && member.attempts > 0 {
                gauges.pending_pods.backoff += 1;
            } else if member.stage.is_on_the_way() {
                gauges.assumed_pods += 1;
            }
        }
        gauges.jobs = states.into_iter().collect();
        gauges.nodes = self.planner.cluster.nodes().len() as u64;
        let of_jobs = self.jobs.members.len() - stand_ins;
        gauges.pods = (of_jobs
            + self.occupancy.foreign.len()
            + self.intake.awaiting_owner.len()
            + self.intake.unsorted.len()) as u64;
        gauges.reservations = self.planner.promises.reservations().count() as u64;
        gauges.nodes_drained = self.planner.promises.drained_nodes() as u64;
        gauges.held_idle = self.planner.cluster.nodes().free_on(self.planner.held_nodes.nodes());
        gauges.graph_errors = self.planner.ledger.errors;
        let queued_at = |id| self.jobs.all.get(&id).and_then(|job| job.queued_at);
        gauges.waits.now = self.queues.now(self.clock.wall_now(), queued_at);
        gauges.synced = self.intake.synced;
        gauges
    }

    // --- time ---

    fn advance(&mut self, now: Time) {
        // A clock that steps back must not undo decisions.
        if now > self.clock.now {
            self.clock.now = now;
        }
    }

    /// Takes up a comparison of the API server's clock with the core's time. Of the state only the
    /// planned ends of running pods change: they count from starts that are known by that clock.
    fn set_clock_offset(&mut self, micros: i64) {
        let moved = micros.saturating_sub(self.clock.offset);
        self.clock.offset = micros;
        if self.intake.synced && moved != 0 {
            let mut uids: Vec<Uid> = self.jobs.members.keys().cloned().collect();
            uids.sort_unstable();
            for uid in uids {
                let done = self.slots().plan_end_anew(&uid);
                self.agenda.heed(done);
            }
            for uid in self.occupancy.foreign.keys().cloned().collect::<Vec<Uid>>() {
                self.slots().plan_foreign_end_anew(&uid);
            }
        }
    }

    fn fire_timers(&mut self) {
        while let Some(timer) = self.agenda.timers.pop_due(self.clock.now) {
            let fired = self.fire(timer);
            self.agenda.heed(fired);
        }
    }

    fn fire(&mut self, timer: Timer) -> Sound {
        match timer {
            Timer::Job(job) => drop(self.agenda.touched.insert(job)),
            Timer::Pod(uid) => {
                if let Some(member) = self.jobs.members.get(&uid) {
                    self.agenda.touched.insert(member.job);
                    if member.stage.is_waiting() {
                        self.agenda.queue_changed = true;
                    }
                    self.agenda.outbox.push_back(uid);
                }
            }
            Timer::AwaitingPod(uid) => self.recovery().stop_awaiting_owner(&uid)?,
            Timer::Untold(uid) => self.telling().report_again(&uid)?,
            Timer::Nomination(uid) => self.slots().see_to_nomination(&uid)?,
            Timer::Suspect(node) => match self.occupancy.suspects.trust(&node, self.clock.now) {
                Some(until) => self.agenda.timers.wake(Timer::Suspect(node), until),
                None => self.agenda.queue_changed = true,
            },
            Timer::Backoff(id) => {
                self.agenda.queue_changed = true;
                self.write_ahead().release(id)?;
            }
            Timer::Unsettled => self.walks.settles |= self.walks.unsettled > 0,
            Timer::Positions => self.telling().note_positions()?,
            Timer::Queues => self.queueing().note_queues(),
            Timer::Overdue(uid) => self.promise_keeping().note_overdue(&uid),
            Timer::Promises => self.promise_keeping().keep_promises(),
            Timer::LookAhead => self.projecting().may_look_ahead(),
            Timer::Estimates => self.estimating().tell_estimates(),
            Timer::Stray(key) => self.recovery().remove_stray(&key),
            Timer::Audit => self.audit(),
            Timer::Review => self.review(),
            Timer::Again => self.telling().report_classes(),
        }
        Ok(())
    }
}

/// Returns the name of a state as people see it.
fn state_name(state: JobState) -> &'static str {
    match state {
        JobState::Incomplete => "Incomplete",
        JobState::Pending => "Pending",
        JobState::Held => "Held",
        JobState::Unsatisfiable => "Unsatisfiable",
        JobState::Refused => "Refused",
        JobState::Starting => "Starting",
        JobState::Running => "Running",
        JobState::Completed => "Completed",
        JobState::Failed => "Failed",
    }
}
