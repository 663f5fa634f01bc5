//! An index of askers by pod label: the one label that a selector cannot do without leads to it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::defect::OrDefect;
use fluxqueue_workload::constraints::{Operator, Requirement};

/// Askers by a label that they look for.
#[derive(Debug, Clone)]
pub(super) struct Interest<T> {
    by_label: HashMap<Arc<str>, HashMap<Arc<str>, Vec<T>>>,
    /// Askers with selectors that need no certain value of any label.
    others: Vec<T>,
}

/// Returns the requirement that names the values of a label, one of which every selected pod has.
pub(super) fn anchor(requirements: &[Requirement]) -> Option<&Requirement> {
    requirements
        .iter()
        .find(|requirement| requirement.operator == Operator::In && !requirement.values.is_empty())
}

impl<T> Default for Interest<T> {
    fn default() -> Self {
        Interest { by_label: HashMap::new(), others: Vec::new() }
    }
}

impl<T: Copy + PartialEq> Interest<T> {
    pub(super) fn insert(&mut self, requirements: &[Requirement], asker: T) {
        let Some(anchor) = anchor(requirements) else { return self.others.push(asker) };
        let values = self.by_label.entry(Arc::clone(&anchor.key)).or_default();
        for value in &anchor.values {
            let askers = values.entry(Arc::clone(value)).or_default();
            // A value may be named twice.
            if !askers.contains(&asker) {
                askers.push(asker);
            }
        }
    }

    /// Takes back an [`Interest::insert`].
    pub(super) fn remove(&mut self, requirements: &[Requirement], asker: T) {
        let Some(anchor) = anchor(requirements) else {
            return self.others.retain(|other| *other != asker);
        };
        if let Some(values) =
            self.by_label.get_mut(&anchor.key).or_defect("nothing asks about the label")
        {
            for value in &anchor.values {
                if let Some(askers) = values.get_mut(value) {
                    askers.retain(|other| *other != asker);
                    if askers.is_empty() {
                        values.remove(value);
                    }
                }
            }
            if values.is_empty() {
                self.by_label.remove(&anchor.key);
            }
        }
    }

    /// Returns the askers that may select a pod with these labels, each once.
    pub(super) fn of<'a>(
        &'a self,
        labels: &'a [(Arc<str>, Arc<str>)],
    ) -> impl Iterator<Item = T> + 'a {
        let is_anybody = !self.by_label.is_empty();
        let labels = labels.iter().filter(move |_| is_anybody);
        let found = labels.filter_map(|(key, value)| self.by_label.get(key)?.get(value));
        found.flatten().chain(&self.others).copied()
    }
}
