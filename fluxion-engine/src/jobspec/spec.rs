//! The parts of a jobspec.

use super::count::Count;
use crate::Error;
use crate::constraint::Constraint;
use crate::policy::Policy;
use crate::pools::Tenancy;

/// A request for resources.
#[derive(Debug, Clone, PartialEq)]
pub struct Jobspec {
    /// The wanted resources, outermost level first.
    pub resources: Vec<Resource>,
    /// How long it is held.
    pub hold: Hold,
    /// Which nodes may be used (RFC 31).
    pub constraint: Option<Constraint>,
    /// `attributes.system.queue`, passed through to R.
    pub queue: Option<String>,
    /// `attributes.system.fluxion`.
    pub extras: Extras,
}

/// How long a job holds its resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// This many seconds.
    Seconds(u64),
    /// Some finite time that is not known.
    Eventually,
    /// For ever.
    Endless,
    /// A duration that no job can have. As upstream this is not found while reading, but when it is
    /// to be matched.
    Refused,
}

/// A level of the request.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// A vertex type, or `slot`.
    pub kind: Box<str>,
    /// How many.
    pub count: Count,
    /// Whether the vertex must be had alone; `None` leaves it to the levels above.
    pub exclusive: Option<bool>,
    /// The name of a slot.
    pub label: Option<Box<str>>,
    /// The resources wanted inside each.
    pub with: Vec<Resource>,
}

/// What upstream does not know, and ignores.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Extras {
    /// The order of nodes for this request, instead of the engine's own.
    pub policy: Option<Policy>,
    /// Tiers of ranks, best first; ranks in none of them come last.
    pub prefer: Vec<Vec<(u32, u32)>>,
    /// Ranks that make their parts count where the difference of parts is bounded, besides those
    /// that may be used.
    pub counted: Vec<(u32, u32)>,
    /// How many slots may come to one node.
    pub max_per_node: Vec<Cap>,
    /// What holds for some labels only; each label at most once.
    pub slots: Vec<SlotExtras>,
    /// In which parts of the machine slots may lie.
    pub levels: Vec<LevelRule>,
    /// With which other slots its slots may be on nodes.
    pub tenancy: Tenancy,
    /// The first second at which it may start. A reservation that is moved may start earlier.
    pub not_before: Option<i64>,
}

/// What holds for the slots of one label, instead of what holds for the whole request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotExtras {
    /// Label of a top-level slot.
    pub label: Box<str>,
    /// Of the nodes that the request may use, those that these slots may use; `None`: all.
    pub ranks: Option<Vec<(u32, u32)>>,
    /// Tiers of ranks, best first.
    pub prefer: Option<Vec<Vec<(u32, u32)>>>,
    /// Ranks that make their parts count for them.
    pub counted: Option<Vec<(u32, u32)>>,
    /// How long they are held.
    pub hold: Option<Hold>,
}

/// At most `count` slots of these labels together on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cap {
    /// Labels of top-level slots.
    pub labels: Vec<Box<str>>,
    /// How many of them together.
    pub count: u64,
}

/// In which parts of a level slots may lie. They lie only on nodes that are in some part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelRule {
    /// The level.
    pub level: Box<str>,
    /// Labels of top-level slots; `None`: all of the request.
    pub labels: Option<Vec<Box<str>>>,
    /// Over how many parts they may be spread.
    pub within: Within,
    /// They are one of several slices, each in a part of its own choice: which that is does not say
    /// which parts count for a skew.
    pub is_slice: bool,
    /// How many of them together may lie in one part.
    pub max_per_part: Option<u64>,
    /// By how many the numbers of slots of any two parts may differ that count.
    pub max_skew: Option<u64>,
}

/// Over how many parts of a level slots may be spread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Within {
    /// Any number.
    Any,
    /// One.
    One,
    /// One if possible, else as few as possible.
    Fewest,
    /// This one.
    Part(Box<str>),
}

impl Hold {
    /// For how many seconds; resources without a known end are held for ever.
    pub(crate) fn seconds(self) -> u64 {
        if let Hold::Seconds(seconds) = self { seconds } else { u64::MAX }
    }

    /// Until when, if it begins at `from`.
    pub(crate) fn until(self, from: i64) -> i64 {
        from.saturating_add_unsigned(self.seconds())
    }
}

impl Jobspec {
    /// Refuses counts that upstream cannot read.
    pub(crate) fn ensure_narrow(&self) -> Result<(), Error> {
        ensure_narrow(&self.resources, "resources")
    }
}

/// Refuses counts beyond 32 bits, as upstream does while it reads a jobspec.
fn ensure_narrow(resources: &[Resource], at: &str) -> Result<(), Error> {
    for (index, resource) in resources.iter().enumerate() {
        if !resource.count.is_narrow() {
            let most = u32::MAX;
            return Err(Error::invalid(format!(
                "{at}[{index}]: count: more than {most}, on a graph without pools"
            )));
        }
        if !resource.with.is_empty() {
            ensure_narrow(&resource.with, &format!("{at}[{index}].with"))?;
        }
    }
    Ok(())
}

impl Resource {
    /// True for a slot: its members go together.
    pub fn is_slot(&self) -> bool {
        &*self.kind == "slot"
    }

    /// How many resources it is, with all that it holds.
    pub(crate) fn count_all(&self) -> usize {
        1 + self.with.iter().map(Resource::count_all).sum::<usize>()
    }

    /// The units of a pool that each slot of a label takes; an error if it asks for a range.
    pub(crate) fn units_of_slot(&self, label: &str) -> Result<u64, Error> {
        if self.count.min == self.count.max {
            return Ok(self.count.min);
        }
        Err(Error::invalid(format!(
            "slot {label:?}: {}: a range of units is not possible with pools",
            self.kind
        )))
    }
}
