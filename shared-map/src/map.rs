//! A sorted map.

use std::borrow::Borrow;
use std::ops::Index;
use std::sync::Arc;

use crate::chunk::CHUNK_MAX;

/// The fewest entries of a chunk that has lost one: a shorter chunk is joined with its neighbour,
/// if both together are not too long.
const CHUNK_MIN: usize = CHUNK_MAX / 4;

/// A sorted map. Copies share the chunks that neither side has changed.
#[derive(Debug, Clone)]
pub struct SharedMap<K, V> {
    /// The lower bound of each chunk: no key of the chunk is less, and all keys of the chunk before
    /// are. The bounds lie apart from the chunks, so that a chunk is found without a look into
    /// others.
    bounds: Vec<K>,
    /// The chunks in the order of their keys. None is empty.
    chunks: Vec<Arc<Vec<(K, V)>>>,
    len: usize,
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        SharedMap { bounds: Vec::new(), chunks: Vec::new(), len: 0 }
    }
}

impl<K, V> SharedMap<K, V> {
    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the map has no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns all entries, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).map(entry)
    }

    /// Returns all keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// Returns all values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Returns the entry with the least key.
    pub fn first(&self) -> Option<(&K, &V)> {
        self.chunks.first()?.first().map(entry)
    }

    /// Returns the entries in order, without those at the beginning that `are_before` accepts. It
    /// must accept no key behind one that it does not accept.
    pub fn from(&self, are_before: impl Fn(&K) -> bool) -> impl Iterator<Item = (&K, &V)> {
        // The last entry to leave out may lie within the chunk before.
        let first = self.bounds.partition_point(&are_before).saturating_sub(1);
        let skipped = self
            .chunks
            .get(first)
            .map_or(0, |chunk| chunk.partition_point(|(key, _)| are_before(key)));
        self.chunks[first..].iter().flat_map(|chunk| chunk.iter()).skip(skipped).map(entry)
    }
}

impl<K: Ord, V> SharedMap<K, V> {
    /// Returns the value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (chunk, at) = self.find(key)?;
        Some(&self.chunks[chunk][at].1)
    }

    /// True if the map has the key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_some()
    }

    /// Returns the chunk that has a key, or would have it; 0 if there are no chunks.
    fn chunk_of<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        self.bounds.partition_point(|bound| bound.borrow() <= key).saturating_sub(1)
    }

    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(usize, usize)>
    where
        K: Borrow<Q>,
    {
        let chunk = self.chunk_of(key);
        let at =
            self.chunks.get(chunk)?.binary_search_by(|(other, _)| other.borrow().cmp(key)).ok()?;
        Some((chunk, at))
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    /// Returns the value of a key, to be changed.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (chunk, at) = self.find(key)?;
        Some(&mut Arc::make_mut(&mut self.chunks[chunk])[at].1)
    }

    /// Returns the value of a key, to be changed. A key that is missing gets this value first.
    pub fn get_or_insert_with(&mut self, key: K, value: impl FnOnce() -> V) -> &mut V {
        let (chunk, at) = match self.find(&key) {
            Some(found) => found,
            None => self.insert_new(key, value()),
        };
        &mut Arc::make_mut(&mut self.chunks[chunk])[at].1
    }

    /// Gives a key a value, and returns the one that it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Some((chunk, at)) => {
                Some(std::mem::replace(&mut Arc::make_mut(&mut self.chunks[chunk])[at].1, value))
            }
            None => {
                self.insert_new(key, value);
                None
            }
        }
    }

    /// Takes a key out, and returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (at_chunk, at) = self.find(key)?;
        self.len -= 1;
        let chunk = Arc::make_mut(&mut self.chunks[at_chunk]);
        let (_, value) = chunk.remove(at);
        let length = chunk.len();
        if length == 0 {
            self.chunks.remove(at_chunk);
            self.bounds.remove(at_chunk);
        } else if length < CHUNK_MIN
            && self
                .chunks
                .get(at_chunk + 1)
                .is_some_and(|next| length + next.len() <= CHUNK_MAX / 2)
        {
            let next = Arc::unwrap_or_clone(self.chunks.remove(at_chunk + 1));
            self.bounds.remove(at_chunk + 1);
            Arc::make_mut(&mut self.chunks[at_chunk]).extend(next);
        }
        Some(value)
    }

    /// Returns all values in the order of their keys, to be changed. Afterwards the map shares
    /// nothing with its copies.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.chunks.iter_mut().flat_map(Arc::make_mut).map(|(_, value)| value)
    }

    /// Inserts a key that the map does not have, and returns its chunk and its place there.
    fn insert_new(&mut self, key: K, value: V) -> (usize, usize) {
        self.len += 1;
        let mut at_chunk = self.chunk_of(&key);
        let last = self.chunks.len().saturating_sub(1);
        let Some(chunk) = self.chunks.get_mut(at_chunk) else {
            self.push_chunk(key, value);
            return (0, 0);
        };
        let mut at = chunk.partition_point(|(other, _)| *other < key);
        if chunk.len() == CHUNK_MAX {
            if at_chunk == last && at == CHUNK_MAX {
                // Keys that come in order fill one chunk after the other.
                self.push_chunk(key, value);
                return (at_chunk + 1, 0);
            }
            let upper = Arc::make_mut(chunk).split_off(CHUNK_MAX / 2);
            self.bounds.insert(at_chunk + 1, upper[0].0.clone());
            self.chunks.insert(at_chunk + 1, Arc::new(upper));
            if at > CHUNK_MAX / 2 {
                (at_chunk, at) = (at_chunk + 1, at - CHUNK_MAX / 2);
            }
        }
        if at_chunk == 0 && at == 0 {
            self.bounds[0] = key.clone();
        }
        Arc::make_mut(&mut self.chunks[at_chunk]).insert(at, (key, value));
        (at_chunk, at)
    }

    fn push_chunk(&mut self, key: K, value: V) {
        self.bounds.push(key.clone());
        self.chunks.push(Arc::new(vec![(key, value)]));
    }
}

