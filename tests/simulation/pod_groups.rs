//! PodGroups of Kubernetes' own: users make, change and delete them, before, after or without the
//! pods that name them. The rules here are those of the start of such pods, and of the condition of
//! a group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_core::Write;
use fluxqueue_workload::pod_group::{GroupCondition, GroupPolicy, PodGroup};
use fluxqueue_workload::{NamedGroup, ObjectKey, ObjectRef, Phase, Pod, Time};

use crate::gangs;
use crate::jobs::Unit;
use crate::objects::{FOREIGN, NAMESPACE, Template, is_ours};
use crate::rng::{Rng, WHOLE};
use crate::server::Server;
use crate::stats::Stats;
use crate::trace;
use crate::view::View;
use crate::violation::{Violation, broken};

/// First seed of the worlds with PodGroups.
pub(crate) const GROUPS: u64 = 500_000_000;

/// Events that a run of these worlds must have met.
pub(crate) const MUST_HAPPEN: [&str; 13] = [
    "PodGroup came after its pods",
    "PodGroup came before its pods",
    "PodGroup deleted",
    "PodGroup made again under its name",
    "PodGroup never came",
    "condition of a PodGroup written",
    "minCount lowered",
    "minCount raised",
    "pod joins its PodGroup",
    "pod names the uid of its PodGroup",
    "pods of a basic PodGroup submitted",
    "pods of a gang PodGroup submitted",
    "pods of several schedulers in a PodGroup",
];

/// The rule about the start of such pods.
pub(crate) const NEEDED: &str =
    "no pod of a PodGroup starts before the group and the pods that it needs have places";
/// The rules about the condition of a group.
pub(crate) const NEVER_BACK: &str = "the condition of a PodGroup never goes from True to False";
const OF_WHAT_IS_SEEN: &str = "the condition of a PodGroup is about what was seen of it";
const SELDOM: &str = "the condition of a PodGroup is written at most once in ten seconds";
/// The rule about the condition at rest.
pub(crate) const TOLD: &str = "a PodGroup with running pods says that they have started";

/// The least time between two writes about one group.
const BETWEEN_MILLIS: i64 = 10_000;

/// The beginning of the names of groups with pods that start one by one. A name always stands for
/// the same kind of group here, so that the unit of a pod follows from the pod.
const BASIC: &str = "kube-basic-";
const GANG: &str = "kube-gang-";

/// True if the runs of this seed have PodGroups.
pub(crate) fn has_groups(seed: u64) -> bool {
    (GROUPS..WHOLE).contains(&seed)
}

/// The group that the pods of a template name.
#[derive(Debug, Clone)]
pub(crate) struct InGroup {
    name: Arc<str>,
    /// True if they name its uid too, if it is there when they are made.
    names_uid: bool,
}

impl InGroup {
    /// Returns the group as a pod names it that is made now.
    pub(crate) fn named(&self, server: &Server) -> NamedGroup {
        let group = server.pod_groups.get(&key_of(&self.name)).filter(|_| self.names_uid);
        NamedGroup { name: Arc::clone(&self.name), uid: group.map(|group| group.id.uid.clone()) }
    }
}

fn key_of(name: &Arc<str>) -> ObjectKey {
    ObjectKey::new(NAMESPACE, Arc::clone(name))
}

/// True if this is the uid of a group, and not of a pod.
pub(crate) fn is_of_group(uid: &str) -> bool {
    uid.starts_with(UIDS)
}

/// The stream of the uids of groups.
const UIDS: &str = "group";

/// True if the pods of this group start one by one.
pub(crate) fn is_basic(named: &NamedGroup) -> bool {
    named.name.starts_with(BASIC)
}

/// The users' plans about groups.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    /// Groups that are still to come.
    planned: Vec<(Arc<str>, u32)>,
    /// The templates of groups to which further pods may come.
    joiners: BTreeMap<Arc<str>, Template>,
    /// Names of groups that were deleted.
    deleted: BTreeSet<Arc<str>>,
}

