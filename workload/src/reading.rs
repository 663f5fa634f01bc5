//! Reads pods: every pod of the cluster, of any scheduler.
//!
//! A pod is never lost over a field that cannot be read. It is kept with the fields that could be
//! read, and an entry in [`Pod::unsupported`] names the others: so it is refused while it waits,
//! and counted once it is on a node.

use std::sync::Arc;

use fluxqueue_api::{names, text};
use k8s_openapi::api::core::v1::{
    ContainerStatus, Pod as KubePod, PodCondition, PodSpec, PodStatus,
};

use crate::constraints;
use crate::exclusive;
use crate::group;
use crate::levels;
use crate::metadata::{self, InvalidObject};
use crate::pod::{Phase, Pod, ScheduledCondition};
use crate::requests;
use crate::scheduling_group::{self, NamedGroup};
use crate::shape::Shape;
use crate::shape::ShapeInterner;
use crate::storage;
use crate::time::Time;
use crate::unsupported;
use crate::unsupported::Unsupported;
use crate::walltime;
use crate::walltime::Lifetime;

/// The name that the API server gives pods without one.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The default of `terminationGracePeriodSeconds`.
const GRACE_SECONDS: u64 = 30;

const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The most fields of one pod that are reported as unreadable or unsupported; the pod's condition
/// has the first, and admission names 10. The others come up once these are corrected.
const UNSUPPORTED_MAX: usize = 16;

/// Reasons in `status.reason` of a Failed pod by which a kubelet refuses or evicts it, besides
/// `OutOf<resource>`. `DeadlineExceeded` is not among them: that pod had its time.
const REFUSAL_REASONS: [&str; 23] = [
    "AppArmor",
    "EmptyPodSharedPoolError",
    "Evicted",
    "InitContainerRestartPolicyForbidden",
    "InvalidNodeInfo",
    "NodeAffinity",
    "NodeLost",
    "NodeName",
    "NodePorts",
    "NodeShutdown",
    "PodLevelResourcesNotSupported",
    "PodOSNotSupported",
    "PodOSSelectorNodeLabelDoesNotMatch",
    "Preempting",
    "SMTAlignmentError",
    "Shutdown",
    "SupplementalGroupsPolicyNotSupported",
    "SysctlForbidden",
    "TaintToleration",
    "Terminated",
    "TopologyAffinityError",
    "UnexpectedAdmissionError",
    "VolumeAttachmentLimitExceeded",
];

/// Reasons that a kubelet gives when it does not know its own. The reason of the condition
/// DisruptionTarget where the kubelet ends a pod for the sake of its node.
const DISRUPTED_BY_KUBELET: &str = "TerminationByKubelet";
const REFUSAL_REASONS_UNKNOWN: [&str; 2] = ["UnexpectedPredicateFailureType", "UnknownReason"];

impl Pod {
    /// Reads a pod. Fails only without a name, namespace or uid.
    pub fn from_kubernetes(
        pod: &KubePod,
        interner: &mut ShapeInterner,
    ) -> Result<Pod, InvalidObject> {
        let meta = &pod.metadata;
        let id = metadata::object_ref("Pod", meta)?;
        let no_spec = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&no_spec);
        let no_status = PodStatus::default();
        let status = pod.status.as_ref().unwrap_or(&no_status);

        let requests = requests::of_pod(pod);
        let owner = metadata::owner(meta);
        let mut unsupported = unsupported::required(spec);
        let group_of_kubernetes = scheduling_group::of_pod(spec, meta).unwrap_or_else(|refused| {
            unsupported.push(refused);
            None
        });
        unsupported.extend(requests.problems);
        let (lifetime, states_lifetime) = lifetime(pod, spec, &mut unsupported);
        let levels = levels::of_object(meta).unwrap_or_else(|wrong| {
            unsupported.push(wrong);
            None
        });
        let exclusive = exclusive::of_object(meta).unwrap_or_else(|wrong| {
            unsupported.push(wrong);
            None
        });
        // The label of the group sorts before all others.
        let of_group = group_of_kubernetes.as_ref().map(NamedGroup::label);
        let labels: metadata::Labels =
            of_group.into_iter().chain(metadata::sorted(meta.labels.as_ref())).collect();
        let constraints = constraints::of_spec(spec, &id.key.namespace, &labels);

