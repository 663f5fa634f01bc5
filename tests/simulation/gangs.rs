//! No gang starts that does not fit whole: judged at the first Binding of its placement, by
//! everything received until then.
//!
//! The slot of a member is known only for those with Bindings in the same step. For the others,
//! some way to seat them is enough, so the rule demands less than a scheduler does, and is
//! independent of the numbering of seats and roles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::{FluxJob, names, placement};
use fluxqueue_core::{Action, ActionKind};
use fluxqueue_machine::cluster::Node;
use fluxqueue_workload::{NodeName, Pod, Time};

use crate::checks;
use crate::jobs::{self, Unit};
use crate::objects::{self, ZONE};
use crate::room;
use crate::seating::Seating;
use crate::view::View;
use crate::violation::{Violation, broken};

/// The rule of gangs in slices.
pub(crate) const SLICED_GANGS: &str = "each slice of a gang starts in one part of a level";

/// A pod, and the node that it is bound to.
type Binding<'a> = (&'a NodeName, &'a Pod);

/// Judges the gangs with their first Bindings among these actions. `view` does not know of them
/// yet.
pub(crate) fn judge(view: &View, now: Time, actions: &[Action]) -> Result<(), Violation> {
    let bindings: Vec<Binding> = actions
        .iter()
        .filter_map(|action| match &action.kind {
            ActionKind::Bind { pod, node, .. } => Some((node, &**view.pods.get(&pod.uid)?)),
            _ => None,
        })
        .collect();
    let mut seen = BTreeSet::new();
    for (at, (_, pod)) in bindings.iter().enumerate() {
        let unit = Unit::of(pod);
        if seen.insert(unit.clone()) && !has_begun(view, &unit) {
            judge_start(view, now, &unit, &bindings[..at], &bindings[at..])?;
        }
    }
    Ok(())
}

fn judge_start(
    view: &View,
    now: Time,
    unit: &Unit,
    before: &[Binding],
    rest: &[Binding],
) -> Result<(), Violation> {
    let Some(slots) = slots(view, unit) else { return Ok(()) };
    let own: Vec<Binding> =
        rest.iter().filter(|(_, pod)| Unit::of(pod) == *unit).copied().collect();
    let ready: Vec<&Pod> = checks::members(view, unit).filter(|pod| is_ready(pod)).collect();
    let start = Start {
        view,
        now,
        before,
        own: &own,
        slots: &slots,
        size: own.first().map_or(1, |(_, pod)| size(view, pod, slots.len())),
    };
    if !start.fits(&ready) {
        return broken("no gang starts that does not fit whole", start.describe(unit, &ready));
    }
    if let Some(text) = start.is_torn(&ready) {
        return broken("a gang that requires a level starts in one part of it", text);
    }
    if let Some(text) = start.is_parted(objects::is_to_be_with_its_role, objects::have_one_role) {
        return broken("the pods of a role that requires a level start in one part of it", text);
    }
    if let Some(text) = start.is_cut() {
        return broken(SLICED_GANGS, text);
    }
    // Of members beyond the start size some wait, and their possible nodes do not count.
    let bound: Vec<&Pod> = own.iter().map(|(_, pod)| *pod).collect();
    if let Some(text) = start.is_uneven(if ready.len() > slots.len() { &bound } else { &ready }) {
        return broken("a gang that is to be spread over a level is", text);
    }
    let open: Vec<&Pod> = ready
        .into_iter()
        .filter(|pod| pod.gates.is_empty() || view.ungated.contains(&pod.id.uid))
        .collect();
    if !start.fits(&open) {
        return broken("no gang starts before its gates are off", start.describe(unit, &open));
    }
    Ok(())
}

/// A gang at its first Binding.
struct Start<'a> {
    view: &'a View,
    now: Time,
    /// Bindings of others that were decided before it in this step.
    before: &'a [Binding<'a>],
    /// Its own Bindings that leave now.
    own: &'a [Binding<'a>],
    slots: &'a [NodeName],
    /// Number of members that have to start together.
    size: usize,
}

