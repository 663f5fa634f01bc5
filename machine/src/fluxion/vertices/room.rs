//! Room for slots, by the nodes' own accounts: how many fit, when, and which resource is short.

use std::collections::BTreeMap;

use super::kinds;
use super::node::{VertexNode, When};
use crate::fluxion::answer::{PoolSupply, ShapeReport, Supply};
use crate::fluxion::error::GraphError;
use crate::fluxion::placement::Forecast;
use crate::fluxion::rankset::{Rank, RankSet};
use crate::fluxion::request::{Request, SlotShape};
use fluxion_sys::errno;
use fluxqueue_workload::{ResourceName, Resources};

/// Why a resource cannot be asked for.
pub const NOT_A_VERTEX: &str =
    "the Fluxion library in use hands out whole cores, memory, pods and extended resources only";

pub(super) type Nodes = BTreeMap<Rank, VertexNode>;

/// A shape of a request, in vertices.
#[derive(Debug, Clone)]
pub(super) struct Needs<'a> {
    /// Its index in the request.
    pub(super) shape: usize,
    pub(super) label: &'a str,
    pub(super) count: u64,
    pub(super) per_slot: Resources,
    /// Ranks that it may use; `None`: all.
    pub(super) ranks: Option<&'a RankSet>,
    /// Limits of the request that name it.
    pub(super) limits: Vec<usize>,
}

/// Reads the shapes of a request; an error names what cannot be asked of a graph of whole vertices.
pub(super) fn needs<'a>(
    operation: &'static str,
    request: &Request<'a>,
) -> Result<Vec<Needs<'a>>, GraphError> {
    let invalid = |text: String| GraphError { operation, errno: errno::EINVAL, text };
    if request.shapes.is_empty() {
        return Err(invalid("a request without shapes".to_owned()));
    }
    let mut all: Vec<Needs<'a>> = Vec::with_capacity(request.shapes.len());
    for (shape, wanted) in request.shapes.iter().enumerate() {
        let label = wanted.label;
        if all.iter().any(|other| other.label == label) {
            return Err(invalid(format!("slot {label:?}: there twice")));
        }
        if wanted.count == 0 || wanted.requests.is_empty() {
            return Err(invalid(format!("slot {label:?}: nothing is wanted")));
        }
        let per_slot = kinds::needed_for(wanted.requests)
            .map_err(|name| invalid(format!("{name}: {NOT_A_VERTEX}")))?;
        let limits = request.max_per_node.iter().enumerate();
        let limits = limits
            .filter(|(_, (labels, _))| labels.iter().any(|named| named == label))
            .map(|(at, _)| at);
        let (count, ranks) = (wanted.count, wanted.ranks);
        all.push(Needs { shape, label, count, per_slot, ranks, limits: limits.collect() });
    }
    Ok(all)
}

/// Returns how many slots these vertices are enough for.
pub(super) fn slots_in(free: &Resources, per_slot: &Resources) -> u64 {
    per_slot.iter().map(|(name, needed)| free.get(name) / needed).min().unwrap_or(0)
}

impl Needs<'_> {
    /// True if the shape may use a node.
    fn admits(&self, rank: Rank) -> bool {
        self.ranks.is_none_or(|ranks| ranks.contains(rank))
    }
}

/// The nodes that a shape may use then.
pub(super) fn open<'a>(
    nodes: &'a Nodes,
    needs: &'a Needs<'_>,
    when: When,
) -> impl Iterator<Item = (Rank, &'a VertexNode)> {
    let all = nodes.iter().map(|(rank, node)| (*rank, node));
    all.filter(move |(rank, node)| node.is_open(when) && needs.admits(*rank))
}

/// Shapes that may use the same nodes in the same order, and for as long: by index in the request.
pub(super) fn parties(request: &Request<'_>) -> Vec<Vec<usize>> {
    let mut parties: Vec<Vec<usize>> = Vec::new();
    for (at, shape) in request.shapes.iter().enumerate() {
        match parties.iter_mut().find(|party| request.shapes[party[0]].goes_with(shape)) {
            Some(party) => party.push(at),
            None => parties.push(vec![at]),
        }
    }
    parties
}

/// In what orders the shapes of a party are tried: the scarcest first, then the other way round.
/// Exact for one shape; a packing of several that only another order or a mixture finds is not
/// found.
pub(super) fn orders(nodes: &Nodes, needs: &[Needs<'_>]) -> Vec<Vec<usize>> {
    let room = |needs: &Needs<'_>| -> u64 {
        open(nodes, needs, When::Idle)
            .map(|(_, node)| slots_in(node.free(When::Idle), &needs.per_slot))
            .sum()
    };
    let mut order: Vec<usize> = (0..needs.len()).collect();
    if order.len() < 2 {
        return vec![order];
    }
    order.sort_by_cached_key(|at| room(&needs[*at]) / needs[*at].count);
    let reverse = order.iter().rev().copied().collect();
    vec![order, reverse]
}

