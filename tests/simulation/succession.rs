//! A successor's duty to a gang that it finds half bound: it finishes the gang where its placement
//! says, if it still fits there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::{ConditionType, DegradedReason, PlacementRange, conditions};
use fluxqueue_core::{Action, ActionKind};
use fluxqueue_workload::{NodeName, ObjectRef, Pod, Time, Uid};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::jobs::{self, Unit};
use crate::room;
use crate::seating;
use crate::server::{Server, flux_job_ref};
use crate::view::View;
use crate::violation::{Violation, broken};

/// Gangs that were half bound when the last process died.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    gangs: BTreeMap<Unit, HalfBound>,
}

#[derive(Debug)]
struct HalfBound {
    /// The FluxJob with its placement.
    record: ObjectRef,
    placement: Vec<PlacementRange>,
    /// Slots of the placement that no pod had.
    free: BTreeMap<NodeName, usize>,
    /// Pods that waited.
    waiting: BTreeSet<Uid>,
    /// Pods that were on their nodes. With the first that ends, its slot is free too, and open to
    /// all.
    bound: BTreeSet<Uid>,
}

impl Succession {
    /// Takes up the half-bound gangs that the dead process left.
    pub(crate) fn of(server: &Server, scheduler: &str) -> Self {
        let mut members: BTreeMap<Unit, Vec<&Arc<Pod>>> = BTreeMap::new();
        for pod in server
            .pods
            .values()
            .filter(|pod| *pod.scheduler == *scheduler && !pod.phase.is_terminal())
        {
            members.entry(Unit::of(pod)).or_default().push(pod);
        }
        let gangs = members.into_iter().filter_map(|(unit, pods)| {
            let gang = HalfBound::of(server, &unit, &pods)?;
            Some((unit, gang))
        });
        Succession { gangs: gangs.collect() }
    }

    /// Returns how many gangs wait to be finished.
    pub(crate) fn len(&self) -> usize {
        self.gangs.len()
    }

    /// Judges Bindings of pods that waited then, before the core is known to have requested them.
    pub(crate) fn judge(
        &mut self,
        view: &View,
        now: Time,
        actions: &[Action],
    ) -> Result<(), Violation> {
        if view.synced {
            // Once the gang does not fit in its place, it may go anywhere.
            self.gangs.retain(|_, gang| {
                let pod = gang.waiting.iter().find_map(|uid| view.pods.get(uid));
                let runs = |uid: &Uid| {
                    view.pods.get(uid).is_some_and(|pod| !pod.phase.is_terminal() && !pod.deleting)
                };
                pod.is_some_and(|pod| gang.still_fits(view, pod, now))
                    && gang.bound.iter().all(runs)
            });
        }
        for action in actions {
            let ActionKind::Bind { pod: id, node, .. } = &action.kind else { continue };
            let Some(pod) = view.pods.get(&id.uid) else { continue };
            let unit = Unit::of(pod);
            let Some(gang) = self.gangs.get_mut(&unit) else { continue };
            if !gang.waiting.remove(&id.uid) {
                // The pod has come since, and may take a slot of any other member.
                gang.free.entry(node.clone()).and_modify(|left| *left = left.saturating_sub(1));
                continue;
            }
            if let Some(left) = gang.free.get_mut(node).filter(|left| **left > 0) {
                *left -= 1;
                continue;
            }
            if gang.free.values().all(|left| *left == 0) {
                continue;
            }
            let text = format!("pod {id} goes to {node}, though there is room at {:?}", gang.free);
            return broken("a half-bound gang is finished where its placement says", text);
        }
        Ok(())
    }

    /// Notes that a paused leader has placed a gang again after all: its successor may have learned
    /// of that first, or not.
    pub(crate) fn note_late_write(&mut self, server: &Server, job: &ObjectRef) {
        let stored = server.flux_job(job).and_then(|stored| stored.status.as_ref());
        let placement = stored.map_or(&[][..], |status| &status.placement);
        self.gangs.retain(|_, gang| gang.record.uid != job.uid || gang.placement == placement);
    }

    /// Forgets them: enough time has passed for all of them to be finished.
    pub(crate) fn forget(&mut self) {
        self.gangs.clear();
    }
}

impl HalfBound {
    fn of(server: &Server, unit: &Unit, pods: &[&Arc<Pod>]) -> Option<Self> {
        let records = jobs::records(unit, &server.flux_jobs);
        let [record] = records.as_slice() else { return None };
        let conditions = &record.status.as_ref()?.conditions;
        if conditions::of_type(conditions, ConditionType::Scheduled)
            .is_some_and(|it| it.status == "True")
        {
            // The gang was whole, so a pod that joins it waits in the queue.
            return None;
        }
        let is_stalled = |it: &Condition| {
            it.status == "True" && it.reason != DegradedReason::MemberLost.as_str()
        };
        if conditions::of_type(conditions, ConditionType::Degraded).is_some_and(is_stalled) {
            // The FluxJob says that the gang does not become whole: a missing member waits in the
            // queue, and goes anywhere.
            return None;
        }
        let mut free: BTreeMap<NodeName, usize> = BTreeMap::new();
        let placement = &record.status.as_ref()?.placement;
        for (node, count) in jobs::slots(placement).ok()? {
            free.insert(NodeName::from(node), count);
        }
        let is_plain = |pod: &Pod| {
            pod.gates.is_empty() && !pod.deleting && !pod.shape.constraints.asks_about_pods()
        };
        let alike = pods.iter().all(|pod| seating::are_alike(pod, pods[0]) && is_plain(pod));
        for node in pods.iter().filter_map(|pod| pod.node.as_ref()) {
            *free.get_mut(node)? = free.get(node)?.checked_sub(1)?;
        }
        let (bound, waiting): (Vec<_>, Vec<_>) = pods.iter().partition(|pod| pod.node.is_some());
        let uids = |pods: Vec<&&Arc<Pod>>| {
            pods.iter().map(|pod| pod.id.uid.clone()).collect::<BTreeSet<Uid>>()
        };
        let (bound, waiting) = (uids(bound), uids(waiting));
        let open: usize = free.values().sum();
        let total = usize::try_from(record.status.as_ref()?.total).unwrap_or(0);
        if bound.len() >= total {
            // All members that it had by then are bound: it is whole with them, and a later pod
            // waits in the queue.
            return None;
        }
        (alike && !bound.is_empty() && !waiting.is_empty() && open == waiting.len()).then_some(
            HalfBound {
                record: flux_job_ref(record),
                placement: placement.clone(),
                free,
                waiting,
                bound,
            },
        )
    }

    /// True if all slots that are left could be taken, as far as the core knows.
    fn still_fits(&self, view: &View, pod: &Pod, now: Time) -> bool {
        self.free.iter().filter(|(_, count)| **count > 0).all(|(name, count)| {
            view.nodes.get(name).is_some_and(|node| {
                let others = view.charged(name, now).filter(|other| other.id.uid != pod.id.uid);
                let more = std::iter::repeat_n(pod, count - 1);
                room::barred(node, pod).is_none()
                    && room::shortage(node, others.clone().chain(more), pod).is_none()
                    && room::stranger(others, pod).is_none()
                    && room::repeller(&view.nodes, view.placed(now), node, pod).is_none()
            })
        })
    }
}
