//! Jobs that ask for nodes alone: which pods do, what cannot be honoured, and with whom any pod is
//! on its node.
//!
//! That nobody else comes to their nodes, now and later, is the graph's matter; what is booked is
//! checked once more before a Binding.

use std::collections::BTreeMap;

use crate::jobs::job::{Job, Lifecycle, Member, Style};
use crate::parts::{Refresh, Sight};
use fluxqueue_machine::fluxion::{Explanation, Tenancy};
use fluxqueue_planner::plan::Group;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{Pod, Unsupported, exclusive};

/// The tenant of pods of ours while nobody knows their jobs.
const UNKNOWN: u64 = u64::MAX;

impl Sight<'_> {
    /// With whom a pod of a job of ours is on its node.
    pub(crate) fn tenancy(&self, pod: &Pod, job: JobId) -> Tenancy {
        if pod.stays_on_its_node() {
            Tenancy::Guest
        } else if self.jobs.is_exclusive(pod) && self.planner.ledger.has_tenants() {
            Tenancy::Alone(job.number())
        } else {
            Tenancy::Shared
        }
    }

    /// With whom a pod is on its node that is of no job of ours, or of which that is not known yet:
    /// then by what it says itself.
    pub(crate) fn tenancy_of_others(&self, pod: &Pod) -> Tenancy {
        let may_be_ours = self.settings.scheduler_names.contains(&pod.scheduler);
        if pod.stays_on_its_node() {
            Tenancy::Guest
        } else if may_be_ours && pod.exclusive == Some(true) && self.planner.ledger.has_tenants() {
            Tenancy::Alone(UNKNOWN)
        } else {
            Tenancy::Shared
        }
    }

    /// Why a pod that asks for its node alone itself cannot have that.
    pub(crate) fn exclusive_trouble(&self, pod: &Pod) -> Option<Unsupported> {
        let is_asked_for = pod.exclusive == Some(true);
        is_asked_for.then(|| self.no_exclusive(pod.stays_on_its_node())).flatten()
    }

    fn no_exclusive(&self, stays_on_its_node: bool) -> Option<Unsupported> {
        if !self.planner.ledger.has_tenants() {
            return Some(exclusive::refused("this Fluxion library keeps no nodes for one job"));
        }
        stays_on_its_node
            .then(|| exclusive::refused("pods of DaemonSets are on nodes with everybody"))
    }
}

impl Refresh<'_> {
    /// What is wrong with what a job asks: its maker says what cannot be read, or honoured, or not
    /// all that start together ask for it. `live` are those of its pods that have not ended.
    pub(crate) fn bad_exclusive(&self, job: &Job, live: &[&Member]) -> Option<String> {
        let mut made_by = self.jobs.makers(job);
        let by_maker = made_by.find_map(|made_by| {
            let wrong = match &made_by.exclusive {
                Err(wrong) => wrong.clone(),
                Ok(Some(true)) => self.sight().no_exclusive(false)?,
                Ok(_) => return None,
            };
            Some(format!(
                "{} {}: {}: {}",
                made_by.kind.as_str(),
                made_by.id,
                wrong.field,
                wrong.message
            ))
        });
        if by_maker.is_some() || job.style != Style::Gang || job.life != Lifecycle::Waiting {
            return by_maker;
        }
        let mut pods = live.iter().map(|member| &*member.pod);
        let first = pods.next()?;
        let asks = self.jobs.is_exclusive(first);
        // Mostly they are all alike, and who made them need not be asked again.
        let other =
            pods.find(|pod| !says_the_same(first, pod) && self.jobs.is_exclusive(pod) != asks)?;
        let (who, who_not) = if asks { (first, other) } else { (other, first) };
        let field = exclusive::FIELD;
        Some(format!(
            "{field}: pod {} asks for nodes alone, and {} of the same gang does not",
            who.id, who_not.id
        ))
    }
}

/// Two pods say the same themselves, and have the same maker.
fn says_the_same(one: &Pod, other: &Pod) -> bool {
    let (maker, other_maker) = (one.owner.as_ref(), other.owner.as_ref());
    one.exclusive == other.exclusive
        && maker.map(|owner| &owner.uid) == other_maker.map(|owner| &owner.uid)
}

/// Why a node will not do for whoever asks for it alone, and why not for others.
const USED_BY_OTHERS: &str = "node(s) were used by others";
const HELD_ALONE: &str = "node(s) were held by exclusive jobs";

/// Nodes that somebody has with whom pods that wait must not be.
#[derive(Debug, Default)]
pub(crate) struct Apart {
    /// Of those who ask for nodes alone: such nodes, and all that they may use.
    used: u64,
    of: u64,
    /// How many such nodes there are, by what is said of them.
    counts: BTreeMap<&'static str, u64>,
}

impl Apart {
    /// Counts those of a group. Of all shapes in it they are the same.
    pub(crate) fn note(&mut self, group: &Group, explanation: &Explanation) {
        let Some(now) = explanation.shapes.first().map(|shape| &shape.now) else { return };
        let asks = matches!(group.tenancy, Tenancy::Alone(_));
        if now.apart > 0 {
            let why = if asks { USED_BY_OTHERS } else { HELD_ALONE };
            // Groups of one gang may be kept off the same nodes.
            let known = self.counts.entry(why).or_default();
            *known = (*known).max(now.apart);
        }
        if asks && now.nodes > self.of {
            (self.used, self.of) = (now.apart, now.nodes);
        }
    }

    /// Adds them to how many nodes there are for each reason.
    pub(crate) fn count(&self, counts: &mut BTreeMap<String, usize>) {
        let nodes = self
            .counts
            .iter()
            .map(|(why, nodes)| (why.to_string(), usize::try_from(*nodes).unwrap_or(usize::MAX)));
        counts.extend(nodes);
    }

    /// What there is to say to so many pods; mostly nothing.
    pub(crate) fn text(&self, pods: usize) -> String {
        let Apart { used, of, .. } = self;
        let (ask, is) = (
            if pods == 1 { "It asks" } else { "They ask" },
            if of - used == 1 { "is" } else { "are" },
        );
        match used {
            0 => String::new(),
            _ => format!(" {ask} for nodes alone: {} of {of} {is} used by nobody else.", of - used),
        }
    }
}
