//! The account of the ranked nodes: which job has which part of a node, from when until when. Every
//! way to match reads it.
//!
//! One row per node in order of ranks, one column of units per vertex type that is a pool. A
//! request for slots is matched by walking the `free` columns of the types it names, so these are
//! kept ready for the present. For any other moment they are worked out from the claims, which are
//! kept per row, where there are any. Claims may exceed a pool's size: the pool is then
//! full. A node that a walk has given away whole, or with all that holds it, is a claim as well:
//! nothing of it is free.
//!
//! A claim is either taken or planned. A taken one counts until it is given back, also past its
//! end; a planned one counts from its start on, which lies in the future: when it comes, the
//! engine begins the job or puts it off.

mod claims;
mod ends;
mod fill;
mod free;
mod gains;
mod journal;
pub(crate) mod levels;
mod order;
mod outlook;
pub(crate) mod rebuild;
mod tenancy;
mod timeline;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

pub(crate) use fill::{FULL, Ranked, Units};
pub(crate) use free::Free;
pub(crate) use order::{Cursor, Key};
pub(crate) use outlook::Sought;
pub use tenancy::Tenancy;

use crate::admitted::Admitted;
use crate::bits::Bits;
use crate::effort::Effort;
use crate::time::End;
use crate::vertex::{TypeId, VertexId};

/// Units per type, sorted by type, none zero.
pub type Amounts = SmallVec<[(TypeId, u64); 4]>;

/// What one slot of a label takes of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotShape {
    /// The slot's label.
    pub label: Box<str>,
    /// Units of one slot.
    pub needs: Amounts,
    /// With which other slots it may be on a node.
    pub tenancy: Tenancy,
}

/// The part of a node that a claim takes.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    /// Slots of one shape.
    Slots(Arc<SlotShape>),
    /// All of it.
    Node,
}

/// A part of one node that a job has, or will have.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) job: u64,
    pub(crate) part: Part,
    /// How many slots.
    pub(crate) count: u64,
    pub(crate) start: i64,
    pub(crate) end: End,
    /// It has not begun.
    pub(crate) planned: bool,
}

/// How many slots one claim may hold; keeps sums of units far below 128 bits.
pub(crate) const COUNT_MAX: u64 = u32::MAX as u64;

/// The pools of all nodes.
#[derive(Debug, Clone, Default)]
pub struct Pools {
    ranks: Vec<u32>,
    vertices: Vec<VertexId>,
    up: Bits,
    /// Copies share those of the rows that have not changed since.
    claims: Vec<Arc<Vec<Claim>>>,
    /// Per row, how many claims have not begun.
    planned: Vec<u32>,
    /// Per row, how many claims take the whole node now.
    exclusive: Vec<u32>,
    /// The starts of planned claims: how many claims at each instant.
    starts: BTreeMap<i64, u32>,
    /// The ends of claims, and where.
    ends: ends::Ends,
    /// Per row, claims that shut it to others.
    shut: Vec<Shut>,
    /// By type; `None` where no node ever had such a pool or claim.
    columns: Vec<Option<Column>>,
    now: i64,
    /// Rows that constraints admit.
    pub(crate) admitted: Admitted,
    /// Rows by how full they are.
    fills: fill::Fills,
    /// Free units of each node from now on.
    timelines: timeline::Timelines,
    /// Per block of 64 rows, the most that any of them has free of each column now, and then the
    /// most that lasts; `None`: to be looked up.
    maxima: RefCell<Vec<Option<Box<[u64]>>>>,
    /// Parts of the machine.
    pub(crate) levels: levels::Levels,
    /// Where there is more room than there was.
    pub(crate) gains: gains::Gains,
    /// Places that the reservation examined last could have instead.
    outlook: outlook::Outlook,
    journal: journal::Journal,
    /// Steps of the searches of this call. Here, where every search comes by.
    pub(crate) effort: Effort,
}

/// Claims of a row that shut it to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Shut {
    /// How many slots there are now of a tenant that has the node alone.
    alone: u64,
    /// How many claims that never end take the whole node, and slots of a tenant that has it alone.
    for_good: u64,
}

/// The pools of one type. `free` is `usable - used`, or 0 where more is used than there is, or
/// a job has the whole node, or a tenant has it alone.
#[derive(Debug, Clone)]
struct Column {
    size: Vec<u64>,
    /// Of the size, the units that are not marked as down themselves.
    usable: Vec<u64>,
    used: Vec<u128>,
    free: Vec<u64>,
    /// Units that claims without end use, or will use.
    endless: Vec<u128>,
}

