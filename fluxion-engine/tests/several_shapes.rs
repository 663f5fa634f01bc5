//! Random requests of several shapes, each with its own nodes, limits and hold, on a small machine with a past and a future:
//! compared with a model that tries every way to share out the slots over the nodes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fmt::Write as _;

use fluxion_engine::{EVENTUALLY, Engine, MatchOp, Reason};
use proptest::prelude::*;

const OPTIONS: &str =
    r#"{"load_format":"jgf","matcher_policy":"lonode","match_format":"placement","pool_types":["*"]}"#;
const NODES: u32 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    Seconds(i64),
    Eventually,
    Endless,
}

#[derive(Debug, Clone)]
struct Shape {
    count: u64,
    need: [u64; 2],
    hold: Hold,
    ranks: BTreeSet<u32>,
    /// It is held as long as the whole request, which is endless, and may use all nodes.
    plain: bool,
}

#[derive(Debug, Clone)]
struct Wish {
    shapes: Vec<Shape>,
    /// Which shapes it counts, and how many slots they may have together on a node.
    limits: Vec<([bool; 3], u64)>,
    policy: &'static str,
}

#[derive(Debug, Clone)]
enum Step {
    Charge { rank: u32, need: [u64; 2], hold: Hold },
    Allocate(Wish),
    Reserve(Wish),
    SetUp { rank: u32, up: bool },
    Advance(i64),
}

/// A slot on a node; `end` is an instant.
#[derive(Debug, Clone, Copy)]
struct Slot {
    job: u64,
    rank: u32,
    need: [u64; 2],
    start: i64,
    end: Hold,
    /// It has not begun.
    planned: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    At(i64),
    Eventually,
    Idle,
}

struct Model {
    sizes: Vec<[u64; 2]>,
    up: Vec<bool>,
    slots: Vec<Slot>,
    now: i64,
}

impl Slot {
    fn counts(&self, at: i64, now: i64) -> bool {
        (!self.planned || self.start <= at) && !matches!(self.end, Hold::Seconds(end) if end.max(now + 1) <= at)
    }
}

impl Model {
    /// Whether these slots fit on a node beside what is there.
    fn takes(&self, wish: &Wish, slots: &[u64], rank: u32, moment: Moment) -> bool {
        let limited = wish.limits.iter().all(|(labels, most)| {
            let of_limit = slots.iter().zip(labels).filter(|(_, named)| **named);
            of_limit.map(|(count, _)| count).sum::<u64>() <= *most
        });
        let others: Vec<Slot> = self.slots.iter().filter(|slot| slot.rank == rank).copied().collect();
        let used = |kind: usize, counts: &dyn Fn(&Slot) -> bool, ours: &dyn Fn(&Shape) -> bool| {
            let mine = wish.shapes.iter().zip(slots).filter(|(shape, count)| ours(shape) && **count > 0);
            let mine: u64 = mine.map(|(shape, count)| shape.need[kind] * count).sum();
            let there: u64 = others.iter().filter(|slot| counts(slot)).map(|slot| slot.need[kind]).sum();
            (mine, there)
        };
        let fits =
            |(mine, there): (u64, u64), kind: usize| mine == 0 || mine + there <= self.sizes[rank as usize][kind];
        limited
            && (0..2).all(|kind| match moment {
                Moment::Idle => fits(used(kind, &|_| false, &|_| true), kind),
                Moment::Eventually => fits(used(kind, &|slot| slot.end == Hold::Endless, &|_| true), kind),
                Moment::At(at) => {
                    let planned = others.iter().filter(|slot| slot.planned);
                    let starts = planned.map(|slot| slot.start).filter(|start| *start > at);
                    starts.chain([at]).all(|instant| {
                        let held =
                            |shape: &Shape| !matches!(shape.hold, Hold::Seconds(seconds) if at + seconds <= instant);
                        fits(used(kind, &|slot| slot.counts(instant, self.now), &held), kind)
                    })
                }
            })
    }

    fn fits(&self, wish: &Wish, moment: Moment) -> bool {
        let counts: Vec<u64> = wish.shapes.iter().map(|shape| shape.count).collect();
        let mut ways: BTreeSet<Vec<u64>> = BTreeSet::from([vec![0; counts.len()]]);
        for rank in 0..NODES {
            if !self.up[rank as usize] && moment != Moment::Idle {
                continue;
            }
            let mut here: Vec<Vec<u64>> = vec![Vec::new()];
            for shape in &wish.shapes {
                let most = if shape.ranks.contains(&rank) { shape.count } else { 0 };
                here = here
                    .iter()
                    .flat_map(|slots| (0..=most).map(move |count| [slots.clone(), vec![count]].concat()))
                    .collect();
            }
            here.retain(|slots| self.takes(wish, slots, rank, moment));
            let sum = |way: &Vec<u64>, slots: &Vec<u64>| {
                let sums = way.iter().zip(slots).zip(&counts).map(|((a, b), most)| (a + b).min(*most));
                sums.collect::<Vec<u64>>()
            };
            ways = ways.iter().flat_map(|way| here.iter().map(move |slots| sum(way, slots))).collect();
        }
        ways.contains(&counts)
    }

