//! Backfill: small jobs fill the gaps without delaying requests that have been promised a start, by
//! EASY, hybrid or conservative backfilling.
//!
//! The walk goes over the queue in order. A request that fits now starts. Of the requests that do
//! not fit, the first ones, up to a configured number, hold a reservation: a start time on nodes,
//! with room for all of the request. Each walk withdraws a reservation and makes it again at the
//! earliest second around all others, before and behind it, so it only moves earlier. If a
//! reservation does move later, its cause is reported with it: see [`Delay`]. No request starts
//! where that would delay a reservation: the resource graph, which knows them all, has no room
//! there.
//!
//! Work with an unknown end gives no date. A request that waits for such work has no reservation,
//! and others may pass it by. Once the first such request has waited for longer than the rules
//! allow, it holds one set of nodes of the size that it needs until it starts.
//!
//! Each request is walked by the policy and depths of its own queue. In a queue of first come,
//! first served no request starts before one that waits ahead of it there; against other queues its
//! head holds a reservation, as under EASY.
//!
//! The policies are those of Fluxion's queue manager (`qmanager`), which makes all reservations of
//! a queue again in each loop, as if none had been promised. EASY: Lifka, "The ANL/IBM SP
//! Scheduling System" (1995). Conservative: Mu'alem and Feitelson (2001).

use std::sync::Arc;

use super::attempt::{Attempt, attempt};
use super::capacity::Requests;
use super::claims::Claims;
use super::memory::{Memory, Waits};
use super::outcome::Outcome;
use super::progress::{Decision, Pending, Plan, Progress};
use super::promising::{Booking, Delay, Kept, Late, Promising, Remade, reserve_again};
use super::resting::Resting;
use crate::policies::Depths;
use crate::queue::{ClassId, JobId, PendingRequest, Place, QueueId};
use fluxqueue_machine::fluxion::{Fit, Forecast, RankSet};

struct Walk<'a, C: Promising, R> {
    queue: &'a Pending,
    requests: &'a R,
    capacity: &'a mut C,
    /// The depths, by the number of the queue.
    depths: &'a [Depths],
    holds: Claims,
    memory: &'a mut Memory,
    plan: Plan<C::Slots>,
    resting: &'a mut Resting,
}

/// Walks the queue in order. Requests that start have their slots in `capacity` afterwards, and
/// promised ones their reservations.
pub(super) fn go_on<C: Promising>(
    queue: &Pending,
    requests: &impl Requests,
    capacity: &mut C,
    depths: &[Depths],
    progress: &mut Progress<C::Slots>,
    memory: &mut Memory,
    mut enough: impl FnMut(&C) -> bool,
) {
    let (holds, plan) = (std::mem::take(&mut progress.holds), std::mem::take(&mut progress.plan));
    let resting = &mut progress.resting;
    let mut walk = Walk { queue, requests, capacity, depths, holds, memory, plan, resting };
    while let Some((place, class)) = progress.heads.pop_first() {
        // A request that has come since the walk began may have started beside it.
        let is_there = queue.class_of(place.request()) == Some(class);
        if !is_there || walk.visit(&place, class) {
            progress.heads.extend(queue.next_of(class, &place).map(|next| (next.clone(), class)));
        }
        if progress.is_found_on_the_way {
            progress.heads.extend(walk.next_behind(&place));
        }
        walk.holds.come_to(place);
        if enough(walk.capacity) {
            break;
        }
    }
    let Walk { holds, plan, .. } = walk;
    (progress.holds, progress.plan) = (holds, plan);
}

