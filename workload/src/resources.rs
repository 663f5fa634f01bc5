//! Amounts of resources: exact integers, CPU in thousandths of a core, bytes for memory and
//! storage.
//!
//! The requests of one pod fit 64 bits. Sums are kept in 128, so that taking an amount from a sum
//! leaves exactly the rest, however large the requests: three pods may ask for 7Ei of memory each.

use std::sync::Arc;

/// The name of a resource: `cpu`, `memory`, `ephemeral-storage`, `pods`, `hugepages-2Mi`,
/// `nvidia.com/gpu`, ...
pub type ResourceName = Arc<str>;

/// An amount per resource name, sorted by name, without zero entries, so that equal amounts are
/// equal values.
///
/// Units: `cpu` in millicores, everything else in the base unit (bytes, pods, devices).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Resources(Vec<(ResourceName, u128)>);

impl Resources {
    /// Creates an amount of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the amount of `name`; 0 if it is not present, and 2^64 - 1 if it is more than that.
    pub fn get(&self, name: &str) -> u64 {
        saturated(self.sum(name))
    }

    /// Returns the exact amount of `name`.
    pub fn sum(&self, name: &str) -> u128 {
        self.place(name).map_or(0, |at| self.0[at].1)
    }

    /// Returns the place that `name` has, or would have.
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name))
    }

    /// Sets the amount of `name`; 0 removes it.
    pub fn set(&mut self, name: impl Into<ResourceName>, amount: u64) {
        let name = name.into();
        match (self.place(&name), amount) {
            (Ok(at), 0) => drop(self.0.remove(at)),
            (Ok(at), _) => self.0[at].1 = u128::from(amount),
            (Err(_), 0) => {}
            (Err(at), _) => self.0.insert(at, (name, u128::from(amount))),
        }
    }

    /// Returns every resource and its amount, sorted by name; 2^64 - 1 where it is more than that.
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName, u64)> {
        self.0.iter().map(|(name, amount)| (name, saturated(*amount)))
    }

    /// Returns every resource and its exact amount, sorted by name.
    pub fn sums(&self) -> impl Iterator<Item = (&ResourceName, u128)> {
        self.0.iter().map(|(name, amount)| (name, *amount))
    }

    /// Returns `count` times as much.
    #[must_use]
    pub fn times(&self, count: u64) -> Self {
        let all = self.sums().filter(|_| count > 0);
        Resources(
            all.map(|(name, amount)| (Arc::clone(name), amount.saturating_mul(u128::from(count))))
                .collect(),
        )
    }

    /// Adds `other`.
    pub fn add(&mut self, other: &Resources) {
        for (name, amount) in other.sums() {
            match self.place(name) {
                Ok(at) => self.0[at].1 = self.0[at].1.saturating_add(amount),
                Err(at) => self.0.insert(at, (Arc::clone(name), amount)),
            }
        }
    }

    /// Takes `other` away; nothing falls below 0.
    pub fn subtract(&mut self, other: &Resources) {
        for (name, amount) in other.sums() {
            if let Ok(at) = self.place(name) {
                self.0[at].1 = self.0[at].1.saturating_sub(amount);
                if self.0[at].1 == 0 {
                    self.0.remove(at);
                }
            }
        }
    }

    /// Returns the larger of both, resource by resource.
    #[must_use]
    pub fn max(mut self, other: &Resources) -> Self {
        for (name, amount) in other.sums() {
            match self.place(name) {
                Ok(at) => self.0[at].1 = self.0[at].1.max(amount),
                Err(at) => self.0.insert(at, (Arc::clone(name), amount)),
            }
        }
        self
    }

    /// True if there is no amount.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: Into<ResourceName>> FromIterator<(N, u64)> for Resources {
    fn from_iter<I: IntoIterator<Item = (N, u64)>>(amounts: I) -> Self {
        let mut all = Resources::new();
        for (name, amount) in amounts {
            all.set(name, amount);
        }
        all
    }
}

fn saturated(amount: u128) -> u64 {
    u64::try_from(amount).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtracting_from_a_large_sum_is_exact() {
        let (modest, huge): (Resources, Resources) =
            ([("memory", 5)].into_iter().collect(), [("memory", 7 << 60)].into_iter().collect());
        let mut used = modest.clone();
        (0..3).for_each(|_| used.add(&huge));
        assert_eq!((used.get("memory"), used.sum("memory")), (u64::MAX, 21 * (1_u128 << 60) + 5));
        (0..3).for_each(|_| used.subtract(&huge));
        assert_eq!(used, modest);
        used.subtract(&huge);
        assert!(used.is_empty(), "and never less than nothing");
    }
}
