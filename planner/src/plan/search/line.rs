//! The cells in the order in which pods of one want are put there: those with the fewest pods that
//! count first.
//!
//! A pod that comes to a host makes its whole rack more crowded. To avoid a look at all hosts of
//! the rack then, cells are in families ([`Cells::family`]): a family has its cells in the order of
//! their own costs, and a queue has the families in the order of their first cells. Both costs are
//! computed again when their turn comes, since cells only become more crowded.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::cells::Cells;
use super::limits::LevelLimits;
use fluxqueue_machine::cluster::{Cluster, CrowdId};
use fluxqueue_machine::fluxion::{Rank, RankSet};
use fluxqueue_machine::rules;
use fluxqueue_workload::Pod;

pub(super) struct Line<'a> {
    cells: &'a Cells,
    limits: &'a mut LevelLimits,
    group: usize,
    piece: usize,
    nodes: &'a RankSet,
    /// The class by which pods are counted for all of these. The line queries no other class
    /// meanwhile, so the cluster forgets none.
    crowd: Option<CrowdId>,
    /// Per family, its cells by what they have of their own.
    families: Vec<Family>,
    /// First cells of families, with their costs, at least one entry for each family that has
    /// cells. Entries with an outdated cost are skipped.
    waiting: BinaryHeap<Reverse<(i64, usize)>>,
    /// Cells that did not take a pod: they may when others have got more.
    put_off: Vec<usize>,
    has_placed: bool,
    /// Per cell, how many of its nodes are full.
    full: Vec<usize>,
}

#[derive(Default)]
struct Family {
    cells: BinaryHeap<Reverse<(i64, usize)>>,
    /// The entry with which it waits for its turn.
    waits_with: Option<(i64, usize)>,
}

impl<'a> Line<'a> {
    pub(super) fn new(
        cells: &'a Cells,
        (group, piece): (usize, usize),
        nodes: &'a RankSet,
        limits: &'a mut LevelLimits,
        cluster: &mut Cluster,
        (pod, among): (&Pod, Option<&[usize]>),
    ) -> Self {
        let mut families = Vec::new();
        families.resize_with(cells.family.iter().max().map_or(0, |last| last + 1), Family::default);
        let mut line = Line {
            cells,
            limits,
            group,
            piece,
            nodes,
            crowd: cluster.crowd_for_scores(pod),
            families,
            waiting: BinaryHeap::new(),
            put_off: Vec::new(),
            has_placed: true,
            full: vec![0; cells.nodes.len()],
        };
        match among {
            Some(cells) => cells.iter().for_each(|cell| line.queue(cluster, *cell)),
            None => (0..cells.nodes.len()).for_each(|cell| line.queue(cluster, cell)),
        }
        line
    }

    /// The cell may have its turn.
    fn queue(&mut self, cluster: &Cluster, cell: usize) {
        let own = self.own_cost(cluster, cell);
        self.families[self.cells.family[cell]].cells.push(Reverse((own, cell)));
        self.queue_family(cluster, self.cells.family[cell]);
    }

    /// The family waits for the turn of its first cell.
    fn queue_family(&mut self, cluster: &Cluster, family: usize) {
        if let Some(Reverse((own, cell))) = self.families[family].cells.peek().copied() {
            let turn = (self.common_cost(cluster, cell) + own, cell);
            if self.families[family].waits_with.is_none_or(|known| turn < known) {
                self.families[family].waits_with = Some(turn);
                self.waiting.push(Reverse(turn));
            }
        }
    }

    fn common_cost(&self, cluster: &Cluster, cell: usize) -> i64 {
        self.cells.common_cost(cell, (self.group, self.piece), self.limits, cluster, self.crowd)
    }

    fn own_cost(&self, cluster: &Cluster, cell: usize) -> i64 {
        self.cells.own_cost(cell, cluster, self.crowd)
    }

    /// Returns the cell that has its turn, and takes it out.
    fn first_cell(&mut self, cluster: &Cluster) -> Option<usize> {
        loop {
            let Reverse(turn) = self.waiting.pop()?;
            let family = self.cells.family[turn.1];
            if self.families[family].waits_with != Some(turn) {
                continue;
            }
            self.families[family].waits_with = None;
            while let Some(Reverse((own, cell))) = self.families[family].cells.peek().copied() {
                let now = self.own_cost(cluster, cell);
                if now == own {
                    break;
                }
                self.families[family].cells.pop();
                self.families[family].cells.push(Reverse((now, cell)));
            }
            let first =
                self.families[family].cells.peek().map(|Reverse((own, cell))| (*own, *cell));
            if first
                .is_some_and(|(own, cell)| (self.common_cost(cluster, cell) + own, cell) == turn)
            {
                self.families[family].cells.pop();
                self.queue_family(cluster, family);
                return Some(turn.1);
            }
            self.queue_family(cluster, family);
        }
    }

    /// A node for the pod; it may go there, and counts there for what levels let others do.
    pub(super) fn next(&mut self, cluster: &mut Cluster, pod: &Pod) -> Option<(usize, Rank)> {
        loop {
            let Some(cell) = self.first_cell(cluster) else {
                if self.put_off.is_empty() || !std::mem::take(&mut self.has_placed) {
                    return None;
                }
                for cell in std::mem::take(&mut self.put_off) {
                    self.queue(cluster, cell);
                }
                continue;
            };
            let of_cell = &self.cells.nodes[cell][self.full[cell]..];
            let has_room = |rank: &Rank| {
                self.nodes.contains(*rank) && rules::has_room(cluster, *rank, &pod.shape)
            };
            // A full cell is out of the line from now on.
            let Some(at) = of_cell.iter().position(has_room) else { continue };
            let rank = of_cell[at];
            self.full[cell] += at;
            if cluster.judge_neighbours(rank, pod).is_some() {
                self.put_off.push(cell);
                continue;
            }
            if !self.limits.put(self.piece, &self.cells.parts[cell]) {
                self.limits.take_away(self.piece, &self.cells.parts[cell]);
                self.put_off.push(cell);
                continue;
            }
            return Some((cell, rank));
        }
    }

    pub(super) fn placed(&mut self, cluster: &mut Cluster, cell: usize) {
        self.has_placed = true;
        self.queue(cluster, cell);
    }
}
