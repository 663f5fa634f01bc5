//! The plan's view of the real machine.

use std::sync::Arc;

use super::nodes::union;
use super::{
    Booking, Capacity, Delay, Group, Kept, Late, Limited, Outcome, Promising, Remade, Request,
    Reserved, Version,
};
use crate::promises::{Promise, Promises};
use crate::queue::{ClassId, JobId, PendingRequest, QueueId};
use crate::queues::{Accounts, Queues};
use fluxqueue_machine::cluster::{Cluster, Company};
use fluxqueue_machine::fluxion::{self, Fit, Forecast, Later, Rank, RankSet};
use fluxqueue_machine::ledger::{self, Allocations, Change, GroupRequest, Ledger};
use fluxqueue_workload::Time;

/// The resource graph and the nodes as they are.
pub struct Live<'a> {
    /// The bookings.
    pub ledger: &'a mut Ledger,
    /// The nodes, and the pods on them.
    pub cluster: &'a mut Cluster,
    /// The reservations.
    pub promises: &'a mut Promises,
    /// The queues, with their rules.
    pub queues: &'a Queues,
    /// The use of their limits.
    pub accounts: &'a mut Accounts,
    /// Nodes that are left alone for a moment, and how often they changed.
    pub suspects: &'a RankSet,
    /// A number that grows with each change of `suspects`.
    pub suspects_version: u64,
    /// The present.
    pub now: Time,
}

impl Live<'_> {
    /// Narrows these nodes to those of the queue.
    fn narrow(&mut self, nodes: &mut RankSet, group: &Group) {
        if let Some(constraints) = self.queues.nodes(group.queue) {
            nodes.intersect_with(&self.cluster.class(constraints).lasting);
        }
    }

    /// Narrows these nodes to those that the group could use now, without regard to volumes and to
    /// pods with rules about others.
    fn narrow_to_usable(&mut self, group: &Group, nodes: &mut RankSet) {
        nodes.subtract(self.suspects);
        self.narrow(nodes, group);
        self.close_by_levels(group, nodes);
    }

    /// Takes the nodes of parts out that have as many of the job's pods as they may have.
    fn close_by_levels(&mut self, group: &Group, nodes: &mut RankSet) {
        for want in group.levels.iter().flat_map(|wants| wants.iter()) {
            let full = group.full_parts(want, self.ledger, self.cluster);
            if !full.is_empty() {
                let part = |rank| self.ledger.part_of(self.cluster, &want.level, rank);
                let closed = nodes
                    .iter()
                    .filter(|rank| part(*rank).is_some_and(|part| full.contains(&part)));
                let closed: RankSet = closed.collect();
                nodes.subtract(&closed);
            }
        }
    }

    /// Slots for all pods, with their volumes where they need some.
    fn allocate(&mut self, request: &Request, nodes: &[RankSet]) -> Fit<Allocations> {
        if request.rests_on_volumes() {
            return self.place_with_volumes(request, nodes);
        }
        self.place_now(request, nodes)
    }

    pub(super) fn groups(&mut self, request: &Request, nodes: &[RankSet]) -> Vec<GroupRequest> {
        request
            .groups
            .iter()
            .zip(nodes)
            .map(|(group, nodes)| group.request(nodes, self.cluster))
            .collect()
    }

    /// The same, and before that on these nodes.
    pub(super) fn ordered_groups_from(
        &mut self,
        first: Option<&RankSet>,
        request: &Request,
        nodes: &[RankSet],
    ) -> Vec<GroupRequest> {
        let mut groups = self.ordered_groups(request, nodes);
        let Some(first) = first else { return groups };
        for group in &mut groups {
            group.prefer.iter_mut().for_each(|tier| tier.subtract(first));
            group.prefer.retain(|tier| !tier.is_empty());
            group.prefer.insert(0, first.clone());
        }
        groups
    }

    /// The same, each group first where it would rather be.
    pub(super) fn ordered_groups(
        &mut self,
        request: &Request,
        nodes: &[RankSet],
    ) -> Vec<GroupRequest> {
        request
            .groups
            .iter()
            .zip(nodes)
            .map(|(group, nodes)| group.ordered_request(nodes, self.cluster))
            .collect()
    }
}

