//! One account: slots of pool units, whole nodes, cores and racks on one graph, now and later, with
//! the clock, marks, sizes, growth and removal, beside an account that is obviously right.
//!
//! Where a request goes is the engine's affair: grants must be free, and refused requests
//! must not fit. When it could start first must be the same.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod findings;
mod naive;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use fluxion_engine::{Engine, Grant, JobMode, MatchOp};
use naive::{Job, Machine, Node, Part, Wish};
use proptest::prelude::*;
use serde_json::Value;

#[derive(Debug, Clone)]
enum Step {
    Match {
        reserve: bool,
        wish: Wish,
        seconds: i64,
    },
    Cancel(prop::sample::Index),
    Advance(i64),
    Mark(u32, bool),
    Resize(u32, u64),
    Grow(u32, Node),
    Remove(u32),
    /// A rank comes to another part of level "rack".
    Part(u32, Option<u32>),
    Charge {
        rank: u32,
        units: u64,
        seconds: i64,
    },
}

const RANKS: u32 = 5;

fn nodes() -> impl Strategy<Value = Node> {
    (0_u64..9, 0_usize..4).prop_map(|(cpu, cores)| Node { cpu, cores, up: true })
}

fn wishes() -> impl Strategy<Value = Wish> {
    prop_oneof![
        4 => (1_u64..5, 1_u64..5).prop_map(|(count, units)| Wish::Slots(count, units)),
        2 => (1_u64..4).prop_map(Wish::Nodes),
        2 => (1_u64..6).prop_map(Wish::Cores),
        2 => (1_u64..4, 1_u64..4).prop_map(|(count, units)| Wish::Mixed(count, units)),
        1 => Just(Wish::Rack),
        2 => (1_u64..5, 1_u64..5).prop_map(|(count, units)| Wish::Together(count, units)),
    ]
}

