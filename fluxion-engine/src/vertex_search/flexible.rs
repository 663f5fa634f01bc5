//! The flexible traverser: sibling slots are alternatives, of which as many as possible are formed
//! together.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::choose::{self, Branch, Gathered, Group, Lane, index};
use super::request::{Levels, Request, RequestLevel};
use super::scene::Scene;
use crate::graph::TypeId;
use crate::jobspec::Count;

/// How many intermediate states the search for the most slots remembers. Beyond it goes on with the
/// first that fits.
const STATES_MAX: usize = 100_000;
/// Where a slot can be formed more often than this from the counted resources, the first that fits
/// is taken.
const DEPTH_MAX: u64 = 2_000;

/// Units per type, in the order of the union of what all slots are made of.
type Counts = SmallVec<[u64; 4]>;

/// The parts of a slot: which type, and how many.
type Parts = SmallVec<[(usize, Count); 2]>;

/// Which slot comes next, and how many can be formed with it: by the resources left.
type Known = HashMap<Counts, (u64, Option<usize>)>;

/// All slots beside one.
pub(super) fn slot_options(
    request: &Request,
    levels: &Levels,
    slot: usize,
) -> SmallVec<[usize; 4]> {
    let is_slot = |at: &usize| request.levels[*at].kind == TypeId::SLOT;
    if levels.contains(&slot) {
        return levels.clone().filter(is_slot).collect();
    }
    let above = request.levels.iter().find(|level| level.with.contains(&slot));
    above.map_or_else(SmallVec::new, |level| level.with.clone().filter(is_slot).collect())
}

/// Whether any of some slots takes units of pools: those are formed the simple way.
pub(super) fn takes_units(scene: &Scene<'_>, options: &[usize]) -> bool {
    let request = scene.request;
    let is_pool = |kind: TypeId| scene.pools.iter().any(|(known, _)| *known == kind);
    options
        .iter()
        .any(|at| request.of_range(&request.levels[*at].with).iter().any(|part| is_pool(part.kind)))
}

/// What sibling slots are made of together; `None` if the request was laid out for the simple
/// traverser.
pub(super) fn union_of(request: &Request, options: &[usize]) -> Option<Levels> {
    let first = options.first()?;
    request.unions.iter().find(|(known, _)| known == first).map(|(_, levels)| levels.clone())
}

/// The largest number of slots that any of some siblings asks for.
pub(super) fn most(request: &Request, options: &[usize]) -> u64 {
    options.iter().map(|at| request.levels[*at].count.most()).max().unwrap_or(0)
}

/// Forms slots of several shapes from candidates for what they are made of together. How many is
/// counted in units: `false` if whole vertices do not add up to that.
pub(super) fn slots(
    scene: &Scene<'_>,
    options: &[usize],
    union: &Levels,
    mut inside: Gathered,
    branches: &mut Vec<Branch>,
    found: &mut Gathered,
) -> bool {
    let request = scene.request;
    let slots = most(request, options);
    let kinds: SmallVec<[TypeId; 4]> =
        request.of_range(union).iter().map(|level| level.kind).collect();
    let mut lanes: SmallVec<[Lane; 4]> = SmallVec::new();
    let mut have = Counts::new();
    for kind in &kinds {
        let lane = Lane::of(&mut inside, *kind, scene.policy.order());
        have.push(choose::qualified(&lane.groups));
        lanes.push(lane);
    }
    let slots_of: SmallVec<[Parts; 4]> = options
        .iter()
        .map(|at| {
            let column =
                |part: &RequestLevel| kinds.iter().position(|kind| *kind == part.kind).unwrap_or(0);
            request
                .of_range(&request.levels[*at].with)
                .iter()
                .map(|part| (column(part), part.count))
                .collect()
        })
        .collect();
    if options.len() == 1 {
        // As upstream (Q10), which counts in 32 bits with a sign: no slot is as many as there may
        // be without a limit.
        let Ok(wanted) = i32::try_from(slots) else { return false };
        let room = |(column, count): &(usize, Count)| {
            have[*column].checked_div(count.choose(have[*column])).unwrap_or(0)
        };
        // Parts of one type are counted each as if it were alone, and then taken one after the
        // other.
        let formed =
            slots_of[0].iter().map(room).min().unwrap_or(0).min(u64::from(wanted.unsigned_abs()));
        return (0..formed).all(|_| form(&slots_of[0], &have, &mut lanes, branches, found));
    }
    let mut known = Known::new();
    let mut left = have.clone();
    let mut formed = vec![0_u64; options.len()];
    // As upstream: alternatives are all formed, however often they are wanted. A slot takes a
    // whole vertex at least, so one more than there are vertices is already one too many.
    let mut missing = lanes.iter().map(|lane| lane.groups.len() as u64).sum::<u64>() + 1;
    let shallow = slots_of.iter().all(|parts| room(parts, &left) <= DEPTH_MAX);
    while missing > 0
        && let Some(next) =
            if shallow { best(&slots_of, &left, &mut known).1 } else { first(&slots_of, &left) }
        && let Some(rest) = without(&slots_of[next], &left)
    {
        left = rest;
        formed[next] += 1;
        missing -= 1;
    }
    // As upstream (Q10), which then counts by the resources at first: that may be more than there
    // is.
    let mut all = formed.into_iter().enumerate();
    all.all(|(option, count)| {
        (0..count).all(|_| form(&slots_of[option], &have, &mut lanes, branches, found))
    })
}

