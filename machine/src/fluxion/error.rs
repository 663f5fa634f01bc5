//! Calls of the graph that fail.

use std::ffi::c_int;

use fluxion_sys::errno;

/// A call of the graph failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: errno {errno}: {text}")]
pub struct GraphError {
    /// The failed operation.
    pub operation: &'static str,
    /// The errno that was left.
    pub errno: c_int,
    /// The text of the library.
    pub text: String,
}

impl GraphError {
    /// True if there is no such rank, job or slot.
    pub fn is_not_found(&self) -> bool {
        self.errno == errno::ENOENT
    }

    /// True if the library caught a defect, or an exception, and answers no more: another graph is
    /// needed.
    pub fn is_lost(&self) -> bool {
        self.errno == errno::EFAULT
    }

    /// True if a search needed more steps than it may take, or gave up otherwise: nothing is known.
    pub fn has_given_up(&self) -> bool {
        self.errno == errno::EAGAIN
    }

    /// True if there already is a job of this id, or a node of this rank.
    pub fn is_duplicate(&self) -> bool {
        self.errno == errno::EEXIST
    }
}
