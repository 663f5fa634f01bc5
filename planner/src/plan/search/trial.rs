//! A trial puts the pods of a request on nodes one after the other, each where the rules allow it
//! beside the earlier ones, and takes them away again.
//!
//! A slice comes as a whole to the first part of its level that takes it: the least crowded, and of
//! these the tightest. Where pods that are still to come have to be there before the rest of it
//! may, since they are to be even, a part that takes some of it is its part as well.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::cells::{Found, PodCounts, Question};
use super::limits::LevelLimits;
use super::line::Line;
use super::pieces::Piece;
use fluxqueue_machine::cluster::{Cluster, OccupantId};
use fluxqueue_machine::fluxion::{Rank, Within};
use fluxqueue_machine::ledger::LevelWant;
use fluxqueue_workload::levels::RuleScope;

/// The order in which a slice looks at parts that are as crowded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartOrder {
    /// Those with the least room first.
    Tightest,
    /// Those with most room first.
    Roomiest,
}

/// Pods that are to be in one part of a level, if there are others that are to be in one by
/// themselves.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum TogetherBy {
    Slice(u32),
    /// Those under this rule.
    Role(usize),
}

/// Pods that come together: those of a slice or role, or of a want.
struct Unit {
    pieces: Vec<usize>,
    /// Where they are to be in one part: the level, by its number among those of the rules.
    level: Option<usize>,
    /// The part that it has come to.
    part: Option<u32>,
}

/// A pod that has been put.
struct Put {
    occupant: OccupantId,
    rank: Rank,
    piece: usize,
    cell: usize,
}

struct Trial<'a> {
    asked: Question<'a>,
    limits: &'a mut LevelLimits,
    cluster: &'a mut Cluster,
    /// Per piece how many of its pods have been put, and these in order.
    counts: Vec<usize>,
    put: Vec<Put>,
    slots: PodCounts,
    /// Per level the cells of each part, and of each kind of cells there one: those that differ by
    /// the narrowest label alone are alike.
    parts: HashMap<usize, BTreeMap<u32, OfPart>>,
    /// Per piece that asks for the same as others, and part of its level: how many pods it would
    /// take by room, were it as empty as it was.
    rooms: HashMap<(usize, usize, u32), u64>,
    /// Parts that have not taken all of such a piece, where more pods only make that worse.
    too_full: BTreeSet<(usize, usize, usize, u32)>,
}

/// The cells of a part.
#[derive(Default)]
struct OfPart {
    cells: Vec<usize>,
    families: Vec<usize>,
    /// The number of the trial's pods there.
    taken: u64,
}

/// Nodes for all pods; `None` if one has found none where it came after the others.
pub(super) fn find(
    asked: Question<'_>,
    limits: &mut LevelLimits,
    cluster: &mut Cluster,
) -> Option<Found> {
    let before = cluster.begin_trial();
    let mut trial = Trial::new(asked, limits, cluster);
    let mut found = trial.run(PartOrder::Tightest);
    if found.is_none() && trial.has_units() {
        found = trial.run(PartOrder::Roomiest);
    }
    cluster.end_trial(before);
    found
}

impl<'a> Trial<'a> {
    fn new(asked: Question<'a>, limits: &'a mut LevelLimits, cluster: &'a mut Cluster) -> Self {
        let mut trial = Trial {
            asked,
            limits,
            cluster,
            counts: vec![0; asked.pieces.len()],
            put: Vec::new(),
            slots: PodCounts::new(),
            parts: HashMap::new(),
            rooms: HashMap::new(),
            too_full: BTreeSet::new(),
        };
        trial.find_parts();
        trial
    }

    /// Puts all pods on nodes, and takes them away. Where they were; `None` if one has found no
    /// node.
    fn run(&mut self, order: PartOrder) -> Option<Found> {
        // A part that was too full may be emptier this time.
        self.too_full.clear();
        let mut units = self.units();
        while !self.is_complete(0..self.asked.pieces.len()) {
            let before = self.put.len();
            for unit in &mut units {
                if self.is_complete(unit.pieces.iter().copied()) {
                    continue;
                }
                match (unit.level, unit.part) {
                    (None, _) => self.fill_all(&unit.pieces, None),
                    (Some(level), Some(part)) => self.fill_all(&unit.pieces, Some((level, part))),
                    (Some(level), None) => unit.part = self.choose_part(&unit.pieces, level, order),
                }
            }
            if self.put.len() == before {
                break;
            }
        }
        let is_found = self.is_complete(0..self.asked.pieces.len());
        let seats = || self.put.iter().map(|put| (put.piece, put.rank)).collect();
        let found = is_found.then(|| Found { slots: self.slots.clone(), seats: seats() });
        self.take_away_from(0);
        found
    }

