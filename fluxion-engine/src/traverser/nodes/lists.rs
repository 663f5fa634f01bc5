//! The candidates of a request, kept from match to match: for policies with scores that are full of
//! ties.
//!
//! Where every node numbers its cores from 0, `low`, `high`, `locality` and `variation` know a
//! thousand best cores, and which of them is chosen depends on how `std::sort` treats all
//! candidates of the machine. So these are kept: their scores in the order of the walk, node after
//! node. When a node has changed, its own part is made again, by looking into it as the walk would;
//! then only the elements that the sort brings to the front are followed ([`sort::front`]). Where
//! the candidates of every node get dearer from one to the next, as slots do, a node is a word of
//! bits, and whole nodes are skipped ([`sort::front_of_rows`]).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use smallvec::SmallVec;

use super::plan::Form;
use super::search::Answer;
use super::{NodeIndex, Plan};
use crate::constraint::Constraint;
use crate::graph::VertexId;
use crate::policy::{Order, Policy};
use crate::traverser::choose::{Gathered, Group};
use crate::traverser::request::Request;
use crate::traverser::sort;
use crate::traverser::walk::Walk;

/// The number of requests of which candidates are kept, if they are not more than this together.
const LISTS_MAX: usize = 8;
const CANDIDATES_MAX: usize = 4_000_000;
/// With this number of nodes without jobs, others are compared before they are looked into.
const SAMPLES_MAX: usize = 4;
/// If more nodes have changed, everything is put together again.
const SPLICES_MAX: usize = 8;

/// The candidates of one request.
#[derive(Debug, Clone)]
pub(super) struct List {
    request: Request,
    policy: Policy,
    flexible: bool,
    /// What each candidate costs: its score, or the score negated where high ones are best; in the
    /// order of the walk.
    costs: Vec<i32>,
    /// Where those of each node begin, in the order of the walk; and the end.
    starts: Vec<u32>,
    rows: Rows,
    /// How many candidates have each cost, where runs of them matter.
    counts: BTreeMap<i32, u32>,
    /// How many changes of the index it has seen.
    seen: usize,
    /// A vertex was refused.
    refused: bool,
}

/// The candidates of nodes as bits: one per cost that occurs anywhere.
#[derive(Debug, Clone)]
enum Rows {
    /// Not looked at yet, or there is a new cost.
    Unknown,
    /// There are too many costs, or on some node they do not rise.
    Unfit,
    Known {
        /// The meanings of the bits, ascending.
        costs: Vec<i32>,
        of_node: Vec<u64>,
    },
}

impl Rows {
    fn of(list: &List) -> Self {
        let mut costs: Vec<i32> = Vec::new();
        for cost in &list.costs {
            if let Err(at) = costs.binary_search(cost) {
                if costs.len() == 64 {
                    return Rows::Unfit;
                }
                costs.insert(at, *cost);
            }
        }
        let mut rows = Rows::Known { costs, of_node: vec![0; list.starts.len() - 1] };
        for walked in 0..list.starts.len() - 1 {
            rows.set(walked, &list.costs[list.of_node(walked)]);
        }
        rows
    }

    /// Gives a node other candidates.
    fn set(&mut self, walked: usize, candidates: &[i32]) {
        let Rows::Known { costs, of_node } = self else { return };
        if !candidates.is_sorted_by(|a, b| a < b) {
            *self = Rows::Unfit;
            return;
        }
        let places = candidates.iter().map(|cost| costs.binary_search(cost));
        match places.into_iter().try_fold(0, |bits, place| place.map(|place| bits | 1 << place)) {
            Ok(bits) => of_node[walked] = bits,
            Err(_) => *self = Rows::Unknown,
        }
    }
}

/// Places of nodes that have changed, in order of time.
#[derive(Debug, Clone, Default)]
pub(super) struct Journal {
    places: Vec<u32>,
}

impl Journal {
    pub(super) fn note(&mut self, place: usize) {
        self.places.push(u32::try_from(place).expect("fewer nodes than vertices"));
    }

    /// Longer than it is worth.
    pub(super) fn is_long(&self, nodes: usize) -> bool {
        self.places.len() > 4 * nodes + 1_024
    }
}

impl List {
    fn is_for(&self, walk: &Walk<'_>) -> bool {
        let constraint = |request: &Request| -> Option<Constraint> { request.constraint.clone() };
        self.policy == walk.policy
            && self.flexible == walk.flexible
            && self.request.levels == walk.request.levels
            && self.request.top == walk.request.top
            && (self.request.constraint.is_none() && walk.request.constraint.is_none()
                || constraint(&self.request) == constraint(walk.request))
    }

    fn of_node(&self, walked: usize) -> Range<usize> {
        self.starts[walked] as usize..self.starts[walked + 1] as usize
    }

