//! Ending a walk as soon as there is enough: `first` and its like.

use smallvec::SmallVec;

use super::choose::Gathered;
use super::request::RequestLevel;
use crate::graph::TypeId;

/// Counts, type by type, how many whole shares of the wanted resources were found.
///
/// A share is what one slot needs, or the level as a whole where there is no slot: candidates are
/// whole, so the surplus of the last one of a share is of no use for the next. Its size is that of
/// upstream's `calc_effective_max`.
pub(crate) struct Sieve {
    wants: SmallVec<[Want; 4]>,
}

struct Want {
    kind: TypeId,
    share: u64,
    /// Shares that are still missing.
    missing: u64,
    /// Found toward the next share.
    have: u64,
    /// Candidates that were counted.
    seen: usize,
}

impl Sieve {
    pub(crate) fn new(levels: &[RequestLevel], slots: u64) -> Self {
        let mut wants: SmallVec<[Want; 4]> = SmallVec::new();
        for level in levels {
            let share = level.count.most();
            // Alternatives are of one type: enough is what would do for all of them.
            match wants.iter_mut().find(|known| known.kind == level.kind) {
                Some(known) => known.share = known.share.saturating_add(share),
                None => {
                    wants.push(Want { kind: level.kind, share, missing: slots, have: 0, seen: 0 });
                }
            }
        }
        Sieve { wants }
    }

    /// Nothing more is wanted of a type.
    pub(crate) fn is_satisfied_for(&self, kind: TypeId) -> bool {
        self.wants.iter().any(|known| known.kind == kind && known.missing == 0)
    }

    /// Counts candidates found since the last time. True if they are enough.
    pub(crate) fn count(&mut self, found: &Gathered) -> bool {
        for kind in &mut self.wants {
            let groups = found.of(kind.kind);
            for group in &groups[kind.seen.min(groups.len())..] {
                kind.have = kind.have.saturating_add(group.count);
                if kind.have >= kind.share && kind.missing > 0 {
                    kind.missing -= 1;
                    kind.have = 0;
                }
            }
            kind.seen = groups.len();
        }
        self.wants.iter().all(|kind| kind.missing == 0)
    }
}