impl<K: Ord, V> Index<&K> for SharedMap<K, V> {
    type Output = V;

    fn index(&self, key: &K) -> &V {
        self.get(key).expect("the key is in the map")
    }
}

impl<K: Ord + Clone, V: Clone> Extend<(K, V)> for SharedMap<K, V> {
    fn extend<T: IntoIterator<Item = (K, V)>>(&mut self, entries: T) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for SharedMap<K, V> {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(entries: T) -> Self {
        let mut map = SharedMap::default();
        map.extend(entries);
        map
    }
}

fn entry<K, V>((key, value): &(K, V)) -> (&K, &V) {
    (key, value)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// A change of a map.
    #[derive(Debug, Clone)]
    enum Change {
        Insert(u16, u8),
        Append(u8),
        Remove(u16),
        RemoveFirst,
        Set(u16, u8),
        Add(u16, u8),
    }

    fn changes() -> impl Strategy<Value = Vec<(bool, Change)>> {
        let key = || 0_u16..400;
        let change = prop_oneof![
            4 => (key(), any::<u8>()).prop_map(|(key, value)| Change::Insert(key, value)),
            2 => any::<u8>().prop_map(Change::Append),
            4 => key().prop_map(Change::Remove),
            1 => Just(Change::RemoveFirst),
            1 => (key(), any::<u8>()).prop_map(|(key, value)| Change::Set(key, value)),
            1 => (key(), any::<u8>()).prop_map(|(key, value)| Change::Add(key, value)),
        ];
        prop::collection::vec((any::<bool>(), change), 0..400)
    }

    fn check(map: &SharedMap<u16, u8>, known: &BTreeMap<u16, u8>) {
        assert!(map.iter().eq(known), "{map:?} is not {known:?}");
        assert_eq!(
            (map.len(), map.is_empty(), map.first()),
            (known.len(), known.is_empty(), known.first_key_value())
        );
        for key in (0..420).step_by(7) {
            assert_eq!(map.get(&key), known.get(&key));
            assert!(map.from(|other| *other < key).eq(known.range(key..)));
            assert!(
                map.from(|other| *other <= key)
                    .eq(known.range(key..).filter(|(other, _)| **other != key))
            );
        }
        assert!(map.chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK_MAX));
    }

    proptest! {
        #[test]
        fn two_copies_are_two_maps(
            start in prop::collection::btree_map(0_u16..400, any::<u8>(), 0..300),
            changes in changes(),
        ) {
            let original: SharedMap<u16, u8> =
                start.iter().map(|(key, value)| (*key, *value)).collect();
            let mut both = [original.clone(), original.clone()];
            let mut known = [start.clone(), start.clone()];
            for (which, change) in changes {
                let (map, known) = (&mut both[usize::from(which)], &mut known[usize::from(which)]);
                match change {
                    Change::Insert(key, value) => {
                        prop_assert_eq!(map.insert(key, value), known.insert(key, value));
                    }
                    Change::Append(value) => {
                        let key = known.last_key_value().map_or(0, |(last, _)| last + 1);
                        prop_assert_eq!(map.insert(key, value), known.insert(key, value));
                    }
                    Change::Remove(key) => prop_assert_eq!(map.remove(&key), known.remove(&key)),
                    Change::RemoveFirst => {
                        let first = map.first().map(|(key, _)| *key);
                        let removed = first.and_then(|key| map.remove(&key));
                        prop_assert_eq!(removed, known.pop_first().map(|(_, value)| value));
                    }
                    Change::Set(key, value) => {
                        map.get_mut(&key).into_iter().for_each(|old| *old = value);
                        known.get_mut(&key).into_iter().for_each(|old| *old = value);
                    }
                    Change::Add(key, value) => {
                        let expected = *known.entry(key).or_insert(value);
                        prop_assert_eq!(*map.get_or_insert_with(key, || value), expected);
                    }
                }
            }
            check(&original, &start);
            both.iter().zip(&known).for_each(|(map, known)| check(map, known));
            both[0].values_mut().for_each(|value| *value = 7);
            prop_assert!(both[0].values().all(|value| *value == 7));
            check(&both[1], &known[1]);
        }
    }

    #[test]
    fn a_copy_copies_only_the_chunk_that_is_changed() {
        let original: SharedMap<u32, u32> = (0..1_000).map(|key| (key, 0)).collect();
        let mut copy = original.clone();
        *copy.get_mut(&500).unwrap() = 1;
        let shared = original
            .chunks
            .iter()
            .zip(&copy.chunks)
            .filter(|(one, other)| Arc::ptr_eq(one, other))
            .count();
        assert_eq!(
            (shared, original.chunks.len()),
            (original.chunks.len() - 1, 1_000_usize.div_ceil(CHUNK_MAX))
        );
        assert_eq!((original[&500], copy[&500]), (0, 1));
    }
}