impl Plans {
    /// Lets a user submit pods that name a group, which may be there, may come later, or not at
    /// all. Returns the templates of the pods, by their names.
    pub(crate) fn submit(
        &mut self,
        server: &mut Server,
        (number, members): (u64, Vec<Template>),
        schedulers: &[Arc<str>],
        now: Time,
        rng: &mut Rng,
        stats: &mut Stats,
    ) -> Vec<(String, Template)> {
        let is_gang = rng.chance(80);
        stats.count(if is_gang {
            "pods of a gang PodGroup submitted"
        } else {
            "pods of a basic PodGroup submitted"
        });
        let kind = if is_gang { GANG } else { BASIC };
        let number_of_group =
            if rng.chance(25) { u64::try_from(rng.below(2)).expect("one") } else { number + 10 };
        let name: Arc<str> = Arc::from(format!("{kind}{number_of_group}"));
        let size = u32::try_from(members.len()).expect("a few");
        let min_count = match rng.weighted(&[6, 3, 1]) {
            0 => size,
            1 => u32::try_from(rng.between(1, u64::from(size))).expect("a few"),
            _ => size + 1,
        };
        match rng.weighted(&[5, 4, 2]) {
            0 => {
                stats.count("PodGroup came before its pods");
                make(server, &name, min_count, now);
            }
            1 => self.planned.push((Arc::clone(&name), min_count)),
            _ => stats.count("PodGroup never came"),
        }
        let names_uid = rng.chance(40);
        let stranger = rng.chance(12).then(|| rng.below(members.len()));
        let mut pods = Vec::new();
        for (member, mut template) in members.into_iter().enumerate() {
            let names_uid = if rng.chance(4) { !names_uid } else { names_uid };
            template.group = None;
            template.pod_group = Some(InGroup { name: Arc::clone(&name), names_uid });
            self.joiners.insert(Arc::clone(&name), template.clone());
            if stranger == Some(member) {
                stats.count("pods of several schedulers in a PodGroup");
                template = of_another_scheduler(template, schedulers, rng);
            }
            pods.push((format!("{name}-{number}-{member}"), template));
        }
        pods
    }

    /// Lets a user make, change or delete a group.
    pub(crate) fn edit(
        &mut self,
        server: &mut Server,
        now: Time,
        rng: &mut Rng,
        stats: &mut Stats,
    ) {
        let groups: Vec<Arc<PodGroup>> = server.pod_groups.values().cloned().collect();
        match rng.weighted(&[8, 5, 2, 3]) {
            0 => {
                if let Some((name, min_count)) = rng.take(&mut self.planned) {
                    stats.count("PodGroup came after its pods");
                    make(server, &name, min_count, now);
                }
            }
            1 => {
                if let Some(group) = rng.pick(&groups) {
                    change_count(server, group, rng, stats);
                }
            }
            2 => {
                if let Some(group) = rng.pick(&groups) {
                    stats.count("PodGroup deleted");
                    self.deleted.insert(Arc::clone(&group.id.key.name));
                    server.remove_pod_group(&group.id.key);
                }
            }
            _ => {
                let names: Vec<Arc<str>> = self.deleted.iter().cloned().collect();
                if let Some(name) = rng.pick(&names) {
                    self.deleted.remove(name);
                    if !server.pod_groups.contains_key(&key_of(name)) {
                        stats.count("PodGroup made again under its name");
                    }
                    let min_count = u32::try_from(rng.between(1, 4)).expect("a few");
                    make(server, name, min_count, now);
                }
            }
        }
    }

    /// Returns the template of a pod that joins a group.
    pub(crate) fn joiner(&self, rng: &mut Rng) -> Option<Template> {
        let templates: Vec<&Template> = self.joiners.values().collect();
        rng.pick(&templates).map(|template| Template::clone(template))
    }

    /// Forgets the templates of groups without pods.
    pub(crate) fn tidy(&mut self, server: &Server) {
        let named: BTreeSet<&Arc<str>> = server
            .pods
            .values()
            .filter_map(|pod| Some(&pod.scheduling_group.as_ref()?.name))
            .collect();
        self.joiners.retain(|name, _| named.contains(name));
    }
}

