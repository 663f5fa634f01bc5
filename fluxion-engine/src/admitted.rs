//! Which nodes a constraint admits, remembered for the constraints asked about last: jobs of
//! one kind come in a row.

use std::cell::RefCell;
use std::sync::Arc;

use crate::bits::Bits;
use crate::constraint::Constraint;

/// The number of constraints that are remembered.
const CONSTRAINTS_MAX: usize = 16;

/// Positions of nodes by constraint, the latest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Admitted(RefCell<Vec<(Constraint, Arc<Bits>)>>);

impl Admitted {
    /// The positions that a constraint admits; `find` tells, if they are not remembered.
    pub(crate) fn get(&self, constraint: &Constraint, find: impl FnOnce() -> Bits) -> Arc<Bits> {
        let mut known = self.0.borrow_mut();
        if let Some(at) = known.iter().position(|(other, _)| other == constraint) {
            known[..=at].rotate_right(1);
            return Arc::clone(&known[0].1);
        }
        let bits = Arc::new(find());
        known.truncate(CONSTRAINTS_MAX - 1);
        known.insert(0, (constraint.clone(), Arc::clone(&bits)));
        bits
    }

    /// Nodes or properties have changed.
    pub(crate) fn forget(&mut self) {
        self.0.get_mut().clear();
    }
}