impl Capacity for Live<'_> {
    type Slots = Allocations;

    fn version(&self, request: &Request) -> Version {
        let mut nodes =
            self.cluster.nodes_version() + self.suspects_version + self.queues.version();
        for group in &request.groups {
            nodes += self.cluster.exclusive_version(&group.sample.shape.constraints);
            if !group.stance.repelled_by.is_empty() {
                nodes += self.cluster.repellers_version();
            }
            nodes += self.cluster.crowd_version(&group.sample.shape.constraints);
            if group.volumes.is_some() {
                nodes += self.cluster.volumes().version();
            }
        }
        Version { nodes, changes: self.ledger.changes.count() }
    }

    fn open(&mut self, group: &Group) -> RankSet {
        let mut open = self.cluster.class(&group.sample.shape.constraints).now.clone();
        for (closed, _) in self.cluster.repelled(&group.sample, group.company) {
            open.subtract(&closed);
        }
        self.narrow_to_usable(group, &mut open);
        self.close_by_volumes(group, &mut open);
        open
    }

    fn some_day(&mut self, group: &Group) -> RankSet {
        if group.is_spread() && group.company == Company::Alone {
            self.count_copy(self.cluster.len());
        }
        let mut nodes = self.cluster.class(&group.sample.shape.constraints).now.clone();
        nodes.subtract(&self.cluster.repelled_for_ever(&group.sample, group.company));
        self.narrow_to_usable(group, &mut nodes);
        self.close_by_volumes_for_ever(group, &mut nodes);
        nodes
    }

    fn waits_for_others(
        &mut self,
        request: &Request,
        open: &[RankSet],
        outcome: &Outcome,
    ) -> Option<RankSet> {
        self.nodes_waited_for(request, open, outcome)
    }

    fn has_held_its_time(&mut self, pending: &PendingRequest, request: &Request) -> bool {
        let mut groups = request.groups.iter();
        let Some(group) = groups.find(|group| group.repels_other_namespaces()) else {
            return false;
        };
        self.promises.has_held_its_time(pending, self.now, self.queues.bypass_secs(group.queue))
    }

    fn are_allowed_together(&mut self, request: &Request, nodes: &[RankSet]) -> bool {
        if !request.asks_about_each_other() {
            return true;
        }
        let nodes = self.open_to(request, nodes);
        let ranks: Vec<Rank> = union(&nodes).iter().collect();
        if !request.rests_on_volumes() {
            return self.nodes_by_trial(request, &nodes, &ranks).is_some();
        }
        // To give a choice back would lose to which nodes pods are nominated.
        let mut cluster = self.cluster.clone();
        self.on(&mut cluster).nodes_by_trial(request, &nodes, &ranks).is_some()
    }

    fn are_allowed_together_some_day(&mut self, request: &Request) -> bool {
        if !request.asks_about_each_other() {
            return true;
        }
        let nodes: Vec<RankSet> = request.groups.iter().map(|group| self.some_day(group)).collect();
        (!request.needs_a_trial() && self.are_enough_some_day(request, &nodes))
            || self.together_some_day(request, &nodes).is_some()
    }

    fn lasting(&mut self, group: &Group) -> RankSet {
        let mut lasting = self.cluster.class(&group.sample.shape.constraints).lasting.clone();
        self.narrow(&mut lasting, group);
        self.close_by_levels(group, &mut lasting);
        self.close_by_volumes(group, &mut lasting);
        lasting
    }

    fn place(&mut self, request: &Request, nodes: &[RankSet]) -> Fit<Self::Slots> {
        if !self.is_limited(request) {
            return self.allocate(request, nodes);
        }
        let Some((demand, nodes)) = self.within_limits(request, nodes) else { return Fit::NotNow };
        let fit = self.allocate(request, &nodes);
        if let Fit::Placed(slots) = &fit {
            self.count_start(demand, slots);
        }
        fit
    }

    fn limit(&mut self, request: &Request) -> Option<Limited> {
        self.limit_of(request)
    }

    fn out_of_reach(&mut self, group: &Group, other: &Request, nodes: &RankSet) -> RankSet {
        self.cluster.out_of_reach(&group.sample.shape.constraints, other.all_pods(), nodes)
    }

    fn crowded_by(&mut self, group: &Group, other: &Request, nodes: &RankSet) -> RankSet {
        self.cluster.crowded_by(&group.sample.shape.constraints, other.all_pods(), nodes)
    }

    fn drawn_away_by(&mut self, group: &Group, other: &Request, nodes: &RankSet) -> RankSet {
        self.cluster.drawn_away_by(&group.sample.shape.constraints, other.all_pods(), nodes)
    }

    fn is_to_stay_undisturbed(&self, request: &Request, slots: &Allocations) -> Option<RankSet> {
        let nodes = || slots.iter().flatten().flatten().map(|slot| slot.rank).collect();
        request.is_to_stay_undisturbed().then(nodes)
    }

    fn out_of_reach_of_promises(&mut self, group: &Group) -> Vec<(RankSet, JobId)> {
        let (constraints, cluster) = (&group.sample.shape.constraints, &mut *self.cluster);
        let closed = self.promises.reservations().map(|(pending, promise)| {
            (
                cluster.out_of_reach(constraints, promise.request.all_pods(), &promise.place.nodes),
                pending.job(),
            )
        });
        closed.filter(|(closed, _)| !closed.is_empty()).collect()
    }

    fn forecast(&mut self, request: &Request, nodes: &[RankSet]) -> Forecast {
        let groups = self.groups(request, nodes);
        match self.ledger.forecast(&groups).unwrap_or(Forecast::Blocked) {
            // Whether it finds its volumes then is not known.
            Forecast::At(_) if request.rests_on_volumes() => Forecast::Eventually,
            forecast => forecast,
        }
    }

    fn eligible(&mut self, request: &Request, nodes: &[RankSet]) -> RankSet {
        let groups = self.groups(request, nodes);
        self.ledger.eligible(&groups).unwrap_or_default()
    }

    fn changed_since(&self, then: u64, matters: &mut dyn FnMut(Change) -> bool) -> bool {
        self.ledger.changes.any_since(then, matters)
    }

    fn fits_one(&self, request: &Request, rank: Rank) -> bool {
        let mut wants = request.groups.iter().flat_map(|group| &group.wants);
        wants.any(|want| {
            self.cluster.would_hold(
                rank,
                &want.shape.requests,
                &fluxqueue_workload::Resources::new(),
            )
        })
    }

    fn fits_one_some_day(&self, request: &Request, rank: Rank) -> bool {
        let mut wants = request.groups.iter().flat_map(|group| &group.wants);
        wants.any(|want| self.ledger.has_room_some_day(self.cluster, rank, &want.shape.requests))
    }
}