impl<C: Promising, R: Requests> Walk<'_, C, R> {
    /// Looks at a request. True if others of its class are to be looked at, too.
    fn visit(&mut self, place: &Place, class: ClassId) -> bool {
        let pending = place.request();
        if self.memory.started.contains(pending) {
            return true;
        }
        if self.requests.is_put_off(pending) {
            let was = self.capacity.withdraw(pending);
            let put_off = was.map(|was| Decision::PutOff { pending: pending.clone(), was });
            self.plan.decisions.extend(put_off);
            return true;
        }
        if let Some(head) = self.head_before(place) {
            return self.visit_behind(place, class, &head);
        }
        let displaces = self.capacity.displaces(pending);
        let mut before = self.capacity.take_lost(pending);
        if self.capacity.reserved(pending).is_some() {
            if displaces == Some(Delay::Edit) {
                // It asks for something else than when it was promised, or for another place in the
                // queue.
                before = self.capacity.withdraw(pending).map(|was| Late {
                    cause: Delay::Edit,
                    was,
                    by: None,
                });
            } else if let Some(starts) = self.remake(pending, class) {
                if !starts {
                    let known = self.queue.last_attempt(class);
                    if known.is_none_or(|known| known.is_in_doubt)
                        && !self.memory.waiting.contains_key(&class)
                    {
                        // The cause is unknown: the request was put back after a restart, or its
                        // cause has to be found out again.
                        self.attempt(pending, class);
                    }
                    self.memory.waiting.insert(class, Waits::ForADate);
                    self.note_head(place);
                }
                return true;
            }
        }
        let waits = match self.memory.waiting.get(&class) {
            Some(known) => *known,
            None => match self.attempt(pending, class) {
                Some(waits) => waits,
                None => return true,
            },
        };
        if let Some(cause) = displaces
            && waits != Waits::InVain
            && self.displace((place, class), cause, before.clone())
        {
            return true;
        }
        self.memory.waiting.insert(class, waits);
        // A request that waits for others on some nodes may be promised different nodes.
        let waits = if matches!(waits, Waits::ForADate | Waits::Behind) && self.may_reserve(place) {
            if self.reserve(place, class, before.clone()) {
                return true;
            }
            self.without_a_date(pending, waits)
        } else if waits == Waits::ForADate && !self.capacity.may_be_passed_by(pending) {
            // The known answer about its date may be old; it is computed again for a request that
            // was passed by for long enough.
            self.forecast(pending)
        } else {
            waits
        };
        let waits = if self.has_held_its_time(place, class, waits) { Waits::InVain } else { waits };
        if waits != Waits::InVain {
            self.note_head(place);
        }
        if before.is_some() {
            self.plan
                .decisions
                .push(Decision::Withdrawn { pending: pending.clone(), later: before });
        }
        match waits {
            Waits::ForUnknown | Waits::Behind => self.be_passed_by(place, waits),
            Waits::ForADate | Waits::InVain => self.capacity.let_go(pending),
        }
        false
    }

    fn depths(&self, place: &Place) -> Depths {
        Depths::for_queue(self.depths, place.queue())
    }

    fn may_reserve(&mut self, place: &Place) -> bool {
        self.may_reserve_in(place.queue(), place)
    }

    /// True if a request of this queue may have a reservation in this place.
    fn may_reserve_in(&mut self, queue: QueueId, place: &Place) -> bool {
        let depths = Depths::for_queue(self.depths, queue);
        if self.holds.of(queue).reservations >= depths.reservations {
            return false;
        }
        let bound = self.memory.bounds.entry(queue).or_insert_with(|| {
            // Mostly there are fewer, which is known without counting.
            let is_longer = self.queue.len_of(queue) > depths.queue;
            is_longer.then(|| self.queue.of_queue(queue).nth(depths.queue).cloned())?
        });
        bound.as_ref().is_none_or(|bound| place < bound)
    }

    /// Returns the next place to visit behind this one, where places are found on the way: the next
    /// first of a class. Once no request behind can be given a reservation any more, it is the next
    /// one that may start.
    fn next_behind(&mut self, place: &Place) -> Option<(Place, ClassId)> {
        let queue = self.queue;
        let would_others_wait = queue.queues().any(|of| {
            Depths::for_queue(self.depths, of).in_order || self.may_reserve_in(of, place)
        });
        if would_others_wait {
            return queue.next_head(place).map(|(next, class)| (next.clone(), class));
        }
        self.capacity.next_candidate(place)
    }

    // --- queues in which no request overtakes ---

    /// Returns the request that waits ahead of this place, if no request of the queue may start
    /// before it.
    fn head_before(&mut self, place: &Place) -> Option<Place> {
        self.depths(place).in_order.then(|| self.holds.of(place.queue()).head.clone())?
    }

    /// Notes that a request waits: nothing behind it may start, if its queue lets no request
    /// overtake.
    fn note_head(&mut self, place: &Place) {
        if self.depths(place).in_order {
            self.holds.of(place.queue()).head.get_or_insert_with(|| place.clone());
        }
    }

    /// Visits a request behind the head of its queue: it keeps the place that it was promised
    /// before the head came, or waits. True if others of its class have to be visited, too.
    fn visit_behind(&mut self, place: &Place, class: ClassId, head: &Place) -> bool {
        let pending = place.request();
        if self.capacity.reserved(pending).is_some() {
            let kept = match self.displaced_by(head, place) {
                None => self.remake(pending, class),
                Some((cause, by)) => {
                    let was = self.capacity.withdraw(pending);
                    let later = was.map(|was| Late { cause, was, by });
                    self.plan
                        .decisions
                        .push(Decision::Withdrawn { pending: pending.clone(), later });
                    None
                }
            };
            if let Some(starts) = kept {
                if !starts {
                    self.say_behind(pending, class, head);
                }
                return true;
            }
        }
        if let Some(late) = self.capacity.take_lost(pending) {
            self.plan
                .decisions
                .push(Decision::Withdrawn { pending: pending.clone(), later: Some(late) });
        }
        self.capacity.let_go(pending);
        self.say_behind(pending, class, head);
        false
    }

    /// Returns why a request that is promised a start has to wait for the head of its queue all the
    /// same, and which job caused that. A head that came to be ahead in another way than these two,
    /// for example since it was kept out for a time, goes around the promises of others.
    fn displaced_by(&self, head: &Place, place: &Place) -> Option<(Delay, Option<JobId>)> {
        if self.capacity.displaces(place.request()) == Some(Delay::Edit) {
            return Some((Delay::Edit, None));
        }
        let cause = self.capacity.displaces(head.request())?;
        let is_ahead_by_it = cause != Delay::Priority || place.has_lower_priority_than(head);
        is_ahead_by_it.then(|| (cause, Some(head.request().job())))
    }

    /// Notes that it waits for the head of its queue, whatever else it would have to wait for.
    fn say_behind(&mut self, pending: &PendingRequest, class: ClassId, head: &Place) {
        let head = head.request().job();
        let known = self.queue.last_attempt(class).map(|attempt| &attempt.outcome);
        let is_said = matches!(known, Some(Outcome::Behind { job, .. }) if *job == head);
        // The answer that was found out about the head is the answer of its class.
        let is_of_head = self
            .queue
            .of_class(class, None)
            .next()
            .is_some_and(|first| first.request().job() == head);
        if is_said || is_of_head {
            return;
        }
        if let Some(request) = self.requests.request(pending) {
            let attempt = Box::new(Attempt::behind(head, request, self.capacity));
            self.plan.decisions.push(Decision::Blocked {
                class,
                pending: pending.clone(),
                attempt,
            });
        }
    }

    /// Returns the nodes that the groups of a request may use, without those that are held against
    /// it.
    fn free(&mut self, request: &super::Request) -> Vec<RankSet> {
        let open: Vec<RankSet> =
            request.groups.iter().map(|group| self.capacity.open(group)).collect();
        self.holds.left_to(request, &open, self.capacity).nodes
    }

    /// Tries to start a request. Returns the cause for which it waits, or `None` if it starts.
    fn attempt(&mut self, pending: &PendingRequest, class: ClassId) -> Option<Waits> {
        let known = self.queue.last_attempt(class);
        if let Some(known) = known.filter(|known| self.capacity.rules_out(&known.request)) {
            return Some(Waits::for_what(known));
        }
        if let Some(known) = known
            && let Some(standing) = known.still_stands(self.capacity, &self.holds)
        {
            if standing.differs_from(known) {
                self.plan.confirmed.push((class, standing));
            }
            return Some(Waits::for_what(known));
        }
        let Some(request) = self.requests.request(pending) else { return Some(Waits::InVain) };
        if self.resting.includes(&request) {
            return Some(Waits::InVain);
        }
        match attempt((pending, request), known, self.capacity, &self.holds) {
            Ok((request, slots)) => {
                self.start(pending, request, slots);
                None
            }
            Err(attempt) => {
                self.resting.note(&attempt);
                let waits = Waits::for_what(&attempt);
                self.plan.decisions.push(Decision::Blocked {
                    class,
                    pending: pending.clone(),
                    attempt,
                });
                Some(waits)
            }
        }
    }

    // --- reservations ---

    /// Makes a reservation again. True if the request starts now, `None` if nothing is left of the
    /// reservation. A request that was not edited may also be of another class, when other pods
    /// have come that keep its pods away; it still has a reservation then, even where no new ones
    /// may be given.
    fn remake(&mut self, pending: &PendingRequest, class: ClassId) -> Option<bool> {
        let is_same =
            self.capacity.reserved(pending).is_some_and(|reserved| reserved.class == class);
        let asked_now = if is_same {
            None
        } else {
            self.requests.request(pending).map(|request| (class, request))
        };
        // Requests that hold nodes rarely have rules about other pods.
        let request =
            if self.holds.ask_about_others() { self.requests.request(pending) } else { None };
        let closed = self.holds.closed_to(request.as_ref(), self.capacity);
        let left_of = |open: &RankSet| {
            let mut left = open.clone();
            left.subtract(&closed);
            left
        };
        match self.capacity.remake(pending, asked_now, &left_of) {
            Remade::Starts(slots) => {
                // The follower of the decision gives back slots that no pod asks for any more.
                let request = self
                    .requests
                    .request(pending)
                    .unwrap_or(super::Request { groups: Vec::new(), starts_job: false });
                self.start(pending, request, slots);
                Some(true)
            }
            Remade::Kept { start, later, moved } => {
                self.note_blocked_with_date(pending);
                if moved {
                    self.plan.decisions.push(Decision::Reserved {
                        pending: pending.clone(),
                        start,
                        later,
                    });
                }
                Some(false)
            }
            Remade::Lost(late) => {
                self.plan
                    .decisions
                    .push(Decision::Withdrawn { pending: pending.clone(), later: Some(late) });
                None
            }
        }
    }

    fn start(&mut self, pending: &PendingRequest, request: super::Request, slots: C::Slots) {
        if let Some(nodes) = self.capacity.is_to_stay_undisturbed(&request, &slots) {
            self.holds.note_beginning(nodes, &request, pending);
        }
        self.memory.started.insert(pending.clone());
        self.plan.decisions.push(Decision::Start { pending: pending.clone(), request, slots });
    }

    /// Promises a request a start. With `before`, it had a promise to start then, and asked for
    /// something else. False if no start is known: requests with a promise have the room for ever,
    /// or the work that it waits for has no end.
    fn reserve(&mut self, place: &Place, class: ClassId, before: Option<Late>) -> bool {
        let pending = place.request();
        let Some(request) = self.requests.request(pending) else { return false };
        let nodes = self.free(&request);
        match self.capacity.reserve((pending, class), &request, &nodes, None) {
            Booking::Now(slots) => self.start(pending, request, slots),
            Booking::At(start) => {
                self.capacity.let_go(pending);
                self.note_reserved(pending, start, before);
                self.note_head(place);
            }
            Booking::Never => return false,
        }
        true
    }

    /// Returns the cause for which a request waits that can be promised no start.
    fn without_a_date(&mut self, pending: &PendingRequest, waits: Waits) -> Waits {
        let request = self.requests.request(pending).filter(|_| waits == Waits::ForADate);
        let Some(request) = request else { return waits };
        if self.capacity.limit(pending, &request).is_none() {
            return Waits::ForUnknown;
        }
        // That its queue may have more by some second says nothing of the nodes.
        match self.forecast(pending) {
            Waits::InVain => Waits::InVain,
            _ => Waits::ForUnknown,
        }
    }

    /// Returns the cause for which a request waits on the nodes that it may use, as things are now.
    fn forecast(&mut self, pending: &PendingRequest) -> Waits {
        let Some(request) = self.requests.request(pending) else { return Waits::InVain };
        let open: Vec<RankSet> =
            request.groups.iter().map(|group| self.capacity.open(group)).collect();
        match self.capacity.forecast(&request, &open) {
            Forecast::Now | Forecast::At(_) => Waits::ForADate,
            Forecast::Eventually => Waits::ForUnknown,
            Forecast::Blocked | Forecast::Never | Forecast::NotFound => {
                let waits = self.capacity.waits_for_others(&request, &open, &Outcome::PassedOver);
                if waits.is_some() { Waits::ForUnknown } else { Waits::InVain }
            }
        }
    }

    fn note_reserved(&mut self, pending: &PendingRequest, start: i64, before: Option<Late>) {
        self.note_blocked_with_date(pending);
        let later = before.filter(|late| start > late.was.start);
        self.plan.decisions.push(Decision::Reserved { pending: pending.clone(), start, later });
    }

    fn note_blocked_with_date(&mut self, pending: &PendingRequest) {
        if let Some((place, _)) = self.queue.place_of(pending) {
            let queue = self.holds.of(place.queue());
            queue.reservations += 1;
            queue.has_blocked = true;
        }
    }

    /// True if others may no longer pass it by, and the time for which nodes are held for it is
    /// over.
    fn has_held_its_time(&mut self, place: &Place, class: ClassId, waits: Waits) -> bool {
        if !matches!(waits, Waits::ForUnknown | Waits::Behind) {
            return false;
        }
        let known = self.queue.last_attempt(class).map(|known| Arc::clone(&known.request));
        // After a restart a class is tried for the first time, and a request may have been passed
        // by for long.
        let request = known.or_else(|| self.requests.request(place.request()).map(Arc::new));
        request.is_some_and(|request| {
            self.capacity.inherit_patience(place.request(), place.queue());
            self.capacity.has_held_its_time(place.request(), &request)
        })
    }

    /// Handles a request for which no start is known. The first such request in a queue is passed
    /// by for a time, and then no longer.
    fn be_passed_by(&mut self, place: &Place, waits: Waits) {
        let pending = place.request();
        let queue = self.holds.of(place.queue());
        if !queue.has_blocked && waits == Waits::ForUnknown {
            self.plan.first_undated.push(pending.clone());
        }
        queue.has_blocked = true;
        self.capacity.inherit_patience(pending, place.queue());
        let is_strict = self.depths(place).is_strict;
        if !is_strict && self.capacity.may_be_passed_by(pending) {
            return;
        }
        if !is_strict && self.memory.holding.contains(&pending.job()) {
            return self.capacity.let_go(pending);
        }
        // Its job may have no demand any more.
        let Some(request) = self.requests.request(pending) else { return };
        // The work that has to keep off these nodes from now on need not have left yet.
        let some_day: Vec<RankSet> =
            request.groups.iter().map(|group| self.capacity.some_day(group)).collect();
        let nodes = self.holds.left_to(&request, &some_day, self.capacity).nodes;
        let held = self.capacity.drain(pending, &request, &nodes);
        if !held.is_empty() {
            self.memory.holding.insert(pending.job());
        }
        self.holds.add_nodes(&held, &Arc::new(request), pending.job());
    }

    // --- requests that come in ahead ---

    /// Places a request that may go ahead of reservations that were made before it came, as if
    /// those were not there; the ones in its way are made again then. True if the request starts,
    /// or has a reservation.
    fn displace(
        &mut self,
        (place, class): (&Place, ClassId),
        cause: Delay,
        before: Option<Late>,
    ) -> bool {
        let pending = place.request();
        let promised = self.capacity.promised();
        let mut behind: Vec<(Place, ClassId)> = promised
            .iter()
            .filter(|other| self.capacity.reserved(other).is_some())
            .filter_map(|other| self.queue.place_of(other))
            .filter(|(other, _)| {
                *other > place && (cause != Delay::Priority || other.has_lower_priority_than(place))
            })
            .map(|(other, class)| (other.clone(), class))
            .collect();
        let Some(request) = self.requests.request(pending).filter(|_| !behind.is_empty()) else {
            return false;
        };
        behind.sort_unstable();
        let kept: Vec<Option<Kept>> =
            behind.iter().map(|(other, _)| self.capacity.withdraw(other.request())).collect();
        let nodes = self.free(&request);
        let booking = if self.may_reserve(place) {
            self.capacity.reserve((pending, class), &request, &nodes, None)
        } else {
            match self.capacity.place(&request, &nodes) {
                Fit::Placed(slots) => Booking::Now(slots),
                Fit::NotNow | Fit::NotFound => Booking::Never,
            }
        };
        // A request that takes nothing is in the way of no other: the machine has changed.
        let (cause, by) = match booking {
            Booking::Never => (Delay::Capacity, None),
            Booking::Now(_) | Booking::At(_) => (cause, Some(pending.job())),
        };
        let mut in_the_way = Vec::new();
        let kept = behind.iter().zip(kept).filter_map(|(other, kept)| Some((other, kept?)));
        for ((other, class), kept) in kept {
            if !self.put_back(other.request(), *class, &kept) {
                let late = Late { cause, was: kept, by };
                in_the_way.push((other.request().clone(), *class, late));
            }
        }
        for (other, class, late) in in_the_way {
            self.promise_elsewhere(&other, class, late);
        }
        match booking {
            Booking::Now(slots) => self.start(pending, request, slots),
            Booking::At(start) => {
                self.memory.waiting.insert(class, Waits::ForADate);
                self.note_reserved(pending, start, before);
                self.note_head(place);
            }
            Booking::Never => return false,
        }
        true
    }

    /// Puts a reservation back where it was. False if its room there is taken.
    fn put_back(&mut self, pending: &PendingRequest, class: ClassId, kept: &Kept) -> bool {
        let Some(request) = self.requests.request(pending) else { return false };
        match reserve_again(self.capacity, (pending, class), &request, kept) {
            Booking::At(start) if start == kept.start => true,
            Booking::At(_) => {
                self.capacity.withdraw(pending);
                false
            }
            Booking::Now(slots) => {
                self.start(pending, request, slots);
                true
            }
            Booking::Never => false,
        }
    }

    /// Makes a reservation again after its room was taken.
    fn promise_elsewhere(&mut self, pending: &PendingRequest, class: ClassId, late: Late) {
        // Its job may have no demand any more.
        let Some(request) = self.requests.request(pending) else { return };
        let nodes = self.free(&request);
        let decision = match self.capacity.reserve((pending, class), &request, &nodes, None) {
            Booking::Now(slots) => return self.start(pending, request, slots),
            Booking::At(start) => {
                let later = (start > late.was.start).then_some(late);
                Decision::Reserved { pending: pending.clone(), start, later }
            }
            Booking::Never => Decision::Withdrawn { pending: pending.clone(), later: Some(late) },
        };
        self.plan.decisions.push(decision);
    }
}
