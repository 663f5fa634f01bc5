//! The messages of Kubernetes' `generated.proto` files, with the fields that [`super::objects`]
//! passes on and their numbers.
//!
//! The numbers never change (they are an API), and a message may be read without knowing all of its
//! fields. A field that is no pointer in Kubernetes' Go types is always sent, so that absent and
//! empty are one.
//!
//! A field that has another name here says its own in its documentation. A test of the testbed
//! (`tests/testbed/wire`) compares names, numbers and types with the definitions of each supported
//! version.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

// === apimachinery ===

/// `runtime.Unknown`: the envelope of each object.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Unknown {
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) raw: Bytes,
}

/// `meta.v1.WatchEvent`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchEvent {
    #[prost(string, tag = "1")]
    pub(crate) r#type: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) object: Option<RawExtension>,
}

/// `runtime.RawExtension`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RawExtension {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) raw: Bytes,
}

/// `meta.v1.Status`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(string, tag = "3")]
    pub(crate) message: String,
    #[prost(string, tag = "4")]
    pub(crate) reason: String,
    #[prost(int32, tag = "6")]
    pub(crate) code: i32,
}

/// `meta.v1.Time`, of which the zero value stands for none.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Time {
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
}

/// `resource.Quantity`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Quantity {
    #[prost(string, tag = "1")]
    pub(crate) string: String,
}

/// Quantities by the name of the resource.
pub(crate) type Quantities = BTreeMap<String, Quantity>;

/// `meta.v1.ObjectMeta`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ObjectMeta {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "3")]
    pub(crate) namespace: String,
    #[prost(string, tag = "5")]
    pub(crate) uid: String,
    #[prost(string, tag = "6")]
    pub(crate) resource_version: String,
    #[prost(int64, tag = "7")]
    pub(crate) generation: i64,
    #[prost(message, optional, tag = "8")]
    pub(crate) creation_timestamp: Option<Time>,
    #[prost(message, optional, tag = "9")]
    pub(crate) deletion_timestamp: Option<Time>,
    #[prost(btree_map = "string, string", tag = "11")]
    pub(crate) labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    pub(crate) annotations: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) owner_references: Vec<OwnerReference>,
}

/// `meta.v1.OwnerReference`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct OwnerReference {
    #[prost(string, tag = "1")]
    pub(crate) kind: String,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(string, tag = "4")]
    pub(crate) uid: String,
    #[prost(string, tag = "5")]
    pub(crate) api_version: String,
    #[prost(bool, optional, tag = "6")]
    pub(crate) controller: Option<bool>,
    #[prost(bool, optional, tag = "7")]
    pub(crate) block_owner_deletion: Option<bool>,
}

/// `meta.v1.LabelSelector`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LabelSelector {
    #[prost(btree_map = "string, string", tag = "1")]
    pub(crate) match_labels: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) match_expressions: Vec<Requirement>,
}

/// `meta.v1.LabelSelectorRequirement` and `core.v1.NodeSelectorRequirement`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Requirement {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) operator: String,
    #[prost(string, repeated, tag = "3")]
    pub(crate) values: Vec<String>,
}

/// Any message of which only the presence matters.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Presence {}

// === pods ===

/// `core.v1.Pod`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Pod {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    pub(crate) spec: Option<PodSpec>,
    #[prost(message, optional, tag = "3")]
    pub(crate) status: Option<PodStatus>,
}

