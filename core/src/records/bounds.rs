//! The capacity of a FluxJob: which gangs are refused because their record could not fit, and how a
//! status is summarized so that it fits.
//!
//! The API server refuses a status that breaks the schema, and etcd an object that is too large.
//! The placement of a gang is written before its first Binding: one that can never be written would
//! keep nodes for ever. So a gang with a record that might not fit is refused before it is placed,
//! and every part of a status except placement and reservation gives way.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use fluxqueue_api::fluxjob::{NODE_LIST_BYTES_MAX, POD_SETS_MAX, REQUESTS_MAX, STATUS_BYTES_MAX};
use fluxqueue_api::{FluxJobStatus, PodSet, placement};

use crate::jobs::member::Member;
use fluxqueue_machine::cluster::Cluster;
use fluxqueue_workload::Shape;

/// The size of the longest name of a node, in bytes, with its separator from the next.
const NODE_NAME_BYTES_MAX: usize = fluxqueue_api::text::NAME_BYTES_MAX + 1;

/// The number of pod sets that are described in full in a status without room for all.
const POD_SETS_KEPT: usize = 16;

/// The size of a message, in bytes, in a status without room for the whole message.
const MESSAGE_KEPT_BYTES: usize = 256;

/// The name of the pod set that replaces all those that are not described.
const OTHERS: &str = "others";

/// Returns why no FluxJob can hold the placement of a gang of these pods, if that is so: the field,
/// its bound, and the size that it would need.
pub(crate) fn unrecordable(live: &[&Member], cluster: &Cluster) -> Option<String> {
    // Pods of one template share their shape.
    let shapes: HashSet<*const Shape> =
        live.iter().map(|member| Arc::as_ptr(&member.pod.shape)).collect();
    let is_many = shapes.len() > POD_SETS_MAX;
    let sets = if is_many {
        live.iter().map(|member| &*member.pod.shape).collect::<HashSet<_>>().len()
    } else {
        0
    };
    if sets > POD_SETS_MAX {
        return Some(format!(
            "its pods make {sets} different requests, and its FluxJob can hold {POD_SETS_MAX} \
             (status.workload.podSets)"
        ));
    }
    let mut seen = HashSet::new();
    for member in live.iter().filter(|member| seen.insert(Arc::as_ptr(&member.pod.shape))) {
        let resources =
            member.pod.shape.requests.iter().filter(|(name, _)| ***name != *"pods").count();
        if resources > REQUESTS_MAX {
            return Some(format!(
                "pod {} requests {resources} resources, and its FluxJob can hold {REQUESTS_MAX} \
                 (status.workload.podSets.requests)",
                member.pod.id
            ));
        }
    }
    let nodes = live.len().min(cluster.nodes().len());
    let bytes = longest_names(nodes, cluster);
    (bytes > NODE_LIST_BYTES_MAX).then(|| {
        format!(
            "it may start on {nodes} nodes; their names take {bytes} bytes, and its FluxJob can \
             hold {NODE_LIST_BYTES_MAX} (status.nodeList)"
        )
    })
}

/// Returns the largest size, in bytes, of the names of this number of nodes; 0 if it fits in any
/// case.
fn longest_names(nodes: usize, cluster: &Cluster) -> usize {
    if nodes.saturating_mul(NODE_NAME_BYTES_MAX) <= NODE_LIST_BYTES_MAX {
        return 0;
    }
    let mut lengths: Vec<usize> = cluster.nodes().iter().map(|(name, _)| name.len() + 1).collect();
    lengths.sort_unstable_by(|one, other| other.cmp(one));
    lengths.iter().take(nodes).sum()
}

/// Shortens pod sets as the schema requires: those beyond the bound become one, without requests.
pub(crate) fn bounded_sets(mut sets: Vec<PodSet>, max: usize) -> Vec<PodSet> {
    if sets.len() > max {
        let others = sets.split_off(max - 1);
        let count = others.iter().fold(0_i32, |count, set| count.saturating_add(set.count));
        sets.push(PodSet { name: OTHERS.to_owned(), count, ..PodSet::default() });
    }
    sets
}

/// Shortens requests as the schema requires: the resources of Kubernetes itself go before those
/// with a domain in their name.
pub(crate) fn bounded_requests(mut requests: BTreeMap<String, String>) -> BTreeMap<String, String> {
    if requests.len() > REQUESTS_MAX {
        let mut names: Vec<String> = requests.keys().cloned().collect();
        names.sort_by_key(|name| name.contains('/'));
        names.iter().skip(REQUESTS_MAX).for_each(|name| drop(requests.remove(name)));
    }
    requests
}

/// Shortens a status to the bound, as far as that is possible without a change of placement and
/// reservation: parts that only inform are summarized, the least important first.
pub(crate) fn summed_up(mut status: FluxJobStatus) -> FluxJobStatus {
    if is_small(&status) {
        return status;
    }
    let steps: [fn(&mut FluxJobStatus); 4] =
        [without_requests, with_few_sets, with_one_blocker, with_short_messages];
    for step in steps {
        if size(&status) <= STATUS_BYTES_MAX {
            break;
        }
        step(&mut status);
    }
    status
}

