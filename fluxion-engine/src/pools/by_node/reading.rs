//! Questions about the claims of nodes.

use super::ByNode;
use crate::pools::claim::{Claim, PoolUse, free};
use crate::pools::columns::Column;
use crate::pools::tenancy::Tenancy;
use crate::time::{FAR, When};
use crate::vertex::TypeId;

impl ByNode {
    /// A pool's size; 0 if there is none.
    pub(crate) fn size(&self, row: usize, kind: TypeId) -> u64 {
        self.columns().get(kind).map_or(0, |column| column.sizes()[row])
    }

    /// The units that a pool can hand out; 0 if there is none.
    pub(crate) fn usable(&self, row: usize, kind: TypeId) -> u64 {
        self.columns().get(kind).map_or(0, |column| column.usable()[row])
    }

    /// All pools of a node that have a size or a claim.
    pub(crate) fn uses(&self, row: usize) -> Vec<PoolUse> {
        let uses = self.columns().by_kind().map(|(kind, column)| PoolUse {
            kind,
            size: column.sizes()[row],
            used: self.used_now(column, row),
        });
        uses.filter(|pool| pool.size > 0 || pool.used > 0).collect()
    }

    /// True if no job has anything of a node at any instant of a window. Work past its end is there
    /// as long as it is not given back.
    pub(crate) fn is_idle(&self, row: usize, from: i64, to: i64) -> bool {
        !self
            .claims(row)
            .iter()
            .any(|claim| claim.start < to && !claim.end.over_at(from, self.now()))
    }

    /// The last end of the claims that a node has now, if there are any; [`FAR`] if that of one is
    /// not known.
    pub(crate) fn last_end(&self, row: usize) -> Option<i64> {
        let now = self.now();
        let counted = self.claims(row).iter().filter(|claim| claim.counts_at(now, now));
        counted.map(|claim| claim.end.instant()).max()
    }

    /// From when on `amount` units of a pool may be free once, twice and so on, for slots that
    /// share: an instant, and how many times more from then on. Planned claims are left out of
    /// account.
    pub(crate) fn room_over_time(&self, row: usize, kind: TypeId, amount: u64) -> Vec<(i64, u64)> {
        let now = self.now();
        let counted = self.claims(row).iter().filter(|claim| claim.counts_at(now, now));
        // What each end gives back, and the last end of what keeps all units.
        let (mut ends, mut shut_until, mut used) = (Vec::new(), now, 0_u128);
        for claim in counted {
            let (end, units) = (claim.end.instant(), claim.units(kind));
            used += units;
            ends.push((end, units));
            if !claim.suits(Tenancy::Shared) {
                shut_until = shut_until.max(end);
            }
        }
        ends.sort_unstable();
        let size = self.usable(row, kind);
        let (mut times, mut room) = (0, Vec::new());
        for (end, units) in std::iter::once((now, 0)).chain(ends) {
            used -= units;
            let more = free(size, used).checked_div(amount).unwrap_or(0).saturating_sub(times);
            let at = end.max(shut_until);
            if more > 0 && at < FAR {
                room.push((at, more));
                times += more;
            }
        }
        room
    }

    /// True if no job has begun to have anything of a node.
    pub(crate) fn is_untouched(&self, row: usize) -> bool {
        self.claims(row).iter().all(|claim| claim.planned)
    }

    /// Units used of a pool now: all of it, where a job has the node.
    pub(crate) fn used_now(&self, column: &Column, row: usize) -> u128 {
        let used = column.used()[row];
        if self.is_taken_whole(row) { used.max(u128::from(column.sizes()[row])) } else { used }
    }

    /// The jobs that have units of a type on a node, or will have some; whether they have yet to
    /// begin. A job that has several claims is named as often.
    pub(crate) fn holders(&self, row: usize, kind: TypeId) -> impl Iterator<Item = (u64, bool)> {
        let claims = self.claims(row).iter().filter(move |claim| claim.units(kind) > 0);
        claims.map(|claim| (claim.job, claim.planned))
    }

    /// Whether the planned slots of a job on a node fit there beside all others, whenever they are
    /// to be held.
    pub(crate) fn is_planned_well(&self, row: usize, job: u64) -> bool {
        let claims = self.claims(row);
        let own = || claims.iter().filter(move |claim| claim.job == job && claim.planned);
        own().all(|claim| {
            let (from, to) = (claim.start, claim.end.instant());
            let starts = claims.iter().filter(|other| other.planned).map(|other| other.start);
            let mut instants = starts.filter(|start| *start > from && *start < to).chain([from]);
            instants.all(|at| {
                let counted = || claims.iter().filter(move |claim| claim.counts_at(at, self.now()));
                let kinds = claim
                    .slot()
                    .into_iter()
                    .flat_map(|slot| slot.needs.iter().map(|(kind, _)| *kind));
                let fits = |kind| {
                    let used: u128 = counted().map(|claim| claim.units(kind)).sum();
                    used <= u128::from(self.usable(row, kind))
                };
                counted().all(|other| other.job == job || claim.suits_claim(other))
                    && kinds.into_iter().all(fits)
            })
        })
    }