fn seconds() -> impl Strategy<Value = i64> {
    prop_oneof![6 => 1_i64..20, 1 => Just(0)]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (any::<bool>(), wishes(), seconds())
            .prop_map(|(reserve, wish, seconds)| Step::Match { reserve, wish, seconds }),
        3 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        2 => (1_i64..15).prop_map(Step::Advance),
        1 => (0..RANKS, any::<bool>()).prop_map(|(rank, up)| Step::Mark(rank, up)),
        1 => (0..RANKS, 0_u64..12).prop_map(|(rank, size)| Step::Resize(rank, size)),
        1 => (0..RANKS, nodes()).prop_map(|(rank, node)| Step::Grow(rank, node)),
        1 => (0..RANKS).prop_map(Step::Remove),
        1 => (0..RANKS, prop::option::weighted(0.8, 0_u32..3)).prop_map(|(rank, part)| Step::Part(rank, part)),
        1 => (0..RANKS, 1_u64..9, seconds()).prop_map(|(rank, units, seconds)| Step::Charge { rank, units, seconds }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("FLUXION_ACCOUNT_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1_500),
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_way_to_match_reads_one_account(
        racks in prop_oneof![Just(0_u32), Just(2)],
        nodes in prop::collection::vec(nodes(), 1..4),
        history in prop::collection::vec(steps(), 1..40),
    ) {
        let mut pair = Pair::new(racks, &nodes);
        for step in &history {
            pair.step(step);
            pair.compare();
        }
        pair.give_everything_back();
    }
}

pub(crate) struct Pair {
    pub(crate) engine: Engine,
    pub(crate) naive: Machine,
    next_job: u64,
}

struct Writer {
    nodes: String,
    edges: String,
    next: usize,
}

impl Writer {
    fn add(
        &mut self,
        above: usize,
        kind: &str,
        id: u64,
        rank: i64,
        size: u64,
        path: &str,
    ) -> usize {
        let at = self.next;
        self.next += 1;
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(
            self.nodes,
            r#"{comma}{{"id":"{at}","metadata":{{"type":"{kind}","id":{id},"rank":{rank},"size":{size},"paths":{{"containment":"{path}"}}}}}}"#
        );
        if at > 0 {
            let comma = if self.edges.is_empty() { "" } else { "," };
            let _ = write!(self.edges, r#"{comma}{{"source":"{above}","target":"{at}"}}"#);
        }
        at
    }
}

/// The graph of a machine, or a part of it that is added to one.
fn document(racks: u32, nodes: &[(u32, &Node)]) -> String {
    let mut writer = Writer { nodes: String::new(), edges: String::new(), next: 0 };
    writer.add(0, "cluster", 0, -1, 1, "/cluster0");
    let racks: Vec<(usize, String)> = (0..racks)
        .map(|rack| {
            let path = format!("/cluster0/rack{rack}");
            (writer.add(0, "rack", u64::from(rack), -1, 1, &path), path)
        })
        .collect();
    for (rank, node) in nodes {
        let (above, path) = match racks.len() {
            0 => (0, "/cluster0".to_owned()),
            count => racks[*rank as usize % count].clone(),
        };
        let (path, id) = (format!("{path}/node{rank}"), u64::from(*rank));
        let above = writer.add(above, "node", id, i64::from(*rank), 1, &path);
        if node.cpu > 0 {
            writer.add(above, "cpu", 0, i64::from(*rank), node.cpu, &format!("{path}/cpu0"));
        }
        for core in 0..node.cores {
            writer.add(
                above,
                "core",
                core as u64,
                i64::from(*rank),
                1,
                &format!("{path}/core{core}"),
            );
        }
    }
    format!(r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#, writer.nodes, writer.edges)
}

fn jobspec(wish: Wish, seconds: i64) -> String {
    let slot = |count: u64, parts: &str| {
        format!(r#"{{"type":"slot","count":{count},"label":"x","with":[{parts}]}}"#)
    };
    let part = |kind: &str, count: u64| format!(r#"{{"type":"{kind}","count":{count}}}"#);
    let resources = match wish {
        Wish::Slots(count, units) | Wish::Together(count, units) => {
            slot(count, &part("cpu", units))
        }
        Wish::Nodes(count) => slot(count, &part("node", 1)),
        Wish::Cores(count) => slot(count, &part("core", 1)),
        Wish::Mixed(count, units) => {
            slot(count, &format!("{},{}", part("core", 1), part("cpu", units)))
        }
        Wish::Rack => slot(1, &part("rack", 1)),
    };
    let extras = match wish {
        Wish::Together(..) => r#","fluxion":{"levels":[{"level":"rack","within":"one"}]}"#,
        _ => "",
    };
    format!(
        r#"{{"version":1,"resources":[{resources}],"tasks":[{{"command":["a"],"slot":"x","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":{seconds}{extras}}}}}}}"#
    )
}

impl Pair {
    pub(crate) fn new(racks: u32, nodes: &[Node]) -> Self {
        let nodes: Vec<(u32, &Node)> = (0..).zip(nodes).collect();
        let options = r#"{"load_format":"jgf","matcher_policy":"lonode","match_format":"jgf","pool_types":["cpu"]}"#;
        let engine = Engine::new(&document(racks, &nodes), options).unwrap();
        let nodes = nodes.into_iter().map(|(rank, node)| (rank, node.clone())).collect();
        Pair { engine, naive: Machine { nodes, racks, ..Machine::default() }, next_job: 1 }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Match { reserve, wish, seconds } => {
                self.ask(*reserve, *wish, *seconds);
            }
            Step::Cancel(index) => {
                let ids: Vec<u64> = self.naive.jobs.keys().copied().collect();
                if !ids.is_empty() {
                    self.cancel(*index.get(&ids));
                }
            }
            Step::Advance(seconds) => self.advance(*seconds),
            Step::Mark(rank, up) => {
                self.engine.set_rank_status(&rank.to_string(), *up).unwrap();
                if let Some(node) = self.naive.nodes.get_mut(rank) {
                    node.up = *up;
                }
            }
            Step::Resize(rank, size) => {
                let node = self.naive.nodes.get_mut(rank).map(|node| node.cpu = *size);
                assert_eq!(self.engine.resize(*rank, "cpu", *size).is_ok(), node.is_some());
            }
            Step::Grow(rank, node) => self.grow(*rank, node),
            Step::Remove(rank) => {
                let known = self.naive.nodes.contains_key(rank);
                assert_eq!(self.engine.remove_rank(*rank).is_ok(), known);
                self.naive.remove(*rank);
            }
            Step::Part(rank, part) => {
                let name = part.map_or_else(String::new, |part| format!("/cluster0/rack{part}"));
                self.engine.set_part("rack", &rank.to_string(), &name).unwrap();
                if self.naive.nodes.contains_key(rank) {
                    self.naive.moved.insert(*rank, *part);
                }
            }
            Step::Charge { rank, units, seconds } => self.charge(*rank, *units, *seconds),
        }
    }

    pub(crate) fn advance(&mut self, seconds: i64) {
        self.naive.advance(seconds);
        self.engine.set_time(self.naive.now).unwrap();
    }

    pub(crate) fn cancel(&mut self, id: u64) {
        self.engine.cancel(id).unwrap();
        self.naive.jobs.remove(&id);
    }

    pub(crate) fn grow(&mut self, rank: u32, node: &Node) {
        if self.naive.nodes.contains_key(&rank) {
            return;
        }
        self.engine.add_subgraph(&document(self.naive.racks, &[(rank, node)])).unwrap();
        self.naive.nodes.insert(rank, node.clone());
    }

    pub(crate) fn charge(&mut self, rank: u32, units: u64, seconds: i64) {
        if !self.naive.nodes.contains_key(&rank) {
            return;
        }
        let (id, from) = (self.take_id(), self.naive.now);
        let end =
            Machine::end(from, seconds).map_or(r#""never""#.to_owned(), |end| end.to_string());
        let text = format!(
            r#"{{"label":"c","rank":{rank},"count":1,"with":{{"cpu":{units}}},"end":{end}}}"#
        );
        self.engine.charge(id, &text).unwrap();
        let parts = vec![(rank, Part::Units(units))];
        let to = Machine::end(from, seconds);
        self.naive.jobs.insert(id, Job { from, to, reserved: false, parts, racks: Vec::new() });
    }

    fn take_id(&mut self) -> u64 {
        self.next_job += 1;
        self.next_job - 1
    }

    /// Matches, and compares. Returns the job and when it starts.
    pub(crate) fn ask(&mut self, reserve: bool, wish: Wish, seconds: i64) -> Option<(u64, i64)> {
        let (text, id) = (jobspec(wish, seconds), self.take_id());
        let expected = if reserve {
            self.naive.soonest(wish, seconds)
        } else {
            Some(self.naive.now).filter(|at| self.naive.fits(wish, *at, seconds))
        };
        let op = if reserve { MatchOp::AllocateOrElseReserve } else { MatchOp::Allocate };
        let answer = self.engine.match_job(op, &text, id);
        assert_eq!(
            answer.as_ref().ok().map(|grant| grant.at),
            expected,
            "{wish:?} for {seconds}: {answer:?}"
        );
        let grant = answer.ok()?;
        let (parts, racks) = held(&grant);
        if let Wish::Together(..) = wish {
            let used: BTreeSet<Option<u32>> =
                parts.iter().map(|(rank, _)| self.naive.part(*rank)).collect();
            assert!(used.len() == 1 && !used.contains(&None), "{used:?}");
        }
        let job = Job {
            from: grant.at,
            to: Machine::end(grant.at, seconds),
            reserved: grant.reserved,
            parts,
            racks,
        };
        assert_eq!(grant.reserved, grant.at > self.naive.now);
        self.naive.jobs.insert(id, job);
        self.naive.check(id);
        Some((id, grant.at))
    }

    pub(crate) fn compare(&self) {
        for rank in self.naive.nodes.keys() {
            let usage = self.engine.usage(*rank).unwrap();
            let used =
                usage.pools.iter().find(|pool| pool.kind == "cpu").map_or(0, |pool| pool.used);
            assert_eq!(used, self.naive.used(*rank), "rank {rank}");
        }
        let level = self.engine.level("rack");
        let told = level
            .parts
            .iter()
            .map(|part| (part.part.clone(), (part.ranks.clone(), part.free.get("cpu").copied())));
        let of_ranks =
            |ranks: &[u32]| ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let parts = self.naive.parts().into_iter();
        let expected = parts.map(|(part, (ranks, free))| {
            (format!("/cluster0/rack{part}"), (of_ranks(&ranks), free))
        });
        let expected: BTreeMap<String, (String, u64)> = expected.collect();
        for (part, (ranks, free)) in told.collect::<BTreeMap<_, _>>() {
            let (listed, sum) = &expected[&part];
            assert_eq!((single(&ranks), free.unwrap_or(0)), (listed.clone(), *sum), "{part}");
        }
        assert_eq!(level.parts.len(), expected.len());
        assert_eq!(self.engine.job_count(), self.naive.jobs.len());
        for (id, job) in &self.naive.jobs {
            let info = self.engine.info(*id).unwrap();
            let mode = if job.reserved { JobMode::Reserved } else { JobMode::Allocated };
            assert_eq!((info.mode, info.at), (mode, job.from), "job {id}");
        }
    }

    /// Afterwards all of the machine can be had.
    fn give_everything_back(mut self) {
        for id in self.naive.jobs.keys().copied().collect::<Vec<_>>() {
            self.cancel(id);
        }
        self.compare();
        for wish in [Wish::Nodes(self.naive.nodes.len().max(1) as u64), Wish::Rack] {
            if let Some((id, _)) = self.ask(false, wish, 5) {
                self.cancel(id);
            }
        }
    }
}

/// An idset without ranges.
fn single(ranks: &str) -> String {
    let each = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        (first.parse::<u32>().unwrap()..=last.parse().unwrap())
            .map(|rank| rank.to_string())
            .collect::<Vec<_>>()
    };
    ranks.split(',').flat_map(each).collect::<Vec<_>>().join(",")
}

/// The contents of a grant: parts of nodes, and racks.
fn held(grant: &Grant) -> (Vec<(u32, Part)>, Vec<u32>) {
    let document: Value = serde_json::from_str(&grant.r).unwrap();
    let (mut parts, mut racks) = (Vec::new(), Vec::new());
    for node in document["graph"]["nodes"].as_array().unwrap() {
        let of = &node["metadata"];
        if of["exclusive"] != true {
            continue;
        }
        let number = |name: &str| of[name].as_u64().unwrap_or(0);
        let rank = || u32::try_from(number("rank")).unwrap();
        match of["type"].as_str().unwrap() {
            "rack" => racks.push(u32::try_from(number("id")).unwrap()),
            "node" => parts.push((rank(), Part::Node)),
            "core" => parts.push((rank(), Part::Core(usize::try_from(number("id")).unwrap()))),
            "cpu" => parts.push((rank(), Part::Units(of["size"].as_u64().unwrap_or(1)))),
            other => panic!("{other}"),
        }
    }
    (parts, racks)
}