    /// Gives a node other candidates.
    fn splice(&mut self, walked: usize, costs: &[i32]) -> Option<()> {
        let range = self.of_node(walked);
        if self.costs[range.clone()] == *costs {
            return Some(());
        }
        if self.policy.order() == Order::Locality {
            for cost in &self.costs[range.clone()] {
                uncount(&mut self.counts, *cost);
            }
            for cost in costs {
                *self.counts.entry(*cost).or_default() += 1;
            }
        }
        let (before, after) = (u32::try_from(range.len()).ok()?, u32::try_from(costs.len()).ok()?);
        self.costs.splice(range, costs.iter().copied());
        self.rows.set(walked, costs);
        for start in &mut self.starts[walked + 1..] {
            *start = *start - before + after;
        }
        Some(())
    }

    /// The best.
    fn front(&self, count: usize) -> Vec<u32> {
        let by_rows = match &self.rows {
            Rows::Known { of_node, .. } => sort::front_of_rows(of_node, &self.starts, count),
            Rows::Unknown | Rows::Unfit => None,
        };
        by_rows.unwrap_or_else(|| sort::front(&self.costs, count))
    }

    /// The best where runs of neighbours go together: runs of high scores, which is to say low
    /// costs, first.
    fn by_runs(&self, count: usize) -> Vec<u32> {
        // The first cost of each run, ascending.
        let mut starts: Vec<i32> = Vec::new();
        let mut before = None;
        for cost in self.counts.keys() {
            if before.is_none_or(|before: i32| before.checked_add(1) != Some(*cost)) {
                starts.push(*cost);
            }
            before = Some(*cost);
        }
        if starts.len() == 1 {
            return sort::front_of_equals(self.costs.len(), count);
        }
        let run = |cost: &i32| {
            i32::try_from(starts.partition_point(|start| start <= cost)).unwrap_or(i32::MAX)
        };
        let runs: Vec<i32> = self.costs.iter().map(run).collect();
        sort::front(&runs, count)
    }

    /// Gives many nodes other candidates; `changed` is in the order of the walk.
    fn merge(&mut self, changed: &[(usize, SmallVec<[i32; 8]>)]) -> Option<()> {
        let mut costs = Vec::with_capacity(self.costs.len());
        let mut starts = Vec::with_capacity(self.starts.len());
        let mut next = changed.iter().peekable();
        for walked in 0..self.starts.len() - 1 {
            starts.push(u32::try_from(costs.len()).ok()?);
            match next.next_if(|(at, _)| *at == walked) {
                Some((_, new)) => costs.extend_from_slice(new),
                None => costs.extend_from_slice(&self.costs[self.of_node(walked)]),
            }
        }
        starts.push(u32::try_from(costs.len()).ok()?);
        (self.costs, self.starts) = (costs, starts);
        for (walked, new) in changed {
            self.rows.set(*walked, new);
        }
        if self.policy.order() == Order::Locality {
            self.counts.clear();
            for cost in &self.costs {
                *self.counts.entry(*cost).or_default() += 1;
            }
        }
        Some(())
    }
}

