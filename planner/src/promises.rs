//! The promises to requests that wait: a start on nodes from some second on, and an end of being
//! passed by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::plan::promising::{Delay, Kept, Late};
use crate::plan::request::Request;
use crate::queue::{ClassId, JobId, PendingRequest};
use fluxqueue_machine::fluxion::{Rank, RankSet};
use fluxqueue_machine::ledger::Reservation;
use fluxqueue_workload::Time;

/// The promises, by request.
#[derive(Clone, Default)]
pub struct Promises {
    reserved: BTreeMap<PendingRequest, Arc<Promise>>,
    /// For requests that were the first to wait and have no known start: since when others have
    /// passed them by.
    passed_by: BTreeMap<PendingRequest, Patience>,
    /// The record of an earlier process. For jobs with pods that wait one by one: since when one of
    /// these has been passed by, and the nodes that were held for it. For gangs that are not
    /// complete, or have not begun: since when they were passed by before.
    inherited: BTreeMap<JobId, (Option<Time>, RankSet)>,
    /// Nodes that are held for requests that others may no longer pass by.
    drained: BTreeMap<PendingRequest, Arc<RankSet>>,
    /// Jobs for which other nodes are held than when these were last taken.
    drained_anew: BTreeSet<JobId>,
    /// Reservations that are to be made again: an earlier process has written them and they could
    /// not be put back, or the job has another request now.
    lost: BTreeMap<PendingRequest, Late>,
    /// Reservations that an earlier process has written so late that this one has planned without
    /// them.
    heard: BTreeMap<PendingRequest, Kept>,
    /// The requests that have come in ahead of others since the last walk, with the cause that
    /// allows it.
    ahead: BTreeMap<PendingRequest, Delay>,
}

/// The patience of a request without a known start, which others pass by.
#[derive(Debug, Clone, Copy)]
struct Patience {
    since: Time,
    /// True if it has been passed by for long enough.
    is_over: bool,
    hold: Hold,
}

/// For how long nodes are held for one that is passed by no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    /// Until it starts.
    ToTheStart,
    /// For as long as it was passed by before.
    Bounded,
    /// That long, and it is over.
    Over,
}

impl Patience {
    fn since(since: Time, is_over: bool) -> Self {
        Patience { since, is_over, hold: Hold::ToTheStart }
    }

    /// Returns the time of its next change: others stop passing it by, or its nodes are no longer
    /// held.
    fn next(&self, allowed_secs: u64) -> Option<Time> {
        let over = self.since.plus_secs(allowed_secs);
        match self.hold {
            _ if !self.is_over => Some(over),
            Hold::Bounded => Some(over.plus_secs(allowed_secs)),
            Hold::ToTheStart | Hold::Over => None,
        }
    }
}

/// A reservation, and the request that it was made for.
#[derive(Clone)]
pub struct Promise {
    /// The place in the graph.
    pub place: Reservation,
    /// The class of the request when it was made.
    pub class: ClassId,
    /// The request.
    pub request: Request,
    /// Per group, the nodes on which it may be.
    pub nodes: Vec<RankSet>,
    /// The start that was reported last: a later one breaks the promise.
    pub told: i64,
    /// The version of its queue's rules by which it was made: how often they had changed.
    pub rules: u64,
    /// The record of an earlier process, if the reservation still is on some of the recorded nodes.
    pub inherited: Option<Inherited>,
}

/// A reservation that was put back: its record is valid as long as the reservation stays in its
/// first place.
#[derive(Clone)]
pub struct Inherited {
    /// The first place of the reservation.
    place: Kept,
    /// The recorded nodes.
    written: RankSet,
}

impl Promise {
    /// A reservation that was made just now, for this request on these nodes, by these rules.
    pub(crate) fn new(
        place: Reservation,
        class: ClassId,
        (request, nodes): (Request, Vec<RankSet>),
        rules: u64,
    ) -> Self {
        let told = place.start;
        Promise { place, class, request, nodes, told, rules, inherited: None }
    }

    /// Returns its record, if it was put back.
    pub(crate) fn written(&self) -> Option<Kept> {
        let Inherited { place, written } = self.inherited.as_ref()?;
        Some(Kept { start: place.start, nodes: written.clone() })
    }

