//! Blockers: the things in the way of a job, as its readers see them, the most important first.

use std::collections::BTreeSet;
use std::sync::Arc;

use fluxqueue_api::{BlockedBy, BlockedReason, text};

use crate::telling::readers::{Named, Reader};

/// The blockers of a job: at least one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Blockers {
    first: Blocker,
    others: Vec<Blocker>,
}

/// One thing that is in the way.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Blocker {
    said: BlockedBy,
    /// The namespace of a job or pod that it names, and the text for readers outside that
    /// namespace.
    outside: Option<(Arc<str>, BlockedBy)>,
}

impl Blockers {
    /// Returns these blockers, in this order; `None` if there are none.
    pub(crate) fn of(list: Vec<BlockedBy>) -> Option<Self> {
        Self::in_order(list.into_iter().map(Blocker::from).collect())
    }

    /// Returns these blockers, which may name jobs and pods, in this order; `None` if there are
    /// none.
    pub(crate) fn in_order(list: Vec<Blocker>) -> Option<Self> {
        let mut list = list.into_iter();
        let first = list.next()?;
        Some(Blockers { first, others: list.collect() })
    }

    /// Returns the blockers in the words for this reader. Blockers that are the same without names
    /// appear once.
    pub(crate) fn told_to(&self, reader: &Reader<'_>) -> Blockers {
        let mut others: Vec<Blocker> = Vec::with_capacity(self.others.len());
        let first = self.first.told_to(reader);
        for other in self.others.iter().map(|blocker| blocker.told_to(reader)) {
            if other != first && !others.contains(&other) {
                others.push(other);
            }
        }
        Blockers { first, others }
    }

    /// Returns the reason of the most important blocker.
    pub(crate) fn reason(&self) -> BlockedReason {
        self.first.said.reason
    }

    /// True if both have the same first reason or the same set of reasons. Words, numbers and order
    /// may differ.
    pub(crate) fn have_reasons_of(&self, others: &Blockers) -> bool {
        let reasons = |blockers: &Blockers| {
            let reasons = blockers.iter().map(|blocker| blocker.reason.to_string());
            reasons.collect::<BTreeSet<String>>()
        };
        self.reason() == others.reason() || reasons(self) == reasons(others)
    }

    /// Returns all of them, in order.
    pub(crate) fn list(&self) -> Vec<BlockedBy> {
        self.iter().cloned().collect()
    }

    /// Returns all of them as text for people: conditions and Events carry the same text as the
    /// list.
    pub(crate) fn text(&self) -> String {
        joined(self.iter())
    }

    /// Returns the text for the conditions of pods, of which there are many. It leaves out jobs
    /// with unknown ends, since these change whenever something ends.
    pub(crate) fn text_for_pods(&self) -> String {
        joined(self.iter().filter(|blocker| blocker.reason != BlockedReason::UnknownEnd))
    }

    fn iter(&self) -> impl Iterator<Item = &BlockedBy> {
        std::iter::once(&self.first).chain(&self.others).map(|blocker| &blocker.said)
    }
}

impl Blocker {
    /// Makes a blocker that names a job or pod: `said` has the name, and `outside` is for readers
    /// that may not see it.
    pub(crate) fn naming(named: &Named, said: BlockedBy, outside: BlockedBy) -> Self {
        Blocker { said, outside: Some((Arc::clone(&named.key().namespace), outside)) }
    }

    fn told_to(&self, reader: &Reader<'_>) -> Blocker {
        let outside = self.outside.as_ref().filter(|(namespace, _)| !reader.may_read(namespace));
        Blocker::from(outside.map_or(&self.said, |(_, outside)| outside).clone())
    }
}

/// Joins messages as sentences.
fn joined<'a>(blockers: impl Iterator<Item = &'a BlockedBy>) -> String {
    let messages: Vec<&str> = blockers.map(|blocker| &*blocker.message).collect();
    text::into_message(match messages.as_slice() {
        [only] => (*only).to_owned(),
        several => several
            .iter()
            .map(|message| format!("{}.", message.trim_end_matches('.')))
            .collect::<Vec<_>>()
            .join(" "),
    })
}

impl From<BlockedBy> for Blocker {
    fn from(said: BlockedBy) -> Self {
        Blocker { said, outside: None }
    }
}

impl From<BlockedBy> for Blockers {
    fn from(first: BlockedBy) -> Self {
        Blocker::from(first).into()
    }
}

impl From<Blocker> for Blockers {
    fn from(first: Blocker) -> Self {
        Blockers { first, others: Vec::new() }
    }
}
