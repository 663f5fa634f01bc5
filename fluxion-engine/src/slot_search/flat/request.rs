//! A request in the form in which it is searched for: data that follows from a jobspec and a graph.

use std::sync::Arc;

use smallvec::SmallVec;

use super::order::NodeOrder;
use super::rule::{Rule, Wanted};
use super::shape::{Pick, Shape};
use crate::Error;
use crate::bits::Bits;
use crate::graph::{Graph, TypeId};
use crate::jobspec::{Cap, Count, Hold, Jobspec, Resource};
use crate::pools::{COUNT_MAX, Free, Pools, SlotShape, Tenancy};
use crate::slot_search::candidates::Usable;
use crate::time::When;

/// A request of slots, each of units of pools.
#[derive(Debug, Clone)]
pub(crate) struct SlotRequest<'a> {
    pub(crate) shapes: Vec<Shape<'a>>,
    /// The types that occur; shapes refer to them by position. `None`: no vertex has this type.
    pub(crate) kinds: Vec<(&'a str, Option<TypeId>)>,
    /// Shapes refer to them by position.
    pub(super) caps: &'a [Cap],
    /// In which parts of levels slots may lie.
    pub(super) rules: Vec<Rule<'a>>,
    /// With which other slots its slots may be on nodes.
    pub(crate) tenancy: Tenancy,
}

/// When a request starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// At this second; each shape needs its units for as long as it is held.
    At(i64),
    /// When everything that has an end has ended.
    Eventually,
    /// When most is free, by the ends that are known: a request without a place then has none at
    /// any instant.
    Best,
    /// On the idle machine.
    Idle,
}

/// The outcome of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A place for every slot: shape by shape, ranks ascending.
    Found(Vec<Pick>),
    /// There is none.
    Impossible,
    /// None was found, and there may be one.
    GaveUp,
}

impl<'a> SlotRequest<'a> {
    /// The request in this form, or `None` if it asks for more than slots of units.
    pub(crate) fn of(graph: &Graph, spec: &'a Jobspec) -> Result<Option<Self>, Error> {
        let unit = |part: &Resource| {
            part.with.is_empty()
                && !part.is_slot()
                && part.exclusive != Some(true)
                && graph.is_pool_type(&part.kind)
        };
        let flat = |level: &Resource| level.is_slot() && level.with.iter().all(unit);
        // Of a type of which some vertices are handed out whole, a walk finds both those and units.
        let has_whole = |part: &Resource| {
            graph.types().get(&part.kind).is_some_and(|kind| graph.has_whole(kind))
        };
        let walks = |level: &Resource| !flat(level) || level.with.iter().any(has_whole);
        if spec.resources.iter().any(walks) {
            return Ok(None);
        }
        let tenancy = spec.extras.tenancy;
        let mut request = SlotRequest {
            shapes: Vec::new(),
            kinds: Vec::new(),
            caps: &spec.extras.max_per_node,
            rules: Vec::new(),
            tenancy,
        };
        for slot in &spec.resources {
            let mut shape = shape_of(&mut request, graph, slot)?;
            shape.hold = spec.hold;
            request.shapes.push(shape);
        }
        for extras in &spec.extras.slots {
            let shape = request.shapes.iter_mut().find(|shape| *shape.label == *extras.label);
            let shape = shape.ok_or_else(|| {
                Error::invalid(format!("slots: no slot is labelled {:?}", extras.label))
            })?;
            shape.hold = extras.hold.unwrap_or(shape.hold);
            shape.extras = Some(extras);
        }
        for (position, cap) in request.caps.iter().enumerate() {
            for label in &cap.labels {
                let shape = request.shapes.iter_mut().find(|shape| *shape.label == **label);
                let shape = shape.ok_or_else(|| {
                    Error::invalid(format!("max_per_node: no slot is labelled {label:?}"))
                })?;
                shape.caps.push(position);
            }
        }
        for rule in &spec.extras.levels {
            let rule = Rule::of(&graph.pools, rule, &request.shapes)?;
            request.rules.extend((!rule.is_idle()).then_some(rule));
        }
        Ok(Some(request))
    }

    /// The longest time for which a shape is held.
    pub(crate) fn longest(&self) -> Hold {
        self.shapes
            .iter()
            .map(|shape| shape.hold)
            .max_by_key(|hold| hold.seconds())
            .unwrap_or(Hold::Endless)
    }

