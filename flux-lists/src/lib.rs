//! Sets of ids and lists of host names as text: RFC 22 and RFC 29 of the Flux project.
//!
//! Both are read in two dialects: that of the RFC, for texts of users and of this project, and that
//! of flux-sched, for its documents. A table in each module says in what they differ. Short texts
//! can stand for much: each reader bounds its answer before it makes any of it, or answers ranges.

pub mod hostlist;
pub mod idset;
