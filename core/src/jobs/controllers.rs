//! The objects that make pods, and the question which of them made a pod.
//!
//! An owner reference is a claim: any user with the right to create pods can write any uid into it.
//! It is believed if the object is in the pod's namespace and has the kind and the name that the
//! reference says. Owners never cross namespaces, as for the garbage collector of Kubernetes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::jobs::job::Identity;
use crate::jobs::pod_groups::PodGroups;
use fluxqueue_machine::table::Table;
use fluxqueue_workload::{Controller, ObjectKey, Owner, OwnerKind, Pod, Uid};

/// All Jobs, ReplicaSets, Deployments and StatefulSets that were seen and are not known to be gone;
/// and all PodGroups, which say how the pods start that such objects, or others, have made.
#[derive(Default)]
pub(crate) struct Controllers {
    /// The objects by their uids, in no order.
    by_uid: Table<Uid, Arc<Controller>>,
    /// The objects with a group in their pod templates, by that group. They make members of the
    /// group; an object that has made none yet is listed too.
    makers_of: BTreeMap<ObjectKey, BTreeSet<Uid>>,
    /// The PodGroups that pods name.
    pub groups: PodGroups,
}

/// The object that made another one, as far as that is known.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MadeBy<'a> {
    /// No object that is watched: there is no owner reference to one, or the reference is not true.
    Nothing,
    /// An object of this uid, which has not been seen.
    Unseen(&'a Owner),
    /// This object.
    Known(&'a Arc<Controller>),
}

impl Controllers {
    /// Adds an object, or replaces it by its new state; returns its former state.
    pub(crate) fn insert(&mut self, object: &Arc<Controller>) -> Option<Arc<Controller>> {
        let uid = &object.id.uid;
        let before = self.by_uid.insert(uid.clone(), Arc::clone(object));
        if let Some(before) = before.as_ref().filter(|before| before.group != object.group) {
            self.forget_maker(before);
        }
        if object.group.is_some() {
            self.makers_of.entry(group_of(object)).or_default().insert(uid.clone());
        }
        before
    }

    /// Removes an object that is gone; returns its last state.
    pub(crate) fn remove(&mut self, uid: &Uid) -> Option<Arc<Controller>> {
        let object = self.by_uid.remove(uid)?;
        self.forget_maker(&object);
        Some(object)
    }

    /// Returns the objects that name this group in their pod templates.
    pub(crate) fn makers_of(&self, group: &ObjectKey) -> impl Iterator<Item = &Uid> {
        self.makers_of.get(group).into_iter().flatten()
    }

    fn forget_maker(&mut self, object: &Controller) {
        let key = group_of(object);
        if let Some(makers) = self.makers_of.get_mut(&key) {
            makers.remove(&object.id.uid);
            if makers.is_empty() {
                self.makers_of.remove(&key);
            }
        }
    }

    /// Iterates over all objects, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Controller>> {
        self.by_uid.values()
    }

    /// Returns the object of this uid in any namespace: for events about the object itself.
    pub(crate) fn of_uid(&self, uid: &Uid) -> Option<&Arc<Controller>> {
        self.by_uid.get(uid)
    }

    /// Returns the object of this uid in this namespace.
    pub(crate) fn get(&self, namespace: &str, uid: &str) -> Option<&Arc<Controller>> {
        self.by_uid.get(uid).filter(|object| *object.id.key.namespace == *namespace)
    }

    /// Returns the object that makes all pods of a job; `None` if there is none (the job is a lone
    /// pod, or a group), or if it is gone.
    pub(crate) fn of_job(&self, identity: &Identity) -> Option<&Arc<Controller>> {
        match identity {
            Identity::Controller(namespace, uid) => self.get(namespace, uid),
            Identity::Group(_) | Identity::PodGroup(..) | Identity::Pod(_) => None,
        }
    }

    /// Returns the object that made a pod, if it is known.
    pub(crate) fn that_made(&self, pod: &Pod) -> Option<&Arc<Controller>> {
        let owner = pod.owner.as_ref()?;
        self.by_uid.get(&owner.uid).filter(|object| is_named(object, &pod.id.key.namespace, owner))
    }

    /// Returns the maker of a pod.
    pub(crate) fn maker<'a>(&'a self, pod: &'a Pod) -> MadeBy<'a> {
        self.owner(&pod.id.key.namespace, pod.owner.as_ref())
    }

    /// Returns the maker of an object that itself makes pods.
    pub(crate) fn above<'a>(&'a self, object: &'a Controller) -> MadeBy<'a> {
        self.owner(&object.id.key.namespace, object.owner.as_ref())
    }

    /// Returns the objects that made a pod, as far as they are known: its maker, then the maker of
    /// that. The chain ends there: users can write owner references that form a circle.
    pub(crate) fn chain<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = &'a Arc<Controller>> {
        let maker = self.maker(pod).known();
        maker.into_iter().chain(maker.and_then(|made_by| self.above(made_by).known()))
    }

    /// Returns the object that the user submitted and that has made this one: the Deployment of a
    /// ReplicaSet. `None` if the user submitted this one.
    pub(crate) fn top<'a>(&'a self, made_by: &'a Controller) -> Option<&'a Owner> {
        let is_true = !matches!(self.above(made_by), MadeBy::Nothing);
        let is_made = is_true && made_by.kind == OwnerKind::ReplicaSet;
        made_by.owner.as_ref().filter(|above| is_made && above.kind == OwnerKind::Deployment)
    }

    /// Returns the statement about a pod in the object that made it, if there is one.
    pub(crate) fn said_by_maker<'a, T>(
        &'a self,
        pod: &Pod,
        statement: impl FnOnce(&'a Controller) -> Option<T>,
    ) -> Option<T> {
        self.that_made(pod).and_then(|made_by| statement(made_by))
    }

    /// Returns the owner that an object of this namespace names.
    fn owner<'a>(&'a self, namespace: &str, owner: Option<&'a Owner>) -> MadeBy<'a> {
        let Some(owner) = owner.filter(|owner| owner.kind.is_read()) else {
            return MadeBy::Nothing;
        };
        match self.by_uid.get(&owner.uid) {
            None => MadeBy::Unseen(owner),
            Some(object) if is_named(object, namespace, owner) => MadeBy::Known(object),
            Some(_) => MadeBy::Nothing,
        }
    }
}

impl<'a> MadeBy<'a> {
    /// Returns the object, if it is known.
    pub(crate) fn known(self) -> Option<&'a Arc<Controller>> {
        match self {
            MadeBy::Known(object) => Some(object),
            MadeBy::Unseen(_) | MadeBy::Nothing => None,
        }
    }

    /// Returns the uid of the object, also if the object has not been seen.
    pub(crate) fn uid(self) -> Option<&'a Uid> {
        match self {
            MadeBy::Known(object) => Some(&object.id.uid),
            MadeBy::Unseen(owner) => Some(&owner.uid),
            MadeBy::Nothing => None,
        }
    }
}

/// True if the object is the one that an owner reference in this namespace describes. The group is
/// a part of the kind here.
fn is_named(object: &Controller, namespace: &str, owner: &Owner) -> bool {
    *object.id.key.namespace == *namespace
        && object.kind == owner.kind
        && object.id.key.name == owner.name
}

/// Returns the group that an object's pod template names; its name is empty if there is none.
pub(crate) fn group_of(made_by: &Controller) -> ObjectKey {
    let name = made_by.group.as_ref().map(|group| Arc::clone(&group.name)).unwrap_or_default();
    ObjectKey::new(Arc::clone(&made_by.id.key.namespace), name)
}
