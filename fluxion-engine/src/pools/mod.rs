//! What jobs have of the ranked nodes, from when until when: an index over the claims of all jobs,
//! which every way to match reads. It can be made again from them at any time.
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

mod blocks;
mod by_node;
mod calendar;
mod claim;
mod columns;
mod fill;
mod free;
mod gains;
pub(crate) mod levels;
mod nodes;
mod outlook;
mod room;
mod sequence;
mod slots;
mod tenancy;
mod timeline;
mod touched;

use std::borrow::Cow;
use std::cell::Ref;
use std::collections::HashSet;
use std::fmt::Display;
use std::sync::Arc;

pub(crate) use by_node::ByNode;
pub use claim::{Amounts, PoolUse, SlotShape};
pub(crate) use claim::{COUNT_MAX, Claim, Lot};
pub(crate) use fill::{FULL, Ranked, Units};
pub(crate) use free::Free;
pub(crate) use outlook::Sought;
pub(crate) use room::Size;
pub(crate) use sequence::{Cursor, Key};
pub(crate) use slots::Slots;
pub use tenancy::Tenancy;

use blocks::Blocks;
use claim::Extent;
use fill::Fills;
use gains::Gains;
use levels::Levels;
use outlook::Outlook;
use timeline::{Timeline, Timelines};
use touched::TouchedRanks;

use crate::Error;
use crate::admitted::Admitted;
use crate::bits::Bits;
use crate::effort::Effort;
use crate::limits::POOL_BYTES_MAX;
use crate::policy::ByFill;
use crate::sound::contradiction;
use crate::time::{End, When};
use crate::vertex::{TypeId, Types, VertexId};

/// The pools of all nodes: the claims by node, and indexes over them, which are brought up to date
/// when they are read.
#[derive(Debug, Clone, Default)]
pub struct Pools {
    by_node: ByNode,
    /// How many columns there were when the indexes were made.
    width: usize,
    /// Rows that constraints admit.
    pub(crate) admitted: Admitted,
    /// Rows by how full they are.
    fills: Fills,
    /// Free units of each node from now on.
    timelines: Timelines,
    /// The most that any of 64 rows has free.
    blocks: Blocks,
    /// Parts of the machine.
    pub(crate) levels: Levels,
    /// Where there is more room than there was.
    pub(crate) gains: Gains,
    /// Where anything has changed, for the index over whole vertices.
    pub(crate) touched: TouchedRanks,
    /// Places that the reservation examined last could have instead.
    outlook: Outlook,
    /// Steps of the searches of this call. Here, where every search comes by.
    pub(crate) effort: Effort,
}

