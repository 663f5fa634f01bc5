//! A pass: gives slots to the requests that the plan starts, and remembers why the others wait.

use std::collections::{BTreeMap, BTreeSet};

use crate::backoff::Backoff;
use crate::cycle::Core;
use crate::cycle::under_way::slice;
use crate::cycle::walks::{Meanwhile, UnderWay};
use crate::jobs::levels::open_wants;
use crate::jobs::lifecycle::Lifecycle;
use crate::jobs::registry::Jobs;
use crate::labelled::found_by;
use crate::sound::Sound;
use crate::telling::lost::Lost;
use crate::timers::Timer;
use fluxqueue_machine::cluster::ChangedTerms;
use fluxqueue_machine::ledger::{Allocations, LevelWant};
use fluxqueue_planner::plan::{Decision, News, Outcome, Plan, Walking};
use fluxqueue_planner::queue::{ClassId, JobId, PendingRequest, Place};
use fluxqueue_planner::{Planner, PlannerParts, plan};

/// The pause between a walk that has moved reservations and the next one, if nothing else leads to
/// a walk.
const UNSETTLED: Backoff = Backoff { min_millis: 1_000, max_millis: 60_000 };

impl Core {
    /// Plans, if something has changed that the plan may rest on, and carries out the plan.
    pub(crate) fn run_pass(&mut self) {
        self.look_at_terms();
        let changed = self.agenda.queue_changed
            || self.walks.seen_changes != self.planner.ledger.changes.count()
            || (self.jobs.labelled.is_asked_for()
                && self.walks.seen_crowds != self.planner.cluster.neighbours().crowds_version());
        let has_arrivals = self.planner.queue.has_arrivals();
        let settles = std::mem::take(&mut self.walks.settles);
        if changed || has_arrivals {
            self.walks.unsettled = self.walks.unsettled.min(1);
        }
        if changed || has_arrivals || settles {
            self.review_later(changed || has_arrivals);
        } else if !self.begin_review() {
            return;
        }
        let is_all_seen = has_arrivals
            && !changed
            && self.walks.unsettled == 0
            && plan::is_behind(&self.planner.queue, &self.planner.claims);
        let news = if is_all_seen { News::Arrivals } else { News::Anything };
        self.agenda.queue_changed = false;
        self.agenda.gauges.passes += 1;
        let changes = self.planner.ledger.changes.count();
        let was_promised = !self.planner.promises.is_empty();
        self.planner.accounts.begin_walk(news == News::Arrivals);
        let mut lost = self.planner.promises.lost_requests();
        let is_first = std::mem::take(&mut self.walks.has_promises_to_put_back);
        if is_first {
            self.put_promises_back();
        }
        let are_given_up = self.give_up_what_is_not_on_record();
        lost.extend(self.put_heard_promises_back());
        self.planner.claims.keep_beginning(|pending| match pending {
            PendingRequest::Start(job) => {
                self.jobs.all.get(job).is_some_and(|job| job.life == Lifecycle::Placed)
            }
            PendingRequest::Member(_, uid) => {
                self.jobs.members.get(uid).is_some_and(|pod| pod.stage.is_unsent())
            }
        });
        let (_, PlannerParts { queue, mut live, claims }) = self.parts(self.clock.now);
        live.count_promises();
        let walking = Walking::begin(live.room.queues.policies(), queue, &live, news, claims);
        let (now, ahead) = (self.clock.now, self.planner.promises.came_ahead());
        let arrivals = self.planner.queue.take_arrivals();
        let meanwhile = Meanwhile::default();
        self.walk(Box::new(UnderWay {
            walking,
            now,
            changes,
            was_promised,
            excludes_others: is_first || are_given_up,
            lost,
            ahead,
            arrivals,
            meanwhile,
        }));
    }

