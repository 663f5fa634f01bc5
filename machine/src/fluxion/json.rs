//! Questions to the graph, as JSON: written straight into a buffer that is used again and again.

use std::fmt::Write as _;

use super::rankset::Rank;
use super::request::{End, LevelRule, Request, SlotShape, Tenancy, Within};
use fluxqueue_workload::{Lifetime, Resources};

/// Path of the root, and of the nodes below it.
const ROOT: &str = "/cluster0";
/// The largest size of a vertex in JGF.
const SIZE_MAX: u64 = i64::MAX as u64;
/// The longest duration that Fluxion takes, 100 years.
const DURATION_SECONDS_MAX: u64 = 3_153_600_000;

/// A graph of nothing but the root.
pub(super) fn empty_graph() -> String {
    format!(r#"{{"graph":{{"nodes":[{}],"edges":[]}}}}"#, root())
}

fn root() -> String {
    format!(
        r#"{{"id":"0","metadata":{{"type":"cluster","name":"cluster0","id":0,"rank":-1,"paths":{{"containment":"{ROOT}"}}}}}}"#
    )
}

/// A node with its pools, below the root.
pub(super) fn node(out: &mut String, rank: Rank, name: &str, pools: &Resources) {
    out.push_str(r#"{"graph":{"nodes":["#);
    out.push_str(&root());
    out.push_str(r#",{"id":"1","metadata":{"type":"node","name":"#);
    string(out, name);
    let path = node_path(name);
    out.push_str(r#","id":"#);
    number(out, rank);
    out.push_str(r#","rank":"#);
    number(out, rank);
    out.push_str(r#","paths":{"containment":"#);
    string(out, &path);
    out.push_str("}}}");
    for ((kind, size), id) in pools.iter().zip(2_u32..) {
        out.push_str(r#",{"id":""#);
        number(out, id);
        out.push_str(r#"","metadata":{"type":"#);
        string(out, kind);
        out.push_str(r#","id":0,"rank":"#);
        number(out, rank);
        out.push_str(r#","size":"#);
        number(out, size.min(SIZE_MAX));
        out.push_str(r#","paths":{"containment":"#);
        string(out, &[&path, "/", kind, "0"].concat());
        out.push_str("}}}");
    }
    out.push_str(r#"],"edges":[{"source":"0","target":"1"}"#);
    for (_, id) in pools.iter().zip(2_u32..) {
        out.push_str(r#",{"source":"1","target":""#);
        number(out, id);
        out.push_str(r#""}"#);
    }
    out.push_str("]}}");
}

/// The path of a node.
pub(super) fn node_path(name: &str) -> String {
    format!("{ROOT}/{name}")
}

/// Nodes with whole vertices, below the root: rank, name, and how many of each type. `next` is the
/// id of the next vertex: upstream tells vertices apart by it, also those of other documents.
pub(super) fn nodes_of_vertices<'a>(
    out: &mut String,
    next: &mut u64,
    nodes: impl Iterator<Item = (Rank, (&'a str, Vec<(String, u64)>))>,
) {
    let _ = write!(out, r#"{{"graph":{{"nodes":[{}"#, root());
    let mut edges = String::new();
    for (rank, (name, types)) in nodes {
        let node = *next;
        vertex(out, next, "node", rank, rank.into(), Some(name), &node_path(name));
        let already = edges.len();
        separate(&mut edges, already);
        let _ = write!(edges, r#"{{"source":"0","target":"{node}"}}"#);
        for (kind, count) in types {
            for id in 0..count {
                let _ = write!(edges, r#",{{"source":"{node}","target":"{next}"}}"#);
                vertex(out, next, &kind, rank, id, None, &format!("{ROOT}/{name}/{kind}{id}"));
            }
        }
    }
    let _ = write!(out, r#"],"edges":[{edges}]}}}}"#);
}

fn vertex(
    out: &mut String,
    next: &mut u64,
    kind: &str,
    rank: Rank,
    id: u64,
    name: Option<&str>,
    path: &str,
) {
    let _ = write!(out, r#",{{"id":"{next}","metadata":{{"type":"#);
    *next += 1;
    string(out, kind);
    if let Some(name) = name {
        out.push_str(r#","name":"#);
        string(out, name);
    }
    let _ = write!(out, r#","id":{id},"rank":{rank},"paths":{{"containment":"#);
    string(out, path);
    out.push_str("}}}");
}

/// A jobspec.
pub(super) fn jobspec(out: &mut String, request: &Request<'_>) {
    out.push_str(r#"{"version":1,"resources":["#);
    for (at, shape) in request.shapes.iter().enumerate() {
        separate(out, at);
        let _ = write!(out, r#"{{"type":"slot","count":{},"label":"#, shape.count);
        string(out, shape.label);
        out.push_str(r#","with":["#);
        for (at, (kind, amount)) in shape.requests.iter().enumerate() {
            separate(out, at);
            out.push_str(r#"{"type":"#);
            string(out, kind);
            out.push_str(r#","count":"#);
            number(out, amount);
            out.push('}');
        }
        out.push_str("]}");
    }
    out.push_str(r#"],"tasks":[{"command":["pod"],"slot":"#);
    string(out, request.shapes.first().map_or("", |shape| shape.label));
    out.push_str(r#","count":{"per_slot":1}}],"attributes":{"system":{"#);
    // Where shapes differ, each says all of its own.
    let common = match request.shapes {
        [first, others @ ..] if others.iter().all(|other| first.goes_with(other)) => Some(first),
        _ => None,
    };
    if let Some(shape) = common {
        duration(out, shape.end);
        if let Some(ranks) = shape.ranks {
            out.push_str(r#""constraints":{"ranks":[""#);
            ranks.write(out);
            out.push_str(r#""]},"#);
        }
    }
    extras(out, request, common);
    // A key that ends in a comma is the last one.
    if out.ends_with(',') {
        out.pop();
    }
    out.push_str("}}}");
}

fn duration(out: &mut String, end: Lifetime) {
    if let Lifetime::Seconds(seconds) = end {
        // 0 would mean for ever.
        let _ = write!(out, r#""duration":{},"#, seconds.clamp(1, DURATION_SECONDS_MAX));
    }
}

/// What upstream does not know; `common` stands for all shapes that are alike.
fn extras(out: &mut String, request: &Request<'_>, common: Option<&SlotShape<'_>>) {
    let Request { shapes, max_per_node, policy, not_before, levels, tenancy } = request;
    let plain =
        common.is_some_and(|shape| shape.prefer.is_empty() && shape.end != Lifetime::Eventually);
    let plain = plain && *tenancy == Tenancy::Shared;
    if plain
        && max_per_node.is_empty()
        && policy.is_none()
        && not_before.is_none()
        && levels.is_empty()
    {
        return;
    }
    out.push_str(r#""fluxion":{"#);
    if let Some(shape) = common {
        prefer(out, shape);
    } else {
        out.push_str(r#""slots":["#);
        for (at, shape) in shapes.iter().enumerate() {
            separate(out, at);
            slots(out, shape);
        }
        out.push_str("],");
    }
    out.push_str(r#""max_per_node":["#);
    for (at, (labels, count)) in max_per_node.iter().enumerate() {
        separate(out, at);
        out.push('{');
        slot_labels(out, labels);
        let _ = write!(out, r#","count":{count}}}"#);
    }
    out.push(']');
    if !levels.is_empty() {
        out.push_str(r#","levels":["#);
        for (at, rule) in levels.iter().enumerate() {
            separate(out, at);
            level_rule(out, rule);
        }
        out.push(']');
    }
    if let Some(policy) = policy {
        let _ = write!(out, r#","policy":"{}""#, policy.as_str());
    }
    if common.is_some_and(|shape| shape.end == Lifetime::Eventually) {
        out.push_str(r#","end":"eventually""#);
    }
    if let Some(second) = not_before {
        let _ = write!(out, r#","not_before":{}"#, second.max(&0));
    }
    self::tenancy(out, *tenancy);
    out.push('}');
}

fn tenancy(out: &mut String, tenancy: Tenancy) {
    let _ = match tenancy {
        Tenancy::Shared => Ok(()),
        Tenancy::Alone(tenant) => write!(out, r#","tenant":{tenant}"#),
        Tenancy::Guest => write!(out, r#","guest":true"#),
    };
}

fn slot_labels(out: &mut String, labels: &[String]) {
    out.push_str(r#""labels":["#);
    for (at, label) in labels.iter().enumerate() {
        separate(out, at);
        string(out, label);
    }
    out.push(']');
}

fn level_rule(out: &mut String, rule: &LevelRule) {
    out.push_str(r#"{"level":"#);
    string(out, &rule.level);
    out.push(',');
    slot_labels(out, &rule.labels);
    match &rule.within {
        Within::One if rule.is_slice => out.push_str(r#","within":"one","slice":true}"#),
        Within::One => out.push_str(r#","within":"one"}"#),
        Within::Fewest => out.push_str(r#","within":"fewest"}"#),
        Within::Part(part) => {
            out.push_str(r#","part":"#);
            string(out, part);
            out.push('}');
        }
        Within::Spread(spread) => {
            if let Some(skew) = spread.max_skew {
                let _ = write!(out, r#","max_skew":{skew}"#);
            }
            let _ = write!(out, r#","max_per_part":{}}}"#, spread.max_per_part.unwrap_or(u32::MAX));
        }
        // Of nodes that are in no part nothing else would keep it.
        Within::Beside(..) => {
            let _ = write!(out, r#","max_per_part":{}}}"#, u32::MAX);
        }
    }
}

/// What holds for the slots of one shape alone.
fn slots(out: &mut String, shape: &SlotShape<'_>) {
    out.push('{');
    prefer(out, shape);
    duration(out, shape.end);
    if shape.end == Lifetime::Eventually {
        out.push_str(r#""end":"eventually","#);
    }
    if let Some(ranks) = shape.ranks {
        out.push_str(r#""ranks":""#);
        ranks.write(out);
        out.push_str(r#"","#);
    }
    out.push_str(r#""label":"#);
    string(out, shape.label);
    out.push('}');
}

fn prefer(out: &mut String, shape: &SlotShape<'_>) {
    if let Some(ranks) = shape.counted {
        out.push_str(r#""counted":""#);
        ranks.write(out);
        out.push_str(r#"","#);
    }
    out.push_str(r#""prefer":["#);
    for (at, tier) in shape.prefer.iter().enumerate() {
        separate(out, at);
        out.push('"');
        tier.write(out);
        out.push('"');
    }
    out.push_str("],");
}

/// A charge.
pub(super) fn charge(
    out: &mut String,
    rank: Rank,
    label: &str,
    requests: &Resources,
    count: u64,
    (end, tenancy): (End, Tenancy),
) {
    out.push_str(r#"{"label":"#);
    string(out, label);
    out.push_str(r#","rank":"#);
    number(out, rank);
    out.push_str(r#","count":"#);
    number(out, count);
    out.push_str(r#","with":{"#);
    for (at, (kind, amount)) in requests.iter().enumerate() {
        separate(out, at);
        string(out, kind);
        out.push(':');
        number(out, amount);
    }
    out.push_str(r#"},"end":"#);
    match end {
        End::At(second) => number(out, second),
        End::Eventually => out.push_str(r#""eventually""#),
        End::Never => out.push_str(r#""never""#),
    }
    self::tenancy(out, tenancy);
    out.push('}');
}

fn number(out: &mut String, value: impl itoa::Integer) {
    out.push_str(itoa::Buffer::new().format(value));
}

fn separate(out: &mut String, at: usize) {
    if at > 0 {
        out.push(',');
    }
}

fn string(out: &mut String, text: &str) {
    out.push('"');
    let is_plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        out.push_str(text);
        out.push('"');
        return;
    }
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
