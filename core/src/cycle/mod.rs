//! The cycle: takes up events, decides, and carries out. Here the core sees all of its parts.

pub(crate) mod audit;
pub(crate) mod consistency;
pub(crate) mod describe;
pub(crate) mod intake;
mod lending;
pub(crate) mod outcomes;
pub(crate) mod outlook;
pub(crate) mod pass;
pub(crate) mod promises;
pub(crate) mod review;
pub(crate) mod under_way;
pub(crate) mod walks;
pub(crate) mod what_if;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::action::Action;
use crate::agenda::Agenda;
use crate::cycle::walks::Walks;
use crate::error::CoreError;
use crate::event::Event;
use crate::intake::Intake;
use crate::jobs::clock::Clock;
use crate::jobs::registry::Jobs;
use crate::jobs::registry::Times;
use crate::lookahead::Lookahead;
use crate::occupancy::Occupancy;
use crate::records::Records;
use crate::settings::CoreSettings;
use crate::sound::{Lookup, Sound};
use crate::telling::Reporting;
use crate::telling::report::Gauges;
use crate::timers::{AGAIN_MILLIS, Timer};
use fluxion_sys::FunctionTable;
use fluxqueue_api::{JobState, names};

use fluxqueue_machine::cluster::Cluster;
use fluxqueue_machine::ledger::Ledger;
use fluxqueue_planner::Planner;
use fluxqueue_planner::plan::{Attempt, QueuePolicy};
use fluxqueue_planner::queue::PendingRequest;
use fluxqueue_planner::queues::Queues;
use fluxqueue_workload::{Time, Uid};

/// Most passes in one step.
const ROUNDS_MAX: u32 = 4;

/// The scheduler's state. One task owns it.
pub struct Core {
    pub(crate) settings: CoreSettings,
    pub(crate) clock: Clock,
    pub(crate) intake: Intake,
    pub(crate) jobs: Jobs,
    /// The FluxJobs as last seen: those of jobs, and those without a known job.
    pub(crate) records: Records,
    /// Nodes, bookings, the requests that wait, and promises.
    pub(crate) planner: Planner,
    pub(crate) queues: Queues,
    pub(crate) occupancy: Occupancy,
    pub(crate) walks: Walks,
    pub(crate) lookahead: Lookahead,
    pub(crate) reporting: Reporting,
    pub(crate) agenda: Agenda,
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
        let graph = settings.graph(library)?;
        if settings.queue_policy != QueuePolicy::Fcfs && !graph.has_reservations() {
            return Err(CoreError::Policy(settings.queue_policy));
        }
        let mut queues = Queues::new(settings.queue_defaults(), graph.has_reservations());
        queues.set_own_namespace(Arc::clone(&settings.own_namespace));
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

