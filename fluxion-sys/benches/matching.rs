//! The costs of a match, a reservation and a cancel through the C ABI: JSON in, R out.
//!
//! `cargo bench -p fluxion-sys --bench matching [-- FILTER]`. After criterion's own lines comes a
//! table of medians beside the aims; with `FLUXION_LIBRARY=/path/to/libreapi_cli.so` the
//! rows that upstream can serve are measured there too, and stand in the same table. Of machines
//! larger than 1000 nodes these are few: upstream takes minutes to fill them.
#![allow(clippy::unwrap_used, reason = "a bench may panic")]

mod machine;
mod table;

use std::ffi::{CStr, CString};
use std::time::{Duration, Instant};

use criterion::Criterion;
use machine::{CORES, Context, PODS, POOLS, grug, jgf, jobspec, slots, two_shapes, whole_nodes};
use table::Table;

const HOUR: u64 = 3_600;

fn one_core() -> CString {
    jobspec(&slots(1, &[("core", 1)]), HOUR, "")
}

fn one_core_in_a_node() -> CString {
    jobspec(
        &format!(r#"{{"type":"node","count":1,"with":[{}]}}"#, slots(1, &[("core", 1)])),
        HOUR,
        "",
    )
}

/// The rows of 36 cores, 4 GPUs and memory.
fn cores(table: &mut Table, nodes: u64) {
    let graph = jgf(nodes, CORES);
    let name = |what: &str| format!("{what}, {nodes} nodes of cores");
    let large = nodes > 1_000;
    let short = table.is_short(nodes);
    let policies: &[&str] = if short {
        &["lonode", "first"]
    } else {
        &["lonode", "hinode", "high", "low", "locality", "first"]
    };
    for policy in policies.iter().copied() {
        let target = match policy {
            "first" => Some(if large { 20.0 } else { 15.0 }),
            "lonode" => Some(if large { 40.0 } else { 30.0 }),
            _ => Some(30.0).filter(|_| !large),
        };
        let mut context = table.context("jgf", policy, &graph, "");
        table.matching(&name(&format!("1 core, {policy}")), target, &mut context, &one_core());
        if short {
            continue;
        }
        table.matching(
            &name(&format!("1 core in 1 node, {policy}")),
            target,
            &mut context,
            &one_core_in_a_node(),
        );
        if ["lonode", "high"].contains(&policy) {
            let spec = jobspec(&whole_nodes(4, 36), HOUR, "");
            table.matching(
                &name(&format!("4 whole nodes, {policy}")),
                Some(150.0),
                &mut context,
                &spec,
            );
            let spec = jobspec(&slots(4, &[("node", 1)]), HOUR, "");
            table.matching(
                &name(&format!("4 slots of a node, {policy}")),
                Some(150.0),
                &mut context,
                &spec,
            );
            let spec = jobspec(&slots(1, &[("core", 4), ("gpu", 1), ("memory", 1)]), HOUR, "");
            let target = Some(30.0).filter(|_| policy == "lonode");
            table.matching(
                &name(&format!("4 cores, 1 GPU, memory, {policy}")),
                target,
                &mut context,
                &spec,
            );
            let spec = jobspec(&slots(1, &[("core", 1)]), HOUR, r#"{"properties":["arm"]}"#);
            table.matching(
                &name(&format!("1 core with a property, {policy}")),
                None,
                &mut context,
                &spec,
            );
            let rank = r#"{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0-35"}}],"nodelist":["node0"],"starttime":0,"expiration":3600}}"#;
            cancels(
                table,
                nodes,
                &mut context,
                &jobspec(&whole_nodes(4, 36), HOUR, ""),
                &CString::new(rank).unwrap(),
            );
        }
        // One after the other, so that each finds another machine than the one before it.
        let mut jobs = Vec::new();
        table.row(&name(&format!("1 core after another, {policy}")), None, || {
            if jobs.len() == 500 {
                for job in jobs.drain(..) {
                    context.cancel(job);
                }
            }
            let started = Instant::now();
            let granted = context.allocate(&one_core());
            let took = started.elapsed();
            jobs.push(granted.job);
            took
        });
        for job in jobs {
            context.cancel(job);
        }
        // A busy machine: three of four nodes are full.
        let whole = jobspec(&whole_nodes(1, 36), HOUR, "");
        for _ in 0..nodes * 3 / 4 {
            context.allocate(&whole);
        }
        table.matching(
            &name(&format!("1 core on a busy machine, {policy}")),
            None,
            &mut context,
            &one_core(),
        );
    }
}

fn cancels(table: &mut Table, nodes: u64, context: &mut Context, four: &CStr, rank: &CStr) {
    table.row(&format!("cancel of 1 core, {nodes} nodes of cores"), Some(10.0), || {
        let granted = context.allocate(&one_core_in_a_node());
        let started = Instant::now();
        context.cancel(granted.job);
        started.elapsed()
    });
    table.row(&format!("cancel of 4 nodes, {nodes} nodes of cores"), Some(10.0), || {
        let granted = context.allocate(four);
        let started = Instant::now();
        context.cancel(granted.job);
        started.elapsed()
    });
    if !context.has_partial_cancel() {
        return;
    }
    table.row(&format!("partial cancel of a rank, {nodes} nodes of cores"), Some(10.0), || {
        let granted = context.allocate(four);
        let first = granted
            .r
            .split_once("\"rank\": \"")
            .and_then(|(_, rest)| rest.split(['-', '"', ',']).next());
        let rank = CString::new(
            rank.to_str()
                .unwrap()
                .replace("\"rank\":\"0\"", &format!("\"rank\":\"{}\"", first.unwrap())),
        );
        let rank = rank.unwrap();
        let started = Instant::now();
        context.partial_cancel(granted.job, &rank);
        let took = started.elapsed();
        context.cancel(granted.job);
        took
    });
}

/// Reservations behind a machine full of jobs of 4 nodes.
fn reservations(table: &mut Table, nodes: u64) {
    let graph = jgf(nodes, CORES);
    let target = if nodes > 1_000 { 200.0 } else { 150.0 };
    let policies: &[&str] = if table.is_short(nodes) { &["first"] } else { &["first", "lonode"] };
    for policy in policies.iter().copied() {
        let mut context = table.context("jgf", policy, &graph, "");
        for job in 0..nodes / 4 {
            context.allocate(&jobspec(&whole_nodes(4, 36), HOUR + job * 10, ""));
        }
        let spec = jobspec(&whole_nodes(4, 36), HOUR, "");
        let name =
            format!("reserve 4 nodes behind {} jobs, {policy}, {nodes} nodes of cores", nodes / 4);
        table.reserving(&name, Some(target), &mut context, &spec);
        if table.is_short(nodes) {
            continue;
        }
        let name =
            format!("reserve 1 core behind {} jobs, {policy}, {nodes} nodes of cores", nodes / 4);
        table.reserving(&name, None, &mut context, &one_core_in_a_node());
        let all = jobspec(&whole_nodes(nodes / 2, 36), HOUR, "");
        let name = format!("reserve half of the machine, {policy}, {nodes} nodes of cores");
        if nodes <= 1_000 {
            table.reserving(&name, None, &mut context, &all);
            for _ in 0..1_000 {
                context.reserve(&one_core_in_a_node());
            }
            let name = format!(
                "reserve 1 core behind 1000 reservations, {policy}, {nodes} nodes of cores"
            );
            table.reserving(&name, None, &mut context, &one_core_in_a_node());
            let name = format!(
                "reserve 4 nodes behind 1000 reservations, {policy}, {nodes} nodes of cores"
            );
            table.reserving(&name, None, &mut context, &spec);
        }
    }
}

/// The worst cases of an index: holes everywhere, many jobs, requests that fit nowhere.
fn worst(table: &mut Table, nodes: u64) {
    let graph = jgf(nodes, CORES);
    // With the others upstream would take minutes to fill the machine.
    let policies: &[&str] =
        if table.other.is_some() { &["first"] } else { &["first", "lonode", "low"] };
    for policy in policies.iter().copied() {
        let mut context = table.context("jgf", policy, &graph, "");
        let jobs: Vec<u64> = (0..nodes * 36 / 3)
            .map(|_| context.allocate(&jobspec(&slots(1, &[("core", 3)]), HOUR, "")).job)
            .collect();
        for job in jobs.iter().step_by(6) {
            context.cancel(*job);
        }
        let held = jobs.len() - jobs.len().div_ceil(6);
        let name = |what: &str| {
            format!("{what}, fragmented ({held} jobs), {policy}, {nodes} nodes of cores")
        };
        table.matching(
            &name("4 cores"),
            None,
            &mut context,
            &jobspec(&slots(1, &[("core", 4)]), HOUR, ""),
        );
        table.soonest(
            &name("8 cores, now or later"),
            &mut context,
            &jobspec(&slots(1, &[("core", 8)]), HOUR, ""),
        );
        table.refusing(
            &name("refuse 40 cores on one node"),
            None,
            &mut context,
            &jobspec(&slots(1, &[("core", 40)]), HOUR, ""),
        );
        table.refusing(
            &name("refuse 5 GPUs on one node"),
            None,
            &mut context,
            &jobspec(&slots(1, &[("core", 1), ("gpu", 5)]), HOUR, ""),
        );
    }
}

/// The first match of a request that no match before resembled: every node is looked into.
fn first_of_its_kind(table: &mut Table, nodes: u64) {
    if table.is_short(nodes) {
        return;
    }
    let graph = jgf(nodes, CORES);
    for policy in ["low", "locality"] {
        let mut context = table.context("jgf", policy, &graph, "");
        let mut cores = 0;
        table.row(
            &format!("1 slot of other cores than before, {policy}, {nodes} nodes of cores"),
            None,
            || {
                // More kinds than are remembered.
                cores = cores % 30 + 1;
                let spec = jobspec(&slots(1, &[("core", cores)]), HOUR, "");
                let started = Instant::now();
                let granted = context.allocate(&spec);
                let took = started.elapsed();
                context.cancel(granted.job);
                took
            },
        );
    }
}

/// Pods on pools.
fn pools(table: &mut Table, nodes: u64) {
    let graph = jgf(nodes, PODS);
    let name = |what: &str| format!("{what}, {nodes} nodes of pools");
    let pod = slots(1, &[("cpu", 1_000), ("memory", 1 << 30), ("pods", 1)]);
    for policy in ["lonode", "first", "high", "locality", "binpack", "spread"] {
        let mut context = table.context("jgf", policy, &graph, POOLS);
        table.matching(
            &name(&format!("1 pod, {policy}")),
            Some(20.0),
            &mut context,
            &jobspec(&pod, HOUR, ""),
        );
    }
    if nodes >= 5_000 {
        // One pod per node, so that there is as much to write as with `spread`.
        let mut context = table.context("jgf", "lonode", &graph, POOLS);
        let whole = slots(5_000, &[("cpu", 32_000), ("memory", 1 << 30), ("pods", 1)]);
        table.matching(
            &name("gang of 5000, a node each"),
            None,
            &mut context,
            &jobspec(&whole, HOUR, ""),
        );
    }
    gangs(table, nodes);
    by_fill(table, nodes);
    let mut context = table.context("jgf", "lonode", &graph, POOLS);
    let arm = r#"{"properties":["arm"]}"#;
    let gang = |count: u64| slots(count, &[("cpu", 8_000), ("memory", 1 << 30), ("pods", 1)]);
    table.matching(
        &name("gang of 8 with a property"),
        Some(100.0).filter(|_| nodes == 1_000),
        &mut context,
        &jobspec(&gang(8), HOUR, arm),
    );
    if nodes >= 5_000 {
        table.matching(
            &name("gang of 5000"),
            Some(10_000.0),
            &mut context,
            &jobspec(&gang(5_000), HOUR, ""),
        );
    }
}

/// Gangs of two shapes with nodes of their own, a node each, on a machine of which three of four
/// nodes are full.
fn gangs(table: &mut Table, nodes: u64) {
    let name = |what: &str| format!("{what}, {nodes} nodes of pools");
    let mut context = Context::of_pools(&jgf(nodes, PODS));
    let whole = [("cpu", 32_000), ("memory", 1 << 30), ("pods", 1)];
    let fill = |context: &mut Context, node: u64| {
        context.allocate(&jobspec(&slots(1, &whole), HOUR, &format!(r#"{{"ranks":["{node}"]}}"#)));
    };
    for node in (0..nodes).filter(|node| node % 4 > 0) {
        fill(&mut context, node);
    }
    let pod = [("cpu", 8_000), ("memory", 1 << 30), ("pods", 1)];
    let ranks = || [0..nodes / 2, nodes / 4..nodes];
    let target = Some(if nodes > 5_000 { 120.0 } else { 100.0 });
    table.matching(
        &name("two shapes, 1 + 64"),
        target,
        &mut context,
        &two_shapes([1, 64], ranks(), &pod),
    );
    let free = nodes / 4;
    // All that is left is needed, and the first shape has to keep off the nodes of the second.
    let tight = two_shapes([free / 4 - 1, free - free / 4 - 1], ranks(), &pod);
    table.matching(&name("two shapes that only just fit"), None, &mut context, &tight);
    let too_many = two_shapes([free / 2, free / 2 + 1], ranks(), &pod);
    table.row(&name("refuse now two shapes that fit alone"), None, || {
        let started = Instant::now();
        let granted = context.try_match(fluxion_sys::match_op::ALLOCATE, &too_many);
        let took = started.elapsed();
        assert!(granted.is_none(), "there are not so many nodes");
        took
    });
}

/// The orders by how full nodes are, on machines that are not idle.
fn by_fill(table: &mut Table, nodes: u64) {
    let graph = jgf(nodes, PODS);
    let name = |what: &str| format!("{what}, {nodes} nodes of pools");
    let pod = jobspec(&slots(1, &[("cpu", 1_000), ("memory", 1 << 30), ("pods", 1)]), HOUR, "");
    let gang = jobspec(
        &slots(nodes.min(5_000), &[("cpu", 8_000), ("memory", 1 << 30), ("pods", 1)]),
        HOUR,
        "",
    );
    for policy in ["binpack", "spread"] {
        let mut context = table.context("jgf", policy, &graph, POOLS);
        let mut jobs = Vec::new();
        table.row(&name(&format!("1 pod after another, {policy}")), Some(20.0), || {
            if jobs.len() == 20_000 {
                for job in jobs.drain(..) {
                    context.cancel(job);
                }
            }
            let started = Instant::now();
            let granted = context.allocate(&pod);
            let took = started.elapsed();
            jobs.push(granted.job);
            took
        });
        for job in jobs {
            context.cancel(job);
        }
        if nodes >= 5_000 {
            table.matching(
                &name(&format!("gang of 5000, {policy}")),
                Some(10_000.0),
                &mut context,
                &gang,
            );
        }
        // Every other node is full, and the others hold something.
        for node in 0..nodes {
            let here = format!(r#"{{"ranks":["{node}"]}}"#);
            let cpu = if node % 2 == 0 { 32_000 } else { 1_000 + node % 20_000 };
            context.allocate(&jobspec(
                &slots(1, &[("cpu", cpu), ("memory", 1 << 30), ("pods", 1)]),
                HOUR,
                &here,
            ));
        }
        table.matching(
            &name(&format!("1 pod on a busy machine, {policy}")),
            Some(20.0),
            &mut context,
            &pod,
        );
        // The last node in order of fill is the only one that is admitted.
        let last = if policy == "binpack" { 1 } else { nodes - 2 };
        let last = jobspec(&slots(1, &[("pods", 1)]), HOUR, &format!(r#"{{"ranks":["{last}"]}}"#));
        table.matching(
            &name(&format!("1 pod on the last node in order, {policy}")),
            Some(20.0),
            &mut context,
            &last,
        );
        let most = if policy == "binpack" {
            r#"{"properties":["^arm"]}"#
        } else {
            r#"{"properties":["arm"]}"#
        };
        let most = jobspec(&slots(1, &[("pods", 1)]), HOUR, most);
        table.matching(
            &name(&format!("1 pod on the last half in order, {policy}")),
            None,
            &mut context,
            &most,
        );
        table.row(
            &name(&format!("1 pod after a gang of {} has ended, {policy}", nodes.min(5_000) / 2)),
            None,
            || {
                let half = jobspec(
                    &slots(nodes.min(5_000) / 2, &[("memory", 1 << 30), ("pods", 1)]),
                    HOUR,
                    "",
                );
                let job = context.allocate(&half).job;
                context.cancel(job);
                let started = Instant::now();
                let granted = context.allocate(&pod);
                let took = started.elapsed();
                context.cancel(granted.job);
                took
            },
        );
    }
}

/// How the cost of one core grows.
fn growth(table: &mut Table) {
    for nodes in [100, 400, 1_600, 6_400, 16_384] {
        if !table.wants("growth") {
            return;
        }
        let graph = grug(nodes, 36);
        for policy in ["first", "lonode", "high"] {
            let mut context = table.context("grug", policy, &graph, "");
            table.matching(
                &format!("growth: 1 core in 1 node, {policy}, {nodes} nodes"),
                None,
                &mut context,
                &one_core_in_a_node(),
            );
            table.matching(
                &format!("growth: 1 core, {policy}, {nodes} nodes"),
                None,
                &mut context,
                &one_core(),
            );
        }
    }
}

/// 1.65 million vertices.
fn large(table: &mut Table) {
    let graph = grug(16_384, 100);
    for (policy, target) in [("first", 20.0), ("lonode", 40.0)] {
        let mut context = table.context("grug", policy, &graph, "");
        table.matching(
            &format!("1 core, {policy}, 16384 nodes of 100 cores"),
            Some(target),
            &mut context,
            &one_core(),
        );
    }
}

/// What measures some of the rows.
type Part = fn(&mut Table);

fn main() {
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let criterion = Criterion::default()
        .sample_size(10)
        .without_plots()
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(200));
    let mut table = Table::new(criterion, filter);
    let parts: [(&str, Part); 12] = [
        ("1000 nodes of cores", |table| cores(table, 1_000)),
        ("5000 nodes of cores", |table| cores(table, 5_000)),
        ("reserve 1000 nodes of cores", |table| reservations(table, 1_000)),
        ("reserve 5000 nodes of cores", |table| reservations(table, 5_000)),
        ("fragmented 1000 nodes of cores", |table| worst(table, 1_000)),
        ("other 1000 nodes of cores", |table| first_of_its_kind(table, 1_000)),
        ("other 5000 nodes of cores", |table| first_of_its_kind(table, 5_000)),
        ("1000 nodes of pools", |table| pools(table, 1_000)),
        ("5000 nodes of pools", |table| pools(table, 5_000)),
        ("16384 nodes of pools", |table| pools(table, 16_384)),
        ("growth", growth),
        ("16384 nodes of 100 cores", large),
    ];
    // FLUXION_BENCH_PART picks a part, so that one need not wait for the machines of the others.
    let only = std::env::var("FLUXION_BENCH_PART").ok();
    let wanted = |name: &str| {
        only.as_ref().is_none_or(|only| only.split(',').any(|only| name.contains(only)))
    };
    let other = machine::upstream();
    for (name, part) in parts.iter().filter(|(name, _)| wanted(name)) {
        table.other = None;
        part(&mut table);
        // Upstream has no pools.
        if other.is_some() && !name.ends_with("pools") && *name != "growth" {
            table.other = other;
            part(&mut table);
        }
    }
    table.print();
}
