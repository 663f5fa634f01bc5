//! What a pod requires of its node that Fluxqueue cannot look after: it is refused.

use k8s_openapi::api::core::v1::PodSpec;

use super::Unsupported;

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
