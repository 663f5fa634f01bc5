//! The first request of each class that waits, in order, with its need. A request that the need
//! alone rules out is skipped without a look at anything else, mostly together with its neighbours.

use crate::queue::{ClassId, Place};
use fluxqueue_workload::Lifetime;

/// Most entries of one chunk.
const CHUNK_MAX: usize = 64;

/// The need of a request. A request that needs at least as much of both cannot start where another
/// one cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    /// The number of its pods.
    pub pods: usize,
    /// The time for which it needs them.
    pub lifetime: Lifetime,
}

/// Holds at least the first request of each class. The needs are stored apart from places and
/// classes, since a search mostly reads needs alone.
#[derive(Default)]
pub(super) struct Firsts {
    /// Never empty ones, ascending.
    chunks: Vec<Chunk>,
}

struct Chunk {
    /// None of them needs less.
    least: Need,
    needs: Vec<Need>,
    who: Vec<(Place, ClassId)>,
}

impl Need {
    fn or_less(self, other: Need) -> Need {
        Need { pods: self.pods.min(other.pods), lifetime: self.lifetime.min(other.lifetime) }
    }
}

impl Firsts {
    /// Returns the next first of a class behind this place, without those that `is_ruled_out`
    /// excludes by their need. A need that is ruled out rules out every greater one.
    pub(super) fn next(
        &self,
        behind: &Place,
        is_ruled_out: impl Fn(Need) -> bool,
    ) -> Option<&(Place, ClassId)> {
        let first = self.chunks.partition_point(|chunk| chunk.last() <= behind);
        let mut skipped = self.chunks.get(first)?.who.partition_point(|(place, _)| place <= behind);
        for chunk in &self.chunks[first..] {
            let from = std::mem::take(&mut skipped);
            if is_ruled_out(chunk.least) {
                continue;
            }
            if let Some(at) = chunk.needs[from..].iter().position(|need| !is_ruled_out(*need)) {
                return chunk.who.get(from + at);
            }
        }
        None
    }

    /// Puts the first request of its class.
    pub(super) fn put(&mut self, place: Place, class: ClassId, need: Need) {
        let behind_all = self.chunks.len().saturating_sub(1);
        let at_chunk = self.chunks.partition_point(|chunk| *chunk.last() < place).min(behind_all);
        let Some(chunk) = self.chunks.get_mut(at_chunk) else {
            self.chunks.push(Chunk { least: need, needs: vec![need], who: vec![(place, class)] });
            return;
        };
        match chunk.find(&place) {
            Ok(at) => {
                (chunk.needs[at], chunk.who[at]) = (need, (place, class));
            }
            Err(at) => {
                chunk.needs.insert(at, need);
                chunk.who.insert(at, (place, class));
            }
        }
        if chunk.who.len() > CHUNK_MAX {
            let upper = chunk.split();
            self.chunks.insert(at_chunk + 1, upper);
        }
        self.chunks[at_chunk].count_least();
    }

    /// Removes a request that waits no more.
    pub(super) fn remove(&mut self, place: &Place) {
        let at_chunk = self.chunks.partition_point(|chunk| chunk.last() < place);
        let found = self.chunks.get(at_chunk).and_then(|chunk| chunk.find(place).ok());
        // A request that was never the first of its class is not here.
        let Some(at) = found else { return };
        let chunk = &mut self.chunks[at_chunk];
        chunk.needs.remove(at);
        chunk.who.remove(at);
        let length = chunk.who.len();
        if length == 0 {
            self.chunks.remove(at_chunk);
            return;
        }
        if self
            .chunks
            .get(at_chunk + 1)
            .is_some_and(|next| length + next.who.len() <= CHUNK_MAX / 2)
        {
            let next = self.chunks.remove(at_chunk + 1);
            self.chunks[at_chunk].needs.extend(next.needs);
            self.chunks[at_chunk].who.extend(next.who);
        }
        self.chunks[at_chunk].count_least();
    }
}

impl Chunk {
    fn last(&self) -> &Place {
        &self.who[self.who.len() - 1].0
    }

    fn find(&self, place: &Place) -> Result<usize, usize> {
        self.who.binary_search_by(|(other, _)| other.cmp(place))
    }

    /// The upper half, which is not in it any more.
    fn split(&mut self) -> Chunk {
        let half = self.who.len() / 2;
        let (needs, who) = (self.needs.split_off(half), self.who.split_off(half));
        let mut upper = Chunk { least: needs[0], needs, who };
        upper.count_least();
        upper
    }

    fn count_least(&mut self) {
        self.least = self.needs.iter().fold(self.needs[0], |least, need| least.or_less(*need));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::queue::{JobId, PendingRequest};
    use fluxqueue_workload::Time;

    fn place(at: u64) -> Place {
        Place::new(0, Time(at.cast_signed()), 0, PendingRequest::Start(JobId::FIRST))
    }

    /// Puts and removals in any order, of far more than stand together, beside a sorted map that is
    /// gone over one by one.
    #[test]
    fn the_next_that_is_not_ruled_out_is_the_first_of_all_behind() {
        let (mut firsts, mut plain) = (Firsts::default(), BTreeMap::new());
        let mut state: u64 = 1;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut found, mut most) = (0, 0);
        for step in 0..20_000 {
            let (at, pods, seconds) = (random(2_000), 1 + random(40), 1 + random(40));
            // Many come, then as many go.
            if random(100) < if step % 8_000 < 4_000 { 70 } else { 30 } {
                let need = Need {
                    pods: usize::try_from(pods).unwrap(),
                    lifetime: Lifetime::Seconds(seconds),
                };
                firsts.put(place(at), 0, need);
                plain.insert(place(at), need);
            } else {
                firsts.remove(&place(at));
                plain.remove(&place(at));
            }
            most = most.max(plain.len());
            let (behind, limit) = (
                place(random(2_000)),
                Need { pods: 3, lifetime: Lifetime::Seconds(1 + random(4)) },
            );
            let is_ruled_out =
                |need: Need| need.pods >= limit.pods && need.lifetime >= limit.lifetime;
            let next = firsts.next(&behind, is_ruled_out).map(|(place, _)| place);
            let expected =
                plain.iter().find(|(place, need)| **place > behind && !is_ruled_out(**need));
            assert_eq!(next, expected.map(|(place, _)| place), "step {step}");
            found += usize::from(next.is_some());
        }
        assert!(found > 1_000 && most > 10 * CHUNK_MAX, "{found} found, {most} at most");
    }
}
