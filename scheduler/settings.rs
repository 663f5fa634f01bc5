//! The settings of scheduling: a versioned file, flags that override it, and the checks of both.
//!
//! The command line (`cli/`) handles flags that belong to the process alone (addresses, election,
//! logs).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use serde::Deserialize;

use fluxqueue_api::syntax::{NAME_RULE, is_label_key, is_label_name};
use fluxqueue_core::{CoreSettings, NodePolicy, QueuePolicy};
use fluxqueue_machine::cluster::{Level, Topology};
use fluxqueue_workload::{Lifetime, walltime};

/// The `apiVersion` of the file.
pub const API_VERSION: &str = "config.converged-computing.org/v1alpha1";

/// The `kind` of the file.
pub const KIND: &str = "FluxqueueConfiguration";

/// Bindings in flight by default. A busy API server shares its time among its clients: with 32 it
/// gives more of it to the writes of kubelets than to ours, and pods wait longer for their node.
const BIND_CONCURRENCY: u32 = 64;

/// The most Bindings in flight: the core decides no more than this ahead of the answers.
const BIND_CONCURRENCY_MAX: u32 = 128;

/// The settings file: every field that may stand in it. Unknown fields are errors, and so are
/// fields given twice.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FluxqueueConfiguration {
    /// `config.converged-computing.org/v1alpha1`
    pub api_version: String,
    /// `FluxqueueConfiguration`
    pub kind: String,
    /// The `spec.schedulerName` values that Fluxqueue serves. Default: `fluxqueue` alone.
    #[serde(default)]
    pub scheduler_names: Option<Vec<String>>,
    /// The choice among the nodes that fit a pod: `first` (default; the cheapest to find), `lonode`
    /// or `hinode` (the lowest or highest rank), `binpack` (the fullest node), `spread` (the
    /// emptiest node).
    #[serde(default)]
    pub policy: Option<String>,
    /// The jobs that may go ahead of waiting jobs within a priority: `fcfs` (a job that asks for no
    /// node that an earlier job could use), `easy` (default; a job that does not delay the first
    /// waiting job), `hybrid` (a job that does not delay the first `reservationDepth` waiting
    /// jobs), `conservative` (a job that delays no other job).
    #[serde(default)]
    pub queue_policy: Option<String>,
    /// The number of jobs, from the first of the queue on, that may be promised a start. A job that
    /// fits starts, whatever its place. Default: 1000.
    #[serde(default)]
    pub queue_depth: Option<usize>,
    /// With `hybrid`, how many waiting jobs are promised a start. Default: 64.
    #[serde(default)]
    pub reservation_depth: Option<usize>,
    /// The time for which other jobs may go ahead of the first waiting job if its start has no
    /// known date, in seconds; 0: not at all. Default: 300. Not for `fcfs`.
    #[serde(default)]
    pub bypass_seconds: Option<u64>,
    /// The walltime of a job that gives none, such as `1h30m`. Default: none, so such a job has no
    /// known end. Services keep having no walltime.
    #[serde(default)]
    pub default_walltime: Option<String>,
    /// The time for which the FluxJob of an ended job is kept, in seconds. Default: 3600.
    #[serde(default)]
    pub ttl_seconds_after_finished: Option<u64>,
    /// The seconds for which the slot of an ended pod is kept for its successor. Default: 15.
    #[serde(default)]
    pub slot_keep_seconds: Option<u64>,
    /// The longest time for which it is kept, in seconds, since a Job waits longer before it
    /// replaces a pod the more of its pods have failed (10 s, 20 s, 40 s, ...). Default: 60.
    #[serde(default)]
    pub slot_keep_max_seconds: Option<u64>,
    /// The time for which the place of a suspended Job is held after the Job's release until all
    /// its pods are there, in seconds. Default: 60.
    #[serde(default)]
    pub suspend_hold_seconds: Option<u64>,
    /// The time after its last pod appeared for which a group may be incomplete before its FluxJob
    /// says so, in seconds. Default: 3.
    #[serde(default)]
    pub group_grace_seconds: Option<u64>,
    /// The time that a gang may take from its first Binding until all its pods are bound, in
    /// seconds; after that its FluxJob is Degraded. Default: 60.
    #[serde(default)]
    pub gang_start_timeout: Option<u64>,
    /// The seconds that the volumes of a pod or gang with slots may take to be bound. Default: 600.
    #[serde(default)]
    pub volume_bind_timeout: Option<u64>,
    /// The most Bindings in flight at once, 1 to 128. Default: 64.
    #[serde(default)]
    pub bind_concurrency: Option<u32>,
    /// True if every lone pod has a FluxJob. Default: false; only a lone pod that waits longer than
    /// a second has one.
    #[serde(default)]
    pub record_lone_pods: Option<bool>,
    /// True if texts in a namespace name jobs and pods of other namespaces. Default: false; they
    /// say "a job of another namespace".
    #[serde(default)]
    pub names_across_namespaces: Option<bool>,
    /// The levels of the machine that jobs may ask for: a list of trees, each with its `levels`
    /// from the widest to the narrowest. A level has a `name` and `nodeLabels`; the first of these
    /// labels that a node has names the part of the level in which the node is. Default: one tree
    /// of region, zone, block, rack and host.
    #[serde(default)]
    pub topology: Option<Vec<LevelTree>>,
}

