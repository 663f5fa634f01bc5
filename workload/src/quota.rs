//! ResourceQuotas, as far as they count the requests of pods.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ResourceQuota;

use crate::metadata;
use crate::metadata::InvalidObject;
use crate::object::ObjectRef;
use crate::quantity;
use crate::resources::{ResourceName, Resources};

/// A ResourceQuota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    /// Its identity.
    pub id: ObjectRef,
    /// The amounts that it leaves for pods to come.
    pub left: Vec<Left>,
}

/// The amount that a quota leaves of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The name of the resource in the quota, such as `requests.cpu`.
    pub name: Arc<str>,
    /// The resource by the name that pods request it under.
    pub resource: ResourceName,
    /// The amount, in the units of [`Resources`].
    pub amount: u64,
}

impl Quota {
    /// Reads a quota. Only limits on requests and on the number of pods are read, and values that
    /// are quantities. A quota with scopes counts some pods only, so it limits nothing here.
    pub fn from_kubernetes(quota: &ResourceQuota) -> Result<Quota, InvalidObject> {
        let id = metadata::object_ref("ResourceQuota", &quota.metadata)?;
        let spec = quota.spec.as_ref();
        let has_scopes = spec.is_some_and(|spec| {
            spec.scopes.as_ref().is_some_and(|scopes| !scopes.is_empty())
                || spec.scope_selector.is_some()
        });
        let status = quota.status.as_ref().filter(|_| !has_scopes);
        // Until the controller has seen a quota, its status is empty: the API server does not
        // enforce it before.
        let hard = status.and_then(|status| status.hard.as_ref()).into_iter().flatten();
        let used = |name| status?.used.as_ref()?.get(name);
        let left = hard.filter_map(|(name, hard)| {
            let resource = counted(name)?;
            let hard = quantity::allowance(resource, &hard.0).ok()?;
            let used =
                used(name).map_or(Ok(0), |used| quantity::allowance(resource, &used.0)).ok()?;
            Some(Left {
                name: name.as_str().into(),
                resource: resource.into(),
                amount: hard.saturating_sub(used),
            })
        });
        Ok(Quota { id, left: left.collect() })
    }

    /// Returns the first of its resources of which it leaves too little for these requests.
    pub fn exceeded_by(&self, requests: &Resources) -> Option<&Left> {
        self.left.iter().find(|left| requests.sum(&left.resource) > u128::from(left.amount))
    }
}

/// Returns the resource that a name in a quota counts the requests of; the number of pods is one.
fn counted(name: &str) -> Option<&str> {
    match name {
        "cpu" | "memory" | "ephemeral-storage" | "pods" => Some(name),
        "count/pods" => Some("pods"),
        _ if name.starts_with("hugepages-") => Some(name),
        // This counts claims, not pods.
        "requests.storage" => None,
        _ => name.strip_prefix("requests."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn quota(spec: &Value, hard: &Value, used: &Value) -> Quota {
        let object = json!({
            "metadata": {"name": "q", "namespace": "ns", "uid": "1"},
            "spec": spec, "status": {"hard": hard, "used": used},
        });
        Quota::from_kubernetes(&serde_json::from_value(object).expect("a quota"))
            .expect("it can be read")
    }

    fn left(quota: &Quota) -> Vec<(&str, &str, u64)> {
        quota.left.iter().map(|left| (&*left.name, &*left.resource, left.amount)).collect()
    }

    #[test]
    fn the_rest_of_a_quota_on_requests_is_read() {
        let hard = json!({
            "cpu": "4", "requests.memory": "1Gi", "count/pods": "10",
            "requests.nvidia.com/gpu": "2",
            "limits.cpu": "8", "requests.storage": "1Ti", "services": "3", "count/jobs.batch": "4",
            "hugepages-2Mi": "x",
        });
        let used = json!({"cpu": "1500m", "requests.memory": "2Gi"});
        let read = quota(&json!({}), &hard, &used);
        let gib = 1 << 30;
        assert_eq!(
            left(&read),
            [
                ("count/pods", "pods", 10),
                ("cpu", "cpu", 2500),
                ("requests.memory", "memory", 0),
                ("requests.nvidia.com/gpu", "nvidia.com/gpu", 2)
            ]
        );
        let asks = |amounts: &[(&str, u64)]| amounts.iter().copied().collect::<Resources>();
        assert_eq!(read.exceeded_by(&asks(&[("cpu", 2500), ("pods", 10)])), None);
        assert_eq!(read.exceeded_by(&asks(&[("cpu", 2501)])).map(|left| &*left.name), Some("cpu"));
        assert_eq!(
            read.exceeded_by(&asks(&[("memory", gib)])).map(|left| &*left.name),
            Some("requests.memory")
        );
    }

    #[test]
    fn a_quota_that_counts_some_pods_only_or_is_not_in_force_leaves_all() {
        let hard = json!({"cpu": "1"});
        let selector =
            json!({"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]});
        for spec in [json!({"scopes": ["BestEffort"]}), json!({"scopeSelector": selector})] {
            assert_eq!(left(&quota(&spec, &hard, &json!({}))), []);
        }
        assert_eq!(left(&quota(&json!({"hard": hard}), &json!({}), &json!({}))), []);
    }
}
