//! The executors: pools of workers that carry out the core's actions, and the bounded queues from
//! which they work.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::binder::{BindRequest, Binder};
use super::client::Clients;
use super::events::Announcer;
use super::fence::Fence;
use super::fenced::FencedClient;
use super::tasks::Tasks;
use super::throttle::wait_for_turn;
use super::trailing_statuses::TrailingStatuses;
use super::work_queue::WorkQueue;
use super::writer::{WriteRequest, Writer};
use crate::serve::{DepthSource, Metrics};
use fluxqueue_core::{ActionId, Note, Outcome, Urgency};

/// The most Bindings that may wait. The core has at most one per pod under way, so this is a number
/// of pods, above the number that a cluster holds (150,000); a request takes about 100 bytes.
const BIND_WAITING: usize = 200_000;

/// The most writes that may wait, per queue. The core has at most two per FluxJob (one urgent, one
/// trailing) and one per pod under way.
const WRITES_WAITING: usize = 300_000;

/// The most Events that may wait; more are dropped and counted.
const NOTES_WAITING: usize = 10_000;

/// The most urgent writes in flight. Bindings of whole gangs wait for each. The number is above
/// [`TRAILING_IN_FLIGHT`], since each of those can make one of these wait.
const URGENT_IN_FLIGHT: usize = 16;

/// The most trailing writes in flight while no Binding is.
const TRAILING_IN_FLIGHT: usize = 8;

/// The most Events in flight while no Binding is.
const NOTES_IN_FLIGHT: usize = 4;

/// The most outcomes on their way to the core. Workers wait when the channel is full, and the core
/// takes outcomes before anything else.
pub const OUTCOMES: usize = 1024;

/// The work queues of all pools.
#[derive(Debug)]
pub struct Executors {
    bindings: Arc<WorkQueue<BindRequest>>,
    urgent: Arc<WorkQueue<WriteRequest>>,
    trailing: Arc<WorkQueue<WriteRequest>>,
    notes: Arc<WorkQueue<Note>>,
    /// The writes in `trailing` that write a FluxJob's status.
    statuses: Arc<TrailingStatuses>,
    metrics: Arc<Metrics>,
}

/// The writes that were decided by queueing another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued {
    /// A trailing write that waited, and that the new one has replaced.
    pub replaced: Option<ActionId>,
    /// The new write itself, if too many wait.
    pub refused: Option<ActionId>,
}

/// The settings of the workers.
#[derive(Debug)]
pub struct ExecutorSettings {
    /// The most Bindings in flight.
    pub bind_concurrency: usize,
    /// The total time of one Binding.
    pub bind_timeout: std::time::Duration,
    /// The `reportingInstance` of Events.
    pub instance: String,
}

// === impl Executors ===

