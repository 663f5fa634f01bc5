//! The walk: depth first from the root, children before parents, levels of the request against
//! vertex types.
//!
//! At a vertex there are the levels that are looked for. One of its type makes it a match: what
//! that level holds is looked for among its children. A slot with parts that lie directly below it
//! is formed here. A vertex of another type is passed through, as long as nothing has matched on
//! the way to it; below the first match no level of the graph may be skipped. On the way back each
//! vertex chooses, by the policy, from the offers of its subtree; the candidates of a vertex that
//! was passed through are offered one level higher.
//!
//! Nothing is written to the graph: candidates and choices live in two arrays, and the final choice
//! is read off them.

use std::ops::Range;

use smallvec::SmallVec;

use super::choose::{self, Branch, Gathered, Group, Lane, index, inner};
use super::explore::Sieve;
use super::flexible;
use super::obstacles::Obstacles;
use super::request::Levels;
use super::scene::{Refusal, Scene};
use super::select::{self, Selection};
use crate::graph::{TypeId, VertexId};
use crate::policy::Order;
use crate::pools::{Amounts, COUNT_MAX};

/// How a vertex stands to the levels that are looked for.
enum Match {
    Slot(usize),
    Resource(usize),
    Pass,
    None,
}

/// One walk over the graph.
pub(crate) struct Walk<'a> {
    scene: Scene<'a>,
    obstacles: Obstacles,
    branches: Vec<Branch>,
    chosen: Vec<Branch>,
    /// Below this vertex only these children can serve; in the order of a walk that ends early.
    few: Option<(VertexId, Vec<VertexId>)>,
    /// No slot can be formed from what lies directly below this vertex, which has many children.
    barren: Option<VertexId>,
}

impl<'a> Walk<'a> {
    /// A walk that has not begun.
    pub(super) fn new(scene: Scene<'a>) -> Self {
        Walk {
            scene,
            obstacles: Obstacles::default(),
            branches: Vec::new(),
            chosen: Vec::new(),
            few: None,
            barren: None,
        }
    }

