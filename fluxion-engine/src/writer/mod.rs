//! Grants as text, in any of the formats of upstream, and in our own.
//!
//! The vertices to be written come as a list: children before parents, the root last. A [`Writer`]
//! is kept as long as its graph, for two things that upstream's writers remember are seen in what
//! they write: whether anything was ever left out of a shorthand, and, of `rv1`, the vertices of a
//! grant that had no cores to speak of.

mod emitted;
mod jgf;
mod placement;
mod rlite;
mod simple;
mod slots;

pub use emitted::MatchFormat;
pub(crate) use emitted::{About, COMPACT, Emitted, Style, WIDE};
pub(crate) use placement::write as placement;

use std::fmt::Write as _;

use crate::graph::Graph;
use crate::pools::Slots;
use crate::{Error, Reason};

/// Writes the grants of one graph.
#[derive(Debug, Clone, Default)]
pub(crate) struct Writer {
    /// Something was left out of a shorthand.
    shortened: bool,
    /// Vertices and edges that were gathered, and not written yet.
    stale: jgf::Jgf,
    /// The last queue that a request named: as upstream (Q4), it is written with all that follow.
    queue: Option<Box<str>>,
    /// What nodes contribute that could not be written, and is tried again each time.
    stuck: rlite::Rlite,
    /// Vertices that were left out so far.
    left_out: usize,
}

impl Writer {
    /// Whether it remembers vertices of an earlier grant.
    pub(crate) fn has_vertices(&self) -> bool {
        !self.stuck.is_empty()
    }

    /// A request names a queue.
    pub(crate) fn set_queue(&mut self, queue: &str) {
        if self.queue.as_deref() != Some(queue) {
            self.queue = Some(queue.into());
        }
    }

    /// Writes a grant; "" where there is nothing to say.
    pub(crate) fn write(
        &mut self,
        format: MatchFormat,
        graph: &Graph,
        emitted: &[Emitted],
        about: About<'_>,
        style: Style,
    ) -> Result<String, Error> {
        let short = matches!(format, MatchFormat::JgfShorthand | MatchFormat::Rv1Shorthand);
        self.write_some(format, graph, emitted, short, about, style)
    }

