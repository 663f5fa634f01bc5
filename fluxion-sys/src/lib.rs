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

// Formatted by bindgen's own printer, so that the test can compare bytes.
#[rustfmt::skip]
#[allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals, unreachable_pub, dead_code,
    clippy::pedantic, reason = "made by bindgen from the header, which has the docs")]
mod bindings;
mod builtin;
pub mod errno;
pub mod system;
mod table;

#[cfg(not(panic = "unwind"))]
compile_error!(
    "a panic must not cross into C, and can only be caught where it unwinds: build with panic = \"unwind\""
);

pub use bindings::{match_op_t, reapi_cli_ctx_t, resource_status_t};
pub use table::{Extensions, FunctionTable};

/// Stands for an unknown instant: once everything that has an end has ended.
pub const FLUXION_EXT_EVENTUALLY: i64 = fluxion_engine::EVENTUALLY;

/// Bits of what `fluxion_ext_move` says about why a reservation starts later.
pub mod later {
    use std::ffi::c_int;

    use crate::bindings as c;

    /// Work past its end has its room.
    pub const OVERDUE: c_int = c::FLUXION_EXT_LATER_OVERDUE.cast_signed();
    /// A node was removed, a pool made smaller, or charged with more than was free.
    pub const CAPACITY: c_int = c::FLUXION_EXT_LATER_CAPACITY.cast_signed();
    /// A node is down, the request may use it no more, or it is in another part of a level.
    pub const STATUS: c_int = c::FLUXION_EXT_LATER_STATUS.cast_signed();
}

/// Values of [`match_op_t`].
pub mod match_op {
    use crate::bindings as c;

    /// Now, or EBUSY.
    pub const ALLOCATE: c::match_op_t = c::match_op_t_MATCH_ALLOCATE;
    /// Now, or EBUSY, or ENODEV if it could never be.
    pub const ALLOCATE_W_SATISFIABILITY: c::match_op_t =
        c::match_op_t_MATCH_ALLOCATE_W_SATISFIABILITY;
    /// Now, or reserved at the earliest instant.
    pub const ALLOCATE_ORELSE_RESERVE: c::match_op_t = c::match_op_t_MATCH_ALLOCATE_ORELSE_RESERVE;
    /// Only tell whether it could ever be.
    pub const SATISFIABILITY: c::match_op_t = c::match_op_t_MATCH_SATISFIABILITY;
    /// As [`ALLOCATE`], but take nothing.
    pub const WITHOUT_ALLOCATING: c::match_op_t = c::match_op_t_MATCH_WITHOUT_ALLOCATING;
    /// As [`ALLOCATE_ORELSE_RESERVE`], but take nothing.
    pub const WITHOUT_ALLOCATING_FUTURE: c::match_op_t =
        c::match_op_t_MATCH_WITHOUT_ALLOCATING_FUTURE;
}

/// Values of [`resource_status_t`].
pub mod status {
    use crate::bindings as c;

    /// Up.
    pub const UP: c::resource_status_t = c::resource_status_t_RESOURCE_UP;
    /// Down.
    pub const DOWN: c::resource_status_t = c::resource_status_t_RESOURCE_DOWN;
}
