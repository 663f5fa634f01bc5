//! Random histories, answered with the index and with nothing but walks: the answers must be the
//! same, byte for byte.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::Engine;
use super::op::MatchOp;
use crate::MatchFormat;

const POLICIES: [&str; 13] = [
    "first",
    "firstnodex",
    "high",
    "low",
    "hinode",
    "lonode",
    "hinodex",
    "lonodex",
    "locality",
    "variation",
    "policy=high node_centric=true",
    "policy=low stop_on_1_matches=true",
    "policy=low node_exclusive=true",
];
const FORMATS: [&str; 8] = [
    "rv1_nosched",
    "rlite",
    "jgf",
    "simple",
    "pretty_simple",
    "rv1",
    "jgf_shorthand",
    "rv1_shorthand",
];
const CONSTRAINTS: [&str; 6] = [
    r#"{"properties":["a"]}"#,
    r#"{"properties":["^b"]}"#,
    r#"{"ranks":["3-9"]}"#,
    r#"{"hostlist":["node[0-5,60-63]"]}"#,
    r#"{"and":[{"properties":["^perf_class"]},{"not":[{"ranks":["2"]}]}]}"#,
    r#"{"or":[{"properties":["a","b"]},{"ranks":["1,60"]}]}"#,
];
/// Ranks of nodes that are added to a graph.
const ADDED: usize = 60;
const OPS: [MatchOp; 6] = [
    MatchOp::Allocate,
    MatchOp::AllocateOrElseReserve,
    MatchOp::AllocateWithSatisfiability,
    MatchOp::Satisfiability,
    MatchOp::WithoutAllocating,
    MatchOp::WithoutAllocatingFuture,
];

/// A machine, as a graph describes it.
#[derive(Debug, Clone)]
struct Machine {
    racks: usize,
    /// Nodes: sockets (0: none), cores and GPUs of each, how its id differs from its number, marks.
    nodes: Vec<(usize, usize, usize, bool, u8)>,
    /// Ids of cores go on from socket to socket.
    running_ids: bool,
    size: u64,
    backwards: bool,
    /// Edges lead back up as well.
    both_ways: bool,
    /// Each node has a pool of CPUs beside.
    pools: bool,
}

#[derive(Debug, Clone)]
enum Step {
    Match {
        op: usize,
        resources: String,
        seconds: u64,
        constraint: usize,
    },
    Cancel(prop::sample::Index),
    Release(prop::sample::Index, usize),
    Advance(i64),
    Mark(usize, bool),
    MarkRanks(usize, usize, bool),
    Property(usize, Option<usize>),
    /// What an earlier match granted is taken under another id.
    Again(prop::sample::Index),
    /// The number of cores of a rank.
    Update(usize, usize),
    /// A node comes, with cores and a new type; or cores for a node that is there.
    Grow(usize, usize, bool),
    /// A rack, a node or a core goes.
    Shrink(usize, u8),
    RemoveRanks(usize, usize),
    /// Units of the pool of a rank, for some seconds or for ever.
    Charge(usize, u64, Option<i64>),
    /// The charges of a rank end.
    Discharge(usize),
    /// The pool of a rank has another size.
    Resize(usize, u64),
    /// A copy goes on; another one tries something first.
    Clone(String),
}

impl Step {
    fn changes_the_graph(&self) -> bool {
        matches!(self, Step::Grow(..) | Step::Shrink(..) | Step::RemoveRanks(..) | Step::Resize(..))
    }
}

struct GraphText {
    nodes: Vec<String>,
    edges: Vec<String>,
}

