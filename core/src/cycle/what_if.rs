//! What-if: predicts when a submission would start, and which jobs it would delay.
//!
//! The core hands out a [`Preview`], and goes on with its work. In the preview a submission passes
//! through the same code as in a cluster: events, grouping, queue, refusals, limits. Only the plan
//! is not carried out. Then the plan is run forward twice, with the submission and without it, and
//! the starts are compared. Both runs go from one planned instant to the next, for as long as the
//! caller continues: the caller has a clock and decides how long that is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::{BlockedBy, JobState, WorkloadKind};

use crate::asking::Asking;
use crate::cycle::Core;
use crate::event::Event;
use crate::jobs::clock::Clock;
use crate::jobs::job::Job;
use crate::jobs::registry::lifetimes::ended_by;
use crate::lookahead::estimates::{Progress, Projection, Wants};
use crate::telling::blockers::Blockers;
use crate::telling::explain::queued_behind;
use fluxqueue_planner::plan::{Attempt, Effort, Outcome, Request, Requests};
use fluxqueue_planner::queue::{JobId, PendingRequest};
use fluxqueue_planner::queues::Queues;
use fluxqueue_workload::{Lifetime, ObjectKey, Time};

/// The work between two looks at the clock.
const STINT: Effort = Effort::questions(8);

/// A copy of everything that decides which request starts when.
pub struct Preview {
    projection: Projection,
    /// A core that will hold nothing but the submission.
    stage: Core,
    waiting: Waiting,
}

/// The plan run forward with the submission, and without it.
pub struct WhatIf {
    stage: Core,
    waiting: Waiting,
    submitted: Vec<JobId>,
    positions: BTreeMap<JobId, usize>,
    /// The reasons for which the submitted jobs do not start at once.
    reasons: BTreeMap<JobId, Blockers>,
    /// The jobs that had a promise when the copy was made.
    promised: BTreeSet<JobId>,
    as_of: Time,
    with: Run,
    without: Run,
}

/// The answer to a what-if question. Times are those of the API server's clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The time of the copy.
    pub as_of: Time,
    /// One entry for each submitted job.
    pub submitted: Vec<Submitted>,
    /// The jobs that the submission would delay, the longest delay first.
    pub delayed: Vec<Delayed>,
    /// The time up to which starts were searched for. `None` if all planned starts were.
    pub looked_until: Option<Time>,
}

/// A job that was submitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    /// The kind of its workload.
    pub kind: WorkloadKind,
    /// The namespace and name of its workload.
    pub workload: ObjectKey,
    /// The queue in which it would wait.
    pub queue: String,
    /// Its priority there.
    pub priority: i32,
    /// Its place in the queue, from 1, while it waits.
    pub position: Option<usize>,
    /// Its predicted start.
    pub verdict: Verdict,
    /// The reasons for which it would not start at once, the most important first.
    pub blocked_by: Vec<BlockedBy>,
}

/// The predicted start of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Its first waiting pod would start at `first`, and its last at `all`, if that was found.
    Starts {
        /// The start of the first pod.
        first: Time,
        /// The start of the last pod.
        all: Option<Time>,
    },
    /// It would not start by this time, and later times were not searched.
    NotBy(Time),
    /// Its start cannot be predicted.
    NoDate,
    /// It would not wait in the queue: it is in this state.
    KeptOut(JobState),
}

/// A job that would start later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delayed {
    /// Its FluxJob.
    pub job: ObjectKey,
    /// Its start without the submission.
    pub from: Time,
    /// Its start with the submission.
    pub to: Later,
    /// True if it is promised a start.
    pub is_promised: bool,
}

/// The start of a job that would be delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Later {
    /// It would start at this time.
    At(Time),
    /// It would not start by this time, and later times were not searched.
    NotBy(Time),
    /// Its start cannot be predicted any more.
    NoDate,
}

/// The requests that waited when the copy was made.
#[derive(Default)]
struct Waiting {
    requests: BTreeMap<PendingRequest, Asked>,
    names: BTreeMap<JobId, ObjectKey>,
}

/// A request. For each group: the deadline at which it is ended in any case, if it has one, and the
/// lifetime that it would have otherwise.
struct Asked {
    request: Request,
    deadlines: Vec<Option<(Time, Lifetime)>>,
}

/// One of the two runs.
struct Run {
    projection: Projection,
    starts: BTreeMap<PendingRequest, Time>,
    state: Looking,
}

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looking {
    /// There are more instants to visit.
    On,
    /// Nothing more is planned: requests that have not started have no date.
    Over,
    /// There are more instants than a run visits.
    TooFar,
}

