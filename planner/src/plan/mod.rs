//! The plan: one walk over the queue decides which requests start, and why each of the others
//! waits.
//!
//! - `walk`: a walk goes by the queue policies: `in_order` is first come, first served;
//!   `backfill` has the policies with reservations
//! - `capacity` and `promising`: the questions of a walk about the machine, and the places that
//!   can be kept for later
//! - `live`: the real machine answers them, within the limits of queues
//! - `room`: the nodes that a group may use; on it builds `search`, which finds places for pods,
//!   and the nodes that are held for those that wait
//! - `request` and `group`: pods that ask for slots together; `terms`: all that a pod asks for
//!   beside room
//!
//! A walk is a function: its only effect is on the [`Capacity`] of its call, where the requests
//! that start have their slots afterwards. A request is tried again only if something that its last
//! answer rests on has changed; requests of one class get one answer. The plan explains nothing to
//! people: the core does that.

mod attempt;
mod backfill;
#[cfg(test)]
mod backfill_tests;
mod capacity;
mod claims;
mod effort;
mod group;
mod heads;
mod in_order;
mod live;
mod memory;
mod nodes;
mod outcome;
mod pods;
mod progress;
pub(crate) mod promising;
pub(crate) mod request;
mod resting;
mod room;
mod search;
mod terms;
#[cfg(test)]
mod tests;
mod walk;

pub use crate::policies::{Depths, Policies, QueueDefaults, QueuePolicy};
pub use attempt::{Attempt, Standing};
pub use capacity::{Capacity, Limited, Requests, Version};
pub use claims::Claims;
pub use effort::Effort;
pub use group::{Group, slice_size};
pub use live::{Live, PUT_OFF_SECONDS};
pub use outcome::Outcome;
pub use pods::Pods;
pub use progress::{Decision, News, Pending, Plan};
pub use promising::{Booking, Delay, Kept, Late, Promising, Remade, Reserved, reserve_again};
pub use request::{Request, RequestKey, Same, SlotKey};
pub use room::Room;
pub use terms::Terms;
pub(crate) use walk::walk;
pub use walk::{Walking, confirm, is_behind};
