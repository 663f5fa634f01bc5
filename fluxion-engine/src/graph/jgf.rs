//! The JSON Graph Format of Fluxion, as text.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use crate::Error;

/// The subsystem that is read; edges and paths of others are passed over.
const CONTAINMENT: &str = "containment";

/// A vertex as the document has it, defaults filled in.
#[derive(Debug)]
pub(crate) struct NodeText<'a> {
    pub(crate) kind: Cow<'a, str>,
    pub(crate) basename: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) path: Cow<'a, str>,
    pub(crate) id: i64,
    pub(crate) uniq_id: i64,
    pub(crate) rank: Option<u32>,
    pub(crate) size: u64,
    pub(crate) unit: Cow<'a, str>,
    pub(crate) properties: Vec<(Box<str>, Box<str>)>,
    pub(crate) up: bool,
}

/// A document: vertices, and edges as pairs of indices into them.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    pub(crate) nodes: Vec<NodeText<'a>>,
    pub(crate) edges: Vec<(usize, usize)>,
}

#[derive(Deserialize)]
struct Top<'a> {
    #[serde(borrow)]
    graph: Body<'a>,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    nodes: Vec<Node<'a>>,
    #[serde(borrow, default)]
    edges: Vec<Edge<'a>>,
}

#[derive(Deserialize)]
struct Node<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    paths: HashMap<Cow<'a, str>, Cow<'a, str>>,
    #[serde(borrow, default)]
    basename: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    id: Option<i64>,
    uniq_id: Option<i64>,
    rank: Option<i64>,
    status: Option<i64>,
    #[serde(rename = "exclusive")]
    _exclusive: Option<bool>,
    size: Option<i64>,
    #[serde(borrow, default)]
    unit: Option<Cow<'a, str>>,
    properties: Option<BTreeMap<Box<str>, Box<str>>>,
}

#[derive(Deserialize)]
struct Edge<'a> {
    #[serde(borrow)]
    source: Cow<'a, str>,
    #[serde(borrow)]
    target: Cow<'a, str>,
    #[serde(borrow, default)]
    metadata: Option<EdgeMetadata<'a>>,
}

#[derive(Deserialize)]
struct EdgeMetadata<'a> {
    #[serde(borrow, default)]
    subsystem: Option<Cow<'a, str>>,
}

/// Reads a document, `{"graph":{"nodes":[...],"edges":[...]}}`.
pub(crate) fn parse(text: &str) -> Result<Document<'_>, Error> {
    let top: Top<'_> = serde_json::from_str(text).map_err(|error| Error::invalid(format!("graph: {error}")))?;
    let mut nodes = Vec::with_capacity(top.graph.nodes.len());
    let mut index = HashMap::with_capacity(top.graph.nodes.len());
    for node in top.graph.nodes {
        if index.insert(node.id.clone(), nodes.len()).is_some() {
            return Err(Error::invalid(format!("graph: vertex {:?}: its id is used twice", node.id)));
        }
        nodes.push(vertex(&node.id, node.metadata)?);
    }
    let mut edges = Vec::with_capacity(top.graph.edges.len());
    for edge in top.graph.edges {
        let end = |id: &Cow<'_, str>| {
            index.get(id).copied().ok_or_else(|| Error::invalid(format!("graph: edge: no vertex {id:?}")))
        };
        let pair = (end(&edge.source)?, end(&edge.target)?);
        let subsystem = edge.metadata.and_then(|metadata| metadata.subsystem);
        if subsystem.is_none_or(|subsystem| subsystem == CONTAINMENT) {
            edges.push(pair);
        }
    }
    Ok(Document { nodes, edges })
}

fn vertex<'a>(outer_id: &str, mut metadata: Metadata<'a>) -> Result<NodeText<'a>, Error> {
    let wrong = |what: &str| Error::invalid(format!("graph: vertex {outer_id:?}: {what}"));
    let uniq_id = match metadata.uniq_id {
        Some(id) => id,
        None => outer_id.parse().map_err(|_| wrong("no uniq_id, and the id is no number"))?,
    };
    let path = metadata.paths.remove(CONTAINMENT).ok_or_else(|| wrong("paths: no containment path"))?;
    if !path.starts_with('/') {
        return Err(wrong("paths: containment: does not start with /"));
    }
    let id = metadata.id.unwrap_or_else(|| match &metadata.name {
        Some(name) if metadata.kind == "node" => trailing_number(name),
        _ => uniq_id,
    });
    let basename = metadata.basename.unwrap_or_else(|| metadata.kind.clone());
    let name = metadata.name.unwrap_or_else(|| Cow::Owned(format!("{basename}{id}")));
    let rank = match metadata.rank {
        None | Some(..0) => None,
        Some(rank) => Some(u32::try_from(rank).map_err(|_| wrong("rank: more than 2^32-1"))?),
    };
    let size = u64::try_from(metadata.size.unwrap_or(1)).map_err(|_| wrong("size: negative"))?;
    let up = match metadata.status {
        None | Some(0) => true,
        Some(1) => false,
        Some(_) => return Err(wrong("status: neither 0 nor 1")),
    };
    Ok(NodeText {
        kind: metadata.kind,
        basename,
        name,
        path,
        id,
        uniq_id,
        rank,
        size,
        unit: metadata.unit.unwrap_or_default(),
        properties: metadata.properties.unwrap_or_default().into_iter().collect(),
        up,
    })
}

/// The number a name ends in; -1 if there is none.
fn trailing_number(name: &str) -> i64 {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    name[stem.len()..].parse().unwrap_or(-1)
}
