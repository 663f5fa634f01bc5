//! A job: its times, and the vertices and units that it holds or will hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::claims::Claims;
use crate::Error;
use crate::jobspec::Jobspec;
use crate::schedule::Term;

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobMode {
    /// It holds resources.
    Allocated,
    /// It will hold resources.
    Reserved,
    /// It has ended.
    Canceled,
}

impl JobMode {
    /// As upstream writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            JobMode::Allocated => "ALLOCATED",
            JobMode::Reserved => "RESERVED",
            JobMode::Canceled => "CANCELED",
        }
    }
}

/// The record of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobInfo {
    /// How it stands.
    pub mode: JobMode,
    /// When it starts, or started.
    pub at: i64,
    /// How long the match took, in seconds.
    pub overhead: f64,
}

/// A job that holds resources, or will.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) info: JobInfo,
    /// The times of its vertices.
    pub(crate) term: Term,
    /// All that it has, or is to have.
    pub(crate) claims: Claims,
    /// A vertex was given back, and something below it was not.
    pub(crate) has_gaps: bool,
    /// Its start has come once, and there was no room.
    pub(crate) put_off: bool,
    /// The request of a reservation, on a graph with pools.
    pub(crate) spec: Option<Arc<Jobspec>>,
    /// How many slots it was granted.
    pub(crate) slots: u64,
    /// How many gains of room there had been when its place was looked for last; `None`: it was not
    /// to be as early as possible.
    pub(crate) gains: Option<u64>,
    /// True if it was cancelled here or in a fork.
    pub(crate) canceled: Arc<AtomicBool>,
}

impl Job {
    pub(crate) fn new(info: JobInfo, term: Term) -> Self {
        Job {
            info,
            term,
            claims: Claims::default(),
            has_gaps: false,
            put_off: false,
            spec: None,
            slots: 0,
            gains: None,
            canceled: Arc::default(),
        }
    }

    /// As it stands, also by what happened to it in forks.
    pub(crate) fn info(&self) -> JobInfo {
        let canceled = self.canceled.load(Ordering::Relaxed);
        JobInfo { mode: if canceled { JobMode::Canceled } else { self.info.mode }, ..self.info }
    }
}

/// There is no such job.
pub(crate) fn no_job(id: u64) -> Error {
    Error::not_found(format!("nonexistent job {id}"))
}
