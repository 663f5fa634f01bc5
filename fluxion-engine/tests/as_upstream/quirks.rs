//! What looks like a defect of upstream, and is reproduced: the numbers are those of
//! docs/fluxion-compatibility.md.

use super::*;

const NODE_1: &str = r#""type":"node","id":1,"#;

fn in_node(count: u32, slot: &str) -> String {
    format!(r#"{{"type":"node","count":{count},"with":[{slot}]}}"#)
}

/// This number of whole nodes.
fn nodes(count: u32) -> String {
    slot(1, &format!(r#"{{"type":"node","count":{count}}}"#))
}

fn for_a_minute(resources: &str) -> String {
    spec(resources, TASKS, r#"{"system":{"duration":60}}"#)
}

fn with_options(document: &str, options: &str) -> Engine {
    Engine::new(document, &format!(r#"{{"load_format":"jgf",{options}}}"#)).unwrap()
}

/// The names of the vertices that jobs have or pass through.
fn held(engine: &mut Engine) -> String {
    let found = engine.find("sched-now=allocated", MatchFormat::Simple, false);
    found.unwrap().unwrap_or_default()
}

/// An R of these ranks, for a partial cancel.
fn ranks(ranks: &str) -> String {
    format!(
        r#"{{"version":1,"execution":{{"R_lite":[{{"rank":"{ranks}","children":{{}}}}],
        "nodelist":["node[0-1]"],"starttime":0,"expiration":0}}}}"#
    )
}

/// A document that adds node 7 to the root, with a core.
const NODE_7: &str = r#"{"graph":{"nodes":[
    {"id":"r","metadata":{"type":"cluster","id":0,"uniq_id":1,"rank":-1,
        "paths":{"containment":"/cluster0"}}},
    {"id":"n","metadata":{"type":"node","id":7,"uniq_id":70,"rank":7,
        "paths":{"containment":"/cluster0/node7"}}},
    {"id":"c","metadata":{"type":"core","id":0,"uniq_id":71,"rank":7,
        "paths":{"containment":"/cluster0/node7/core0"}}}],
    "edges":[{"source":"r","target":"n"},{"source":"n","target":"c"}]}}"#;

