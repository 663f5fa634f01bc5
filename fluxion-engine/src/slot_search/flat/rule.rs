//! A rule of a request about a level.

use smallvec::SmallVec;

use super::shape::Shape;
use crate::Error;
use crate::bits::Bits;
use crate::jobspec::{LevelRule, Within};
use crate::pools::Pools;
use crate::pools::levels::Level;

/// A wish of a request about a level.
#[derive(Debug, Clone)]
pub(crate) struct Rule<'a> {
    pub(crate) name: &'a str,
    /// `None`: no node is in a part of it.
    pub(super) level: Option<usize>,
    /// Positions of the shapes that it is for.
    pub(super) shapes: SmallVec<[usize; 4]>,
    pub(super) within: Wanted,
    /// The part that it gets does not say which parts count for a skew.
    pub(super) is_slice: bool,
    /// At most this number of slots in one part.
    pub(super) most: u64,
    pub(super) skew: Option<u64>,
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

impl<'a> Rule<'a> {
    pub(super) fn of(pools: &Pools, rule: &'a LevelRule, of: &[Shape<'_>]) -> Result<Self, Error> {
        let level = pools.levels.find(&rule.level);
        let shape_of = |label: &str| of.iter().position(|shape| shape.label == label);
        let shapes = match &rule.labels {
            None => (0..of.len()).collect(),
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

    pub(super) fn level<'p>(&self, pools: &'p Pools) -> Option<&'p Level> {
        self.level.map(|level| pools.levels.get(level))
    }

    /// It is for no shape.
    pub(super) fn is_idle(&self) -> bool {
        self.shapes.is_empty()
    }

    /// The part of its level that a row is in.
    pub(super) fn part_of(&self, pools: &Pools, row: usize) -> Option<usize> {
        self.level(pools)?.part_of(row)
    }

    pub(super) fn parts(&self, pools: &Pools) -> usize {
        self.level(pools).map_or(0, |level| level.parts().len())
    }

    /// Whether it bounds what parts get.
    pub(super) fn has_bounds(&self) -> bool {
        self.most < u64::MAX || self.skew.is_some()
    }

    /// All slots that it is for.
    pub(super) fn wanted(&self, of: &[Shape<'_>]) -> u64 {
        self.shapes.iter().map(|shape| of[*shape].count).sum()
    }

    /// Leaves of the rows those that slots under this rule may use at all.
    pub(super) fn admit(&self, pools: &Pools, rows: &mut Bits) {
        match (self.level, self.within) {
            (None, _) | (_, Wanted::Part(None)) => *rows = Bits::empty(pools.len()),
            (Some(level), Wanted::Part(Some(part))) => {
                rows.intersect(&part_rows(pools, level, part));
            }
            (Some(level), _) => rows.intersect(pools.levels.get(level).rows()),
        }
    }
}

/// The rows of a part.
pub(super) fn part_rows(pools: &Pools, level: usize, part: usize) -> Bits {
    let mut rows = Bits::empty(pools.len());
    pools.rows_of_part(level, part).for_each(|row| rows.insert(row));
    rows
}
