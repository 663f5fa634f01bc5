//! The resources that a pod takes of a node, as kube-scheduler counts them.
//!
//! Containers are summed; init containers set a minimum, where those that go on running
//! (restartPolicy Always) count for all that follow; pod-level requests replace the sum; overhead
//! comes on top (KEP-753, KEP-2837). Once a pod is on a node, an in-place resize (KEP-1287) makes
//! the largest of three sums count: of the requested, the actual and the allocated resources. This
//! is the rule of kube-scheduler 1.37; earlier ones compare the three container by container.
//!
//! A quantity that cannot be read is reported with its field and left out: the rest still counts.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as KubeQuantity;

use crate::quantity::{self, Quantity, QuantityError};
use crate::resources::Resources;
use crate::unsupported::Unsupported;

/// The resources that a pod takes, and the quantities that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requests {
    /// The amounts, `pods: 1` included.
    pub total: Resources,
    /// Quantities that are left out of the total.
    pub problems: Vec<Unsupported>,
}

/// Returns the resources that a pod takes: by its spec while it waits, by spec and status once it
/// is on a node.
pub fn of_pod(pod: &Pod) -> Requests {
    let Some(spec) = &pod.spec else { return Requests::default() };
    let mut reader = Reader::new(spec, pod.status.as_ref());
    let mut amounts = reader.containers(spec, pod.status.as_ref());
    reader.pod_level(spec, pod.status.as_ref(), &mut amounts);
    amounts.add(&reader.read(spec.overhead.as_ref(), || "spec.overhead".to_owned()));
    reader.finish(&amounts)
}

/// Amounts by resource name, exact.
#[derive(Debug, Clone, Default)]
struct Amounts<'a>(BTreeMap<&'a str, Quantity>);

type KubeAmounts = BTreeMap<String, KubeQuantity>;

/// The resources of its containers by which a pod is summed up.
#[derive(Clone, Copy)]
enum By {
    /// The requests in the spec.
    Spec,
    /// The resources in use.
    Actual,
    /// The resources that the kubelet has allocated.
    Allocated,
}

/// The place of a container's resources, for messages.
#[derive(Clone, Copy)]
struct Place {
    list: &'static str,
    index: usize,
}

struct Reader<'a> {
    /// The statuses of the containers by name; empty while the pod waits, when only the spec
    /// counts.
    statuses: BTreeMap<&'a str, &'a ContainerStatus>,
    bound: bool,
    /// True if a resize can never be granted: then the spec does not count.
    resize_infeasible: bool,
    problems: Vec<Unsupported>,
}

impl<'a> Reader<'a> {
    fn new(spec: &'a PodSpec, status: Option<&'a PodStatus>) -> Self {
        let bound = spec.node_name.as_deref().is_some_and(|node| !node.is_empty());
        let status = status.filter(|_| bound);
        let containers =
            status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
        let inits =
            status.and_then(|status| status.init_container_statuses.as_deref()).unwrap_or_default();
        let pending =
            status.and_then(|status| status.conditions.as_deref()).and_then(|conditions| {
                conditions.iter().find(|condition| condition.type_ == "PodResizePending")
            });
        Reader {
            statuses: containers
                .iter()
                .chain(inits)
                .map(|status| (status.name.as_str(), status))
                .collect(),
            bound,
            resize_infeasible: pending
                .is_some_and(|condition| condition.reason.as_deref() == Some("Infeasible")),
            problems: Vec::new(),
        }
    }

