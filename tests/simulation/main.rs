//! The simulation: the sans-IO core against a small model of the API server, of nodes, of users and
//! of other schedulers.
//!
//! Everything follows from a seed: news arrive late, repeated and out of order across objects;
//! writes fail, or take effect without an answer; the process dies between any two actions. After
//! every step the rules of docs/internals/simulation.md are checked ([`checks`]). Every few
//! hundred steps the system is brought to rest, and the test checks that everything that could
//! happen did ([`quiescence`], [`fairness`]).
//!
//! In worlds where nothing goes wrong on the way ([`punctual`]), a naive planner computes exactly
//! the promise of each job, and the cause of each delay ([`timely`]); and no job starves beside an
//! endless stream of small ones ([`streams`]). Worlds that run twice, with an adversary and
//! without, show that a tenant changes nothing for others ([`adversary`]).
//!
//! A failure prints its seed. `FLUXQUEUE_SIM_SEED=7 FLUXQUEUE_SIM_STEPS=5000 FLUXQUEUE_SIM_TRACE=1`
//! replays it, and shows the last events. `FLUXQUEUE_SIM_SABOTAGE=BindTwice` tries one saboteur.
//! `FLUXQUEUE_SIM_QUEUES=1` runs only worlds with queues: `FLUXQUEUE_SIM_SEEDS` of them, from
//! `FLUXQUEUE_SIM_FROM` on, of `FLUXQUEUE_SIM_STEPS` each. `FLUXQUEUE_SIM_ADVERSARY=1` does the
//! same for worlds with an adversary, and `FLUXQUEUE_SIM_GROUPS=1` for worlds with PodGroups.
//! `make simulation` does all three. `make digests` prints a digest of each run.

mod adversary;
mod channel;
mod checks;
mod controllers;
mod executor;
mod fairness;
mod foreign;
mod gangs;
mod instance;
mod intruders;
mod jobs;
mod kubelet;
mod late;
mod leak;
mod machine;
mod objects;
mod pod_groups;
mod promises;
mod punctual;
mod queues;
mod quiescence;
mod refusals;
mod rng;
mod roles;
mod room;
mod sabotage;
mod seating;
mod server;
mod simulation;
#[path = "../splitmix.rs"]
mod splitmix;
mod stats;
mod streams;
mod succession;
mod suspended;
mod timely;
mod trace;
mod view;
mod violation;
mod world;
mod writes;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use adversary::{ADVERSARY, Adversarial};
use machine::Factory;
use pod_groups::GROUPS;
use punctual::Punctual;
use rng::WHOLE;
use simulation::Simulation;
use stats::Stats;
use streams::{STREAMS, Streams};
use timely::{TIMELY, Timely};
use violation::Violation;

/// Seeds of a full run, and steps of each: a million in all, including those on another library.
const SEEDS: u64 = 300;
const STEPS: u64 = 2_800;

/// Seeds of worlds in which a naive planner is exact, and steps of each.
const TIMELY_SEEDS: u64 = 60;
const TIMELY_STEPS: u64 = 250;

/// Seeds of worlds in which small jobs come without end, and steps of each, which are seconds.
const STREAM_SEEDS: u64 = 40;
const STREAM_STEPS: u64 = 600;

/// Seeds of worlds with an adversary, and steps of each, which are seconds.
const ADVERSARY_SEEDS: u64 = 24;
const ADVERSARY_STEPS: u64 = 300;

/// Seeds of worlds with PodGroups.
const GROUP_SEEDS: u64 = 30;

/// Seeds on a Fluxion library without extensions.
const SEEDS_WITHOUT_EXTENSIONS: u64 = 60;

/// Environment variable that selects worlds with queues only, from the given seed on.
const ONLY_QUEUES: &str = "FLUXQUEUE_SIM_QUEUES";
/// Environment variable that selects worlds with PodGroups only, from the given seed of theirs on.
const ONLY_GROUPS: &str = "FLUXQUEUE_SIM_GROUPS";
/// Environment variable that selects worlds with an adversary only, from the given seed of theirs
/// on.
const ONLY_ADVERSARY: &str = "FLUXQUEUE_SIM_ADVERSARY";
const FROM: &str = "FLUXQUEUE_SIM_FROM";
/// Environment variable that prints only the digests of this number of runs of each kind of world.
const DIGESTS: &str = "FLUXQUEUE_SIM_DIGESTS";

