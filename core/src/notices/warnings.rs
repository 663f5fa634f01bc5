//! Warnings about mistakes in a workload.

use fluxqueue_api::{ConditionType, text};

use crate::jobs::grouping;
use crate::jobs::job::{Identity, Style};
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

    /// Warns of a walltime annotation, on the object that made the pods, that cannot be read and
    /// counts as absent.
    pub(crate) fn warn_of_bad_walltime(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        // A group may have several makers, and a lone pod has none.
        let Identity::Controller(namespace, uid) = &job.workload.identity else { return Ok(()) };
        let bad = self
            .jobs
            .controllers
            .get(namespace, uid)
            .and_then(|made_by| Some((made_by, made_by.walltime.as_ref()?.as_ref().err()?)));
        if let Some((made_by, error)) = bad {
            let text = format!("{} {}: {error}", made_by.kind.as_str(), made_by.id);
            self.warn_once(id, ConditionType::InvalidWalltime, text)?;
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
