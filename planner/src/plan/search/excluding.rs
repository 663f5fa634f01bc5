//! Pods that are kept from single nodes: each stands for itself then, as a group of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::plan::group::Group;
use crate::plan::pods::Pods;
use crate::plan::request::Request;
use fluxqueue_machine::cluster::volumes::Volumes;
use fluxqueue_machine::defect::OrDefect;
use fluxqueue_machine::fluxion::{Rank, RankSet};
use fluxqueue_machine::ledger::{Slice, SlotRequest};
use fluxqueue_workload::{Pod, Uid};

/// Places of pods, per group and want in the order of the pods.
pub(super) type Places<P> = Vec<Vec<Vec<P>>>;

/// Pods that stand alone in a request. A volume is for one pod: once there is room for all pods of
/// a request, each pod that stood for several is split into these. So there are never more than the
/// machine can hold.
#[derive(Default)]
pub(super) struct ToldApart {
    /// The request, with each pod by itself.
    request: Option<Request>,
    /// The pods that exist here alone.
    uids: Vec<Uid>,
}

impl ToldApart {
    /// Splits the pods of the request that stand for several. The places that were found for them
    /// are those of the new ones, in the same order.
    pub(super) fn all_of(&mut self, asked: &mut Request, volumes: &mut Volumes) {
        if self.request.is_some()
            || !asked.groups.iter().flat_map(|group| &group.pods).any(Pods::are_alike)
        {
            return;
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
    }

    /// The places as the request asks for them.
    pub(super) fn in_order<P>(&self, request: &Request, mut by_pod: BTreeMap<Uid, P>) -> Places<P> {
        let mut of_want = |pods: &Pods| -> Vec<P> {
            pods.iter().filter_map(|pod| by_pod.remove(&pod.id.uid)).collect()
        };
        let groups = self.request.as_ref().unwrap_or(request).groups.iter();
        groups.map(|group| group.pods.iter().map(&mut of_want).collect()).collect()
    }

    /// Forgets the pods that exist here alone.
    pub(super) fn forget(self, volumes: &mut Volumes) {
        volumes.forget_for_now(&self.uids);
    }
}

/// Returns the place of each pod.
pub(super) fn by_pod<P>(request: &Request, places: Places<P>) -> BTreeMap<Uid, P> {
    let groups = request.groups.iter().zip(places);
    let wants = groups.flat_map(|(group, of_group)| group.pods.iter().zip(of_group));
    wants
        .flat_map(|(pods, of_want)| pods.iter().map(|pod| pod.id.uid.clone()).zip(of_want))
        .collect()
}

/// The pod becomes a group of its own that may not use this node.
pub(super) fn keep_away(request: &mut Request, nodes: &mut Vec<RankSet>, uid: &Uid, rank: Rank) {
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
        terms: group.terms.clone(),
        company: group.company,
        queue: group.queue,
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