    /// Free units of the types at a moment.
    pub(crate) fn free<'g>(&self, graph: &'g Graph, when: When) -> Free<'g> {
        graph.pools.free(self.kinds.iter().map(|(_, id)| (*id, when)), self.tenancy)
    }

    /// The shape in the form that claims keep. All its types are known, or it could not have been
    /// placed.
    pub(crate) fn slot(&self, shape: usize) -> Arc<SlotShape> {
        let shape = &self.shapes[shape];
        let mut needs: SmallVec<[(TypeId, u64); 4]> = shape
            .needs
            .iter()
            .filter_map(|(kind, amount)| Some((self.kinds[*kind].1?, *amount)))
            .collect();
        needs.sort_unstable();
        Arc::new(SlotShape { label: shape.label.into(), needs, tenancy: self.tenancy })
    }

    /// How many slots of a shape may come to one node.
    pub(crate) fn cap(&self, shape: &Shape<'_>) -> u64 {
        shape.caps.iter().map(|cap| self.caps[*cap].count).min().unwrap_or(u64::MAX)
    }

    /// How many slots of a shape there is room for, were it alone; rows are only looked at until
    /// there are `enough`.
    pub(crate) fn room_alone(
        &self,
        shape: &Shape<'_>,
        free: &Free<'_>,
        rows: &[Bits],
        enough: u64,
    ) -> u64 {
        let cap = self.cap(shape);
        let mut sum = 0_u64;
        shape.walk(free, rows, &NodeOrder::Up, |row| {
            sum = sum.saturating_add(shape.room(free, row, cap));
            sum < enough
        });
        sum.min(enough)
    }

    /// Units of a slot by type; `None`: of one that no node has.
    pub(super) fn units_of(&self, shape: &Shape<'_>) -> Option<SmallVec<[(TypeId, u64); 4]>> {
        let mut units: SmallVec<[(TypeId, u64); 4]> = SmallVec::new();
        for (kind, amount) in &shape.needs {
            let kind = self.kinds[*kind].1?;
            // A type is named again for each hold that the slot outlasts.
            if !units.iter().any(|(known, _)| *known == kind) {
                units.push((kind, *amount));
            }
        }
        Some(units)
    }

    /// The units of a slot of a shape, by column; `None`: of one that no node has, or none.
    pub(crate) fn columns_of(
        &self,
        graph: &Graph,
        shape: usize,
    ) -> Option<SmallVec<[(usize, u64); 4]>> {
        let needs = self.shapes[shape].needs.iter().map(|(kind, amount)| {
            let column = graph.pools.column_of(self.kinds[*kind].1?)?;
            (*amount > 0).then_some((column, *amount))
        });
        needs.collect()
    }

    pub(super) fn has_several_holds(&self) -> bool {
        self.shapes.windows(2).any(|pair| pair[0].hold.seconds() != pair[1].hold.seconds())
    }

    /// Leaves of the rows of a shape those that its rules admit.
    pub(crate) fn admit(&self, pools: &Pools, shape: usize, rows: &mut Bits) {
        for rule in self.rules.iter().filter(|rule| rule.shapes.contains(&shape)) {
            rule.admit(pools, rows);
        }
    }

    /// Whether it wants anything of levels.
    pub(crate) fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// True if the difference between parts of a level is bounded.
    pub(crate) fn has_skew(&self) -> bool {
        self.rules.iter().any(|rule| rule.skew.is_some())
    }

    /// Restricts the rows of the shapes to those that their rules admit.
    pub(crate) fn admitted(&self, pools: &Pools, usable: Usable) -> Usable {
        if self.rules.is_empty() {
            return usable;
        }
        let rows: Vec<Bits> = (0..self.shapes.len())
            .map(|shape| {
                let mut rows = Bits::full(pools.len());
                self.admit(pools, shape, &mut rows);
                rows
            })
            .collect();
        usable.limited(&rows)
    }

    /// Whether slots on rows keep the rules, but for a skew: that depends on what other nodes there
    /// are.
    pub(crate) fn keeps_rules(&self, pools: &Pools, slots: &[(&str, usize, u64)]) -> bool {
        self.rules.iter().all(|rule| {
            let is_under =
                |label: &str| rule.shapes.iter().any(|shape| self.shapes[*shape].label == label);
            let mut by_part = vec![0_u64; rule.parts(pools)];
            let all_inside =
                slots.iter().filter(|(label, ..)| is_under(label)).all(|(_, row, count)| {
                    let part = rule.part_of(pools, *row);
                    part.inspect(|part| by_part[*part] += count).is_some()
                });
            let mut used =
                by_part.iter().enumerate().filter(|(_, slots)| **slots > 0).map(|(part, _)| part);
            let fits = match rule.within {
                Wanted::Any | Wanted::Fewest => true,
                Wanted::One => used.nth(1).is_none(),
                Wanted::Part(wanted) => used.all(|part| Some(part) == wanted),
            };
            all_inside && fits && by_part.iter().all(|slots| *slots <= rule.most)
        })
    }
}

/// The shape of the slots of a resource.
fn shape_of<'a>(
    request: &mut SlotRequest<'a>,
    graph: &Graph,
    slot: &'a Resource,
) -> Result<Shape<'a>, Error> {
    let label = slot.label.as_deref().unwrap_or_default();
    if slot.with.is_empty() {
        return Err(Error::invalid(format!(
            "resources: slot {label:?}: with: a slot holds at least one resource"
        )));
    }
    if request.shapes.iter().any(|shape| shape.label == label) {
        return Err(Error::invalid(format!("slot {label:?}: the label is used twice")));
    }
    let Count { min: count, max, .. } = slot.count;
    if count > max {
        return Err(Error::invalid(format!("slot {label:?}: count: its max is below its min")));
    }
    // A count of 0 is read, and fits nowhere.
    let range = (count < max && count > 0).then_some(slot.count);
    if count > COUNT_MAX {
        return Err(Error::invalid(format!("slot {label:?}: count: more than {COUNT_MAX}")));
    }
    let mut needs: SmallVec<[(usize, u64); 4]> = SmallVec::new();
    for part in &slot.with {
        let position =
            request.kinds.iter().position(|(kind, _)| *kind == &*part.kind).unwrap_or_else(|| {
                request.kinds.push((&part.kind, graph.types().get(&part.kind)));
                request.kinds.len() - 1
            });
        if needs.iter().any(|(other, _)| *other == position) {
            return Err(Error::invalid(format!("slot {label:?}: {}: is wanted twice", part.kind)));
        }
        needs.push((position, part.units_of_slot(label)?));
    }
    Ok(Shape {
        label,
        count,
        range,
        needs,
        caps: SmallVec::new(),
        hold: Hold::Endless,
        extras: None,
    })
}

/// True if some shape asks for a range.
pub(crate) fn has_ranges(request: &SlotRequest<'_>) -> bool {
    request.shapes.iter().any(|shape| shape.range.is_some())
}
