//! The progress of a long simulation: a bar on stderr, if that is a terminal.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers for people, far below 2^53"
)]

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The time before the first bar: shorter simulations show none.
const FIRST_AFTER: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(200);
const BAR_CELLS: usize = 30;
/// The number of calls for each look at the clock.
const CALLS: u32 = 64;

/// The bar.
#[derive(Debug)]
pub struct Progress {
    begun: Instant,
    next: Option<Duration>,
    shown: bool,
    calls: u32,
}

impl Progress {
    /// Creates a bar on stderr, if that is a terminal.
    pub fn on_stderr() -> Self {
        let next = std::io::stderr().is_terminal().then_some(FIRST_AFTER);
        Progress { begun: Instant::now(), next, shown: false, calls: 0 }
    }

    /// Creates a bar that is never shown.
    pub fn none() -> Self {
        Progress { begun: Instant::now(), next: None, shown: false, calls: 0 }
    }

    /// Shows that `done` of `all` jobs have started.
    pub fn show(&mut self, done: usize, all: usize) {
        // Without a terminal nothing is shown.
        let Some(next) = self.next else { return };
        self.calls += 1;
        if !self.calls.is_multiple_of(CALLS) && done < all {
            return;
        }
        let passed = self.begun.elapsed();
        if passed < next {
            return;
        }
        self.next = Some(passed + PAUSE);
        self.shown = true;
        let _ = write!(std::io::stderr(), "\r{}\x1b[K", line(done, all, passed));
    }

    /// Takes the bar off the screen.
    pub fn clear(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(done: usize, all: usize, passed: Duration) -> String {
    let cells = BAR_CELLS * done / all.max(1);
    let bar = format!("{}{}", "#".repeat(cells), ".".repeat(BAR_CELLS - cells));
    let left = match done {
        0 => String::new(),
        done => {
            let left = passed.as_secs_f64() * (all - done) as f64 / done as f64;
            format!(", {left:.0} s left")
        }
    };
    format!("[{bar}] {done} of {all} jobs have started{left}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is() {
        let line = line(25, 100, Duration::from_secs(10));
        assert_eq!(line, "[#######.......................] 25 of 100 jobs have started, 30 s left");
        assert!(super::line(0, 0, Duration::ZERO).starts_with("[...."));
    }
}
