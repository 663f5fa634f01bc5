//! Explanations of why a request waits: in its FluxJob, in the conditions of its pods, and as
//! Events.
//!
//! The decisions are made elsewhere (`plan`); this module only reports them. The text about a class
//! of requests is made when its outcome changes, and otherwise once a second at most. The requests
//! behind the first of a class are reported in turns.

use std::sync::Arc;

use crate::jobs::expected::Expected;
use crate::parts::Telling;
use crate::sound::{Lookup, Sound};
use crate::telling::blockers::Blockers;
use crate::telling::holders::Holder;
use crate::telling::obstacle::{Obstacle, Party};
use crate::telling::readers::Named;
use crate::telling::{Report, Reported, Reporting};
use crate::timers::{AGAIN_MILLIS, Timer};
use fluxqueue_machine::fluxion::{Forecast, RankSet};
use fluxqueue_planner::plan::{Attempt, Group, Outcome};
use fluxqueue_planner::promises::Promise;
use fluxqueue_planner::queue::{ClassId, JobId, PendingRequest, Place};
use fluxqueue_workload::{Lifetime, ObjectKey, Time, Uid};

/// The pauses in milliseconds between two updates of the numbers in a text about a class, and
/// between two updates of positions in the queue.
const EXPLAIN_MILLIS: i64 = 1_000;
const POSITION_MILLIS: i64 = 10_000;

/// Most jobs in a queue for which the position of an arriving job is counted at once.
const COUNTED_MAX: usize = 1_000;

/// Most jobs with unknown ends that an explanation names.
const NAMED_MAX: usize = 3;

/// Most reservations that are searched for one that is in the way: there may be thousands, and this
/// is only for a text.
const RESERVATIONS_LOOKED_AT: usize = 64;

/// Most blockers that are listed for a job.
const BLOCKERS_MAX: usize = 8;

/// The reason of PodScheduled for pods that wait for a limit.
const QUEUE_LIMIT: &str = "QueueLimit";

/// Reports about classes that are kept without a look at which of these are gone. It bounds the
/// reports about classes that are gone, and the pauses between looks.
const REPORTED_MIN: usize = 1_024;

/// Most requests that are reported in one step; the others follow in the next.
const REPORTED_AT_ONCE: usize = 256;

