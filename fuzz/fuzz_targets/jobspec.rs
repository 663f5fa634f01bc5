//! Jobspecs, in JSON and YAML: read, and matched on a small graph in every way.
#![no_main]

use fluxion_engine::MatchOp;
use fluxion_engine::jobspec::Jobspec;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(spec) = Jobspec::parse(text) else { return };
    let mut engine = fluxion_fuzz::engine("rv1");
    for op in [
        MatchOp::WithoutAllocating,
        MatchOp::WithoutAllocatingFuture,
        MatchOp::Satisfiability,
        MatchOp::AllocateWithSatisfiability,
        MatchOp::AllocateOrElseReserve,
        MatchOp::Allocate,
    ] {
        let _ = engine.match_spec_next(op, &spec);
    }
    for (job, _) in engine.jobs() {
        let _ = engine.cancel(job);
    }
    let mut pools = fluxion_fuzz::pools();
    let _ = pools.match_spec_next(MatchOp::AllocateOrElseReserve, &spec);
    let _ = pools.explain(text);
    let _ = pools.eligible(text);
});
