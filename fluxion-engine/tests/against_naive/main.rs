//! Random histories of a small machine, compared after every step with an engine that is obviously
//! right.
//!
//! The naive engine keeps one entry per slot and tries everything slot by slot. Of one shape, both
//! must agree on whether a request fits, where it goes, when it could start and which nodes are
//! eligible; of two, whether they fit.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod naive;
mod planned;
mod texts;

use std::fmt::Write as _;

use fluxion_engine::{Delay, EVENTUALLY, Engine, JobMode, MatchOp, Reason};
use naive::{End, Machine, Need, Order, Slot, Tenancy, Wish};
use planned::Moved;
use proptest::prelude::*;
use texts::{jobspec, placement, ranks};

const KINDS: [&str; 3] = ["cpu", "memory", "pods"];
const OPTIONS: &str = r#"{"load_format":"jgf","matcher_policy":"lonode","match_format":"placement","pool_types":["*"]}"#;
const ROOT: &str =
    r#"{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/cluster0"}}}"#;

#[derive(Debug, Clone)]
enum Step {
    AddNode {
        rank: u32,
        sizes: [u64; 3],
    },
    RemoveNode {
        rank: u32,
    },
    Resize {
        rank: u32,
        kind: usize,
        size: u64,
    },
    SetUp {
        rank: u32,
        up: bool,
    },
    Allocate {
        wish: Wish,
    },
    AllocateTwo {
        first: Wish,
        second: Wish,
    },
    Reserve {
        wish: Wish,
    },
    Charge {
        job: u64,
        rank: u32,
        need: Need,
        count: u64,
        end: End,
        tenancy: Tenancy,
    },
    Release {
        job: u64,
        rank: u32,
        count: u64,
    },
    Cancel {
        job: u64,
    },
    Advance {
        seconds: i64,
    },
    /// One of the reservations is moved.
    Move(prop::sample::Index),
    /// What if: these steps are taken back.
    Trial(Vec<Step>),
}

/// Sizes of pools; of some so large that a unit more or less is lost in the rounding.
fn sizes(most: u64) -> impl Strategy<Value = u64> {
    prop_oneof![2 => 0..most, 1 => (0..most).prop_map(|size| size + (1 << 31)), 1 => (0..most).prop_map(|size| size + (1 << 50))]
}

fn ends() -> impl Strategy<Value = End> {
    prop_oneof![3 => (1_i64..20).prop_map(End::After), 1 => Just(End::Eventually), 1 => Just(End::Never)]
}

/// Mostly all share.
fn tenancies() -> impl Strategy<Value = Tenancy> {
    prop_oneof![
        8 => Just(Tenancy::Shared),
        3 => (1_u64..4).prop_map(Tenancy::Alone),
        1 => Just(Tenancy::Guest),
    ]
}

fn orders() -> impl Strategy<Value = Order> {
    prop::sample::select(vec![
        Order::LowestRank,
        Order::HighestRank,
        Order::Fullest,
        Order::Emptiest,
    ])
}

fn needs() -> impl Strategy<Value = Need> {
    (1_u64..5, 0_u64..4, 0_u64..2).prop_map(|(cpu, memory, pods)| [cpu, memory, pods])
}

fn wishes() -> impl Strategy<Value = Wish> {
    let ranks = prop::option::weighted(0.3, prop::collection::btree_set(0_u32..6, 0..5));
    let prefer = prop::collection::vec(prop::collection::btree_set(0_u32..6, 1..3), 0..3);
    let not_before = prop_oneof![4 => Just(0), 1 => 0_i64..40];
    let limit = prop::option::weighted(0.3, 1_u64..3);
    let how = (orders(), not_before, tenancies());
    (1_u64..7, needs(), ends(), ranks, prefer, limit, how).prop_map(
        |(count, need, end, ranks, prefer, max_per_node, (order, not_before, tenancy))| Wish {
            count,
            need,
            end,
            ranks,
            prefer,
            max_per_node,
            order,
            not_before,
            tenancy,
        },
    )
}

fn steps(rank: std::ops::Range<u32>) -> impl Strategy<Value = Step> {
    prop_oneof![12 => plain_steps(rank.clone()), 1 => prop::collection::vec(plain_steps(rank), 1..8).prop_map(Step::Trial)]
}

