//! The graph as the core sees it, through the C functions of the built-in library.

use fluxion_sys::FunctionTable;

use super::{
    Booking, End, Fit, Forecast, Graph, Policy, Rank, RankSet, Request, Reserved, SlotShape,
    SlotsAt,
};
use fluxqueue_workload::{Lifetime, Resources};

const POD: &str = "worker";

fn amounts(cpu: u64, gpus: u64) -> Resources {
    [("cpu", cpu), ("nvidia.com/gpu", gpus), ("pods", 1)].into_iter().collect()
}

/// Nodes 0 to 2 with four cores each; node 2 has two GPUs.
fn graph() -> Graph {
    let mut graph = Graph::new(FunctionTable::builtin(), Policy::Lonode).unwrap();
    for rank in 0..3 {
        let mut pools = amounts(4000, if rank == 2 { 2 } else { 0 });
        pools.set("pods", 10);
        graph.add_node(rank, &format!("node-{rank}.example"), &pools).unwrap();
    }
    graph
}

fn slots(label: &str, count: u64, requests: &Resources, check: impl FnOnce(&Request<'_>)) {
    check(&Request::of(&[SlotShape::of(label, count, requests)]));
}

fn at(rank: Rank, count: u64) -> SlotsAt {
    SlotsAt { shape: 0, rank, count }
}

#[test]
fn gangs_are_placed_whole_or_not_at_all() {
    let mut graph = graph();
    slots(POD, 5, &amounts(1500, 0), |request| {
        let placement = graph.allocate(1, request).unwrap().placed().unwrap();
        assert_eq!(placement.slots, [at(0, 2), at(1, 2), at(2, 1)]);
        assert_eq!(graph.allocate(2, request).unwrap(), Fit::NotNow);
        assert!(graph.allocate(1, request).unwrap_err().is_duplicate());
    });
    assert_eq!(graph.usage(2).unwrap().of("cpu"), (4000, 1500));
    graph.cancel(1).unwrap();
    graph.cancel(1).unwrap();
    assert_eq!(graph.usage(2).unwrap().of("cpu"), (4000, 0));
}

#[test]
fn requests_keep_to_their_ranks_tiers_and_limits() {
    let mut graph = graph();
    let pod = amounts(1000, 0);
    let (allowed, liked) = ("1-2".parse().unwrap(), ["2".parse().unwrap()]);
    let shapes =
        [SlotShape { ranks: Some(&allowed), prefer: &liked, ..SlotShape::of(POD, 3, &pod) }];
    assert_eq!(
        graph.allocate(1, &Request::of(&shapes)).unwrap().placed().unwrap().slots,
        [at(2, 3)]
    );
    let one_each = [(vec![POD.to_owned()], 1)];
    let shapes = [SlotShape::of(POD, 3, &pod)];
    let spread =
        Request { max_per_node: &one_each, policy: Some(Policy::Hinode), ..Request::of(&shapes) };
    assert_eq!(
        graph.allocate(2, &spread).unwrap().placed().unwrap().slots,
        [at(0, 1), at(1, 1), at(2, 1)]
    );
    let shapes = [SlotShape { ranks: Some(&allowed), ..shapes[0] }];
    let too_many = Request { shapes: &shapes, ..spread };
    assert_eq!(graph.allocate(3, &too_many).unwrap(), Fit::NotNow);
    assert_eq!(graph.forecast(&too_many).unwrap(), Forecast::Never);
}

#[test]
fn nodes_can_go_by_how_full_they_are() {
    let mut graph = graph();
    let pod = amounts(1000, 0);
    graph.charge(1, 1, POD, &pod, 2, End::Never).unwrap();
    let shapes = [SlotShape::of(POD, 3, &pod)];
    let by = |policy| Request { policy: Some(policy), ..Request::of(&shapes) };
    assert_eq!(
        graph.allocate(2, &by(Policy::Binpack)).unwrap().placed().unwrap().slots,
        [at(1, 2), at(0, 1)]
    );
    graph.cancel(2).unwrap();
    // Node 2 has idle GPUs, so that it stays the emptier one with a pod.
    assert_eq!(
        graph.allocate(3, &by(Policy::Spread)).unwrap().placed().unwrap().slots,
        [at(2, 2), at(0, 1)]
    );
}

#[test]
fn shapes_are_placed_together() {
    let mut graph = graph();
    let (launcher, worker) = (amounts(3000, 0), amounts(1000, 1));
    let shapes = [SlotShape::of("launcher", 2, &launcher), SlotShape::of(POD, 2, &worker)];
    let placement = graph.allocate(1, &Request::of(&shapes)).unwrap().placed().unwrap();
    assert_eq!(placement.slots, [at(0, 1), at(1, 1), SlotsAt { shape: 1, rank: 2, count: 2 }]);
    // Nothing of a gang is taken when a part of it has no place.
    assert_eq!(graph.allocate(2, &Request::of(&shapes)).unwrap(), Fit::NotNow);
    assert_eq!(graph.usage(0).unwrap().of("cpu"), (4000, 3000));
}

#[test]
fn charges_always_succeed_and_fill_the_node() {
    let mut graph = graph();
    graph.charge(9, 0, "other", &amounts(3000, 1), 2, End::Never).unwrap();
    assert_eq!(graph.usage(0).unwrap().of("cpu"), (4000, 6000));
    assert_eq!(graph.usage(0).unwrap().of("nvidia.com/gpu"), (0, 2));
    slots(POD, 9, &amounts(1000, 0), |request| {
        assert_eq!(graph.allocate(1, request).unwrap(), Fit::NotNow);
    });
    // The pool that was charged before it was there counts as it comes.
    graph.resize(0, "nvidia.com/gpu", 3).unwrap();
    graph.resize(0, "cpu", 7000).unwrap();
    slots(POD, 1, &amounts(1000, 1), |request| {
        assert_eq!(graph.allocate(2, request).unwrap().placed().unwrap().slots, [at(0, 1)]);
    });
    assert!(graph.release(9, 0, "other", 3).unwrap_err().is_not_found());
    graph.release(9, 0, "other", 1).unwrap();
    graph.release(9, 0, "other", 1).unwrap();
    assert!(graph.release(9, 0, "other", 1).unwrap_err().is_not_found());
    assert_eq!(graph.usage(0).unwrap().of("cpu"), (7000, 1000));
}

#[test]
fn forecasts_tell_known_ends_from_unknown_ones() {
    let mut graph = graph();
    graph.set_time(1000).unwrap();
    let pod = amounts(4000, 0);
    let one = [SlotShape::of(POD, 1, &pod)];
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
        slots(POD, count, &pod, |request| assert_eq!(graph.forecast(request).unwrap(), forecast));
    }
    // Past its end a job still has its place, and may leave at any moment.
    graph.set_time(1060).unwrap();
    slots(POD, 1, &pod, |request| {
        assert_eq!(graph.allocate(4, request).unwrap(), Fit::NotNow);
        assert_eq!(graph.forecast(request).unwrap(), Forecast::At(1061));
    });
    slots(POD, 2, &pod, |request| assert_eq!(graph.eligible(request).unwrap().to_string(), "0-1"));
    graph.cancel(1).unwrap();
    slots(POD, 1, &pod, |request| assert_eq!(graph.forecast(request).unwrap(), Forecast::Now));
}

