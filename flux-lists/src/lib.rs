//! Sets of ids and lists of host names as text: RFC 22 and RFC 29 of the Flux project.

pub mod hostlist;
pub mod idset;
