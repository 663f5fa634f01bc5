//! Nodes, controllers and the first lists, as they come.

use std::sync::Arc;

use fluxqueue_api::names;

use crate::Core;
use crate::jobs::job::{Identity, Member};
use crate::timers::Timer;
use fluxqueue_machine::cluster::{Node, NodeChange};
use fluxqueue_machine::ledger::{Allocation, valid};
use fluxqueue_planner::plan::Policies;
use fluxqueue_planner::queue::JobId;
use fluxqueue_planner::queues::{Namespace, QueueObject};
use fluxqueue_workload::{Controller, NodeName, Uid};

impl Core {
    // --- nodes ---

    pub(crate) fn node(&mut self, node: &Arc<Node>) {
        let is_moved = self.is_moved(node);
        self.agenda.lost.is_any = true;
        let before = self
            .planner
            .cluster
            .rank(&node.name)
            .and_then(|rank| self.planner.cluster.node(rank))
            .cloned();
        match self.planner.ledger.apply_node(&mut self.planner.cluster, node) {
            NodeChange::Added(_) => {
                self.node_is_new(&node.name);
                self.binding().note_nodes_of_volumes();
            }
            NodeChange::Replaced { old, .. } => {
                self.agenda.lost.node_is_gone(old, &node.name);
                self.node_is_void(&node.name);
                self.node_is_new(&node.name);
            }
            NodeChange::Changed { rank, resized } => {
                if let Some(before) = before {
                    self.agenda.lost.node_has_changed(rank, &before, node);
                }
                self.agenda.queue_changed = true;
                // Pods that join those that are there follow them, and a job that has the node
                // alone is charged all of it.
                if is_moved || !resized.is_empty() {
                    self.look_at_jobs_on(&node.name);
                }
            }
            NodeChange::Same => {}
        }
    }

    pub(crate) fn node_gone(&mut self, name: &NodeName, uid: &Uid) {
        let Some(rank) = self.planner.cluster.rank(name) else { return };
        if self.planner.cluster.node(rank).is_none_or(|node| node.uid != *uid) {
            return;
        }
        self.agenda.lost.is_any = true;
        self.agenda.lost.node_is_gone(rank, name);
        self.occupancy.suspects.forget_refusals(name);
        self.planner.ledger.remove_node(&mut self.planner.cluster, name);
        self.node_is_void(name);
        self.binding().note_nodes_of_volumes();
    }

    /// The jobs that have pods on a node are looked at again.
    fn look_at_jobs_on(&mut self, name: &NodeName) {
        let there = self.occupancy.by_node.all(name);
        self.agenda
            .touched
            .extend(there.iter().filter_map(|uid| Some(self.jobs.members.get(uid)?.job)));
    }

    /// Pods that came before their node are counted now.
    fn node_is_new(&mut self, name: &NodeName) {
        self.agenda.queue_changed = true;
        for uid in self.occupancy.by_node.listed(name) {
            let done = self.slots().settle(&uid);
            self.agenda.heed(done);
        }
        // Bindings go by name: those that were sent to another node of this name may take effect on
        // this one.
        for uid in self.occupancy.by_node.all(name) {
            let is_stale = |allocation: &&mut Allocation| {
                allocation.node == *name && !valid(&self.planner.cluster, allocation)
            };
            if let Some(member) = self.jobs.members.get_mut(&uid)
                && let Some(sent) = member.stage.allocation_mut().filter(is_stale)
            {
                let terms = (sent.end, sent.tenancy);
                let charged =
                    self.planner.ledger.charge(&mut self.planner.cluster, name, &sent.shape, terms);
                if let Some(charged) = charged {
                    self.planner.ledger.house(&mut self.planner.cluster, &charged, &member.pod);
                    *sent = charged;
                }
            }
        }
        self.look_at_jobs_on(name);
    }

    /// What was taken on a node is gone with it. Its pods are removed by others in time.
    fn node_is_void(&mut self, name: &NodeName) {
        self.agenda.queue_changed = true;
        let (mut lost, now) = (Vec::new(), self.clock.now);
        for uid in self.occupancy.by_node.all(name) {
            if let Some(foreign) = self.occupancy.foreign.get_mut(&uid) {
                foreign.allocation.take_if(|allocation| allocation.node == *name);
            }
            let is_there = |member: &&mut Member| {
                member.allocation().is_some_and(|allocation| allocation.node == *name)
            };
            let Some(member) = self.jobs.members.get_mut(&uid).filter(is_there) else { continue };
            self.agenda.touched.insert(member.job);
            let sent =
                member.is_in_doubt(now) || member.stage.is_binding() || member.stage.is_bound();
            if sent && member.pod.node.is_none() {
                // The allocation says where to, in case that a node of the name comes.
                continue;
            }
            if member.stage.is_unsent() {
                lost.push(uid);
            } else {
                drop(self.slots().take_allocation(&uid));
            }
        }
        for uid in lost {
            let done = self.slots().lose_slot(&uid, &format!("node {name} is gone"));
            self.agenda.heed(done);
        }
        for id in &self.jobs.retaining {
            let Some(job) = self.jobs.all.get_mut(id) else { continue };
            let before = job.retained.len();
            job.retained.retain(|retained| retained.allocation.node != *name);
            if job.retained.len() != before {
                self.agenda.touched.insert(*id);
            }
        }
    }

