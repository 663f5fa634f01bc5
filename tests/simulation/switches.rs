//! What the simulation can make and judge, and which of it the core does not stand up to yet.
//!
//! A generator or rule that the core fails is written down here as off, so that the others stay green, and is switched on
//! with the change that mends the core. `FLUXQUEUE_SIM_ALL=1` switches everything on, `FLUXQUEUE_SIM_ON=ClockJumps,...`
//! the features that it names.

use std::sync::OnceLock;

/// Something that can be switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feature {
    /// Gangs whose roles have shapes, node sets, labels and walltimes of their own.
    Roles,
    /// Roles of one gang that want the same host port.
    SharedPorts,
    /// Node labels change.
    Relabelling,
    /// Pods of other schedulers with required anti-affinity against labels that ours carry.
    Repellers,
    /// Pods of other schedulers with nominated nodes.
    Nominations,
    /// Something happens to a gang's nodes or members just between its write-ahead and its first Binding.
    Intruders,
    /// The API server's clock differs from the core's, and jumps.
    ClockJumps,
    /// Writes of a paused leader take effect while its successor works.
    PausedLeader,
    /// Another Fluxqueue with a scheduler name of its own.
    SecondInstance,
    /// A deletion that was decided on an older version of the object is refused.
    DeletionVersions,
    /// Rule: no gang starts that does not fit whole.
    WholeGangs,
    /// Rule: no gang starts before our gates are off all of its members.
    GatesFirst,
    /// Rule: at the head of the queue a gang of several shapes starts if it fits, and is Unsatisfiable if it never can.
    JointPlacement,
    /// Rule: a status write that keeps the placement keeps the epoch of the leader that placed.
    EpochStays,
    /// Rule: a new process writes nothing on a cluster at rest on which nobody waits.
    QuietRestart,
    /// Rule: nor where jobs wait.
    QuietRestartBesideQueue,
}

/// All features, and whether they are on.
const TABLE: [(Feature, bool); 16] = [
    (Feature::Roles, true),
    (Feature::SharedPorts, true),
    (Feature::Relabelling, true),
    (Feature::Repellers, true),
    (Feature::Nominations, true),
    (Feature::Intruders, true),
    (Feature::ClockJumps, true),
    (Feature::PausedLeader, true),
    (Feature::SecondInstance, true),
    (Feature::DeletionVersions, true),
    (Feature::WholeGangs, true),
    (Feature::GatesFirst, true),
    (Feature::JointPlacement, false),
    (Feature::EpochStays, true),
    (Feature::QuietRestart, false),
    (Feature::QuietRestartBesideQueue, false),
];

/// Switches everything on.
const ALL: &str = "FLUXQUEUE_SIM_ALL";
/// Switches on what it names, with commas between.
const ON: &str = "FLUXQUEUE_SIM_ON";

impl Feature {
    /// It is made, or judged.
    pub(crate) fn is_on(self) -> bool {
        static SWITCHES: OnceLock<[bool; TABLE.len()]> = OnceLock::new();
        SWITCHES.get_or_init(read)[self as usize]
    }
}

/// What is off, for whoever reads the log.
pub(crate) fn off() -> Vec<Feature> {
    TABLE.into_iter().map(|(feature, _)| feature).filter(|feature| !feature.is_on()).collect()
}

/// The variables that a replay needs to see the same run, in the form of a shell.
pub(crate) fn environment() -> String {
    let set = [ALL, ON].into_iter().filter_map(|name| Some(format!("{name}={} ", std::env::var(name).ok()?)));
    set.collect()
}

fn read() -> [bool; TABLE.len()] {
    let all = std::env::var(ALL).is_ok_and(|value| value != "0");
    let named = std::env::var(ON).unwrap_or_default();
    let mut switches = [false; TABLE.len()];
    for (feature, on) in TABLE {
        let asked = named.split(',').any(|name| name == format!("{feature:?}"));
        switches[feature as usize] = on || all || asked;
    }
    switches
}
