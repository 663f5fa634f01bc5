//! `fluxqueue simulate`: runs a trace of jobs, or manifests, in virtual time; or asks when a job
//! would start on a cluster (`what_if`).

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use fluxion_sys::FunctionTable;
use fluxqueue_core::{CoreSettings, QueuePolicy};

use super::what_if::WhatIfArgs;
use crate::simulate::machine;
use crate::simulate::output::{self, Format};
use crate::simulate::progress::Progress;
use crate::simulate::swf::{Trace, TraceError};
use crate::simulate::{self, Outcome, Skipped, policy_name, world};

#[derive(Debug, Args)]
pub(super) struct SimulateArgs {
    /// A trace in the Standard Workload Format
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present_any = ["workload", "from_cluster"],
        conflicts_with = "workload"
    )]
    trace: Option<PathBuf>,

    /// The number of nodes, all alike; a processor of the trace is a node [default: MaxProcs of the
    /// trace's header, else MaxNodes]
    #[arg(
        long,
        value_name = "COUNT",
        conflicts_with = "workload",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    nodes: Option<u32>,

    /// Manifests of nodes, for --workload
    #[arg(long, value_name = "FILE", requires = "workload")]
    cluster: Option<PathBuf>,

    /// Manifests of Pods, Jobs, Deployments, ReplicaSets and StatefulSets, instead of a trace. The
    /// annotations fluxqueue/simulated-submit and fluxqueue/simulated-run say when each is
    /// submitted, and how long it runs
    #[arg(long, value_name = "FILE", requires = "cluster")]
    workload: Option<PathBuf>,

    /// The rule by which jobs may start before others: fcfs, easy, hybrid or conservative
    #[arg(long, value_name = "POLICY", default_value = "easy", value_parser = policy)]
    policy: QueuePolicy,

    /// With hybrid, how many waiting jobs hold a reservation [default: 64]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    reservation_depth: Option<u32>,

    /// The format of the output
    #[arg(long, value_enum, default_value_t = Format::Table)]
    output: Format,

    #[command(flatten)]
    what_if: WhatIfArgs,
}

// === impl SimulateArgs ===

impl SimulateArgs {
    /// Simulates, and shows the outcome.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let SimulateArgs {
            trace,
            nodes,
            cluster,
            workload,
            policy,
            reservation_depth,
            output,
            what_if,
        } = self;
        if what_if.is_asked() {
            return what_if.run(output);
        }
        let settings = settings(policy, reservation_depth)?;
        let outcome = match (trace, cluster.zip(workload)) {
            (Some(trace), _) => of_trace(&trace, nodes, &settings)?,
            (None, Some((cluster, workload))) => {
                let progress = &mut Progress::on_stderr();
                world::run((&cluster, &workload), &settings, FunctionTable::builtin(), progress)?
            }
            (None, None) => bail!("give either --trace, or --cluster and --workload"),
        };
        // The table has these lines already.
        if output != Format::Table {
            eprint!("{}", output::left_out(&outcome));
        }
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        output::write(&outcome, output, &mut out)
            .and_then(|()| out.flush())
            .context("writing the outcome")
    }
}

/// Returns the settings of the core.
fn settings(policy: QueuePolicy, reservation_depth: Option<u32>) -> anyhow::Result<CoreSettings> {
    if let Some(depth) = reservation_depth
        && policy != QueuePolicy::Hybrid
    {
        eprintln!(
            "--reservation-depth {depth} has no effect: it is for --policy hybrid, not {}",
            policy.as_str()
        );
    }
    let reservation_depth = reservation_depth.map(usize::try_from).transpose()?;
    Ok(simulate::settings(policy, reservation_depth))
}

fn policy(name: &str) -> Result<QueuePolicy, String> {
    let known = || QueuePolicy::ALL.map(QueuePolicy::as_str).join(", ");
    QueuePolicy::from_name(name)
        .ok_or_else(|| format!("is not known; the policies are {}", known()))
}

fn of_trace(path: &Path, nodes: Option<u32>, settings: &CoreSettings) -> anyhow::Result<Outcome> {
    let file = path.display().to_string();
    let input =
        File::open(path).map_err(|source| TraceError::Unreadable { file: file.clone(), source })?;
    let trace = Trace::read(&file, BufReader::new(input))?;
    // With a given number of nodes, the header need not be readable.
    let nodes = if nodes.is_some() { nodes } else { trace.processors(&file)? };
    let Some(nodes) = nodes else {
        bail!("--nodes is needed: the header of {file} has no MaxProcs")
    };
    let (jobs, skipped): (_, Vec<Skipped>) = machine::jobs_for(&trace, nodes);
    let ran =
        machine::run(&jobs, nodes, settings, FunctionTable::builtin(), &mut Progress::on_stderr())?;
    let title = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let remarks = match trace.parts {
        0 => None,
        1 => Some(
            "1 line is left out: it describes a part of a job (status 2 to 4) that has a line for \
             the whole"
                .to_owned(),
        ),
        parts => Some(format!(
            "{parts} lines are left out: they describe parts of jobs (status 2 to 4) that have a \
             line for the whole"
        )),
    };
    Ok(Outcome {
        title,
        policy: policy_name(settings),
        nodes,
        node_names: Vec::new(),
        ran,
        skipped,
        remarks: remarks.into_iter().collect(),
    })
}
