//! Taking up earlier grants: an R document lists the resources of a job.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::Engine;
use super::granting::weigh;
use super::op::Grant;
use super::units::{self, PoolUnits};
use crate::book::job::{JobInfo, JobMode};
use crate::book::questions;
use crate::graph::{Graph, TypeId, VertexId};
use crate::limits::{R_BYTES_MAX, VERTICES_MAX};
use crate::pools::Slots;
use crate::readers::jgf;
use crate::readers::r::{self, Children, Lite, Resources};
use crate::schedule::Term;
use crate::time::{End, WINDOW_SECONDS};
use crate::tree::without_mark;
use crate::vertex_search::select;
use crate::writer::{self, About, Emitted, MatchFormat};
use crate::{Error, Reason, lists};

/// The formats of documents that list the resources of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UpdateReader {
    /// The granted part of the graph.
    Jgf,
    /// The same without what lies below exclusive vertices.
    JgfShorthand,
    /// R without the scheduler's own part.
    Rv1exec,
}

impl UpdateReader {
    /// The reader of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "jgf" => UpdateReader::Jgf,
            "jgf_shorthand" => UpdateReader::JgfShorthand,
            "rv1exec" | "rv1exec_force" => UpdateReader::Rv1exec,
            _ => return None,
        })
    }

    /// The reader that the scheduler's part of an R names.
    pub(super) fn of(scheduling: &RawValue) -> Result<Self, Error> {
        let writer = r::writer(scheduling);
        match writer.as_ref().map(Option::as_deref) {
            Ok(None | Some("fluxion" | "fluxion:" | "fluxion:jgf")) => Ok(UpdateReader::Jgf),
            Ok(Some("fluxion:jgf_shorthand")) => Ok(UpdateReader::JgfShorthand),
            Ok(Some(_)) | Err(_) => Err(Error::invalid("R: scheduling.writer: unknown")),
        }
    }
}

/// What became of a document that was taken up.
#[derive(Debug)]
pub struct Updated {
    /// The resources of the job; its text is empty where they cannot be written.
    pub grant: Grant,
    /// Why it cannot be written in the engine's format.
    pub unwritten: Option<Error>,
}

impl Engine {
    /// Makes a job of what an R document says, as the C interface has it: R of RFC 20, or JGF
    /// alone.
    pub fn update_allocate(&mut self, id: u64, r: &str) -> Result<Grant, Error> {
        must_be_new(self, id)?;
        let r = without_mark(r);
        let Some(head) = r::head(r)? else {
            let reader = match self.options.load_format {
                crate::readers::Format::JgfShorthand => UpdateReader::JgfShorthand,
                crate::readers::Format::Jgf => UpdateReader::Jgf,
                crate::readers::Format::Rv1exec => UpdateReader::Rv1exec,
                // The readers of recipes and topologies cannot.
                _ => return Err(Error { reason: Reason::NotSupported, text: String::new() }),
            };
            return self.update_or_lose(id, r, reader, (0, WINDOW_SECONDS), Vec::new());
        };
        let times = (head.at, head.duration);
        let slots = slots_of(self, r, head.at)?;
        match head.scheduling {
            None => self.update_or_lose(id, r, UpdateReader::Rv1exec, times, slots),
            Some(scheduling) => {
                let reader = UpdateReader::of(scheduling)?;
                self.update_or_lose(id, scheduling.get(), reader, times, slots)
            }
        }
    }

    /// As upstream's C interface (Q5): what cannot be written stays taken, and no job has it.
    fn update_or_lose(
        &mut self,
        id: u64,
        text: &str,
        reader: UpdateReader,
        times: (i64, i64),
        slots: Vec<Slots>,
    ) -> Result<Grant, Error> {
        let taken = take_up(self, id, (text, reader), times, JobMode::Allocated, slots)?;
        let Some(error) = taken.unwritten else { return Ok(taken.grant) };
        self.book.lose(id);
        Err(error)
    }