/// One pool of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUse {
    /// Its type.
    pub kind: TypeId,
    /// Its units.
    pub size: u64,
    /// Units that are claimed now, possibly more than there are.
    pub used: u128,
}

impl Claim {
    /// The shape of its slots; `None`: it is the whole node.
    pub(crate) fn slot(&self) -> Option<&Arc<SlotShape>> {
        if let Part::Slots(slot) = &self.part { Some(slot) } else { None }
    }

    fn is_of(&self, job: u64, label: &str) -> bool {
        self.job == job && self.slot().is_some_and(|slot| *slot.label == *label)
    }
}

impl Pools {
    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.ranks.len()
    }

    /// No nodes.
    pub fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// The present.
    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    /// The ranks of all nodes, ascending; a position here is a row everywhere.
    pub fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// The node vertices, row by row.
    pub(crate) fn vertices(&self) -> &[VertexId] {
        &self.vertices
    }

    /// Nodes that are up.
    pub(crate) fn up(&self) -> &Bits {
        &self.up
    }

    /// The row of a rank.
    pub fn position(&self, rank: u32) -> Option<usize> {
        // Ranks mostly are 0, 1, 2, ...: then the row is the rank.
        let guess = rank as usize;
        if self.ranks.get(guess) == Some(&rank) {
            Some(guess)
        } else {
            self.ranks.binary_search(&rank).ok()
        }
    }

    /// Rows from the first rank of at least `first` to the last of at most `last`.
    pub(crate) fn rows(&self, first: u32, last: u32) -> std::ops::Range<usize> {
        let from = self.rows_below(first);
        let to = last.checked_add(1).map_or(self.len(), |behind| self.rows_below(behind));
        from..to.max(from)
    }

    /// How many ranks are less than this one.
    fn rows_below(&self, rank: u32) -> usize {
        let Some(least) = self.ranks.first() else { return 0 };
        // No two are the same, so there cannot be more; where none is missing, there are as many.
        let most = self.len().min(rank.saturating_sub(*least) as usize);
        if most == 0 || self.ranks[most - 1] < rank {
            return most;
        }
        self.ranks[..most].partition_point(|other| *other < rank)
    }

    /// The rows with ranks in one of these ranges.
    pub(crate) fn rows_of(&self, ranges: &[(u32, u32)]) -> Bits {
        let mut rows = Bits::empty(self.len());
        for (first, last) in ranges {
            rows.insert_range(self.rows(*first, *last));
        }
        rows
    }

    /// A pool's size; 0 if there is none.
    pub(crate) fn size(&self, row: usize, kind: TypeId) -> u64 {
        self.column(kind).map_or(0, |column| column.size[row])
    }

    /// The units that a pool can hand out; 0 if there is none.
    pub(crate) fn usable(&self, row: usize, kind: TypeId) -> u64 {
        self.column(kind).map_or(0, |column| column.usable[row])
    }

    /// All pools of a node that have a size or a claim.
    pub(crate) fn uses(&self, row: usize) -> Vec<PoolUse> {
        let columns =
            self.columns.iter().enumerate().filter_map(|(at, column)| Some((at, column.as_ref()?)));
        let uses = columns.map(|(at, column)| PoolUse {
            kind: TypeId::from_index(at),
            size: column.size[row],
            used: self.used_now(column, row),
        });
        uses.filter(|pool| pool.size > 0 || pool.used > 0).collect()
    }

    /// True if no job has anything of a node at any instant of a window. Work past its end is there
    /// as long as it is not given back.
    pub(crate) fn is_idle(&self, row: usize, from: i64, to: i64) -> bool {
        !self.claims[row].iter().any(|claim| claim.start < to && !claim.end.over_at(from, self.now))
    }

    /// True if no job has begun to have anything of a node.
    pub(crate) fn is_untouched(&self, row: usize) -> bool {
        self.claims[row].iter().all(|claim| claim.planned)
    }

    /// Units used of a pool now: all of it, where a job has the node.
    fn used_now(&self, column: &Column, row: usize) -> u128 {
        let used = column.used[row];
        if self.exclusive[row] > 0 { used.max(u128::from(column.size[row])) } else { used }
    }

    /// Forgets the indexes that matches make of claims and sizes: each is made again when it
    /// is needed.
    pub(crate) fn forget_indexes(&mut self) {
        self.admitted.forget();
        self.fills.forget();
        self.maxima.get_mut().clear();
        self.levels.forget();
        self.outlook.forget();
    }

    pub(crate) fn insert_row(&mut self, rank: u32, vertex: VertexId, up: bool) {
        self.admitted.forget();
        let row = self.ranks.partition_point(|other| *other < rank);
        self.ranks.insert(row, rank);
        self.vertices.insert(row, vertex);
        self.claims.insert(row, Arc::default());
        self.planned.insert(row, 0);
        self.exclusive.insert(row, 0);
        self.shut.insert(row, Shut::default());
        self.timelines.insert(row);
        self.maxima.get_mut().clear();
        self.levels.insert_row(row);
        self.outlook.forget();
        for column in self.columns.iter_mut().flatten() {
            column.size.insert(row, 0);
            column.usable.insert(row, 0);
            column.used.insert(row, 0);
            column.free.insert(row, 0);
            column.endless.insert(row, 0);
        }
        self.up.open(row, up);
        self.fills.insert_row(row, rank);
        self.gains.note(rank);
    }

    /// Removes a node, and returns the claims there, which hold nothing any more.
    pub(crate) fn remove_row(&mut self, row: usize) -> Arc<Vec<Claim>> {
        self.admitted.forget();
        self.leave_orders(row);
        let claims = std::mem::take(&mut self.claims[row]);
        for claim in &*claims {
            self.unlist(claim);
        }
        self.levels.remove_row(row, self.ranks[row]);
        self.outlook.forget();
        self.ranks.remove(row);
        self.vertices.remove(row);
        self.planned.remove(row);
        self.exclusive.remove(row);
        self.shut.remove(row);
        self.timelines.remove(row);
        self.maxima.get_mut().clear();
        for column in self.columns.iter_mut().flatten() {
            column.size.remove(row);
            column.usable.remove(row);
            column.used.remove(row);
            column.free.remove(row);
            column.endless.remove(row);
        }
        self.up.close(row);
        self.claims.remove(row);
        claims
    }

    /// The vertices of nodes have other numbers.
    pub(crate) fn renumber(&mut self, to: impl Fn(VertexId) -> VertexId) {
        self.vertices.iter_mut().for_each(|vertex| *vertex = to(*vertex));
    }

    pub(crate) fn set_up(&mut self, row: usize, up: bool) {
        self.levels.note(self.ranks[row]);
        if up {
            self.up.insert(row);
            self.gains.note(self.ranks[row]);
        } else {
            self.up.remove(row);
        }
    }

    /// `usable` of the units are on vertices that are not marked as down themselves.
    pub(crate) fn set_size(&mut self, row: usize, kind: TypeId, size: u64, usable: u64) {
        let shut = self.is_shut(row);
        let column = self.column_mut(kind);
        (column.size[row], column.usable[row]) = (size, usable);
        column.refresh(row, shut);
        self.changed(row);
        self.gains.note(self.ranks[row]);
    }

    /// Notes that the free units of a row, now or later, have changed.
    fn changed(&mut self, row: usize) {
        self.fills.note(self.ranks[row]);
        self.levels.note(self.ranks[row]);
        self.timelines.forget(row);
        self.outlook.note(row);
        if let Some(block) = self.maxima.get_mut().get_mut(row / 64) {
            *block = None;
        }
    }

    /// The place of a type among the columns; `None`: no node ever had such a pool.
    pub(crate) fn column_of(&self, kind: TypeId) -> Option<usize> {
        self.column(kind).map(|_| self.place_in_order(kind))
    }

    fn column(&self, kind: TypeId) -> Option<&Column> {
        self.columns.get(kind.index()).and_then(Option::as_ref)
    }

    fn column_mut(&mut self, kind: TypeId) -> &mut Column {
        let (rows, at) = (self.ranks.len(), kind.index());
        if at >= self.columns.len() {
            self.columns.resize(at + 1, None);
        }
        if self.columns[at].is_none() {
            self.levels.forget();
            // Rows of the orders and of the maxima have a number per column, and so has each step
            // of a timeline.
            self.fills.forget();
            self.timelines.forget_all();
            self.maxima.get_mut().clear();
        }
        self.columns[at].get_or_insert_with(|| Column {
            size: vec![0; rows],
            usable: vec![0; rows],
            used: vec![0; rows],
            free: vec![0; rows],
            endless: vec![0; rows],
        })
    }
}

impl Column {
    fn refresh(&mut self, row: usize, shut: bool) {
        self.free[row] = if shut { 0 } else { free(self.usable[row], self.used[row]) };
    }
}

/// The units left of a pool.
fn free(size: u64, used: u128) -> u64 {
    size.saturating_sub(u64::try_from(used).unwrap_or(u64::MAX))
}
