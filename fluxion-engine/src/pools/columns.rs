//! The sizes of pools and the units used of them: a column for each type.

use super::claim::free;
use crate::vertex::TypeId;

/// The columns, by type; a type has none where no node ever had such a pool or claim.
#[derive(Debug, Clone, Default)]
pub(super) struct Columns(Vec<Option<Column>>);

/// The pools of one type. `free` is `usable - used`, or 0 where more is used than there is, or
/// a job has the whole node, or a tenant has it alone.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    size: Vec<u64>,
    /// Of the size, the units that are not marked as down themselves.
    usable: Vec<u64>,
    used: Vec<u128>,
    free: Vec<u64>,
    /// Units that claims without end use, or will use.
    endless: Vec<u128>,
}

impl Column {
    fn new(rows: usize) -> Self {
        Column {
            size: vec![0; rows],
            usable: vec![0; rows],
            used: vec![0; rows],
            free: vec![0; rows],
            endless: vec![0; rows],
        }
    }

    /// Units by row.
    pub(super) fn sizes(&self) -> &[u64] {
        &self.size
    }

    /// Units that can be handed out, by row.
    pub(super) fn usable(&self) -> &[u64] {
        &self.usable
    }

    /// Units that are free now, by row.
    pub(super) fn free(&self) -> &[u64] {
        &self.free
    }

    /// Units that slots use now, by row.
    pub(super) fn used(&self) -> &[u128] {
        &self.used
    }

    /// Units that claims without end use, or will use, by row.
    pub(super) fn endless(&self) -> &[u128] {
        &self.endless
    }

    fn refresh(&mut self, row: usize, shut: bool) {
        self.free[row] = if shut { 0 } else { free(self.usable[row], self.used[row]) };
    }
}

impl Columns {
    /// The column of a type.
    pub(super) fn get(&self, kind: TypeId) -> Option<&Column> {
        self.0.get(kind.index()).and_then(Option::as_ref)
    }

    /// All columns, in the order of their types.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Column> {
        self.0.iter().flatten()
    }

    /// The same with their types.
    pub(super) fn by_kind(&self) -> impl Iterator<Item = (TypeId, &Column)> {
        let all = self.0.iter().enumerate();
        all.filter_map(|(at, column)| Some((TypeId::from_index(at), column.as_ref()?)))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.iter().count()
    }

    /// How many columns come before that of a type, whether or not it has one.
    pub(super) fn place(&self, kind: TypeId) -> usize {
        self.0[..kind.index().min(self.0.len())].iter().flatten().count()
    }

    /// Opens a row in which there is nothing.
    pub(super) fn insert_row(&mut self, row: usize) {
        for column in self.0.iter_mut().flatten() {
            column.size.insert(row, 0);
            column.usable.insert(row, 0);
            column.used.insert(row, 0);
            column.free.insert(row, 0);
            column.endless.insert(row, 0);
        }
    }

    /// Closes a row.
    pub(super) fn remove_row(&mut self, row: usize) {
        for column in self.0.iter_mut().flatten() {
            column.size.remove(row);
            column.usable.remove(row);
            column.used.remove(row);
            column.free.remove(row);
            column.endless.remove(row);
        }
    }

    /// The column of a type, which is made with this number of rows if there is none.
    fn open(&mut self, kind: TypeId, rows: usize) -> &mut Column {
        let at = kind.index();
        if at >= self.0.len() {
            self.0.resize(at + 1, None);
        }
        self.0[at].get_or_insert_with(|| Column::new(rows))
    }

    /// Gives a pool another size; `shut`: nothing of the row is free.
    pub(super) fn set_size(
        &mut self,
        (row, rows): (usize, usize),
        kind: TypeId,
        (size, usable): (u64, u64),
        shut: bool,
    ) {
        let column = self.open(kind, rows);
        (column.size[row], column.usable[row]) = (size, usable);
        column.refresh(row, shut);
    }

    /// More units are used of a pool, or fewer.
    pub(super) fn count(
        &mut self,
        (row, rows): (usize, usize),
        kind: TypeId,
        (units, add): (u128, bool),
        shut: bool,
    ) {
        let column = self.open(kind, rows);
        let used = &mut column.used[row];
        *used = if add { *used + units } else { *used - units };
        column.refresh(row, shut);
    }

    /// More units are used for ever of a pool, or fewer.
    pub(super) fn count_endless(
        &mut self,
        (row, rows): (usize, usize),
        kind: TypeId,
        (units, add): (u128, bool),
    ) {
        let endless = &mut self.open(kind, rows).endless[row];
        *endless = if add { *endless + units } else { *endless - units };
    }

    /// Brings the free units of all pools of a row up to date.
    pub(super) fn refresh(&mut self, row: usize, shut: bool) {
        self.0.iter_mut().flatten().for_each(|column| column.refresh(row, shut));
    }

    /// Nothing is used of any pool.
    pub(super) fn clear(&mut self) {
        for column in self.0.iter_mut().flatten() {
            column.used.fill(0);
            column.endless.fill(0);
        }
    }
}
