//! The JSON Graph Format of Fluxion: vertices and edges go where they belong while the text is
//! read, so that a large document never exists a second time in memory. The fields are those of
//! upstream's resource/readers/resource_reader_jgf.cpp.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

use flux_lists::hostlist::stem_and_digits;
use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::Error;
use crate::graph::{Builder, Graph, NewVertex, NodeText, PoolTypes, VertexId};
use crate::limits::{
    JGF_BYTES_MAX, Limit, NAME_BYTES_MAX, PATH_BYTES_MAX, PROPERTIES_MAX, VERTEX_PROPERTIES_MAX,
    VERTICES_MAX,
};
use crate::tree::{Name, without_mark};

/// The subsystem that is read; edges and paths of others are passed over.
const CONTAINMENT: &str = "containment";
/// Stands for a vertex that is in other subsystems only, and is left out.
const ELSEWHERE: usize = u32::MAX as usize;

/// A document: vertices, and edges as pairs of indices into them.
#[derive(Debug, Default)]
pub(crate) struct Document<'a> {
    pub(crate) nodes: Vec<NodeText<'a>>,
    pub(crate) edges: Vec<(usize, usize)>,
    /// `free_ranks`: what lies there is not meant.
    pub(crate) free_ranks: Option<String>,
    ids: Ids<'a>,
    /// How many properties there were so far.
    properties: usize,
}

/// The outer ids of a document; they are numbers nearly always.
#[derive(Debug, Default)]
struct Ids<'a> {
    numbers: HashMap<u64, u32>,
    others: HashMap<Cow<'a, str>, u32>,
}

/// Where the parts of a document go.
trait Sink<'a> {
    fn node(&mut self, id: Cow<'a, str>, node: NodeText<'a>) -> Result<(), Error>;
    fn edge(&mut self, source: &str, target: &str) -> Result<(), Error>;
    fn free_ranks(&mut self, ranks: String);
}

/// Reads a whole graph.
pub(crate) fn read(text: &str, pool_types: PoolTypes) -> Result<Graph, Error> {
    let mut sink = Load { builder: Builder::new(pool_types), ids: Ids::default(), properties: 0 };
    run(text, &mut sink)?;
    sink.builder.finish()
}

/// Reads a document that says something about a graph.
pub(crate) fn parse(text: &str) -> Result<Document<'_>, Error> {
    let mut document = Document::default();
    run(text, &mut document)?;
    Ok(document)
}

fn run<'a>(text: &'a str, sink: &mut impl Sink<'a>) -> Result<(), Error> {
    JGF_BYTES_MAX.check(text.len(), "graph")?;
    let mut reader = serde_json::Deserializer::from_str(without_mark(text));
    let read = TopSeed(sink).deserialize(&mut reader).and_then(|()| reader.end());
    read.map_err(|error| Error::invalid(format!("graph: {error}")))
}

struct Load<'a> {
    builder: Builder,
    ids: Ids<'a>,
    /// How many properties there were so far.
    properties: usize,
}

impl<'a> Sink<'a> for Load<'a> {
    fn node(&mut self, id: Cow<'a, str>, node: NodeText<'a>) -> Result<(), Error> {
        if node.path.is_empty() {
            return self.ids.add(id, ELSEWHERE);
        }
        VERTICES_MAX.check(self.builder.len() + 1, "graph")?;
        self.properties += node.properties.len();
        PROPERTIES_MAX.check(self.properties, "graph")?;
        self.ids.add(id, self.builder.len())?;
        let builder = &mut self.builder;
        let plain = node.id != -1 && is_plain(&node.name, &node.basename, node.id);
        let (kind, basename) = (builder.kind(&node.kind)?, builder.text(&node.basename));
        let vertex = NewVertex {
            name: if plain { None } else { Some(builder.text(&node.name)) },
            rank: node.rank,
            size: node.size,
            properties: builder
                .properties(node.properties.iter().map(|(name, value)| (&**name, &**value))),
            up: node.up,
            // As upstream, which reads the unit and forgets it.
            ..NewVertex::new(kind, basename, node.id, node.uniq_id)
        };
        let added = builder.add(vertex)?;
        builder.given_path(added, &node.path);
        Ok(())
    }

    fn edge(&mut self, source: &str, target: &str) -> Result<(), Error> {
        let (source, target) = (self.ids.find(source)?, self.ids.find(target)?);
        if source == ELSEWHERE || target == ELSEWHERE {
            return Err(Error::invalid("edge: containment of a vertex without a containment path"));
        }
        self.builder.edge(VertexId::at(source), VertexId::at(target));
        Ok(())
    }

    fn free_ranks(&mut self, _ranks: String) {}
}

