//! When requests that wait are expected to start, and what a submission would come to.

pub(crate) mod estimates;
pub(crate) mod what_if;
