//! The resource graph.
