//! The flexible traverser: sibling slots are alternatives, of which as many as possible are formed together.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::choose::{self, Gathered, Group};
use super::request::Levels;
use super::walk::{Edge, Walk, index, inner};
use crate::graph::{TypeId, VertexId};
use crate::policy::Order;

/// How many intermediate states the search for the most slots remembers. Beyond it goes on with the first that fits.
const STATES_MAX: usize = 100_000;
/// Where a slot can be formed more often than this from what is counted, the first that fits is taken.
const DEPTH_MAX: u64 = 2_000;

/// Units per type, in the order of the union of what all slots are made of.
type Counts = SmallVec<[u64; 4]>;

/// Which slot comes next, and how many can be formed with it: by what is left.
type Known = HashMap<Counts, (u64, Option<usize>)>;

impl Walk<'_> {
    /// All slots beside one.
    pub(super) fn slot_options(&self, levels: &Levels, slot: usize) -> SmallVec<[usize; 4]> {
        let is_slot = |at: &usize| self.request.levels[*at].kind == TypeId::SLOT;
        if levels.contains(&slot) {
            return levels.clone().filter(is_slot).collect();
        }
        let above = self.request.levels.iter().find(|level| level.with.contains(&slot));
        above.map_or_else(SmallVec::new, |level| level.with.clone().filter(is_slot).collect())
    }

    /// Whether any of some slots takes units of pools: those are formed the simple way.
    pub(super) fn takes_units(&self, options: &[usize]) -> bool {
        let is_pool = |kind: TypeId| self.pools.iter().any(|(known, _)| *known == kind);
        options
            .iter()
            .any(|at| self.request.of_range(&self.request.levels[*at].with).iter().any(|part| is_pool(part.kind)))
    }

    /// Forms slots of several shapes from what lies directly below a vertex. How many is counted in units: `false` if whole
    /// vertices do not add up to that.
    pub(super) fn flexible_slots(
        &mut self,
        vertex: VertexId,
        options: &[usize],
        prefix: i64,
        found: &mut Gathered,
    ) -> bool {
        let request = self.request;
        let Some(union) =
            request.unions.iter().find(|(first, _)| *first == options[0]).map(|(_, levels)| levels.clone())
        else {
            return true;
        };
        let slots = options.iter().map(|at| request.levels[*at].count.most()).max().unwrap_or(0);
        let mut inside = Gathered::default();
        self.explore(vertex, &union, false, true, prefix, slots, &mut inside);
        let kinds: SmallVec<[TypeId; 4]> = request.of_range(&union).iter().map(|level| level.kind).collect();
        let mut lanes: SmallVec<[(Vec<Group>, usize); 4]> = SmallVec::new();
        let mut have = Counts::new();
        for kind in &kinds {
            let mut groups = inside.take(*kind);
            choose::sort(&mut groups, inner(self.policy.order()), self.policy.order() == Order::Variation);
            have.push(choose::qualified(&groups));
            lanes.push((groups, 0));
        }
        let needs: SmallVec<[Counts; 4]> = options
            .iter()
            .map(|at| {
                let parts = request.of_range(&request.levels[*at].with);
                let of = |(column, kind): (usize, &TypeId)| {
                    let part = parts.iter().find(|part| part.kind == *kind);
                    // What cannot be had makes the whole slot impossible.
                    part.map_or(0, |part| match part.count.choose(have[column]) {
                        0 => u64::MAX,
                        count => count,
                    })
                };
                kinds.iter().enumerate().map(of).collect()
            })
            .collect();
        let mut known = Known::new();
        let mut left = have;
        let mut formed = vec![0_u64; options.len()];
        // As upstream: alternatives are all formed, and one shape alone only as often as it is wanted.
        let mut missing = if options.len() == 1 { slots } else { u64::MAX };
        // A slot takes a whole vertex at least, so one more than there are vertices is already one too many.
        missing = missing.min(lanes.iter().map(|(groups, _)| groups.len() as u64).sum::<u64>() + 1);
        let shallow = needs.iter().all(|need| room(need, &left) <= DEPTH_MAX);
        while missing > 0
            && let Some(next) = if shallow { best(&needs, &left, &mut known).1 } else { first(&needs, &left) }
        {
            take(&mut left, &needs[next]);
            formed[next] += 1;
            missing -= 1;
        }
        for (option, count) in formed.into_iter().enumerate() {
            for _ in 0..count {
                if !self.form(&needs[option], &mut lanes, found) {
                    return false;
                }
            }
        }
        true
    }

    /// Forms one slot from the next candidates of each type.
    fn form(&mut self, needs: &Counts, lanes: &mut [(Vec<Group>, usize)], found: &mut Gathered) -> bool {
        let from = self.edges.len();
        let mut score = 1_i64;
        for ((groups, next), wanted) in lanes.iter_mut().zip(needs) {
            let mut have = 0;
            while have < *wanted {
                let Some(group) = groups.get(*next) else {
                    self.edges.truncate(from);
                    return false;
                };
                *next += 1;
                have += group.count;
                score = score.saturating_add(group.score);
                let edge = self.edges[group.from as usize];
                self.edges.push(Edge { exclusive: true, ..edge });
            }
        }
        let group = Group { score, count: 1, from: index(from), to: index(self.edges.len()) };
        found.push(TypeId::SLOT, group);
        true
    }
}

/// How often a slot can be formed from what is left.
fn room(need: &Counts, left: &Counts) -> u64 {
    need.iter().zip(left).filter_map(|(need, left)| left.checked_div(*need)).min().unwrap_or(0)
}

/// The first slot that can be formed from what is left.
fn first(needs: &[Counts], left: &Counts) -> Option<usize> {
    needs.iter().position(|need| room(need, left) > 0)
}

/// What is asked of [`best`], as far as it is answered.
struct Open {
    left: Counts,
    /// The slot that is tried.
    at: usize,
    answer: (u64, Option<usize>),
}

impl Open {
    fn new(left: Counts) -> Self {
        Open { left, at: 0, answer: (0, None) }
    }

    /// Takes note of how many slots can be formed after the one that is tried.
    fn tried(&mut self, more: u64) {
        if more + 1 > self.answer.0 {
            self.answer = (more + 1, Some(self.at));
        }
        self.at += 1;
    }
}

/// How many slots can be formed from what is left, and which comes first; of equals, the one that was named first. As deep as
/// there are slots, so what is open is kept in a list.
fn best(needs: &[Counts], left: &Counts, known: &mut Known) -> (u64, Option<usize>) {
    if let Some(answer) = known.get(left) {
        return *answer;
    }
    let mut open = vec![Open::new(left.clone())];
    loop {
        let last = open.len() - 1;
        let this = &mut open[last];
        let Some(need) = needs.get(this.at) else {
            let Open { left, answer, .. } = open.swap_remove(last);
            known.insert(left, answer);
            match open.last_mut() {
                Some(above) => above.tried(answer.0),
                None => return answer,
            }
            continue;
        };
        if room(need, &this.left) == 0 {
            this.at += 1;
            continue;
        }
        let mut rest = this.left.clone();
        take(&mut rest, need);
        if known.len() >= STATES_MAX {
            this.tried(0);
        } else if let Some((more, _)) = known.get(&rest) {
            this.tried(*more);
        } else {
            open.push(Open::new(rest));
        }
    }
}

fn take(left: &mut Counts, need: &Counts) {
    for (left, need) in left.iter_mut().zip(need) {
        *left -= need;
    }
}
