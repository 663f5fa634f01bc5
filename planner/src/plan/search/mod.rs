//! The search for places of all pods of a request at once.
//!
//! - `places`: the search as a whole: it proposes places, checks each pod there, and asks again
//!   without a place that a pod cannot have
//! - `better_parts`: the parts of levels that come first
//! - `proposals`: places by the graph, by a trial, or by a search through all ways
//! - `trial` and `ways`: pods that are put on nodes one after the other, by the rules that they
//!   have about each other; on `pieces`, `cells`, `line` and `limits`
//! - `domains`: the domains of which pods that are to be near to each other need one
//! - `together`, `kept_away` and `enough`: places on a machine on which everything with an end has
//!   ended, and the nodes that are held for requests that wait

mod better_parts;
mod cells;
mod domains;
mod enough;
mod kept_away;
mod limits;
mod line;
mod pieces;
mod places;
mod proposals;
mod together;
mod trial;
mod ways;

pub(super) use better_parts::place_in_better_parts;
pub(super) use enough::{are_enough_some_day, fewest_that_are_enough, still_enough_of};
pub(super) use kept_away::nodes_waited_for;
pub(super) use places::{nodes_by_trial, place};
pub(super) use proposals::place_as_preferred;
pub(super) use together::some_day;
