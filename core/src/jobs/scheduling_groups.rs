//! Groups of Kubernetes' own that keep the pods of a job from being placed: since a group, or the
//! Job behind it, asks for something that is not supported; since the pods of the group contradict
//! it, or each other; or since it is not there.

use std::sync::Arc;

use fluxqueue_api::{BlockedReason, text};
use fluxqueue_workload::pod_group::PodGroup;
use fluxqueue_workload::{Controller, NamedGroup, Pod};

use crate::jobs::controllers::Controllers;
use crate::jobs::member::Member;
use crate::jobs::pod_groups::{Grouped, key_of};

/// The most schedulers that a message names.
const SCHEDULERS_SHOWN: usize = 4;

/// Returns why pods of a job are refused for a group. `makers` are the objects that made its pods,
/// and `live` those of them that have not ended.
pub(crate) fn refusal<'a>(
    mut makers: impl Iterator<Item = &'a Arc<Controller>>,
    controllers: &Controllers,
    live: &[&Member],
) -> Option<(BlockedReason, String)> {
    let by_maker = makers.find_map(|made_by| {
        let refused = made_by.scheduling.as_ref()?;
        let (kind, id) = (made_by.kind.as_str(), &made_by.id);
        let text = format!("{kind} {id}: {refused}");
        Some((BlockedReason::UnsupportedConstraint, text))
    });
    by_maker.or_else(|| {
        let waiting = live.iter().filter(|member| member.stage.is_waiting());
        waiting.map(|member| &*member.pod).find_map(|pod| of_pod(pod, controllers))
    })
}

/// Returns why a pod is refused for its group.
fn of_pod(pod: &Pod, controllers: &Controllers) -> Option<(BlockedReason, String)> {
    let named = pod.scheduling_group.as_ref()?;
    let made_by = controllers.that_made(pod).map(|made_by| &**made_by);
    let groups = &controllers.groups;
    let group = groups.of(pod)?;
    if let Some(text) = topology_trouble(pod, group) {
        return Some((BlockedReason::UnsupportedConstraint, text));
    }
    if groups.grouped(pod, made_by) == Grouped::AsEver {
        return None;
    }
    if let Some(refused) = group.policy.as_ref().err().or(group.unsupported.as_ref()) {
        let text = format!("PodGroup {}: {refused}", group.id);
        return Some((BlockedReason::UnsupportedConstraint, text));
    }
    let text = if let Some(schedulers) = groups.schedulers(&key_of(pod, named)) {
        let shown: Vec<String> =
            schedulers.take(SCHEDULERS_SHOWN).map(|name| text::quoted(name)).collect();
        format!("PodGroup {} has pods of several schedulers: {}", group.id, shown.join(", "))
    } else {
        let priority = group.priority.filter(|priority| *priority != pod.priority)?;
        format!(
            "pod {} has priority {}, and its PodGroup {} has {priority}",
            pod.id, pod.priority, group.id
        )
    };
    Some((BlockedReason::InvalidRequest, text))
}

/// Returns why the topology of a group cannot be honoured for a pod. All terms of affinity of a pod
/// select the same pods, by the rules of Kubernetes: the term of the group and another one would be
/// about different ones.
fn topology_trouble(pod: &Pod, group: &PodGroup) -> Option<String> {
    group.topology.as_ref()?;
    let is_own = |term| !NamedGroup::is_term(term);
    pod.shape.constraints.near.iter().any(is_own).then(|| {
        format!(
            "pod {}: spec.affinity.podAffinity: required terms cannot be honoured beside \
             spec.schedulingConstraints.topology of PodGroup {}",
            pod.id, group.id
        )
    })
}
