//! Amounts of resources: exact 64-bit integers, CPU in thousandths of a core, bytes for memory and storage.

use std::sync::Arc;

/// The name of a resource: `cpu`, `memory`, `ephemeral-storage`, `pods`, `hugepages-2Mi`, `nvidia.com/gpu`, ...
pub type ResourceName = Arc<str>;

/// An amount per resource name, sorted by name, without zero entries, so that equal amounts are equal values.
///
/// Units: `cpu` in millicores, everything else in the base unit (bytes, pods, devices).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Resources(Vec<(ResourceName, u64)>);

impl Resources {
    /// Nothing of anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// How much of `name`; 0 if it is not named.
    pub fn get(&self, name: &str) -> u64 {
        self.place(name).map_or(0, |at| self.0[at].1)
    }

    /// Where `name` is, or would be.
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name))
    }

    /// Sets the amount of `name`; 0 removes it.
    pub fn set(&mut self, name: impl Into<ResourceName>, amount: u64) {
        let name = name.into();
        match (self.place(&name), amount) {
            (Ok(at), 0) => drop(self.0.remove(at)),
            (Ok(at), _) => self.0[at].1 = amount,
            (Err(_), 0) => {}
            (Err(at), _) => self.0.insert(at, (name, amount)),
        }
    }

    /// Every named resource and its amount, in order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName, u64)> {
        self.0.iter().map(|(name, amount)| (name, *amount))
    }

    /// Adds `other`; an amount that would pass 2^64 - 1 stays there.
    pub fn add(&mut self, other: &Resources) {
        for (name, amount) in other.iter() {
            match self.place(name) {
                Ok(at) => self.0[at].1 = self.0[at].1.saturating_add(amount),
                Err(at) => self.0.insert(at, (Arc::clone(name), amount)),
            }
        }
    }

    /// Takes `other` away; nothing falls below 0.
    pub fn subtract(&mut self, other: &Resources) {
        for (name, amount) in other.iter() {
            let Ok(at) = self.place(name) else { continue };
            self.0[at].1 = self.0[at].1.saturating_sub(amount);
            if self.0[at].1 == 0 {
                self.0.remove(at);
            }
        }
    }

    /// The larger of both, resource by resource.
    #[must_use]
    pub fn max(mut self, other: &Resources) -> Self {
        for (name, amount) in other.iter() {
            if amount > self.get(name) {
                self.set(Arc::clone(name), amount);
            }
        }
        self
    }

    /// True if nothing is named.
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
