//! Levels above the nodes: each a named partition of the ranks, such as racks or zones. Several
//! stand beside each other.
//!
//! A rank is in at most one part of a level. It gets there by the vertices above its node (a level
//! of their type, a part of their path), or by name ([`Levels::set_part`]), and may move to another
//! part at any time. Of each part it is known how many units are free now on its nodes that are up:
//! a change of a row is noted, and counted when it is read.

use std::cell::{Ref, RefCell};
use std::collections::HashMap;
use std::ops::Add as _;
use std::sync::Arc;

use super::by_node::ByNode;
use super::nodes::Nodes;
use super::room::Size;
use crate::bits::Bits;

/// Stands for no part.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// The number of changes that are noted.
const CHANGED_MAX: usize = 1 << 16;

/// All levels.
#[derive(Debug, Clone, Default)]
pub(crate) struct Levels {
    /// Shared with copies of the graph, which change none: a level may have as many parts as there
    /// are nodes.
    all: Vec<Arc<Level>>,
    sums: RefCell<Sums>,
}

/// One partition.
#[derive(Debug, Clone)]
pub(crate) struct Level {
    name: Box<str>,
    /// None is empty.
    parts: Vec<Part>,
    /// Bytes of their names.
    name_bytes: usize,
    by_name: HashMap<Box<str>, u32>,
    of_row: Vec<u32>,
    /// Rows that are in some part.
    rows: Bits,
}

/// A set of ranks.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) name: Box<str>,
    /// Ascending.
    pub(crate) ranks: Vec<u32>,
}

/// Free units of parts.
#[derive(Debug, Clone, Default)]
struct Sums {
    /// By level and part: a number for each column.
    free: Vec<Vec<Box<[u128]>>>,
    /// By column and row: the units counted in them.
    counted: Vec<Vec<u64>>,
    /// Ranks of which something has changed since.
    changed: Vec<u32>,
    is_made: bool,
}

impl Levels {
    /// Where a level is; it may be elsewhere when levels have changed.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.all.iter().position(|level| *level.name == *name)
    }

    pub(crate) fn get(&self, level: usize) -> &Level {
        &self.all[level]
    }

    /// How many levels and parts there are.
    pub(super) fn size(&self) -> Size {
        let levels = self.all.len();
        let of = |level: &Arc<Level>| Size {
            parts: level.parts.len(),
            names: level.name_bytes,
            ..Size::default()
        };
        self.all.iter().map(of).fold(Size { levels, ..Size::default() }, Size::add)
    }

    pub(super) fn insert_row(&mut self, row: usize) {
        for level in self.all.iter_mut().map(Arc::make_mut) {
            level.of_row.insert(row, NOWHERE);
            level.rows.open(row, false);
        }
        self.forget();
    }

    pub(super) fn remove_row(&mut self, row: usize, rank: u32) {
        for level in self.all.iter_mut().map(Arc::make_mut) {
            level.leave(row, rank);
            level.of_row.remove(row);
            level.rows.close(row);
        }
        self.all.retain(|level| !level.parts.is_empty());
        self.forget();
    }

    /// Notes that the free units of a node have changed.
    pub(super) fn note(&mut self, rank: u32) {
        let sums = self.sums.get_mut();
        if !sums.is_made {
            return;
        }
        sums.changed.push(rank);
        if sums.changed.len() > CHANGED_MAX {
            // No match asks.
            *sums = Sums::default();
        }
    }

    /// Sums are to be rebuilt.
    pub(super) fn forget(&mut self) {
        *self.sums.get_mut() = Sums::default();
    }

    /// Puts a row into a part of a level, and out of the one that it was in; `None`: into none.
    /// Returns whether it was elsewhere.
    pub(super) fn set_part(
        &mut self,
        nodes: &Nodes,
        row: usize,
        level: &str,
        part: Option<&str>,
    ) -> bool {
        let at = match (self.find(level), part) {
            (Some(at), _) => at,
            // A node is in no part of a level that there is not.
            (None, None) => return false,
            (None, Some(_)) => {
                self.all.push(Arc::new(Level {
                    name: level.into(),
                    parts: Vec::new(),
                    name_bytes: 0,
                    by_name: HashMap::new(),
                    of_row: vec![NOWHERE; nodes.len()],
                    rows: Bits::empty(nodes.len()),
                }));
                self.all.len() - 1
            }
        };
        let of = &mut self.all[at];
        let before = of.part_of(row).map(|before| &*of.parts[before].name);
        if before == part {
            return false;
        }
        let (of, rank) = (Arc::make_mut(of), nodes.ranks()[row]);
        of.leave(row, rank);
        if let Some(part) = part {
            of.enter(row, rank, part);
        }
        if of.parts.is_empty() {
            self.all.remove(at);
        }
        self.forget();
        true
    }

    /// By part and column, the units that are free now on nodes that are up.
    pub(super) fn free_of_parts(&self, by_node: &ByNode, level: usize) -> Ref<'_, [Box<[u128]>]> {
        self.count_changes(by_node);
        Ref::map(self.sums.borrow(), |sums| sums.free[level].as_slice())
    }

    /// Brings the sums up to date.
    fn count_changes(&self, by_node: &ByNode) {
        let mut sums = self.sums.borrow_mut();
        let (sums, nodes) = (&mut *sums, by_node.nodes());
        if !sums.is_made {
            let width = by_node.columns().iter().count();
            let zeros = |_: &Part| vec![0; width].into_boxed_slice();
            sums.free =
                self.all.iter().map(|level| level.parts.iter().map(zeros).collect()).collect();
            sums.counted = vec![vec![0; nodes.len()]; width];
            sums.changed.extend_from_slice(nodes.ranks());
            sums.is_made = true;
        }
        for row in sums.changed.drain(..).filter_map(|rank| nodes.position(rank)) {
            let is_up = nodes.up().contains(row);
            for (at, column) in by_node.columns().iter().enumerate() {
                let free = if is_up { column.free()[row] } else { 0 };
                let before = std::mem::replace(&mut sums.counted[at][row], free);
                if free == before {
                    continue;
                }
                for (level, parts) in self.all.iter().zip(&mut sums.free) {
                    if let Some(part) = level.part_of(row) {
                        let sum = &mut parts[part][at];
                        *sum = *sum + u128::from(free) - u128::from(before);
                    }
                }
            }
        }
    }
}

