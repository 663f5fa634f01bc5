//! The plan's view of the real machine.

mod within_limits;

use std::sync::Arc;

use super::capacity::{Capacity, Limited, Version};
use super::group::Group;
use super::nodes::union;
use super::outcome::Outcome;
use super::promising::{Booking, Delay, Kept, Late, Promising, Remade, Reserved};
use super::request::Request;
use super::room::Room;
use super::search;
use crate::promises::{Promise, Promises};
use crate::queue::{ClassId, JobId, PendingRequest, Place, QueueId};
use crate::queues::Accounts;
use fluxqueue_machine::fluxion::{self, Fit, Forecast, Later, Rank, RankSet};
use fluxqueue_machine::ledger::{self, Allocations, Change};
use fluxqueue_workload::Time;

/// The resource graph and the nodes as they are.
pub struct Live<'a> {
    /// The nodes, and the bookings on them.
    pub room: Room<'a>,
    /// The reservations.
    pub promises: &'a mut Promises,
    /// The use of the limits of queues.
    pub accounts: &'a mut Accounts,
    /// The present.
    pub now: Time,
}

impl Capacity for Live<'_> {
    type Slots = Allocations;

    fn steps_in_vain(&self) -> u64 {
        self.room.ledger.steps_in_vain()
    }

    fn version(&self, request: &Request) -> Version {
        self.room.version(request)
    }

    fn open(&mut self, group: &Group) -> RankSet {
        self.room.open(group)
    }

    fn some_day(&mut self, group: &Group) -> RankSet {
        self.room.some_day(group)
    }

    fn lasting(&mut self, group: &Group) -> RankSet {
        self.room.lasting(group)
    }

    fn forecast(&mut self, request: &Request, nodes: &[RankSet]) -> Forecast {
        self.room.forecast(request, nodes)
    }

    fn eligible(&mut self, request: &Request, nodes: &[RankSet]) -> RankSet {
        self.room.eligible(request, nodes)
    }

    fn out_of_reach(&mut self, group: &Group, other: &Request, nodes: &RankSet) -> RankSet {
        self.room.cluster.reach().out_of_reach(
            &group.sample.shape.constraints.repels,
            other.all_pods(),
            nodes,
        )
    }

    fn crowded_by(&mut self, group: &Group, other: &Request, nodes: &RankSet) -> RankSet {
        self.room.cluster.reach().crowded_by(
            &group.sample.shape.constraints.spreads,
            other.all_pods(),
            nodes,
        )
    }

    fn drawn_away_by(&mut self, group: &Group, other: &Request, nodes: &RankSet) -> RankSet {
        self.room.cluster.reach().drawn_away_by(
            &group.sample.shape.constraints.near,
            other.all_pods(),
            nodes,
        )
    }

    fn fits_one(&self, request: &Request, rank: Rank) -> bool {
        let mut wants = request.groups.iter().flat_map(|group| &group.wants);
        wants.any(|want| {
            self.room.cluster.nodes().would_hold(
                rank,
                &want.shape.requests,
                &fluxqueue_workload::Resources::new(),
            )
        })
    }

    fn fits_one_some_day(&self, request: &Request, rank: Rank) -> bool {
        let mut wants = request.groups.iter().flat_map(|group| &group.wants);
        wants.any(|want| {
            self.room.ledger.has_room_some_day(self.room.cluster, rank, &want.shape.requests)
        })
    }

    fn changed_since(&self, then: u64, matters: &mut dyn FnMut(Change) -> bool) -> bool {
        self.room.ledger.changes.any_since(then, matters)
    }

    fn waits_for_others(
        &mut self,
        request: &Request,
        open: &[RankSet],
        outcome: &Outcome,
    ) -> Option<RankSet> {
        search::nodes_waited_for(&mut self.room, request, open, outcome)
    }

    fn has_held_its_time(&mut self, pending: &PendingRequest, request: &Request) -> bool {
        let mut groups = request.groups.iter();
        let Some(group) = groups.find(|group| group.repels_other_namespaces()) else {
            return false;
        };
        self.promises.has_held_its_time(
            pending,
            self.now,
            self.room.queues.bypass_secs(group.queue),
        )
    }

    fn are_allowed_together(&mut self, request: &Request, nodes: &[RankSet]) -> bool {
        if !request.asks_about_each_other() {
            return true;
        }
        let nodes = self.room.open_to(request, nodes);
        let ranks: Vec<Rank> = union(&nodes).iter().collect();
        if !request.rests_on_volumes() {
            return search::nodes_for_all(&mut self.room, request, &nodes, &ranks).is_some();
        }
        // A choice that is given back forgets the nominations of pods, so a copy has to do.
        let mut cluster = self.room.cluster.clone();
        search::nodes_for_all(&mut self.room.on(&mut cluster), request, &nodes, &ranks).is_some()
    }

    fn are_allowed_together_some_day(&mut self, request: &Request) -> bool {
        if !request.asks_about_each_other() {
            return true;
        }
        let nodes: Vec<RankSet> =
            request.groups.iter().map(|group| self.room.some_day(group)).collect();
        search::are_enough_some_day(&mut self.room, request, &nodes)
    }

    fn place(&mut self, request: &Request, nodes: &[RankSet]) -> Fit<Self::Slots> {
        if !self.is_limited(request) {
            return search::place(&mut self.room, request, nodes);
        }
        let Some((demand, nodes)) = self.within_limits(request, nodes) else { return Fit::NotNow };
        let fit = search::place(&mut self.room, request, &nodes);
        if let Fit::Placed(slots) = &fit {
            self.count_start(demand, slots);
        }
        fit
    }

    fn limit(&mut self, pending: &PendingRequest, request: &Request) -> Option<Limited> {
        let promised = self.accounts.set_aside(pending);
        let limit = self.limit_of(request);
        self.accounts.put_back(pending, promised);
        limit
    }

    fn is_to_stay_undisturbed(&self, request: &Request, slots: &Allocations) -> Option<RankSet> {
        let nodes = || slots.iter().flatten().flatten().map(|slot| slot.rank).collect();
        request.is_to_stay_undisturbed().then(nodes)
    }

    fn out_of_reach_of_promises(&mut self, group: &Group) -> Vec<(RankSet, JobId)> {
        let (constraints, cluster) = (&group.sample.shape.constraints, &mut *self.room.cluster);
        let closed = self.promises.reservations().map(|(pending, promise)| {
            (
                cluster.reach().out_of_reach(
                    &constraints.repels,
                    promise.request.all_pods(),
                    &promise.place.nodes,
                ),
                pending.job(),
            )
        });
        closed.filter(|(closed, _)| !closed.is_empty()).collect()
    }

    fn rules_out(&self, _: &Request) -> bool {
        false
    }

    fn knows_candidates(&self) -> bool {
        false
    }

    fn next_candidate(&self, _: &Place) -> Option<(Place, ClassId)> {
        None
    }
}

