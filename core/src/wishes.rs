//! What people wish of a job, in its FluxJob, and what a wish for another priority means: the value of a PriorityClass.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::{ConditionType, Overrides};

use super::Core;
use crate::queue::JobId;
use fluxqueue_workload::PriorityClass;

/// The value of each PriorityClass, and which of them are that of pods that name none.
#[derive(Debug, Clone, Default)]
pub(super) struct PriorityClasses {
    values: BTreeMap<Arc<str>, i32>,
    defaults: BTreeSet<Arc<str>>,
}

impl PriorityClasses {
    /// The value of a class, if there is one of the name.
    pub(super) fn value(&self, name: &str) -> Option<i32> {
        self.values.get(name).copied()
    }

    /// The priority that the API server gives pods that name this class, or none. Of several defaults the least counts.
    pub(super) fn of_pods(&self, class: Option<&str>) -> i32 {
        let default = || self.defaults.iter().filter_map(|name| self.value(name)).min();
        class.map_or_else(default, |class| self.value(class)).unwrap_or(0)
    }

    /// False if that is known already.
    fn put(&mut self, class: &PriorityClass) -> bool {
        let was_default = self.defaults.contains(&class.name);
        if class.is_default {
            self.defaults.insert(Arc::clone(&class.name));
        } else {
            self.defaults.remove(&class.name);
        }
        self.values.insert(Arc::clone(&class.name), class.value) != Some(class.value) || was_default != class.is_default
    }
}

impl Core {
    /// A PriorityClass is there. Its value never changes, but another one of the name may have another.
    pub(super) fn priority_class(&mut self, class: &PriorityClass) {
        if self.priority_classes.put(class) {
            self.weigh_wishes_for(&class.name);
        }
    }

    /// A PriorityClass is gone.
    pub(super) fn priority_class_gone(&mut self, name: &str) {
        self.priority_classes.defaults.remove(name);
        if self.priority_classes.values.remove(name).is_some() {
            self.weigh_wishes_for(name);
        }
    }

    /// From now on people wish this of the job.
    pub(super) fn heed_wishes(&mut self, id: JobId, wishes: &Overrides) {
        let Some(job) = self.jobs.all.get_mut(&id) else { return };
        let has_new_ends = job.record.overrides.walltime_seconds != wishes.walltime_seconds;
        job.record.overrides.clone_from(wishes);
        self.weigh_wish(id);
        if has_new_ends {
            self.plan_ends_of(id);
        }
    }

    fn weigh_wishes_for(&mut self, class: &str) {
        let of_class = |wishes: &Overrides| wishes.priority_class_name.as_deref() == Some(class);
        let jobs = self.jobs.all.values().filter(|job| of_class(&job.record.overrides));
        let ids: Vec<JobId> = jobs.map(|job| job.id).collect();
        for id in ids {
            self.weigh_wish(id);
            self.queue_changed = true;
        }
        if self.synced {
            // Pods that are still to be made have the priority that goes then.
            self.stand_in_for_all();
        }
    }

    fn weigh_wish(&mut self, id: JobId) {
        let Some(job) = self.jobs.all.get_mut(&id) else { return };
        let class = job.record.overrides.priority_class_name.as_deref();
        job.record.wished_priority = class.and_then(|class| self.priority_classes.value(class));
        self.touched.insert(id);
    }

    /// A PriorityClass is wished for that does not exist: the workload's priority counts, and that is said.
    pub(super) fn warn_of_unknown_class(&mut self, id: JobId) {
        // Of what has ended nothing counts any more.
        let Some(job) = self.jobs.all.get_mut(&id).filter(|job| job.ended_as.is_none()) else { return };
        match job.record.overrides.priority_class_name.clone() {
            Some(class) if job.record.wished_priority.is_none() => {
                let text = format!("spec.overrides.priorityClassName: there is no PriorityClass {class:?}");
                self.warn_once(id, ConditionType::UnknownPriorityClass, text);
            }
            _ => drop(job.warnings.remove(&ConditionType::UnknownPriorityClass)),
        }
    }
}