impl Level {
    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The part of a name.
    pub(crate) fn part(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).map(|part| *part as usize)
    }

    /// The part that a row is in.
    #[inline]
    pub(crate) fn part_of(&self, row: usize) -> Option<usize> {
        let part = self.of_row[row];
        (part != NOWHERE).then_some(part as usize)
    }

    /// Rows that are in some part.
    pub(crate) fn rows(&self) -> &Bits {
        &self.rows
    }

    fn enter(&mut self, row: usize, rank: u32, name: &str) {
        let part = self.by_name.get(name).copied().unwrap_or_else(|| {
            let part = u32::try_from(self.parts.len()).expect("no more parts than ranks");
            self.by_name.insert(name.into(), part);
            self.name_bytes += name.len();
            self.parts.push(Part { name: name.into(), ranks: Vec::new() });
            part
        });
        let ranks = &mut self.parts[part as usize].ranks;
        let at = ranks.partition_point(|other| *other < rank);
        ranks.insert(at, rank);
        self.of_row[row] = part;
        self.rows.insert(row);
    }

    fn leave(&mut self, row: usize, rank: u32) {
        let part = std::mem::replace(&mut self.of_row[row], NOWHERE);
        if part == NOWHERE {
            return;
        }
        self.rows.remove(row);
        let ranks = &mut self.parts[part as usize].ranks;
        ranks.retain(|other| *other != rank);
        if !ranks.is_empty() {
            return;
        }
        let gone = self.parts.swap_remove(part as usize);
        self.by_name.remove(&gone.name);
        self.name_bytes -= gone.name.len();
        // The last part has the number of the one that is gone.
        if let Some(moved) = self.parts.get(part as usize) {
            self.by_name.insert(moved.name.clone(), part);
            let last = u32::try_from(self.parts.len()).expect("no more parts than ranks");
            self.of_row.iter_mut().filter(|of| **of == last).for_each(|of| *of = part);
        }
    }
}
