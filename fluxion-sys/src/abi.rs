//! The types and values of the header, as bindgen reads them.

// Formatted by bindgen's own printer, so that the test can compare bytes.
#[rustfmt::skip]
#[allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals, unreachable_pub, dead_code,
    clippy::pedantic, reason = "made by bindgen from the header, which has the docs")]
#[path = "bindings.rs"]
mod bindings;

pub use bindings::*;