    /// Makes a job of a document: all that it lists must be there, and free.
    ///
    /// It begins at second `at` and lasts for `duration` seconds. On a graph with pools it is a
    /// reservation if `at` is later than now.
    pub fn update(
        &mut self,
        id: u64,
        text: &str,
        reader: UpdateReader,
        at: i64,
        duration: i64,
        mode: JobMode,
    ) -> Result<Updated, Error> {
        must_be_new(self, id)?;
        let slots = match reader {
            UpdateReader::Rv1exec => slots_of(self, text, at)?,
            UpdateReader::Jgf | UpdateReader::JgfShorthand => Vec::new(),
        };
        take_up(self, id, (text, reader), (at, duration), mode, slots)
    }
}

/// The slots of pool units that an R names; a graph without pools has none.
fn slots_of(engine: &Engine, r: &str, at: i64) -> Result<Vec<Slots>, Error> {
    if !engine.graph().has_pool_types() {
        return Ok(Vec::new());
    }
    units::read(&engine.book, r, at)
}

/// Makes a job of a document and of slots.
fn take_up(
    engine: &mut Engine,
    id: u64,
    (text, reader): (&str, UpdateReader),
    (at, duration): (i64, i64),
    mode: JobMode,
    slots: Vec<Slots>,
) -> Result<Updated, Error> {
    if at < 0 || duration <= 0 || at.checked_add(duration).is_none() {
        return Err(without_a_word());
    }
    let Listing { vertices, shown, units } = match reader {
        UpdateReader::Jgf => named(engine.graph(), text, false, &slots)?,
        UpdateReader::JgfShorthand => named(engine.graph(), text, true, &slots)?,
        UpdateReader::Rv1exec => executed(engine.graph(), text, &slots)?,
    };
    let to = at.saturating_add(duration);
    let to = if at < WINDOW_SECONDS { to.min(WINDOW_SECONDS) } else { to };
    let ends_with_window = engine.graph().has_pool_types() && to == WINDOW_SECONDS;
    let is_endless = duration >= WINDOW_SECONDS || ends_with_window;
    let end = if is_endless { End::Never } else { End::At(to) };
    let slots = if slots.is_empty() {
        units::of_document(engine.graph(), &units, &vertices, (at, end), at > engine.now())?
    } else {
        slots
    };
    let vertices = units::without_pools(engine.graph(), vertices, &slots)?;
    check_free(engine, &vertices, (at, to))?;
    units::check_free(&engine.book, &slots)?;
    let mut kinds = Vec::new();
    // On a graph with pools others may have units of a node: R says whether it is taken whole.
    if !engine.graph().has_pool_types() {
        kinds.extend_from_slice(engine.searches.exclusive_kinds());
        kinds.extend(engine.options.policy.takes_whole_nodes().then_some(TypeId::NODE));
    }
    let units = units::of_nodes(engine.graph(), &slots);
    let selection =
        select::exactly(engine.graph(), engine.book.schedule(), &vertices, &kinds, &units);
    if selection.marked.is_empty() && slots.is_empty() {
        // As upstream (Q14), without a word: nothing would be held.
        return Err(Error { reason: Reason::Nothing, text: String::new() });
    }
    let is_later = engine.graph().has_pool_types() && at > engine.now();
    let mode = if is_later { JobMode::Reserved } else { mode };
    let reserved = mode == JobMode::Reserved;
    let last = slots.iter().map(|slots| slots.times.1).max_by_key(|end| end.instant());
    let end = last.unwrap_or(end);
    let term = Term { job: id, from: at, to, end, reserved };
    engine.book.open(id, JobInfo { mode, at, overhead: 0.0 }, term);
    for of_shape in &slots {
        engine.book.claim(id, of_shape.clone());
    }
    let unmarked = engine.book.touch(id, &selection);
    engine.book.schedule_job(id);
    let emit = |marked: &select::Marked| Emitted {
        vertex: marked.vertex,
        depth: marked.depth,
        exclusive: marked.exclusive || marked.shadow || shown.contains(&marked.vertex),
        needs: marked.needs,
        label: Box::default(),
        filter: None,
        left_out: unmarked.contains(&marked.vertex),
    };
    let emitted: Vec<Emitted> = selection.marked.iter().map(emit).collect();
    // As upstream, which says so also where its window ends before.
    let about = About { starttime: at, expiration: at.saturating_add(duration), slots: &slots };
    let format = engine.options.format;
    let (r, unwritten) =
        match engine.writer.write(format, engine.book.graph(), &emitted, about, writer::WIDE) {
            Ok(r) => (r, None),
            Err(error) if format == MatchFormat::Placement => {
                // Upstream has no such format; resources that it cannot express are not taken.
                engine.book.drop_job(id);
                return Err(error);
            }
            Err(error) => (String::new(), Some(error)),
        };
    if engine.options.policy.stops_early() {
        weigh(&mut engine.book, &selection, true);
    }
    Ok(Updated { grant: Grant { job: Some(id), at, reserved, r, is_earliest: true }, unwritten })
}

