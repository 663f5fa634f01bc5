//! The search over whole vertices: where a request fits, now, later, or ever. Pure search, nothing
//! is taken.
//!
//! [`walk`] is the walk of upstream, [`scene`] the vertices that it does not enter, [`score`] and
//! [`choose`] its match policies, [`explore`] and [`weights`] what lets `first` end early,
//! [`flexible`] the traverser of that name, [`select`] what comes out. [`nodes`] spares most walks
//! over the whole machine, and answers as they would; where only a walk can tell, [`prospects`]
//! knows from when on one may be of use.

mod choose;
mod explore;
mod flexible;
pub(crate) mod nodes;
mod obstacles;
mod prospects;
pub(crate) mod request;
mod scene;
mod score;
pub(crate) mod select;
mod sort;
mod walk;
pub(crate) mod weights;

use std::cell::{Cell, OnceCell};

use nodes::{Answer, NodeIndex, Plan, lists, outlook, search};
pub(crate) use obstacles::{Left, Miss};
pub(crate) use request::Request;
use scene::{Scene, Window};
pub(crate) use select::Selection;
use walk::Walk;
use weights::Weights;

use crate::graph::{Graph, TypeId};
use crate::policy::Policy;
use crate::pools::{Free, Tenancy};
use crate::schedule::{Below, Planner, Schedule};
use crate::time::{FAR, WINDOW_SECONDS, When};

/// Which traverser walks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Traverser {
    /// One slot shape on a level.
    #[default]
    Simple,
    /// Sibling slots are alternatives.
    Flexible,
}

/// A machine, with all that a walk needs to know.
pub(crate) struct VertexSearch<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) schedule: &'a Schedule,
    pub(crate) weights: &'a Weights,
    /// What spares a walk over all nodes; `None`: walk.
    pub(crate) index: Option<&'a NodeIndex>,
    /// True if it knows free resources, and not only all of them.
    pub(crate) index_is_fresh: bool,
    pub(crate) policy: Policy,
    pub(crate) traverser: Traverser,
    pub(crate) now: i64,
    /// Nodes that are up, as upstream counts them.
    pub(crate) nodes_up: i64,
    /// Every instant is tried, and nothing is known before: for tests.
    pub(crate) tries_all: bool,
    /// Types that are taken with all that lies below them, besides those of the request.
    pub(crate) exclusive_kinds: &'a [TypeId],
    /// The last obstacle of the last search.
    pub(crate) left: &'a Cell<Left>,
}

/// After as many misses the instants are found at which a search may succeed: most requests find a
/// place at the first.
const MISSES_UNASKED: usize = 2;

/// The number of instants that are tried without a look at all that might serve at any of them.
const FEW_INSTANTS: usize = 2;

/// A reservation that can be made: the place of a request once others have ended.
pub(crate) struct Reservation {
    pub(crate) selection: Selection,
    pub(crate) at: i64,
    /// At no later instant that is worth a walk has the root enough.
    pub(crate) is_last: bool,
}

/// The instants at which a request is tried later: those at which something begins or ends.
struct Instants<'a> {
    planner: Option<&'a Planner>,
    /// All of them, on a graph with pools: an end of units of pools is no point of any vertex; and
    /// there each point is worth a walk.
    listed: Vec<i64>,
}

impl<'a> Instants<'a> {
    fn of(search: &VertexSearch<'a>) -> Self {
        let VertexSearch { graph, schedule, now, .. } = *search;
        let planner = schedule.planner(graph.root());
        if !graph.has_pool_types() {
            return Instants { planner, listed: Vec::new() };
        }
        let mut listed = graph.pools.by_node().ends();
        listed.extend(planner.into_iter().flat_map(|planner| planner.instants_after(now)));
        listed.sort_unstable();
        listed.dedup();
        Instants { planner: None, listed }
    }

    /// True if there are more than a few of them after an instant.
    fn are_many(&self, at: i64) -> bool {
        std::iter::successors(self.after(at), |at| self.after(*at)).nth(FEW_INSTANTS).is_some()
    }

    /// The first of them after an instant.
    fn after(&self, at: i64) -> Option<i64> {
        match self.planner {
            Some(planner) => planner.point_after(at),
            None => self.listed.get(self.listed.partition_point(|known| *known <= at)).copied(),
        }
    }

    /// The last of them before an instant.
    fn before(&self, at: i64) -> Option<i64> {
        match self.planner {
            Some(planner) => planner.point_before(at),
            None => self.listed[..self.listed.partition_point(|known| *known < at)].last().copied(),
        }
    }
}

