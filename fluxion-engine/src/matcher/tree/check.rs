//! Requests that the walk could not answer truthfully are refused.

use crate::Error;
use crate::graph::Graph;
use crate::jobspec::{Jobspec, Resource};

/// Refuses what the walk does not do.
pub(crate) fn check(graph: &Graph, spec: &Jobspec) -> Result<(), Error> {
    if !spec.extras.prefer.is_empty() || !spec.extras.max_per_node.is_empty() {
        return Err(Error::invalid("attributes.system.fluxion: prefer and max_per_node need slots of pool units"));
    }
    if !spec.resources.iter().any(takes_something) {
        return Err(Error::invalid("resources: neither a slot nor anything exclusive: nothing would be taken"));
    }
    level(graph, &spec.resources, false)
}

fn takes_something(level: &Resource) -> bool {
    level.is_slot() || level.exclusive == Some(true) || level.with.iter().any(takes_something)
}

fn level(graph: &Graph, siblings: &[Resource], in_slot: bool) -> Result<(), Error> {
    for (at, part) in siblings.iter().enumerate() {
        let kind = &part.kind;
        if siblings[..at].iter().any(|other| other.kind == *kind) {
            return Err(Error::invalid(format!("resources: {kind}: siblings ask for the same type")));
        }
        if !part.is_slot() && graph.types().get(kind).is_none() {
            return Err(Error::invalid(format!("resources: {kind}: no vertex of the graph has this type")));
        }
        if in_slot && part.exclusive == Some(false) {
            return Err(Error::invalid(format!("resources: {kind}: what is in a slot is exclusive")));
        }
        if graph.is_pool_type(kind) && (!in_slot || !part.with.is_empty() || part.count.min != part.count.max) {
            return Err(Error::invalid(format!("resources: {kind}: units of a pool are asked for directly in a slot")));
        }
        if part.is_slot() {
            if in_slot {
                return Err(Error::invalid("resources: a slot within a slot"));
            }
            let inner = |other: &Resource| !other.is_slot() && part.with.iter().any(|member| member.kind == other.kind);
            if siblings.iter().any(inner) {
                return Err(Error::invalid("resources: a slot and its sibling ask for the same type"));
            }
        }
        level(graph, &part.with, in_slot || part.is_slot())?;
    }
    Ok(())
}
