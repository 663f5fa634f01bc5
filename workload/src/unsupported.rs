//! What a pod requires of its node that Fluxqueue cannot look after: it is refused.

use k8s_openapi::api::core::v1::PodSpec;

/// A required constraint that is not supported, or a value that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Unsupported {
    /// JSON path in the pod, such as `spec.volumes[2].persistentVolumeClaim`.
    pub field: String,
    /// The reason, for the author of the pod.
    pub message: String,
}

/// Required constraints that are not honoured.
pub(super) fn required(spec: &PodSpec) -> Vec<Unsupported> {
    let mut found = Vec::new();
    let mut refuse = |field: String, message: &str| {
        found.push(Unsupported { field, message: message.to_owned() });
    };

    if spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) {
        refuse(
            "spec.resourceClaims".to_owned(),
            "dynamic resource allocation is not supported yet",
        );
    }
    found
}
