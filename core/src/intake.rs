//! Events into state: nodes, pods, their controllers.
//!
//! Nothing is decided here; what may matter is marked (`touched`, `queue_changed`, the ledger's
//! changes).

use std::sync::Arc;

use crate::jobs::awaiting_owner::AwaitingOwner;
use crate::jobs::job::{Identity, Member, PodOrder};
use crate::jobs::stage::Cause;
use crate::jobs::unsorted::Unsorted;
use crate::occupancy::Foreign;
use crate::parts::{Members, Sight};
use crate::sound::{Lookup, Sound};
use crate::{Core, EventKind, Subject, Timer};
use fluxqueue_api::{EventReason, names, text};
use fluxqueue_machine::cluster::{Node, NodeChange};
use fluxqueue_machine::fluxion::NOT_A_VERTEX;
use fluxqueue_machine::ledger::{Allocation, valid};
use fluxqueue_planner::plan::Policies;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{Controller, NodeName, ObjectRef, Phase, Pod, Time, Uid, Unsupported};

/// How old a pod of the first lists is that an earlier process has told that our gate on it means
/// nothing: longer than a Lease is without a leader.
const TOLD_SECS: u64 = 30;

/// What the first lists bring, and pods of ours that have no job yet.
#[derive(Default)]
pub(crate) struct Intake {
    /// True once the first lists are complete.
    pub listed: bool,
    /// The pods of ours from these lists: which jobs they belong to is decided when all lists are
    /// complete.
    pub unsorted: Unsorted,
    /// True once the first lists have been taken up.
    pub synced: bool,
    /// True while what was there at the start is looked at for the first time.
    pub taking_over: bool,
    /// Until this time a new process may count what it found in its queue in another way than it
    /// did before: pods of which it is not known yet what they are a part of, and slots that may
    /// have been given back. Nothing is said of queues until then.
    pub counts_are_sure_from: Time,
    /// Pods of ours whose controller has not been seen, and until when it is waited for.
    pub awaiting_owner: AwaitingOwner,
}

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
            self.queueing().counts_are_unsure_for(crate::jobs::attach::OWNER_WAIT_MILLIS);
        }
        // How far the server's clock is from ours may have come after the pods.
        for uid in self.occupancy.foreign.keys().cloned().collect::<Vec<Uid>>() {
            self.slots().plan_foreign_end_anew(&uid);
        }
        self.recovery().sort_out_strays();
        self.agenda
            .timers
            .wake(Timer::Audit, self.clock.now.plus_millis(crate::audit::ROUND_MILLIS));
        self.agenda.queue_changed = true;
    }
}

