//! Where slots of pool units fit: rows of columns, without a walk. Pure search, nothing is taken.

pub(crate) mod candidates;
pub(crate) mod flat;
