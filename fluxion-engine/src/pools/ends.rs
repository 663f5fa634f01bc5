//! When claims end, and on which nodes, in the order of time: so that a search that looks ahead
//! looks at those nodes only on which something changes.

use shared_map::SharedMap;

/// Nodes by the ends of claims there. A node may be named without need, never missed.
#[derive(Debug, Clone, Default)]
pub(super) struct Ends(SharedMap<i64, Bucket>);

#[derive(Debug, Clone, Default)]
struct Bucket {
    ranks: Vec<u32>,
    /// How many claims end then.
    count: usize,
}

impl Ends {
    /// Claims on these ranks end at an instant.
    pub(super) fn add(&mut self, end: i64, ranks: impl IntoIterator<Item = u32>) {
        let bucket = self.0.get_or_insert_with(end, Bucket::default);
        let before = bucket.ranks.len();
        bucket.ranks.extend(ranks);
        bucket.count += bucket.ranks.len() - before;
    }

    /// A claim that was to end at an instant is gone. `is_there`: whether any other on this rank
    /// ends then.
    pub(super) fn remove(&mut self, end: i64, is_there: impl Fn(u32) -> bool) {
        let Some(bucket) = self.0.get_mut(&end) else { return };
        bucket.count -= 1;
        if bucket.count == 0 {
            self.0.remove(&end);
        } else if bucket.ranks.len() > 2 * bucket.count + 64 {
            bucket.ranks.sort_unstable();
            bucket.ranks.dedup();
            bucket.ranks.retain(|rank| is_there(*rank));
        }
    }

    /// Instants with ranks, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, &[u32])> {
        self.0.iter().map(|(end, bucket)| (*end, &bucket.ranks[..]))
    }
}