    /// Returns the nodes that are reported as promised.
    pub fn nodes_to_say(&self) -> &RankSet {
        match &self.inherited {
            Some(Inherited { place, written }) if !place.is_not(Some(self)) => written,
            _ => &self.place.nodes,
        }
    }
}

impl Kept {
    /// True if something else stands now.
    pub fn is_not(&self, now: Option<&Promise>) -> bool {
        now.is_none_or(|promise| {
            promise.place.start != self.start || promise.place.nodes != self.nodes
        })
    }
}

impl Promises {
    /// Returns the requests that have a reservation, or were the first to wait.
    pub fn requests(&self) -> Vec<PendingRequest> {
        self.reserved.keys().chain(self.passed_by.keys()).chain(self.lost.keys()).cloned().collect()
    }

    /// The reservation of a request.
    pub fn reservation(&self, pending: &PendingRequest) -> Option<&Promise> {
        self.reserved.get(pending).map(|promise| &**promise)
    }

    /// Returns the promise that was reported for a request.
    pub fn kept(&self, pending: &PendingRequest) -> Option<Kept> {
        let promise = self.reserved.get(pending)?;
        Some(Kept { start: promise.told, nodes: promise.place.nodes.clone() })
    }

    /// All reservations, in no order that means anything.
    pub fn reservations(&self) -> impl Iterator<Item = (&PendingRequest, &Promise)> {
        self.reserved.iter().map(|(pending, promise)| (pending, &**promise))
    }

    /// True if this node is promised to a request.
    pub fn is_any_on(&self, rank: Rank) -> bool {
        self.reserved.values().any(|promise| promise.place.nodes.contains(rank))
    }

    /// True if no request has a reservation.
    pub fn is_empty(&self) -> bool {
        self.reserved.is_empty()
    }

    /// Notes a reservation that was made.
    pub(crate) fn put(&mut self, pending: &PendingRequest, promise: Promise) {
        self.reserved.insert(pending.clone(), Arc::new(promise));
    }

    /// Takes all reservations out of a graph that is replaced. The next walk books each in the new
    /// graph before anything else, like those of an earlier leader.
    pub fn unbook_all(&mut self) {
        for (pending, promise) in std::mem::take(&mut self.reserved) {
            let nodes = promise.nodes_to_say().clone();
            self.heard.insert(pending, Kept { start: promise.told, nodes });
        }
    }

    /// Takes a reservation out, to give it up or make it again.
    pub fn take(&mut self, pending: &PendingRequest) -> Option<Promise> {
        self.reserved.remove(pending).map(Arc::unwrap_or_clone)
    }

    /// Notes that a reservation was put back, or made again after that, for the recorded second on
    /// the recorded nodes or fewer of them: that alone is no news to report.
    pub fn inherit(&mut self, pending: &PendingRequest, written: Option<Kept>) {
        // A reservation that was not put back has no record to follow.
        let (Some(promise), Some(written)) = (self.reserved.get_mut(pending), written) else {
            return;
        };
        let place = Kept { start: promise.place.start, nodes: promise.place.nodes.clone() };
        if place.start == written.start && place.nodes.is_subset(&written.nodes) {
            Arc::make_mut(promise).inherited = Some(Inherited { place, written: written.nodes });
        }
    }

    /// Drops the record of this job's reservations: another job takes over the record and is not a
    /// part of the job any more, so each reservation is reported as it is.
    pub fn say_as_it_is(&mut self, job: JobId) {
        for (_, promise) in self.reserved.iter_mut().filter(|(pending, _)| pending.job() == job) {
            Arc::make_mut(promise).inherited = None;
        }
    }

    /// The second at which the first reservation starts.
    pub fn next_start(&self) -> Option<i64> {
        self.reserved.values().map(|promise| promise.place.start).min()
    }

    // --- passed by ---

    /// True if it has been passed by for long enough, or may be the one of its job for which an
    /// earlier process held nodes.
    pub(crate) fn is_patience_over(&self, pending: &PendingRequest) -> bool {
        let may_be_held_for =
            || self.inherited.get(&pending.job()).is_some_and(|(_, nodes)| !nodes.is_empty());
        self.passed_by.get(pending).map_or_else(may_be_held_for, |patience| patience.is_over)
    }

