//! RFC 20: a resource set without a graph, as
//! `{"version":1,"execution":{"R_lite":[...],"nodelist":[...]}}`.
//!
//! The graph is flat: a cluster `cluster0`, below it a node for each rank, named by the host list
//! (their names go to the ranks in ascending order), below that one vertex of size 1 for each id
//! that R_lite gives the rank, type by type in the document's order. `execution.properties` maps a
//! property to the ranks of nodes that have it.
//!
//! The same document also names the resources of a job: updates and cancels use [`parse`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::graph::{Builder, Graph, NewVertex, PoolTypes, PropertySet, TextId, VertexId};
use crate::limits::{R_BYTES_MAX, VERTICES_MAX};
use crate::tree::without_mark;
use crate::{Error, hostlist, idset};

/// A document, its idsets expanded to ranges.
#[derive(Debug)]
pub(crate) struct Document {
    /// The entries, in the order of the document.
    pub(crate) entries: Vec<Entry>,
    /// Host name by rank.
    pub(crate) hosts: BTreeMap<u32, String>,
    /// Property and the ranks that have it, in the order of the document.
    pub(crate) properties: Vec<(String, Ranges)>,
}

/// Ascending, disjoint, both ends included.
pub(crate) type Ranges = Vec<(u32, u32)>;

/// An element of R_lite: these ranks have these children.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The ranks.
    pub(crate) ranks: Ranges,
    /// Type and ids, in the order of the document.
    pub(crate) children: Vec<(String, Ranges)>,
}

#[derive(Deserialize)]
struct Top<'a> {
    version: i64,
    #[serde(borrow)]
    execution: Execution<'a>,
}

#[derive(Deserialize)]
struct Execution<'a> {
    #[serde(borrow, rename = "R_lite")]
    r_lite: Vec<Lite<'a>>,
    #[serde(borrow, default)]
    nodelist: Vec<Cow<'a, str>>,
    #[serde(borrow, default)]
    properties: Ordered<'a>,
}

#[derive(Deserialize)]
struct Lite<'a> {
    #[serde(borrow)]
    rank: Cow<'a, str>,
    #[serde(borrow, default)]
    children: Ordered<'a>,
}

/// An object of strings with an order that counts.
#[derive(Default)]
struct Ordered<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Ordered<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Vec<(Cow<'de, str>, Cow<'de, str>)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(pairs)
            }
        }
        deserializer.deserialize_map(Pairs).map(Ordered)
    }
}

/// Reads a document.
pub(crate) fn parse(text: &str) -> Result<Document, Error> {
    R_BYTES_MAX.check(text.len(), "R")?;
    let top: Top<'_> =
        serde_json::from_str(without_mark(text)).map_err(|error| wrong(format!("{error}")))?;
    if top.version != 1 {
        return Err(wrong(format!("version: {}, not 1", top.version)));
    }
    let execution = top.execution;
    let mut entries = Vec::with_capacity(execution.r_lite.len());
    let mut ranks = Vec::new();
    for (at, lite) in execution.r_lite.into_iter().enumerate() {
        let here = format!("execution.R_lite[{at}]");
        let entry = Entry {
            ranks: ranges(&lite.rank, &format!("{here}.rank"))?,
            children: lite
                .children
                .0
                .into_iter()
                .map(|(kind, ids)| {
                    Ok((kind.to_string(), ranges(&ids, &format!("{here}.children.{kind}"))?))
                })
                .collect::<Result<_, Error>>()?,
        };
        ranks.extend_from_slice(&entry.ranks);
        entries.push(entry);
    }
    let mut properties = Vec::with_capacity(execution.properties.0.len());
    for (name, ids) in execution.properties.0 {
        let ids = ranges(&ids, &format!("execution.properties.{name}"))?;
        properties.push((name.into_owned(), ids));
    }
    let hosts = hosts(&execution.nodelist, ranks)?;
    Ok(Document { entries, hosts, properties })
}

