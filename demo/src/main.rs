//! The part of the demo that shows what happens. It only looks: `demo/demo.sh` starts the cluster
//! and submits the manifests.
//!
//! - [`cluster`]: reads the cluster, and makes a [`look`] of it
//! - [`expect`]: the expectation that a manifest states
//! - [`board`]: the phase of each job, and whether the job does as expected; [`show`]: its display
//! - [`backlog`]: the promised starts, beside the observed ones

mod backlog;
mod board;
mod cluster;
mod expect;
mod look;
mod show;

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Parser, Subcommand};
use fluxqueue::simulate::output::{self, Format};

use backlog::Backlog;
use board::Board;
use cluster::{Cluster, ClusterFlags};
use show::Screen;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// Watches the jobs of the demo, and says whether they did what they should. It changes nothing.
#[derive(Debug, Parser)]
#[command(name = "board")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    flags: ClusterFlags,
    /// The demo has failed if it takes longer than this, in seconds
    #[arg(long, default_value_t = 240, global = true)]
    seconds_max: u64,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show each job with the annotation fluxqueue-demo/expect, and whether it does as that says
    Examples,
    /// Show jobs with walltimes: the promised start of each, beside the observed one
    Backlog {
        /// The file for the Gantt chart, as SVG
        #[arg(long)]
        chart: PathBuf,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let _ = rustls::crypto::ring::default_provider().install_default();
    match run(&arguments).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("board: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let cluster = Cluster::connect(&arguments.flags)
        .await
        .context("finding out how to reach the API server")?;
    let end = Duration::from_secs(arguments.seconds_max);
    match &arguments.command {
        Command::Examples => watch_examples(&cluster, end).await,
        Command::Backlog { chart } => watch_backlog(&cluster, end, chart).await,
    }
}

/// Watches until all jobs are as their manifests say, or the time is up.
async fn watch_examples(cluster: &Cluster, end: Duration) -> anyhow::Result<bool> {
    let (begun, mut board, mut screen) = (Instant::now(), Board::default(), Screen::default());
    let mut failed = None;
    while begun.elapsed() < end && !board.is_settled() {
        // A look that fails does not end the demo: the API server may be busy.
        match cluster.look().await {
            Ok(look) => {
                board.take(&look, begun.elapsed());
                screen.show(&board, begun.elapsed());
            }
            Err(error) => failed = Some(error),
        }
        tokio::time::sleep(PAUSE).await;
    }
    if let Some(error) = failed.filter(|_| board.jobs.is_empty()) {
        return Err(error).context("looking at the cluster");
    }
    if !board.is_settled() {
        println!("\n== Not all jobs did what their manifests say within {} s", end.as_secs());
    }
    let (table, wrong) = show::verdicts(&board, &cluster.scheduled().await?);
    print!("{table}");
    Ok(wrong == 0 && !board.jobs.is_empty())
}

/// Watches until all Jobs have ended, or the time is up.
async fn watch_backlog(cluster: &Cluster, end: Duration, chart: &Path) -> anyhow::Result<bool> {
    let (begun, mut backlog, mut said) = (Instant::now(), Backlog::default(), [0; 4]);
    let jobs = cluster.jobs().await.context("looking at the cluster")?;
    while begun.elapsed() < end && !backlog.is_over(jobs) {
        if let Ok(seen) = cluster.flux_jobs().await {
            backlog.take(&seen);
        }
        let counts @ [_, waiting, running, ended] = backlog.counts();
        if counts != said {
            println!(
                "{:>4} s  {waiting} wait, {running} run, {ended} have ended",
                begun.elapsed().as_secs()
            );
            said = counts;
        }
        tokio::time::sleep(PAUSE).await;
    }
    let (table, wrong) = backlog.table();
    print!("\n{table}");
    let file = File::create(chart).with_context(|| format!("writing {}", chart.display()))?;
    output::write(&backlog.outcome(), Format::Svg, &mut BufWriter::new(file))
        .with_context(|| format!("writing {}", chart.display()))?;
    println!("\nThe Gantt chart of the jobs: {}", chart.display());
    Ok(wrong == 0 && backlog.is_over(jobs))
}
