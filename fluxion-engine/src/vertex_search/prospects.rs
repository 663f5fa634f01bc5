//! From when on a search for a request may be of use, by the ends of jobs: for requests that only a
//! walk can answer, such as those for racks, or for units of pools inside of nodes.
//!
//! One look at the vertices that a walk comes to tells of each from when on it may serve: once the
//! jobs that have it now, or too much of it, have ended. A level may be served once as many of its
//! candidates may as it needs. Planned jobs are left out of account, so that a search may fail
//! later, too; before the instant that is found each search fails. Where a pruning filter says from
//! when on there is enough below a vertex, that is the answer, and the look goes no deeper.

use super::request::{Levels, RequestLevel};
use super::scene::Scene;
use crate::graph::{TypeId, VertexId};

/// The candidates of a level: from when on they may serve, and how many they are.
type ReadyTimes = Vec<(i64, u64)>;

/// A look at all vertices for one request.
struct Prospects<'a> {
    scene: Scene<'a>,
    now: i64,
}

/// No search for a request finds anything at any instant before this. Not known for alternatives,
/// for graphs that are no trees, and where the budget is spent: `i64::MIN`.
pub(super) fn hopeless_before(scene: Scene<'_>, now: i64) -> i64 {
    let request = scene.request;
    let is_slot = |level: &&RequestLevel| level.kind == TypeId::SLOT;
    let of_slots = request.levels.iter().filter(is_slot).count();
    if scene.graph.has_associations() || scene.flexible && of_slots > 1 {
        return i64::MIN;
    }
    let prospects = Prospects { scene, now };
    let mut found = no_candidates(&request.top);
    match prospects.offer(scene.graph.root(), &request.top, (true, false), now, &mut found) {
        Some(()) => prospects.all(&request.top, &mut found),
        None => i64::MIN,
    }
}

/// No candidates of siblings so far.
fn no_candidates(levels: &Levels) -> Vec<ReadyTimes> {
    vec![ReadyTimes::new(); levels.len()]
}

