//! The candidates of requests that are kept from match to match, and the nodes that have changed
//! since.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use smallvec::SmallVec;

use crate::constraint::Constraint;
use crate::policy::{Order, Policy};
use crate::vertex_search::request::Request;
use crate::vertex_search::scene::Scene;
use crate::vertex_search::sort;

/// The number of requests of which candidates are kept, if they are not more than this together.
const LISTS_MAX: usize = 8;
const CANDIDATES_MAX: usize = 4_000_000;
/// If more nodes have changed, everything is put together again.
const SPLICES_MAX: usize = 8;

/// The costs of the candidates of a node, in the order of the walk.
pub(super) type Costs = SmallVec<[i32; 8]>;

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
    /// How many changes of the index it has seen; `None`: it was not looked for yet.
    seen: Option<usize>,
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
        if let Rows::Known { costs, of_node } = self {
            if !candidates.is_sorted_by(|a, b| a < b) {
                *self = Rows::Unfit;
                return;
            }
            let places = candidates.iter().map(|cost| costs.binary_search(cost));
            match places.into_iter().try_fold(0, |bits, at| at.map(|at| bits | 1 << at)) {
                Ok(bits) => of_node[walked] = bits,
                Err(_) => *self = Rows::Unknown,
            }
        }
    }
}

/// Places of nodes that have changed, in order of time.
#[derive(Debug, Clone, Default)]
pub(super) struct ChangedNodes {
    places: Vec<u32>,
}

impl ChangedNodes {
    pub(super) fn note(&mut self, place: usize) {
        self.places.push(u32::try_from(place).expect("fewer nodes than vertices"));
    }

    /// Longer than it is worth.
    pub(super) fn is_long(&self, nodes: usize) -> bool {
        self.places.len() > 4 * nodes + 1_024
    }
}

impl List {
    /// The candidates of a request that has not looked at any of this number of nodes.
    pub(super) fn new(scene: &Scene<'_>, nodes: usize) -> Self {
        List {
            request: scene.request.clone(),
            policy: scene.policy,
            flexible: scene.flexible,
            costs: Vec::new(),
            starts: vec![0; nodes + 1],
            rows: Rows::Unknown,
            counts: BTreeMap::new(),
            seen: None,
            refused: false,
        }
    }

    /// Places of nodes that have changed since it was brought up to date; `None`: all.
    pub(super) fn since<'j>(&self, journal: &'j ChangedNodes) -> Option<&'j [u32]> {
        self.seen.map(|seen| &journal.places[seen..])
    }

    /// How many candidates there are.
    pub(super) fn len(&self) -> usize {
        self.costs.len()
    }

    /// True if a vertex was refused when the candidates were found.
    pub(super) fn is_refused(&self) -> bool {
        self.refused
    }

    /// Notes whether a vertex was refused.
    pub(super) fn refuse(&mut self, refused: bool) {
        self.refused |= refused;
    }

    /// The cost of a candidate with this score; `None` if that is too much to be kept.
    pub(super) fn cost(&self, score: i64) -> Option<i32> {
        let high_first = matches!(self.policy.order(), Order::Descending | Order::Locality);
        i32::try_from(if high_first { -score } else { score }).ok()
    }

    /// The node of a candidate, in the order of the walk, and which of that node's it is.
    pub(super) fn place_of(&self, position: u32) -> (usize, usize) {
        let walked = self.starts.partition_point(|start| *start <= position) - 1;
        (walked, position as usize - self.starts[walked] as usize)
    }

    /// The best candidates.
    pub(super) fn best(&self, count: usize) -> Vec<u32> {
        match self.policy.order() {
            Order::Locality => self.by_runs(count),
            _ => self.front(count),
        }
    }

    /// Gives nodes other candidates; `changed` is in the order of the walk, and all that has
    /// changed up to now. `None`: there are too many.
    pub(super) fn replace(
        &mut self,
        changed: &[(usize, Costs)],
        journal: &ChangedNodes,
    ) -> Option<()> {
        if changed.len() > SPLICES_MAX {
            self.merge(changed)?;
        } else {
            for (walked, costs) in changed {
                self.splice(*walked, costs)?;
            }
        }
        if matches!(self.rows, Rows::Unknown) && self.policy.order() != Order::Locality {
            self.rows = Rows::of(self);
        }
        self.seen = Some(journal.places.len());
        Some(())
    }

    fn is_for(&self, scene: &Scene<'_>) -> bool {
        let constraint = |request: &Request| -> Option<Constraint> { request.constraint.clone() };
        self.policy == scene.policy
            && self.flexible == scene.flexible
            && self.request.levels == scene.request.levels
            && self.request.top == scene.request.top
            && (self.request.constraint.is_none() && scene.request.constraint.is_none()
                || constraint(&self.request) == constraint(scene.request))
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
    fn merge(&mut self, changed: &[(usize, Costs)]) -> Option<()> {
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

fn uncount(counts: &mut BTreeMap<i32, u32>, cost: i32) {
    if let Some(count) = counts.get_mut(&cost) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&cost);
        }
    }
}

/// The lists of the requests that came last. One is taken out while it is in use.
#[derive(Debug, Default)]
pub(super) struct Lists(RefCell<Vec<List>>);

impl Lists {
    /// Takes out the list of a request.
    pub(super) fn take(&self, scene: &Scene<'_>) -> Option<List> {
        let mut lists = self.0.borrow_mut();
        let at = lists.iter().position(|list| list.is_for(scene))?;
        Some(lists.remove(at))
    }

    /// Keeps a list, and drops those that were not used for longest.
    pub(super) fn keep(&self, list: List) {
        let mut lists = self.0.borrow_mut();
        lists.insert(0, list);
        lists.truncate(LISTS_MAX);
        let mut sum = 0;
        lists.retain(|list| {
            sum += list.len();
            sum <= CANDIDATES_MAX
        });
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
