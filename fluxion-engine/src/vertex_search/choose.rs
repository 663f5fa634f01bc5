//! The candidates of a walk, and the order in which they are taken.

use smallvec::SmallVec;

use super::sort;
use crate::graph::{TypeId, VertexId};
use crate::policy::Order;

/// A branch of the search: a vertex of a group, with the choices below it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Branch {
    pub(crate) vertex: VertexId,
    pub(crate) exclusive: bool,
    /// The level that it serves; of a slot that takes units of the pools of a node, the slot.
    pub(crate) level: u32,
    /// It stands for units of the pools of a node.
    pub(crate) units: bool,
    /// The choices below it: a range of the choices of the walk. Of units: from 0 to the number of
    /// slots that take them.
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// Something that could serve a level: a vertex, or the parts of a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    pub(crate) score: i64,
    /// How much it counts toward the wanted number. Slots that only take units of pools are one
    /// group, of which any number serves.
    pub(crate) count: u64,
    /// Its vertices: a range of the branches of the walk.
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// Candidates by type, in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct Gathered(SmallVec<[(TypeId, Vec<Group>); 2]>);

impl Gathered {
    pub(crate) fn push(&mut self, kind: TypeId, group: Group) {
        self.get(kind).push(group);
    }

    pub(crate) fn get(&mut self, kind: TypeId) -> &mut Vec<Group> {
        let at = self.0.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
            self.0.push((kind, Vec::new()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    /// Candidates of a type.
    pub(crate) fn of(&self, kind: TypeId) -> &[Group] {
        self.0.iter().find(|(known, _)| *known == kind).map_or(&[], |(_, groups)| groups)
    }

    pub(crate) fn take(&mut self, kind: TypeId) -> Vec<Group> {
        std::mem::take(self.get(kind))
    }

    /// Appends candidates that were found elsewhere.
    pub(crate) fn merge(&mut self, other: Gathered) {
        for (kind, groups) in other.0 {
            let own = self.get(kind);
            if own.is_empty() {
                *own = groups;
            } else {
                own.extend_from_slice(&groups);
            }
        }
    }
}

/// Candidates of one type that go into slots one after the other.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) groups: Vec<Group>,
    /// The first that is in no slot yet.
    next: usize,
}

impl Lane {
    /// The candidates of a type, in the order in which they go into slots.
    pub(crate) fn of(inside: &mut Gathered, kind: TypeId, order: Order) -> Self {
        let mut groups = inside.take(kind);
        sort(&mut groups, inner(order), order == Order::Variation);
        Lane { groups, next: 0 }
    }

    /// Puts the next candidates into a slot, with their branches and scores, until they count as
    /// much as is wanted. False: there are too few.
    pub(crate) fn fill(
        &mut self,
        wanted: u64,
        branches: &mut Vec<Branch>,
        score: &mut i64,
    ) -> bool {
        let mut have = 0;
        while have < wanted {
            let Some(group) = self.groups.get(self.next) else { return false };
            self.next += 1;
            have += group.count;
            *score = score.saturating_add(group.score);
            let branch = branches[group.from as usize];
            branches.push(Branch { exclusive: true, ..branch });
        }
        true
    }
}

/// How much the candidates count together. Follows upstream's `qualified_count`.
pub(crate) fn qualified(groups: &[Group]) -> u64 {
    groups
        .iter()
        .filter(|group| group.score > 0)
        .fold(0, |sum, group| sum.saturating_add(group.count))
}

/// Sorts candidates, best first. `descending`: whatever the order is, high scores first.
pub(crate) fn sort(groups: &mut [Group], order: Order, descending: bool) {
    match order {
        _ if descending => sort::sort(groups, |a, b| a.score > b.score),
        Order::Descending => sort::sort(groups, |a, b| a.score > b.score),
        Order::Ascending | Order::Variation => sort::sort(groups, |a, b| a.score < b.score),
        Order::Locality => by_runs(groups),
    }
}

/// Scores that follow one upon another form a run; runs with high scores come first.
fn by_runs(groups: &mut [Group]) {
    let mut scores: Vec<i64> = groups.iter().map(|group| group.score).collect();
    scores.sort_unstable();
    scores.dedup();
    let mut starts: Vec<i64> = Vec::new();
    let mut before = None;
    for score in scores {
        if before.is_none_or(|before: i64| before.checked_add(1) != Some(score)) {
            starts.push(score);
        }
        before = Some(score);
    }
    let run = |group: &Group| starts.partition_point(|start| *start <= group.score);
    sort::sort(groups, |a, b| run(a) > run(b));
}

/// The order of levels below the top: runs of neighbours matter on top only.
pub(crate) fn inner(order: Order) -> Order {
    if order == Order::Locality { Order::Descending } else { order }
}

pub(crate) fn index(at: usize) -> u32 {
    u32::try_from(at).expect("a walk meets fewer than 2^32 candidates")
}
