//! Paths and queries of the API server.

use std::fmt::Write as _;

use anyhow::bail;
use fluxqueue_api::kinds::Served;
use fluxqueue_api::syntax::{is_namespace_name, is_object_name};
use fluxqueue_api::{WorkloadKind, text};

/// A kind of objects as the API server serves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resource {
    /// The kind.
    pub kind: &'static str,
    /// Its group and version, as an object names them.
    pub api_version: &'static str,
    /// The resource, and the word of messages for several of them.
    pub plural: &'static str,
}

macro_rules! resources {
    ($($name:ident = $kind:literal, $version:literal, $plural:literal;)*) => {
        impl Resource {
            $(pub(crate) const $name: Resource =
                Resource { kind: $kind, api_version: $version, plural: $plural };)*
        }
    };
}

resources! {
    FLUX_JOB = "FluxJob", "jobs.converged-computing.org/v1alpha1", "fluxjobs";
    FLUX_QUEUE = "FluxQueue", "jobs.converged-computing.org/v1alpha1", "fluxqueues";
    NAMESPACE = "Namespace", "v1", "namespaces";
    EVENT = "Event", "v1", "events";
    SELF_REVIEW = "SelfSubjectReview", "authentication.k8s.io/v1", "selfsubjectreviews";
    ADMISSION_POLICY = "ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1",
        "validatingadmissionpolicies";
    LEASE = "Lease", "coordination.k8s.io/v1", "leases";
}

impl Resource {
    pub(crate) const POD: Resource = Resource::of(WorkloadKind::Pod).expect("it is served");
    pub(crate) const JOB: Resource = Resource::of(WorkloadKind::Job).expect("it is served");
    pub(crate) const DEPLOYMENT: Resource =
        Resource::of(WorkloadKind::Deployment).expect("it is served");
    pub(crate) const REPLICA_SET: Resource =
        Resource::of(WorkloadKind::ReplicaSet).expect("it is served");

    /// Returns the resource of the objects that workloads of this kind are, if they are objects.
    const fn of(kind: WorkloadKind) -> Option<Resource> {
        let facts = kind.facts();
        match facts.served {
            Some(Served { api_version, plural }) => {
                Some(Resource { kind: facts.name, api_version, plural })
            }
            None => None,
        }
    }

    /// Returns the resource of objects that make pods, by their kind.
    pub(crate) fn of_controller(kind: &str) -> Option<Resource> {
        let mut known = WorkloadKind::CONTROLLERS.into_iter();
        known.find(|known| known.as_str() == kind).and_then(Resource::of)
    }

    /// Returns the path of its objects in a namespace, or of all.
    pub(crate) fn path(self, namespace: Option<&str>) -> String {
        let root = if self.api_version.contains('/') { "/apis" } else { "/api" };
        match namespace {
            Some(namespace) => {
                format!("{root}/{}/namespaces/{namespace}/{}", self.api_version, self.plural)
            }
            None => format!("{root}/{}/{}", self.api_version, self.plural),
        }
    }

    /// Returns the path of one of its objects.
    pub(crate) fn path_of(self, namespace: Option<&str>, name: &str) -> String {
        format!("{}/{name}", self.path(namespace))
    }

    /// Returns the name of the object in messages: `job lab/solve`.
    pub(crate) fn called(self, namespace: Option<&str>, name: &str) -> String {
        let kind = self.kind.to_ascii_lowercase();
        let name = text::name(name);
        match namespace {
            Some(namespace) => format!("{kind} {}/{name}", text::name(namespace)),
            None => format!("{kind} {name}"),
        }
    }
}

/// Returns an error unless `name` can be the name of an object, so that no path is made of anything
/// else.
pub(crate) fn check_name(name: &str) -> anyhow::Result<()> {
    if !is_object_name(name) {
        bail!("{} is not the name of an object", text::quoted(name));
    }
    Ok(())
}

/// Returns an error unless `name` can be the name of a namespace.
pub(crate) fn check_namespace(name: &str) -> anyhow::Result<()> {
    if !is_namespace_name(name) {
        bail!("{} is not the name of a namespace", text::quoted(name));
    }
    Ok(())
}

/// A query: parameters, encoded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(String);

impl Query {
    /// Adds one more parameter to the query; an empty value adds none.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        if !value.is_empty() {
            self.0.push(if self.0.is_empty() { '?' } else { '&' });
            self.0.push_str(name);
            self.0.push('=');
            for byte in value.bytes() {
                if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                    self.0.push(char::from(byte));
                } else {
                    let _ = write!(self.0, "%{byte:02X}");
                }
            }
        }
        self
    }

    /// Returns the query as it stands behind a path.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api_server() {
        assert_eq!(Resource::POD.path(None), "/api/v1/pods");
        assert_eq!(
            Resource::JOB.path_of(Some("lab"), "solve"),
            "/apis/batch/v1/namespaces/lab/jobs/solve"
        );
        assert_eq!(Resource::JOB.called(Some("lab"), "a"), "job lab/a");
    }

    #[test]
    fn no_path_is_made_of_what_is_no_name() {
        for name in ["a", "a.b-c", "0"] {
            check_name(name).unwrap();
        }
        for name in ["", "a/b", "..", "A", "a?x", "a%2f", "ä", "a b", "-a", &"a".repeat(254)] {
            assert!(check_name(name).is_err(), "{name}");
        }
        let said = check_name("a\u{1b}[2J").unwrap_err().to_string();
        assert_eq!(said, r#""a\u{1b}[2J" is not the name of an object"#);
    }

    #[test]
    fn values_of_a_query_are_encoded() {
        let query = Query::default()
            .with("limit", "250")
            .with("continue", "")
            .with("fieldSelector", "status.state!=Completed,a=b&c");
        assert_eq!(
            query.as_str(),
            "?limit=250&fieldSelector=status.state%21%3DCompleted%2Ca%3Db%26c"
        );
    }
}
