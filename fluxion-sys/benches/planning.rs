//! The questions of a plan to the graph: matches beside standing reservations, reservations, moving
//! them, trials.
//!
//! `cargo bench -p fluxion-sys --bench planning [-- NODES]`. Through the C ABI, `placement` format,
//! pools of cpu, memory, pods and gpu. Busy: 70 % of the cpu and every GPU is taken, by 25,000
//! running slots with 1,250 different ends. Requests have a rank set of 32 ranges. Reserved pods
//! ask for 18 of 32 cpus, those of gangs for 7.5 cpus and 2 of 8 GPUs: neither fits now, which is
//! asserted. Medians of requests that were not made before: what varies is their duration, by a
//! second; beside them, of one that is made again and again.
#![allow(clippy::unwrap_used, reason = "a bench may panic")]

mod machine;

use std::ffi::CString;
use std::time::{Duration, Instant};

use machine::{Context, PODS_AND_GPUS, jgf};

const SLOTS: u64 = 25_000;
const ENDS: u64 = 1_250;
const HOUR: u64 = 3_600;
/// Longer than anything runs.
const LONG: u64 = 100 * HOUR;

/// A request, but for its duration.
struct Wish {
    slots: u64,
    needs: &'static str,
    policy: &'static str,
    /// Its wishes about levels.
    levels: &'static str,
}

const SMALL: &str =
    r#"{"type":"cpu","count":200},{"type":"memory","count":1073741824},{"type":"pods","count":1}"#;
const LARGE: &str = r#"{"type":"cpu","count":18000},{"type":"memory","count":1073741824},{"type":"pods","count":1}"#;
const GANG: &str =
    r#"{"type":"cpu","count":7500},{"type":"gpu","count":2},{"type":"pods","count":1}"#;
const NODE: &str = r#"{"type":"cpu","count":32000},{"type":"pods","count":1}"#;

const ONE_LARGE: Wish = Wish { slots: 1, needs: LARGE, policy: "first", levels: "" };
const GANG_OF_64: Wish = Wish { slots: 64, needs: GANG, policy: "first", levels: "" };
const ONE_RACK: &str = r#"{"level":"rack","within":"one"}"#;

impl Wish {
    fn jobspec(&self, nodes: u64, seconds: u64) -> CString {
        let Wish { slots, needs, policy, levels } = self;
        // All nodes but the last of each of 32 parts.
        let part = nodes.div_ceil(32);
        let ranges: Vec<String> = (0..32)
            .map(|at| format!("{}-{}", at * part, (at * part + part - 2).min(nodes - 1)))
            .collect();
        let ranks = ranges.join(",");
        CString::new(format!(
            r#"{{"version":1,"resources":[{{"type":"slot","count":{slots},"label":"0","with":[{needs}]}}],"tasks":[{{"command":["a"],"slot":"0","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":{seconds},"constraints":{{"ranks":["{ranks}"]}},"fluxion":{{"policy":"{policy}","levels":[{levels}]}}}}}}}}"#
        ))
        .unwrap()
    }
}

/// The rows of one machine, with what each must stay under, in microseconds.
struct Table {
    nodes: u64,
    size: usize,
}

impl Table {
    /// Numbers that are not the same twice.
    fn row(
        &self,
        what: &str,
        targets: Option<[f64; 3]>,
        times: usize,
        mut once: impl FnMut(u64) -> Duration,
    ) {
        // The first one makes the indexes that are kept.
        once(0);
        self.print(what, targets, median((1..=times as u64).map(once)), None);
    }

    /// Requests that were not made before, and beside them one that is repeated.
    fn both(
        &self,
        what: &str,
        targets: Option<[f64; 3]>,
        times: usize,
        mut once: impl FnMut(u64) -> Duration,
    ) {
        once(0);
        let new = median((1..=times as u64).map(&mut once));
        let repeated = median((1..=times as u64).map(|_| once(0)));
        self.print(what, targets, new, Some(repeated));
    }

    fn print(&self, what: &str, targets: Option<[f64; 3]>, new: f64, repeated: Option<f64>) {
        let target = targets.map(|targets| targets[self.size]);
        let aim = target.map_or_else(String::new, |target| target.to_string());
        let over = if target.is_some_and(|target| new >= target) { " **over**" } else { "" };
        let repeated = repeated.map_or_else(String::new, |repeated| format!("{repeated:.1}"));
        println!("| {what}, {} nodes | {aim} | {new:.1}{over} | {repeated} |", self.nodes);
    }

    /// Matches now, which are cancelled again.
    fn now(&self, context: &mut Context, what: &str, targets: [f64; 3], wish: &Wish, seconds: u64) {
        self.both(what, Some(targets), 300, |nth| {
            let spec = wish.jobspec(self.nodes, seconds + nth);
            let started = Instant::now();
            let granted = context.allocate(&spec);
            let took = started.elapsed();
            context.cancel(granted.job);
            took
        });
    }

