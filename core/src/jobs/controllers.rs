//! The objects that make pods, and which of them made a pod.
//!
//! An owner reference is a claim: anybody who may create a pod may write any uid into it. It is
//! believed where the object is in the pod's namespace and has the kind and the name that the
//! reference says. Owners never cross namespaces, as for the garbage collector of Kubernetes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_machine::table::Table;
use fluxqueue_workload::{Controller, ObjectKey, Owner, OwnerKind, Pod, Uid};

/// All Jobs, ReplicaSets, Deployments and StatefulSets that were seen and are not known to be gone.
#[derive(Default)]
pub(crate) struct Controllers {
    /// In no order.
    by_uid: Table<Uid, Arc<Controller>>,
    /// The objects whose pod templates name a group, by the group: they make members of it, also
    /// those that have made none yet.
    makers_of: BTreeMap<ObjectKey, BTreeSet<Uid>>,
}

/// The object that made another one, as far as that is known.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MadeBy<'a> {
    /// No object that is watched: there is no reference to one, or what the reference says is not
    /// true.
    Nothing,
    /// No object of this uid has been seen.
    Unseen(&'a Owner),
    /// This one.
    Known(&'a Arc<Controller>),
}

impl Controllers {
    /// An object is there, or has changed; returns it as it was.
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

    /// An object is gone; returns it as it was.
    pub(crate) fn remove(&mut self, uid: &Uid) -> Option<Arc<Controller>> {
        let object = self.by_uid.remove(uid)?;
        self.forget_maker(&object);
        Some(object)
    }

    /// The objects whose pod templates name this group.
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

    /// All of them, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Controller>> {
        self.by_uid.values()
    }

    /// The object of this uid, in whatever namespace: for news of the object itself.
    pub(crate) fn of_uid(&self, uid: &Uid) -> Option<&Arc<Controller>> {
        self.by_uid.get(uid)
    }

    /// The object of this uid in this namespace.
    pub(crate) fn get(&self, namespace: &str, uid: &str) -> Option<&Arc<Controller>> {
        self.by_uid.get(uid).filter(|object| *object.id.key.namespace == *namespace)
    }

    /// The object that made a pod, if it is known.
    pub(crate) fn that_made(&self, pod: &Pod) -> Option<&Arc<Controller>> {
        let owner = pod.owner.as_ref()?;
        self.by_uid.get(&owner.uid).filter(|object| is_named(object, &pod.id.key.namespace, owner))
    }

    /// What made a pod.
    pub(crate) fn maker<'a>(&'a self, pod: &'a Pod) -> MadeBy<'a> {
        self.owner(&pod.id.key.namespace, pod.owner.as_ref())
    }

    /// What made an object that makes pods.
    pub(crate) fn above<'a>(&'a self, object: &'a Controller) -> MadeBy<'a> {
        self.owner(&object.id.key.namespace, object.owner.as_ref())
    }

    /// The owner that an object of this namespace names.
    fn owner<'a>(&'a self, namespace: &str, owner: Option<&'a Owner>) -> MadeBy<'a> {
        let Some(owner) = owner.filter(|owner| !matches!(owner.kind, OwnerKind::Other(_))) else {
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
    /// The object, if it is known.
    pub(crate) fn known(self) -> Option<&'a Arc<Controller>> {
        match self {
            MadeBy::Known(object) => Some(object),
            MadeBy::Unseen(_) | MadeBy::Nothing => None,
        }
    }

    /// The uid of the object, also of one that has not been seen.
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

/// The group that an object's pod template names, if it names one.
pub(crate) fn group_of(made_by: &Controller) -> ObjectKey {
    let name = made_by.group.as_ref().map(|group| Arc::clone(&group.name)).unwrap_or_default();
    ObjectKey::new(Arc::clone(&made_by.id.key.namespace), name)
}