/// Forms one slot from the next candidates of each type, where there were `counts` of them at
/// first.
fn form(
    parts: &Parts,
    all: &Counts,
    lanes: &mut [Lane],
    branches: &mut Vec<Branch>,
    found: &mut Gathered,
) -> bool {
    let from = branches.len();
    let mut score = 1_i64;
    for (column, count) in parts {
        if !lanes[*column].fill(count.choose(all[*column]), branches, &mut score) {
            branches.truncate(from);
            return false;
        }
    }
    let group = Group { score, count: 1, from: index(from), to: index(branches.len()) };
    found.push(TypeId::SLOT, group);
    true
}

/// How often a slot can be formed from the resources left, if each takes as much as the first.
fn room(parts: &Parts, left: &Counts) -> u64 {
    let rooms = parts
        .iter()
        .map(|(column, count)| left[*column].checked_div(count.choose(left[*column])).unwrap_or(0));
    rooms.min().unwrap_or(0)
}

/// The resources left once a slot is formed. `None`: it cannot be.
fn without(parts: &Parts, left: &Counts) -> Option<Counts> {
    let mut rest = left.clone();
    for (column, count) in parts {
        let taken = Some(count.choose(left[*column])).filter(|taken| *taken > 0)?;
        rest[*column] = rest[*column].checked_sub(taken)?;
    }
    Some(rest)
}

/// The first slot that can be formed from the resources left.
fn first(slots: &[Parts], left: &Counts) -> Option<usize> {
    slots.iter().position(|parts| without(parts, left).is_some())
}

/// A question of [`best`], as far as it is answered.
struct Question {
    left: Counts,
    /// The slot that is tried.
    at: usize,
    answer: (u64, Option<usize>),
}

impl Question {
    fn new(left: Counts) -> Self {
        Question { left, at: 0, answer: (0, None) }
    }

    /// Takes note of how many slots can be formed after the one that is tried.
    fn tried(&mut self, more: u64) {
        if more + 1 > self.answer.0 {
            self.answer = (more + 1, Some(self.at));
        }
        self.at += 1;
    }
}

/// How many slots can be formed from the resources left, and which comes first; of equals, the one
/// that was named first. As deep as there are slots, so open questions are kept in a list.
fn best(slots: &[Parts], left: &Counts, known: &mut Known) -> (u64, Option<usize>) {
    if let Some(answer) = known.get(left) {
        return *answer;
    }
    let mut open = vec![Question::new(left.clone())];
    loop {
        let last = open.len() - 1;
        let this = &mut open[last];
        let Some(parts) = slots.get(this.at) else {
            let Question { left, answer, .. } = open.swap_remove(last);
            known.insert(left, answer);
            match open.last_mut() {
                Some(above) => above.tried(answer.0),
                None => return answer,
            }
            continue;
        };
        let Some(rest) = without(parts, &this.left) else {
            this.at += 1;
            continue;
        };
        if known.len() >= STATES_MAX {
            this.tried(0);
        } else if let Some((more, _)) = known.get(&rest) {
            this.tried(*more);
        } else {
            open.push(Question::new(rest));
        }
    }
}
