//! Ends of jobs and the instants a request is tried at.

/// Stands for "once everything that has an end has ended" where an instant is answered. Far beyond
/// any real instant.
pub const EVENTUALLY: i64 = i64::MAX / 2;

/// The last instant that the present can be: half of [`EVENTUALLY`]. Beyond it ends, windows and
/// the next second would meet the end of all numbers, where a window is empty and a held vertex
/// seems free; and the present never goes back.
pub const NOW_MAX: i64 = EVENTUALLY / 2;

/// The end of Fluxion's graph window, 100 years: it ends all that has no end of its own.
pub const WINDOW_SECONDS: i64 = 3_153_600_000;

/// The end of all time, where nothing is planned.
pub(crate) const FAR: i64 = i64::MAX;

/// When a claim gives its units back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// At this second at the latest.
    At(i64),
    /// Some day, at an unknown time.
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
    /// The most that is free at any instant, by the ends that are known: only claims count that
    /// have begun and have no known end.
    Best,
    /// On the idle machine.
    Idle,
}

impl End {
    /// The instant, or the end of all time.
    pub(crate) fn instant(self) -> i64 {
        if let End::At(end) = self { end } else { FAR }
    }

    /// The end of a claim that begins later by `seconds`.
    pub(crate) fn later(self, seconds: i64) -> Self {
        if let End::At(end) = self { End::At(end.saturating_add(seconds)) } else { self }
    }

    /// True if a claim with this end is over at instant `at`. One past its end still holds its
    /// resources now, and is taken to end in the next second.
    pub(crate) fn over_at(self, at: i64, now: i64) -> bool {
        match self {
            End::At(end) => end.max(now + 1) <= at,
            End::Eventually | End::Never => false,
        }
    }
}