impl Promising for Live<'_> {
    fn may_be_passed_by(&self, pending: &PendingRequest) -> bool {
        !self.promises.is_patience_over(pending)
    }

    fn inherit_patience(&mut self, pending: &PendingRequest, queue: QueueId) {
        self.promises.inherit_patience(pending, self.now, self.room.queues.bypass_secs(queue));
    }

    fn displaces(&self, pending: &PendingRequest) -> Option<Delay> {
        self.promises.ahead(pending)
    }

    fn promised(&self) -> Vec<PendingRequest> {
        self.promises.requests()
    }

    fn reserved(&self, pending: &PendingRequest) -> Option<Reserved> {
        let promise = self.promises.reservation(pending)?;
        Some(Reserved { start: promise.place.start, class: promise.class })
    }

    fn reserve(
        &mut self,
        pending: (&PendingRequest, ClassId),
        request: &Request,
        nodes: &[RankSet],
        not_before: Option<i64>,
    ) -> Booking<Self::Slots> {
        self.reserve_first_on(None, pending, &request.if_later(), nodes, not_before)
    }

    fn remake(
        &mut self,
        pending: &PendingRequest,
        asked_now: Option<(ClassId, Request)>,
        left_of: &dyn Fn(&RankSet) -> RankSet,
    ) -> Remade<Self::Slots> {
        let mut promise = self.promises.take(pending).expect("the walk has seen its reservation");
        let is_same = asked_now.is_none();
        if let Some((class, request)) = asked_now {
            (promise.class, promise.request) = (class, request.if_later().into_owned());
        }
        let kept = Kept { start: promise.place.start, nodes: promise.place.nodes.clone() };
        let open: Vec<RankSet> =
            promise.request.groups.iter().map(|group| self.room.open(group)).collect();
        let nodes: Vec<RankSet> =
            open.iter().map(|open| allowed(open, &kept.nodes, left_of)).collect();
        if self.is_limited(&promise.request) {
            return self.remake_within_limits((pending, is_same), promise, nodes);
        }
        let rules = self.rules_of(&promise.request);
        if is_same && nodes == promise.nodes && self.counts_as_before(&promise) {
            return match self.room.ledger.remake(self.room.cluster, promise.place) {
                ledger::Remade::Starts(mut slots) => {
                    self.room.house(&promise.request, &mut slots);
                    Remade::Starts(slots)
                }
                ledger::Remade::Lost => self.lose(pending, Delay::Capacity, kept),
                ledger::Remade::Kept(place, later) => {
                    let start = place.start;
                    let moved = start != kept.start || place.nodes != kept.nodes;
                    // The clock itself puts off by a second what cannot begin when its start has
                    // come: that alone is nothing to tell, but many seconds are.
                    let is_put_off = start > promise.told.saturating_add(PUT_OFF_SECONDS);
                    let cause = later.map(Delay::of).or(is_put_off.then_some(Delay::Walltime));
                    let cause = cause.filter(|_| start > promise.told);
                    let told = if cause.is_some() { start } else { promise.told.min(start) };
                    let was = Kept { start: promise.told, nodes: kept.nodes };
                    // By its present rules the queue leaves these nodes to it, so the rules are not
                    // the cause of a later loss.
                    self.promises.put(pending, Promise { place, told, rules, ..promise });
                    Remade::Kept {
                        start,
                        later: cause.map(|cause| Late { cause, was, by: None }),
                        moved,
                    }
                }
            };
        }
        // Other nodes than when it was made, or another class: it is another question.
        let cause = if rules == promise.rules { Delay::Capacity } else { Delay::Edit };
        self.room.ledger.give_up(&promise.place);
        // A reservation that was put back after a restart stays on its recorded nodes, unless
        // others are better.
        let first = promise.inherited.is_some().then_some(&kept.nodes);
        match self.reserve_first_on(first, (pending, promise.class), &promise.request, &nodes, None)
        {
            Booking::Now(slots) => Remade::Starts(slots),
            Booking::At(start) => {
                self.promises.inherit(pending, promise.written());
                let late = Late { cause, by: None, was: kept };
                Remade::Kept { start, later: (start > late.was.start).then_some(late), moved: true }
            }
            Booking::Never => self.lose(pending, cause, kept),
        }
    }

    fn take_lost(&mut self, pending: &PendingRequest) -> Option<Late> {
        self.promises.take_lost(pending)
    }

    fn withdraw(&mut self, pending: &PendingRequest) -> Option<Kept> {
        self.accounts.take_back(pending);
        let promise = self.promises.take(pending)?;
        self.room.ledger.give_up(&promise.place);
        Some(Kept { start: promise.place.start, nodes: promise.place.nodes })
    }

    fn let_go(&mut self, pending: &PendingRequest) {
        self.accounts.let_go(pending);
        self.promises.let_go(pending);
    }

    fn drain(
        &mut self,
        pending: &PendingRequest,
        request: &Request,
        nodes: &[RankSet],
    ) -> Arc<RankSet> {
        if self.hold_within_limits(pending, request) {
            self.promises.let_go(pending);
            return Arc::default();
        }
        let known = self.promises.drained(pending).cloned();
        let held =
            known.and_then(|known| search::still_enough_of(&mut self.room, request, nodes, &known));
        if let Some(held) = held.or_else(|| {
            search::fewest_that_are_enough(&mut self.room, request, nodes).map(Arc::new)
        }) {
            self.promises.drain(pending, Arc::clone(&held));
            return held;
        }
        // Held nodes and work without an end leave too little room. Keeping the rest idle would
        // help no job.
        self.promises.let_go(pending);
        Arc::default()
    }
}

