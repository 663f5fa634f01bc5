//! Giving back a part of a job.

use std::collections::BTreeSet;
use std::sync::Arc;

use flux_lists::idset;

use super::Engine;
use super::units::{self, PoolUnits};
use super::update::UpdateReader;
use crate::amounts::amount_of;
use crate::book::job::{Job, JobMode, no_job};
use crate::graph::VertexId;
use crate::pools::Amounts;
use crate::readers::jgf;
use crate::readers::r::{self, RanksOnly};
use crate::schedule::Touch;
use crate::{Error, lists};

impl Engine {
    /// Gives back what an allocated job has on the ranks of an R document, or of its graph if it
    /// has one. Returns whether that was everything.
    pub fn partial_cancel(&mut self, id: u64, r: &str) -> Result<bool, Error> {
        if self.book.jobs().get(id).is_none_or(|job| job.info.mode != JobMode::Allocated) {
            return Err(no_job(id));
        }
        let document: RanksOnly<'_> = r::read(r, "R")?;
        match document.scheduling {
            None => self.partial_cancel_with(id, r, UpdateReader::Rv1exec),
            Some(scheduling) => {
                let reader = UpdateReader::of(scheduling)?;
                let has_pools = self.graph().has_pool_types();
                let slots = if has_pools { slots_named(self, r)? } else { Vec::new() };
                give_back_part(self, id, scheduling.get(), reader, &slots)
            }
        }
    }

    /// Gives back the vertices that a document in a known format names.
    pub fn partial_cancel_with(
        &mut self,
        id: u64,
        text: &str,
        reader: UpdateReader,
    ) -> Result<bool, Error> {
        if self.book.jobs().get(id).is_none_or(|job| job.info.mode != JobMode::Allocated) {
            return Err(no_job(id));
        }
        give_back_part(self, id, text, reader, &[])
    }
}

/// Gives back the resources that a document names, and these slots: rank, label and number of each.
fn give_back_part(
    engine: &mut Engine,
    id: u64,
    text: &str,
    reader: UpdateReader,
    slots: &[(u32, Box<str>, u64)],
) -> Result<bool, Error> {
    // A document is read before anything is touched.
    let released = match reader {
        UpdateReader::Rv1exec => {
            let ranges = ranks(text)?;
            must_hold_all(engine, id, &ranges)?;
            let within = |rank: i32| lists::hold_rank(&ranges, rank);
            engine.book.release_ranks(id, &within)
        }
        UpdateReader::Jgf | UpdateReader::JgfShorthand => {
            let (some, units) = held_of_graph(engine, id, text)?;
            let of_units;
            let slots = if slots.is_empty() {
                of_units = slots_with(engine, id, &units)?;
                &of_units
            } else {
                slots
            };
            let has_slots = engine.book.release_some_slots(id, slots);
            engine.book.release_vertices(id, &some) || has_slots
        }
    };
    if !released {
        return Err(Error::invalid(format!("job {id}: holds nothing of this")));
    }
    if engine.book.drop_if_empty(id) {
        return Ok(true);
    }
    let (root, has_pools) = (engine.graph().root(), engine.graph().has_pool_types());
    let is_lost = |job: &Arc<Job>| {
        let mut vertices = job.claims.vertices().iter();
        let has_any = if has_pools {
            job.claims.own_vertices().next().is_some()
        } else {
            // Without a mark on the root nothing is left that upstream would find.
            vertices.any(|touch| touch.vertex == root)
        };
        !job.claims.has_slots() && !has_any
    };
    if engine.book.jobs().get(id).is_some_and(is_lost) {
        engine.book.cancel(id)?;
        return Ok(true);
    }
    Ok(false)
}

/// The slots that an R names, by rank.
fn slots_named(engine: &Engine, r: &str) -> Result<Vec<(u32, Box<str>, u64)>, Error> {
    let mut named = Vec::new();
    for slots in units::read(&engine.book, r, i64::MIN)? {
        let label = &slots.shape.label;
        named.extend(slots.on().iter().map(|(rank, count)| (*rank, label.clone(), *count)));
    }
    Ok(named)
}

