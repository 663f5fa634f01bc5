//! The volumes of pods that have a slot, as the machine counts them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::jobs::job::{Job, Style};
use crate::parts::Slots;
use fluxqueue_machine::cluster::{Cluster, Presence, volumes};
use fluxqueue_workload::{NodeName, Pod, Uid};

impl Slots<'_> {
    /// Checks these pods again after a change that they may have waited for.
    pub(crate) fn look_again(&mut self, pods: Vec<Uid>) {
        for uid in pods {
            // Pods of other schedulers wait for volumes too.
            match self.jobs.members.get(&uid) {
                Some(member) if member.stage.is_waiting() => {
                    self.agenda.touched.insert(member.job);
                }
                _ => self.agenda.outbox.add(self.jobs, &uid),
            }
        }
    }

    /// Makes the storage in use agree with a pod that has come or changed, or has another node or
    /// slot than before.
    pub(crate) fn note_volumes(&mut self, uid: &Uid) {
        let (pod, place) = if let Some(foreign) = self.occupancy.foreign.get(uid) {
            let there = foreign.pod.node.as_ref().map(|node| (node, Presence::There));
            let nominated = foreign.pod.nominated.as_ref().map(|node| (node, Presence::Nominated));
            (&foreign.pod, there.or(nominated))
        } else if let Some(member) = self.jobs.members.get(uid) {
            let slot = member.allocation().map(|allocation| &allocation.node);
            let node = slot.or(member.pod.node.as_ref()).filter(|_| !member.stage.has_ended());
            (&member.pod, node.map(|node| (node, Presence::There)))
        } else {
            return;
        };
        if !volumes::concern(pod) {
            return;
        }
        let (pod, place) =
            (Arc::clone(pod), place.map(|(node, presence)| (node.clone(), presence)));
        let has_ended = pod.phase.is_terminal()
            || self.jobs.members.get(uid).is_some_and(|member| member.stage.has_ended());
        let volumes = self.planner.cluster.volumes_mut();
        let concerned = if has_ended {
            volumes.forget_pod(uid)
        } else {
            volumes.note_pod(&pod);
            match place {
                Some((node, Presence::There)) => volumes.place(uid, &node),
                Some((node, Presence::Nominated)) => volumes.nominate(uid, &node),
                None => volumes.release(uid),
            }
        };
        self.look_again(concerned);
    }

    /// Forgets the volumes of a pod that is gone.
    pub(crate) fn forget_volumes(&mut self, uid: &Uid) {
        if !self.planner.cluster.volumes().is_idle() {
            let concerned = self.planner.cluster.volumes_mut().forget_pod(uid);
            self.look_again(concerned);
        }
    }
}

/// Chooses volumes for a pod of a job that has been given a slot on this node, if they were not
/// chosen with the slot.
pub(crate) fn choose_volumes(cluster: &mut Cluster, job: &Job, pod: &Pod, node: &NodeName) {
    let uid = &pod.id.uid;
    let is_chosen = cluster.volumes().choice(uid).is_some_and(|choice| choice.node == *node);
    if !volumes::concern(pod) || is_chosen {
        return;
    }
    let alone = BTreeSet::new();
    let together = if job.style == Style::Gang { &job.pods.all } else { &alone };
    if let Some(node) = cluster.node_named(node).cloned() {
        // If the volumes cannot be had there, the pod does not fit when its turn comes.
        cluster.volumes_mut().choose(&[(uid.clone(), node)], together);
    }
}
