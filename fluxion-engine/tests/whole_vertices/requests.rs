//! Requests at random, and their texts.

use proptest::prelude::*;

use crate::machine::Shape;
use crate::naive::{Constraint, Count, Level, Request};

/// Requests of which the naive engine knows the meaning, for machines of a shape.
pub(crate) fn requests(shape: &Shape) -> impl Strategy<Value = Request> + use<> {
    let (racks, sockets, nodes) = (shape.racks, shape.sockets, shape.nodes.len());
    let numbers = (counts(), counts(), small_counts());
    let parts = (small_counts(), 0_u64..2, 0_u64..5);
    let levels = (numbers, parts, any::<bool>(), 0_u8..7).prop_map(
        move |((one, two, three), parts, exclusive, form)| {
            let parts = parts_of(parts);
            let slot = |count, with: &[Level]| level("slot", count, false, with);
            let node = |count, exclusive, with: &[Level]| level("node", count, exclusive, with);
            let socket = |count, with: &[Level]| level("socket", count, false, with);
            match form {
                0 => slot(one, &parts),
                1 if sockets == 0 => node(one, exclusive, &[slot(two, &parts)]),
                1 => node(one, exclusive, &[socket(three, &[slot(two, &parts)])]),
                2 => slot(one, &[node(three, false, &[])]),
                3 | 4 if sockets == 0 => slot(one, &[node(three, false, &parts)]),
                3 => slot(one, &[socket(three, &parts)]),
                4 => node(one, exclusive, &[slot(two, &[socket(three, &parts)])]),
                5 if racks > 0 && sockets == 0 => {
                    level("rack", three, false, &[node(two, false, &[slot(one, &parts)])])
                }
                5 => slot(one, &parts[..1]),
                _ => level("core", one, true, &[]),
            }
        },
    );
    let ranks = prop::collection::btree_set(0..i64::try_from(nodes).unwrap(), 1..4);
    let constraint = prop_oneof![
        6 => Just(None),
        1 => Just(Some(Constraint::Has)),
        1 => Just(Some(Constraint::HasNot)),
        1 => ranks.prop_map(|ranks| Some(Constraint::Ranks(ranks))),
    ];
    // Often one begins where another ends.
    let seconds = prop_oneof![2 => (1_i64..5).prop_map(|tens| tens * 10), 1 => 1_i64..50];
    (levels, seconds, constraint).prop_map(|(level, seconds, constraint)| Request {
        levels: vec![level],
        seconds,
        constraint,
    })
}

fn parts_of((cores, gpus, memory): (Count, u64, u64)) -> Vec<Level> {
    let mut parts = vec![level("core", cores, false, &[])];
    parts.extend((gpus > 0).then(|| level("gpu", exactly(gpus), false, &[])));
    // A vertex of memory is had whole, however little of it is wanted.
    parts.extend((memory > 2).then(|| level("memory", exactly(memory - 2), false, &[])));
    parts
}

fn level(kind: &'static str, count: Count, exclusive: bool, with: &[Level]) -> Level {
    Level { kind, count, exclusive, with: with.to_vec() }
}

fn exactly(count: u64) -> Count {
    Count { min: count, max: count, operator: '+', operand: 1 }
}

fn small_counts() -> impl Strategy<Value = Count> {
    prop_oneof![6 => (1_u64..4).prop_map(exactly), 1 => ranges()]
}

fn counts() -> impl Strategy<Value = Count> {
    prop_oneof![4 => (1_u64..4).prop_map(exactly), 1 => (4_u64..12).prop_map(exactly), 1 => ranges()]
}

fn ranges() -> impl Strategy<Value = Count> {
    let step = prop_oneof![(1_u64..3).prop_map(|by| ('+', by)), Just(('*', 2)), Just(('^', 2))];
    (1_u64..4, 0_u64..9, step).prop_map(|(min, more, (operator, operand))| {
        let min = if operator == '^' { min.max(2) } else { min };
        Count { min, max: min + more, operator, operand }
    })
}

/// The least number of nodes that levels need.
pub(crate) fn nodes_wanted(levels: &[Level]) -> u64 {
    let wanted = |level: &Level| {
        let own = u64::from(level.kind == "node");
        level.count.min * (own + nodes_wanted(&level.with))
    };
    levels.iter().map(wanted).sum()
}

/// The types that levels name.
pub(crate) fn kinds(levels: &[Level]) -> Vec<&'static str> {
    levels.iter().flat_map(|level| std::iter::once(level.kind).chain(kinds(&level.with))).collect()
}

/// The request as a jobspec in JSON.
pub(crate) fn jobspec(request: &Request) -> String {
    let constraint = match &request.constraint {
        None => String::new(),
        Some(Constraint::Has) => r#","constraints":{"properties":["p"]}"#.to_owned(),
        Some(Constraint::HasNot) => r#","constraints":{"properties":["^p"]}"#.to_owned(),
        Some(Constraint::Ranks(ranks)) => {
            let ranks: Vec<String> = ranks.iter().map(i64::to_string).collect();
            format!(r#","constraints":{{"ranks":["{}"]}}"#, ranks.join(","))
        }
    };
    format!(
        r#"{{"version":1,"resources":[{}],"tasks":[{{"command":["a"],"slot":"s","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":{}{constraint}}}}}}}"#,
        texts(&request.levels),
        request.seconds
    )
}

fn texts(levels: &[Level]) -> String {
    let text = |level: &Level| {
        let Count { min, max, operator, operand } = level.count;
        let count = if min == max {
            min.to_string()
        } else {
            format!(r#"{{"min":{min},"max":{max},"operator":"{operator}","operand":{operand}}}"#)
        };
        let label = if level.kind == "slot" { r#","label":"s""# } else { "" };
        let exclusive = if level.exclusive { r#","exclusive":true"# } else { "" };
        let with = if level.with.is_empty() {
            String::new()
        } else {
            format!(r#","with":[{}]"#, texts(&level.with))
        };
        format!(r#"{{"type":"{}","count":{count}{label}{exclusive}{with}}}"#, level.kind)
    };
    levels.iter().map(text).collect::<Vec<_>>().join(",")
}
