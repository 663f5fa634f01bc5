//! The use of every limit: by running work, by promises, and by requests that were started or are
//! waited for in the walk under way.
//!
//! Running work is reported per job, whenever something about the job has changed. Planned work is
//! reported again in each pass.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use shared_map::SharedMap;

use super::usage::{FOR_EVER, Span, Usage};
use crate::queue::{JobId, PendingRequest, QueueId};
use fluxqueue_machine::fluxion::RankSet;

/// One limit, of all of a queue or of one namespace in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountId {
    /// The queue.
    pub queue: QueueId,
    /// Its place among the limits of the queue.
    pub limit: usize,
    /// The namespace, if each has a limit of its own.
    pub namespace: Option<Arc<str>>,
}

/// The amount that a request would use of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// The limit.
    pub account: AccountId,
    /// The amount that the request would use.
    pub amount: u128,
    /// The limit's amount.
    pub most: u64,
    /// The limit counts on these nodes alone.
    pub nodes: Option<RankSet>,
}

/// The amounts that a request would use of all limits of its queue, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Demand {
    /// One for each limit.
    pub charges: Vec<Charge>,
    /// The duration; [`FOR_EVER`] if it is unknown.
    pub seconds: i64,
}

/// A limit that a request is at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtLimit {
    /// The limit.
    pub account: AccountId,
    /// The amount that the request would use.
    pub asked: u128,
    /// What runs, and what starts before it.
    pub used: u128,
    /// The limit's amount.
    pub most: u64,
    /// The second at which there is room within all limits, as far as is known.
    pub at: Option<i64>,
    /// True if the request asks for more than this limit, and cannot go around it: there would be
    /// no room even if nothing else ran.
    pub never: bool,
    /// Other limits that the request is at, too.
    pub others: Vec<AtLimit>,
}

/// What runs of a job, of one limit.
pub(crate) type Running = (AccountId, i64, u128);

/// The use of every limit.
#[derive(Debug, Clone, Default)]
pub struct Accounts {
    usages: HashMap<AccountId, Usage>,
    running: SharedMap<JobId, Vec<Running>>,
    /// Promised starts.
    promised: BTreeMap<PendingRequest, (Demand, i64)>,
    /// What started since the jobs were last counted.
    started: Vec<(Demand, i64)>,
    /// Room that is kept for requests that others may no longer pass by.
    held: BTreeMap<PendingRequest, (Demand, i64)>,
}

impl Charge {
    /// True if the amount is more than the limit, so that there would be no room even if nothing
    /// else ran.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.amount > u128::from(self.most)
    }
}

impl Demand {
    fn span(&self, from: i64) -> Span {
        Span { from, to: from.saturating_add(self.seconds) }
    }
}

impl Accounts {
    // --- what runs ---

    /// What runs of a job from now on.
    pub fn set_running(&mut self, job: JobId, now: Vec<Running>) {
        if self.running.get(&job).map_or(&[][..], Vec::as_slice) == now {
            return;
        }
        for (account, end, amount) in self.running.remove(&job).into_iter().flatten() {
            if let Some(usage) = self.usages.get_mut(&account) {
                usage.end(end, amount);
                if usage.is_empty() {
                    self.usages.remove(&account);
                }
            }
        }
        for (account, end, amount) in &now {
            self.usages.entry(account.clone()).or_default().begin(*end, *amount);
        }
        if !now.is_empty() {
            self.running.insert(job, now);
        }
    }

    /// Jobs of which something counts against the limits of a queue.
    pub fn counted(&self, queue: QueueId) -> impl Iterator<Item = JobId> {
        let of_queue =
            move |running: &[Running]| running.iter().any(|(account, ..)| account.queue == queue);
        self.running.iter().filter(move |(_, running)| of_queue(running)).map(|(job, _)| *job)
    }

    /// What runs of this account, and what starts in the walk under way.
    fn used(&self, account: &AccountId, now: i64) -> u128 {
        let started = self.started.iter().filter(|(demand, from)| demand.span(*from).to > now);
        let charges = started
            .flat_map(|(demand, _)| &demand.charges)
            .filter(|charge| charge.account == *account);
        let running = self.usages.get(account).map_or(0, Usage::running);
        charges.map(|charge| charge.amount).fold(running, u128::saturating_add)
    }

    // --- planned work ---

    /// Forgets planned work, which each walk reports again. Requests that were started count as
    /// running by now.
    pub fn begin_walk(&mut self, keeps_held: bool) {
        let mut forgotten = std::mem::take(&mut self.started);
        forgotten.extend(std::mem::take(&mut self.promised).into_values());
        if !keeps_held {
            forgotten.extend(std::mem::take(&mut self.held).into_values());
        }
        for (demand, from) in forgotten {
            self.change(&demand, from, Usage::give_up);
        }
    }

