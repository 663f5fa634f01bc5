//! The graph on a library that has nothing but what upstream offers: the built-in one, with its
//! extensions hidden; or the one that the environment variable `FLUXION_LIBRARY` names.

#![allow(unsafe_code, reason = "a function as a library has it")]

use std::ffi::{c_char, c_int};

use fluxion_sys::{FunctionTable, errno, match_op_t, reapi_cli_ctx_t};
use proptest::prelude::*;

use crate::fluxion::{
    End, Fit, Forecast, Graph, Policy, Rank, RankSet, Request, SlotShape, SlotsAt,
};
use fluxqueue_workload::{Lifetime, Resources};

const GIB: u64 = 1 << 30;

fn plain() -> FunctionTable {
    let table = match std::env::var_os("FLUXION_LIBRARY") {
        Some(path) => FunctionTable::open(path.as_ref()).unwrap(),
        None => FunctionTable::builtin(),
    };
    FunctionTable { extensions: None, ..table }
}

fn amounts(cpu: u64, gib: u64, gpus: u64) -> Resources {
    [("cpu", cpu), ("memory", gib * GIB), ("nvidia.com/gpu", gpus), ("pods", 1)]
        .into_iter()
        .collect()
}

fn node(cpu: u64, gib: u64, gpus: u64) -> Resources {
    let mut node = amounts(cpu, gib, gpus);
    node.set("pods", 10);
    node
}

/// Nodes 0 to 2 with four cores and 8 GiB each; node 2 has two GPUs.
fn graph_in(table: FunctionTable) -> Graph {
    let mut graph = Graph::new(table, Policy::Lonode).unwrap();
    for rank in 0..3 {
        let gpus = if rank == 2 { 2 } else { 0 };
        graph.add_node(rank, &format!("node-{rank}.example"), &node(4000, 8, gpus)).unwrap();
    }
    graph
}

fn graph() -> Graph {
    graph_in(plain())
}

