//! PodGroups of Kubernetes' own as last seen, their Workloads, and the pods that name them.
//!
//! A pod names a group of its own namespace, and perhaps the group's uid, by an owner reference: a
//! group that was made again under its name is another one for such a pod. Everything in a group is
//! a tenant's: it is bounded where it is read, and the number of groups of a namespace here.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_workload::pod_group::{GroupCondition, GroupPolicy, GroupWorkload, PodGroup, Terms};
use fluxqueue_workload::{
    Controller, JobGroup, NamedGroup, ObjectKey, ObjectRef, OwnerKind, Phase, Pod, Shape, Time, Uid,
};

use crate::jobs::job::Identity;

/// The most groups of one namespace that are kept; further ones count as not there. Each takes
/// about a kilobyte. More groups than that are no workload of one namespace, but a mishap.
pub(crate) const GROUPS_MAX: usize = 50_000;

/// The most shapes of pods of one group that are remembered with the group's term: pods of one
/// template share a shape.
const SHAPES_MAX: usize = 16;

/// The PodGroups, and the pods that name them.
#[derive(Default)]
pub(crate) struct PodGroups {
    all: BTreeMap<ObjectKey, Kept>,
    /// Why no group is to be read, if that is so.
    pub hidden: Option<Arc<str>>,
    /// The number of groups in each namespace.
    counts: BTreeMap<Arc<str>, usize>,
    /// The Workloads that say something of pods.
    workloads: BTreeMap<ObjectKey, Arc<GroupWorkload>>,
    /// The pods that name a group and have not ended, of any scheduler, and those of ours that have
    /// succeeded, by the group's name.
    pods: BTreeMap<ObjectKey, Naming>,
    /// The group that each of these pods names.
    named_by: BTreeMap<Uid, ObjectKey>,
    /// The terms of pods on nodes by a group or Workload that is gone.
    last_terms: BTreeMap<Uid, Terms>,
}

#[derive(Clone)]
struct Kept {
    group: Arc<PodGroup>,
    /// Shapes of its pods as they were read, each with the same one with the group's term.
    shapes: Vec<(Arc<Shape>, Arc<Shape>)>,
    told: Writes,
}

/// The writes of the condition of a group.
#[derive(Clone, Default)]
struct Writes {
    /// The condition that was written last.
    last: Option<GroupCondition>,
    /// The time from which the next write may leave.
    due: Time,
    is_being_told: bool,
}

/// The pods that name one group and have not ended, the number of pods of each scheduler, and our
/// pods that have succeeded.
#[derive(Default)]
struct Naming {
    pods: BTreeMap<Uid, Arc<str>>,
    schedulers: BTreeMap<Arc<str>, usize>,
    succeeded: BTreeMap<Uid, Success>,
}

/// A pod that has succeeded: the uid of the group that it names, if it names one, and its end.
struct Success {
    group: Option<Uid>,
    at: Option<Time>,
}

/// How a pod starts by the group that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grouped {
    /// As it would without the group.
    AsEver,
    /// By itself, unless its labels name a group.
    PodByPod,
    /// With the other pods of the group.
    Together,
    /// In a way that is not known before the group is there.
    Unseen,
}

/// A change of the terms of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing that matters to pods.
    Nothing,
    /// Something that does not matter to pods that run.
    Start,
    /// The walltime or the queue, which may matter to those too.
    Terms,
}

impl PodGroups {
    /// Returns the groups and Workloads without the pods that name them, for a core that knows no
    /// pods.
    pub(crate) fn without_pods(&self) -> Self {
        PodGroups {
            all: self.all.clone(),
            hidden: self.hidden.clone(),
            counts: self.counts.clone(),
            workloads: self.workloads.clone(),
            pods: BTreeMap::new(),
            named_by: BTreeMap::new(),
            last_terms: BTreeMap::new(),
        }
    }

    // --- groups ---

