//! The cycle: takes up events, decides, and carries out. Here the core sees all of its parts.

pub(crate) mod audit;
pub(crate) mod consistency;
pub(crate) mod describe;
pub(crate) mod intake;
pub(crate) mod outcomes;
pub(crate) mod pass;
pub(crate) mod promises;
pub(crate) mod review;
pub(crate) mod under_way;
pub(crate) mod what_if;