    /// Continues a walk. When the walk is over, carries out its plan; otherwise keeps the walk as
    /// the one under way.
    pub(crate) fn walk(&mut self, mut walk: Box<UnderWay>) {
        let slice = slice(&self.queues, &self.settings, &walk);
        let (asking, PlannerParts { queue, mut live, .. }) = self.parts(walk.now);
        let mut looked_at = 0;
        let enough = slice.counted_from(&live, &mut looked_at);
        if !walk.walking.go_on(live.room.queues.policies(), queue, &asking, &mut live, enough) {
            self.walks.under_way = Some(walk);
            return;
        }
        let UnderWay { walking, changes, was_promised, lost, ahead, arrivals, meanwhile, .. } =
            *walk;
        let plan = walking.end(&mut self.planner.claims);
        // Slots that this walk gave out for good were given behind all waiting requests: none of
        // these has to be tried again.
        self.walks.seen_changes = self.planner.ledger.changes.count();
        self.walks.seen_crowds = self.planner.cluster.neighbours().crowds_version();
        // Nodes that a reservation has left may be of use to requests before it: the next walk
        // tries those.
        let has_moved = self.walks.seen_changes != changes
            && (was_promised || !self.planner.promises.is_empty());
        if has_moved {
            // Reservations may follow each other in a circle: each of these walks comes later than
            // the one before.
            self.agenda.timers.wake(
                Timer::Unsettled,
                self.clock.now.plus_millis(UNSETTLED.after(self.walks.unsettled)),
            );
        }
        self.walks.unsettled = if has_moved { self.walks.unsettled.saturating_add(1) } else { 0 };
        self.planner.promises.forget_that_came(&ahead);
        self.carry_out(plan, arrivals);
        self.promise_keeping().tell_lost_promises(&lost);
        self.agenda.lost = Lost::default();
        self.agenda.extended.clear();
        self.projecting().look_ahead_again();
        self.walks.arrived = meanwhile.events;
    }

    /// Carries out a plan, and reports to the waiting requests.
    fn carry_out(&mut self, plan: Plan<Allocations>, arrivals: BTreeMap<ClassId, BTreeSet<Place>>) {
        plan::confirm(&mut self.planner.queue, plan.confirmed);
        let begun = plan.decisions.iter().filter_map(|decision| match decision {
            Decision::Start { pending, .. } => Some(pending.job()),
            _ => None,
        });
        let begun: BTreeSet<JobId> = begun.collect();
        // The plan does not know that a pod has to be where another pod of its job is: of those
        // that wait for the same part, the first that it places decides.
        let mut decided: Vec<(JobId, LevelWant)> = Vec::new();
        for decision in plan.decisions {
            let ties = match &decision {
                Decision::Start { pending, .. } | Decision::Reserved { pending, .. } => {
                    undecided_parts(&self.jobs, pending)
                }
                Decision::Blocked { .. } | Decision::Withdrawn { .. } | Decision::PutOff { .. } => {
                    Vec::new()
                }
            };
            let is_tied = ties.iter().any(|tie| decided.contains(tie));
            decided.extend(ties);
            match decision {
                Decision::Start { pending, slots, .. } if is_tied => {
                    self.come_later(&pending, slots);
                }
                Decision::Reserved { pending, later, .. } if is_tied => {
                    self.promise_keeping().forget_promise(&pending);
                    let done = self.promise_keeping().broken(pending.job(), later);
                    self.agenda.heed(done);
                    self.agenda.touched.insert(pending.job());
                }
                decision => {
                    let done = self.follow(decision);
                    self.agenda.heed(done);
                }
            }
        }
        for id in &begun {
            let done = self.recording().check_placement(*id);
            self.agenda.heed(done);
        }
        for first in plan.first_undated {
            self.promise_keeping().pass_by(&first);
        }
        self.agenda.dirty.extend(self.planner.promises.take_newly_drained());
        self.promise_keeping().wake_for_promises();
        for (class, places) in arrivals {
            for place in places {
                if self.planner.queue.class_of(place.request()) == Some(class) {
                    let done = self.telling().report_request(place.request(), class);
                    self.agenda.heed(done);
                }
            }
        }
        self.telling().report_new_heads();
        self.telling().report_classes();
        // If some pods of a job have begun, its next request reports why it waits.
        for id in begun {
            let next = self.planner.queue.first_of(id).cloned();
            if let Some((next, class)) =
                next.and_then(|next| Some((next.clone(), self.planner.queue.class_of(&next)?)))
            {
                let done = self.telling().report_request(&next, class);
                self.agenda.heed(done);
            }
        }
        self.telling().note_positions_soon();
    }

