//! Subgraphs attached to a graph, and removed from it.
#![no_main]

use fluxion_engine::{Engine, MatchOp};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for mut engine in [fluxion_fuzz::engine("jgf"), fluxion_fuzz::busy_pools("jgf")] {
        change(&mut engine, text);
    }
});

fn change(engine: &mut Engine, text: &str) {
    let _ = engine.add_subgraph(text);
    let _ = engine.match_next(MatchOp::AllocateOrElseReserve, &fluxion_fuzz::spec("core", 9, 60));
    let _ = engine.remove_subgraph(text);
    let _ = engine.remove_ranks(text);
    let _ = engine.remove_subgraph("/c0/r0/n1");
    let _ = engine.set_time(engine.now() + 7);
    let _ = engine.remove_ranks("0,3");
    for (job, _) in engine.jobs() {
        let _ = engine.cancel(job);
    }
}
