//! All ways to share out slots over rows, with the dominated ones left out.
//!
//! Row by row, for each number of slots of every shape but the largest, the most slots of the
//! largest one that fit on the rows so far is kept: fewer are never better. Of equal rows no more
//! are visited than there are slots, since each that is used takes one. The steps are counted
//! before: for two shapes of which the smaller has `n` slots there are `(n + 1) * (n + 2) / 2` per
//! row, for three that share 24 slots at most 2025.

use super::problem::{Class, Picks, Problem, STEPS_MAX, weigh};
use crate::effort::Effort;
use crate::slot_search::flat::request::Outcome;
use crate::slot_search::flat::shape::Pick;
use crate::slot_search::flat::taken::Slots;

/// No slots of the largest shape at all: this number of the others does not fit.
const NONE: i64 = i64::MIN / 2;

/// Numbers of slots of the small shapes, as one number: by shape, how much one slot adds to it.
#[derive(Debug)]
struct Numbers {
    large: usize,
    /// The small shapes, with how many slots are wanted and what one adds.
    small: Vec<(usize, usize, usize)>,
    /// How many there are.
    count: usize,
}

/// Slots that a row of a class can take together, as in a cutting-stock problem.
#[derive(Debug)]
struct Pattern {
    /// Slots of the small shapes.
    number: usize,
    small: Slots,
    /// The most slots of the largest shape beside them.
    large: i64,
}

impl Problem {
    /// A place for all, or the certainty that there is none, if the search for it is short.
    pub(super) fn pack(&self, effort: &Effort) -> Outcome {
        let Some(numbers) = self.numbers() else { return Outcome::GaveUp };
        let steps = self.steps(&numbers).filter(|steps| *steps <= STEPS_MAX);
        if steps.is_none_or(|steps| !effort.take(steps as u64)) {
            return Outcome::GaveUp;
        }
        let wanted = i64::try_from(self.counts[numbers.large]).unwrap_or(i64::MAX);
        let mut best = vec![NONE; numbers.count];
        best[0] = 0;
        // By visited row: the class, the row, and for each number which pattern led to it.
        let mut stages: Vec<(usize, usize, Vec<u16>)> = Vec::new();
        let patterns: Vec<Vec<Pattern>> =
            self.classes.iter().map(|class| self.patterns(&numbers, class)).collect();
        for (at, class) in self.classes.iter().enumerate() {
            for row in &class.rows[..self.useful(class)] {
                let (next, led) = numbers.combine(&best, &patterns[at]);
                best = next;
                stages.push((at, *row, led));
                if best[numbers.count - 1] >= wanted {
                    return Outcome::Found(self.trace(&numbers, &patterns, &stages));
                }
            }
        }
        Outcome::Impossible
    }

    /// Walks back from the last row to the first.
    fn trace(
        &self,
        numbers: &Numbers,
        patterns: &[Vec<Pattern>],
        stages: &[(usize, usize, Vec<u16>)],
    ) -> Picks {
        let mut picks = Picks::new();
        let (mut number, mut left) = (numbers.count - 1, self.counts[numbers.large]);
        for (class, row, led) in stages.iter().rev() {
            let pattern = &patterns[*class][usize::from(led[number])];
            number -= pattern.number;
            let large = left.min(u64::try_from(pattern.large).unwrap_or(0));
            left -= large;
            let small = pattern
                .small
                .iter()
                .zip(&numbers.small)
                .map(|(count, (shape, ..))| (*shape, *count));
            let some = small.chain([(numbers.large, large)]).filter(|(_, count)| *count > 0);
            picks.extend(some.map(|(shape, count)| Pick { shape, row: *row, count }));
        }
        picks
    }

    fn numbers(&self) -> Option<Numbers> {
        let large = (0..self.counts.len()).max_by_key(|shape| self.counts[*shape])?;
        let mut numbers = Numbers { large, small: Vec::new(), count: 1 };
        for shape in (0..self.counts.len()).filter(|shape| *shape != large) {
            let wanted = usize::try_from(self.counts[shape]).ok()?;
            numbers.small.push((shape, wanted, numbers.count));
            numbers.count = wanted
                .checked_add(1)?
                .checked_mul(numbers.count)
                .filter(|count| *count < 1 << 16)?;
        }
        Some(numbers)
    }

