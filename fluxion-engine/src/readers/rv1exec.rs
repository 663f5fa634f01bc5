//! RFC 20: a resource set without a graph, as
//! `{"version":1,"execution":{"R_lite":[...],"nodelist":[...]}}`.
//!
//! The graph is flat: a cluster `cluster0`, below it a node for each rank, named by the host list
//! (their names go to the ranks in ascending order), below that one vertex of size 1 for each id
//! that R_lite gives the rank, type by type in the document's order. `execution.properties` maps a
//! property to the ranks of nodes that have it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::host::basename_and_id;
use super::r::{self, Ranges, Resources};
use crate::Error;
use crate::graph::{Builder, Graph, NewVertex, PoolTypes, VertexId};
use crate::limits::{PROPERTIES_MAX, VERTEX_PROPERTIES_MAX, VERTICES_MAX};

/// What errors begin with.
const WHAT: &str = "rv1exec";

/// The resources that an R lists, its idsets expanded to ranges.
#[derive(Debug)]
struct Inventory {
    /// The entries, in the order of the document.
    entries: Vec<Entry>,
    /// Host name by rank.
    hosts: BTreeMap<u32, String>,
    /// Properties by rank, in the order of the document.
    properties: HashMap<u32, Vec<Arc<str>>>,
}

/// An element of R_lite: these ranks have these children.
#[derive(Debug)]
struct Entry {
    /// The ranks.
    ranks: Ranges,
    /// Type and ids, in the order of the document.
    children: Vec<(String, Ranges)>,
}

/// Reads a document.
fn parse(text: &str) -> Result<Inventory, Error> {
    let document: Resources<'_> = r::read(text, WHAT)?;
    document.check_version(WHAT)?;
    let ranks = document.ranks(WHAT)?;
    let all: Ranges = ranks.iter().flatten().copied().collect();
    let execution = document.execution;
    let mut entries = Vec::with_capacity(ranks.len());
    for (at, (ranks, lite)) in ranks.into_iter().zip(execution.r_lite).enumerate() {
        let children = lite.children.into_inner().0.into_iter().map(|(kind, ids)| {
            let at = format!("{WHAT}: execution.R_lite[{at}].children.{kind}");
            Ok((kind.to_string(), r::ranges(&ids, &at)?))
        });
        entries.push(Entry { ranks, children: children.collect::<Result<_, Error>>()? });
    }
    let mut properties = Vec::new();
    for (name, ids) in execution.properties.into_inner().0 {
        let ids = r::ranges(&ids, &format!("{WHAT}: execution.properties.{name}"))?;
        properties.push((name.into_owned(), ids));
    }
    check_size(&entries)?;
    let hosts = hosts(&execution.nodelist.into_inner(), all)?;
    let properties = by_rank(&hosts, properties)?;
    Ok(Inventory { entries, hosts, properties })
}

/// The properties of each rank that there is.
fn by_rank(
    hosts: &BTreeMap<u32, String>,
    properties: Vec<(String, Ranges)>,
) -> Result<HashMap<u32, Vec<Arc<str>>>, Error> {
    let (mut by_rank, mut all) = (HashMap::<u32, Vec<Arc<str>>>::new(), 0);
    for (name, ranges) in properties {
        let name: Arc<str> = name.into();
        for (first, last) in ranges {
            for (rank, _) in hosts.range(first..=last) {
                let of_rank = by_rank.entry(*rank).or_default();
                of_rank.push(Arc::clone(&name));
                all += 1;
                VERTEX_PROPERTIES_MAX.check(of_rank.len(), "R: execution.properties")?;
                PROPERTIES_MAX.check(all, "R: execution.properties")?;
            }
        }
    }
    Ok(by_rank)
}

