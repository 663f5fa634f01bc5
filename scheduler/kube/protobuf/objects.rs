//! Turns messages into the types of objects in JSON. A field that is missing here is missing for
//! good: code that needs another one of a pod or a node adds it here, and to [`super::messages`].
//! `tests/encodings.rs` compares both encodings of the API server's answers.

use std::collections::BTreeMap;

use bytes::Bytes;
use fluxqueue_workload::scheduling_group;
use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta_v1;
use k8s_openapi::jiff::Timestamp;
use prost::{DecodeError, Message};

use super::messages as wire;
use crate::kube::lean::Lean;

/// Reads a pod.
pub fn pod(bytes: Bytes) -> Result<Lean<core_v1::Pod>, DecodeError> {
    let pod = wire::Pod::decode(bytes)?;
    Ok(Lean(core_v1::Pod {
        metadata: pod.metadata.map(metadata).unwrap_or_default(),
        spec: pod.spec.map(pod_spec),
        status: pod.status.map(pod_status),
    }))
}

/// Reads a node.
pub fn node(bytes: Bytes) -> Result<Lean<core_v1::Node>, DecodeError> {
    let node = wire::Node::decode(bytes)?;
    Ok(Lean(core_v1::Node {
        metadata: node.metadata.map(metadata).unwrap_or_default(),
        spec: node.spec.map(|spec| core_v1::NodeSpec {
            unschedulable: Some(spec.unschedulable),
            taints: list(spec.taints, taint),
            ..core_v1::NodeSpec::default()
        }),
        status: node.status.map(|status| core_v1::NodeStatus {
            allocatable: quantities(status.allocatable),
            conditions: list(status.conditions, node_condition),
            declared_features: some(status.declared_features),
            ..core_v1::NodeStatus::default()
        }),
    }))
}

// === parts of all objects ===