    /// Refreshes jobs after the anti-affinity terms of pods on nodes have changed. Only jobs with
    /// pods that such a term may select are compared, and jobs for which nothing has changed are
    /// left alone.
    fn look_at_terms(&mut self) {
        let changed = self.planner.cluster.take_changed_terms();
        if changed.is_none() {
            return;
        }
        let concerned: Vec<JobId> = may_be_selected(&self.jobs, &self.planner, changed)
            .into_iter()
            .filter(|id| self.sight().is_seen_again(*id))
            .collect();
        self.agenda.touched.extend(concerned);
        self.refreshing().refresh_touched();
    }

    /// Carries out one decision.
    pub(crate) fn follow(&mut self, decision: Decision<Allocations>) -> Sound {
        match decision {
            Decision::Start { pending, request, slots } => {
                self.agenda.count_attempt(&request, true);
                self.slots().start(&pending, &request, slots)?;
            }
            Decision::Blocked { class, pending, attempt } => {
                if !matches!(attempt.outcome, Outcome::Behind { .. } | Outcome::AtLimit(_)) {
                    self.agenda.count_attempt(&attempt.request, false);
                }
                if attempt.outcome == Outcome::NotFound {
                    self.agenda.gauges.placements_not_found += 1;
                    self.slots().rest_after_search(&pending, attempt.steps_in_vain)?;
                }
                self.telling().explain(class, &pending, &attempt);
                let known =
                    self.planner.queue.last_attempt(class).map(plan::Attempt::holds_up_no_other);
                let changes = known != Some(attempt.holds_up_no_other());
                self.planner.queue.remember(class, *attempt);
                if changes {
                    self.slots().look_at_followers(class);
                }
            }
            Decision::Reserved { pending, start, later } => {
                self.promise_keeping().promised(pending.job(), start, later)?;
            }
            Decision::Withdrawn { pending, later } => {
                self.promise_keeping().broken(pending.job(), later)?;
            }
            Decision::PutOff { pending, was } => {
                self.promise_keeping().put_off(pending.job(), &was)?;
            }
        }
        Ok(())
    }

    /// Gives back the slots of a request that has to wait until the place of a pod that it follows
    /// is known.
    fn come_later(&mut self, pending: &PendingRequest, slots: Allocations) {
        self.slots().free_allocations(slots.into_iter().flatten().flatten());
        self.agenda.touched.insert(pending.job());
    }
}

/// Returns the wants of a pod for one part of a level with others of its job, none of which has
/// decided on the part yet.
fn undecided_parts(jobs: &Jobs, pending: &PendingRequest) -> Vec<(JobId, LevelWant)> {
    let PendingRequest::Member(id, uid) = pending else { return Vec::new() };
    let open =
        jobs.members.get(uid).map_or_else(Vec::new, |member| open_wants(&member.terms.levels));
    open.into_iter().map(|want| (*id, want)).collect()
}

/// Returns the waiting jobs with a pod that such terms may select.
fn may_be_selected(jobs: &Jobs, planner: &Planner, terms: ChangedTerms) -> BTreeSet<JobId> {
    let all = || planner.queue.iter().map(|(place, _)| place.request().job()).collect();
    let ChangedTerms::Of(terms) = terms else { return all() };
    let mut found = BTreeSet::new();
    // A term without labels selects no pod.
    for requirements in terms.iter().filter_map(|term| term.labels.as_ref()) {
        let Some(requirement) = found_by(requirements) else { return all() };
        found.extend(jobs.labelled.having(requirement));
    }
    found
}
