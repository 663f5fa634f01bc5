//! Times as late as the clock goes: an R says them to the second.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use fluxion_engine::{Engine, JobMode, MatchOp, NOW_MAX};

const GRAPH: &str = r#"{"graph":{"nodes":[
    {"id":"0","metadata":{"type":"cluster","id":0,"paths":{"containment":"/c0"}}},
    {"id":"1","metadata":{"type":"node","id":0,"rank":0,"paths":{"containment":"/c0/node0"}}},
    {"id":"2","metadata":{"type":"cpu","id":0,"rank":0,"size":8,
        "paths":{"containment":"/c0/node0/cpu0"}}}],
    "edges":[{"source":"0","target":"1"},{"source":"1","target":"2"}]}}"#;
const SPEC: &str = r#"{"version":1,"resources":[{"type":"slot","count":1,"label":"s",
    "with":[{"type":"cpu","count":1}]}],
    "tasks":[{"command":["a"],"slot":"s","count":{"per_slot":1}}],
    "attributes":{"system":{"duration":60}}}"#;

#[test]
fn an_allocation_comes_back_as_one_at_its_second() {
    for format in ["rv1", "rv1_nosched", "rv1_shorthand"] {
        let options =
            format!(r#"{{"load_format":"jgf","match_format":"{format}","pool_types":["cpu"]}}"#);
        let mut engine = Engine::new(GRAPH, &options).unwrap();
        let mut other = engine.fork();
        // Floats know every 256th second there.
        let now = NOW_MAX - 129;
        engine.set_time(now).unwrap();
        other.set_time(now).unwrap();
        let granted = engine.match_job(MatchOp::Allocate, SPEC, 7).unwrap();
        let taken = other.update_allocate(7, &granted.r).unwrap();
        assert_eq!((granted.at, taken.at, taken.reserved), (now, now, false), "{format}");
        assert_eq!(other.info(7).unwrap().mode, JobMode::Allocated);
        assert_eq!(taken.r, granted.r);
    }
}