    /// Whether there is work past its end on a node.
    pub(crate) fn has_overdue(&self, row: usize) -> bool {
        self.claims(row).iter().any(|claim| !claim.planned && claim.end.instant() <= self.now())
    }

    /// Whether there is room now for the planned slots of a job on a node that is up.
    pub(crate) fn may_begin(&self, row: usize, job: u64) -> bool {
        let planned =
            || self.claims(row).iter().filter(move |claim| claim.job == job && claim.planned);
        let mut others = self.claims(row).iter().filter(|claim| claim.job != job && !claim.planned);
        let is_alone = others.all(|other| planned().all(|claim| claim.suits_claim(other)));
        if self.is_taken_whole(row) || !is_alone || !self.nodes().up().contains(row) {
            return false;
        }
        let kinds = planned()
            .filter_map(Claim::slot)
            .flat_map(|slot| slot.needs.iter().map(|(kind, _)| *kind));
        kinds.into_iter().all(|kind| {
            let more: u128 = planned().map(|claim| claim.units(kind)).sum();
            self.columns()
                .get(kind)
                .is_some_and(|column| column.used()[row] + more <= u128::from(column.usable()[row]))
        })
    }

    /// True if at a moment all slots on a node suit slots of a tenancy.
    pub(crate) fn is_clear(&self, row: usize, tenancy: Tenancy, when: When) -> bool {
        self.claims(row).iter().all(|claim| claim.suits(tenancy) || !claim.counts(when, self.now()))
    }

    /// True if at a moment there are slots on a node that slots of a tenancy have to keep away
    /// from.
    pub(crate) fn keeps_away(&self, row: usize, tenancy: Tenancy, when: When) -> bool {
        // Mostly all share, and nothing that is planned begins at once.
        let is_now = matches!(when, When::Window { to, .. } if to <= self.now() + 1);
        if tenancy == Tenancy::Shared && is_now && !self.is_alone(row) {
            return false;
        }
        self.claims(row).iter().any(|claim| {
            claim.slot().is_some() && !claim.suits(tenancy) && claim.counts(when, self.now())
        })
    }

    /// Units free of a pool over a moment for slots of a tenancy: none where there are slots that
    /// they do not suit.
    pub(crate) fn free_beside(
        &self,
        row: usize,
        kind: TypeId,
        tenancy: Tenancy,
        when: When,
    ) -> u64 {
        let Some(column) = self.columns().get(kind) else { return 0 };
        if when == When::Idle {
            return column.sizes()[row];
        }
        if !self.is_clear(row, tenancy, when) {
            return 0;
        }
        let used = match when {
            When::Idle => 0,
            When::Eventually => column.endless()[row],
            When::Best => {
                let claims = self.claims(row).iter();
                let counted = claims.filter(|claim| claim.counts(when, self.now()));
                counted.map(|claim| claim.units(kind)).sum()
            }
            When::Window { from, to } => {
                let claims = self.claims(row);
                let used_at = |at: i64| -> u128 {
                    let counted = claims.iter().filter(|claim| claim.counts_at(at, self.now()));
                    counted.map(|claim| claim.units(kind)).sum()
                };
                let starts = claims.iter().filter(|claim| claim.planned).map(|claim| claim.start);
                let instants = starts.filter(|start| *start > from && *start < to).chain([from]);
                instants.map(used_at).max().unwrap_or(0)
            }
        };
        free(column.usable()[row], used)
    }

    /// Units used of a pool at the instant at which a moment begins.
    pub(crate) fn used_at(&self, row: usize, kind: TypeId, when: When) -> u128 {
        match when {
            When::Idle => 0,
            When::Eventually | When::Best => {
                self.used_by(row, kind, |claim| claim.counts(when, self.now()))
            }
            When::Window { from, .. } => {
                self.used_by(row, kind, |claim| claim.counts_at(from, self.now()))
            }
        }
    }

    /// Units of a pool that the counting claims use: all of it, where one of them is the whole
    /// node.
    fn used_by(&self, row: usize, kind: TypeId, counts: impl Fn(&Claim) -> bool) -> u128 {
        let size = u128::from(self.size(row, kind));
        let of = |claim: &Claim| if claim.slot().is_some() { claim.units(kind) } else { size };
        self.claims(row).iter().filter(|claim| counts(claim)).map(of).sum()
    }

    /// Whether all that is planned begins within a moment, which begins now.
    pub(crate) fn has_to_last(&self, when: When) -> bool {
        let last = self.calendar().last_start();
        matches!(when, When::Window { to, .. } if last.is_some_and(|last| last < to))
    }

    /// Instants at which something is given back, ascending, after now.
    pub(crate) fn ends(&self) -> Vec<i64> {
        let mut ends: Vec<i64> = self.ends_with_ranks().map(|(end, _)| end).collect();
        ends.dedup();
        ends
    }

    /// The same with the ranks on which that may be; a rank may be named twice, or be gone.
    pub(crate) fn ends_with_ranks(&self) -> impl Iterator<Item = (i64, &[u32])> {
        self.calendar().ends().map(|(end, ranks)| (end.max(self.now() + 1), ranks))
    }

    /// Whether anything is planned.
    pub(crate) fn plans(&self) -> bool {
        self.calendar().has_planned()
    }
}
