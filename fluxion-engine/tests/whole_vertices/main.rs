//! Random histories of whole vertices, answered by the engine and by one that is obviously right.
//!
//! Where upstream's semantics are a matter of free resources, and not of how it searches, both must
//! agree: on what fits, on the earliest instant, on which vertices are granted where the order of
//! the policy leaves no choice, on the vertices of each job after every step. That is so for trees
//! of cluster, racks, nodes, sockets, and cores, GPUs and memory, and for the requests that
//! [`requests`] makes: each level at most once among its siblings, no level of the graph skipped
//! below the first that matches, all that is wanted in a slot or exclusive. Where several
//! candidates have equal scores, the grant must be one of those that the naive engine could have
//! made.
//!
//! Upstream's own rules are written out in [`Pair::refusal`]: which refusals say "never".
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod machine;
mod naive;
mod requests;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use fluxion_engine::{Engine, Grant, JobMode, MatchFormat, MatchOp, Reason, UpdateReader};
use machine::{Ids, Job, Machine, Shape};
use naive::{Constraint, Place, Policy, Request, When};
use proptest::prelude::*;
use requests::{jobspec, kinds, nodes_wanted, requests};
use serde_json::Value;

#[derive(Debug, Clone)]
enum Step {
    Match(MatchOp, Request),
    Cancel(prop::sample::Index),
    PartialCancel(prop::sample::Index, usize),
    Mark(usize, bool),
    Advance(i64),
}

fn shapes() -> impl Strategy<Value = Shape> {
    let node = (1_usize..5, 0_usize..3, any::<bool>(), 0_u64..4);
    let ids = prop::sample::select(vec![Ids::Parent, Ids::Node, Ids::Machine]);
    (0_usize..3, 0_usize..3, prop::collection::vec(node, 1..8), ids, prop::bool::weighted(0.2))
        .prop_map(|(racks, sockets, nodes, ids, falling)| Shape {
            racks,
            sockets,
            nodes,
            ids,
            falling,
        })
}

fn histories(shape: &Shape) -> impl Strategy<Value = Vec<Step>> + use<> {
    let op = prop::sample::select(vec![
        MatchOp::Allocate,
        MatchOp::Allocate,
        MatchOp::AllocateOrElseReserve,
        MatchOp::AllocateOrElseReserve,
        MatchOp::AllocateWithSatisfiability,
        MatchOp::Satisfiability,
        MatchOp::WithoutAllocating,
        MatchOp::WithoutAllocatingFuture,
    ]);
    let nodes = shape.nodes.len();
    let step = prop_oneof![
        10 => (op, requests(shape)).prop_map(|(op, request)| Step::Match(op, request)),
        3 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        1 => (any::<prop::sample::Index>(), 0..nodes).prop_map(|(job, rank)| Step::PartialCancel(job, rank)),
        1 => (0..nodes, any::<bool>()).prop_map(|(rank, up)| Step::Mark(rank, up)),
        1 => prop_oneof![Just(10), 1_i64..30].prop_map(Step::Advance),
    ];
    prop::collection::vec(step, 1..30)
}

fn policies() -> impl Strategy<Value = Policy> {
    prop::sample::select(vec![
        Policy::Low,
        Policy::High,
        Policy::Lonode,
        Policy::Hinode,
        Policy::First,
    ])
}

/// Grants that were compared vertex by vertex, and all.
static COMPARED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