/// `core.v1.PodSpec`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodSpec {
    #[prost(message, repeated, tag = "1")]
    pub(crate) volumes: Vec<Volume>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) containers: Vec<Container>,
    #[prost(string, tag = "3")]
    pub(crate) restart_policy: String,
    #[prost(int64, optional, tag = "4")]
    pub(crate) termination_grace_period_seconds: Option<i64>,
    #[prost(int64, optional, tag = "5")]
    pub(crate) active_deadline_seconds: Option<i64>,
    #[prost(btree_map = "string, string", tag = "7")]
    pub(crate) node_selector: BTreeMap<String, String>,
    #[prost(string, tag = "10")]
    pub(crate) node_name: String,
    #[prost(bool, tag = "11")]
    pub(crate) host_network: bool,
    #[prost(message, optional, tag = "18")]
    pub(crate) affinity: Option<Affinity>,
    #[prost(string, tag = "19")]
    pub(crate) scheduler_name: String,
    #[prost(message, repeated, tag = "20")]
    pub(crate) init_containers: Vec<Container>,
    #[prost(message, repeated, tag = "22")]
    pub(crate) tolerations: Vec<Toleration>,
    #[prost(int32, optional, tag = "25")]
    pub(crate) priority: Option<i32>,
    #[prost(btree_map = "string, message", tag = "32")]
    pub(crate) overhead: Quantities,
    #[prost(message, repeated, tag = "33")]
    pub(crate) topology_spread_constraints: Vec<TopologySpreadConstraint>,
    #[prost(bool, optional, tag = "37")]
    pub(crate) host_users: Option<bool>,
    #[prost(message, repeated, tag = "38")]
    pub(crate) scheduling_gates: Vec<PodSchedulingGate>,
    #[prost(message, repeated, tag = "39")]
    pub(crate) resource_claims: Vec<Presence>,
    #[prost(message, optional, tag = "40")]
    pub(crate) resources: Option<ResourceRequirements>,
    /// Of Kubernetes 1.35; later versions have nothing of this number.
    #[prost(message, optional, tag = "42")]
    pub(crate) workload_ref: Option<WorkloadReference>,
    #[prost(message, optional, tag = "43")]
    pub(crate) scheduling_group: Option<PodSchedulingGroup>,
}

/// `core.v1.WorkloadReference`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct WorkloadReference {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

/// `core.v1.PodSchedulingGroup`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodSchedulingGroup {
    #[prost(string, optional, tag = "1")]
    pub(crate) pod_group_name: Option<String>,
}

/// `core.v1.PodStatus`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodStatus {
    #[prost(string, tag = "1")]
    pub(crate) phase: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) conditions: Vec<Condition>,
    #[prost(string, tag = "4")]
    pub(crate) reason: String,
    #[prost(message, optional, tag = "7")]
    pub(crate) start_time: Option<Time>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) container_statuses: Vec<ContainerStatus>,
    #[prost(message, repeated, tag = "10")]
    pub(crate) init_container_statuses: Vec<ContainerStatus>,
    #[prost(string, tag = "11")]
    pub(crate) nominated_node_name: String,
    #[prost(btree_map = "string, message", tag = "19")]
    pub(crate) allocated_resources: Quantities,
    #[prost(message, optional, tag = "20")]
    pub(crate) resources: Option<ResourceRequirements>,
}

/// `core.v1.PodCondition` and `core.v1.NodeCondition`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Condition {
    #[prost(string, tag = "1")]
    pub(crate) r#type: String,
    #[prost(string, tag = "2")]
    pub(crate) status: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) last_transition_time: Option<Time>,
    #[prost(string, tag = "5")]
    pub(crate) reason: String,
    #[prost(string, tag = "6")]
    pub(crate) message: String,
}

/// `core.v1.Container`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Container {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "6")]
    pub(crate) ports: Vec<ContainerPort>,
    #[prost(message, optional, tag = "8")]
    pub(crate) resources: Option<ResourceRequirements>,
    #[prost(string, optional, tag = "24")]
    pub(crate) restart_policy: Option<String>,
    #[prost(message, repeated, tag = "25")]
    pub(crate) restart_policy_rules: Vec<ContainerRestartRule>,
}

/// `core.v1.ContainerRestartRule`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerRestartRule {
    #[prost(string, tag = "1")]
    pub(crate) action: String,
}

/// `core.v1.ContainerPort`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerPort {
    #[prost(int32, tag = "2")]
    pub(crate) host_port: i32,
    #[prost(string, tag = "4")]
    pub(crate) protocol: String,
    /// `hostIP`
    #[prost(string, tag = "5")]
    pub(crate) host_ip: String,
}

/// `core.v1.ResourceRequirements`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResourceRequirements {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(crate) limits: Quantities,
    #[prost(btree_map = "string, message", tag = "2")]
    pub(crate) requests: Quantities,
}

