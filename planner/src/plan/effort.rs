//! How much is done in one go, where others wait for their turn.

use std::ops::Sub;

use super::live::Live;

/// The cost of a question to the resource graph, in requests that need no new answer: half a
/// millisecond, and hardly ever more than two.
const OF_A_QUESTION: u64 = 512;

/// Bound of the work in one go, by its rough duration. The unit is one look at a request with an
/// earlier answer that still stands. Work that takes longer counts as several, so one bound covers
/// everything that adds up to one wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Effort(u64);

impl Effort {
    /// However much it is.
    pub const ALL: Effort = Effort(u64::MAX);

    /// Questions to the resource graph.
    pub const fn questions(number: u64) -> Self {
        Effort(number.saturating_mul(OF_A_QUESTION))
    }

    /// Returns a check to call after each request from now on: true if the effort is spent. It
    /// counts the requests.
    pub fn counted_from<'a>(
        self,
        live: &Live<'_>,
        requests: &'a mut u64,
    ) -> impl FnMut(&Live<'_>) -> bool + use<'a> {
        let (questions, looked_at) = (live.room.ledger.questions, *requests);
        move |live| {
            *requests += 1;
            let spent = Effort::questions(live.room.ledger.questions - questions)
                .and(*requests - looked_at);
            spent >= self
        }
    }

    /// Adds this number of requests.
    #[must_use]
    pub const fn and(self, requests: u64) -> Self {
        Effort(self.0.saturating_add(requests))
    }

    /// Returns how often this number of requests fits in it.
    pub fn times(self, requests: u64) -> usize {
        usize::try_from(self.0 / requests).unwrap_or(usize::MAX)
    }
}

impl Sub for Effort {
    type Output = Effort;

    /// Returns the rest of it.
    fn sub(self, spent: Effort) -> Effort {
        Effort(self.0.saturating_sub(spent.0))
    }
}
