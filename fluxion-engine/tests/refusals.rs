//! The cost of a no to whole vertices on graphs with pools: a refused reservation takes at most
//! four times the steps of a refused match, however many instants there are to try, and steps grow
//! with the machine.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write as _;

use fluxion_engine::{Engine, MatchOp, Reason};

const NODES_OF_RACK: u32 = 16;

/// Racks of nodes with ten units of cpu, two cores and two GPUs each; storage in each rack.
fn document(count: u32) -> String {
    let (mut nodes, mut edges, mut uniq) = (String::new(), String::new(), 0);
    let mut add = |above: Option<u32>, kind: &str, id: u32, rank: i64, path: &str| {
        let size = if kind == "cpu" { 10 } else { 1 };
        let comma = if uniq == 0 { "" } else { "," };
        let _ = write!(
            nodes,
            r#"{comma}{{"id":"{uniq}","metadata":{{"type":"{kind}","id":{id},"rank":{rank},
            "size":{size},"paths":{{"containment":"{path}"}}}}}}"#
        );
        if let Some(above) = above {
            let comma = if edges.is_empty() { "" } else { "," };
            let _ = write!(edges, r#"{comma}{{"source":"{above}","target":"{uniq}"}}"#);
        }
        uniq += 1;
        uniq - 1
    };
    let root = add(None, "cluster", 0, -1, "/c0");
    for rack in 0..count.div_ceil(NODES_OF_RACK) {
        let within = format!("/c0/rack{rack}");
        let above = add(Some(root), "rack", rack, -1, &within);
        add(Some(above), "ssd", rack, -1, &format!("{within}/ssd{rack}"));
        for rank in rack * NODES_OF_RACK..count.min((rack + 1) * NODES_OF_RACK) {
            let path = format!("{within}/node{rank}");
            let node = add(Some(above), "node", rank, rank.into(), &path);
            for (kind, id) in [("cpu", 0), ("core", 0), ("core", 1), ("gpu", 0), ("gpu", 1)] {
                add(Some(node), kind, id, rank.into(), &format!("{path}/{kind}{id}"));
            }
        }
    }
    format!(r#"{{"graph":{{"nodes":[{nodes}],"edges":[{edges}]}}}}"#)
}

fn engine(count: u32, policy: &str, pools: &str) -> Engine {
    let options = format!(
        r#"{{"load_format":"jgf","matcher_policy":"{policy}","match_format":"jgf",
        "pool_types":[{pools}]}}"#
    );
    Engine::new(&document(count), &options).unwrap()
}

/// A unit of cpu of each rank, to an end.
fn charge(engine: &mut Engine, first: u64, count: u32, end: impl Fn(u32) -> String) {
    for rank in 0..count {
        let end = end(rank);
        let text =
            format!(r#"{{"label":"r","rank":{rank},"count":1,"with":{{"cpu":1}},"end":{end}}}"#);
        engine.charge(first + u64::from(rank), &text).unwrap();
    }
}

fn slot(count: u32, with: &str) -> String {
    format!(r#"{{"type":"slot","label":"s","count":{count},"with":[{with}]}}"#)
}

fn of(kind: &str, count: u32) -> String {
    format!(r#"{{"type":"{kind}","count":{count}}}"#)
}

fn holding(kind: &str, count: u32, with: &str) -> String {
    format!(r#"{{"type":"{kind}","count":{count},"with":[{with}]}}"#)
}

fn spec(resources: &str, duration: u32) -> String {
    format!(
        r#"{{"version":1,"resources":[{resources}],"tasks":[{{"command":["a"],"slot":"s",
        "count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":{duration}}}}}}}"#
    )
}

/// Requests for whole vertices, of which each is refused where every node has lost a unit for ever.
fn requests(count: u32) -> Vec<(&'static str, String)> {
    let all = of("cpu", 10);
    vec![
        ("a node", slot(1, &of("node", 1))),
        ("all nodes", slot(count, &of("node", 1))),
        ("a rack", slot(1, &of("rack", 1))),
        ("nodes of a rack", holding("rack", 1, &slot(3, &of("node", 1)))),
        (
            "storage and a node",
            holding("rack", 1, &slot(1, &format!("{},{}", of("ssd", 1), of("node", 1)))),
        ),
        ("all units of a node", holding("node", 1, &slot(1, &all))),
        ("units of all nodes", holding("node", count, &slot(2, &of("cpu", 5)))),
        ("a core and units", slot(1, &format!("{},{all}", of("core", 1)))),
        ("a rack and a node", format!("{},{}", holding("rack", 1, &slot(1, &all)), of("rack", 1))),
    ]
}

