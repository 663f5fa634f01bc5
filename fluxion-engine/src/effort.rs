//! How long searches may look for a place: steps are counted, and there may be a budget of them.
//!
//! A step is a look at a row, a vertex, an instant, a part of a level, or an edge of a flow: some
//! tens of nanoseconds. Once a call has spent its budget each search ends at its next step. A place
//! that it has found by then is not used, since with more steps the answer might be another one:
//! the call says that it gave up.

use std::cell::Cell;

use crate::{Error, Reason};

/// Steps that the searches of one call take.
#[derive(Debug, Clone, Default)]
pub(crate) struct Effort {
    spent: Cell<u64>,
    /// Steps that a call may take; `None`: as many as it needs.
    budget: Option<u64>,
    /// Some instant was passed over at which nothing was found and nothing is proved.
    is_inexact: Cell<bool>,
}

impl Effort {
    /// From the next call on a call takes at most `budget` steps; `None`: no limit.
    pub(crate) fn set_budget(&mut self, budget: Option<u64>) {
        self.budget = budget;
    }

    /// A call begins.
    pub(crate) fn begin(&self) {
        self.spent.set(0);
        self.is_inexact.set(false);
    }

    /// Counts steps. False if the budget is spent: then the search has to end.
    #[inline]
    pub(crate) fn take(&self, steps: u64) -> bool {
        let spent = self.spent.get().saturating_add(steps);
        self.spent.set(spent);
        self.budget.is_none_or(|budget| spent <= budget)
    }

    /// True if more steps were needed than there may be.
    #[inline]
    pub(crate) fn is_spent(&self) -> bool {
        self.budget.is_some_and(|budget| self.spent.get() > budget)
    }

    /// Fails if more steps were needed than there may be.
    pub(crate) fn ensure_left(&self) -> Result<(), Error> {
        if self.is_spent() { Err(self.gave_up()) } else { Ok(()) }
    }

    /// No place was found, and it is not proved that there is none: because the budget is spent, or
    /// because the search would take too many steps.
    pub(crate) fn gave_up(&self) -> Error {
        let text = if self.is_spent() {
            format!("gave up after {} steps: search_budget is spent", self.spent())
        } else {
            String::new()
        };
        Error { reason: Reason::GaveUp, text }
    }

    /// How many more steps there may be.
    pub(crate) fn left(&self) -> u64 {
        self.budget.map_or(u64::MAX, |budget| budget.saturating_sub(self.spent.get()))
    }

    /// Steps so far.
    pub(crate) fn spent(&self) -> u64 {
        self.spent.get()
    }

    /// Notes that an instant was passed over at which a place was neither found nor ruled out.
    pub(crate) fn passes_over(&self) {
        self.is_inexact.set(true);
    }

    /// True unless [`Effort::passes_over`] was noted since the call began.
    pub(crate) fn is_exact(&self) -> bool {
        !self.is_inexact.get()
    }
}

#[cfg(test)]
thread_local! {
    /// How many searches this thread has made.
    pub(crate) static SEARCHES: Cell<usize> = const { Cell::new(0) };
}

/// Counts a search, for tests.
#[cfg(test)]
pub(crate) fn count_search() {
    SEARCHES.set(SEARCHES.get() + 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_by_the_step_beyond_it() {
        let mut effort = Effort::default();
        assert!(effort.take(u64::MAX) && effort.take(1) && !effort.is_spent());
        effort.set_budget(Some(3));
        effort.begin();
        assert!(effort.take(2) && effort.take(1) && !effort.is_spent());
        assert_eq!(effort.left(), 0);
        assert!(!effort.take(1) && effort.is_spent());
        effort.begin();
        assert_eq!((effort.spent(), effort.left(), effort.is_spent()), (0, 3, false));
        effort.passes_over();
        assert!(!effort.is_exact());
    }
}