/// Makes a group, unless there is one of this name.
fn make(server: &mut Server, name: &Arc<str>, min_count: u32, now: Time) {
    if server.pod_groups.contains_key(&key_of(name)) {
        return;
    }
    let id = ObjectRef { key: key_of(name), uid: server.new_uid_of(UIDS) };
    let is_basic = name.starts_with(BASIC);
    let policy = if is_basic { GroupPolicy::Basic } else { GroupPolicy::Gang(min_count) };
    server.put_pod_group(PodGroup { created: now, ..PodGroup::new(id, policy) });
}

/// Returns a group that needs one pod less than this one, if it needs more than two: a pod that
/// needs no other starts without a placement.
pub(crate) fn lowered(group: &PodGroup) -> PodGroup {
    let less = |count: u32| if count > 2 { count - 1 } else { count };
    let policy = min_count(group).map(|count| Ok(GroupPolicy::Gang(less(count))));
    PodGroup { policy: policy.unwrap_or_else(|| group.policy.clone()), ..group.clone() }
}

/// Returns a write that says of a group that it has not started.
pub(crate) fn taken_back(group: &PodGroup) -> Write {
    let condition = GroupCondition {
        is_true: false,
        reason: "Unschedulable".to_owned(),
        message: String::new(),
        observed_generation: group.generation,
    };
    Write::SetGroupCondition {
        group: group.id.clone(),
        resource_version: group.resource_version.clone(),
        version: group.version,
        condition: Box::new(condition),
        newly: true,
    }
}

fn change_count(server: &mut Server, group: &PodGroup, rng: &mut Rng, stats: &mut Stats) {
    let Some(before) = min_count(group) else { return };
    let wanted = u32::try_from(rng.between(1, 5)).expect("a few");
    if wanted == before {
        return;
    }
    stats.count(if wanted > before { "minCount raised" } else { "minCount lowered" });
    server.put_pod_group(PodGroup {
        policy: Ok(GroupPolicy::Gang(wanted)),
        generation: group.generation + 1,
        ..group.clone()
    });
}

/// Returns the template for another scheduler: the other Fluxqueue, if there is one.
fn of_another_scheduler(template: Template, schedulers: &[Arc<str>], rng: &mut Rng) -> Template {
    let others = schedulers.iter().filter(|name| **name != template.scheduler).cloned();
    let others: Vec<Arc<str>> = others.chain([Arc::from(FOREIGN)]).collect();
    let scheduler = rng.pick(&others).expect("there is one").clone();
    let mut template = Template { scheduler, ..template };
    if *template.scheduler == *FOREIGN {
        template.gates.clear();
        template.unsupported.clear();
        (template.levels, template.exclusive) = (None, false);
    }
    template
}

/// Returns the number of pods without which none of a group starts; `None` if its pods start one by
/// one.
fn min_count(group: &PodGroup) -> Option<u32> {
    match group.policy {
        Ok(GroupPolicy::Gang(count)) => Some(count),
        Ok(GroupPolicy::Basic) | Err(_) => None,
    }
}

/// Returns the group that a pod names, if it is among these.
fn group_of<'a>(
    pod: &Pod,
    among: &'a BTreeMap<ObjectKey, Arc<PodGroup>>,
) -> Option<&'a Arc<PodGroup>> {
    let named = pod.scheduling_group.as_ref()?;
    let group = among.get(&key_of(&named.name))?;
    named.uid.as_ref().is_none_or(|uid| *uid == group.id.uid).then_some(group)
}

/// Returns how many pods of a gang have to start together, by its group and the pods of it that
/// have succeeded since the group was made; `None` if that is not known.
fn needed<'a>(
    pod: &Pod,
    groups: &BTreeMap<ObjectKey, Arc<PodGroup>>,
    pods: impl Iterator<Item = &'a Arc<Pod>>,
) -> Option<u32> {
    let group = group_of(pod, groups)?;
    let (count, unit) = (min_count(group)?, Unit::of(pod));
    let counts = |it: &&Arc<Pod>| {
        it.phase == Phase::Succeeded && it.ended.is_none_or(|at| at >= group.created)
    };
    let succeeded = pods.filter(counts).filter(|it| Unit::of(it) == unit).count();
    Some(count.saturating_sub(u32::try_from(succeeded).expect("a few")).max(1))
}

