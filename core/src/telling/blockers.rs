//! Blockers: the obstacles in the way of a job, the most important first.

use std::collections::BTreeSet;

use fluxqueue_api::{BlockedBy, BlockedReason, text};

use crate::telling::obstacle::Obstacle;
use crate::telling::readers::Reader;
use crate::telling::words;

/// The obstacles in the way of a job: at least one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Blockers {
    first: Blocker,
    others: Vec<Blocker>,
}

/// An obstacle with its words. Words are found once, and read with each write of a status.
#[derive(Debug, Clone, PartialEq)]
struct Blocker {
    obstacle: Obstacle,
    said: BlockedBy,
}

impl Blockers {
    /// Returns the blockers that are on record, in their order; `None` if there are none.
    pub(crate) fn of(list: Vec<BlockedBy>) -> Option<Self> {
        Self::in_order(list.into_iter().map(Obstacle::Stated).collect())
    }

    /// Returns these obstacles, in this order; `None` if there are none.
    pub(crate) fn in_order(list: Vec<Obstacle>) -> Option<Self> {
        let mut list = list.into_iter().map(Blocker::from);
        let first = list.next()?;
        Some(Blockers { first, others: list.collect() })
    }

    /// Returns the blockers as this reader may know them. Those that have the same words without
    /// names appear once.
    pub(crate) fn told_to(&self, reader: &Reader<'_>) -> Blockers {
        let first = self.first.told_to(reader);
        let mut others: Vec<Blocker> = Vec::with_capacity(self.others.len());
        for other in self.others.iter().map(|blocker| blocker.told_to(reader)) {
            let is_said = |known: &Blocker| known.said == other.said;
            if !is_said(&first) && !others.iter().any(is_said) {
                others.push(other);
            }
        }
        Blockers { first, others }
    }

    /// Returns the most important obstacle.
    pub(crate) fn first(&self) -> &Obstacle {
        &self.first.obstacle
    }

    /// Returns the reason of the most important one.
    pub(crate) fn reason(&self) -> BlockedReason {
        self.first().reason()
    }

    /// True if both have the same first reason or the same set of reasons. Numbers and order may
    /// differ.
    pub(crate) fn have_reasons_of(&self, others: &Blockers) -> bool {
        let reasons = |blockers: &Blockers| {
            let reasons = blockers.iter().map(|blocker| blocker.obstacle.reason().to_string());
            reasons.collect::<BTreeSet<String>>()
        };
        self.reason() == others.reason() || reasons(self) == reasons(others)
    }

    /// Returns all of them in words, in order.
    pub(crate) fn list(&self) -> Vec<BlockedBy> {
        self.iter().map(|blocker| blocker.said.clone()).collect()
    }

    /// Returns all of them as text for people: conditions and Events carry the same text as the
    /// list.
    pub(crate) fn text(&self) -> String {
        joined(self.iter())
    }

    /// Returns the text for the conditions of pods, of which there are many. It leaves out jobs
    /// with unknown ends, since these change whenever something ends.
    pub(crate) fn text_for_pods(&self) -> String {
        joined(self.iter().filter(|blocker| blocker.obstacle.reason() != BlockedReason::UnknownEnd))
    }

    fn iter(&self) -> impl Iterator<Item = &Blocker> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

impl Blocker {
    fn told_to(&self, reader: &Reader<'_>) -> Blocker {
        self.obstacle.without_names(reader).map_or_else(|| self.clone(), Blocker::from)
    }
}

/// Joins messages as sentences.
fn joined<'a>(blockers: impl Iterator<Item = &'a Blocker>) -> String {
    let messages: Vec<&str> = blockers.map(|blocker| &*blocker.said.message).collect();
    text::into_message(match messages.as_slice() {
        [only] => (*only).to_owned(),
        several => several
            .iter()
            .map(|message| format!("{}.", message.trim_end_matches('.')))
            .collect::<Vec<_>>()
            .join(" "),
    })
}

impl From<Obstacle> for Blocker {
    fn from(obstacle: Obstacle) -> Self {
        Blocker { said: words::blocked_by(&obstacle), obstacle }
    }
}

impl From<Obstacle> for Blockers {
    fn from(first: Obstacle) -> Self {
        Blockers { first: first.into(), others: Vec::new() }
    }
}
