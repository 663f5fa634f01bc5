//! Answers for people: where something could go, and which resources are short.

use std::collections::BTreeMap;

use flux_lists::idset;
use serde::Serialize;

use super::Engine;
use super::ask::Form;
use super::sight::Sight;
use crate::Error;
use crate::bits::Bits;
use crate::graph::Graph;
use crate::jobspec::Jobspec;
use crate::pools::{Free, Pools};
use crate::slot_search::candidates::{self, Status};
use crate::slot_search::flat;
pub use crate::slot_search::flat::levels::{EvenSupply, LevelSupply, TogetherSupply};
use crate::time::When;

/// Why a request does not fit: for each slot label, the supply now and the supply that there would
/// be on the idle machine.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct Explanation {
    /// One entry for each shape, in the order of the request.
    pub shapes: Vec<ShapeReport>,
}

/// About one shape, as if it were requested alone.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct ShapeReport {
    /// Its label.
    pub label: String,
    /// How many slots are wanted.
    pub wanted: u64,
    /// The supply now.
    pub now: Supply,
    /// The supply if nothing were claimed, and every node were up.
    pub idle: Supply,
}

/// The supply for one shape at one moment.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct Supply {
    /// Nodes that the request may use.
    pub nodes: u64,
    /// Of these, nodes with others that its slots must not be with: of a tenant any, else a
    /// tenant.
    #[serde(skip_serializing_if = "is_zero")]
    pub apart: u64,
    /// How many of its slots fit on them.
    pub room: u64,
    /// One entry for each pool type of the slot, about the nodes where it may be.
    pub pools: Vec<PoolSupply>,
    /// One entry for each rule of levels that the shape is under.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<LevelSupply>,
}

/// The supply of one pool type.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct PoolSupply {
    /// The type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Units that each slot takes.
    pub per_slot: u64,
    /// Nodes on which it is too little for even one slot.
    pub short_nodes: u64,
    /// The ranks of these, as an idset.
    pub short: String,
    /// Free units, all nodes together (at most 2^64-1).
    pub free: u64,
    /// Free units of the node that has most.
    pub largest: u64,
}

/// The pools of a node.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct NodeUsage {
    /// Its rank.
    pub rank: u32,
    /// Pools that have a size or a claim, in no particular order.
    pub pools: Vec<PoolUsage>,
}

/// One pool of a node.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct PoolUsage {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its units.
    pub size: u64,
    /// Units that are claimed now, possibly more than there are (at most 2^64-1).
    pub used: u64,
}

/// A level.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct LevelReport {
    /// Its name.
    pub level: String,
    /// In no particular order.
    pub parts: Vec<PartReport>,
}

/// A part of a level.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct PartReport {
    /// Its name.
    pub part: String,
    /// Its ranks, as an idset.
    pub ranks: String,
    /// Units that are free now on its nodes that are up, by type (at most 2^64-1).
    pub free: BTreeMap<String, u64>,
}

impl LevelReport {
    /// As JSON.
    pub fn to_json(&self) -> String {
        json(self)
    }
}

impl Explanation {
    /// As JSON.
    pub fn to_json(&self) -> String {
        json(self)
    }
}

impl NodeUsage {
    /// As JSON.
    pub fn to_json(&self) -> String {
        json(self)
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("maps with text keys and numbers always have a JSON form")
}

impl Engine {
    /// Every pool of a node, with the units claimed now.
    pub fn usage(&self, rank: u32) -> Result<NodeUsage, Error> {
        let graph = self.graph();
        let pools =
            graph.pools.by_node().uses(graph.row(rank)?).into_iter().map(|pool| PoolUsage {
                kind: graph.types().name(pool.kind).to_owned(),
                size: pool.size,
                used: u64::try_from(pool.used).unwrap_or(u64::MAX),
            });
        Ok(NodeUsage { rank, pools: pools.collect() })
    }

    /// The parts of a level; none, if no node is in one.
    pub fn level(&self, name: &str) -> LevelReport {
        let graph = self.graph();
        let pools = &graph.pools;
        let mut report = LevelReport { level: name.to_owned(), parts: Vec::new() };
        let Some(level) = pools.levels.find(name) else { return report };
        let kinds: Vec<_> = graph
            .types()
            .iter()
            .filter_map(|(kind, name)| Some((name, pools.column_of(kind)?)))
            .collect();
        for (part, free) in
            pools.levels.get(level).parts().iter().zip(pools.free_of_parts(level).iter())
        {
            let mut ranks = String::new();
            idset::write(&mut ranks, part.ranks.iter().copied());
            let units = |at: usize| u64::try_from(free[at]).unwrap_or(u64::MAX);
            let free = kinds.iter().map(|(kind, at)| ((*kind).to_owned(), units(*at))).collect();
            report.parts.push(PartReport { part: part.name.to_string(), ranks, free });
        }
        report
    }

    /// The ranks, as an idset, on which a slot of some shape fits once everything that has an end
    /// has ended.
    pub fn eligible(&mut self, jobspec: &str) -> Result<String, Error> {
        within_budget(self, jobspec, eligible_ranks)
    }

