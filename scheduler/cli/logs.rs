//! Logs: structured lines on stderr.

use anyhow::Context;
use tracing_subscriber::EnvFilter;

/// The code that sends a request reports its failure, and says what it was for; the client's own
/// lines would only repeat that. A filter on the command line overrides this.
const QUIET: &str = "kube_client::client::builder=off,kube_runtime::watcher=error";

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Sends the process's logs to stderr. `level` is a level, or a filter per module such as
/// `info,fluxqueue::kube=debug`.
pub(super) fn start(format: LogFormat, level: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(format!("{QUIET},{level}"))
        .with_context(|| format!("--log-level {level:?}"))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    }
    .map_err(|error| anyhow::anyhow!("starting the logs: {error}"))
}
