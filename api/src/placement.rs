//! The nodes of a job's pods in compact form: `status.placement` of a FluxJob.
//!
//! A gang of 5000 pods on 500 alike nodes is one range of some sixty bytes. Names of nodes that
//! share no number, as those of clouds, cannot be shortened: so a FluxJob has each name once, in
//! `status.nodeList`, and names nodes by their places there ([`compact`]); beside the places it has
//! the names while they are short, for versions that know no places. In memory, placements and
//! reservations have the names alone ([`spell_out`]). The scheduler decides which pod has which
//! index.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flux_lists::hostlist::{self, HostlistError};
use flux_lists::idset::{self, IdsetError};

use crate::{FluxJobStatus, PlacementRange, Reservation};

/// The most pods that a placement holds, and that [`expand`] makes of one FluxJob.
pub const PODS_MAX: usize = 1_000_000;

/// The most bytes, in one status, of placement and reservation with the names of their nodes for
/// which the names are written beside the places. That leaves room enough in a FluxJob, and holds
/// some 300 names of a cloud or any number of names that differ in a number alone.
pub const NAMES_BESIDE_BYTES_MAX: usize = 16 << 10;

/// A pod set, an index and a node.
pub type Placed<'a> = (&'a str, u32, Arc<str>);

/// The reason why a placement cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// `indexes` is no idset.
    #[error("placement of pod set {pod_set:?}: podIndexes")]
    Indexes {
        /// The pod set.
        pod_set: String,
        /// The fault in the indexes.
        #[source]
        source: IdsetError,
    },
    /// `nodes` is no hostlist.
    #[error("placement of pod set {pod_set:?}: nodes")]
    Nodes {
        /// The pod set.
        pod_set: String,
        /// The fault in the nodes.
        #[source]
        source: HostlistError,
    },
    /// `podsPerNode` is not at least 1.
    #[error("placement of pod set {pod_set:?}: podsPerNode is {pods_per_node}")]
    PerNode {
        /// The pod set.
        pod_set: String,
        /// The value of `podsPerNode`.
        pods_per_node: i32,
    },
    /// Indexes and nodes do not match in number.
    #[error(
        "placement of pod set {pod_set:?}: {indexes} pods, {pods_per_node} to a node, do not fill \
         {nodes} nodes"
    )]
    Count {
        /// The pod set.
        pod_set: String,
        /// The number of indexes.
        indexes: usize,
        /// The number of nodes.
        nodes: usize,
        /// The value of `podsPerNode`.
        pods_per_node: usize,
    },
    /// An index is placed twice.
    #[error("placement of pod set {pod_set:?}: index {index} is placed twice")]
    Twice {
        /// The pod set.
        pod_set: String,
        /// The index.
        index: u32,
    },
    /// More than [`PODS_MAX`] pods.
    #[error("placement has more than {PODS_MAX} pods")]
    TooMany,
    /// `nodeList` is no hostlist.
    #[error("nodeList")]
    List(#[source] HostlistError),
    /// `nodeIndexes` is no list of places in `nodeList`.
    #[error("nodeIndexes: {0} is neither a place nor a range of places in nodeList")]
    Place(String),
}

/// Puts the names of nodes in a status into its `nodeList`, in the order in which the placement and
/// then the reservation name them first. Both refer to their places from then on. They keep the
/// names too while these are short ([`NAMES_BESIDE_BYTES_MAX`]), since versions before `nodeList`
/// read nothing else. Every status that is written to the API server is compact.
pub fn compact(status: &mut FluxJobStatus) -> Result<(), PlacementError> {
    let keeps_names = bytes_with_names(status) <= NAMES_BESIDE_BYTES_MAX;
    let mut list = NodeList::default();
    let mut places = Vec::new();
    for range in &status.placement {
        places.push(list.places_of(decode_nodes(range)?));
    }
    let of_reservation =
        status.reservation.as_ref().map(|reservation| hostlist::decode(&reservation.nodes));
    let of_reservation = of_reservation.transpose().map_err(PlacementError::List)?;
    if let (Some(reservation), Some(nodes)) = (&mut status.reservation, of_reservation) {
        reservation.node_indexes = encode_places(&list.places_of(nodes));
        if !keeps_names {
            reservation.nodes.clear();
        }
    }
    for (range, places) in status.placement.iter_mut().zip(&places) {
        range.node_indexes = encode_places(places);
        if !keeps_names {
            range.nodes.clear();
        }
    }
    status.node_list =
        (!list.names.is_empty()).then(|| hostlist::encode(list.names.iter().map(String::as_str)));
    Ok(())
}