impl Prospects<'_> {
    /// Adds the candidates for some levels that a vertex and its subtree have; `from`: when what
    /// holds the vertex may serve. `pristine`: nothing has matched on the way to it, and
    /// `exclusive`: it is had alone, as in [`Walk::offer`](super::walk::Walk::offer). `None`: the
    /// budget is spent.
    fn offer(
        &self,
        vertex: VertexId,
        levels: &Levels,
        (pristine, exclusive): (bool, bool),
        from: i64,
        found: &mut [ReadyTimes],
    ) -> Option<()> {
        let graph = self.scene.graph;
        if !graph.pools.effort.take(1) {
            return None;
        }
        let kind = graph.kind(vertex);
        let siblings = self.scene.request.of_range(levels);
        let mut of_kind = (0..siblings.len()).filter(|at| siblings[*at].kind == kind);
        let level = of_kind.next();
        let is_sought = level.is_some() || siblings.iter().any(|level| level.kind == TypeId::SLOT);
        // As upstream (Q18), a walk does not enter a vertex of a type that siblings ask for twice.
        if of_kind.next().is_some() || !is_sought && !pristine {
            return Some(());
        }
        let exclusive = exclusive || level.is_some_and(|at| siblings[at].exclusive == Some(true));
        let Some(from) = self.own(vertex, kind, exclusive && is_sought, from) else {
            return Some(());
        };
        if let Some(at) = level {
            let ready = self.matched(vertex, &siblings[at], exclusive, from)?;
            if ready < i64::MAX {
                found[at].push((ready, graph.size(vertex)));
            }
            return Some(());
        }
        if self.forms(vertex, levels, from, found)? || !pristine {
            return Some(());
        }
        for child in graph.children(vertex) {
            self.offer(*child, levels, (true, exclusive), from, found)?;
        }
        Some(())
    }

    /// From when on a vertex may serve alone, by its own state: `None`, never.
    fn own(&self, vertex: VertexId, kind: TypeId, alone: bool, from: i64) -> Option<i64> {
        let (graph, schedule, now) = (self.scene.graph, self.scene.schedule, self.now);
        let constraint = self.scene.request.constraint.as_ref();
        let is_node = kind == TypeId::NODE || kind == TypeId::STORAGE_NODE;
        if !graph.is_marked_up(vertex)
            || graph.size(vertex) == 0
            || graph.is_pool(vertex)
            || is_node
                && constraint.is_some_and(|constraint| !constraint.admits(&graph.subject(vertex)))
        {
            return None;
        }
        let ends = schedule.spans_at(vertex, now).map(|span| span.to);
        let mut from = ends.fold(from, i64::max);
        if alone
            && !schedule.is_untouched(vertex, now, now + 1)
            && let Some(planner) = schedule.planner(vertex)
        {
            from = from.max(planner.next_gap(now)?);
        }
        if alone && graph.has_pool_types() {
            for row in graph.rows_within(vertex) {
                if let Some(end) = graph.pools.by_node().last_end(row) {
                    from = from.max(end);
                }
            }
        }
        Some(from).filter(|from| *from < i64::MAX)
    }

    /// From when on a vertex of the type of a level may serve it; `i64::MAX`: never.
    fn matched(
        &self,
        vertex: VertexId,
        level: &RequestLevel,
        exclusive: bool,
        from: i64,
    ) -> Option<i64> {
        let (graph, schedule) = (self.scene.graph, self.scene.schedule);
        let enough = schedule.enough_from(graph, vertex, self.now, &level.needs);
        let enough = enough.unwrap_or(i64::MAX);
        if enough > self.now || level.with.is_empty() {
            return Some(from.max(enough));
        }
        let mut inside = no_candidates(&level.with);
        if !self.forms(vertex, &level.with, from, &mut inside)? {
            for child in graph.children(vertex) {
                self.offer(*child, &level.with, (false, exclusive), from, &mut inside)?;
            }
        }
        Some(from.max(self.all(&level.with, &mut inside)))
    }

    /// Adds the slots among some levels that are formed from what lies directly below a vertex.
    /// False if there are none of which it has the parts.
    fn forms(
        &self,
        vertex: VertexId,
        levels: &Levels,
        from: i64,
        found: &mut [ReadyTimes],
    ) -> Option<bool> {
        let siblings = self.scene.request.of_range(levels);
        // Siblings of one type share their candidates.
        let Some(first) = siblings.iter().position(|level| level.kind == TypeId::SLOT) else {
            return Some(false);
        };
        let mut any = false;
        for (at, slot) in levels.clone().zip(siblings) {
            if slot.kind == TypeId::SLOT && self.scene.has_parts(vertex, at) {
                any = true;
                self.form(vertex, slot, from, &mut found[first])?;
            }
        }
        Some(any)
    }

    fn form(
        &self,
        vertex: VertexId,
        slot: &RequestLevel,
        from: i64,
        found: &mut ReadyTimes,
    ) -> Option<()> {
        let (graph, request) = (self.scene.graph, self.scene.request);
        let parts = request.of_range(&slot.with);
        let has_units = |part: &RequestLevel| self.scene.free_units(vertex, part.kind).is_some();
        let mut inside = no_candidates(&slot.with);
        if !parts.iter().all(has_units) {
            for child in graph.children(vertex) {
                self.offer(*child, &slot.with, (false, true), from, &mut inside)?;
            }
        }
        let mut lanes: Vec<ReadyTimes> = Vec::with_capacity(parts.len());
        for part in parts {
            let amount = part.count.min;
            let row = graph.position_of(vertex).filter(|_| has_units(part));
            lanes.push(match row {
                Some(row) => graph.pools.by_node().room_over_time(row, part.kind, amount),
                None => {
                    let first = parts.iter().position(|other| other.kind == part.kind);
                    in_lots(&mut inside[first.unwrap_or(0)], amount.max(1))
                }
            });
        }
        let at_once = |(at, count): (i64, u64)| (from.max(at), count);
        found.extend(of_all(&lanes, slot.count.min).into_iter().map(at_once));
        Some(())
    }

    /// From when on each of some levels may be served.
    fn all(&self, levels: &Levels, found: &mut [ReadyTimes]) -> i64 {
        let siblings = self.scene.request.of_range(levels);
        let served = siblings.iter().map(|level| {
            let first = siblings.iter().position(|other| other.kind == level.kind).unwrap_or(0);
            let lots = in_lots(&mut found[first], level.count.min.max(1));
            lots.first().map_or(i64::MAX, |(at, _)| *at)
        });
        served.fold(self.now, i64::max)
    }
}

/// From when on there are as many candidates as `size` says: once, twice and so on.
fn in_lots(candidates: &mut ReadyTimes, size: u64) -> ReadyTimes {
    candidates.sort_unstable();
    let (mut sum, mut lots) = (0_u64, ReadyTimes::new());
    for (at, count) in candidates.iter() {
        let before = sum / size;
        sum = sum.saturating_add(*count);
        if sum / size > before {
            lots.push((*at, sum / size - before));
        }
    }
    lots
}

/// From when on there is one, or more, of each of several lists, each in the order of time; no
/// more than are wanted.
fn of_all(lanes: &[ReadyTimes], wanted: u64) -> ReadyTimes {
    let mut instants: Vec<i64> = lanes.iter().flatten().map(|(at, _)| *at).collect();
    instants.sort_unstable();
    instants.dedup();
    let mut sums = vec![(0_usize, 0_u64); lanes.len()];
    let (mut have, mut all) = (0, ReadyTimes::new());
    for at in instants {
        for (lane, (next, sum)) in lanes.iter().zip(&mut sums) {
            while let Some((_, count)) = lane.get(*next).filter(|(ready, _)| *ready <= at) {
                *sum = sum.saturating_add(*count);
                *next += 1;
            }
        }
        let least = sums.iter().map(|(_, sum)| *sum).min().unwrap_or(0);
        if least > have {
            all.push((at, least - have));
            have = least;
        }
        if have >= wanted {
            break;
        }
    }
    all
}
