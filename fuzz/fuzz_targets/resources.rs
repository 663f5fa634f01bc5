//! R, in every form: the resources that a job has, and those that it gives back.
#![no_main]

use fluxion_engine::{Engine, JobMode, UpdateReader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let makers: [fn() -> Engine; 3] = [
        || fluxion_fuzz::engine("rv1_nosched"),
        || fluxion_fuzz::busy_pools("rv1_nosched"),
        || fluxion_fuzz::racks_of_pools("first", "rv1", "\"*\""),
    ];
    fluxion_fuzz::on_each(&makers, |engine| take_up(engine, text));
});

fn take_up(engine: &mut Engine, text: &str) -> bool {
    let mut has_changed =
        engine.partial_cancel(1, text).is_ok() | engine.update_allocate(50, text).is_ok();
    for (id, reader) in [(51, UpdateReader::Jgf), (52, UpdateReader::JgfShorthand), (53, UpdateReader::Rv1exec)] {
        has_changed |= engine.update(id, text, reader, 0, 60, JobMode::Allocated).is_ok()
            | engine.partial_cancel_with(2, text, reader).is_ok();
    }
    if has_changed {
        for (job, _) in engine.jobs() {
            let _ = engine.cancel(job);
        }
    }
    has_changed
}
