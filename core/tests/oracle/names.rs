//! The names that are in the clusters of all cases.

pub(crate) const NAMESPACES: [&str; 3] = ["a", "b", "c"];
/// Zone names in Google's style: two of one region and one of another.
pub(crate) const ZONES: [&str; 3] = ["north-east-a", "north-east-b", "south-east-a"];
pub(crate) const RACKS: [&str; 4] = ["r1", "r2", "r3", "r4"];
pub(crate) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
pub(crate) const TOPOLOGY_KEYS: [&str; 4] = ["kubernetes.io/hostname", "zone", "rack", "nowhere"];
/// Labels that pods can have, with their possible values.
pub(crate) const POD_LABELS: [(&str, &[&str]); 3] =
    [("app", &["web", "db", "mpi"]), ("tier", &["front", "back"]), ("version", &["1", "2"])];
