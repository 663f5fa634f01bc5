//! How long a large graph takes to load, and the memory that it occupies afterwards.
//!
//! `cargo bench -p fluxion-sys --bench loading`. Memory is all that the context has allocated and
//! not freed once it is made; the text of the graph, which is the caller's, is not counted. With
//! `FLUXION_LIBRARY=/path/to/libreapi_cli.so` the graphs without pools are loaded there too, once
//! each: the resident size before and after stands for its memory, which we cannot count.
#![allow(unsafe_code, reason = "an allocator that counts")]
#![allow(clippy::unwrap_used, reason = "a bench may panic")]

mod machine;

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use machine::{CORES, Context, PODS, POOLS, grug, jgf};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MB: f64 = 1e6;
const RUNS: usize = 5;

/// Asks this program to load one graph in the other library.
const THERE: &str = "there";

fn load(graph: &Graph) {
    let Graph { name, format, more, seconds, megabytes, .. } = *graph;
    let text = (graph.text)();
    let mut times = Vec::new();
    let (mut live, mut peak) = (0, 0);
    for _ in 0..RUNS {
        let before = LIVE.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let started = Instant::now();
        let context = Context::new(format, "lonode", &text, more);
        times.push(started.elapsed().as_secs_f64());
        // `Context::new` hands over a copy of the text; it is freed by now.
        live = LIVE.load(Ordering::Relaxed) - before;
        peak = PEAK.load(Ordering::Relaxed) - before - text.len();
        drop(context);
    }
    times.sort_by(f64::total_cmp);
    let aim = |aim: Option<f64>| aim.map_or_else(String::new, |aim| format!("{aim}"));
    #[expect(clippy::cast_precision_loss, reason = "megabytes to one digit")]
    let (live, peak) = (live as f64 / MB, peak as f64 / MB);
    print!(
        "| {name} | {} | {:.3} | {} | {live:.1} | {peak:.1} |",
        aim(seconds),
        times[RUNS / 2],
        aim(megabytes)
    );
    if machine::upstream().is_some() && !more.is_empty() {
        // Upstream has no pools.
        print!(" | |");
    } else if machine::upstream().is_some() {
        // In a process of its own: memory resident there was not freed here.
        let there =
            Command::new(std::env::current_exe().unwrap()).args([THERE, name]).output().unwrap();
        assert!(there.status.success(), "{}", String::from_utf8_lossy(&there.stderr));
        print!("{}", String::from_utf8_lossy(&there.stdout));
    }
    println!();
}

/// Loads a graph in the library that `FLUXION_LIBRARY` names, once.
fn load_there(format: &str, text: &str) {
    let library = machine::upstream().unwrap();
    let before = resident();
    let started = Instant::now();
    let context = Context::of(library, format, "lonode", text, "");
    let seconds = started.elapsed().as_secs_f64();
    print!(" {seconds:.3} | {:.1} |", resident() - before);
    drop(context);
}

/// Megabytes of this process in memory.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<f64>().unwrap() / 1e3
}

/// A graph that is loaded, and what that may cost.
struct Graph {
    name: &'static str,
    format: &'static str,
    text: fn() -> String,
    more: &'static str,
    seconds: Option<f64>,
    megabytes: Option<f64>,
}

const fn graph(name: &'static str, format: &'static str, text: fn() -> String) -> Graph {
    Graph { name, format, text, more: "", seconds: None, megabytes: None }
}

const GRAPHS: [Graph; 4] = [
    graph("JGF, 1000 nodes of cores", "jgf", || jgf(1_000, CORES)),
    Graph {
        seconds: Some(0.4),
        megabytes: Some(60.0),
        ..graph("JGF, 5000 nodes of cores", "jgf", || jgf(5_000, CORES))
    },
    Graph { more: POOLS, ..graph("JGF, 5000 nodes of pools", "jgf", || jgf(5_000, PODS)) },
    Graph {
        seconds: Some(1.5),
        megabytes: Some(250.0),
        ..graph("GRUG, 16384 nodes of 100 cores", "grug", || grug(16_384, 100))
    },
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, first, name] = &arguments[..]
        && first == THERE
    {
        let graph = GRAPHS.iter().find(|graph| graph.name == name).unwrap();
        return load_there(graph.format, &(graph.text)());
    }
    let there = machine::upstream().is_some();
    let (head, line) =
        if there { (" FLUXION_LIBRARY (s) | after (MB) |", "---|---|") } else { ("", "") };
    println!(
        "| graph | must be under (s) | median (s) | must be under (MB) | after (MB) | at most meanwhile (MB) |{head}"
    );
    println!("|---|---|---|---|---|---|{line}");
    for graph in &GRAPHS {
        load(graph);
    }
}