/// Fails if a job has, or will have, some of these vertices within a window.
fn check_free(
    engine: &Engine,
    vertices: &[(VertexId, bool)],
    (at, to): (i64, i64),
) -> Result<(), Error> {
    for (vertex, exclusive) in vertices {
        // A vertex that is only passed through may have units that others use.
        let is_free = if *exclusive {
            questions::is_free(&engine.book, *vertex, (at, to))
        } else {
            engine.book.schedule().is_free(*vertex, at, to)
        };
        if !is_free {
            let name = engine.graph().name(*vertex);
            if *exclusive {
                return Err(Error::invalid(format!("can't add span into {name}.")));
            }
            return Err(Error::invalid(format!("update_vertex: {name} is unavailable.")));
        }
    }
    Ok(())
}

/// Refuses an id that a job has.
fn must_be_new(engine: &Engine, id: u64) -> Result<(), Error> {
    if engine.book.jobs().contains(id) {
        return Err(Error { reason: Reason::Exists, text: format!("job {id}: exists already") });
    }
    Ok(())
}

/// The vertices of a JGF document, and the units of pools.
fn named(graph: &Graph, text: &str, short: bool, slots: &[Slots]) -> Result<Listing, Error> {
    let document = jgf::parse(text)?;
    let free = match &document.free_ranks {
        None => Vec::new(),
        Some(ranks) => lists::read_idset(ranks)?,
    };
    let mut all = Vec::with_capacity(document.nodes.len());
    let mut units = Vec::new();
    for node in &document.nodes {
        if lists::hold_rank(&free, node.rank) {
            continue;
        }
        let vertex = graph.find(&node.path, node.rank).ok_or_else(|| Error {
            reason: Reason::NotFound,
            text: format!("update: vertex {}: there is no such vertex", node.path),
        })?;
        // Of a pool a document has the units that the job has.
        let is_pool = graph.is_pool(vertex);
        let is_part = node.exclusive && (1..=graph.size(vertex)).contains(&node.size);
        let same = graph.kind_name(vertex) == node.kind
            && graph.basename(vertex) == node.basename
            && graph.name(vertex) == node.name
            && graph.id(vertex) == node.id
            && (graph.size(vertex) == node.size || (is_pool && (is_part || !slots.is_empty())));
        if !same {
            return Err(Error::invalid(format!(
                "update: vertex {}: is another one here",
                node.path
            )));
        }
        all.push((vertex, node.exclusive));
        if is_pool && node.exclusive {
            units.push((vertex, node.size));
        }
        if short && node.exclusive {
            let below = graph.subtree(vertex);
            VERTICES_MAX.check(all.len() + below.len(), "update")?;
            all.extend(below.into_iter().skip(1).map(|below| (below, true)));
        }
    }
    Ok(Listing { vertices: all, shown: Vec::new(), units })
}