#[test]
fn agrees_with_the_naive_engine() {
    let cases = std::env::var("FLUXION_NAIVE_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(600);
    let config = ProptestConfig { cases, max_shrink_iters: 5_000, ..ProptestConfig::default() };
    let history = (shapes(), policies()).prop_flat_map(|(shape, policy)| {
        // What `first` counts at a socket is not said anywhere.
        let sockets = if policy == Policy::First { 0 } else { shape.sockets };
        let shape = Shape { sockets, ..shape };
        let steps = histories(&shape);
        (Just(shape), Just(policy), steps)
    });
    proptest!(config, |((shape, policy, history) in history)| {
        let mut pair = Pair::new(&shape, policy);
        for step in &history {
            pair.step(step);
            pair.compare();
        }
        pair.compare_with_one_made_anew(&history);
        pair.give_everything_back();
    });
    let [compared, all] = COMPARED.each_ref().map(|count| count.load(Ordering::Relaxed));
    println!("{compared} of {all} grants were compared vertex by vertex");
    assert!(compared * 2 > all, "{compared} of {all}");
}

struct Pair {
    policy: Policy,
    naive: Machine,
    engine: Engine,
}

fn engine(naive: &Machine, policy: Policy) -> Engine {
    let name = format!("{policy:?}").to_lowercase();
    let options =
        format!(r#"{{"load_format":"jgf","matcher_policy":"{name}","match_format":"jgf"}}"#);
    Engine::new(&naive.document(), &options).unwrap()
}

impl Pair {
    fn new(shape: &Shape, policy: Policy) -> Self {
        let naive = shape.machine();
        Pair { policy, engine: engine(&naive, policy), naive }
    }

    fn step(&mut self, step: &Step) {
        match step {
            // The weights after a match that takes nothing are not specified.
            Step::Match(MatchOp::WithoutAllocating | MatchOp::WithoutAllocatingFuture, _)
                if self.policy == Policy::First => {}
            Step::Match(op, request) => self.try_match(*op, request),
            Step::Cancel(index) => {
                if let Some(id) = self.nth(*index) {
                    self.engine.cancel(id).unwrap();
                    self.naive.jobs.remove(&id);
                } else {
                    assert_eq!(self.engine.cancel(99_999).unwrap_err().reason, Reason::NotFound);
                }
            }
            Step::PartialCancel(index, rank) => {
                if let Some(id) = self.nth(*index) {
                    self.partial_cancel(id, i64::try_from(*rank).unwrap());
                }
            }
            Step::Mark(rank, up) => {
                let rank = i64::try_from(*rank).unwrap();
                let is_it =
                    |vertex: &&mut machine::Vertex| vertex.kind == "node" && vertex.rank == rank;
                let node = self.naive.vertices.iter_mut().find(is_it).unwrap();
                node.up = *up;
                self.engine.set_status(&node.path, *up).unwrap();
            }
            Step::Advance(seconds) => {
                self.naive.advance(*seconds);
                self.engine.set_time(self.naive.now).unwrap();
            }
        }
    }

    fn nth(&self, index: prop::sample::Index) -> Option<u64> {
        let ids: Vec<u64> = self.naive.jobs.keys().copied().collect();
        (!ids.is_empty()).then(|| *index.get(&ids))
    }

    /// The answer that the naive engine expects of an operation.
    fn expected(&self, op: MatchOp, request: &Request) -> Result<(i64, Place), Reason> {
        if kinds(&request.levels).contains(&"memory")
            && !self.naive.vertices.iter().any(|vertex| vertex.kind == "memory")
        {
            // A type that is not built in, and that no vertex has.
            return Err(Reason::Invalid);
        }
        let wanted = nodes_wanted(&request.levels);
        let now = || {
            self.naive
                .place(request, self.policy, When::At(self.naive.now))
                .map(|place| (self.naive.now, place))
        };
        let found = match op {
            MatchOp::Satisfiability => {
                self.naive.place(request, self.policy, When::Ever).map(|place| (0, place))
            }
            MatchOp::AllocateOrElseReserve | MatchOp::WithoutAllocatingFuture => {
                self.naive.soonest(request, self.policy)
            }
            _ => now(),
        };
        found.ok_or_else(|| self.refusal(op, request, wanted))
    }

    /// Upstream refuses in this order: what asks for more nodes than are up, or than the constraint
    /// admits, without looking further; then by whether it would fit on the idle machine.
    fn refusal(&self, op: MatchOp, request: &Request, wanted: u64) -> Reason {
        let nodes = || self.naive.vertices.iter().filter(|vertex| vertex.kind == "node");
        let with_sat = op == MatchOp::AllocateWithSatisfiability;
        let admits = |vertex: &&machine::Vertex| match &request.constraint {
            None => true,
            Some(Constraint::Has) => vertex.has_property,
            Some(Constraint::HasNot) => !vertex.has_property,
            Some(Constraint::Ranks(ranks)) => ranks.contains(&vertex.rank),
        };
        let up = nodes().filter(|vertex| vertex.up).count() as u64;
        let admitted = nodes().filter(|vertex| vertex.up || with_sat).filter(admits).count() as u64;
        let is_hopeless = wanted > up || (request.constraint.is_some() && wanted > admitted);
        match op {
            MatchOp::Allocate | MatchOp::WithoutAllocating => Reason::Busy,
            MatchOp::Satisfiability => Reason::Unsatisfiable,
            _ if is_hopeless && with_sat => Reason::Unsatisfiable,
            _ if is_hopeless => Reason::Busy,
            _ if self.naive.place(request, self.policy, When::Ever).is_some() => Reason::Busy,
            _ => Reason::Unsatisfiable,
        }
    }

    fn try_match(&mut self, op: MatchOp, request: &Request) {
        let expected = self.expected(op, request);
        match (self.engine.match_next(op, &jobspec(request)), expected) {
            (Ok(_), Ok(_)) if op == MatchOp::Satisfiability => {}
            (Ok(grant), Ok((at, place))) => {
                assert_eq!(grant.at, at, "when");
                self.check(&grant, request, &place);
                if let Some(id) = grant.job {
                    let (own, reserved) = (self.own(&grant.r), at > self.naive.now);
                    assert_eq!(grant.reserved, reserved);
                    let job = Job { from: at, to: at + request.seconds, reserved, own };
                    let own = job.own.clone();
                    self.naive.jobs.insert(id, job);
                    self.naive.weigh(&own);
                }
            }
            (Err(error), Err(reason)) => assert_eq!(error.reason, reason),
            (answer, expected) => panic!("{op:?}: {answer:?}, and not {expected:?}"),
        }
    }

    /// The grant is the one that is expected, or as good.
    fn check(&self, grant: &Grant, request: &Request, place: &Place) {
        let own = self.own(&grant.r);
        let [compared, all] = &COMPARED;
        all.fetch_add(1, Ordering::Relaxed);
        if place.defined {
            compared.fetch_add(1, Ordering::Relaxed);
            assert_eq!(self.paths(&own), self.paths(&place.own), "what");
        }
        // Resources come free when something ends, so the instants between are in vain.
        let mut before = self.naive.now..grant.at;
        assert!(
            before.all(|at| self.naive.place(request, self.policy, When::At(at)).is_none()),
            "it fits earlier"
        );
        // No job has any of it, or anything below it, meanwhile.
        let (from, to) = (grant.at, grant.at + request.seconds);
        for vertex in &own {
            let way = self.naive.way_up(*vertex);
            assert!(
                way.iter().all(|above| !self.naive.is_taken(*above, from, to)),
                "granted twice"
            );
            assert!(!self.naive.is_in_use(*vertex, from, to), "somebody has a part of it");
        }
        // On a machine where everything else is down, the request takes just that, and as many as
        // it might.
        let mut alone = self.naive.clone();
        let way: BTreeSet<usize> =
            own.iter().flat_map(|vertex| self.naive.way_up(*vertex)).collect();
        for (at, vertex) in alone.vertices.iter_mut().enumerate() {
            vertex.up &= way.contains(&at);
        }
        let served =
            alone.place(request, self.policy, When::At(grant.at)).expect("it serves the request");
        assert_eq!((self.paths(&served.own), &served.counts), (self.paths(&own), &place.counts));
    }

    /// The vertices that an R in JGF says are granted.
    fn own(&self, r: &str) -> BTreeSet<usize> {
        let document: Value = serde_json::from_str(r).unwrap();
        let nodes = document["graph"]["nodes"].as_array().unwrap();
        let exclusive = nodes.iter().filter(|node| node["metadata"]["exclusive"] == true);
        exclusive
            .map(|node| {
                self.naive.at_path(node["metadata"]["paths"]["containment"].as_str().unwrap())
            })
            .collect()
    }

    fn paths(&self, vertices: &BTreeSet<usize>) -> Vec<&str> {
        vertices.iter().map(|vertex| self.naive.vertices[*vertex].path.as_str()).collect()
    }

    fn partial_cancel(&mut self, id: u64, rank: i64) {
        let r = format!(
            r#"{{"version":1,"execution":{{"R_lite":[{{"rank":"{rank}","children":{{}}}}]}}}}"#
        );
        let job = self.naive.jobs.get_mut(&id).unwrap();
        let vertices = &self.naive.vertices;
        let has = job.own.iter().any(|vertex| vertices[*vertex].rank == rank);
        let answer = self.engine.partial_cancel(id, &r);
        assert_eq!(answer.is_ok(), has && !job.reserved, "{answer:?}");
        if let Ok(all) = answer {
            job.own.retain(|vertex| vertices[*vertex].rank != rank);
            assert_eq!(all, job.own.is_empty());
            if all {
                self.naive.jobs.remove(&id);
            }
        }
    }

    /// The vertices of each job.
    fn compare(&self) {
        for (criteria, reserved) in
            [("sched-now=allocated", false), ("sched-future=reserved", true)]
        {
            let found = self.engine.clone().find(criteria, MatchFormat::Jgf, true).unwrap();
            let found = found.map_or_else(BTreeSet::new, |text| self.own(&text));
            let jobs = self.naive.jobs.values().filter(|job| job.reserved == reserved);
            let own: BTreeSet<usize> = jobs.flat_map(|job| job.own.iter().copied()).collect();
            let below = own.iter().flat_map(|vertex| self.naive.subtree(*vertex));
            let above = own.iter().flat_map(|vertex| self.naive.way_up(*vertex));
            assert_eq!(self.paths(&found), self.paths(&below.chain(above).collect()), "{criteria}");
        }
        assert_eq!(self.engine.job_count(), self.naive.jobs.len());
        for (id, job) in &self.naive.jobs {
            let info = self.engine.info(*id).unwrap();
            let mode = if job.reserved { JobMode::Reserved } else { JobMode::Allocated };
            assert_eq!((info.mode, info.at), (mode, job.from));
        }
    }

    /// A graph that takes up the vertices of each job answers as one that has lived through it,
    /// unless its history matters.
    fn compare_with_one_made_anew(&mut self, history: &[Step]) {
        if self.policy == Policy::First || self.naive.has_put_off {
            return;
        }
        let idle = self
            .naive
            .vertices
            .iter()
            .map(|vertex| machine::Vertex { up: true, ..vertex.clone() })
            .collect();
        let idle = Machine { vertices: idle, ..Machine::default() };
        let mut anew = engine(&idle, self.policy);
        for (id, job) in &self.naive.jobs {
            let mode = if job.reserved { JobMode::Reserved } else { JobMode::Allocated };
            let r = self.r(job);
            anew.update(*id, &r, UpdateReader::Jgf, job.from, job.to - job.from, mode).unwrap();
        }
        for vertex in self.naive.vertices.iter().filter(|vertex| !vertex.up) {
            anew.set_status(&vertex.path, false).unwrap();
        }
        anew.set_time(self.naive.now).unwrap();
        let lived = std::mem::replace(&mut self.engine, anew);
        self.compare();
        // The same matches again, on both.
        let mut anew = std::mem::replace(&mut self.engine, lived.clone());
        let mut lived = lived;
        let matches = history.iter().filter_map(|step| {
            if let Step::Match(_, request) = step { Some(request) } else { None }
        });
        for request in matches {
            for op in [MatchOp::AllocateOrElseReserve, MatchOp::AllocateWithSatisfiability] {
                let answers =
                    [&mut lived, &mut anew].map(|engine| engine.match_next(op, &jobspec(request)));
                let [lived, anew] = answers.map(|answer| {
                    answer.map(|grant| (grant.at, grant.r)).map_err(|error| error.reason)
                });
                assert_eq!(lived, anew, "made anew it answers otherwise");
            }
        }
    }

    /// The vertices of a job, as JGF.
    fn r(&self, job: &Job) -> String {
        let way: BTreeSet<usize> =
            job.own.iter().flat_map(|vertex| self.naive.way_up(*vertex)).collect();
        let mut text = String::new();
        for at in way {
            let vertex = &self.naive.vertices[at];
            let (kind, id, rank, size, path) =
                (vertex.kind, vertex.id, vertex.rank, vertex.size, &vertex.path);
            let exclusive = job.own.contains(&at);
            let comma = if text.is_empty() { "" } else { "," };
            let _ = write!(
                text,
                r#"{comma}{{"id":"{at}","metadata":{{"type":"{kind}","id":{id},"rank":{rank},"size":{size},"exclusive":{exclusive},"paths":{{"containment":"{path}"}}}}}}"#
            );
        }
        format!(r#"{{"graph":{{"nodes":[{text}],"edges":[]}}}}"#)
    }

    fn give_everything_back(mut self) {
        for id in self.naive.jobs.keys().copied().collect::<Vec<_>>() {
            self.engine.cancel(id).unwrap();
        }
        self.naive.jobs.clear();
        self.compare();
        let used =
            self.engine.find("agfilter=true", MatchFormat::Jgf, true).unwrap().unwrap_or_default();
        assert!(used.contains("used:0") && !used.replace("used:0", "").contains("used:"), "{used}");
    }
}
