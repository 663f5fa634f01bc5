//! PodGroups and Workloads of Kubernetes' own in manifests. They are there from the beginning.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_core::Event;
use fluxqueue_workload::pod_group::{
    API_GROUP, GroupPolicy, GroupVersion, GroupWorkload, PodGroup, Terms,
};
use fluxqueue_workload::{Lifetime, ObjectKey, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::submission::{complete, parse};

/// The PodGroups and Workloads of a file.
#[derive(Debug, Default)]
pub(super) struct Groups {
    all: BTreeMap<ObjectKey, Arc<PodGroup>>,
    workloads: BTreeMap<ObjectKey, Arc<GroupWorkload>>,
}

impl Groups {
    /// Takes a document up if it is a PodGroup or a Workload; false if it is another object.
    pub(super) fn take(&mut self, document: &Value, namespace: &str) -> Result<bool, String> {
        let api_version = document["apiVersion"].as_str().and_then(|text| text.split_once('/'));
        let Some((API_GROUP, version)) = api_version else { return Ok(false) };
        let kind = document["kind"].as_str().unwrap_or_default();
        if !["PodGroup", "Workload"].contains(&kind) {
            return Ok(false);
        }
        let known = GroupVersion::NEWEST_FIRST.into_iter().find(|known| known.as_str() == version);
        let version = known.ok_or_else(|| format!("apiVersion: {version:?} is not known"))?;
        let mut metadata: ObjectMeta = parse(&document["metadata"])?;
        complete(&mut metadata, kind, Some(namespace));
        // It is older than its pods, which begin in virtual time.
        metadata.creation_timestamp = None;
        let terms = if kind == "PodGroup" {
            let group = PodGroup::from_parts(version, &metadata, &document["spec"], &Value::Null);
            let group = group.map_err(|error| error.to_string())?;
            let terms = group.terms.clone();
            self.all.insert(group.id.key.clone(), Arc::new(group));
            terms
        } else {
            let workload = GroupWorkload::from_metadata(&metadata);
            let workload = workload.map_err(|error| error.to_string())?;
            let terms = workload.terms.clone();
            self.workloads.insert(workload.id.key.clone(), Arc::new(workload));
            terms
        };
        terms.walltime.transpose().map(|_| true).map_err(|wrong| wrong.to_string())
    }

    /// Returns the group that a pod names, if it names one. Fails if that is not in the file.
    pub(super) fn of(&self, pod: &Pod) -> Result<Option<&PodGroup>, String> {
        let Some(named) = &pod.scheduling_group else { return Ok(None) };
        let key = ObjectKey::new(Arc::clone(&pod.id.key.namespace), Arc::clone(&named.name));
        match self.all.get(&key) {
            Some(group) => Ok(Some(&**group)),
            None => Err(format!("schedulingGroup: PodGroup {key} is not in the file")),
        }
    }

    /// Returns the walltime that a group states for its pods, or else its Workload.
    pub(super) fn walltime(&self, group: &PodGroup) -> Option<Lifetime> {
        let said = |terms: &Terms| terms.walltime.as_ref()?.as_ref().ok().copied();
        let workload = group.workload.as_ref().and_then(|name| {
            let namespace = Arc::clone(&group.id.key.namespace);
            self.workloads.get(&ObjectKey::new(namespace, Arc::clone(name)))
        });
        said(&group.terms).or_else(|| said(&workload?.terms))
    }

    /// Returns the objects as the first lists show them.
    pub(super) fn list(&self) -> impl Iterator<Item = Event> {
        let workloads = self.workloads.values().cloned().map(Event::Workload);
        workloads.chain(self.all.values().cloned().map(Event::PodGroup))
    }
}

/// True if the pods of a group start one by one.
pub(super) fn is_basic(group: &PodGroup) -> bool {
    group.policy == Ok(GroupPolicy::Basic)
}
