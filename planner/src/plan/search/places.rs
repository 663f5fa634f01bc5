//! Requests with pods that need more of a node than room: volumes that are still to be found or
//! made, or that count towards the number that a node attaches.
//!
//! The graph places by room; then each pod is checked on its node, one after the other. A pod that
//! cannot have its volumes there beside the others is kept from that node, and the graph gets the
//! question again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{better_parts, proposals};
use crate::plan::group::Group;
use crate::plan::pods::Pods;
use crate::plan::request::Request;
use crate::plan::room::Room;
use fluxqueue_machine::cluster::Node;
use fluxqueue_machine::cluster::volumes::Volumes;
use fluxqueue_machine::defect::OrDefect;
use fluxqueue_machine::fluxion::{Fit, Rank, RankSet};
use fluxqueue_machine::ledger::{Allocation, Allocations, Slice, SlotRequest};
use fluxqueue_workload::{Pod, Uid};

/// Questions to the graph at most for one request.
const TRIES: usize = 32;

/// Takes slots for all pods, with their volumes where they need some.
pub(crate) fn place(room: &mut Room<'_>, request: &Request, nodes: &[RankSet]) -> Fit<Allocations> {
    if request.rests_on_volumes() {
        return place_with_volumes(room, request, nodes);
    }
    better_parts::place(room, request, nodes)
}

/// Takes slots for all pods, and chooses volumes for them.
fn place_with_volumes(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
) -> Fit<Allocations> {
    let (mut asked, mut within) = (request.clone(), nodes.to_vec());
    let mut told_apart = ToldApart::default();
    for _ in 0..TRIES {
        let slots = match better_parts::place(room, &asked, &within) {
            Fit::Placed(slots) => slots,
            // The nodes closed to some pods may keep out a request that would fit in another
            // way.
            Fit::NotNow if asked.groups.len() > request.groups.len() => break,
            other => {
                told_apart.forget(room.cluster.volumes_mut());
                return other;
            }
        };
        // There is room for all of them: volumes are for one pod each.
        told_apart.all_of(&mut asked, room.cluster.volumes_mut());
        let mut by_pod = by_pod(&asked, slots);
        let (seats, together) = on_nodes(room, by_pod.iter().map(|(uid, slot)| (uid, slot.rank)));
        let misfits = room.cluster.volumes_mut().choose(&seats, &together);
        if misfits.is_empty() {
            return Fit::Placed(told_apart.in_order(request, &mut by_pod));
        }
        for uid in &misfits {
            keep_away(&mut asked, &mut within, uid, by_pod[uid].rank);
        }
        for slot in by_pod.into_values() {
            room.ledger.free(room.cluster, slot);
        }
        if within.iter().any(RankSet::is_empty) {
            break;
        }
    }
    told_apart.forget(room.cluster.volumes_mut());
    Fit::NotFound
}

/// Nodes for all pods by a trial alone, such that each could have its volumes beside the
/// others. Nothing is chosen.
pub(crate) fn nodes_by_trial(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
    ranks: &[Rank],
) -> Option<RankSet> {
    let (mut asked, mut within) = (request.clone(), nodes.to_vec());
    let mut told_apart = ToldApart::default();
    let mut found = None;
    for _ in 0..TRIES {
        let Some(seats) = proposals::seats_by_trial(room, &asked, &within, ranks) else { break };
        if request.rests_on_volumes() && told_apart.all_of(&mut asked, room.cluster.volumes_mut()) {
            continue;
        }
        let misfits = if request.rests_on_volumes() { misfits(room, &seats) } else { Vec::new() };
        if misfits.is_empty() {
            found = Some(seats.into_iter().map(|(_, rank)| rank).collect());
            break;
        }
        for (uid, rank) in seats.iter().filter(|(uid, _)| misfits.contains(uid)) {
            keep_away(&mut asked, &mut within, uid, *rank);
        }
    }
    told_apart.forget(room.cluster.volumes_mut());
    found
}

fn misfits(room: &mut Room<'_>, seats: &[(Uid, Rank)]) -> Vec<Uid> {
    let (seats, together) = on_nodes(room, seats.iter().map(|(uid, rank)| (uid, *rank)));
    room.cluster.volumes_mut().misfits(&seats, &together)
}

/// Returns these pods, each with its node, and the set of all of them.
fn on_nodes<'a>(
    room: &Room<'_>,
    seats: impl Iterator<Item = (&'a Uid, Rank)>,
) -> (Vec<(Uid, Arc<Node>)>, BTreeSet<Uid>) {
    let node =
        |(uid, rank): (&Uid, Rank)| Some((uid.clone(), Arc::clone(room.cluster.node(rank)?)));
    let seats: Vec<(Uid, Arc<Node>)> = seats.filter_map(node).collect();
    let together = seats.iter().map(|(uid, _)| uid.clone()).collect();
    (seats, together)
}

