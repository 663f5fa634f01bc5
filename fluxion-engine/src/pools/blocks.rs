//! The most that any of 64 nodes has free, so that blocks without room are passed over.

use std::cell::RefCell;

use super::by_node::ByNode;
use super::timeline::Timelines;

/// Rows of a block.
const ROWS: usize = 64;

/// Per block, the most that any of its nodes has free of each column now, and then the most that
/// lasts; `None`: to be looked up.
#[derive(Debug, Clone, Default)]
pub(super) struct Blocks(RefCell<Vec<Option<Box<[u64]>>>>);

impl Blocks {
    /// Notes that a row has changed.
    pub(super) fn note(&mut self, row: usize) {
        if let Some(block) = self.0.get_mut().get_mut(row / ROWS) {
            *block = None;
        }
    }

    /// Drops all that is known.
    pub(super) fn forget(&mut self) {
        self.0.get_mut().clear();
    }

    /// Whether the most that any node of a block has is enough. `lasting`: not only now.
    pub(super) fn have(
        &self,
        (by_node, timelines): (&ByNode, &Timelines),
        block: usize,
        needs: &[(usize, u64)],
        lasting: bool,
    ) -> bool {
        let mut maxima = self.0.borrow_mut();
        if block >= maxima.len() {
            maxima.resize(block + 1, None);
        }
        let width = by_node.columns().len().max(1);
        let most = maxima[block].get_or_insert_with(|| {
            let mut most = vec![0_u64; 2 * width].into_boxed_slice();
            for row in block * ROWS..by_node.nodes().len().min((block + 1) * ROWS) {
                for (at, column) in by_node.columns().iter().enumerate() {
                    let now = column.free()[row];
                    most[at] = most[at].max(now);
                    if now > most[width + at] {
                        let lasting = timelines.lasting(by_node, row, now, at);
                        most[width + at] = most[width + at].max(lasting);
                    }
                }
            }
            most
        });
        let from = if lasting { width } else { 0 };
        needs.iter().all(|(column, amount)| most[from + column] >= *amount)
    }
}