fn slots<T>(count: u64, requests: &Resources, check: impl FnOnce(&Request<'_>) -> T) -> T {
    check(&Request::of(&[SlotShape::of("a", count, requests)]))
}

fn at(rank: Rank, count: u64) -> SlotsAt {
    SlotsAt { shape: 0, rank, count }
}

fn free_cores(graph: &mut Graph) -> u64 {
    slots(100, &amounts(1000, 0, 0), |request| graph.explain(request).unwrap().shapes[0].now.room)
}

#[test]
fn it_says_which_features_are_off() {
    let off = Graph::new(plain(), Policy::First).unwrap().features_off();
    assert_eq!(off.len(), 5, "{off:?}");
    let builtin = Graph::new(FunctionTable::builtin(), Policy::First).unwrap();
    assert!(builtin.features_off().is_empty());
}

#[test]
fn gangs_take_whole_cores_all_or_none() {
    let mut graph = graph();
    slots(5, &amounts(1500, 1, 0), |request| {
        let placement = graph.allocate(1, request).unwrap().placed().unwrap();
        assert_eq!(placement.slots, [at(0, 2), at(1, 2), at(2, 1)]);
        assert_eq!(graph.allocate(2, request).unwrap(), Fit::NotNow);
        assert!(graph.allocate(1, request).unwrap_err().is_duplicate());
    });
    // The account has the requests of pods, not the rounded amounts.
    assert_eq!(graph.usage(0).unwrap().of("cpu"), (4000, 3000));
    assert_eq!(free_cores(&mut graph), 2);
    graph.cancel(1).unwrap();
    graph.cancel(1).unwrap();
    assert_eq!((graph.usage(0).unwrap().of("cpu"), free_cores(&mut graph)), ((4000, 0), 12));
}

#[test]
fn requests_keep_to_their_ranks_tiers_and_limits() {
    let mut graph = graph();
    let pod = amounts(1000, 1, 0);
    let (allowed, liked): (RankSet, _) = ("1-2".parse().unwrap(), ["2".parse().unwrap()]);
    let shapes =
        [SlotShape { ranks: Some(&allowed), prefer: &liked, ..SlotShape::of("a", 5, &pod) }];
    assert_eq!(
        graph.allocate(1, &Request::of(&shapes)).unwrap().placed().unwrap().slots,
        [at(2, 4), at(1, 1)]
    );

    let one_each = [(vec!["a".to_owned(), "b".to_owned()], 1)];
    let shapes = [SlotShape::of("a", 1, &pod), SlotShape::of("b", 1, &pod)];
    let apart = Request { max_per_node: &one_each, ..Request::of(&shapes) };
    let mut ranks: Vec<Rank> = graph
        .allocate(2, &apart)
        .unwrap()
        .placed()
        .unwrap()
        .slots
        .iter()
        .map(|slot| slot.rank)
        .collect();
    ranks.sort_unstable();
    assert_eq!(ranks, [0, 1], "node 2 is full");
    let three = [SlotShape { count: 3, ..shapes[0] }];
    let too_many = Request { max_per_node: &one_each, ..Request::of(&three) };
    assert_eq!(graph.allocate(3, &too_many).unwrap(), Fit::NotNow);
    assert_eq!(graph.forecast(&too_many).unwrap(), Forecast::Blocked);
    let error = graph.allocate(3, &Request { policy: Some(Policy::First), ..apart }).unwrap_err();
    assert!(error.errno == errno::ENOTSUP && error.text.contains("lonode"), "{error}");
}

#[test]
fn shapes_are_placed_together() {
    let mut graph = graph();
    let (launcher, worker) = (amounts(3000, 1, 0), amounts(1000, 1, 1));
    let shapes = [SlotShape::of("launcher", 2, &launcher), SlotShape::of("worker", 2, &worker)];
    let request = Request::of(&shapes);
    let mut placed = graph.allocate(1, &request).unwrap().placed().unwrap().slots;
    placed.sort_by_key(|slot| (slot.shape, slot.rank));
    assert_eq!(placed, [at(0, 1), at(1, 1), SlotsAt { shape: 1, rank: 2, count: 2 }]);
    // Nothing of a gang is taken when a part of it has no place.
    assert_eq!(graph.allocate(2, &request).unwrap(), Fit::NotNow);
    assert_eq!(graph.usage(0).unwrap().of("cpu"), (4000, 3000));
    let huge = [SlotShape { count: 4, ..shapes[0] }, shapes[1]];
    assert_eq!(graph.forecast(&Request::of(&huge)).unwrap(), Forecast::Never);
}

#[test]
fn a_slot_is_given_back_alone() {
    let mut graph = graph();
    slots(8, &amounts(1000, 1, 0), |request| {
        assert_eq!(
            graph.allocate(1, request).unwrap().placed().unwrap().slots,
            [at(0, 4), at(1, 4)]
        );
    });
    graph.release(1, 0, "a", 1).unwrap();
    assert_eq!((graph.usage(0).unwrap().of("cpu").1, free_cores(&mut graph)), (3000, 5));
    slots(5, &amounts(1000, 1, 0), |request| {
        assert_eq!(
            graph.allocate(2, request).unwrap().placed().unwrap().slots,
            [at(0, 1), at(2, 4)]
        );
    });
    assert!(graph.release(1, 0, "a", 4).unwrap_err().is_not_found());
    assert!(graph.release(1, 0, "b", 1).unwrap_err().is_not_found());
    graph.release(1, 0, "a", 3).unwrap();
    graph.release(1, 1, "a", 4).unwrap();
    assert!(graph.release(1, 1, "a", 1).unwrap_err().is_not_found());
    slots(7, &amounts(1000, 1, 0), |request| {
        assert_eq!(
            graph.allocate(1, request).unwrap().placed().unwrap().slots,
            [at(0, 3), at(1, 4)]
        );
    });
}

#[test]
fn charges_share_cores_and_may_be_more_than_there_is() {
    let mut graph = graph();
    let only: RankSet = "0".parse().unwrap();
    let small = amounts(100, 0, 0);
    for job in 10..15 {
        graph.charge(job, 0, "0", &small, 1, End::Never).unwrap();
    }
    let pod = amounts(3000, 0, 0);
    let shapes = [SlotShape { ranks: Some(&only), ..SlotShape::of("a", 1, &pod) }];
    let there = Request::of(&shapes);
    assert_eq!(graph.allocate(1, &there).unwrap().placed().unwrap().slots, [at(0, 1)]);
    graph.charge(15, 0, "0", &amounts(9000, 0, 1), 1, End::Eventually).unwrap();
    assert_eq!(graph.usage(0).unwrap().of("cpu"), (4000, 12_500));
    graph.release(1, 0, "a", 1).unwrap();
    assert_eq!(graph.allocate(1, &there).unwrap(), Fit::NotNow);
    assert_eq!(graph.forecast(&there).unwrap(), Forecast::Eventually);
    graph.release(15, 0, "0", 1).unwrap();
    assert_eq!(graph.allocate(1, &there).unwrap().placed().unwrap().slots, [at(0, 1)]);
    assert_eq!(graph.allocate(2, &there).unwrap(), Fit::NotNow);
}

#[test]
fn forecasts_tell_known_ends_from_unknown_ones() {
    let mut graph = graph();
    graph.set_time(1000).unwrap();
    let pod = amounts(4000, 0, 0);
    let one = [SlotShape::of("a", 1, &pod)];
    for (job, end) in
        [(1, Lifetime::Seconds(50)), (2, Lifetime::Eventually), (3, Lifetime::Endless)]
    {
        graph
            .allocate(job, &Request::of(&[SlotShape { end, ..one[0] }]))
            .unwrap()
            .placed()
            .unwrap();
    }
    for (count, forecast) in [
        (1, Forecast::At(1050)),
        (2, Forecast::Eventually),
        (3, Forecast::Blocked),
        (4, Forecast::Never),
    ] {
        slots(count, &pod, |request| assert_eq!(graph.forecast(request).unwrap(), forecast));
    }
    graph.set_time(1060).unwrap();
    slots(1, &pod, |request| {
        assert_eq!(graph.allocate(4, request).unwrap(), Fit::NotNow);
        assert_eq!(graph.forecast(request).unwrap(), Forecast::At(1061));
    });
    slots(2, &pod, |request| assert_eq!(graph.eligible(request).unwrap().to_string(), "0-1"));
    graph.cancel(1).unwrap();
    slots(1, &pod, |request| assert_eq!(graph.forecast(request).unwrap(), Forecast::Now));
}

#[test]
fn nodes_come_go_and_change_under_their_jobs() {
    let mut graph = graph();
    slots(6, &amounts(2000, 1, 0), |request| {
        graph.allocate(1, request).unwrap().placed().unwrap();
        graph.remove_node(1).unwrap();
        assert!(graph.usage(1).unwrap_err().is_not_found());
        assert_eq!(graph.forecast(request).unwrap(), Forecast::Never);
    });
    graph.add_node(1, "node-1.example", &node(4000, 8, 0)).unwrap();
    assert!(graph.add_node(1, "twin", &node(1, 1, 0)).unwrap_err().is_duplicate());
    assert_eq!(free_cores(&mut graph), 4);
    // A node that grows keeps its slots; one that shrinks below them is full.
    graph.resize(0, "cpu", 6900).unwrap();
    assert_eq!(free_cores(&mut graph), 6);
    slots(3, &amounts(2000, 1, 0), |request| {
        assert_eq!(
            graph.allocate(2, request).unwrap().placed().unwrap().slots,
            [at(0, 1), at(1, 2)]
        );
    });
    graph.resize(0, "cpu", 3000).unwrap();
    assert_eq!(free_cores(&mut graph), 0);
    graph.release(2, 0, "a", 1).unwrap();
    assert_eq!(free_cores(&mut graph), 0);
    graph.release(1, 0, "a", 2).unwrap();
    slots(3, &amounts(1000, 1, 0), |request| {
        assert_eq!(graph.allocate(3, request).unwrap().placed().unwrap().slots, [at(0, 3)]);
        graph.set_up(2, false).unwrap();
        assert_eq!(graph.eligible(request).unwrap().to_string(), "");
    });
    assert!(graph.resize(9, "cpu", 1).unwrap_err().is_not_found());
}

#[test]
fn refusals_are_explained_in_amounts() {
    let mut graph = graph();
    graph.charge(9, 2, "other", &amounts(3500, 1, 1), 1, End::Never).unwrap();
    slots(2, &amounts(900, 1, 1), |request| {
        let shape = &graph.explain(request).unwrap().shapes[0];
        assert_eq!((shape.label.as_str(), shape.wanted), ("a", 2));
        assert_eq!((shape.now.nodes, shape.now.room, shape.idle.room), (3, 0, 2));
        let cpu = shape.now.pools.iter().find(|pool| pool.resource == "cpu").unwrap();
        assert_eq!((cpu.per_slot, cpu.short.len(), cpu.free, cpu.largest), (1000, 1, 8000, 4000));
    });
    let odd: Resources =
        [("cpu", 1000), ("ephemeral-storage", 5), ("pods", 1)].into_iter().collect();
    assert_eq!(graph.refuses(&odd), Some("ephemeral-storage"));
    let error = slots(1, &odd, |request| graph.allocate(1, request).unwrap_err());
    assert!(error.text.contains("ephemeral-storage: the Fluxion library in use"), "{error}");
    assert_eq!(Graph::new(FunctionTable::builtin(), Policy::First).unwrap().refuses(&odd), None);
    // It may be on a node all the same.
    graph.charge(10, 0, "0", &odd, 1, End::Never).unwrap();
    assert_eq!(graph.usage(0).unwrap().of("ephemeral-storage"), (0, 5));
}

#[test]
fn older_libraries_are_refused_by_the_name_of_what_they_lack() {
    let error =
        Graph::new(FunctionTable { add_subgraph: None, ..plain() }, Policy::First).unwrap_err();
    assert!(
        error.errno == errno::ENOSYS && error.text.contains("reapi_cli_add_subgraph"),
        "{error}"
    );
    let error = Graph::new(plain(), Policy::Spread).unwrap_err();
    assert!(error.errno == errno::ENOTSUP && error.text.contains("policy spread"), "{error}");
}

/// `reapi_cli_match` of a library that never finds a place.
unsafe extern "C" fn finds_nothing(
    _: *mut reapi_cli_ctx_t,
    _: match_op_t,
    _: *const c_char,
    _: *mut u64,
    _: *mut bool,
    _: *mut *mut c_char,
    _: *mut i64,
    _: *mut f64,
) -> c_int {
    errno::set(errno::EBUSY);
    -1
}

#[test]
fn a_library_that_finds_no_place_where_there_is_room_is_an_error_and_not_a_full_cluster() {
    let mut graph = graph_in(FunctionTable { match_op: Some(finds_nothing), ..plain() });
    slots(2, &amounts(1000, 1, 0), |request| {
        let error = graph.allocate(1, request).unwrap_err();
        assert!(
            error.errno == errno::EPROTO && error.text.contains("2 slots on ranks 0-2"),
            "{error}"
        );
        assert_eq!(graph.forecast(request).unwrap(), Forecast::Now);
    });
    // A node that cannot be charged gets nothing more, and the others do not suffer.
    graph.charge(5, 1, "0", &amounts(1000, 0, 0), 1, End::Never).unwrap();
    let error = slots(1, &amounts(1000, 1, 0), |request| graph.allocate(1, request).unwrap_err());
    assert!(error.text.starts_with("node node-1.example:"), "{error}");
    assert_eq!(free_cores(&mut graph), 8);
    // It is tried once more, with a new graph, but not at once.
    graph.set_time(9).unwrap();
    slots(1, &amounts(1000, 1, 0), |request| graph.allocate(1, request).unwrap_err());
    assert_eq!(free_cores(&mut graph), 8);
}

#[derive(Debug, Clone)]
enum Op {
    Allocate {
        count: u64,
        cores: u64,
        gib: u64,
        gpus: u64,
        ranks: u32,
        end: Lifetime,
    },
    Charge {
        rank: Rank,
        cores: u64,
        end: End,
    },
    Release(usize),
    Resize {
        rank: Rank,
        cores: u64,
    },
    /// Takes a node away, or brings it back.
    Swap(Rank),
    Wait(i64),
}

const NODES: Rank = 5;

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let lifetime = prop_oneof![
        Just(Lifetime::Endless),
        Just(Lifetime::Eventually),
        (1..60_u64).prop_map(Lifetime::Seconds)
    ];
    let end = prop_oneof![Just(End::Never), Just(End::Eventually), (1..100_i64).prop_map(End::At)];
    let op = prop_oneof![
        6 => (1..6_u64, 0..3_u64, 0..4_u64, 0..2_u64, 1..32_u32, lifetime)
            .prop_map(|(count, cores, gib, gpus, ranks, end)| Op::Allocate { count, cores, gib, gpus, ranks, end }),
        2 => (0..NODES, 0..6_u64, end).prop_map(|(rank, cores, end)| Op::Charge { rank, cores, end }),
        6 => any::<usize>().prop_map(Op::Release),
        1 => (0..NODES, 0..8_u64).prop_map(|(rank, cores)| Op::Resize { rank, cores }),
        1 => (0..NODES).prop_map(Op::Swap),
        1 => (0..30_i64).prop_map(Op::Wait),
    ];
    prop::collection::vec(op, 1..60)
}

