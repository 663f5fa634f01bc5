//! The changes that the API server's admission makes to a new pod: default requests from the
//! LimitRanges of its namespace, and overhead and nodes from its RuntimeClass.
//!
//! This does the same as the plugins LimitRanger and RuntimeClass. It checks no limits of
//! LimitRanges, and knows no changes by webhooks.

use std::collections::BTreeMap;

use fluxqueue_workload::quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, LimitRange, Pod, PodSpec};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as KubeQuantity;

type Amounts = BTreeMap<String, KubeQuantity>;

/// The objects by which pods are completed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Additions {
    /// The LimitRanges by namespace.
    pub limit_ranges: BTreeMap<String, Vec<LimitRange>>,
    /// The RuntimeClasses by name; one that is missing here does not exist. `None` if they were not
    /// read, and then pods are left alone.
    pub runtime_classes: Option<BTreeMap<String, RuntimeClass>>,
}

impl Additions {
    /// Completes a pod. Fails if the API server would refuse the pod.
    pub(crate) fn add_to(&self, pod: &mut Pod) -> Result<(), String> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let limit_ranges = self.limit_ranges.get(namespace).map(Vec::as_slice).unwrap_or_default();
        // A pod without a spec has nothing to complete.
        let Some(spec) = &mut pod.spec else { return Ok(()) };
        for limit_range in limit_ranges {
            give_requests(limit_range, spec);
        }
        // A pod without a RuntimeClass stays as it is, and so does each if the classes were not
        // read.
        let (Some(name), Some(classes)) = (&spec.runtime_class_name, &self.runtime_classes) else {
            return Ok(());
        };
        match classes.get(name) {
            Some(class) => run_by(&class.clone(), spec),
            None => Err(format!("spec.runtimeClassName: there is no RuntimeClass {name:?}")),
        }
    }
}

/// Gives the default request of the LimitRange to containers that have neither a request nor a
/// limit for the resource.
fn give_requests(limit_range: &LimitRange, spec: &mut PodSpec) {
    let items = limit_range
        .spec
        .iter()
        .flat_map(|spec| &spec.limits)
        .filter(|item| item.type_ == "Container");
    let defaults: Amounts =
        items.filter_map(|item| item.default_request.clone()).flatten().collect();
    let containers = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
    for container in containers.filter(|_| !defaults.is_empty()) {
        give_container(&defaults, container);
    }
}

fn give_container(defaults: &Amounts, container: &mut Container) {
    let resources = container.resources.get_or_insert_default();
    // A limit without a request counts as request too, which was filled in before.
    let limits = resources.limits.clone().unwrap_or_default();
    let requests = resources.requests.get_or_insert_default();
    for (resource, amount) in
        defaults.iter().filter(|(resource, _)| !limits.contains_key(*resource))
    {
        requests.entry(resource.clone()).or_insert_with(|| amount.clone());
    }
}

/// Gives a pod the overhead and the nodes of its RuntimeClass.
fn run_by(class: &RuntimeClass, spec: &mut PodSpec) -> Result<(), String> {
    if let Some(overhead) = &class.overhead {
        let fixed = overhead.pod_fixed.clone().unwrap_or_default();
        if spec.overhead.as_ref().is_some_and(|own| !own.is_empty() && !is_same(own, &fixed)) {
            return Err("spec.overhead differs from that of the pod's RuntimeClass".to_owned());
        }
        spec.overhead = Some(fixed);
    }
    // A RuntimeClass may leave the choice of nodes to its pods.
    let Some(scheduling) = &class.scheduling else { return Ok(()) };
    let selector = spec.node_selector.get_or_insert_default();
    for (key, value) in scheduling.node_selector.iter().flatten() {
        let own = selector.entry(key.clone()).or_insert_with(|| value.clone());
        if own != value {
            return Err(format!(
                "spec.nodeSelector: {key} is {own:?}, but the pod's RuntimeClass needs {value:?}"
            ));
        }
    }
    let tolerations = spec.tolerations.get_or_insert_default();
    for toleration in scheduling.tolerations.iter().flatten() {
        if !tolerations.contains(toleration) {
            tolerations.push(toleration.clone());
        }
    }
    Ok(())
}

