//! From a slot to a Binding: volumes, nominations, the writes that leave, and their outcomes.

pub(crate) mod beginning;
pub(crate) mod dispatch;
pub(crate) mod mounting;
pub(crate) mod nominating;
pub(crate) mod refused;
pub(crate) mod releasing;

use crate::agenda::Agenda;
use crate::intake::Intake;
use crate::jobs::clock::Clock;
use crate::jobs::registry::Jobs;
use crate::occupancy::Occupancy;
use crate::records::Records;
use crate::settings::CoreSettings;
use fluxqueue_planner::Planner;
use fluxqueue_planner::queues::Queues;

/// Sends Bindings and the writes that have to come before them, and hears how they ended.
pub(crate) struct Binding<'a> {
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