/// Returns how many pods start together with this one, by everything received.
pub(crate) fn known_to_need(view: &View, pod: &Pod) -> Option<u32> {
    needed(pod, &view.pod_groups, view.pods.values())
}

/// Returns how many pods start together with this one, if that is certain.
pub(crate) fn start_size(server: &Server, pod: &Pod) -> Option<usize> {
    needed(pod, &server.pod_groups, server.pods.values()).map(|needed| needed as usize)
}

/// True if a pod cannot start by its group: that is not there, or has pods of several schedulers.
pub(crate) fn is_barred(server: &Server, pod: &Pod) -> bool {
    let Some(named) = &pod.scheduling_group else { return false };
    group_of(pod, &server.pod_groups).is_none() || is_shared(server, &named.name)
}

/// True if pods of several schedulers name a group.
fn is_shared(server: &Server, name: &Arc<str>) -> bool {
    let is_of_it = |pod: &&Arc<Pod>| {
        !pod.phase.is_terminal()
            && pod.scheduling_group.as_ref().is_some_and(|named| named.name == *name)
    };
    let schedulers: BTreeSet<&Arc<str>> =
        server.pods.values().filter(is_of_it).map(|pod| &pod.scheduler).collect();
    schedulers.len() > 1
}

/// Judges the first Binding of a pod of a group, or of a gang: the group is there, and so are as
/// many pods as it needs. `there` is the number of pods that can start with this one, and itself.
pub(crate) fn judge_start(
    view: &View,
    pod: &Pod,
    there: usize,
    about: &str,
) -> Result<(), Violation> {
    let Some(named) = &pod.scheduling_group else { return Ok(()) };
    let slots = gangs::placed(view, &Unit::of(pod)).filter(|slots| !slots.is_empty());
    if group_of(pod, &view.pod_groups).is_none() {
        return broken(NEEDED, format!("{about}: {named:?} is not there"));
    }
    let Some(needed) = known_to_need(view, pod) else { return Ok(()) };
    let needed = needed as usize;
    if there < needed {
        return broken(NEEDED, format!("{about}: {there} of {needed} pods are there"));
    }
    match slots {
        Some(slots) if slots.len() < needed => {
            broken(NEEDED, format!("{about}: {needed} are needed, and the places are {slots:?}"))
        }
        _ => Ok(()),
    }
}

/// Judges a write of the condition of a group.
pub(crate) fn judge_condition(view: &View, now: Time, write: &Write) -> Result<(), Violation> {
    let Write::SetGroupCondition { group: id, resource_version, condition, .. } = write else {
        return Ok(());
    };
    let about = trace::write(write);
    let Some(group) = view.pod_groups.get(&id.key).filter(|group| group.id.uid == id.uid) else {
        return broken(OF_WHAT_IS_SEEN, format!("{about}: unknown or gone"));
    };
    let is_true = group.condition.as_ref().is_some_and(|before| before.is_true);
    if !condition.is_true && (is_true || view.started_groups.contains(&id.uid)) {
        return broken(NEVER_BACK, format!("{about} over {:?}", group.condition));
    }
    if *resource_version != group.resource_version
        || condition.observed_generation != group.generation
    {
        return broken(OF_WHAT_IS_SEEN, format!("{about}, seen {group:?}"));
    }
    let last = view.told_groups.get(&id.uid);
    if let Some(last) = last.filter(|last| now < last.plus_millis(BETWEEN_MILLIS)) {
        return broken(SELDOM, format!("{about} after {last:?}"));
    }
    Ok(())
}

/// Judges that each group with a running pod of ours says so, unless it has pods of another
/// scheduler, which may have said something else.
pub(crate) fn judge_at_rest(server: &Server) -> Result<(), Violation> {
    for pod in server.pods.values() {
        let Some(group) = group_of(pod, &server.pod_groups) else { continue };
        let is_running = is_ours(pod) && pod.node.is_some() && !pod.phase.is_terminal();
        let says_so = group.condition.as_ref().is_some_and(|condition| condition.is_true);
        if is_running && !says_so && !is_shared(server, &group.id.key.name) {
            return broken(TOLD, format!("{} of {group:?}", trace::pod(pod)));
        }
    }
    Ok(())
}
