//! What people wish of a job, in its FluxJob, and what a wish for another priority means: the value
//! of a PriorityClass.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::{ConditionType, Overrides, text};

use crate::parts::{Members, Notices, Recovery};
use crate::sound::{Lookup, Sound};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::PriorityClass;

/// The PriorityClasses that there are.
#[derive(Debug, Clone, Default)]
pub(crate) struct PriorityClasses(BTreeMap<Arc<str>, Known>);

/// What is known of a PriorityClass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    value: i32,
    /// It is that of pods that name none.
    is_default: bool,
}

impl PriorityClasses {
    /// The value of a class, if there is one of the name.
    pub(crate) fn value(&self, name: &str) -> Option<i32> {
        self.0.get(name).map(|known| known.value)
    }

    /// The priority that the API server gives pods that name this class, or none. Of several
    /// defaults the least counts.
    pub(crate) fn of_pods(&self, class: Option<&str>) -> i32 {
        let default =
            || self.0.values().filter(|known| known.is_default).map(|known| known.value).min();
        class.map_or_else(default, |class| self.value(class)).unwrap_or(0)
    }

    /// False if that is known already.
    fn put(&mut self, class: &PriorityClass) -> bool {
        let known = Known { value: class.value, is_default: class.is_default };
        self.0.insert(Arc::clone(&class.name), known) != Some(known)
    }
}

impl Recovery<'_> {
    /// A PriorityClass is there. Its value never changes, but another one of the name may have
    /// another.
    pub(crate) fn priority_class(&mut self, class: &PriorityClass) {
        if self.jobs.priority_classes.put(class) {
            self.weigh_wishes_for(&class.name);
        }
    }

    /// A PriorityClass is gone.
    pub(crate) fn priority_class_gone(&mut self, name: &str) {
        if self.jobs.priority_classes.0.remove(name).is_some() {
            self.weigh_wishes_for(name);
        }
    }

    fn weigh_wishes_for(&mut self, class: &str) {
        let of_class = |wishes: &Overrides| wishes.priority_class_name.as_deref() == Some(class);
        let jobs = self.jobs.all.values().filter(|job| of_class(&job.record.overrides));
        let ids: Vec<JobId> = jobs.map(|job| job.id).collect();
        for id in ids {
            let done = self.members().weigh_wish(id);
            self.agenda.heed(done);
            self.agenda.queue_changed = true;
        }
        // Pods that are still to be made have the priority that goes then.
        self.stand_ins().stand_in_for_all(|_| true);
    }
}

impl Members<'_> {
    /// From now on people wish this of the job.
    pub(crate) fn heed_wishes(&mut self, id: JobId, wishes: &Overrides) -> Sound {
        let job = self.jobs.all.known_mut(&id)?;
        let has_new_ends = job.record.overrides.walltime_seconds != wishes.walltime_seconds;
        job.record.overrides.clone_from(wishes);
        self.weigh_wish(id)?;
        if has_new_ends {
            self.slots().plan_ends_of(id)?;
        }
        Ok(())
    }

    fn weigh_wish(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known_mut(&id)?;
        let class = job.record.overrides.priority_class_name.as_deref();
        job.record.wished_priority =
            class.and_then(|class| self.jobs.priority_classes.value(class));
        self.agenda.touched.insert(id);
        Ok(())
    }
}

impl Notices<'_> {
    /// A PriorityClass is wished for that does not exist: the workload's priority counts, and that
    /// is said.
    pub(crate) fn warn_of_unknown_class(&mut self, id: JobId) -> Sound {
        // Of what has ended nothing counts any more.
        let job = self.jobs.all.known_mut(&id)?;
        if job.ended_as.is_some() {
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
            _ => drop(job.warnings.remove(&ConditionType::UnknownPriorityClass)),
        }
        Ok(())
    }
}
