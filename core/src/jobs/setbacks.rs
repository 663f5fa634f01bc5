//! Starts that failed before any Binding took effect, and the pauses that follow.
//!
//! A *lost race* means that a node was taken, or has changed, between the decision and the Binding.
//! The request keeps its claim: it is placed again at once, so that no later request overtakes it,
//! and its Bindings leave after a pause. A *refusal* means that the API server does not let the
//! start be written. The request claims nothing until the pause is over, so that no node is idle
//! because of it.

use crate::backoff::Backoff;
use fluxqueue_workload::Time;

/// The pause after a lost race.
const LOST_RACE: Backoff = Backoff { min_millis: 1_000, max_millis: 30_000 };

/// The pause after a refusal. What refuses is mostly a quota or a policy, which a person changes:
/// five minutes are soon enough.
const REFUSED: Backoff = Backoff { min_millis: 1_000, max_millis: REFUSED_MAX_MILLIS };

/// The longest of these pauses, in milliseconds.
pub(crate) const REFUSED_MAX_MILLIS: i64 = 300_000;

/// The pause after a search for places that gave up after all the steps that it may take: twenty
/// times the second that such a search lasts at most, and longer each time.
const SEARCH: Backoff = Backoff { min_millis: 20_000, max_millis: 300_000 };

/// How long, in milliseconds, a request keeps its claim from the first of several lost races in a
/// row. A request that loses races for longer would hold back others without end.
const CLAIM_MILLIS: i64 = 30_000;

/// Why a placement is withdrawn, or a slot given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setback {
    /// Other pods have the room, or the nodes or pods have changed.
    LostRace,
    /// The API server does not let the start be written, or does not answer.
    Refused,
    /// The job itself has changed: it starts again without a pause.
    Changed,
}

/// The setbacks in a row of one start: of a gang, or of a pod that starts alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Setbacks {
    races: u32,
    first_race: Option<Time>,
    searches: u32,
    refusals: u32,
    first_refusal: Option<Time>,
    /// No Binding leaves before this.
    leaves_from: Time,
    /// Nothing is claimed before this.
    claims_from: Time,
}

impl Setbacks {
    /// Counts a setback, and returns the pause that follows, in milliseconds. The first lost race
    /// is followed by `first_pause`.
    pub(crate) fn count(&mut self, setback: Setback, now: Time, first_pause: FirstPause) -> i64 {
        match setback {
            Setback::Changed => 0,
            Setback::LostRace => {
                let first_race = *self.first_race.get_or_insert(now);
                let pause = match (first_pause, self.races) {
                    (FirstPause::None, 0) => 0,
                    (FirstPause::None, before) => LOST_RACE.after(before),
                    (FirstPause::OneSecond, before) => LOST_RACE.after(before + 1),
                };
                self.races += 1;
                self.leaves_from = now.plus_millis(pause);
                if now >= first_race.plus_millis(CLAIM_MILLIS) {
                    self.claims_from = self.leaves_from;
                }
                pause
            }
            Setback::Refused => {
                self.first_refusal.get_or_insert(now);
                self.refusals += 1;
                let pause = REFUSED.after(self.refusals);
                self.leaves_from = now.plus_millis(pause);
                self.claims_from = self.leaves_from;
                pause
            }
        }
    }

    /// Counts a search for places that gave up after these steps, of `most` that it may take.
    /// Returns the pause that follows, in milliseconds, in which the request claims nothing. A
    /// search that gave up early is followed by a part of the pause.
    pub(crate) fn count_search(&mut self, steps: u64, most: u64, now: Time) -> i64 {
        self.searches = self.searches.saturating_add(1);
        let whole = i128::from(SEARCH.after(self.searches));
        let part = whole * i128::from(steps.min(most)) / i128::from(most.max(1));
        let pause = i64::try_from(part).unwrap_or(SEARCH.max_millis);
        self.claims_from = self.claims_from.max(now.plus_millis(pause));
        pause
    }

    /// Returns when the first Binding may leave.
    pub(crate) fn leaves_from(&self) -> Time {
        self.leaves_from
    }

    /// True if the request holds nothing for now, neither slots nor a reservation.
    pub(crate) fn claims_nothing(&self, now: Time) -> bool {
        self.claims_from > now
    }

    /// Returns when the first of the refusals in a row was; `None` without one.
    pub(crate) fn first_refusal(&self) -> Option<Time> {
        self.first_refusal
    }
}

/// The pause after the first lost race in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstPause {
    /// One pod looks for another node at once.
    None,
    /// A gang has all its pods checked together, which is repeated less often.
    OneSecond,
}

/// Returns the pause, in milliseconds, after this number of refused writes of a FluxJob in a row,
/// of which there is at least one.
pub(crate) fn pause_of_refused_writes(refused: u32) -> i64 {
    REFUSED.after(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(setback: Setback, first_pause: FirstPause) -> (Vec<i64>, Vec<bool>) {
        let (mut setbacks, mut now) = (Setbacks::default(), Time::from_seconds(1_000));
        let mut claims = Vec::new();
        let pauses = (0..12).map(|_| {
            let pause = setbacks.count(setback, now, first_pause);
            claims.push(!setbacks.claims_nothing(now));
            now = now.plus_millis(pause);
            pause / 1000
        });
        (pauses.collect(), claims)
    }

    #[test]
    fn a_lost_race_keeps_its_claim_for_half_a_minute_in_all() {
        let (seconds, claims) = pauses(Setback::LostRace, FirstPause::OneSecond);
        assert_eq!(seconds, [1, 2, 4, 8, 16, 30, 30, 30, 30, 30, 30, 30]);
        assert_eq!(claims.iter().filter(|claims| **claims).count(), 5);
        assert_eq!(pauses(Setback::LostRace, FirstPause::None).0[..4], [0, 1, 2, 4]);
    }

    #[test]
    fn a_search_that_gave_up_is_followed_by_a_pause_as_long_as_it_was() {
        let (mut setbacks, now) = (Setbacks::default(), Time::from_seconds(1_000));
        let mut count = |steps| setbacks.count_search(steps, 1_000, now);
        assert_eq!(count(10), 200);
        assert_eq!([count(1_000), count(1_000)], [40_000, 80_000]);
        assert_eq!([count(9_000), count(1_000)], [160_000, 300_000]);
        assert_eq!(count(0), 0);
        assert!(setbacks.claims_nothing(now.plus_secs(299)));
        assert!(!setbacks.claims_nothing(now.plus_secs(300)));
    }

    #[test]
    fn a_refusal_claims_nothing_for_pauses_that_grow_to_five_minutes() {
        let (seconds, claims) = pauses(Setback::Refused, FirstPause::OneSecond);
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert!(claims.iter().all(|claims| !claims));
    }
}