        let waits = spec.node_name.as_deref().is_none_or(str::is_empty);
        unsupported.truncate(UNSUPPORTED_MAX);
        Ok(Pod {
            resource_version: meta.resource_version.as_deref().filter(|_| waits).map(Arc::from),
            scheduler: spec
                .scheduler_name
                .as_deref()
                .filter(|name| !name.is_empty())
                .map_or_else(|| DEFAULT_SCHEDULER.into(), |name| text::name(name).into()),
            node: non_empty(spec.node_name.as_ref()),
            nominated: non_empty(status.nominated_node_name.as_ref()),
            phase: phase(status),
            deleting: meta.deletion_timestamp.is_some(),
            gates: spec
                .scheduling_gates
                .iter()
                .flatten()
                .map(|gate| gate.name.as_str().into())
                .collect(),
            owner,
            group: group::of_labels(meta.labels.as_ref()),
            scheduling_group: group_of_kubernetes,
            completion_index: completion_index(pod),
            priority: spec.priority.unwrap_or(0),
            created: metadata::time(meta.creation_timestamp.as_ref()),
            started: started(status),
            ended: ended(status),
            labels,
            shape: interner.intern(Shape { requests: requests.total, constraints }),
            levels,
            exclusive,
            claims: storage::claims_of(spec, &id.key.name),
            lifetime,
            states_lifetime,
            grace_secs: grace_secs(spec),
            unsupported,
            soft_ignored: Vec::new(),
            scheduled_condition: condition(status, "PodScheduled").map(scheduled_condition),
            stands_in: false,
            charged_queue: metadata::annotation(meta, names::CHARGED_QUEUE)
                .filter(|queue| !waits && !queue.is_empty())
                .map(Arc::from),
            id,
        })
    }
}

fn phase(status: &PodStatus) -> Phase {
    match status.phase.as_deref() {
        Some("Running") => Phase::Running,
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => refusal(status).or_else(|| disruption(status)).unwrap_or(Phase::Failed),
        _ => Phase::Pending,
    }
}

/// Returns the time at which the kubelet took the pod up, or that of the Binding before that.
fn started(status: &PodStatus) -> Option<Time> {
    let bound = || condition(status, "PodScheduled").filter(|condition| condition.status == "True");
    let at = status.start_time.as_ref().or_else(|| bound()?.last_transition_time.as_ref())?;
    Some(metadata::time(Some(at)))
}

fn ended(status: &PodStatus) -> Option<Time> {
    if !matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return None;
    }
    // One that its kubelet refused has no containers: it ended when it was taken up.
    let containers = [&status.container_statuses, &status.init_container_statuses]
        .into_iter()
        .flatten()
        .flatten();
    let at =
        |status: &ContainerStatus| status.state.as_ref()?.terminated.as_ref()?.finished_at.clone();
    containers.filter_map(at).map(|at| metadata::time(Some(&at))).max().or_else(|| started(status))
}

/// Returns the phase of a failed pod that its kubelet refused or evicted.
fn refusal(status: &PodStatus) -> Option<Phase> {
    let reason = status.reason.as_deref().unwrap_or_default();
    let known = REFUSAL_REASONS.contains(&reason) || REFUSAL_REASONS_UNKNOWN.contains(&reason);
    (known || reason.starts_with("OutOf"))
        .then(|| Phase::Refused { reason: text::name(reason).into() })
}

/// Returns the phase of a failed pod that was disrupted, whatever its containers made of that
/// (KEP-3329). The kubelet itself is one of the disruptors.
fn disruption(status: &PodStatus) -> Option<Phase> {
    let disrupted =
        condition(status, "DisruptionTarget").filter(|condition| condition.status == "True")?;
    let by = disrupted.reason.as_deref().filter(|by| !by.is_empty()).unwrap_or("DisruptionTarget");
    let reason = Arc::from(&*text::name(by));
    Some(if by == DISRUPTED_BY_KUBELET {
        Phase::Refused { reason }
    } else {
        Phase::Disrupted { reason }
    })
}

/// Returns how long the pod takes its resources: by its annotation, else its deadline, else its
/// restart policy; and true if the pod states that, by one of the first two.
fn lifetime(pod: &KubePod, spec: &PodSpec, unsupported: &mut Vec<Unsupported>) -> (Lifetime, bool) {
    match walltime::of_object(&pod.metadata) {
        Some(Ok(lifetime)) => return (lifetime, true),
        Some(Err(wrong)) => unsupported.push(wrong),
        None => {}
    }
    let deadline = spec.active_deadline_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    match (deadline, spec.restart_policy.as_deref()) {
        (Some(seconds), _) => (Lifetime::Seconds(seconds), true),
        (None, Some("Never" | "OnFailure")) => (Lifetime::Eventually, false),
        (None, _) => (Lifetime::Endless, false),
    }
}

/// Returns the grace period as a kubelet reads it: half a minute by default.
fn grace_secs(spec: &PodSpec) -> u64 {
    let said =
        spec.termination_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    said.unwrap_or(GRACE_SECONDS)
}

/// Reads the completion index. Jobs set a label since 1.28, and an annotation always.
fn completion_index(pod: &KubePod) -> Option<u32> {
    let label = pod
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(COMPLETION_INDEX))
        .map(String::as_str);
    label.or_else(|| metadata::annotation(&pod.metadata, COMPLETION_INDEX))?.parse().ok()
}

fn condition<'a>(status: &'a PodStatus, name: &str) -> Option<&'a PodCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == name)
}

fn scheduled_condition(condition: &PodCondition) -> ScheduledCondition {
    ScheduledCondition {
        scheduled: condition.status == "True",
        reason: condition.reason.as_deref().map(text::name).unwrap_or_default().into_owned(),
        message: condition.message.clone().map(text::into_message).unwrap_or_default(),
    }
}

fn non_empty<'a, T: From<&'a str>>(text: Option<&'a String>) -> Option<T> {
    text.filter(|text| !text.is_empty()).map(|text| text.as_str().into())
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
