//! The search over slots: where slots of pool units fit, in rows of columns, without a walk. Pure
//! search, nothing is taken.

pub(crate) mod candidates;
pub(crate) mod flat;