/// Returns the size, in bytes, of placement and reservation with the names of their nodes and
/// without places: that of their texts, and more than enough for the rest.
fn bytes_with_names(status: &FluxJobStatus) -> usize {
    /// The size of a range or reservation besides its texts.
    const ENTRY: usize = 192;
    let of_range = |range: &PlacementRange| ENTRY + range.nodes.len() + range.pod_indexes.len();
    let of_ranges: usize = status.placement.iter().map(of_range).sum();
    let of_reservation = |reservation: &Reservation| ENTRY + reservation.nodes.len();
    of_ranges + status.reservation.as_ref().map_or(0, of_reservation)
}

/// Puts the names of nodes back into the placement and the reservation of a status that lacks them,
/// and takes the places out. A status that an earlier version wrote has names alone.
pub fn spell_out(status: &mut FluxJobStatus) -> Result<(), PlacementError> {
    // A status without a list of nodes has their names.
    let Some(list) = status.node_list.take() else { return Ok(()) };
    let list = hostlist::decode(&list).map_err(PlacementError::List)?;
    let spell = |indexes: &mut String, nodes: &mut String| -> Result<(), PlacementError> {
        if nodes.is_empty() {
            let places = decode_places(indexes, list.len())?;
            *nodes = hostlist::encode(
                places.into_iter().filter_map(|place| list.get(place)).map(String::as_str),
            );
        }
        indexes.clear();
        Ok(())
    };
    for range in &mut status.placement {
        spell(&mut range.node_indexes, &mut range.nodes)?;
    }
    if let Some(reservation) = &mut status.reservation {
        spell(&mut reservation.node_indexes, &mut reservation.nodes)?;
    }
    Ok(())
}

/// Names, each once, and their places.
#[derive(Default)]
struct NodeList {
    names: Vec<String>,
    places: BTreeMap<String, usize>,
}

impl NodeList {
    /// Returns the places of these names; new names come at the end.
    fn places_of(&mut self, names: Vec<String>) -> Vec<usize> {
        let place = |name: String| {
            *self.places.entry(name).or_insert_with_key(|name| {
                self.names.push(name.clone());
                self.names.len() - 1
            })
        };
        names.into_iter().map(place).collect()
    }
}

/// Writes places in their order, ascending runs of neighbours as ranges.
fn encode_places(places: &[usize]) -> String {
    let run = |run: &[usize]| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.iter().map(usize::to_string).collect(),
    };
    places.chunk_by(|one, next| one + 1 == *next).map(run).collect::<Vec<_>>().join(",")
}

/// Reads places below `count`. A text may name [`PODS_MAX`] at most.
fn decode_places(text: &str, count: usize) -> Result<Vec<usize>, PlacementError> {
    let mut places = Vec::new();
    for element in text.split(',').filter(|_| !text.is_empty()) {
        let bad = || PlacementError::Place(crate::text::quoted(element));
        let (first, last) = element.split_once('-').unwrap_or((element, element));
        let parse = |place: &str| place.parse::<usize>().ok().filter(|place| *place < count);
        let (first, last) =
            parse(first).zip(parse(last)).filter(|(first, last)| first <= last).ok_or_else(bad)?;
        if places.len() + (last - first) >= PODS_MAX {
            return Err(PlacementError::TooMany);
        }
        places.extend(first..=last);
    }
    Ok(places)
}

/// Writes that index i of `pod_set` goes to `nodes[i]`.
///
/// There is one range for each number of neighbouring indexes that share a node, so most placements
/// have one or two.
pub fn compress(pod_set: &str, nodes: &[&str]) -> Vec<PlacementRange> {
    debug_assert!(nodes.len() <= PODS_MAX, "{} indexes are more than {PODS_MAX}", nodes.len());
    let mut runs: BTreeMap<usize, Vec<(usize, &str)>> = BTreeMap::new();
    let mut index = 0;
    for run in nodes.chunk_by(|a, b| a == b) {
        runs.entry(run.len()).or_default().push((index, run[0]));
        index += run.len();
    }
    // The range with the lowest index comes first: that reads better, and has no other meaning.
    let mut runs: Vec<_> = runs.into_iter().collect();
    runs.sort_by_key(|(_, runs)| runs[0].0);
    runs.into_iter()
        .map(|(length, runs)| PlacementRange {
            pod_set: pod_set.to_owned(),
            pod_indexes: idset::encode(
                runs.iter().flat_map(|(index, _)| (*index..index + length).map(index_number)),
            ),
            nodes: hostlist::encode(runs.iter().map(|(_, node)| *node)),
            node_indexes: String::new(),
            pods_per_node: i32::try_from(length).unwrap_or(i32::MAX),
        })
        .collect()
}

