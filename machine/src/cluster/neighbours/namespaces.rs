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

    /// A term of a pod that waits selects a pod of this namespace with these labels. kube-scheduler
    /// resolves the selector of namespaces to their names first, and holds it against no labels
    /// after that: one that a namespace without labels meets, such as `NotIn`, selects every
    /// namespace. Where kube-scheduler would not put a pod, it does not go here.
    pub(super) fn selects_as_own(
        &self,
        pods: &PodSelector,
        namespace: &str,
        labels: &[(Arc<str>, Arc<str>)],
    ) -> bool {
        self.selects(pods, namespace, labels) || pods.selects(namespace, &[], labels)
    }

    /// A term of a pod on a node selects a pod of this namespace with these labels. A namespace
    /// that is not known (yet) has no labels.
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
    fn a_term_of_a_pod_that_waits_selects_all_namespaces_by_a_label_that_is_not_to_be_there() {
        let mut namespaces = Namespaces::default();
        namespaces.put(&"a".into(), &[("team".into(), "x".into())].into_iter().collect());
        let of = |operator: Operator, values: &[&str]| {
            let values = values.iter().map(|value| Arc::from(*value)).collect();
            let selected = Some(vec![Requirement { key: "team".into(), operator, values }]);
            let pods = PodSelector {
                namespaces: NamespaceScope { named: vec![], selected },
                labels: Some(vec![]),
            };
            (namespaces.selects_as_own(&pods, "a", &[]), namespaces.selects(&pods, "a", &[]))
        };
        assert_eq!(of(Operator::NotIn, &["x"]), (true, false));
        assert_eq!(of(Operator::DoesNotExist, &[]), (true, false));
        assert_eq!(of(Operator::In, &["x"]), (true, true));
        assert_eq!(of(Operator::In, &["y"]), (false, false));
    }
}