impl Promising for Live<'_> {
    fn may_be_passed_by(&self, pending: &PendingRequest) -> bool {
        !self.promises.is_patience_over(pending)
    }

    fn inherit_patience(&mut self, pending: &PendingRequest, queue: QueueId) {
        self.promises.inherit_patience(pending, self.now, self.queues.bypass_secs(queue));
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
            promise.request.groups.iter().map(|group| self.open(group)).collect();
        let nodes: Vec<RankSet> =
            open.iter().map(|open| allowed(open, &kept.nodes, left_of)).collect();
        if self.is_limited(&promise.request) {
            return self.remake_within_limits((pending, is_same), promise, nodes);
        }
        let rules = self.rules_of(&promise.request);
        if is_same && nodes == promise.nodes && self.counts_as_before(&promise) {
            return match self.ledger.remake(self.cluster, promise.place) {
                ledger::Remade::Starts(mut slots) => {
                    self.house(&promise.request, &mut slots);
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
        self.ledger.give_up(&promise.place);
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
        self.ledger.give_up(&promise.place);
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
        let held = known.and_then(|known| self.still_enough_of(request, nodes, &known));
        if let Some(held) =
            held.or_else(|| self.fewest_that_are_enough(request, nodes).map(Arc::new))
        {
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
        let preferred = self
            .place_in_better_parts(request, nodes)
            .or_else(|| self.place_as_preferred(request, nodes));
        if let Some(slots) = preferred {
            return Booking::Now(slots);
        }
        let groups = self.ordered_groups_from(first, request, nodes);
        match self.ledger.reserve(self.cluster, groups, not_before) {
            fluxion::Booking::Now(mut slots) => {
                self.house(request, &mut slots);
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

    /// The parts of levels that count for the pods of a reservation are those that did when it was
    /// made.
    pub(super) fn counts_as_before(&mut self, promise: &Promise) -> bool {
        let groups = promise.request.groups.iter().zip(&promise.place.groups);
        groups.into_iter().all(|(group, asked)| group.counted(self.cluster) == asked.counted)
    }

    /// A reservation has no date any more: its nodes are held.
    pub(super) fn lose(
        &mut self,
        pending: &PendingRequest,
        cause: Delay,
        was: Kept,
    ) -> Remade<Allocations> {
        self.promises.lose_date(pending, self.now, was.nodes.clone());
        Remade::Lost(Late { cause, was, by: None })
    }
}

/// Delay of a reservation in seconds up to which it may still begin in a moment: the clock itself
/// puts a start off by this much.
pub(super) const PUT_OFF_SECONDS: i64 = 1;

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
