//! Drives the core: passes events to it, lets it decide, and passes on its actions.
//!
//! One thread owns the core and does nothing else, so a long pass holds up no request. Nothing here
//! decides anything about jobs, and nothing in the core knows the time or the network.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::binder::BindRequest;
use super::clock::Clock;
use super::executors::Executors;
use super::writer::WriteRequest;
use crate::serve::{Copied, Health, Metrics, Question};
use fluxqueue_core::report::Gauges;
use fluxqueue_core::{
    Action, ActionId, ActionKind, BindOutcome, Core, Event, Outcome, Outlook, Preview, WriteOutcome,
};
use fluxqueue_workload::Time;

/// The machine that the driver turns. The core implements it; tests of the shell use a smaller one.
pub trait Machine: Send + 'static {
    /// Takes in one event. This is cheap: nothing is decided here.
    fn handle(&mut self, event: Event, now: Time);
    /// Decides, if something that matters has changed, and returns the actions that follow.
    fn step(&mut self, now: Time) -> Vec<Action>;
    /// Returns when to call [`Machine::step`] even if no event arrives.
    fn next_wake(&self) -> Option<Time>;
    /// True if a pass is under way, and goes on in the next step.
    fn is_passing(&self) -> bool {
        false
    }
    /// Returns numbers for metrics.
    fn gauges(&self) -> Gauges;
    /// Returns the whole state, for people.
    fn describe(&self) -> serde_json::Value;
    /// Returns how much of the machine is used, promised and held.
    fn outlook(&self) -> Outlook {
        Outlook::default()
    }
    /// Returns a copy to run the plan forward on, if there can be one.
    fn preview(&mut self, now: Time) -> Option<Preview>;
}

/// The longest time between two turns of the loop, so that a probe can tell an idle core from a
/// stuck one.
const TURN_AT_LEAST: Duration = Duration::from_secs(1);

/// The least pause between two passes, so that a core that wants to be woken at once, again and
/// again, does not spin.
const PACE_AT_LEAST: Duration = Duration::from_millis(1);

/// The longest pause before a pass: a lone pod that fits is to start within 20 ms, and the slice in
/// which it arrives takes its share of that.
const PACE_AT_MOST: Duration = Duration::from_millis(10);

/// The pause after a copy of the core, as a multiple of the time that the copy took.
const COPY_SHARE: u32 = 9;

/// The most batches or outcomes that are taken in at once, so that a flood of events cannot put off
/// a decision for ever.
const TAKE_AT_ONCE: usize = 256;

/// The steps in which the driver ends.
#[derive(Debug, Clone, Default)]
pub struct Ending {
    /// Tells the driver to decide nothing more.
    pub stop: CancellationToken,
    /// Tells that nothing more is decided, and that all decisions have been queued.
    pub stopped: CancellationToken,
    /// Tells the driver that no more outcomes will come.
    pub end: CancellationToken,
}

/// The channels that reach the driver.
#[derive(Debug)]
pub struct Inbox {
    /// The changes, from the watches.
    pub batches: mpsc::Receiver<Vec<Event>>,
    /// The outcomes, from the workers.
    pub outcomes: mpsc::Receiver<(ActionId, Outcome)>,
    /// The questions, from the HTTP server.
    pub questions: mpsc::Receiver<Question>,
}

/// The driver, which owns the core and turns it.
#[derive(Debug)]
pub struct Driver<M> {
    machine: M,
    inbox: Inbox,
    executors: Arc<Executors>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    clock: Clock,
    /// True if events were taken in since the last step.
    stirred: bool,
    /// The time from which the next copy may be made: copies take a small share of the time.
    copy_from: Instant,
    /// The time from which the next step may be made. After a pass there is a pause as long as the
    /// pass, within bounds, so that the next one finds more to do.
    step_from: Instant,
    /// The time that the pass under way has taken so far.
    passing: Duration,
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

    fn is_passing(&self) -> bool {
        Core::is_passing(self)
    }

    fn gauges(&self) -> Gauges {
        Core::gauges(self)
    }

    fn describe(&self) -> serde_json::Value {
        Core::describe(self)
    }

    fn outlook(&self) -> Outlook {
        Core::outlook(self)
    }

    fn preview(&mut self, now: Time) -> Option<Preview> {
        Core::preview(self, now)
    }
}

// === impl Driver ===

impl<M: Machine> Driver<M> {
    /// Creates a driver that does not turn yet.
    pub fn new(
        machine: M,
        clock: Clock,
        inbox: Inbox,
        executors: Arc<Executors>,
        metrics: Arc<Metrics>,
        health: Arc<Health>,
    ) -> Self {
        let now = Instant::now();
        Driver {
            machine,
            inbox,
            executors,
            metrics,
            health,
            clock,
            stirred: true,
            copy_from: now,
            step_from: now,
            passing: Duration::ZERO,
        }
    }

    /// Turns until `ending.stop`, then takes in outcomes, without deciding anything any more, until
    /// the end.
    pub async fn run(mut self, ending: Ending) {
        if self.turn_until(&ending.stop).await {
            ending.stopped.cancel();
            self.drain(&ending.end).await;
        }
    }

