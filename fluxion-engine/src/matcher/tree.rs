//! Requests for whole vertices: a walk over the graph.

use std::sync::Arc;

use super::Policy;
use super::candidates::Status;
use crate::graph::{Graph, VertexId};
use crate::jobspec::Jobspec;
use crate::pools::SlotShape;
use crate::time::When;
use crate::{Error, Reason};

/// The vertices that a request gets.
#[derive(Debug)]
pub(crate) struct Selection {}

impl Selection {
    pub(crate) fn held(&self) -> Vec<VertexId> {
        Vec::new()
    }

    pub(crate) fn claimed(&self) -> Vec<(VertexId, Arc<SlotShape>, u64)> {
        Vec::new()
    }
}

pub(crate) fn check(_graph: &Graph, _spec: &Jobspec) -> Result<(), Error> {
    Err(Error { reason: Reason::NotOffered, text: "jobspec: whole vertices are not offered yet".to_owned() })
}

pub(crate) fn find(
    _graph: &Graph,
    _spec: &Jobspec,
    _when: When,
    _now: i64,
    _status: Status,
    _policy: Policy,
) -> Option<Selection> {
    None
}

pub(crate) fn ends(_graph: &Graph, _now: i64) -> Vec<i64> {
    Vec::new()
}