    /// Writes that nothing was found. As upstream, which writes its parts in any case, that is an
    /// error where there is something that cannot be written, and where nothing must not be
    /// written.
    pub(crate) fn nothing(&mut self, format: MatchFormat, graph: &Graph) -> Result<(), Error> {
        let about = About { starttime: 0, expiration: 0, slots: &[] };
        match format {
            MatchFormat::Rlite
            | MatchFormat::Rv1
            | MatchFormat::Rv1Nosched
            | MatchFormat::Rv1Shorthand => self.write(format, graph, &[], about, WIDE).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Writes everything, also in a shorthand.
    pub(crate) fn write_all(
        &mut self,
        format: MatchFormat,
        graph: &Graph,
        emitted: &[Emitted],
        about: About<'_>,
        style: Style,
    ) -> Result<String, Error> {
        self.write_some(format, graph, emitted, false, about, style)
    }

    fn write_some(
        &mut self,
        format: MatchFormat,
        graph: &Graph,
        emitted: &[Emitted],
        short: bool,
        about: About<'_>,
        style: Style,
    ) -> Result<String, Error> {
        let indent = self.left_out;
        let kept: Vec<Emitted>;
        let emitted = if emitted.iter().any(|one| one.left_out) {
            kept = self.without_left_out(emitted);
            &kept
        } else {
            emitted
        };
        Ok(match format {
            MatchFormat::Simple => simple::write(graph, emitted, indent),
            MatchFormat::PrettySimple => simple::pretty(graph, emitted, indent),
            MatchFormat::Jgf | MatchFormat::JgfShorthand => {
                self.graph(graph, emitted, short, style)?
            }
            MatchFormat::Rlite => {
                self.stuck.gather(graph, emitted);
                let text = self.stuck.rlite(style)?;
                self.stuck = rlite::Rlite::default();
                text
            }
            MatchFormat::Rv1Nosched => {
                self.stuck.gather(graph, emitted);
                if self.stuck.is_empty() {
                    return Ok(String::new());
                }
                let mut text = self.stuck.rv1(graph, about, style)?;
                attributes(&mut text, graph, None, about.slots, style);
                text.push('}');
                text.push_str(style.end);
                self.stuck = rlite::Rlite::default();
                text
            }
            MatchFormat::Rv1 | MatchFormat::Rv1Shorthand => {
                self.rv1(graph, emitted, short, about, style)?
            }
            MatchFormat::Placement => {
                let text = "match_format: placement is only for slots of pool units".to_owned();
                return Err(Error { reason: Reason::NotOffered, text });
            }
        })
    }

    /// The vertices that are written, and how deep.
    fn without_left_out(&mut self, emitted: &[Emitted]) -> Vec<Emitted> {
        let (mut kept, mut more) = (Vec::new(), 0);
        for one in emitted {
            if one.left_out {
                more += 1;
            } else {
                kept.push(Emitted { depth: one.depth + more, ..one.clone() });
            }
        }
        self.left_out += more;
        kept
    }

    /// `{"graph": {...}}` and, if need be, the reader for it.
    fn graph(
        &mut self,
        graph: &Graph,
        emitted: &[Emitted],
        short: bool,
        style: Style,
    ) -> Result<String, Error> {
        if emitted.is_empty() {
            return Ok(String::new());
        }
        let mut jgf = jgf::Jgf::default();
        self.shortened |= jgf.add(graph, emitted, short, style);
        if jgf.is_edgeless() {
            return Err(Error {
                reason: Reason::NotFound,
                text: "jgf: vertices without an edge".to_owned(),
            });
        }
        Ok(format!("{}{}", self.document(&jgf, style), style.end))
    }

    fn document(&self, jgf: &jgf::Jgf, style: Style) -> String {
        let Style { comma, colon, .. } = style;
        let mut out = format!("{{\"graph\"{colon}");
        jgf.write(&mut out, style);
        if self.shortened {
            // Writing into a String cannot fail.
            let _ = write!(out, "{comma}\"writer\"{colon}\"fluxion:jgf_shorthand\"");
        }
        out.push('}');
        out
    }

    fn rv1(
        &mut self,
        graph: &Graph,
        emitted: &[Emitted],
        short: bool,
        about: About<'_>,
        style: Style,
    ) -> Result<String, Error> {
        let Style { comma, colon, end } = style;
        self.stuck.gather(graph, emitted);
        // As upstream (Q4): the vertices that a grant without cores adds here are only written with
        // the next that has some.
        let mut jgf = std::mem::take(&mut self.stale);
        self.shortened |= jgf.add(graph, emitted, short, style);
        // A graph with pools, which upstream does not have, is spared this: each job comes back from
        // its R.
        if self.stuck.is_empty() && (emitted.is_empty() || !graph.has_pool_types()) {
            self.stale = jgf;
            return Ok(String::new());
        }
        let mut out = match self.stuck.rv1(graph, about, style) {
            Ok(out) => out,
            Err(error) => {
                self.stale = jgf;
                return Err(error);
            }
        };
        self.stuck = rlite::Rlite::default();
        let _ = write!(out, "{comma}\"scheduling\"{colon}{}", self.document(&jgf, style));
        attributes(&mut out, graph, self.queue.as_deref(), about.slots, style);
        out.push('}');
        out.push_str(end);
        Ok(out)
    }
}

/// The attributes of R: the queue, as upstream writes it, and slots of pool units.
fn attributes(
    out: &mut String,
    graph: &Graph,
    queue: Option<&str>,
    slots: &[Slots],
    Style { comma, colon, .. }: Style,
) {
    if queue.is_none() && slots.is_empty() {
        return;
    }
    let _ = write!(out, "{comma}\"attributes\"{colon}{{\"system\"{colon}{{");
    if let Some(queue) = queue {
        let queue = serde_json::Value::from(queue);
        let _ = write!(out, "\"scheduler\"{colon}{{\"queue\"{colon}{queue}}}");
    }
    if !slots.is_empty() {
        let comma = if queue.is_some() { comma } else { "" };
        let _ = write!(out, "{comma}\"fluxion\"{colon}{{\"slots\"{colon}");
        slots::write(out, graph, slots);
        out.push('}');
    }
    out.push_str("}}");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::graph::PoolTypes;
    use crate::readers::jgf::read;
    use crate::vertex::VertexId;

    const GRAPH: &str = r#"{"graph":{"nodes":[
        {"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}},
        {"id":"1","metadata":{"type":"node","id":0,"rank":0,"paths":{"containment":"/c0/node0"}}},
        {"id":"2","metadata":{"type":"ssd","id":0,"rank":0,
            "paths":{"containment":"/c0/node0/ssd0"}}},
        {"id":"3","metadata":{"type":"core","id":0,"rank":0,
            "paths":{"containment":"/c0/node0/core0"}}}],
        "edges":[{"source":"0","target":"1"},{"source":"1","target":"2"},
            {"source":"1","target":"3"}]}}"#;

    /// Q4: what cannot be written waits. It may be long, and each call copies the writer.
    #[test]
    fn copies_share_the_vertices_that_wait_for_a_document() {
        let graph = read(GRAPH, PoolTypes::default()).unwrap();
        let grant = |leaf: &str| -> Vec<Emitted> {
            let emitted = |(path, depth): (&str, usize)| {
                let vertex: VertexId = graph.at_path(path)[0];
                Emitted {
                    vertex,
                    depth,
                    exclusive: depth == 3,
                    needs: 1,
                    label: Box::default(),
                    filter: None,
                    left_out: false,
                }
            };
            [(leaf, 3), ("/c0/node0", 2), ("/c0", 1)].map(emitted).into()
        };
        let about = About { starttime: 0, expiration: 60, slots: &[] };
        let write = |writer: &mut Writer, leaf: &str| {
            writer.write(MatchFormat::Rv1, &graph, &grant(leaf), about, WIDE).unwrap()
        };
        let mut writer = Writer::default();
        for _ in 0..3 {
            assert_eq!(write(&mut writer, "/c0/node0/ssd0"), "");
        }
        let mut copy = writer.clone();
        assert_eq!(write(&mut copy, "/c0/node0/ssd0"), "");
        let texts = |writer: &Writer| writer.stale.texts().map(Arc::as_ptr).collect::<Vec<_>>();
        assert_eq!(texts(&copy)[..3], texts(&writer)[..]);
        let r = write(&mut writer, "/c0/node0/core0");
        assert_eq!(r.matches(r#""type": "ssd""#).count(), 3, "{r}");
        assert_eq!(r.matches(r#"{"source": "1", "target": "2"}, "#).count(), 3, "{r}");
        let r = write(&mut copy, "/c0/node0/core0");
        assert_eq!(r.matches(r#""type": "ssd""#).count(), 4, "{r}");
        assert!(!write(&mut copy, "/c0/node0/core0").contains("ssd"));
    }
}