    /// Returns the need of all containers: of a pod on a node the largest of the requested, the
    /// actual and the allocated resources, each as a sum.
    fn containers(&mut self, spec: &'a PodSpec, status: Option<&'a PodStatus>) -> Amounts<'a> {
        let asked = self.sum_of(spec, By::Spec);
        if !self.bound {
            return asked;
        }
        let of_pod = status.and_then(|status| {
            let actual = status.resources.as_ref()?.requests.as_ref()?;
            Some((actual, status.allocated_resources.as_ref()?))
        });
        let mut most = if self.resize_infeasible { Amounts::default() } else { asked };
        // The kubelet's sums for the whole pod stand for those of its containers.
        if let Some((actual, allocated)) = of_pod {
            most.raise_to(&self.read(Some(actual), || "status.resources.requests".to_owned()));
            most.raise_to(&self.read(Some(allocated), || "status.allocatedResources".to_owned()));
        } else {
            most.raise_to(&self.sum_of(spec, By::Actual));
            most.raise_to(&self.sum_of(spec, By::Allocated));
        }
        most
    }

    /// Returns the sum of the containers, but at least the need of each init container while it
    /// runs.
    fn sum_of(&mut self, spec: &'a PodSpec, by: By) -> Amounts<'a> {
        let mut total = Amounts::default();
        for (index, container) in spec.containers.iter().enumerate() {
            total.add(&self.container(container, Place { list: "containers", index }, by));
        }
        let mut sidecars = Amounts::default();
        let mut peak = Amounts::default();
        for (index, container) in spec.init_containers.iter().flatten().enumerate() {
            let place = Place { list: "initContainers", index };
            let mut amounts = self.container(container, place, by);
            if container.restart_policy.as_deref() == Some("Always") {
                total.add(&amounts);
                sidecars.add(&amounts);
                peak.raise_to(&sidecars);
            } else {
                amounts.add(&sidecars);
                peak.raise_to(&amounts);
            }
        }
        total.raise_to(&peak);
        total
    }

    /// Reads one container. Without resources in its status its spec counts, unless a resize is
    /// infeasible.
    fn container(&mut self, container: &'a Container, place: Place, by: By) -> Amounts<'a> {
        let status = self.statuses.get(container.name.as_str()).copied();
        let actual = status.and_then(|status| status.resources.as_ref()?.requests.as_ref());
        let allocated = status.and_then(|status| status.allocated_resources.as_ref());
        match (by, actual, allocated) {
            (By::Actual, Some(actual), _) => {
                return self.read(Some(actual), || place.status("resources.requests"));
            }
            (By::Actual | By::Allocated, _, Some(allocated)) => {
                return self.read(Some(allocated), || place.status("allocatedResources"));
            }
            (By::Actual | By::Allocated, ..) if self.resize_infeasible => {
                return Amounts::default();
            }
            _ => {}
        }
        let resources = container.resources.as_ref();
        let requests = resources.and_then(|resources| resources.requests.as_ref());
        let mut asked = self.read(requests, || place.spec("requests"));
        // The API server fills in requests from limits; where it has not, they count all the same.
        let limits = resources.and_then(|resources| resources.limits.as_ref());
        let unrequested = limits
            .into_iter()
            .flatten()
            .filter(|(name, _)| requests.is_none_or(|r| !r.contains_key(*name)));
        for (name, text) in unrequested {
            self.read_one(&mut asked, name, text, || place.spec("limits"));
        }
        asked
    }

    /// Replaces the sum of the containers by requests of the pod as a whole.
    fn pod_level(
        &mut self,
        spec: &'a PodSpec,
        status: Option<&'a PodStatus>,
        amounts: &mut Amounts<'a>,
    ) {
        // Without requests of its own the pod asks for those of its containers.
        let Some(requests) =
            spec.resources.as_ref().and_then(|resources| resources.requests.as_ref())
        else {
            return;
        };
        let asked = self.read(Some(requests), || "spec.resources.requests".to_owned());
        if !asked.0.keys().any(|name| is_pod_level(name)) {
            return;
        }
        let status = status.filter(|_| self.bound);
        let mut effective = asked;
        if let Some((status, resources)) =
            status.and_then(|status| Some((status, status.resources.as_ref()?)))
        {
            if self.resize_infeasible {
                effective = Amounts::default();
            }
            effective.raise_to(
                &self.read(resources.requests.as_ref(), || "status.resources.requests".to_owned()),
            );
            effective.raise_to(&self.read(status.allocated_resources.as_ref(), || {
                "status.allocatedResources".to_owned()
            }));
        }
        amounts.0.extend(effective.0.into_iter().filter(|(name, _)| is_pod_level(name)));
    }

    fn read(&mut self, list: Option<&'a KubeAmounts>, path: impl Fn() -> String) -> Amounts<'a> {
        let mut amounts = Amounts::default();
        for (name, text) in list.into_iter().flatten() {
            self.read_one(&mut amounts, name, text, &path);
        }
        amounts
    }

    fn read_one(
        &mut self,
        into: &mut Amounts<'a>,
        name: &'a str,
        text: &KubeQuantity,
        path: impl Fn() -> String,
    ) {
        if !is_counted(name) {
            return;
        }
        match read_amount(name, &text.0) {
            Ok(quantity) => drop(into.0.insert(name, quantity)),
            Err(error) => {
                let field = format!("{}.{name}", path());
                let problem = Unsupported { field, message: error.to_string() };
                // Each sum reads the spec.
                if !self.problems.contains(&problem) {
                    self.problems.push(problem);
                }
            }
        }
    }

    /// Rounds up, at the very end.
    fn finish(mut self, amounts: &Amounts<'_>) -> Requests {
        let mut total = Resources::new();
        total.set("pods", 1);
        for (name, quantity) in &amounts.0 {
            let amount = if *name == "cpu" { quantity.millis() } else { quantity.value() };
            match amount {
                Some(amount) => total.set(*name, amount),
                None => self.problems.push(Unsupported {
                    field: "spec".to_owned(),
                    message: format!(
                        "the sum of the requests of {name} is larger than 2^63 - 1{}",
                        unit_of_sums(name)
                    ),
                }),
            }
        }
        Requests { total, problems: self.problems }
    }
}

impl Amounts<'_> {
    fn raise_to(&mut self, other: &Self) {
        for (name, quantity) in &other.0 {
            let entry = self.0.entry(name).or_default();
            *entry = (*entry).max(*quantity);
        }
    }
}

impl<'a> Amounts<'a> {
    fn add(&mut self, other: &Amounts<'a>) {
        for (name, quantity) in &other.0 {
            let entry = self.0.entry(name).or_default();
            *entry = entry.plus(*quantity);
        }
    }
}

impl Place {
    fn spec(self, kind: &str) -> String {
        format!("spec.{}[{}].resources.{kind}", self.list, self.index)
    }

    /// Returns the path of a status. Statuses are found by name and stand in any order, so the path
    /// has the name of the list and the spec's index.
    fn status(self, field: &str) -> String {
        let list =
            if self.list == "containers" { "containerStatuses" } else { "initContainerStatuses" };
        format!("status.{list}[of {}[{}]].{field}", self.list, self.index)
    }
}

/// Reads a quantity that fits the resource's own unit.
fn read_amount(name: &str, text: &str) -> Result<Quantity, QuantityError> {
    if name == "cpu" { quantity::millis(text) } else { quantity::value(text) }?;
    Quantity::parse(text)
}

/// Returns the unit in which a resource is counted, if that is not its own.
fn unit_of_sums(name: &str) -> &'static str {
    if name == "cpu" { " thousandths" } else { "" }
}

