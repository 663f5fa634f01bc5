//! Slots: given to pods, planned, and taken back.

pub(crate) mod assigning;
pub(crate) mod ends;
pub(crate) mod following;
pub(crate) mod nominations;
pub(crate) mod restoring;
pub(crate) mod starting;
pub(crate) mod volumes;
pub(crate) mod withdrawing;
