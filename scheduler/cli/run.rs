//! `fluxqueue run`: its flags have kube-scheduler's names where that has them.
//!
//! There is no `--kube-api-qps`: requests are not limited on this side, the API server's priority
//! and fairness is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{ArgAction, Args};
use fluxion_sys::FunctionTable;

use super::logs;
use crate::kube::executors::ExecutorSettings;
use crate::kube::fenced::WRITE_TIMEOUT_MAX;
use crate::kube::lease::LeaseSettings;
use crate::kube::shell::{self, ShellSettings};
use crate::serve::{CertificateFiles, Exposure, ListenAddress};
use crate::settings::{FluxqueueConfiguration, Overrides, Settings, parse_duration};
use fluxqueue_api::syntax::{NAMESPACE_RULE, OBJECT_RULE, is_namespace_name, is_object_name};
use fluxqueue_core::Core;

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The kubeconfig to use. Default: $KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Settings for scheduling, of kind FluxqueueConfiguration
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// A spec.schedulerName that Fluxqueue serves; may be repeated [default: fluxqueue]
    #[arg(long = "scheduler-name", value_name = "NAME")]
    scheduler_names: Vec<String>,

    /// The choice among the nodes that fit a pod: first, lonode, hinode, binpack, spread [default:
    /// first]
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,

    /// The rule by which jobs may start before others: fcfs, easy, hybrid, conservative [default:
    /// easy]
    #[arg(long, value_name = "POLICY")]
    queue_policy: Option<String>,

    /// A libreapi_cli.so of flux-sched 0.53 or later that places pods instead of the built-in
    /// resource graph
    #[arg(long, value_name = "PATH")]
    fluxion_library: Option<PathBuf>,

    /// The most Bindings in flight at once; 128 at most [default: 64]
    #[arg(long, value_name = "COUNT")]
    bind_concurrency: Option<u32>,

    /// The time that one Binding may take, retries included; 10s at most
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = write_timeout)]
    bind_timeout: Duration,

    /// Let only one of several replicas lead, while the others stand by. If false, nothing keeps a
    /// second process from deciding too
    #[arg(
        long,
        default_value_t = true,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    leader_elect: bool,

    /// The time that the others wait after the leader's last renewal before one of them takes over
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = positive_duration)]
    leader_elect_lease_duration: Duration,

    /// The time for which the leader tries to renew the Lease before it gives up and ends
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = positive_duration)]
    leader_elect_renew_deadline: Duration,

    /// Time between two tries to acquire or renew the Lease
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = positive_duration)]
    leader_elect_retry_period: Duration,

    /// Name of the Lease
    #[arg(long, value_name = "NAME", default_value = "fluxqueue", value_parser = object_name)]
    leader_elect_resource_name: String,

    /// Namespace of the Lease
    #[arg(
        long,
        value_name = "NAMESPACE",
        alias = "pod-namespace",
        env = "POD_NAMESPACE",
        default_value = "fluxqueue-system",
        value_parser = namespace_name
    )]
    leader_elect_resource_namespace: String,

    /// The address that serves /metrics, /livez, /readyz and /debug/state; :PORT means all
    /// addresses, IPv4 and IPv6. On addresses other than the loopback it uses TLS, and shows
    /// metrics and state only to clients that the API server allows
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10259")]
    metrics_bind_address: ListenAddress,

    /// The address that serves /livez and /readyz to kubelets over plain HTTP, where no other
    /// client can keep them out. Without this flag only --metrics-bind-address serves them
    #[arg(long, value_name = "ADDRESS")]
    health_bind_address: Option<ListenAddress>,

    /// Use plain HTTP for every client, whatever the address
    #[arg(long, conflicts_with_all = ["tls_cert_file", "tls_private_key_file"])]
    metrics_insecure: bool,

    /// The certificate for TLS, as PEM. Without it, the process makes a certificate that no client
    /// can verify
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,

    /// The private key of that certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,

    /// The format of log lines
    #[arg(long, value_enum, alias = "logging-format", default_value_t = logs::LogFormat::Text)]
    log_format: logs::LogFormat,

    /// The lines to log: error, warn, info, debug, trace, or a filter such as
    /// info,fluxqueue::kube=debug
    #[arg(long, value_name = "FILTER", env = "FLUXQUEUE_LOG", default_value = "info")]
    log_level: String,
}

// === impl RunArgs ===