/// A graph of vertices, and one of pools that takes the same slots as the first.
struct Twins {
    vertices: Graph,
    pools: Graph,
    now: i64,
    next: u64,
    /// Slots: the job in the first graph, the one in the second, the rank.
    held: Vec<(u64, u64, Rank)>,
    /// Nodes that are away.
    gone: Vec<Rank>,
}

impl Twins {
    fn new(policy: Policy) -> Self {
        let mut twins = Twins {
            vertices: Graph::new(plain(), policy).unwrap(),
            pools: Graph::new(FunctionTable::builtin(), Policy::First).unwrap(),
            now: 0,
            next: 1,
            held: Vec::new(),
            gone: Vec::new(),
        };
        (0..NODES).for_each(|rank| twins.add(rank));
        twins
    }

    fn each<T>(&mut self, mut call: impl FnMut(&mut Graph) -> T) -> [T; 2] {
        [call(&mut self.vertices), call(&mut self.pools)]
    }

    /// What both must answer alike.
    fn both<T: PartialEq + std::fmt::Debug>(&mut self, call: impl FnMut(&mut Graph) -> T) -> T {
        let [first, second] = self.each(call);
        assert_eq!(first, second);
        first
    }

    fn add(&mut self, rank: Rank) {
        let size = node(4000 + 1000 * u64::from(rank), 6, u64::from(rank % 2) * 2);
        self.both(|graph| graph.add_node(rank, &format!("n{rank}"), &size).unwrap());
    }

