//! The use of one limit, over time: running work, and planned work.
//!
//! A step function, in whole seconds. Work with an unknown end runs for ever as far as a limit is
//! concerned: only a known end makes room at a time that can be promised.
//!
//! Amounts are kept in 128 bits. The amounts that pods can ask for never fill them: there would
//! have to be 2^63 pods.

use std::collections::BTreeMap;

/// A second that never comes.
pub const FOR_EVER: i64 = i64::MAX;

/// The use of a limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// What runs, by the second at which it ends.
    ends: BTreeMap<i64, u128>,
    /// The sum of these.
    running: u128,
    /// Planned work: by how much the use grows or falls from a second on.
    planned: BTreeMap<i64, i128>,
    /// All that is planned, whenever it is.
    planned_in_all: i128,
}

/// Time that something takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub from: i64,
    /// The end; [`FOR_EVER`] if it is unknown.
    pub to: i64,
}

impl Usage {
    /// Something runs until then.
    pub(crate) fn begin(&mut self, end: i64, amount: u128) {
        let sum = self.ends.entry(end).or_default();
        *sum = sum.saturating_add(amount);
        self.running = self.running.saturating_add(amount);
    }

    /// Ends running work that was to run until then.
    pub(crate) fn end(&mut self, end: i64, amount: u128) {
        let left = self.ends.get(&end).copied().unwrap_or(0).saturating_sub(amount);
        if left == 0 {
            self.ends.remove(&end);
        } else {
            self.ends.insert(end, left);
        }
        self.running = self.running.saturating_sub(amount);
    }

    /// What runs until then has ended.
    pub(super) fn go_to(&mut self, now: i64) {
        let later = self.ends.split_off(&now.saturating_add(1));
        let ended = std::mem::replace(&mut self.ends, later);
        self.running =
            ended.values().fold(self.running, |running, ended| running.saturating_sub(*ended));
    }

    /// Something is planned for a span of time.
    pub(crate) fn plan(&mut self, span: Span, amount: u128) {
        self.change(span, signed(amount));
    }

    /// Takes back a planned amount.
    pub(crate) fn give_up(&mut self, span: Span, amount: u128) {
        self.change(span, -signed(amount));
    }

    fn change(&mut self, span: Span, amount: i128) {
        self.planned_in_all = self.planned_in_all.saturating_add(amount);
        for (at, change) in [(span.from, amount), (span.to, -amount)] {
            if at == FOR_EVER {
                continue;
            }
            let sum = self.planned.entry(at).or_default();
            *sum = sum.saturating_add(change);
            if *sum == 0 {
                self.planned.remove(&at);
            }
        }
    }

    /// What runs.
    pub(crate) fn running(&self) -> u128 {
        self.running
    }

    /// True if nothing runs, and nothing is planned.
    pub(crate) fn is_empty(&self) -> bool {
        self.running == 0 && self.planned.is_empty()
    }

    /// Returns the first second, not before `from`, at which this additional amount stays within
    /// the limit for this number of seconds. `None`: never, as far as is known. Work that should
    /// have ended by `now`, and has not, counts as ending in a moment.
    pub(crate) fn earliest(
        &self,
        (now, from): (i64, i64),
        seconds: i64,
        amount: u128,
        limit: u64,
    ) -> Option<i64> {
        let from = from.max(now);
        let room = signed(u128::from(limit).checked_sub(amount)?);
        // What leaves room if all of it came at once leaves room at every second.
        if signed(self.running).saturating_add(self.planned_in_all) <= room {
            return Some(from);
        }
        let ends =
            self.ends.range(..FOR_EVER).map(|(at, amount)| ((*at).max(now + 1), -signed(*amount)));
        let planned = self.planned.iter().map(|(at, change)| ((*at).max(now), *change));
        let mut changes: Vec<(i64, i128)> = ends.chain(planned).collect();
        changes.sort_unstable();
        let mut changes = changes.into_iter().peekable();
        let (mut used, mut at, mut start) = (signed(self.running), from, None);
        loop {
            while let Some((_, change)) = changes.next_if(|(second, _)| *second <= at) {
                used = used.saturating_add(change);
            }
            start = if used <= room { start.or(Some(at)) } else { None };
            let Some((next, _)) = changes.peek() else { return start };
            if start.is_some_and(|start| next.saturating_sub(start) >= seconds) {
                return start;
            }
            at = *next;
        }
    }
}

