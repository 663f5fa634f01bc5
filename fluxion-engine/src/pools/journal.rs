//! Rows as they were before something was tried, so that all of it can be taken back at once.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Claim, Pools};

/// The rows to restore: `None` outside of a trial.
#[derive(Debug, Clone, Default)]
pub(super) struct Journal(Option<Box<Before>>);

#[derive(Debug, Clone)]
struct Before {
    now: i64,
    rows: HashMap<usize, Row>,
}

/// A row that has changed since.
#[derive(Debug, Clone)]
struct Row {
    claims: Arc<Vec<Claim>>,
    planned: u32,
    exclusive: u32,
    alone: u64,
    shut_for_good: u64,
    /// Of each type, the used units, and those that never come free; `None`: it had no column.
    used: Vec<Option<(u128, u128)>>,
}

impl Pools {
    /// From now on rows are remembered as they are before they change. Rows must neither come nor
    /// go until the end.
    pub(crate) fn begin_trial(&mut self) {
        self.journal.0 = Some(Box::new(Before { now: self.now, rows: HashMap::new() }));
    }

    /// All is as it was when the trial began.
    pub(crate) fn end_trial(&mut self) {
        let Some(before) = self.journal.0.take() else { return };
        self.now = before.now;
        for (row, was) in before.rows {
            self.restore(row, was);
        }
    }

    /// Has to be called before the claims of a row change.
    pub(super) fn remember(&mut self, row: usize) {
        let Some(before) = &mut self.journal.0 else { return };
        before.rows.entry(row).or_insert_with(|| Row {
            claims: Arc::clone(&self.claims[row]),
            planned: self.planned[row],
            exclusive: self.exclusive[row],
            alone: self.shut[row].alone,
            shut_for_good: self.shut[row].for_good,
            used: self
                .columns
                .iter()
                .map(|of| of.as_ref().map(|of| (of.used[row], of.endless[row])))
                .collect(),
        });
    }

    fn restore(&mut self, row: usize, was: Row) {
        let tried = std::mem::replace(&mut self.claims[row], was.claims);
        for claim in &*tried {
            self.unlist(claim);
        }
        for at in 0..self.claims[row].len() {
            let Claim { start, end, planned, .. } = self.claims[row][at];
            self.list(std::iter::once(row), (start, end), planned);
        }
        (self.planned[row], self.exclusive[row]) = (was.planned, was.exclusive);
        (self.shut[row].alone, self.shut[row].for_good) = (was.alone, was.shut_for_good);
        let shut = self.is_shut(row);
        for (at, column) in self.columns.iter_mut().enumerate() {
            // Columns that came to be since had nothing used.
            let Some(column) = column else { continue };
            (column.used[row], column.endless[row]) =
                was.used.get(at).copied().flatten().unwrap_or_default();
            column.refresh(row, shut);
        }
        self.changed(row);
    }
}
