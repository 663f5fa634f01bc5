//! The core's time, and how far the API server's clock is from it.
//!
//! The core's time is the wall clock as read once at the start, plus the monotonic time since then:
//! durations in it are right even if a clock is set. Timestamps of objects are by the API server's
//! clock. That is compared with the core's time every minute, by the Date header of a cheap
//! request, and the core gets the difference.

use std::time::{Duration, Instant};

use http::{Request, header};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use kube::Client;
use kube::client::Body;
use tokio::sync::mpsc;

use fluxqueue_core::Event;
use fluxqueue_workload::Time;

/// The time between two comparisons of the clocks.
const COMPARE_EVERY: Duration = Duration::from_mins(1);

/// The time that one comparison may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The uncertainty of a Date header, in microseconds: it has whole seconds, rounded down.
const DATE_MICROS: i64 = 1_000_000;

/// The distance, in microseconds, by which the known difference may lie outside of a comparison's
/// range and still stay as it is.
const TOLERANCE_MICROS: i64 = 500_000;

/// The change of the difference, in microseconds, above which it is no drift: a clock has been set.
const JUMP_MICROS: i64 = 5_000_000;

/// The core's time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    wall: Time,
    origin: Instant,
}

/// Compares the API server's clock with the core's time.
pub struct ServerClock {
    client: Client,
    clock: Clock,
    /// The difference that the core knows, in microseconds that are to be added to its time.
    known: Option<i64>,
    /// True if the difference comes from the API server, and not from the local wall clock.
    from_server: bool,
}

/// The range of differences that one comparison allows, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    least: i64,
    most: i64,
}

// === impl Clock ===

impl Clock {
    /// Reads the wall clock, for the only time.
    pub fn start() -> Self {
        Clock { wall: wall(), origin: Instant::now() }
    }

    /// Returns the time now.
    pub fn now(&self) -> Time {
        let elapsed = i64::try_from(self.origin.elapsed().as_micros()).unwrap_or(i64::MAX);
        Time(self.wall.0.saturating_add(elapsed))
    }
}

fn wall() -> Time {
    Time(Timestamp::now().as_microsecond())
}

// === impl ServerClock ===

impl ServerClock {
    /// Creates a clock that has made no comparison yet.
    pub fn new(client: Client, clock: Clock) -> Self {
        ServerClock { client, clock, known: None, from_server: false }
    }

    /// Compares the clocks every minute, and sends the core each change of the difference. Ends
    /// when no task takes them any more.
    pub async fn keep_comparing(mut self, batches: mpsc::Sender<Vec<Event>>) -> String {
        loop {
            tokio::time::sleep(COMPARE_EVERY).await;
            if let Some(event) = self.compare().await
                && batches.send(vec![event]).await.is_err()
            {
                return "the core takes no differences of clocks any more".to_owned();
            }
        }
    }

    /// Compares the clocks once. Returns an event for the core about the first difference, and
    /// about each change.
    pub async fn compare(&mut self) -> Option<Event> {
        let reading = match tokio::time::timeout(ANSWER_WITHIN, self.read()).await {
            Ok(Ok(reading)) => {
                self.from_server = true;
                reading
            }
            failed => {
                let why = failed
                    .map_or_else(|_| "no answer".to_owned(), |read| read.err().unwrap_or_default());
                tracing::debug!(error = %why, "the API server's clock cannot be read");
                if self.from_server {
                    return None;
                }
                // As long as the server has never sent its time, the local wall clock is the best
                // guess.
                let difference = wall().0.saturating_sub(self.clock.now().0);
                Reading { least: difference - DATE_MICROS / 2, most: difference + DATE_MICROS / 2 }
            }
        };
        self.judge(reading).map(Event::ClockOffset)
    }

    async fn read(&self) -> Result<Reading, String> {
        let request =
            Request::get("/version").body(Body::empty()).map_err(|error| error.to_string())?;
        let before = self.clock.now();
        let response = self
            .client
            .send(request)
            .await
            .map_err(|error| super::error_chain::error_chain(&error))?;
        let after = self.clock.now();
        let date = response
            .headers()
            .get(header::DATE)
            .and_then(|date| date.to_str().ok())
            .map(str::to_owned);
        // Read to its end, so that the connection can be used again.
        let _ = response.into_body().collect_bytes().await;
        let date = date.ok_or("the answer has no Date")?;
        let date = parse_date(&date).ok_or_else(|| format!("no date: {date}"))?;
        Ok(Reading::of(date, before, after))
    }