/// `core.v1.ContainerStatus`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerStatus {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) state: Option<ContainerState>,
    #[prost(btree_map = "string, message", tag = "10")]
    pub(crate) allocated_resources: Quantities,
    #[prost(message, optional, tag = "11")]
    pub(crate) resources: Option<ResourceRequirements>,
}

/// `core.v1.ContainerState`
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ContainerState {
    #[prost(message, optional, tag = "3")]
    pub(crate) terminated: Option<ContainerStateTerminated>,
}

/// `core.v1.ContainerStateTerminated`
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ContainerStateTerminated {
    #[prost(message, optional, tag = "6")]
    pub(crate) finished_at: Option<Time>,
}

/// `core.v1.Toleration`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Toleration {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) operator: String,
    #[prost(string, tag = "3")]
    pub(crate) value: String,
    #[prost(string, tag = "4")]
    pub(crate) effect: String,
}

/// `core.v1.Volume`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Volume {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    /// `volumeSource`
    #[prost(message, optional, tag = "2")]
    pub(crate) source: Option<VolumeSource>,
}

/// `core.v1.VolumeSource`: those sources that matter for the nodes of a pod.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct VolumeSource {
    #[prost(message, optional, tag = "3")]
    pub(crate) gce_persistent_disk: Option<GcePersistentDisk>,
    #[prost(message, optional, tag = "4")]
    pub(crate) aws_elastic_block_store: Option<Disk>,
    #[prost(message, optional, tag = "8")]
    pub(crate) iscsi: Option<Iscsi>,
    #[prost(message, optional, tag = "10")]
    pub(crate) persistent_volume_claim: Option<PersistentVolumeClaim>,
    #[prost(message, optional, tag = "11")]
    pub(crate) rbd: Option<Rbd>,
    #[prost(message, optional, tag = "13")]
    pub(crate) cinder: Option<Disk>,
    #[prost(message, optional, tag = "22")]
    pub(crate) azure_disk: Option<AzureDisk>,
    #[prost(message, optional, tag = "24")]
    pub(crate) portworx_volume: Option<Disk>,
    #[prost(message, optional, tag = "29")]
    pub(crate) ephemeral: Option<Presence>,
}

/// `core.v1.GCEPersistentDiskVolumeSource`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct GcePersistentDisk {
    #[prost(string, tag = "1")]
    pub(crate) pd_name: String,
    #[prost(bool, tag = "4")]
    pub(crate) read_only: bool,
}

/// `core.v1.AWSElasticBlockStoreVolumeSource`, `core.v1.CinderVolumeSource` and
/// `core.v1.PortworxVolumeSource`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Disk {
    /// `volumeID`
    #[prost(string, tag = "1")]
    pub(crate) volume_id: String,
}

/// `core.v1.AzureDiskVolumeSource`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AzureDisk {
    /// `diskURI`
    #[prost(string, tag = "2")]
    pub(crate) disk_uri: String,
}

/// `core.v1.PersistentVolumeClaimVolumeSource`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PersistentVolumeClaim {
    #[prost(string, tag = "1")]
    pub(crate) claim_name: String,
}

/// `core.v1.ISCSIVolumeSource`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Iscsi {
    #[prost(string, tag = "2")]
    pub(crate) iqn: String,
    #[prost(bool, tag = "6")]
    pub(crate) read_only: bool,
}

/// `core.v1.RBDVolumeSource`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Rbd {
    #[prost(string, repeated, tag = "1")]
    pub(crate) monitors: Vec<String>,
    #[prost(string, tag = "2")]
    pub(crate) image: String,
    #[prost(string, tag = "4")]
    pub(crate) pool: String,
    #[prost(bool, tag = "8")]
    pub(crate) read_only: bool,
}

/// `core.v1.TopologySpreadConstraint`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TopologySpreadConstraint {
    #[prost(int32, tag = "1")]
    pub(crate) max_skew: i32,
    #[prost(string, tag = "2")]
    pub(crate) topology_key: String,
    #[prost(string, tag = "3")]
    pub(crate) when_unsatisfiable: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) label_selector: Option<LabelSelector>,
    #[prost(int32, optional, tag = "5")]
    pub(crate) min_domains: Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub(crate) node_affinity_policy: Option<String>,
    #[prost(string, optional, tag = "7")]
    pub(crate) node_taints_policy: Option<String>,
    #[prost(string, repeated, tag = "8")]
    pub(crate) match_label_keys: Vec<String>,
}