    /// How many rows of a class can be of use.
    fn useful(&self, class: &Class) -> usize {
        let slots = self
            .counts
            .iter()
            .zip(&class.rooms)
            .filter(|(_, room)| **room > 0)
            .map(|(count, _)| *count);
        let slots = slots.fold(0, u64::saturating_add);
        class.rows.len().min(usize::try_from(slots).unwrap_or(usize::MAX))
    }

    fn steps(&self, numbers: &Numbers) -> Option<usize> {
        self.classes.iter().try_fold(0_usize, |sum, class| {
            let pairs = numbers.small.iter().try_fold(1_usize, |pairs, (shape, wanted, _)| {
                let room = usize::try_from(class.rooms[*shape]).ok()?;
                // The room is at most the wanted number.
                pairs.checked_mul((room + 1) * (2 * (wanted + 1) - room) / 2)
            })?;
            sum.checked_add(pairs.checked_mul(self.useful(class))?)
        })
    }

    /// The slots that a row of a class can take, none first.
    fn patterns(&self, numbers: &Numbers, class: &Class) -> Vec<Pattern> {
        let mut patterns = Vec::new();
        let mut slots: Slots = smallvec::smallvec![0; self.counts.len()];
        loop {
            let small: Slots = numbers.small.iter().map(|(shape, ..)| slots[*shape]).collect();
            if self.takes(class, &slots) {
                let number = numbers
                    .small
                    .iter()
                    .zip(&small)
                    .map(|((.., adds), count)| adds * usize::try_from(*count).unwrap_or(0));
                patterns.push(Pattern {
                    number: number.sum(),
                    small,
                    large: self.beside(numbers.large, class, &slots),
                });
            }
            // The next one, as an odometer.
            let turned = numbers.small.iter().find(|(shape, ..)| {
                let turns = slots[*shape] < class.rooms[*shape];
                slots[*shape] = if turns { slots[*shape] + 1 } else { 0 };
                turns
            });
            if turned.is_none() {
                return patterns;
            }
        }
    }

    /// How many slots of a shape fit beside those of others.
    fn beside(&self, shape: usize, class: &Class, slots: &[u64]) -> i64 {
        let room = self.weights.iter().zip(&class.bounds).filter_map(|(weights, bound)| {
            let used = weigh(weights, slots);
            u128::from(*bound).saturating_sub(used).checked_div(u128::from(weights[shape]))
        });
        let room = room.min().unwrap_or(u128::MAX).min(u128::from(class.rooms[shape]));
        i64::try_from(room).unwrap_or(i64::MAX / 4)
    }
}

impl Numbers {
    /// The best of each number with one row more, and which of the row's patterns led there.
    fn combine(&self, best: &[i64], patterns: &[Pattern]) -> (Vec<i64>, Vec<u16>) {
        let mut next = vec![NONE; best.len()];
        let mut led = vec![0_u16; best.len()];
        for (pattern, at) in patterns.iter().zip(0_u16..) {
            self.each_run(self.small.len(), pattern, 0, &mut |from, count| {
                let to = from + pattern.number;
                let better = best[from..from + count]
                    .iter()
                    .zip(&mut next[to..to + count])
                    .zip(&mut led[to..to + count]);
                for ((before, known), led) in better {
                    if before + pattern.large > *known {
                        *known = before + pattern.large;
                        *led = at;
                    }
                }
            });
        }
        (next, led)
    }

    /// Visits all numbers to which a pattern can be added, in runs of consecutive ones.
    fn each_run(
        &self,
        shapes: usize,
        pattern: &Pattern,
        from: usize,
        visit: &mut impl FnMut(usize, usize),
    ) {
        let Some(last) = shapes.checked_sub(1) else {
            visit(from, 1);
            return;
        };
        let (_, wanted, adds) = self.small[last];
        let others = wanted - usize::try_from(pattern.small[last]).unwrap_or(0);
        if last == 0 {
            visit(from, others + 1);
            return;
        }
        for count in 0..=others {
            self.each_run(last, pattern, from + count * adds, visit);
        }
    }
}