impl GraphText {
    fn add(
        &mut self,
        above: Option<(usize, &str)>,
        kind: &str,
        id: usize,
        rank: i64,
        more: &str,
    ) -> (usize, String) {
        let at = self.nodes.len();
        let path = format!("{}/{kind}{id}", above.map_or("", |(_, path)| path));
        self.nodes.push(format!(
            r#"{{"id":"{at}","metadata":{{"type":"{kind}","id":{id},"rank":{rank}{more},"paths":{{"containment":"{path}"}}}}}}"#
        ));
        if let Some((above, _)) = above {
            self.edges.push(format!(r#"{{"source":"{above}","target":"{at}"}}"#));
        }
        (at, path)
    }
}

fn document(machine: &Machine) -> String {
    let mut writer = GraphText { nodes: Vec::new(), edges: Vec::new() };
    let (root, path) = writer.add(None, "cluster", 0, -1, "");
    let racks: Vec<(usize, String)> =
        (0..machine.racks).map(|at| writer.add(Some((root, &path)), "rack", at, -1, "")).collect();
    for (at, (sockets, cores, gpus, twin, marks)) in machine.nodes.iter().enumerate() {
        let (above, over) =
            racks.get(at % machine.racks.max(1)).cloned().unwrap_or((root, path.clone()));
        let id = if *twin { at / 2 } else { at };
        let mut more = String::from(r#","properties":{"#);
        more.push_str(
            [r#""a":"""#, r#""b":"""#, r#""perf_class":"3""#, ""][usize::from(*marks % 4)],
        );
        more.push('}');
        if *marks > 13 {
            more.push_str(r#","status":1"#);
        }
        let rank = i64::try_from(at).unwrap();
        let (node, place) = writer.add(
            Some((above, &over)),
            "node",
            id,
            rank,
            &format!(r#"{more},"name":"node{at}""#),
        );
        let place = place.replace(&format!("node{id}"), &format!("node{at}"));
        let last = writer.nodes.len() - 1;
        writer.nodes[last] =
            writer.nodes[last].replace(&format!("/node{id}\""), &format!("/node{at}\""));
        let size = format!(r#","size":{}"#, machine.size);
        let sockets: Vec<(usize, String)> = match sockets {
            0 => vec![(node, place.clone())],
            count => (0..*count)
                .map(|at| writer.add(Some((node, &place)), "socket", at, rank, ""))
                .collect(),
        };
        for (socket, (above, over)) in sockets.iter().enumerate() {
            for core in 0..*cores {
                let id = if machine.running_ids { socket * cores + core } else { core };
                writer.add(Some((*above, over)), "core", id, rank, &size);
            }
        }
        for gpu in 0..*gpus {
            writer.add(Some((node, &place)), "gpu", gpu, rank, "");
        }
        if machine.pools {
            writer.add(Some((node, &place)), "cpu", 0, rank, r#","size":8"#);
        }
    }
    if machine.both_ways {
        let turned = |edge: &String| {
            edge.replace("source", "to").replace("target", "source").replace("to", "target")
        };
        let back: Vec<String> = writer.edges.iter().map(turned).collect();
        writer.edges.extend(back);
    }
    if machine.backwards {
        writer.edges.reverse();
    }
    format!(
        r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#,
        writer.nodes.join(","),
        writer.edges.join(",")
    )
}

fn machines() -> impl Strategy<Value = Machine> {
    let node = (
        prop_oneof![3 => Just(0_usize), 1 => 1_usize..3],
        1_usize..6,
        0_usize..3,
        prop::bool::weighted(0.1),
        0_u8..15,
    );
    let alike = (1_usize..60, node.clone()).prop_map(|(count, node)| vec![node; count]);
    let mixed = prop::collection::vec(node, 1..50);
    let nodes = prop_oneof![alike, mixed];
    let (size, rare) = (prop_oneof![5 => Just(1_u64), 1 => Just(2)], || prop::bool::weighted(0.15));
    (0_usize..4, nodes, any::<bool>(), size, rare(), rare(), prop::bool::weighted(0.4)).prop_map(
        |(racks, nodes, running_ids, size, backwards, both_ways, pools)| Machine {
            racks,
            nodes,
            running_ids,
            size,
            backwards,
            both_ways,
            pools,
        },
    )
}

fn count() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (1_u32..4).prop_map(|count| count.to_string()),
        1 => (4_u32..40).prop_map(|count| count.to_string()),
        1 => (1_u32..4, 0_u32..9).prop_map(|(min, more)| {
            format!(r#"{{"min":{min},"max":{},"operator":"+","operand":1}}"#, min + more)
        }),
        1 => (1_u32..3).prop_map(|min| format!(r#"{{"min":{min}}}"#)),
    ]
}

fn resources() -> impl Strategy<Value = String> {
    let exclusive = prop::sample::select(vec!["", "", r#","exclusive":true"#]);
    let parts = prop::sample::select(vec![
        r#"{"type":"core","count":1}"#,
        r#"{"type":"core","count":3}"#,
        r#"{"type":"core","count":1},{"type":"gpu","count":1}"#,
        r#"{"type":"gpu","count":1}"#,
        r#"{"type":"socket","count":1,"with":[{"type":"core","count":2}]}"#,
        r#"{"type":"socket","count":1}"#,
        r#"{"type":"core","count":{"min":1,"max":3,"operator":"+","operand":1}}"#,
        r#"{"type":"cpu","count":3}"#,
        r#"{"type":"core","count":1},{"type":"cpu","count":2}"#,
    ]);
    let slot = |parts: &str, count: &str| {
        format!(r#"{{"type":"slot","count":{count},"label":"x","with":[{parts}]}}"#)
    };
    (parts, count(), count(), exclusive, 0_u8..9).prop_map(
        move |(parts, one, other, exclusive, form)| match form {
            0 | 1 => slot(parts, &one),
            2 | 3 => format!(
                r#"{{"type":"node","count":{one}{exclusive},"with":[{}]}}"#,
                slot(parts, &other)
            ),
            4 => slot(&format!(r#"{{"type":"node","count":{one}}}"#), &other),
            5 => slot(&format!(r#"{{"type":"node","count":{one},"with":[{parts}]}}"#), &other),
            6 => slot(r#"{"type":"rack","count":1}"#, "1"),
            7 => {
                let node = format!(r#"{{"type":"node","count":{one}}}"#);
                format!(
                    r#"{{"type":"rack","count":1{exclusive},"with":[{}]}}"#,
                    slot(&node, &other)
                )
            }
            _ => format!(r#"{{"type":"core","count":{one}{exclusive}}}"#),
        },
    )
}

fn charges() -> impl Strategy<Value = Step> {
    (0_usize..50, 1_u64..4, prop::option::weighted(0.8, 1_i64..60))
        .prop_map(|(rank, units, seconds)| Step::Charge(rank, units, seconds))
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (prop_oneof![4 => Just(0_usize), 3 => Just(1), 3 => 0..OPS.len()], resources(), 1_u64..50, 0_usize..24)
            .prop_map(|(op, resources, seconds, constraint)| Step::Match { op, resources, seconds, constraint }),
        3 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        1 => (any::<prop::sample::Index>(), 0_usize..50).prop_map(|(job, rank)| Step::Release(job, rank)),
        1 => (1_i64..30).prop_map(Step::Advance),
        1 => (0_usize..50, any::<bool>()).prop_map(|(rank, up)| Step::Mark(rank, up)),
        1 => (0_usize..50, 0_usize..9, any::<bool>()).prop_map(|(rank, more, up)| Step::MarkRanks(rank, more, up)),
        1 => (0_usize..50, prop::option::weighted(0.1, 0_usize..3)).prop_map(|(rank, core)| Step::Property(rank, core)),
        1 => any::<prop::sample::Index>().prop_map(Step::Again),
        1 => (0_usize..50, 0_usize..4).prop_map(|(rank, cores)| Step::Update(rank, cores)),
        1 => (0_usize..8, 1_usize..6, any::<bool>()).prop_map(|(node, cores, new)| Step::Grow(node, cores, new)),
        1 => (prop_oneof![0_usize..20, ADDED..ADDED + 8], 0_u8..6).prop_map(|(rank, what)| Step::Shrink(rank, what)),
        1 => (0_usize..70, 0_usize..4).prop_map(|(rank, more)| Step::RemoveRanks(rank, more)),
        2 => charges(),
        1 => (0_usize..50).prop_map(Step::Discharge),
        1 => (0_usize..50, 0_u64..12).prop_map(|(rank, size)| Step::Resize(rank, size)),
        1 => resources().prop_map(Step::Clone),
    ]
}

fn jobspec(resources: &str, seconds: u64, constraint: Option<&&str>) -> String {
    let constraint =
        constraint.map(|constraint| format!(r#","constraints":{constraint}"#)).unwrap_or_default();
    format!(
        r#"{{"version":1,"resources":[{resources}],"attributes":{{"system":{{"duration":{seconds}{constraint}}}}},"tasks":[{{"command":["a"],"slot":"x","count":{{"per_slot":1}}}}]}}"#
    )
}

/// An addition to a graph: a node, or cores of an existing one.
fn growth(machine: &Machine, number: usize, cores: usize, new: bool) -> String {
    let rank = if new { ADDED + number } else { number };
    let mut writer = GraphText { nodes: Vec::new(), edges: Vec::new() };
    let mut above = writer.add(None, "cluster", 0, -1, "");
    if machine.racks > 0 {
        above = writer.add(Some((above.0, &above.1)), "rack", rank % machine.racks, -1, "");
    }
    let more = if cores == 1 { r#","properties":{"a":""},"status":1"# } else { "" };
    let ranked = i64::try_from(rank).unwrap();
    let node = writer.add(Some((above.0, &above.1)), "node", rank, ranked, more);
    for core in 0..cores {
        let id = if new { core } else { 10 + core };
        writer.add(Some((node.0, &node.1)), "core", id, ranked, "");
    }
    if cores == 3 {
        writer.add(Some((node.0, &node.1)), "ssd", 0, ranked, "");
    }
    format!(
        r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#,
        writer.nodes.join(","),
        writer.edges.join(",")
    )
}

/// Takes a step. `at` is its number, `granted` the earlier grants.
fn apply(
    engine: &mut Engine,
    step: &Step,
    at: usize,
    machine: &Machine,
    granted: &mut Vec<String>,
) -> String {
    let mut out = String::new();
    let node = |rank: usize| {
        let rack = if machine.racks == 0 {
            String::new()
        } else {
            format!("/rack{}", rank % machine.racks)
        };
        format!("/cluster0{rack}/node{rank}")
    };
    let job = |index: &prop::sample::Index| index.index(at.max(1)) as u64 + 1;
    match step {
        Step::Match { op, resources, seconds, constraint } => {
            let text = jobspec(resources, *seconds, CONSTRAINTS.get(*constraint));
            let answer = engine.match_next(OPS[*op], &text);
            let _ = write!(out, "{answer:?}");
            granted.extend(answer.map(|grant| grant.r));
        }
        Step::Cancel(index) => {
            let _ = write!(out, "{:?}", engine.cancel(job(index)));
        }
        Step::Release(index, rank) => {
            let r = format!(
                r#"{{"version":1,"execution":{{"R_lite":[{{"rank":"{rank}","children":{{"core":"0"}}}}],"nodelist":["node{rank}"],"starttime":0,"expiration":0}}}}"#
            );
            let _ = write!(out, "{:?}", engine.partial_cancel(job(index), &r));
        }
        Step::Advance(seconds) => engine.set_time(engine.now() + seconds).unwrap(),
        Step::Mark(rank, up) => {
            let _ = write!(out, "{:?}", engine.set_status(&node(*rank), *up));
        }
        Step::MarkRanks(rank, more, up) => {
            let _ = write!(
                out,
                "{:?}",
                engine.set_rank_status(&format!("{rank}-{}", rank + more), *up)
            );
        }
        Step::Property(rank, core) => {
            let place =
                core.map_or_else(|| node(*rank), |core| format!("{}/core{core}", node(*rank)));
            let _ = write!(out, "{:?}", engine.set_property(&place, "a", ""));
        }
        Step::Again(index) => {
            if !granted.is_empty() {
                let _ = write!(
                    out,
                    "{:?}",
                    engine.update_allocate(1_000 + at as u64, index.get::<String>(granted))
                );
            }
        }
        Step::Update(rank, cores) => {
            let r = format!(
                r#"{{"version":1,"execution":{{"R_lite":[{{"rank":"{rank}","children":{{"core":"0-{cores}"}}}}],"nodelist":["node{rank}"],"starttime":{},"expiration":{}}}}}"#,
                engine.now(),
                engine.now() + 40,
            );
            let _ = write!(out, "{:?}", engine.update_allocate(1_000 + at as u64, &r));
        }
        Step::Grow(number, cores, new) => {
            let _ =
                write!(out, "{:?}", engine.add_subgraph(&growth(machine, *number, *cores, *new)));
        }
        Step::Shrink(rank, what) => {
            let place = match what {
                0 => format!("/cluster0/rack{}", rank % 4),
                1 => format!("{}/core0", node(*rank)),
                2 => format!("{}/socket0", node(*rank)),
                _ => node(*rank),
            };
            let _ = write!(out, "{:?}", engine.remove_subgraph(&place));
        }
        Step::RemoveRanks(rank, more) => {
            let _ = write!(out, "{:?}", engine.remove_ranks(&format!("{rank}-{}", rank + more)));
        }
        Step::Charge(rank, units, seconds) => {
            let end = seconds
                .map_or(r#""never""#.to_owned(), |seconds| (engine.now() + seconds).to_string());
            let charge = format!(
                r#"{{"label":"c","rank":{rank},"count":1,"with":{{"cpu":{units}}},"end":{end}}}"#
            );
            let _ = write!(out, "{:?}", engine.charge(5_000 + *rank as u64, &charge));
        }
        Step::Discharge(rank) => {
            let place = u32::try_from(*rank).unwrap();
            let _ = write!(out, "{:?}", engine.release(5_000 + *rank as u64, place, "c", 1));
        }
        Step::Resize(rank, size) => {
            let place = u32::try_from(*rank).unwrap();
            let _ = write!(out, "{:?}", engine.resize(place, "cpu", *size));
        }
        Step::Clone(resources) => {
            *engine = engine.clone();
            let mut other = engine.clone();
            let _ = write!(
                out,
                "{:?}",
                other.match_next(MatchOp::AllocateOrElseReserve, &jobspec(resources, 20, None))
            );
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("FLUXION_WALKS_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(400),
        max_shrink_iters: 5_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_index_answers_as_the_walk_does(
        machine in machines(),
        policy in 0..POLICIES.len(),
        format in 0..FORMATS.len(),
        flexible in any::<bool>(),
        history in prop::collection::vec(steps(), 1..40),
    ) {
        let options = format!(
            r#"{{"load_format":"jgf","matcher_policy":"{}","match_format":"{}","traverser_policy":"{}","prune_filters":"ALL:core,ALL:node"{}}}"#,
            POLICIES[policy],
            FORMATS[format],
            if flexible { "flexible" } else { "simple" },
            if machine.pools { r#","pool_types":["cpu"]"# } else { "" },
        );
        let mut fast = Engine::new(&document(&machine), &options).unwrap();
        let mut slow = fast.clone();
        slow.searches.walk_always();
        let mut granted = [Vec::new(), Vec::new()];
        let mut depends_on_history = false;
        for (at, step) in history.iter().enumerate() {
            depends_on_history |= step.changes_the_graph() && !fast.book.schedule().is_idle();
            let expected = apply(&mut slow, step, at, &machine, &mut granted[0]);
            let answer = apply(&mut fast, step, at, &machine, &mut granted[1]);
            prop_assert_eq!(answer, expected, "step {} of {:?}", at, POLICIES[policy]);
            depends_on_history |= !fast.book.jobs().lost().is_empty();
        }
        for criteria in ["status=up", "status=down", "sched-now=allocated", "sched-future=reserved"] {
            let found = [&mut slow, &mut fast].map(|engine| engine.find(criteria, MatchFormat::Jgf, true));
            prop_assert_eq!(&found[0], &found[1], "{}", criteria);
        }
        prop_assert!(!slow.searches.has_index());
        // `first` visits the children that there are, each once.
        for vertex in fast.graph().vertices().filter(|vertex| fast.graph().is_linked(*vertex)) {
            let mut visited: Vec<_> = fast.book.weights().order(fast.graph(), vertex).collect();
            visited.sort_unstable();
            let mut children = fast.graph().children(vertex).to_vec();
            children.sort_unstable();
            prop_assert_eq!(visited, children);
        }
        // Counts kept step by step are those of a new count, but where upstream, and so we, count
        // the first graph: where the graph changed under jobs, and where resources that were taken
        // is no job's.
        if depends_on_history {
            return Ok(());
        }
        let mut anew = fast.clone();
        anew.book.reprime();
        for step in history.iter().filter(|step| matches!(step, Step::Match { .. })) {
            let expected = apply(&mut fast, step, 0, &machine, &mut granted[0]);
            let answer = apply(&mut anew, step, 0, &machine, &mut granted[1]);
            prop_assert_eq!(answer, expected, "counted again, {:?}", step);
        }
    }
}
