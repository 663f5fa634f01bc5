//! What is promised to those who wait: a start on nodes from some second on, and not to be passed by for ever.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ledger::Reservation;
use super::plan::{Delay, Request};
use crate::fluxion::RankSet;
use crate::queue::{ClassId, PendingRequest};
use fluxqueue_workload::Time;

/// The promises, by request.
#[derive(Default)]
pub(super) struct Promises {
    reserved: BTreeMap<PendingRequest, Promise>,
    /// Since when those have been passed by that were the first to wait, and of which nobody knows when they can start.
    passed_by: BTreeMap<PendingRequest, Time>,
    /// Nodes that are held for those who are passed by no more.
    drained: BTreeMap<PendingRequest, Arc<RankSet>>,
    /// Those who have come in ahead of others since the last walk, and why they may.
    ahead: BTreeMap<PendingRequest, Delay>,
}

/// A reservation, and what it was made for.
pub(super) struct Promise {
    pub place: Reservation,
    pub class: ClassId,
    pub request: Request,
    /// Per group, the nodes on which it may be.
    pub nodes: Vec<RankSet>,
}

impl Promises {
    /// Those who have a reservation, or were the first to wait.
    pub(super) fn requests(&self) -> Vec<PendingRequest> {
        self.reserved.keys().chain(self.passed_by.keys()).cloned().collect()
    }

    /// The reservation of a request.
    pub(super) fn reservation(&self, pending: &PendingRequest) -> Option<&Promise> {
        self.reserved.get(pending)
    }

    /// All reservations, in no order that means anything.
    pub(super) fn reservations(&self) -> impl Iterator<Item = (&PendingRequest, &Promise)> {
        self.reserved.iter()
    }

    /// Nobody has a reservation.
    pub(super) fn is_empty(&self) -> bool {
        self.reserved.is_empty()
    }

    /// Notes a reservation that was made.
    pub(super) fn put(&mut self, pending: &PendingRequest, promise: Promise) {
        self.reserved.insert(pending.clone(), promise);
    }

    /// Takes a reservation out: it is to be given up, or made anew.
    pub(super) fn take(&mut self, pending: &PendingRequest) -> Option<Promise> {
        self.reserved.remove(pending)
    }

    /// The second at which the first reservation starts.
    pub(super) fn next_start(&self) -> Option<i64> {
        self.reserved.values().map(|promise| promise.place.start).min()
    }

    // --- passed by ---

    /// Since when a request has been passed by, if it was the first to wait.
    pub(super) fn passed_by_since(&self, pending: &PendingRequest) -> Option<Time> {
        self.passed_by.get(pending).copied()
    }

    /// A request is the first to wait. True if it was not known; that instant is never reset while it waits.
    pub(super) fn pass_by(&mut self, pending: &PendingRequest, since: Time) -> bool {
        let is_new = !self.passed_by.contains_key(pending);
        self.passed_by.entry(pending.clone()).or_insert(since);
        is_new
    }

    /// Since when the next one has been passed by for whom no nodes are held yet.
    pub(super) fn next_patience(&self) -> Option<Time> {
        let waits = |(pending, _): &(&PendingRequest, &Time)| !self.drained.contains_key(*pending);
        self.passed_by.iter().filter(waits).map(|(_, since)| *since).min()
    }

    /// The nodes that are held for a request that is passed by no more.
    pub(super) fn drained(&self, pending: &PendingRequest) -> Option<&Arc<RankSet>> {
        self.drained.get(pending)
    }

    /// Holds nodes for a request.
    pub(super) fn drain(&mut self, pending: &PendingRequest, nodes: Arc<RankSet>) {
        self.drained.insert(pending.clone(), nodes);
    }

    /// How many nodes are held for those who are passed by no more.
    pub(super) fn drained_nodes(&self) -> usize {
        let mut all = RankSet::new();
        self.drained.values().for_each(|nodes| all.union_with(nodes));
        all.len()
    }

    // --- ahead of others ---

    /// A request has come in ahead of others: those that it is in the way of are delayed for this cause.
    pub(super) fn goes_ahead(&mut self, pending: &PendingRequest, cause: Delay) {
        self.ahead.insert(pending.clone(), cause);
    }

    /// Whether a request has come in ahead of others since the last walk.
    pub(super) fn ahead(&self, pending: &PendingRequest) -> Option<Delay> {
        self.ahead.get(pending).copied()
    }

    /// A walk has seen all who came in ahead.
    pub(super) fn forget_who_came(&mut self) {
        self.ahead.clear();
    }

    /// A request waits no more: its reservation is handed out, to be given up.
    pub(super) fn forget(&mut self, pending: &PendingRequest) -> Option<Promise> {
        self.passed_by.remove(pending);
        self.drained.remove(pending);
        self.ahead.remove(pending);
        self.reserved.remove(pending)
    }
}