    fn apply(&mut self, op: Op) {
        if matches!(op, Op::Charge { rank, .. } | Op::Resize { rank, .. } if self.gone.contains(&rank))
        {
            return;
        }
        match op {
            Op::Allocate { count, cores, gib, gpus, ranks, end } => {
                let pod = amounts(1000 * cores, gib, gpus);
                let ranks: RankSet = (0..NODES).filter(|rank| ranks >> rank & 1 == 1).collect();
                let shapes =
                    [SlotShape { ranks: Some(&ranks), end, ..SlotShape::of("a", count, &pod) }];
                self.allocate(&Request::of(&shapes));
            }
            Op::Charge { rank, cores, end } => {
                let pod = amounts(1000 * cores, 1, 0);
                self.next += 1;
                let job = self.next;
                self.both(|graph| graph.charge(job, rank, "a", &pod, 1, end).unwrap());
                self.held.push((job, job, rank));
            }
            Op::Release(at) if !self.held.is_empty() => {
                let (first, second, rank) = self.held.swap_remove(at % self.held.len());
                self.vertices.release(first, rank, "a", 1).unwrap();
                self.pools.release(second, rank, "a", 1).unwrap();
            }
            Op::Release(_) => {}
            Op::Resize { rank, cores } => {
                self.both(|graph| graph.resize(rank, "cpu", 1000 * cores).unwrap());
            }
            Op::Swap(rank) => match self.gone.iter().position(|gone| *gone == rank) {
                Some(at) => {
                    self.gone.swap_remove(at);
                    self.add(rank);
                }
                None => {
                    self.both(|graph| graph.remove_node(rank).unwrap());
                    self.held.retain(|(_, _, there)| *there != rank);
                    self.gone.push(rank);
                }
            },
            Op::Wait(seconds) => {
                self.now += seconds;
                let now = self.now;
                self.both(|graph| graph.set_time(now).unwrap());
            }
        }
        for rank in (0..NODES).filter(|rank| !self.gone.contains(rank)).collect::<Vec<_>>() {
            for resource in ["cpu", "memory", "pods", "nvidia.com/gpu"] {
                self.both(|graph| graph.usage(rank).unwrap().of(resource));
            }
        }
    }

