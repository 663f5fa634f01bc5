//! The answers of the graph, read from JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::placement::{Placement, SlotsAt};
use super::rankset;
use super::rankset::{Rank, RankSet};
use super::request::Request;
use fluxqueue_workload::Resources;

/// Why a request does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Explanation {
    /// One entry for each shape, in the order of the request.
    pub shapes: Vec<ShapeReport>,
}

/// The report about one shape, as if it were requested alone.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ShapeReport {
    /// Its label.
    pub label: String,
    /// The number of wanted slots.
    pub wanted: u64,
    /// The supply now, on nodes that are up.
    pub now: Supply,
    /// The supply if nothing ran, and every node were up.
    pub idle: Supply,
}

/// The supply for one shape at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Supply {
    /// Nodes that the request may use.
    pub nodes: u64,
    /// Of these, nodes of other tenants that its slots must not be with; the report has no more
    /// about them.
    #[serde(default)]
    pub apart: u64,
    /// The number of its slots that fit on them.
    pub room: u64,
    /// One entry for each resource of the slot.
    pub pools: Vec<PoolSupply>,
    /// One entry for each rule about a level that the slots are under.
    #[serde(default)]
    pub levels: Vec<LevelSupply>,
}

/// The supply for one shape in the parts of a level.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LevelSupply {
    /// The level.
    pub level: String,
    /// Parts with a node that the request may use.
    pub parts: u64,
    /// The number of its slots that fit in the part that has most room.
    pub largest: u64,
    /// That part, if some slot fits.
    #[serde(default)]
    pub part: Option<String>,
    /// The even supply, where the numbers of slots in two parts may differ only up to a limit.
    #[serde(default)]
    pub even: Option<EvenSupply>,
    /// Where slots of several shapes are to be in one part.
    #[serde(default)]
    pub together: Option<TogetherSupply>,
}

/// The supply for all shapes that are to be in one part together.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TogetherSupply {
    /// The number of wanted slots.
    pub wanted: u64,
    /// The number of them that fit in the part that has most room.
    pub largest: u64,
    /// That part, if some slot fits.
    #[serde(default)]
    pub part: Option<String>,
}

/// The supply where no part may have many more slots than another.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct EvenSupply {
    /// The number of slots that fit in all parts together.
    pub room: u64,
    /// The number of slots that fit in the part that has least room.
    pub least: u64,
    /// The name of that part.
    pub part: String,
}

/// The supply of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PoolSupply {
    /// The resource.
    #[serde(rename = "type")]
    pub resource: String,
    /// What each slot takes.
    pub per_slot: u64,
    /// Nodes that have too little of it for even one slot.
    #[serde(deserialize_with = "ranks")]
    pub short: RankSet,
    /// Free on all nodes together.
    pub free: u64,
    /// Free on the node that has most.
    pub largest: u64,
}

/// The amounts of a node, and the taken part.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct NodeUsage {
    /// The node.
    pub rank: Rank,
    /// Resources that it has, or that are taken of it, in no particular order.
    pub pools: Vec<PoolUsage>,
}

/// One resource of a node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PoolUsage {
    /// The resource.
    #[serde(rename = "type")]
    pub resource: String,
    /// The amount that there is.
    pub size: u64,
    /// The taken amount, possibly more than there is.
    pub used: u64,
}

/// A set of nodes, as an idset.
fn ranks<'de, D: Deserializer<'de>>(text: D) -> Result<RankSet, D::Error> {
    Cow::<str>::deserialize(text)?.parse().map_err(D::Error::custom)
}

impl NodeUsage {
    /// Returns one resource of the node; zeros if it has none.
    pub fn of(&self, resource: &str) -> (u64, u64) {
        self.pools
            .iter()
            .find(|pool| pool.resource == resource)
            .map_or((0, 0), |pool| (pool.size, pool.used))
    }
}

/// A graph in R, as JGF.
#[derive(Deserialize)]
struct GraphText<'a> {
    #[serde(borrow)]
    graph: VerticesText<'a>,
}

#[derive(Deserialize)]
struct VerticesText<'a> {
    #[serde(borrow)]
    nodes: Vec<VertexText<'a>>,
}

#[derive(Deserialize)]
struct VertexText<'a> {
    #[serde(borrow)]
    metadata: MetadataText<'a>,
}

#[derive(Deserialize)]
struct MetadataText<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    rank: i64,
    #[serde(default)]
    exclusive: bool,
}

#[derive(Deserialize)]
struct PlacementText<'a> {
    #[serde(borrow)]
    slots: Vec<SlotsText<'a>>,
}

#[derive(Deserialize)]
struct SlotsText<'a> {
    #[serde(borrow)]
    label: Cow<'a, str>,
    #[serde(borrow)]
    ranks: Cow<'a, str>,
    per_rank: u64,
}

/// Reads a placement of the request; an error names the fault in the text.
pub(super) fn placement(text: &str, request: &Request<'_>) -> Result<Placement, String> {
    let read: PlacementText<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut slots = Vec::new();
    for group in read.slots {
        let shape = request.shapes.iter().position(|shape| *shape.label == *group.label);
        let shape = shape.ok_or_else(|| format!("slot {:?}: was not asked for", group.label))?;
        let count = group.per_rank;
        let add = |first: Rank, last: Rank| {
            slots.extend((first..=last).map(|rank| SlotsAt { shape, rank, count }));
        };
        rankset::parse_ranges(&group.ranks, add)
            .ok_or_else(|| format!("ranks {:?}: not an idset", group.ranks))?;
    }
    Ok(Placement { slots })
}

/// Reads which whole slots of these vertices an R in JGF grants, by rank. An error names its fault.
pub(super) fn vertices(
    text: &str,
    per_slot: &Resources,
    count: u64,
    ranks: &RankSet,
) -> Result<Vec<(Rank, u64)>, String> {
    let read: GraphText<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut granted: BTreeMap<Rank, BTreeMap<&str, u64>> = BTreeMap::new();
    for VertexText { metadata } in
        read.graph.nodes.iter().filter(|vertex| vertex.metadata.exclusive)
    {
        let rank = Rank::try_from(metadata.rank).ok().filter(|rank| ranks.contains(*rank));
        let rank =
            rank.ok_or_else(|| format!("R has a {} of rank {}", metadata.kind, metadata.rank))?;
        *granted.entry(rank).or_default().entry(&metadata.kind).or_default() += 1;
    }
    let mut slots = Vec::with_capacity(granted.len());
    for (rank, vertices) in granted {
        let here = per_slot
            .iter()
            .map(|(kind, needed)| vertices.get(&**kind).copied().unwrap_or(0) / needed)
            .min();
        let here = here.unwrap_or(0);
        let whole =
            per_slot.iter().all(|(kind, needed)| vertices.get(&**kind) == Some(&(needed * here)));
        if !whole || vertices.len() != per_slot.iter().count() {
            return Err(format!("R has no whole slots on rank {rank}"));
        }
        slots.push((rank, here));
    }
    match slots.iter().map(|(_, here)| here).sum::<u64>() {
        sum if sum == count => Ok(slots),
        sum => Err(format!("R has {sum} slots instead of {count}")),
    }
}