/// Absent and empty are one.
fn text(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn some<T>(items: Vec<T>) -> Option<Vec<T>> {
    Some(items).filter(|items| !items.is_empty())
}

fn list<T, U>(items: Vec<T>, each: impl Fn(T) -> U) -> Option<Vec<U>> {
    some(items.into_iter().map(each).collect())
}

fn map(map: BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    Some(map).filter(|map| !map.is_empty())
}

fn quantities(map: wire::Quantities) -> Option<BTreeMap<String, Quantity>> {
    let map: BTreeMap<_, _> =
        map.into_iter().map(|(name, amount)| (name, Quantity(amount.string))).collect();
    Some(map).filter(|map| !map.is_empty())
}

/// Some messages matter only by their presence.
fn there<T: Default>(presence: Option<wire::Presence>) -> Option<T> {
    presence.map(|_| T::default())
}

/// Converts a time. The zero value stands for none. Kubernetes' times have whole seconds, whatever
/// is sent with them.
fn time(time: Option<wire::Time>) -> Option<meta_v1::Time> {
    let time = time.filter(|time| time.seconds != 0)?;
    Timestamp::from_second(time.seconds).ok().map(meta_v1::Time)
}

fn metadata(meta: wire::ObjectMeta) -> meta_v1::ObjectMeta {
    meta_v1::ObjectMeta {
        name: text(meta.name),
        namespace: text(meta.namespace),
        uid: text(meta.uid),
        resource_version: text(meta.resource_version),
        generation: Some(meta.generation).filter(|generation| *generation != 0),
        creation_timestamp: time(meta.creation_timestamp),
        deletion_timestamp: time(meta.deletion_timestamp),
        labels: map(meta.labels),
        annotations: map(meta.annotations),
        owner_references: list(meta.owner_references, owner_reference),
        ..meta_v1::ObjectMeta::default()
    }
}

fn owner_reference(owner: wire::OwnerReference) -> meta_v1::OwnerReference {
    meta_v1::OwnerReference {
        api_version: owner.api_version,
        block_owner_deletion: owner.block_owner_deletion,
        controller: owner.controller,
        kind: owner.kind,
        name: owner.name,
        uid: owner.uid,
    }
}

fn label_selector(selector: wire::LabelSelector) -> meta_v1::LabelSelector {
    let requirement = |requirement: wire::Requirement| meta_v1::LabelSelectorRequirement {
        key: requirement.key,
        operator: requirement.operator,
        values: some(requirement.values),
    };
    meta_v1::LabelSelector {
        match_expressions: list(selector.match_expressions, requirement),
        match_labels: map(selector.match_labels),
    }
}

// === pods ===

fn pod_spec(spec: wire::PodSpec) -> core_v1::PodSpec {
    core_v1::PodSpec {
        active_deadline_seconds: spec.active_deadline_seconds,
        termination_grace_period_seconds: spec.termination_grace_period_seconds,
        affinity: spec.affinity.map(affinity),
        containers: spec.containers.into_iter().map(container).collect(),
        host_network: Some(spec.host_network),
        host_users: spec.host_users,
        init_containers: list(spec.init_containers, container),
        node_name: text(spec.node_name),
        node_selector: map(spec.node_selector),
        overhead: quantities(spec.overhead),
        priority: spec.priority,
        resource_claims: list(spec.resource_claims, |_| core_v1::PodResourceClaim::default()),
        resources: spec.resources.map(resources),
        restart_policy: text(spec.restart_policy),
        scheduler_name: text(spec.scheduler_name),
        scheduling_gates: list(spec.scheduling_gates, |gate| core_v1::PodSchedulingGate {
            name: gate.name,
        }),
        scheduling_group: scheduling_group_of(spec.workload_ref, spec.scheduling_group),
        tolerations: list(spec.tolerations, toleration),
        topology_spread_constraints: list(spec.topology_spread_constraints, spread_constraint),
        volumes: list(spec.volumes, volume),
        ..core_v1::PodSpec::default()
    }
}

/// Of Kubernetes 1.35 the one, of later versions the other.
fn scheduling_group_of(
    workload: Option<wire::WorkloadReference>,
    group: Option<wire::PodSchedulingGroup>,
) -> Option<core_v1::PodSchedulingGroup> {
    let of_workload = workload.map(|workload| scheduling_group::of_workload_ref(&workload.name));
    of_workload.or_else(|| {
        let pod_group_name = group?.pod_group_name;
        Some(core_v1::PodSchedulingGroup { pod_group_name })
    })
}

fn pod_status(status: wire::PodStatus) -> core_v1::PodStatus {
    core_v1::PodStatus {
        allocated_resources: quantities(status.allocated_resources),
        conditions: list(status.conditions, pod_condition),
        container_statuses: list(status.container_statuses, container_status),
        init_container_statuses: list(status.init_container_statuses, container_status),
        nominated_node_name: text(status.nominated_node_name),
        phase: text(status.phase),
        reason: text(status.reason),
        resources: status.resources.map(resources),
        start_time: time(status.start_time),
        ..core_v1::PodStatus::default()
    }
}

fn pod_condition(condition: wire::Condition) -> core_v1::PodCondition {
    core_v1::PodCondition {
        last_transition_time: time(condition.last_transition_time),
        message: text(condition.message),
        reason: text(condition.reason),
        status: condition.status,
        type_: condition.r#type,
        ..core_v1::PodCondition::default()
    }
}

fn container(container: wire::Container) -> core_v1::Container {
    core_v1::Container {
        name: container.name,
        ports: list(container.ports, |port| core_v1::ContainerPort {
            host_ip: text(port.host_ip),
            host_port: Some(port.host_port).filter(|port| *port != 0),
            protocol: text(port.protocol),
            ..core_v1::ContainerPort::default()
        }),
        resources: container.resources.map(resources),
        restart_policy: container.restart_policy,
        restart_policy_rules: list(container.restart_policy_rules, |rule| {
            core_v1::ContainerRestartRule {
                action: rule.action,
                ..core_v1::ContainerRestartRule::default()
            }
        }),
        ..core_v1::Container::default()
    }
}

fn resources(resources: wire::ResourceRequirements) -> core_v1::ResourceRequirements {
    core_v1::ResourceRequirements {
        claims: None,
        limits: quantities(resources.limits),
        requests: quantities(resources.requests),
    }
}

fn container_status(status: wire::ContainerStatus) -> core_v1::ContainerStatus {
    core_v1::ContainerStatus {
        allocated_resources: quantities(status.allocated_resources),
        name: status.name,
        resources: status.resources.map(resources),
        state: status.state.map(|state| core_v1::ContainerState {
            terminated: state.terminated.map(|terminated| core_v1::ContainerStateTerminated {
                finished_at: time(terminated.finished_at),
                ..core_v1::ContainerStateTerminated::default()
            }),
            ..core_v1::ContainerState::default()
        }),
        ..core_v1::ContainerStatus::default()
    }
}

fn toleration(toleration: wire::Toleration) -> core_v1::Toleration {
    core_v1::Toleration {
        effect: text(toleration.effect),
        key: text(toleration.key),
        operator: text(toleration.operator),
        toleration_seconds: None,
        value: text(toleration.value),
    }
}

/// Converts the parts of a volume that kube-scheduler considers: claims, and disks.
fn volume(volume: wire::Volume) -> core_v1::Volume {
    let wire::VolumeSource {
        gce_persistent_disk,
        aws_elastic_block_store,
        iscsi,
        persistent_volume_claim,
        rbd,
        cinder,
        azure_disk,
        portworx_volume,
        ephemeral,
    } = volume.source.unwrap_or_default();
    core_v1::Volume {
        aws_elastic_block_store: aws_elastic_block_store.map(|disk| {
            core_v1::AWSElasticBlockStoreVolumeSource {
                volume_id: disk.volume_id,
                ..core_v1::AWSElasticBlockStoreVolumeSource::default()
            }
        }),
        azure_disk: azure_disk.map(|disk| core_v1::AzureDiskVolumeSource {
            disk_uri: disk.disk_uri,
            ..core_v1::AzureDiskVolumeSource::default()
        }),
        cinder: cinder.map(|disk| core_v1::CinderVolumeSource {
            volume_id: disk.volume_id,
            ..core_v1::CinderVolumeSource::default()
        }),
        ephemeral: there(ephemeral),
        gce_persistent_disk: gce_persistent_disk.map(|disk| {
            core_v1::GCEPersistentDiskVolumeSource {
                pd_name: disk.pd_name,
                read_only: Some(disk.read_only),
                ..core_v1::GCEPersistentDiskVolumeSource::default()
            }
        }),
        iscsi: iscsi.map(|disk| core_v1::ISCSIVolumeSource {
            iqn: disk.iqn,
            read_only: Some(disk.read_only),
            ..core_v1::ISCSIVolumeSource::default()
        }),
        name: volume.name,
        persistent_volume_claim: persistent_volume_claim.map(|claim| {
            core_v1::PersistentVolumeClaimVolumeSource {
                claim_name: claim.claim_name,
                ..core_v1::PersistentVolumeClaimVolumeSource::default()
            }
        }),
        portworx_volume: portworx_volume.map(|disk| core_v1::PortworxVolumeSource {
            volume_id: disk.volume_id,
            ..core_v1::PortworxVolumeSource::default()
        }),
        rbd: rbd.map(|disk| core_v1::RBDVolumeSource {
            image: disk.image,
            monitors: disk.monitors,
            pool: text(disk.pool),
            read_only: Some(disk.read_only),
            ..core_v1::RBDVolumeSource::default()
        }),
        ..core_v1::Volume::default()
    }
}

fn affinity(affinity: wire::Affinity) -> core_v1::Affinity {
    core_v1::Affinity {
        node_affinity: affinity.node.map(node_affinity),
        pod_affinity: affinity.pod.map(|affinity| core_v1::PodAffinity {
            required_during_scheduling_ignored_during_execution: list(
                affinity.required,
                pod_affinity_term,
            ),
            preferred_during_scheduling_ignored_during_execution: list(
                affinity.preferred,
                weighted_term,
            ),
        }),
        pod_anti_affinity: affinity.pod_anti.map(|affinity| core_v1::PodAntiAffinity {
            required_during_scheduling_ignored_during_execution: list(
                affinity.required,
                pod_affinity_term,
            ),
            preferred_during_scheduling_ignored_during_execution: list(
                affinity.preferred,
                weighted_term,
            ),
        }),
    }
}

fn node_affinity(affinity: wire::NodeAffinity) -> core_v1::NodeAffinity {
    core_v1::NodeAffinity {
        required_during_scheduling_ignored_during_execution: affinity.required.map(|selector| {
            core_v1::NodeSelector {
                node_selector_terms: selector.terms.into_iter().map(node_selector_term).collect(),
            }
        }),
        preferred_during_scheduling_ignored_during_execution: list(
            affinity.preferred,
            |preferred| core_v1::PreferredSchedulingTerm {
                preference: preferred.preference.map(node_selector_term).unwrap_or_default(),
                weight: preferred.weight,
            },
        ),
    }
}

fn node_selector_term(term: wire::NodeSelectorTerm) -> core_v1::NodeSelectorTerm {
    let requirement = |requirement: wire::Requirement| core_v1::NodeSelectorRequirement {
        key: requirement.key,
        operator: requirement.operator,
        values: some(requirement.values),
    };
    core_v1::NodeSelectorTerm {
        match_expressions: list(term.match_expressions, requirement),
        match_fields: list(term.match_fields, requirement),
    }
}

fn pod_affinity_term(term: wire::PodAffinityTerm) -> core_v1::PodAffinityTerm {
    core_v1::PodAffinityTerm {
        label_selector: term.label_selector.map(label_selector),
        namespace_selector: term.namespace_selector.map(label_selector),
        namespaces: some(term.namespaces),
        topology_key: term.topology_key,
        ..core_v1::PodAffinityTerm::default()
    }
}

fn weighted_term(weighted: wire::WeightedPodAffinityTerm) -> core_v1::WeightedPodAffinityTerm {
    core_v1::WeightedPodAffinityTerm {
        pod_affinity_term: weighted.term.map(pod_affinity_term).unwrap_or_default(),
        weight: weighted.weight,
    }
}

fn spread_constraint(spread: wire::TopologySpreadConstraint) -> core_v1::TopologySpreadConstraint {
    core_v1::TopologySpreadConstraint {
        label_selector: spread.label_selector.map(label_selector),
        match_label_keys: some(spread.match_label_keys),
        max_skew: spread.max_skew,
        min_domains: spread.min_domains,
        node_affinity_policy: spread.node_affinity_policy,
        node_taints_policy: spread.node_taints_policy,
        topology_key: spread.topology_key,
        when_unsatisfiable: spread.when_unsatisfiable,
    }
}

// === nodes ===

fn taint(taint: wire::Taint) -> core_v1::Taint {
    core_v1::Taint {
        effect: taint.effect,
        key: taint.key,
        value: text(taint.value),
        ..core_v1::Taint::default()
    }
}

fn node_condition(condition: wire::Condition) -> core_v1::NodeCondition {
    core_v1::NodeCondition {
        status: condition.status,
        type_: condition.r#type,
        ..core_v1::NodeCondition::default()
    }
}