    /// Makes a copy to look ahead from. Requests that were started count as running by now.
    #[must_use]
    pub fn copy(&self) -> Accounts {
        let mut copy = self.clone();
        for (demand, from) in std::mem::take(&mut copy.started) {
            copy.change(&demand, from, Usage::give_up);
        }
        copy
    }

    /// Moves a copy some time ahead: work that was to end by then has ended, requests that were
    /// started run, and promises are forgotten, to be reported again.
    pub fn go_to(&mut self, now: i64) {
        self.usages.values_mut().for_each(|usage| usage.go_to(now));
        for (demand, from) in std::mem::take(&mut self.promised).into_values() {
            self.change(&demand, from, Usage::give_up);
        }
    }

    /// A request is promised to start then.
    pub(crate) fn promise(&mut self, pending: &PendingRequest, demand: Demand, from: i64) {
        self.take_back(pending);
        self.put_back(pending, Some((demand, from)));
    }

    /// Takes back the promise of a request.
    pub(crate) fn take_back(&mut self, pending: &PendingRequest) {
        self.set_aside(pending);
        self.let_go(pending);
    }

    /// A request has started.
    pub(crate) fn start(&mut self, demand: Demand, now: i64) {
        if !demand.charges.is_empty() {
            self.change(&demand, now, Usage::plan);
            self.started.push((demand, now));
        }
    }

    /// Keeps the room of a request for it, whenever that will be.
    pub(crate) fn hold(&mut self, pending: &PendingRequest, demand: Demand, now: i64) {
        self.let_go(pending);
        let demand = Demand { seconds: FOR_EVER, ..demand };
        self.change(&demand, now, Usage::plan);
        self.held.insert(pending.clone(), (demand, now));
    }

    /// Keeps no room for it any more.
    pub(crate) fn let_go(&mut self, pending: &PendingRequest) {
        if let Some((demand, from)) = self.held.remove(pending) {
            self.change(&demand, from, Usage::give_up);
        }
    }

    /// Counts the promise of a request no more, and returns it.
    pub(crate) fn set_aside(&mut self, pending: &PendingRequest) -> Option<(Demand, i64)> {
        let promised = self.promised.remove(pending)?;
        self.change(&promised.0, promised.1, Usage::give_up);
        Some(promised)
    }

    /// Counts a promise again that was set aside.
    pub(crate) fn put_back(&mut self, pending: &PendingRequest, promised: Option<(Demand, i64)>) {
        if let Some((demand, from)) = promised {
            self.change(&demand, from, Usage::plan);
            self.promised.insert(pending.clone(), (demand, from));
        }
    }

    fn change(&mut self, demand: &Demand, from: i64, how: fn(&mut Usage, Span, u128)) {
        for charge in &demand.charges {
            how(
                self.usages.entry(charge.account.clone()).or_default(),
                demand.span(from),
                charge.amount,
            );
        }
    }

    // --- questions ---

    /// The first second, not before `from`, at which all of it is within all limits.
    pub(crate) fn earliest(&self, demand: &Demand, now: i64, from: i64) -> Option<i64> {
        let mut at = from.max(now);
        loop {
            let mut later = at;
            for charge in &demand.charges {
                later = self.earliest_of(charge, demand.seconds, now, later)?;
            }
            if later == at {
                return Some(at);
            }
            at = later;
        }
    }

    fn earliest_of(&self, charge: &Charge, seconds: i64, now: i64, from: i64) -> Option<i64> {
        match self.usages.get(&charge.account) {
            Some(usage) => usage.earliest((now, from), seconds, charge.amount, charge.most),
            None => (charge.amount <= u128::from(charge.most)).then_some(from),
        }
    }

    /// Returns the charges for which there is no room now.
    pub(crate) fn without_room<'a>(
        &'a self,
        demand: &'a Demand,
        now: i64,
    ) -> impl Iterator<Item = &'a Charge> {
        let fits =
            move |charge: &&Charge| self.earliest_of(charge, demand.seconds, now, now) == Some(now);
        demand.charges.iter().filter(move |charge| !fits(charge))
    }

    /// Describes a limit that is in the way, without what goes for all limits of the request.
    pub(crate) fn at_limit(&self, charge: &Charge, now: i64) -> AtLimit {
        AtLimit {
            account: charge.account.clone(),
            asked: charge.amount,
            used: self.used(&charge.account, now),
            most: charge.most,
            at: None,
            never: false,
            others: Vec::new(),
        }
    }
}