impl RunArgs {
    /// Runs until a signal ends the process.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let RunArgs {
            kubeconfig,
            config,
            scheduler_names,
            policy,
            queue_policy,
            fluxion_library,
            bind_concurrency,
            bind_timeout,
            leader_elect,
            leader_elect_lease_duration,
            leader_elect_renew_deadline,
            leader_elect_retry_period,
            leader_elect_resource_name,
            leader_elect_resource_namespace,
            metrics_bind_address,
            health_bind_address,
            metrics_insecure,
            tls_cert_file,
            tls_private_key_file,
            log_format,
            log_level,
        } = self;
        logs::start(log_format, &log_level)?;
        let file = config.as_deref().map(FluxqueueConfiguration::read).transpose()?;
        let mut settings = Settings::resolve(
            file,
            Overrides { scheduler_names, policy, queue_policy, bind_concurrency },
        )?;
        settings.core.own_namespace = leader_elect_resource_namespace.as_str().into();
        let identity = identity();
        let lease = LeaseSettings {
            namespace: leader_elect_resource_namespace,
            name: leader_elect_resource_name,
            identity: identity.clone(),
            lease_duration: leader_elect_lease_duration,
            renew_deadline: leader_elect_renew_deadline,
            retry_period: leader_elect_retry_period,
            write_timeout_max: WRITE_TIMEOUT_MAX,
        };
        lease.check()?;
        let library = library(fluxion_library.as_deref())?;
        // Faults of the settings show now, and not only once this process leads.
        Core::new(settings.core.clone(), library, 0)?;
        let features_off = settings.core.graph(library)?.features_off();
        if !features_off.is_empty() {
            let off = features_off.join("; ");
            tracing::warn!("off with this Fluxion library, which lacks the extensions: {off}");
        }
        let shell = ShellSettings {
            kubeconfig,
            serve_on: metrics_bind_address,
            exposure: exposure(
                metrics_bind_address,
                metrics_insecure,
                tls_cert_file.zip(tls_private_key_file),
            ),
            probes_on: health_bind_address,
            lease: leader_elect.then_some(lease),
            executors: ExecutorSettings {
                bind_concurrency: usize::try_from(settings.bind_concurrency)?,
                bind_timeout,
                instance: identity,
            },
        };
        let core = settings.core;
        let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
        let ended = runtime.block_on(shell::run(
            shell,
            Box::new(move |epoch| Ok(Core::new(core, library, epoch)?)),
        ));
        // The rest (a core in the middle of a pass, a stuck request) must not hold up the end.
        runtime.shutdown_background();
        Ok(ended?)
    }
}

/// Returns the protection of the address. The loopback address is open to every client on this
/// machine, unless a certificate is given.
fn exposure(address: ListenAddress, insecure: bool, files: Option<(PathBuf, PathBuf)>) -> Exposure {
    let files = files.map(|(certificate, key)| CertificateFiles { certificate, key });
    if insecure || (address.is_loopback() && files.is_none()) {
        Exposure::Open
    } else {
        Exposure::Secured(files)
    }
}

/// Opens the Fluxion library.
fn library(path: Option<&Path>) -> anyhow::Result<FunctionTable> {
    let Some(path) = path else { return Ok(FunctionTable::builtin()) };
    let library = FunctionTable::open(path).context("--fluxion-library")?;
    let extensions = if library.extensions.is_some() { "with" } else { "without" };
    tracing::info!(
        library = %path.display(),
        "the resource graph is that of a library, {extensions} extensions"
    );
    Ok(library)
}

/// Returns `host_random`: unique among processes, and people can tell the host from it.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = match host.trim() {
        "" => "unknown-host",
        host => host,
    };
    let unique = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    match unique.trim() {
        // On other systems, the process and the moment of its start serve as well.
        "" => format!("{host}_{}-{:x}", std::process::id(), jiff::Timestamp::now().as_nanosecond()),
        uuid => format!("{host}_{uuid}"),
    }
}

/// Parses the timeout of a write. A successor waits for the longest write, and cannot know the
/// flags of its predecessor.
fn write_timeout(text: &str) -> Result<Duration, String> {
    let timeout = positive_duration(text)?;
    if timeout > WRITE_TIMEOUT_MAX {
        return Err(format!(
            "must be {} s at most, which is how long a successor waits",
            WRITE_TIMEOUT_MAX.as_secs()
        ));
    }
    Ok(timeout)
}

/// Checks the name of an object.
pub(super) fn object_name(text: &str) -> Result<String, String> {
    if is_object_name(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("is not the name of an object: {OBJECT_RULE}"))
    }
}

/// Checks the name of a namespace.
pub(super) fn namespace_name(text: &str) -> Result<String, String> {
    if is_namespace_name(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("is not the name of a namespace: {NAMESPACE_RULE}"))
    }
}

pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err("must be more than 0".to_owned()),
        duration => Ok(duration),
    }
}