/// The requests that wait, together with the submitted ones.
struct EveryRequest<'a> {
    stage: &'a Core,
    waiting: &'a Waiting,
}

// === impl Core ===

impl Core {
    /// Copies everything that decides which request starts when. Returns `None` before everything
    /// has been listed, and if the library does not copy graphs.
    pub fn preview(&mut self, now: Time) -> Option<Preview> {
        // If there were no events, the core has not heard the time for long.
        self.advance(now);
        if !self.intake.synced {
            return None;
        }
        // Requests that the walk starts wait no more.
        self.finish_walking();
        self.take_up_arrived();
        let projection = self.projecting().project_all()?;
        let mut stage =
            Core::new(self.settings.clone(), self.walks.audit.library, self.records.epoch).ok()?;
        (stage.clock.now, stage.clock.offset) = (self.clock.now, self.clock.offset);
        (stage.intake.listed, stage.intake.synced) = (true, true);
        stage.queues = self.queues.clone();
        stage.reporting.reported = self.reporting.reported.clone();
        stage.jobs.classes = self.jobs.classes.clone();
        stage.jobs.controllers.groups = self.jobs.controllers.groups.without_pods();
        stage.jobs.index.next = self.jobs.index.next;
        Some(Preview { projection, stage, waiting: self.waiting() })
    }

    fn waiting(&self) -> Waiting {
        let (mut waiting, asking) = (Waiting::default(), self.sight().asking());
        for (place, _) in self.planner.queue.iter() {
            let pending = place.request();
            let job = self.jobs.all.get(&pending.job());
            if let Some((job, request)) = job.zip(asking.request(pending)) {
                let deadline = |pod| self.jobs.planned_deadline(pod, asking.clock);
                let own = |pod| self.jobs.planned_time(pod, job);
                let samples = request.groups.iter().map(|group| &*group.sample);
                let deadlines = samples.map(|pod| deadline(pod).map(|at| (at, own(pod)))).collect();
                waiting.names.entry(job.id).or_insert_with(|| job.key.clone());
                waiting.requests.insert(pending.clone(), Asked { request, deadlines });
            }
        }
        waiting
    }
}

// === impl Preview ===

impl Preview {
    /// Returns the value of the PriorityClass of this name, if there is one.
    pub fn priority_of_class(&self, name: &str) -> Option<i32> {
        self.stage.jobs.classes.priorities.value(name)
    }

    /// Returns the priority of pods that name no PriorityClass.
    pub fn priority_without_class(&self) -> i32 {
        self.stage.jobs.classes.priorities.of_pods(None)
    }

    /// Returns the names of the scheduler under which it takes pods.
    pub fn scheduler_names(&self) -> &[Arc<str>] {
        &self.stage.settings.scheduler_names
    }

    /// Returns the time of the copy, by the API server's clock.
    pub fn as_of(&self) -> Time {
        self.stage.clock.wall_now()
    }

    /// Submits these objects and their pods. Returns `None` if the library fails to copy the graph.
    pub fn submit(self, events: Vec<Event>) -> Option<WhatIf> {
        let Preview { mut projection, mut stage, waiting } = self;
        // Both runs need the planned ends on all nodes.
        projection.look_at_all_nodes();
        let (cluster, queue, promises) = projection.parts();
        (stage.planner.cluster, stage.planner.queue, stage.planner.promises) =
            (cluster.clone(), queue.clone(), promises.clone());
        let promised = promises.reservations().map(|(pending, _)| pending.job()).collect();
        let now = stage.clock.now;
        for event in events {
            stage.handle(event, now);
        }
        stage.refreshing().refresh_touched();
        let submitted: Vec<JobId> = stage.jobs.all.keys().copied().collect();
        let requests: Vec<PendingRequest> =
            stage.jobs.all.values().flat_map(|job| &job.waiting.requests).cloned().collect();
        let position = |job: &Job| {
            (!job.waiting.requests.is_empty())
                .then(|| (job.id, stage.planner.queue.position_of(job.id, job.queue.id)))
        };
        let positions = stage.jobs.all.values().map(Box::as_ref).filter_map(position).collect();
        let mut with = projection.copy()?;
        let changed = (
            std::mem::take(&mut stage.planner.cluster),
            std::mem::take(&mut stage.planner.queue),
            std::mem::take(&mut stage.planner.promises),
        );
        with.replace(changed, requests);
        let (with, without) = (Run::new(with), Run::new(projection));
        let (reasons, as_of) = (BTreeMap::new(), now);
        let mut what_if = WhatIf {
            stage,
            waiting,
            submitted,
            positions,
            reasons,
            promised,
            as_of,
            with,
            without,
        };
        what_if.look_now();
        Some(what_if)
    }
}

