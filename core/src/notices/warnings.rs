//! Warnings about mistakes in a workload.

use fluxqueue_api::{ConditionType, text};

use crate::jobs::grouping;
use crate::jobs::job::Style;
use crate::jobs::member::Member;
use crate::parts::Notices;
use crate::sound::{Lookup, Sound};
use fluxqueue_planner::queue::JobId;

impl Notices<'_> {
    /// Warns of a wished PriorityClass that does not exist: the priority of the workload counts
    /// instead.
    pub(crate) fn warn_of_unknown_class(&mut self, id: JobId) -> Sound {
        // A priority has no meaning for a job that has ended.
        let job = self.jobs.all.known_mut(&id)?;
        if job.record.seen.end.is_some() {
            return Ok(());
        }
        match job.record.overrides.priority_class_name.clone() {
            Some(class) if job.record.wished_priority.is_none() => {
                let text = format!(
                    "spec.overrides.priorityClassName: there is no PriorityClass {}",
                    text::quoted(&class)
                );
                self.warn_once(id, ConditionType::UnknownPriorityClass, text)?;
            }
            _ => drop(job.told.warnings.remove(&ConditionType::UnknownPriorityClass)),
        }
        Ok(())
    }

    /// Warns of a walltime annotation that cannot be read and counts as absent, for as long as that
    /// is so: on the object that made the pods, on their PodGroup, or on the Workload of that.
    /// `records_lone_pods` is the setting.
    pub(crate) fn warn_of_bad_walltime(&mut self, id: JobId, records_lone_pods: bool) -> Sound {
        let job = self.jobs.all.known(&id)?;
        // A group may have several makers, and a lone pod has none.
        let made_by = self.jobs.controllers.of_job(&job.workload.identity);
        let of_maker = made_by.and_then(|made_by| {
            let error = made_by.walltime.as_ref()?.as_ref().err()?;
            Some(format!("{} {}: {error}", made_by.kind.as_str(), made_by.id))
        });
        let first = self.jobs.live(job).next();
        // A lone pod on its node may have no record: the warning was reported while it waited.
        let was_told = |first: &Member| {
            let is_unrecorded = job.style == Style::Lone && !records_lone_pods;
            is_unrecorded && !first.stage.is_waiting()
        };
        let of_group = || {
            let first = first.filter(|first| !was_told(first))?;
            self.jobs.controllers.groups.unreadable_walltime(&first.pod)
        };
        match of_maker.or_else(of_group) {
            Some(text) => self.warn_once(id, ConditionType::InvalidWalltime, text)?,
            None if first.is_some() => {
                let warnings = &mut self.jobs.all.known_mut(&id)?.told.warnings;
                warnings.remove(&ConditionType::InvalidWalltime);
            }
            None => {}
        }
        Ok(())
    }

    /// Warns of pods that start together and contradict each other, for as long as they do. The
    /// warning states which value counts.
    pub(crate) fn warn_of_contradictions(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if job.style != Style::Gang || job.pods.live.is_empty() {
            return Ok(());
        }
        let sizes = grouping::contradiction(&self.jobs.live_members(job));
        let priorities = self.jobs.contradicting_priorities(job);
        let said = [
            (ConditionType::SizeContradiction, sizes),
            (ConditionType::PriorityContradiction, priorities),
        ];
        for (warning, text) in said {
            match (text, self.jobs.all.get_mut(&id)) {
                (Some(text), _) => self.warn_once(id, warning, text)?,
                (None, Some(job)) => drop(job.told.warnings.remove(&warning)),
                (None, None) => {}
            }
        }
        Ok(())
    }
}
