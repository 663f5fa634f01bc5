//! Rows as they were before something was tried, so that all of it can be taken back at once.

use std::collections::HashMap;

use super::ledger::{Before, Ledger};

/// The rows to restore: `None` outside of a trial.
#[derive(Debug, Clone, Default)]
pub(super) struct Journal(Option<Box<ChangedRows>>);

#[derive(Debug, Clone)]
struct ChangedRows {
    now: i64,
    rows: HashMap<usize, Before>,
}

impl Journal {
    /// From now on rows are remembered as they are before they change. Rows must neither come nor
    /// go until the end.
    pub(super) fn begin(&mut self, now: i64) {
        self.0 = Some(Box::new(ChangedRows { now, rows: HashMap::new() }));
    }

    /// Has to be called before the claims of a row change.
    #[inline]
    pub(super) fn note(&mut self, ledger: &Ledger, row: usize) {
        if let Some(trial) = &mut self.0 {
            trial.rows.entry(row).or_insert_with(|| ledger.row(row));
        }
    }

    /// Ends a trial. Returns when it began, and the rows that have changed since.
    pub(super) fn end(&mut self) -> Option<(i64, HashMap<usize, Before>)> {
        self.0.take().map(|trial| (trial.now, trial.rows))
    }
}