// === impl WhatIf ===

impl WhatIf {
    fn look_now(&mut self) {
        let everybody = EveryRequest { stage: &self.stage, waiting: &self.waiting };
        self.with.look_now(&everybody);
        self.without.look_now(&everybody);
        for id in &self.submitted {
            // A submitted job that the stage refused has no entry.
            let Some(job) = self.stage.jobs.all.get(id) else { continue };
            let Some(first) = job
                .waiting
                .requests
                .iter()
                .find(|pending| !self.with.starts.contains_key(pending))
                .cloned()
            else {
                self.reasons.extend(job.told.blocker.clone().map(|blocker| (*id, blocker)));
                continue;
            };
            let namespace = Arc::clone(&job.key.namespace);
            if let Some(attempt) = self.with.projection.last_attempt(&first).cloned() {
                let reason = match &attempt.outcome {
                    Outcome::Behind { job, .. } => {
                        Blockers::from(queued_behind(self.waiting.names.get(job)))
                    }
                    _ => explain(&mut self.stage, &mut self.with.projection, &attempt),
                };
                self.reasons.insert(*id, reason.told_to(&self.stage.settings.reader(&namespace)));
            }
        }
    }

    /// Moves to the next planned instant, or continues with the current one. Returns false if there
    /// is none.
    pub fn advance(&mut self) -> bool {
        let everybody = EveryRequest { stage: &self.stage, waiting: &self.waiting };
        // The start of the submission is searched first, then the delays: neither run goes farther
        // than the other.
        let is_looked_for = || self.submitted.iter().any(|id| self.with.looks_for(*id));
        let is_behind = || self.with.projection.now() <= self.without.projection.now();
        let next = match (self.with.state, self.without.state) {
            (Looking::On, Looking::On) if is_looked_for() || is_behind() => &mut self.with,
            (_, Looking::On) => &mut self.without,
            (Looking::On, _) => &mut self.with,
            _ => return false,
        };
        next.advance(&everybody);
        true
    }

    /// Returns the number of questions to the resource graph in both runs.
    pub fn questions(&self) -> u64 {
        self.with.projection.questions() + self.without.projection.questions()
    }

    /// Returns the results found so far.
    pub fn answer(&mut self) -> Answer {
        let (errors_with, errors_without) =
            (self.with.projection.take_errors(), self.without.projection.take_errors());
        if errors_with + errors_without > 0 {
            tracing::error!(
                errors_with,
                errors_without,
                "the resource graph failed while the plan was run forward"
            );
        }
        let wall = |at: Time| self.stage.clock.wall(at);
        let submitted = self.submitted.iter().filter_map(|id| self.stage.jobs.all.get(id));
        let submitted = submitted.map(|job| self.submitted(job)).collect();
        Answer {
            as_of: wall(self.as_of),
            submitted,
            delayed: self.delayed(),
            looked_until: self.looked_until().map(wall),
        }
    }

    fn looked_until(&self) -> Option<Time> {
        let open = [&self.with, &self.without].into_iter().filter(|run| run.state != Looking::Over);
        open.map(|run| run.projection.now()).min()
    }

    fn submitted(&self, job: &Job) -> Submitted {
        let wall = |at: &Time| self.stage.clock.wall(*at);
        let starts =
            || job.waiting.requests.iter().filter_map(|pending| self.with.starts.get(pending));
        let are_all_found = starts().count() == job.waiting.requests.len();
        let verdict = match starts().min() {
            _ if job.waiting.requests.is_empty() => Verdict::KeptOut(self.stage.jobs.state(job)),
            Some(first) => Verdict::Starts {
                first: wall(first),
                all: starts().max().filter(|_| are_all_found).map(wall),
            },
            None if self.with.state == Looking::Over => Verdict::NoDate,
            None => Verdict::NotBy(wall(&self.with.projection.now())),
        };
        Submitted {
            kind: job.workload.kind,
            workload: ObjectKey::new(job.key.namespace.clone(), job.workload.name.clone()),
            queue: job.queue.name.to_string(),
            priority: job.priority(),
            position: self
                .positions
                .get(&job.id)
                .copied()
                .filter(|_| !matches!(verdict, Verdict::KeptOut(_))),
            verdict,
            blocked_by: self.reasons.get(&job.id).map(Blockers::list).unwrap_or_default(),
        }
    }

