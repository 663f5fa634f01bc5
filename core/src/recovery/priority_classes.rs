//! Priority classes that come, change or go: the wishes that name them are weighed again.

use fluxqueue_api::Overrides;

use crate::parts::Recovery;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::PriorityClass;

impl Recovery<'_> {
    /// Takes up a PriorityClass. Its value never changes, but a later class of the name may have
    /// another value.
    pub(crate) fn priority_class(&mut self, class: &PriorityClass) {
        if self.jobs.classes.priorities.put(class) {
            self.weigh_wishes_for(&class.name);
        }
    }

    /// Removes a PriorityClass that is gone.
    pub(crate) fn priority_class_gone(&mut self, name: &str) {
        if self.jobs.classes.priorities.0.remove(name).is_some() {
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
        // The pods that are still to be made get the new priority.
        self.stand_ins().stand_in_for_all(|_| true);
    }
}
