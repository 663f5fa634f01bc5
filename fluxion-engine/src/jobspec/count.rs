//! How many of a resource: a number, or a range that takes as much as there is.

use std::iter::successors;

/// A count of a resource level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// At least this many.
    pub min: u64,
    /// At most this many.
    pub max: u64,
    /// Which counts between them are allowed.
    pub growth: Growth,
}

/// How a count may grow from its minimum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// `min + k * step`.
    Add(u64),
    /// `min * factor^k`.
    Multiply(u64),
    /// `min`, then each the last one to the power of this.
    Power(u64),
}

impl Count {
    /// Exactly `count`.
    pub fn exactly(count: u64) -> Self {
        Count { min: count, max: count, growth: Growth::Add(1) }
    }

    /// True if it fits the 32 bits of upstream's counts.
    pub(crate) fn is_narrow(self) -> bool {
        let (Growth::Add(operand) | Growth::Multiply(operand) | Growth::Power(operand)) =
            self.growth;
        let max = if self.max == u64::MAX && operand == 1 { self.min } else { self.max };
        [self.min, max, operand].into_iter().all(|number| u32::try_from(number).is_ok())
    }

    /// The largest number that it can come to. Follows upstream's `calc_effective_max`
    /// (libjobspec/jobspec.cpp).
    pub(crate) fn most(self) -> u64 {
        self.choose(u64::from(u32::MAX))
    }

    /// The number to take where `available` are to be had; 0 if that is too few. Follows upstream's
    /// `calc_count` (libjobspec/jobspec.cpp).
    pub fn choose(self, available: u64) -> u64 {
        if self.min == 0 || self.min > self.max || self.min > available {
            return 0;
        }
        let limit = self.max.min(available);
        match self.growth {
            Growth::Add(step) => self.min + (limit - self.min) / step.max(1) * step,
            Growth::Multiply(_) | Growth::Power(_) => {
                Count { max: limit, ..self }.numbers().last().unwrap_or(self.min)
            }
        }
    }

    /// Returns the numbers of the range, ascending.
    pub(crate) fn numbers(self) -> impl Iterator<Item = u64> {
        successors(Some(self.min), move |number| {
            let next = match self.growth {
                Growth::Add(step) => number.checked_add(step),
                Growth::Multiply(factor) => number.checked_mul(factor),
                Growth::Power(power) => {
                    u32::try_from(power).ok().and_then(|power| number.checked_pow(power))
                }
            };
            next.filter(|next| next > number && *next <= self.max)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_largest_allowed_count() {
        let of = |min, max, growth| Count { min, max, growth };
        assert_eq!(of(2, 10, Growth::Add(3)).choose(9), 8);
        assert_eq!(of(2, 10, Growth::Add(3)).choose(100), 8);
        assert_eq!(of(1, 64, Growth::Multiply(2)).choose(40), 32);
        assert_eq!(of(2, 1000, Growth::Power(2)).choose(300), 256);
        assert_eq!(of(4, 8, Growth::Add(1)).choose(3), 0);
        assert_eq!(Count::exactly(0).choose(10), 0);
        assert_eq!(of(1, 64, Growth::Multiply(1)).choose(40), 1);
    }
}