    fn judge(&mut self, reading: Reading) -> Option<i64> {
        let Some(known) = self.known else {
            self.known = Some(reading.middle());
            return self.known;
        };
        if reading.allows(known) {
            return None;
        }
        let now = reading.middle();
        if now.abs_diff(known) > JUMP_MICROS.unsigned_abs() {
            tracing::warn!(
                before_secs = known / 1_000_000,
                now_secs = now / 1_000_000,
                "the API server's clock has jumped; only planned ends move with it"
            );
        }
        self.known = Some(now);
        self.known
    }
}

impl std::fmt::Debug for ServerClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerClock")
            .field("clock", &self.clock)
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}

// === impl Reading ===

impl Reading {
    /// Derives the range from a server that wrote `date`, rounded down to seconds, at some moment
    /// between `before` and `after`.
    fn of(date: Time, before: Time, after: Time) -> Self {
        Reading { least: date.0 - after.0, most: date.0 + DATE_MICROS - before.0 }
    }

    fn middle(self) -> i64 {
        self.least.midpoint(self.most)
    }

    /// True if the difference is close enough to this range. Two comparisons of the same clocks
    /// always allow each other's middle, so a difference that is not allowed has moved by more than
    /// 1 s.
    fn allows(self, difference: i64) -> bool {
        (self.least - TOLERANCE_MICROS..=self.most + TOLERANCE_MICROS).contains(&difference)
    }
}

/// Parses a date such as `Sun, 22 Nov 2026 01:31:17 GMT`.
fn parse_date(text: &str) -> Option<Time> {
    DateTimeParser::new().parse_timestamp(text).ok().map(|at| Time(at.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the reading of a server clock that is `difference` ahead, at this instant, with an
    /// answer that takes this long.
    fn reading(difference: i64, at: i64, took: i64) -> Reading {
        let server = at + took / 2 + difference;
        Reading::of(Time(server - server.rem_euclid(DATE_MICROS)), Time(at), Time(at + took))
    }

    fn server_clock() -> ServerClock {
        let client = crate::kube::client::plain("http://127.0.0.1:9").unwrap().write;
        ServerClock::new(client, Clock::start())
    }

    #[tokio::test]
    async fn whole_seconds_do_not_make_the_difference_flap() {
        for difference in [0, 3_700_000, -250_000_000] {
            for start in (0..1_000_000).step_by(37_000) {
                let mut clock = server_clock();
                let told = clock.judge(reading(difference, start, 20_000)).unwrap();
                assert!(told.abs_diff(difference) <= 510_000, "{told} for {difference}");
                for minute in 1..50 {
                    let at = start + minute * 60_083_000;
                    assert_eq!(
                        clock.judge(reading(difference, at, 20_000)),
                        None,
                        "{difference} {start} {minute}"
                    );
                }
            }
        }
    }

    #[tokio::test]
    async fn a_difference_that_moves_by_more_than_the_resolution_is_told() {
        for at in (0..1_000_000).step_by(37_000) {
            let mut clock = server_clock();
            clock.judge(reading(0, 500_000, 20_000)).unwrap();
            let told = clock.judge(reading(2_100_000, at, 20_000)).expect("it has moved");
            assert!(told.abs_diff(2_100_000) <= 510_000, "{told}");
            let back = clock.judge(reading(-3_600_000_000, at, 20_000)).expect("it has jumped");
            assert!(back.abs_diff(-3_600_000_000) <= 510_000, "{back}");
        }
    }

    #[tokio::test]
    async fn the_local_clock_serves_only_until_the_server_has_answered() {
        let mut clock = server_clock();
        let Some(Event::ClockOffset(micros)) = clock.compare().await else {
            panic!("told nothing")
        };
        assert!(micros.abs() < 1_000_000, "{micros}");
        clock.from_server = true;
        clock.known = Some(-7_000_000);
        assert!(clock.compare().await.is_none());
        assert_eq!(clock.known, Some(-7_000_000));
    }

    #[test]
    fn time_goes_on_from_where_it_started_whatever_the_wall_clock_says() {
        let clock = Clock {
            wall: Time(5_000_000),
            origin: Instant::now().checked_sub(Duration::from_secs(3)).unwrap(),
        };
        let now = clock.now();
        assert!((8_000_000..9_000_000).contains(&now.0), "{now:?}");
        assert!(clock.now() >= now);
    }

    #[test]
    fn a_date_header_is_understood() {
        assert_eq!(parse_date("Sun, 22 Nov 2026 01:31:17 GMT"), Some(Time(1_795_311_077_000_000)));
        assert_eq!(parse_date("yesterday"), None);
    }
}