#[test]
fn a_reservation_tells_whether_an_earlier_one_is_ruled_out() {
    let mut graph = Graph::new(FunctionTable::builtin(), Policy::Lonode).unwrap();
    let cpu = |units: u64| -> Resources { [("cpu", units)].into_iter().collect() };
    let (whole, shares) = (cpu(100), [cpu(50), cpu(30), cpu(20)]);
    for rank in 0..310 {
        graph.add_node(rank, &format!("node-{rank}.example"), &whole).unwrap();
    }
    let busy: RankSet = "300-309".parse().unwrap();
    let running = SlotShape {
        end: Lifetime::Seconds(100),
        ranks: Some(&busy),
        ..SlotShape::of(POD, 10, &whole)
    };
    graph.allocate(1, &Request::of(&[running])).unwrap().placed().unwrap();
    let reserved = |booking| match booking {
        Booking::At(Reserved { at, is_earliest, .. }) => (at, is_earliest),
        other => panic!("{other:?}"),
    };
    let all = [SlotShape::of(POD, 301, &whole)];
    assert_eq!(reserved(graph.reserve(2, &Request::of(&all)).unwrap()), (100, true));
    graph.cancel(2).unwrap();
    // One slot of each shape on each of 300 nodes fills them; to find that takes too many steps.
    let [a, b, c] = &shares;
    let mixed =
        [SlotShape::of("a", 300, a), SlotShape::of("b", 300, b), SlotShape::of("c", 300, c)];
    assert_eq!(graph.allocate(3, &Request::of(&mixed)).unwrap(), Fit::NotFound);
    assert_eq!(reserved(graph.reserve(3, &Request::of(&mixed)).unwrap()), (100, false));
}

