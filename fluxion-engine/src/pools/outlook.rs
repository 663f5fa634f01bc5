//! When and where the only reservation there is could start: kept from one look at it to the next,
//! since little changes between two.
//!
//! Where no other job plans anything, nodes only come free. How many slots a node has room for then
//! grows from step to step, and so does the sum over all nodes: the reservation starts at the first
//! instant at which that is enough.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::by_node::ByNode;
use super::claim::{Amounts, Claim, free};
use super::tenancy::Tenancy;
use crate::bits::Bits;
use crate::time::End;

/// The request of a reservation: slots of one shape that share their nodes.
#[derive(Debug, Clone)]
pub(crate) struct Sought {
    pub(crate) job: u64,
    /// Units of a slot; none of them is 0.
    pub(crate) needs: Amounts,
    /// The most slots of one node that are of use.
    pub(crate) cap: u64,
    /// Rows that may be used.
    pub(crate) rows: Bits,
}

/// From which instant on a row has room for how many slots more; `i64::MIN` is now.
type Steps = SmallVec<[(i64, u64); 1]>;

#[derive(Debug)]
struct Known {
    sought: Sought,
    /// By row.
    steps: Vec<Steps>,
    /// How many slots more there is room for on all rows together, from each instant on.
    more: BTreeMap<i64, u64>,
    /// Rows that have changed since they were read.
    changed: Bits,
}

/// Facts about the reservation examined last.
#[derive(Debug, Default)]
pub(super) struct Outlook(Option<Box<Known>>);

impl Clone for Outlook {
    /// A copy begins without.
    fn clone(&self) -> Self {
        Outlook(None)
    }
}

impl Outlook {
    /// Notes that a row has changed.
    pub(super) fn note(&mut self, row: usize) {
        if let Some(known) = &mut self.0 {
            known.changed.insert(row);
        }
    }

    /// There are other rows.
    pub(super) fn forget(&mut self) {
        self.0 = None;
    }

    /// The earliest instant at which the reservation of a job could start if it were made again,
    /// and the rows with the slots that it gets there, ascending; `descends`: the last rows first.
    /// `None`: there is none, or others plan something too.
    pub(super) fn look(
        &mut self,
        by_node: &ByNode,
        sought: Sought,
        (starts, claims): (i64, usize),
        (wanted, descends): (u64, bool),
    ) -> Option<(i64, Vec<(usize, u64)>)> {
        if !by_node.calendar().has_only(starts, claims) {
            return None;
        }
        let rows = by_node.nodes().len();
        let known = self.0.take().filter(|known| known.sought.is_but_for_rows(&sought));
        let mut known = known.unwrap_or_else(|| {
            Box::new(Known {
                steps: vec![Steps::new(); rows],
                more: BTreeMap::new(),
                changed: Bits::empty(rows),
                sought: Sought { rows: Bits::empty(rows), ..sought.clone() },
            })
        });
        known.use_rows(sought.rows);
        look_again(by_node, &mut known);
        // Work past its end is there now, and gone in the next second.
        let found = known.first(wanted).map(|first| match first {
            i64::MIN => (by_node.now(), known.rows_at(i64::MIN, wanted, descends)),
            _ => (
                first.max(by_node.now() + 1),
                known.rows_at(first.max(by_node.now() + 1), wanted, descends),
            ),
        });
        self.0 = Some(known);
        found
    }
}

/// Brings the rows up to date that have changed.
fn look_again(by_node: &ByNode, known: &mut Known) {
    for row in std::mem::replace(&mut known.changed, Bits::empty(by_node.nodes().len())).iter() {
        let steps = if known.sought.rows.contains(row) {
            steps(by_node, row, &known.sought)
        } else {
            Steps::new()
        };
        let before = std::mem::replace(&mut known.steps[row], steps);
        if before == known.steps[row] {
            continue;
        }
        for (at, slots) in before {
            if let Some(sum) = known.more.get_mut(&at) {
                *sum -= slots;
                if *sum == 0 {
                    known.more.remove(&at);
                }
            }
        }
        for (at, slots) in &known.steps[row] {
            *known.more.entry(*at).or_default() += slots;
        }
    }
}

/// When a row has room for how many slots more, beside all but the job itself.
fn steps(by_node: &ByNode, row: usize, sought: &Sought) -> Steps {
    let mut others: SmallVec<[&Claim; 4]> =
        by_node.claims(row).iter().filter(|claim| claim.job != sought.job).collect();
    others.sort_unstable_by_key(|claim| claim.last());
    let sum = |kind| others.iter().map(|claim| claim.units(kind)).sum::<u128>();
    let mut used: SmallVec<[u128; 4]> = sought.needs.iter().map(|(kind, _)| sum(*kind)).collect();
    let in_the_way = |claim: &&&Claim| !claim.suits(Tenancy::Shared);
    let mut others_in_the_way = others.iter().filter(in_the_way).count();
    let mut steps = Steps::new();
    let (mut at, mut before) = (i64::MIN, 0);
    for same in std::iter::once(&[][..]).chain(others.chunk_by(|a, b| a.end == b.end)) {
        match same.first().map(|claim| claim.end) {
            None => {}
            Some(End::At(end)) => at = end,
            Some(End::Eventually | End::Never) => break,
        }
        others_in_the_way -= same.iter().filter(in_the_way).count();
        for ((kind, _), used) in sought.needs.iter().zip(&mut used) {
            *used -= same.iter().map(|claim| claim.units(*kind)).sum::<u128>();
        }
        if others_in_the_way > 0 {
            continue;
        }
        let of_each = sought.needs.iter().zip(&used);
        let rooms =
            of_each.map(|((kind, amount), used)| free(by_node.usable(row, *kind), *used) / amount);
        let slots = rooms.min().unwrap_or(0).min(sought.cap);
        if slots > before {
            steps.push((at, slots - before));
            before = slots;
        }
    }
    steps
}

impl Sought {
    /// The same is sought, but perhaps on other rows.
    fn is_but_for_rows(&self, other: &Sought) -> bool {
        (self.job, &self.needs, self.cap) == (other.job, &other.needs, other.cap)
    }
}

impl Known {
    /// From now on these rows may be used.
    fn use_rows(&mut self, rows: Bits) {
        if self.sought.rows == rows {
            return;
        }
        let (mut gone, mut new) = (self.sought.rows.clone(), rows.clone());
        gone.subtract(&rows);
        new.subtract(&self.sought.rows);
        self.sought.rows = rows;
        self.changed.unite(&gone);
        self.changed.unite(&new);
    }

    /// The first instant from which on there is room for `count` slots.
    fn first(&self, wanted: u64) -> Option<i64> {
        let mut sum = 0;
        self.more.iter().find_map(|(at, more)| {
            sum += more;
            (sum >= wanted).then_some(*at)
        })
    }

    /// The rows with the slots that are taken, by the steps up to an instant.
    fn rows_at(&self, at: i64, wanted: u64, descends: bool) -> Vec<(usize, u64)> {
        let mut missing = wanted;
        let mut taken =
            Vec::with_capacity(usize::try_from(wanted).unwrap_or_default().min(self.steps.len()));
        let mut take = |row: usize| {
            let room: u64 = self.steps[row]
                .iter()
                .take_while(|(from, _)| *from <= at)
                .map(|(_, slots)| slots)
                .sum();
            if room > 0 {
                taken.push((row, room.min(missing)));
                missing -= room.min(missing);
            }
            missing > 0
        };
        if descends {
            (0..self.steps.len()).rev().all(&mut take);
            taken.reverse();
        } else {
            (0..self.steps.len()).all(&mut take);
        }
        taken
    }
}
