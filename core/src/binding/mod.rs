//! From a slot to a Binding: volumes, nominations, the writes that leave, and their outcomes.

pub(crate) mod beginning;
pub(crate) mod dispatch;
pub(crate) mod mounting;
pub(crate) mod nominating;
pub(crate) mod refused;
pub(crate) mod releasing;
pub(crate) mod suspects;
