//! A resource graph with the semantics of Fluxion: its vertices, the jobs that hold them and until
//! when, and where a request fits.
//!
//! Pure computation: no I/O, no clock (the caller passes time with [`Engine::set_time`]), no
//! knowledge of Kubernetes. The C ABI over it is the crate fluxion-sys; no other crate should call
//! it.
//!
//! Two kinds of vertices hold resources. A *whole* vertex (a core, a GPU, a node) is handed out
//! entirely or not at all, as upstream does it. A *pool* (`pool_types` in the options) hands out
//! any number of its units; pools live in columns, one per type, ordered by rank, so that a request
//! is matched by walking a few dense arrays ([`pools`]).
//!
//! Each place uses those above it only:
//!
//! | place | purpose |
//! |---|---|
//! | `vertex`, `amounts`, `tree`, `constraint`, `lists` | the parts that others share:
//! numbers of vertices, short lists of amounts, JSON or YAML, RFC 31, 29, 22 |
//! | `policy`, [`jobspec`] | in which order vertices are taken, and the request |
//! | [`pools`] | the claims of jobs by node, as an index, and indexes over that |
//! | [`graph`] | the machine: vertices in an arena, found by path and by rank |
//! | [`readers`] | documents to graphs, one module per format |
//! | `schedule` | which job holds which vertex and when, as an index over the claims: holds,
//! planners, pruning filters |
//! | `slot_search` | where slots of pool units fit, without a walk |
//! | `vertex_search` | where whole vertices fit: the walk, match policies, the flexible traverser,
//! and an index that spares walks |
//! | `writer` | grants as text |
//! | `book` | jobs with their claims, which are the one account of vertices and units; time, and
//! the ways to take changes back |
//! | `engine` | the operations that the C ABI offers, over the book |

mod admitted;
mod amounts;
mod bits;
mod book;
mod constraint;
mod effort;
mod engine;
mod error;
pub mod graph;
pub mod jobspec;
mod limits;
mod lists;
mod maxima;
mod policy;
pub mod pools;
pub mod readers;
mod schedule;
mod slot_search;
mod sound;
mod time;
mod tree;
mod vertex;
mod vertex_search;
mod writer;

pub use book::job::{JobInfo, JobMode};
pub use engine::Engine;
#[cfg(test)]
pub(crate) use engine::kept_and_made;
pub use engine::moving::{Delay, Moved};
pub use engine::op::{Grant, MatchOp};
pub use engine::options::Options;
pub use engine::report::{
    EvenSupply, Explanation, LevelReport, LevelSupply, NodeUsage, PartReport, PoolSupply,
    PoolUsage, ShapeReport, Supply, TogetherSupply,
};
pub use engine::update::{UpdateReader, Updated};
pub use error::{Error, Reason};
pub use policy::Policy;
pub use time::{EVENTUALLY, End, NOW_MAX, WINDOW_SECONDS};
pub use vertex_search::Traverser;
pub use writer::MatchFormat;
