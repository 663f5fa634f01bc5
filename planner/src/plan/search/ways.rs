//! All ways in which the pods of a request can come to cells one after the other, until one is
//! found that keeps every rule: all orders of the pods, and for each pod all cells. In a cell the
//! first node with room counts.

use std::collections::HashSet;

use super::cells::{Found, PodCounts, Question};
use super::limits::LevelLimits;
use super::pieces::Piece;
use fluxqueue_machine::cluster::Cluster;
use fluxqueue_machine::fluxion::Rank;
use fluxqueue_machine::rules;
use fluxqueue_workload::Pod;

/// The pods put so far, regardless of which of several alike pieces they are from: per piece the
/// first of its kind, and how many of its pods are in which cells.
type State = Vec<(usize, Vec<(usize, usize)>)>;

/// Evaluations at most of a pod coming to a cell, in one search. It bounds the time of a search.
const LOOKS_MAX: usize = 4_096;

/// A search, with the pods that have been put so far.
struct Exhaustive<'a> {
    asked: Question<'a>,
    limits: &'a mut LevelLimits,
    cluster: &'a mut Cluster,
    /// Per piece the first one that is like it.
    kinds: Vec<usize>,
    /// Per piece how many of its pods have been put.
    put: Vec<usize>,
    slots: PodCounts,
    /// Those that have been put.
    seats: Vec<(usize, Rank)>,
    /// States from which no way was found.
    dead_ends: HashSet<State>,
    looks: usize,
}

/// Nodes for all pods; `None` if there is no way, or none was found within the bound.
pub(super) fn find(
    asked: Question<'_>,
    limits: &mut LevelLimits,
    cluster: &mut Cluster,
) -> Option<Found> {
    let Question { request, pieces, cells, .. } = asked;
    if request.pods() * cells.nodes.len() > LOOKS_MAX {
        return None;
    }
    let trial = cluster.begin_trial();
    let mut search = Exhaustive {
        asked,
        limits,
        cluster,
        kinds: kinds(pieces),
        put: vec![0; pieces.len()],
        slots: PodCounts::new(),
        seats: Vec::new(),
        dead_ends: HashSet::new(),
        looks: 0,
    };
    let is_found = search.goes_on();
    let found = is_found.then_some(Found { slots: search.slots, seats: search.seats });
    cluster.end_trial(trial);
    found
}

/// Slices of one want are alike if they have as many pods, and none elsewhere. A piece that is no
/// slice is like no other.
fn kinds(pieces: &[Piece<'_>]) -> Vec<usize> {
    let is_whole = |piece: &Piece<'_>| {
        piece.slice.is_some()
            && pieces.iter().filter(|other| other.slice == piece.slice).count() == 1
    };
    let is_like = |one: &Piece<'_>, other: &Piece<'_>| {
        (one.group, one.want, one.pods.len()) == (other.group, other.want, other.pods.len())
            && is_whole(one)
            && is_whole(other)
    };
    let first = |(at, piece): (usize, &Piece<'_>)| {
        pieces[..at].iter().position(|other| is_like(other, piece))
    };
    pieces.iter().enumerate().map(|piece| first(piece).unwrap_or(piece.0)).collect()
}

impl Exhaustive<'_> {
    /// True if there is a way from here. Pods are taken away again; the slots and seats of a way
    /// stay noted.
    fn goes_on(&mut self) -> bool {
        let is_missing = |at: &usize| self.put[*at] < self.asked.pieces[*at].pods.len();
        let mut missing: Vec<usize> = (0..self.asked.pieces.len()).filter(is_missing).collect();
        if missing.is_empty() {
            return true;
        }
        let (state, by_piece) = self.state();
        if self.dead_ends.contains(&state) {
            return false;
        }
        if self.asked.request.depends_on_order() {
            // Of those that are alike and are where the same are, it does not matter which gets the
            // next pod.
            let mut known = HashSet::new();
            missing.retain(|at| known.insert((self.kinds[*at], &by_piece[*at])));
        } else {
            // Any pod that may come in the end may come now.
            missing.truncate(1);
        }
        for at in missing {
            let Piece { group, pods, .. } = self.asked.pieces[at];
            let pod = &pods[self.put[at]];
            self.looks += self.asked.cells.nodes.len();
            if self.looks > LOOKS_MAX {
                return false;
            }
            let crowd = self.cluster.crowd_for_scores(pod);
            let cost =
                |cell| self.asked.cells.cost(cell, (group, at), self.limits, self.cluster, crowd);
            let mut cells: Vec<(i64, usize)> =
                (0..self.asked.cells.nodes.len()).map(|cell| (cost(cell), cell)).collect();
            cells.sort_unstable();
            for (_, cell) in cells {
                if let Some(rank) = self.node(group, cell, pod) {
                    let occupant = self.cluster.put(rank, pod);
                    self.seats.push((at, rank));
                    let found = self.is_way(at, cell);
                    self.cluster.take_away(occupant, rank, &pod.shape);
                    if found {
                        return true;
                    }
                    self.seats.pop();
                }
            }
        }
        self.dead_ends.insert(state);
        false
    }

    /// Returns the state, and its numbers per piece.
    fn state(&self) -> (State, Vec<Vec<(usize, usize)>>) {
        let mut by_piece = vec![Vec::new(); self.asked.pieces.len()];
        for ((piece, cell), count) in &self.slots {
            by_piece[*piece].push((*cell, *count));
        }
        let mut state: State = self.kinds.iter().copied().zip(by_piece.iter().cloned()).collect();
        state.sort_unstable();
        (state, by_piece)
    }

    /// True if there is a way with the next pod of this piece in the cell, where it is.
    fn is_way(&mut self, at: usize, cell: usize) -> bool {
        let parts = &self.asked.cells.parts[cell];
        self.put[at] += 1;
        *self.slots.entry((at, cell)).or_default() += 1;
        let found = self.limits.put(at, parts) && self.goes_on();
        self.limits.take_away(at, parts);
        if found {
            return true;
        }
        self.put[at] -= 1;
        if let Some(count) = self.slots.get_mut(&(at, cell)) {
            *count -= 1;
            if *count == 0 {
                self.slots.remove(&(at, cell));
            }
        }
        false
    }

    /// A node of the cell to which the pod may come.
    fn node(&mut self, group: usize, cell: usize, pod: &Pod) -> Option<Rank> {
        let (nodes, cluster) = (&self.asked.nodes[group], &mut *self.cluster);
        let mut of_cell = self.asked.cells.nodes[cell].iter().copied();
        let rank = of_cell
            .find(|rank| nodes.contains(*rank) && rules::has_room(cluster, *rank, &pod.shape))?;
        cluster.judge_neighbours(rank, pod).is_none().then_some(rank)
    }
}