/// Most characters of a failure's text that are printed.
const TEXT_MAX: usize = 1_500;

/// A test, which returns why it failed.
type Test = fn() -> Result<(), String>;

/// The outcome of one seed.
pub(crate) struct Run {
    pub(crate) stats: Stats,
    pub(crate) digest: u64,
    /// The number of steps that it made.
    pub(crate) steps: u64,
    /// The rule that was broken, and how; with the last lines of the trace if it was on.
    pub(crate) failure: Option<Failure>,
}

/// A rule that was broken, or a panic.
pub(crate) struct Failure {
    pub(crate) seed: u64,
    pub(crate) step: u64,
    pub(crate) rule: String,
    pub(crate) text: String,
    pub(crate) trace: Vec<String>,
}

/// Runs one seed for this number of steps.
pub(crate) fn run(seed: u64, steps: u64, factory: &Factory, traced: bool) -> Run {
    if seed >= ADVERSARY {
        let mut adversarial = Adversarial::new(seed, factory, traced);
        let broken = what_broke(|| adversarial.run(steps.min(ADVERSARY_STEPS)));
        let trace = if traced { adversarial.describe() } else { Vec::new() };
        let world = adversarial.into_world();
        let failure =
            broken.map(|(rule, text)| Failure { seed, step: world.steps, rule, text, trace });
        return of_world(world, failure);
    }
    if seed >= STREAMS {
        let mut streams = Streams::new(seed, factory, traced);
        let broken = what_broke(|| streams.run(steps.min(STREAM_STEPS)));
        let trace = || if traced { streams.describe() } else { Vec::new() };
        let failure = broken.map(|(rule, text)| Failure {
            seed,
            step: streams.world.steps,
            rule,
            text,
            trace: trace(),
        });
        return of_world(streams.world, failure);
    }
    if seed >= TIMELY {
        let mut timely = Timely::new(seed, factory, traced);
        let broken = what_broke(|| timely.run(steps.min(TIMELY_STEPS)));
        let trace = || if traced { timely.describe() } else { Vec::new() };
        let failure = broken.map(|(rule, text)| Failure {
            seed,
            step: timely.world.steps,
            rule,
            text,
            trace: trace(),
        });
        return of_world(timely.world, failure);
    }
    let mut simulation = Simulation::new(seed, factory, traced);
    let broken = what_broke(|| simulation.run(steps));
    let trace = || simulation.trace.lines().map(str::to_string).collect();
    let failure = broken.map(|(rule, text)| Failure {
        seed,
        step: simulation.steps,
        rule,
        text,
        trace: trace(),
    });
    Run {
        digest: simulation.trace.digest(),
        steps: simulation.steps,
        stats: simulation.stats,
        failure,
    }
}

fn of_world(world: Punctual, failure: Option<Failure>) -> Run {
    Run { digest: world.trace.digest(), steps: world.steps, stats: world.stats, failure }
}

/// Returns the rule that was broken, or a panic, with its text.
fn what_broke(run: impl FnOnce() -> Result<(), Violation>) -> Option<(String, String)> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => None,
        Ok(Err(violation)) => Some((violation.rule.to_string(), violation.text)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text
                .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
                .unwrap_or_default();
            Some(("nothing panics".to_string(), text))
        }
    }
}

fn main() -> ExitCode {
    // The one test of this binary is called `simulation`: a filter that names another runs nothing.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    if filter.is_some_and(|filter| !"simulation".contains(filter.as_str())) {
        println!("0 passed, 0 failed");
        return ExitCode::SUCCESS;
    }
    if let Some(seed) = number("FLUXQUEUE_SIM_SEED") {
        return replay(seed, number("FLUXQUEUE_SIM_STEPS").unwrap_or(STEPS));
    }
    if let Some(of_each_kind) = number(DIGESTS) {
        return print_digests(of_each_kind);
    }
    if std::env::var(ONLY_QUEUES).is_ok_and(|value| value != "0") {
        return judge(&[("every_rule_holds_with_queues", every_rule_holds_with_queues)]);
    }
    if std::env::var(ONLY_GROUPS).is_ok_and(|value| value != "0") {
        return judge(&[("pods_start_as_their_groups_say", pods_start_as_their_groups_say)]);
    }
    if std::env::var(ONLY_ADVERSARY).is_ok_and(|value| value != "0") {
        return judge(&[("no_tenant_hurts_another", no_tenant_hurts_another)]);
    }
    let tests: [(&str, Test); 8] = [
        ("no_tenant_hurts_another", no_tenant_hurts_another),
        ("no_job_starves_beside_a_stream", no_job_starves_beside_a_stream),
        ("every_promise_is_the_naive_planners", every_promise_is_the_naive_planners),
        ("pods_start_as_their_groups_say", pods_start_as_their_groups_say),
        ("every_rule_holds_for_every_seed", every_rule_holds_for_every_seed),
        ("every_rule_holds_without_extensions", every_rule_holds_without_extensions),
        ("one_seed_is_one_run", one_seed_is_one_run),
        ("each_sabotage_is_caught", sabotage::each_is_caught),
    ];
    let is_one_saboteur = std::env::var_os(sabotage::ONLY).is_some();
    judge(if is_one_saboteur { &tests[tests.len() - 1..] } else { &tests })
}

