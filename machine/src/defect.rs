//! States that must not be: a reference that the code keeps leads nowhere.
//!
//! A build with debug assertions panics where one is found. A release logs it and goes on without
//! that one thing; the audit finds the difference that it leaves, and mends it.

use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering};

use tracing::error;

/// Defects that a process logs at most; the first ones tell the cause.
const LOGGED_MAX: u32 = 64;

static FOUND: AtomicU32 = AtomicU32::new(0);

/// The result of following a reference that must lead to something.
pub trait OrDefect: Sized {
    /// Returns the thing; reports a defect if there is none.
    #[must_use]
    fn or_defect(self, missing: &str) -> Self;
}

impl<T> OrDefect for Option<T> {
    #[track_caller]
    fn or_defect(self, missing: &str) -> Self {
        if self.is_none() {
            report(missing, Location::caller());
        }
        self
    }
}

fn report(missing: &str, at: &Location<'_>) {
    debug_assert!(false, "{at}: {missing}");
    if FOUND.fetch_add(1, Ordering::Relaxed) < LOGGED_MAX {
        error!(%at, "defect: {missing}");
    }
}