    /// True if the request has pods that are to be in one part of a level by slices, or by roles.
    fn has_units(&self) -> bool {
        !self.parts.is_empty()
    }

    /// All pieces, those of one slice together, or of one role.
    fn units(&self) -> Vec<Unit> {
        let mut of_whole: HashMap<TogetherBy, usize> = HashMap::new();
        let mut units: Vec<Unit> = Vec::new();
        for at in 0..self.asked.pieces.len() {
            let whole = self.whole_of(at);
            if let Some(known) = whole.and_then(|(whole, _)| of_whole.get(&whole).copied()) {
                units[known].pieces.push(at);
                continue;
            }
            of_whole.extend(whole.map(|(whole, _)| (whole, units.len())));
            units.push(Unit { pieces: vec![at], level: whole.map(|(_, level)| level), part: None });
        }
        units
    }

    /// Returns the group with which a piece is to be in one part of a level, and the number of that
    /// level.
    fn whole_of(&self, at: usize) -> Option<(TogetherBy, usize)> {
        let piece = &self.asked.pieces[at];
        let mut wants = self.asked.request.groups[piece.group].terms.level_wants();
        let is_slice = |want: &&LevelWant| {
            matches!(want.of, RuleScope::Slice(_)) && want.within == Within::One
        };
        match (piece.slice, wants.find(is_slice)) {
            (Some(slice), Some(want)) => {
                Some((TogetherBy::Slice(slice), self.limits.level(&want.level)?))
            }
            _ => self.limits.own_part(at).map(|(rule, level)| (TogetherBy::Role(rule), level)),
        }
    }

    fn find_parts(&mut self) {
        let levels: BTreeSet<usize> = (0..self.asked.pieces.len())
            .filter_map(|at| self.whole_of(at))
            .map(|(_, level)| level)
            .collect();
        for level in levels {
            let mut parts: BTreeMap<u32, OfPart> = BTreeMap::new();
            let mut known: BTreeSet<(u32, usize)> = BTreeSet::new();
            let cells = self.asked.cells.parts.iter().enumerate();
            for (cell, part) in cells.filter_map(|(cell, parts)| Some((cell, parts[level]?))) {
                let of_part = parts.entry(part).or_default();
                of_part.cells.push(cell);
                if known.insert((part, self.asked.cells.family[cell])) {
                    of_part.families.push(cell);
                }
            }
            self.parts.insert(level, parts);
        }
    }

    fn is_complete(&self, mut pieces: impl Iterator<Item = usize>) -> bool {
        pieces.all(|piece| self.counts[piece] == self.asked.pieces[piece].pods.len())
    }

    /// Puts as many pods of these pieces as come to a part, or to any.
    fn fill_all(&mut self, pieces: &[usize], part: Option<(usize, u32)>) {
        for piece in pieces {
            self.fill(*piece, part);
        }
    }

    fn fill(&mut self, piece: usize, part: Option<(usize, u32)>) {
        let Piece { group, pods, .. } = self.asked.pieces[piece];
        let among = part.map(|(level, part)| &*self.parts[&level][&part].cells);
        let sample = &self.asked.request.groups[group].sample;
        let nodes = &self.asked.nodes[group];
        let mut line = Line::new(
            self.asked.cells,
            (group, piece),
            nodes,
            self.limits,
            self.cluster,
            (sample, among),
        );
        let mut come: Vec<usize> = Vec::new();
        while let Some(pod) = pods.get(self.counts[piece]) {
            let Some((cell, rank)) = line.next(self.cluster, pod) else { break };
            let occupant = self.cluster.put(rank, pod);
            self.put.push(Put { occupant, rank, piece, cell });
            *self.slots.entry((piece, cell)).or_default() += 1;
            self.counts[piece] += 1;
            line.placed(self.cluster, cell);
            come.push(cell);
        }
        for cell in come {
            self.count_in_parts(cell, true);
        }
    }

    fn count_in_parts(&mut self, cell: usize, comes: bool) {
        for (level, parts) in &mut self.parts {
            let of_part =
                self.asked.cells.parts[cell][*level].and_then(|part| parts.get_mut(&part));
            if let Some(of_part) = of_part {
                of_part.taken = if comes { of_part.taken + 1 } else { of_part.taken - 1 };
            }
        }
    }

