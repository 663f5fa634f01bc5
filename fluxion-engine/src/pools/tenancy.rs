//! Which slots share nodes: slots of a tenant that has its nodes alone, and guests, which no
//! slots are kept away from.
//!
//! For slots that share with all that share, a node that a tenant has alone is like one that a job
//! has whole: the columns count it so. For a tenant's own slots, and for guests, the free units are
//! worked out from the claims of a row.

use std::borrow::Cow;

use super::timeline::Timeline;
use super::{Claim, Part, Pools, free};
use crate::time::{End, When};
use crate::vertex::TypeId;

/// With which other slots a slot may be on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tenancy {
    /// With all others that share.
    #[default]
    Shared,
    /// With slots of the same tenant.
    Alone(u64),
    /// With all slots, also with those of a tenant that has the node alone.
    Guest,
}

impl Tenancy {
    /// What `tenant` and `guest` of a document mean together; `None`: they exclude each other.
    pub(crate) fn of(tenant: Option<u64>, guest: bool) -> Option<Self> {
        match (tenant, guest) {
            (None, false) => Some(Tenancy::Shared),
            (Some(tenant), false) => Some(Tenancy::Alone(tenant)),
            (None, true) => Some(Tenancy::Guest),
            (Some(_), true) => None,
        }
    }

    /// Whether slots of both may be on a node at once.
    pub(crate) fn suits(self, other: Tenancy) -> bool {
        match (self, other) {
            (Tenancy::Guest, _) | (_, Tenancy::Guest) | (Tenancy::Shared, Tenancy::Shared) => true,
            (Tenancy::Alone(one), Tenancy::Alone(other)) => one == other,
            (Tenancy::Shared, Tenancy::Alone(_)) | (Tenancy::Alone(_), Tenancy::Shared) => false,
        }
    }
}

impl Claim {
    /// Whether slots may be on the node beside it.
    pub(super) fn suits(&self, tenancy: Tenancy) -> bool {
        match &self.part {
            Part::Slots(slot) => slot.tenancy.suits(tenancy),
            Part::Node => false,
        }
    }

    /// Whether both may be on a node at once.
    pub(super) fn suits_claim(&self, other: &Claim) -> bool {
        self.slot().is_some_and(|slot| other.suits(slot.tenancy))
    }

    /// Whether it takes its part at any instant of a window, or at the one at which that begins.
    fn counts_within(&self, from: i64, to: i64, now: i64) -> bool {
        (!self.planned || self.start <= from || self.start < to) && !self.end.over_at(from, now)
    }
}

impl Pools {
    /// True if at a moment all slots on a node suit slots of a tenancy.
    fn is_clear(&self, row: usize, tenancy: Tenancy, when: When) -> bool {
        self.claims[row].iter().all(|claim| claim.suits(tenancy) || !self.counts(claim, when))
    }

    fn counts(&self, claim: &Claim, when: When) -> bool {
        match when {
            When::Idle => false,
            When::Eventually => claim.end == End::Never,
            When::Window { from, to } => claim.counts_within(from, to, self.now),
        }
    }

    /// True if at a moment there are slots on a node that slots of a tenancy have to keep away
    /// from.
    pub(crate) fn keeps_away(&self, row: usize, tenancy: Tenancy, when: When) -> bool {
        // Mostly all share, and nothing that is planned begins at once.
        let is_now = matches!(when, When::Window { to, .. } if to <= self.now + 1);
        if tenancy == Tenancy::Shared && is_now && self.shut[row].alone == 0 {
            return false;
        }
        self.claims[row].iter().any(|claim| {
            claim.slot().is_some() && !claim.suits(tenancy) && self.counts(claim, when)
        })
    }

    /// Units free of a pool over a moment for slots of a tenancy: none where there are slots that
    /// they do not suit.
    pub(super) fn free_beside(
        &self,
        row: usize,
        kind: TypeId,
        tenancy: Tenancy,
        when: When,
    ) -> u64 {
        let Some(column) = self.column(kind) else { return 0 };
        if when == When::Idle {
            return column.size[row];
        }
        if !self.is_clear(row, tenancy, when) {
            return 0;
        }
        let used = match when {
            When::Idle => 0,
            When::Eventually => column.endless[row],
            When::Window { from, to } => {
                let claims = &self.claims[row];
                let used_at = |at: i64| -> u128 {
                    let counted = claims.iter().filter(|claim| claim.counts_at(at, self.now));
                    counted.map(|claim| claim.units(kind)).sum()
                };
                let starts = claims.iter().filter(|claim| claim.planned).map(|claim| claim.start);
                let instants = starts.filter(|start| *start > from && *start < to).chain([from]);
                instants.map(used_at).max().unwrap_or(0)
            }
        };
        free(column.usable[row], used)
    }

    /// Units free of a node from now on for slots of a tenancy.
    pub(crate) fn timeline_beside(&self, row: usize, tenancy: Tenancy) -> Cow<'_, Timeline> {
        match tenancy {
            Tenancy::Shared => Cow::Borrowed(self.timeline(row)),
            Tenancy::Alone(_) | Tenancy::Guest => Cow::Owned(self.make_timeline(row, tenancy)),
        }
    }

    /// True if the node now has slots that do not suit slots that share.
    pub(super) fn is_shut(&self, row: usize) -> bool {
        self.exclusive[row] > 0 || self.shut[row].alone > 0
    }
}