/// Reads a placement: pod set, index and node, in order of sets as they first appear, then of
/// indexes.
pub fn expand(ranges: &[PlacementRange]) -> Result<Vec<Placed<'_>>, PlacementError> {
    let mut sets: Vec<(&str, BTreeMap<u32, Arc<str>>)> = Vec::new();
    let mut count = 0;
    for range in ranges {
        let placed = expand_range(range)?;
        count += placed.len();
        if count > PODS_MAX {
            return Err(PlacementError::TooMany);
        }
        let at =
            sets.iter().position(|(pod_set, _)| *pod_set == range.pod_set).unwrap_or_else(|| {
                sets.push((&range.pod_set, BTreeMap::new()));
                sets.len() - 1
            });
        for (index, node) in placed {
            if sets[at].1.insert(index, node).is_some() {
                return Err(PlacementError::Twice { pod_set: range.pod_set.clone(), index });
            }
        }
    }
    Ok(sets
        .into_iter()
        .flat_map(|(pod_set, indexes)| {
            indexes.into_iter().map(move |(index, node)| (pod_set, index, node))
        })
        .collect())
}

/// Returns the nodes of a placement as one hostlist, each node once, sorted by name.
pub fn node_list(ranges: &[PlacementRange]) -> Result<String, PlacementError> {
    let mut names = BTreeSet::new();
    for range in ranges {
        names.extend(decode_nodes(range)?);
    }
    Ok(hostlist::encode(names.iter().map(String::as_str)))
}

fn expand_range(range: &PlacementRange) -> Result<Vec<(u32, Arc<str>)>, PlacementError> {
    let pod_set = || range.pod_set.clone();
    let pods_per_node = usize::try_from(range.pods_per_node)
        .ok()
        .filter(|pods_per_node| *pods_per_node > 0)
        .ok_or_else(|| PlacementError::PerNode {
            pod_set: pod_set(),
            pods_per_node: range.pods_per_node,
        })?;
    let indexes = idset::decode(&range.pod_indexes)
        .map_err(|source| PlacementError::Indexes { pod_set: pod_set(), source })?;
    let nodes = decode_nodes(range)?;
    if nodes.len().checked_mul(pods_per_node) != Some(indexes.len()) {
        return Err(PlacementError::Count {
            pod_set: pod_set(),
            indexes: indexes.len(),
            nodes: nodes.len(),
            pods_per_node,
        });
    }
    let mut placed = Vec::with_capacity(indexes.len());
    for (indexes, node) in indexes.chunks(pods_per_node).zip(nodes) {
        let node: Arc<str> = node.into();
        placed.extend(indexes.iter().map(|index| (*index, Arc::clone(&node))));
    }
    Ok(placed)
}

fn decode_nodes(range: &PlacementRange) -> Result<Vec<String>, PlacementError> {
    hostlist::decode(&range.nodes)
        .map_err(|source| PlacementError::Nodes { pod_set: range.pod_set.clone(), source })
}