impl<'a> Sink<'a> for Document<'a> {
    fn node(&mut self, id: Cow<'a, str>, node: NodeText<'a>) -> Result<(), Error> {
        VERTICES_MAX.check(self.nodes.len() + 1, "graph")?;
        self.properties += node.properties.len();
        PROPERTIES_MAX.check(self.properties, "graph")?;
        self.ids.add(id, self.nodes.len())?;
        self.nodes.push(node);
        Ok(())
    }

    fn edge(&mut self, source: &str, target: &str) -> Result<(), Error> {
        self.edges.push((self.ids.find(source)?, self.ids.find(target)?));
        Ok(())
    }

    fn free_ranks(&mut self, ranks: String) {
        self.free_ranks = Some(ranks);
    }
}

impl<'a> Ids<'a> {
    fn add(&mut self, id: Cow<'a, str>, at: usize) -> Result<(), Error> {
        let at =
            u32::try_from(at).map_err(|_| Error::invalid("graph: more than 2^32-1 vertices"))?;
        let before = match number(&id) {
            Some(number) => self.numbers.insert(number, at),
            None => self.others.insert(id.clone(), at),
        };
        match before {
            Some(_) => Err(Error::invalid(format!("vertex {id:?}: its id is used twice"))),
            None => Ok(()),
        }
    }

    fn find(&self, id: &str) -> Result<usize, Error> {
        let found = match number(id) {
            Some(number) => self.numbers.get(&number),
            None => self.others.get(id),
        };
        found
            .map(|at| *at as usize)
            .ok_or_else(|| Error::invalid(format!("edge: no vertex {id:?}")))
    }
}

/// An id that is written as a number is, so that none is mistaken for another ("07").
fn number(id: &str) -> Option<u64> {
    let plain = id == "0" || !id.starts_with(['0', '+']);
    if plain { id.parse().ok() } else { None }
}

/// Whether a name is the basename and the number.
fn is_plain(name: &str, basename: &str, id: i64) -> bool {
    name.strip_prefix(basename).is_some_and(|rest| {
        rest.parse() == Ok(id)
            && (rest == "0" || !rest.starts_with(['0', '+']) && !rest.starts_with("-0"))
    })
}

/// A vertex as the document has it: its outer id, and its fields.
#[derive(Deserialize)]
struct Record<'a> {
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
    paths: Paths<'a>,
    #[serde(borrow, default, deserialize_with = "no_null")]
    basename: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "no_null")]
    name: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "no_null")]
    id: Option<i64>,
    #[serde(default, deserialize_with = "no_null")]
    uniq_id: Option<i64>,
    #[serde(default, deserialize_with = "no_null")]
    rank: Option<i64>,
    #[serde(default, deserialize_with = "no_null")]
    status: Option<i64>,
    #[serde(default, deserialize_with = "no_null")]
    exclusive: Option<bool>,
    #[serde(default, deserialize_with = "no_null")]
    size: Option<i64>,
    #[serde(rename = "unit", borrow, default, deserialize_with = "no_null")]
    _unit: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    properties: PropertiesText<'a>,
}

/// The properties of a vertex. They are counted while they are read: one vertex could have
/// gigabytes of them.
#[derive(Default)]
struct PropertiesText<'a>(BTreeMap<Cow<'a, str>, Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for PropertiesText<'a> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = BTreeMap<Cow<'de, str>, Cow<'de, str>>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut all = BTreeMap::new();
                while let Some((Name(name), Name(value))) = map.next_entry()? {
                    all.insert(name, value);
                    let counted = VERTEX_PROPERTIES_MAX.check(all.len(), "properties");
                    counted.map_err(de::Error::custom)?;
                }
                Ok(all)
            }
        }

        reader.deserialize_map(Pairs).map(PropertiesText)
    }
}

/// A field may be left out. As upstream, null is no way to do so.
fn no_null<'a, D: Deserializer<'a>, T: Deserialize<'a>>(reader: D) -> Result<Option<T>, D::Error> {
    T::deserialize(reader).map(Some)
}

#[derive(Deserialize)]
struct Paths<'a> {
    #[serde(borrow, default)]
    containment: Option<Cow<'a, str>>,
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

impl Edge<'_> {
    fn is_containment(&self) -> bool {
        let subsystem = self.metadata.as_ref().and_then(|metadata| metadata.subsystem.as_deref());
        subsystem.is_none_or(|subsystem| subsystem == CONTAINMENT)
    }
}