impl Walk<'_> {
    /// Chooses as [`Walk::run`] does, from candidates that are kept.
    pub(crate) fn run_by_lists(&mut self, index: &NodeIndex, plan: &Plan) -> Answer {
        if !self.window.is_now || matches!(plan.form, Form::SlotsOfNodes(_)) {
            return Answer::Unsure;
        }
        if index.parents.iter().any(|parent| !self.is_reached(*parent)) {
            return Answer::Unsure;
        }
        let mut lists = index.lists.take();
        let list = match lists.iter().position(|list| list.is_for(self)) {
            Some(at) => lists.remove(at),
            None => List {
                request: self.request.clone(),
                policy: self.policy,
                flexible: self.flexible,
                costs: Vec::new(),
                starts: vec![0; index.nodes.len() + 1],
                rows: Rows::Unknown,
                counts: BTreeMap::new(),
                seen: usize::MAX,
                refused: false,
            },
        };
        let mut list = list;
        let answer = self.refresh(index, plan, &mut list).and_then(|()| self.pick(index, &list));
        // A list that was not finished knows less than there is.
        if answer.is_some() && !self.graph.pools.effort.is_spent() {
            lists.insert(0, list);
            lists.truncate(LISTS_MAX);
            let mut sum = 0;
            lists.retain(|list| {
                sum += list.costs.len();
                sum <= CANDIDATES_MAX
            });
        }
        index.lists.set(lists);
        answer.unwrap_or(Answer::Unsure)
    }

    /// Looks again into the nodes that have changed. `None`: only the walk can tell.
    fn refresh(&mut self, index: &NodeIndex, plan: &Plan, list: &mut List) -> Option<()> {
        let mut places: Vec<usize> = if list.seen == usize::MAX {
            (0..index.nodes.len()).collect()
        } else {
            // What will be taken later may be in the way of one request and not of another.
            let changed = index.journal.places[list.seen..].iter().map(|place| *place as usize);
            changed.chain(index.planned.iter()).collect()
        };
        places.sort_unstable_by_key(|place| index.walked[*place]);
        places.dedup();
        let admitted = self
            .request
            .constraint
            .as_ref()
            .map(|constraint| index.admitted(self.graph, constraint));
        let mut changed: Vec<(usize, SmallVec<[i32; 8]>)> = Vec::with_capacity(places.len());
        // Places in `changed` of nodes without jobs, no two alike.
        let mut samples: Vec<(VertexId, usize)> = Vec::new();
        let below = matches!(plan.form, Form::Inside(_)) && !self.policy.is_node_centric();
        for place in places {
            let mut costs = SmallVec::new();
            let may = plan.may(index.rows.row(place), self.window)
                && admitted.as_ref().is_none_or(|admitted| admitted.contains(place));
            list.refused |= !may;
            let node = index.node(place);
            let is_fresh =
                may && below && self.graph.is_marked_up(node) && !self.schedule.has_entry(node);
            let alike = samples
                .iter()
                .position(|(sample, _)| is_fresh && self.graph.are_alike_below(*sample, node));
            if let Some(at) = alike {
                // The subtree decides alone, and was visited: also whether anything of it is
                // refused.
                samples[..=at].rotate_right(1);
                costs.clone_from(&changed[samples[0].1].1);
            } else if may {
                if is_fresh && samples.len() < SAMPLES_MAX {
                    samples.insert(0, (node, changed.len()));
                }
                let refused = std::mem::replace(&mut self.refused, false);
                for group in self.look(node) {
                    let cost = if self.policy.order() == Order::Descending
                        || self.policy.order() == Order::Locality
                    {
                        -group.score
                    } else {
                        group.score
                    };
                    if group.score <= 0 || group.count != 1 {
                        return None;
                    }
                    costs.push(i32::try_from(cost).ok()?);
                }
                self.edges.clear();
                self.chosen.clear();
                list.refused |= self.refused;
                self.refused |= refused;
            }
            changed.push((index.walked[place] as usize, costs));
        }
        if changed.len() > SPLICES_MAX {
            list.merge(&changed)?;
        } else {
            for (walked, costs) in &changed {
                list.splice(*walked, costs)?;
            }
        }
        if matches!(list.rows, Rows::Unknown) && list.policy.order() != Order::Locality {
            list.rows = Rows::of(list);
        }
        list.seen = index.journal.places.len();
        Some(())
    }

    /// The candidates of a node.
    fn look(&mut self, node: VertexId) -> Vec<Group> {
        let top = self.request.top.clone();
        let mut gathered = Gathered::default();
        let _ = self.offer(node, &top, true, false, 0, &mut gathered);
        gathered.take(self.request.levels[top.start].kind)
    }

    /// Takes the best candidates.
    fn pick(&mut self, index: &NodeIndex, list: &List) -> Option<Answer> {
        self.refused |= list.refused;
        let level = &self.request.levels[self.request.top.start];
        let count = level.count.choose(list.costs.len() as u64);
        if count == 0 {
            self.refused = true;
            return Some(Answer::Nothing);
        }
        let count = usize::try_from(count).ok()?;
        let best = match self.policy.order() {
            Order::Locality => list.by_runs(count),
            _ => list.front(count),
        };
        let mut of_nodes: Vec<(usize, Vec<Group>)> = Vec::new();
        let mut groups: Vec<Group> = Vec::with_capacity(count);
        for position in best {
            let walked = list.starts.partition_point(|start| *start <= position) - 1;
            let at = position as usize - list.starts[walked] as usize;
            let known =
                of_nodes.iter().position(|(known, _)| *known == walked).unwrap_or_else(|| {
                    let found = self.look(index.node(index.by_walk[walked] as usize));
                    of_nodes.push((walked, found));
                    of_nodes.len() - 1
                });
            groups.push(*of_nodes[known].1.get(at)?);
        }
        // Choices inside of nodes lie before choices of them.
        let start = self.chosen.len();
        for group in groups {
            self.chosen.extend_from_slice(&self.edges[group.from as usize..group.to as usize]);
        }
        Some(Answer::Chosen(start..self.chosen.len()))
    }

    /// Whether the walk comes as far as below a vertex.
    fn is_reached(&mut self, vertex: VertexId) -> bool {
        let top = self.request.of_range(&self.request.top);
        let mut at = Some(vertex);
        while let Some(vertex) = at {
            if self.prune(vertex, self.graph.kind(vertex), top, false).is_err() {
                return false;
            }
            at = self.graph.parent(vertex);
        }
        true
    }
}

fn uncount(counts: &mut BTreeMap<i32, u32>, cost: i32) {
    if let Some(count) = counts.get_mut(&cost) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&cost);
        }
    }
}

/// Lists that are taken out while one is in use.
#[derive(Debug, Default)]
pub(super) struct Lists(RefCell<Vec<List>>);

impl Lists {
    fn take(&self) -> Vec<List> {
        self.0.take()
    }

    fn set(&self, lists: Vec<List>) {
        *self.0.borrow_mut() = lists;
    }

    pub(super) fn clear(&mut self) {
        self.0.get_mut().clear();
    }
}

impl Clone for Lists {
    /// A copy begins without lists: they are made when they are needed.
    fn clone(&self) -> Self {
        Lists::default()
    }
}
