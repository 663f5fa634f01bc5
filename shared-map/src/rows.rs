//! Rows, found by their numbers.

use std::sync::Arc;

use crate::chunk::CHUNK_MAX;

/// Rows, numbered from 0 on. Copies share the chunks that neither side has changed.
#[derive(Debug, Clone)]
pub struct SharedRows<T> {
    /// The chunks. All but the last are full.
    chunks: Vec<Arc<Vec<T>>>,
}

impl<T> Default for SharedRows<T> {
    fn default() -> Self {
        SharedRows { chunks: Vec::new() }
    }
}

impl<T> SharedRows<T> {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        let last = self.chunks.last().map_or(0, |chunk| chunk.len());
        self.chunks.len().saturating_sub(1) * CHUNK_MAX + last
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Returns a row.
    pub fn get(&self, at: usize) -> Option<&T> {
        self.chunks.get(at / CHUNK_MAX)?.get(at % CHUNK_MAX)
    }

    /// Returns all rows, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }
}

impl<T: Clone> SharedRows<T> {
    /// Returns a row, to be changed.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        let chunk =
            self.chunks.get_mut(at / CHUNK_MAX).filter(|chunk| at % CHUNK_MAX < chunk.len())?;
        Arc::make_mut(chunk).get_mut(at % CHUNK_MAX)
    }

    /// Adds a row behind all others.
    pub fn push(&mut self, row: T) {
        match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK_MAX) {
            Some(chunk) => Arc::make_mut(chunk).push(row),
            None => self.chunks.push(Arc::new(vec![row])),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn copies_go_their_own_ways(
            count in 0_usize..200,
            changes in prop::collection::vec(
                (any::<bool>(), prop::option::weighted(0.8, 0_usize..220), 0_u32..9),
                0..100,
            ),
        ) {
            let mut known = [(0..count).map(|_| 0).collect::<Vec<u32>>(), Vec::new()];
            known[1] = known[0].clone();
            let mut rows = SharedRows::default();
            known[0].iter().for_each(|row| rows.push(*row));
            let mut both = [rows.clone(), rows];
            for (which, at, row) in changes {
                let (rows, known) = (&mut both[usize::from(which)], &mut known[usize::from(which)]);
                match at {
                    Some(at) => {
                        let old = rows.get_mut(at).map(|old| std::mem::replace(old, row));
                        prop_assert_eq!(old, known.get(at).copied());
                        known.get_mut(at).into_iter().for_each(|old| *old = row);
                    }
                    None => {
                        rows.push(row);
                        known.push(row);
                    }
                }
            }
            for (rows, known) in both.iter().zip(&known) {
                prop_assert_eq!(rows.iter().copied().collect::<Vec<_>>(), known.clone());
                prop_assert_eq!((rows.len(), rows.is_empty()), (known.len(), known.is_empty()));
                prop_assert_eq!(rows.get(known.len()), None);
            }
        }
    }
}