/// Returns when a request could start: not before the last of its parties, and all of them together
/// must fit, if not on their own nodes then on those of all.
pub(super) fn forecast(
    nodes: &Nodes,
    request: &Request<'_>,
    needs: &[Needs<'_>],
    now: i64,
) -> Forecast {
    let parties = parties(request);
    let mut worst = Forecast::Now;
    for party in &parties {
        let needs: Vec<Needs<'_>> = party.iter().map(|at| needs[*at].clone()).collect();
        worst = later(worst, forecast_of(nodes, request, &needs, now));
    }
    if parties.len() > 1 {
        let mut all = Some(RankSet::new());
        for SlotShape { ranks, .. } in request.shapes {
            all = all.zip(*ranks).map(|(mut all, ranks)| {
                all.union_with(ranks);
                all
            });
        }
        let needs: Vec<Needs<'_>> =
            needs.iter().map(|needs| Needs { ranks: all.as_ref(), ..needs.clone() }).collect();
        worst = later(worst, forecast_of(nodes, request, &needs, now));
    }
    worst
}

fn later(a: Forecast, b: Forecast) -> Forecast {
    let order = |forecast: Forecast| match forecast {
        Forecast::Now => (0, 0),
        Forecast::At(at) => (1, at),
        Forecast::Eventually => (2, 0),
        Forecast::Blocked => (3, 0),
        Forecast::NotFound => (4, 0),
        Forecast::Never => (5, 0),
    };
    if order(b) > order(a) { b } else { a }
}

fn forecast_of(nodes: &Nodes, request: &Request<'_>, needs: &[Needs<'_>], now: i64) -> Forecast {
    let orders = orders(nodes, needs);
    let fits = |when| orders.iter().any(|order| fits(nodes, request, needs, order, when));
    if !fits(When::Idle) {
        return Forecast::Never;
    }
    if fits(When::Now) {
        return Forecast::Now;
    }
    if !fits(When::Eventually) {
        return Forecast::Blocked;
    }
    let open = |needs| open(nodes, needs, When::Now).flat_map(|(_, node)| node.ends());
    let mut ends: Vec<i64> = needs.iter().flat_map(open).collect();
    ends.sort_unstable();
    ends.dedup();
    // Slots past their end may leave at any moment. Ends only make room, so the first that suffices
    // can be found by bisection.
    match ends.partition_point(|end| !fits(When::After(*end))) {
        first if first == ends.len() => Forecast::Eventually,
        first => Forecast::At(ends[first].max(now + 1)),
    }
}

fn fits(
    nodes: &Nodes,
    request: &Request<'_>,
    needs: &[Needs<'_>],
    order: &[usize],
    when: When,
) -> bool {
    let mut left: Vec<u64> = needs.iter().map(|needs| needs.count).collect();
    for (rank, node) in nodes.iter().filter(|(_, node)| node.is_open(when)) {
        let mut free = node.free(when).clone();
        let mut limits: Vec<u64> = request.max_per_node.iter().map(|(_, count)| *count).collect();
        for &at in order.iter().filter(|at| needs[**at].admits(*rank)) {
            let needs = &needs[at];
            let allowed = needs.limits.iter().map(|limit| limits[*limit]).min().unwrap_or(u64::MAX);
            let here = slots_in(&free, &needs.per_slot).min(left[at]).min(allowed);
            if here > 0 {
                left[at] -= here;
                needs.limits.iter().for_each(|limit| limits[*limit] -= here);
                free.subtract(&super::node::times(&needs.per_slot, here));
            }
        }
        if left.iter().all(|left| *left == 0) {
            return true;
        }
    }
    false
}

/// The ranks on which at least one slot of some shape fits once everything that has an end has
/// ended.
pub(super) fn eligible(nodes: &Nodes, needs: &[Needs<'_>]) -> RankSet {
    let when = When::Eventually;
    let fits = |needs| {
        let open = open(nodes, needs, when);
        open.filter(|(_, node)| slots_in(node.free(when), &needs.per_slot) > 0)
            .map(|(rank, _)| rank)
    };
    needs.iter().flat_map(fits).collect()
}

/// Reports the supply for a shape alone.
pub(super) fn report(nodes: &Nodes, request: &Request<'_>, needs: &Needs<'_>) -> ShapeReport {
    ShapeReport {
        label: needs.label.to_owned(),
        wanted: needs.count,
        now: supply(nodes, request, needs, When::Now),
        idle: supply(nodes, request, needs, When::Idle),
    }
}

fn supply(nodes: &Nodes, request: &Request<'_>, needs: &Needs<'_>, when: When) -> Supply {
    let allowed =
        needs.limits.iter().map(|limit| request.max_per_node[*limit].1).min().unwrap_or(u64::MAX);
    let pool = |(name, needed): (&ResourceName, u64)| PoolSupply {
        resource: name.to_string(),
        per_slot: kinds::units(name, needed),
        short: RankSet::new(),
        free: 0,
        largest: 0,
    };
    let mut supply = Supply {
        nodes: 0,
        apart: 0,
        room: 0,
        pools: needs.per_slot.iter().map(pool).collect(),
        levels: Vec::new(),
    };
    for (rank, node) in open(nodes, needs, when) {
        let free = node.free(when);
        supply.nodes += 1;
        supply.room += slots_in(free, &needs.per_slot).min(allowed);
        for pool in &mut supply.pools {
            let here = kinds::units(&pool.resource, free.get(&pool.resource));
            if here < pool.per_slot {
                pool.short.insert(rank);
            }
            pool.free += here;
            pool.largest = pool.largest.max(here);
        }
    }
    supply
}
