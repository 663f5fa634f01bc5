//! A machine of whole nodes with bookings at known seconds, on which walks are tried.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::plan::tests::without_rules;
use crate::plan::*;
use crate::queue::{ClassId, JobId, PendingRequest, Place, QueueId};
use crate::samples::{group, pod};
use fluxqueue_machine::fluxion::{Fit, Forecast, Rank, RankSet};
use fluxqueue_machine::ledger::Change;
use fluxqueue_workload::Lifetime;

/// A second that stands for an unknown end.
pub(super) const UNKNOWN: i64 = i64::MAX - 1;
/// What never ends.
pub(super) const NEVER: i64 = i64::MAX;

/// A machine of whole nodes: for each node, its bookings with their first and last second.
#[derive(Clone, Default)]
pub(super) struct Timetable {
    pub(super) now: i64,
    /// Per node.
    pub(super) taken: Vec<Vec<Taken>>,
    pub(super) promises: BTreeMap<PendingRequest, (Reserved, Vec<Rank>)>,
    pub(super) passed_by: BTreeMap<PendingRequest, bool>,
    pub(super) ahead: BTreeMap<PendingRequest, Delay>,
    pub(super) changes: Vec<Change>,
    /// The steps of searches that gave up: if there are any, each search does.
    pub(super) in_vain: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Taken {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) by: Option<PendingRequest>,
}

/// The jobs that wait, each with its number of nodes and its seconds.
pub(super) struct Jobs(pub(super) BTreeMap<JobId, (usize, u64)>);

impl Timetable {
    /// Nodes that are taken until then; 0: free.
    pub(super) fn of(until: &[i64]) -> Self {
        let taken = |to: &i64| {
            if *to > 0 { vec![Taken { from: 0, to: *to, by: None }] } else { Vec::new() }
        };
        Timetable { taken: until.iter().map(taken).collect(), ..Timetable::default() }
    }

    pub(super) fn is_free(&self, rank: Rank, from: i64, seconds: i64) -> bool {
        let to = from.saturating_add(seconds);
        self.taken[rank as usize].iter().all(|taken| taken.to <= from || to <= taken.from)
    }

    pub(super) fn fit(
        &self,
        nodes: &RankSet,
        count: usize,
        from: i64,
        seconds: i64,
    ) -> Option<Vec<Rank>> {
        let free: Vec<Rank> =
            nodes.iter().filter(|rank| self.is_free(*rank, from, seconds)).take(count).collect();
        (free.len() == count).then_some(free)
    }

    pub(super) fn soonest(
        &self,
        nodes: &RankSet,
        (count, seconds): (usize, i64),
    ) -> Option<(i64, Vec<Rank>)> {
        let mut ends: Vec<i64> =
            self.taken.iter().flatten().map(|taken| taken.to).filter(|to| *to < UNKNOWN).collect();
        ends.push(self.now);
        ends.sort_unstable();
        let mut ends = ends.into_iter().filter(|at| *at >= self.now);
        ends.find_map(|at| Some((at, self.fit(nodes, count, at, seconds)?)))
    }

    pub(super) fn take(
        &mut self,
        ranks: &[Rank],
        from: i64,
        seconds: i64,
        by: Option<&PendingRequest>,
    ) {
        for rank in ranks {
            self.taken[*rank as usize].push(Taken {
                from,
                to: from.saturating_add(seconds),
                by: by.cloned(),
            });
        }
    }

    /// Ends the bookings of this node that have begun.
    pub(super) fn end(&mut self, rank: Rank) {
        self.taken[rank as usize].retain(|taken| taken.from > self.now);
        self.changes.push(Change::Freed(rank));
    }
}

pub(super) fn wish(request: &Request) -> (usize, i64) {
    let seconds = match request.groups[0].lifetime {
        Lifetime::Seconds(seconds) => i64::try_from(seconds).unwrap(),
        Lifetime::Eventually => UNKNOWN,
        Lifetime::Endless => NEVER,
    };
    (request.groups[0].wants[0].count, seconds)
}

impl Capacity for Timetable {
    type Slots = Vec<Rank>;

    without_rules!();

    fn steps_in_vain(&self) -> u64 {
        self.in_vain
    }

    fn version(&self, _: &Request) -> Version {
        Version { nodes: 0, changes: self.changes.len() as u64 }
    }

    fn open(&mut self, _: &Group) -> RankSet {
        (0..).take(self.taken.len()).collect()
    }

    fn lasting(&mut self, group: &Group) -> RankSet {
        self.open(group)
    }

    fn place(&mut self, request: &Request, nodes: &[RankSet]) -> Fit<Self::Slots> {
        let (count, seconds) = wish(request);
        if self.in_vain > 0 {
            self.in_vain += 20_000;
            return Fit::NotFound;
        }
        let Some(ranks) = self.fit(&nodes[0], count, self.now, seconds) else { return Fit::NotNow };
        self.take(&ranks, self.now, seconds, None);
        Fit::Placed(ranks)
    }

    fn forecast(&mut self, request: &Request, nodes: &[RankSet]) -> Forecast {
        let wish = wish(request);
        let could = |below: i64| {
            let free =
                |rank: &Rank| self.taken[*rank as usize].iter().all(|taken| taken.to < below);
            nodes[0].iter().filter(free).count() >= wish.0
        };
        match self.soonest(&nodes[0], wish) {
            Some((at, _)) if at <= self.now => Forecast::Now,
            Some((at, _)) => Forecast::At(at),
            None if could(NEVER) => Forecast::Eventually,
            None if nodes[0].len() >= wish.0 => Forecast::Blocked,
            None => Forecast::Never,
        }
    }