/// A tree of levels, in the settings file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LevelTree {
    /// The levels, from the widest to the narrowest.
    pub levels: Vec<LevelOfTree>,
}

/// A level, in the settings file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LevelOfTree {
    /// The name by which jobs ask for it.
    pub name: String,
    /// Node labels that name the part in which a node is: the first that the node has counts.
    pub node_labels: Vec<String>,
}

/// The values of flags; each overrides the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--scheduler-name`, repeatable; empty if not given.
    pub scheduler_names: Vec<String>,
    /// `--policy`
    pub policy: Option<String>,
    /// `--queue-policy`
    pub queue_policy: Option<String>,
    /// `--bind-concurrency`
    pub bind_concurrency: Option<u32>,
}

/// Settings that have been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The settings of the core.
    pub core: CoreSettings,
    /// The most Bindings in flight at once.
    pub bind_concurrency: u32,
}

/// A fault in the settings. Field errors name the field.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("reading settings file {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The file is not YAML of that form.
    #[error("settings file {}: {message}", .path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The fault, and its place.
        message: String,
    },
    /// A field has an impossible value.
    #[error("{field}: {message}")]
    Field {
        /// The field's name in the file.
        field: &'static str,
        /// The fault.
        message: String,
    },
}

// === impl FluxqueueConfiguration ===

impl FluxqueueConfiguration {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| SettingsError::Read { path: path.to_owned(), source })?;
        Self::parse(&text)
            .map_err(|message| SettingsError::Parse { path: path.to_owned(), message })
    }

    /// Reads YAML or JSON.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: Self = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        if file.api_version != API_VERSION {
            return Err(format!(
                "apiVersion: {:?} is not known; this version reads {API_VERSION}",
                file.api_version
            ));
        }
        if file.kind != KIND {
            return Err(format!("kind: {:?} is not {KIND}", file.kind));
        }
        Ok(file)
    }

    /// Returns a file without any field.
    fn empty() -> Self {
        FluxqueueConfiguration {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            scheduler_names: None,
            policy: None,
            queue_policy: None,
            queue_depth: None,
            reservation_depth: None,
            bypass_seconds: None,
            default_walltime: None,
            ttl_seconds_after_finished: None,
            slot_keep_seconds: None,
            slot_keep_max_seconds: None,
            suspend_hold_seconds: None,
            group_grace_seconds: None,
            gang_start_timeout: None,
            volume_bind_timeout: None,
            bind_concurrency: None,
            record_lone_pods: None,
            names_across_namespaces: None,
            topology: None,
        }
    }
}

// === impl Settings ===

impl Settings {
    /// Puts file, flags and defaults together.
    pub fn resolve(
        file: Option<FluxqueueConfiguration>,
        flags: Overrides,
    ) -> Result<Self, SettingsError> {
        let FluxqueueConfiguration {
            api_version: _,
            kind: _,
            scheduler_names,
            policy,
            queue_policy,
            queue_depth,
            reservation_depth,
            bypass_seconds,
            default_walltime,
            ttl_seconds_after_finished,
            slot_keep_seconds,
            slot_keep_max_seconds,
            suspend_hold_seconds,
            group_grace_seconds,
            gang_start_timeout,
            volume_bind_timeout,
            bind_concurrency,
            record_lone_pods,
            names_across_namespaces,
            topology,
        } = file.unwrap_or_else(FluxqueueConfiguration::empty);
        let of_flags = Some(flags.scheduler_names).filter(|names| !names.is_empty());
        let names = of_flags.or(scheduler_names);
        let default = CoreSettings::default();
        let core = CoreSettings {
            scheduler_names: names
                .map(scheduler_names_of)
                .transpose()?
                .unwrap_or(default.scheduler_names),
            node_policy: node_policy_of(flags.policy.or(policy).as_deref())?,
            default_walltime_secs: default_walltime.as_deref().map(walltime_secs).transpose()?,
            ttl_after_finished_secs: ttl_seconds_after_finished
                .unwrap_or(default.ttl_after_finished_secs),
            slot_keep_secs: slot_keep_seconds.unwrap_or(default.slot_keep_secs),
            slot_keep_max_secs: slot_keep_max_seconds.unwrap_or(default.slot_keep_max_secs),
            suspend_hold_secs: suspend_hold_seconds.unwrap_or(default.suspend_hold_secs),
            group_grace_secs: group_grace_seconds.unwrap_or(default.group_grace_secs),
            gang_start_timeout_secs: gang_start_timeout.unwrap_or(default.gang_start_timeout_secs),
            volume_bind_timeout_secs: volume_bind_timeout
                .unwrap_or(default.volume_bind_timeout_secs),
            record_lone_pods: record_lone_pods.unwrap_or(default.record_lone_pods),
            names_across_namespaces: names_across_namespaces
                .unwrap_or(default.names_across_namespaces),
            queue_policy: queue_policy_of(flags.queue_policy.or(queue_policy).as_deref())?,
            queue_depth: at_least_one("queueDepth", queue_depth.unwrap_or(default.queue_depth))?,
            reservation_depth: at_least_one(
                "reservationDepth",
                reservation_depth.unwrap_or(default.reservation_depth),
            )?,
            bypass_secs: bypass_seconds.unwrap_or(default.bypass_secs),
            topology: topology.map(topology_of).transpose()?.map_or(default.topology, Arc::new),
            // The others are no settings of users; the command line knows the namespace.
            ..default
        };
        let bind_concurrency =
            flags.bind_concurrency.or(bind_concurrency).unwrap_or(BIND_CONCURRENCY);
        if !(1..=BIND_CONCURRENCY_MAX).contains(&bind_concurrency) {
            return Err(bad(
                "bindConcurrency",
                format!("{bind_concurrency} is not between 1 and {BIND_CONCURRENCY_MAX}"),
            ));
        }
        Ok(Settings { core, bind_concurrency })
    }
}

