//! The cost of a no: refused reservations, several shapes that do not fit; and what
//! grows with the graph and with the question: `find` by names, `add_subgraph`.
//!
//! `cargo bench -p fluxion-sys --bench refusing [-- NODES]`. Through the C ABI, medians in
//! microseconds. On each node something ends at an instant of its own, so that a reservation that
//! is tried at each of them would cost nodes times nodes. Beside a refused reservation stands the
//! refused match of the same request. Instructions are counted with
//!
//!     valgrind --tool=callgrind --toggle-collect='*refusing*measured*' BENCH NODES ROW
#![allow(clippy::unwrap_used, reason = "a bench may panic")]

mod machine;

use std::ffi::{CStr, CString};
use std::time::{Duration, Instant};

use fluxion_sys::{match_op, match_op_t};
use machine::{Context, Parts, jgf, jobspec, slots, whole_nodes};

const CORES: Parts<'static> = &[("core", 3, 1)];
const CPU: Parts<'static> = &[("cpu", 1, 10)];

/// The rows of one size.
struct Table {
    nodes: u64,
    /// What must be part of a row's name.
    only: Option<String>,
}

/// Runs the work that is measured.
#[inline(never)]
fn measured<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let started = Instant::now();
    let answer = work();
    (started.elapsed(), answer)
}

impl Table {
    fn row(&self, what: &str, times: usize, mut once: impl FnMut() -> Duration) {
        if self.only.as_ref().is_some_and(|only| !what.contains(only.as_str())) {
            return;
        }
        let mut took: Vec<f64> = (0..times).map(|_| once().as_secs_f64() * 1e6).collect();
        took.sort_by(f64::total_cmp);
        println!("| {what}, {} nodes | {:.1} |", self.nodes, took[took.len() / 2]);
    }

    /// A request that finds no place: now, and as a reservation.
    fn refused(&self, what: &str, context: &mut Context, spec: &CStr) {
        let mut refuse = |op: match_op_t| {
            let (took, found) = measured(|| context.try_match(op, spec));
            assert!(found.is_none(), "{what}: there is a place");
            took
        };
        self.row(&format!("{what}: match"), 9, || refuse(match_op::ALLOCATE_W_SATISFIABILITY));
        self.row(&format!("{what}: reservation"), 9, || refuse(match_op::ALLOCATE_ORELSE_RESERVE));
    }
}

/// Three cores of a node, each of which has lost one for ever and another to an instant.
fn whole(table: &Table) {
    let nodes = table.nodes;
    for policy in ["first", "low", "lonode"] {
        let mut context = Context::new("jgf", policy, &jgf(nodes, CORES), "");
        let each =
            format!(r#"{{"type":"node","count":{nodes},"with":[{}]}}"#, slots(1, &[("core", 1)]));
        context.allocate(&jobspec(&each, 0, ""));
        for job in 0..nodes {
            context.allocate(&jobspec(&slots(1, &[("core", 1)]), 100 + job, ""));
        }
        let three = jobspec(&slots(1, &[("core", 3)]), 50, "");
        table.refused(&format!("3 cores of a node, {policy}"), &mut context, &three);
        let all = jobspec(&whole_nodes(nodes, 3), 50, "");
        table.refused(&format!("all nodes, {policy}"), &mut context, &all);
    }
}

/// Slots of 7 and of 4 of the 10 units that a node has, one more than fit, beside a reservation.
fn pools(table: &Table) {
    let nodes = table.nodes;
    let mut context = Context::of_pools(&jgf(nodes, CPU));
    for rank in 0..nodes {
        let end = 100 + rank;
        context.charge(
            1 + rank,
            &format!(r#"{{"label":"r","rank":{rank},"count":1,"with":{{"cpu":1}},"end":{end}}}"#),
        );
    }
    context.reserve(&jobspec(&slots(nodes, &[("cpu", 10)]), 50, ""));
    let shape = |label: &str, count: u64, cpu: u64| {
        slots(count, &[("cpu", cpu)]).replace("\"task\"", &format!("\"{label}\""))
    };
    let two = format!("{},{}", shape("task", nodes / 2, 7), shape("b", nodes + 1, 4));
    table.refused("two shapes, one slot too many", &mut context, &jobspec(&two, 50, ""));
}

/// Whole nodes, and units in them, of which each has lost one for ever and another to an instant.
fn whole_of_pools(table: &Table) {
    let nodes = table.nodes;
    for policy in ["first", "lonode"] {
        let graph = jgf(nodes, CPU);
        let mut context = Context::new("jgf", policy, &graph, r#","pool_types":["cpu"]"#);
        for rank in 0..nodes {
            for (first, end) in
                [(1, (100 + rank).to_string()), (nodes + 1, r#""never""#.to_owned())]
            {
                let charge = format!(
                    r#"{{"label":"r","rank":{rank},"count":1,"with":{{"cpu":1}},"end":{end}}}"#
                );
                context.charge(first + rank, &charge);
            }
        }
        let node = |with: &str| format!(r#"{{"type":"node","count":1,"with":[{with}]}}"#);
        for (what, resources) in [
            ("a node with pools", slots(1, &[("node", 1)])),
            ("all nodes with pools", slots(nodes, &[("node", 1)])),
            ("all units of a node", node(&slots(1, &[("cpu", 10)]))),
        ] {
            let spec = jobspec(&resources, 3_600, "");
            table.refused(&format!("{what}, {policy}"), &mut context, &spec);
        }
    }
}

/// Names that are not there, on a graph.
fn names(table: &Table) {
    let context = Context::new("jgf", "first", &jgf(table.nodes, CORES), "");
    for count in [1_000, 8_000] {
        let criteria = CString::new(format!("names=x[0-{}]", count - 1)).unwrap();
        table.row(&format!("find by {count} names"), 9, || {
            let (took, found) = measured(|| context.find(&criteria));
            assert_eq!(found, None);
            took
        });
    }
}

/// Nodes that come to a graph of one node, all at once.
fn growth(table: &Table) {
    let (one, all) = (jgf(1, CPU), CString::new(jgf(table.nodes, CPU)).unwrap());
    table.row("add_subgraph, nodes with pools", 5, || {
        let context = Context::of_pools(&one);
        measured(|| context.add_subgraph(&all)).0
    });
    let (one, all) = (jgf(1, CORES), CString::new(jgf(table.nodes, CORES)).unwrap());
    table.row("add_subgraph, nodes with cores", 5, || {
        let context = Context::new("jgf", "first", &one, "");
        measured(|| context.add_subgraph(&all)).0
    });
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let (size, only) = (arguments.next(), arguments.next());
    println!("| work | median (us) |\n|---|---|");
    for nodes in [250_u64, 1_000, 4_000, 16_384] {
        if size.as_ref().is_none_or(|size| *size == nodes.to_string()) {
            let table = Table { nodes, only: only.clone() };
            whole(&table);
            pools(&table);
            whole_of_pools(&table);
            names(&table);
            growth(&table);
        }
    }
}
