//! Conditions and Events for pods and jobs.

pub(crate) mod changes;
pub(crate) mod group_conditions;
pub(crate) mod warnings;

use std::sync::Arc;

use fluxqueue_api::{ConditionType, EventReason, text};

use crate::action::{EventKind, Subject, Write};
use crate::agenda::Agenda;
use crate::in_flight::InFlight;
use crate::jobs::clock::Clock;
use crate::jobs::nomination;
use crate::jobs::registry::Jobs;
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{Time, Uid};

/// The least time in milliseconds between two changed texts about the same pod.
pub(crate) const REPORT_MILLIS: i64 = 30_000;

/// Reports the findings of the other parts to pods and jobs, by conditions and Events.
pub(crate) struct Notices<'a> {
    pub clock: Clock,
    pub jobs: &'a mut Jobs,
    pub agenda: &'a mut Agenda,
}

impl Notices<'_> {
    /// Writes the reason for which a pod is not scheduled into its condition, and publishes it as
    /// an Event.
    pub(crate) fn report_unscheduled(
        &mut self,
        uid: &Uid,
        reason: &'static str,
        message: &str,
    ) -> Sound {
        let (now, message) = (self.clock.now, &*text::message(message));
        let member = self.jobs.members.known_mut(uid)?;
        if member.pod.deleting || member.pod.stands_in {
            return Ok(());
        }
        if member.telling.is_some() {
            if let Some((_, at)) = member.reported.as_ref().filter(|(text, _)| text != message) {
                // The write on its way has another text. By the time of the timer it has been
                // answered, or the pod waits once more.
                let at = at.max(&now).plus_millis(REPORT_MILLIS);
                self.agenda.timers.wake(Timer::Untold(uid.clone()), at);
            }
            return Ok(());
        }
        if member.nomination.is_being_written() {
            // Of two writes to one version of the pod, one would fail.
            let at = now.plus_millis(nomination::SOON_MILLIS);
            self.agenda.timers.wake(Timer::Untold(uid.clone()), at);
            return Ok(());
        }
        let recently = |at: Time| now < at.plus_millis(REPORT_MILLIS);
        if let Some((_, at)) =
            member.reported.as_ref().filter(|(text, at)| text != message && recently(*at))
        {
            // The pod has got another text just now.
            let at = at.plus_millis(REPORT_MILLIS);
            self.agenda.timers.wake(Timer::Untold(uid.clone()), at);
            return Ok(());
        }
        if member.reported.as_ref().is_some_and(|(text, _)| text == message) {
            return Ok(());
        }
        let pod = Arc::clone(&member.pod);
        let known = pod.scheduled_condition.as_ref();
        // A text of an earlier process stands if the reason is the same: a restart alone is no
        // news.
        if let Some(known) = known.filter(|known| !known.scheduled && known.reason == reason)
            && (member.reported.is_none() || known.message == message)
        {
            // The earlier text may have other words: it stays until this process finds another
            // text.
            member.reported = Some((message.to_owned(), now));
            return Ok(());
        }
        member.reported = Some((message.to_owned(), now));
        let newly = known.is_none_or(|known| known.scheduled);
        let write = Write::SetPodScheduled {
            pod: pod.id.clone(),
            resource_version: pod.resource_version.clone(),
            reason,
            message: message.to_owned(),
            newly,
        };
        let action = self.agenda.actions.ask(write, InFlight::Condition(uid.clone()));
        let member = self.jobs.members.known_mut(uid)?;
        member.telling = Some(action);
        let subject = Subject::Pod(pod.id.clone());
        self.agenda.note(
            subject,
            EventKind::Warning,
            EventReason::FailedScheduling.as_str(),
            "Scheduling",
            message.to_owned(),
            &pod.scheduler,
        );
        Ok(())
    }

    /// Puts a warning about a job into its conditions, and publishes it as an Event, once for each
    /// text.
    pub(crate) fn warn_once(&mut self, id: JobId, warning: ConditionType, text: String) -> Sound {
        let text = text::into_message(text);
        let job = self.jobs.all.known_mut(&id)?;
        if job.told.warnings.get(&warning) == Some(&text) {
            return Ok(());
        }
        job.told.warnings.insert(warning, text.clone());
        let written = job.record.seen.status.iter().flat_map(|status| &status.conditions);
        let was_said =
            written.into_iter().any(|said| said.type_ == warning.as_str() && said.message == text);
        self.agenda.dirty.insert(id);
        if was_said {
            // An earlier process has published it.
            return Ok(());
        }
        let reporter = Arc::clone(&job.workload.reporter);
        let first = job
            .pods
            .all
            .iter()
            .find_map(|uid| self.jobs.members.get(uid))
            .filter(|first| !first.pod.stands_in);
        let first = first.map(|member| member.pod.id.clone());
        if let Some(pod) = first {
            self.agenda.note(
                Subject::Pod(pod),
                EventKind::Warning,
                warning.as_str(),
                "Grouping",
                text,
                &reporter,
            );
        }
        Ok(())
    }
}
