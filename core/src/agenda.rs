//! The agenda: the consequences of decisions, until the cycle comes to them.

use std::collections::BTreeSet;
use std::sync::Arc;

use fluxqueue_api::{EventReason, text};

use crate::action::{ActionKind, Note};
use crate::action::{EventKind, Subject};
use crate::in_flight::Actions;
use crate::outbox::Outbox;
use crate::sound::{Contradiction, Interruption, Sound};
use crate::telling::lost::Lost;
use crate::telling::report::{Attempts, Gauges};
use crate::timers::{Timer, Timers};
use fluxqueue_machine::fluxion::End;
use fluxqueue_machine::ledger::Allocation;
use fluxqueue_planner::plan::Request;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{Time, Uid};

/// The time in milliseconds for which news about pods that are being bound is gathered before their
/// job is refreshed.
const SOON_MILLIS: i64 = 50;

/// The time in seconds within which the end of a pod that ends as planned is seen.
const OVERDUE_SECONDS: u64 = 1;

/// Most contradictions that are kept until they are reported: one job in a minute is rebuilt, and
/// those beyond it are only counted.
const CONTRADICTIONS_MAX: usize = 64;

/// The work to be done next: looks at jobs, writes, Bindings, and a walk over the queue. Every part
/// of the core adds to it. Refresh takes the jobs that were touched, recording takes those that are
/// dirty, binding takes the outbox, and the cycle takes everything else.
#[derive(Default)]
pub(crate) struct Agenda {
    /// The jobs to be looked at before the next walk.
    pub touched: BTreeSet<JobId>,
    /// The jobs that may need a write of their record.
    pub dirty: BTreeSet<JobId>,
    pub outbox: Outbox,
    pub timers: Timers,
    pub actions: Actions,
    /// True if the queue has changed in a way that may let other requests start.
    pub queue_changed: bool,
    /// The room that has been lost since the last walk.
    pub lost: Lost,
    /// The running jobs for which a person has wished more time since the last walk.
    pub extended: BTreeSet<JobId>,
    /// The time until which a new process may count its queues in another way than the one before
    /// it: some pods have no known job yet, and some slots may have been given back. The status of
    /// queues is not written until then.
    pub counts_are_sure_from: Time,
    /// Numbers that only grow; the others are counted when they are read.
    pub gauges: Gauges,
    /// The contradictions that are not reported yet.
    contradictions: Vec<Contradiction>,
}

impl Agenda {
    /// Takes note of how work on a job or a pod ended: counts news that is out of date, and keeps a
    /// contradiction until the work at hand is done.
    pub(crate) fn heed(&mut self, outcome: Sound) {
        match outcome {
            Ok(()) => {}
            Err(Interruption::Outdated) => self.gauges.interruptions.outdated += 1,
            Err(Interruption::Contradiction(found)) => {
                self.gauges.interruptions.contradictions += 1;
                if self.contradictions.len() < CONTRADICTIONS_MAX {
                    self.contradictions.push(found);
                }
            }
        }
    }

    /// Returns the contradictions that are not reported yet, oldest first.
    pub(crate) fn take_contradictions(&mut self) -> Vec<Contradiction> {
        std::mem::take(&mut self.contradictions)
    }

    /// Refreshes the job in a moment, together with its other changes until then: a further bound
    /// pod changes the record and nothing else.
    pub(crate) fn touch_soon(&mut self, id: JobId, now: Time) {
        self.timers.wake(Timer::Job(id), now.plus_millis(SOON_MILLIS));
    }

    // --- actions ---

    pub(crate) fn note(
        &mut self,
        subject: Subject,
        kind: EventKind,
        reason: &'static str,
        action: &'static str,
        note: String,
        reporter: &Arc<str>,
    ) {
        debug_assert!(EventReason::is_known(reason), "{reason} is no reason of an Event");
        let note = Note {
            subject,
            kind,
            reason,
            action,
            note: text::into_message(note),
            reporter: Arc::clone(reporter),
        };
        self.actions.push(ActionKind::Note(note));
    }

    pub(crate) fn count_attempt(&mut self, request: &Request, scheduled: bool) {
        for group in &request.groups {
            let pods = group.wants.iter().map(|want| want.count as u64).sum::<u64>();
            let profile = Arc::clone(&group.sample.scheduler);
            let known =
                self.gauges.attempts.iter().position(|attempts| attempts.profile == profile);
            let at = known.unwrap_or_else(|| {
                self.gauges.attempts.push(Attempts {
                    profile,
                    scheduled: 0,
                    unschedulable: 0,
                    error: 0,
                });
                self.gauges.attempts.len() - 1
            });
            if scheduled {
                self.gauges.attempts[at].scheduled += pods;
            } else {
                self.gauges.attempts[at].unschedulable += pods;
            }
        }
    }

    /// Sets the timer that checks a pod when its planned end has passed.
    pub(crate) fn watch_end(&mut self, uid: &Uid, end: End) {
        if let End::At(end) = end {
            self.timers.wake(Timer::Overdue(uid.clone()), overdue_from(end));
        }
    }

    /// Watches the planned end of a pod's allocation. Without an allocation there is no end to
    /// watch.
    pub(crate) fn watch_end_of(&mut self, uid: &Uid, allocation: Option<&Allocation>) {
        match allocation {
            Some(allocation) => self.watch_end(uid, allocation.end),
            None => self.timers.forget(&Timer::Overdue(uid.clone())),
        }
    }
}

/// Returns the time from which a pod with this planned end is overdue.
pub(crate) fn overdue_from(end: i64) -> Time {
    Time::from_seconds(end).plus_secs(OVERDUE_SECONDS)
}