    /// The first instant after now at which something ends and it fits.
    fn later(&self, wish: &Wish) -> Option<i64> {
        let ends: BTreeSet<i64> = self
            .slots
            .iter()
            .filter_map(|slot| if let Hold::Seconds(end) = slot.end { Some(end.max(self.now + 1)) } else { None })
            .collect();
        ends.into_iter().find(|end| self.fits(wish, Moment::At(*end)))
    }

    /// Moves the clock: jobs whose start has come begin where there is room for all that they get, else in the next second.
    fn advance(&mut self, seconds: i64) {
        self.now += seconds;
        let due = self.slots.iter().filter(|slot| slot.planned && slot.start <= self.now);
        for (start, job) in due.map(|slot| (slot.start, slot.job)).collect::<BTreeSet<_>>() {
            let used = |rank: u32, kind: usize, of: &dyn Fn(&&Slot) -> bool| -> u64 {
                self.slots.iter().filter(|slot| slot.rank == rank).filter(of).map(|slot| slot.need[kind]).sum()
            };
            let begins = self.slots.iter().filter(|slot| slot.planned && slot.job == job).all(|slot| {
                let fits = |kind: usize| {
                    let ours = used(slot.rank, kind, &|other| other.planned && other.job == job);
                    let there = used(slot.rank, kind, &|other| !other.planned);
                    ours == 0 || ours + there <= self.sizes[slot.rank as usize][kind]
                };
                self.up[slot.rank as usize] && fits(0) && fits(1)
            });
            let later = self.now + 1 - start;
            for slot in self.slots.iter_mut().filter(|slot| slot.planned && slot.job == job) {
                slot.planned = !begins;
                if !begins {
                    slot.start += later;
                    slot.end = if let Hold::Seconds(end) = slot.end { Hold::Seconds(end + later) } else { slot.end };
                }
            }
        }
    }

