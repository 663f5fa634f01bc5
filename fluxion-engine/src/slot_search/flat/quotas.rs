//! How many more slots parts may get while slots are placed.

use std::cell::RefCell;

use smallvec::SmallVec;

use super::rule::Rule;
use crate::pools::Pools;
use crate::pools::levels::Level;

/// The slots that the parts of levels may still get; empty where nothing bounds them.
#[derive(Debug, Default)]
pub(super) struct Quotas<'a>(Vec<Quota<'a>>);

/// One rule's.
#[derive(Debug)]
struct Quota<'a> {
    level: &'a Level,
    shapes: SmallVec<[usize; 4]>,
    left: RefCell<Vec<u64>>,
}

impl<'a> Quotas<'a> {
    /// Adds the bounds of a rule: a number of slots for each part.
    pub(super) fn add(&mut self, pools: &'a Pools, rule: &Rule<'_>, left: Vec<u64>) {
        if let Some(level) = rule.level(pools) {
            self.0.push(Quota { level, shapes: rule.shapes.clone(), left: RefCell::new(left) });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn of(&self, shape: usize) -> impl Iterator<Item = &Quota<'a>> {
        self.0.iter().filter(move |quota| quota.shapes.contains(&shape))
    }

    /// How many more slots of a shape may come to a row.
    pub(super) fn left(&self, shape: usize, row: usize) -> u64 {
        let left = self
            .of(shape)
            .map(|quota| quota.level.part_of(row).map_or(0, |part| quota.left.borrow()[part]));
        left.min().unwrap_or(u64::MAX)
    }

    /// Slots of a shape come to a row, for which there must be as much left.
    pub(super) fn take(&self, shape: usize, row: usize, count: u64) {
        for quota in self.of(shape) {
            if let Some(part) = quota.level.part_of(row) {
                quota.left.borrow_mut()[part] -= count;
            }
        }
    }
}