/// Returns the size of a status as it is written, in bytes.
pub(crate) fn size(status: &FluxJobStatus) -> usize {
    let mut written = status.clone();
    // Parts that cannot be made compact are written as they are.
    let _ = placement::compact(&mut written);
    serde_json::to_vec(&written).map_or(usize::MAX, |written| written.len())
}

/// True if a status is far below the bound, as nearly every one is: then its size need not be
/// computed.
fn is_small(status: &FluxJobStatus) -> bool {
    /// The size, in bytes, of a pod set, a request or an entry of a list besides its texts, and of
    /// the name of a resource.
    const ENTRY: usize = 512;
    let sets = status.workload.iter().flat_map(|workload| &workload.pod_sets);
    let of_sets: usize = sets.map(|set| ENTRY * (1 + set.requests.len())).sum();
    let of_ranges: usize = status
        .placement
        .iter()
        .map(|range| ENTRY + range.nodes.len() + range.pod_indexes.len())
        .sum();
    let of_reservation =
        status.reservation.as_ref().map_or(0, |reservation| reservation.nodes.len());
    of_sets + of_ranges + of_reservation <= STATUS_BYTES_MAX / 4
}

fn without_requests(status: &mut FluxJobStatus) {
    let sets = status.workload.iter_mut().flat_map(|workload| &mut workload.pod_sets);
    sets.skip(POD_SETS_KEPT).for_each(|set| set.requests.clear());
}

fn with_few_sets(status: &mut FluxJobStatus) {
    if let Some(workload) = &mut status.workload {
        workload.pod_sets = bounded_sets(std::mem::take(&mut workload.pod_sets), POD_SETS_KEPT);
        workload.pod_sets.iter_mut().for_each(|set| set.requests.clear());
    }
}

fn with_one_blocker(status: &mut FluxJobStatus) {
    status.blocked_by.truncate(1);
}

fn with_short_messages(status: &mut FluxJobStatus) {
    let of_conditions = status.conditions.iter_mut().map(|condition| &mut condition.message);
    let of_blockers = status.blocked_by.iter_mut().map(|blocker| &mut blocker.message);
    for message in of_conditions.chain(of_blockers) {
        *message = fluxqueue_api::text::bounded(message, MESSAGE_KEPT_BYTES).into_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluxqueue_api::{BlockedBy, BlockedReason, ObservedWorkload};

    fn set(at: usize, requests: usize) -> PodSet {
        let requests =
            (0..requests).map(|at| (format!("example.com/{at:0>200}"), "1".to_owned())).collect();
        PodSet { name: format!("set-{at}"), count: 2, min_count: None, requests }
    }

    #[test]
    fn what_only_informs_gives_way_and_the_placement_does_not() {
        let names: Vec<String> = (0..4800_u64)
            .map(|at| format!("n{:0>44}", at.wrapping_mul(48_271) % 65_537 + at))
            .collect();
        let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
        let blockers =
            (0..8).map(|_| BlockedBy::new(BlockedReason::InsufficientResources, "x".repeat(2000)));
        let status = FluxJobStatus {
            placement: placement::compress("set-0", &nodes),
            workload: Some(ObservedWorkload {
                pod_sets: (0..POD_SETS_MAX).map(|at| set(at, REQUESTS_MAX)).collect(),
                ..ObservedWorkload::default()
            }),
            blocked_by: blockers.collect(),
            ..FluxJobStatus::default()
        };
        assert!(size(&status) > 10 << 20);
        let fits = summed_up(status.clone());
        assert!(size(&fits) <= STATUS_BYTES_MAX, "{}", size(&fits));
        assert_eq!(fits.placement, status.placement);
        let counts = |status: &FluxJobStatus| {
            status.workload.iter().flat_map(|it| &it.pod_sets).map(|set| set.count).sum::<i32>()
        };
        assert_eq!(counts(&fits), counts(&status));
        assert_eq!(fits.blocked_by[0].reason, BlockedReason::InsufficientResources);
    }

    #[test]
    fn what_is_small_stays_and_lists_keep_to_the_schema() {
        let workload =
            ObservedWorkload { pod_sets: vec![set(0, 3)], ..ObservedWorkload::default() };
        let status = FluxJobStatus { workload: Some(workload), ..FluxJobStatus::default() };
        assert_eq!(summed_up(status.clone()), status);
        let sets = bounded_sets((0..1500).map(|at| set(at, 0)).collect(), POD_SETS_MAX);
        let last = sets.last().unwrap();
        assert_eq!(
            (sets.len(), &*last.name, last.count),
            (POD_SETS_MAX, OTHERS, 2 * (1500 - 1023))
        );
        let all = set(0, 70)
            .requests
            .into_iter()
            .chain([("cpu".to_owned(), "1".to_owned()), ("memory".to_owned(), "1".to_owned())]);
        let requests = bounded_requests(all.collect());
        assert_eq!(
            (requests.len(), requests.contains_key("cpu"), requests.contains_key("memory")),
            (REQUESTS_MAX, true, true)
        );
    }
}
