//! A jobspec as the walk uses it: types as numbers, levels in one array, and what each level needs
//! below it.

use std::ops::Range;

use smallvec::SmallVec;

use crate::Error;
use crate::amounts::amount_of;
use crate::constraint::Constraint;
use crate::graph::{Graph, TypeId};
use crate::jobspec::{Count, Jobspec, Resource};
use crate::limits::TEXT_BYTES_MAX;
use crate::schedule::Filters;

/// Units per type.
pub(crate) type Needs = SmallVec<[(TypeId, u64); 4]>;

/// Sibling levels: a range of [`Request::levels`].
pub(crate) type Levels = Range<usize>;

/// A level of the request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestLevel {
    pub(crate) kind: TypeId,
    pub(crate) count: Count,
    pub(crate) exclusive: Option<bool>,
    pub(crate) label: Box<str>,
    pub(crate) with: Levels,
    /// At least this much must lie below a vertex that serves the level; tracked types only.
    pub(crate) needs: Needs,
}

/// A request for whole vertices (and units of pools in slots).
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) levels: Vec<RequestLevel>,
    pub(crate) top: Levels,
    /// At least this much is needed of the machine; tracked types only.
    pub(crate) needs: Needs,
    /// Types of which a vertex is taken with everything below it.
    pub(crate) exclusive_kinds: SmallVec<[TypeId; 2]>,
    pub(crate) constraint: Option<Constraint>,
    /// For the flexible traverser, where there are slots: the first of the siblings, and what all
    /// of them are made of, each type once.
    pub(crate) unions: Vec<(usize, Levels)>,
    /// A slot holds nothing: as upstream (Q7), that is understood, and fits nowhere.
    pub(crate) has_empty_slot: bool,
    /// Sibling slots are alternatives.
    flexible: bool,
}

impl Request {
    /// The request of a jobspec, or why it makes no sense on any graph.
    pub(crate) fn of(
        graph: &Graph,
        filters: &Filters,
        spec: &Jobspec,
        flexible: bool,
    ) -> Result<Self, Error> {
        let mut request = Request {
            levels: Vec::new(),
            top: 0..0,
            needs: Needs::new(),
            exclusive_kinds: SmallVec::new(),
            constraint: spec.constraint.clone(),
            unions: Vec::new(),
            has_empty_slot: false,
            flexible,
        };
        let (top, needs) = request.lay(graph, filters, &spec.resources)?;
        request.top = top;
        request.needs = needs;
        Ok(request)
    }

    pub(crate) fn of_range(&self, levels: &Levels) -> &[RequestLevel] {
        &self.levels[levels.clone()]
    }

    /// The least number of nodes that the request needs.
    pub(crate) fn nodes(&self) -> u64 {
        self.needs.iter().find(|(kind, _)| *kind == TypeId::NODE).map_or(0, |(_, count)| *count)
    }

    /// Lays siblings side by side, and after them what lies below them. Returns where they are and
    /// what they need: that follows upstream's `prime_jobspec`.
    fn lay(
        &mut self,
        graph: &Graph,
        filters: &Filters,
        siblings: &[Resource],
    ) -> Result<(Levels, Needs), Error> {
        let start = self.levels.len();
        for resource in siblings {
            let kind = graph.types().get(&resource.kind).ok_or_else(|| {
                Error::invalid(format!(
                    "resources: {}: no vertex of the graph has this type",
                    resource.kind
                ))
            })?;
            // A label is written with each vertex that serves its level.
            let labels = resource.label.as_deref().unwrap_or_default().len();
            TEXT_BYTES_MAX.check(labels.saturating_mul(graph.len()), "resources: label")?;
            if resource.exclusive == Some(true) && !self.exclusive_kinds.contains(&kind) {
                self.exclusive_kinds.push(kind);
            }
            self.levels.push(RequestLevel {
                kind,
                count: resource.count,
                exclusive: resource.exclusive,
                label: resource.label.as_deref().unwrap_or_default().into(),
                with: 0..0,
                needs: Needs::new(),
            });
        }
        let range = start..self.levels.len();
        let mut all = Needs::new();
        let mut alternatives: Option<Needs> = None;
        for (at, resource) in range.clone().zip(siblings) {
            refuse_ranges_of_units(graph, resource)?;
            let (with, needs) = self.lay(graph, filters, &resource.with)?;
            let level = &mut self.levels[at];
            let min = level.count.min;
            self.has_empty_slot |= level.kind == TypeId::SLOT && resource.with.is_empty();
            if filters.is_tracked(level.kind) {
                add(&mut all, level.kind, min);
            }
            if self.flexible && level.kind == TypeId::SLOT {
                // Of alternatives no more is sure than what each of them needs.
                let own: Needs = needs
                    .iter()
                    .map(|(kind, amount)| (*kind, amount.saturating_mul(min)))
                    .collect();
                alternatives = Some(match alternatives {
                    None => own,
                    Some(others) => least(&others, &own),
                });
            } else {
                for (kind, amount) in &needs {
                    add(&mut all, *kind, amount.saturating_mul(min));
                }
            }
            level.with = with;
            level.needs = needs;
        }
        for (kind, amount) in alternatives.unwrap_or_default() {
            add(&mut all, kind, amount);
        }
        self.unite(&range);
        Ok((range, all))
    }

    /// Lays out what sibling slots are made of together.
    fn unite(&mut self, siblings: &Levels) {
        let slots: SmallVec<[usize; 4]> =
            siblings.clone().filter(|at| self.levels[*at].kind == TypeId::SLOT).collect();
        if slots.is_empty() || !self.flexible {
            return;
        }
        let start = self.levels.len();
        for slot in &slots {
            for part in self.levels[*slot].with.clone() {
                let level = self.levels[part].clone();
                match self.levels[start..].iter_mut().find(|known| known.kind == level.kind) {
                    // As much is looked for as the most demanding slot has.
                    Some(known) if level.count.most() > known.count.most() => {
                        known.count = level.count;
                    }
                    Some(_) => {}
                    None => self.levels.push(level),
                }
            }
        }
        self.unions.push((slots[0], start..self.levels.len()));
    }
}

/// Refuses a slot that asks for a range of units of a type of which a node has a pool.
fn refuse_ranges_of_units(graph: &Graph, slot: &Resource) -> Result<(), Error> {
    if !slot.is_slot() || !graph.has_pool_types() {
        return Ok(());
    }
    let is_pool = |part: &&Resource| {
        graph.types().get(&part.kind).is_some_and(|kind| graph.pools.column_of(kind).is_some())
    };
    let label = slot.label.as_deref().unwrap_or_default();
    slot.with.iter().filter(is_pool).try_for_each(|part| part.units_of_slot(label).map(drop))
}

/// What both need.
fn least(one: &Needs, other: &Needs) -> Needs {
    one.iter()
        .filter_map(|(kind, amount)| {
            let (_, also) = other.iter().find(|(known, _)| known == kind)?;
            Some((*kind, *amount.min(also)))
        })
        .collect()
}

fn add(needs: &mut Needs, kind: TypeId, amount: u64) {
    let sum = amount_of(needs, kind);
    *sum = sum.saturating_add(amount);
}
