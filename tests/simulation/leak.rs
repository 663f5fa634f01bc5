//! A resource graph that forgets to give slots back.
#![allow(unsafe_code, reason = "a function as a library has it")]

use std::ffi::{c_char, c_int};

use fluxion_sys::{Extensions, FunctionTable, reapi_cli_ctx_t};

/// Returns the built-in library with this fault.
pub(crate) fn library() -> FunctionTable {
    let real = FunctionTable::builtin();
    // One is leaked for each start of a core; they are few and small.
    let leaky = |extensions: &Extensions| -> &'static Extensions {
        Box::leak(Box::new(Extensions { release, ..*extensions }))
    };
    FunctionTable { extensions: real.extensions.map(leaky), ..real }
}

unsafe extern "C" fn release(
    _: *mut reapi_cli_ctx_t,
    _: u64,
    _: u32,
    _: *const c_char,
    _: u64,
) -> c_int {
    0
}
