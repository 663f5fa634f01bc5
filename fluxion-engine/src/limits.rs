//! What texts and documents may ask for: each limit with its unit, its reason, and what happens
//! beyond it.
//!
//! All of them are checked before anything is made of the text, since what runs out of memory or
//! stack ends the process and cannot be caught at the C ABI. An error that is due to one of them
//! tells its value.

/// A list of hosts names at most this many: more than any machine has.
pub(crate) const HOSTS_MAX: usize = 1 << 20;

/// The names of all lists of hosts of one document together, in bytes: a few bytes of brackets can
/// stand for gigabytes.
pub(crate) const HOSTS_BYTES_MAX: usize = 64 << 20;

/// A number in a list of hosts has at most this many digits, zeros in front included: as many as a
/// `u64` can have.
pub(crate) const HOST_DIGITS_MAX: usize = 20;

/// Values of a document, those behind aliases counted each time: aliases of aliases can name
/// billions in a few lines.
pub(crate) const TREE_VALUES_MAX: usize = 1 << 20;

/// Lists and mappings of a document lie at most this deep in each other, also through aliases:
/// reading and dropping them takes stack, of which a thread may have 2 MiB. As serde_json has it
/// for JSON.
pub(crate) const TREE_DEPTH_MAX: usize = 128;

/// Operators of a constraint may be nested this deep: a constraint is read and asked by recursion.
pub(crate) const CONSTRAINT_DEPTH_MAX: usize = 32;

/// A jobspec has at most this many bytes: a value of one byte takes some 60 bytes of memory.
pub(crate) const JOBSPEC_BYTES_MAX: usize = 16 << 20;

/// A recipe in GraphML has at most this many bytes: all of it is in memory as a tree, some 100
/// bytes for an element of four.
pub(crate) const RECIPE_BYTES_MAX: usize = 16 << 20;

/// Alternatives that `xor_slot` may multiply to.
pub(crate) const ALTERNATIVES_MAX: usize = 1_000;

/// Resources of all alternatives of a jobspec together: each alternative is a copy of all that it
/// asks for.
pub(crate) const ALTERNATIVE_RESOURCES_MAX: usize = 1 << 20;

/// What the vertices of a document may take, in bytes of memory, before it is refused.
const VERTICES_BYTES_MAX: usize = 4 << 30;

/// What a vertex takes, in bytes, rounded up: its two records, its edge, its name, and its entries
/// in the schedule.
const VERTEX_BYTES: usize = 256;

/// A document that would make more vertices than this is refused before it does.
pub(crate) const VERTICES_MAX: usize = VERTICES_BYTES_MAX / VERTEX_BYTES;
