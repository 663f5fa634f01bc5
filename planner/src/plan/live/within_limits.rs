//! The real machine within the limits of queues: starts and promises have to fit both.
//!
//! A limit counts over time, as nodes do: a promise counts from the second at which it starts, so a
//! later job starts only if every earlier promise still fits. A limit on some nodes alone closes
//! these to a request that would exceed it there; the request may use others.

use fluxqueue_workload::Lifetime;

use super::{Live, PUT_OFF_SECONDS};
use crate::plan::capacity::Limited;
use crate::plan::group::Group;
use crate::plan::promising::{Booking, Delay, Kept, Late, Remade};
use crate::plan::request::Request;
use crate::promises::Promise;
use crate::queue::{ClassId, PendingRequest};
use crate::queues::{AccountId, AtLimit, Charge, Counted, Demand, FOR_EVER};
use fluxqueue_machine::cluster::Cluster;
use fluxqueue_machine::fluxion::{self, Rank, RankSet, Tenancy};
use fluxqueue_machine::ledger::{self, Allocation, Allocations, SlotRequest};

/// The label by which pods are spread over nodes.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// How often a start is looked for that fits both the machine and the limits. Each time it is
/// later.
const TRIES_MAX: usize = 16;

impl Live<'_> {
    /// True if the parts of levels that count for the pods of a reservation are those that did when
    /// it was made.
    pub(super) fn counts_as_before(&mut self, promise: &Promise) -> bool {
        let groups = promise.request.groups.iter().zip(&promise.place.groups);
        groups.into_iter().all(|(group, asked)| group.counted(self.room.cluster) == asked.counted)
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

    /// True if its queue limits something.
    pub(super) fn is_limited(&self, request: &Request) -> bool {
        request.groups.first().is_some_and(|group| self.room.queues.limits(group.queue).is_some())
    }

    /// Returns how often the rules for the queue of a request have changed.
    pub(super) fn rules_of(&self, request: &Request) -> u64 {
        request.groups.first().map_or(0, |group| self.room.queues.version_of(group.queue))
    }

    /// Counts the promises; running work is counted already.
    pub fn count_promises(&mut self) {
        let limited =
            self.promises.reservations().filter(|(_, promise)| self.is_limited(&promise.request));
        let limited: Vec<(PendingRequest, Request, i64, RankSet)> = limited
            .map(|(pending, promise)| {
                (
                    pending.clone(),
                    promise.request.clone(),
                    promise.place.start,
                    promise.place.nodes.clone(),
                )
            })
            .collect();
        for (pending, request, start, nodes) in limited {
            let demand = self.demand_on(&request, &nodes);
            self.accounts.promise(&pending, demand, start);
        }
    }

    /// Returns the amounts that a request would use of the limits of its queue: of a limit on some
    /// nodes, the amount of all its pods that may go there.
    fn demand(&mut self, request: &Request) -> Demand {
        let open: Vec<RankSet> = request.groups.iter().map(|group| self.room.open(group)).collect();
        self.demand_of(request, &open, false)
    }

    /// The same of a request that is placed on these nodes.
    fn demand_on(&mut self, request: &Request, placed: &RankSet) -> Demand {
        let open: Vec<RankSet> =
            request.groups.iter().map(|group| self.room.open(group).intersection(placed)).collect();
        self.demand_of(request, &open, true)
    }

    /// `usable` has the nodes of each group: those on which it is placed, or those on which it may
    /// be.
    fn demand_of(&mut self, request: &Request, usable: &[RankSet], is_placed: bool) -> Demand {
        let queues = self.room.queues;
        let limits =
            request.groups.first().and_then(|group| Some((group, queues.limits(group.queue)?)));
        let Some((first, limits)) = limits else { return Demand::default() };
        let ends = request.groups.iter().map(|group| match group.lifetime {
            Lifetime::Seconds(seconds) => i64::try_from(seconds).unwrap_or(FOR_EVER),
            Lifetime::Eventually | Lifetime::Endless => FOR_EVER,
        });
        let mut demand = Demand { charges: Vec::new(), seconds: ends.max().unwrap_or(FOR_EVER) };
        for (at, limit) in limits.running.iter().enumerate() {
            let nodes =
                limit.nodes.as_ref().map(|nodes| self.room.cluster.class(nodes).lasting.clone());
            let groups = request.groups.iter().enumerate();
            let counted = groups
                .filter(|(at, _)| nodes.as_ref().is_none_or(|nodes| usable[*at].intersects(nodes)));
            let wants = counted.flat_map(|(_, group)| &group.wants);
            let amount = match &limit.what {
                Counted::Jobs => u128::from(request.starts_job),
                Counted::Resource(name) if asks_for_nodes_alone(request) => {
                    let usable: Vec<RankSet> = match &nodes {
                        Some(nodes) => {
                            usable.iter().map(|usable| usable.intersection(nodes)).collect()
                        }
                        None => usable.to_vec(),
                    };
                    self.of_whole_nodes(request, name, &usable, is_placed)
                }
                Counted::Resource(name) => {
                    let amounts = wants.map(|want| {
                        want.shape.requests.sum(name).saturating_mul(want.count as u128)
                    });
                    amounts.fold(0, u128::saturating_add)
                }
            };
            if amount > 0 {
                let namespace = limit.per_namespace.then(|| first.sample.id.key.namespace.clone());
                let account = AccountId { queue: first.queue, limit: at, namespace };
                demand.charges.push(Charge { account, amount, most: limit.most, nodes });
            }
        }
        demand
    }

    /// Returns the charge of a resource for a request that needs nodes alone: the total allocatable
    /// on the nodes on which it is placed, or on the smallest set of these on which it can be. Pods
    /// of several groups may share nodes, so the group that needs most counts.
    fn of_whole_nodes(
        &mut self,
        request: &Request,
        name: &str,
        usable: &[RankSet],
        is_placed: bool,
    ) -> u128 {
        let groups = request.groups.iter().zip(usable);
        if is_placed {
            let mut all = RankSet::new();
            for (_, nodes) in groups {
                all.union_with(nodes);
            }
            return allocatable(self.room.cluster, name, all.iter());
        }
        groups
            .map(|(group, nodes)| least_of_whole_nodes(group, name, nodes, self.room.cluster))
            .max()
            .unwrap_or(0)
    }

    // --- now ---

    /// The limit that a request is at now.
    pub(super) fn limit_of(&mut self, request: &Request) -> Option<Limited> {
        if !self.is_limited(request) {
            return None;
        }
        let (demand, now) = (self.demand(request), self.now.seconds());
        let reached: Vec<Charge> = self.accounts.without_room(&demand, now).cloned().collect();
        if reached.is_empty() {
            return None;
        }
        let open: Vec<RankSet> = request.groups.iter().map(|group| self.room.open(group)).collect();
        // A limit on some nodes alone that the request exceeds by itself leaves it the others.
        let exceeded: Vec<Charge> =
            reached.iter().filter(|charge| charge.is_exceeded()).cloned().collect();
        let is_everywhere = without(demand.clone(), &reached, &open).is_none();
        let possible = without(demand, &exceeded, &open).map(|(possible, _)| possible);
        let at = possible.as_ref().and_then(|demand| self.accounts.earliest(demand, now, now));
        let told = |charge: &Charge| AtLimit {
            at,
            never: possible.is_none() && charge.is_exceeded(),
            ..self.accounts.at_limit(charge, now)
        };
        let mut reached: Vec<AtLimit> = reached.iter().map(told).collect();
        // A limit that the request can never keep matters most: the others need not wait for it.
        reached.sort_by_key(|limit| !limit.never);
        let mut reached = reached.into_iter();
        let first = reached.next()?;
        let at = AtLimit { others: reached.collect(), ..first };
        Some(Limited { at, is_everywhere })
    }

    /// Returns the amounts that a request would use if it starts now on those of these nodes that
    /// limits leave to it, and these nodes. `None` if they are too few.
    pub(super) fn within_limits(
        &mut self,
        request: &Request,
        nodes: &[RankSet],
    ) -> Option<(Demand, Vec<RankSet>)> {
        let demand = self.demand(request);
        self.left_by_limits(demand, nodes)
    }

    /// Counts a request that starts in its place: for a limit on some nodes, only the slots on
    /// these.
    pub(super) fn count_start(&mut self, mut demand: Demand, slots: &Allocations) {
        let is_alone = |slot: &&Allocation| matches!(slot.tenancy, Tenancy::Alone(_));
        let alone: RankSet =
            slots.iter().flatten().flatten().filter(is_alone).map(|slot| slot.rank).collect();
        for charge in &mut demand.charges {
            let limit = self
                .room
                .queues
                .limits(charge.account.queue)
                .and_then(|all| all.running.get(charge.account.limit));
            if let Some(Counted::Resource(name)) = limit.map(|limit| &limit.what) {
                let is_counted =
                    |rank: &Rank| charge.nodes.as_ref().is_none_or(|nodes| nodes.contains(*rank));
                if !alone.is_empty() {
                    charge.amount =
                        allocatable(self.room.cluster, name, alone.iter().filter(is_counted));
                } else if let Some(nodes) = &charge.nodes {
                    let there =
                        slots.iter().flatten().flatten().filter(|slot| nodes.contains(slot.rank));
                    charge.amount = there
                        .map(|slot| slot.shape.requests.sum(name))
                        .fold(0, u128::saturating_add);
                }
            }
        }
        self.accounts.start(demand, self.now.seconds());
    }

    fn left_by_limits(
        &mut self,
        demand: Demand,
        nodes: &[RankSet],
    ) -> Option<(Demand, Vec<RankSet>)> {
        let now = self.now.seconds();
        let closed: Vec<Charge> = self.accounts.without_room(&demand, now).cloned().collect();
        without(demand, &closed, nodes)
    }

    /// Stops others from passing by a request that waits for a limit without a known date: from now
    /// on the limits of its queue have room for it first. False if the request does not wait for
    /// limits.
    pub(super) fn hold_within_limits(
        &mut self,
        pending: &PendingRequest,
        request: &Request,
    ) -> bool {
        if self.limit_of(request).is_none_or(|limited| !limited.is_everywhere) {
            return false;
        }
        let (demand, now) = (self.demand(request), self.now.seconds());
        self.accounts.hold(pending, demand, now);
        true
    }

    // --- later ---

    /// Takes slots, or keeps them from the earliest second on that fits both the machine and the
    /// limits.
    pub(super) fn reserve_within_limits(
        &mut self,
        (pending, class): (&PendingRequest, ClassId),
        request: &Request,
        (nodes, first): (&[RankSet], Option<&RankSet>),
        not_before: Option<i64>,
    ) -> Booking<Allocations> {
        let now = self.now.seconds();
        self.accounts.take_back(pending);
        let demand = self.demand(request);
        // Nodes on which there is never room for it, as far as is known, are left out.
        let earliest = |charge: &Charge| {
            let alone = Demand { charges: vec![charge.clone()], seconds: demand.seconds };
            self.accounts.earliest(&alone, now, now)
        };
        let closed: Vec<Charge> =
            demand.charges.iter().filter(|charge| earliest(charge).is_none()).cloned().collect();
        let Some((demand, nodes)) = without(demand, &closed, nodes) else { return Booking::Never };
        let mut from = not_before.unwrap_or(now);
        for _ in 0..TRIES_MAX {
            let Some(at) = self.accounts.earliest(&demand, now, from) else {
                return Booking::Never;
            };
            from = at;
            let groups = self.room.ordered_groups_from(first, request, &nodes);
            match self.room.ledger.reserve(self.room.cluster, groups, (from > now).then_some(from))
            {
                fluxion::Booking::Now(mut slots) => {
                    self.room.house(request, &mut slots);
                    self.count_start(demand, &slots);
                    return Booking::Now(slots);
                }
                fluxion::Booking::Never => return Booking::Never,
                fluxion::Booking::At(place) => {
                    let start = place.start;
                    if self.accounts.earliest(&demand, now, start) == Some(start) {
                        let demand = self.demand_on(request, &place.nodes);
                        self.accounts.promise(pending, demand, start);
                        let (request, rules) = (request.clone(), self.rules_of(request));
                        let promise = Promise::new(place, class, (request, nodes), rules);
                        self.promises.put(pending, promise);
                        return Booking::At(start);
                    }
                    self.room.ledger.give_up(&place);
                    from = start;
                }
            }
        }
        Booking::Never
    }

    /// Makes a reservation again. The graph alone would move it to a time at which the limits do
    /// not let it start.
    pub(super) fn remake_within_limits(
        &mut self,
        (pending, is_same): (&PendingRequest, bool),
        promise: Promise,
        nodes: Vec<RankSet>,
    ) -> Remade<Allocations> {
        let now = self.now.seconds();
        self.accounts.take_back(pending);
        let written = promise.written();
        let is_same = is_same && self.counts_as_before(&promise);
        let Promise { place, class, request, nodes: before, told, rules, inherited } = promise;
        let was = Kept { start: place.start, nodes: place.nodes.clone() };
        let rules_now = self.rules_of(&request);
        let cause = match () {
            () if rules != rules_now => Delay::Edit,
            () if before != nodes => Delay::Capacity,
            () => Delay::Walltime,
        };
        let demand = self.demand(&request);
        if before == nodes && is_same && self.accounts.earliest(&demand, now, now) == Some(now) {
            match self.room.ledger.remake(self.room.cluster, place) {
                ledger::Remade::Starts(mut slots) => {
                    self.room.house(&request, &mut slots);
                    self.count_start(demand, &slots);
                    return Remade::Starts(slots);
                }
                ledger::Remade::Lost => return self.lose(pending, Delay::Capacity, was),
                ledger::Remade::Kept(place, later)
                    if self.accounts.earliest(&demand, now, place.start) == Some(place.start) =>
                {
                    let demand = self.demand_on(&request, &place.nodes);
                    self.accounts.promise(pending, demand, place.start);
                    let cause = later.map_or(cause, Delay::of);
                    // The reservation fits the present rules, so they are not the cause of a later
                    // loss.
                    let promise =
                        Promise { place, class, request, nodes, told, rules: rules_now, inherited };
                    return self.keep(pending, promise, was, cause);
                }
                ledger::Remade::Kept(place, _) => self.room.ledger.give_up(&place),
            }
        } else {
            self.room.ledger.give_up(&place);
        }
        let first = written.is_some().then_some(&was.nodes);
        match self.reserve_within_limits((pending, class), &request, (&nodes, first), None) {
            Booking::Now(slots) => Remade::Starts(slots),
            Booking::At(_) => match self.promises.take(pending) {
                Some(promise) => {
                    let remade = self.keep(pending, Promise { told, ..promise }, was, cause);
                    self.promises.inherit(pending, written);
                    remade
                }
                None => self.lose(pending, cause, was),
            },
            // Where it was is nothing to hold: it may not start there.
            Booking::Never if self.limit_of(&request).is_some() => {
                Remade::Lost(Late { cause, was, by: None })
            }
            Booking::Never => {
                let cause = if cause == Delay::Edit { cause } else { Delay::Capacity };
                self.lose(pending, cause, was)
            }
        }
    }

    /// Notes the new place of a reservation, and whether it breaks the start that was promised.
    fn keep(
        &mut self,
        pending: &PendingRequest,
        promise: Promise,
        before: Kept,
        cause: Delay,
    ) -> Remade<Allocations> {
        let start = promise.place.start;
        let moved = start != before.start || promise.place.nodes != before.nodes;
        // By a second the clock itself puts off what cannot begin when its start has come.
        let is_late = start > promise.told.saturating_add(PUT_OFF_SECONDS);
        let was = Kept { start: promise.told, nodes: before.nodes };
        let told = if is_late { start } else { promise.told.min(start) };
        self.promises.put(pending, Promise { told, ..promise });
        Remade::Kept { start, later: is_late.then_some(Late { cause, was, by: None }), moved }
    }
}