impl Start<'_> {
    /// True if there is a way to seat these members in the slots, with those that are bound now on
    /// their nodes.
    fn fits(&self, members: &[&Pod]) -> bool {
        // A pod with a repeated Binding, after one with an unknown outcome, is on its node already.
        let again = |pod: &Pod| self.before.iter().any(|(_, other)| other.id.uid == pod.id.uid);
        let others = self.view.placed(self.now).filter(|(_, pod)| !again(pod));
        let there = others.chain(self.before.iter().copied());
        let mut seating = Seating::new(&self.view.nodes, there);
        let mut slots: Vec<&NodeName> = self.slots.iter().collect();
        let mut others = members.to_vec();
        for (node, pod) in self.own {
            let (Some(slot), Some(member)) = (
                slots.iter().position(|slot| slot == node),
                others.iter().position(|member| member.id.uid == pod.id.uid),
            ) else {
                return false;
            };
            slots.remove(slot);
            others.remove(member);
            if !seating.take(node, pod) {
                return false;
            }
        }
        seating.fill(&slots, &others, self.slots.len() - self.size)
    }

    /// Returns the zones of a gang that is to be in one, if it is in several. The slots of members
    /// that are bound now are known; if all members have the constraint, it applies to all slots.
    fn is_torn(&self, members: &[&Pod]) -> Option<String> {
        let all_ask = members.iter().all(|pod| objects::is_to_be_in_one(pod));
        let bound =
            self.own.iter().filter(|(_, pod)| objects::is_to_be_in_one(pod)).map(|(node, _)| *node);
        let nodes: Vec<&NodeName> =
            if all_ask { self.slots.iter().collect() } else { bound.collect() };
        let zone = |node: &&NodeName| self.view.nodes.get(*node).and_then(|node| node.label(ZONE));
        let zones: BTreeSet<Option<&str>> = nodes.iter().map(zone).collect();
        let is_torn = zones.len() > 1 || zones.contains(&None);
        is_torn.then(|| format!("{zones:?} of {nodes:?}"))
    }

    /// Returns the zones of a slice that is in several, of the members that are bound now.
    fn is_cut(&self) -> Option<String> {
        let are_together = |pod: &Pod, other: &Pod| {
            objects::have_one_role(pod, other) && objects::slice_of(pod) == objects::slice_of(other)
        };
        self.is_parted(|pod| objects::slice_of(pod).is_some(), are_together)
    }

    /// Returns the zones of members that are to be in one together, if they are in several, of
    /// those that are bound now.
    fn is_parted(
        &self,
        asks: impl Fn(&Pod) -> bool,
        are_together: impl Fn(&Pod, &Pod) -> bool,
    ) -> Option<String> {
        let mut parties: Vec<(&Pod, BTreeSet<Option<&str>>)> = Vec::new();
        for (node, pod) in self.own.iter().filter(|(_, pod)| asks(pod)) {
            let zone = self.view.nodes.get(*node).and_then(|node| node.label(ZONE));
            match parties.iter_mut().find(|(known, _)| are_together(known, pod)) {
                Some((_, zones)) => drop(zones.insert(zone)),
                None => parties.push((pod, BTreeSet::from([zone]))),
            }
        }
        let parted =
            parties.into_iter().find(|(_, zones)| zones.len() > 1 || zones.contains(&None));
        parted.map(|(pod, zones)| format!("{zones:?} of those with {}", pod.id))
    }

    /// Returns the number of members in each zone, for a gang with a spread on all members that it
    /// violates. Zones count that have a node which a member may use now; more zones may count.
    fn is_uneven(&self, members: &[&Pod]) -> Option<String> {
        let spread = members.first().and_then(|pod| objects::spread_of(pod))?;
        if members.iter().any(|pod| objects::spread_of(pod) != Some(spread)) {
            return None;
        }
        let may_use =
            |node: &&Arc<Node>| members.iter().any(|pod| room::barred(node, pod).is_none());
        let zones = self.view.nodes.values().filter(may_use).filter_map(|node| node.label(ZONE));
        let mut counts: BTreeMap<&str, u32> = zones.map(|zone| (zone, 0)).collect();
        for slot in self.slots {
            match self.view.nodes.get(slot).and_then(|node| node.label(ZONE)) {
                Some(zone) => *counts.entry(zone).or_default() += 1,
                None => return Some(format!("{slot} is in no zone")),
            }
        }
        let (least, most) = (counts.values().min()?, counts.values().max()?);
        let is_too_many = |bound: Option<u32>, count: u32| bound.is_some_and(|bound| count > bound);
        let is_broken =
            is_too_many(spread.max_per_part, *most) || is_too_many(spread.max_skew, most - least);
        is_broken.then(|| format!("{counts:?}, of {spread:?}"))
    }

    fn describe(&self, unit: &Unit, members: &[&Pod]) -> String {
        let named = |(node, pod): &Binding| format!("{} to {node}", pod.id.key.name);
        let members: Vec<_> = members.iter().map(|pod| &*pod.id.key.name).collect();
        let own: Vec<_> = self.own.iter().map(named).collect();
        format!(
            "{unit:?}: {own:?} bound now, placement {:?}, {} of {members:?}",
            self.slots, self.size
        )
    }
}

/// True if a pod of the unit is or was on a node, or may be.
fn has_begun(view: &View, unit: &Unit) -> bool {
    let on_a_node = view
        .pods
        .values()
        .filter(|pod| Unit::of(pod) == *unit)
        .any(|pod| view.node_of(pod).is_some());
    let says_so = |job: &FluxJob| {
        let status = job.status.as_ref();
        status.is_some_and(|status| {
            status.bound > 0 || status.start_time.is_some() || status.completion_time.is_some()
        })
    };
    on_a_node
        || view.left.contains_key(unit)
        || jobs::records(unit, &view.flux_jobs)
            .into_iter()
            .filter(|job| job.status.is_some())
            .all(|job| says_so(job))
}

/// Returns the slots of the placement that the core received last, if there are several.
fn slots(view: &View, unit: &Unit) -> Option<Vec<NodeName>> {
    placed(view, unit).filter(|slots| slots.len() > 1)
}

/// Returns the slots of the placement that the core received last.
pub(crate) fn placed(view: &View, unit: &Unit) -> Option<Vec<NodeName>> {
    let records = jobs::records(unit, &view.flux_jobs);
    let mut placed =
        records.iter().filter_map(|job| view.placements.get(job.metadata.uid.as_deref()?));
    let (Some((_, ranges)), None) = (placed.next(), placed.next()) else { return None };
    let slots = placement::expand(ranges).ok()?.into_iter();
    let slots: Vec<NodeName> = slots.map(|(_, _, node)| NodeName::from(node)).collect();
    (!slots.is_empty()).then_some(slots)
}

/// Returns how many members start together: as in the placement, unless fewer are wanted by now.
fn size(view: &View, pod: &Pod, slots: usize) -> usize {
    let wanted = checks::expected_together(view, pod) as usize;
    if wanted > 1 { wanted.min(slots) } else { slots }
}

fn is_ready(pod: &Pod) -> bool {
    let ours = pod.gates.iter().all(|gate| **gate == *names::GATE);
    ours && !pod.deleting
        && pod.unsupported.is_empty()
        && pod.group.as_ref().is_none_or(|group| group.size.is_ok())
}
