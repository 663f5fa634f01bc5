//! Logs: structured lines on stderr.

use anyhow::Context;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

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

/// Refuses words that are no level: a filter takes them for the names of modules, and the process
/// would log nothing.
fn check(level: &str) -> anyhow::Result<()> {
    let is_word = |part: &&str| part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    let wrong = level.split(',').map(str::trim).filter(is_word).find(|word| !is_level(word));
    match wrong {
        Some(wrong) => anyhow::bail!(
            "--log-level {level:?}: {wrong:?} is no level: give error, warn, info, debug, trace or \
             off, or a filter such as info,fluxqueue::kube=debug"
        ),
        None => Ok(()),
    }
}

/// Sends the process's logs to stderr. `level` is a level, or a filter per module such as
/// `info,fluxqueue::kube=debug`.
pub(super) fn start(format: LogFormat, level: &str) -> anyhow::Result<()> {
    check(level)?;
    let filter = EnvFilter::try_new(format!("{QUIET},{level}"))
        .with_context(|| format!("--log-level {level:?}"))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    }
    .map_err(|error| anyhow::anyhow!("starting the logs: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        let spans = "info,fluxqueue[step{job,pod}]=debug";
        for level in ["info", "WARN", "off", "info,fluxqueue::kube=debug", "fluxqueue::kube", spans]
        {
            check(level).unwrap();
        }
        for level in ["inof", "warning", "", "info,debgu"] {
            let error = check(level).unwrap_err().to_string();
            assert!(error.contains("is no level: give error"), "{error}");
        }
    }
}
