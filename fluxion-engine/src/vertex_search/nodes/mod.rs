//! Which nodes could serve a request, best first, without a walk over the machine.
//!
//! # How
//!
//! Nodes stand in the order of their ids. A node's row tells the free resources there now: whether
//! a job is on it, how many vertices of each type are free, and when something of it comes free
//! next. A tree of maxima ([`crate::maxima`]) over the rows finds the next node that could serve;
//! [`plan`] tells the needs of a request of a node, and how its candidates are scored; [`search`]
//! looks into one node after the other, with the very code of the walk, until no node that is left
//! could be better than those that have been found.
//!
//! A row may promise too much, never too little: a node that is passed over is one that the walk
//! would leave without a candidate. So the outcome is that of a walk over all nodes. Where
//! that hangs on how equal scores happen to be sorted among all candidates, the search gives up,
//! and the walk is taken.
//!
//! Rows are brought up to date when a match begins: for nodes on which a vertex was taken, given
//! back or marked since, and for those on which a job was to end by now.

mod answer;
mod index;
mod kept;
mod kinds;
pub(crate) mod lists;
pub(crate) mod outlook;
mod places;
mod plan;
pub(crate) mod search;

pub(crate) use answer::Answer;
pub(crate) use index::NodeIndex;
pub(crate) use plan::Plan;