impl VertexSearch<'_> {
    /// Where a request fits from `from` on for `seconds`.
    pub(crate) fn at(&self, request: &Request, from: i64, seconds: i64) -> Result<Selection, Miss> {
        let window = Window {
            from,
            to: from.saturating_add(seconds),
            is_now: from == self.now,
            status_ignored: false,
        };
        // The caller refuses a place at the end of the window of the graph, whichever it is.
        self.find(request, window, from == WINDOW_SECONDS)
    }

    /// Whether a request fits on the idle machine with all of it up.
    pub(crate) fn satisfiable(&self, request: &Request, seconds: i64) -> Result<Selection, Miss> {
        let from = FAR - seconds - 1;
        let window = Window { from, to: FAR - 1, is_now: false, status_ignored: true };
        // Of what could ever be it only matters whether there is anything.
        self.find(request, window, true)
    }

    /// The earliest instant after now at which a request fits, and whether the root has enough at
    /// any later one.
    pub(crate) fn later(&self, request: &Request, seconds: i64) -> Result<Reservation, Miss> {
        let (graph, root) = (self.graph, self.graph.root());
        // One look at all shortages of the root is of use only for more than a few instants.
        let (asked, shortages) = (Cell::new(0), OnceCell::new());
        let has_enough = |at: &i64| {
            let (to, needs) = (at.saturating_add(seconds), &request.needs);
            asked.set(asked.get() + 1);
            if asked.get() <= FEW_INSTANTS {
                return self.schedule.below(graph, root, *at, to, needs) == Below::Enough;
            }
            let shortages = shortages.get_or_init(|| self.schedule.shortages(graph, root, needs));
            !shortages.meet(*at, to)
        };
        let instants = Instants::of(self);
        let mut last = Miss::Busy;
        let plan = self.plan(request);
        let mut hopeless_before = match &plan {
            Some((index, plan)) if outlook::is_never(index, request, plan) => WINDOW_SECONDS,
            None if !self.tries_all && instants.are_many(self.now) => self.prospects(request),
            _ => i64::MIN,
        };
        let mut misses = 0;
        let (mut at, mut passes_over) = (self.now, false);
        while let Some(next) = instants.after(at) {
            if !graph.pools.effort.take(1) {
                return Err(Miss::Spent);
            }
            if next < hopeless_before {
                (at, passes_over) = (hopeless_before - 1, true);
                continue;
            }
            at = next;
            if !has_enough(&at) {
                continue;
            }
            self.left.set(Left::Nothing);
            match self.at(request, at, seconds) {
                Ok(selection) => {
                    let later = std::iter::successors(Some(at), |at| instants.after(*at));
                    let is_last = at == WINDOW_SECONDS || !later.skip(1).any(|at| has_enough(&at));
                    return Ok(Reservation { selection, at, is_last });
                }
                Err(Miss::Spent) => return Err(Miss::Spent),
                Err(miss) => last = miss,
            }
            (misses, passes_over) = (misses + 1, false);
            if misses == MISSES_UNASKED
                && let Some((index, plan)) = &plan
            {
                let before =
                    outlook::hopeless_before(index, self.graph, self.schedule, request, plan);
                hopeless_before = hopeless_before.max(before);
            }
        }
        // Upstream tells the obstacle that the last search has met, so the last of these is made.
        let before = |at: &i64| instants.before(*at).filter(|at| *at > self.now);
        let mut passed = std::iter::successors(before(&hopeless_before), before);
        if passes_over && let Some(at) = passed.find(has_enough) {
            self.left.set(Left::Nothing);
            last = match self.at(request, at, seconds) {
                Ok(selection) => return Ok(Reservation { selection, at, is_last: true }),
                Err(miss) => miss,
            };
        }
        Err(last)
    }

    /// The index, and how a request is searched for with it; `None`: only a walk can tell.
    fn plan(&self, request: &Request) -> Option<(&NodeIndex, Plan)> {
        let index = self.index.filter(|index| self.index_is_fresh && index.now() == self.now)?;
        let index = self.pools(request, When::Idle).is_empty().then_some(index)?;
        Some((index, Plan::of(index, request)?))
    }

    /// No walk for a request finds anything before this instant, as far as is known.
    fn prospects(&self, request: &Request) -> i64 {
        let now = self.now;
        let window = Window { from: now, to: now, is_now: false, status_ignored: false };
        let pools = self.pools(request, When::Idle);
        prospects::hopeless_before(self.scene(request, window, &pools), now)
    }

    /// What stays the same all through a search.
    fn scene<'s>(
        &'s self,
        request: &'s Request,
        window: Window,
        pools: &'s [(TypeId, Free<'s>)],
    ) -> Scene<'s> {
        Scene {
            graph: self.graph,
            schedule: self.schedule,
            request,
            policy: self.policy,
            weights: self.weights,
            window,
            flexible: self.traverser == Traverser::Flexible,
            pools,
        }
    }

    /// Whether there are nodes enough to be worth a walk. `far`: at the end of the window, not now;
    /// `status_ignored`: also those that are down. Follows upstream's `request_feasible`
    /// (resource/traversers/dfu.cpp).
    pub(crate) fn feasible(&self, request: &Request, far: bool, status_ignored: bool) -> bool {
        let target = i64::try_from(request.nodes()).unwrap_or(i64::MAX);
        let Some(constraint) = &request.constraint else { return target <= self.nodes_up };
        if target > self.nodes_up {
            return false;
        }
        let graph = self.graph;
        let (from, to) =
            if far { (WINDOW_SECONDS - 1, WINDOW_SECONDS) } else { (self.now, self.now + 1) };
        let mut missing = target;
        let is_free = |node| {
            (status_ignored || graph.is_marked_up(node)) && self.schedule.is_free(node, from, to)
        };
        if let Some(index) = self.index {
            let admitted = index.admitted(graph, constraint);
            let missing = usize::try_from(target).unwrap_or(0);
            return admitted
                .iter()
                .filter(|place| is_free(index.node(*place)))
                .take(missing)
                .count()
                == missing;
        }
        for node in
            graph.vertices().filter(|vertex| graph.is_node(*vertex) && graph.is_linked(*vertex))
        {
            if missing <= 0 {
                break;
            }
            // The search that follows tells that it gave up.
            if !graph.pools.effort.take(1) {
                return true;
            }
            if is_free(node) && constraint.admits(&graph.subject(node)) {
                missing -= 1;
            }
        }
        missing <= 0
    }

    /// Searches in a window. `any`: it only matters whether there is a place.
    fn find(&self, request: &Request, window: Window, any: bool) -> Result<Selection, Miss> {
        #[cfg(test)]
        crate::effort::count_search();
        if request.has_empty_slot {
            return Err(Miss::Busy);
        }
        let when = if window.status_ignored {
            When::Idle
        } else {
            When::Window { from: window.from, to: window.to }
        };
        let pools = self.pools(request, when);
        let scene = self.scene(request, window, &pools);
        let is_known = pools.is_empty()
            && (window.status_ignored
                || self.index_is_fresh && self.index.is_some_and(|index| index.now() == self.now));
        let plan = self
            .index
            .filter(|_| is_known)
            .and_then(|index| Some((index, Plan::of(index, request)?)));
        let Some((index, plan)) = plan else { return self.settle(Walk::new(scene), None) };
        let left = self.left.get();
        let (walk, answer) = self.search(scene, index, &plan, any);
        let answer = self.settle(walk, Some(answer));
        if answer.as_ref().is_ok_and(|selection| selection.marked.is_empty()) {
            // Nothing would be taken. Why that is refused follows from everything that a walk
            // meets.
            self.left.set(left);
            return self.settle(Walk::new(scene), None);
        }
        answer
    }

    /// Searches with the index.
    fn search<'a>(
        &self,
        scene: Scene<'a>,
        index: &NodeIndex,
        plan: &Plan,
        any: bool,
    ) -> (Walk<'a>, Answer) {
        let mut walk = Walk::new(scene);
        if search::is_hopeless(&scene, index, plan) {
            walk.obstacles().pass_over(true);
            return (walk, Answer::Nothing);
        }
        if self.policy.stops_early() {
            walk.pass_by(search::few(scene, index, plan), plan.barren(index));
            return (walk, Answer::Unsure);
        }
        if any || plan.is_ordered(self.policy) {
            let answer = search::run(&mut walk, index, plan, any);
            if !matches!(answer, Answer::Unsure) {
                return (walk, answer);
            }
            walk = Walk::new(scene);
        }
        match lists::run(&mut walk, index, plan) {
            Answer::Unsure => (Walk::new(scene), Answer::Unsure),
            answer => (walk, answer),
        }
    }

    /// The outcome of a search; where it could not tell, or there was none, that of the walk that
    /// it left.
    fn settle(&self, mut walk: Walk<'_>, answer: Option<Answer>) -> Result<Selection, Miss> {
        let chosen = match answer {
            Some(Answer::Chosen(chosen)) => Some(chosen),
            Some(Answer::Nothing) => None,
            Some(Answer::Unsure) | None => walk.run(),
        };
        if self.graph.pools.effort.is_spent() {
            return Err(Miss::Spent);
        }
        if let Some(left) = walk.obstacles().left() {
            self.left.set(left);
        }
        let Some(chosen) = chosen else { return Err(walk.obstacles().miss()) };
        let mut kinds = walk.scene().request.exclusive_kinds.clone();
        kinds.extend_from_slice(self.exclusive_kinds);
        if self.policy.takes_whole_nodes() {
            kinds.push(TypeId::NODE);
        }
        Ok(walk.select(&kinds, chosen))
    }

    /// Free units of the pool types that a request names.
    fn pools(&self, request: &Request, when: When) -> Vec<(TypeId, Free<'_>)> {
        if !self.graph.has_pool_types() {
            return Vec::new();
        }
        let mut pools: Vec<(TypeId, Free<'_>)> = Vec::new();
        for level in &request.levels {
            let known = pools.iter().any(|(kind, _)| *kind == level.kind);
            if !known && self.graph.pools.column_of(level.kind).is_some() {
                pools.push((
                    level.kind,
                    self.graph
                        .pools
                        .free(std::iter::once((Some(level.kind), when)), Tenancy::Shared),
                ));
            }
        }
        pools
    }
}

#[cfg(test)]
mod tests;