impl Pools {
    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.by_node.nodes().len()
    }

    /// No nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ranks of all nodes, ascending; a position here is a row everywhere.
    pub fn ranks(&self) -> &[u32] {
        self.by_node.nodes().ranks()
    }

    /// The row of a rank.
    pub fn position(&self, rank: u32) -> Option<usize> {
        self.by_node.nodes().position(rank)
    }

    /// The node vertices, row by row.
    pub(crate) fn vertices(&self) -> &[VertexId] {
        self.by_node.nodes().vertices()
    }

    /// The rows with ranks in one of these ranges.
    pub(crate) fn rows_of(&self, ranges: &[(u32, u32)]) -> Bits {
        self.by_node.nodes().rows_of(ranges)
    }

    /// The claims of all nodes.
    pub(crate) fn by_node(&self) -> &ByNode {
        &self.by_node
    }

    /// Forgets the indexes that matches make of claims and sizes: each is made again when it
    /// is needed.
    pub(crate) fn forget_indexes(&mut self) {
        self.admitted.forget();
        self.fills.forget();
        self.blocks.forget();
        self.levels.forget();
        self.outlook.forget();
    }

    /// Adds a node. Returns its row.
    pub(crate) fn insert_row(&mut self, rank: u32, vertex: VertexId, up: bool) -> usize {
        let row = self.by_node.insert_row(rank, vertex, up);
        self.admitted.forget();
        self.timelines.insert(row);
        self.blocks.forget();
        self.levels.insert_row(row);
        self.outlook.forget();
        self.fills.insert_row(row, rank);
        self.gains.note(rank);
        row
    }

    /// Removes a node, and returns the claims there, which hold nothing any more.
    pub(crate) fn remove_row(&mut self, row: usize) -> Arc<Vec<Claim>> {
        self.admitted.forget();
        self.fills.remove_row(&self.by_node, &self.timelines, row);
        self.levels.remove_row(row, self.ranks()[row]);
        self.outlook.forget();
        self.timelines.remove(row);
        self.blocks.forget();
        self.by_node.remove_row(row)
    }

    /// The vertices of nodes have other numbers.
    pub(crate) fn renumber(&mut self, to: impl Fn(VertexId) -> VertexId) {
        self.by_node.renumber(to);
    }

    /// Marks a node up or down.
    pub(crate) fn set_up(&mut self, row: usize, up: bool) {
        let rank = self.ranks()[row];
        self.levels.note(rank);
        self.by_node.set_up(row, up);
        if up {
            self.gains.note(rank);
        }
    }

    /// `usable` of the units are on vertices that are not marked as down themselves.
    pub(crate) fn set_size(&mut self, row: usize, kind: TypeId, size: u64, usable: u64) {
        self.by_node.set_size(row, kind, size, usable);
        self.changed(row);
        self.gains.note(self.ranks()[row]);
    }

    /// Notes that the free units of a row, now or later, have changed.
    fn changed(&mut self, row: usize) {
        let width = self.by_node.columns().len();
        if self.width != width {
            // Rows of the sequences and of the maxima have a number per column, and so has each
            // step of a timeline.
            self.width = width;
            self.levels.forget();
            self.fills.forget();
            self.timelines.forget_all();
            self.blocks.forget();
        }
        let rank = self.by_node.nodes().ranks()[row];
        self.fills.note(rank);
        self.levels.note(rank);
        self.touched.note(rank, self.by_node.nodes().len());
        self.timelines.forget(row);
        self.outlook.note(row);
        self.blocks.note(row);
    }

    /// The place of a type among the columns; `None`: no node ever had such a pool.
    pub(crate) fn column_of(&self, kind: TypeId) -> Option<usize> {
        let columns = self.by_node.columns();
        columns.get(kind).map(|_| columns.place(kind))
    }

    /// Adds slots on these rows, whether or not they fit.
    pub(crate) fn claim(&mut self, rows: &[(usize, u64)], lot: &Lot<'_>) {
        let Lot { job, shape, times: (start, end), planned } = *lot;
        for (row, count) in rows {
            let extent = Extent::Slots(Arc::clone(shape));
            self.add(*row, Claim { job, extent, count: *count, start, end, planned });
        }
        self.by_node.list(rows.iter().map(|(row, _)| *row), (start, end), planned);
    }

    /// Gives the whole node to a job, whether or not it is free.
    pub(crate) fn claim_node(
        &mut self,
        row: usize,
        job: u64,
        (start, end): (i64, End),
        planned: bool,
    ) {
        self.add(row, Claim { job, extent: Extent::Node, count: 1, start, end, planned });
        self.by_node.list(std::iter::once(row), (start, end), planned);
    }

    fn add(&mut self, row: usize, claim: Claim) {
        self.by_node.add(row, claim);
        self.changed(row);
    }

    /// Gives back `count` of these slots on a node, of which there must be that many.
    pub(crate) fn release(&mut self, row: usize, lot: &Lot<'_>, mut count: u64) {
        self.gains.note(self.ranks()[row]);
        let mut at = self.by_node.claims(row).len();
        while at > 0 && count > 0 {
            at -= 1;
            let claim = &self.by_node.claims(row)[at];
            if claim.is_of(lot) {
                let part = claim.count.min(count);
                count -= part;
                self.by_node.reduce(row, at, part);
            }
        }
        self.changed(row);
        if count > 0 {
            contradiction("slots are given back that a node does not count");
        }
    }

    /// Gives back a whole node that a job has from `start` on.
    pub(crate) fn release_node(&mut self, row: usize, job: u64, start: i64) {
        let is_it =
            |claim: &Claim| claim.job == job && claim.start == start && claim.slot().is_none();
        if let Some(at) = self.by_node.claims(row).iter().position(is_it) {
            self.gains.note(self.ranks()[row]);
            self.by_node.remove(row, at);
            self.changed(row);
        }
    }

    /// Moves the present forward. The caller begins planned claims, or puts them off.
    pub(crate) fn advance(&mut self, now: i64) {
        self.by_node.advance(now);
    }

    /// These planned slots count on a node from now on.
    pub(crate) fn begin(&mut self, row: usize, lot: &Lot<'_>) {
        if self.by_node.begin(row, lot) {
            self.changed(row);
        }
    }

    /// These planned slots begin on a node, and end, later by `seconds`.
    pub(crate) fn put_off(&mut self, row: usize, lot: &Lot<'_>, seconds: i64) {
        self.gains.note(self.ranks()[row]);
        if self.by_node.put_off(row, lot, seconds) {
            self.changed(row);
        }
    }

    /// Free units of some types for slots of a tenancy, each at a moment; an unknown type is
    /// `None`.
    pub(crate) fn free(
        &self,
        kinds: impl Iterator<Item = (Option<TypeId>, When)>,
        tenancy: Tenancy,
    ) -> Free<'_> {
        let indexes = (&self.timelines, &self.blocks, &self.effort);
        Free::new(&self.by_node, indexes, kinds, tenancy)
    }

    /// Rows by their fill at a moment, for slots of a tenancy.
    pub(crate) fn ranked(&self, by: ByFill, when: When, tenancy: Tenancy) -> Ranked<'_> {
        self.fills.ranked((&self.by_node, &self.timelines), by, when, tenancy)
    }

    /// Units free of a node from now on for slots that share.
    pub(crate) fn timeline(&self, row: usize) -> &Timeline {
        self.timelines.get(&self.by_node, row)
    }

    /// Units free of a node from now on for slots of a tenancy.
    pub(crate) fn timeline_beside(&self, row: usize, tenancy: Tenancy) -> Cow<'_, Timeline> {
        self.timelines.beside(&self.by_node, row, tenancy)
    }

    /// The earliest instant at which the reservation of a job could start if it were made again,
    /// and the rows with the slots that it gets there: [`Outlook::look`].
    pub(crate) fn outlook(
        &mut self,
        sought: Sought,
        planned: (i64, usize),
        how: (u64, bool),
    ) -> Option<(i64, Vec<(usize, u64)>)> {
        self.outlook.look(&self.by_node, sought, planned, how)
    }

    /// Puts a row into a part of a level, and out of the one that it was in; `None`: into none.
    pub(crate) fn set_part(&mut self, row: usize, level: &str, part: Option<&str>) {
        if self.levels.set_part(self.by_node.nodes(), row, level, part) {
            self.gains.note(self.ranks()[row]);
        }
    }

    /// The rows of a part.
    pub(crate) fn rows_of_part(
        &self,
        level: usize,
        part: usize,
    ) -> impl Iterator<Item = usize> + '_ {
        let ranks = &self.levels.get(level).parts()[part].ranks;
        ranks.iter().filter_map(|rank| self.position(*rank))
    }

    /// By part and column, the units that are free now on nodes that are up.
    pub(crate) fn free_of_parts(&self, level: usize) -> Ref<'_, [Box<[u128]>]> {
        self.levels.free_of_parts(&self.by_node, level)
    }

    /// Forgets all claims, to be added again.
    pub(crate) fn clear(&mut self) {
        self.by_node.clear();
        self.touched.forget();
        self.timelines.forget_all();
        self.forget_indexes();
    }

    /// Refuses tables that are larger by this than they are. `place`: what asks for it.
    pub(crate) fn check_room(&self, more: Size, place: impl Display) -> Result<(), Error> {
        if more == Size::default() {
            return Ok(());
        }
        let own =
            Size { rows: self.len(), columns: self.by_node.columns().len(), ..Size::default() };
        POOL_BYTES_MAX.check((own + self.levels.size() + more).bytes(), place)
    }

    /// By how much the tables grow with pools, or claims, of these types.
    pub(crate) fn size_with_types<'a>(
        &self,
        types: &Types,
        kinds: impl IntoIterator<Item = &'a str>,
    ) -> Size {
        let has_column =
            |kind: &str| types.get(kind).is_some_and(|kind| self.column_of(kind).is_some());
        let new: HashSet<&str> = kinds.into_iter().filter(|kind| !has_column(kind)).collect();
        Size { columns: new.len(), ..Size::default() }
    }

    /// By how much the tables grow with a part of a level.
    pub(crate) fn size_with_part(&self, level: &str, part: &str) -> Size {
        match self.levels.find(level) {
            Some(at) if self.levels.get(at).part(part).is_some() => Size::default(),
            Some(_) => Size::of_part(part),
            None => Size { levels: 1, ..Size::of_part(part) },
        }
    }
}

/// Everything that follows from claims, as text.
#[cfg(test)]
pub(crate) fn derived(pools: &Pools) -> String {
    let mut text = by_node::derived(&pools.by_node);
    for row in 0..pools.len() {
        let mut claims: Vec<String> =
            pools.by_node.claims(row).iter().map(|claim| format!("{claim:?}")).collect();
        claims.sort_unstable();
        // The steps of free units are kept where no claim has changed.
        text.extend([format!(
            "\n{row}: {claims:?} {:?}",
            pools.timelines.get(&pools.by_node, row)
        )]);
    }
    text
}