    /// Reservations, which are cancelled again.
    fn later(&self, context: &mut Context, what: &str, targets: [f64; 3], wish: &Wish) {
        self.both(what, Some(targets), 100, |nth| {
            let spec = wish.jobspec(self.nodes, HOUR + nth);
            let started = Instant::now();
            let granted = context.reserve(&spec);
            let took = started.elapsed();
            assert!(granted.at > 0, "{what}: there was room now");
            context.cancel(granted.job);
            took
        });
    }
}

/// In microseconds.
fn median(took: impl Iterator<Item = Duration>) -> f64 {
    let mut took: Vec<f64> = took.map(|took| took.as_secs_f64() * 1e6).collect();
    took.sort_by(f64::total_cmp);
    took[took.len() / 2]
}

/// A busy machine, and the jobs that run on it.
fn busy(nodes: u64) -> (Context, u64) {
    let mut context = Context::of_pools(&jgf(nodes, PODS_AND_GPUS));
    let cpu = 32_000 * nodes * 7 / 10 / SLOTS;
    for slot in 0..SLOTS {
        let (rank, nth) = (slot % nodes, slot / nodes);
        let gpu = if nth == 0 { 8 } else { 0 };
        // Ends are spread over the slots as if by chance.
        let end = HOUR + 10 * (slot * 7_919 % ENDS);
        context.charge(
            slot + 1,
            &format!(
                r#"{{"label":"r","rank":{rank},"count":1,"with":{{"cpu":{cpu},"memory":1073741824,"pods":1,"gpu":{gpu}}},"end":{end}}}"#
            ),
        );
    }
    (context, SLOTS)
}