/// The vertices that a document lists.
#[derive(Default)]
struct Listing {
    /// Vertices; whether the job has each for itself.
    vertices: Vec<(VertexId, bool)>,
    /// Nodes that are written as exclusive, whether or not they are.
    shown: Vec<VertexId>,
    /// Pools of which the job has units, and how many.
    units: PoolUnits,
}

/// As upstream, which says why R cannot be used only where it looks at vertices.
fn without_a_word() -> Error {
    Error { reason: Reason::Invalid, text: String::new() }
}

/// The listing of an R: the vertices below each rank, and nodes of which it has all of them.
fn executed(graph: &Graph, text: &str, slots: &[Slots]) -> Result<Listing, Error> {
    R_BYTES_MAX.check(text.len(), "R")?;
    let document: Resources<'_> = r::read(text, "R").map_err(|_| without_a_word())?;
    document.check_version("R").map_err(|_| without_a_word())?;
    let execution = &document.execution;
    let nodelist = execution.nodelist.get().ok_or_else(without_a_word)?;
    let is_whole = execution.r_lite.iter().all(|lite| lite.children.get().is_some());
    if execution.r_lite.is_empty() || !is_whole {
        return Err(without_a_word());
    }
    let unequal = || Error::invalid("R: nodelist: not as many hosts as there are ranks");
    // More hosts than vertices are not all there.
    let hosts = r::hosts(nodelist, graph.len(), "R").map_err(|_| without_a_word())?;
    if hosts.len() > graph.len() {
        return Err(Error::invalid("R: nodelist: more hosts than the graph has vertices"));
    }
    let entries = document.ranks("R").map_err(|_| without_a_word())?;
    let mut ranks: Vec<u32> = Vec::new();
    for (first, last) in entries.iter().flatten() {
        // A set of a few bytes may name billions of ranks.
        let more = (last - first) as usize;
        if more >= hosts.len() {
            return Err(unequal());
        }
        // Entries may name the same ranks, each with other vertices.
        VERTICES_MAX.check(ranks.len() + more + 1, "R: execution.R_lite")?;
        ranks.extend(*first..=*last);
    }
    ranks.sort_unstable();
    ranks.dedup();
    if hosts.len() != ranks.len() {
        return Err(unequal());
    }
    let (mut listing, units) = (Listing::default(), units::kinds_by_rank(slots));
    for (lite, ranges) in execution.r_lite.iter().zip(&entries) {
        let children = by_type(lite);
        for rank in ranges.iter().flat_map(|(first, last)| *first..=*last) {
            let mut children = children.clone();
            if let Some(known) = units.get(&rank) {
                children.retain(|kind, _| {
                    graph.types().get(kind).is_none_or(|kind| !known.contains(&kind))
                });
                if children.is_empty() {
                    continue;
                }
            }
            let host = &hosts[ranks.partition_point(|known| *known < rank)];
            of_rank(graph, rank, host, &children, &mut listing)?;
        }
    }
    Ok(listing)
}

/// The ids that an entry lists, by type; of a type that is named twice the last ones count.
fn by_type<'a>(lite: &'a Lite<'_, Children<'_>>) -> BTreeMap<&'a str, &'a str> {
    let all = lite.children.get().into_iter().flat_map(|children| &children.0);
    all.map(|(kind, ids)| (&**kind, &**ids)).collect()
}

