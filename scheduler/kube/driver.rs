//! Drives the core: tells it what happened, lets it decide, and passes on what it wants done.
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
use super::writer::{Write, WriteRequest};
use crate::serve::{Copied, Health, Metrics, Question};
use fluxqueue_core::report::Gauges;
use fluxqueue_core::{
    Action, ActionId, ActionKind, BindOutcome, Core, Event, Outcome, Preview, WriteOutcome,
};
use fluxqueue_workload::Time;

/// What the driver turns. The core implements it; tests of the shell use a smaller one.
pub trait Machine: Send + 'static {
    /// Takes in one event. Cheap: nothing is decided here.
    fn handle(&mut self, event: Event, now: Time);
    /// Decides, if something that matters has changed, and returns what is to be done.
    fn step(&mut self, now: Time) -> Vec<Action>;
    /// When to call [`Machine::step`] although nothing happens.
    fn next_wake(&self) -> Option<Time>;
    /// A pass is under way, and goes on in the next step.
    fn is_passing(&self) -> bool {
        false
    }
    /// Numbers for metrics.
    fn gauges(&self) -> Gauges;
    /// The whole state, for people.
    fn describe(&self) -> serde_json::Value;
    /// A copy to run the plan forward on, if there can be one.
    fn preview(&mut self, now: Time) -> Option<Preview>;
}

/// The loop turns at least this often, so that a probe can tell an idle core from a stuck one.
const TURN_AT_LEAST: Duration = Duration::from_secs(1);

/// The least pause between two passes, so that a core that wants to be woken at once, again and
/// again, does not spin.
const PACE_AT_LEAST: Duration = Duration::from_millis(1);

/// No pass is put off for longer than this: a lone pod that fits is to start within 20 ms, and the
/// slice that it comes in takes its share.
const PACE_AT_MOST: Duration = Duration::from_millis(10);

/// After a copy of the core there is none for so many times as long as it took.
const COPY_SHARE: u32 = 9;

/// Batches or outcomes taken in at once, so that a flood of events cannot put off a decision for
/// ever.
const TAKE_AT_ONCE: usize = 256;

/// How the driver ends, step by step.
#[derive(Debug, Clone, Default)]
pub struct Ending {
    /// The driver is to decide nothing more.
    pub stop: CancellationToken,
    /// Its answer: nothing more is decided, and all that was decided has been queued.
    pub stopped: CancellationToken,
    /// No more outcomes are to come.
    pub end: CancellationToken,
}

/// What reaches the driver.
#[derive(Debug)]
pub struct Inbox {
    /// Changes, from the watches.
    pub batches: mpsc::Receiver<Vec<Event>>,
    /// Outcomes, from the workers.
    pub outcomes: mpsc::Receiver<(ActionId, Outcome)>,
    /// Questions, from the HTTP server.
    pub questions: mpsc::Receiver<Question>,
}

/// Owns the core and turns it.
#[derive(Debug)]
pub struct Driver<M> {
    machine: M,
    inbox: Inbox,
    executors: Arc<Executors>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    clock: Clock,
    /// Something was taken in since the last step.
    stirred: bool,
    /// The next copy may be made then: copies take a small share of the time.
    copy_from: Instant,
    /// The next step may come now. After a pass there is a pause as long as the pass, within
    /// bounds, so that the next one finds more to do.
    step_from: Instant,
    /// How long the pass under way has taken so far.
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

    fn preview(&mut self, now: Time) -> Option<Preview> {
        Core::preview(self, now)
    }
}

// === impl Driver ===

impl<M: Machine> Driver<M> {
    /// Nothing turns yet.
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

    /// Turns until it is told to stop, then takes in outcomes, without deciding anything any more,
    /// until the end.
    pub async fn run(mut self, ending: Ending) {
        if self.turn_until(&ending.stop).await {
            ending.stopped.cancel();
            self.drain(&ending.end).await;
        }
    }

    /// False if nobody talks to the driver any more: whoever watches the tasks then ends the
    /// process.
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

    /// How long to sleep if nothing arrives.
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

    /// Takes what else has arrived by now, of both kinds, so that neither waits for the other.
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
        // Between the slices of one pass there is time for what comes, and no more.
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
            other => {
                if let Some((write, urgency)) = Write::from_action(other) {
                    let queued = self.executors.write(WriteRequest::new(id, write), urgency);
                    queued
                        .replaced
                        .into_iter()
                        .for_each(|id| self.tell(id, Outcome::Write(WriteOutcome::Replaced)));
                    queued.refused.into_iter().for_each(|id| self.tell(id, write_refused()));
                }
            }
        }
    }

    /// Every action gets its outcome, also one that no worker ever sees.
    fn tell(&mut self, id: ActionId, outcome: Outcome) {
        let now = self.now();
        self.machine.handle(Event::Done(id, outcome), now);
        self.stirred = true;
    }

    fn answer(&mut self, question: Question) {
        // Whoever asked may have gone meanwhile; that is no loss.
        match question {
            Question::Gauges(to) => drop(to.send(self.machine.gauges())),
            Question::State(to) => drop(to.send(self.machine.describe())),
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

    /// Workers wait for room in the channel of outcomes, so someone has to take them until the last
    /// worker is done.
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

impl Machine for Box<dyn Machine> {
    fn handle(&mut self, event: Event, now: Time) {
        (**self).handle(event, now);
    }
    fn step(&mut self, now: Time) -> Vec<Action> {
        (**self).step(now)
    }
    fn next_wake(&self) -> Option<Time> {
        (**self).next_wake()
    }
    fn is_passing(&self) -> bool {
        (**self).is_passing()
    }
    fn gauges(&self) -> Gauges {
        (**self).gauges()
    }
    fn describe(&self) -> serde_json::Value {
        (**self).describe()
    }
    fn preview(&mut self, now: Time) -> Option<Preview> {
        (**self).preview(now)
    }
}
