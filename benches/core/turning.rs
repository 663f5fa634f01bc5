//! A loop around the core, from events to actions and back, with a stopwatch.
//!
//! Only `handle` and `step` are timed. The work of the server in between is not, and neither is the
//! time that passes while nothing is due. The stopwatch reads the processor time of this thread, so
//! that a busy machine changes little: the core only computes, on one thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fluxion_sys::FunctionTable;
use fluxqueue_core::{Action, Core, CoreSettings, Event, NodePolicy, QueuePolicy};
use fluxqueue_workload::Time;
use rustix::time::{ClockId, clock_gettime};

use crate::scene::{OURS, START};
use fluxqueue::serve::what_if::{WITHIN, looks_until};
use fluxqueue::simulate::server::Server;

/// Work that is due within this time after the last event belongs to that event. Later work is not
/// waited for.
const CALM_MILLIS: i64 = 100;

/// Longer than any work is put off that is done at intervals: messages, queue positions, audits.
const PAUSE_MILLIS: i64 = 11_000;

/// Most turns until the core must have come to rest.
const TURNS_MAX: usize = 5_000;
const REST_WITHIN: Duration = Duration::from_mins(5);

/// Number of requests with reservations, under `hybrid` and under `conservative`.
pub(crate) const RESERVATION_DEPTH: usize = 32;
pub(crate) const QUEUE_DEPTH: usize = 1_000;

/// Time that the core spent.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    /// Time for events and their consequences.
    on_events: Duration,
    /// Time in the background: for looking ahead, and for the audit.
    in_background: Duration,
}

/// The core does not come to rest: its actions never end, or it takes too long.
#[derive(Debug)]
pub(crate) struct Restless;

/// A core and its server.
pub(crate) struct Turning {
    core: Core,
    pub(crate) server: Server,
    pub(crate) now: Time,
    /// True if lone pods have FluxJobs as well.
    records_lone_pods: bool,
    /// Duration of each slice in the background since the last call of [`Turning::take_slices`].
    slices: Vec<Duration>,
}

impl Turning {
    /// Makes a core that has listed everything and is at rest.
    pub(crate) fn begin(server: Server) -> Result<Self, Restless> {
        let core = core(false);
        let mut turning =
            Turning { core, server, now: START, records_lone_pods: false, slices: Vec::new() };
        let events = turning.server.list();
        turning.settle(events)?;
        Ok(turning)
    }

    /// Returns the number of reservations.
    pub(crate) fn reservations(&self) -> u64 {
        self.core.gauges().reservations
    }

    /// Lets another core with other settings take over, so that lone pods have FluxJobs as well
    /// from now on.
    pub(crate) fn record_lone_pods(&mut self) -> Result<(), Restless> {
        if !std::mem::replace(&mut self.records_lone_pods, true) {
            self.core = core(true);
            let events = self.server.list();
            self.settle(events)?;
            self.pause()?;
        }
        Ok(())
    }

    /// Hands over the events, and carries out actions until none is left. Returns the time that the
    /// core took, without looking ahead and without the audit: these are slices for idle moments,
    /// which go on long after the events, or for ever.
    pub(crate) fn settle(&mut self, events: Vec<Event>) -> Result<Duration, Restless> {
        Ok(self.settled(events)?.on_events)
    }

    fn settled(&mut self, mut events: Vec<Event>) -> Result<Spent, Restless> {
        let mut spent = Spent::default();
        let mut calm_at = self.now.plus_millis(CALM_MILLIS);
        for _ in 0..TURNS_MAX {
            let mut actions = Vec::new();
            // Work that is already due comes first, so that a slice in the background does not
            // count as a consequence of the events.
            if !events.is_empty() && self.core.next_wake().is_some_and(|due| due <= self.now) {
                actions = self.turn(Vec::new(), &mut spent);
            }
            actions.extend(self.turn(std::mem::take(&mut events), &mut spent));
            if spent.on_events > REST_WITHIN {
                return Err(Restless);
            }
            let due = self.core.next_wake().filter(|at| *at <= calm_at);
            if actions.is_empty() {
                let Some(due) = due else { return Ok(spent) };
                self.now = due.max(self.now.plus_millis(1));
                continue;
            }
            events = self.server.answer(actions, self.now);
            self.now = self.now.plus_millis(1);
            calm_at = self.now.plus_millis(CALM_MILLIS);
        }
        Err(Restless)
    }

    /// Makes one step with these events, and adds its time to `spent`.
    fn turn(&mut self, events: Vec<Event>, spent: &mut Spent) -> Vec<Action> {
        let (from, slices, is_quiet) =
            (processor_time(), self.slices_in_background(), events.is_empty());
        for event in events {
            self.core.handle(event, self.now);
        }
        let actions = self.core.step(self.now);
        let took = processor_time().saturating_sub(from);
        if is_quiet && self.slices_in_background() > slices {
            self.slices.push(took);
            spent.in_background += took;
        } else {
            spent.on_events += took;
        }
        actions
    }