    // --- controllers ---

    pub(crate) fn controller(&mut self, made_by: Arc<Controller>) {
        let uid = made_by.id.uid.clone();
        let before = self.jobs.put_controller(&made_by);
        let is_new = before.is_none();
        let ends = |made_by: &Controller| (made_by.walltime.clone(), made_by.deadline);
        let has_other_ends = before.is_some_and(|before| ends(&before) != ends(&made_by));
        for id in self.jobs_of(&made_by) {
            self.agenda.touched.insert(id);
            self.jobs.note_waves(id, uid.clone());
            if has_other_ends {
                // Also what runs: as if it was wished in the FluxJob.
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
            let jobs = self.jobs_of(&made_by);
            for id in &jobs {
                self.jobs.note_waves(*id, uid.clone());
            }
            self.agenda.touched.extend(jobs);
        }
    }

    /// The jobs whose size or end depends on this object.
    fn jobs_of(&self, made_by: &Controller) -> Vec<JobId> {
        let uids = [Some(&made_by.id.uid), made_by.owner.as_ref().map(|owner| &owner.uid)];
        let identity =
            |uid: &Uid| Identity::Controller(Arc::clone(&made_by.id.key.namespace), uid.clone());
        let jobs = uids
            .into_iter()
            .flatten()
            .filter_map(|uid| self.jobs.by_identity.get(&identity(uid)).copied());
        jobs.chain(self.jobs.groups_of(made_by)).collect()
    }

    // --- the end of the first lists ---

    /// Everything has been listed: pods find their jobs, jobs their records, gangs their
    /// placements. Not before the first step, since what has happened up to then counts.
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
        self.recovery().find_who_is_to_begin();
        if self.intake.awaiting_owner.len() > 0 {
            self.queueing().counts_are_unsure_for(crate::members::attaching::OWNER_WAIT_MILLIS);
        }
        // How far the server's clock is from ours may have come after the pods.
        for uid in self.occupancy.foreign.keys().cloned().collect::<Vec<Uid>>() {
            self.slots().plan_foreign_end_anew(&uid);
        }
        self.recovery().sort_out_strays();
        self.agenda
            .timers
            .wake(Timer::Audit, self.clock.now.plus_millis(crate::cycle::audit::ROUND_MILLIS));
        self.agenda.queue_changed = true;
    }
}

impl Core {
    // --- events ---

    /// A queue is there, or has changed.
    pub(crate) fn queue_object(&mut self, queue: &Arc<QueueObject>) {
        let is_first = !self.queues.is_any_object();
        if let Some(policy) = self.queues.unserved_policy(queue) {
            let (name, policy) = (&queue.name, policy.as_str());
            tracing::warn!(%name, policy, "this Fluxion library keeps no reservations: the queue is walked as fcfs");
        }
        if self.queues.put(queue) {
            self.agenda.lost.queue_has_changed(&queue.name);
            // The first one makes queues of what was one, and that of services takes these from
            // others.
            let concerns_all = is_first || *queue.name == *names::QUEUE_SERVICES;
            self.queueing().look_at_jobs(|job| concerns_all || job.queue.is(&queue.name));
        }
        self.queueing().note_queues_soon();
    }

    /// A queue is gone.
    pub(crate) fn queue_object_gone(&mut self, name: &str) {
        self.queues.remove(name);
        self.agenda.lost.queue_is_gone(name);
        self.queueing().look_at_jobs(|job| job.queue.is(name));
        if *self.queues.policies() == Policies::FirstComeFirstServed {
            self.promise_keeping().withdraw_all_promises();
        }
    }

    /// A namespace is there, or has changed.
    pub(crate) fn namespace(&mut self, namespace: &Arc<Namespace>) {
        if self.queues.put_namespace(namespace) {
            self.queueing().look_at_jobs(|job| job.key.namespace == namespace.name);
            self.stand_ins().stand_in_for_all(|made_by| made_by.id.key.namespace == namespace.name);
        }
    }
}
