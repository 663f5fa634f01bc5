//! Jobspecs, in JSON and YAML: read, and matched on a small graph in every way.
#![no_main]

use fluxion_engine::jobspec::Jobspec;
use fluxion_engine::{Engine, MatchOp};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(spec) = Jobspec::parse(text) else { return };
    for mut engine in [fluxion_fuzz::engine("rv1"), fluxion_fuzz::engine_with("jgf", "firstnodex", "flexible")] {
        every_way(&mut engine, &spec);
    }
    every_way(&mut fluxion_fuzz::busy_pools("placement"), &spec);
    let mut pools = fluxion_fuzz::pools();
    pools.set_search_budget(Some(40));
    let _ = pools.match_spec_next(MatchOp::AllocateOrElseReserve, &spec);
    pools.set_search_budget(None);
    let _ = pools.match_spec_next(MatchOp::AllocateOrElseReserve, &spec);
    let _ = pools.explain(text);
    let _ = pools.eligible(text);
});

fn every_way(engine: &mut Engine, spec: &Jobspec) {
    for op in [
        MatchOp::WithoutAllocating,
        MatchOp::WithoutAllocatingFuture,
        MatchOp::Satisfiability,
        MatchOp::AllocateWithSatisfiability,
        MatchOp::AllocateOrElseReserve,
        MatchOp::Allocate,
    ] {
        let _ = engine.match_spec_next(op, spec);
    }
    for (job, _) in engine.jobs() {
        let _ = engine.cancel(job);
    }
}