fn index_number(index: usize) -> u32 {
    u32::try_from(index).expect("PODS_MAX is far below 2^32")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(pod_set: &str, indexes: &str, nodes: &str, pods_per_node: i32) -> PlacementRange {
        let (pod_set, pod_indexes, nodes) = (pod_set.into(), indexes.into(), nodes.into());
        PlacementRange { pod_set, pod_indexes, nodes, pods_per_node, ..PlacementRange::default() }
    }

    #[test]
    fn a_large_gang_is_one_range() {
        let names: Vec<String> = (0..500).map(|id| format!("gke-pool-1-abc-{id:04}")).collect();
        let nodes: Vec<&str> = names.iter().flat_map(|name| [name.as_str(); 10]).collect();
        assert_eq!(
            compress("worker", &nodes),
            [range("worker", "0-4999", "gke-pool-1-abc-[0000-0499]", 10)]
        );
    }

    #[test]
    fn counts_that_differ_make_a_range_each() {
        assert_eq!(
            compress("r", &["n1", "n1", "n2", "n3", "n3", "n4"]),
            [range("r", "0-1,3-4", "n[1,3]", 2), range("r", "2,5", "n[2,4]", 1)]
        );
        assert_eq!(compress("r", &["n1", "n2", "n1", "n2"]), [range("r", "0-3", "n[1-2,1-2]", 1)]);
        assert_eq!(compress("r", &[]), []);
    }

    #[test]
    fn roles_come_in_order_of_appearance_and_ranks_ascend() {
        let ranges = [
            range("worker", "2-3", "n1", 2),
            range("launcher", "0", "n1", 1),
            range("worker", "0-1", "n2", 2),
        ];
        let placed = expand(&ranges).unwrap();
        let placed: Vec<_> =
            placed.iter().map(|(pod_set, index, node)| (*pod_set, *index, &**node)).collect();
        assert_eq!(
            placed,
            [
                ("worker", 0, "n2"),
                ("worker", 1, "n2"),
                ("worker", 2, "n1"),
                ("worker", 3, "n1"),
                ("launcher", 0, "n1")
            ]
        );
        assert_eq!(node_list(&ranges).unwrap(), "n[1-2]");
    }

    #[test]
    fn placements_that_do_not_add_up_are_refused() {
        let error = |range| expand(&[range]).unwrap_err();
        assert!(matches!(
            error(range("r", "0-2", "n[1-2]", 2)),
            PlacementError::Count { indexes: 3, .. }
        ));
        assert!(matches!(
            error(range("r", "0-1", "n1", 0)),
            PlacementError::PerNode { pods_per_node: 0, .. }
        ));
        assert!(matches!(
            error(range("r", "0-1", "n1", -2)),
            PlacementError::PerNode { pods_per_node: -2, .. }
        ));
        assert!(matches!(error(range("r", "1,0", "n1", 2)), PlacementError::Indexes { .. }));
        assert!(matches!(error(range("r", "0", "n[", 1)), PlacementError::Nodes { .. }));
        let twice = [range("r", "0-1", "n[1-2]", 1), range("r", "1", "n3", 1)];
        assert_eq!(expand(&twice), Err(PlacementError::Twice { pod_set: "r".into(), index: 1 }));
        let many = [range("a", "0-999999", "n[0-999999]", 1), range("b", "0", "n0", 1)];
        assert_eq!(expand(&many), Err(PlacementError::TooMany));
    }

    fn status(placement: Vec<PlacementRange>, reserved: Option<&str>) -> FluxJobStatus {
        let reservation =
            reserved.map(|nodes| Reservation { nodes: nodes.into(), ..Reservation::default() });
        FluxJobStatus { reservation, placement, ..FluxJobStatus::default() }
    }

    #[test]
    fn each_node_is_named_once_in_a_written_status() {
        let ranges = vec![range("a", "0-3", "n[1-2]", 2), range("b", "0-2", "n2,x,n1", 1)];
        let whole = status(ranges, Some("n[1-3]"));
        let mut written = whole.clone();
        compact(&mut written).unwrap();
        assert_eq!(written.node_list.as_deref(), Some("n[1-2],x,n3"));
        let indexes: Vec<&str> =
            written.placement.iter().map(|range| &*range.node_indexes).collect();
        assert_eq!(indexes, ["0-1", "1-2,0"]);
        let reserved = written.reservation.as_ref().unwrap();
        assert_eq!(reserved.node_indexes, "0-1,3");
        spell_out(&mut written).unwrap();
        assert_eq!(written, whole);
    }

    #[test]
    fn names_stand_beside_places_while_they_are_short() {
        let names = |count: usize| -> Vec<String> {
            (0..count).map(|at| format!("{:0>30}x", at * at + at)).collect()
        };
        let written = |names: &[String]| {
            let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
            let ranges = compress("set-0", &nodes);
            let whole = status(ranges, Some(&hostlist::encode_set(nodes.iter().copied())));
            let mut written = whole.clone();
            compact(&mut written).unwrap();
            let mut read = written.clone();
            spell_out(&mut read).unwrap();
            assert_eq!(read, whole);
            let with_names = bytes_with_names(&whole);
            (with_names, serde_json::to_value(&written).unwrap())
        };
        let (size, short) = written(&names(200));
        assert!(size < NAMES_BESIDE_BYTES_MAX && size > NAMES_BESIDE_BYTES_MAX / 2, "{size}");
        let parts = |value: &serde_json::Value| {
            [&value["placement"][0], &value["reservation"]]
                .map(|part| (part["nodes"].is_string(), part["nodeIndexes"].is_string()))
        };
        assert_eq!(parts(&short), [(true, true); 2]);
        // The size of the status is what `bytes_with_names` says, or less.
        let of_parts = [&short["placement"], &short["reservation"]]
            .map(|part| serde_json::to_vec(part).unwrap().len());
        assert!(of_parts.iter().sum::<usize>() <= size, "{of_parts:?} {size}");
        let (size, long) = written(&names(300));
        assert!(size > NAMES_BESIDE_BYTES_MAX, "{size}");
        assert_eq!(parts(&long), [(false, true); 2]);
    }

    #[test]
    fn statuses_of_earlier_versions_are_read() {
        let old = serde_json::json!({
            "bound": 0, "total": 2, "reservation": {"nodes": "n[1-2]"},
            "placement": [
                {"podSet": "set-0", "podIndexes": "0-1", "nodes": "n[1-2]", "podsPerNode": 1},
            ],
        });
        let mut read: FluxJobStatus = serde_json::from_value(old.clone()).unwrap();
        spell_out(&mut read).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), old);
    }

    #[test]
    fn places_that_are_not_in_the_list_are_refused() {
        for indexes in ["2", "1-2", "1-0", "x", "-1", "0,,1", "0-", "99999999999999999999"] {
            let mut bad = status(
                vec![PlacementRange { nodes: String::new(), ..range("a", "0", "", 1) }],
                None,
            );
            (bad.placement[0].node_indexes, bad.node_list) =
                (indexes.into(), Some("n[0-1]".into()));
            assert!(matches!(spell_out(&mut bad), Err(PlacementError::Place(_))), "{indexes}");
        }
        let many = format!("0-1{}", ",0-1".repeat(PODS_MAX / 2));
        assert_eq!(decode_places(&many, 2), Err(PlacementError::TooMany));
    }

    #[test]
    fn a_gang_on_five_thousand_nodes_of_a_cloud_is_within_the_bound() {
        let names: Vec<String> = (0..5000_u64)
            .map(|id| {
                format!(
                    "gke-cluster-pool-{:012x}-abcd.internal",
                    id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
                )
            })
            .collect();
        assert!(names.iter().all(|name| name.len() >= 38));
        let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
        let ranges: Vec<PlacementRange> =
            ["set-0", "set-1", "set-2"].into_iter().flat_map(|set| compress(set, &nodes)).collect();
        let mut written = status(ranges, Some(&hostlist::encode_set(nodes.iter().copied())));
        let before = serde_json::to_vec(&written).unwrap().len();
        compact(&mut written).unwrap();
        let after = serde_json::to_vec(&written).unwrap().len();
        assert!(before > 3 * after && after < crate::fluxjob::STATUS_BYTES_MAX, "{before} {after}");
    }

    proptest! {
        /// Compacts a status and spells it out, which gives the same status.
        #[test]
        fn spells_out_its_own_compact_status(
            sets in prop::collection::vec(
                prop::collection::vec("(n|pool-)0?[0-3]|login", 0..20),
                0..4,
            ),
            reserved in prop::option::of(
                prop::collection::btree_set("(n|pool-)0?[0-3]|login", 1..8),
            ),
        ) {
            let ranges = sets.iter().enumerate().flat_map(|(at, nodes)| {
                let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
                compress(&format!("set-{at}"), &nodes)
            });
            let reserved =
                reserved.map(|nodes| hostlist::encode_set(nodes.iter().map(String::as_str)));
            let whole = status(ranges.collect(), reserved.as_deref());
            let mut written = whole.clone();
            compact(&mut written).unwrap();
            spell_out(&mut written).unwrap();
            prop_assert_eq!(written, whole);
        }

        /// Writes and reads any assignment, whatever the order of its nodes.
        #[test]
        fn reads_back_its_own_text(
            nodes in prop::collection::vec("(n|pool-)0?[0-3]|login", 0..60),
        ) {
            let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
            let ranges = compress("r", &nodes);
            let placed = expand(&ranges).unwrap();
            prop_assert_eq!(placed.len(), nodes.len());
            for (at, (pod_set, index, node)) in placed.iter().enumerate() {
                prop_assert_eq!((*pod_set, *index as usize, &**node), ("r", at, nodes[at]));
            }
        }
    }
}
