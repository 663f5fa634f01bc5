//! Several shapes, by searches that are exact as far as they go, and otherwise say that they gave
//! up.
//!
//! 1. *Flow* ([`components`]): slots flow from shapes to rows. This is exact if every row, taken by
//!    itself, takes slots in one simple way: a bounded number of each shape and a bounded number
//!    together. A row of which at most one slot can be used is such a row, and so is one on which
//!    the shapes are not in each other's way, or all take the same. For other rows it is a
//!    relaxation: what does not flow does not fit, and what flows fits if it happens to on each
//!    row.
//! 2. *Units* ([`components`]): for each pool and each cap, the units that slots take flow from
//!    shapes to rows. What does not flow does not fit.
//! 3. *Packing* ([`packing`]): row by row, all numbers of slots of the smaller shapes, with the
//!    most of the largest one beside them. Exact, and done only where it takes few steps.

mod components;
mod flow;
mod packing;
mod problem;
#[cfg(test)]
mod tests;

use problem::{Problem, STEPS_MAX};

use super::order::NodeOrder;
use super::request::{Outcome, SlotRequest};
use crate::bits::Bits;
use crate::effort::Effort;
use crate::pools::Free;

/// More shapes are not searched for: a path along which slots flow may lead through all of them.
const SHAPES_MAX: usize = 500;

/// Looks for a place for all shapes of a request on the rows of each.
pub(super) fn search(
    request: &SlotRequest<'_>,
    free: &Free<'_>,
    rows: &[Bits],
    order: &NodeOrder<'_>,
) -> Outcome {
    let shapes = request.shapes.len();
    let of_row = shapes.saturating_mul(request.kinds.len() + request.caps.len());
    let reading = Bits::union(rows).count().saturating_mul(of_row);
    if shapes > SHAPES_MAX || reading > STEPS_MAX || !free.effort().take(reading as u64) {
        return Outcome::GaveUp;
    }
    let mut problem = Problem::of(request, free, rows);
    if matches!(order, NodeOrder::Down) {
        for class in &mut problem.classes {
            class.rows.reverse();
        }
        problem.classes.reverse();
    }
    solve(&problem, free.effort())
}

/// Solves it by flow, then by units, then by packing.
fn solve(problem: &Problem, effort: &Effort) -> Outcome {
    let by_flow = problem.by_flow(effort);
    if by_flow != Outcome::GaveUp {
        return by_flow;
    }
    if !problem.units_flow(effort) {
        return Outcome::Impossible;
    }
    problem.pack(effort)
}
