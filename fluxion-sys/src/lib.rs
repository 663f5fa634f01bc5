//! The `reapi_cli` C ABI of Fluxion: `include/reapi_cli.h` as Rust sees it, and the libraries
//! behind it.
//!
//! [`FunctionTable`] holds one function pointer per C function. [`FunctionTable::builtin`] is the
//! library that is linked in: fluxion-engine behind the same C functions, which are also exported
//! under their C names. [`FunctionTable::open`] is any other `libreapi_cli.so`, behind a barrier
//! (see [`system`]). The safe wrapper is not here but in the scheduler.
//!
//! ```
//! use fluxion_sys::FunctionTable;
//!
//! let table = FunctionTable::builtin();
//! // SAFETY: a context may be made at any time, and is destroyed once.
//! unsafe { (table.destroy)((table.new)()) };
//! ```
#![allow(unsafe_code, reason = "this crate is the C boundary")]

mod abi;
mod builtin;
pub mod errno;
mod messages;
pub mod system;
mod table;
mod values;

#[cfg(not(panic = "unwind"))]
compile_error!(
    "a panic must not cross into C, and can only be caught where it unwinds: build with panic = \"unwind\""
);

pub use abi::{match_op_t, reapi_cli_ctx_t, resource_status_t};
pub use table::{Extensions, FunctionTable};
pub use values::{later, match_op, status};

/// An unknown instant: once all jobs that have an end have ended.
pub const FLUXION_EXT_EVENTUALLY: i64 = fluxion_engine::EVENTUALLY;
