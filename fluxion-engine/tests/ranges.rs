//! Ranges of slots on pools: as many as there is room for at the start, at least the minimum.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write as _;

use fluxion_engine::{Engine, MatchOp, Reason};
use proptest::prelude::*;

const NODES: usize = 4;
const CPU: u64 = 8;

fn machine() -> Engine {
    let root = r#"{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}}"#;
    let (mut nodes, mut edges) = (root.to_owned(), String::new());
    for rank in 0..NODES {
        let (node, cpu) = (1 + 2 * rank, 2 + 2 * rank);
        write!(
            nodes,
            r#",{{"id":"{node}","metadata":{{"type":"node","id":{rank},"rank":{rank},
            "paths":{{"containment":"/c0/node{rank}"}}}}}},
            {{"id":"{cpu}","metadata":{{"type":"cpu","id":0,"rank":{rank},"size":{CPU},
            "paths":{{"containment":"/c0/node{rank}/cpu0"}}}}}}"#
        )
        .unwrap();
        let comma = if rank == 0 { "" } else { "," };
        write!(
            edges,
            r#"{comma}{{"source":"0","target":"{node}"}},{{"source":"{node}","target":"{cpu}"}}"#
        )
        .unwrap();
    }
    Engine::new(
        &format!(r#"{{"graph":{{"nodes":[{nodes}],"edges":[{edges}]}}}}"#),
        r#"{"load_format":"jgf","match_format":"placement","pool_types":["cpu"]}"#,
    )
    .unwrap()
}

fn slot(label: &str, count: &str, cpu: u64) -> String {
    format!(
        r#"{{"type":"slot","label":"{label}","count":{count},"with":[{{"type":"cpu",
        "count":{cpu}}}]}}"#
    )
}

fn spec(slots: &[String], duration: u64) -> String {
    format!(
        r#"{{"version":1,"resources":[{}],"tasks":[{{"command":["a"],"slot":"a",
        "count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":{duration}}}}}}}"#,
        slots.join(",")
    )
}

