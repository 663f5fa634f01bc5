//! Former faults, one by one.

use fluxion_engine::{Engine, JobMode, MatchFormat, MatchOp, Reason, UpdateReader};

use crate::Pair;
use crate::naive::{Node, Wish};

fn node(cpu: u64, cores: usize) -> Node {
    Node { cpu, cores, up: true }
}

#[test]
fn nothing_goes_on_a_node_that_is_given_away_whole() {
    let mut pair = Pair::new(2, &[node(4, 1), node(4, 1)]);
    let (rack, _) = pair.ask(false, Wish::Rack, 10).unwrap();
    pair.ask(false, Wish::Nodes(1), 20).unwrap();
    assert_eq!(pair.ask(false, Wish::Slots(1, 1), 5), None);
    // Nor later, as long as it is given away; nor once it is overdue.
    assert_eq!(pair.ask(true, Wish::Slots(1, 1), 5).unwrap().1, 10);
    pair.advance(30);
    assert_eq!(pair.ask(false, Wish::Slots(1, 1), 5), None);
    pair.cancel(rack);
    pair.ask(false, Wish::Slots(1, 1), 5).unwrap();
}

#[test]
fn no_node_is_given_away_whole_on_which_slots_are_or_will_be() {
    let mut pair = Pair::new(2, &[node(4, 1)]);
    pair.ask(false, Wish::Slots(1, 4), 10).unwrap();
    let (second, at) = pair.ask(true, Wish::Slots(1, 4), 10).unwrap();
    assert_eq!(at, 10);
    assert_eq!(pair.ask(false, Wish::Nodes(1), 5), None);
    assert_eq!(pair.ask(true, Wish::Nodes(1), 5).unwrap().1, 20);
    pair.cancel(second);
    // What walks is reserved behind what does not.
    assert_eq!(pair.ask(true, Wish::Mixed(1, 4), 5).unwrap().1, 10);
    // A job past its end is not passed by either.
    pair.advance(10);
    assert_eq!(pair.ask(false, Wish::Nodes(1), 3), None);
}

#[test]
fn a_node_that_is_resized_is_found_by_a_walk() {
    let mut pair = Pair::new(0, &[node(0, 1), node(2, 1)]);
    pair.engine.resize(0, "cpu", 8).unwrap();
    pair.engine.resize(1, "cpu", 5).unwrap();
    for (rank, cpu) in [(0, 8), (1, 5)] {
        pair.naive.nodes.get_mut(&rank).unwrap().cpu = cpu;
    }
    pair.ask(false, Wish::Mixed(1, 8), 5).unwrap();
    pair.ask(false, Wish::Mixed(1, 5), 5).unwrap();
}

#[test]
fn a_node_below_a_rack_that_is_given_away_is_given_away() {
    let mut pair = Pair::new(2, &[node(4, 1)]);
    let (rack, _) = pair.ask(false, Wish::Rack, 10).unwrap();
    pair.ask(false, Wish::Rack, 10).unwrap();
    pair.grow(2, &node(4, 1));
    assert_eq!(pair.ask(false, Wish::Slots(1, 1), 5), None);
    pair.cancel(rack);
    pair.ask(false, Wish::Slots(2, 4), 5).unwrap();
}

#[test]
fn who_has_overstayed_keeps_a_part_of_a_node() {
    let mut pair = Pair::new(0, &[node(4, 2)]);
    let (core, _) = pair.ask(false, Wish::Cores(1), 10).unwrap();
    pair.advance(10);
    assert_eq!(pair.ask(false, Wish::Nodes(1), 5), None);
    assert_eq!(pair.ask(true, Wish::Nodes(1), 5).unwrap().1, 11);
    pair.cancel(core);
    pair.compare();
}

#[test]
fn a_reservation_begins_when_its_start_has_come_and_its_room_is_free() {
    let mut pair = Pair::new(0, &[node(4, 2)]);
    let (first, _) = pair.ask(false, Wish::Nodes(1), 10).unwrap();
    let (second, _) = pair.ask(true, Wish::Nodes(1), 10).unwrap();
    let (third, _) = pair.ask(true, Wish::Slots(1, 4), 10).unwrap();
    pair.advance(12);
    let info = |pair: &Pair, id| pair.engine.info(id).map(|info| (info.mode, info.at)).unwrap();
    // The first has overstayed, so that the second waits from second to second.
    assert_eq!(info(&pair, second), (JobMode::Reserved, 13));
    pair.cancel(first);
    pair.advance(1);
    assert_eq!(info(&pair, second), (JobMode::Allocated, 13));
    pair.advance(8);
    assert_eq!(info(&pair, third), (JobMode::Reserved, 22));
    pair.compare();
}

#[test]
fn a_gap_before_something_endless_is_found() {
    let mut pair = Pair::new(0, &[node(1, 0), node(1, 0)]);
    pair.charge(0, 1, 10);
    pair.charge(1, 1, 100);
    assert_eq!(pair.ask(true, Wish::Slots(2, 1), 0).unwrap().1, 100);
    assert_eq!(pair.ask(true, Wish::Slots(1, 1), 50).unwrap().1, 10);
}

