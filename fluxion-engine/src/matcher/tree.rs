//! Requests for whole vertices: a walk over the graph from the root, children before parents.
//!
//! At each vertex the walk gathers candidates for the level of the request that is being looked for, orders them by the
//! policy and takes as many as are wanted; a slot is formed where its members lie side by side. Vertex types that the request
//! does not name are passed through at any depth, where upstream allows that only above the first match. The choice is greedy
//! from the leaves up, as upstream's is.

mod check;
mod free;

use std::cmp::Reverse;
use std::sync::Arc;

pub(crate) use check::check;
use free::Free;
pub(crate) use free::ends;

use super::Policy;
use super::candidates::Status;
use crate::graph::{Graph, VertexId};
use crate::jobspec::{Jobspec, Resource};
use crate::pools::{Amounts, SlotShape};
use crate::time::When;

/// What a request gets.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    /// Vertices, each for itself.
    pub(crate) held: Vec<VertexId>,
    /// Slots of pool units, by node.
    pub(crate) claimed: Vec<(VertexId, Arc<SlotShape>, u64)>,
}

/// Something that could serve one level of the request.
#[derive(Debug, Clone)]
struct Candidate {
    score: i128,
    /// How much it counts toward what is wanted.
    units: u64,
    gets: Selection,
}

/// Each node adds this to the scores of what it holds, so that the vertices of a node stay together.
const NODE_FACTOR: i128 = 10_000;

/// Finds a place for the whole request.
pub(crate) fn find(
    graph: &Graph,
    spec: &Jobspec,
    when: When,
    now: i64,
    status: Status,
    policy: Policy,
) -> Option<Selection> {
    let free = Free::new(graph, spec, when, now, status);
    let walk = Walk { graph, free, policy };
    let candidates = walk.among(&[graph.root()], &spec.resources, false, 0);
    walk.choose(&spec.resources, candidates).map(|(_, gets)| gets)
}

struct Walk<'a> {
    graph: &'a Graph,
    free: Free<'a>,
    policy: Policy,
}

