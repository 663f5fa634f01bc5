//! The largest flow from shapes through groups of rows, by Dinic's method.

use super::problem::STEPS_MAX;

/// What flows from shapes, each with a supply, to groups, each with a capacity.
#[derive(Debug)]
pub(super) struct Network {
    shapes: usize,
    /// By node, positions in `edges`. Node 0 is the source, node 1 the sink; shapes follow, then
    /// groups.
    at: Vec<Vec<usize>>,
    /// In pairs: an edge, and the way back.
    edges: Vec<Edge>,
    /// Steps so far.
    pub(super) steps: usize,
}

#[derive(Debug, Clone, Copy)]
struct Edge {
    to: usize,
    left: u128,
}

const SOURCE: usize = 0;
const SINK: usize = 1;

impl Network {
    /// `steps` were taken before, and count.
    pub(super) fn new(supplies: impl Iterator<Item = u128>, steps: usize) -> Self {
        let mut network = Network { shapes: 0, at: vec![Vec::new(); 2], edges: Vec::new(), steps };
        for supply in supplies {
            network.at.push(Vec::new());
            network.edge(SOURCE, 2 + network.shapes, supply);
            network.shapes += 1;
        }
        network
    }

    /// A group that takes at most `most` in all, and a bounded number of each shape.
    pub(super) fn group(&mut self, most: u128, of_shapes: impl Iterator<Item = (usize, u128)>) {
        let group = self.at.len();
        self.at.push(Vec::new());
        for (shape, most) in of_shapes {
            self.edge(2 + shape, group, most);
        }
        self.edge(group, SINK, most);
    }

    fn edge(&mut self, from: usize, to: usize, capacity: u128) {
        self.steps += 1;
        self.at[from].push(self.edges.len());
        self.edges.push(Edge { to, left: capacity });
        self.at[to].push(self.edges.len());
        self.edges.push(Edge { to: from, left: 0 });
    }

    /// Whether all that is supplied flows; `None`: the steps, at most `left` more, did not suffice
    /// to tell.
    pub(super) fn saturate(&mut self, left: u64) -> Option<bool> {
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let most = self.steps.saturating_add(left).min(STEPS_MAX);
        let supplied: u128 = self.at[SOURCE].iter().map(|edge| self.edges[*edge].left).sum();
        let mut flow = 0;
        loop {
            let levels = self.levels();
            if levels[SINK] == usize::MAX {
                return Some(flow == supplied);
            }
            let mut next = vec![0; self.at.len()];
            loop {
                if self.steps > most {
                    return None;
                }
                match self.push(SOURCE, u128::MAX, &levels, &mut next) {
                    0 => break,
                    more => flow += more,
                }
            }
        }
    }

    /// What flows into a group, by shape; groups are counted in the order in which they were made.
    pub(super) fn to_group(&self, group: usize) -> impl Iterator<Item = (usize, u128)> + '_ {
        let edges = self.at[2 + self.shapes + group].iter().map(|edge| self.edges[*edge]);
        // What came in can be sent back.
        edges.filter(|edge| edge.to != SINK).map(|edge| (edge.to - 2, edge.left))
    }

    /// How far each node is from the source; `usize::MAX`: it cannot be reached.
    fn levels(&mut self) -> Vec<usize> {
        let mut levels = vec![usize::MAX; self.at.len()];
        levels[SOURCE] = 0;
        let mut queue = vec![SOURCE];
        let mut head = 0;
        while let Some(&node) = queue.get(head) {
            head += 1;
            self.steps += self.at[node].len();
            for edge in self.at[node].iter().map(|edge| self.edges[*edge]) {
                if edge.left > 0 && levels[edge.to] == usize::MAX {
                    levels[edge.to] = levels[node] + 1;
                    queue.push(edge.to);
                }
            }
        }
        levels
    }

    /// Sends up to `most` from a node to the sink, along one path. Paths are as long as there are
    /// shapes and groups in turn.
    fn push(&mut self, node: usize, most: u128, levels: &[usize], next: &mut [usize]) -> u128 {
        if node == SINK {
            return most;
        }
        while let Some(&edge) = self.at[node].get(next[node]) {
            self.steps += 1;
            let Edge { to, left } = self.edges[edge];
            if left > 0 && levels[to] == levels[node] + 1 {
                let sent = self.push(to, most.min(left), levels, next);
                if sent > 0 {
                    self.edges[edge].left -= sent;
                    self.edges[edge ^ 1].left += sent;
                    return sent;
                }
            }
            next[node] += 1;
        }
        0
    }
}
