//! What a pod asks of its node that Fluxqueue cannot look after: refused if it is required, told if it is a wish.

use k8s_openapi::api::core::v1::PodSpec;

use super::Unsupported;

/// Required constraints that are not honoured.
pub(super) fn required(spec: &PodSpec) -> Vec<Unsupported> {
    let mut found = Vec::new();
    let mut refuse = |field: String, message: &str| found.push(Unsupported { field, message: message.to_owned() });

    if spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
        refuse("spec.resourceClaims".to_owned(), "dynamic resource allocation is not supported yet");
    }
    if spec.scheduling_group.is_some() {
        let message =
            "scheduling groups are not supported yet: use the labels fluxqueue.pod-group and fluxqueue.group-size";
        refuse("spec.schedulingGroup".to_owned(), message);
    }
    found
}

/// Wishes that are accepted but not honoured yet.
pub(super) fn soft(spec: &PodSpec) -> Vec<&'static str> {
    let mut found = Vec::new();
    let spreads = spec.topology_spread_constraints.as_deref().unwrap_or_default();
    if spreads.iter().any(|spread| spread.when_unsatisfiable == "ScheduleAnyway") {
        found.push("spec.topologySpreadConstraints");
    }
    let affinity = spec.affinity.as_ref();
    let preferred = affinity
        .and_then(|affinity| affinity.pod_affinity.as_ref())
        .and_then(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.as_ref());
    if preferred.is_some_and(|terms| !terms.is_empty()) {
        found.push("spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution");
    }
    let preferred = affinity
        .and_then(|affinity| affinity.pod_anti_affinity.as_ref())
        .and_then(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.as_ref());
    if preferred.is_some_and(|terms| !terms.is_empty()) {
        found.push("spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution");
    }
    found
}
