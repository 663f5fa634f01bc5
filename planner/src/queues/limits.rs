//! The limits of a queue, and the words for a request that is at a limit.

use std::sync::Arc;

use fluxqueue_api::fluxqueue::{Limits as ApiLimits, LimitsOfScope};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::fields::{at_least, nodes_of};
use fluxqueue_workload::constraints::Constraints;
use fluxqueue_workload::{quantity, requests};

/// One limit of a queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// True if each namespace has this amount; otherwise all have it together.
    pub per_namespace: bool,
    /// The nodes on which pods count; `None`: all nodes.
    pub nodes: Option<Constraints>,
    /// The things counted.
    pub what: Counted,
    /// The most that there may be.
    pub most: u64,
    /// Its path in the FluxQueue.
    pub path: Arc<str>,
}

/// The things that a limit counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counted {
    /// Jobs that have nodes.
    Jobs,
    /// What their pods ask for of a resource.
    Resource(Arc<str>),
}

/// All limits of a queue.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Limits {
    /// The limits on running work, over time.
    pub running: Vec<Limit>,
    /// Jobs that may wait.
    pub waiting: Option<u64>,
    /// Jobs that may wait, of each namespace.
    pub waiting_per_namespace: Option<u64>,
}

impl Limits {
    /// Returns the limits on all running work, in all namespaces and on all nodes together.
    pub(super) fn in_all(&self) -> impl Iterator<Item = &Limit> {
        self.running.iter().filter(|limit| !limit.per_namespace && limit.nodes.is_none())
    }

    /// Reads the limits of a FluxQueue; the text names the error in them.
    pub(super) fn from_api(limits: &ApiLimits) -> Result<Self, String> {
        let mut running = Vec::new();
        read(&limits.in_all, (false, "spec.limits"), &mut running)?;
        if let Some(of_each) = &limits.per_namespace {
            read(of_each, (true, "spec.limits.perNamespace"), &mut running)?;
        }
        let of_each = limits.per_namespace.as_ref().and_then(|of_each| of_each.waiting_jobs);
        Ok(Limits {
            running,
            waiting: at_least("spec.limits.waitingJobs", limits.in_all.waiting_jobs, 0)?,
            waiting_per_namespace: at_least("spec.limits.perNamespace.waitingJobs", of_each, 0)?,
        })
    }

    /// True if a limit on running work is per namespace.
    pub fn is_any_per_namespace(&self) -> bool {
        self.running.iter().any(|limit| limit.per_namespace)
    }
}

fn read(
    limits: &LimitsOfScope,
    (per_namespace, path): (bool, &str),
    into: &mut Vec<Limit>,
) -> Result<(), String> {
    let mut limit = |nodes: Option<&Constraints>, what: Counted, most: u64, path: String| {
        // More than is ever counted is what people write for "no limit".
        if most < u64::MAX {
            into.push(Limit {
                per_namespace,
                nodes: nodes.cloned(),
                what,
                most,
                path: path.into(),
            });
        }
    };
    let running_jobs = format!("{path}.runningJobs");
    if let Some(most) = at_least(&running_jobs, limits.running_jobs, 0)? {
        limit(None, Counted::Jobs, most, running_jobs);
    }
    for (resource, most) in &limits.resources {
        let path = format!("{path}.resources[{resource}]");
        limit(
            None,
            Counted::Resource(resource.as_str().into()),
            amount(resource, most, &path)?,
            path,
        );
    }
    for (at, of_nodes) in limits.nodes.iter().enumerate() {
        let selector = format!("{path}.nodes[{at}].nodeSelector");
        let nodes = nodes_of(&selector, &of_nodes.node_selector)?;
        for (resource, most) in &of_nodes.resources {
            let path = format!("{path}.nodes[{at}].resources[{resource}]");
            limit(
                Some(&nodes),
                Counted::Resource(resource.as_str().into()),
                amount(resource, most, &path)?,
                path,
            );
        }
    }
    Ok(())
}

/// In the unit in which pods' requests are counted.
fn amount(resource: &str, text: &IntOrString, path: &str) -> Result<u64, String> {
    if resource != "pods" && !requests::is_counted(resource) {
        // Most likely it is misspelt: a limit that counts nothing would let everything run.
        return Err(format!("{path}: no pod can ask for a resource of this name"));
    }
    let text = match text {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    };
    quantity::allowance(resource, &text).map_err(|error| format!("{path}: {error}"))
}
