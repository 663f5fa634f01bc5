//! Ends of jobs and the instants a request is tried at.

/// Stands for "once everything that has an end has ended" where an instant is answered. Far beyond
/// any real instant.
pub const EVENTUALLY: i64 = i64::MAX / 2;

/// The last instant that the present can be: half of [`EVENTUALLY`]. Beyond it ends, windows and
/// the next second would meet the end of all numbers, where a window is empty and what is held
/// seems free; and the present never goes back.
pub const NOW_MAX: i64 = EVENTUALLY / 2;

/// The end of Fluxion's graph window, 100 years: the end of what has none.
pub const WINDOW_SECONDS: i64 = 3_153_600_000;

/// The end of all time, where nothing is planned.
pub(crate) const FAR: i64 = i64::MAX;

/// When something gives back what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// At this second at the latest.
    At(i64),
    /// Some day, nobody knows when.
    Eventually,
    /// Never by itself.
    Never,
}

/// For which moment free resources are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// A window of seconds `[from, to)`; `from == now` is the present.
    Window { from: i64, to: i64 },
    /// When everything that has an end has ended.
    Eventually,
    /// On the idle machine.
    Idle,
}

impl End {
    /// The instant, or the end of all time.
    pub(crate) fn instant(self) -> i64 {
        if let End::At(end) = self { end } else { FAR }
    }

    /// The end of what begins so much later.
    pub(crate) fn later(self, seconds: i64) -> Self {
        if let End::At(end) = self { End::At(end.saturating_add(seconds)) } else { self }
    }

    /// Whether what ends so is over at instant `at`. What is past its end still holds its resources
    /// now, and is taken to end in the next second.
    pub(crate) fn over_at(self, at: i64, now: i64) -> bool {
        match self {
            End::At(end) => end.max(now + 1) <= at,
            End::Eventually | End::Never => false,
        }
    }
}
