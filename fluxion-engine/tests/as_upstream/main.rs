//! Facts about upstream's answers that no other test would miss: what contradictory requests come
//! to, how much of a jobspec is not read, and what `update` takes of a document. Each
//! was seen with upstream's 0.54. A number such as Q7 is that of docs/fluxion-compatibility.md.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod numbers;
mod quirks;

use std::fmt::Write as _;

use fluxion_engine::{Engine, JobMode, MatchFormat, MatchOp, Reason, UpdateReader, WINDOW_SECONDS};

/// Two nodes of two cores and a GPU, directly below the root or below a rack.
fn document(has_rack: bool) -> String {
    let mut nodes = String::new();
    let mut edges = Vec::new();
    let mut count = 0;
    let mut add = |id: &str, kind: &str, number: i32, rank: i32, path: &str| {
        let comma = if nodes.is_empty() { "" } else { "," };
        count += 1;
        let _ = write!(
            nodes,
            r#"{comma}{{"id":"{id}","metadata":{{"type":"{kind}","id":{number},"uniq_id":{count},"rank":{rank},"paths":{{"containment":"{path}"}}}}}}"#
        );
    };
    add("root", "cluster", 0, -1, "/cluster0");
    let (above, prefix) = if has_rack {
        add("rack", "rack", 0, -1, "/cluster0/rack0");
        edges.push(r#"{"source":"root","target":"rack"}"#.to_owned());
        ("rack", "/cluster0/rack0")
    } else {
        ("root", "/cluster0")
    };
    for rank in 0..2 {
        let path = format!("{prefix}/node{rank}");
        add(&format!("n{rank}"), "node", rank, rank, &path);
        edges.push(format!(r#"{{"source":"{above}","target":"n{rank}"}}"#));
        for (kind, number) in [("core", 0), ("core", 1), ("gpu", 0)] {
            let id = format!("{kind}{rank}.{number}");
            add(&id, kind, number, rank, &format!("{path}/{kind}{number}"));
            edges.push(format!(r#"{{"source":"n{rank}","target":"{id}"}}"#));
        }
    }
    format!(r#"{{"graph":{{"nodes":[{nodes}],"edges":[{}]}}}}"#, edges.join(","))
}

fn engine(has_rack: bool, policy: &str) -> Engine {
    let options =
        format!(r#"{{"load_format":"jgf","matcher_policy":"{policy}","match_format":"simple"}}"#);
    Engine::new(&document(has_rack), &options).unwrap()
}

const TASKS: &str = r#"[{"command":["a"],"slot":"s","count":{"per_slot":1}}]"#;

fn spec(resources: &str, tasks: &str, attributes: &str) -> String {
    format!(
        r#"{{"version":1,"resources":[{resources}],"tasks":{tasks},"attributes":{attributes}}}"#
    )
}

fn slot(count: u32, with: &str) -> String {
    format!(r#"{{"type":"slot","count":{count},"label":"s","with":[{with}]}}"#)
}

const CORE: &str = r#"{"type":"core","count":1}"#;
const GPU: &str = r#"{"type":"gpu","count":1}"#;

/// Q18.
#[test]
fn what_is_shared_within_a_slot_fits_nowhere_and_is_no_malformed_request() {
    let mut engine = engine(false, "low");
    let text = spec(&slot(1, r#"{"type":"core","count":1,"exclusive":false}"#), TASKS, "null");
    for (op, reason) in [
        (MatchOp::Allocate, Reason::Busy),
        (MatchOp::WithoutAllocating, Reason::Busy),
        (MatchOp::AllocateWithSatisfiability, Reason::Unsatisfiable),
        (MatchOp::AllocateOrElseReserve, Reason::Unsatisfiable),
        (MatchOp::Satisfiability, Reason::Unsatisfiable),
    ] {
        let error = engine.match_next(op, &text).unwrap_err();
        assert_eq!(
            (error.reason, error.text.contains("exclusive")),
            (reason, true),
            "{op:?}: {error}"
        );
    }
}

/// Q18.
#[test]
fn slots_side_by_side_are_refused_on_top_and_the_last_is_formed_in_a_node() {
    let mut engine = engine(false, "low");
    let both = format!("{},{}", slot(1, CORE), slot(1, GPU));
    for siblings in
        [both.clone(), format!("{},{CORE}", slot(1, GPU)), format!("{CORE},{}", slot(1, GPU))]
    {
        let answer = engine.match_next(MatchOp::WithoutAllocating, &spec(&siblings, TASKS, "null"));
        let error = answer.map(|grant| grant.r).unwrap_err();
        assert_eq!(error.reason, Reason::Busy, "{siblings}: {error}");
    }
    let in_node = spec(&format!(r#"{{"type":"node","count":1,"with":[{both}]}}"#), TASKS, "null");
    let grant = engine.match_next(MatchOp::Allocate, &in_node).unwrap();
    assert!(grant.r.contains("gpu0[1:x]") && !grant.r.contains("core"), "{}", grant.r);
}

/// Q20.
#[test]
fn nobody_reads_more_of_tasks_and_attributes_than_their_form() {
    let mut engine = engine(false, "low");
    let mut fits = |tasks: &str, attributes: &str| {
        let text = spec(&slot(1, CORE), tasks, attributes);
        engine.match_next(MatchOp::WithoutAllocating, &text).is_ok()
    };
    let task =
        |more: &str| format!(r#"[{{"command":["a"],"slot":"s","count":{{"per_slot":1}}{more}}}]"#);
    assert!(fits(&task(r#","colour":{},"with":[]"#), "null"));
    assert!(!fits(&task(r#","a":1,"b":1,"c":1"#), "null"));
    assert!(!fits(&task(r#","distribution":[]"#), "null"));
    assert!(!fits(&task(r#","attributes":{"a":{}}"#), "null"));
    for (system, is_read) in [("1.5", true), ("null", true), ("[]", true), ("[1]", false)] {
        assert_eq!(fits(TASKS, &format!(r#"{{"system":{system}}}"#)), is_read, "{system}");
    }
    let range = |ranks: &str| format!(r#"{{"system":{{"constraints":{{"ranks":["{ranks}"]}}}}}}"#);
    assert!(fits(TASKS, &range("0-1")) && fits(TASKS, &range("0")) && !fits(TASKS, &range("0-0")));
}

#[test]
fn an_empty_list_of_names_is_one() {
    let mut engine = engine(false, "low");
    assert_eq!(engine.find("names=", MatchFormat::Jgf, true).unwrap(), None);
    assert!(engine.find("names= or status=up", MatchFormat::Jgf, true).unwrap().is_some());
}

#[test]
fn find_reads_ids_in_the_forms_of_flux() {
    let mut engine = engine(false, "low");
    engine.match_next(MatchOp::Allocate, &spec(&slot(1, CORE), TASKS, "null")).unwrap();
    let held = engine.find("jobid-alloc=1", MatchFormat::Jgf, false).unwrap();
    assert!(held.is_some());
    for id in ["ƒ2", "f2", "0x1", "0.0.0.1", "job.0000.0000.0000.0001"] {
        let found = engine.find(&format!("jobid-alloc={id}"), MatchFormat::Jgf, false);
        assert_eq!(found.unwrap(), held, "{id}");
    }
    assert_eq!(engine.find("jobid-alloc=ƒ3", MatchFormat::Jgf, false).unwrap(), None);
    assert!(engine.find("jobid-alloc=ƒ0", MatchFormat::Jgf, false).is_err());
}

#[test]
fn counts_have_32_bits() {
    let mut engine = engine(false, "low");
    for count in ["4294967296", r#"{"min":1,"max":4294967296,"operator":"+","operand":1}"#] {
        let wide = slot(1, &format!(r#"{{"type":"core","count":{count}}}"#));
        for op in [MatchOp::Allocate, MatchOp::Satisfiability] {
            let error = engine.match_next(op, &spec(&wide, TASKS, "null")).unwrap_err();
            assert_eq!(error.reason, Reason::Invalid, "{count}");
            assert!(error.text.contains("resources[0].with[0]: count"), "{error}");
        }
    }
    let most = slot(1, r#"{"type":"core","count":4294967295}"#);
    let error = engine.match_next(MatchOp::Allocate, &spec(&most, TASKS, "null")).unwrap_err();
    assert!(error.is_answer(), "{error}");
    // A jobspec that cannot be read uses no id; a request that does not fit uses one.
    let grant = engine.match_next(MatchOp::Allocate, &spec(&slot(1, CORE), TASKS, "null"));
    assert_eq!(grant.unwrap().job, Some(2));
}

const R: &str = r#"{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0"}}],"nodelist":["node0"],"starttime":0,"expiration":0}}"#;

#[test]
fn r_names_nodes_directly_below_the_root() {
    let update =
        |engine: &mut Engine| engine.update(7, R, UpdateReader::Rv1exec, 0, 60, JobMode::Allocated);
    assert!(update(&mut engine(false, "low")).is_ok());
    assert_eq!(update(&mut engine(true, "low")).unwrap_err().reason, Reason::NotFound);
}

/// Q19.
#[test]
fn where_nodes_are_taken_whole_an_update_shows_all_of_one_and_holds_what_it_names() {
    let mut engine = engine(false, "lonodex");
    let grant =
        engine.update(7, R, UpdateReader::Rv1exec, 0, 60, JobMode::Allocated).unwrap().grant;
    assert!(
        grant.r.contains("core1[1:x]")
            && grant.r.contains("gpu0[1:x]")
            && grant.r.contains("node0[1:x]")
    );
    let held = engine.find("sched-now=allocated", MatchFormat::Simple, false).unwrap().unwrap();
    assert!(held.contains("core0") && !held.contains("core1"), "{held}");
    let both = spec(&slot(1, r#"{"type":"node","count":2}"#), TASKS, "null");
    assert_eq!(engine.match_next(MatchOp::Allocate, &both).unwrap_err().reason, Reason::Busy);
    engine.cancel(7).unwrap();
    assert!(engine.match_next(MatchOp::Allocate, &both).is_ok());
}

#[test]
fn r_that_cannot_be_read_is_refused_without_a_word_and_what_it_names_and_is_not_there_with_one() {
    let mut engine = engine(false, "low");
    let mut update = |r: &str| {
        engine.update(7, r, UpdateReader::Rv1exec, 0, 60, JobMode::Allocated).unwrap_err()
    };
    for (from, to) in [
        (r#""version":1"#, r#""version":2"#),
        (r#""rank":"0""#, r#""rank":"x""#),
        (r#""core":"0""#, r#""core":"0-0""#),
        (r#""nodelist""#, r#""nodes""#),
        (r#""node0""#, r#""node[0""#),
        (r#"[{"rank":"0","children":{"core":"0"}}]"#, "[]"),
    ] {
        let error = update(&R.replace(from, to));
        assert_eq!((error.reason, &*error.text), (Reason::Invalid, ""), "{to}");
    }
    for (from, to) in
        [(r#""core":"0""#, r#""core":"9""#), (r#"{"core":"0"}"#, "{}"), ("node0", "other0")]
    {
        assert_ne!(update(&R.replace(from, to)).text, "", "{to}");
    }
}

#[test]
fn what_is_taken_is_refused_as_wrong_and_an_end_is_told_as_it_was_asked_for() {
    let options = r#"{"load_format":"jgf","matcher_policy":"low","match_format":"rv1_nosched"}"#;
    let mut engine = Engine::new(&document(false), options).unwrap();
    let r = R.replace(r#""starttime":0"#, r#""starttime":10"#);
    let grant = engine.update_allocate(7, &r).unwrap();
    assert!(grant.r.contains(r#""starttime": 10, "expiration": 3153600010"#), "{}", grant.r);
    let mut taken = |r: &str| engine.update_allocate(8, r).unwrap_err();
    let whole = document(false)
        .replace(r#""type":"core","id":0"#, r#""type":"core","exclusive":true,"id":0"#);
    assert_eq!(taken(&whole).reason, Reason::Invalid);
    assert_eq!(taken(&r).reason, Reason::Invalid);
}

/// Q22.
#[test]
fn a_match_without_anything_exclusive_says_so_and_uses_up_no_id_where_nothing_cannot_be_written() {
    let mut engine = engine(false, "low");
    let shared = spec(CORE, TASKS, "null");
    assert_ne!(engine.match_next(MatchOp::Allocate, &shared).unwrap_err().text, "");
    let options = r#"{"load_format":"jgf","matcher_policy":"low","match_format":"rlite"}"#;
    let mut lite = Engine::new(&document(false), options).unwrap();
    let large = spec(&slot(9, CORE), TASKS, "null");
    assert_eq!(lite.match_next(MatchOp::Allocate, &large).unwrap_err().reason, Reason::Invalid);
    assert_eq!(lite.next_job(), 1);
}

#[test]
fn of_a_vertex_nothing_is_null() {
    for field in ["name", "basename", "size", "status", "unit", "properties", "exclusive"] {
        let text = document(false).replacen(
            r#""type":"core","#,
            &format!(r#""type":"core","{field}":null,"#),
            1,
        );
        assert!(Engine::new(&text, r#"{"load_format":"jgf"}"#).is_err(), "{field}");
    }
}

#[test]
fn of_several_wishes_for_counts_the_last_one_holds() {
    let mut engine = engine(false, "low");
    let mut find =
        |criteria: &str| engine.find(criteria, MatchFormat::Jgf, true).unwrap().unwrap_or_default();
    assert!(find("agfilter=false or agfilter=true").contains("agfilter"));
    assert!(!find("agfilter=true or agfilter=false").contains("agfilter"));
}

#[test]
fn counts_of_a_job_that_is_not_there_are_nothing() {
    let mut engine = engine(false, "low");
    let mut find = |criteria: &str| engine.find(criteria, MatchFormat::Jgf, true).unwrap();
    assert_eq!(find("agfilter=true or jobid-span=7"), None);
    assert!(find("agfilter=true").is_some());
}

/// Q23.
#[test]
fn a_partial_cancel_fails_where_the_job_has_nothing_of_a_rank_for_itself() {
    let mut engine = engine(false, "low");
    let one = spec(&slot(1, CORE), TASKS, "null");
    let job = engine.match_next(MatchOp::Allocate, &one).unwrap().job.unwrap();
    let r = |ranks: &str| {
        format!(
            r#"{{"version":1,"execution":{{"R_lite":[{{"rank":"{ranks}","children":{{}}}}],
            "nodelist":["node[0-1]"],"starttime":0,"expiration":0}}}}"#
        )
    };
    for ranks in ["0-1", "1", "0,7", "0-4294967295"] {
        let error = engine.partial_cancel(job, &r(ranks)).unwrap_err();
        assert_eq!(error.reason, Reason::Invalid);
        assert!(error.text.contains("R_lite: rank "), "{error}");
        assert_eq!(engine.info(job).unwrap().mode, JobMode::Allocated);
    }
    assert!(engine.partial_cancel(job, &r("0")).unwrap());
}

/// Q8.
#[test]
fn of_what_would_only_fit_when_the_window_ends_that_instant_is_told() {
    let mut engine = engine(false, "low");
    let all = spec(&slot(2, r#"{"type":"node","count":1}"#), TASKS, "null");
    engine.match_next(MatchOp::Allocate, &all).unwrap();
    assert_eq!(
        engine.match_next(MatchOp::AllocateOrElseReserve, &all).unwrap_err().reason,
        Reason::Busy
    );
    assert_eq!(engine.refused_at(), WINDOW_SECONDS);
    assert_eq!(engine.match_next(MatchOp::Allocate, &all).unwrap_err().reason, Reason::Busy);
    assert_eq!(engine.refused_at(), 0);
}

/// Q7.
#[test]
fn a_slot_that_holds_nothing_is_understood_and_fits_nowhere() {
    let mut engine = engine(false, "low");
    let of_nodes =
        |count: u32| format!(r#"{{"type":"node","count":{count},"with":[{}]}}"#, slot(1, ""));
    for (resources, later) in [
        (slot(1, ""), Reason::Unsatisfiable),
        (of_nodes(1), Reason::Unsatisfiable),
        (of_nodes(9), Reason::Busy),
    ] {
        let text = spec(&resources, TASKS, "null");
        for (op, reason) in [
            (MatchOp::Allocate, Reason::Busy),
            (MatchOp::AllocateWithSatisfiability, Reason::Unsatisfiable),
            (MatchOp::AllocateOrElseReserve, later),
            (MatchOp::WithoutAllocatingFuture, later),
            (MatchOp::Satisfiability, Reason::Unsatisfiable),
        ] {
            assert_eq!(
                engine.match_next(op, &text).unwrap_err().reason,
                reason,
                "{resources} {op:?}"
            );
        }
    }
}

/// Q4.
#[test]
fn a_queue_stands_in_what_is_written_only_once_a_request_that_names_it_was_granted() {
    let options = r#"{"load_format":"jgf","matcher_policy":"low","match_format":"rv1"}"#;
    let mut engine = Engine::new(&document(false), options).unwrap();
    let ask = |cores: u32, queue: &str| {
        spec(&slot(cores, CORE), TASKS, &format!(r#"{{"system":{{{queue}}}}}"#))
    };
    let mut names_it = |cores: u32, queue: &str| {
        engine
            .match_next(MatchOp::Allocate, &ask(cores, queue))
            .map(|grant| grant.r.contains("debug"))
    };
    let debug = r#""queue":"debug""#;
    assert!(names_it(9, debug).is_err());
    assert_eq!(names_it(1, ""), Ok(false));
    assert_eq!(names_it(1, debug), Ok(true));
    assert_eq!(names_it(1, ""), Ok(true));
}

/// Q10.
#[test]
fn the_flexible_traverser_takes_parts_of_one_type_one_after_the_other() {
    let options = r#"{"load_format":"jgf","matcher_policy":"low","match_format":"simple","traverser_policy":"flexible"}"#;
    let mut engine = Engine::new(&document(false), options).unwrap();
    let mut cores = |resources: &str| {
        let answer = engine.match_next(MatchOp::WithoutAllocating, &spec(resources, TASKS, "null"));
        answer.map(|grant| grant.r.matches("core").count()).map_err(|error| error.reason)
    };
    let in_node = |slot: &str| format!(r#"{{"type":"node","count":1,"with":[{slot}]}}"#);
    assert_eq!(cores(&in_node(&slot(1, &format!("{CORE},{CORE}")))), Ok(2));
    // Each part alone would do twice.
    assert_eq!(cores(&in_node(&slot(2, &format!("{CORE},{CORE}")))), Err(Reason::Busy));
    let endless = format!(r#"{{"type":"slot","count":{{"min":1}},"label":"s","with":[{CORE}]}}"#);
    assert_eq!(cores(&in_node(&endless)), Err(Reason::Busy));
}

/// Q9.
#[test]
fn a_vertex_that_is_added_may_not_have_the_uniq_id_of_a_sibling_that_no_grant_has_passed() {
    let added = |uniq_id: u32| {
        format!(
            r#"{{"graph":{{"nodes":[
                {{"id":"r","metadata":{{"type":"cluster","id":0,"uniq_id":1,"rank":-1,"paths":{{"containment":"/cluster0"}}}}}},
                {{"id":"n","metadata":{{"type":"node","id":7,"uniq_id":{uniq_id},"rank":7,"paths":{{"containment":"/cluster0/node7"}}}}}}],
                "edges":[{{"source":"r","target":"n"}}]}}}}"#
        )
    };
    // The first node's is 2.
    let mut fresh = engine(false, "first");
    assert_eq!(fresh.add_subgraph(&added(2)).unwrap_err().reason, Reason::Exists);
    assert!(fresh.add_subgraph(&added(99)).is_ok());
    let mut used = engine(false, "first");
    used.match_next(MatchOp::Allocate, &spec(&slot(3, CORE), TASKS, "null")).unwrap();
    assert!(used.add_subgraph(&added(2)).is_ok());
}

/// The largest size that a document can give, beside others of its type: no sum ends a call.
#[test]
fn the_largest_vertices_are_taken_and_given_back() {
    let huge = document(false).replacen(
        r#""type":"core","id":1,"#,
        r#""type":"core","size":9223372036854775807,"id":1,"#,
        1,
    );
    let one = spec(&slot(1, CORE), TASKS, r#"{"system":{"duration":60}}"#);
    for policy in ["first", "firstnodex", "low", "high", "lonodex", "locality", "variation"] {
        let options = format!(
            r#"{{"load_format":"jgf","matcher_policy":"{policy}","match_format":"rv1_nosched"}}"#
        );
        let mut engine = Engine::new(&huge, &options).unwrap();
        for round in 0..3 {
            let mut granted = Vec::new();
            for _ in 0..6 {
                granted.extend(engine.match_next(MatchOp::AllocateOrElseReserve, &one));
            }
            assert!(granted.len() >= 2, "{policy}, round {round}");
            let first = granted[0].clone();
            engine.partial_cancel(first.job.unwrap(), &first.r).unwrap();
            for (job, info) in engine.jobs() {
                if info.mode != JobMode::Canceled {
                    engine.cancel(job).unwrap();
                }
            }
        }
        let left = engine.find("sched-now=allocated", MatchFormat::Jgf, true).unwrap();
        assert_eq!(left, None, "{policy}");
    }
}

#[test]
fn a_graph_does_not_grow_by_what_cannot_be_told_apart() {
    let root = r#"{"id":"r","metadata":{"type":"cluster","id":0,"uniq_id":1,
        "paths":{"containment":"/cluster0"}}}"#;
    let node = |id: &str, uniq: u32| {
        format!(
            r#"{{"id":"{id}","metadata":{{"type":"node","id":7,"uniq_id":{uniq},"rank":7,
            "size":SIZE,"paths":{{"containment":"/cluster0/node7"}}}}}}"#
        )
    };
    let edge = |from: &str, to: &str| format!(r#"{{"source":"{from}","target":"{to}"}}"#);
    let document = |nodes: &[String], edges: &[String], size: u64| {
        format!(
            r#"{{"graph":{{"nodes":[{root},{}],"edges":[{}]}}}}"#,
            nodes.join(","),
            edges.join(",")
        )
        .replace("SIZE", &size.to_string())
    };
    let (one, twin) = (node("a", 70), node("b", 71));
    let (to_one, to_twin) = (edge("r", "a"), edge("r", "b"));
    let mut engine = engine(false, "low");
    let before = engine.graph().len();
    for (text, says) in [
        (
            document(std::slice::from_ref(&one), &[to_one.clone(), edge("a", "a")], 1),
            "leads to itself",
        ),
        (
            document(std::slice::from_ref(&one), &[to_one.clone(), to_one.clone()], 1),
            "is there twice",
        ),
        (document(&[one.clone(), twin], &[to_one.clone(), to_twin], 1), "has its path"),
    ] {
        let error = engine.add_subgraph(&text).unwrap_err();
        assert!(error.text.contains(says), "{error}");
        assert_eq!(engine.graph().len(), before);
    }
    engine.add_subgraph(&document(&[one], &[to_one], 1)).unwrap();
    assert_eq!(engine.graph().len(), before + 1);
}

/// Q5, Q16: not so under the id of a live job, which would be lost with the grant.
#[test]
fn a_grant_that_cannot_be_written_is_held_but_under_the_id_of_a_live_job() {
    let unranked = document(false).replacen(
        r#""rank":1,"paths":{"containment":"/cluster0/node1"}"#,
        r#""rank":-1,"paths":{"containment":"/cluster0/node1"}"#,
        1,
    );
    let options = r#"{"load_format":"jgf","matcher_policy":"lonode","match_format":"rv1_nosched"}"#;
    let cores = |count: u32| spec(&slot(count, CORE), TASKS, r#"{"system":{"duration":60}}"#);
    let held = |engine: &mut Engine| {
        let found = engine.find("sched-now=allocated", MatchFormat::Simple, false).unwrap();
        found.map_or(0, |found| found.matches("core").count())
    };
    for under_a_live_id in [true, false] {
        let mut engine = Engine::new(&unranked, options).unwrap();
        let first = engine.match_job(MatchOp::Allocate, &cores(2), 8).unwrap();
        assert_eq!(first.r.matches(r#""rank": "0""#).count(), 1);
        let before = (held(&mut engine), engine.jobs(), engine.next_job());
        let id = if under_a_live_id { 8 } else { 9 };
        let error = engine.match_job(MatchOp::Allocate, &cores(1), id).unwrap_err();
        assert!(error.text.contains("negative"), "{error}");
        if under_a_live_id {
            assert_eq!((held(&mut engine), engine.jobs(), engine.next_job()), before);
        } else {
            assert_eq!(held(&mut engine), 3);
            assert_eq!(engine.cancel(9).unwrap_err().reason, Reason::NotFound);
        }
        assert_eq!(engine.info(8).unwrap().mode, JobMode::Allocated);
        engine.cancel(8).unwrap();
        assert_eq!(held(&mut engine), usize::from(!under_a_live_id));
    }
}
