//! The levels of the machine, by labels of its nodes: region, zone, block, rack and host, or the
//! levels that the settings name.
//!
//! A level is a partition of the nodes: a node is in at most one part of it, such as one rack.
//! Levels stand in trees, each from the widest level to the narrowest. The name of a part contains
//! the values of the levels above it, since two zones may have a rack of one name. A node that
//! lacks a level's labels is in no part of that level, whatever labels it has for the others.

use std::sync::Arc;

use super::node::Node;

/// How many levels there may be in all trees together: each costs something with every node.
const LEVELS_MAX: usize = 16;

/// All levels of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    trees: Vec<Vec<Level>>,
}

/// One partition of the nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// The name by which people know it.
    pub name: Arc<str>,
    /// The node labels that say in which part a node is: the first of these that it has counts.
    pub node_labels: Vec<Arc<str>>,
}

/// Why levels cannot be as they are given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// There is nothing to call it by.
    #[error("a level has no name")]
    Unnamed,
    /// Which one is meant could not be told.
    #[error("there are two levels {0:?}")]
    Twice(Arc<str>),
    /// No node would be in any part of it.
    #[error("level {0:?} has no node label")]
    Unlabelled(Arc<str>),
    /// The tree of this number, counted from 1, has nothing to ask for.
    #[error("tree {0} has no levels")]
    Empty(usize),
    /// More than there may be.
    #[error("{0} levels are more than {LEVELS_MAX}")]
    TooMany(usize),
}

impl Topology {
    /// Makes a topology of these trees, each from its widest level to its narrowest.
    pub fn new(trees: Vec<Vec<Level>>) -> Result<Self, TopologyError> {
        let topology = Topology { trees };
        let count = topology.levels().count();
        if count > LEVELS_MAX {
            return Err(TopologyError::TooMany(count));
        }
        if let Some(at) = topology.trees.iter().position(Vec::is_empty) {
            return Err(TopologyError::Empty(at + 1));
        }
        for (at, level) in topology.levels().enumerate() {
            let name = &level.name;
            if name.is_empty() {
                return Err(TopologyError::Unnamed);
            }
            if topology.levels().take(at).any(|other| other.name == *name) {
                return Err(TopologyError::Twice(Arc::clone(name)));
            }
            if level.node_labels.is_empty()
                || level.node_labels.iter().any(|label| label.is_empty())
            {
                return Err(TopologyError::Unlabelled(Arc::clone(name)));
            }
        }
        Ok(topology)
    }

    /// The levels of all trees.
    pub fn levels(&self) -> impl Iterator<Item = &Level> {
        self.trees.iter().flatten()
    }

    /// The level of this name; or the first that this node label makes.
    pub fn find(&self, name_or_label: &str) -> Option<&Level> {
        let is_named = |level: &&Level| *level.name == *name_or_label;
        let is_made =
            |level: &&Level| level.node_labels.iter().any(|label| **label == *name_or_label);
        self.levels().find(is_named).or_else(|| self.levels().find(is_made))
    }

    /// The levels above this one in its tree, the narrowest first.
    pub fn wider(&self, level: &str) -> impl Iterator<Item = &Level> {
        let above = self.trees.iter().find_map(|levels| {
            let at = levels.iter().position(|of| *of.name == *level)?;
            Some(&levels[..at])
        });
        above.unwrap_or_default().iter().rev()
    }

    /// Each level, and the part of it that a node is in.
    pub fn parts<'a>(
        &'a self,
        node: &'a Node,
    ) -> impl Iterator<Item = (&'a Level, Option<String>)> {
        self.trees.iter().flat_map(move |levels| {
            let mut path = String::new();
            levels.iter().map(move |level| {
                let value = level.value_of(node);
                path.push_str(value.unwrap_or_default());
                let part = value.map(|_| path.clone());
                path.push('/');
                (level, part)
            })
        })
    }

    /// The part of a level that a node is in.
    pub fn part(&self, level: &str, node: &Node) -> Option<String> {
        self.parts(node).find(|(of, _)| *of.name == *level)?.1
    }
}

impl Level {
    fn value_of<'a>(&self, node: &'a Node) -> Option<&'a str> {
        self.node_labels
            .iter()
            .find_map(|label| node.label(label).filter(|value| !value.is_empty()))
    }
}

impl Default for Topology {
    /// Makes one tree of the labels of clouds, of Kubernetes itself, and of Kueue's examples.
    fn default() -> Self {
        let level = |name: &str, labels: &[&str]| Level {
            name: Arc::from(name),
            node_labels: labels.iter().copied().map(Arc::from).collect(),
        };
        Topology {
            trees: vec![vec![
                level("region", &["topology.kubernetes.io/region"]),
                level("zone", &["topology.kubernetes.io/zone"]),
                level(
                    "block",
                    &["topology.kubernetes.io/block", "cloud.provider.com/topology-block"],
                ),
                level("rack", &["topology.kubernetes.io/rack", "cloud.provider.com/topology-rack"]),
                level("host", &["kubernetes.io/hostname"]),
            ]],
        }
    }
}