    /// Adds or replaces a group.
    pub(crate) fn put(&mut self, group: Arc<PodGroup>) -> Change {
        let key = group.id.key.clone();
        let Some(known) = self.all.get_mut(&key) else {
            let count = self.counts.entry(Arc::clone(&key.namespace)).or_default();
            if *count >= GROUPS_MAX {
                tracing::warn!(group = %key, GROUPS_MAX, "too many PodGroups in one namespace: \
                    this one is left out");
                return Change::Nothing;
            }
            *count += 1;
            let has_terms = !group.terms.are_empty() || self.workload_of(&group).is_some();
            self.all.insert(key, Kept { group, shapes: Vec::new(), told: Writes::default() });
            return if has_terms { Change::Terms } else { Change::Start };
        };
        let before = std::mem::replace(&mut known.group, Arc::clone(&group));
        if before.id.uid != group.id.uid {
            known.told = Writes { due: known.told.due, ..Writes::default() };
        }
        if before.topology != group.topology {
            known.shapes.clear();
        }
        let terms = |group: &PodGroup| (group.terms.clone(), group.workload.clone());
        if terms(&before) != terms(&group) {
            return Change::Terms;
        }
        let start = |group: &PodGroup| {
            let PodGroup { id, policy, topology, priority, unsupported, .. } = group;
            (id.clone(), policy.clone(), topology.clone(), *priority, unsupported.clone())
        };
        if start(&before) == start(&group) { Change::Nothing } else { Change::Start }
    }