/// Parses a duration as Go and Kubernetes write it: `15s`, `1h30m`, `100ms`; a bare number is
/// seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    let signed: SignedDuration =
        text.parse().map_err(|_| format!("{text:?} is not a duration such as 90s or 1h30m"))?;
    Duration::try_from(signed).map_err(|_| format!("{text:?} is negative"))
}

fn scheduler_names_of(names: Vec<String>) -> Result<Vec<Arc<str>>, SettingsError> {
    let mut kept: Vec<Arc<str>> = Vec::new();
    for name in names {
        let field = "schedulerNames";
        if !is_label_name(&name) {
            return Err(bad(field, format!("{name:?} is not a scheduler's name: {NAME_RULE}")));
        }
        if name == "default-scheduler" {
            return Err(bad(
                field,
                "default-scheduler is kube-scheduler's name: both would bind the same pods"
                    .to_owned(),
            ));
        }
        if !kept.iter().any(|other| **other == *name) {
            kept.push(name.into());
        }
    }
    if kept.is_empty() {
        return Err(bad("schedulerNames", "at least one name is needed".to_owned()));
    }
    Ok(kept)
}

fn node_policy_of(name: Option<&str>) -> Result<NodePolicy, SettingsError> {
    let Some(name) = name else { return Ok(NodePolicy::default()) };
    NodePolicy::from_name(name).ok_or_else(|| {
        let known = NodePolicy::ALL.map(NodePolicy::as_str).join(", ");
        bad("policy", format!("{name:?} is not one of {known}"))
    })
}

fn queue_policy_of(name: Option<&str>) -> Result<QueuePolicy, SettingsError> {
    let Some(name) = name else { return Ok(QueuePolicy::default()) };
    QueuePolicy::from_name(name).ok_or_else(|| {
        let known = QueuePolicy::ALL.map(QueuePolicy::as_str).join(", ");
        bad("queuePolicy", format!("{name:?} is not one of {known}"))
    })
}

fn topology_of(trees: Vec<LevelTree>) -> Result<Topology, SettingsError> {
    for level in trees.iter().flat_map(|tree| &tree.levels) {
        if let Some(label) = level.node_labels.iter().find(|label| !is_label_key(label)) {
            let message = format!("level {:?}: {label:?} is not the key of a label", level.name);
            return Err(bad("topology", message));
        }
    }
    let level = |level: LevelOfTree| Level {
        name: level.name.into(),
        node_labels: level.node_labels.into_iter().map(Arc::from).collect(),
    };
    let trees =
        trees.into_iter().map(|tree| tree.levels.into_iter().map(level).collect()).collect();
    Topology::new(trees).map_err(|error| bad("topology", error.to_string()))
}

fn at_least_one(field: &'static str, depth: usize) -> Result<usize, SettingsError> {
    if depth == 0 { Err(bad(field, "0 is less than 1".to_owned())) } else { Ok(depth) }
}

fn walltime_secs(text: &str) -> Result<u64, SettingsError> {
    match walltime::parse(text) {
        Ok(Lifetime::Seconds(seconds)) => Ok(seconds),
        Ok(_) => {
            let message = format!("{text:?} cannot be a default: leave the field out");
            Err(bad("defaultWalltime", message))
        }
        Err(reason) => Err(bad("defaultWalltime", format!("{text:?} {reason}"))),
    }
}

fn bad(field: &'static str, message: String) -> SettingsError {
    SettingsError::Field { field, message }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