impl Live<'_> {
    /// Takes slots or makes a reservation, first on these nodes if they are as good as any.
    fn reserve_first_on(
        &mut self,
        first: Option<&RankSet>,
        (pending, class): (&PendingRequest, ClassId),
        request: &Request,
        nodes: &[RankSet],
        not_before: Option<i64>,
    ) -> Booking<Allocations> {
        if request.asks_about_pods() || request.rests_on_volumes() {
            // Other pods may come to its nodes, or leave those that it wants to be near to, and
            // volumes that are free may go to others: nothing is promised on that.
            return match self.place(request, nodes) {
                Fit::Placed(slots) => Booking::Now(slots),
                Fit::NotNow | Fit::NotFound => Booking::Never,
            };
        }
        if self.is_limited(request) {
            return self.reserve_within_limits(
                (pending, class),
                request,
                (nodes, first),
                not_before,
            );
        }
        if let Some(slots) = search::place_as_preferred(&mut self.room, request, nodes) {
            return Booking::Now(slots);
        }
        let groups = self.room.ordered_groups_from(first, request, nodes);
        match self.room.ledger.reserve(self.room.cluster, groups, not_before) {
            fluxion::Booking::Now(mut slots) => {
                self.room.house(request, &mut slots);
                Booking::Now(slots)
            }
            fluxion::Booking::Never => Booking::Never,
            fluxion::Booking::At(place) => {
                let start = place.start;
                let rules = self.rules_of(request);
                let promise = Promise::new(place, class, (request.clone(), nodes.to_vec()), rules);
                self.promises.put(pending, promise);
                Booking::At(start)
            }
        }
    }
}

/// Delay of a reservation in seconds up to which it may still begin in a moment: the clock itself
/// puts a start off by this much.
pub const PUT_OFF_SECONDS: i64 = 1;

/// Returns the nodes that a reservation may use among those open to it: the ones that are left to
/// it, and its present ones.
fn allowed(open: &RankSet, was: &RankSet, left_of: &dyn Fn(&RankSet) -> RankSet) -> RankSet {
    let mut allowed = left_of(open);
    allowed.union_with(&open.intersection(was));
    allowed
}

impl Delay {
    pub(super) fn of(later: Later) -> Self {
        match later {
            Later::Overdue => Delay::Walltime,
            Later::Capacity => Delay::Capacity,
        }
    }
}