    /// Removes a group that is gone; false if another one has its name.
    pub(crate) fn remove(&mut self, gone: &ObjectRef) -> bool {
        if self.all.get(&gone.key).is_none_or(|known| known.group.id.uid != gone.uid) {
            return false;
        }
        self.all.remove(&gone.key);
        if let Some(count) = self.counts.get_mut(&gone.key.namespace) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&gone.key.namespace);
            }
        }
        true
    }

    /// Adds, replaces or removes a Workload. Returns the groups of which it says something else
    /// than before.
    pub(crate) fn put_workload(
        &mut self,
        key: &ObjectKey,
        workload: Option<Arc<GroupWorkload>>,
    ) -> Vec<ObjectKey> {
        let workload = workload.filter(|workload| !workload.terms.are_empty());
        let terms = workload.as_ref().map(|workload| workload.terms.clone());
        let before = match workload {
            Some(workload) => self.workloads.insert(key.clone(), workload),
            None => self.workloads.remove(key),
        };
        if before.map(|before| before.terms.clone()) == terms {
            return Vec::new();
        }
        self.of_workload(key)
    }

    /// Returns the names of the groups of this Workload.
    fn of_workload(&self, key: &ObjectKey) -> Vec<ObjectKey> {
        let first = ObjectKey::new(Arc::clone(&key.namespace), "");
        let of_namespace =
            self.all.range(first..).take_while(|(of, _)| of.namespace == key.namespace);
        let of_it =
            of_namespace.filter(|(_, kept)| kept.group.workload.as_ref() == Some(&key.name));
        of_it.map(|(key, _)| key.clone()).collect()
    }

    /// Returns the names of the groups of a Workload that says something of pods, and that is gone
    /// if `now` has its name.
    pub(crate) fn of_replaced_workload(
        &self,
        key: &ObjectKey,
        now: Option<&GroupWorkload>,
    ) -> Vec<ObjectKey> {
        let known = self.workloads.get(key);
        let is_gone = known.is_some_and(|known| now.is_none_or(|now| now.id.uid != known.id.uid));
        if is_gone { self.of_workload(key) } else { Vec::new() }
    }

    /// Returns the group of this name, if it is the one with this uid.
    pub(crate) fn get(&self, key: &ObjectKey, uid: Option<&Uid>) -> Option<&Arc<PodGroup>> {
        let group = &self.all.get(key)?.group;
        uid.is_none_or(|uid| *uid == group.id.uid).then_some(group)
    }

    /// Returns the group that a pod names.
    pub(crate) fn of(&self, pod: &Pod) -> Option<&Arc<PodGroup>> {
        let named = pod.scheduling_group.as_ref()?;
        self.get(&key_of(pod, named), named.uid.as_ref())
    }

    /// Returns the group of a job that is one.
    pub(crate) fn of_job(&self, identity: &Identity) -> Option<&Arc<PodGroup>> {
        let Identity::PodGroup(key, uid) = identity else { return None };
        self.get(key, uid.as_ref())
    }

    /// Returns the number of pods of such a job without which none of them starts.
    pub(crate) fn min_count(&self, identity: &Identity) -> Option<u32> {
        match self.of_job(identity)?.policy {
            Ok(GroupPolicy::Gang(count)) => Some(count),
            // Its pods are about to leave this job.
            Ok(GroupPolicy::Basic) | Err(_) => None,
        }
    }

    /// Returns the same less our pods that have succeeded since the group was made, and are still
    /// there: it follows from the objects of the API server, and so is the same after a restart.
    /// The pods that are there need each other, even if as many have succeeded.
    pub(crate) fn needed(&self, identity: &Identity) -> Option<u32> {
        let Identity::PodGroup(key, uid) = identity else { return None };
        let (group, count) = (self.of_job(identity)?, self.min_count(identity)?);
        let counts = |it: &&Success| it.group == *uid && it.at.is_none_or(|at| at >= group.created);
        let succeeded = self.pods.get(key).into_iter().flat_map(|of| of.succeeded.values());
        let succeeded = u32::try_from(succeeded.filter(counts).count()).unwrap_or(u32::MAX);
        Some(count.saturating_sub(succeeded).max(1))
    }

    // --- the condition of a group ---

    /// Returns the time from which the condition of a group may be written; `None` if the group is
    /// not there, or has started, or a write is on its way.
    pub(crate) fn may_be_told_from(&self, key: &ObjectKey) -> Option<Time> {
        let Kept { group, told, .. } = self.all.get(key)?;
        let is_true = |condition: &Option<GroupCondition>| {
            condition.as_ref().is_some_and(|condition| condition.is_true)
        };
        let is_over = told.is_being_told || is_true(&group.condition) || is_true(&told.last);
        (!is_over).then_some(told.due)
    }

    /// Returns the condition that was written last.
    pub(crate) fn told(&self, key: &ObjectKey) -> Option<&GroupCondition> {
        self.all.get(key)?.told.last.as_ref()
    }

    /// Notes that the condition of a group is being written, and from when it may be again.
    pub(crate) fn is_being_told(&mut self, key: &ObjectKey, due: Time) {
        if let Some(kept) = self.all.get_mut(key) {
            (kept.told.is_being_told, kept.told.due) = (true, due);
        }
    }

    /// Notes the outcome of a write about a group of this uid: the condition that it has then, as
    /// far as that is known.
    pub(crate) fn was_told(
        &mut self,
        key: &ObjectKey,
        uid: &Uid,
        condition: Option<GroupCondition>,
        due: Time,
    ) {
        let kept = self.all.get_mut(key).filter(|kept| kept.group.id.uid == *uid);
        if let Some(kept) = kept {
            (kept.told.is_being_told, kept.told.due) = (false, due);
            kept.told.last = condition;
        }
    }

    // --- pods ---

    /// Takes note of a pod of any scheduler, or of ours. Returns the group if it has or had pods of
    /// several schedulers, and has pods of one more or one less now.
    pub(crate) fn note(&mut self, pod: &Pod, is_ours: bool) -> Option<ObjectKey> {
        let named = pod.scheduling_group.as_ref()?;
        let key = key_of(pod, named);
        if pod.phase.is_terminal() {
            let changed = self.forget(&pod.id.uid);
            if pod.phase == Phase::Succeeded && is_ours {
                let success = Success { group: named.uid.clone(), at: pod.ended };
                let naming = self.pods.entry(key.clone()).or_default();
                naming.succeeded.insert(pod.id.uid.clone(), success);
                self.named_by.insert(pod.id.uid.clone(), key);
            }
            return changed;
        }
        let naming = self.pods.entry(key.clone()).or_default();
        if naming.pods.get(&pod.id.uid) == Some(&pod.scheduler) {
            return None;
        }
        let before = naming.schedulers.len();
        naming.remove(&pod.id.uid);
        naming.pods.insert(pod.id.uid.clone(), Arc::clone(&pod.scheduler));
        *naming.schedulers.entry(Arc::clone(&pod.scheduler)).or_default() += 1;
        let has_changed = naming.has_other_schedulers(before);
        self.named_by.insert(pod.id.uid.clone(), key.clone());
        has_changed.then_some(key)
    }

    /// Returns the job that needs one pod less because this one has succeeded.
    pub(crate) fn helped_by(&self, pod: &Uid) -> Option<Identity> {
        let key = self.named_by.get(pod)?;
        let success = self.pods.get(key)?.succeeded.get(pod)?;
        Some(Identity::PodGroup(key.clone(), success.group.clone()))
    }

    /// Forgets a pod that has ended or is gone. The answer is that of [`PodGroups::note`].
    pub(crate) fn forget(&mut self, pod: &Uid) -> Option<ObjectKey> {
        self.last_terms.remove(pod);
        let key = self.named_by.remove(pod)?;
        let naming = self.pods.get_mut(&key)?;
        let before = naming.schedulers.len();
        naming.remove(pod);
        let has_changed = naming.has_other_schedulers(before);
        if naming.pods.is_empty() && naming.succeeded.is_empty() {
            self.pods.remove(&key);
        }
        has_changed.then_some(key)
    }

    /// Returns the pods that name a group and have not ended, in the order of their uids.
    pub(crate) fn pods(&self, key: &ObjectKey) -> Vec<Uid> {
        self.pods.get(key).into_iter().flat_map(|naming| naming.pods.keys()).cloned().collect()
    }

    /// Returns the names of groups that pods name and that are not there.
    pub(crate) fn unseen(&self) -> Vec<ObjectKey> {
        self.pods.keys().filter(|key| !self.all.contains_key(*key)).cloned().collect()
    }

    /// Returns the schedulers of the pods of a group, if there are several.
    pub(crate) fn schedulers(&self, key: &ObjectKey) -> Option<impl Iterator<Item = &Arc<str>>> {
        let naming = self.pods.get(key).filter(|naming| naming.are_several())?;
        Some(naming.schedulers.keys())
    }

    // --- the terms of a group ---

    /// Returns how a pod starts by its group. `made_by` is the object that made the pod, if it is
    /// known.
    pub(crate) fn grouped(&self, pod: &Pod, made_by: Option<&Controller>) -> Grouped {
        if pod.scheduling_group.is_none() {
            return Grouped::AsEver;
        }
        let job = made_by.filter(|made_by| made_by.kind == OwnerKind::Job);
        if job.is_some_and(|job| job.said_of_group == JobGroup::Unsaid) {
            return Grouped::AsEver;
        }
        match self.of(pod).map(|group| &group.policy) {
            None => Grouped::Unseen,
            Some(Ok(GroupPolicy::Basic)) => PodGroups::grouped_alone(job),
            Some(Ok(GroupPolicy::Gang(_)) | Err(_)) => Grouped::Together,
        }
    }

    /// Returns how a pod of a basic group starts.
    pub(crate) fn grouped_alone(made_by: Option<&Controller>) -> Grouped {
        // The Job controller has filled the policy in: it is no wish.
        let fills_in = |job: &Controller| {
            job.kind == OwnerKind::Job && job.said_of_group == JobGroup::NoPolicy
        };
        if made_by.is_some_and(fills_in) { Grouped::AsEver } else { Grouped::PodByPod }
    }

    /// Returns the terms of the group of a pod, and where it has none those of its Workload. The
    /// terms of a pod on a node count on after that object is gone: a user without the permission
    /// to change a walltime could delete the object.
    pub(crate) fn terms(&self, pod: &Pod) -> Option<Terms> {
        let last = self.last_terms.get(&pod.id.uid);
        let said = || self.said_of(pod).map(|(_, _, terms)| terms).chain(last);
        let terms = Terms {
            queue: said().find_map(|terms| terms.queue.clone()),
            walltime: said().find_map(|terms| terms.walltime.clone().filter(Result::is_ok)),
        };
        (!terms.are_empty()).then_some(terms)
    }

    /// Keeps these terms of a pod on a node, whatever becomes of its group.
    pub(crate) fn keep_terms(&mut self, pod: &Uid, terms: Terms) {
        if self.named_by.contains_key(pod) {
            self.last_terms.insert(pod.clone(), terms);
        }
    }

    /// Returns a text about a walltime of the group of a pod, or of the group's Workload, that
    /// cannot be read and counts as absent.
    pub(crate) fn unreadable_walltime(&self, pod: &Pod) -> Option<String> {
        self.said_of(pod).find_map(|(kind, id, terms)| {
            let error = terms.walltime.as_ref()?.as_ref().err()?;
            Some(format!("{kind} {id}: {error}"))
        })
    }

    /// Returns the terms of the group of a pod, and then of the group's Workload, with their kinds.
    /// An object that was made after the pod began does not count: a user without the permission to
    /// change a walltime could delete the object and make it again.
    fn said_of(&self, pod: &Pod) -> impl Iterator<Item = (&'static str, &ObjectRef, &Terms)> {
        // Most groups say nothing, and many pods ask.
        let group = self.of(pod).filter(|group| {
            !group.terms.are_empty() || (group.workload.is_some() && !self.workloads.is_empty())
        });
        let started = pod.started;
        let counts = move |created: Time| started.is_none_or(|started| created <= started);
        let own = group.filter(|group| counts(group.created));
        let own = own.map(|group| ("PodGroup", &group.id, &group.terms));
        let workload = group.and_then(|group| self.workload_of(group));
        let workload = workload.filter(|workload| counts(workload.created));
        let of_workload = workload.map(|workload| ("Workload", &workload.id, &workload.terms));
        own.into_iter().chain(of_workload)
    }

    fn workload_of(&self, group: &PodGroup) -> Option<&Arc<GroupWorkload>> {
        let name = group.workload.as_ref()?;
        let namespace = Arc::clone(&group.id.key.namespace);
        self.workloads.get(&ObjectKey::new(namespace, Arc::clone(name)))
    }

    /// Returns a pod with the term by which it is where the other pods of its group are, if the
    /// group has a topology, and else without such a term.
    pub(crate) fn with_topology(&mut self, pod: Arc<Pod>) -> Arc<Pod> {
        let Some(named) = &pod.scheduling_group else { return pod };
        let key = self.of(&pod).and_then(|group| group.topology.clone());
        let near = &pod.shape.constraints.near;
        let has = near.iter().find(|term| NamedGroup::is_term(term)).map(|term| &term.topology_key);
        if has == key.as_ref() {
            return pod;
        }
        let kept = self.all.get_mut(&key_of(&pod, named));
        let known = kept.as_ref().and_then(|kept| {
            let mut shapes = kept.shapes.iter();
            match key {
                Some(_) => shapes.find(|(read, _)| *read == pod.shape).map(|(_, with)| with),
                None => shapes.find(|(_, with)| *with == pod.shape).map(|(read, _)| read),
            }
        });
        let shape = known.cloned().unwrap_or_else(|| {
            let mut shape = Shape::clone(&pod.shape);
            shape.constraints.near.retain(|term| !NamedGroup::is_term(term));
            let term = key.as_ref().map(|key| named.term(&pod.id.key.namespace, key));
            shape.constraints.near.extend(term);
            Arc::new(shape)
        });
        if let Some(kept) = kept.filter(|_| key.is_some() && has.is_none()) {
            if kept.shapes.len() >= SHAPES_MAX {
                kept.shapes.clear();
            }
            if !kept.shapes.iter().any(|(read, _)| *read == pod.shape) {
                kept.shapes.push((Arc::clone(&pod.shape), Arc::clone(&shape)));
            }
        }
        let mut pod = Arc::unwrap_or_clone(pod);
        pod.shape = shape;
        Arc::new(pod)
    }
}

/// Returns namespace and name of the group that a pod names.
pub(crate) fn key_of(pod: &Pod, named: &NamedGroup) -> ObjectKey {
    ObjectKey::new(Arc::clone(&pod.id.key.namespace), Arc::clone(&named.name))
}

impl Naming {
    fn are_several(&self) -> bool {
        self.schedulers.len() > 1
    }

    /// True if there are or were several schedulers, and another number of them than `before`.
    fn has_other_schedulers(&self, before: usize) -> bool {
        let now = self.schedulers.len();
        now != before && now.max(before) > 1
    }

    fn remove(&mut self, pod: &Uid) {
        self.succeeded.remove(pod);
        if let Some(scheduler) = self.pods.remove(pod)
            && let Some(count) = self.schedulers.get_mut(&scheduler)
        {
            *count -= 1;
            if *count == 0 {
                self.schedulers.remove(&scheduler);
            }
        }
    }
}
