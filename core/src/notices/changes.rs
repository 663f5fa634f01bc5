//! Events about a job: on its FluxJob when a condition gets another reason, and on its waiting pods
//! if their own conditions do not carry the news.
//!
//! The new status is compared with the one on record, so a restart repeats no Event. An Event may
//! be dropped, and may be repeated when the write beside it has to be repeated.

use std::sync::Arc;

use fluxqueue_api::conditions::of_type;
use fluxqueue_api::{
    BlockedReason, ConditionType, DegradedReason, EventReason, FinishedReason, FluxJobStatus,
    ScheduledReason,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::action::{EventKind, Subject};
use crate::parts::Notices;
use crate::sound::{Lookup, Sound};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::ObjectRef;

/// Most pods of one job that get an Event; a reader finds the job from any of them. A large gang
/// would flood the namespace otherwise.
const PODS_TOLD_MAX: usize = 16;

/// An Event that is to be published.
struct Notice {
    kind: EventKind,
    reason: &'static str,
    action: &'static str,
    /// True if the pods do not hear of it by their own conditions.
    is_for_pods: bool,
}

impl Notices<'_> {
    /// Publishes the Events for a change of the FluxJob of a job to the status `after`.
    pub(crate) fn notice_change(
        &mut self,
        id: JobId,
        of: &ObjectRef,
        after: &FluxJobStatus,
    ) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let before = job.status_on_record().map_or(&[][..], |status| &status.conditions);
        let new = |type_| {
            let now = of_type(&after.conditions, type_)?;
            let is_new = of_type(before, type_).is_none_or(|said| said.reason != now.reason);
            is_new.then(|| Some((notice(type_, now)?, now.message.clone())))?
        };
        let types = [ConditionType::Scheduled, ConditionType::Degraded, ConditionType::Finished];
        let notices: Vec<_> = types.into_iter().filter_map(new).collect();
        let reporter = Arc::clone(&job.workload.reporter);
        let waiting =
            self.jobs.live(job).filter(|member| member.stage.is_waiting() && !member.pod.stands_in);
        let pods: Vec<Subject> =
            waiting.take(PODS_TOLD_MAX).map(|member| Subject::Pod(member.pod.id.clone())).collect();
        for (notice, message) in notices {
            let Notice { kind, reason, action, is_for_pods } = notice;
            let told = if is_for_pods { pods.as_slice() } else { &[] };
            for subject in std::iter::once(Subject::FluxJob(of.clone())).chain(told.iter().cloned())
            {
                self.agenda.note(subject, kind, reason, action, message.clone(), &reporter);
            }
        }
        Ok(())
    }
}

/// Returns the Event for a condition that has a new reason, if it is worth one.
fn notice(type_: ConditionType, condition: &Condition) -> Option<Notice> {
    let about = |kind, reason, action| Some(Notice { kind, reason, action, is_for_pods: false });
    match type_ {
        ConditionType::Scheduled => match ScheduledReason::from_name(&condition.reason)? {
            ScheduledReason::Blocked(reason) => Some(of_blocked(reason)),
            ScheduledReason::Scheduled => {
                about(EventKind::Normal, EventReason::Scheduled.as_str(), "Binding")
            }
            ScheduledReason::Starting
            | ScheduledReason::Queued
            | ScheduledReason::NeverScheduled => None,
        },
        ConditionType::Degraded => match DegradedReason::from_name(&condition.reason)? {
            DegradedReason::Whole => None,
            reason => about(EventKind::Warning, reason.as_str(), "Scheduling"),
        },
        ConditionType::Finished => match FinishedReason::from_name(&condition.reason)? {
            FinishedReason::Succeeded => {
                about(EventKind::Normal, FinishedReason::Succeeded.as_str(), "Finishing")
            }
            FinishedReason::Failed => {
                about(EventKind::Warning, FinishedReason::Failed.as_str(), "Finishing")
            }
        },
        _ => None,
    }
}

fn of_blocked(reason: BlockedReason) -> Notice {
    let waits_for_others = matches!(
        reason,
        BlockedReason::Incomplete
            | BlockedReason::Gated
            | BlockedReason::Held
            | BlockedReason::Paused
            | BlockedReason::QueuedBehind
    );
    let kind = if waits_for_others { EventKind::Normal } else { EventKind::Warning };
    Notice { kind, reason: reason.as_str(), action: "Queueing", is_for_pods: waits_for_others }
}