    /// The request, and the machine at the time for which it is tried.
    pub(super) fn scene(&self) -> Scene<'a> {
        self.scene
    }

    /// The obstacles that it has met.
    pub(super) fn obstacles(&mut self) -> &mut Obstacles {
        &mut self.obstacles
    }

    /// Spares it vertices that cannot serve: below one all but a few, and slots of what lies
    /// directly below another.
    pub(super) fn pass_by(
        &mut self,
        few: Option<(VertexId, Vec<VertexId>)>,
        barren: Option<VertexId>,
    ) {
        (self.few, self.barren) = (few, barren);
    }

    /// The vertices that a range of its choices stands for.
    pub(super) fn select(&self, kinds: &[TypeId], chosen: Range<usize>) -> Selection {
        let Scene { graph, schedule, request, window, .. } = self.scene;
        select::select(graph, schedule, request, kinds, window, &self.chosen, chosen)
    }

    /// Whether there is any use in entering a vertex for some levels.
    pub(super) fn may_enter(&mut self, vertex: VertexId, levels: &Levels) -> bool {
        let kind = self.scene.graph.kind(vertex);
        let siblings = self.scene.request.of_range(levels);
        let entered = self.scene.prune(vertex, kind, siblings, false);
        entered.map(|spared| self.obstacles.spare(spared)).is_ok()
    }

    /// Makes choices of candidates, one after the other. Returns their range.
    pub(super) fn take(&mut self, groups: &[Group]) -> Range<usize> {
        let start = self.chosen.len();
        for group in groups {
            self.chosen.extend_from_slice(&self.branches[group.from as usize..group.to as usize]);
        }
        start..self.chosen.len()
    }

    /// Forgets candidates and choices.
    pub(super) fn forget(&mut self) {
        self.branches.clear();
        self.chosen.clear();
    }

    /// Serves the request: the choices at the top, as a range of `chosen`. Follows upstream's
    /// `dom_finish_graph`.
    pub(crate) fn run(&mut self) -> Option<Range<usize>> {
        let top = self.scene.request.top.clone();
        let mut found = Gathered::default();
        self.offer(self.scene.graph.root(), &top, true, false, 0, &mut found)?;
        let policy = self.scene.policy;
        self.choose(&top, &mut found, policy.order())
    }

    /// Visits a vertex and adds the candidates of it and its subtree to `found`. `None`: nothing.
    /// Follows upstream's `dom_dfv`.
    pub(crate) fn offer(
        &mut self,
        vertex: VertexId,
        levels: &Levels,
        pristine: bool,
        exclusive: bool,
        prefix: i64,
        found: &mut Gathered,
    ) -> Option<()> {
        if !self.scene.graph.pools.effort.take(1) {
            return None;
        }
        let kind = self.scene.graph.kind(vertex);
        let matched = self.classify(vertex, kind, levels, pristine);
        if matches!(matched, Match::None) {
            self.obstacles.refuse();
            return None;
        }
        let siblings = self.scene.request.of_range(levels);
        let level =
            siblings.iter().position(|level| level.kind == kind).map(|at| levels.start + at);
        let exclusive = exclusive
            || level.is_some_and(|at| self.scene.request.levels[at].exclusive == Some(true));
        match self.scene.prune(vertex, kind, siblings, exclusive) {
            Ok(spared) => self.obstacles.spare(spared),
            Err(Refusal::Busy) => {
                self.obstacles.refuse();
                return None;
            }
            Err(Refusal::Invalid) => {
                self.obstacles.contradict();
                return None;
            }
        }
        let below = prefix.checked_add(self.scene.policy.factor(self.scene.graph, vertex)?)?;
        let mut inside = Gathered::default();
        let start = self.branches.len();
        match matched {
            Match::Slot(slot) => {
                if !self.slots(vertex, slot, levels, below, &mut inside) {
                    self.obstacles.refuse();
                    return None;
                }
            }
            Match::Resource(at) => {
                let with = self.scene.request.levels[at].with.clone();
                self.explore(vertex, &with, false, exclusive, below, 1, &mut inside);
            }
            Match::Pass | Match::None => {
                self.explore(vertex, levels, pristine, exclusive, below, 1, &mut inside);
            }
        }
        // The parts of the level are chosen; candidates for others are offered higher up.
        let mut chosen = self.chosen.len()..self.chosen.len();
        if let Some(at) = level {
            let with = self.scene.request.levels[at].with.clone();
            if !with.is_empty() {
                chosen = self.choose(&with, &mut inside, inner(self.scene.policy.order()))?;
                // Candidates below that were not chosen are of no use any more.
                self.branches.truncate(start);
                inside = Gathered::default();
            }
        }
        found.merge(inside);
        if let Some(level) = level {
            let score = self.scene.policy.score(self.scene.graph, vertex, prefix);
            let at = index(self.branches.len());
            let (from, to) = (index(chosen.start), index(chosen.end));
            self.branches.push(Branch {
                vertex,
                exclusive,
                level: index(level),
                units: false,
                from,
                to,
            });
            found.push(
                kind,
                Group { score, count: self.scene.graph.size(vertex), from: at, to: at + 1 },
            );
        }
        Some(())
    }

    /// Visits the children of a vertex.
    #[expect(clippy::too_many_arguments, reason = "each is a fact of the walk at this vertex")]
    pub(crate) fn explore(
        &mut self,
        vertex: VertexId,
        levels: &Levels,
        pristine: bool,
        exclusive: bool,
        prefix: i64,
        slots: u64,
        found: &mut Gathered,
    ) {
        let graph = self.scene.graph;
        if levels.is_empty() {
            return;
        }
        if !self.scene.policy.stops_early() {
            for child in graph.children(vertex).iter().chain(graph.associates(vertex)) {
                // A failure of a child is no failure of the vertex.
                let _ = self.offer(*child, levels, pristine, exclusive, prefix, found);
            }
            return;
        }
        let mut sieve = Sieve::new(self.scene.request.of_range(levels), slots);
        let weights = self.scene.weights;
        let few =
            self.few.as_ref().filter(|(above, _)| *above == vertex).map(|(_, few)| few.clone());
        let all = || weights.order(graph, vertex).chain(graph.associates(vertex).iter().copied());
        let all = few.is_none().then(all);
        self.obstacles.pass_over(few.is_some());
        for child in few.into_iter().flatten().chain(all.into_iter().flatten()) {
            if sieve.is_satisfied_for(graph.kind(child)) {
                continue;
            }
            let offered = self.offer(child, levels, pristine, exclusive, prefix, found);
            if offered.is_some() && sieve.count(found) {
                break;
            }
        }
    }

    /// Forms slots from what lies directly below a vertex. `false`: that went wrong. Follows
    /// upstream's `dom_slot`.
    fn slots(
        &mut self,
        vertex: VertexId,
        slot: usize,
        levels: &Levels,
        prefix: i64,
        found: &mut Gathered,
    ) -> bool {
        let scene = self.scene;
        if scene.flexible {
            let options = flexible::slot_options(scene.request, levels, slot);
            if !options.is_empty() && !flexible::takes_units(&scene, &options) {
                let Some(union) = flexible::union_of(scene.request, &options) else { return true };
                let slots = flexible::most(scene.request, &options);
                let mut inside = Gathered::default();
                self.explore(vertex, &union, false, true, prefix, slots, &mut inside);
                return flexible::slots(
                    &scene,
                    &options,
                    &union,
                    inside,
                    &mut self.branches,
                    found,
                );
            }
        }
        let level = &self.scene.request.levels[slot];
        let parts = level.with.clone();
        let wanted = level.count.most();
        let mut inside = Gathered::default();
        self.explore(vertex, &parts, false, true, prefix, wanted, &mut inside);
        self.pack(vertex, slot, prefix, inside, found);
        true
    }

    /// Candidates of the parts of a slot, in order, packed slot by slot.
    pub(super) fn pack(
        &mut self,
        vertex: VertexId,
        slot: usize,
        prefix: i64,
        mut inside: Gathered,
        found: &mut Gathered,
    ) {
        let request = self.scene.request;
        let parts = request.of_range(&request.levels[slot].with);
        let mut room = COUNT_MAX.min(request.levels[slot].count.max);
        let mut lanes: SmallVec<[(Lane, u64); 4]> = SmallVec::new();
        let mut units = Amounts::new();
        for part in parts {
            if let Some(free) = self.scene.free_units(vertex, part.kind) {
                let amount = part.count.min;
                room = room.min(free.checked_div(amount).unwrap_or(0));
                units.push((part.kind, amount));
                continue;
            }
            let lane = Lane::of(&mut inside, part.kind, self.scene.policy.order());
            let count = part.count.choose(choose::qualified(&lane.groups));
            if count == 0 {
                return;
            }
            lanes.push((lane, count));
        }
        if lanes.is_empty() && units.is_empty() {
            return;
        }
        let units_of = |slots: u64| {
            let to = u32::try_from(slots).expect("no more slots than a claim may hold");
            Branch { vertex, exclusive: false, level: index(slot), units: true, from: 0, to }
        };
        if lanes.is_empty() {
            // Slots that only take units are alike: a pool may have room for billions.
            if room > 0 {
                let from = self.branches.len();
                self.branches.push(units_of(room));
                let score = prefix.saturating_add(1);
                found.push(
                    TypeId::SLOT,
                    Group { score, count: room, from: index(from), to: index(from + 1) },
                );
            }
            return;
        }
        if units.is_empty() {
            room = u64::MAX;
        }
        while room > 0 {
            room -= 1;
            let from = self.branches.len();
            let mut score = 1_i64;
            for (lane, wanted) in &mut lanes {
                if !lane.fill(*wanted, &mut self.branches, &mut score) {
                    self.branches.truncate(from);
                    return;
                }
            }
            if !units.is_empty() {
                score = score.saturating_add(prefix);
                self.branches.push(units_of(1));
            }
            let group =
                Group { score, count: 1, from: index(from), to: index(self.branches.len()) };
            found.push(TypeId::SLOT, group);
        }
    }

    /// Chooses for each level the best candidates, all levels or nothing. Follows the `finish` of
    /// upstream's match policies (resource/policies).
    pub(super) fn choose(
        &mut self,
        levels: &Levels,
        found: &mut Gathered,
        order: Order,
    ) -> Option<Range<usize>> {
        let request = self.scene.request;
        // Of siblings of one type, such as alternative slots, the last one says how many: as
        // upstream.
        let mut picked: SmallVec<[(TypeId, SmallVec<[Branch; 4]>); 2]> = SmallVec::new();
        for level in request.of_range(levels) {
            let groups = found.get(level.kind);
            let count = level.count.choose(choose::qualified(groups));
            if count == 0 {
                self.obstacles.refuse();
                return None;
            }
            choose::sort(groups, order, false);
            let (mut have, mut branches) = (0_u64, SmallVec::new());
            for group in groups.iter() {
                if have >= count {
                    break;
                }
                let of_group = &self.branches[group.from as usize..group.to as usize];
                match *of_group {
                    // Of slots that take units as many as are still wanted.
                    [units @ Branch { units: true, .. }] => {
                        let more = group.count.min(count - have);
                        branches.push(Branch {
                            to: units.to.min(u32::try_from(more).unwrap_or(u32::MAX)),
                            ..units
                        });
                    }
                    _ => branches.extend_from_slice(of_group),
                }
                have = have.saturating_add(group.count);
            }
            match picked.iter_mut().find(|(kind, _)| *kind == level.kind) {
                Some(before) => before.1 = branches,
                None => picked.push((level.kind, branches)),
            }
        }
        let start = self.chosen.len();
        for (_, branches) in &picked {
            self.chosen.extend_from_slice(branches);
        }
        Some(start..self.chosen.len())
    }

    /// Finds the level that a vertex serves, and the slot that may be formed in it. Follows
    /// upstream's `test`, `match` and `slot_match`.
    fn classify(
        &mut self,
        vertex: VertexId,
        kind: TypeId,
        levels: &Levels,
        pristine: bool,
    ) -> Match {
        let request = self.scene.request;
        let (mut matched, mut slot) = (None, None);
        for (at, level) in levels.clone().zip(request.of_range(levels)) {
            let (is_it, is_slot) = (level.kind == kind, level.kind == TypeId::SLOT);
            if !is_it && !is_slot {
                continue;
            }
            // As upstream (Q18): of a vertex's type and slots there may be one among siblings, but
            // for alternative slots.
            if matched.is_some() || (slot.is_some() && (is_it || !self.scene.flexible)) {
                self.obstacles.repeat(kind);
                return Match::None;
            }
            if is_it {
                matched = Some(at);
                // Of several slots in it the last one is formed.
                slot = level.with.clone().rfind(|at| request.levels[*at].kind == TypeId::SLOT);
            } else {
                slot = Some(at);
            }
        }
        // As upstream (Q21): the flexible traverser forms no slots one level below what holds them.
        let lower = self.scene.flexible && !pristine && matched.is_none();
        if let Some(slot) = slot.filter(|_| !lower) {
            let formed = if self.scene.flexible {
                flexible::slot_options(request, levels, slot)
                    .into_iter()
                    .any(|slot| self.has_parts(vertex, slot))
            } else {
                self.has_parts(vertex, slot)
            };
            if formed {
                return Match::Slot(slot);
            }
        }
        match matched {
            Some(at) => Match::Resource(at),
            None if pristine => Match::Pass,
            None => Match::None,
        }
    }

    /// Whether a slot can be formed from what lies directly below a vertex, by types.
    fn has_parts(&self, vertex: VertexId, slot: usize) -> bool {
        self.barren != Some(vertex) && self.scene.has_parts(vertex, slot)
    }
}
