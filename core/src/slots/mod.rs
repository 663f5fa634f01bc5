//! Slots: given to pods, planned, and taken back.

pub(crate) mod assigning;
pub(crate) mod charging;
pub(crate) mod ends;
pub(crate) mod following;
pub(crate) mod nominations;
pub(crate) mod resting;
pub(crate) mod restoring;
pub(crate) mod retaining;
pub(crate) mod settling;
pub(crate) mod starting;
pub(crate) mod volumes;
pub(crate) mod withdrawing;

use crate::agenda::Agenda;
use crate::intake::Intake;
use crate::jobs::clock::Clock;
use crate::jobs::registry::Jobs;
use crate::occupancy::Occupancy;
use crate::records::Records;
use crate::settings::CoreSettings;
use fluxqueue_planner::Planner;
use fluxqueue_planner::queues::Queues;

/// Gives slots to pods, plans their ends, and takes the slots back.
pub(crate) struct Slots<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub intake: &'a Intake,
    pub jobs: &'a mut Jobs,
    pub records: &'a mut Records,
    pub planner: &'a mut Planner,
    pub queues: &'a mut Queues,
    pub occupancy: &'a mut Occupancy,
    pub agenda: &'a mut Agenda,
}
