//! The search for places of all pods of a request at once.
//!
//! - `places`: the search as a whole: it proposes places, checks each pod there, and begins again
//!   without a place that a pod cannot have
//! - `better_parts` and `domains`: the parts of levels, and the domains, that are proposed first
//! - `trial` and `ways`: pods that are put on nodes one after the other, by the rules that they
//!   have about each other; on `pieces`, `cells`, `line` and `limits`
//! - `booking`: the question to the graph, and the check of each pod where it is
//! - `excluding`: pods that are kept from single nodes
//! - `together`, `kept_away` and `enough`: places on a machine on which everything with an end has
//!   ended, and the nodes that are held for requests that wait

mod better_parts;
mod booking;
mod cells;
mod domains;
mod enough;
mod excluding;
mod kept_away;
mod limits;
mod line;
mod pieces;
mod places;
mod together;
mod trial;
mod ways;

pub(super) use enough::{are_enough_some_day, fewest_that_are_enough, still_enough_of};
pub(super) use kept_away::nodes_waited_for;
pub(super) use places::{nodes_for_all, place, place_as_preferred, place_in_better_parts};
pub(super) use together::some_day;
