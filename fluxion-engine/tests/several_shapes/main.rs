//! Random requests of several shapes, each with its own nodes, limits and hold, within parts of two
//! levels, on a small machine with a past and a future: compared with a model that tries every way
//! to share out the slots over the nodes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod model;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use fluxion_engine::{EVENTUALLY, Engine, MatchOp, Reason};
use model::{Hold, Model, Moment, NODES, PARTS, Rule, Shape, Slot, Wish, Within};
use proptest::prelude::*;

const OPTIONS: &str = r#"{"load_format":"jgf","matcher_policy":"lonode","match_format":"placement","pool_types":["*"]}"#;

#[derive(Debug, Clone)]
enum Step {
    Charge { rank: u32, need: [u64; 2], hold: Hold },
    Allocate(Wish),
    Reserve(Wish),
    SetUp { rank: u32, up: bool },
    SetPart { level: usize, rank: u32, part: Option<usize> },
    Advance(i64),
}

fn jobspec(wish: &Wish) -> String {
    let (mut resources, mut slots) = (Vec::new(), Vec::new());
    for (label, shape) in wish.shapes.iter().enumerate() {
        let parts: Vec<String> = ["cpu", "memory"]
            .iter()
            .zip(shape.need)
            .filter(|(_, units)| *units > 0)
            .map(|(kind, units)| format!(r#"{{"type":"{kind}","count":{units}}}"#))
            .collect();
        resources.push(format!(
            r#"{{"type":"slot","count":{},"label":"{label}","with":[{}]}}"#,
            shape.count,
            parts.join(",")
        ));
        if shape.plain {
            continue;
        }
        let ids =
            |ranks: &BTreeSet<u32>| ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let mut of_slot = format!(r#"{{"label":"{label}","ranks":"{}""#, ids(&shape.ranks));
        if !shape.counted.is_empty() {
            write!(of_slot, r#","counted":"{}""#, ids(&shape.counted)).unwrap();
        }
        match shape.hold {
            Hold::Seconds(seconds) => write!(of_slot, r#","duration":{seconds}}}"#).unwrap(),
            Hold::Eventually => of_slot.push_str(r#","end":"eventually"}"#),
            Hold::Endless => of_slot.push_str(r#","duration":0}"#),
        }
        slots.push(of_slot);
    }
    let limits = wish.limits.iter().map(|(labels, count)| {
        let labels: Vec<String> = (0..wish.shapes.len())
            .filter(|at| labels[*at])
            .map(|at| format!(r#""{at}""#))
            .collect();
        format!(r#"{{"labels":[{}],"count":{count}}}"#, labels.join(","))
    });
    let limits: Vec<String> = limits.collect();
    let rules: Vec<String> =
        wish.rules.iter().map(|rule| rule_text(rule, wish.shapes.len())).collect();
    format!(
        r#"{{"version":1,"resources":[{}],"tasks":[{{"command":["a"],"slot":"0","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"fluxion":{{"policy":"{}","slots":[{}],"max_per_node":[{}],"levels":[{}]}}}}}}}}"#,
        resources.join(","),
        wish.policy,
        slots.join(","),
        limits.join(","),
        rules.join(",")
    )
}

fn rule_text(rule: &Rule, shapes: usize) -> String {
    let labels: Vec<String> =
        (0..shapes).filter(|at| rule.labels[*at]).map(|at| format!(r#""{at}""#)).collect();
    let mut text = format!(r#"{{"level":"level{}""#, rule.level);
    // All shapes are meant by default.
    if labels.len() < shapes {
        write!(text, r#","labels":[{}]"#, labels.join(",")).unwrap();
    }
    match rule.within {
        Within::Any => {}
        Within::One if rule.is_slice => text.push_str(r#","within":"one","slice":true"#),
        Within::One => text.push_str(r#","within":"one""#),
        Within::Fewest => text.push_str(r#","within":"fewest""#),
        Within::Part(part) => write!(text, r#","part":"p{part}""#).unwrap(),
    }
    if let Some(most) = rule.most {
        write!(text, r#","max_per_part":{most}"#).unwrap();
    }
    if let Some(skew) = rule.skew {
        write!(text, r#","max_skew":{skew}"#).unwrap();
    }
    text.push('}');
    text
}

fn machine(sizes: &[[u64; 2]]) -> Engine {
    let mut nodes =
        r#"{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}}"#
            .to_owned();
    let mut edges = Vec::new();
    for (rank, sizes) in sizes.iter().enumerate() {
        let path = format!("/c0/n{rank}");
        let parts = [("n", "node", 1, path.clone())].into_iter().chain([
            ("c", "cpu", sizes[0], format!("{path}/cpu0")),
            ("m", "memory", sizes[1], format!("{path}/memory0")),
        ]);
        for (id, kind, size, path) in parts {
            let number = if kind == "node" { rank } else { 0 };
            write!(
                nodes,
                r#",{{"id":"{id}{rank}","metadata":{{"type":"{kind}","id":{number},"rank":{rank},"uniq_id":{rank},"size":{size},"paths":{{"containment":"{path}"}}}}}}"#
            )
            .unwrap();
        }
        edges.push(format!(r#"{{"source":"0","target":"n{rank}"}}"#));
        edges.extend(
            ["c", "m"].map(|part| format!(r#"{{"source":"n{rank}","target":"{part}{rank}"}}"#)),
        );
    }
    let graph = format!(r#"{{"graph":{{"nodes":[{nodes}],"edges":[{}]}}}}"#, edges.join(","));
    Engine::new(&graph, OPTIONS).unwrap()
}

fn set_part(engine: &mut Engine, level: usize, rank: usize, part: Option<usize>) {
    let part = part.map_or_else(String::new, |part| format!("p{part}"));
    engine.set_part(&format!("level{level}"), &rank.to_string(), &part).unwrap();
}

fn holds() -> impl Strategy<Value = Hold> {
    prop_oneof![4 => (1_i64..12).prop_map(Hold::Seconds), 1 => Just(Hold::Eventually), 1 => Just(Hold::Endless)]
}

fn wishes() -> impl Strategy<Value = Wish> {
    let ranks = |from: usize| prop::collection::btree_set(0..NODES, from..4);
    let shape = (1_u64..4, [1_u64..4, 0_u64..4], holds(), ranks(1), ranks(0), any::<u8>());
    let shape = shape.prop_map(|(count, need, hold, ranks, counted, plain)| match plain % 4 {
        0 => {
            let (ranks, counted) = ((0..NODES).collect(), BTreeSet::new());
            Shape { count, need, hold: Hold::Endless, ranks, counted, plain: true }
        }
        odd => {
            let counted = if odd == 1 { counted } else { BTreeSet::new() };
            Shape { count, need, hold, ranks, counted, plain: false }
        }
    });
    let limit = ([any::<bool>(), any::<bool>(), any::<bool>()], 1_u64..3);
    let policy = prop::sample::select(vec!["lonode", "hinode", "binpack", "spread"]);
    (prop::collection::vec(shape, 1..4), prop::collection::vec(limit, 0..3), rules(), policy)
        .prop_map(|(shapes, limits, rules, policy)| Wish { shapes, limits, rules, policy })
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let within = prop_oneof![
        2 => Just(Within::Any),
        3 => Just(Within::One),
        2 => Just(Within::Fewest),
        1 => (0..PARTS).prop_map(Within::Part),
    ];
    let labels =
        prop_oneof![2 => Just([true; 3]), 1 => [any::<bool>(), any::<bool>(), any::<bool>()]];
    let bound = || prop::option::weighted(0.3, 0_u64..4);
    let rule = (0_usize..2, labels, within, any::<bool>(), bound(), bound());
    let rule = rule.prop_map(|(level, labels, within, is_slice, most, skew)| {
        let skew = skew.filter(|_| matches!(within, Within::Any | Within::Part(_)));
        let is_slice = is_slice && within == Within::One;
        Rule { level, labels, within, is_slice, most: most.map(|most| most.max(1)), skew }
    });
    // Each shape is a slice, and all are to be even over a level.
    let sliced =
        (0_usize..2, 0_usize..2, bound(), 0_u64..7).prop_map(|(level, over, most, skew)| {
            let of = |shape: usize| std::array::from_fn(|at| at == shape);
            let slice = |at| Rule {
                level,
                labels: of(at),
                within: Within::One,
                is_slice: true,
                most: None,
                skew: None,
            };
            let most = most.map(|most| most + 2);
            let even = Rule {
                level: over,
                labels: [true; 3],
                within: Within::Any,
                is_slice: false,
                most,
                skew: Some(skew),
            };
            (0..3).map(slice).chain([even]).collect::<Vec<Rule>>()
        });
    prop_oneof![2 => Just(Vec::new()), 3 => prop::collection::vec(rule, 1..4), 2 => sliced]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..NODES, [0_u64..5, 0_u64..5], holds()).prop_map(|(rank, need, hold)| Step::Charge { rank, need, hold }),
        4 => wishes().prop_map(Step::Allocate),
        5 => wishes().prop_map(Step::Reserve),
        1 => (0..NODES, any::<bool>()).prop_map(|(rank, up)| Step::SetUp { rank, up }),
        2 => (0_usize..2, 0..NODES, prop::option::weighted(0.8, 0..PARTS))
            .prop_map(|(level, rank, part)| Step::SetPart { level, rank, part }),
        1 => (0_i64..6).prop_map(Step::Advance),
    ]
}

/// The answer of the model to a request that does not fit now.
fn refusal(model: &Model, wish: &Wish) -> Result<i64, Reason> {
    if let Some(at) = model.later(wish) {
        return Ok(at);
    }
    if !model.fits(wish, Moment::Eventually) {
        let ever = model.fits(wish, Moment::Idle);
        return Err(if ever { Reason::Busy } else { Reason::Unsatisfiable });
    }
    Ok(EVENTUALLY)
}

fn forecast(model: &Model, wish: &Wish) -> Result<i64, Reason> {
    if model.fits(wish, Moment::At(model.now)) { Ok(model.now) } else { refusal(model, wish) }
}

/// Two of four cpus are free, and one is wanted back in ten seconds: one slot may stay, the other
/// must have ended.
#[test]
fn a_short_slot_ends_before_a_reservation_and_a_long_one_stays_beside_it() {
    let mut engine = machine(&[[4, 0]]);
    engine.charge(1, r#"{"label":"c","rank":0,"count":2,"with":{"cpu":1},"end":10}"#).unwrap();
    let shape = |count, need: u64, hold| Shape {
        count,
        need: [need, 0],
        hold,
        ranks: BTreeSet::from([0]),
        counted: BTreeSet::new(),
        plain: false,
    };
    let wish = |shapes: Vec<Shape>| {
        jobspec(&Wish { shapes, limits: Vec::new(), rules: Vec::new(), policy: "lonode" })
    };
    let reserved = wish(vec![shape(1, 3, Hold::Seconds(30))]);
    assert_eq!(engine.match_job(MatchOp::AllocateOrElseReserve, &reserved, 2).unwrap().at, 10);
    let both = |first, second| {
        wish(vec![shape(1, 1, Hold::Seconds(first)), shape(1, 1, Hold::Seconds(second))])
    };
    assert_eq!(
        engine.match_job(MatchOp::Allocate, &both(11, 50), 3).unwrap_err().reason,
        Reason::Busy
    );
    assert_eq!(engine.match_job(MatchOp::Allocate, &both(10, 50), 3).unwrap().at, 0);
}

/// Two racks of two nodes. A reservation within one of them is made again when a node of it comes
/// to the other one.
#[test]
fn a_reservation_leaves_nodes_that_have_come_to_another_part() {
    let mut engine = machine(&[[2, 0]; 4]);
    for (rank, part) in [0, 0, 1, 1].into_iter().enumerate() {
        set_part(&mut engine, 0, rank, Some(part));
    }
    for (rank, end) in [(0, 10), (1, 10), (2, 20), (3, 20)] {
        let charge =
            format!(r#"{{"label":"c","rank":{rank},"count":1,"with":{{"cpu":2}},"end":{end}}}"#);
        engine.charge(1 + u64::from(rank == 3), &charge).unwrap();
    }
    let rule = Rule {
        level: 0,
        labels: [true; 3],
        within: Within::One,
        is_slice: false,
        most: None,
        skew: None,
    };
    let shape = Shape {
        count: 2,
        need: [2, 0],
        hold: Hold::Endless,
        ranks: (0..NODES).collect(),
        counted: BTreeSet::new(),
        plain: true,
    };
    let wish =
        Wish { shapes: vec![shape], limits: Vec::new(), rules: vec![rule], policy: "lonode" };
    assert_eq!(
        engine.match_job(MatchOp::AllocateOrElseReserve, &jobspec(&wish), 3).unwrap().at,
        10
    );
    assert!(
        engine
            .explain(&jobspec(&wish))
            .unwrap()
            .to_json()
            .contains(r#""parts":2,"largest":2,"part":"p0"}"#)
    );
    set_part(&mut engine, 0, 1, Some(1));
    let moved = engine.move_reservation(3).unwrap();
    assert_eq!((moved.at, moved.delay.status), (20, true));
    // As soon as it is back.
    set_part(&mut engine, 0, 1, Some(0));
    assert_eq!(engine.move_reservation(3).unwrap().at, 10);
    assert_eq!(engine.eligible(&jobspec(&wish)).unwrap(), "2-3");
}

/// Three slots on two racks, as many on one as on the other, are impossible; with one rack down
/// they wait for room on the other.
#[test]
fn what_only_the_nodes_that_are_up_can_hold_evenly_waits() {
    let mut engine = machine(&[[4, 0]; 2]);
    (0..2).for_each(|rank| set_part(&mut engine, 0, rank, Some(rank)));
    let rule = Rule {
        level: 0,
        labels: [true; 3],
        within: Within::Any,
        is_slice: false,
        most: None,
        skew: Some(0),
    };
    let ranks: BTreeSet<u32> = (0..2).collect();
    let shape = |counted| Shape {
        count: 3,
        need: [1, 0],
        hold: Hold::Seconds(5),
        ranks: ranks.clone(),
        counted,
        plain: false,
    };
    let wish = |counted| Wish {
        shapes: vec![shape(counted)],
        limits: Vec::new(),
        rules: vec![rule.clone()],
        policy: "lonode",
    };
    let plain = jobspec(&wish(BTreeSet::new()));
    let later =
        |engine: &mut Engine, text: &str| engine.match_job(MatchOp::AllocateOrElseReserve, text, 2);
    assert_eq!(later(&mut engine, &plain).unwrap_err().reason, Reason::Unsatisfiable);
    engine.set_rank_status("1", false).unwrap();
    engine
        .charge(1, r#"{"label":"c","rank":0,"count":1,"with":{"cpu":2},"end":"eventually"}"#)
        .unwrap();
    assert_eq!(later(&mut engine, &plain).unwrap_err().reason, Reason::Busy);
    // Where the rack that is down counts, it is as with all nodes up.
    let counted = jobspec(&wish(ranks.clone()));
    assert_eq!(later(&mut engine, &counted).unwrap_err().reason, Reason::Unsatisfiable);
    let supply = engine.explain(&counted).unwrap().to_json();
    assert!(supply.contains(r#""even":{"room":0,"least":0,"part":"p1"}"#), "{supply}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("FLUXION_SHAPES_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1_500),
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn agrees_with_every_way_to_share_out_the_slots(
        sizes in prop::collection::vec([0_u64..9, 0_u64..9], NODES as usize),
        parts in prop::array::uniform2(prop::array::uniform4(0..PARTS)),
        history in prop::collection::vec(steps(), 1..16),
    ) {
        let mut engine = machine(&sizes);
        let parts = parts.map(|level| level.map(Some));
        let mut model = Model { sizes, up: vec![true; NODES as usize], parts, slots: Vec::new(), now: 0 };
        for (level, parts) in model.parts.iter().enumerate() {
            for (rank, part) in parts.iter().enumerate() {
                set_part(&mut engine, level, rank, *part);
            }
        }
        for (job, step) in (1..).zip(&history) {
            match step {
                Step::Charge { rank, need, hold } => {
                    let end = match hold {
                        Hold::Seconds(seconds) => (model.now + seconds).to_string(),
                        Hold::Eventually => r#""eventually""#.to_owned(),
                        Hold::Endless => r#""never""#.to_owned(),
                    };
                    let [cpu, memory] = need;
                    engine.charge(job, &format!(
                        r#"{{"label":"c","rank":{rank},"count":1,"with":{{"cpu":{cpu},"memory":{memory}}},"end":{end}}}"#
                    )).unwrap();
                    let end = match hold {
                        Hold::Seconds(seconds) => Hold::Seconds(model.now + seconds),
                        other => *other,
                    };
                    model.slots.push(Slot { job, rank: *rank, need: *need, start: model.now, end, planned: false });
                }
                Step::Allocate(wish) => {
                    let text = jobspec(wish);
                    let told = engine.match_job(MatchOp::WithoutAllocatingFuture, &text, 0);
                    let told = told.map(|grant| grant.at).map_err(|error| error.reason);
                    if wish.is_exact() {
                        prop_assert_eq!(told, forecast(&model, wish));
                    }
                    match engine.match_job(MatchOp::Allocate, &text, job) {
                        Ok(grant) => model.take(job, wish, &grant.r, model.now),
                        Err(error) if error.reason == Reason::GaveUp => prop_assert!(!wish.is_exact()),
                        Err(error) => {
                            prop_assert_eq!(error.reason, Reason::Busy);
                            prop_assert!(!model.fits(wish, Moment::At(model.now)));
                        }
                    }
                }
                Step::Reserve(wish) => {
                    let expected = forecast(&model, wish);
                    match engine.match_job(MatchOp::AllocateOrElseReserve, &jobspec(wish), job) {
                        Ok(grant) => {
                            if wish.is_exact() {
                                prop_assert_eq!(Ok(grant.at), expected);
                            }
                            model.take(job, wish, &grant.r, grant.at);
                        }
                        Err(_) if !wish.is_exact() => {}
                        Err(error) => {
                            let expected = expected.map_or_else(|reason| reason, |_| Reason::Busy);
                            prop_assert_eq!(error.reason, expected);
                        }
                    }
                }
                Step::SetPart { level, rank, part } => {
                    set_part(&mut engine, *level, *rank as usize, *part);
                    model.parts[*level][*rank as usize] = *part;
                }
                Step::SetUp { rank, up } => {
                    engine.set_rank_status(&rank.to_string(), *up).unwrap();
                    model.up[*rank as usize] = *up;
                }
                Step::Advance(seconds) => {
                    model.advance(*seconds);
                    engine.set_time(model.now).unwrap();
                }
            }
        }
    }
}
