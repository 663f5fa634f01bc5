//! The greatest of each column over ranges of rows, so that the next row that could do is found
//! without a look at the others.
//!
//! Sixteen rows share a row one level up, which has the maxima of their columns; sixteen of those
//! share one above them. A condition that says "at least these amounts in these columns" fails for
//! all sixteen where it fails for their maxima.

/// How many rows share one above them.
const FAN: usize = 16;

/// Rows of numbers, in an order, with maxima over them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    width: usize,
    /// The rows, their maxima, the maxima of these, and so on to a single row.
    levels: Vec<Vec<i64>>,
}

/// Where a search begins, and whether it goes down.
#[derive(Debug, Clone, Copy)]
struct From {
    row: usize,
    down: bool,
}

impl Tree {
    /// `rows` of `width` numbers each.
    pub(crate) fn new(width: usize, rows: Vec<i64>) -> Self {
        let mut levels = vec![rows];
        while let Some(below) = levels.last().filter(|rows| rows.len() > width) {
            let mut above = Vec::with_capacity(below.len().div_ceil(FAN));
            for rows in below.chunks(FAN * width) {
                let start = above.len();
                above.resize(start + width, i64::MIN);
                maxima(rows, &mut above[start..]);
            }
            levels.push(above);
        }
        Tree { width, levels }
    }

    /// A row.
    pub(crate) fn row(&self, at: usize) -> &[i64] {
        self.at(0, at)
    }

    /// All rows, one after the other.
    pub(crate) fn rows(&self) -> &[i64] {
        self.levels.first().map_or(&[], |rows| rows)
    }

    /// The maxima over all rows; empty if there are none.
    pub(crate) fn top(&self) -> &[i64] {
        self.levels.last().map_or(&[], |top| top)
    }

    /// Gives a row other numbers.
    pub(crate) fn set(&mut self, at: usize, row: &[i64]) {
        let width = self.width;
        if self.row(at) == row {
            return;
        }
        self.levels[0][at * width..][..width].copy_from_slice(row);
        let mut at = at;
        for level in 1..self.levels.len() {
            at /= FAN;
            let (below, above) = self.levels.split_at_mut(level);
            let below = &below[level - 1];
            let rows = &below[at * FAN * width..below.len().min((at + 1) * FAN * width)];
            let above = &mut above[0][at * width..][..width];
            above.fill(i64::MIN);
            maxima(rows, above);
        }
    }

    /// The first row from `from` on that `may`, or, with `down`, the last up to `from`. What holds
    /// for a row must hold for every row that has at least as much in each column.
    pub(crate) fn next(
        &self,
        from: usize,
        down: bool,
        may: &impl Fn(&[i64]) -> bool,
    ) -> Option<usize> {
        let level = self.levels.len().checked_sub(1)?;
        if self.levels[level].is_empty() {
            return None;
        }
        self.find(level, 0, From { row: from, down }, may)
    }

    fn find(
        &self,
        level: usize,
        at: usize,
        from: From,
        may: &impl Fn(&[i64]) -> bool,
    ) -> Option<usize> {
        if !may(self.at(level, at)) {
            return None;
        }
        if level == 0 {
            return Some(at);
        }
        let count = self.levels[level - 1].len() / self.width;
        let (first, end) = (at * FAN, count.min((at + 1) * FAN));
        // The row one level below that has the one where the search begins.
        let start = (1..level).fold(from.row, |row, _| row / FAN);
        if from.down {
            let end = end.min(start.saturating_add(1));
            (first..end).rev().find_map(|child| self.find(level - 1, child, from, may))
        } else {
            (first.max(start)..end).find_map(|child| self.find(level - 1, child, from, may))
        }
    }

    fn at(&self, level: usize, at: usize) -> &[i64] {
        &self.levels[level][at * self.width..][..self.width]
    }
}

/// Raises each column of `to` to the greatest of the rows.
fn maxima(rows: &[i64], to: &mut [i64]) {
    for row in rows.chunks_exact(to.len()) {
        for (greatest, number) in to.iter_mut().zip(row) {
            *greatest = (*greatest).max(*number);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn finds_what_a_look_at_each_row_finds(
            mut rows in prop::collection::vec([0_i64..5, 0_i64..5], 1..700),
            changes in prop::collection::vec((any::<prop::sample::Index>(), [0_i64..5, 0_i64..5]), 0..20),
            searches in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), [0_i64..7, 0_i64..7]), 1..20),
        ) {
            let mut tree = Tree::new(2, rows.iter().flatten().copied().collect());
            for (at, row) in changes {
                let at = at.index(rows.len());
                rows[at] = row;
                tree.set(at, &row);
            }
            for (from, down, need) in searches {
                let from = from.index(rows.len());
                let may = |row: &[i64]| row.iter().zip(&need).all(|(have, need)| have >= need);
                let expected = if down {
                    (0..=from).rev().find(|at| may(&rows[*at]))
                } else {
                    (from..rows.len()).find(|at| may(&rows[*at]))
                };
                prop_assert_eq!(tree.next(from, down, &may), expected);
            }
        }
    }
}
