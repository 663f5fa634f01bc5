//! Intake: takes up controllers, the end of the first lists, queues and namespaces.

use std::sync::Arc;

use fluxqueue_api::names;

use crate::cycle::Core;
use crate::jobs::job::Identity;
use crate::jobs::registry::Jobs;
use crate::telling::lost::QueueChange;
use crate::timers::Timer;
use fluxqueue_planner::plan::Policies;
use fluxqueue_planner::queue::JobId;
use fluxqueue_planner::queues::{Namespace, QueueObject};
use fluxqueue_workload::{Controller, Uid};

impl Core {
    // --- controllers ---

    pub(crate) fn controller(&mut self, made_by: Arc<Controller>) {
        let uid = made_by.id.uid.clone();
        let before = self.jobs.controllers.insert(&made_by);
        let is_new = before.is_none();
        let ends = |made_by: &Controller| (made_by.walltime.clone(), made_by.deadline);
        let has_other_ends = before.is_some_and(|before| ends(&before) != ends(&made_by));
        for id in jobs_of(&self.jobs, &made_by) {
            self.agenda.touched.insert(id);
            self.jobs.note_waves(id, uid.clone());
            if has_other_ends {
                // New ends apply to running pods too, as if they had been wished for in the
                // FluxJob.
                let done = self.slots().plan_ends_of(id);
                self.agenda.heed(done);
            }
        }
        if self.intake.synced {
            let done = self.stand_ins().stand_in_for(&uid);
            self.agenda.heed(done);
        }
        if is_new && self.intake.synced {
            for pod in self.intake.awaiting_owner.made_by(&uid) {
                if let Some(awaiting_owner) = self.intake.awaiting_owner.remove(&pod) {
                    let done = self.members().attach(awaiting_owner.pod, false);
                    self.agenda.heed(done);
                }
            }
            for pod in self.intake.awaiting_owner.take_orphans(&uid) {
                let done = self.recovery().join_late_owner(&pod);
                self.agenda.heed(done);
            }
        }
    }

    pub(crate) fn controller_gone(&mut self, uid: &Uid) {
        self.jobs.releases.forget(uid);
        if let Some(made_by) = self.jobs.remove_controller(uid) {
            let jobs = jobs_of(&self.jobs, &made_by);
            for id in &jobs {
                self.jobs.note_waves(*id, uid.clone());
            }
            self.agenda.touched.extend(jobs);
        }
    }

    // --- the end of the first lists ---

    /// Takes up the first lists once all of them are complete: pods find their jobs, jobs their
    /// records, and gangs their placements. This does not happen before the first step, since
    /// events up to then count as part of the lists.
    pub(crate) fn sync(&mut self) {
        if self.intake.synced {
            return;
        }
        (self.intake.synced, self.intake.taking_over) = (true, true);
        self.walks.has_promises_to_put_back =
            *self.queues.policies() != Policies::FirstComeFirstServed;
        let pods = std::mem::take(&mut self.intake.unsorted);
        self.binding().note_nodes_of_volumes();
        self.recovery().find_jobs(pods.into_pods());
        self.recovery().protect_placed_gangs();
        if self.intake.awaiting_owner.len() > 0 {
            self.queueing().counts_are_unsure_for(crate::members::attaching::OWNER_WAIT_MILLIS);
        }
        // The offset of the API server's clock may have arrived after the pods.
        for uid in self.occupancy.foreign.keys().cloned().collect::<Vec<Uid>>() {
            self.slots().replan_foreign_end(&uid);
        }
        self.recovery().sort_out_strays();
        self.agenda
            .timers
            .wake(Timer::Audit, self.clock.now.plus_millis(crate::cycle::audit::ROUND_MILLIS));
        self.agenda.queue_changed = true;
    }

    // --- events ---

    /// Takes up a queue that is new or has changed.
    pub(crate) fn queue_object(&mut self, queue: &Arc<QueueObject>) {
        let is_first = !self.queues.is_any_object();
        if let Some(policy) = self.queues.unserved_policy(queue) {
            let (name, policy) = (&queue.name, policy.as_str());
            tracing::warn!(%name, policy, "this Fluxion library keeps no reservations: the queue \
                is walked as fcfs");
        }
        if self.queues.put(queue) {
            self.agenda.lost.queue_has_changed(&queue.name, QueueChange::Edited);
            // The first FluxQueue splits the one queue into several, and the queue of services
            // takes services from other queues.
            let concerns_all = is_first || *queue.name == *names::QUEUE_SERVICES;
            self.queueing().look_at_jobs(|job| concerns_all || job.queue.is(&queue.name));
        }
        self.queueing().note_queues_soon();
    }

    /// Removes a queue that is gone.
    pub(crate) fn queue_object_gone(&mut self, name: &str) {
        self.queues.remove(name);
        self.agenda.lost.queue_has_changed(&Arc::from(name), QueueChange::Deleted);
        self.queueing().look_at_jobs(|job| job.queue.is(name));
        if *self.queues.policies() == Policies::FirstComeFirstServed {
            self.promise_keeping().withdraw_all_promises();
        }
    }

    /// Takes up a namespace that is new or has changed.
    pub(crate) fn namespace(&mut self, namespace: &Arc<Namespace>) {
        let paused = self.queues.paused();
        if self.queues.put_namespace(namespace) {
            self.queueing().look_at_jobs(|job| job.key.namespace == namespace.name);
            self.stand_ins().stand_in_for_all(|made_by| made_by.id.key.namespace == namespace.name);
        }
        self.heed_pause(paused.as_deref());
    }

    /// Forgets a namespace that is gone.
    pub(crate) fn namespace_gone(&mut self, name: &str) {
        let paused = self.queues.paused();
        self.queues.remove_namespace(name);
        self.heed_pause(paused.as_deref());
    }

    /// Looks at all jobs if Fluxqueue is paused or resumed, or if the message about it has changed.
    fn heed_pause(&mut self, before: Option<&str>) {
        if self.queues.paused().as_deref() != before {
            self.queueing().look_at_jobs(|_| true);
        }
    }
}

/// Returns the jobs that depend on this object for their size or end.
fn jobs_of(jobs: &Jobs, made_by: &Controller) -> Vec<JobId> {
    let uids = [Some(&made_by.id.uid), made_by.owner.as_ref().map(|owner| &owner.uid)];
    let identity =
        |uid: &Uid| Identity::Controller(Arc::clone(&made_by.id.key.namespace), uid.clone());
    let of_controller = uids
        .into_iter()
        .flatten()
        .filter_map(|uid| jobs.index.by_identity.get(&identity(uid)).copied());
    of_controller.chain(jobs.groups_of(made_by)).collect()
}
