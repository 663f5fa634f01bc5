//! The tables that are looked into many times for each event.

use std::collections::HashMap;

/// A map by another hash than the standard library's, with a new seed in each process: hashing a
/// uid takes a fifth of the instructions.
pub type Table<K, V> = HashMap<K, V, foldhash::fast::RandomState>;
