//! Match throughput of the resource graph through the C ABI, with requests like the scheduler's.
//! Nodes are pools of CPU, memory and pods.
//!
//! `cargo bench --bench graph`. Each case allocates and cancels, so the graph is the same each
//! time. Machines differ and are noisy: read the ratios between cases of one run.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fluxion_sys::FunctionTable;
use fluxqueue_machine::fluxion::{End, Graph, Policy, RankSet, Request, SlotShape};
use fluxqueue_workload::Resources;

/// Makes a graph of nodes with 32 cores, 256 GiB and room for 110 pods.
fn machine(nodes: u32, policy: Policy) -> Graph {
    machine_on(FunctionTable::builtin(), nodes, policy)
}

fn machine_on(library: FunctionTable, nodes: u32, policy: Policy) -> Graph {
    let mut graph = Graph::new(library, policy).expect("a graph");
    let pools: Resources =
        [("cpu", 32_000), ("memory", 256 << 30), ("pods", 110)].into_iter().collect();
    for rank in 0..nodes {
        graph.add_node(rank, &format!("node-{rank}"), &pools).expect("a node");
    }
    graph
}

fn pod() -> Resources {
    [("cpu", 1_000), ("memory", 1 << 30), ("pods", 1)].into_iter().collect()
}

/// Shows how the cost of one pod grows with the machine, for each policy.
fn one_pod(c: &mut Criterion) {
    let mut group = c.benchmark_group("one pod");
    for nodes in [100, 1_000, 5_000, 16_384] {
        for policy in [Policy::First, Policy::Lonode, Policy::Hinode] {
            let mut graph = machine(nodes, policy);
            let pod = pod();
            let shapes = [SlotShape::of("0", 1, &pod)];
            group.bench_function(BenchmarkId::new(policy.as_str(), nodes), |b| {
                b.iter(|| {
                    let placed = graph.allocate(1, &Request::of(&shapes)).expect("a match");
                    graph.cancel(1).expect("it can be cancelled");
                    black_box(placed)
                });
            });
        }
    }
    group.finish();
}

/// Measures a full machine on which only the last node is free.
fn last_free_node(c: &mut Criterion) {
    let mut group = c.benchmark_group("one pod, one node free");
    for nodes in [1_000, 5_000] {
        let mut graph = machine(nodes, Policy::Lonode);
        let all: Resources = [("cpu", 32_000), ("pods", 1)].into_iter().collect();
        for rank in 0..nodes - 1 {
            graph.charge(u64::from(rank) + 10, rank, "0", &all, 1, End::Never).expect("a charge");
        }
        let pod = pod();
        let shapes = [SlotShape::of("0", 1, &pod)];
        group.bench_function(BenchmarkId::from_parameter(nodes), |b| {
            b.iter(|| {
                let placed = graph.allocate(1, &Request::of(&shapes)).expect("a match");
                graph.cancel(1).expect("it can be cancelled");
                black_box(placed)
            });
        });
    }
    group.finish();
}

/// Measures gangs. The time is per pod.
fn gangs(c: &mut Criterion) {
    let mut group = c.benchmark_group("gang on 5000 nodes");
    let mut graph = machine(5_000, Policy::Lonode);
    let pod = pod();
    for size in [8, 200, 5_000] {
        let shapes = [SlotShape::of("0", size, &pod)];
        group.throughput(Throughput::Elements(size));
        group.bench_function(BenchmarkId::from_parameter(size), |b| {
            b.iter(|| {
                let placed = graph.allocate(1, &Request::of(&shapes)).expect("a match");
                graph.cancel(1).expect("it can be cancelled");
                black_box(placed)
            });
        });
    }
    group.finish();
}

/// Measures a pod that may use every other node only, which makes the longest text of ranks.
fn fragmented_ranks(c: &mut Criterion) {
    let mut graph = machine(5_000, Policy::Lonode);
    let mut ranks = RankSet::new();
    for rank in (0..5_000).step_by(2) {
        ranks.insert(rank);
    }
    let pod = pod();
    let shapes = [SlotShape { ranks: Some(&ranks), ..SlotShape::of("0", 1, &pod) }];
    let request = Request::of(&shapes);
    c.bench_function("one pod, every other of 5000 nodes", |b| {
        b.iter(|| {
            let placed = graph.allocate(1, &request).expect("a match");
            graph.cancel(1).expect("it can be cancelled");
            black_box(placed)
        });
    });
}

/// Measures a library without extensions: its nodes are whole vertices, and each has an account
/// beside it.
fn without_extensions(c: &mut Criterion) {
    let mut group = c.benchmark_group("one pod, without extensions");
    let library = FunctionTable { extensions: None, ..FunctionTable::builtin() };
    for nodes in [100, 1_000] {
        let mut graph = machine_on(library, nodes, Policy::Lonode);
        let pod = pod();
        let shapes = [SlotShape::of("0", 1, &pod)];
        group.bench_function(BenchmarkId::from_parameter(nodes), |b| {
            b.iter(|| {
                let placed = graph
                    .allocate(1, &Request::of(&shapes))
                    .expect("a match")
                    .placed()
                    .expect("a place");
                graph.release(1, placed.slots[0].rank, "0", 1).expect("it can be released");
                black_box(placed)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, one_pod, last_free_node, gangs, fragmented_ranks, without_extensions);
criterion_main!(benches);