impl Executors {
    /// Creates queues without workers.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Executors {
            bindings: Arc::new(WorkQueue::new(BIND_WAITING)),
            urgent: Arc::new(WorkQueue::new(WRITES_WAITING)),
            trailing: Arc::new(WorkQueue::new(WRITES_WAITING)),
            notes: Arc::new(WorkQueue::new(NOTES_WAITING)),
            statuses: Arc::default(),
            metrics,
        }
    }

    /// Starts the workers. They end when the queues are closed.
    pub fn start(
        &self,
        tasks: &mut Tasks,
        settings: &ExecutorSettings,
        clients: &Clients,
        fence: Fence,
        outcomes: &mpsc::Sender<(ActionId, Outcome)>,
    ) {
        let binder = Arc::new(Binder {
            queue: Arc::clone(&self.bindings),
            outcomes: outcomes.clone(),
            client: FencedClient::new(clients.bind.clone(), fence.clone()),
            timeout: settings.bind_timeout,
            metrics: Arc::clone(&self.metrics),
        });
        for _ in 0..settings.bind_concurrency {
            tasks.spawn("binder", Arc::clone(&binder).work());
        }
        let writes = FencedClient::new(clients.write.clone(), fence);
        let writer = Arc::new(Writer {
            trailing: Arc::clone(&self.statuses),
            outcomes: outcomes.clone(),
            client: writes.clone(),
            metrics: Arc::clone(&self.metrics),
        });
        for _ in 0..URGENT_IN_FLIGHT {
            tasks
                .spawn("urgent writer", work_urgent(Arc::clone(&self.urgent), Arc::clone(&writer)));
        }
        for number in 0..TRAILING_IN_FLIGHT {
            let queues = (Arc::clone(&self.trailing), Arc::clone(&self.bindings));
            tasks.spawn("trailing writer", work_trailing(number, queues, Arc::clone(&writer)));
        }
        let announcer =
            Arc::new(Announcer::new(writes, Arc::clone(&self.metrics), settings.instance.clone()));
        for number in 0..NOTES_IN_FLIGHT {
            let queues = (Arc::clone(&self.notes), Arc::clone(&self.bindings));
            tasks.spawn("announcer", work_notes(number, queues, Arc::clone(&announcer)));
        }
    }

    /// Queues a Binding, or returns it if the queue is full.
    pub fn bind(&self, request: BindRequest) -> Result<(), BindRequest> {
        self.bindings.push(request)
    }

    /// Queues a write. Returns the writes that have had their outcome by that.
    pub fn write(&self, request: WriteRequest) -> Queued {
        match request.write.urgency() {
            Urgency::Urgent => self.write_urgent(request),
            Urgency::Trailing => Queued { replaced: None, refused: self.write_trailing(request) },
        }
    }

    /// Queues an urgent write. A trailing write of the same status gives way: it is taken out if it
    /// still waits, and waited for if it was sent.
    fn write_urgent(&self, mut request: WriteRequest) -> Queued {
        let trailing =
            request.status_of().and_then(|job| Some((job.clone(), self.statuses.of(job)?)));
        let mut replaced = None;
        if let Some((job, id)) = trailing {
            if self.trailing.take_out(|waiting| waiting.id == id).is_some() {
                self.statuses.end(&job, id);
                replaced = Some(id);
            } else {
                request.after = Some(id);
            }
        }
        Queued { replaced, refused: self.urgent.push(request).err().map(|request| request.id) }
    }

    fn write_trailing(&self, request: WriteRequest) -> Option<ActionId> {
        if let Some(job) = request.status_of() {
            self.statuses.begin(job, request.id);
        }
        let refused = self.trailing.push(request).err()?;
        if let Some(job) = refused.status_of() {
            self.statuses.end(job, refused.id);
        }
        Some(refused.id)
    }

    /// Queues an Event, or drops and counts it.
    pub fn note(&self, note: Note) {
        if self.notes.push(note).is_err() {
            self.metrics.notes_dropped.inc();
        }
    }

    /// Drops Bindings that have not been sent, and resolves when the others have their answers. The
    /// next leader decides again about the pods of the dropped ones: of a gang, by its placement.
    pub async fn finish_bindings(&self) {
        let dropped = self.bindings.discard();
        tracing::info!(dropped, in_flight = self.bindings.outstanding(), "finishing Bindings");
        self.bindings.idle().await;
    }

    /// Resolves when all records and Events are written.
    pub async fn flush(&self) {
        self.urgent.idle().await;
        self.trailing.idle().await;
        self.notes.idle().await;
    }

    /// Ends the workers.
    pub fn close(&self) {
        self.bindings.close();
        self.urgent.close();
        self.trailing.close();
        self.notes.close();
    }
}

impl DepthSource for Executors {
    fn depths(&self) -> Vec<(&'static str, usize)> {
        vec![
            ("bind", self.bindings.outstanding()),
            ("urgent", self.urgent.outstanding()),
            ("trailing", self.trailing.outstanding()),
            ("events", self.notes.outstanding()),
        ]
    }
}

async fn work_urgent(queue: Arc<WorkQueue<WriteRequest>>, writer: Arc<Writer>) {
    while let Some(request) = queue.pop().await {
        if !writer.carry_out(&request).await {
            return;
        }
    }
}

type Queues<T> = (Arc<WorkQueue<T>>, Arc<WorkQueue<BindRequest>>);

async fn work_trailing(
    number: usize,
    (queue, bindings): Queues<WriteRequest>,
    writer: Arc<Writer>,
) {
    loop {
        wait_for_turn(number, &queue, &bindings).await;
        // The queue is closed: the leader stops.
        let Some(request) = queue.pop().await else { return };
        if !writer.carry_out(&request).await {
            return;
        }
    }
}

async fn work_notes(number: usize, (queue, bindings): Queues<Note>, announcer: Arc<Announcer>) {
    loop {
        wait_for_turn(number, &queue, &bindings).await;
        // The queue is closed: the leader stops.
        let Some(note) = queue.pop().await else { return };
        announcer.announce(&note).await;
    }
}
