//! The executor of actions: they are carried out late and in any order, fail with and without
//! effect, and are answered later still.

use std::collections::BTreeMap;

use fluxqueue_core::{
    Action, ActionId, ActionKind, BindOutcome, Event, Outcome, Urgency, Write, WriteOutcome,
};
use fluxqueue_workload::{NodeName, ObjectKey, Time};

use crate::rng::Rng;
use crate::server::{Server, flux_job_key};
use crate::stats::Stats;

/// Actions of the core, and answers that it has not received yet.
#[derive(Debug, Default)]
pub(crate) struct Executor {
    asked: BTreeMap<ActionId, ActionKind>,
    answers: Vec<(ActionId, Outcome)>,
}

/// The state of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Requests and answers get lost.
    Rough,
    /// Everything arrives.
    Calm,
}

impl Executor {
    /// Takes up an action of the core. Notes have no outcome and change nothing.
    pub(crate) fn ask(&mut self, action: &Action, rng: &mut Rng) {
        // An urgent write replaces a trailing one of the same object that was not sent yet.
        if let Some((key, Urgency::Urgent)) = record_write(&action.kind) {
            let trails =
                |kind: &ActionKind| record_write(kind) == Some((key.clone(), Urgency::Trailing));
            let waiting = self.asked.iter().find(|(_, kind)| trails(kind)).map(|(id, _)| *id);
            if let Some(id) = waiting.filter(|_| rng.chance(50)) {
                self.asked.remove(&id);
                self.answers.push((id, Outcome::Write(WriteOutcome::Replaced)));
            }
        }
        if !matches!(action.kind, ActionKind::Note(_)) {
            self.asked.insert(action.id, action.kind.clone());
        }
    }

    /// Returns how many actions have not reached the server.
    pub(crate) fn waiting(&self) -> usize {
        self.asked.len()
    }

    /// Carries out one action, chosen at random. Returns the node to which a pod may have been
    /// bound.
    pub(crate) fn execute(
        &mut self,
        server: &mut Server,
        now: Time,
        weather: Weather,
        rng: &mut Rng,
        stats: &mut Stats,
    ) -> Option<NodeName> {
        let id = self.asked.keys().nth(rng.below(self.asked.len())).copied()?;
        let kind = self.asked.remove(&id)?;
        let fate = if weather == Weather::Calm { 0 } else { rng.weighted(&[80, 8, 8, 2, 2]) };
        let outcome = match fate {
            0 => server.apply(&kind, now),
            1 => {
                stats.count("write failed without effect");
                failure(&kind, "429: too many requests")
            }
            2 => {
                let truth = server.apply(&kind, now);
                if succeeded(&truth) {
                    stats.count(if matches!(kind, ActionKind::Bind { .. }) {
                        "answer of a Binding lost"
                    } else {
                        "answer of a write lost"
                    });
                }
                failure(&kind, "timeout")
            }
            4 => {
                stats.count("write refused");
                refusal(&kind, "403: exceeded quota")
            }
            _ => {
                // A client that lost its connection sends the action twice: the second answer is
                // the one that arrives.
                server.apply(&kind, now);
                stats.count("request sent twice");
                server.apply(&kind, now)
            }
        };
        count_outcome(&outcome, stats);
        self.answers.push((id, outcome));
        if let ActionKind::Bind { node, .. } = kind { Some(node) } else { None }
    }

    /// Returns an answer, chosen at random.
    pub(crate) fn answer(&mut self, rng: &mut Rng) -> Option<Event> {
        rng.take(&mut self.answers).map(|(id, outcome)| Event::Done(id, outcome))
    }

    /// Pauses the process for so long that it leads no more: its writes are under way, and the
    /// answers are lost. Returns these writes.
    pub(crate) fn pause(&mut self) -> Vec<ActionKind> {
        self.answers.clear();
        std::mem::take(&mut self.asked).into_values().collect()
    }

    /// Lets the process die: some of its writes still take effect, the rest is lost, and so are the
    /// answers. Returns the nodes to which pods may have been bound.
    pub(crate) fn crash(
        &mut self,
        server: &mut Server,
        now: Time,
        rng: &mut Rng,
        stats: &mut Stats,
    ) -> Vec<NodeName> {
        self.answers.clear();
        let effective = rng.below(101);
        let mut nodes = Vec::new();
        for (_, kind) in std::mem::take(&mut self.asked) {
            if rng.chance(effective) {
                stats.count("write of a dead process took effect");
                server.apply(&kind, now);
                if let ActionKind::Bind { node, .. } = kind {
                    nodes.push(node);
                }
            } else {
                stats.count("write of a dead process lost");
            }
        }
        nodes
    }
}

/// Returns which FluxJob is written, and how urgently.
fn record_write(kind: &ActionKind) -> Option<(ObjectKey, Urgency)> {
    match kind {
        ActionKind::Write(Write::CreateFluxJob { job, urgency }) => {
            Some((flux_job_key(job), *urgency))
        }
        ActionKind::Write(Write::WriteStatus { job, urgency, .. }) => {
            Some((job.key.clone(), *urgency))
        }
        _ => None,
    }
}

fn failure(kind: &ActionKind, text: &str) -> Outcome {
    match kind {
        ActionKind::Bind { .. } => Outcome::Bind(BindOutcome::Failed(text.to_string())),
        _ => Outcome::Write(WriteOutcome::Failed(text.to_string())),
    }
}

fn refusal(kind: &ActionKind, text: &str) -> Outcome {
    match kind {
        ActionKind::Bind { .. } => Outcome::Bind(BindOutcome::Refused(text.to_string())),
        _ => Outcome::Write(WriteOutcome::Refused(text.to_string())),
    }
}

fn succeeded(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Bind(BindOutcome::Bound) | Outcome::Write(WriteOutcome::Written(_)))
}

fn count_outcome(outcome: &Outcome, stats: &mut Stats) {
    stats.count(match outcome {
        Outcome::Bind(BindOutcome::Bound) => "Binding: bound",
        Outcome::Bind(BindOutcome::BoundElsewhere(_)) => "Binding: bound elsewhere",
        Outcome::Bind(BindOutcome::Gone) => "Binding: pod gone",
        Outcome::Bind(BindOutcome::Deleting) => "Binding: pod being deleted",
        Outcome::Bind(BindOutcome::Gated) => "Binding: pod gated",
        Outcome::Bind(BindOutcome::Failed(_)) => "Binding: failed",
        Outcome::Bind(BindOutcome::Refused(_)) => "Binding: refused",
        Outcome::Write(WriteOutcome::Written(_)) => "write: written",
        Outcome::Write(WriteOutcome::Exists) => "write: exists",
        Outcome::Write(WriteOutcome::Conflict) => "write: conflict",
        Outcome::Write(WriteOutcome::Replaced) => "write: replaced",
        Outcome::Write(WriteOutcome::Gone) => "write: gone",
        Outcome::Write(WriteOutcome::Invalid(_)) => "write: invalid",
        Outcome::Write(WriteOutcome::Failed(_)) => "write: failed",
        Outcome::Write(WriteOutcome::Refused(_)) => "write: refused",
    });
}