    /// Returns the jobs that start later. If the pods of a job start one by one, the next one
    /// counts.
    fn delayed(&self) -> Vec<Delayed> {
        let wall = |at: Time| self.stage.clock.wall(at);
        let (with, without) = (self.with.first_starts(), self.without.first_starts());
        let looked_until = self.with.projection.now();
        let later = |(id, from): (&JobId, &Time)| {
            let to = match with.get(id) {
                Some(at) if at.seconds() <= from.seconds() => return None,
                Some(at) => Later::At(wall(*at)),
                None if self.with.state == Looking::Over => Later::NoDate,
                None if looked_until.seconds() < from.seconds() => return None,
                None => Later::NotBy(wall(looked_until)),
            };
            let (job, is_promised) =
                (self.waiting.names.get(id)?.clone(), self.promised.contains(id));
            Some(Delayed { job, from: wall(*from), to, is_promised })
        };
        let mut delayed: Vec<Delayed> = without.iter().filter_map(later).collect();
        let by = |delayed: &Delayed| delayed.by_secs().unwrap_or(i64::MAX);
        delayed.sort_by_cached_key(|delayed| (Reverse(by(delayed)), delayed.job.clone()));
        delayed
    }
}

impl Delayed {
    /// Returns the least delay in seconds. `None` if the new start cannot be predicted.
    pub fn by_secs(&self) -> Option<i64> {
        match self.to {
            Later::At(to) | Later::NotBy(to) => {
                Some(to.seconds().saturating_sub(self.from.seconds()))
            }
            Later::NoDate => None,
        }
    }
}

// === impl Run ===

impl Run {
    fn new(projection: Projection) -> Self {
        Run { projection, starts: BTreeMap::new(), state: Looking::On }
    }

    fn look_now(&mut self, everybody: &EveryRequest<'_>) {
        let (now, started) = (self.projection.now(), self.projection.look_now(everybody));
        self.note(now, started);
    }

    fn advance(&mut self, everybody: &EveryRequest<'_>) {
        match self.projection.advance(everybody, STINT) {
            Progress::UnderWay => {}
            Progress::At(at, started) => self.note(at, started),
            Progress::Over(_) => self.state = Looking::Over,
            Progress::TooFar => self.state = Looking::TooFar,
        }
    }

    fn note(&mut self, at: Time, started: Vec<PendingRequest>) {
        self.starts.extend(started.into_iter().map(|pending| (pending, at)));
        if self.projection.is_done() {
            self.state = Looking::Over;
        }
    }

    fn looks_for(&self, job: JobId) -> bool {
        self.projection.wanted().iter().any(|pending| pending.job() == job)
    }

    fn first_starts(&self) -> BTreeMap<JobId, Time> {
        let mut first = BTreeMap::new();
        for (pending, at) in &self.starts {
            let known = first.entry(pending.job()).or_insert(*at);
            *known = (*known).min(*at);
        }
        first
    }
}

// === impl EveryRequest ===

impl Wants for EveryRequest<'_> {
    fn queues(&self) -> &Queues {
        &self.stage.queues
    }

    fn request_at(&self, pending: &PendingRequest, now: Time) -> Option<Request> {
        let Some(asked) = self.waiting.requests.get(pending) else {
            let clock = Clock { now, ..self.stage.clock };
            return Asking { clock, ..self.stage.sight().asking() }.request(pending);
        };
        let mut request = asked.request.clone();
        for (group, deadline) in request.groups.iter_mut().zip(&asked.deadlines) {
            if let Some((deadline, own)) = deadline {
                group.lifetime = ended_by(Some(*deadline), *own, now);
            }
        }
        Some(request)
    }
}

/// Explains why a request waits on the machine of a projection.
fn explain(stage: &mut Core, projection: &mut Projection, attempt: &Attempt) -> Blockers {
    let mut swap = |stage: &mut Core| {
        let (cluster, ledger) = projection.machine();
        std::mem::swap(&mut stage.planner.cluster, cluster);
        std::mem::swap(&mut stage.planner.ledger, ledger);
    };
    swap(stage);
    let reason = stage.telling().own_reasons(attempt, None);
    swap(stage);
    reason
}

impl std::fmt::Debug for Preview {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Preview").field("as_of", &self.as_of()).finish_non_exhaustive()
    }
}
