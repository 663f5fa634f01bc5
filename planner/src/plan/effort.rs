//! How much is done in one go, where others wait for their turn.

use std::ops::Sub;

use super::Live;

/// The cost of a question to the resource graph, in requests that need no new answer: half a
/// millisecond, and hardly ever more than two.
const OF_A_QUESTION: u64 = 512;

/// Pods that a trial puts on nodes in about the time of a question.
const PODS_OF_A_QUESTION: usize = 64;

/// Nodes in a copy without the pods that have an end, if the copy is to take about the time of a
/// question.
const NODES_OF_A_QUESTION: usize = 1_024;

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
        let (questions, looked_at) = (live.ledger.questions, *requests);
        move |live| {
            *requests += 1;
            let spent =
                Effort::questions(live.ledger.questions - questions).and(*requests - looked_at);
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

impl Live<'_> {
    /// Counts a trial of this number of pods.
    pub(super) fn count_trial(&mut self, pods: usize) {
        self.ledger.questions += (pods / PODS_OF_A_QUESTION) as u64;
    }

    /// Counts a copy of this number of nodes.
    pub(super) fn count_copy(&mut self, nodes: usize) {
        self.ledger.questions += (nodes / NODES_OF_A_QUESTION) as u64;
    }
}

impl Sub for Effort {
    type Output = Effort;

    /// Returns the rest of it.
    fn sub(self, spent: Effort) -> Effort {
        Effort(self.0.saturating_sub(spent.0))
    }
}
