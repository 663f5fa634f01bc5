//! PriorityClasses.

use std::sync::Arc;

use crate::ids::Uid;

/// A PriorityClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriorityClass {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Uid,
    /// The priority of pods that name it.
    pub value: i32,
    /// True if pods that name none have it.
    pub is_default: bool,
}