#[test]
fn nodes_go_down_and_away() {
    let mut graph = graph();
    slots(POD, 3, &amounts(4000, 0), |request| {
        graph.set_up(1, false).unwrap();
        assert_eq!(graph.allocate(1, request).unwrap(), Fit::NotNow);
        assert_eq!(graph.forecast(request).unwrap(), Forecast::Blocked);
        assert_eq!(graph.eligible(request).unwrap().to_string(), "0,2");
        graph.set_up(1, true).unwrap();
        graph.allocate(1, request).unwrap().placed().unwrap();
        graph.remove_node(1).unwrap();
        assert_eq!(graph.forecast(request).unwrap(), Forecast::Never);
    });
    assert!(graph.usage(1).unwrap_err().is_not_found());
    assert!(graph.release(1, 1, POD, 1).unwrap_err().is_not_found());
    graph.release(1, 0, POD, 1).unwrap();
    // A new node may have the rank of one that is gone.
    graph.add_node(1, "node-1.example", &amounts(4000, 0)).unwrap();
    assert_eq!(graph.usage(1).unwrap().of("cpu"), (4000, 0));
    for name in ["twin", "node-1.example"] {
        assert!(graph.add_node(1, name, &amounts(1, 0)).unwrap_err().is_duplicate());
    }
}

#[test]
fn refusals_are_explained_with_numbers() {
    let mut graph = graph();
    graph.charge(9, 2, "other", &amounts(3500, 1), 1, End::Never).unwrap();
    slots(POD, 2, &amounts(1000, 1), |request| {
        let shape = &graph.explain(request).unwrap().shapes[0];
        assert_eq!((shape.label.as_str(), shape.wanted), (POD, 2));
        assert_eq!((shape.now.nodes, shape.now.room, shape.idle.room), (3, 0, 2));
        let cpu = shape.now.pools.iter().find(|pool| pool.resource == "cpu").unwrap();
        assert_eq!((cpu.per_slot, cpu.short.len(), cpu.free, cpu.largest), (1000, 1, 8500, 4000));
        let gpu = shape.now.pools.iter().find(|pool| pool.resource == "nvidia.com/gpu").unwrap();
        assert_eq!((gpu.short.len(), gpu.free), (2, 1));
    });
}

#[test]
fn huge_and_unknown_amounts_never_fit() {
    let mut graph = graph();
    for pod in [amounts(u64::MAX, 0), [("example.com/none", 1_u64)].into_iter().collect()] {
        slots(POD, 1, &pod, |request| {
            assert_eq!(graph.forecast(request).unwrap(), Forecast::Never);
        });
        // As often as one likes: sums do not overflow.
        for job in [5, 6] {
            graph.charge(job, 0, POD, &pod, 3, End::Eventually).unwrap();
        }
    }
    assert_eq!(graph.usage(0).unwrap().of("cpu"), (4000, u64::MAX));
    graph.cancel(5).unwrap();
    graph.cancel(6).unwrap();
    assert_eq!(graph.usage(0).unwrap().of("cpu"), (4000, 0));
}

#[test]
fn odd_names_and_wrong_requests_are_refused_or_kept() {
    let mut graph = graph();
    graph.add_node(7, "quote\" back\\slash\n", &amounts(1000, 0)).unwrap();
    slots("lab\"el", 1, &amounts(1000, 0), |request| {
        let only = "7".parse().unwrap();
        let shapes = [SlotShape { ranks: Some(&only), ..request.shapes[0] }];
        let placement = graph.allocate(1, &Request::of(&shapes)).unwrap().placed().unwrap();
        assert_eq!(placement.slots, [at(7, 1)]);
    });
    graph.release(1, 7, "lab\"el", 1).unwrap();
    assert!(graph.release(1, 7, "nul\0", 1).unwrap_err().text.contains("NUL"));
    let error = graph.resize(99, "cpu", 1).unwrap_err();
    assert!(error.is_not_found() && error.text.contains("rank 99"), "{error}");
    assert!(graph.allocate(2, &Request::of(&[])).is_err());
    let pod = amounts(1, 0);
    let twice = [SlotShape::of("a", 1, &pod); 2];
    assert!(graph.allocate(2, &Request::of(&twice)).unwrap_err().text.contains("twice"));
}