fn asks_for_nodes_alone(request: &Request) -> bool {
    request.groups.iter().any(|group| matches!(group.terms.tenancy, Tenancy::Alone(_)))
}

/// Returns the sum of a resource that is allocatable on these nodes.
fn allocatable(cluster: &Cluster, name: &str, nodes: impl Iterator<Item = Rank>) -> u128 {
    let amounts =
        nodes.filter_map(|rank| cluster.node(rank)).map(|node| node.allocatable.sum(name));
    amounts.fold(0, u128::saturating_add)
}

/// Returns the sum of a resource that is allocatable on the smallest set of these nodes that has
/// room for the pods of a group: the nodes that cost least per pod come first. Pods that are to be
/// spread over nodes, or apart, need more nodes.
fn least_of_whole_nodes(group: &Group, name: &str, nodes: &RankSet, cluster: &mut Cluster) -> u128 {
    let skews = group.sample.shape.constraints.spreads.iter().filter(|spread| {
        *spread.topology_key == *HOSTNAME && spread.pods.selects_labels(&group.sample.labels)
    });
    let skew = skews.map(|spread| u64::from(spread.max_skew)).min();
    let most = if group.has_nodes_for_itself(nodes, cluster) { Some(1) } else { skew };
    let least_for = |want: &SlotRequest| {
        let mut usable: Vec<(u64, u64)> = nodes
            .iter()
            .filter_map(|rank| cluster.node(rank))
            .filter_map(|node| {
                let requests = want.shape.requests.iter().filter(|(_, amount)| *amount > 0);
                let pods = requests
                    .map(|(name, amount)| node.allocatable.get(name) / amount)
                    .min()
                    .unwrap_or(u64::MAX);
                let pods = most.map_or(pods, |most| pods.min(most));
                (pods > 0).then(|| (node.allocatable.get(name), pods))
            })
            .collect();
        let per_pod = |(amount, pods): (u64, u64)| (u128::from(amount) << 20) / u128::from(pods);
        usable.sort_unstable_by_key(|usable| (per_pod(*usable), *usable));
        let (mut left, mut sum) = (want.count as u64, 0_u64);
        for (amount, pods) in usable {
            if left == 0 {
                break;
            }
            (left, sum) = (left.saturating_sub(pods), sum.saturating_add(amount));
        }
        sum
    };
    u128::from(group.wants.iter().map(least_for).max().unwrap_or(0))
}

/// Returns the rest of a demand and of the nodes, without the nodes of these charges. `None` if
/// that is too few, or one of the charges counts everywhere.
fn without(
    mut demand: Demand,
    closed: &[Charge],
    nodes: &[RankSet],
) -> Option<(Demand, Vec<RankSet>)> {
    let mut nodes = nodes.to_vec();
    for charge in closed {
        let on = charge.nodes.as_ref()?;
        for nodes in &mut nodes {
            nodes.subtract(on);
        }
    }
    if nodes.iter().any(RankSet::is_empty) {
        return None;
    }
    demand.charges.retain(|charge| !closed.contains(charge));
    Some((demand, nodes))
}
