//! The largest flow from shapes through groups of rows, by Dinic's method.

use super::problem::STEPS_MAX;

/// What flows from shapes, each with a supply, to groups, each with a capacity.
#[derive(Debug)]
pub(super) struct Network {
    shapes: usize,
    /// By node, positions in `pipes`. Node 0 is the source, node 1 the sink; shapes follow, then
    /// groups.
    at: Vec<Vec<usize>>,
    /// In pairs: a pipe, and the way back.
    pipes: Vec<Pipe>,
    /// Steps so far.
    pub(super) steps: usize,
}

/// A pipe of the network.
#[derive(Debug, Clone, Copy)]
struct Pipe {
    to: usize,
    /// How much more may flow through it.
    left: u128,
}

const SOURCE: usize = 0;
const SINK: usize = 1;

impl Network {
    /// `steps` were taken before, and count.
    pub(super) fn new(supplies: impl Iterator<Item = u128>, steps: usize) -> Self {
        let mut network = Network { shapes: 0, at: vec![Vec::new(); 2], pipes: Vec::new(), steps };
        for supply in supplies {
            network.at.push(Vec::new());
            network.pipe(SOURCE, 2 + network.shapes, supply);
            network.shapes += 1;
        }
        network
    }

    /// A group that takes at most `most` in all, and a bounded number of each shape.
    pub(super) fn group(&mut self, most: u128, of_shapes: impl Iterator<Item = (usize, u128)>) {
        let group = self.at.len();
        self.at.push(Vec::new());
        for (shape, most) in of_shapes {
            self.pipe(2 + shape, group, most);
        }
        self.pipe(group, SINK, most);
    }

    fn pipe(&mut self, from: usize, to: usize, capacity: u128) {
        self.steps += 1;
        self.at[from].push(self.pipes.len());
        self.pipes.push(Pipe { to, left: capacity });
        self.at[to].push(self.pipes.len());
        self.pipes.push(Pipe { to: from, left: 0 });
    }

    /// Whether all that is supplied flows; `None`: the steps, at most `left` more, did not suffice
    /// to tell.
    pub(super) fn saturate(&mut self, left: u64) -> Option<bool> {
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let most = self.steps.saturating_add(left).min(STEPS_MAX);
        let supplied: u128 = self.at[SOURCE].iter().map(|pipe| self.pipes[*pipe].left).sum();
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
        let pipes = self.at[2 + self.shapes + group].iter().map(|pipe| self.pipes[*pipe]);
        // What came in can be sent back.
        pipes.filter(|pipe| pipe.to != SINK).map(|pipe| (pipe.to - 2, pipe.left))
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
            for pipe in self.at[node].iter().map(|pipe| self.pipes[*pipe]) {
                if pipe.left > 0 && levels[pipe.to] == usize::MAX {
                    levels[pipe.to] = levels[node] + 1;
                    queue.push(pipe.to);
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
        while let Some(&pipe) = self.at[node].get(next[node]) {
            self.steps += 1;
            let Pipe { to, left } = self.pipes[pipe];
            if left > 0 && levels[to] == levels[node] + 1 {
                let sent = self.push(to, most.min(left), levels, next);
                if sent > 0 {
                    self.pipes[pipe].left -= sent;
                    self.pipes[pipe ^ 1].left += sent;
                    return sent;
                }
            }
            next[node] += 1;
        }
        0
    }
}