fn signed(amount: u128) -> i128 {
    i128::try_from(amount).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Second by second.
    fn used_at(running: &[(i64, u64)], planned: &[(i64, i64, u64)], now: i64, at: i64) -> u64 {
        let runs = |end: i64| at < end.max(now + 1);
        let running: u64 =
            running.iter().filter(|(end, _)| runs(*end)).map(|(_, amount)| amount).sum();
        let planned =
            planned.iter().filter(|(from, to, _)| (*from).max(now) <= at && at < (*to).max(now));
        running + planned.map(|(.., amount)| amount).sum::<u64>()
    }

    fn usage(running: &[(i64, u64)], planned: &[(i64, i64, u64)]) -> Usage {
        let mut usage = Usage::default();
        for (end, amount) in running {
            usage.begin(*end, u128::from(*amount));
        }
        for (from, to, amount) in planned {
            usage.plan(Span { from: *from, to: *to }, u128::from(*amount));
        }
        usage
    }

    #[test]
    fn the_first_second_at_which_it_is_within_the_limit() {
        // A description, running work (end, amount), planned work (from, to, amount), the seconds
        // and amount of a request under a limit of 8, and the expected second.
        type Case = (
            &'static str,
            &'static [(i64, u64)],
            &'static [(i64, i64, u64)],
            i64,
            u64,
            Option<i64>,
        );
        let cases: &[Case] = &[
            ("nothing is used", &[], &[], 5, 8, Some(0)),
            ("more than there is at all", &[], &[], 5, 9, None),
            ("what runs leaves room", &[(10, 4)], &[], 5, 4, Some(0)),
            ("what runs has to end", &[(10, 4), (20, 4)], &[], 5, 4, Some(10)),
            ("all of it", &[(10, 4), (20, 4)], &[], 5, 8, Some(20)),
            ("nobody knows when it ends", &[(FOR_EVER, 1)], &[], 5, 8, None),
            ("beside what nobody knows the end of", &[(FOR_EVER, 4), (7, 4)], &[], 5, 4, Some(7)),
            ("before what is planned", &[(3, 4)], &[(9, 20, 8)], 6, 8, Some(3)),
            ("too long to be before what is planned", &[(3, 4)], &[(9, 20, 8)], 7, 8, Some(20)),
            ("beside what is planned", &[(3, 4)], &[(9, 20, 4)], 7, 4, Some(0)),
            ("for ever, so after all that is planned", &[], &[(9, 20, 8)], FOR_EVER, 1, Some(20)),
            ("behind what is planned for ever", &[], &[(9, FOR_EVER, 8)], FOR_EVER, 1, None),
            ("between two", &[], &[(0, 4, 8), (9, 20, 8)], 5, 8, Some(4)),
            ("what is late ends in a moment", &[(-5, 8)], &[], 5, 8, Some(1)),
            ("what is planned and late takes its time", &[], &[(-5, 3, 8)], 5, 8, Some(3)),
        ];
        for (what, running, planned, seconds, amount, expected) in cases {
            let found = usage(running, planned).earliest((0, 0), *seconds, u128::from(*amount), 8);
            assert_eq!(found, *expected, "{what}");
        }
    }

    #[test]
    fn what_is_taken_back_leaves_nothing() {
        let mut all = usage(&[(5, 2), (5, 3)], &[(1, 9, 4), (9, FOR_EVER, 4)]);
        all.end(5, 2);
        all.end(5, 3);
        all.give_up(Span { from: 9, to: FOR_EVER }, 4);
        all.give_up(Span { from: 1, to: 9 }, 4);
        assert!(all.is_empty() && all == Usage::default(), "{all:?}");
    }

    proptest! {
        #[test]
        fn it_is_what_looking_at_each_second_finds(
            running in prop::collection::vec((-3i64..30, 1u64..4), 0..6),
            planned in prop::collection::vec((-3i64..30, 1i64..12, 1u64..4), 0..6),
            from in 0i64..20,
            seconds in 1i64..15,
            amount in 1u64..6,
            limit in 1u64..9,
        ) {
            let planned: Vec<_> = planned.into_iter().map(|(from, length, amount)| (from, from + length, amount)).collect();
            let fits = |start: i64| (start..start + seconds).all(|at| used_at(&running, &planned, 0, at) + amount <= limit);
            // After 60 seconds nothing is left.
            let expected = (from..=60).find(|start| fits(*start));
            prop_assert_eq!(usage(&running, &planned).earliest((0, from), seconds, u128::from(amount), limit), expected);
        }
    }
}
