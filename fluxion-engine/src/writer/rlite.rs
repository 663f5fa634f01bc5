//! `R_lite`, and R (RFC 20) around it: cores and GPUs by rank.
//!
//! Units of pools have no place in `R_lite`; a node of which only units are granted has no children
//! there.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use flux_lists::{hostlist, idset};
use shared_map::SharedRows;

use super::emitted::{About, Emitted, Style};
use crate::Error;
use crate::graph::{Graph, TypeId, VertexId};

/// What nodes contribute. Copies share it: what cannot be written stays, and is copied with the
/// writer by each call.
#[derive(Debug, Clone, Default)]
pub(super) struct Rlite {
    nodes: SharedRows<Arc<Node>>,
}

#[derive(Debug)]
struct Node {
    vertex: VertexId,
    rank: i64,
    children: Children,
}

/// Ids by type.
type Children = BTreeMap<&'static str, Vec<i64>>;

impl Rlite {
    /// Ids emitted since the last node belong to the next one.
    pub(super) fn gather(&mut self, graph: &Graph, emitted: &[Emitted]) {
        let (mut children, mut units) = (Children::new(), false);
        for one in emitted {
            let kind = graph.kind(one.vertex);
            if kind == TypeId::CORE {
                children.entry("core").or_default().push(graph.id(one.vertex));
            } else if kind == TypeId::GPU {
                children.entry("gpu").or_default().push(graph.id(one.vertex));
            } else if kind == TypeId::NODE || kind == TypeId::STORAGE_NODE {
                let (children, units) = (std::mem::take(&mut children), std::mem::take(&mut units));
                if units || !children.is_empty() {
                    self.nodes.push(Arc::new(Node {
                        vertex: one.vertex,
                        rank: graph.rank(one.vertex).into(),
                        children,
                    }));
                }
            } else {
                units |= graph.is_pool(one.vertex);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The list alone. As upstream, nothing to list is an error.
    pub(super) fn rlite(&self, style: Style) -> Result<String, Error> {
        if self.nodes.is_empty() {
            return Err(Error::invalid("writer emit: no cores and no GPUs"));
        }
        Ok(format!("{}{}", self.list(style)?, style.end))
    }

    /// `[{"rank": "0-3", "children": {"core": "0-35"}}]`: ranks with the same children share an
    /// entry.
    fn list(&self, style: Style) -> Result<String, Error> {
        let Style { comma, colon, .. } = style;
        let mut entries: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for node in self.nodes.iter() {
            let mut text = String::from("{");
            for (kind, ids) in &node.children {
                if text.len() > 1 {
                    text.push_str(comma);
                }
                let _ = write!(text, "\"{kind}\"{colon}\"");
                write_ids(&mut text, ids)?;
                text.push('"');
            }
            text.push('}');
            entries.entry(text).or_default().push(node.rank);
        }
        let mut out = String::from("[");
        for (at, (children, ranks)) in entries.into_iter().enumerate() {
            let _ = write!(out, "{}{{\"rank\"{colon}\"", if at == 0 { "" } else { comma });
            write_ids(&mut out, &ranks)?;
            let _ = write!(out, "\"{comma}\"children\"{colon}{children}}}");
        }
        out.push(']');
        Ok(out)
    }

    /// R, up to but without its last brace.
    pub(super) fn rv1(
        &self,
        graph: &Graph,
        about: About<'_>,
        style: Style,
    ) -> Result<String, Error> {
        let Style { comma, colon, .. } = style;
        let mut out = format!(
            "{{\"version\"{colon}1{comma}\"execution\"{colon}{{\"R_lite\"{colon}{}",
            self.list(style)?
        );
        let mut nodes: Vec<&Node> = self.nodes.iter().map(|node| &**node).collect();
        nodes.sort_by_key(|node| node.rank);
        let hosts: Vec<_> = nodes.iter().map(|node| graph.name(node.vertex)).collect();
        let _ = write!(out, "{comma}\"nodelist\"{colon}[");
        if !hosts.is_empty() {
            let mut names = String::new();
            hostlist::write(&mut names, hosts.iter().map(|name| &**name));
            let _ = write!(out, "{}", serde_json::Value::from(names));
        }
        out.push(']');
        let mut properties: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for node in &nodes {
            for (name, value) in graph.properties(node.vertex) {
                let key =
                    if value.is_empty() { name.to_string() } else { format!("{name}={value}") };
                properties.entry(key).or_default().push(node.rank);
            }
        }
        if !properties.is_empty() {
            let _ = write!(out, "{comma}\"properties\"{colon}{{");
            for (at, (property, ranks)) in properties.into_iter().enumerate() {
                let comma = if at == 0 { "" } else { comma };
                let _ = write!(out, "{comma}{}{colon}\"", serde_json::Value::from(property));
                write_ids(&mut out, &ranks)?;
                out.push('"');
            }
            out.push('}');
        }
        let About { starttime, expiration, .. } = about;
        let _ = write!(
            out,
            "{comma}\"starttime\"{colon}{starttime}{comma}\"expiration\"{colon}{expiration}}}"
        );
        Ok(out)
    }
}

/// Ids as an idset, which knows no negative ones.
fn write_ids(out: &mut String, ids: &[i64]) -> Result<(), Error> {
    let mut sorted = Vec::with_capacity(ids.len());
    for id in ids {
        let id = u32::try_from(*id)
            .map_err(|_| Error::invalid("match writer emit: a rank or an id is negative"))?;
        sorted.push(id);
    }
    sorted.sort_unstable();
    sorted.dedup();
    idset::write(out, sorted);
    Ok(())
}
