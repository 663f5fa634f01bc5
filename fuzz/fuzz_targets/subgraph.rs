//! Subgraphs attached to a graph, and removed from it.
#![no_main]

use fluxion_engine::{Engine, MatchOp};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let makers: [fn() -> Engine; 2] =
        [|| fluxion_fuzz::engine("jgf"), || fluxion_fuzz::busy_pools("jgf")];
    fluxion_fuzz::on_each(&makers, |engine| change(engine, text));
});

fn change(engine: &mut Engine, text: &str) -> bool {
    let is_attached = engine.add_subgraph(text).is_ok();
    if is_attached {
        let more = fluxion_fuzz::spec("core", 9, 60);
        let _ = engine.match_next(MatchOp::AllocateOrElseReserve, &more);
    }
    let is_removed =
        engine.remove_subgraph(text).is_ok() | engine.remove_ranks(text).is_ok();
    if !is_attached && !is_removed {
        return false;
    }
    let _ = engine.remove_subgraph("/c0/r0/n1");
    let _ = engine.set_time(engine.now() + 7);
    let _ = engine.remove_ranks("0,3");
    for (job, _) in engine.jobs() {
        let _ = engine.cancel(job);
    }
    true
}
