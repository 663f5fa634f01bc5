//! Time that `fluxqueue simulate` needs for a long trace on a large machine.
//!
//! `cargo bench --bench simulate` runs 100,000 jobs on 5,000 nodes with `easy`, once with a load
//! that the machine can just carry and once with a greater one, so that the queue grows to the end.
//! `FLUXQUEUE_BENCH_JOBS` (100,000) is the number of jobs. `cargo test` runs it with very few, to
//! show that it still works: the times of such a run mean nothing.

#[path = "../tests/splitmix.rs"]
mod splitmix;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use fluxion_sys::FunctionTable;
use fluxqueue::simulate::machine::{self, Job};
use fluxqueue::simulate::progress::Progress;
use fluxqueue::simulate::{Outcome, report::Report};
use fluxqueue_core::{CoreError, QueuePolicy};
use splitmix::SplitMix;

const NODES: u32 = 5_000;
const JOBS: u64 = 100_000;
/// Nodes in a test: few enough for a debug build.
const NODES_OF_A_TEST: u32 = 100;
const JOBS_OF_A_TEST: u64 = 50;
/// Node time that the arriving jobs need, in percent of the machine's.
const LOADS: [u64; 2] = [95, 110];
const LIMIT: Duration = Duration::from_mins(2);

struct Rng(SplitMix);

impl Rng {
    /// Returns a number from `least` to `most`, both included.
    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.next() % (most - least + 1)
    }

    /// Returns a number from 1 to less than 2^`powers`, as often below 2^n as between that and
    /// 2^(n+1).
    fn power(&mut self, powers: u64) -> u64 {
        let least = 1 << self.between(0, powers - 1);
        self.between(least, 2 * least - 1)
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    if filter.is_some_and(|filter| !"simulate".contains(filter.as_str())) {
        return ExitCode::SUCCESS;
    }
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    match if is_bench { bench() } else { test() } {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn bench() -> Result<(), CoreError> {
    let jobs = std::env::var("FLUXQUEUE_BENCH_JOBS")
        .ok()
        .and_then(|jobs| jobs.parse().ok())
        .unwrap_or(JOBS);
    println!(
        "| `simulate`, easy, {NODES} nodes | must be under | took | utilisation | waiting at most | met |"
    );
    println!("|---|---|---|---|---|---|");
    for load in LOADS {
        let (took, report) = run(jobs, NODES, load)?;
        let (took_secs, utilisation, waiting) =
            (took.as_secs_f64(), 100.0 * report.utilisation, report.queue_length.max);
        let met = if took < LIMIT { "yes" } else { "no" };
        println!(
            "| {jobs} jobs, load {load} % | {} s | {took_secs:.1} s | {utilisation:.1} % | {waiting} | {met} |",
            LIMIT.as_secs()
        );
    }
    Ok(())
}

fn test() -> Result<(), CoreError> {
    for load in LOADS {
        let (_, report) = run(JOBS_OF_A_TEST, NODES_OF_A_TEST, load)?;
        assert_eq!(report.jobs as u64, JOBS_OF_A_TEST);
    }
    println!("1 passed, 0 failed");
    Ok(())
}

fn run(count: u64, nodes: u32, load: u64) -> Result<(Duration, Report), CoreError> {
    let jobs = trace(count, nodes, load);
    let settings = fluxqueue::simulate::settings(QueuePolicy::Easy, None);
    let begin = Instant::now();
    let ran =
        machine::run(&jobs, nodes, &settings, FunctionTable::builtin(), &mut Progress::none())?;
    let took = begin.elapsed();
    let outcome = Outcome {
        title: String::new(),
        policy: String::new(),
        nodes,
        node_names: Vec::new(),
        ran,
        skipped: Vec::new(),
        remarks: Vec::new(),
    };
    Ok((took, Report::of(&outcome)))
}

/// Makes many small jobs and some large ones, of a minute to a day. Most end before their walltime.
/// They arrive at random instants.
fn trace(count: u64, machine: u32, load: u64) -> Vec<Job> {
    let mut rng = Rng(SplitMix(7));
    let mut jobs: Vec<Job> = (1..=count)
        .map(|number| {
            let powers = if rng.between(1, 10) == 1 { 12 } else { 7 };
            let nodes = u32::try_from(rng.power(powers)).unwrap_or(machine).min(machine);
            let walltime = 60 * rng.power(10);
            let run = if rng.between(1, 3) == 1 { walltime } else { rng.between(1, walltime) };
            Job { number, submit: 0, nodes, walltime, run }
        })
        .collect();
    let work: u64 = jobs.iter().map(|job| u64::from(job.nodes) * job.run).sum();
    let last = work * 100 / u64::from(machine) / load;
    for job in &mut jobs {
        job.submit = rng.between(0, last);
    }
    jobs
}
