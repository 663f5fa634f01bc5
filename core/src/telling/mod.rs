//! Reports about jobs: reasons, positions, Events, the state and the numbers.

pub(crate) mod blockers;
pub(crate) mod closed;
pub(crate) mod cramped;
pub(crate) mod delay;
pub(crate) mod explain;
pub(crate) mod holders;
pub(crate) mod limits;
pub(crate) mod lost;
pub(crate) mod obstacle;
pub(crate) mod outlook;
pub(crate) mod outside;
pub(crate) mod positions;
pub(crate) mod readers;
pub mod report;
pub(crate) mod shortage;
pub(crate) mod unready;
pub(crate) mod words;

use std::collections::VecDeque;
use std::sync::Arc;

use shared_map::SharedMap;

use blockers::Blockers;
use positions::Positions;

use crate::agenda::Agenda;
use crate::jobs::clock::Clock;
use crate::jobs::registry::Jobs;
use crate::occupancy::Occupancy;
use crate::settings::CoreSettings;
use fluxqueue_planner::Planner;
use fluxqueue_planner::queue::{ClassId, PendingRequest, Place};
use fluxqueue_planner::queues::Queues;
use fluxqueue_workload::Time;

/// Finds words for the outcome of an attempt: why a request waits, and at which place.
pub(crate) struct Telling<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub jobs: &'a mut Jobs,
    pub planner: &'a mut Planner,
    pub queues: &'a Queues,
    pub occupancy: &'a Occupancy,
    pub reporting: &'a mut Reporting,
    pub agenda: &'a mut Agenda,
}

/// A class that is to be reported, and the progress of that.
#[derive(Debug)]
pub(crate) struct Report {
    pub class: ClassId,
    /// The first request that has not been reported.
    pub from: Option<Place>,
}

/// The last words about a class of requests: its requests have them, or get them in turn.
#[derive(Debug)]
pub(crate) struct Reported {
    /// The first request of the class at that time.
    pub head: PendingRequest,
    /// The blockers of that request.
    pub blockers: Blockers,
    pub at: Time,
}

/// The reports that are still to be made to waiting requests.
#[derive(Default)]
pub(crate) struct Reporting {
    /// The reports about classes, as far as there is a last attempt at one of their requests. Some
    /// are of classes that are gone; they are forgotten from time to time.
    pub reported: SharedMap<ClassId, Arc<Reported>>,
    /// The number of reports beyond which those about classes that are gone are forgotten.
    pub reported_max: usize,
    /// The classes of requests that are to learn why they wait.
    pub reports: VecDeque<Report>,
    pub positions: Positions,
}
