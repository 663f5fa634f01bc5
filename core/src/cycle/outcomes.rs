//! Outcomes of writes: each is handed to the part that requested the write.

use crate::action::ActionId;
use crate::cycle::Core;
use crate::event::{Outcome, WriteOutcome};
use crate::in_flight::InFlight;
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use fluxqueue_workload::ObjectKey;

/// The pause in milliseconds before the removal of a stray FluxJob is tried again after a failure.
const STRAY_RETRY_MILLIS: i64 = 30_000;

impl Core {
    // --- outcomes ---

    pub(crate) fn done(&mut self, action: ActionId, outcome: Outcome) -> Sound {
        match (self.agenda.actions.answered(action), outcome) {
            (Some(InFlight::Bind(uid)), Outcome::Bind(outcome)) => {
                self.binding().bind_done(&uid, action, outcome)?;
            }
            (Some(InFlight::Volume(uid, claim, version)), Outcome::Write(outcome)) => {
                self.binding().volume_written(&uid, &claim, version, &outcome)?;
                if let Some(text) = outcome.refusal() {
                    self.binding().claim_refused(&uid, &claim, text)?;
                }
            }
            (Some(InFlight::Ungate(uid)), Outcome::Write(outcome)) => {
                self.binding().ungate_done(&uid, action, outcome)?;
            }
            (Some(InFlight::Nomination(uid, before)), Outcome::Write(outcome)) => {
                self.binding().nomination_written(&uid, before, &outcome)?;
            }
            (Some(InFlight::Condition(uid)), Outcome::Write(outcome)) => {
                let member = self.jobs.members.current_mut(&uid)?;
                member.telling = None;
                // The condition is reported again, but not at once.
                let pause = match outcome {
                    WriteOutcome::Failed(_) | WriteOutcome::Conflict => {
                        Some(crate::notices::REPORT_MILLIS)
                    }
                    WriteOutcome::Invalid(_) | WriteOutcome::Refused(_) => {
                        Some(crate::jobs::setbacks::REFUSED_MAX_MILLIS)
                    }
                    WriteOutcome::Written(_)
                    | WriteOutcome::Exists
                    | WriteOutcome::Gone
                    | WriteOutcome::Replaced => None,
                };
                if let Some(pause) = pause {
                    member.reported = Some((String::new(), self.clock.now));
                    self.agenda.timers.wake(Timer::Untold(uid), self.clock.now.plus_millis(pause));
                }
            }
            (Some(InFlight::Record(job)), Outcome::Write(outcome)) => {
                self.recording().record_done(job, action, outcome)?;
            }
            (Some(InFlight::Job(job)), Outcome::Write(outcome)) => {
                self.binding().job_written(job, action, &outcome)?;
            }
            (Some(InFlight::Stray(key)), Outcome::Write(outcome)) => {
                self.stray_done(key, action, outcome)?;
            }
            (Some(InFlight::Queue(name, uid, status)), Outcome::Write(outcome)) => {
                self.queueing().queue_status_done(&name, &uid, *status, &outcome);
            }
            (Some(InFlight::GroupCondition(key, uid, condition)), Outcome::Write(outcome)) => {
                self.notices().group_condition_written(&key, &uid, *condition, &outcome);
            }
            (None, _) => {}
            (Some(about), outcome) => {
                tracing::error!(?about, ?outcome, "an outcome of another kind than its action");
            }
        }
        Ok(())
    }

    /// Takes up the outcome of the removal of a stray FluxJob. If a job has adopted the FluxJob
    /// since, the outcome is about that job's record.
    fn stray_done(&mut self, key: ObjectKey, action: ActionId, outcome: WriteOutcome) -> Sound {
        self.records.end_removal(&key, action);
        let adopted = self.jobs.index.by_key.get(&key).copied();
        if let Some(id) = adopted {
            self.recording().record_done(id, action, outcome)?;
        } else if let WriteOutcome::Failed(_) | WriteOutcome::Conflict = outcome {
            self.agenda
                .timers
                .wake(Timer::Stray(key), self.clock.now.plus_millis(STRAY_RETRY_MILLIS));
        }
        Ok(())
    }
}
