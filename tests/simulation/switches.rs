//! Rules that the core does not stand up to yet.
//!
//! Each is off unless it is asked for, so that the others stay green; the change that mends the core drops its switch.
//! `FLUXQUEUE_SIM_ALL=1` switches everything on, `FLUXQUEUE_SIM_ON=QuietRestartBesideQueue,...` the features that it names.

use std::sync::OnceLock;

/// Something that can be switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feature {
    /// Rule: a new process writes nothing on a cluster at rest, also where jobs wait.
    ///
    /// Seeds 1 to 300 keep it. Its saboteurs are to be told from the others before it is judged in each run.
    QuietRestartBesideQueue,
}

const FEATURES: [Feature; 1] = [Feature::QuietRestartBesideQueue];

/// Switches everything on.
const ALL: &str = "FLUXQUEUE_SIM_ALL";
/// Switches on what it names, with commas between.
const ON: &str = "FLUXQUEUE_SIM_ON";

impl Feature {
    /// It is judged.
    pub(crate) fn is_on(self) -> bool {
        static SWITCHES: OnceLock<[bool; FEATURES.len()]> = OnceLock::new();
        SWITCHES.get_or_init(read)[self as usize]
    }
}

/// What is off, for whoever reads the log.
pub(crate) fn off() -> Vec<Feature> {
    FEATURES.into_iter().filter(|feature| !feature.is_on()).collect()
}

/// The variables that a replay needs to see the same run, in the form of a shell.
pub(crate) fn environment() -> String {
    let set = [ALL, ON, crate::machine::POLICY]
        .into_iter()
        .filter_map(|name| Some(format!("{name}={} ", std::env::var(name).ok()?)));
    set.collect()
}

fn read() -> [bool; FEATURES.len()] {
    let all = std::env::var(ALL).is_ok_and(|value| value != "0");
    let named = std::env::var(ON).unwrap_or_default();
    FEATURES.map(|feature| all || named.split(',').any(|name| name == format!("{feature:?}")))
}