/// Names in the order of the host list go to the ranks in ascending order.
fn hosts(nodelist: &[Cow<'_, str>], mut ranks: Ranges) -> Result<BTreeMap<u32, String>, Error> {
    let (mut names, mut budget) = (Vec::new(), hostlist::Budget::default());
    for part in nodelist {
        let hosts = hostlist::expand_within(part, &mut budget);
        names.extend(hosts.map_err(|error| wrong(format!("execution.nodelist: {error}")))?);
    }
    ranks.sort_unstable();
    let mut hosts = BTreeMap::new();
    let mut names = names.into_iter();
    for (first, last) in ranks {
        for rank in first..=last {
            // A rank may stand in several entries: it has one name.
            if hosts.contains_key(&rank) {
                continue;
            }
            let name = names
                .next()
                .ok_or_else(|| wrong("execution.nodelist: fewer hosts than ranks".to_owned()))?;
            hosts.insert(rank, name);
        }
    }
    if names.next().is_some() {
        return Err(wrong("execution.nodelist: more hosts than ranks".to_owned()));
    }
    Ok(hosts)
}

/// Makes the graph of a document.
pub(crate) fn read(text: &str, pool_types: PoolTypes) -> Result<Graph, Error> {
    let document = parse(text)?;
    check_size(&document)?;
    let mut builder = Builder::new(pool_types);
    let cluster = vertex(&mut builder, 0, "cluster", None, 0, -1, PropertySet::NONE)?;
    let mut count = 1;
    let mut nodes: BTreeMap<u32, VertexId> = BTreeMap::new();
    for entry in &document.entries {
        for rank in entry.ranks.iter().flat_map(|(first, last)| *first..=*last) {
            let node = match nodes.get(&rank) {
                Some(node) => *node,
                None => {
                    let node = node(&mut builder, &document, count, rank)?;
                    builder.edge(cluster, node);
                    count += 1;
                    nodes.insert(rank, node);
                    node
                }
            };
            for (kind, ids) in &entry.children {
                for id in ids.iter().flat_map(|(first, last)| *first..=*last) {
                    let child = vertex(
                        &mut builder,
                        count,
                        kind,
                        None,
                        i64::from(id),
                        number(rank)?,
                        PropertySet::NONE,
                    )?;
                    builder.edge(node, child);
                    count += 1;
                }
            }
        }
    }
    builder.finish()
}

fn node(
    builder: &mut Builder,
    document: &Document,
    uniq_id: i64,
    rank: u32,
) -> Result<VertexId, Error> {
    let name = document.hosts.get(&rank).map_or("", String::as_str);
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &name[stem.len()..];
    let id = if digits.is_empty() {
        -1
    } else {
        digits.parse().map_err(|_| {
            wrong(format!("execution.nodelist: {name}: its number is beyond 63 bits"))
        })?
    };
    let having = document.properties.iter().filter(|(_, ranks)| holds(ranks, rank));
    let properties = builder.properties(having.map(|(name, _)| (name.as_str(), "")));
    let basename = if stem.is_empty() { name } else { stem };
    let kind = builder.kind("node")?;
    let vertex = NewVertex {
        kind,
        basename: builder.text(basename),
        name: Some(builder.text(name)),
        id,
        uniq_id,
        rank: number(rank)?,
        size: 1,
        unit: TextId::EMPTY,
        properties,
        up: true,
    };
    builder.add(vertex)
}

fn vertex(
    builder: &mut Builder,
    uniq_id: i64,
    kind: &str,
    name: Option<TextId>,
    id: i64,
    rank: i32,
    properties: PropertySet,
) -> Result<VertexId, Error> {
    let (kind, basename) = (builder.kind(kind)?, builder.text(kind));
    builder.add(NewVertex {
        kind,
        basename,
        name,
        id,
        uniq_id,
        rank,
        size: 1,
        unit: TextId::EMPTY,
        properties,
        up: true,
    })
}

/// Counts before anything is made: a short idset can name billions.
fn check_size(document: &Document) -> Result<(), Error> {
    let size = |ranges: &Ranges| {
        ranges.iter().map(|(first, last)| (last - first) as usize + 1).sum::<usize>()
    };
    let mut all = 1usize;
    for entry in &document.entries {
        let each =
            entry.children.iter().fold(1usize, |all, (_, ids)| all.saturating_add(size(ids)));
        all = all.saturating_add(each.saturating_mul(size(&entry.ranks)));
    }
    VERTICES_MAX.check(all, "R: execution.R_lite")
}

fn holds(ranges: &Ranges, rank: u32) -> bool {
    let at = ranges.partition_point(|(_, last)| *last < rank);
    ranges.get(at).is_some_and(|(first, _)| *first <= rank)
}

fn number(rank: u32) -> Result<i32, Error> {
    i32::try_from(rank).map_err(|_| wrong(format!("rank {rank}: beyond 31 bits")))
}

fn ranges(text: &str, at: &str) -> Result<Ranges, Error> {
    idset::parse(text).map_err(|error| wrong(format!("{at}: {error}")))
}

fn wrong(what: String) -> Error {
    Error::invalid(format!("rv1exec: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;

    fn document(r_lite: &str, nodelist: &str) -> String {
        format!(
            r#"{{"version":1,"execution":{{"R_lite":{r_lite},"nodelist":{nodelist},"properties":{{"arm":"4"}}}}}}"#
        )
    }

    #[test]
    fn makes_a_flat_graph() {
        let text = document(
            r#"[{"rank":"4","children":{"gpu":"0","core":"0-1"}},{"rank":"3","children":{"core":"7"}}]"#,
            r#"["login","node[07]"]"#,
        );
        let graph = read(&text, PoolTypes::default()).unwrap();
        let paths: Vec<_> = graph.vertices().map(|vertex| graph.path(vertex)).collect();
        assert_eq!(
            paths,
            [
                "/cluster0",
                "/cluster0/node07",
                "/cluster0/node07/gpu0",
                "/cluster0/node07/core0",
                "/cluster0/node07/core1",
                "/cluster0/login",
                "/cluster0/login/core7",
            ]
        );
        let found = |path: &str| graph.at_path(path)[0];
        let (node, login) = (found("/cluster0/node07"), found("/cluster0/login"));
        assert_eq!((graph.rank(node), graph.id(node), graph.basename(node)), (4, 7, "node"));
        assert_eq!((graph.rank(login), graph.id(login), graph.basename(login)), (3, -1, "login"));
        assert_eq!((graph.property(node, "arm"), graph.property(login, "arm")), (Some(""), None));
        assert_eq!(graph.rank(found("/cluster0/login/core7")), 3);
    }

    #[test]
    fn a_rank_may_stand_in_several_entries() {
        let entries =
            r#"[{"rank":"0","children":{"core":"0"}},{"rank":"0","children":{"gpu":"0"}}]"#;
        let graph = read(&document(entries, r#"["a"]"#), PoolTypes::default()).unwrap();
        assert_eq!(graph.len(), 4);
    }

    #[test]
    fn refuses_and_says_where() {
        let entry = r#"[{"rank":"0-1","children":{"core":"0"}}]"#;
        for (text, says) in [
            (document(entry, r#"["a"]"#), "fewer hosts than ranks"),
            (document(entry, r#"["a","b","c"]"#), "more hosts than ranks"),
            (document(entry, r#"["a["]"#), "nodelist"),
            (document(r#"[{"rank":"x"}]"#, "[]"), "R_lite[0].rank"),
            (
                document(r#"[{"rank":"0","children":{"core":"3-1"}}]"#, r#"["a"]"#),
                "R_lite[0].children.core",
            ),
            (document(r#"[{"rank":"0","children":{"core":0}}]"#, r#"["a"]"#), "line 1"),
            (
                document(r#"[{"rank":"0","children":{"core":"0-4294967295"}}]"#, r#"["a"]"#),
                "more than",
            ),
            (document(entry, r#"["a","b"]"#).replace(":1,", ":2,"), "version: 2, not 1"),
            ("{}".to_owned(), "version"),
        ] {
            let error = read(&text, PoolTypes::default()).unwrap_err();
            assert_eq!(error.reason, Reason::Invalid);
            assert!(error.text.contains(says), "{error}");
        }
    }
}
