//! The labels of namespaces, for selectors that choose namespaces by them.

use std::collections::HashMap;
use std::sync::Arc;

use fluxqueue_workload::constraints::PodSelector;
use fluxqueue_workload::metadata::Labels;

/// All namespaces that are known.
#[derive(Debug, Clone, Default)]
pub(super) struct Namespaces {
    labels: HashMap<Arc<str>, Labels>,
}

impl Namespaces {
    /// True if that is news.
    pub(super) fn put(&mut self, name: &Arc<str>, labels: &Labels) -> bool {
        self.labels.insert(Arc::clone(name), Arc::clone(labels)).is_none_or(|old| old != *labels)
    }

    /// True if it was known.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        self.labels.remove(name).is_some()
    }

    /// True if a term of a waiting pod selects a pod of this namespace with these labels. As in
    /// kube-scheduler, the selector of namespaces selects only known ones, unless it is empty.
    pub(super) fn selects_as_own(
        &self,
        pods: &PodSelector,
        namespace: &str,
        labels: &[(Arc<str>, Arc<str>)],
    ) -> bool {
        let scope = &pods.namespaces;
        let is_by_labels = scope.selected.as_ref().is_some_and(|selected| !selected.is_empty());
        if is_by_labels && !self.labels.contains_key(namespace) {
            let is_named = scope.named.iter().any(|name| &**name == namespace);
            return is_named && pods.selects_labels(labels);
        }
        self.selects(pods, namespace, labels)
    }

    /// True if a term of a pod on a node selects a pod of this namespace with these labels. A
    /// namespace that is not known (yet) has no labels.
    pub(super) fn selects(
        &self,
        pods: &PodSelector,
        namespace: &str,
        labels: &[(Arc<str>, Arc<str>)],
    ) -> bool {
        let of_namespace =
            pods.namespaces.selected.as_ref().and_then(|_| self.labels.get(namespace));
        pods.selects(namespace, of_namespace.map(|labels| &**labels).unwrap_or_default(), labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluxqueue_workload::constraints::{NamespaceScope, Operator, Requirement};

    #[test]
    fn a_term_of_a_waiting_pod_selects_no_unknown_namespace_by_a_label() {
        let mut namespaces = Namespaces::default();
        namespaces.put(&"a".into(), &[("team".into(), "x".into())].into_iter().collect());
        let of = |operator: Operator, values: &[&str]| {
            let values = values.iter().map(|value| Arc::from(*value)).collect();
            let selected = Some(vec![Requirement { key: "team".into(), operator, values }]);
            let pods = PodSelector {
                namespaces: NamespaceScope { named: vec![], selected },
                labels: Some(vec![]),
            };
            let selects = |namespace: &str| {
                let own = namespaces.selects_as_own(&pods, namespace, &[]);
                (own, namespaces.selects(&pods, namespace, &[]))
            };
            (selects("a"), selects("unknown"))
        };
        let (neither, both, not_as_own) = ((false, false), (true, true), (false, true));
        assert_eq!(of(Operator::NotIn, &["x"]), (neither, not_as_own));
        assert_eq!(of(Operator::NotIn, &["y"]), (both, not_as_own));
        assert_eq!(of(Operator::DoesNotExist, &[]), (neither, not_as_own));
        assert_eq!(of(Operator::In, &["x"]), (both, neither));
        assert_eq!(of(Operator::In, &["y"]), (neither, neither));
    }
}