/// The ranks of an R, ascending and each once: a document may name them any number of times.
fn ranks(text: &str) -> Result<Vec<(u32, u32)>, Error> {
    let document: RanksOnly<'_> = r::read(text, "R")?;
    document.check_version("R")?;
    Ok(idset::merge(document.ranks("R")?.concat()))
}

/// As upstream (Q23), where a partial cancel fails unless the job has a vertex of each rank for
/// itself; here nothing is given back then. On a graph with pools, which upstream does not
/// have, ranks on which the job has nothing are passed over.
fn must_hold_all(engine: &Engine, id: u64, ranges: &[(u32, u32)]) -> Result<(), Error> {
    if engine.graph().has_pool_types() {
        return Ok(());
    }
    let touches = engine.book.jobs().get(id).into_iter().flat_map(|job| job.claims.vertices());
    let rank_of = |touch: &&Touch| u32::try_from(engine.graph().rank(touch.vertex)).ok();
    if let [(first, last)] = ranges
        && first == last
        && touches.clone().any(|touch| touch.exclusive && rank_of(&touch) == Some(*first))
    {
        return Ok(());
    }
    let mut own: Vec<u32> = Vec::new();
    for touch in touches.filter(|touch| touch.exclusive) {
        // Vertices of a rank lie side by side.
        if let Some(rank) = rank_of(&touch)
            && own.last() != Some(&rank)
        {
            own.push(rank);
        }
    }
    own.sort_unstable();
    for (first, last) in ranges {
        let mut next = *first;
        // At most one more look than there are ranks on which the job has anything.
        while next <= *last && own.binary_search(&next).is_ok() {
            next = next.saturating_add(1);
        }
        if next <= *last {
            return Err(Error::invalid(format!(
                "R: execution.R_lite: rank {next}: job {id} has nothing of it for itself"
            )));
        }
    }
    Ok(())
}

/// The slots of a job with the units that a document lists: of each rank all that the job has
/// there. Ranks on which it has none are passed over.
fn slots_with(
    engine: &Engine,
    id: u64,
    units: &[(VertexId, u64)],
) -> Result<Vec<(u32, Box<str>, u64)>, Error> {
    let graph = engine.graph();
    let mut named = Vec::new();
    for (rank, listed) in units::by_rank(graph, units.iter())? {
        let (mut has, before) = (Amounts::new(), named.len());
        for slots in engine.book.jobs().get(id).into_iter().flat_map(|job| job.claims.slots()) {
            let here = slots.on().iter().filter(|(known, _)| *known == rank);
            for (_, count) in here {
                for (kind, amount) in &slots.shape.needs {
                    let sum = amount_of(&mut has, *kind);
                    *sum = sum.saturating_add(amount.saturating_mul(*count));
                }
                named.push((rank, slots.shape.label.clone(), *count));
            }
        }
        // Of a vertex that the job has for itself, pools are listed of which it has no slots.
        if named.len() > before && !has.iter().all(|units| listed.contains(units)) {
            return Err(Error::invalid(format!(
                "rank {rank}: job {id} has other units there than the document lists"
            )));
        }
    }
    Ok(named)
}

/// Those vertices of a JGF document that a job has for itself, and the units of pools.
fn held_of_graph(
    engine: &Engine,
    id: u64,
    text: &str,
) -> Result<(BTreeSet<VertexId>, PoolUnits), Error> {
    if id == 0 {
        return Err(Error::invalid("job 0: not an id"));
    }
    let document = jgf::parse(text)?;
    let (mut some, mut units) = (BTreeSet::new(), Vec::new());
    for node in &document.nodes {
        let wrong = || Error::invalid(format!("vertex {}: there is no such vertex", node.path));
        let vertex = engine.graph().find(&node.path, node.rank).ok_or_else(wrong)?;
        some.insert(vertex);
        if node.exclusive && engine.graph().is_pool(vertex) {
            units.push((vertex, node.size));
        }
    }
    // A vertex that only leads to others of the job stays as long as those do.
    let held: BTreeSet<VertexId> = engine
        .book
        .jobs()
        .get(id)
        .map_or_else(Default::default, |job| job.claims.own_vertices().collect());
    some.retain(|vertex| held.contains(vertex));
    Ok((some, units))
}
