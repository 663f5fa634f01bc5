//! Jobs and their pods, the objects that make these, and all answers that follow from them alone.

pub(crate) mod awaiting_owner;
pub(crate) mod by_node;
pub(crate) mod clock;
pub(crate) mod controllers;
pub(crate) mod device_classes;
pub(crate) mod exclusive;
pub(crate) mod expected;
pub(crate) mod grouping;
pub(crate) mod job;
pub(crate) mod levels;
pub(crate) mod nomination;
pub(crate) mod quotas;
pub(crate) mod registry;
pub(crate) mod releases;
pub(crate) mod roles;
pub(crate) mod scheduling_groups;
pub(crate) mod seats;
pub(crate) mod setbacks;
pub(crate) mod stage;
pub(crate) mod unready;
pub(crate) mod unsorted;
pub(crate) mod waves;
pub(crate) mod wishes;
