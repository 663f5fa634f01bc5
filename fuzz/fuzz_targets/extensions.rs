//! Charges and labels of the extensions.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut engine = fluxion_fuzz::pools();
    if text.len() % 2 == 1 {
        let _ = engine.set_time(fluxion_engine::NOW_MAX);
    }
    let _ = engine.charge(7, text);
    let _ = engine.charge(7, text);
    let _ = engine.usage(0);
    let _ = engine.resize(1, text, 3000);
    let _ = engine.release(7, 0, text, 1);
    let _ = engine.release(7, 1, "a", 2);
    let _ = engine.remove_rank(1);
    let _ = engine.cancel(7);
});
