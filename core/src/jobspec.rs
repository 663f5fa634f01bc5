//! The jobspec text that a FluxJob shows: canonical (RFC 14), one slot per role.
//!
//! It is for people and tools. The request that the graph is asked is made in [`crate::fluxion`], and says more.

use std::sync::Arc;

use serde_json::{Value, json};

use fluxqueue_workload::Shape;

/// The name of a role.
pub(super) fn role_name(at: usize) -> String {
    format!("role-{at}")
}

/// A jobspec of these roles. `seconds` is the walltime, 0 for none.
pub(super) fn canonical(namespace: &str, name: &str, roles: &[(&Arc<Shape>, usize)], seconds: i32) -> String {
    let slots: Vec<Value> = roles
        .iter()
        .enumerate()
        .map(|(at, (shape, count))| {
            let with: Vec<Value> =
                shape.requests.iter().map(|(resource, amount)| json!({"type": &**resource, "count": amount})).collect();
            json!({"type": "slot", "count": count, "label": role_name(at), "with": with})
        })
        .collect();
    let tasks: Vec<Value> = (0..roles.len())
        .map(|at| json!({"command": [namespace, name], "slot": role_name(at), "count": {"per_slot": 1}}))
        .collect();
    json!({
        "version": 1,
        "resources": slots,
        "tasks": tasks,
        "attributes": {"system": {"duration": seconds}},
    })
    .to_string()
}