/// Pods that stand alone in a request. A volume is for one pod: once there is room for all pods of
/// a request, each pod that stood for several is split into these. So there are never more than the
/// machine can hold.
#[derive(Default)]
struct ToldApart {
    /// The request, with each pod by itself.
    request: Option<Request>,
    /// The pods that exist here alone.
    uids: Vec<Uid>,
}

impl ToldApart {
    /// True if some were not told apart before.
    fn all_of(&mut self, asked: &mut Request, volumes: &mut Volumes) -> bool {
        if self.request.is_some()
            || !asked.groups.iter().flat_map(|group| &group.pods).any(Pods::are_alike)
        {
            return false;
        }
        let before: BTreeSet<Uid> = asked.all_pods().map(|pod| pod.id.uid.clone()).collect();
        asked
            .groups
            .iter_mut()
            .flat_map(|group| &mut group.pods)
            .for_each(|pods| *pods = pods.told_apart());
        let new: Vec<&Arc<Pod>> =
            asked.all_pods().filter(|pod| !before.contains(&pod.id.uid)).collect();
        volumes.note_for_now(&new);
        self.uids = new.into_iter().map(|pod| pod.id.uid.clone()).collect();
        self.request = Some(asked.clone());
        true
    }

    /// The slots as the request asks for them.
    fn in_order(&self, request: &Request, by_pod: &mut BTreeMap<Uid, Allocation>) -> Allocations {
        in_order(self.request.as_ref().unwrap_or(request), by_pod)
    }

    /// Nothing has come of it.
    fn forget(self, volumes: &mut Volumes) {
        volumes.forget_for_now(&self.uids);
    }
}

/// The slot of each pod.
fn by_pod(request: &Request, slots: Allocations) -> BTreeMap<Uid, Allocation> {
    let groups = request.groups.iter().zip(slots);
    let wants = groups.flat_map(|(group, of_group)| group.pods.iter().zip(of_group));
    wants
        .flat_map(|(pods, of_want)| pods.iter().map(|pod| pod.id.uid.clone()).zip(of_want))
        .collect()
}

/// The slots as the request asks for them.
fn in_order(request: &Request, by_pod: &mut BTreeMap<Uid, Allocation>) -> Allocations {
    let of_want = |pods: &Pods, by_pod: &mut BTreeMap<Uid, Allocation>| -> Vec<Allocation> {
        pods.iter().filter_map(|pod| by_pod.remove(&pod.id.uid)).collect()
    };
    let groups = request.groups.iter();
    groups.map(|group| group.pods.iter().map(|pods| of_want(pods, by_pod)).collect()).collect()
}

/// The pod becomes a group of its own that may not use this node.
fn keep_away(request: &mut Request, nodes: &mut Vec<RankSet>, uid: &Uid, rank: Rank) {
    let place = request.groups.iter().enumerate().find_map(|(at, group)| {
        let find = |pods: &Pods| pods.iter().position(|pod| pod.id.uid == *uid);
        group.pods.iter().enumerate().find_map(|(want, pods)| Some((at, want, find(pods)?)))
    });
    let Some((at, want, pod)) = place.or_defect("the request does not ask for the pod") else {
        return;
    };
    let group = &mut request.groups[at];
    let is_alone = group.pods.iter().map(Pods::len).sum::<usize>() == 1;
    if is_alone {
        nodes[at].remove(rank);
        return;
    }
    let shape = Arc::clone(&group.wants[want].shape);
    let slices = take_from(&mut group.wants[want].slices, pod);
    let pod = group.pods[want].remove(pod);
    group.wants[want].count -= 1;
    let mut own = Pods::with_capacity(1);
    own.add(&pod, 1);
    let alone = Group {
        wants: vec![SlotRequest { slices, ..SlotRequest::new(shape, 1) }],
        pods: vec![own],
        lifetime: group.lifetime,
        lifetime_later: group.lifetime_later,
        sample: pod,
        stance: group.stance.clone(),
        company: group.company,
        queue: group.queue,
        volumes: group.volumes.clone(),
        levels: group.levels.clone(),
        tenancy: group.tenancy,
        queue_nodes: group.queue_nodes.clone(),
    };
    if group.wants[want].count == 0 {
        group.wants.remove(want);
        group.pods.remove(want);
    }
    let mut left = nodes[at].clone();
    left.remove(rank);
    request.groups.push(alone);
    nodes.push(left);
}

/// Takes the pod at this place out of the slices of its want: it stays of the one that it was of.
fn take_from(slices: &mut Vec<Slice>, pod: usize) -> Vec<Slice> {
    let mut last = 0;
    let of_it = slices.iter_mut().find(|slice| {
        last += slice.count;
        pod < last
    });
    let taken = of_it.map(|slice| {
        slice.count -= 1;
        Slice { number: slice.number, count: 1 }
    });
    slices.retain(|slice| slice.count > 0);
    taken.into_iter().collect()
}
