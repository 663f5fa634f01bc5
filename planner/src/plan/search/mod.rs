//! The search for places of all pods of a request at once.
//!
//! - `places`: the search as a whole: it proposes places, checks each pod there, and begins again
//!   without a place that a pod cannot have
//! - `better_parts` and `domains`: the parts of levels, and the domains, that are proposed first
//! - `trial` and `ways`: pods that are put on nodes one after the other, by the rules that they
//!   have about each other; on `pieces`, `cells`, `line` and `limits`
//! - `booking`: the question to the graph, and the check of each pod where it is
//! - `excluding`: pods that are kept from single nodes
//! - `together`: the search on a machine without all that ends
//! - `waiting`: the nodes for which a request waits, and those that are held for it

mod better_parts;
mod booking;
mod cells;
mod domains;
mod excluding;
mod limits;
mod line;
mod pieces;
mod places;
mod together;
mod trial;
mod waiting;
mod ways;

pub(super) use places::{nodes_for_all, place, place_as_preferred};
pub(super) use waiting::{
    are_enough_some_day, fewest_that_are_enough, nodes_waited_for, still_enough_of,
};
