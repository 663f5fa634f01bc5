//! The condition of PodGroups: whether their pods have been scheduled, and why not.
//!
//! Other schedulers say nothing of groups with pods that name us, so we do. No Binding waits for
//! it. Once the condition is True it never changes.

use std::sync::Arc;

use fluxqueue_api::{JobState, text};

use crate::action::Write;
use crate::event::WriteOutcome;
use crate::in_flight::InFlight;
use crate::jobs::pod_groups::key_of;
use crate::jobs::setbacks::REFUSED_MAX_MILLIS;
use crate::parts::Notices;
use crate::telling::blockers::Blockers;
use crate::timers::Timer;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::pod_group::{GroupCondition, PodGroup};
use fluxqueue_workload::{ObjectKey, Uid};

/// The least time in milliseconds between two writes about the same group.
pub(crate) const GROUP_MILLIS: i64 = 10_000;

/// The message of a group that has started.
const STARTED: &str = "the first pods of the group have their nodes";

impl Notices<'_> {
    /// Arranges a look at the condition of the group that the pods of a job name. All pods of a job
    /// name the same group, or their group starts them one by one.
    pub(crate) fn consider_group_of(&mut self, id: JobId) {
        let first = self.jobs.all.get(&id).and_then(|job| self.jobs.live(job).next());
        let key = first.and_then(|first| {
            let named = first.pod.scheduling_group.as_ref()?;
            Some(key_of(&first.pod, named))
        });
        let groups = &self.jobs.controllers.groups;
        let due = key.and_then(|key| Some((groups.may_be_told_from(&key)?, key)));
        if let Some((due, key)) = due {
            self.agenda.timers.wake(Timer::PodGroup(key), due.max(self.clock.now));
        }
    }

    /// Writes the condition of a group if it is not the one that the group has.
    pub(crate) fn tell_of_group(&mut self, key: &ObjectKey) {
        let now = self.clock.now;
        let due = self.jobs.controllers.groups.may_be_told_from(key);
        if let Some(due) = due.filter(|due| now < *due) {
            return self.agenda.timers.wake(Timer::PodGroup(key.clone()), due);
        }
        if let Some((group, condition)) = due.and_then(|_| self.news_of_group(key)) {
            let before = group.condition.as_ref().map(|before| before.is_true);
            let write = Write::SetGroupCondition {
                group: group.id.clone(),
                resource_version: group.resource_version.clone(),
                version: group.version,
                condition: Box::new(condition.clone()),
                newly: before != Some(condition.is_true),
            };
            let (uid, condition) = (group.id.uid.clone(), Box::new(condition));
            let about = InFlight::GroupCondition(key.clone(), uid, condition);
            self.agenda.actions.ask(write, about);
            self.jobs.controllers.groups.is_being_told(key, now.plus_millis(GROUP_MILLIS));
        }
    }

    /// Returns a group and the condition that it should have, if it does not have that yet. With
    /// pods of several schedulers, the condition of another one stays.
    fn news_of_group(&self, key: &ObjectKey) -> Option<(Arc<PodGroup>, GroupCondition)> {
        let groups = &self.jobs.controllers.groups;
        let group = groups.get(key, None)?;
        let condition = self.condition_of(key, group)?;
        let (told, has) = (groups.told(key), group.condition.as_ref());
        let is_shared = groups.schedulers(key).is_some();
        let is_known = has == Some(&condition) || told == Some(&condition);
        let is_others = is_shared && has.is_some() && told != has;
        (!is_known && !is_others).then(|| (Arc::clone(group), condition))
    }

    /// Takes up the outcome of such a write.
    pub(crate) fn group_condition_written(
        &mut self,
        key: &ObjectKey,
        uid: &Uid,
        condition: GroupCondition,
        outcome: &WriteOutcome,
    ) {
        let (condition, pause) = match outcome {
            WriteOutcome::Written(_) => (Some(condition), GROUP_MILLIS),
            WriteOutcome::Invalid(_) | WriteOutcome::Refused(_) => (None, REFUSED_MAX_MILLIS),
            // It may have taken effect, even if it conflicts: the watch shows it.
            WriteOutcome::Failed(_)
            | WriteOutcome::Conflict
            | WriteOutcome::Exists
            | WriteOutcome::Gone
            | WriteOutcome::Replaced => (None, GROUP_MILLIS),
        };
        let due = self.clock.now.plus_millis(pause);
        self.jobs.controllers.groups.was_told(key, uid, condition, due);
        // By then, there may be something else to say.
        self.agenda.timers.wake(Timer::PodGroup(key.clone()), due);
    }

    /// Returns the condition that a group should have; `None` if there is nothing to say.
    fn condition_of(&self, key: &ObjectKey, group: &PodGroup) -> Option<GroupCondition> {
        let groups = &self.jobs.controllers.groups;
        let mut why: Option<&Blockers> = None;
        let pods = groups.pods(key);
        let members = pods.iter().filter_map(|uid| self.jobs.members.get(uid));
        let is_of_it = |pod| groups.of(pod).is_some_and(|of| of.id.uid == group.id.uid);
        for member in members.filter(|member| is_of_it(&member.pod)) {
            if member.is_bound() || member.stage.is_binding() {
                return Some(condition(group, true, "Scheduled", STARTED));
            }
            let blocker = || self.jobs.all.get(&member.job)?.told.blocker.as_ref();
            if why.is_none_or(|why| !is_refusal(why)) {
                why = blocker().filter(|it| why.is_none() || is_refusal(it)).or(why);
            }
        }
        let why = why?;
        let reason = if is_refusal(why) { "SchedulerError" } else { "Unschedulable" };
        Some(condition(group, false, reason, &why.text_for_pods()))
    }
}

fn is_refusal(blocker: &Blockers) -> bool {
    blocker.reason().state() == JobState::Refused
}

fn condition(group: &PodGroup, is_true: bool, reason: &str, message: &str) -> GroupCondition {
    GroupCondition {
        is_true,
        reason: reason.to_owned(),
        message: text::message(message).into_owned(),
        observed_generation: group.generation,
    }
}