fn plain_steps(rank: std::ops::Range<u32>) -> impl Strategy<Value = Step> {
    let job = 1_u64..30;
    prop_oneof![
        4 => (rank.clone(), [0_u64..12, 0_u64..12, 0_u64..6]).prop_map(|(rank, sizes)| Step::AddNode { rank, sizes }),
        1 => rank.clone().prop_map(|rank| Step::RemoveNode { rank }),
        1 => (rank.clone(), 0_usize..3, 0_u64..12)
            .prop_map(|(rank, kind, size)| Step::Resize { rank, kind, size }),
        1 => (rank.clone(), any::<bool>()).prop_map(|(rank, up)| Step::SetUp { rank, up }),
        6 => wishes().prop_map(|wish| Step::Allocate { wish }),
        2 => (wishes(), wishes()).prop_map(|(first, second)| Step::AllocateTwo { first, second }),
        4 => wishes().prop_map(|wish| Step::Reserve { wish }),
        2 => (job.clone(), rank.clone(), needs(), 1_u64..4, ends(), tenancies())
            .prop_map(|(job, rank, need, count, end, tenancy)| Step::Charge { job, rank, need, count, end, tenancy }),
        2 => (job.clone(), rank, 1_u64..3).prop_map(|(job, rank, count)| Step::Release { job, rank, count }),
        2 => job.prop_map(|job| Step::Cancel { job }),
        2 => (0_i64..20).prop_map(|seconds| Step::Advance { seconds }),
        4 => any::<prop::sample::Index>().prop_map(Step::Move),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_naive_engine(history in prop::collection::vec(steps(0..6), 1..60)) {
        let mut pair = Pair::new();
        for step in &history {
            pair.step(step);
            pair.compare();
        }
        pair.give_everything_back();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6000, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    /// Idle nodes and a request that about fills them, so that it matters which slot goes where.
    #[test]
    fn two_shapes_are_placed_if_they_fit(
        nodes in prop::collection::vec([4_u64..20, 4_u64..20], 1..5),
        needs in [[1_u64..9, 1_u64..9], [1_u64..9, 1_u64..9]],
        counts in [1_u64..6, 1_u64..6],
        max_per_node in prop::option::weighted(0.2, 1_u64..4),
        order in orders(),
    ) {
        let mut pair = Pair::new();
        for (rank, [cpu, memory]) in (0..).zip(nodes) {
            pair.add_node(rank, [cpu, memory, 0]);
        }
        let wish = |at: usize| Wish {
            count: counts[at],
            need: [needs[at][0], needs[at][1], 0],
            end: End::Never,
            ranks: None,
            prefer: Vec::new(),
            max_per_node,
            order,
            not_before: 0,
            tenancy: Tenancy::Shared,
        };
        pair.allocate_two(&wish(0), &wish(1));
        pair.compare();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    /// Nodes enough that the order of them is kept from step to step, and not made again each time.
    #[test]
    fn agrees_on_a_crowd_of_nodes(
        nodes in prop::collection::vec([4_u64..9, 0_u64..9, 1_u64..5], 40..160),
        history in prop::collection::vec(steps(0..160), 1..80),
    ) {
        let mut pair = Pair::new();
        for (rank, sizes) in (0..).zip(nodes) {
            pair.add_node(rank, sizes);
        }
        for step in &history {
            pair.step(step);
        }
        pair.compare();
        pair.give_everything_back();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    /// Far more slots than nodes.
    #[test]
    fn many_slots_are_dealt_out_one_by_one(
        nodes in prop::collection::vec([sizes(300), sizes(300), sizes(120)], 1..4),
        charges in prop::collection::vec((0_u32..4, needs(), 1_u64..20), 0..6),
        count in 1_u64..200,
        need in needs(),
        max_per_node in prop::option::weighted(0.2, 1_u64..60),
        order in orders(),
    ) {
        let mut pair = Pair::new();
        for (rank, sizes) in (0..).zip(nodes) {
            pair.add_node(rank, sizes);
        }
        for (rank, need, count) in charges {
            pair.charge(1, rank, need, count, End::Never, Tenancy::Shared);
        }
        let (ranks, prefer, tenancy) = (None, Vec::new(), Tenancy::Shared);
        pair.allocate(&Wish { count, need, end: End::Never, ranks, prefer, max_per_node, order, not_before: 0, tenancy });
        pair.compare();
    }
}

/// A unit more that is free must be found also where it does not change how full the node is.
#[test]
fn a_unit_that_is_lost_in_the_rounding_can_be_had() {
    let mut pair = Pair::new();
    let size = 1 << 50;
    for rank in 0..20 {
        pair.add_node(rank, [size, 0, 0]);
        pair.charge(1, rank, [size - 2, 0, 0], 1, End::Never, Tenancy::Shared);
        pair.charge(2, rank, [1, 0, 0], 1, End::Never, Tenancy::Shared);
    }
    let wish = Wish {
        count: 1,
        need: [2, 0, 0],
        end: End::Never,
        ranks: None,
        prefer: Vec::new(),
        max_per_node: None,
        order: Order::Fullest,
        not_before: 0,
        tenancy: Tenancy::Shared,
    };
    pair.allocate(&wish);
    pair.step(&Step::Release { job: 2, rank: 7, count: 1 });
    pair.allocate(&wish);
    pair.compare();
    assert_eq!(pair.naive.used(7, 0), size);
}

struct Pair {
    engine: Engine,
    naive: Machine,
    next_job: u64,
}

impl Pair {
    fn new() -> Self {
        let graph = format!(r#"{{"graph":{{"nodes":[{ROOT}],"edges":[]}}}}"#);
        Pair {
            engine: Engine::new(&graph, OPTIONS).unwrap(),
            naive: Machine::default(),
            next_job: 100,
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::AddNode { rank, sizes } => self.add_node(*rank, *sizes),
            Step::RemoveNode { rank } => {
                assert_eq!(self.engine.remove_rank(*rank).is_ok(), self.naive.remove(*rank));
            }
            Step::Resize { rank, kind, size } => {
                let known = self.naive.resize(*rank, *kind, *size);
                assert_eq!(self.engine.resize(*rank, KINDS[*kind], *size).is_ok(), known);
            }
            Step::SetUp { rank, up } => {
                self.engine.set_rank_status(&rank.to_string(), *up).unwrap();
                self.naive.set_up(*rank, *up);
            }
            Step::Allocate { wish } => self.allocate(wish),
            Step::AllocateTwo { first, second } => self.allocate_two(first, second),
            Step::Reserve { wish } => self.reserve(wish),
            Step::Charge { job, rank, need, count, end, tenancy } => {
                self.charge(*job, *rank, *need, *count, *end, *tenancy);
            }
            Step::Release { job, rank, count } => {
                let released = self.engine.release(*job, *rank, "c", *count);
                assert_eq!(released.is_ok(), self.naive.release(*job, *rank, "c", *count));
            }
            Step::Cancel { job } => {
                assert_eq!(self.engine.cancel(*job).is_ok(), self.naive.cancel(*job));
            }
            Step::Advance { seconds } => {
                self.naive.advance(*seconds);
                self.engine.set_time(self.naive.now).unwrap();
            }
            Step::Move(index) => self.move_one(*index),
            Step::Trial(steps) => self.trial(steps),
        }
    }

    fn move_one(&mut self, index: prop::sample::Index) {
        let jobs: Vec<u64> = self
            .naive
            .jobs()
            .into_iter()
            .filter(|job| self.naive.planned_start(*job).is_some())
            .collect();
        if jobs.is_empty() {
            return;
        }
        let job = *index.get(&jobs);
        let before = self.naive.planned_start(job).unwrap();
        match (self.engine.move_reservation(job), self.naive.move_job(job)) {
            (Ok(moved), Moved::Stays(at)) => {
                assert_eq!(
                    (moved.at, moved.reserved, &*moved.r, moved.delay),
                    (at, true, "", Delay::default())
                );
            }
            (Ok(moved), Moved::To(at, places)) => {
                assert_eq!((moved.at, moved.reserved), (at, at > self.naive.now));
                assert_eq!(placement(&moved.r)["a"], places);
                assert_eq!(moved.delay != Delay::default(), at > before);
            }
            (Err(_), Moved::Nowhere) => {}
            (moved, expected) => panic!("move: {moved:?}, and not {expected:?}"),
        }
    }

    /// Takes steps, and takes them back.
    fn trial(&mut self, steps: &[Step]) {
        let (naive, next_job) = (self.naive.clone(), self.next_job);
        self.engine.begin_trial().unwrap();
        for step in steps {
            match step {
                // The graph stays as it is.
                Step::AddNode { .. } => {}
                Step::RemoveNode { rank } => assert!(self.engine.remove_rank(*rank).is_err()),
                Step::Resize { rank, kind, size } => {
                    assert!(self.engine.resize(*rank, KINDS[*kind], *size).is_err());
                }
                Step::SetUp { rank, up } => {
                    assert!(self.engine.set_rank_status(&rank.to_string(), *up).is_err());
                }
                step => self.step(step),
            }
            self.compare();
        }
        self.engine.end_trial().unwrap();
        (self.naive, self.next_job) = (naive, next_job);
        self.compare();
    }

    fn add_node(&mut self, rank: u32, sizes: [u64; 3]) {
        if !self.naive.add(rank, sizes) {
            return;
        }
        let node = |id: usize, kind: &str, size: u64, path: &str| {
            format!(
                r#"{{"id":"{id}","metadata":{{"type":"{kind}","rank":{rank},"size":{size},"paths":{{"containment":"{path}"}}}}}}"#
            )
        };
        let mut nodes = format!("{ROOT},{}", node(1, "node", 1, &format!("/cluster0/n{rank}")));
        let mut edges = r#"{"source":"0","target":"1"}"#.to_owned();
        for (at, kind) in KINDS.iter().enumerate() {
            let _ = write!(
                nodes,
                ",{}",
                node(at + 2, kind, sizes[at], &format!("/cluster0/n{rank}/{kind}0"))
            );
            let _ = write!(edges, r#",{{"source":"1","target":"{}"}}"#, at + 2);
        }
        self.engine
            .add_subgraph(&format!(r#"{{"graph":{{"nodes":[{nodes}],"edges":[{edges}]}}}}"#))
            .unwrap();
    }

    fn allocate(&mut self, wish: &Wish) {
        let text = jobspec(&[("a", wish)]);
        let expected = self.naive.place(wish, self.naive.now);
        let forecast = self.naive.forecast(wish);
        let told = self.engine.match_job(MatchOp::WithoutAllocatingFuture, &text, 0);
        match (told, forecast) {
            (Ok(grant), naive::Forecast::At(at)) => assert_eq!(grant.at, at),
            (Ok(grant), naive::Forecast::Eventually) => assert_eq!(grant.at, EVENTUALLY),
            (Err(error), naive::Forecast::Blocked) => assert_eq!(error.reason, Reason::Busy),
            (Err(error), naive::Forecast::Never) => assert_eq!(error.reason, Reason::Unsatisfiable),
            (told, forecast) => panic!("forecast: {told:?}, and not {forecast:?}"),
        }
        let eligible: Vec<u32> = self.naive.eligible(wish);
        assert_eq!(ranks(&self.engine.eligible(&text).unwrap()), eligible);
        let job = self.next_job;
        self.next_job += 1;
        match (self.engine.match_job(MatchOp::Allocate, &text, job), expected) {
            (Ok(grant), Some(places)) => {
                assert_eq!(placement(&grant.r)["a"], places);
                self.naive.take(job, "a", wish, &places, self.naive.now);
            }
            (Err(error), None) => assert_eq!(error.reason, Reason::Busy),
            (answer, places) => panic!("allocate: {answer:?}, and not {places:?}"),
        }
    }

    fn allocate_two(&mut self, first: &Wish, second: &Wish) {
        // Constraints and ends belong to the whole request.
        let second = Wish { count: second.count, need: second.need, ..first.clone() };
        let job = self.next_job;
        self.next_job += 1;
        let fits = self.naive.fits_both(first, &second);
        let answer = self.engine.match_job(
            MatchOp::Allocate,
            &jobspec(&[("a", first), ("b", &second)]),
            job,
        );
        assert_eq!(answer.is_ok(), fits, "{answer:?}");
        let Ok(grant) = answer else { return };
        let placed = placement(&grant.r);
        // Where one after the other does not work, nodes are taken in another order.
        if let Some([a, b]) = self.naive.place_both(first, &second) {
            assert_eq!((&placed["a"], &placed["b"]), (&a, &b));
        }
        for (label, wish) in [("a", first), ("b", &second)] {
            assert_eq!(placed[label].values().sum::<u64>(), wish.count);
            // Taking them one after the other, each must fit beside the others.
            self.naive.take_checked(job, label, wish, &placed[label]);
        }
    }

    fn reserve(&mut self, wish: &Wish) {
        let job = self.next_job;
        self.next_job += 1;
        let expected = self.naive.forecast(wish);
        match (
            self.engine.match_job(MatchOp::AllocateOrElseReserve, &jobspec(&[("a", wish)]), job),
            expected,
        ) {
            (Ok(grant), naive::Forecast::At(at)) => {
                assert_eq!((grant.at, grant.reserved), (at, at > self.naive.now));
                let places = self.naive.place(wish, at).unwrap();
                assert_eq!(placement(&grant.r)["a"], places);
                self.naive.take(job, "a", wish, &places, at);
                self.naive.wishes.insert(job, wish.clone());
            }
            (Err(error), naive::Forecast::Eventually | naive::Forecast::Blocked) => {
                assert_eq!(error.reason, Reason::Busy);
            }
            (Err(error), naive::Forecast::Never) => assert_eq!(error.reason, Reason::Unsatisfiable),
            (answer, expected) => panic!("reserve: {answer:?}, and not {expected:?}"),
        }
    }

    fn charge(&mut self, job: u64, rank: u32, need: Need, count: u64, end: End, tenancy: Tenancy) {
        let end_text = match end {
            End::After(seconds) => (self.naive.now + seconds).to_string(),
            End::Eventually => r#""eventually""#.to_owned(),
            End::Never => r#""never""#.to_owned(),
        };
        let with: Vec<String> =
            KINDS.iter().zip(need).map(|(kind, units)| format!(r#""{kind}":{units}"#)).collect();
        let with = with.join(",");
        let says = texts::tenancy(tenancy);
        let text = format!(
            r#"{{"label":"c","rank":{rank},"count":{count},"with":{{{with}}},"end":{end_text}{says}}}"#
        );
        let known = self.naive.nodes.contains_key(&rank);
        assert_eq!(self.engine.charge(job, &text).is_ok(), known);
        if known {
            let (start, end) = (self.naive.now, end.from(self.naive.now));
            let slot = Slot { job, label: "c", need, tenancy, start, end, planned: false };
            self.naive.put(rank, &slot, count);
        }
    }

    /// Sizes and uses of all nodes, and which jobs there are.
    fn compare(&self) {
        for (rank, node) in &self.naive.nodes {
            let usage = self.engine.usage(*rank).unwrap();
            for (at, kind) in KINDS.iter().enumerate() {
                let found = usage.pools.iter().find(|pool| pool.kind == *kind);
                let found = found.map_or((0, 0), |pool| (pool.size, pool.used));
                assert_eq!(
                    found,
                    (node.sizes[at], self.naive.used(*rank, at)),
                    "rank {rank} {kind}"
                );
            }
        }
        let jobs = self.naive.jobs();
        assert_eq!(self.engine.job_count(), jobs.len());
        assert!(jobs.iter().all(|job| self.engine.info(*job).is_ok()));
        for job in jobs {
            let info = self.engine.info(job).unwrap();
            let start = self.naive.planned_start(job);
            assert_eq!((info.mode == JobMode::Reserved).then_some(info.at), start, "job {job}");
        }
    }

    fn give_everything_back(mut self) {
        for job in self.naive.jobs() {
            self.engine.cancel(job).unwrap();
            assert!(self.naive.cancel(job));
        }
        self.compare();
        let used = |rank: &u32| {
            self.engine.usage(*rank).unwrap().pools.iter().map(|pool| pool.used).sum::<u64>()
        };
        assert_eq!(self.naive.nodes.keys().map(used).sum::<u64>(), 0);
    }
}