    /// Returns since when the first of a job's requests that was passed by has been.
    pub fn passed_by_since_of<K: Ord>(
        &self,
        job: JobId,
        place: impl Fn(&PendingRequest) -> Option<K>,
    ) -> Option<Time> {
        let of_job = self.passed_by.iter().filter(|(pending, _)| pending.job() == job);
        let first =
            of_job.filter_map(|(pending, patience)| Some((place(pending)?, patience.since)));
        let first = first.min_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, since)| since);
        first.or_else(|| self.inherited.get(&job)?.0)
    }

    /// Returns the nodes held for the first of a job's requests for which there are any.
    pub fn drained_of<K: Ord>(
        &self,
        job: JobId,
        place: impl Fn(&PendingRequest) -> Option<K>,
    ) -> Option<&RankSet> {
        let of_job = self.drained.iter().filter(|(pending, _)| pending.job() == job);
        let first = of_job.filter_map(|(pending, nodes)| Some((place(pending)?, &**nodes)));
        first.min_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, nodes)| nodes)
    }

    /// Notes that one of a job's requests, still unknown, has been passed by since then, and had
    /// these nodes held for it.
    pub fn was_passed_by(&mut self, job: JobId, since: Option<Time>, nodes: RankSet) {
        self.inherited.insert(job, (since, nodes));
    }

    /// Forgets which of a job's requests has its patience, as for the next process.
    pub fn leave_patience(&mut self, job: JobId, since: Option<Time>, nodes: RankSet) {
        self.passed_by.retain(|pending, _| pending.job() != job);
        self.drained.retain(|pending, _| pending.job() != job);
        if since.is_some() || !nodes.is_empty() {
            self.was_passed_by(job, since, nodes);
        }
    }

    /// Gives the inherited patience of a job to this request; others may pass it by for
    /// `allowed_secs` seconds.
    pub(crate) fn inherit_patience(
        &mut self,
        pending: &PendingRequest,
        now: Time,
        allowed_secs: u64,
    ) {
        if let Some((since, nodes)) = self.inherited.remove(&pending.job()) {
            if !nodes.is_empty() {
                self.lose_date(pending, since.unwrap_or(now), nodes);
            } else if let Some(since) = since {
                let is_over = since.plus_secs(allowed_secs) <= now;
                self.passed_by.entry(pending.clone()).or_insert(Patience::since(since, is_over));
            }
        }
    }

    /// A request is the first to wait. True if it was not known; that instant is never reset while
    /// it waits.
    pub fn pass_by(&mut self, pending: &PendingRequest, since: Time) -> bool {
        let is_new = !self.passed_by.contains_key(pending);
        self.passed_by.entry(pending.clone()).or_insert(Patience::since(since, false));
        is_new
    }

    /// Ends the patience of requests that were passed by for the seconds that their queue allows,
    /// and the hold on nodes where it lasts for a limited time only. True if a request is
    /// concerned.
    pub fn end_patience(&mut self, now: Time, allowed: impl Fn(&PendingRequest) -> u64) -> bool {
        let mut is_any = false;
        for (pending, patience) in &mut self.passed_by {
            let allowed_secs = allowed(pending);
            while patience.next(allowed_secs).is_some_and(|next| next <= now) {
                is_any = true;
                if patience.is_over {
                    patience.hold = Hold::Over;
                }
                patience.is_over = true;
            }
        }
        is_any
    }

    /// Returns when others stop passing by the next request, or its nodes are no longer held.
    pub fn next_patience(&self, allowed: impl Fn(&PendingRequest) -> u64) -> Option<Time> {
        self.passed_by
            .iter()
            .filter_map(|(pending, patience)| patience.next(allowed(pending)))
            .min()
    }

    /// Nodes are held for a request for as long as it was passed by before, and not to its start.
    /// True if that time is over.
    pub(crate) fn has_held_its_time(
        &mut self,
        pending: &PendingRequest,
        now: Time,
        allowed_secs: u64,
    ) -> bool {
        let Some(patience) = self.passed_by.get_mut(pending) else { return false };
        if patience.hold == Hold::ToTheStart {
            let ends = patience.since.plus_secs(allowed_secs).plus_secs(allowed_secs);
            patience.hold = if ends <= now { Hold::Over } else { Hold::Bounded };
        }
        patience.hold == Hold::Over
    }

    /// The nodes that are held for a request that is passed by no more.
    pub(crate) fn drained(&self, pending: &PendingRequest) -> Option<&Arc<RankSet>> {
        self.drained.get(pending)
    }

    /// A reservation has no date any more: its nodes are held for the request until it starts.
    pub fn lose_date(&mut self, pending: &PendingRequest, since: Time, nodes: RankSet) {
        self.passed_by.entry(pending.clone()).or_insert(Patience::since(since, true)).is_over =
            true;
        self.drained.insert(pending.clone(), Arc::new(nodes));
    }

    /// Holds nodes for a request.
    pub(crate) fn drain(&mut self, pending: &PendingRequest, nodes: Arc<RankSet>) {
        if self.drained.get(pending) != Some(&nodes) {
            self.drained_anew.insert(pending.job());
        }
        self.drained.insert(pending.clone(), nodes);
    }

    /// Gives up the nodes that are held for a request.
    pub(crate) fn let_go(&mut self, pending: &PendingRequest) {
        if self.drained.remove(pending).is_some() {
            self.drained_anew.insert(pending.job());
        }
    }

    /// Jobs for which other nodes are held since the last call.
    pub fn take_newly_drained(&mut self) -> BTreeSet<JobId> {
        std::mem::take(&mut self.drained_anew)
    }

    /// Returns how many nodes are held for requests that others may no longer pass by.
    pub fn drained_nodes(&self) -> usize {
        let mut all = RankSet::new();
        self.drained.values().for_each(|nodes| all.union_with(nodes));
        all.len()
    }

    // --- on record ---

    /// A job is no more.
    pub fn forget_job(&mut self, job: JobId) {
        self.inherited.remove(&job);
    }

    /// Notes that a job was promised this, and that a walk has to find its request another place.
    pub fn must_be_made_again(&mut self, pending: &PendingRequest, late: Late) {
        self.lost.insert(pending.clone(), late);
    }

    /// Returns the requests of which reservations are to be made again.
    pub fn lost_requests(&self) -> Vec<PendingRequest> {
        self.lost.keys().cloned().collect()
    }

    /// Takes the reservation that is to be made again for a request, with the cause as far as it is
    /// known.
    pub fn take_lost(&mut self, pending: &PendingRequest) -> Option<Late> {
        self.lost.remove(pending)
    }

    /// An earlier process has promised this, which comes to be known only now.
    pub fn hear(&mut self, pending: &PendingRequest, was: Kept) {
        self.heard.insert(pending.clone(), was);
    }

    /// Takes the promises that became known since the last call.
    pub fn take_heard(&mut self) -> BTreeMap<PendingRequest, Kept> {
        std::mem::take(&mut self.heard)
    }

    // --- ahead of others ---

    /// A request has come in ahead of others: those that it is in the way of are delayed for this
    /// cause.
    pub fn goes_ahead(&mut self, pending: &PendingRequest, cause: Delay) {
        self.ahead.insert(pending.clone(), cause);
    }

    /// Returns the cause if a request has come in ahead of others since the last walk.
    pub(crate) fn ahead(&self, pending: &PendingRequest) -> Option<Delay> {
        self.ahead.get(pending).copied()
    }

    /// Returns all requests that have come in ahead of others since the last walk.
    pub fn came_ahead(&self) -> Vec<PendingRequest> {
        self.ahead.keys().cloned().collect()
    }

    /// A walk has seen that these came in ahead.
    pub fn forget_that_came(&mut self, seen: &[PendingRequest]) {
        for pending in seen {
            self.ahead.remove(pending);
        }
    }

    /// Forgets the requests that came in ahead, after a walk has seen all of them.
    pub(crate) fn forget_came_ahead(&mut self) {
        self.ahead.clear();
    }

    /// Forgets the inherited patience of a job that begins: other jobs no longer pass it by.
    pub fn forget_patience(&mut self, job: JobId) {
        self.inherited.remove(&job);
    }

    /// A request waits no more: its reservation is handed out, to be given up. Since when one was
    /// passed by that starts its job stays with that until it begins: it may wait again.
    pub fn forget(&mut self, pending: &PendingRequest, starts_job: bool) -> Option<Promise> {
        if let Some(patience) = self.passed_by.remove(pending).filter(|_| starts_job) {
            self.inherited.entry(pending.job()).or_insert((Some(patience.since), RankSet::new()));
        }
        self.drained.remove(pending);
        self.ahead.remove(pending);
        self.lost.remove(pending);
        self.heard.remove(pending);
        self.reserved.remove(pending).map(Arc::unwrap_or_clone)
    }
}