fn judge(tests: &[(&str, Test)]) -> ExitCode {
    let mut failed = 0;
    for (name, test) in tests {
        match test() {
            Ok(()) => println!("test {name} ... ok"),
            Err(why) => {
                failed += 1;
                println!("test {name} ... FAILED\n{why}");
            }
        }
    }
    println!("{} passed, {failed} failed", tests.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(seed: u64, steps: u64) -> ExitCode {
    let traced = std::env::var("FLUXQUEUE_SIM_TRACE").is_ok_and(|value| value != "0");
    let run = match sabotage::named() {
        Some(factory) => run(seed, steps, &factory, traced),
        None => run(seed, steps, machine::of_seed(seed), traced),
    };
    run.stats.lines().for_each(|line| println!("{line}"));
    let Some(failure) = run.failure else {
        println!("1 passed, 0 failed");
        return ExitCode::SUCCESS;
    };
    failure.trace.iter().for_each(|line| println!("{line}"));
    println!("{}\n0 passed, 1 failed", describe(&failure));
    ExitCode::FAILURE
}

/// Prints a digest of everything that happens in each run. Two versions of the program that do the
/// same print the same.
fn print_digests(of_each_kind: u64) -> ExitCode {
    let steps = number("FLUXQUEUE_SIM_STEPS").unwrap_or(STEPS);
    let kinds = [0, GROUPS, WHOLE, TIMELY, STREAMS, ADVERSARY];
    let seeds: Vec<u64> =
        kinds.into_iter().flat_map(|first| first + 1..=first + of_each_kind).collect();
    let (next, digests) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let run = run(seed, steps, machine::of_seed(seed), true);
                    let broken = run
                        .failure
                        .map_or_else(String::new, |failure| format!(" broken: {}", failure.rule));
                    let line = format!("{seed} {} steps {:016x}{broken}", run.steps, run.digest);
                    digests
                        .lock()
                        .expect("no thread panics while it holds the lock")
                        .insert(seed, line);
                }
            });
        }
    });
    let digests = digests.into_inner().expect("no thread panics while it holds the lock");
    for line in digests.values() {
        println!("{line}");
    }
    ExitCode::SUCCESS
}

fn describe(failure: &Failure) -> String {
    let Failure { seed, step, rule, text, .. } = failure;
    let text: String = text.chars().take(TEXT_MAX).collect();
    format!(
        "seed {seed}, step {step}: broken: {rule}\n  {text}\n  replay: {}FLUXQUEUE_SIM_SEED={seed} \
         FLUXQUEUE_SIM_STEPS={step} FLUXQUEUE_SIM_TRACE=1 cargo test --test simulation",
        environment()
    )
}

/// The variables that a replay needs to see the same run, in the form of a shell.
fn environment() -> String {
    std::env::var(machine::POLICY)
        .map_or_else(|_| String::new(), |policy| format!("{}={policy} ", machine::POLICY))
}

/// The main test: many seeds, all rules, and every event that a full run has to meet.
fn every_rule_holds_for_every_seed() -> Result<(), String> {
    every_rule_holds(1..=seeds(SEEDS))?.has_met(&stats::MUST_HAPPEN)
}

/// Pods start as the PodGroups say that they name, beside everything else that can happen.
fn pods_start_as_their_groups_say() -> Result<(), String> {
    let from = GROUPS + number(FROM).unwrap_or(1);
    every_rule_holds(from..from + seeds(GROUP_SEEDS))?.has_met(&pod_groups::MUST_HAPPEN)
}