impl Telling<'_> {
    /// Finds the blockers of a class of requests after an attempt, before this becomes the last
    /// one, if its outcome differs from the one before or the last report is old.
    pub(crate) fn explain(&mut self, class: ClassId, head: &PendingRequest, attempt: &Attempt) {
        let before = self.planner.queue.last_attempt(class);
        let known = self.reported(class).cloned();
        let is_of_same = before.is_some_and(|before| {
            std::mem::discriminant(&before.outcome) == std::mem::discriminant(&attempt.outcome)
        });
        let is_fresh =
            |known: &Arc<Reported>| self.clock.now < known.at.plus_millis(EXPLAIN_MILLIS);
        if is_of_same && known.as_ref().is_some_and(is_fresh) {
            return;
        }
        // An attempt that was repeated with the same result is no news.
        let is_repeated =
            before.is_some_and(|before| before.is_in_doubt && before.outcome == attempt.outcome);
        let blockers = match &attempt.outcome {
            Outcome::Behind { job, .. } => self.queued_behind(*job).into(),
            _ => self.own_reasons(attempt, Some(head)),
        };
        let is_told = is_repeated
            && known.is_some_and(|known| known.head == *head && known.blockers == blockers);
        let reported = Reported { head: head.clone(), blockers, at: self.clock.now };
        self.reporting.reported.insert(class, Arc::new(reported));
        if !is_told {
            self.reporting.reports.push_back(Report { class, from: None });
        }
    }

    /// Returns the last report about a class, if one of its requests was tried.
    fn reported(&self, class: ClassId) -> Option<&Arc<Reported>> {
        self.planner.queue.last_attempt(class)?;
        self.reporting.reported.get(&class)
    }

    /// Reports a class again if its first request has gone, or if another one has come ahead of it:
    /// the requests behind it now wait behind another job.
    pub(crate) fn report_new_heads(&mut self) {
        self.forget_gone_classes();
        let classes = self.planner.queue.take_new_heads().into_iter();
        let heads: Vec<(ClassId, PendingRequest)> = classes
            .filter_map(|class| Some((class, self.planner.queue.head_of(class)?.clone())))
            .collect();
        for (class, head) in heads {
            if let Some(known) = self.reported(class).filter(|known| known.head != head) {
                let Reported { blockers, at, .. } = &**known;
                let reported = Reported { head, blockers: blockers.clone(), at: *at };
                self.reporting.reported.insert(class, Arc::new(reported));
                self.reporting.reports.push_back(Report { class, from: None });
            }
        }
    }

    /// Forgets the reports about classes that are gone, once there may be as many as of others.
    fn forget_gone_classes(&mut self) {
        let Reporting { reported, reported_max, .. } = &mut *self.reporting;
        if reported.len() <= *reported_max {
            return;
        }
        let is_gone = |class: &ClassId| self.planner.queue.head_of(*class).is_none();
        let gone: Vec<ClassId> = reported.keys().copied().filter(is_gone).collect();
        for class in gone {
            reported.remove(&class);
        }
        *reported_max = REPORTED_MIN.max(2 * reported.len());
    }

    /// Reports to the requests of classes with a new outcome why they wait.
    pub(crate) fn report_classes(&mut self) {
        let mut left = REPORTED_AT_ONCE;
        while let Some(telling) = self.reporting.reports.pop_front() {
            let places: Vec<Place> = self
                .planner
                .queue
                .of_class(telling.class, telling.from.as_ref())
                .take(left + 1)
                .cloned()
                .collect();
            for place in places.iter().take(left) {
                let done = self.report_request(place.request(), telling.class);
                self.agenda.heed(done);
            }
            if places.len() > left {
                let from = places.last().cloned();
                self.reporting.reports.push_front(Report { class: telling.class, from });
                self.agenda.timers.wake(Timer::Again, self.clock.now.plus_millis(AGAIN_MILLIS));
                return;
            }
            left -= places.len();
        }
    }

    /// Reports to one request why it waits. A request that has just come to a class that waits gets
    /// its report at once.
    pub(crate) fn report_request(&mut self, pending: &PendingRequest, class: ClassId) -> Sound {
        // Nothing is known yet about a class of which no request was tried.
        let (Some(attempt), Some(reported)) =
            (self.planner.queue.last_attempt(class), self.reporting.reported.get(&class).cloned())
        else {
            return Ok(());
        };
        let Reported { head, blockers, .. } = &*reported;
        let id = pending.job();
        let behind_head = is_behind_head(attempt, pending, head);
        let estimate = if behind_head { None } else { attempt.outcome.starts_at() };
        let key = self.jobs.all.get(&id).map(|job| &job.key);
        let reader = self.settings.reader(key.map_or("", |key| &key.namespace));
        let behind = behind_head.then(|| Blockers::from(self.queued_behind(head.job())));
        let blockers = behind.as_ref().unwrap_or(blockers).told_to(&reader);
        let to_pods = self.words_for_pods(pending, class);
        // If the pods of a job wait one by one, and not all for the same reason, the first of them
        // decides.
        if self.planner.queue.first_of(id) == Some(pending) {
            self.note_blockers(pending, blockers, estimate)?;
        }
        // A pod that waits behind another request has no reason of its own.
        let Some((reason, text)) = to_pods else { return Ok(()) };
        for uid in self.waiting_pods(pending) {
            self.notices().report_unscheduled(&uid, reason, &text)?;
        }
        Ok(())
    }

    /// Stores the blockers of a job, as found for the first of its requests.
    fn note_blockers(
        &mut self,
        first: &PendingRequest,
        blockers: Blockers,
        estimate: Option<Time>,
    ) -> Sound {
        let id = first.job();
        let blockers = self.inherit(id, blockers);
        // If the plan can be run forward, that gives the better estimate.
        let expected = (!self.planner.ledger.can_be_copied())
            .then(|| Expected::found(estimate, self.clock.now));
        let job = self.jobs.all.known_mut(&id)?;
        if job.waiting.position.is_none() && self.planner.queue.len_of(job.queue.id) <= COUNTED_MAX
        {
            job.waiting.position = self
                .reporting
                .positions
                .in_queue(&self.planner.queue, job.queue.id)
                .get(&id)
                .copied();
        }
        job.waiting.expected = expected.unwrap_or(job.waiting.expected);
        if job.told.blocker.as_ref() != Some(&blockers) {
            job.told.blocker = Some(blockers);
            // A job that has begun shows its blockers in another condition too.
            if job.start.stalled.is_some() {
                self.agenda.touched.insert(id);
            }
        }
        job.told.blocked_request = Some(first.clone());
        self.agenda.dirty.insert(id);
        Ok(())
    }

    /// Reports the reasons of a job's first request, if another request is the first now.
    pub(crate) fn look_at_first(&mut self, id: JobId) -> Sound {
        let known = self.jobs.all.get(&id).and_then(|job| job.told.blocked_request.as_ref());
        // The job waits no more, has told nothing yet, or has told the obstacles of this request.
        let Some(first) = self
            .planner
            .queue
            .first_of(id)
            .filter(|first| known.is_some() && known != Some(*first))
            .cloned()
        else {
            return Ok(());
        };
        if let Some(class) = self.planner.queue.class_of(&first) {
            self.report_request(&first, class)?;
        }
        Ok(())
    }

    /// Returns the reason and text for the pods of a request; `None` for pods that wait behind
    /// another request.
    fn words_for_pods(
        &self,
        pending: &PendingRequest,
        class: ClassId,
    ) -> Option<(&'static str, String)> {
        let attempt = self.planner.queue.last_attempt(class)?;
        let reported = self.reporting.reported.get(&class)?;
        if matches!(attempt.outcome, Outcome::Behind { .. })
            || is_behind_head(attempt, pending, &reported.head)
        {
            return None;
        }
        // Cluster autoscalers act on this reason: more nodes would not help against a limit.
        let at_limit = matches!(reported.blockers.first(), Obstacle::Limit(_));
        let reason = if at_limit { QUEUE_LIMIT } else { "Unschedulable" };
        let key = &self.jobs.all.get(&pending.job())?.key;
        Some((
            reason,
            reported.blockers.told_to(&self.settings.reader(&key.namespace)).text_for_pods(),
        ))
    }

    /// Keeps the blockers of an earlier process if they have the same reasons: a restart alone is
    /// no news. They stay until this process finds other blockers than it found first.
    fn inherit(&mut self, id: JobId, found: Blockers) -> Blockers {
        let Some(job) = self.jobs.all.get_mut(&id) else { return found };
        let status = job.status_on_record().filter(|_| job.told.blocker.is_none());
        let said = status.and_then(|status| Blockers::of(status.blocked_by.clone()));
        if let Some(said) = said.filter(|said| said.have_reasons_of(&found)) {
            job.told.found_first = Some(found);
            return said;
        }
        if job.told.found_first.as_ref() == Some(&found)
            && let Some(blocker) = job.told.blocker.clone()
        {
            return blocker;
        }
        job.told.found_first = None;
        found
    }

    /// Reports to pods that have come to wait with others of their job why they wait.
    pub(crate) fn tell_joining_pods(&mut self, pending: &PendingRequest) -> Sound {
        let mut untold = self.waiting_pods(pending);
        untold.retain(|uid| {
            self.jobs.members.get(uid).is_some_and(|member| member.reported.is_none())
        });
        // All of its pods have their reports.
        let Some(class) = self.planner.queue.class_of(pending).filter(|_| !untold.is_empty())
        else {
            return Ok(());
        };
        // A pod that waits behind another request has no reason of its own.
        let Some((reason, text)) = self.words_for_pods(pending, class) else { return Ok(()) };
        for uid in untold {
            self.notices().report_unscheduled(&uid, reason, &text)?;
        }
        Ok(())
    }

    /// Returns all pods of the job that wait with this request.
    fn waiting_pods(&self, pending: &PendingRequest) -> Vec<Uid> {
        match pending {
            PendingRequest::Member(_, uid) => vec![uid.clone()],
            PendingRequest::Start(id) => self.jobs.all.get(id).map_or_else(Vec::new, |job| {
                let live = self.jobs.live(job);
                live.filter(|m| m.stage.is_waiting()).map(|m| m.pod.id.uid.clone()).collect()
            }),
        }
    }

    fn queued_behind(&self, job: JobId) -> Obstacle {
        queued_behind(self.jobs.all.get(&job).map(|job| &job.key))
    }

    /// Returns the blockers of a request that waits behind no other one: limits, shortages, nodes
    /// kept for other jobs, and unknown ends.
    pub(crate) fn own_reasons(
        &mut self,
        attempt: &Attempt,
        head: Option<&PendingRequest>,
    ) -> Blockers {
        let (first, others) = match &attempt.outcome {
            Outcome::AtLimit(limit) => {
                let others = limit.others.iter().map(|limit| self.explain_limit(limit)).collect();
                (self.explain_limit(limit), others)
            }
            _ => self.short_of(attempt),
        };
        let mut others: Vec<Obstacle> = others;
        match &attempt.outcome {
            // The request would have to wait without the limit, too.
            Outcome::AtLimit(_) if !self.has_room(attempt) => {
                let (first, more) = self.short_of(attempt);
                others.push(first);
                others.extend(more);
            }
            Outcome::Waits { held, at } => {
                others.extend(self.kept_for_another(attempt, head));
                if at.is_none() {
                    others.extend(self.unknown_ends(held, head.map(PendingRequest::job), |_| true));
                }
            }
            Outcome::Scattered { held } => {
                others.extend(self.unknown_ends(held, head.map(PendingRequest::job), |_| true));
            }
            Outcome::KeptAway { held } => {
                let is_in_the_way = |taken: &Holder| {
                    attempt.request.is_kept_away_by(taken.pod, &self.planner.cluster)
                };
                others.extend(self.unknown_ends(
                    held,
                    head.map(PendingRequest::job),
                    is_in_the_way,
                ));
            }
            Outcome::AtLimit(_)
            | Outcome::Behind { .. }
            | Outcome::PassedOver
            | Outcome::NodesAway
            | Outcome::NoNodes
            | Outcome::Never
            | Outcome::NotFound => {}
        }
        let list = std::iter::once(first).chain(others).take(BLOCKERS_MAX).collect();
        Blockers::in_order(list).expect("there is a first one")
    }

    /// True if all pods fit now, as far as nodes matter.
    fn has_room(&mut self, attempt: &Attempt) -> bool {
        let groups = attempt.request.groups.iter().zip(&*attempt.open);
        let groups: Vec<_> =
            groups.map(|(group, open)| group.request(open, &mut self.planner.cluster)).collect();
        self.planner.ledger.forecast(&groups).is_none_or(|forecast| forecast == Forecast::Now)
    }

    /// Returns the reservation of another request, among the first few, that keeps nodes which this
    /// request could use while it would run.
    fn kept_for_another(
        &self,
        attempt: &Attempt,
        head: Option<&PendingRequest>,
    ) -> Option<Obstacle> {
        let until = |group: &Group| match group.lifetime {
            Lifetime::Seconds(seconds) => self.clock.now.plus_secs(seconds).seconds(),
            Lifetime::Eventually | Lifetime::Endless => i64::MAX,
        };
        let until = attempt.request.groups.iter().map(until).max()?;
        let is_in_the_way = |(pending, promise): &(&PendingRequest, &Promise)| {
            let nodes = &promise.place.nodes;
            Some(*pending) != head
                && promise.place.start < until
                && attempt.open.iter().any(|open| nodes.intersects(open))
        };
        let mut kept: Vec<_> = self
            .planner
            .promises
            .reservations()
            .take(RESERVATIONS_LOOKED_AT)
            .filter(is_in_the_way)
            .collect();
        kept.sort_by_key(|(pending, promise)| (promise.place.start, *pending));
        let (pending, promise) = kept.first()?;
        let job = self.jobs.all.get(&pending.job())?;
        let from = self.clock.wall(Time::from_seconds(promise.place.start));
        Some(Obstacle::KeptFor(Named::Job(job.key.clone()).into(), from))
    }

    /// Updates the positions of all waiting jobs.
    pub(crate) fn note_positions(&mut self) -> Sound {
        for queue in self.planner.queue.queues() {
            for (id, position) in self.reporting.positions.in_queue(&self.planner.queue, queue) {
                let job = self.jobs.all.known_mut(id)?;
                if job.waiting.position != Some(*position) {
                    job.waiting.position = Some(*position);
                    self.agenda.dirty.insert(*id);
                }
            }
        }
        Ok(())
    }

    /// Sets the timer for the next update of the positions.
    pub(crate) fn note_positions_soon(&mut self) {
        if !self.planner.queue.is_empty() {
            self.agenda.timers.wake(Timer::Positions, self.clock.now.plus_millis(POSITION_MILLIS));
        }
    }

    /// Returns the first few jobs and pods with unknown ends on these nodes that count, except
    /// those of job `but`.
    fn unknown_ends(
        &self,
        nodes: &RankSet,
        but: Option<JobId>,
        counts: impl Fn(&Holder<'_>) -> bool,
    ) -> Vec<Obstacle> {
        let mut names: Vec<Named> = Vec::new();
        let mut is_all = true;
        let others = self
            .holders()
            .of_unknown_end(nodes)
            .filter(|holder| but.is_none() || holder.job != but);
        for holder in others.filter(counts) {
            let name = holder.named();
            if names.contains(&name) {
                continue;
            }
            if names.len() == NAMED_MAX {
                is_all = false;
                break;
            }
            names.push(name);
        }
        let last = names.len().saturating_sub(1);
        let obstacle = |(at, named): (usize, Named)| Obstacle::UnknownEnd {
            party: named.into(),
            and_others: at == last && !is_all,
        };
        names.into_iter().enumerate().map(obstacle).collect()
    }

    /// Reports to a pod why it waits, after the last write has failed, or when the pod may get
    /// another text.
    pub(crate) fn report_again(&mut self, uid: &Uid) -> Sound {
        let id = self.jobs.members.current(uid)?.job;
        if let Some(text) = self.jobs.refusal_of(uid) {
            return self.notices().report_unscheduled(uid, "SchedulerError", &text);
        }
        for pending in [PendingRequest::Start(id), PendingRequest::Member(id, uid.clone())] {
            if let Some(class) = self.planner.queue.class_of(&pending) {
                if let Some((reason, text)) = self.words_for_pods(&pending, class) {
                    self.notices().report_unscheduled(uid, reason, &text)?;
                }
                return Ok(());
            }
        }
        // A fault of the pod itself is found when its job is refreshed.
        self.agenda.touched.insert(id);
        Ok(())
    }
}

/// True if a gang waits behind the first request of its class: its own start was not searched for.
fn is_behind_head(attempt: &Attempt, pending: &PendingRequest, head: &PendingRequest) -> bool {
    attempt.outcome.is_shared_by_those_behind()
        && matches!(pending, PendingRequest::Start(_))
        && head != pending
}

/// Returns the obstacle of a request that waits for nothing but this job.
pub(crate) fn queued_behind(job: Option<&ObjectKey>) -> Obstacle {
    Obstacle::Behind(job.map(|key| Party::from(Named::Job(key.clone()))))
}