/// Q2.
#[test]
fn nodes_are_counted_off_twice_where_a_document_has_them_down_and_not_where_they_are_added() {
    let down = document(false).replacen(NODE_1, &format!(r#"{NODE_1}"status":1,"#), 1);
    let mut engine = with_options(&down, r#""matcher_policy":"low""#);
    let one = for_a_minute(&in_node(1, &slot(1, CORE)));
    assert_eq!(engine.match_next(MatchOp::Allocate, &one).unwrap_err().reason, Reason::Busy);
    // This request counts no nodes.
    engine.match_next(MatchOp::Allocate, &for_a_minute(&slot(1, CORE))).unwrap();
    let mut engine = super::engine(false, "low");
    engine.add_subgraph(NODE_7).unwrap();
    let three = for_a_minute(&nodes(3));
    assert_eq!(engine.match_next(MatchOp::Allocate, &three).unwrap_err().reason, Reason::Busy);
    engine.satisfy(&three).unwrap();
}

/// Q3.
#[test]
fn types_that_a_malformed_request_wants_alone_stay_so() {
    let one = for_a_minute(&in_node(1, &slot(1, CORE)));
    let alone =
        in_node(1, &slot(1, CORE)).replacen(r#""count":1"#, r#""count":1,"exclusive":true"#, 1);
    let malformed = spec(&alone, TASKS, r#"{"system":{"duration":-1}}"#);
    let mut engine = engine(false, "low");
    let grant = engine.match_next(MatchOp::WithoutAllocating, &one).unwrap();
    assert!(grant.r.contains("node0[1:s]"), "{}", grant.r);
    engine.match_next(MatchOp::Allocate, &malformed).unwrap_err();
    let grant = engine.match_next(MatchOp::WithoutAllocating, &one).unwrap();
    assert!(grant.r.contains("node0[1:x]") && grant.r.contains("gpu0[1:x]"), "{}", grant.r);
}

/// Q11.
#[test]
fn policies_of_whole_nodes_take_them_free_or_not_but_for_the_vertices_of_others() {
    let mut engine = engine(false, "lonodex");
    let other = r#"{"system":{"duration":60,"fluxion":{"policy":"lonode"}}}"#;
    engine.match_next(MatchOp::Allocate, &spec(&slot(1, CORE), TASKS, other)).unwrap();
    let grant = engine.match_next(MatchOp::Allocate, &for_a_minute(&slot(1, CORE))).unwrap();
    assert!(grant.r.contains("node0[1:x]") && grant.r.contains("gpu0[1:x]"), "{}", grant.r);
    assert!(!grant.r.contains("core0"), "{}", grant.r);
}

/// Q12.
#[test]
fn ids_that_the_library_chooses_count_all_matches_and_may_be_those_of_live_jobs() {
    let mut engine = engine(false, "low");
    let one = for_a_minute(&slot(1, CORE));
    engine.match_job(MatchOp::Allocate, &one, 2).unwrap();
    assert_eq!(engine.match_next(MatchOp::Allocate, &one).unwrap().job, Some(2));
    assert_eq!(engine.match_next(MatchOp::Allocate, &one).unwrap().job, Some(3));
}

/// Q14.
#[test]
fn r_shows_a_node_as_taken_of_which_it_has_a_core_and_jgf_without_anything_fails_silently() {
    let mut engine = engine(false, "low");
    let grant = engine.update_allocate(7, R).unwrap();
    assert!(grant.r.contains("node0[1:x]") && !grant.r.contains("core1"), "{}", grant.r);
    engine.cancel(7).unwrap();
    let error = engine.update_allocate(8, &document(false)).unwrap_err();
    assert_eq!((error.reason, &*error.text), (Reason::Nothing, ""));
}

/// Q15.
#[test]
fn first_goes_by_what_was_left_when_a_grant_passed_and_not_by_what_has_come_free() {
    let mut engine = engine(false, "first");
    let mut node_of = |cores: u32| {
        let text = for_a_minute(&slot(1, &format!(r#"{{"type":"core","count":{cores}}}"#)));
        let grant = engine.match_next(MatchOp::Allocate, &text).unwrap();
        engine.cancel(grant.job.unwrap()).unwrap();
        (0..2).find(|node| grant.r.contains(&format!("node{node}"))).unwrap()
    };
    // All of one node, then a part of the other; both are free again.
    assert_eq!((node_of(2), node_of(1)), (1, 0));
    assert_eq!(node_of(1), 0);
}

/// Q16.
#[test]
fn vertices_that_two_jobs_of_one_id_pass_through_stay_counted() {
    let mut engine = engine(false, "lonode");
    let one = for_a_minute(&slot(1, CORE));
    for _ in 0..2 {
        engine.match_job(MatchOp::Allocate, &one, 8).unwrap();
    }
    engine.cancel(8).unwrap();
    let mut whole = |count: u32| engine.match_next(MatchOp::Allocate, &for_a_minute(&nodes(count)));
    assert_eq!(whole(2).unwrap_err().reason, Reason::Busy);
    assert!(whole(1).unwrap().r.contains("node1[1:x]"));
}

/// Q17.
#[test]
fn a_job_that_is_cancelled_in_a_copy_shows_so_and_is_held_all_the_same() {
    let mut engine = engine(false, "low");
    engine.match_job(MatchOp::Allocate, &for_a_minute(&slot(1, CORE)), 8).unwrap();
    let mut copy = engine.fork();
    engine.cancel(8).unwrap();
    assert_eq!(copy.info(8).unwrap().mode, JobMode::Canceled);
    assert!(held(&mut copy).contains("core0"));
    copy.cancel(8).unwrap();
    assert_eq!(held(&mut copy), "");
}

/// Q1, Q21.
#[test]
fn a_slot_one_level_below_its_resources_is_lost_and_not_formed_by_the_flexible_traverser() {
    let below = format!(r#"{{"type":"cluster","count":1,"with":[{}]}}"#, slot(1, CORE));
    let satisfy = |traverser: &str| {
        let options = format!(r#""matcher_policy":"low","traverser_policy":"{traverser}""#);
        let mut engine = with_options(&document(false), &options);
        engine.match_next(MatchOp::Allocate, &for_a_minute(&below)).unwrap_err();
        engine.satisfy(&for_a_minute(&below)).map_err(|error| error.reason)
    };
    assert_eq!(satisfy("simple"), Ok(()));
    assert_eq!(satisfy("flexible"), Err(Reason::Unsatisfiable));
}

/// Q24.
#[test]
fn what_lies_below_a_vertex_that_a_partial_cancel_gave_back_stays_held() {
    let mut engine = engine(true, "low");
    let gpus = for_a_minute(&slot(2, GPU));
    let job = engine.match_next(MatchOp::Allocate, &gpus).unwrap().job.unwrap();
    assert!(!engine.partial_cancel(job, &ranks("0")).unwrap());
    engine.cancel(job).unwrap();
    assert!(held(&mut engine).contains("gpu0"));
    assert_eq!(engine.match_next(MatchOp::Allocate, &gpus).unwrap_err().reason, Reason::Busy);
}

/// Q25.
#[test]
fn ranks_of_several_jobs_are_not_removed_where_one_has_less_than_all() {
    let mut engine = engine(false, "lonode");
    for job in [1, 2] {
        engine.match_job(MatchOp::Allocate, &for_a_minute(&slot(1, CORE)), job).unwrap();
    }
    assert_eq!(engine.remove_ranks("0").unwrap_err().reason, Reason::Invalid);
    engine.cancel(2).unwrap();
    engine.remove_ranks("0").unwrap();
}

/// Q26.
#[test]
fn a_node_that_comes_while_jobs_run_is_there_now_and_not_yet_when_they_end() {
    let mut engine = engine(false, "low");
    let all = for_a_minute(&slot(4, CORE));
    engine.match_next(MatchOp::Allocate, &all).unwrap();
    engine.add_subgraph(NODE_7).unwrap();
    let five = for_a_minute(&slot(5, CORE));
    let error = engine.match_next(MatchOp::AllocateOrElseReserve, &five).unwrap_err();
    assert_eq!(error.reason, Reason::Busy);
    engine.match_next(MatchOp::Allocate, &for_a_minute(&slot(1, CORE))).unwrap();
}

/// Q27.
#[test]
fn names_with_capitals_are_not_found() {
    let text = document(false).replacen(NODE_1, &format!(r#"{NODE_1}"name":"Node1","#), 1);
    let mut engine = with_options(&text, r#""matcher_policy":"low""#);
    let mut is_found = |name: &str| {
        engine.find(&format!("names={name}"), MatchFormat::Jgf, true).unwrap().is_some()
    };
    assert!(is_found("node0"));
    assert!(!is_found("Node1") && !is_found("node1"));
}
