//! What would come of it if something else was submitted now: when would it start, and whom would
//! it delay?
//!
//! The core hands out a [`Preview`], and goes on. There what is submitted passes through the same
//! code as what is submitted to a cluster: events, grouping, queue, refusals, limits. Only what
//! follows from a plan does not happen. Then the plan is run forward twice, with it and without it,
//! and starts are compared. Both go from one instant at which something is planned to the next, for
//! as long as somebody asks them to: who has a clock decides how long that is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_api::{BlockedBy, JobState, WorkloadKind};

use crate::asking::Asking;
use crate::jobs::clock::Clock;
use crate::jobs::job::Job;
use crate::jobs::lifetimes::ended_by;
use crate::lookahead::estimates::{Progress, Projection, Wants};
use crate::telling::blockers::Blockers;
use crate::telling::explain::queued_behind;
use crate::{Core, Event};
use fluxqueue_planner::plan::{Attempt, Effort, Outcome, Request, Requests};
use fluxqueue_planner::queue::{JobId, PendingRequest};
use fluxqueue_planner::queues::Queues;
use fluxqueue_workload::{Lifetime, ObjectKey, Time};

/// What is looked at before the time is looked at again.
const STINT: Effort = Effort::questions(8);

/// A copy of all that decides who starts when.
pub struct Preview {
    projection: Projection,
    /// A core in which there will be nothing but what is submitted.
    stage: Core,
    waiting: Waiting,
}

/// The plan run forward with what was submitted, and without it.
pub struct WhatIf {
    stage: Core,
    waiting: Waiting,
    submitted: Vec<JobId>,
    positions: BTreeMap<JobId, usize>,
    /// Why those that were submitted do not start at once.
    reasons: BTreeMap<JobId, Blockers>,
    /// Those who had a promise when the copy was made.
    promised: BTreeSet<JobId>,
    as_of: Time,
    with: Run,
    without: Run,
}

/// What would come of it. Times are those of the API server's clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// As of when.
    pub as_of: Time,
    /// Of each job that was submitted.
    pub submitted: Vec<Submitted>,
    /// Jobs that would start later by it, the longest delay first.
    pub delayed: Vec<Delayed>,
    /// Starts after this were not looked at; `None`: all that are planned were.
    pub looked_until: Option<Time>,
}

/// A job that was submitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    /// What it stands for.
    pub kind: WorkloadKind,
    /// Namespace and name of that.
    pub workload: ObjectKey,
    /// The queue in which it would wait.
    pub queue: String,
    /// Its priority there.
    pub priority: i32,
    /// Its place in the queue, from 1, while it waits.
    pub position: Option<usize>,
    /// What would come of it.
    pub verdict: Verdict,
    /// Why it would not start at once: what matters most first.
    pub blocked_by: Vec<BlockedBy>,
}

/// What would come of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Its first pod would start then, and its last of those that wait, if that was found out.
    Starts {
        /// The first.
        first: Time,
        /// The last.
        all: Option<Time>,
    },
    /// It would not start by then, and later times were not looked at.
    NotBy(Time),
    /// Nobody can say when.
    NoDate,
    /// It would not come to wait: it is in this state.
    KeptOut(JobState),
}

/// A job that would start later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delayed {
    /// Its FluxJob.
    pub job: ObjectKey,
    /// Without what was submitted it starts then.
    pub from: Time,
    /// And with it.
    pub to: Later,
    /// It is promised a start.
    pub is_promised: bool,
}

/// When a job starts that would start later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Later {
    /// Then.
    At(Time),
    /// Not by then, and later times were not looked at.
    NotBy(Time),
    /// Nobody can say any more.
    NoDate,
}

/// What those who wait asked for when the copy was made.
#[derive(Default)]
struct Waiting {
    requests: BTreeMap<PendingRequest, Asked>,
    names: BTreeMap<JobId, ObjectKey>,
}

/// What is asked for; per group when it is ended whatever it does, if it is, and how long it would
/// go on otherwise.
struct Asked {
    request: Request,
    deadlines: Vec<Option<(Time, Lifetime)>>,
}

/// One of the two.
struct Run {
    projection: Projection,
    starts: BTreeMap<PendingRequest, Time>,
    state: Looking,
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looking {
    /// There is more to look at.
    On,
    /// Whoever has not started has no date.
    Over,
    /// There is more than is looked at.
    TooFar,
}

/// Those who wait, with those that were submitted.
struct Everybody<'a> {
    stage: &'a Core,
    waiting: &'a Waiting,
}

// === impl Core ===

impl Core {
    /// A copy of all that decides who starts when. `None` before everything has been listed, and
    /// where the library does not copy graphs.
    pub fn preview(&mut self, now: Time) -> Option<Preview> {
        // Where nothing happens it has not heard the time for long.
        self.advance(now);
        if !self.intake.synced {
            return None;
        }
        // Who starts by it waits no more.
        self.finish_walking();
        let projection = self.projecting().project_all()?;
        let mut stage =
            Core::new(self.settings.clone(), self.walks.audit.library, self.records.epoch).ok()?;
        (stage.clock.now, stage.clock.offset) = (self.clock.now, self.clock.offset);
        (stage.intake.listed, stage.intake.synced) = (true, true);
        stage.queues = self.queues.clone();
        stage.jobs.priority_classes = self.jobs.priority_classes.clone();
        stage.jobs.index.next = self.jobs.index.next;
        Some(Preview { projection, stage, waiting: self.waiting() })
    }