    /// Turns until `stop`. False if no task sends to the driver any more: the process then ends,
    /// since a task has.
    async fn turn_until(&mut self, stop: &CancellationToken) -> bool {
        let (mut batches, mut outcomes) = (Vec::new(), Vec::new());
        while !stop.is_cancelled() {
            let wait = self.wait();
            tokio::select! {
                () = stop.cancelled() => break,
                outcome = self.inbox.outcomes.recv() => match outcome {
                    Some(outcome) => outcomes.push(outcome),
                    None => return false,
                },
                batch = self.inbox.batches.recv() => match batch {
                    Some(batch) => batches.push(batch),
                    None => return false,
                },
                Some(question) = self.inbox.questions.recv() => self.answer(question),
                () = tokio::time::sleep(wait) => {}
            }
            self.take_more(&mut outcomes, &mut batches);
            self.take_in(&mut outcomes, &mut batches);
            self.step_if_due();
            self.health.core_turned();
        }
        true
    }

    /// Returns how long to sleep if no event arrives.
    fn wait(&self) -> Duration {
        let until_wanted = if self.stirred {
            Duration::ZERO
        } else {
            let Some(wake) = self.machine.next_wake() else { return TURN_AT_LEAST };
            Duration::from_micros(u64::try_from(wake.0.saturating_sub(self.now().0)).unwrap_or(0))
        };
        let until_due = self.step_from.saturating_duration_since(Instant::now());
        until_wanted.max(until_due).min(TURN_AT_LEAST)
    }

    /// Takes everything that has arrived by now, of both kinds, so that neither waits for the
    /// other.
    fn take_more(
        &mut self,
        outcomes: &mut Vec<(ActionId, Outcome)>,
        batches: &mut Vec<Vec<Event>>,
    ) {
        while outcomes.len() < TAKE_AT_ONCE
            && let Ok(outcome) = self.inbox.outcomes.try_recv()
        {
            outcomes.push(outcome);
        }
        while batches.len() < TAKE_AT_ONCE
            && let Ok(batch) = self.inbox.batches.try_recv()
        {
            batches.push(batch);
        }
    }

    fn take_in(&mut self, outcomes: &mut Vec<(ActionId, Outcome)>, batches: &mut Vec<Vec<Event>>) {
        let now = self.now();
        self.stirred |= !outcomes.is_empty() || !batches.is_empty();
        for (id, outcome) in outcomes.drain(..) {
            self.machine.handle(Event::Done(id, outcome), now);
        }
        for event in batches.drain(..).flatten() {
            if matches!(event, Event::Synced) {
                tracing::info!("the first lists have been received");
                self.health.set_synced();
            }
            self.machine.handle(event, now);
        }
    }

    fn step_if_due(&mut self) {
        let now = self.now();
        let begun = Instant::now();
        let woken = self.machine.next_wake().is_some_and(|wake| wake <= now);
        if !(self.stirred || woken) || begun < self.step_from {
            return;
        }
        self.stirred = false;
        let actions = self.machine.step(now);
        let took = begun.elapsed();
        self.passing += took;
        // Between the slices of one pass there is just enough time to take in events.
        let pause = if self.machine.is_passing() {
            PACE_AT_LEAST
        } else {
            std::mem::take(&mut self.passing).clamp(PACE_AT_LEAST, PACE_AT_MOST)
        };
        self.step_from = begun + took + pause;
        self.metrics.algorithm_duration.observe(took.as_secs_f64());
        for action in actions {
            self.dispatch(action);
        }
    }

    fn dispatch(&mut self, Action { id, kind }: Action) {
        match kind {
            ActionKind::Bind { pod, node, queue } => {
                let request = BindRequest { id, pod, node, queue, decided: Instant::now() };
                if self.executors.bind(request).is_err() {
                    self.tell(id, bind_refused());
                }
            }
            ActionKind::Note(note) => self.executors.note(note),
            ActionKind::Write(write) => {
                let queued = self.executors.write(WriteRequest::new(id, write));
                queued
                    .replaced
                    .into_iter()
                    .for_each(|id| self.tell(id, Outcome::Write(WriteOutcome::Replaced)));
                queued.refused.into_iter().for_each(|id| self.tell(id, write_refused()));
            }
        }
    }

    /// Gives an action its outcome. Every action gets one, even if no worker ever sees it.
    fn tell(&mut self, id: ActionId, outcome: Outcome) {
        let now = self.now();
        self.machine.handle(Event::Done(id, outcome), now);
        self.stirred = true;
    }

    fn answer(&mut self, question: Question) {
        // The asking task may have ended meanwhile; that does no harm.
        match question {
            Question::Gauges(to) => drop(to.send(self.machine.gauges())),
            Question::State(to) => drop(to.send(self.machine.describe())),
            Question::Outlook(to) => drop(to.send(self.machine.outlook())),
            Question::Preview(to) => drop(to.send(self.copy())),
        }
    }

    fn copy(&mut self) -> Copied {
        let begun = Instant::now();
        if begun < self.copy_from {
            return Copied::TooSoon;
        }
        let now = self.now();
        let preview = self.machine.preview(now);
        self.copy_from = Instant::now() + begun.elapsed() * COPY_SHARE;
        preview.map_or(Copied::Impossible, |preview| Copied::Preview(Box::new(preview)))
    }

    /// Takes outcomes until the last worker is done: workers wait for room in their channel.
    async fn drain(&mut self, end: &CancellationToken) {
        loop {
            tokio::select! {
                () = end.cancelled() => return,
                outcome = self.inbox.outcomes.recv() => match outcome {
                    Some((id, outcome)) => {
                        let now = self.now();
                        self.machine.handle(Event::Done(id, outcome), now);
                    }
                    None => return,
                },
            }
        }
    }

    fn now(&self) -> Time {
        self.clock.now()
    }
}

fn bind_refused() -> Outcome {
    Outcome::Bind(BindOutcome::Failed("too many Bindings wait already".to_owned()))
}

fn write_refused() -> Outcome {
    Outcome::Write(WriteOutcome::Failed("too many writes wait already".to_owned()))
}
