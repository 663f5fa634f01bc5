//! Giving back a part of a job.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;

use super::{Engine, JobMode, Ranks, UpdateReader, no_job};
use crate::graph::{TypeId, VertexId};
use crate::limits::R_BYTES_MAX;
use crate::readers::jgf;
use crate::schedule::{Row, Touch};
use crate::tree::without_mark;
use crate::{Error, idset};

/// The fields of RFC 20's R that are read.
#[derive(Deserialize)]
struct R<'a> {
    version: u64,
    #[serde(borrow)]
    execution: Execution<'a>,
    scheduling: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Execution<'a> {
    #[serde(borrow, rename = "R_lite")]
    r_lite: Vec<Entry<'a>>,
}

#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    rank: Cow<'a, str>,
}

impl Engine {
    /// Gives back what an allocated job has on the ranks of an R document, or of its graph if it
    /// has one. Returns whether that was everything.
    pub fn partial_cancel(&mut self, id: u64, r: &str) -> Result<bool, Error> {
        if self.jobs.get(&id).is_none_or(|job| job.info.mode != JobMode::Allocated) {
            return Err(no_job(id));
        }
        R_BYTES_MAX.check(r.len(), "R")?;
        let r = without_mark(r);
        let document: R<'_> =
            serde_json::from_str(r).map_err(|error| Error::invalid(format!("R: {error}")))?;
        match document.scheduling {
            None => self.partial_cancel_with(id, r, UpdateReader::Rv1exec),
            Some(scheduling) => {
                let reader = UpdateReader::of(&scheduling)?;
                self.partial_cancel_with(id, &scheduling.to_string(), reader)
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
        if self.jobs.get(&id).is_none_or(|job| job.info.mode != JobMode::Allocated) {
            return Err(no_job(id));
        }
        // A document is read before anything is touched.
        let released = match reader {
            UpdateReader::Rv1exec => {
                let ranges = ranks(text)?;
                must_hold_all(self, id, &ranges)?;
                let within = |rank: i32| {
                    u32::try_from(rank).is_ok_and(|rank| {
                        ranges.iter().any(|(first, last)| (*first..=*last).contains(&rank))
                    })
                };
                self.note_job(id);
                self.note_vertices();
                self.release_ranks(id, &within)
            }
            UpdateReader::Jgf | UpdateReader::JgfShorthand => {
                let some = held_of_graph(self, id, text)?;
                self.note_job(id);
                self.note_vertices();
                self.release_vertices(id, &some)
            }
        };
        if !released {
            return Err(Error::invalid(format!("job {id}: holds nothing of this")));
        }
        if self.drop_if_empty(id) {
            return Ok(true);
        }
        let root = self.graph.root();
        let job = &self.jobs[&id];
        // Without a mark on the root nothing is left that upstream would find.
        if job.ranks.is_empty() && !job.touches.iter().any(|touch| touch.vertex == root) {
            self.cancel(id)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Gives back all that a job has on some ranks. True if there was anything.
    pub(super) fn release_ranks(&mut self, id: u64, within: &dyn Fn(i32) -> bool) -> bool {
        let Some(job) = self.jobs.get_mut(&id).map(Arc::make_mut) else { return false };
        let on = |rank: &u32| i32::try_from(*rank).is_ok_and(within);
        let (gone, kept): (Ranks, Ranks) = job.ranks.iter().copied().partition(on);
        job.ranks = kept;
        for rank in &gone {
            if let Some(row) = self.graph.pools.position(*rank) {
                self.graph.pools.release_job(row, id);
            }
        }
        let some: BTreeSet<VertexId> = job
            .touches
            .iter()
            .map(|touch| touch.vertex)
            .filter(|vertex| within(self.graph.rank(*vertex)))
            .collect();
        self.release_vertices(id, &some) || !gone.is_empty()
    }

    /// Takes vertices from a job, and corrects what holds them.
    pub(super) fn release_vertices(&mut self, id: u64, some: &BTreeSet<VertexId>) -> bool {
        let Some(job) = self.jobs.get_mut(&id).map(Arc::make_mut) else { return false };
        let term = job.term;
        let (gone, mut kept): (Vec<_>, Vec<_>) = std::mem::take(&mut job.touches)
            .into_iter()
            .partition(|touch| some.contains(&touch.vertex));
        let mut has_gaps = false;
        // What each vertex above the released ones has less of below it.
        let mut less: BTreeMap<VertexId, Vec<(TypeId, i64)>> = BTreeMap::new();
        for touch in &gone {
            self.leave(term, touch);
            let size = i64::try_from(self.graph.size(touch.vertex)).unwrap_or(i64::MAX);
            let count = if touch.exclusive { size } else { 0 };
            let kind = self.graph.kind(touch.vertex);
            let mut at = self.graph.parent(touch.vertex);
            while let Some(above) = at {
                if !some.contains(&above) {
                    let sums = less.entry(above).or_default();
                    match sums.iter_mut().find(|(known, _)| *known == kind) {
                        Some((_, sum)) => *sum = sum.saturating_add(count),
                        None => sums.push((kind, count)),
                    }
                }
                at = self.graph.parent(above);
            }
        }
        kept.retain_mut(|touch| {
            let Some(sums) = less.get(&touch.vertex) else { return true };
            let tracked = self.schedule.filters.tracked(&self.graph, touch.vertex);
            let of =
                |kind: &TypeId| sums.iter().find(|(known, _)| known == kind).map_or(0, |sum| sum.1);
            let amounts: Row = tracked.iter().map(of).collect();
            if touch.below.is_empty() {
                return true;
            }
            let left: Row = touch
                .below
                .iter()
                .zip(&amounts)
                .map(|(have, less)| have.saturating_sub(*less).max(0))
                .collect();
            if touch.exclusive || left.iter().any(|left| *left > 0) {
                let taken: Row =
                    touch.below.iter().zip(&left).map(|(have, left)| have - left).collect();
                self.schedule.reduce(term, touch.vertex, &taken);
                touch.below = left;
                true
            } else {
                // As upstream: also where the job took none of the types that it tracks.
                self.schedule.remove(term, touch);
                has_gaps = true;
                false
            }
        });
        if let Some(job) = self.jobs.get_mut(&id).map(Arc::make_mut) {
            job.touches = kept;
            job.has_gaps |= has_gaps;
        }
        !gone.is_empty()
    }
}

fn ranks(text: &str) -> Result<Vec<(u32, u32)>, Error> {
    R_BYTES_MAX.check(text.len(), "R")?;
    let r: R<'_> = serde_json::from_str(without_mark(text))
        .map_err(|error| Error::invalid(format!("R: {error}")))?;
    if r.version != 1 {
        return Err(Error::invalid(format!("R: version {}: only 1 is known", r.version)));
    }
    let mut ranges = Vec::new();
    for entry in r.execution.r_lite {
        ranges.extend(idset::parse(&entry.rank)?);
    }
    Ok(ranges)
}

/// As upstream, where a partial cancel fails unless the job has a vertex of each rank for
/// itself; here nothing is given back then. On a graph with pools, which upstream does not
/// have, ranks on which the job has nothing are passed over.
fn must_hold_all(engine: &Engine, id: u64, ranges: &[(u32, u32)]) -> Result<(), Error> {
    if engine.graph.has_pool_types() {
        return Ok(());
    }
    let touches = engine.jobs.get(&id).into_iter().flat_map(|job| &job.touches);
    let rank_of = |touch: &&Touch| u32::try_from(engine.graph.rank(touch.vertex)).ok();
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

/// Those vertices of a JGF document that a job has for itengine.
fn held_of_graph(engine: &Engine, id: u64, text: &str) -> Result<BTreeSet<VertexId>, Error> {
    if id == 0 {
        return Err(Error::invalid("job 0: not an id"));
    }
    let document = jgf::parse(text)?;
    let mut some = BTreeSet::new();
    for node in &document.nodes {
        let wrong = || Error::invalid(format!("vertex {}: there is no such vertex", node.path));
        some.insert(engine.graph.find(&node.path, node.rank).ok_or_else(wrong)?);
    }
    // A vertex that only leads to others of the job stays as long as those do.
    let held: BTreeSet<VertexId> = engine.jobs.get(&id).map_or_else(Default::default, |job| {
        job.touches.iter().filter(|touch| touch.exclusive).map(|touch| touch.vertex).collect()
    });
    some.retain(|vertex| held.contains(vertex));
    Ok(some)
}