fn of_rank(
    graph: &Graph,
    rank: u32,
    host: &str,
    children: &BTreeMap<&str, &str>,
    listing: &mut Listing,
) -> Result<(), Error> {
    let missing =
        |what: String| Error { reason: Reason::NotFound, text: format!("R: rank {rank}: {what}") };
    let rank = i32::try_from(rank).map_err(|_| Error::invalid("R: rank: more than 2^31-1"))?;
    let vertices = graph.of_rank(rank);
    // As upstream: a node of R is one directly below the root.
    let is_node = |vertex: &&VertexId| {
        graph.kind(**vertex) == TypeId::NODE
            && graph.name(**vertex) == *host
            && graph.parent(**vertex) == Some(graph.root())
            && graph.size(**vertex) == 1
    };
    let node = *vertices.iter().find(is_node).ok_or_else(|| missing(format!("no node {host}")))?;
    if children.is_empty() {
        return Err(missing("nothing of it is listed".to_owned()));
    }
    let mut found = 0;
    for (kind, ids) in children {
        if graph.types().get(kind).is_none() {
            return Err(Error::invalid(format!("R: rank {rank}: there is no type {kind}")));
        }
        for (first, last) in lists::read_idset(ids).map_err(|_| without_a_word())? {
            for id in first..=last {
                let is_it = |vertex: &&VertexId| {
                    graph.id(**vertex) == i64::from(id)
                        && graph.kind_name(**vertex) == *kind
                        && graph.size(**vertex) == 1
                        && graph.parent(**vertex) == Some(node)
                };
                let vertex =
                    vertices.iter().find(is_it).ok_or_else(|| missing(format!("no {kind}{id}")))?;
                VERTICES_MAX.check(listing.vertices.len() + 1, "R: execution.R_lite")?;
                listing.vertices.push((*vertex, true));
                found += 1;
            }
        }
    }
    // As upstream: the node itself is taken where all that has its rank is listed.
    listing.vertices.push((node, found + 1 == vertices.len()));
    // As upstream (Q14), which writes it as taken however little is listed.
    listing.shown.push(node);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MatchFormat;
    use crate::limits::tests::with_lower;

    #[test]
    fn what_cannot_be_written_stays_taken_and_no_job_has_it() {
        let document = r#"{"graph":{"nodes":[
            {"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}},
            {"id":"1","metadata":{"type":"node","id":0,"paths":{"containment":"/c0/node0"}}},
            {"id":"2","metadata":{"type":"core","id":0,"exclusive":true,"paths":{"containment":"/c0/node0/core0"}}}],
            "edges":[{"source":"0","target":"1"},{"source":"1","target":"2"}]}}"#;
        // R of RFC 20 has no words for a node without a rank; a placement has none for resources
        // not made of pools.
        for (format, stays) in [("rv1", true), ("rlite", true), ("placement", false)] {
            let options = format!(
                r#"{{"load_format":"jgf","matcher_policy":"first","match_format":"{format}"}}"#
            );
            let mut engine = Engine::new(document, &options).unwrap();
            assert!(engine.update_allocate(7, document).is_err(), "{format}");
            assert_eq!((engine.job_count(), engine.info(7).is_err()), (0, true));
            let taken = engine.find("sched-now=allocated", MatchFormat::Jgf, true).unwrap();
            assert_eq!(taken.is_some(), stays, "{format}");
        }
    }

    #[test]
    fn what_an_r_lists_again_and_again_is_counted() {
        let r = |entries: usize| {
            let lite = vec![r#"{"rank":"0-3","children":{"core":"0-1"}}"#; entries].join(",");
            format!(r#"{{"version":1,"execution":{{"R_lite":[{lite}],"nodelist":["n[0-3]"]}}}}"#)
        };
        let options = r#"{"load_format":"rv1exec","matcher_policy":"first"}"#;
        let says = |limit: usize, entries: usize| {
            let mut engine = Engine::new(&r(1), options).unwrap();
            let error = with_lower(VERTICES_MAX, limit, || {
                engine.update_allocate(1, &r(entries)).map(drop).unwrap_err()
            });
            assert_eq!(engine.job_count(), 0);
            error.text
        };
        // Ranks, and vertices.
        for (limit, entries) in [(19, 5), (39, 5)] {
            let text = says(limit, entries);
            assert!(text.starts_with("R: execution.R_lite: more than"), "{text}");
            assert!(text.ends_with("(VERTICES_MAX)"), "{text}");
        }
        let mut engine = Engine::new(&r(1), options).unwrap();
        with_lower(VERTICES_MAX, 12, || engine.update_allocate(1, &r(1)).unwrap());
    }
}