impl Members<'_> {
    // --- pods ---

    pub(crate) fn pod(&mut self, pod: Arc<Pod>) -> Sound {
        let ours = self.settings.scheduler_names.contains(&pod.scheduler);
        if !ours {
            self.foreign_pod(pod);
            return Ok(());
        }
        let pod = self.sight().refused_by_machine(pod);
        if self.jobs.members.contains_key(&pod.id.uid) {
            self.member_changed(pod)?;
        } else {
            self.new_member(pod)?;
        }
        Ok(())
    }

    pub(crate) fn pod_gone(&mut self, id: &ObjectRef) -> Sound {
        self.agenda.timers.forget_pod(&id.uid);
        self.intake.unsorted.remove(&id.uid);
        if let Some(awaiting_owner) = self.intake.awaiting_owner.remove(&id.uid) {
            self.occupancy.by_node.unlist(&awaiting_owner.pod);
        }
        if let Some(foreign) = self.occupancy.foreign.remove(&id.uid) {
            self.slots().free_allocation(foreign.allocation);
            self.occupancy.by_node.unlist(&foreign.pod);
        }
        self.slots().forget_volumes(&id.uid);
        if self.jobs.members.contains_key(&id.uid) {
            self.slots().end(&id.uid, Cause::Deleted)?;
            if let Some(member) = self.jobs.members.remove(&id.uid) {
                self.occupancy.by_node.unlist(&member.pod);
                self.intake.awaiting_owner.forget_orphan(&member.pod);
                self.agenda.touched.insert(member.job);
                if let Some(job) = self.jobs.all.get_mut(&member.job) {
                    job.members.remove(&id.uid);
                    if member.pod.phase == Phase::Succeeded {
                        // Its controller has counted it by now, or never will.
                        job.succeeded = job.succeeded.saturating_sub(1);
                    }
                }
            }
        }
        Ok(())
    }

    fn foreign_pod(&mut self, pod: Arc<Pod>) {
        let uid = pod.id.uid.clone();
        let gated = pod.gates.iter().any(|gate| **gate == *names::GATE);
        let known = self.occupancy.foreign.get_mut(&uid);
        let reported = known.as_ref().is_some_and(|known| known.reported);
        let (old, old_allocation) = match known {
            Some(known) => {
                (Some(std::mem::replace(&mut known.pod, Arc::clone(&pod))), known.allocation.take())
            }
            None => {
                let foreign = Foreign { pod: Arc::clone(&pod), allocation: None, reported: gated };
                self.occupancy.foreign.insert(uid.clone(), foreign);
                (None, None)
            }
        };
        let has_begun = old.as_ref().is_some_and(|old| old.started != pod.started);
        if let Some(old) = old {
            self.occupancy.by_node.unlist(&old);
        }
        self.occupancy.by_node.list(&pod);
        let planned = self.sight().pod_end(&pod);
        let tenancy = self.sight().tenancy_of_others(&pod);
        let allocation = self.slots().allocation_in_place(&pod, old_allocation, planned, tenancy);
        self.agenda.watch_end_of(&uid, allocation.as_ref());
        if let Some(foreign) = self.occupancy.foreign.get_mut(&uid) {
            foreign.allocation = allocation;
            foreign.reported |= gated;
        }
        self.slots().note_volumes(&uid);
        if has_begun {
            self.slots().plan_foreign_end_anew(&uid);
        }
        // What was there when this process began, and not just made, was told by an earlier one.
        let since = self.clock.core(pod.created).plus_secs(TOLD_SECS);
        let was_told = reported || (!self.intake.listed && since < self.clock.now);
        if gated && !was_told {
            let text = format!(
                "gate {:?} is left alone: the pod's scheduler is {}, and a pod is only scheduled here if \
                 spec.schedulerName is one of {}",
                names::GATE,
                text::quoted(&pod.scheduler),
                self.served_names(),
            );
            let reporter = self
                .settings
                .scheduler_names
                .first()
                .cloned()
                .unwrap_or_else(|| Arc::from("fluxqueue"));
            self.agenda.note(
                Subject::Pod(pod.id.clone()),
                EventKind::Warning,
                EventReason::GateIgnored.as_str(),
                "Scheduling",
                text,
                &reporter,
            );
        }
    }

    fn served_names(&self) -> String {
        self.settings
            .scheduler_names
            .iter()
            .map(|name| format!("{name:?}"))
            .collect::<Vec<_>>()
            .join(", ")
    }

    fn member_changed(&mut self, pod: Arc<Pod>) -> Sound {
        let uid = pod.id.uid.clone();
        let member = self.jobs.members.known_mut(&uid)?;
        let old = std::mem::replace(&mut member.pod, Arc::clone(&pod));
        let job = member.job;
        if let Some(job) = self.jobs.all.get_mut(&job)
            && let Some(uid) = job.live.remove(&PodOrder::of(&old))
        {
            job.live.insert(PodOrder::of(&pod), uid);
        }
        if old.owner != pod.owner {
            self.jobs.note_controller(job, &pod)?;
            self.intake.awaiting_owner.forget_orphan(&old);
        }
        // That it runs now, or is ready, changes nothing here.
        let asks_otherwise = asks_otherwise(&old, &pod);
        if asks_otherwise || old.deleting != pod.deleting || pod.phase.is_terminal() {
            self.agenda.touched.insert(job);
        }
        if old.node != pod.node || old.nominated != pod.nominated {
            self.occupancy.by_node.unlist(&old);
            self.occupancy.by_node.list(&pod);
        }
        if pod.phase.is_terminal() {
            let cause = match pod.phase {
                Phase::Succeeded => Cause::Succeeded,
                Phase::Refused { .. } => Cause::Refused,
                Phase::Disrupted { .. } => Cause::Disrupted,
                _ => Cause::Failed,
            };
            self.slots().end(&uid, cause)?;
            return Ok(());
        }
        if let Some(node) = &pod.node {
            if pod.phase == Phase::Running && old.phase != pod.phase {
                self.occupancy.suspects.forget_refusals(node);
            }
            self.slots().settle(&uid)?;
            // While it did not run it was planned for so much longer.
            let had_slack = old.phase != pod.phase && self.settings.start_slack_secs > 0;
            if old.lifetime != pod.lifetime {
                self.slots().plan_end_by_wish(job, &uid)?;
            } else if old.started != pod.started || had_slack {
                self.slots().plan_end_anew(&uid)?;
            }
            return Ok(());
        }
        let member = self.jobs.members.known_mut(&uid)?;
        if let Some(allocation) = member.allocation() {
            // Others may see it differently by its labels.
            self.planner.ledger.house(&mut self.planner.cluster, allocation, &pod);
        }
        let stage = &member.stage;
        if stage.is_binding() && pod.deleting {
            // A Binding that has not taken effect by now never will.
            self.slots().end(&uid, Cause::Deleted)?;
        } else if stage.is_unsent() && pod.deleting {
            self.slots().lose_slot(&uid, &format!("pod {} is being deleted", pod.id))?;
        } else if stage.is_unsent() && asks_for_another_node(&old, &pod) {
            self.slots().lose_slot(&uid, &format!("pod {} asks for something else now", pod.id))?;
        } else if stage.is_waiting() && asks_otherwise {
            self.agenda.queue_changed = true;
        }
        let is_waiting =
            self.jobs.members.get(&uid).is_some_and(|member| member.stage.is_waiting());
        if is_waiting && (old.group != pod.group || old.owner != pod.owner) {
            // It may be a part of something else now.
            self.regroup(&uid)?;
        }
        self.slots().see_to_nomination(&uid)?;
        Ok(())
    }
}

