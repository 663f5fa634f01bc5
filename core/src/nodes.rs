//! Nodes as they come, change and go.

use std::sync::Arc;

use crate::agenda::Agenda;
use crate::intake::Intake;
use crate::jobs::clock::Clock;
use crate::jobs::member::Member;
use crate::jobs::registry::Jobs;
use crate::occupancy::Occupancy;
use crate::records::Records;
use crate::settings::CoreSettings;
use crate::telling::lost::NodeLoss;
use fluxqueue_machine::cluster::{Node, NodeChange};
use fluxqueue_machine::ledger::{Allocation, valid};
use fluxqueue_machine::table::Table;
use fluxqueue_planner::Planner;
use fluxqueue_planner::queue::JobId;
use fluxqueue_planner::queues::Queues;
use fluxqueue_workload::device_class::DeviceClass;
use fluxqueue_workload::{NodeName, Pod, Uid};

/// Takes up nodes as they come, change and go, with the consequences for the pods on them.
pub(crate) struct Nodes<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub intake: &'a Intake,
    pub jobs: &'a mut Jobs,
    pub records: &'a mut Records,
    pub planner: &'a mut Planner,
    pub queues: &'a mut Queues,
    pub occupancy: &'a mut Occupancy,
    pub agenda: &'a mut Agenda,
}

impl Nodes<'_> {
    // --- nodes ---

    pub(crate) fn node(&mut self, node: &Arc<Node>) {
        let is_moved = self.sight().is_moved(node);
        self.agenda.lost.is_any = true;
        let before = self.planner.cluster.node_named(&node.name).cloned();
        let change = self.planner.ledger.apply_node(&mut self.planner.cluster, node);
        if !matches!(change, NodeChange::Same) {
            for node in before.iter().chain([node]) {
                self.agenda.touched.extend(self.jobs.classes.devices.concerned_by(node));
            }
        }
        match change {
            NodeChange::Added(_) => {
                self.node_is_new(&node.name);
                self.binding().note_nodes_of_volumes();
            }
            NodeChange::Replaced { old, .. } => {
                self.agenda.lost.node(old, &node.name, NodeLoss::Gone);
                self.node_is_void(&node.name);
                self.node_is_new(&node.name);
            }
            NodeChange::Changed { rank, resized } => {
                if let Some(before) = before {
                    self.agenda.lost.node_has_changed(rank, &before, node);
                }
                self.agenda.queue_changed = true;
                // Pods that join a job follow the pods that are there, and a job that has the node
                // alone is charged all of it.
                if is_moved || !resized.is_empty() {
                    self.look_at_jobs_on(&node.name);
                }
            }
            NodeChange::Same => {}
        }
    }

    pub(crate) fn node_gone(&mut self, name: &NodeName, uid: &Uid) {
        let cluster = &self.planner.cluster;
        let known = cluster.rank(name).and_then(|rank| Some((rank, cluster.node(rank)?)));
        // Another node may have its name by now.
        let Some((rank, node)) = known.filter(|(_, node)| node.uid == *uid) else { return };
        self.agenda.touched.extend(self.jobs.classes.devices.concerned_by(node));
        self.agenda.lost.is_any = true;
        self.agenda.lost.node(rank, name, NodeLoss::Gone);
        self.occupancy.suspects.forget_refusals(name);
        self.planner.ledger.remove_node(&mut self.planner.cluster, name);
        self.node_is_void(name);
        self.binding().note_nodes_of_volumes();
    }

    /// Refreshes the jobs that have pods on a node.
    pub(crate) fn look_at_jobs_on(&mut self, name: &NodeName) {
        let there = self.occupancy.by_node.all(name);
        self.agenda
            .touched
            .extend(there.iter().filter_map(|uid| Some(self.jobs.members.get(uid)?.job)));
    }

    /// Counts the pods that came before their node.
    pub(crate) fn node_is_new(&mut self, name: &NodeName) {
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

    /// Drops the allocations on a node that is gone. Its pods are removed by other controllers in
    /// time.
    pub(crate) fn node_is_void(&mut self, name: &NodeName) {
        self.agenda.queue_changed = true;
        let (mut lost, now) = (Vec::new(), self.clock.now);
        for uid in self.occupancy.by_node.all(name) {
            if let Some(foreign) = self.occupancy.foreign.get_mut(&uid) {
                foreign.allocation.take_if(|allocation| allocation.node == *name);
            }
            let is_there = |member: &&mut Member| {
                member.allocation().is_some_and(|allocation| allocation.node == *name)
            };
            // Pods that name the node as their own need not have a slot there.
            let Some(member) = self.jobs.members.get_mut(&uid).filter(is_there) else { continue };
            self.agenda.touched.insert(member.job);
            let sent =
                member.is_in_doubt(now) || member.stage.is_binding() || member.stage.is_bound();
            if sent && member.pod.node.is_none() {
                // The allocation keeps the name of the node, in case another node of that name
                // comes.
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
            if let Some(job) = self.jobs.all.get_mut(id) {
                let lost = job.start.unretain(|slot| slot.allocation.node == *name);
                if !lost.is_empty() {
                    self.agenda.touched.insert(*id);
                }
            }
        }
    }

    /// Takes up a DeviceClass that is new or has changed.
    pub(crate) fn device_class(&mut self, class: Arc<DeviceClass>) {
        let concerned = self.jobs.classes.devices.put(class, waiting(&self.jobs.members));
        self.agenda.touched.extend(concerned);
    }

    /// Removes a DeviceClass that is gone.
    pub(crate) fn device_class_gone(&mut self, name: &str) {
        let concerned = self.jobs.classes.devices.remove(name, waiting(&self.jobs.members));
        self.agenda.touched.extend(concerned);
    }
}

/// Iterates over the waiting pods, with their jobs.
fn waiting(members: &Table<Uid, Member>) -> impl Iterator<Item = (JobId, &Pod)> {
    let waiting = members.values().filter(|member| member.stage.is_waiting());
    waiting.map(|member| (member.job, &*member.pod))
}
