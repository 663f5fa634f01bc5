//! A resource graph that forgets to give slots back.
#![allow(unsafe_code, reason = "a function as a library has it")]

use std::ffi::{c_char, c_int};

use fluxion_sys::{Extensions, FunctionTable, reapi_cli_ctx_t};

/// The built-in library, but for that.
pub(crate) fn library() -> FunctionTable {
    let real = FunctionTable::builtin();
    FunctionTable { extensions: real.extensions.map(|extensions| Extensions { release, ..extensions }), ..real }
}

unsafe extern "C" fn release(_: *mut reapi_cli_ctx_t, _: u64, _: u32, _: *const c_char, _: u64) -> c_int {
    0
}
