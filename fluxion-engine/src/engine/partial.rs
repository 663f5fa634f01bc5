//! Giving back a part of a job: the ranks that an R document names.

use std::borrow::Cow;

use serde::Deserialize;

use super::{Engine, JobMode, no_job};
use crate::graph::VertexId;
use crate::{Error, idset};

/// What is read of RFC 20's R.
#[derive(Deserialize)]
struct R<'a> {
    version: u64,
    #[serde(borrow)]
    execution: Execution<'a>,
    scheduling: Option<serde::de::IgnoredAny>,
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
    /// Gives back what an allocated job has on the ranks of an R document. Returns whether that was everything.
    pub fn partial_cancel(&mut self, id: u64, r: &str) -> Result<bool, Error> {
        let ranges = ranks(r)?;
        let job = self.jobs.get_mut(&id).filter(|job| job.info.mode == JobMode::Allocated).ok_or_else(|| no_job(id))?;
        let gone = |rank: u32| ranges.iter().any(|(first, last)| (*first..=*last).contains(&rank));
        let (ranks, kept): (Vec<u32>, Vec<u32>) = job.ranks.iter().partition(|rank| gone(**rank));
        let of_gone = |vertex: &&VertexId| self.graph.vertex(**vertex).rank.is_some_and(gone);
        let (vertices, left): (Vec<VertexId>, Vec<VertexId>) = job.vertices.iter().partition(of_gone);
        if ranks.is_empty() && vertices.is_empty() {
            return Err(Error::invalid(format!("job {id}: holds nothing on these ranks")));
        }
        (job.ranks, job.vertices) = (kept, left);
        for rank in ranks {
            if let Some(row) = self.graph.pools.position(rank) {
                self.graph.pools.release_job(row, id);
            }
        }
        for vertex in vertices {
            self.graph.unhold(vertex, id);
        }
        Ok(self.drop_if_empty(id))
    }
}

fn ranks(text: &str) -> Result<Vec<(u32, u32)>, Error> {
    let r: R<'_> = serde_json::from_str(text).map_err(|error| Error::invalid(format!("R: {error}")))?;
    if r.version != 1 {
        return Err(Error::invalid(format!("R: version {}: only 1 is known", r.version)));
    }
    if r.scheduling.is_some() {
        return Err(Error::invalid("R: scheduling: leave it out, ranks are read from execution.R_lite"));
    }
    let mut ranges = Vec::new();
    for entry in r.execution.r_lite {
        ranges.extend(idset::parse(&entry.rank)?);
    }
    Ok(ranges)
}
