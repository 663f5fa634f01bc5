//! What goes to the engine and what comes from it, as texts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::KINDS;
use crate::naive::{End, Order, Tenancy, Wish};

pub(crate) fn jobspec(shapes: &[(&str, &Wish)]) -> String {
    let wish = shapes[0].1;
    let slots: Vec<String> = shapes
        .iter()
        .map(|(label, wish)| {
            let units = KINDS.iter().zip(wish.need).filter(|(_, units)| *units > 0);
            let parts: Vec<String> = units
                .map(|(kind, units)| format!(r#"{{"type":"{kind}","count":{units}}}"#))
                .collect();
            format!(
                r#"{{"type":"slot","count":{},"label":"{label}","with":[{}]}}"#,
                wish.count,
                parts.join(",")
            )
        })
        .collect();
    let idset = |ranks: &std::collections::BTreeSet<u32>| {
        ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
    };
    let prefer: Vec<String> =
        wish.prefer.iter().map(|tier| format!(r#""{}""#, idset(tier))).collect();
    let policy = match wish.order {
        Order::LowestRank => "lonode",
        Order::HighestRank => "hinode",
        Order::Fullest => "binpack",
        Order::Emptiest => "spread",
    };
    let mut extras = format!(r#""policy":"{policy}","prefer":[{}]"#, prefer.join(","));
    if let Some(count) = wish.max_per_node {
        let labels: Vec<String> = shapes.iter().map(|(label, _)| format!(r#""{label}""#)).collect();
        let _ = write!(
            extras,
            r#","max_per_node":[{{"labels":[{}],"count":{count}}}]"#,
            labels.join(",")
        );
    }
    if wish.not_before > 0 {
        let _ = write!(extras, r#","not_before":{}"#, wish.not_before);
    }
    extras.push_str(&tenancy(wish.tenancy));
    let mut system = String::new();
    match wish.end {
        End::After(seconds) => {
            let _ = write!(system, r#""duration":{seconds},"#);
        }
        End::Eventually => extras.push_str(r#","end":"eventually""#),
        End::Never => {}
    }
    if let Some(ranks) = &wish.ranks {
        let _ = write!(system, r#""constraints":{{"ranks":["{}"]}},"#, idset(ranks));
    }
    format!(
        r#"{{"version":1,"resources":[{}],"tasks":[{{"command":["a"],"slot":"a","count":{{"per_slot":1}}}}],"attributes":{{"system":{{{system}"fluxion":{{{extras}}}}}}}}}"#,
        slots.join(",")
    )
}

/// A tenancy in words, for requests and charges.
pub(crate) fn tenancy(tenancy: Tenancy) -> String {
    match tenancy {
        Tenancy::Shared => String::new(),
        Tenancy::Alone(tenant) => format!(r#","tenant":{tenant}"#),
        Tenancy::Guest => r#","guest":true"#.to_owned(),
    }
}

/// Label to rank to number of slots.
pub(crate) fn placement(text: &str) -> BTreeMap<String, BTreeMap<u32, u64>> {
    let read: serde_json::Value = serde_json::from_str(text).unwrap();
    let mut placed: BTreeMap<String, BTreeMap<u32, u64>> = BTreeMap::new();
    for group in read["slots"].as_array().unwrap() {
        let of_label = placed.entry(group["label"].as_str().unwrap().to_owned()).or_default();
        for rank in ranks(group["ranks"].as_str().unwrap()) {
            assert_eq!(of_label.insert(rank, group["per_rank"].as_u64().unwrap()), None);
        }
    }
    placed
}

pub(crate) fn ranks(text: &str) -> Vec<u32> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    let ends = parts.map(|part| part.split_once('-').unwrap_or((part, part)));
    ends.flat_map(|(first, last)| first.parse().unwrap()..=last.parse::<u32>().unwrap()).collect()
}
