//! Sequences of calls through the C ABI. See `calls/mod.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| fluxion_fuzz::calls::play(data));