    fn allocate(&mut self, request: &Request<'_>) {
        let forecast = self.both(|graph| graph.forecast(request).unwrap());
        self.both(|graph| graph.eligible(request).unwrap());
        self.both(|graph| {
            let shape = graph.explain(request).unwrap().shapes.remove(0);
            let sorted = |mut supply: crate::fluxion::Supply| {
                supply.pools.sort_by(|a, b| a.resource.cmp(&b.resource));
                supply
            };
            (sorted(shape.now), sorted(shape.idle))
        });
        self.next += 1;
        let job = self.next;
        let placed = self.vertices.allocate(job, request).unwrap().placed();
        assert_eq!(placed.is_some(), forecast == Forecast::Now);
        let Some(placed) = placed else {
            assert_eq!(self.pools.allocate(job, request).unwrap(), Fit::NotNow);
            return;
        };
        let shape = request.shapes[0];
        assert_eq!(placed.slots.iter().map(|slots| slots.count).sum::<u64>(), shape.count);
        for slots in placed.slots {
            self.next += 1;
            let there: RankSet = [slots.rank].into_iter().collect();
            assert!(there.is_subset(shape.ranks.unwrap()));
            let shapes = [SlotShape { count: slots.count, ranks: Some(&there), ..shape }];
            let request = Request::of(&shapes);
            self.pools
                .allocate(self.next, &request)
                .unwrap()
                .placed()
                .expect("the library puts slots where they fit");
            (0..slots.count).for_each(|_| self.held.push((job, self.next, slots.rank)));
        }
    }