fn vertex<'a>(outer_id: &str, metadata: Metadata<'a>) -> Result<NodeText<'a>, Error> {
    let wrong = |what: &str| Error::invalid(format!("vertex {outer_id:?}: {what}"));
    let check = |limit: Limit, text: &str, what: &str| {
        limit.check(text.len(), format_args!("vertex {outer_id:?}: {what}"))
    };
    let uniq_id = match metadata.uniq_id {
        Some(id) => id,
        None => outer_id.parse().map_err(|_| wrong("no uniq_id, and the id is no number"))?,
    };
    let path = metadata.paths.containment.unwrap_or_default();
    if !path.is_empty() && !path.starts_with('/') {
        return Err(wrong("paths: containment: does not start with /"));
    }
    let id = metadata.id.unwrap_or_else(|| match &metadata.name {
        Some(name) if metadata.kind == "node" => trailing_number(name),
        _ => uniq_id,
    });
    let basename = metadata.basename.unwrap_or_else(|| metadata.kind.clone());
    let name = metadata.name.unwrap_or_else(|| Cow::Owned(format!("{basename}{id}")));
    for (text, what) in [(&metadata.kind, "type"), (&basename, "basename"), (&name, "name")] {
        check(NAME_BYTES_MAX, text, what)?;
    }
    check(PATH_BYTES_MAX, &path, "paths: containment")?;
    let rank = match metadata.rank {
        None | Some(..0) => -1,
        Some(rank) => i32::try_from(rank).map_err(|_| wrong("rank: more than 2^31-1"))?,
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
        properties: metadata.properties.0,
        up,
        exclusive: metadata.exclusive.unwrap_or(false),
    })
}

/// The number a name ends in; -1 if there is none.
fn trailing_number(name: &str) -> i64 {
    stem_and_digits(name).1.parse().unwrap_or(-1)
}

struct TopSeed<'s, S>(&'s mut S);
struct BodySeed<'s, S>(&'s mut S);
struct NodesSeed<'s, S>(&'s mut S);
struct EdgesSeed<'s, S>(&'s mut S);

impl<'a, S: Sink<'a>> DeserializeSeed<'a> for TopSeed<'_, S> {
    type Value = ();
    fn deserialize<D: Deserializer<'a>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'a, S: Sink<'a>> Visitor<'a> for TopSeed<'_, S> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with key graph")
    }
    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = false;
        while let Some(key) = map.next_key::<Cow<'a, str>>()? {
            match &*key {
                "graph" => {
                    seen = true;
                    map.next_value_seed(BodySeed(self.0))?;
                }
                "free_ranks" => self.0.free_ranks(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if seen { Ok(()) } else { Err(de::Error::missing_field("graph")) }
    }
}

impl<'a, S: Sink<'a>> DeserializeSeed<'a> for BodySeed<'_, S> {
    type Value = ();
    fn deserialize<D: Deserializer<'a>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'a, S: Sink<'a>> Visitor<'a> for BodySeed<'_, S> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with keys nodes and edges")
    }
    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut nodes, mut edges, mut early) = (false, false, Vec::new());
        while let Some(key) = map.next_key::<Cow<'a, str>>()? {
            match &*key {
                "nodes" => {
                    nodes = true;
                    map.next_value_seed(NodesSeed(self.0))?;
                }
                "edges" => {
                    edges = true;
                    // Edges name vertices: those that come first have to wait.
                    if nodes {
                        map.next_value_seed(EdgesSeed(self.0))?;
                    } else {
                        early = map.next_value::<Vec<Edge<'a>>>()?;
                    }
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        for edge in early.iter().filter(|edge| edge.is_containment()) {
            self.0.edge(&edge.source, &edge.target).map_err(de::Error::custom)?;
        }
        match (nodes, edges) {
            (false, _) => Err(de::Error::missing_field("nodes")),
            (true, false) => Err(de::Error::missing_field("edges")),
            (true, true) => Ok(()),
        }
    }
}

impl<'a, S: Sink<'a>> DeserializeSeed<'a> for NodesSeed<'_, S> {
    type Value = ();
    fn deserialize<D: Deserializer<'a>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'a, S: Sink<'a>> Visitor<'a> for NodesSeed<'_, S> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of vertices")
    }
    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(record) = list.next_element::<Record<'a>>()? {
            let text = vertex(&record.id, record.metadata).map_err(de::Error::custom)?;
            self.0.node(record.id, text).map_err(de::Error::custom)?;
        }
        Ok(())
    }
}

impl<'a, S: Sink<'a>> DeserializeSeed<'a> for EdgesSeed<'_, S> {
    type Value = ();
    fn deserialize<D: Deserializer<'a>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_seq(self)
    }
}