/// Names in the order of the host list go to the ranks in ascending order.
fn hosts(nodelist: &[Cow<'_, str>], mut ranks: Ranges) -> Result<BTreeMap<u32, String>, Error> {
    let names = r::hosts(nodelist, usize::MAX, WHAT)?;
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
    let inventory = parse(text)?;
    let mut builder = Builder::new(pool_types);
    let cluster = vertex(&mut builder, 0, "cluster", 0, -1)?;
    let mut count = 1;
    let mut nodes: BTreeMap<u32, VertexId> = BTreeMap::new();
    for entry in &inventory.entries {
        for rank in entry.ranks.iter().flat_map(|(first, last)| *first..=*last) {
            let node = match nodes.get(&rank) {
                Some(node) => *node,
                None => {
                    let node = node(&mut builder, &inventory, count, rank)?;
                    builder.edge(cluster, node);
                    count += 1;
                    nodes.insert(rank, node);
                    node
                }
            };
            for (kind, ids) in &entry.children {
                for id in ids.iter().flat_map(|(first, last)| *first..=*last) {
                    let child = vertex(&mut builder, count, kind, i64::from(id), number(rank)?)?;
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
    inventory: &Inventory,
    uniq_id: i64,
    rank: u32,
) -> Result<VertexId, Error> {
    let name = inventory.hosts.get(&rank).map_or("", String::as_str);
    let (basename, id) = basename_and_id(name).ok_or_else(|| {
        wrong(format!("execution.nodelist: {name}: its number is beyond 63 bits"))
    })?;
    let having = inventory.properties.get(&rank).into_iter().flatten();
    let properties = builder.properties(having.map(|name| (&**name, "")));
    let kind = builder.kind("node")?;
    let basename = builder.text(basename);
    let vertex = NewVertex {
        name: Some(builder.text(name)),
        rank: number(rank)?,
        properties,
        ..NewVertex::new(kind, basename, id, uniq_id)
    };
    builder.add(vertex)
}

fn vertex(
    builder: &mut Builder,
    uniq_id: i64,
    kind: &str,
    id: i64,
    rank: i32,
) -> Result<VertexId, Error> {
    let (kind, basename) = (builder.kind(kind)?, builder.text(kind));
    builder.add(NewVertex { rank, ..NewVertex::new(kind, basename, id, uniq_id) })
}

/// Counts before anything is made: a short idset can name billions.
fn check_size(entries: &[Entry]) -> Result<(), Error> {
    let size = |ranges: &Ranges| {
        ranges.iter().map(|(first, last)| (last - first) as usize + 1).sum::<usize>()
    };
    let mut all = 1usize;
    for entry in entries {
        let each =
            entry.children.iter().fold(1usize, |all, (_, ids)| all.saturating_add(size(ids)));
        all = all.saturating_add(each.saturating_mul(size(&entry.ranks)));
    }
    VERTICES_MAX.check(all, "R: execution.R_lite")
}

fn number(rank: u32) -> Result<i32, Error> {
    i32::try_from(rank).map_err(|_| wrong(format!("rank {rank}: beyond 31 bits")))
}

fn wrong(what: String) -> Error {
    Error::invalid(format!("{WHAT}: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;
    use crate::limits::tests::with_lower;

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
    fn properties_and_ranks_are_counted_before_they_are_multiplied() {
        let says = |text: &str| read(text, PoolTypes::default()).unwrap_err().text;
        // Each entry names all ranks again: 10^12 of them.
        let entries = vec![r#"{"rank":"0-1000000","children":{}}"#; 1_000_000].join(",");
        let text = document(&format!("[{entries}]"), r#"["n[0-1000000]"]"#);
        assert!(says(&text).contains("R: execution.R_lite: more than 16777216 vertices"));
        let with = |count: usize, ranks: &str| {
            let names: Vec<String> = (0..count).map(|at| format!(r#""p{at}":"{ranks}""#)).collect();
            let text = document(r#"[{"rank":"0-9","children":{"core":"0"}}]"#, r#"["n[0-9]"]"#);
            text.replace(r#""arm":"4""#, &names.join(","))
        };
        // Those of ranks that are not there count for nothing.
        let graph = read(&with(100_000, "10-4294967295"), PoolTypes::default()).unwrap();
        assert!(graph.properties(graph.at_path("/cluster0/n4")[0]).is_empty());
        let graph = read(&with(4_096, "4"), PoolTypes::default()).unwrap();
        assert_eq!(graph.properties(graph.at_path("/cluster0/n4")[0]).len(), 4_096);
        let error = says(&with(4_097, "4"));
        assert!(error.contains("R: execution.properties: more than 4096"), "{error}");
        with_lower(PROPERTIES_MAX, 39, || {
            assert!(says(&with(4, "0-9")).contains("(PROPERTIES_MAX)"));
        });
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
            (
                document(
                    r#"[{"rank":"0","children":{"core":"0"}},
                        {"rank":"0","children":{"gpu":"0","core":"0"}}]"#,
                    r#"["a"]"#,
                ),
                "path /cluster0/a/core0: another vertex of its rank has it",
            ),
            (
                document(r#"[{"rank":"0","children":{"core":"10","core1":"0"}}]"#, r#"["a"]"#),
                "path /cluster0/a/core10: another vertex of its rank has it",
            ),
            ("{}".to_owned(), "version"),
        ] {
            let error = read(&text, PoolTypes::default()).unwrap_err();
            assert_eq!(error.reason, Reason::Invalid);
            assert!(error.text.contains(says), "{error}");
        }
    }
}