impl Sight<'_> {
    /// What no graph of the library in use has or can hold, and levels that this machine has not,
    /// are as unsupported as what Fluxqueue itself does not honour.
    pub(crate) fn refused_by_machine(&self, pod: Arc<Pod>) -> Arc<Pod> {
        let no_vertex =
            self.planner.ledger.refuses(&pod.shape.requests).map(|resource| Unsupported {
                field: format!("spec.containers[*].resources.requests[{resource}]"),
                message: NOT_A_VERTEX.to_owned(),
            });
        let no_level = self.level_trouble(&pod.levels);
        let ignored: Vec<&str> = self.ignored_levels(&pod.levels).collect();
        let no_tenants = self.exclusive_trouble(&pod);
        if no_vertex.is_none() && no_level.is_none() && no_tenants.is_none() && ignored.is_empty() {
            return pod;
        }
        let mut refused = Pod::clone(&pod);
        refused.unsupported.extend(no_vertex.into_iter().chain(no_level).chain(no_tenants));
        refused.soft_ignored.extend(ignored);
        Arc::new(refused)
    }
}

/// True if a pod asks for something else than before, or is to be placed in another way. What a
/// field means is said here for each, so that none is forgotten: the others say where it is in its
/// life, or never change.
fn asks_otherwise(old: &Pod, new: &Pod) -> bool {
    let Pod {
        resource_version: _,
        id: _,
        scheduler: _,
        node: _,
        nominated: _,
        phase: _,
        deleting: _,
        gates,
        owner,
        group,
        completion_index,
        priority,
        created: _,
        started: _,
        ended: _,
        labels,
        shape,
        levels,
        exclusive,
        claims,
        lifetime,
        grace_secs,
        unsupported,
        soft_ignored,
        scheduled_condition: _,
        stands_in: _,
        charged_queue: _,
    } = new;
    (&old.gates, &old.owner, &old.group, old.completion_index)
        != (gates, owner, group, *completion_index)
        || (old.priority, &old.labels, &old.shape, &old.levels)
            != (*priority, labels, shape, levels)
        || (old.exclusive, &old.claims, old.lifetime, old.grace_secs)
            != (*exclusive, claims, *lifetime, *grace_secs)
        || (&old.unsupported, &old.soft_ignored) != (unsupported, soft_ignored)
}

/// True if the node that a pod was given may not be what it asks for any more, or it may belong to
/// another job.
fn asks_for_another_node(old: &Pod, new: &Pod) -> bool {
    (&old.shape, &old.levels, &old.claims) != (&new.shape, &new.levels, &new.claims)
        || (&old.group, &old.owner, old.exclusive) != (&new.group, &new.owner, new.exclusive)
}