/// `core.v1.PodSchedulingGate`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodSchedulingGate {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

/// `core.v1.Affinity`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Affinity {
    /// `nodeAffinity`
    #[prost(message, optional, tag = "1")]
    pub(crate) node: Option<NodeAffinity>,
    /// `podAffinity`
    #[prost(message, optional, tag = "2")]
    pub(crate) pod: Option<PodAffinity>,
    /// `podAntiAffinity`
    #[prost(message, optional, tag = "3")]
    pub(crate) pod_anti: Option<PodAffinity>,
}

/// `core.v1.NodeAffinity`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeAffinity {
    /// `requiredDuringSchedulingIgnoredDuringExecution`
    #[prost(message, optional, tag = "1")]
    pub(crate) required: Option<NodeSelector>,
    /// `preferredDuringSchedulingIgnoredDuringExecution`
    #[prost(message, repeated, tag = "2")]
    pub(crate) preferred: Vec<PreferredSchedulingTerm>,
}

/// `core.v1.NodeSelector`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeSelector {
    /// `nodeSelectorTerms`
    #[prost(message, repeated, tag = "1")]
    pub(crate) terms: Vec<NodeSelectorTerm>,
}

/// `core.v1.NodeSelectorTerm`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeSelectorTerm {
    #[prost(message, repeated, tag = "1")]
    pub(crate) match_expressions: Vec<Requirement>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) match_fields: Vec<Requirement>,
}

/// `core.v1.PreferredSchedulingTerm`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PreferredSchedulingTerm {
    #[prost(int32, tag = "1")]
    pub(crate) weight: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) preference: Option<NodeSelectorTerm>,
}

/// `core.v1.PodAffinity` and `core.v1.PodAntiAffinity`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodAffinity {
    /// `requiredDuringSchedulingIgnoredDuringExecution`
    #[prost(message, repeated, tag = "1")]
    pub(crate) required: Vec<PodAffinityTerm>,
    /// `preferredDuringSchedulingIgnoredDuringExecution`
    #[prost(message, repeated, tag = "2")]
    pub(crate) preferred: Vec<WeightedPodAffinityTerm>,
}

/// `core.v1.WeightedPodAffinityTerm`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct WeightedPodAffinityTerm {
    #[prost(int32, tag = "1")]
    pub(crate) weight: i32,
    /// `podAffinityTerm`
    #[prost(message, optional, tag = "2")]
    pub(crate) term: Option<PodAffinityTerm>,
}

/// `core.v1.PodAffinityTerm`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodAffinityTerm {
    #[prost(message, optional, tag = "1")]
    pub(crate) label_selector: Option<LabelSelector>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) namespaces: Vec<String>,
    #[prost(string, tag = "3")]
    pub(crate) topology_key: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) namespace_selector: Option<LabelSelector>,
}

// === nodes ===

/// `core.v1.Node`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Node {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    pub(crate) spec: Option<NodeSpec>,
    #[prost(message, optional, tag = "3")]
    pub(crate) status: Option<NodeStatus>,
}

/// `core.v1.NodeSpec`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeSpec {
    #[prost(bool, tag = "4")]
    pub(crate) unschedulable: bool,
    #[prost(message, repeated, tag = "5")]
    pub(crate) taints: Vec<Taint>,
}

/// `core.v1.Taint`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Taint {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
    #[prost(string, tag = "3")]
    pub(crate) effect: String,
}

/// `core.v1.NodeStatus`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeStatus {
    #[prost(btree_map = "string, message", tag = "2")]
    pub(crate) allocatable: Quantities,
    #[prost(message, repeated, tag = "4")]
    pub(crate) conditions: Vec<Condition>,
    #[prost(string, repeated, tag = "14")]
    pub(crate) declared_features: Vec<String>,
}