fn steps(engine: &mut Engine, op: MatchOp, spec: &str) -> (Result<i64, Reason>, u64) {
    let answer = engine.match_job(op, spec, 1_000_000);
    (answer.map(|grant| grant.at).map_err(|error| error.reason), engine.search_effort().0)
}

/// The steps of a match that is refused, and of a reservation.
fn refused(engine: &mut Engine, spec: &str, what: &str) -> [u64; 2] {
    let ops = [MatchOp::AllocateWithSatisfiability, MatchOp::AllocateOrElseReserve];
    ops.map(|op| {
        let (answer, steps) = steps(engine, op, spec);
        assert!(
            matches!(answer, Err(Reason::Busy | Reason::Unsatisfiable)),
            "{what}: {op:?}: {answer:?}"
        );
        steps
    })
}

/// Nodes of which each has lost a unit for ever and another to an instant of its own.
fn worn(count: u32, policy: &str, pools: &str) -> Engine {
    let mut engine = engine(count, policy, pools);
    charge(&mut engine, 1, count, |rank| (100 + rank).to_string());
    charge(&mut engine, 100_000, count, |_| r#""never""#.to_owned());
    engine
}

#[test]
fn a_refused_reservation_takes_few_times_the_steps_of_a_refused_match() {
    for pools in [r#""cpu""#, r#""cpu","gpu","ssd""#] {
        for policy in ["first", "lonode", "low"] {
            let sizes = [64, 256];
            let mut engines = sizes.map(|count| worn(count, policy, pools));
            for nth in 0..requests(1).len() {
                let mut taken = [0; 2];
                for ((count, engine), taken) in sizes.into_iter().zip(&mut engines).zip(&mut taken)
                {
                    let (name, resources) = &requests(count)[nth];
                    for duration in [50, 100_000] {
                        let what = format!("{name} of {count} nodes, {policy}, {pools}");
                        let spec = spec(resources, duration);
                        let [once, later] = refused(engine, &spec, &what);
                        assert!(later <= 4 * once, "{what}: {later} steps, a match {once}");
                        *taken = later;
                    }
                }
                let [few, many] = taken;
                assert!(many <= 5 * few + 50, "{:?}: {few}, {many}", requests(1)[nth].0);
            }
        }
    }
}

#[test]
fn sixteen_thousand_nodes_take_at_most_twenty_times_the_steps_of_a_thousand() {
    let of = |count: u32| {
        let mut engine = worn(count, "lonode", r#""cpu""#);
        let requests = requests(count).into_iter();
        let steps = requests
            .map(|(name, resources)| refused(&mut engine, &spec(&resources, 3_600), name)[1]);
        steps.collect::<Vec<u64>>()
    };
    for ((few, many), (name, _)) in of(1_000).into_iter().zip(of(16_384)).zip(requests(1)) {
        println!("{name}: {few} steps, {many}");
        assert!(many <= 20 * few, "{name}: {few} and {many} steps");
    }
}

/// Where the last end leaves room for it, a reservation is not tried at the others.
#[test]
fn a_reservation_is_tried_where_it_may_succeed() {
    let count = 200;
    for policy in ["first", "lonode", "low"] {
        let mut engine = engine(count, policy, r#""cpu""#);
        charge(&mut engine, 1, count, |rank| (100 + rank).to_string());
        for name in ["all nodes", "units of all nodes"] {
            let (_, resources) = requests(count).into_iter().find(|(of, _)| *of == name).unwrap();
            let spec = spec(&resources, 50);
            let (now, once) = steps(&mut engine, MatchOp::Allocate, &spec);
            assert_eq!(now, Err(Reason::Busy), "{name}, {policy}");
            let (later, steps) = steps(&mut engine, MatchOp::WithoutAllocatingFuture, &spec);
            assert_eq!(later, Ok(i64::from(100 + count - 1)), "{name}, {policy}");
            assert!(steps <= 6 * once, "{name}, {policy}: {steps} steps, a match {once}");
        }
    }
}