    /// Everything goes; then the library must have every vertex to give.
    fn end(mut self) {
        for (job, _, rank) in std::mem::take(&mut self.held) {
            self.vertices.release(job, rank, "a", 1).unwrap();
        }
        for rank in (0..NODES).filter(|rank| !self.gone.contains(rank)) {
            let usage = self.vertices.usage(rank).unwrap();
            let all: Resources =
                usage.pools.iter().map(|pool| (pool.resource.as_str(), pool.size)).collect();
            assert!(usage.pools.iter().all(|pool| pool.used == 0));
            let there: RankSet = [rank].into_iter().collect();
            let shapes = [SlotShape { ranks: Some(&there), ..SlotShape::of("a", 1, &all) }];
            let request = Request::of(&shapes);
            self.vertices
                .allocate(1_000_000 + u64::from(rank), &request)
                .unwrap()
                .placed()
                .expect("all of it is free");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Where everything comes in whole vertices, a graph of vertices and one of pools say the same.
    #[test]
    fn whole_amounts_are_treated_as_pools_treat_them(
        policy in prop::sample::select(vec![Policy::First, Policy::Lonode, Policy::Hinode]),
        ops in ops(),
    ) {
        let mut twins = Twins::new(policy);
        for op in ops {
            twins.apply(op);
        }
        twins.end();
    }
}
