//! What a pod takes of a node, as kube-scheduler counts it.
//!
//! Containers are summed; init containers set a minimum, where those that go on running (restartPolicy Always) count
//! for all that follow; pod-level requests replace the sum; overhead comes on top (KEP-753, KEP-2837). Once a pod is on a
//! node, an in-place resize (KEP-1287) makes the larger of what is asked and what is in use count.
//!
//! A quantity that cannot be read is reported with its field and left out: the rest still counts.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as KubeQuantity;

use super::Unsupported;
use super::quantity::{Quantity, QuantityError};
use crate::cluster::Resources;

/// What a pod takes, and what could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requests {
    /// The amounts, `pods: 1` included.
    pub total: Resources,
    /// Quantities that are left out of it.
    pub problems: Vec<Unsupported>,
}

/// What a pod takes: by its spec while it waits, by spec and status once it is on a node.
pub fn of_pod(pod: &Pod) -> Requests {
    let Some(spec) = &pod.spec else { return Requests::default() };
    let mut reader = Reader::new(spec, pod.status.as_ref());
    let mut amounts = reader.containers(spec);
    reader.pod_level(spec, pod.status.as_ref(), &mut amounts);
    amounts.add(&reader.read(spec.overhead.as_ref(), || "spec.overhead".to_owned()));
    reader.finish(&amounts)
}

/// Amounts by resource name, exact.
#[derive(Debug, Clone, Default)]
struct Amounts<'a>(BTreeMap<&'a str, Quantity>);

type KubeAmounts = BTreeMap<String, KubeQuantity>;

/// Where the resources of a container are found, and what they are called in messages.
#[derive(Clone, Copy)]
struct Place {
    list: &'static str,
    index: usize,
}

struct Reader<'a> {
    /// Statuses of the containers by name; empty while the pod waits, when only the spec counts.
    statuses: BTreeMap<&'a str, &'a ContainerStatus>,
    bound: bool,
    /// A resize that can never be granted: what is asked does not count.
    resize_infeasible: bool,
    problems: Vec<Unsupported>,
}

impl<'a> Reader<'a> {
    fn new(spec: &'a PodSpec, status: Option<&'a PodStatus>) -> Self {
        let bound = spec.node_name.as_deref().is_some_and(|node| !node.is_empty());
        let status = status.filter(|_| bound);
        let containers = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
        let inits = status.and_then(|status| status.init_container_statuses.as_deref()).unwrap_or_default();
        let pending = status
            .and_then(|status| status.conditions.as_deref())
            .and_then(|conditions| conditions.iter().find(|condition| condition.type_ == "PodResizePending"));
        Reader {
            statuses: containers.iter().chain(inits).map(|status| (status.name.as_str(), status)).collect(),
            bound,
            resize_infeasible: pending.is_some_and(|condition| condition.reason.as_deref() == Some("Infeasible")),
            problems: Vec::new(),
        }
    }

    /// The sum of the containers, but at least what each init container needs while it runs.
    fn containers(&mut self, spec: &'a PodSpec) -> Amounts<'a> {
        let mut total = Amounts::default();
        for (index, container) in spec.containers.iter().enumerate() {
            let place = Place { list: "containers", index };
            total.add(&self.container(container, place, true));
        }
        let mut sidecars = Amounts::default();
        let mut peak = Amounts::default();
        for (index, container) in spec.init_containers.iter().flatten().enumerate() {
            let place = Place { list: "initContainers", index };
            let restartable = container.restart_policy.as_deref() == Some("Always");
            let mut amounts = self.container(container, place, restartable);
            if restartable {
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

    /// One container; `resizable` if what its status says counts too.
    fn container(&mut self, container: &'a Container, place: Place, resizable: bool) -> Amounts<'a> {
        let resources = container.resources.as_ref();
        let requests = resources.and_then(|resources| resources.requests.as_ref());
        let mut asked = self.read(requests, || place.spec("requests"));
        // The API server fills in requests from limits; where it has not, they count all the same.
        let limits = resources.and_then(|resources| resources.limits.as_ref());
        let unrequested =
            limits.into_iter().flatten().filter(|(name, _)| requests.is_none_or(|r| !r.contains_key(*name)));
        for (name, text) in unrequested {
            self.read_one(&mut asked, name, text, || place.spec("limits"));
        }
        let Some(status) = self.statuses.get(container.name.as_str()).copied().filter(|_| resizable) else {
            return asked;
        };
        let Some(resources) = &status.resources else { return asked };
        let mut effective = if self.resize_infeasible { Amounts::default() } else { asked };
        effective.raise_to(&self.read(resources.requests.as_ref(), || place.status("resources.requests")));
        effective.raise_to(&self.read(status.allocated_resources.as_ref(), || place.status("allocatedResources")));
        effective
    }

    /// Requests of the pod as a whole replace what its containers sum up to.
    fn pod_level(&mut self, spec: &'a PodSpec, status: Option<&'a PodStatus>, amounts: &mut Amounts<'a>) {
        let Some(requests) = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()) else { return };
        let asked = self.read(Some(requests), || "spec.resources.requests".to_owned());
        let status = status.filter(|_| self.bound);
        let actual = status.and_then(|status| Some((status.resources.as_ref()?, status.allocated_resources.as_ref())));
        let effective = actual.map(|(resources, allocated)| {
            let mut effective = if self.resize_infeasible { Amounts::default() } else { asked.clone() };
            effective.raise_to(&self.read(resources.requests.as_ref(), || "status.resources.requests".to_owned()));
            effective.raise_to(&self.read(allocated, || "status.allocatedResources".to_owned()));
            effective
        });
        for name in asked.0.keys().filter(|name| is_pod_level(name)) {
            let amount = effective.as_ref().unwrap_or(&asked).0.get(name).copied().unwrap_or_default();
            amounts.0.insert(name, amount);
        }
    }

    fn read(&mut self, list: Option<&'a KubeAmounts>, path: impl Fn() -> String) -> Amounts<'a> {
        let mut amounts = Amounts::default();
        for (name, text) in list.into_iter().flatten() {
            self.read_one(&mut amounts, name, text, &path);
        }
        amounts
    }

    fn read_one(&mut self, into: &mut Amounts<'a>, name: &'a str, text: &KubeQuantity, path: impl Fn() -> String) {
        if !is_counted(name) {
            return;
        }
        match read_amount(name, &text.0) {
            Ok(quantity) => drop(into.0.insert(name, quantity)),
            Err(error) => {
                let field = format!("{}.{name}", path());
                self.problems.push(Unsupported { field, message: error.to_string() });
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
                    message: format!("the sum of the requests of {name} is larger than 2^63 - 1"),
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

    /// Statuses are found by name and stand in any order, so the name of the list and the spec's index say which.
    fn status(self, field: &str) -> String {
        let list = if self.list == "containers" { "containerStatuses" } else { "initContainerStatuses" };
        format!("status.{list}[of {}[{}]].{field}", self.list, self.index)
    }
}

/// A quantity that fits the resource's own unit.
fn read_amount(name: &str, text: &str) -> Result<Quantity, QuantityError> {
    let quantity = Quantity::parse(text)?;
    let amount = if name == "cpu" { quantity.millis() } else { quantity.value() };
    amount.map(|_| quantity).ok_or_else(|| QuantityError::TooLarge(text.to_owned()))
}

/// Resources that take up a node. Names that Kubernetes does not know as such (it refuses them in pods) are left out,
/// and so is `pods`, which every pod takes once.
fn is_counted(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
        || name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || name.contains('/')
}

/// Resources that may be asked for the pod as a whole.
fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}
