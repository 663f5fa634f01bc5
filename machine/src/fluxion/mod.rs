//! The resource graph, safely: the questions of the core to Fluxion, through the C functions of
//! fluxion-sys.
//!
//! [`Graph`] owns a context of whatever library the table leads to; every call crosses the C
//! boundary. The caller decides which pods belong together, and which nodes suit them: here there
//! are only ranks, shapes and amounts.
//!
//! ```
//! use fluxion_sys::FunctionTable;
//! use fluxqueue_workload::Resources;
//! use fluxqueue_machine::fluxion::{Fit, Graph, Policy, Request, SlotShape};
//!
//! let mut graph = Graph::new(FunctionTable::builtin(), Policy::Lonode)?;
//! graph.add_node(0, "node-a", &Resources::from_iter([("cpu", 4000), ("pods", 110)]))?;
//!
//! let pod = Resources::from_iter([("cpu", 1500), ("pods", 1)]);
//! let shapes = [SlotShape::of("worker", 2, &pod)];
//! let placement = graph.allocate(7, &Request::of(&shapes))?.placed().expect("two of them fit");
//! assert_eq!((placement.slots[0].rank, placement.slots[0].count), (0, 2));
//! assert_eq!(graph.allocate(8, &Request::of(&shapes))?, Fit::NotNow);
//! graph.cancel(7)?;
//! # Ok::<(), fluxqueue_machine::fluxion::GraphError>(())
//! ```

mod answer;
mod context;
mod error;
mod graph;
#[cfg(test)]
mod graph_tests;
mod json;
mod placement;
mod pools;
mod rankset;
mod request;
mod vertices;

pub use answer::{
    EvenSupply, Explanation, LevelSupply, NodeUsage, PoolSupply, PoolUsage, ShapeReport, Supply,
    TogetherSupply,
};
pub use error::GraphError;
pub use graph::Graph;
pub use placement::{
    Booking, Fit, Forecast, Later, Moved, Placement, Reserved, SEARCH_STEPS_MAX, SlotsAt, Steps,
};
pub use rankset::{ParseRankSetError, Rank, RankSet};
pub use request::{End, LevelRule, Policy, Request, SlotShape, Tenancy, Within};
pub use vertices::NOT_A_VERTEX;
