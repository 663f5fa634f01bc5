//! Extended resources that the devices of a DeviceClass can serve: kube-scheduler serves requests
//! for them from these devices, which Fluxqueue does not do.
//!
//! A resource that a node has in its allocatable is counted like any other. A pod is refused, as
//! one with claims is, only if no node that it may use has the resource, and a class maps its name.
//! Without the class the pod waits for a node that may come; with it, other schedulers would start
//! the pod now.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::text;

use fluxqueue_machine::cluster::{Cluster, Node, filters};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::device_class::DeviceClass;
use fluxqueue_workload::{Pod, ResourceName, Shape};

/// The known DeviceClasses, and the jobs that depend on them.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeviceClasses {
    by_name: BTreeMap<Arc<str>, Arc<DeviceClass>>,
    /// The jobs with waiting pods that request a resource that a class maps.
    asking: BTreeSet<JobId>,
}

impl DeviceClasses {
    /// Adds or replaces a class. Returns the jobs of these waiting pods that it concerns.
    pub(crate) fn put<'a>(
        &mut self,
        class: Arc<DeviceClass>,
        waiting: impl Iterator<Item = (JobId, &'a Pod)>,
    ) -> BTreeSet<JobId> {
        let known = self.by_name.insert(Arc::clone(&class.name), Arc::clone(&class));
        if known.as_ref() == Some(&class) {
            return BTreeSet::new();
        }
        that_request(waiting, |name| {
            class.serves(name) || known.as_ref().is_some_and(|known| known.serves(name))
        })
    }

    /// Removes a class. Returns the jobs of these waiting pods that it concerned.
    pub(crate) fn remove<'a>(
        &mut self,
        name: &str,
        waiting: impl Iterator<Item = (JobId, &'a Pod)>,
    ) -> BTreeSet<JobId> {
        let class = self.by_name.remove(name);
        class.map_or_else(BTreeSet::new, |class| that_request(waiting, |name| class.serves(name)))
    }

    /// True if a class maps a resource that one of these waiting pods requests.
    pub(crate) fn are_requested<'a>(&self, waiting: impl Iterator<Item = &'a Pod>) -> bool {
        // Most clusters have no classes.
        !self.by_name.is_empty()
            && one_of_each_shape(waiting).any(|pod| self.mapped(&pod.shape).next().is_some())
    }

    /// Notes whether a job depends on classes.
    pub(crate) fn note(&mut self, id: JobId, is_asking: bool) {
        if is_asking {
            self.asking.insert(id);
        } else {
            self.asking.remove(&id);
        }
    }

    /// Returns the jobs that this node may decide about when it comes, changes or goes.
    pub(crate) fn concerned_by(&self, node: &Node) -> impl Iterator<Item = JobId> {
        let has_some = !self.asking.is_empty()
            && node.allocatable.iter().any(|(name, _)| self.class_of(name).is_some());
        self.asking.iter().copied().filter(move |_| has_some)
    }

    /// Forgets a job.
    pub(crate) fn forget(&mut self, id: JobId) {
        self.asking.remove(&id);
    }

    /// Returns the reason for which these waiting pods are refused: one requests a resource that
    /// only devices could serve.
    pub(crate) fn refusal<'a>(
        &self,
        cluster: &Cluster,
        waiting: impl Iterator<Item = &'a Pod>,
    ) -> Option<String> {
        if self.by_name.is_empty() {
            return None;
        }
        one_of_each_shape(waiting).find_map(|pod| {
            let shape = &pod.shape;
            let (name, class) =
                self.mapped(shape).find(|(name, _)| !is_on_a_node(cluster, name, shape))?;
            Some(format!(
                "pod {}: spec.containers[*].resources.requests[{}]: no node that the pod may use \
                 has this resource, and DeviceClass {} maps it to devices: dynamic resource \
                 allocation is not supported yet",
                pod.id,
                text::name(name),
                text::quoted(&class.name),
            ))
        })
    }

    /// Returns the first class, by name, with devices that can serve requests for this resource.
    fn class_of(&self, resource: &str) -> Option<&DeviceClass> {
        self.by_name.values().find(|class| class.serves(resource)).map(|class| &**class)
    }

    /// Returns the resources of a shape that a class maps, with the class.
    fn mapped<'a>(
        &'a self,
        shape: &'a Shape,
    ) -> impl Iterator<Item = (&'a ResourceName, &'a DeviceClass)> {
        let names = shape.requests.iter().map(|(name, _)| name);
        names.filter_map(|name| Some((name, self.class_of(name)?)))
    }
}

/// Iterates over the pods, with one for each run of pods of the same shape: the pods of one
/// template share their shape.
fn one_of_each_shape<'a>(pods: impl Iterator<Item = &'a Pod>) -> impl Iterator<Item = &'a Pod> {
    let mut last: Option<&'a Arc<Shape>> = None;
    pods.filter(move |pod| {
        !last.replace(&pod.shape).is_some_and(|last| Arc::ptr_eq(last, &pod.shape))
    })
}

/// Returns the jobs of the pods that request such a resource.
fn that_request<'a>(
    pods: impl Iterator<Item = (JobId, &'a Pod)>,
    is_meant: impl Fn(&str) -> bool,
) -> BTreeSet<JobId> {
    let asking = pods.filter(|(_, pod)| pod.shape.requests.iter().any(|(name, _)| is_meant(name)));
    asking.map(|(id, _)| id).collect()
}

/// True if a node that such a pod may use has this resource.
fn is_on_a_node(cluster: &Cluster, resource: &str, shape: &Shape) -> bool {
    let mut nodes = cluster.nodes().iter().filter_map(|(_, rank)| cluster.node(rank));
    nodes.any(|node| {
        node.allocatable.get(resource) > 0
            && filters::named(node, &shape.constraints).is_none()
            && filters::admit(node, &shape.constraints).is_ok()
    })
}
