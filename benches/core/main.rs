//! Cost of the core without I/O: from events to actions, including records, on a large cluster with
//! a long queue.
//!
//! `cargo bench --bench core` prints a table of events, medians and limits. `FLUXQUEUE_BENCH_NODES`
//! (5,000) scales everything. `FLUXQUEUE_BENCH_SECONDS` (6) limits the rounds of one row.
//! `FLUXQUEUE_BENCH_ROW` selects rows by a part of their names, and `FLUXQUEUE_BENCH_SCENE` selects
//! scenes, separated by commas. `cargo test` runs everything once with very few nodes, to show that
//! it still works: the times of such a run mean nothing.
//!
//! - [`scene`]: the cluster and the queue
//! - [`turning`]: a loop around the core, from events to actions and back, and the stopwatch
//! - [`rows`]: the measurements
//! - [`table`]: the output

mod rows;
mod scene;
mod table;
mod turning;

use std::process::ExitCode;
use std::time::Duration;

use fluxqueue_core::QueuePolicy;
use rows::{Row, Samples, measure};
use scene::{Size, Twist};
use turning::{Restless, policy};

const NODES: u64 = 5_000;
const ROW_SECONDS: u64 = 6;

/// Nodes in a test: few enough for a debug build.
const NODES_OF_A_TEST: usize = 100;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    if filter.is_some_and(|filter| !"core".contains(filter.as_str())) {
        return ExitCode::SUCCESS;
    }
    let result =
        if arguments.iter().any(|argument| argument == "--bench") { bench() } else { test() };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Restless) => {
            eprintln!("the core does not come to rest");
            ExitCode::FAILURE
        }
    }
}

fn bench() -> Result<(), Restless> {
    let nodes = usize::try_from(number("FLUXQUEUE_BENCH_NODES", NODES)).unwrap_or(usize::MAX);
    let row_time = Duration::from_secs(number("FLUXQUEUE_BENCH_SECONDS", ROW_SECONDS));
    let size = Size { nodes };
    let asked = std::env::var("FLUXQUEUE_BENCH_SCENE").unwrap_or_default();
    let asked: Vec<&str> = asked.split(',').collect();
    let run = |name: &str, twist| -> Result<Samples, Restless> {
        if !asked.iter().any(|asked| name.contains(asked)) {
            return Ok(Samples::default());
        }
        eprintln!(
            "core: {name}: making {nodes} nodes, {} running pods and {} gangs",
            nodes * 10,
            size.gangs()
        );
        let samples = measure(size, twist, row_time)?;
        eprintln!("core: {name}: at rest after {:.1} s", samples.making.as_secs_f64());
        Ok(samples)
    };
    let plain = run("plain", Twist::None)?;
    let repeller = run("anti-affinity", Twist::Repeller)?;
    let completions = run("completions", Twist::Completions)?;
    let queues = run("ten queues", Twist::Queues)?;
    let passed = format!("after {} completions of one Job", completions.completed);
    table::print(
        &plain,
        &[
            ("with a pod that repels others", 1.5, repeller),
            (&passed, 1.5, completions),
            ("in ten queues", 1.2, queues),
        ],
    );
    Ok(())
}

/// Runs every row of every scene once.
fn test() -> Result<(), Restless> {
    let size = Size { nodes: NODES_OF_A_TEST };
    for twist in [Twist::None, Twist::Repeller, Twist::Completions, Twist::Queues] {
        let samples = measure(size, twist, Duration::ZERO)?;
        assert_eq!(
            samples.known_ends,
            size.ends(),
            "running pods have other ends than they should"
        );
        assert!(
            policy() == QueuePolicy::Fcfs || samples.reservations > 0,
            "nobody holds a reservation"
        );
        for row in Row::of(policy(), twist).iter().copied() {
            assert!(samples.times.contains_key(&row), "no round of: {}", row.name());
            assert!(!samples.restless.contains(&row), "no rest: {}", row.name());
        }
    }
    println!("1 passed, 0 failed");
    Ok(())
}

/// Reads a number from the environment.
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}