impl<'a, S: Sink<'a>> Visitor<'a> for EdgesSeed<'_, S> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of edges")
    }
    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(edge) = list.next_element::<Edge<'a>>()? {
            if edge.is_containment() {
                self.0.edge(&edge.source, &edge.target).map_err(de::Error::custom)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster, a node and two cores, with these edges.
    fn graph(edges: &[(usize, usize)]) -> Result<Graph, Error> {
        let paths =
            ["/cluster0", "/cluster0/node1", "/cluster0/node1/core2", "/cluster0/node1/core3"];
        let nodes = paths.iter().enumerate().map(|(id, path)| {
            let kind = ["cluster", "node", "core", "core"][id];
            format!(r#"{{"id":"{id}","metadata":{{"type":"{kind}","id":{id},"paths":{{"containment":"{path}"}}}}}}"#)
        });
        let edges =
            edges.iter().map(|(from, to)| format!(r#"{{"source":"{from}","target":"{to}"}}"#));
        let (nodes, edges) =
            (nodes.collect::<Vec<_>>().join(","), edges.collect::<Vec<_>>().join(","));
        read(
            &format!(r#"{{"graph":{{"nodes":[{nodes}],"edges":[{edges}]}}}}"#),
            PoolTypes::default(),
        )
    }

    #[test]
    fn a_mark_of_the_byte_order_is_passed_over() {
        let text = "\u{feff}{\"graph\":{\"nodes\":[{\"id\":\"0\",\"metadata\":{\"type\":\"cluster\",\"paths\":{\"containment\":\"/c\"}}}],\"edges\":[]}}";
        assert_eq!(read(text, PoolTypes::default()).unwrap().len(), 1);
        let error = read(&text[3..].replace("]}}", "]}"), PoolTypes::default()).unwrap_err();
        assert!(error.text.contains("line 1"), "{error}");
    }

    fn vertex(id: u32, kind: &str, path: &str, rank: i32, size: u64) -> String {
        format!(
            r#"{{"id":"{id}","metadata":{{"type":"{kind}","id":{id},"rank":{rank},"size":{size},
            "paths":{{"containment":"{path}"}}}}}}"#
        )
    }

    fn of(vertices: &[String], edges: &str) -> String {
        format!(r#"{{"graph":{{"nodes":[{}],"edges":[{edges}]}}}}"#, vertices.join(","))
    }

    #[test]
    fn two_vertices_of_a_rank_have_two_paths() {
        let edges = r#"{"source":"0","target":"1"},{"source":"0","target":"2"}"#;
        let with = |second: String| {
            let root = vertex(0, "cluster", "/c0", -1, 1);
            let first = vertex(1, "node", "/c0/node1", 0, 1);
            read(&of(&[root, first, second], edges), PoolTypes::default())
        };
        let twin = |rank: i32| vertex(2, "node", "/c0/node1", rank, 1);
        let error = with(twin(0)).unwrap_err();
        assert!(error.text.contains("path /c0/node1: another vertex"), "{error}");
        let named = twin(0).replace(r#""id":2,"#, r#""id":1,"uniq_id":2,"#);
        let error = with(named.clone()).unwrap_err();
        assert!(error.text.contains("path /c0/node1: another vertex"), "{error}");
        // Of another rank, as in documents of several brokers on a host.
        assert!(with(twin(1)).is_ok());
        assert!(with(named.replace(r#""rank":0"#, r#""rank":1"#)).is_ok());
    }

    #[test]
    fn units_of_whole_vertices_have_a_sum() {
        let edges = r#"{"source":"0","target":"1"},{"source":"0","target":"2"}"#;
        let all = |size: u64| {
            let core = |id: u32| vertex(id, "core", &format!("/c0/core{id}"), 0, size);
            of(&[vertex(0, "cluster", "/c0", -1, 1), core(1), core(2)], edges)
        };
        let most = i64::MAX as u64;
        assert!(read(&all(most - 1), PoolTypes::default()).is_ok());
        let error = read(&all(most), PoolTypes::default()).unwrap_err();
        assert!(error.text.contains("UNITS_MAX"), "{error}");
    }

    #[test]
    fn edges_that_make_no_tree_are_named() {
        let tree = [(0, 1), (1, 2), (1, 3)];
        for (more, says) in [
            (vec![(1, 1)], "edge: vertex 1 (node1) leads to itself"),
            (vec![(0, 0)], "edge: vertex 0 (cluster0) leads to itself"),
            (vec![(1, 2)], "edge: vertex 1 (node1) to vertex 2 (core2): is there twice"),
            (vec![(2, 0)], "edge: vertex 2 (core2) to vertex 0 (cluster0): closes a circle"),
            (
                vec![(1, 0), (2, 1), (3, 0)],
                "edge: vertex 3 (core3) to vertex 0 (cluster0): closes a circle",
            ),
        ] {
            let error = graph(&[&tree[..], &more].concat()).unwrap_err();
            assert!(error.text.contains(says), "{error}");
        }
        // Both ways, down and up again, is no circle: upstream writes such documents.
        let both = graph(&[(0, 1), (1, 0), (1, 2), (2, 1), (1, 3), (3, 1)]).unwrap();
        assert_eq!(both.parent(VertexId::at(3)), Some(VertexId::at(1)));
    }
}