    fn waiting(&self) -> Waiting {
        let (mut waiting, asking) = (Waiting::default(), self.sight().asking());
        for (place, _) in self.planner.queue.iter() {
            let pending = place.request();
            let job = self.jobs.all.get(&pending.job());
            let Some((job, request)) = job.zip(asking.request(pending)) else { continue };
            let deadline = |pod| self.jobs.planned_deadline(pod, asking.clock);
            let own = |pod| self.jobs.planned_time(pod, job);
            let samples = request.groups.iter().map(|group| &*group.sample);
            let deadlines = samples.map(|pod| deadline(pod).map(|at| (at, own(pod)))).collect();
            waiting.names.entry(job.id).or_insert_with(|| job.key.clone());
            waiting.requests.insert(pending.clone(), Asked { request, deadlines });
        }
        waiting
    }
}

// === impl Preview ===

impl Preview {
    /// The value of a PriorityClass, if there is one of the name.
    pub fn priority_of_class(&self, name: &str) -> Option<i32> {
        self.stage.jobs.priority_classes.value(name)
    }

    /// The priority of pods that name no PriorityClass.
    pub fn priority_without_class(&self) -> i32 {
        self.stage.jobs.priority_classes.of_pods(None)
    }

    /// The names of the scheduler whose pods it takes.
    pub fn scheduler_names(&self) -> &[Arc<str>] {
        &self.stage.settings.scheduler_names
    }

    /// When the copy was made, by the API server's clock.
    pub fn as_of(&self) -> Time {
        self.stage.clock.wall_now()
    }

    /// These objects and their pods come. `None` if the library fails to copy the graph.
    pub fn submit(self, events: Vec<Event>) -> Option<WhatIf> {
        let Preview { mut projection, mut stage, waiting } = self;
        // Both runs need that.
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
            stage.jobs.all.values().flat_map(|job| &job.pending).cloned().collect();
        let position = |job: &Job| {
            (!job.pending.is_empty())
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
        let everybody = Everybody { stage: &self.stage, waiting: &self.waiting };
        self.with.look_now(&everybody);
        self.without.look_now(&everybody);
        for id in &self.submitted {
            let Some(job) = self.stage.jobs.all.get(id) else { continue };
            let Some(first) =
                job.pending.iter().find(|pending| !self.with.starts.contains_key(pending)).cloned()
            else {
                self.reasons.extend(job.blocker.clone().map(|blocker| (*id, blocker)));
                continue;
            };
            let namespace = Arc::clone(&job.key.namespace);
            let Some(attempt) = self.with.projection.last_attempt(&first).cloned() else {
                continue;
            };
            let reason = match &attempt.outcome {
                Outcome::Behind { job, .. } => {
                    Blockers::from(queued_behind(self.waiting.names.get(job)))
                }
                _ => explain(&mut self.stage, &mut self.with.projection, &attempt),
            };
            self.reasons.insert(*id, reason.told_to(&self.stage.settings.reader(&namespace)));
        }
    }

    /// Looks at the next instant at which something is planned, or goes on with one. False: there
    /// is none.
    pub fn advance(&mut self) -> bool {
        let everybody = Everybody { stage: &self.stage, waiting: &self.waiting };
        // First when it starts, then whom it delays: neither looks farther than the other.
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

    /// How often the resource graph was asked, and how often it failed.
    pub fn questions(&self) -> u64 {
        self.with.projection.questions() + self.without.projection.questions()
    }

    /// What has been found out.
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
        let starts = || job.pending.iter().filter_map(|pending| self.with.starts.get(pending));
        let are_all_found = starts().count() == job.pending.len();
        let verdict = match starts().min() {
            _ if job.pending.is_empty() => Verdict::KeptOut(self.stage.jobs.state(job)),
            Some(first) => Verdict::Starts {
                first: wall(first),
                all: starts().max().filter(|_| are_all_found).map(wall),
            },
            None if self.with.state == Looking::Over => Verdict::NoDate,
            None => Verdict::NotBy(wall(&self.with.projection.now())),
        };
        Submitted {
            kind: job.kind,
            workload: ObjectKey::new(job.key.namespace.clone(), job.name.clone()),
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

    /// Of a job whose pods start one by one the next one counts.
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
    /// By how much, at least: `None` where nobody can say any more when it starts.
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

    fn look_now(&mut self, everybody: &Everybody<'_>) {
        let (now, started) = (self.projection.now(), self.projection.look_now(everybody));
        self.note(now, started);
    }

    fn advance(&mut self, everybody: &Everybody<'_>) {
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

// === impl Everybody ===

impl Wants for Everybody<'_> {
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

/// Why a request waits, in words, on the machine of a projection.
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