    fn eligible(&mut self, _: &Request, nodes: &[RankSet]) -> RankSet {
        let lasts = |rank: &Rank| self.taken[*rank as usize].iter().any(|taken| taken.to == NEVER);
        nodes[0].iter().filter(|rank| !lasts(rank)).collect()
    }

    fn changed_since(&self, then: u64, matters: &mut dyn FnMut(Change) -> bool) -> bool {
        self.changes[usize::try_from(then).unwrap()..].iter().any(|change| matters(*change))
    }

    fn fits_one(&self, _: &Request, rank: Rank) -> bool {
        self.is_free(rank, self.now, 1)
    }

    fn fits_one_some_day(&self, _: &Request, _: Rank) -> bool {
        true
    }
}

impl Promising for Timetable {
    fn inherit_patience(&mut self, _: &PendingRequest, _: QueueId) {}

    fn may_be_passed_by(&self, pending: &PendingRequest) -> bool {
        self.passed_by.get(pending).copied().unwrap_or(true)
    }

    fn displaces(&self, pending: &PendingRequest) -> Option<Delay> {
        self.ahead.get(pending).copied()
    }

    fn promised(&self) -> Vec<PendingRequest> {
        self.promises.keys().chain(self.passed_by.keys()).cloned().collect()
    }

    fn reserved(&self, pending: &PendingRequest) -> Option<Reserved> {
        self.promises.get(pending).map(|(reserved, _)| *reserved)
    }

    fn reserve(
        &mut self,
        (pending, class): (&PendingRequest, ClassId),
        request: &Request,
        nodes: &[RankSet],
        not_before: Option<i64>,
    ) -> Booking<Self::Slots> {
        let (count, seconds) = wish(request);
        let at_once =
            not_before.and_then(|at| Some((at, self.fit(&nodes[0], count, at, seconds)?)));
        let Some((at, ranks)) = at_once.or_else(|| self.soonest(&nodes[0], (count, seconds)))
        else {
            return Booking::Never;
        };
        self.take(&ranks, at, seconds, Some(pending));
        if at <= self.now {
            return Booking::Now(ranks);
        }
        self.promises.insert(pending.clone(), (Reserved { start: at, class }, ranks));
        Booking::At(at)
    }

    fn remake(
        &mut self,
        pending: &PendingRequest,
        _: Option<(ClassId, Request)>,
        left_of: &dyn Fn(&RankSet) -> RankSet,
    ) -> Remade<Self::Slots> {
        let (before, was) = self.promises.remove(pending).expect("it has one");
        let is_own = |taken: &Taken| taken.by.as_ref() == Some(pending);
        let own = self
            .taken
            .iter()
            .flatten()
            .find(|taken| is_own(taken))
            .expect("it has its place")
            .clone();
        self.taken.iter_mut().for_each(|taken| taken.retain(|taken| !is_own(taken)));
        let nodes = left_of(&(0..).take(self.taken.len()).collect());
        let wish = (was.len(), own.to - own.from);
        let was_kept = Kept { start: before.start, nodes: was.iter().copied().collect() };
        let late = Late { cause: Delay::Walltime, was: was_kept, by: None };
        let Some((at, ranks)) = self.soonest(&nodes, wish) else { return Remade::Lost(late) };
        self.take(&ranks, at, wish.1, Some(pending));
        let moved = (at, &ranks) != (before.start, &was);
        if moved {
            self.changes.extend(was.iter().map(|rank| Change::Freed(*rank)));
        }
        if at <= self.now {
            return Remade::Starts(ranks);
        }
        self.promises.insert(pending.clone(), (Reserved { start: at, ..before }, ranks));
        Remade::Kept { start: at, later: (at > before.start).then_some(late), moved }
    }

    fn take_lost(&mut self, _: &PendingRequest) -> Option<Late> {
        None
    }

    fn withdraw(&mut self, pending: &PendingRequest) -> Option<Kept> {
        let (reserved, ranks) = self.promises.remove(pending)?;
        self.taken
            .iter_mut()
            .for_each(|taken| taken.retain(|taken| taken.by.as_ref() != Some(pending)));
        Some(Kept { start: reserved.start, nodes: ranks.into_iter().collect() })
    }

    fn let_go(&mut self, _: &PendingRequest) {}

    fn drain(&mut self, _: &PendingRequest, request: &Request, nodes: &[RankSet]) -> Arc<RankSet> {
        let eligible = self.eligible(request, nodes);
        Arc::new(eligible.iter().take(wish(request).0).collect())
    }
}

impl Requests for Jobs {
    fn is_put_off(&self, _: &PendingRequest) -> bool {
        false
    }

    fn request(&self, pending: &PendingRequest) -> Option<Request> {
        let (count, seconds) = self.0[&pending.job()];
        let lifetime = if seconds == 0 { Lifetime::Eventually } else { Lifetime::Seconds(seconds) };
        let group = group(pod("sample", 1), count, lifetime);
        Some(Request { groups: vec![group], starts_job: true })
    }
}
