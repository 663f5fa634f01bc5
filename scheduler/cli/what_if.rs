//! `fluxqueue simulate --from-cluster --submit`: asks the process that leads when a submission
//! would start.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use fluxqueue_api::manifest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use crate::kube::ask::{AskSettings, Leader, ask};
use crate::serve::what_if::{Answer, Delayed, Submitted, WITHIN, WITHIN_MAX, WhatIfOutcome};
use crate::settings::parse_duration;
use crate::simulate::output::Format;

#[derive(Debug, Args)]
#[command(next_help_heading = "With --from-cluster")]
pub(super) struct WhatIfArgs {
    /// Asks the cluster's Fluxqueue when the given objects would start if you submitted them now,
    /// and which jobs they would delay
    #[arg(
        long,
        requires = "submit",
        conflicts_with_all = ["trace", "nodes", "cluster", "workload", "reservation_depth"]
    )]
    from_cluster: bool,

    /// Manifests of the objects to be submitted: Jobs, Pods, Deployments, ReplicaSets,
    /// StatefulSets; - is stdin
    #[arg(long, value_name = "FILE", requires = "from_cluster")]
    submit: Option<PathBuf>,

    /// The namespace for objects that name none [default: the kubeconfig's]
    #[arg(long, short, value_name = "NAMESPACE", requires = "from_cluster")]
    namespace: Option<String>,

    /// The kubeconfig to use. Default: $KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE", requires = "from_cluster")]
    kubeconfig: Option<PathBuf>,

    /// The token by which the leader knows the client [default: the kubeconfig's]
    // This does not require --from-cluster, since the variable may be set for every command.
    #[arg(long, value_name = "TOKEN", hide_env_values = true, env = "FLUXQUEUE_TOKEN")]
    token: Option<String>,

    /// The time that the answer may take; 10s at most. A longer time looks further ahead [default:
    /// 0.15s]
    #[arg(long, value_name = "DURATION", requires = "from_cluster", value_parser = parse_duration)]
    within: Option<Duration>,

    /// The namespace of Fluxqueue and of its Lease
    #[arg(
        long,
        value_name = "NAMESPACE",
        requires = "from_cluster",
        default_value = "fluxqueue-system"
    )]
    leader_namespace: String,

    /// Name of the Lease
    #[arg(long, value_name = "NAME", requires = "from_cluster", default_value = "fluxqueue")]
    leader_lease: String,

    /// The port of the leader's --metrics-bind-address
    #[arg(long, value_name = "PORT", requires = "from_cluster", default_value_t = 10259)]
    leader_port: u16,

    /// Asks at this address, such as https://127.0.0.1:10259 of a kubectl port-forward, instead of
    /// the leader's
    #[arg(long, value_name = "URL", requires = "from_cluster")]
    leader: Option<http::Uri>,

    /// The certificate authority that signed the certificate of that address, as PEM
    #[arg(long, value_name = "FILE", requires = "leader")]
    leader_ca: Option<PathBuf>,

    /// Does not verify the certificate of that address: whatever answers there gets the token
    #[arg(long, requires = "leader", conflicts_with = "leader_ca")]
    insecure_skip_tls_verify: bool,
}

impl WhatIfArgs {
    /// True if a cluster is to be asked, so that nothing is simulated here.
    pub(super) fn is_asked(&self) -> bool {
        self.from_cluster
    }

    /// Asks, and shows the answer.
    pub(super) fn run(self, format: Format) -> anyhow::Result<()> {
        let WhatIfArgs {
            from_cluster: _,
            submit,
            namespace,
            kubeconfig,
            token,
            within,
            leader_namespace,
            leader_lease,
            leader_port,
            leader,
            leader_ca,
            insecure_skip_tls_verify,
        } = self;
        if !matches!(format, Format::Table | Format::Json) {
            bail!("--output: --from-cluster has only table and json");
        }
        let objects = objects(&submit.context("--submit is missing")?)?;
        let leader = match leader {
            Some(url) => {
                Leader::At { url, authority: leader_ca, is_trusted: insecure_skip_tls_verify }
            }
            None => Leader::OfLease {
                namespace: leader_namespace,
                lease: leader_lease,
                port: leader_port,
            },
        };
        let settings = AskSettings {
            kubeconfig,
            token,
            leader,
            within: within.unwrap_or(WITHIN).min(WITHIN_MAX),
        };
        let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
        let answer = runtime.block_on(ask(settings, objects, namespace))?;
        let text = match format {
            Format::Json => serde_json::to_string_pretty(&answer)? + "\n",
            _ => table(&answer),
        };
        Ok(std::io::stdout().write_all(text.as_bytes())?)
    }
}