    /// The supply for each shape of a request, now and on the idle machine.
    pub fn explain(&mut self, jobspec: &str) -> Result<Explanation, Error> {
        within_budget(self, jobspec, explained)
    }
}

fn eligible_ranks(sight: Sight<'_>, spec: &Jobspec) -> Result<String, Error> {
    let (ask, graph) = (sight.ask(spec)?, sight.graph());
    let request = of_pools(&ask.form)?;
    let free = request.free(graph, When::Eventually);
    let of_request = candidates::rows(graph, spec, Status::Heeded);
    let mut fits = Bits::default();
    let mut rows: Vec<Bits> = (0..request.shapes.len())
        .map(|shape| rows_of_shape(graph, request, shape, &of_request))
        .collect();
    flat::levels::narrow(request, &graph.pools, &free, &mut rows);
    for (shape, rows) in request.shapes.iter().zip(&rows) {
        rows.iter().filter(|row| shape.room(&free, *row, 1) > 0).for_each(|row| fits.insert(row));
    }
    let mut ranks = String::new();
    idset::write(&mut ranks, fits.iter().map(|row| graph.pools.ranks()[row]));
    Ok(ranks)
}

fn explained(sight: Sight<'_>, spec: &Jobspec) -> Result<Explanation, Error> {
    let (ask, graph) = (sight.ask(spec)?, sight.graph());
    let request = of_pools(&ask.form)?;
    let now = When::Window { from: sight.now(), to: sight.now() + 1 };
    let now = supplies(graph, (request, spec), now, &candidates::rows(graph, spec, Status::Heeded));
    let idle = supplies(
        graph,
        (request, spec),
        When::Idle,
        &candidates::rows(graph, spec, Status::Ignored),
    );
    let shapes = request.shapes.iter().zip(now).zip(idle).map(|((shape, now), idle)| ShapeReport {
        label: shape.label.to_owned(),
        wanted: shape.count,
        now,
        idle,
    });
    Ok(Explanation { shapes: shapes.collect() })
}

/// Of the rows that a request may use, those that a shape may use.
fn rows_of_shape(
    graph: &Graph,
    request: &flat::SlotRequest<'_>,
    shape: usize,
    of_request: &Bits,
) -> Bits {
    let mut rows = candidates::rows_of_slots(graph, of_request, request.shapes[shape].extras);
    request.admit(&graph.pools, shape, &mut rows);
    rows
}

fn supplies(
    graph: &Graph,
    (request, spec): (&flat::SlotRequest<'_>, &Jobspec),
    when: When,
    rows: &Bits,
) -> Vec<Supply> {
    let free = request.free(graph, when);
    let mut of_shapes: Vec<Bits> =
        (0..request.shapes.len()).map(|shape| rows_of_shape(graph, request, shape, rows)).collect();
    let admitted = of_shapes.clone();
    let mut apart: Vec<u64> = Vec::with_capacity(of_shapes.len());
    for rows in &mut of_shapes {
        let mut away = Bits::empty(graph.pools.len());
        let keeps_away =
            |row: &usize| graph.pools.by_node().keeps_away(*row, request.tenancy, when);
        rows.iter().filter(keeps_away).for_each(|row| away.insert(row));
        rows.subtract(&away);
        apart.push(away.count() as u64);
    }
    let supply = |(at, shape): (usize, &flat::Shape<'_>)| {
        let rows = &of_shapes[at];
        let counted = request.has_skew().then(|| {
            let mut counted = candidates::counted_rows(graph, spec, shape.extras);
            request.admit(&graph.pools, at, &mut counted);
            counted.unite(&admitted[at]);
            counted
        });
        Supply {
            nodes: admitted[at].count() as u64,
            apart: apart[at],
            room: request.room_alone(shape, &free, std::slice::from_ref(rows), u64::MAX),
            pools: shape
                .needs
                .iter()
                .map(|need| pool_supply(request, *need, &graph.pools, &free, rows))
                .collect(),
            levels: flat::levels::level_supplies(
                request,
                &graph.pools,
                &free,
                at,
                &of_shapes,
                counted.as_ref(),
            ),
        }
    };
    request.shapes.iter().enumerate().map(supply).collect()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn pool_supply(
    request: &flat::SlotRequest<'_>,
    (kind, per_slot): (usize, u64),
    pools: &Pools,
    free: &Free<'_>,
    rows: &Bits,
) -> PoolSupply {
    let kind_name = request.kinds[kind].0.to_owned();
    let mut supply = PoolSupply {
        kind: kind_name,
        per_slot,
        short_nodes: 0,
        short: String::new(),
        free: 0,
        largest: 0,
    };
    let mut short: Vec<u32> = Vec::new();
    for row in rows.iter() {
        let units = free.units(kind, row);
        if units < per_slot {
            short.push(pools.ranks()[row]);
        }
        supply.free = supply.free.saturating_add(units);
        supply.largest = supply.largest.max(units);
    }
    supply.short_nodes = short.len() as u64;
    short.sort_unstable();
    idset::write(&mut supply.short, short);
    supply
}

fn of_pools<'a, 'b>(form: &'a Form<'b>) -> Result<&'a flat::SlotRequest<'b>, Error> {
    match form {
        Form::Flat(request) => Ok(request),
        Form::Walk(_) => Err(Error::invalid("jobspec: only slots of pool units can be explained")),
    }
}

/// Answers a question that takes searches; what they have found is of no use where the budget was
/// spent.
fn within_budget<T>(
    engine: &mut Engine,
    jobspec: &str,
    question: impl FnOnce(Sight<'_>, &Jobspec) -> Result<T, Error>,
) -> Result<T, Error> {
    engine.asking(|engine| {
        engine.graph().pools.effort.begin();
        let spec = engine.memo.spec(jobspec)?;
        let answer = question(engine.sight(), &spec)?;
        engine.graph().pools.effort.ensure_left()?;
        Ok(answer)
    })
}