/// A reservation that is moved goes where it would go if it were new, also where room was only
/// taken meanwhile.
#[test]
fn a_reservation_by_fill_is_moved_off_a_node_that_got_fuller() {
    let options = r#"{"load_format":"jgf","matcher_policy":"spread","match_format":"placement","pool_types":["cpu"]}"#;
    let mut engine =
        Engine::new(&crate::document(0, &[(0, &node(4, 0)), (1, &node(4, 0))]), options).unwrap();
    for rank in 0..2 {
        let charge =
            format!(r#"{{"label":"x","rank":{rank},"count":1,"with":{{"cpu":4}},"end":10}}"#);
        engine.charge(1, &charge).unwrap();
    }
    let reserved = engine
        .match_job(MatchOp::AllocateOrElseReserve, &crate::jobspec(Wish::Slots(1, 1), 5), 2)
        .unwrap();
    assert_eq!((reserved.at, reserved.r.contains(r#""ranks":"0""#)), (10, true));
    engine.move_reservation(2).unwrap();
    engine.charge(3, r#"{"label":"x","rank":0,"count":1,"with":{"cpu":1},"end":"never"}"#).unwrap();
    let moved = engine.move_reservation(2).unwrap();
    assert_eq!((moved.at, moved.r.contains(r#""ranks":"1""#)), (10, true));
}

/// A pool that is marked as down itself hands out nothing, now or later, until it is up again; the
/// idle machine has it.
#[test]
fn a_pool_that_is_down_hands_out_nothing() {
    let mut pair = Pair::new(0, &[node(4, 0)]);
    let ask = |wish, seconds| crate::jobspec(wish, seconds);
    let one = ask(Wish::Slots(1, 1), 5);
    pair.engine.set_status("/cluster0/node0/cpu0", false).unwrap();
    pair.engine.set_status("/cluster0/node0/cpu0", false).unwrap();
    for op in [MatchOp::Allocate, MatchOp::AllocateOrElseReserve, MatchOp::WithoutAllocatingFuture]
    {
        assert_eq!(pair.engine.match_next(op, &one).unwrap_err().reason, Reason::Busy);
    }
    pair.engine.satisfy(&one).unwrap();
    pair.engine.resize(0, "cpu", 6).unwrap();
    assert_eq!(pair.engine.match_next(MatchOp::Allocate, &one).unwrap_err().reason, Reason::Busy);
    pair.engine.set_status("/cluster0/node0/cpu0", true).unwrap();
    pair.engine.match_next(MatchOp::Allocate, &ask(Wish::Slots(6, 1), 5)).unwrap();
}

/// A charge of a type that no node has had is taken back like all else.
#[test]
fn a_trial_takes_back_what_was_charged_of_a_type_that_nobody_had() {
    // The filters name the type, so that it is known.
    let options = r#"{"load_format":"jgf","matcher_policy":"lonode","match_format":"placement","prune_filters":"ALL:cpu","pool_types":["cpu","core"]}"#;
    let mut engine = Engine::new(&crate::document(0, &[(0, &node(0, 2))]), options).unwrap();
    let before = engine.usage(0).unwrap();
    engine.begin_trial().unwrap();
    for with in [r#"{"core":1}"#, r#"{"cpu":3,"core":1}"#] {
        let charge = format!(r#"{{"label":"x","rank":0,"count":1,"with":{with},"end":"never"}}"#);
        engine.charge(7, &charge).unwrap();
    }
    engine.end_trial().unwrap();
    assert_eq!(engine.usage(0).unwrap(), before);
}

/// The node is held where all that is in it is listed, and not where half of it is.
#[test]
fn r_takes_a_node_only_with_all_that_is_in_it() {
    let r = |cores: &str| {
        format!(
            r#"{{"version":1,"execution":{{"R_lite":[{{"rank":"0","children":{{"core":"{cores}"}}}}],"nodelist":["node0"],"starttime":0,"expiration":50}}}}"#
        )
    };
    let document = crate::document(0, &[(0, &node(0, 4))]);
    let options = r#"{"load_format":"jgf","matcher_policy":"lonode","match_format":"simple"}"#;
    let rest = crate::jobspec(Wish::Cores(1), 5);
    for (cores, is_left) in [("0-2", true), ("0-3", false)] {
        let mut engine = Engine::new(&document, options).unwrap();
        engine.update(1, &r(cores), UpdateReader::Rv1exec, 0, 50, JobMode::Allocated).unwrap();
        assert_eq!(engine.match_next(MatchOp::Allocate, &rest).is_ok(), is_left, "cores {cores}");
    }
}

/// Many alternatives, each of which can be formed often, are weighed without a frame on the stack
/// for each slot.
#[test]
fn alternatives_that_can_be_formed_often_do_not_exhaust_the_stack() {
    const KINDS: usize = 40;
    let mut vertices = vec![
        r#"{"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}}"#
            .to_owned(),
        r#"{"id":"1","metadata":{"type":"node","id":0,"rank":0,"paths":{"containment":"/c0/n0"}}}"#
            .to_owned(),
    ];
    let mut edges = vec![r#"{"source":"0","target":"1"}"#.to_owned()];
    for kind in 0..KINDS {
        let id = kind + 2;
        vertices.push(format!(
            r#"{{"id":"{id}","metadata":{{"type":"k{kind}","id":0,"rank":0,"size":2000,"paths":{{"containment":"/c0/n0/k{kind}"}}}}}}"#
        ));
        edges.push(format!(r#"{{"source":"1","target":"{id}"}}"#));
    }
    let document = format!(
        r#"{{"graph":{{"nodes":[{}],"edges":[{}]}}}}"#,
        vertices.join(","),
        edges.join(",")
    );
    let slot = |kind: usize| {
        format!(
            r#"{{"type":"slot","count":1,"label":"s{kind}","with":[{{"type":"k{kind}","count":1}}]}}"#
        )
    };
    let slots: Vec<String> = (0..KINDS).map(slot).collect();
    let spec = format!(
        r#"{{"version":1,"resources":[{}],"tasks":[{{"command":["a"],"slot":"s0","count":{{"per_slot":1}}}}],"attributes":{{"system":{{"duration":5}}}}}}"#,
        slots.join(",")
    );
    let options = r#"{"load_format":"jgf","matcher_policy":"low","traverser_policy":"flexible","match_format":"simple"}"#;
    let match_it = move || {
        Engine::new(&document, options).unwrap().match_next(MatchOp::Allocate, &spec).map(|_| ())
    };
    // As little stack as threads have by default.
    let answer =
        std::thread::Builder::new().stack_size(2 << 20).spawn(match_it).unwrap().join().unwrap();
    if let Err(error) = answer {
        assert_ne!(error.reason, Reason::Setup);
    }
}

/// A graph of a node with 10 units of cpu and a core.
fn pool_and_core() -> Engine {
    let options = r#"{"load_format":"jgf","matcher_policy":"lonode","match_format":"simple",
        "pool_types":["cpu"]}"#;
    Engine::new(&crate::document(0, &[(0, &node(10, 1))]), options).unwrap()
}

const FOUR_CPUS: &str = r#"{"label":"x","rank":0,"count":1,"with":{"cpu":4},"end":20}"#;

/// `find` knows the units that jobs have, as it knows vertices.
#[test]
fn units_are_found_with_their_jobs() {
    let mut engine = pool_and_core();
    let find = |engine: &mut Engine, criteria: &str| {
        let text = engine.find(criteria, MatchFormat::Simple, false).unwrap();
        text.is_some_and(|text| text.contains("cpu"))
    };
    assert!(!find(&mut engine, "sched-now=allocated"));
    engine.charge(7, FOUR_CPUS).unwrap();
    let wish = crate::jobspec(Wish::Slots(1, 8), 5);
    let later = engine.match_job(MatchOp::AllocateOrElseReserve, &wish, 8).unwrap();
    assert_eq!(later.at, 20);
    for (criteria, is_found) in [
        ("sched-now=allocated", true),
        ("sched-now=free and sched-future=free", false),
        ("sched-future=reserved", true),
        ("jobid-alloc=7", true),
        ("jobid-tag=7", true),
        ("jobid-alloc=8", false),
        ("jobid-reserved=8", true),
        ("jobid-span=7", false),
    ] {
        assert_eq!(find(&mut engine, criteria), is_found, "{criteria}");
    }
    engine.cancel(8).unwrap();
    assert!(!find(&mut engine, "sched-future=reserved"));
    engine.cancel(7).unwrap();
    assert!(!find(&mut engine, "sched-now=allocated"));
}

/// A document cannot give a node away on which jobs have units, or will have some.
#[test]
fn r_takes_no_node_of_which_somebody_has_units() {
    let r = r#"{"graph":{"nodes":[{"id":"1","metadata":{"type":"node","id":0,"rank":0,
        "exclusive":true,"paths":{"containment":"/cluster0/node0"}}}],"edges":[]}}"#;
    let mut engine = pool_and_core();
    let update = |engine: &mut Engine, at: i64| {
        engine.update(9, r, UpdateReader::Jgf, at, 5, JobMode::Allocated).map(|_| ())
    };
    let mut idle = engine.fork();
    update(&mut idle, 0).unwrap();
    engine.charge(7, FOUR_CPUS).unwrap();
    assert_eq!(update(&mut engine, 0).unwrap_err().reason, Reason::Invalid);
    let wish = crate::jobspec(Wish::Slots(1, 8), 5);
    assert_eq!(engine.match_job(MatchOp::AllocateOrElseReserve, &wish, 8).unwrap().at, 20);
    assert_eq!(update(&mut engine, 22).unwrap_err().reason, Reason::Invalid);
    engine.cancel(7).unwrap();
    update(&mut engine, 0).unwrap();
}