fn objects(path: &Path) -> anyhow::Result<Vec<serde_json::Value>> {
    let file = path.display().to_string();
    let mut text = String::new();
    if file == "-" {
        std::io::stdin().read_to_string(&mut text).context("reading stdin")?;
    } else {
        text = std::fs::read_to_string(path).with_context(|| format!("reading {file}"))?;
    }
    manifest::documents(&text).map_err(|problem| anyhow::anyhow!("{file}: {problem}"))
}

fn table(answer: &Answer) -> String {
    let mut text = String::new();
    for job in &answer.submitted {
        let kind = format!("{:?}", job.kind);
        let _ = writeln!(text, "{kind} {}/{}: {}", job.namespace, job.name, outcome(job, answer));
        for blocked in &job.blocked_by {
            let _ = writeln!(text, "  {}: {}", blocked.reason, blocked.message);
        }
    }
    match answer.delayed.as_slice() {
        [] => text.push_str("It would delay no other job"),
        delayed => {
            let jobs = if answer.delayed_count == 1 { "job" } else { "jobs" };
            let _ = writeln!(text, "\nIt would delay {} {jobs}:\n", answer.delayed_count);
            let width = delayed.iter().map(|it| name(it).len()).max().unwrap_or(0).max(3);
            let _ = writeln!(text, "{:<width$}  {:<20}  {:<20}  BY", "JOB", "FROM", "TO");
            for job in delayed {
                let _ = writeln!(
                    text,
                    "{:<width$}  {:<20}  {:<20}  {}{}",
                    name(job),
                    clock(&job.from),
                    to(job),
                    job.seconds.map_or("-".to_owned(), duration),
                    if job.promised { ", promised" } else { "" },
                );
            }
            let more = answer.delayed_count.saturating_sub(delayed.len());
            if more > 0 {
                let _ = writeln!(text, "and {more} more");
            }
        }
    }
    match &answer.looked_until {
        Some(until) => {
            let _ = writeln!(
                text,
                "{}starts until {} were considered; a longer --within considers more",
                lead(answer),
                clock(until)
            );
        }
        None if answer.delayed.is_empty() => text.push_str(".\n"),
        None => {}
    }
    text
}

/// Returns the text before the remark that not all starts were considered.
fn lead(answer: &Answer) -> &'static str {
    if answer.delayed.is_empty() { ": " } else { "\nOnly " }
}

fn outcome(job: &Submitted, answer: &Answer) -> String {
    let place = job
        .position
        .map_or(String::new(), |position| format!(", place {position} in queue {}", job.queue));
    let till = |at: &MicroTime| at.0.as_second() - answer.as_of.0.as_second();
    match (job.outcome, &job.start, &job.not_by) {
        (WhatIfOutcome::Starts, Some(start), _) if till(start) <= 0 => match &job.all_start {
            Some(all) if till(all) > 0 => {
                format!("would start at once, all of it at {}", clock(all))
            }
            _ => format!("would start at once, in queue {}", job.queue),
        },
        (WhatIfOutcome::Starts, Some(start), _) => {
            let all = job.all_start.as_ref().filter(|all| *all != start);
            let all = all.map_or(String::new(), |all| format!(", all of it at {}", clock(all)));
            format!("would start at {}, in {}{all}{place}", clock(start), duration(till(start)))
        }
        (WhatIfOutcome::NotFound, _, Some(not_by)) => {
            format!(
                "would not start before {}; later times were not considered{place}",
                clock(not_by)
            )
        }
        (WhatIfOutcome::KeptOut, ..) => {
            job.state.map_or("would not wait".to_owned(), |state| format!("would be {state:?}"))
        }
        _ => format!("its start would have no known date{place}"),
    }
}

fn name(job: &Delayed) -> String {
    format!("{}/{}", job.namespace, job.flux_job)
}

fn to(job: &Delayed) -> String {
    match (&job.to, &job.not_by) {
        (Some(to), _) => clock(to),
        (None, Some(not_by)) => format!("after {}", clock(not_by)),
        (None, None) => "no known date".to_owned(),
    }
}

/// Formats an instant, to the second.
fn clock(at: &MicroTime) -> String {
    at.0.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Formats a duration as `1:02:03`, like the reports of simulations.
fn duration(seconds: i64) -> String {
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}