/// True if the amounts are equal, in whatever notation.
fn is_same(one: &Amounts, other: &Amounts) -> bool {
    let amount = |quantity: &KubeQuantity| Quantity::parse(&quantity.0).ok();
    let is_in_other = |(resource, own): (&String, &KubeQuantity)| {
        other
            .get(resource)
            .is_some_and(|other| amount(other).is_some() && amount(other) == amount(own))
    };
    one.len() == other.len() && one.iter().all(is_in_other)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn limit_range(items: &Value) -> LimitRange {
        serde_json::from_value(json!({"metadata": {"name": "l"}, "spec": {"limits": items}}))
            .unwrap()
    }

    fn of_class(class: &Value) -> Additions {
        let class: RuntimeClass = serde_json::from_value(class.clone()).unwrap();
        let classes = BTreeMap::from([(class.metadata.name.clone().unwrap(), class)]);
        Additions { runtime_classes: Some(classes), ..Additions::default() }
    }

    fn completed(additions: &Additions, spec: &Value) -> Result<PodSpec, String> {
        let pod = json!({"metadata": {"name": "p", "namespace": "lab"}, "spec": spec});
        let mut pod: Pod = serde_json::from_value(pod).unwrap();
        additions.add_to(&mut pod).map(|()| pod.spec.unwrap())
    }

    #[test]
    fn containers_without_a_request_get_that_of_the_limit_range() {
        let first = json!([
            {"type": "Pod", "defaultRequest": {"cpu": "9"}},
            {"type": "Container", "defaultRequest": {"cpu": "3", "memory": "1Gi"}},
        ]);
        let second =
            json!([{"type": "Container", "defaultRequest": {"cpu": "5", "example.com/gpu": "1"}}]);
        let limit_ranges = BTreeMap::from([
            ("lab".to_owned(), vec![limit_range(&first), limit_range(&second)]),
            (
                "office".to_owned(),
                vec![limit_range(&json!([{"type": "Container", "defaultRequest": {"disk": "1"}}]))],
            ),
        ]);
        let additions = Additions { limit_ranges, ..Additions::default() };
        let spec = json!({
            "containers": [
                {"name": "silent"},
                {"name": "requests", "resources": {"requests": {"cpu": "1"}}},
                {"name": "limited", "resources": {"limits": {"cpu": "2"}}},
            ],
            "initContainers": [{"name": "first"}],
        });
        let spec = completed(&additions, &spec).unwrap();
        let all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let requests =
            all.map(|it| serde_json::to_value(&it.resources.as_ref().unwrap().requests).unwrap());
        let given = |cpu: &str| json!({"cpu": cpu, "memory": "1Gi", "example.com/gpu": "1"});
        // A limit is the request as well.
        let limited = json!({"memory": "1Gi", "example.com/gpu": "1"});
        assert_eq!(requests.collect::<Vec<_>>(), [given("3"), given("1"), limited, given("3")]);
    }

    #[test]
    fn a_runtime_class_adds_its_overhead_and_its_nodes() {
        let additions = of_class(&json!({
            "metadata": {"name": "sandbox"}, "handler": "h",
            "overhead": {"podFixed": {"cpu": "250m"}},
            "scheduling": {
                "nodeSelector": {"runtime": "sandbox"},
                "tolerations": [{"key": "sandbox", "operator": "Exists"}],
            },
        }));
        let asked = json!({
            "runtimeClassName": "sandbox", "overhead": {"cpu": "0.25"}, "containers": [],
            "nodeSelector": {"zone": "a"},
            "tolerations": [{"key": "sandbox", "operator": "Exists"}],
        });
        let spec = completed(&additions, &asked).unwrap();
        let spec = serde_json::to_value(spec).unwrap();
        assert_eq!(spec["overhead"], json!({"cpu": "250m"}));
        assert_eq!(spec["nodeSelector"], json!({"runtime": "sandbox", "zone": "a"}));
        assert_eq!(
            spec["tolerations"],
            json!([{"key": "sandbox", "operator": "Exists"}]),
            "the pod has that already"
        );
    }

    #[test]
    fn refusals_of_the_api_server_are_errors() {
        let additions = of_class(&json!({
            "metadata": {"name": "sandbox"}, "handler": "h", "overhead": {"podFixed": {"cpu": "1"}},
            "scheduling": {"nodeSelector": {"runtime": "sandbox"}},
        }));
        let cases = [
            (json!({"runtimeClassName": "lost"}), "there is no RuntimeClass \"lost\""),
            (json!({"runtimeClassName": "sandbox", "overhead": {"cpu": "2"}}), "spec.overhead"),
            (
                json!({"runtimeClassName": "sandbox", "nodeSelector": {"runtime": "bare"}}),
                "runtime is \"bare\"",
            ),
        ];
        for (mut spec, said) in cases {
            spec["containers"] = json!([]);
            let refused = completed(&additions, &spec).expect_err(said);
            assert!(refused.contains(said), "{refused}");
        }
        // Without reading RuntimeClasses, no error is possible.
        assert!(
            completed(
                &Additions::default(),
                &json!({"runtimeClassName": "lost", "containers": []})
            )
            .is_ok()
        );
    }
}
