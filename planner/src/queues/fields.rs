//! Fields of the spec of a queue, and what they mean.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::{syntax, text};
use fluxqueue_workload::constraints::{Constraints, Toleration};
use fluxqueue_workload::metadata;

/// Returns a number of a spec, which must not be less than `least`.
pub(super) fn at_least<T, N>(path: &str, number: Option<T>, least: T) -> Result<Option<N>, String>
where
    T: Copy + PartialOrd + std::fmt::Display,
    N: TryFrom<T>,
{
    let read = |number| N::try_from(number).ok().filter(|_| number >= least);
    let number = number
        .map(|number| read(number).ok_or_else(|| format!("{path}: {number} is less than {least}")));
    number.transpose()
}

/// Returns constraints that admit the nodes with these labels, whatever their taints: whether a pod
/// tolerates those is its own matter. The error names the label that no node can have.
pub(super) fn nodes_of(
    path: &str,
    labels: &BTreeMap<String, String>,
) -> Result<Constraints, String> {
    check_labels(path, labels)?;
    let everything = Toleration {
        key: Arc::default(),
        exists: true,
        value: Arc::default(),
        effect: Arc::default(),
    };
    Ok(Constraints {
        node_selector: metadata::sorted(Some(labels)).collect(),
        tolerations: vec![everything],
        ..Constraints::default()
    })
}

/// Returns an error if one of these cannot be a label.
pub(super) fn check_labels(path: &str, labels: &BTreeMap<String, String>) -> Result<(), String> {
    for (key, value) in labels {
        check_key(path, key)?;
        check_value(&format!("{path}[{key}]"), value)?;
    }
    Ok(())
}

/// Returns an error if this cannot be the key of a label.
pub(super) fn check_key(path: &str, key: &str) -> Result<(), String> {
    if syntax::is_label_key(key) {
        Ok(())
    } else {
        Err(format!("{path}: {} is not the key of a label", text::quoted(key)))
    }
}

/// Returns an error if this cannot be the value of a label.
pub(super) fn check_value(path: &str, value: &str) -> Result<(), String> {
    if syntax::is_label_value(value) {
        Ok(())
    } else {
        Err(format!("{path}: {} is not the value of a label", text::quoted(value)))
    }
}
