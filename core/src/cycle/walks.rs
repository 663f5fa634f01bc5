//! The walk over the queue that is under way, and the progress of the review and the audit, which
//! run when there is no reason for a walk.

use std::collections::{BTreeMap, BTreeSet};

use fluxion_sys::FunctionTable;

use crate::event::Event;
use crate::jobs::order::PodOrder;
use fluxqueue_machine::ledger::Allocations;
use fluxqueue_planner::plan::{Kept, Walking};
use fluxqueue_planner::queue::{ClassId, JobId, PendingRequest, Place};
use fluxqueue_workload::{NodeName, ObjectKey, Time, Uid};

/// The walk over the queue: the one under way, and the state that the last one saw. The review and
/// the audit are here too: they run when there is no reason for a walk.
pub(crate) struct Walks {
    /// A walk that is not over yet.
    pub under_way: Option<Box<UnderWay>>,
    /// The number of consecutive walks that have moved reservations without news. The next walk,
    /// which looks at the nodes they left behind, comes soon.
    pub unsettled: u32,
    /// True if that walk is due in this step.
    pub settles: bool,
    /// The versions that the last walk saw: while neither of them changes, only new requests are
    /// tried.
    pub seen_changes: u64,
    pub seen_crowds: u64,
    pub review: Review,
    pub audit: Audit,
    /// True until the promises of an earlier process are put back, before the first walk.
    pub has_promises_to_put_back: bool,
    /// The events that arrived during a walk that is over, and are taken up next.
    pub arrived: Vec<Event>,
}

impl Walks {
    /// Makes one that has seen nothing yet. `library` rebuilds the graph when it is lost.
    pub(crate) fn new(library: FunctionTable) -> Self {
        Walks {
            under_way: None,
            unsettled: 0,
            settles: false,
            seen_changes: 0,
            seen_crowds: 0,
            review: Review::default(),
            audit: Audit::new(library),
            has_promises_to_put_back: false,
            arrived: Vec::new(),
        }
    }
}

/// A walk over the queue, and the data that belongs to it from its beginning to its end.
pub(crate) struct UnderWay {
    pub walking: Walking<Allocations>,
    /// The time at which it began. The walk plans as of this time until it ends.
    pub now: Time,
    /// The number of changes to allocations when it began.
    pub changes: u64,
    /// True if there were promises when it began.
    pub was_promised: bool,
    /// True if no pod may start beside it: it is the first walk of this process, or it repeats the
    /// promises that are not on record, and until it is over not every node is kept for its future
    /// job.
    pub excludes_others: bool,
    /// The requests with promises that this walk makes again, or that are broken.
    pub lost: Vec<PendingRequest>,
    /// The requests that had come in ahead of others since the last walk.
    pub ahead: Vec<PendingRequest>,
    /// The requests that had come since the last walk, by class.
    pub arrivals: BTreeMap<ClassId, BTreeSet<Place>>,
    pub meanwhile: Meanwhile,
}

/// The events that arrive while a walk is under way.
#[derive(Default)]
pub(crate) struct Meanwhile {
    /// The events that wait to be taken up.
    pub events: Vec<Event>,
    /// The pods, FluxJobs and nodes that these events are about.
    pub pods: BTreeSet<Uid>,
    pub records: BTreeSet<ObjectKey>,
    pub nodes: BTreeSet<NodeName>,
    /// True if one of these events may matter to every job.
    pub concerns_all: bool,
    /// The lone pods that came and were taken up, and were not tried yet.
    pub came: Vec<Uid>,
    /// The classes of lone pods in which one was tried and did not fit.
    pub tried: BTreeSet<ClassId>,
    /// How many times in a row the walk was put off.
    pub yields: u32,
}

/// The progress of the audit.
pub(crate) struct Audit {
    /// The library that rebuilds the graph.
    pub library: FunctionTable,
    /// The last node and the last job that this round has visited.
    pub last: Option<NodeName>,
    pub last_job: Option<JobId>,
    /// A job with more pods than one look visits, and the progress of its check.
    pub unfinished: Option<(JobId, Seen)>,
    /// The number of looks so far.
    pub looks: u64,
    /// The earliest time at which the next job that contradicts itself may be rebuilt.
    pub rebuilds_from: Time,
}

impl Audit {
    /// Makes an audit that has visited nothing yet.
    pub(crate) fn new(library: FunctionTable) -> Self {
        Audit {
            library,
            last: None,
            last_job: None,
            unfinished: None,
            looks: 0,
            rebuilds_from: Time(0),
        }
    }
}

/// The progress of the review.
#[derive(Debug, Default)]
pub(crate) struct Review {
    /// The time of the last walk that had another reason.
    pub walked_at: Time,
    /// The last class that was reviewed.
    pub last: Option<ClassId>,
    /// True if some classes are to be reviewed in this step.
    pub is_due: bool,
    /// True if the walk that follows is the first of the review.
    pub is_begin: bool,
    /// The promises on record when all others were last promised again, if nothing has happened
    /// since but the consequences of that.
    pub on_record: Option<BTreeMap<PendingRequest, Kept>>,
}

/// The progress of a check of one job's pods: a job may have more pods than one look visits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Seen {
    /// The last visited pod of those that count as alive.
    pub alive: Option<PodOrder>,
    /// The last visited pod of all, once those that count as alive have been visited.
    pub of_all: Option<Uid>,
    pub has_seen_alive: bool,
}

impl Meanwhile {
    pub(crate) fn keep(&mut self, event: Event, fuller: Option<NodeName>) {
        self.nodes.extend(fuller);
        match &event {
            Event::Pod(pod) => drop(self.pods.insert(pod.id.uid.clone())),
            Event::PodGone(id) => drop(self.pods.insert(id.uid.clone())),
            Event::FluxJob(object) => {
                let (namespace, name) =
                    (object.metadata.namespace.as_deref(), object.metadata.name.as_deref());
                self.records.insert(ObjectKey::new(
                    namespace.unwrap_or_default(),
                    name.unwrap_or_default(),
                ));
            }
            Event::Node(_)
            | Event::NodeGone(..)
            | Event::Controller(_)
            | Event::ControllerGone(_)
            | Event::FluxJobGone(_)
            | Event::Quota(_)
            | Event::QuotaGone(_)
            | Event::ClockOffset(_)
            | Event::Synced
            | Event::Done(..) => {}
            Event::PriorityClass(_)
            | Event::PriorityClassGone(_)
            | Event::DeviceClass(_)
            | Event::DeviceClassGone(_)
            | Event::PodGroup(_)
            | Event::PodGroupGone(_)
            | Event::PodGroupsHidden(_)
            | Event::Workload(_)
            | Event::WorkloadGone(_)
            | Event::Queue(_)
            | Event::QueueGone(_)
            | Event::Namespace(_)
            | Event::NamespaceGone(_)
            | Event::Storage(_) => self.concerns_all = true,
        }
        self.events.push(event);
    }
}
