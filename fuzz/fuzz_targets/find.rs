//! Criteria of find, paths, and sets of ranks.
#![no_main]

use fluxion_engine::{Engine, MatchFormat};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let makers: [fn() -> Engine; 2] =
        [|| fluxion_fuzz::engine("jgf"), || fluxion_fuzz::busy_pools("jgf")];
    fluxion_fuzz::on_each(&makers, |engine| ask(engine, text));
});

fn ask(engine: &mut Engine, text: &str) -> bool {
    for format in [MatchFormat::Jgf, MatchFormat::Simple, MatchFormat::Rv1, MatchFormat::JgfShorthand] {
        let _ = engine.find(text, format, true);
    }
    let _ = engine.status(text);
    let _ = engine.rank_status(text);
    let has_changed = engine.set_property(text, text, text).is_ok()
        | engine.set_status(text, false).is_ok()
        | engine.set_rank_status(text, false).is_ok();
    let _ = engine.find("status=down", MatchFormat::Rlite, false);
    has_changed
}