    /// Lets a lone pod arrive during the pass that `events` lead to. Returns the longest that the
    /// pod can wait: the longest step of that pass, and then its own step.
    pub(crate) fn meanwhile(
        &mut self,
        mut events: Vec<Event>,
        comes: Event,
    ) -> Result<Duration, Restless> {
        let (mut longest, mut own, mut comes) = (Duration::ZERO, Duration::ZERO, Some(comes));
        for _ in 0..TURNS_MAX {
            let mut spent = Spent::default();
            let actions = self.turn(std::mem::take(&mut events), &mut spent);
            match comes {
                None if own.is_zero() => own = spent.on_events,
                _ => longest = longest.max(spent.on_events),
            }
            events = self.server.answer(actions, self.now);
            self.now = self.now.plus_millis(1);
            match comes.take() {
                Some(comes) => events.push(comes),
                None if self.core.is_passing() => {}
                None => {
                    self.settle(events)?;
                    return Ok(longest + own);
                }
            }
        }
        Err(Restless)
    }

    /// Lets time pass until the postponed work is done. Returns the time that this took, including
    /// work in the background.
    pub(crate) fn pause(&mut self) -> Result<Duration, Restless> {
        let until = self.now.plus_millis(PAUSE_MILLIS);
        let mut all = Duration::ZERO;
        while self.now < until {
            let due = self.core.next_wake().unwrap_or(until).min(until);
            self.now = due.max(self.now.plus_millis(1));
            let spent = self.settled(Vec::new())?;
            all += spent.on_events + spent.in_background;
        }
        Ok(all)
    }

    fn slices_in_background(&self) -> u64 {
        self.core.slices_ahead() + self.core.audit_looks()
    }

    /// Returns the duration of each slice in the background since the last call.
    pub(crate) fn take_slices(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.slices)
    }

    /// Answers a what-if question about these events. Returns three times: that of the core, for
    /// the copy; that of the other thread, until it is known where the pods go and whether they
    /// start at once; and the sum of all up to the answer, which uses the whole time limit and may
    /// exceed it by the last step.
    pub(crate) fn what_if(&mut self, events: Vec<Event>) -> [Duration; 3] {
        let from = processor_time();
        let spent = || processor_time().saturating_sub(from);
        let preview = self.core.preview(self.now).expect("the built-in library copies");
        let copied = spent();
        let asked = Instant::now();
        let until = looks_until(asked, asked + copied, WITHIN).saturating_duration_since(asked);
        let mut what_if = preview.submit(events).expect("the built-in library copies");
        let placed = spent();
        let mut stints = 0;
        while spent() < until && what_if.advance() {
            stints += 1;
        }
        let answer = what_if.answer();
        let answered = spent();
        let seconds = answer.looked_until.map(|at| at.seconds() - answer.as_of.seconds());
        drop(what_if);
        let dropped = spent().saturating_sub(answered);
        eprintln!(
            "core: what if: {stints} stints in {answered:?}, {seconds:?} seconds ahead, thrown away in {dropped:?}"
        );
        [copied, placed.saturating_sub(copied), answered]
    }

    /// Lets another process take over. Returns the time until its first decisions, with the lists
    /// in memory.
    pub(crate) fn restart(&self) -> Duration {
        let (events, mut core) = (self.server.list(), core(self.records_lone_pods));
        let from = processor_time();
        for event in events {
            core.handle(event, self.now);
        }
        let mut actions = core.step(self.now);
        while core.is_passing() {
            actions.extend(core.step(self.now));
        }
        let took = processor_time().saturating_sub(from);
        drop(actions);
        took
    }
}

/// Returns the processor time of this thread so far.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Returns the queue policy that is measured.
pub(crate) fn policy() -> QueuePolicy {
    let name = std::env::var("FLUXQUEUE_BENCH_POLICY")
        .unwrap_or_else(|_| QueuePolicy::default().as_str().to_owned());
    QueuePolicy::from_name(&name)
        .expect("FLUXQUEUE_BENCH_POLICY is fcfs, easy, hybrid or conservative")
}

fn core(record_lone_pods: bool) -> Core {
    let settings = CoreSettings {
        scheduler_names: vec![Arc::from(OURS)],
        node_policy: NodePolicy::First,
        ttl_after_finished_secs: 86_400,
        slot_keep_secs: 5,
        record_lone_pods,
        queue_policy: policy(),
        queue_depth: QUEUE_DEPTH,
        reservation_depth: RESERVATION_DEPTH,
        start_slack_secs: 0,
        end_slack_secs: 0,
        ..CoreSettings::default()
    };
    Core::new(settings, FunctionTable::builtin(), 1).expect("the built-in library is always there")
}
