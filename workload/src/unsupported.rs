//! What a pod asks of its node that Fluxqueue cannot look after: refused if it is required, told if it is a wish.

use k8s_openapi::api::core::v1::{PodSpec, Volume};

use super::Unsupported;

/// Required constraints that are not honoured.
pub(super) fn required(spec: &PodSpec) -> Vec<Unsupported> {
    let mut found = Vec::new();
    let mut refuse = |field: String, message: &str| found.push(Unsupported { field, message: message.to_owned() });

    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        if let Some((source, message)) = volume_source(volume) {
            refuse(format!("spec.volumes[{index}].{source}"), message);
        }
    }
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

/// The sources for which kube-scheduler restricts nodes and Fluxqueue does not yet: claims, and disks whose number per node is
/// limited.
fn volume_source(volume: &Volume) -> Option<(&'static str, &'static str)> {
    const CLAIM: &str = "persistent volume claims are not supported yet";
    const DISK: &str = "disks whose number per node is limited are not supported yet";
    let sources = [
        ("persistentVolumeClaim", volume.persistent_volume_claim.is_some(), CLAIM),
        ("ephemeral", volume.ephemeral.is_some(), CLAIM),
        ("gcePersistentDisk", volume.gce_persistent_disk.is_some(), DISK),
        ("awsElasticBlockStore", volume.aws_elastic_block_store.is_some(), DISK),
        ("azureDisk", volume.azure_disk.is_some(), DISK),
        ("cinder", volume.cinder.is_some(), DISK),
        ("vsphereVolume", volume.vsphere_volume.is_some(), DISK),
        ("portworxVolume", volume.portworx_volume.is_some(), DISK),
    ];
    sources.into_iter().find(|(_, present, _)| *present).map(|(source, _, message)| (source, message))
}