    /// Takes all pods away but the first ones.
    fn take_away_from(&mut self, first: usize) {
        for Put { occupant, rank, piece, cell } in self.put.split_off(first).into_iter().rev() {
            self.counts[piece] -= 1;
            let pod = &self.asked.pieces[piece].pods[self.counts[piece]];
            self.cluster.take_away(occupant, rank, &pod.shape);
            self.limits.take_away(piece, &self.asked.cells.parts[cell]);
            if let Some(count) = self.slots.get_mut(&(piece, cell)) {
                *count -= 1;
                if *count == 0 {
                    self.slots.remove(&(piece, cell));
                }
            }
            self.count_in_parts(cell, false);
        }
    }

    /// Puts the pods of a unit into the first part that takes all of them, else into the one that
    /// takes most. `None` if none takes any.
    fn choose_part(&mut self, pieces: &[usize], level: usize, order: PartOrder) -> Option<u32> {
        let mut best: Option<(usize, u32)> = None;
        let before = self.put.len();
        for part in self.parts_for(pieces, level, order) {
            self.fill_all(pieces, Some((level, part)));
            if self.is_complete(pieces.iter().copied()) {
                return Some(part);
            }
            let come = self.put.len() - before;
            self.take_away_from(before);
            if self.only_fills_up() {
                self.too_full.extend(
                    self.kind_of(pieces).map(|(group, want, pods)| (group, want, pods, part)),
                );
            } else if come > 0 && best.is_none_or(|(most, _)| come > most) {
                best = Some((come, part));
            }
        }
        let (_, part) = best?;
        self.fill_all(pieces, Some((level, part)));
        Some(part)
    }

    /// True if a part that has not taken a pod takes none after others have come either.
    fn only_fills_up(&self) -> bool {
        !self.asked.request.depends_on_order() && !self.limits.has_skew()
    }

    /// What pieces have in common of which it does not matter which comes first.
    fn kind_of(&self, pieces: &[usize]) -> Option<(usize, usize, usize)> {
        let &[piece] = pieces else { return None };
        let Piece { group, want, pods, .. } = self.asked.pieces[piece];
        Some((group, want, pods.len()))
    }

    /// The parts that have room for these pieces, as far as each of them goes alone, in the order
    /// in which they are tried.
    fn parts_for(&mut self, pieces: &[usize], level: usize, order: PartOrder) -> Vec<u32> {
        let kind = self.kind_of(pieces);
        let parts: Vec<u32> = self.parts[&level].keys().copied().collect();
        let mut in_order: Vec<(i64, i64, u32)> = Vec::new();
        for part in parts {
            if kind.is_some_and(|(group, want, pods)| {
                self.too_full.contains(&(group, want, pods, part))
            }) {
                continue;
            }
            let rooms: Vec<u64> =
                pieces.iter().map(|piece| self.room(*piece, level, part)).collect();
            if pieces
                .iter()
                .zip(&rooms)
                .any(|(piece, room)| *room < self.asked.pieces[*piece].pods.len() as u64)
            {
                continue;
            }
            let taken = self.parts[&level][&part].taken;
            let left = i64::try_from(rooms[0].saturating_sub(taken)).unwrap_or(i64::MAX);
            let by_room = if order == PartOrder::Tightest { left } else { -left };
            in_order.push((self.crowding(pieces[0], level, part), by_room, part));
        }
        in_order.sort_unstable();
        in_order.into_iter().map(|(.., part)| part).collect()
    }

    /// Returns how crowded a part is for a piece, by its least crowded cells.
    fn crowding(&mut self, piece: usize, level: usize, part: u32) -> i64 {
        let group = self.asked.pieces[piece].group;
        let crowd = self.cluster.crowd_for_scores(&self.asked.request.groups[group].sample);
        let cells = self.parts[&level][&part].families.iter();
        let costs = cells.map(|cell| {
            self.asked.cells.cost(*cell, (group, piece), self.limits, self.cluster, crowd)
        });
        costs.min().unwrap_or(i64::MAX)
    }

    /// Returns how many pods like those of the piece the part has room for, without the pods that
    /// this trial had put there before the first call.
    fn room(&mut self, piece: usize, level: usize, part: u32) -> u64 {
        let Piece { group, want, .. } = self.asked.pieces[piece];
        if let Some(known) = self.rooms.get(&(group, want, part)) {
            return *known;
        }
        let shape = Arc::clone(&self.asked.request.groups[group].wants[want].shape);
        let OfPart { cells, taken, .. } = &self.parts[&level][&part];
        let ranks = cells.iter().flat_map(|cell| self.asked.cells.nodes[*cell].iter().copied());
        let ranks = ranks.filter(|rank| self.asked.nodes[group].contains(*rank));
        let free: u64 =
            ranks.map(|rank| self.cluster.nodes().room(rank, &shape)).fold(0, u64::saturating_add);
        let room = free.saturating_add(*taken);
        self.rooms.insert((group, want, part), room);
        room
    }
}