    /// Takes what was granted, which must be what was asked for, and fit.
    fn take(&mut self, job: u64, wish: &Wish, r: &str, start: i64) {
        let read: serde_json::Value = serde_json::from_str(r).unwrap();
        let mut placed = vec![vec![0; wish.shapes.len()]; NODES as usize];
        for group in read["slots"].as_array().unwrap() {
            let shape: usize = group["label"].as_str().unwrap().parse().unwrap();
            for part in group["ranks"].as_str().unwrap().split(',') {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                for rank in first.parse().unwrap()..=last.parse::<u32>().unwrap() {
                    placed[rank as usize][shape] += group["per_rank"].as_u64().unwrap();
                }
            }
        }
        for (shape, wanted) in wish.shapes.iter().enumerate() {
            assert_eq!(placed.iter().map(|slots| slots[shape]).sum::<u64>(), wanted.count);
        }
        for (rank, slots) in (0..).zip(&placed) {
            assert!(self.takes(wish, slots, rank, Moment::At(start)), "rank {rank}: {slots:?}");
        }
        let planned = start > self.now;
        for (rank, slots) in (0..).zip(&placed) {
            for (shape, count) in wish.shapes.iter().zip(slots).filter(|(_, count)| **count > 0) {
                assert!(shape.ranks.contains(&rank) && self.up[rank as usize], "rank {rank}");
                let end = match shape.hold {
                    Hold::Seconds(seconds) => Hold::Seconds(start + seconds),
                    other => other,
                };
                self.slots.extend((0..*count).map(|_| Slot { job, rank, need: shape.need, start, end, planned }));
            }
        }
    }
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
        let ranks: Vec<String> = shape.ranks.iter().map(u32::to_string).collect();
        let mut of_slot = format!(r#"{{"label":"{label}","ranks":"{}""#, ranks.join(","));
        match shape.hold {
            Hold::Seconds(seconds) => write!(of_slot, r#","duration":{seconds}}}"#).unwrap(),
            Hold::Eventually => of_slot.push_str(r#","end":"eventually"}"#),
            Hold::Endless => of_slot.push_str(r#","duration":0}"#),
        }
        slots.push(of_slot);
    }
    let limits = wish.limits.iter().map(|(labels, count)| {
        let labels: Vec<String> =
            (0..wish.shapes.len()).filter(|at| labels[*at]).map(|at| format!(r#""{at}""#)).collect();
        format!(r#"{{"labels":[{}],"count":{count}}}"#, labels.join(","))
    });
    let limits: Vec<String> = limits.collect();
    format!(
        r#"{{"version":1,"resources":[{}],"tasks":[{{"command":["a"],"slot":"0","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"fluxion":{{"policy":"{}","slots":[{}],"max_per_node":[{}]}}}}}}}}"#,
        resources.join(","),
        wish.policy,
        slots.join(","),
        limits.join(",")
    )
}

fn machine(sizes: &[[u64; 2]]) -> Engine {
    let mut nodes = r#"{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}}"#.to_owned();
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
        edges.extend(["c", "m"].map(|part| format!(r#"{{"source":"n{rank}","target":"{part}{rank}"}}"#)));
    }
    let graph = format!(r#"{{"graph":{{"nodes":[{nodes}],"edges":[{}]}}}}"#, edges.join(","));
    Engine::new(&graph, OPTIONS).unwrap()
}

fn holds() -> impl Strategy<Value = Hold> {
    prop_oneof![4 => (1_i64..12).prop_map(Hold::Seconds), 1 => Just(Hold::Eventually), 1 => Just(Hold::Endless)]
}

fn wishes() -> impl Strategy<Value = Wish> {
    let shape = (1_u64..4, [1_u64..4, 0_u64..4], holds(), prop::collection::btree_set(0..NODES, 1..4), any::<u8>())
        .prop_map(|(count, need, hold, ranks, plain)| match plain % 4 {
            0 => Shape { count, need, hold: Hold::Endless, ranks: (0..NODES).collect(), plain: true },
            _ => Shape { count, need, hold, ranks, plain: false },
        });
    let limit = ([any::<bool>(), any::<bool>(), any::<bool>()], 1_u64..3);
    let policy = prop::sample::select(vec!["lonode", "hinode", "binpack", "spread"]);
    (prop::collection::vec(shape, 1..4), prop::collection::vec(limit, 0..3), policy)
        .prop_map(|(shapes, limits, policy)| Wish { shapes, limits, policy })
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..NODES, [0_u64..5, 0_u64..5], holds()).prop_map(|(rank, need, hold)| Step::Charge { rank, need, hold }),
        4 => wishes().prop_map(Step::Allocate),
        5 => wishes().prop_map(Step::Reserve),
        1 => (0..NODES, any::<bool>()).prop_map(|(rank, up)| Step::SetUp { rank, up }),
        1 => (0_i64..6).prop_map(Step::Advance),
    ]
}

/// What the model says of a request that does not fit now.
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

/// Two of four cpus are free, and one is wanted back in ten seconds: one slot may stay, the other must have ended.
#[test]
fn a_short_slot_ends_before_a_reservation_and_a_long_one_stays_beside_it() {
    let mut engine = machine(&[[4, 0]]);
    engine.charge(1, r#"{"label":"c","rank":0,"count":2,"with":{"cpu":1},"end":10}"#).unwrap();
    let shape =
        |count, need: u64, hold| Shape { count, need: [need, 0], hold, ranks: BTreeSet::from([0]), plain: false };
    let wish = |shapes: Vec<Shape>| jobspec(&Wish { shapes, limits: Vec::new(), policy: "lonode" });
    let reserved = wish(vec![shape(1, 3, Hold::Seconds(30))]);
    assert_eq!(engine.match_job(MatchOp::AllocateOrElseReserve, &reserved, 2).unwrap().at, 10);
    let both = |first, second| wish(vec![shape(1, 1, Hold::Seconds(first)), shape(1, 1, Hold::Seconds(second))]);
    assert_eq!(engine.match_job(MatchOp::Allocate, &both(11, 50), 3).unwrap_err().reason, Reason::Busy);
    assert_eq!(engine.match_job(MatchOp::Allocate, &both(10, 50), 3).unwrap().at, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_every_way_to_share_out_the_slots(
        sizes in prop::collection::vec([0_u64..9, 0_u64..9], NODES as usize),
        history in prop::collection::vec(steps(), 1..16),
    ) {
        let mut engine = machine(&sizes);
        let mut model = Model { sizes, up: vec![true; NODES as usize], slots: Vec::new(), now: 0 };
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
                    prop_assert_eq!(told, forecast(&model, wish));
                    match engine.match_job(MatchOp::Allocate, &text, job) {
                        Ok(grant) => model.take(job, wish, &grant.r, model.now),
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
                            prop_assert_eq!(Ok(grant.at), expected);
                            model.take(job, wish, &grant.r, grant.at);
                        }
                        Err(error) => {
                            let expected = expected.map_or_else(|reason| reason, |_| Reason::Busy);
                            prop_assert_eq!(error.reason, expected);
                        }
                    }
                }
                Step::SetUp { rank, up } => {
                    engine.set_rank_status(&rank.to_string(), *up).unwrap();
                    model.up[*rank as usize] = *up;
                }
                Step::Advance(seconds) => {
                    model.advance(*seconds);
                    engine.set_time(model.now);
                }
            }
        }
    }
}
