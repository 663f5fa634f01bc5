//! A machine on which everything has an end, and no node comes or goes: the real one, asked no more
//! than is needed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::plan::{
    Booking, Capacity, Delay, Group, Kept, Late, Limited, Live, Outcome, Promising, Remade,
    Request, Reserved, Version,
};
use crate::queue::{ClassId, JobId, PendingRequest, Place, QueueId};
use fluxqueue_machine::fluxion::{Fit, Forecast, Rank, RankSet};
use fluxqueue_machine::ledger::{Allocations, Change};
use fluxqueue_workload::{Lifetime, Shape};

use super::firsts::{Firsts, Need};

/// The machine, for one sweep.
pub(super) struct Foreseen<'a> {
    pub live: Live<'a>,
    pub failures: &'a mut Failures,
    pub firsts: &'a Firsts,
}

/// Needs that cannot start now: a request that needs at least as much cannot start either. As time
/// passes a start can only become harder, since planned work comes nearer.
#[derive(Default)]
pub(super) struct Failures {
    /// Of each shape, how many pods were too many for how long: the longer, the fewer.
    known: Vec<(Arc<Shape>, BTreeMap<Lifetime, usize>)>,
    room: RoomFor,
    /// The number of times that pods were given back, or failures forgotten.
    given_back: u64,
}

/// For how many pods more there is room on all nodes together, as long as all that came are of one
/// shape.
#[derive(Default)]
enum RoomFor {
    /// No request has come.
    #[default]
    Unknown,
    /// All are of this shape.
    Of(Arc<Shape>, u64),
    /// They are of several.
    Various,
}

impl Failures {
    /// Pods of a shape come; `count` says for how many there is room on the idle machine.
    pub(super) fn meet(&mut self, shape: &Arc<Shape>, count: impl FnOnce() -> u64) {
        match &self.room {
            RoomFor::Unknown => self.room = RoomFor::Of(Arc::clone(shape), count()),
            RoomFor::Of(known, _) if !Arc::ptr_eq(known, shape) => self.room = RoomFor::Various,
            RoomFor::Of(..) | RoomFor::Various => {}
        }
    }

    /// Counts `pods` pods as having their nodes now.
    pub(super) fn take(&mut self, pods: usize) {
        if let RoomFor::Of(_, room) = &mut self.room {
            *room = room.saturating_sub(pods as u64);
        }
    }

    /// Counts `pods` pods that have given their nodes back: there is room for as many more.
    pub(super) fn give_back(&mut self, pods: usize) {
        self.given_back += 1;
        if let RoomFor::Of(_, room) = &mut self.room {
            *room += pods as u64;
            self.known
                .iter_mut()
                .flat_map(|(_, too_many)| too_many.values_mut())
                .for_each(|count| *count += pods);
        } else {
            self.known.clear();
        }
    }

    /// Forgets all failures, since a request is to have other nodes, or has them at another time.
    fn forget(&mut self) {
        self.known.clear();
        self.given_back += 1;
    }

    fn rules_out(&self, request: &Request) -> bool {
        only_want(request).is_some_and(|(shape, need)| self.rules_out_need(shape, need))
    }

    /// True if `pods` pods of this shape are known not to start for this lifetime.
    fn rules_out_need(&self, shape: &Arc<Shape>, Need { pods, lifetime }: Need) -> bool {
        if matches!(&self.room, RoomFor::Of(_, room) if pods as u64 > *room) {
            return true;
        }
        let of_shape = self.known.iter().find(|(known, _)| Arc::ptr_eq(known, shape));
        let too_many = of_shape.and_then(|(_, too_many)| too_many.range(..=lifetime).next_back());
        too_many.is_some_and(|(_, too_many)| *too_many <= pods)
    }

    /// The shape of all that came, if they are of one.
    fn only_shape(&self) -> Option<&Arc<Shape>> {
        match &self.room {
            RoomFor::Of(shape, _) => Some(shape),
            RoomFor::Unknown | RoomFor::Various => None,
        }
    }

    fn note(&mut self, request: &Request) {
        // The failure of a request for several shapes says nothing about other requests.
        let Some((shape, Need { pods, lifetime })) = only_want(request) else { return };
        let at = self.known.iter().position(|(known, _)| Arc::ptr_eq(known, shape)).unwrap_or_else(
            || {
                self.known.push((Arc::clone(shape), BTreeMap::new()));
                self.known.len() - 1
            },
        );
        let too_many = &mut self.known[at].1;
        too_many.retain(|longer, count| *longer < lifetime || *count < pods);
        too_many.insert(lifetime, pods);
    }
}

/// Returns the shape and need of a request that asks for pods of one shape only.
fn only_want(request: &Request) -> Option<(&Arc<Shape>, Need)> {
    let [group] = request.groups.as_slice() else { return None };
    let [want] = group.wants.as_slice() else { return None };
    Some((&want.shape, Need { pods: want.count, lifetime: group.lifetime }))
}