fn machine(nodes: u64, size: usize) {
    let table = Table { nodes, size };
    let (mut context, running) = busy(nodes);
    table.later(&mut context, "reserve one pod", [50.0, 100.0, 200.0], &ONE_LARGE);
    table.later(&mut context, "reserve 64 pods", [300.0, 1_000.0, 3_000.0], &GANG_OF_64);
    let half = Wish { slots: nodes / 2, needs: NODE, policy: "first", levels: "" };
    table.later(&mut context, "reserve half of the machine", [1_000.0, 5_000.0, 15_000.0], &half);
    let huge =
        Wish { slots: 1, needs: r#"{"type":"cpu","count":64000}"#, policy: "first", levels: "" };
    table.both("a refusal explained", Some([100.0, 300.0, 1_000.0]), 100, |nth| {
        let spec = huge.jobspec(nodes, HOUR + nth);
        let started = Instant::now();
        assert!(context.explain(&spec).contains("\"room\":0"));
        started.elapsed()
    });
    for policy in ["first", "binpack", "spread"] {
        let pod = Wish { slots: 1, needs: SMALL, policy, levels: "" };
        table.now(
            &mut context,
            &format!("one pod now, no reservation, {policy}"),
            [10.0, 12.0, 15.0],
            &pod,
            LONG,
        );
    }
    racks(&table, &mut context);
    let mut jobs = Vec::new();
    for nth in 0..1_000 {
        let wish = if nth % 10 == 9 { &GANG_OF_64 } else { &ONE_LARGE };
        let granted = context.reserve(&wish.jobspec(nodes, HOUR + nth));
        assert!(granted.at > 0);
        jobs.push(granted.job);
    }
    for policy in ["first", "binpack", "spread"] {
        let pod = Wish { slots: 1, needs: SMALL, policy, levels: "" };
        let what = format!("one pod now, 1,000 reservations standing that it outlasts, {policy}");
        table.now(&mut context, &what, [10.0, 12.0, 15.0], &pod, LONG);
        let what =
            format!("one pod now, 1,000 reservations standing, some before it ends, {policy}");
        table.now(&mut context, &what, [10.0, 12.0, 15.0], &pod, 2 * HOUR);
    }
    let targets = [100_000.0, 250_000.0, 600_000.0];
    let mut move_all = |context: &mut Context| {
        let started = Instant::now();
        // What can start now is no reservation any more.
        jobs.retain(|job| context.move_job(*job) > 0);
        started.elapsed()
    };
    table.row("1,000 reservations moved, nothing has changed", Some(targets), 5, |_| {
        move_all(&mut context)
    });
    // Those that end first are the ones that most reservations wait for.
    let mut ended = (0..running).filter(|slot| slot * 7_919 % ENDS < 40).map(|slot| slot + 1);
    table.row("1,000 reservations moved after one job has ended", Some(targets), 5, |_| {
        context.cancel(ended.next().unwrap());
        move_all(&mut context)
    });
    table.row("1,000 reservations moved after 100 jobs have ended", Some(targets), 3, |_| {
        for _ in 0..100 {
            context.cancel(ended.next().unwrap());
        }
        move_all(&mut context)
    });
    let gang = Wish { slots: 64, needs: SMALL, policy: "first", levels: "" };
    table.row("a trial: 10 jobs cancelled, 64 pods matched, all taken back", None, 50, |nth| {
        let spec = gang.jobspec(nodes, HOUR + nth);
        let started = Instant::now();
        context.trial(true);
        for job in 24_000..24_010 {
            context.cancel(job);
        }
        context.allocate(&spec);
        context.trial(false);
        started.elapsed()
    });
    table.row("a copy of the context, made and destroyed", None, 5, |_| {
        let started = Instant::now();
        context.copy();
        started.elapsed()
    });
    packed(&table);
}

/// Gangs within one of the racks of 32 nodes, and spread over all of them; requests of two shapes.
fn racks(table: &Table, context: &mut Context) {
    let nodes = table.nodes;
    for rack in 0..nodes.div_ceil(32) {
        let last = (rack * 32 + 31).min(nodes - 1);
        context.set_part(c"rack", &format!("{}-{last}", rack * 32), &format!("r{rack}"));
    }
    for policy in ["first", "binpack", "spread"] {
        let gang = Wish { slots: 32, needs: SMALL, policy, levels: ONE_RACK };
        let what = format!("gang of 32 within one rack of 32, now, {policy}");
        table.now(context, &what, [30.0, 50.0, 100.0], &gang, HOUR);
    }
    let gang = Wish { slots: 32, needs: GANG, policy: "first", levels: ONE_RACK };
    table.later(
        context,
        "gang of 32 within one rack of 32, reserved",
        [300.0, 1_000.0, 3_000.0],
        &gang,
    );
    let spread = r#"{"level":"rack","max_skew":1}"#;
    let gang = Wish { slots: 32, needs: SMALL, policy: "first", levels: spread };
    table.both("gang of 32 spread over all racks, now", None, 100, |nth| {
        let spec = gang.jobspec(nodes, HOUR + nth);
        let started = Instant::now();
        let granted = context.allocate(&spec);
        let took = started.elapsed();
        context.cancel(granted.job);
        took
    });
    let what = "two shapes with different node sets (1 + 64), limit of one per node, now";
    table.both(what, Some([100.0, 100.0, 120.0]), 100, |nth| {
        let spec = two_shapes(nodes, HOUR + nth);
        let started = Instant::now();
        let granted = context.allocate(&spec);
        let took = started.elapsed();
        context.cancel(granted.job);
        took
    });
}

/// A leader on any node but those of one half, and workers on the other nodes, one of either to a
/// node.
fn two_shapes(nodes: u64, seconds: u64) -> CString {
    let slot = |label: &str, count: u64| {
        format!(r#"{{"type":"slot","count":{count},"label":"{label}","with":[{SMALL}]}}"#)
    };
    let part = nodes.div_ceil(32);
    let set = |skip: u64| -> String {
        let range =
            |at: u64| format!("{}-{}", at * part, (at * part + part - 1 - skip).min(nodes - 1));
        (0..32).map(range).collect::<Vec<_>>().join(",")
    };
    CString::new(format!(
        r#"{{"version":1,"resources":[{},{}],"tasks":[{{"command":["a"],"slot":"a","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":{seconds},"fluxion":{{"policy":"first","max_per_node":[{{"labels":["a","b"],"count":1}}],"slots":[{{"label":"a","ranks":"{}"}},{{"label":"b","ranks":"{}"}}]}}}}}}}}"#,
        slot("a", 1),
        slot("b", 64),
        set(1),
        set(2),
    ))
    .unwrap()
}

/// One node has room, not far from the end.
fn packed(table: &Table) {
    let nodes = table.nodes;
    let mut context = Context::of_pools(&jgf(nodes, PODS_AND_GPUS));
    let free = nodes - nodes / 10;
    for rank in (0..nodes).filter(|rank| *rank != free) {
        let with = r#""cpu":31900,"pods":1"#;
        context.charge(
            1,
            &format!(r#"{{"label":"r","rank":{rank},"count":1,"with":{{{with}}},"end":"never"}}"#),
        );
    }
    for policy in ["first", "binpack", "spread"] {
        let pod = Wish { slots: 1, needs: SMALL, policy, levels: "" };
        let what = format!("one pod now on a packed machine, {policy}");
        table.now(&mut context, &what, [10.0, 12.0, 15.0], &pod, HOUR);
    }
}

fn main() {
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    println!(
        "| work | must be under (us) | median of new requests (us) | of one repeated |\n|---|---|---|---|"
    );
    for (size, nodes) in [1_000, 5_000, 16_384].into_iter().enumerate() {
        if only.as_ref().is_none_or(|only| *only == nodes.to_string()) {
            machine(nodes, size);
        }
    }
}
