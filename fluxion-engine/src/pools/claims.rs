//! Taking and giving back units.

use super::{Claim, Pools};

impl Pools {
    /// Adds a claim, whether or not it fits.
    pub(crate) fn claim(&mut self, row: usize, claim: Claim) {
        if claim.start > self.now {
            self.planned[row] += 1;
            self.planned_total += 1;
        } else {
            self.count(row, &claim, claim.count, true);
        }
        self.claims[row].push(claim);
    }

    /// Gives back everything of a job on a node. Returns whether there was anything.
    pub(crate) fn release_job(&mut self, row: usize, job: u64) -> bool {
        let before = self.claims[row].len();
        let mut at = 0;
        while at < self.claims[row].len() {
            if self.claims[row][at].job == job {
                let claim = self.claims[row].swap_remove(at);
                self.uncount(row, &claim, claim.count, true);
            } else {
                at += 1;
            }
        }
        self.claims[row].len() < before
    }

    /// How many slots of a label a job has on a node.
    pub(crate) fn slots(&self, row: usize, job: u64, label: &str) -> u64 {
        let claims = self.claims[row].iter().filter(|claim| claim.job == job && *claim.slot.label == *label);
        claims.map(|claim| claim.count).sum()
    }

    /// Gives back `count` slots of a label, of which the job must have that many on the node. Newest claims go first.
    pub(crate) fn release_slots(&mut self, row: usize, job: u64, label: &str, mut count: u64) {
        let mut at = self.claims[row].len();
        while at > 0 && count > 0 {
            at -= 1;
            let claim = &self.claims[row][at];
            if claim.job != job || *claim.slot.label != *label {
                continue;
            }
            let part = claim.count.min(count);
            count -= part;
            let claim = claim.clone();
            let emptied = part == claim.count;
            self.uncount(row, &claim, part, emptied);
            if emptied {
                self.claims[row].remove(at);
            } else {
                self.claims[row][at].count -= part;
            }
        }
    }

    /// Moves the present forward: claims whose start is reached begin to count.
    pub(crate) fn advance(&mut self, now: i64) {
        let before = std::mem::replace(&mut self.now, now);
        if self.planned_total == 0 {
            return;
        }
        for row in 0..self.ranks.len() {
            if self.planned[row] == 0 {
                continue;
            }
            let begins = |claim: &&Claim| claim.start > before && claim.start <= now;
            let begun: Vec<Claim> = self.claims[row].iter().filter(begins).cloned().collect();
            for claim in begun {
                self.planned[row] -= 1;
                self.planned_total -= 1;
                self.count(row, &claim, claim.count, true);
            }
        }
    }

    fn uncount(&mut self, row: usize, claim: &Claim, count: u64, whole: bool) {
        if claim.start <= self.now {
            self.count(row, claim, count, false);
        } else if whole {
            self.planned[row] -= 1;
            self.planned_total -= 1;
        }
    }

    fn count(&mut self, row: usize, claim: &Claim, count: u64, add: bool) {
        self.fills.note(self.ranks[row]);
        for (kind, amount) in &claim.slot.needs {
            let units = u128::from(*amount) * u128::from(count);
            let column = self.column_mut(*kind);
            if add {
                column.used[row] += units;
            } else {
                column.used[row] -= units;
            }
            column.refresh(row);
        }
    }
}
