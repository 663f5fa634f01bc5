//! Slots within parts of levels: racks, zones, whatever partitions the nodes
//! ([`crate::pools::levels`]).
//!
//! A request may have several rules ([`Rule`]), each for some of its shapes on one level: all in
//! one part, or in as few as possible; a bounded number in each; spread, so that no part has many
//! more than another. What they leave is placed as without: preferences, limits per node and
//! policies order nodes within it.
//!
//! - [`choice`] tries the parts for rules that want one, the tightest first, and passes on the rest
//!   of the request's rows. Slices that are alike and are to be even over their level are shared
//!   out by [`slices`] before.
//! - [`shares`] says how many slots of one shape each part gets. This is exact.
//! - [`several`] shares out several shapes: greedily within bounds, and where that fails by all
//!   ways ([`all_ways`]), if they are few.
//!
//! [`quotas`] are the bounds that hold while slots are placed; [`Spread`] is the state that a sweep
//! over time reads, before it tries.

mod all_ways;
mod choice;
pub(super) mod quotas;
mod report;
mod rooms;
mod several;
mod shares;
mod slices;

use smallvec::SmallVec;

pub use report::{EvenSupply, LevelSupply, TogetherSupply};
pub(super) use rooms::Spread;

use super::{NodeOrder, Request, Search, Start};
use crate::Error;
use crate::bits::Bits;
use crate::jobspec::{LevelRule, Within};
use crate::matcher::candidates::Usable;
use crate::pools::levels::Level;
use crate::pools::{Free, Pools};

/// A wish of a request about a level.
#[derive(Debug, Clone)]
pub(crate) struct Rule<'a> {
    pub(crate) name: &'a str,
    /// `None`: no node is in a part of it.
    level: Option<usize>,
    /// Positions of the shapes that it is for.
    shapes: SmallVec<[usize; 4]>,
    pub(super) within: Wanted,
    /// The part that it gets does not say which parts count for a skew.
    is_slice: bool,
    /// At most this number of slots in one part.
    most: u64,
    skew: Option<u64>,
}

/// Over how many parts slots may be spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Any,
    One,
    Fewest,
    /// This one; `None`: there is no such part.
    Part(Option<usize>),
}

/// A search at some moment.
#[derive(Clone, Copy)]
struct Moment<'a> {
    pools: &'a Pools,
    start: Start,
    free: &'a Free<'a>,
    order: &'a NodeOrder<'a>,
    /// True if slots that are to be in as few parts as possible are to be in one.
    is_strict: bool,
}

impl<'a> Rule<'a> {
    pub(super) fn of(
        pools: &Pools,
        rule: &'a LevelRule,
        request: &Request<'_>,
    ) -> Result<Self, Error> {
        let level = pools.levels.find(&rule.level);
        let shape_of = |label: &str| request.shapes.iter().position(|shape| shape.label == label);
        let shapes = match &rule.labels {
            None => (0..request.shapes.len()).collect(),
            Some(labels) => {
                let mut shapes = SmallVec::new();
                for label in labels {
                    let missing =
                        || Error::invalid(format!("levels: no slot is labelled {label:?}"));
                    shapes.push(shape_of(label).ok_or_else(missing)?);
                }
                shapes.sort_unstable();
                shapes.dedup();
                shapes
            }
        };
        let within = match &rule.within {
            Within::Any => Wanted::Any,
            Within::One => Wanted::One,
            Within::Fewest => Wanted::Fewest,
            Within::Part(name) => {
                Wanted::Part(level.and_then(|level| pools.levels.get(level).part(name)))
            }
        };
        let most = rule.max_per_part.unwrap_or(u64::MAX);
        let (is_slice, skew) = (rule.is_slice, rule.max_skew);
        Ok(Rule { name: &rule.level, level, shapes, within, is_slice, most, skew })
    }

    fn level<'p>(&self, pools: &'p Pools) -> Option<&'p Level> {
        self.level.map(|level| pools.levels.get(level))
    }

    /// It is for no shape.
    pub(super) fn is_idle(&self) -> bool {
        self.shapes.is_empty()
    }

    /// The part of its level that a row is in.
    fn part_of(&self, pools: &Pools, row: usize) -> Option<usize> {
        self.level(pools)?.part_of(row)
    }

    fn parts(&self, pools: &Pools) -> usize {
        self.level(pools).map_or(0, |level| level.parts().len())
    }

    /// Whether it bounds what parts get.
    fn has_bounds(&self) -> bool {
        self.most < u64::MAX || self.skew.is_some()
    }

    /// All slots that it is for.
    fn wanted(&self, request: &Request<'_>) -> u64 {
        self.shapes.iter().map(|shape| request.shapes[*shape].count).sum()
    }

    /// Leaves of the rows those that slots under this rule may use at all.
    fn admit(&self, pools: &Pools, rows: &mut Bits) {
        match (self.level, self.within) {
            (None, _) | (_, Wanted::Part(None)) => *rows = Bits::empty(pools.len()),
            (Some(level), Wanted::Part(Some(part))) => {
                rows.intersect(&part_rows(pools, level, part));
            }
            (Some(level), _) => rows.intersect(pools.levels.get(level).rows()),
        }
    }
}

fn part_rows(pools: &Pools, level: usize, part: usize) -> Bits {
    let mut rows = Bits::empty(pools.len());
    pools.rows_of_part(level, part).for_each(|row| rows.insert(row));
    rows
}

impl Request<'_> {
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

    /// Finds a place for every slot within the rules.
    pub(super) fn place_in_parts(
        &self,
        pools: &Pools,
        start: Start,
        free: &Free<'_>,
        usable: &Usable,
        order: &NodeOrder<'_>,
    ) -> Search {
        let mut moment = Moment { pools, start, free, order, is_strict: false };
        if self.rules.iter().any(|rule| rule.within == Wanted::Fewest) {
            // One part is the fewest.
            moment.is_strict = true;
            if let Search::Found(picks) = self.choose_parts(moment, usable) {
                return Search::Found(picks);
            }
            moment.is_strict = false;
        }
        self.choose_parts(moment, usable)
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
