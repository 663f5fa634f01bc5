//! What is in the way of a job, as it is told: the one that matters most first.

use std::collections::BTreeSet;

use fluxqueue_api::{BlockedBy, BlockedReason, text};

/// Never without one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Blockers {
    first: BlockedBy,
    others: Vec<BlockedBy>,
}

impl Blockers {
    /// These, in this order; `None` if there are none.
    pub(super) fn of(list: Vec<BlockedBy>) -> Option<Self> {
        let mut list = list.into_iter();
        let first = list.next()?;
        Some(Blockers { first, others: list.collect() })
    }

    /// The reason of the one that matters most.
    pub(super) fn reason(&self) -> BlockedReason {
        self.first.reason
    }

    /// They say the same, though perhaps in other words, with other numbers, and in another order.
    pub(super) fn have_reasons_of(&self, others: &Blockers) -> bool {
        let reasons = |blockers: &Blockers| {
            let reasons = blockers.iter().map(|blocker| blocker.reason.to_string());
            reasons.collect::<BTreeSet<String>>()
        };
        self.reason() == others.reason() || reasons(self) == reasons(others)
    }

    /// All of them, in order.
    pub(super) fn list(&self) -> Vec<BlockedBy> {
        self.iter().cloned().collect()
    }

    /// What a person reads of all of them: conditions and Events say the same as the list.
    pub(super) fn text(&self) -> String {
        joined(self.iter())
    }

    /// The same for pods, of which many are told: whose ends nobody knows is another one whenever something ends.
    pub(super) fn text_for_pods(&self) -> String {
        joined(self.iter().filter(|blocker| blocker.reason != BlockedReason::UnknownEnd))
    }

    fn iter(&self) -> impl Iterator<Item = &BlockedBy> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

/// Messages as sentences.
fn joined<'a>(blockers: impl Iterator<Item = &'a BlockedBy>) -> String {
    let messages: Vec<&str> = blockers.map(|blocker| &*blocker.message).collect();
    text::into_message(match messages.as_slice() {
        [only] => (*only).to_owned(),
        several => {
            several.iter().map(|message| format!("{}.", message.trim_end_matches('.'))).collect::<Vec<_>>().join(" ")
        }
    })
}

impl From<BlockedBy> for Blockers {
    fn from(first: BlockedBy) -> Self {
        Blockers { first, others: Vec::new() }
    }
}
