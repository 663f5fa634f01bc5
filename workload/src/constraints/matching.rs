//! Matching by the rules of Kubernetes' selectors, and conflicts of ports and disks between pods.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::of_pod::{Constraints, NamedNodes};
use super::terms::{
    HostPort, NamespaceScope, NodeSelectorTerm, Operator, PodSelector, Requirement,
};

impl Constraints {
    /// True if the nodes that the pod may use depend on other pods, by its own constraints.
    pub fn asks_about_pods(&self) -> bool {
        !(self.near.is_empty() && self.repels.is_empty() && self.spreads.is_empty())
    }

    /// True if the nodes that the pod prefers depend on other pods, by its own constraints.
    pub fn prefers_by_pods(&self) -> bool {
        !(self.preferred_pods.is_empty() && self.preferred_spreads.is_empty())
    }

    /// True if some of the disks count against a limit of nodes.
    pub fn has_attachable_disks(&self) -> bool {
        self.disks.iter().any(|disk| disk.attachable().is_some())
    }

    /// True if neither other pods nor volumes decide which nodes the pod may use, or prefers. Every
    /// field is listed here, so that none is forgotten: those with `_` are about one node, and the
    /// use of it.
    pub(crate) fn asks_about_nodes_alone(&self) -> bool {
        let Constraints {
            node_selector: _,
            required: _,
            preferred: _,
            tolerations: _,
            host_ports: _,
            disks: _, // See `has_attachable_disks`.
            features: _,
            near,
            repels,
            spreads,
            preferred_pods,
            preferred_spreads,
        } = self;
        !self.has_attachable_disks()
            && (near.is_empty() && repels.is_empty() && spreads.is_empty())
            && (preferred_pods.is_empty() && preferred_spreads.is_empty())
    }

    /// Returns the nodes that required node affinity names.
    pub fn named_nodes(&self) -> NamedNodes<'_> {
        let Some(terms) = self.required.as_ref().filter(|terms| !terms.is_empty()) else {
            return NamedNodes::Any;
        };
        let mut named = BTreeSet::new();
        for term in terms {
            let Some(of_term) = term.named_nodes() else { return NamedNodes::Any };
            named.extend(of_term);
        }
        if named.is_empty() { NamedNodes::None } else { NamedNodes::Only(named) }
    }

    /// True if pods of these two constraints cannot be on one node: they want the same host port,
    /// or the same disk.
    pub fn exclude(&self, other: &Constraints) -> bool {
        let ports = self
            .host_ports
            .iter()
            .any(|port| other.host_ports.iter().any(|taken| port.conflicts(taken)));
        ports || self.disks.iter().any(|disk| other.disks.iter().any(|taken| disk.conflicts(taken)))
    }
}

impl NodeSelectorTerm {
    /// Returns the nodes that the term names; `None` if it does not name any.
    fn named_nodes(&self) -> Option<BTreeSet<&str>> {
        let names =
            |field: &&Requirement| &*field.key == "metadata.name" && field.operator == Operator::In;
        let mut named: Option<BTreeSet<&str>> = None;
        for field in self.fields.iter().filter(names) {
            let values: BTreeSet<&str> = field.values.iter().map(|value| &**value).collect();
            named = Some(named.map_or_else(|| values.clone(), |named| &named & &values));
        }
        named
    }
}

impl Requirement {
    /// True if a label (or field) of this value, `None` if it is absent, meets it.
    pub fn matches(&self, actual: Option<&str>) -> bool {
        let listed = |actual: &str| self.values.iter().any(|value| &**value == actual);
        match self.operator {
            Operator::In => actual.is_some_and(listed),
            Operator::NotIn => !actual.is_some_and(listed),
            Operator::Exists => actual.is_some(),
            Operator::DoesNotExist => actual.is_none(),
            Operator::Gt => self.compares(actual, |actual, bound| actual > bound),
            Operator::Lt => self.compares(actual, |actual, bound| actual < bound),
            Operator::Unknown => false,
        }
    }

    fn compares(&self, actual: Option<&str>, holds: impl Fn(i64, i64) -> bool) -> bool {
        let [bound] = self.values.as_slice() else { return false };
        let (Some(actual), Ok(bound)) =
            (actual.and_then(|actual| actual.parse().ok()), bound.parse())
        else {
            return false;
        };
        holds(actual, bound)
    }
}

impl HostPort {
    /// True if one node cannot have both: they have the same port and protocol, on one address or
    /// on all.
    pub fn conflicts(&self, other: &HostPort) -> bool {
        const ANY: &str = "0.0.0.0";
        let addresses = self.ip == other.ip || &*self.ip == ANY || &*other.ip == ANY;
        self.port == other.port && self.protocol == other.protocol && addresses
    }
}

impl NamespaceScope {
    /// True if labels choose namespaces, and not names alone or all namespaces.
    pub fn is_by_labels(&self) -> bool {
        self.selected.as_ref().is_some_and(|selected| !selected.is_empty())
    }
}

impl PodSelector {
    /// True if this selects a pod of this namespace, which has these labels, by its own labels (all
    /// sorted by key).
    pub fn selects(
        &self,
        namespace: &str,
        of_namespace: &[(Arc<str>, Arc<str>)],
        labels: &[(Arc<str>, Arc<str>)],
    ) -> bool {
        let scope = &self.namespaces;
        let in_scope = scope.named.iter().any(|name| &**name == namespace)
            || scope.selected.as_ref().is_some_and(|selected| all_match(selected, of_namespace));
        in_scope && self.selects_labels(labels)
    }

    /// True if this selects a pod with these labels, in whatever namespace.
    pub fn selects_labels(&self, labels: &[(Arc<str>, Arc<str>)]) -> bool {
        self.labels.as_ref().is_some_and(|selector| all_match(selector, labels))
    }
}

/// True if labels (sorted by key) meet all requirements of a selector.
pub fn all_match(selector: &[Requirement], labels: &[(Arc<str>, Arc<str>)]) -> bool {
    let label = |key: &str| {
        let at = labels.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
        Some(&*labels[at].1)
    };
    selector.iter().all(|requirement| requirement.matches(label(&requirement.key)))
}
