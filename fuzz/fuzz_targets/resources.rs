//! R, in every form: the resources that a job has, and those that it gives back.
#![no_main]

use fluxion_engine::{Engine, JobMode, UpdateReader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for mut engine in [
        fluxion_fuzz::engine("rv1_nosched"),
        fluxion_fuzz::busy_pools("rv1_nosched"),
        fluxion_fuzz::racks_of_pools("first", "rv1", "\"*\""),
    ] {
        take_up(&mut engine, text);
    }
});

fn take_up(engine: &mut Engine, text: &str) {
    let _ = engine.partial_cancel(1, text);
    let _ = engine.update_allocate(50, text);
    for (id, reader) in [(51, UpdateReader::Jgf), (52, UpdateReader::JgfShorthand), (53, UpdateReader::Rv1exec)] {
        let _ = engine.update(id, text, reader, 0, 60, JobMode::Allocated);
        let _ = engine.partial_cancel_with(2, text, reader);
    }
    for (job, _) in engine.jobs() {
        let _ = engine.cancel(job);
    }
}