/// True if a resource takes up a node. Names that Kubernetes does not know as such (it refuses them
/// in pods) are left out, and so is `pods`, which every pod takes once.
pub fn is_counted(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
        || name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || name.contains('/')
}

/// True if a resource may be requested for the pod as a whole.
fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn requests(pod: Value) -> Requests {
        of_pod(&serde_json::from_value(pod).unwrap())
    }

    fn total(pod: Value) -> Vec<(String, u64)> {
        let requests = requests(pod);
        assert_eq!(requests.problems, []);
        requests.total.iter().map(|(name, amount)| (name.to_string(), amount)).collect()
    }

    fn amounts(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
        expected.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect()
    }

    #[test]
    fn a_pod_that_asks_for_nothing_takes_one_pod() {
        assert_eq!(
            total(json!({"spec": {"containers": [{"name": "a"}]}})),
            amounts(&[("pods", 1)])
        );
        assert_eq!(
            total(json!({
                "spec": {
                    "containers": [{
                        "name": "a", "resources": {"requests": {"cpu": "0", "x.io/y": "0"}},
                    }],
                },
            })),
            amounts(&[("pods", 1)])
        );
    }

    #[test]
    fn containers_are_summed_exactly_and_rounded_once() {
        let container = |cpu: &str, memory: &str| {
            json!({
                "name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}},
            })
        };
        assert_eq!(
            total(json!({"spec": {"containers": [
                container("500u", "100m"), container("500u", "100m"), container("1", "1Ki"),
            ]}})),
            amounts(&[("cpu", 1001), ("memory", 1025), ("pods", 1)])
        );
    }

    #[test]
    fn sidecars_count_with_the_containers_that_follow() {
        // While `big` runs, `side` runs too: 2 + 5. Later, `side` and `main` run: 2 + 1. `first`
        // ran before `side`.
        let pod = json!({"spec": {
            "initContainers": [
                {"name": "first", "resources": {"requests": {"cpu": "6"}}},
                {
                    "name": "side", "restartPolicy": "Always",
                    "resources": {"requests": {"cpu": "2"}},
                },
                {"name": "big", "resources": {"requests": {"cpu": "5", "memory": "1Gi"}}},
            ],
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        }});
        assert_eq!(total(pod), amounts(&[("cpu", 7000), ("memory", 1 << 30), ("pods", 1)]));
    }

    #[test]
    fn limits_count_where_no_request_is_made() {
        let pod = json!({"spec": {"containers": [{"name": "a", "resources": {
            "limits": {"nvidia.com/gpu": "2", "cpu": "4"}, "requests": {"cpu": "1"},
        }}]}});
        assert_eq!(total(pod), amounts(&[("cpu", 1000), ("nvidia.com/gpu", 2), ("pods", 1)]));
    }

    #[test]
    fn pod_level_requests_replace_the_sum_and_overhead_comes_on_top() {
        let pod = json!({"spec": {
            "containers": [{
                "name": "a",
                "resources": {"requests": {"cpu": "3", "memory": "1Gi", "x.io/gpu": "1"}},
            }],
            "resources": {"requests": {"cpu": "2", "x.io/gpu": "9"}},
            "overhead": {"cpu": "250m"},
        }});
        assert_eq!(
            total(pod),
            amounts(&[("cpu", 2250), ("memory", 1 << 30), ("pods", 1), ("x.io/gpu", 1)])
        );
    }

    #[test]
    fn a_resize_counts_the_larger_of_asked_and_used_once_the_pod_is_on_a_node() {
        let pod = |node: &str, reason: &str| {
            json!({
                "spec": {
                    "nodeName": node,
                    "containers": [{"name": "a", "resources": {"requests": {"cpu": "8"}}}],
                },
                "status": {
                    "conditions": [{
                        "type": "PodResizePending", "status": "True", "reason": reason,
                    }],
                    "containerStatuses": [{
                        "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                        "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "3"}},
                    }],
                },
            })
        };
        assert_eq!(total(pod("n", "Deferred")), amounts(&[("cpu", 8000), ("pods", 1)]));
        assert_eq!(total(pod("n", "Infeasible")), amounts(&[("cpu", 3000), ("pods", 1)]));
        assert_eq!(
            total(pod("", "Infeasible")),
            amounts(&[("cpu", 8000), ("pods", 1)]),
            "a waiting pod has only a spec"
        );
    }

    #[test]
    fn resized_containers_count_by_the_largest_of_their_sums() {
        let container =
            |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
        let status = |name: &str, actual: &str, allocated: &str| {
            json!({
                "name": name, "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "allocatedResources": {"cpu": allocated},
                "resources": {"requests": {"cpu": actual}},
            })
        };
        let mut pod = json!({
            "spec": {
                "nodeName": "n",
                "containers": [container("a", "5"), container("b", "1")],
                "initContainers": [container("i", "1")],
            },
            "status": {
                "containerStatuses": [status("a", "1", "1"), status("b", "4", "6")],
                "initContainerStatuses": [status("i", "2", "3")],
            },
        });
        // Requested are 6, in use 5, allocated 7: container by container it were 11.
        assert_eq!(total(pod.clone()), amounts(&[("cpu", 7000), ("pods", 1)]));
        pod["status"]["initContainerStatuses"] = json!([status("i", "2", "8")]);
        assert_eq!(total(pod.clone()), amounts(&[("cpu", 8000), ("pods", 1)]));
        // The kubelet's sums for the pod replace those of its containers, and not the request.
        pod["status"]["allocatedResources"] = json!({"cpu": "2"});
        pod["status"]["resources"] = json!({"requests": {"cpu": "2"}});
        assert_eq!(total(pod), amounts(&[("cpu", 6000), ("pods", 1)]));
    }

    #[test]
    fn a_bad_quantity_is_named_and_the_rest_counts() {
        let requests = requests(json!({"spec": {
            "initContainers": [{
                "name": "i", "resources": {"limits": {"memory": "9223372036854775808"}},
            }],
            "containers": [
                {"name": "a", "resources": {"requests": {"cpu": "1"}}},
                {"name": "b", "resources": {
                    "requests": {"cpu": "1..2", "memory": "-1", "x.io/gpu": "1"},
                }},
            ],
            "overhead": {"cpu": "9223372036854775807"},
        }}));
        assert_eq!(
            requests.total,
            [("cpu", 1000), ("pods", 1), ("x.io/gpu", 1)].into_iter().collect()
        );
        let problems: Vec<_> =
            requests.problems.iter().map(|p| format!("{}: {}", p.field, p.message)).collect();
        assert_eq!(
            problems,
            [
                "spec.containers[1].resources.requests.cpu: \"1..2\" is not a quantity",
                "spec.containers[1].resources.requests.memory: \"-1\" is negative",
                "spec.initContainers[0].resources.limits.memory: \"9223372036854775808\" is larger \
                 than 2^63 - 1",
                "spec.overhead.cpu: \"9223372036854775807\" is larger than 2^63 - 1 thousandths",
            ]
        );
    }

    #[test]
    fn a_sum_past_the_bound_is_refused() {
        let container =
            json!({"name": "c", "resources": {"requests": {"memory": "9223372036854775807"}}});
        let requests = requests(json!({"spec": {"containers": [container, container]}}));
        assert_eq!(requests.total, [("pods", 1)].into_iter().collect());
        assert_eq!(
            requests.problems[0].message,
            "the sum of the requests of memory is larger than 2^63 - 1"
        );
    }

    #[test]
    fn names_that_take_up_no_node_are_left_out() {
        let container = json!({"name": "c", "resources": {"requests": {
            "pods": "5", "storage": "1Gi", "hugepages-2Mi": "4Mi", "ephemeral-storage": "1",
            "kubernetes.io/batch": "1",
        }}});
        assert_eq!(
            total(json!({"spec": {"containers": [container]}})),
            amounts(&[
                ("ephemeral-storage", 1),
                ("hugepages-2Mi", 4 << 20),
                ("kubernetes.io/batch", 1),
                ("pods", 1)
            ])
        );
    }
}
