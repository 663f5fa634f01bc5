//! A walk over the queues, each by its policy.

use super::attempt::Standing;
use super::backfill;
use super::capacity::{Capacity, Requests};
use super::claims::Claims;
use super::heads;
use super::in_order;
use super::memory::Memory;
use super::progress::{News, Pending, Plan, Progress, untried};
use super::promising::Promising;
use super::request::Request;
use crate::policies::Policies;
use crate::queue::{ClassId, PendingRequest};
use fluxqueue_machine::fluxion::{Fit, RankSet};

/// Walks all queues, each by its policy.
pub(crate) fn walk<C: Promising>(
    policies: &Policies,
    queue: &Pending,
    requests: &impl Requests,
    capacity: &mut C,
    news: News,
    last: &mut Claims,
) -> Plan<C::Slots> {
    let mut walking = Walking::begin(policies, queue, capacity, news, last);
    walking.go_on(policies, queue, requests, capacity, |_| false);
    walking.end(last)
}

/// A walk under way. A caller may leave it between two requests, and continue as long as nothing
/// else has changed the machine.
pub struct Walking<S> {
    progress: Progress<S>,
    backfill: Memory,
}

impl<S> Walking<S> {
    /// A walk at its beginning.
    pub fn begin<C: Promising<Slots = S>>(
        policies: &Policies,
        queue: &Pending,
        capacity: &C,
        news: News,
        last: &mut Claims,
    ) -> Self {
        let (heads, is_found_on_the_way) = match policies {
            Policies::FirstComeFirstServed => (in_order::heads(queue, news), false),
            Policies::PerQueue(_) => {
                let is_found_on_the_way = news == News::Anything && capacity.knows_candidates();
                (heads::heads(queue, capacity, news, is_found_on_the_way), is_found_on_the_way)
            }
        };
        let progress = Progress { is_found_on_the_way, ..Progress::begin(heads, news, last) };
        Walking { progress, backfill: Memory::default() }
    }

    /// Goes on until all have been looked at, or it is `enough` for now: asked after each. Returns
    /// whether all have been.
    pub fn go_on<C: Promising<Slots = S>>(
        &mut self,
        policies: &Policies,
        queue: &Pending,
        requests: &impl Requests,
        capacity: &mut C,
        enough: impl FnMut(&C) -> bool,
    ) -> bool {
        match policies {
            Policies::FirstComeFirstServed => {
                in_order::go_on(queue, requests, capacity, &mut self.progress, enough);
            }
            Policies::PerQueue(depths) => {
                backfill::go_on(
                    queue,
                    requests,
                    capacity,
                    depths,
                    &mut self.progress,
                    &mut self.backfill,
                    enough,
                );
            }
        }
        self.progress.heads.is_empty()
    }

    /// True if the walk has found a place for this request.
    pub fn has_started(&self, pending: &PendingRequest) -> bool {
        self.backfill.has_started(pending)
    }

    /// Finds slots for a request that is not a part of the walk, between two that are. It avoids
    /// the nodes that this walk or the last one came to hold, nodes where it would keep a holder
    /// away, and these others.
    pub fn place_beside<C: Capacity<Slots = S>>(
        &self,
        (pending, request): (&PendingRequest, &Request),
        capacity: &mut C,
        last: &Claims,
        others: &RankSet,
    ) -> Option<S> {
        let held = self.progress.holds.closed_to(Some(request), capacity);
        let held_before = last.closed_to(Some(request), capacity);
        let mut nodes: Vec<RankSet> =
            request.groups.iter().map(|group| capacity.open(group)).collect();
        for nodes in &mut nodes {
            nodes.subtract(&held);
            nodes.subtract(&held_before);
            nodes.subtract(others);
        }
        if nodes.iter().any(RankSet::is_empty) || capacity.limit(pending, request).is_some() {
            return None;
        }
        match capacity.place(request, &nodes) {
            Fit::Placed(slots) => Some(slots),
            Fit::NotNow | Fit::NotFound => None,
        }
    }

    /// Ends the walk, and returns its plan.
    pub fn end(self, last: &mut Claims) -> Plan<S> {
        *last = self.progress.holds;
        self.progress.plan
    }
}

/// Remembers which attempts still stand.
pub fn confirm(queue: &mut Pending, confirmed: Vec<(ClassId, Standing)>) {
    for (class, standing) in confirmed {
        if let Some(attempt) = queue.last_attempt_mut(class) {
            attempt.confirm(standing);
        }
    }
}

/// True if all arrivals are behind the place where the last walk ended, so that they face exactly
/// the nodes that were held then.
pub fn is_behind(queue: &Pending, last: &Claims) -> bool {
    untried(queue).all(|(place, _)| last.is_before(place))
}
