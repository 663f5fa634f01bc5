//! Options of a graph, and names of policies.
#![no_main]

use fluxion_engine::{MatchFormat, MatchOp, Options, Policy};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = (Options::read(text), MatchFormat::parse(text));
    let _ = fluxion_engine::Engine::new(fluxion_fuzz::POOLS, text);
    if let Some(policy) = Policy::parse(text) {
        let engine = fluxion_fuzz::engine("simple");
        let options = Options { policy, ..Options::default() };
        if let Ok(mut engine) = fluxion_engine::Engine::with_graph(engine.graph().clone(), options) {
            let _ = engine.match_next(MatchOp::Allocate, &fluxion_fuzz::spec("core", 3, 60));
        }
    }
});
