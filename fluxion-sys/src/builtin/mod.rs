//! The library that is linked in: C functions over fluxion-engine.
//!
//! Each function checks its pointers, runs the engine with panics caught, notes the text of a
//! failure in the context and sets errno. Nothing of the engine is decided here.

pub(crate) mod answer;
pub(crate) mod extensions;
mod failure;
pub(crate) mod graph;
mod handle;
pub(crate) mod jobs;
pub(crate) mod lifecycle;
pub(crate) mod match_op;
pub(crate) mod text;

pub(crate) use failure::Failure;
