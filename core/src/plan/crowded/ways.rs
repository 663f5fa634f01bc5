//! All ways in which the pods of a request can come to cells one after the other, until one is found that keeps every rule.

use std::collections::HashSet;
use std::sync::Arc;

use super::limits::Limits;
use super::{Cells, Slots};
use crate::cluster::Cluster;
use crate::fluxion::{Rank, RankSet};
use crate::plan::Request;
use fluxqueue_workload::Pod;

/// How often it is looked what it would be for a pod to come to a cell.
const LOOKS_MAX: usize = 4_096;

/// A search, with what has been put where.
struct Search<'a> {
    nodes: &'a [RankSet],
    cells: &'a Cells,
    limits: &'a mut Limits,
    cluster: &'a mut Cluster,
    /// Per want its group, its place there, its pods, and how many of them have been put.
    wants: Vec<(usize, usize, &'a [Arc<Pod>], usize)>,
    slots: Slots,
    /// From where no way was found.
    dead_ends: HashSet<Slots>,
    looks: usize,
}

/// Slots for all pods; `None` if there is no way, or none was found within the bound.
pub(super) fn find(
    request: &Request,
    nodes: &[RankSet],
    cells: &Cells,
    limits: &mut Limits,
    cluster: &mut Cluster,
) -> Option<Slots> {
    if request.pods() * cells.nodes.len() > LOOKS_MAX {
        return None;
    }
    let groups = request.groups.iter().enumerate();
    let wants = groups
        .flat_map(|(at, group)| group.pods.iter().enumerate().map(move |(want, pods)| (at, want, pods.as_slice(), 0)));
    let (wants, slots, dead_ends) = (wants.collect(), Slots::new(), HashSet::new());
    let trial = cluster.begin_trial();
    let mut search = Search { nodes, cells, limits, cluster, wants, slots, dead_ends, looks: 0 };
    let found = search.goes_on().then_some(search.slots);
    cluster.end_trial(trial);
    found
}

impl Search<'_> {
    /// Whether there is a way from here. Pods are taken away again; the slots of a way stay counted.
    fn goes_on(&mut self) -> bool {
        if self.wants.iter().all(|(.., pods, put)| *put == pods.len()) {
            return true;
        }
        if self.dead_ends.contains(&self.slots) {
            return false;
        }
        for at in 0..self.wants.len() {
            let (group, want, pods, put) = self.wants[at];
            let Some(pod) = pods.get(put) else { continue };
            self.looks += self.cells.nodes.len();
            if self.looks > LOOKS_MAX {
                return false;
            }
            let crowd = self.cluster.crowd_for_scores(pod);
            let cost = |cell| self.cells.cost(cell, (group, want), self.limits, self.cluster, crowd);
            let mut cells: Vec<(i64, usize)> = (0..self.cells.nodes.len()).map(|cell| (cost(cell), cell)).collect();
            cells.sort_unstable();
            for (_, cell) in cells {
                if let Some(rank) = self.node(group, cell, pod) {
                    let occupant = self.cluster.put(rank, pod);
                    let found = self.is_way(at, cell);
                    self.cluster.take_away(occupant, rank, &pod.shape);
                    if found {
                        return true;
                    }
                }
            }
        }
        self.dead_ends.insert(self.slots.clone());
        false
    }

    /// Whether there is a way with the next pod of this want in the cell, where it is.
    fn is_way(&mut self, at: usize, cell: usize) -> bool {
        let (group, want, ..) = self.wants[at];
        let parts = &self.cells.parts[cell];
        self.wants[at].3 += 1;
        *self.slots.entry((group, want, cell)).or_default() += 1;
        let found = self.limits.put(group, want, parts) && self.goes_on();
        self.limits.take_away(group, want, parts);
        if found {
            return true;
        }
        self.wants[at].3 -= 1;
        if let Some(count) = self.slots.get_mut(&(group, want, cell)) {
            *count -= 1;
            if *count == 0 {
                self.slots.remove(&(group, want, cell));
            }
        }
        false
    }

    /// A node of the cell to which the pod may come.
    fn node(&mut self, group: usize, cell: usize, pod: &Pod) -> Option<Rank> {
        let (nodes, cluster) = (&self.nodes[group], &mut *self.cluster);
        let mut of_cell = self.cells.nodes[cell].iter().copied();
        let rank = of_cell.find(|rank| nodes.contains(*rank) && cluster.has_room(*rank, &pod.shape))?;
        cluster.judge_neighbours(rank, pod).is_none().then_some(rank)
    }
}
