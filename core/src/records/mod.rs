//! FluxJobs as last seen: the records of known jobs, and those of jobs that are not known (any
//! more).

pub(crate) mod awaited;
pub(crate) mod bounds;
pub(crate) mod on_record;
pub(crate) mod record;
pub(crate) mod stored;
pub(crate) mod times;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::{FluxJob, WorkloadKind, WorkloadRef, names};
use fluxqueue_workload::{ObjectKey, ObjectRef, Uid};

use crate::action::ActionId;
use crate::jobs::job::Identity;
use crate::records::on_record::OnRecord;
use crate::records::stored::is_old_news;

/// All FluxJobs that were seen and are not known to be gone.
pub(crate) struct Records {
    /// The leader's epoch, which goes into every placement that is written.
    pub epoch: i64,
    all: BTreeMap<ObjectKey, Arc<FluxJob>>,
    /// The FluxJobs of groups, by the group's namespace and name: a group has no uid of its own by
    /// which to find its FluxJob.
    of_groups: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// The removals under way of FluxJobs without a job. A job that appears for such a FluxJob
    /// meanwhile waits for the outcome.
    removals: BTreeMap<ObjectKey, (Uid, ActionId)>,
    /// The promises as the API server has them.
    pub on_record: OnRecord,
}

impl Records {
    /// Creates a store that has seen no FluxJob.
    pub(crate) fn new(epoch: i64) -> Self {
        Records {
            epoch,
            all: BTreeMap::new(),
            of_groups: BTreeMap::new(),
            removals: BTreeMap::new(),
            on_record: OnRecord::default(),
        }
    }

    /// Adds an object, or replaces it by its new state; returns its former state.
    pub(crate) fn insert(&mut self, key: ObjectKey, object: Arc<FluxJob>) -> Option<Arc<FluxJob>> {
        if let Some(group) = group_of(&key, &object) {
            self.of_groups.entry(group).or_default().insert(key.clone());
        }
        self.all.insert(key, object)
    }

    /// Takes up the newer version of a known object with which a write was answered.
    pub(crate) fn see(&mut self, object: &Arc<FluxJob>) {
        let known = reference(object).and_then(|it| self.all.get_mut(&it.key));
        if let Some(known) = known.filter(|known| {
            known.metadata.uid == object.metadata.uid && !is_old_news(object, known)
        }) {
            *known = Arc::clone(object);
        }
    }

    /// Removes an object that is gone.
    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        if let Some(object) = self.all.remove(key)
            && let Some(group) = group_of(key, &object)
            && let Some(keys) = self.of_groups.get_mut(&group)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.of_groups.remove(&group);
            }
        }
    }

    /// Notes a requested removal of this object.
    pub(crate) fn note_removal(&mut self, object: ObjectRef, action: ActionId) {
        self.removals.insert(object.key, (object.uid, action));
    }

    /// True if the removal of an object of this name is under way.
    pub(crate) fn is_being_removed(&self, key: &ObjectKey) -> bool {
        self.removals.contains_key(key)
    }

    /// Returns the removal of this object that is under way.
    pub(crate) fn removal(&self, object: &ObjectRef) -> Option<ActionId> {
        self.removals
            .get(&object.key)
            .filter(|(uid, _)| *uid == object.uid)
            .map(|(_, action)| *action)
    }

    /// Forgets a removal that has ended.
    pub(crate) fn end_removal(&mut self, key: &ObjectKey, action: ActionId) {
        if self.removals.get(key).is_some_and(|(_, known)| *known == action) {
            self.removals.remove(key);
        }
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Arc<FluxJob>> {
        self.all.get(key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.all.keys()
    }

    /// Returns the FluxJobs of the groups of this identity: more than one if the name was used
    /// again.
    pub(crate) fn of_group(
        &self,
        identity: &Identity,
    ) -> impl Iterator<Item = (&ObjectKey, &FluxJob)> {
        let group = match identity {
            Identity::Group(key) => Some(key.clone()),
            Identity::PodGroup(key, uid) => {
                Some(of_pod_group(&key.namespace, &key.name, uid.as_ref()))
            }
            Identity::Controller(..) | Identity::Pod(_) => None,
        };
        let keys = group.and_then(|group| self.of_groups.get(&group));
        keys.into_iter().flatten().filter_map(|key| Some((key, &**self.all.get(key)?)))
    }
}

/// Returns the group of a FluxJob. That of a PodGroup by name alone is named after a pod of it, as
/// the FluxJob is.
fn group_of(key: &ObjectKey, object: &FluxJob) -> Option<ObjectKey> {
    let WorkloadRef { kind, name, uid, .. } = &object.spec.workload_ref;
    match kind {
        WorkloadKind::Group => Some(ObjectKey::new(Arc::clone(&key.namespace), name.as_str())),
        WorkloadKind::PodGroup => {
            let is_by_name = names::fluxjob_name(name, *kind, uid) == *key.name;
            let uid = (!is_by_name).then(|| Uid::from(uid.as_str()));
            Some(of_pod_group(&key.namespace, name, uid.as_ref()))
        }
        _ => None,
    }
}

/// Returns the key of a PodGroup among the groups: no name of a group has a slash.
fn of_pod_group(namespace: &Arc<str>, name: &str, uid: Option<&Uid>) -> ObjectKey {
    let uid = uid.map_or("", |uid| &**uid);
    ObjectKey::new(Arc::clone(namespace), format!("{uid}/{name}"))
}

/// True if a FluxJob has the name of the record of its workload. Any other FluxJob is no job's
/// record, even if it claims to be. The record of a group may be named after a pod that is gone.
pub(crate) fn is_of_its_workload(object: &FluxJob, key: &ObjectKey) -> bool {
    let WorkloadRef { kind, name, uid, .. } = &object.spec.workload_ref;
    kind.is_group() || names::fluxjob_name(name, *kind, uid) == *key.name
}

/// Returns the name and uid of a FluxJob.
pub(crate) fn reference(object: &FluxJob) -> Option<ObjectRef> {
    let meta = &object.metadata;
    Some(ObjectRef {
        key: ObjectKey::new(meta.namespace.as_deref()?, meta.name.as_deref()?),
        uid: Uid::from(meta.uid.as_deref()?),
    })
}
