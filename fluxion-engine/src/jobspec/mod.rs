//! The request: a jobspec (RFC 14 and 25), with the counts and constraints that Fluxion knows,
//! and our own extras.
//!
//! In JSON or YAML. Reading is strict: an unknown key, one that stands twice, a wrong type or a
//! number out of range is refused with a text that names the field, and in YAML the line. Tasks are
//! checked for form and then forgotten: they never influence a match.

mod count;
mod extras;
mod fields;
mod read;
mod spec;

pub use count::{Count, Growth};
pub use spec::{Cap, Extras, Hold, Jobspec, LevelRule, Resource, SlotExtras, Within};

pub use crate::constraint::Constraint;