/// The same rules on a Fluxion library with upstream's functions only.
fn every_rule_holds_without_extensions() -> Result<(), String> {
    every_rule_holds(WHOLE + 1..=WHOLE + seeds(SEEDS_WITHOUT_EXTENSIONS)).map(drop)
}

/// Every promise is the naive planner's.
fn every_promise_is_the_naive_planners() -> Result<(), String> {
    every_rule_holds(TIMELY + 1..=TIMELY + seeds(TIMELY_SEEDS))?.has_met(&timely::MUST_HAPPEN)
}

/// The first job in the queue starts, in spite of an endless stream behind it.
fn no_job_starves_beside_a_stream() -> Result<(), String> {
    every_rule_holds(STREAMS + 1..=STREAMS + seeds(STREAM_SEEDS))?.has_met(&streams::MUST_HAPPEN)
}

/// The acts of one tenant change nothing that others see.
fn no_tenant_hurts_another() -> Result<(), String> {
    let from = ADVERSARY + number(FROM).unwrap_or(1);
    every_rule_holds(from..from + seeds(ADVERSARY_SEEDS))?.has_met(&adversary::MUST_HAPPEN)
}

/// Worlds in which administrators make, change, stop and delete queues with limits. One of six
/// other worlds is such a world as well.
fn every_rule_holds_with_queues() -> Result<(), String> {
    let from = number(FROM).unwrap_or(1);
    let with_queues = (from..WHOLE).filter(|seed| machine::has_queues(*seed));
    let stats =
        every_rule_holds(with_queues.take(usize::try_from(seeds(SEEDS)).expect("so many fit")))?;
    stats.has_met(&queues::MUST_HAPPEN)
}

/// Returns the number of seeds: the environment's, or `otherwise`.
fn seeds(otherwise: u64) -> u64 {
    number("FLUXQUEUE_SIM_SEEDS").unwrap_or(otherwise)
}

/// Reads a number from the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn every_rule_holds(seeds: impl Iterator<Item = u64>) -> Result<Stats, String> {
    let begin = Instant::now();
    let steps = number("FLUXQUEUE_SIM_STEPS").unwrap_or(STEPS);
    let (seeds, next): (Vec<u64>, _) = (seeds.collect(), AtomicUsize::new(0));
    let gathered = Mutex::new((Stats::default(), Vec::new(), 0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let run = run(seed, steps, machine::of_seed(seed), false);
                    let mut gathered =
                        gathered.lock().expect("no thread panics while it holds the lock");
                    gathered.0.merge(&run.stats);
                    gathered.2 += run.steps;
                    // In long runs the reader sees a failure at once.
                    if let Some(failure) = run.failure {
                        eprintln!("{}", describe(&failure));
                        gathered.1.push(failure);
                    }
                }
            });
        }
    });
    let (stats, mut failures, steps) =
        gathered.into_inner().expect("no thread panicked while it held the lock");
    stats.lines().for_each(|line| println!("{line}"));
    println!("{steps} steps of {} seeds in {:.1} s", seeds.len(), begin.elapsed().as_secs_f64());
    failures.sort_by_key(|failure| failure.seed);
    if !failures.is_empty() {
        return Err(summarize(&failures));
    }
    Ok(stats)
}

/// Prints one failure of each rule in full, and how many there were.
fn summarize(failures: &[Failure]) -> String {
    let mut by_rule: BTreeMap<&str, Vec<&Failure>> = BTreeMap::new();
    for failure in failures {
        by_rule.entry(&failure.rule).or_default().push(failure);
    }
    let mut lines = Vec::new();
    for (rule, failures) in by_rule {
        let seeds: Vec<String> =
            failures.iter().map(|it| format!("{} (step {})", it.seed, it.step)).collect();
        lines.push(format!("{} seeds broke: {rule}: {}", failures.len(), seeds.join(", ")));
        lines.extend(
            failures.iter().min_by_key(|failure| failure.step).map(|failure| describe(failure)),
        );
    }
    lines.join("\n")
}

/// The same seed gives the same run, to the last byte of the trace; another seed another one.
fn one_seed_is_one_run() -> Result<(), String> {
    let digest = |seed| run(seed, 500, &machine::core, true).digest;
    if digest(3) != digest(3) {
        return Err("seed 3 ran in two ways".to_string());
    }
    if digest(3) == digest(4) { Err("seeds 3 and 4 ran alike".to_string()) } else { Ok(()) }
}