/// Returns a part's name as people know it: without the levels above that have no label.
pub fn readable(part: &str) -> String {
    part.split('/').filter(|value| !value.is_empty()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use fluxqueue_workload::{NodeName, Resources, Uid};

    use super::*;

    fn node(labels: &[(&str, &str)]) -> Node {
        let mut labels: Vec<(Arc<str>, Arc<str>)> =
            labels.iter().map(|(key, value)| (Arc::from(*key), Arc::from(*value))).collect();
        labels.sort();
        Node {
            name: NodeName::from("n"),
            uid: Uid::from("u"),
            allocatable: Resources::new(),
            labels,
            taints: Vec::new(),
            unschedulable: false,
            readiness: crate::cluster::Readiness::Ready,
            declared_features: Vec::new(),
        }
    }

    fn level(name: &str, labels: &[&str]) -> Level {
        Level { name: name.into(), node_labels: labels.iter().copied().map(Arc::from).collect() }
    }

    #[test]
    fn a_node_is_where_its_labels_put_it() {
        let topology = Topology::default();
        let whole = node(&[
            ("kubernetes.io/hostname", "n"),
            ("topology.kubernetes.io/region", "eu"),
            ("topology.kubernetes.io/zone", "eu-1"),
            ("cloud.provider.com/topology-block", "b"),
            ("cloud.provider.com/topology-rack", "r7"),
        ]);
        let parts: Vec<(&str, Option<String>)> =
            topology.parts(&whole).map(|(level, part)| (&*level.name, part)).collect();
        let expected = [
            ("region", "eu"),
            ("zone", "eu/eu-1"),
            ("block", "eu/eu-1/b"),
            ("rack", "eu/eu-1/b/r7"),
            ("host", "eu/eu-1/b/r7/n"),
        ];
        assert_eq!(parts, expected.map(|(level, part)| (level, Some(part.to_owned()))));
    }

    #[test]
    fn what_is_not_labelled_is_no_part_and_leaves_its_place_in_the_name() {
        let topology = Topology::default();
        let in_zone =
            node(&[("topology.kubernetes.io/zone", "x"), ("topology.kubernetes.io/rack", "r")]);
        let in_block =
            node(&[("topology.kubernetes.io/block", "x"), ("topology.kubernetes.io/rack", "r")]);
        assert_eq!(topology.part("block", &in_zone), None);
        let (one, other) =
            (topology.part("rack", &in_zone).unwrap(), topology.part("rack", &in_block).unwrap());
        assert_ne!(one, other, "they are different racks");
        assert_eq!((readable(&one), readable(&other)), ("x/r".to_owned(), "x/r".to_owned()));
    }

    #[test]
    fn a_level_is_found_by_its_name_or_its_label() {
        let trees = vec![
            vec![level("rack", &["a", "b"])],
            vec![level("leaf", &["switch"]), level("b", &["x"])],
        ];
        let topology = Topology::new(trees).unwrap();
        let name = |wanted: &str| topology.find(wanted).map(|level| level.name.to_string());
        assert_eq!(name("rack"), Some("rack".to_owned()));
        assert_eq!(name("switch"), Some("leaf".to_owned()));
        assert_eq!(name("b"), Some("b".to_owned()), "names go first");
        assert_eq!(name("a"), Some("rack".to_owned()));
        assert_eq!(name("row"), None);
        let wider: Vec<String> = topology.wider("b").map(|level| level.name.to_string()).collect();
        assert_eq!((wider, topology.wider("rack").count()), (vec!["leaf".to_owned()], 0));
        // The first label that a node has counts, and trees know nothing of each other.
        let both = node(&[("a", "1"), ("b", "2"), ("switch", "s")]);
        let parts: Vec<Option<String>> = topology.parts(&both).map(|(_, part)| part).collect();
        assert_eq!(parts, [Some("1".to_owned()), Some("s".to_owned()), None]);
    }

    #[test]
    fn levels_that_cannot_be_are_refused() {
        let refused = |trees| Topology::new(trees).unwrap_err().to_string();
        assert_eq!(refused(vec![vec![level("", &["a"])]]), "a level has no name");
        let twice = vec![vec![level("rack", &["a"])], vec![level("rack", &["b"])]];
        assert_eq!(refused(twice), "there are two levels \"rack\"");
        assert_eq!(refused(vec![vec![level("rack", &[])]]), "level \"rack\" has no node label");
        assert_eq!(refused(vec![vec![level("rack", &[""])]]), "level \"rack\" has no node label");
        let many = (0..17).map(|at| level(&format!("l{at}"), &["a"])).collect();
        assert_eq!(refused(vec![many]), "17 levels are more than 16");
        assert_eq!(
            Topology::new(Vec::new()).unwrap().levels().count(),
            0,
            "a machine may have none"
        );
    }
}
