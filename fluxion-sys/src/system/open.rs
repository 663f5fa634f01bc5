//! From a path to a function table.

use std::path::Path;

use super::library::{self, OpenError};
use super::{extensions as ext, graph, jobs, lifecycle};
use crate::table::FunctionTable;

impl FunctionTable {
    /// Opens a system library: a path, or a name that the dynamic linker looks up. See
    /// [`crate::system`].
    ///
    /// A path that was opened before gives the same library again.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let (slot, library) = library::open(path)?;
        Ok(behind_barrier(slot, &library.raw))
    }
}

/// The table for callers: the functions of the library, each behind the barrier.
fn behind_barrier(slot: usize, raw: &FunctionTable) -> FunctionTable {
    FunctionTable {
        new: lifecycle::NEW[slot],
        destroy: lifecycle::destroy,
        initialize: lifecycle::initialize,
        match_allocate: jobs::match_allocate,
        update_allocate: jobs::update_allocate,
        cancel: jobs::cancel,
        info: jobs::info,
        stat: graph::stat,
        get_err_msg: lifecycle::get_err_msg,
        clear_err_msg: lifecycle::clear_err_msg,
        match_op: raw.match_op.map(|_| jobs::match_op as _),
        match_satisfy: raw.match_satisfy.map(|_| jobs::match_satisfy as _),
        partial_cancel: raw.partial_cancel.map(|_| jobs::partial_cancel as _),
        clone: raw.clone.map(|_| lifecycle::clone as _),
        match_with_jobid: raw.match_with_jobid.map(|_| jobs::match_with_jobid as _),
        find: raw.find.map(|_| graph::find as _),
        add_subgraph: raw.add_subgraph.map(|_| graph::add_subgraph as _),
        remove_subgraph: raw.remove_subgraph.map(|_| graph::remove_subgraph as _),
        set_status: raw.set_status.map(|_| graph::set_status as _),
        get_status: raw.get_status.map(|_| graph::get_status as _),
        set_rank_status: raw.set_rank_status.map(|_| graph::set_rank_status as _),
        get_rank_status: raw.get_rank_status.map(|_| graph::get_rank_status as _),
        extensions: raw.extensions.map(|_| &ext::TABLE),
    }
}