impl Capacity for Foreseen<'_> {
    type Slots = Allocations;

    fn steps_in_vain(&self) -> u64 {
        self.live.steps_in_vain()
    }

    fn version(&self, _: &Request) -> Version {
        Version { nodes: 0, changes: self.failures.given_back }
    }

    fn open(&mut self, group: &Group) -> RankSet {
        self.live.open(group)
    }

    fn lasting(&mut self, group: &Group) -> RankSet {
        self.live.lasting(group)
    }

    fn has_held_its_time(&mut self, pending: &PendingRequest, request: &Request) -> bool {
        self.live.has_held_its_time(pending, request)
    }

    fn place(&mut self, request: &Request, nodes: &[RankSet]) -> Fit<Self::Slots> {
        if self.failures.rules_out(request) {
            return Fit::NotNow;
        }
        let fit = self.live.place(request, nodes);
        if matches!(fit, Fit::NotNow) {
            self.failures.note(request);
        }
        fit
    }

    /// Answers that a request which does not fit now fits a second later, once others have ended.
    /// The real time is not needed here: a reservation has it itself.
    fn forecast(&mut self, _: &Request, _: &[RankSet]) -> Forecast {
        Forecast::At(self.live.now.seconds() + 1)
    }

    /// Every node that it may use is free one day.
    fn eligible(&mut self, _: &Request, nodes: &[RankSet]) -> RankSet {
        let mut all = RankSet::new();
        for of_group in nodes {
            all.union_with(of_group);
        }
        all
    }

    fn changed_since(&self, then: u64, _: &mut dyn FnMut(Change) -> bool) -> bool {
        self.failures.given_back != then
    }

    fn fits_one(&self, request: &Request, rank: Rank) -> bool {
        self.live.fits_one(request, rank)
    }

    fn fits_one_some_day(&self, request: &Request, rank: Rank) -> bool {
        self.live.fits_one_some_day(request, rank)
    }

    fn out_of_reach(&mut self, group: &Group, other: &Request, nodes: &RankSet) -> RankSet {
        self.live.out_of_reach(group, other, nodes)
    }

    fn crowded_by(&mut self, group: &Group, other: &Request, nodes: &RankSet) -> RankSet {
        self.live.crowded_by(group, other, nodes)
    }

    fn out_of_reach_of_promises(&mut self, group: &Group) -> Vec<(RankSet, JobId)> {
        self.live.out_of_reach_of_promises(group)
    }

    fn some_day(&mut self, group: &Group) -> RankSet {
        self.live.some_day(group)
    }

    fn waits_for_others(
        &mut self,
        request: &Request,
        open: &[RankSet],
        outcome: &Outcome,
    ) -> Option<RankSet> {
        self.live.waits_for_others(request, open, outcome)
    }

    fn are_allowed_together(&mut self, request: &Request, nodes: &[RankSet]) -> bool {
        self.live.are_allowed_together(request, nodes)
    }

    fn are_allowed_together_some_day(&mut self, request: &Request) -> bool {
        self.live.are_allowed_together_some_day(request)
    }

    fn limit(&mut self, pending: &PendingRequest, request: &Request) -> Option<Limited> {
        self.live.limit(pending, request)
    }

    fn drawn_away_by(&mut self, group: &Group, other: &Request, nodes: &RankSet) -> RankSet {
        self.live.drawn_away_by(group, other, nodes)
    }

    fn is_to_stay_undisturbed(&self, request: &Request, slots: &Self::Slots) -> Option<RankSet> {
        self.live.is_to_stay_undisturbed(request, slots)
    }

    fn rules_out(&self, request: &Request) -> bool {
        self.failures.rules_out(request)
    }

    fn knows_candidates(&self) -> bool {
        self.failures.only_shape().is_some()
    }

    fn next_candidate(&self, behind: &Place) -> Option<(Place, ClassId)> {
        let shape = self.failures.only_shape()?;
        self.firsts.next(behind, |need| self.failures.rules_out_need(shape, need)).cloned()
    }
}

impl Promising for Foreseen<'_> {
    fn may_be_passed_by(&self, pending: &PendingRequest) -> bool {
        self.live.may_be_passed_by(pending)
    }

    fn inherit_patience(&mut self, pending: &PendingRequest, queue: QueueId) {
        self.live.inherit_patience(pending, queue);
    }

    fn displaces(&self, pending: &PendingRequest) -> Option<Delay> {
        self.live.displaces(pending)
    }

    fn promised(&self) -> Vec<PendingRequest> {
        self.live.promised()
    }

    fn reserved(&self, pending: &PendingRequest) -> Option<Reserved> {
        self.live.reserved(pending)
    }

    fn reserve(
        &mut self,
        pending: (&PendingRequest, ClassId),
        request: &Request,
        nodes: &[RankSet],
        not_before: Option<i64>,
    ) -> Booking<Self::Slots> {
        self.live.reserve(pending, request, nodes, not_before)
    }

    fn remake(
        &mut self,
        pending: &PendingRequest,
        asked_now: Option<(ClassId, Request)>,
        left_of: &dyn Fn(&RankSet) -> RankSet,
    ) -> Remade<Self::Slots> {
        let remade = self.live.remake(pending, asked_now, left_of);
        if !matches!(remade, Remade::Kept { moved: false, .. }) {
            self.failures.forget();
        }
        remade
    }

    fn take_lost(&mut self, pending: &PendingRequest) -> Option<Late> {
        self.live.take_lost(pending)
    }

    fn withdraw(&mut self, pending: &PendingRequest) -> Option<Kept> {
        self.failures.forget();
        self.live.withdraw(pending)
    }

    fn let_go(&mut self, pending: &PendingRequest) {
        self.live.let_go(pending);
    }

    fn drain(
        &mut self,
        pending: &PendingRequest,
        request: &Request,
        nodes: &[RankSet],
    ) -> Arc<RankSet> {
        self.live.drain(pending, request, nodes)
    }
}