    /// Takes up an event. It may take slots back; only [`Core::step`] gives new ones.
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
            Event::Pod(pod) => {
                self.members().note_group_of(&pod);
                self.members().pod(pod)?;
            }
            Event::PodGone(pod) => {
                self.members().forget_group_of(&pod.uid);
                self.members().pod_gone(&pod)?;
            }
            Event::Controller(made_by) => self.controller(made_by),
            Event::ControllerGone(uid) => self.controller_gone(&uid),
            Event::FluxJob(object) => self.recording().flux_job(object)?,
            Event::FluxJobGone(object) => self.recording().flux_job_gone(&object)?,
            Event::Quota(quota) => self.queueing().put_quota(quota),
            Event::QuotaGone(quota) => self.queueing().remove_quota(&quota),
            Event::PriorityClass(class) => self.recovery().priority_class(&class),
            Event::PriorityClassGone(name) => self.recovery().priority_class_gone(&name),
            Event::DeviceClass(class) => self.nodes().device_class(class),
            Event::DeviceClassGone(name) => self.nodes().device_class_gone(&name),
            Event::PodGroup(group) => self.members().pod_group(group),
            Event::PodGroupGone(group) => self.members().pod_group_gone(&group),
            Event::PodGroupsHidden(why) => self.members().pod_groups_hidden(why),
            Event::Workload(workload) => {
                let key = workload.id.key.clone();
                self.members().group_workload(&key, Some(workload));
            }
            Event::WorkloadGone(workload) => self.members().group_workload(&workload.key, None),
            Event::Queue(queue) => self.queue_object(&queue),
            Event::QueueGone(name) => self.queue_object_gone(&name),
            Event::Namespace(namespace) => {
                self.agenda.queue_changed |=
                    self.planner.cluster.put_namespace(&namespace.name, &namespace.labels);
                self.namespace(&namespace);
            }
            Event::NamespaceGone(name) => {
                self.agenda.queue_changed |= self.planner.cluster.remove_namespace(&name);
                self.namespace_gone(&name);
                self.records.on_record.awaited.forget_namespace(&name);
            }
            Event::Storage(news) => self.binding().storage(news),
            Event::ClockOffset(micros) => self.set_clock_offset(micros),
            Event::Synced => self.intake.listed = true,
            Event::Done(action, outcome) => self.done(action, outcome)?,
        }
        Ok(())
    }

    /// Takes up the events that arrived during a walk that is over.
    pub(crate) fn take_up_arrived(&mut self) {
        for event in std::mem::take(&mut self.walks.arrived) {
            self.handle(event, self.clock.now);
        }
    }

    /// Decides what follows from the events so far, and from the time.
    pub fn step(&mut self, now: Time) -> Vec<Action> {
        self.advance(now);
        if self.intake.listed {
            let is_over = self.go_on_walking();
            self.take_up_arrived();
            if is_over {
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
            self.take_up_arrived();
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
                    self.jobs.all.get(id).map_or(1, |job| job.start.size as u64)
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
            } else if member.stage.is_assigned() && member.failed.count > 0 {
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
        gauges.held_idle = self.planner.cluster.nodes().free_on(self.planner.claims.nodes());
        gauges.graph_errors = self.planner.ledger.errors;
        let queued_at = |id| self.jobs.all.get(&id).and_then(|job| job.waiting.since);
        gauges.waits.now = self.queues.now(self.clock.wall_now(), queued_at);
        gauges.synced = self.intake.synced;
        gauges
    }

    /// Returns the number of slices of looking ahead. Each has a step of its own, as far as
    /// possible.
    pub fn slices_ahead(&self) -> u64 {
        self.lookahead.ahead.slices
    }

    // --- time ---

    pub(crate) fn advance(&mut self, now: Time) {
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
                let done = self.slots().replan_end(&uid);
                self.agenda.heed(done);
            }
            for uid in self.occupancy.foreign.keys().cloned().collect::<Vec<Uid>>() {
                self.slots().replan_foreign_end(&uid);
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
                let member = self.jobs.members.current(&uid)?;
                self.agenda.touched.insert(member.job);
                if member.stage.is_waiting() {
                    self.agenda.queue_changed = true;
                }
                self.agenda.outbox.add(&self.jobs, &uid);
            }
            Timer::AwaitingPod(uid) => self.recovery().stop_awaiting_owner(&uid)?,
            Timer::Untold(uid) => self.telling().report_again(&uid)?,
            Timer::Nomination(uid) => self.slots().see_to_nomination(&uid)?,
            Timer::Suspect(node) => match self.occupancy.suspects.trust(&node, self.clock.now) {
                Some(until) => self.agenda.timers.wake(Timer::Suspect(node), until),
                None => {
                    if let Some(rank) = self.planner.cluster.rank(&node) {
                        self.planner.cluster.quarantine_mut().remove(rank);
                    }
                    self.agenda.queue_changed = true;
                }
            },
            Timer::Backoff(id) => {
                self.agenda.queue_changed = true;
                self.record_order().release(id)?;
            }
            Timer::Searches(namespace) => {
                match self.jobs.searches.paused(&namespace, self.clock.now) {
                    // Its pauses have grown since the timer was set.
                    Some(until) => self.agenda.timers.wake(Timer::Searches(namespace), until),
                    None => self.agenda.queue_changed = true,
                }
            }
            Timer::Unsettled => self.walks.settles |= self.walks.unsettled > 0,
            Timer::Positions => self.telling().note_positions()?,
            Timer::PodGroup(key) => self.notices().tell_of_group(&key),
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
pub(crate) fn state_name(state: JobState) -> &'static str {
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
