//! When claims begin and end, and on which nodes, in the order of time: so that a search that looks
//! ahead looks at those nodes only on which something changes.

use std::collections::BTreeMap;

use shared_map::SharedMap;

use super::claim::Claim;
use crate::sound::contradiction;
use crate::time::End;

/// The starts of planned claims, and the ends of all.
#[derive(Debug, Clone, Default)]
pub(super) struct Calendar {
    /// How many planned claims begin at each instant.
    starts: BTreeMap<i64, u32>,
    ends: Ends,
}

impl Calendar {
    /// Notes when claims on some ranks begin and end.
    pub(super) fn list(
        &mut self,
        ranks: impl ExactSizeIterator<Item = u32>,
        (start, end): (i64, End),
        planned: bool,
    ) {
        if ranks.len() == 0 {
            return;
        }
        if planned {
            let count = u32::try_from(ranks.len()).unwrap_or(u32::MAX);
            *self.starts.entry(start).or_default() += count;
        }
        if let End::At(end) = end {
            self.ends.add(end, ranks);
        }
    }

    /// A claim does not begin or end any more. `is_there`: whether any other on a rank ends then.
    pub(super) fn unlist(&mut self, claim: &Claim, is_there: impl Fn(u32) -> bool) {
        if claim.planned {
            self.unlist_start(claim.start);
        }
        if let End::At(end) = claim.end {
            self.ends.remove(end, is_there);
        }
    }

    /// One planned claim fewer begins at an instant.
    pub(super) fn unlist_start(&mut self, start: i64) {
        match self.starts.get_mut(&start) {
            None => contradiction("a claim begins at an instant that is not listed"),
            Some(1) => drop(self.starts.remove(&start)),
            Some(count) => *count -= 1,
        }
    }

    /// Whether anything is planned.
    pub(super) fn has_planned(&self) -> bool {
        !self.starts.is_empty()
    }

    /// How many planned claims begin at each instant.
    #[cfg(test)]
    pub(super) fn starts(&self) -> &BTreeMap<i64, u32> {
        &self.starts
    }

    /// The first instant at which a planned claim begins.
    pub(super) fn first_start(&self) -> Option<i64> {
        self.starts.first_key_value().map(|(start, _)| *start)
    }

    /// The last instant at which a planned claim begins.
    pub(super) fn last_start(&self) -> Option<i64> {
        self.starts.last_key_value().map(|(start, _)| *start)
    }

    /// True if these claims, which begin at one instant, are all that is planned.
    pub(super) fn has_only(&self, start: i64, claims: usize) -> bool {
        self.starts.len() == 1 && self.starts.get(&start).is_some_and(|n| *n as usize == claims)
    }

    /// Instants at which claims end with ranks on which that is, ascending. A rank may be named
    /// without need, or twice, never missed.
    pub(super) fn ends(&self) -> impl Iterator<Item = (i64, &[u32])> {
        self.ends.iter()
    }
}

/// Nodes by the ends of claims there. A node may be named without need, never missed.
#[derive(Debug, Clone, Default)]
struct Ends(SharedMap<i64, Bucket>);

#[derive(Debug, Clone, Default)]
struct Bucket {
    ranks: Vec<u32>,
    /// How many claims end then.
    count: usize,
}

impl Ends {
    /// Claims on these ranks end at an instant.
    fn add(&mut self, end: i64, ranks: impl IntoIterator<Item = u32>) {
        let bucket = self.0.get_or_insert_with(end, Bucket::default);
        let before = bucket.ranks.len();
        bucket.ranks.extend(ranks);
        bucket.count += bucket.ranks.len() - before;
    }

    /// A claim that was to end at an instant is gone. `is_there`: whether any other on this rank
    /// ends then.
    fn remove(&mut self, end: i64, is_there: impl Fn(u32) -> bool) {
        match self.0.get_mut(&end) {
            None => contradiction("a claim ends at an instant that is not listed"),
            Some(Bucket { count: 1, .. }) => drop(self.0.remove(&end)),
            Some(bucket) => {
                bucket.count -= 1;
                if bucket.ranks.len() > 2 * bucket.count + 64 {
                    bucket.ranks.sort_unstable();
                    bucket.ranks.dedup();
                    bucket.ranks.retain(|rank| is_there(*rank));
                }
            }
        }
    }

    /// Instants with ranks, ascending.
    fn iter(&self) -> impl Iterator<Item = (i64, &[u32])> {
        self.0.iter().map(|(end, bucket)| (*end, &bucket.ranks[..]))
    }
}
