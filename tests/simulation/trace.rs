//! The last things that happened, for the reader of a failure, and a digest of all of them, to compare runs by.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Lines that are kept.
const LINES_MAX: usize = 400;

/// What is recorded of a run.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    enabled: bool,
    lines: VecDeque<String>,
    digest: DefaultHasher,
}

impl Trace {
    /// A disabled trace costs nothing: its lines are not even made.
    pub(crate) fn new(enabled: bool) -> Self {
        Trace { enabled, ..Trace::default() }
    }

    /// Adds a line.
    pub(crate) fn add(&mut self, line: impl FnOnce() -> String) {
        if self.enabled {
            let line = line();
            line.hash(&mut self.digest);
            if self.lines.len() == LINES_MAX {
                self.lines.pop_front();
            }
            self.lines.push_back(line);
        }
    }

    /// A number that is the same for the same lines.
    pub(crate) fn digest(&self) -> u64 {
        self.digest.finish()
    }

    /// The last lines.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}