fn range(min: u64, max: u64) -> String {
    format!(r#"{{"min":{min},"max":{max},"operator":"+","operand":1}}"#)
}

/// How many slots of a label a grant has.
fn granted(r: &str, label: &str) -> u64 {
    let r: serde_json::Value = serde_json::from_str(r).unwrap();
    let slots = r["slots"].as_array().unwrap().iter().filter(|slot| slot["label"] == label);
    slots
        .map(|slot| {
            let ranks = slot["ranks"].as_str().unwrap().split(',');
            let ranks = ranks.map(|ranks| match ranks.split_once('-') {
                Some((first, last)) => {
                    last.parse::<u64>().unwrap() - first.parse::<u64>().unwrap() + 1
                }
                None => 1,
            });
            ranks.sum::<u64>() * slot["per_rank"].as_u64().unwrap()
        })
        .sum()
}

proptest! {
    /// Against the sum of what each node has room for, and against requests for numbers.
    #[test]
    fn a_range_is_as_large_as_there_is_room_for(
        used in prop::collection::vec((0..=CPU, 1_i64..40), NODES),
        (min, more, cpu) in (1_u64..14, 1_u64..20, 1_u64..5),
        duration in 1_u64..30,
    ) {
        let mut engine = machine();
        for (rank, (cpu, end)) in used.iter().enumerate().filter(|(_, (cpu, _))| *cpu > 0) {
            let charge = format!(
                r#"{{"label":"r","rank":{rank},"count":1,"with":{{"cpu":{cpu}}},"end":{end}}}"#
            );
            engine.charge(100 + rank as u64, &charge).unwrap();
        }
        let room = |at: i64| -> u64 {
            let free = used.iter().map(|(used, end)| if *end <= at { CPU } else { CPU - used });
            free.map(|free| free / cpu).sum()
        };
        let ranged = spec(&[slot("a", &range(min, min + more), cpu)], duration);
        let now = engine.fork().match_job(MatchOp::Allocate, &ranged, 1);
        prop_assert_eq!(now.is_ok(), room(0) >= min);
        if let Ok(grant) = now {
            prop_assert_eq!(granted(&grant.r, "a"), room(0).min(min + more));
        }
        let least = spec(&[slot("a", &min.to_string(), cpu)], duration);
        let later = engine.fork().match_job(MatchOp::AllocateOrElseReserve, &ranged, 1);
        let number = engine.fork().match_job(MatchOp::AllocateOrElseReserve, &least, 1);
        match (later, number) {
            (Ok(later), Ok(number)) => {
                prop_assert_eq!(later.at, number.at);
                prop_assert_eq!(granted(&later.r, "a"), room(later.at).min(min + more));
            }
            (Err(later), Err(number)) => {
                prop_assert_eq!(later.reason, number.reason);
                prop_assert_eq!(later.reason, Reason::Unsatisfiable);
            }
            (later, number) => prop_assert!(false, "{:?} {:?}", later, number),
        }
    }

    /// Of two ranges the first is raised first, and both have their minimum.
    #[test]
    fn of_two_ranges_the_first_is_raised_first(
        (a, b) in ((1_u64..4, 0_u64..6, 1_u64..4), (1_u64..4, 0_u64..6, 1_u64..4)),
    ) {
        let fits = |counts: (u64, u64)| {
            let slots = [
                slot("a", &counts.0.to_string(), a.2),
                slot("b", &counts.1.to_string(), b.2),
            ];
            machine().match_job(MatchOp::Allocate, &spec(&slots, 9), 1).is_ok()
        };
        let slots = [
            slot("a", &range(a.0, a.0 + a.1), a.2),
            slot("b", &range(b.0, b.0 + b.1), b.2),
        ];
        match machine().match_job(MatchOp::Allocate, &spec(&slots, 9), 1) {
            Err(_) => prop_assert!(!fits((a.0, b.0))),
            Ok(grant) => {
                let (first, second) = (granted(&grant.r, "a"), granted(&grant.r, "b"));
                prop_assert!(first == a.0 + a.1 || !fits((first + 1, b.0)));
                prop_assert!(second == b.0 + b.1 || !fits((first, second + 1)));
                prop_assert!(fits((first, second)));
            }
        }
    }
}

#[test]
fn a_reserved_range_is_moved_to_where_there_is_room_for_more() {
    let mut engine = machine();
    for rank in 0..NODES {
        let charge =
            format!(r#"{{"label":"r","rank":{rank},"count":1,"with":{{"cpu":8}},"end":50}}"#);
        engine.charge(100 + rank as u64, &charge).unwrap();
    }
    engine.resize(3, "cpu", 4).unwrap();
    let ranged = spec(&[slot("a", &range(2, 8), 4)], 10);
    let grant = engine.match_job(MatchOp::AllocateOrElseReserve, &ranged, 1).unwrap();
    assert_eq!((grant.at, granted(&grant.r, "a")), (50, 7));
    engine.resize(3, "cpu", 8).unwrap();
    let moved = engine.move_reservation(1).unwrap();
    assert_eq!((moved.at, granted(&moved.r, "a")), (50, 8));
    engine.release(100, 0, "r", 1).unwrap();
    let moved = engine.move_reservation(1).unwrap();
    assert_eq!((moved.at, moved.reserved, granted(&moved.r, "a")), (0, false, 2));
}

#[test]
fn what_is_no_range_of_slots_is_refused_by_name() {
    let mut engine = machine();
    let units = spec(
        &[slot("a", "1", 1).replace(
            r#""count":1}]"#,
            r#""count":{"min":1,"max":2,"operator":"+","operand":1}}]"#,
        )],
        9,
    );
    let units = units.replace("\n        \"count\":1}]", &format!("\"count\":{}}}]", range(1, 2)));
    let error = engine.match_job(MatchOp::Allocate, &units, 1).unwrap_err();
    assert!(error.text.contains("slot \"a\": cpu: a range of units"), "{error}");
}

#[test]
fn a_range_of_units_is_refused_wherever_its_slot_stands() {
    let mut engine = machine();
    let slot = |count: &str| {
        let slot = format!(
            r#"{{"type":"slot","label":"a","count":1,"with":[{{"type":"cpu","count":{count}}}]}}"#
        );
        let node = format!(r#"{{"type":"node","count":1,"with":[{slot}]}}"#);
        spec(&[node], 9)
    };
    for op in [MatchOp::Allocate, MatchOp::AllocateOrElseReserve, MatchOp::Satisfiability] {
        let error = engine.match_job(op, &slot(&range(1, 4)), 1).unwrap_err();
        assert_eq!(error.reason, Reason::Invalid);
        assert!(error.text.contains("slot \"a\": cpu: a range of units"), "{error}");
    }
    // It is understood, and has no words in this format.
    let error = engine.match_job(MatchOp::Allocate, &slot("4"), 1).unwrap_err();
    assert_eq!(error.reason, Reason::NotOffered);
}