impl Walk<'_> {
    /// Candidates for each of `wanted` among some vertices and all below them.
    fn among(&self, vertices: &[VertexId], wanted: &[Resource], exclusive: bool, prefix: i128) -> Vec<Vec<Candidate>> {
        let mut found: Vec<Vec<Candidate>> = vec![Vec::new(); wanted.len()];
        for id in vertices {
            if !self.free.may_enter(*id) {
                continue;
            }
            let kind = self.graph.types().name(self.graph.vertex(*id).kind);
            match wanted.iter().position(|level| *level.kind == *kind) {
                Some(at) => found[at].extend(self.serve(*id, &wanted[at], exclusive, prefix)),
                None => self.pass(*id, wanted, exclusive, prefix, &mut found),
            }
        }
        found
    }

    /// What lies below a vertex that the request does not name at this level.
    fn pass(&self, id: VertexId, wanted: &[Resource], exclusive: bool, prefix: i128, found: &mut [Vec<Candidate>]) {
        let prefix = prefix + self.factor(id);
        let below = self.below(id, wanted, exclusive, prefix);
        for (all, more) in found.iter_mut().zip(below) {
            all.extend(more);
        }
    }

    /// Candidates for each of `wanted` strictly below a vertex.
    fn below(&self, id: VertexId, wanted: &[Resource], exclusive: bool, prefix: i128) -> Vec<Vec<Candidate>> {
        let children = &self.graph.vertex(id).children;
        if children.is_empty() {
            return vec![Vec::new(); wanted.len()];
        }
        // Slots are formed at the first vertex whose children have all that a slot is made of.
        match wanted.iter().position(|level| level.is_slot() && self.has_all_of(id, level)) {
            Some(at) => {
                let others: Vec<Resource> = wanted.iter().filter(|level| !level.is_slot()).cloned().collect();
                let mut found = self.among(children, &others, exclusive, prefix);
                found.insert(at, self.slots(id, &wanted[at], prefix));
                found
            }
            None => self.among(children, wanted, exclusive, prefix),
        }
    }

    fn has_all_of(&self, id: VertexId, slot: &Resource) -> bool {
        let children = &self.graph.vertex(id).children;
        let has = |part: &Resource| {
            children.iter().any(|child| *self.graph.types().name(self.graph.vertex(*child).kind) == *part.kind)
        };
        slot.with.iter().all(has)
    }

    /// A vertex of the wanted type, if it can serve.
    fn serve(&self, id: VertexId, level: &Resource, exclusive: bool, prefix: i128) -> Option<Candidate> {
        let exclusive = exclusive || level.exclusive == Some(true);
        if exclusive && !self.free.is_untouched(id) {
            return None;
        }
        let vertex = self.graph.vertex(id);
        let mut gets = Selection::default();
        if !level.with.is_empty() {
            let below = self.below(id, &level.with, exclusive, prefix + self.factor(id));
            gets = self.choose(&level.with, below)?.1;
        }
        if exclusive {
            gets.held.push(id);
        }
        Some(Candidate { score: 2 + prefix + i128::from(vertex.id), units: vertex.size, gets })
    }

    /// As many slots as can be formed from what lies below a vertex, up to what is wanted.
    fn slots(&self, id: VertexId, slot: &Resource, prefix: i128) -> Vec<Candidate> {
        let (pools, whole): (Vec<Resource>, Vec<Resource>) =
            slot.with.iter().cloned().partition(|part| self.free.is_pool(id, part));
        let mut room = slot.count.max;
        let mut needs = Amounts::new();
        for part in &pools {
            let amount = part.count.min;
            let units = self.free.units(id, &part.kind);
            room = room.min(units.checked_div(amount).unwrap_or(0));
            needs.extend(self.graph.types().get(&part.kind).map(|kind| (kind, amount)));
        }
        needs.sort_unstable();
        let mut lanes: Vec<Lane> = Vec::new();
        for (part, mut candidates) in
            whole.iter().zip(self.among(&self.graph.vertex(id).children, &whole, true, prefix))
        {
            self.sort(&mut candidates);
            let per_slot = part.count.choose(candidates.iter().map(|candidate| candidate.units).sum());
            lanes.push(Lane { per_slot, candidates: candidates.into_iter() });
        }
        let label: Box<str> = slot.label.as_deref().unwrap_or_default().into();
        let shape = Arc::new(SlotShape { label, needs });
        let mut formed = Vec::new();
        while (formed.len() as u64) < room {
            let Some(mut next) = lanes.iter_mut().map(Lane::fill).collect::<Option<Vec<_>>>() else { break };
            let mut candidate = Candidate { score: 1, units: 1, gets: Selection::default() };
            for member in next.drain(..).flatten() {
                candidate.score += member.score;
                candidate.gets.join(member.gets);
            }
            if !shape.needs.is_empty() {
                candidate.score += prefix;
                candidate.gets.claimed.push((id, Arc::clone(&shape), 1));
            }
            formed.push(candidate);
        }
        formed
    }

    /// The best of each level, all levels or nothing.
    fn choose(&self, wanted: &[Resource], found: Vec<Vec<Candidate>>) -> Option<(u64, Selection)> {
        let mut gets = Selection::default();
        let mut taken = 0;
        for (level, mut candidates) in wanted.iter().zip(found) {
            let available = candidates.iter().fold(0_u64, |sum, candidate| sum.saturating_add(candidate.units));
            let count = level.count.choose(available);
            if count == 0 {
                return None;
            }
            self.sort(&mut candidates);
            let mut units = 0_u64;
            for candidate in candidates {
                if units >= count {
                    break;
                }
                units = units.saturating_add(candidate.units);
                gets.join(candidate.gets);
            }
            taken += units;
        }
        Some((taken, gets))
    }

    fn sort(&self, candidates: &mut [Candidate]) {
        match self.policy {
            Policy::First => {}
            Policy::Low | Policy::Lonode => candidates.sort_by_key(|candidate| candidate.score),
            Policy::High | Policy::Hinode => candidates.sort_by_key(|candidate| Reverse(candidate.score)),
        }
    }

    /// What a node adds to the scores below it.
    fn factor(&self, id: VertexId) -> i128 {
        if !matches!(self.policy, Policy::Lonode | Policy::Hinode) || !self.graph.is_node(id) {
            return 0;
        }
        let vertex = self.graph.vertex(id);
        (i128::from(vertex.id) + 2) * NODE_FACTOR + (i128::from(vertex.uniq_id) % NODE_FACTOR - 1).abs()
    }
}

/// Candidates for one member of a slot, used up slot by slot.
struct Lane {
    per_slot: u64,
    candidates: std::vec::IntoIter<Candidate>,
}

impl Lane {
    /// The members of the next slot. What the last of them has too much is wasted, as vertices are whole.
    fn fill(&mut self) -> Option<Vec<Candidate>> {
        let (mut units, mut members) = (0_u64, Vec::new());
        while units < self.per_slot {
            let next = self.candidates.next()?;
            units = units.saturating_add(next.units);
            members.push(next);
        }
        (self.per_slot > 0).then_some(members)
    }
}

impl Selection {
    fn join(&mut self, other: Selection) {
        self.held.extend(other.held);
        for (node, shape, count) in other.claimed {
            let same = |(at, slot, _): &&mut (VertexId, Arc<SlotShape>, u64)| *at == node && **slot == *shape;
            match self.claimed.iter_mut().find(same) {
                Some((_, _, sum)) => *sum += count,
                None => self.claimed.push((node, shape, count)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
