//! Kubernetes quantities, read exactly: `100m`, `1.5Gi`, `1e3`.
//!
//! A quantity is kept in billionths of its unit, the finest that Kubernetes keeps, so that sums are
//! exact and are rounded up once, at the end, as kube-scheduler does. Anything but a quantity of 0
//! to 2^63 - 1 units is an error: where Kubernetes caps or wraps, a scheduler would count wrongly.

use std::collections::BTreeMap;

use fluxqueue_api::text;

use crate::resources::Resources;

/// The billionths in a unit.
const NANOS: u128 = 1_000_000_000;

/// The largest number of units or thousandths that any Kubernetes component can hold.
const MAX: u128 = i64::MAX as u128;

/// The most digits after the point that are read exactly; the rest only rounds up. Twice as many as
/// Kubernetes keeps.
const FRACTION_DIGITS_MAX: usize = 18;

/// An amount of 0 to 2^63 - 1 units, in billionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Quantity {
    nanos: u128,
}

/// The reason why a text is no usable quantity. Each quotes the text ([`text::quoted`]).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It does not follow the grammar.
    #[error("{0} is not a quantity")]
    Malformed(String),
    /// It is below 0.
    #[error("{0} is negative")]
    Negative(String),
    /// It is more than 2^63 - 1 units.
    #[error("{0} is larger than 2^63 - 1")]
    TooLarge(String),
    /// It is more than 2^63 - 1 thousandths, in which it is counted.
    #[error("{0} is larger than 2^63 - 1 thousandths")]
    TooManyMillis(String),
}

/// The suffix of a quantity, as a factor 2^binary or 10^decimal.
struct Scale {
    binary: u32,
    decimal: i64,
}

/// Returns `text` in thousandths, rounded up: the unit of `cpu`.
pub fn millis(text: &str) -> Result<u64, QuantityError> {
    Quantity::parse(text)?.millis().ok_or_else(|| QuantityError::TooManyMillis(text::quoted(text)))
}

/// Returns `text` in base units (bytes, devices), rounded up.
pub fn value(text: &str) -> Result<u64, QuantityError> {
    Quantity::parse(text)?.value().ok_or_else(|| QuantityError::TooLarge(text::quoted(text)))
}

/// Returns how much `text` allows of a resource, in the unit in which requests of it are counted:
/// rounded down, since a part of a device is no device, and 2^64 - 1 for anything more.
pub fn allowance(resource: &str, text: &str) -> Result<u64, QuantityError> {
    let unit = if resource == "cpu" { NANOS / 1000 } else { NANOS };
    let amount = nanos_of(text)?.map(|nanos| nanos / unit);
    Ok(amount.and_then(|amount| u64::try_from(amount).ok()).unwrap_or(u64::MAX))
}

/// Returns `text` in billionths, rounded up; `None` if that is more than can be counted.
fn nanos_of(text: &str) -> Result<Option<u128>, QuantityError> {
    let malformed = || QuantityError::Malformed(text::quoted(text));
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let number_len =
        unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(number_len);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(malformed());
    }
    let scale = Scale::parse(suffix).ok_or_else(malformed)?;
    let kept = &fraction[..fraction.len().min(FRACTION_DIGITS_MAX)];
    let cut_off = fraction[kept.len()..].bytes().any(|digit| digit != b'0');
    let nanos =
        digits_value(whole, kept).and_then(|digits| scale.apply(digits, kept.len(), cut_off));
    if negative && nanos != Some(0) {
        return Err(QuantityError::Negative(text::quoted(text)));
    }
    Ok(nanos)
}

impl Quantity {
    /// The amount of nothing.
    pub const ZERO: Quantity = Quantity { nanos: 0 };

    /// Reads a quantity: optional sign, decimal digits with an optional point, and a suffix out of
    /// `n u m k M G T P E`, `Ki Mi Gi Ti Pi Ei` or a decimal exponent.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let nanos = nanos_of(text)?.filter(|nanos| *nanos <= MAX * NANOS);
        let nanos = nanos.ok_or_else(|| QuantityError::TooLarge(text::quoted(text)))?;
        Ok(Quantity { nanos })
    }

    /// Returns thousandths, rounded up; `None` past 2^63 - 1.
    pub fn millis(self) -> Option<u64> {
        bounded(self.nanos.div_ceil(NANOS / 1000))
    }

    /// Returns units, rounded up; `None` past 2^63 - 1, which only a sum can reach.
    pub fn value(self) -> Option<u64> {
        bounded(self.nanos.div_ceil(NANOS))
    }

    /// Returns the sum. It cannot overflow: 2^36 of the largest quantities fit.
    #[must_use]
    pub fn plus(self, other: Quantity) -> Self {
        Quantity { nanos: self.nanos.saturating_add(other.nanos) }
    }
}

impl Scale {
    fn parse(suffix: &str) -> Option<Self> {
        let decimal = |decimal| Some(Scale { binary: 0, decimal });
        let binary = |binary| Some(Scale { binary, decimal: 0 });
        match suffix {
            "" => decimal(0),
            "n" => decimal(-9),
            "u" => decimal(-6),
            "m" => decimal(-3),
            "k" => decimal(3),
            "M" => decimal(6),
            "G" => decimal(9),
            "T" => decimal(12),
            "P" => decimal(15),
            "E" => decimal(18),
            "Ki" => binary(10),
            "Mi" => binary(20),
            "Gi" => binary(30),
            "Ti" => binary(40),
            "Pi" => binary(50),
            "Ei" => binary(60),
            _ => {
                let exponent = suffix.strip_prefix(['e', 'E'])?;
                let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return None;
                }
                decimal(exponent.parse().ok()?)
            }
        }
    }

    /// Returns `digits`, of which `places` stand after the point, in billionths and rounded up;
    /// `cut_off` is true if digits other than 0 followed. `None` on overflow.
    fn apply(&self, digits: u128, places: usize, cut_off: bool) -> Option<u128> {
        if digits == 0 && !cut_off {
            return Some(0);
        }
        let scaled = digits.checked_mul(1 << self.binary)?;
        let shift = self.decimal.saturating_add(9).saturating_sub(i64::try_from(places).ok()?);
        let power = |exponent: u64| 10_u128.checked_pow(u32::try_from(exponent).ok()?);
        if shift >= 0 {
            let factor = power(shift.unsigned_abs())?;
            return scaled.checked_mul(factor)?.checked_add(if cut_off {
                factor << self.binary
            } else {
                0
            });
        }
        // A power that does not fit is larger than any number of digits that does, so the smallest
        // amount remains.
        let Some(divisor) = power(shift.unsigned_abs()) else { return Some(1) };
        let exact = scaled % divisor == 0;
        Some(scaled.div_ceil(divisor) + u128::from(cut_off && exact))
    }
}

/// Returns the digits before and after the point as one number; `None` on overflow.
fn digits_value(whole: &str, fraction: &str) -> Option<u128> {
    whole.bytes().chain(fraction.bytes()).try_fold(0_u128, |value, digit| {
        value.checked_mul(10)?.checked_add(u128::from(digit - b'0'))
    })
}

fn bounded(amount: u128) -> Option<u64> {
    u64::try_from(amount).ok().filter(|amount| u128::from(*amount) <= MAX)
}

/// Formats amounts as Kubernetes quantities: millicores as `100m` or whole cores, everything else
/// as plain integers.
pub fn quantities(requests: &Resources) -> BTreeMap<String, String> {
    requests
        .sums()
        .filter(|(name, _)| name.as_ref() != "pods")
        .map(|(name, amount)| (name.to_string(), quantity(name, amount)))
        .collect()
}

/// Formats one amount as a Kubernetes quantity.
pub fn quantity(resource: &str, amount: impl Into<u128>) -> String {
    const UNITS: [(u128, &str); 5] =
        [(1 << 60, "Ei"), (1 << 50, "Pi"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];
    let amount: u128 = amount.into();
    if resource == "cpu" {
        return if amount.is_multiple_of(1000) {
            (amount / 1000).to_string()
        } else {
            format!("{amount}m")
        };
    }
    if resource == "memory" || resource == "ephemeral-storage" || resource.starts_with("hugepages-")
    {
        for (size, unit) in UNITS {
            if amount >= size && amount.is_multiple_of(size) {
                return format!("{}{unit}", amount / size);
            }
        }
    }
    amount.to_string()
}

/// Formats one amount for people: cores as a decimal number (`1.5`), everything else as
/// [`quantity`] does.
pub fn told(resource: &str, amount: impl Into<u128>) -> String {
    let amount: u128 = amount.into();
    if resource != "cpu" || amount.is_multiple_of(1000) {
        return quantity(resource, amount);
    }
    format!("{}.{:03}", amount / 1000, amount % 1000).trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_cores_and_not_thousandths_of_them() {
        for (thousandths, text) in [
            (16_387_750_u64, "16387.75"),
            (100, "0.1"),
            (1, "0.001"),
            (1010, "1.01"),
            (10_000, "10"),
            (0, "0"),
        ] {
            assert_eq!(told("cpu", thousandths), text);
            assert_eq!(millis(text), Ok(thousandths), "it is exact");
        }
        assert_eq!(told("memory", 1_u64 << 31), quantity("memory", 1_u64 << 31));
    }

    #[test]
    fn quantities_are_read_exactly_and_rounded_up() {
        // text, millis, value
        let cases: &[(&str, u64, u64)] = &[
            ("0", 0, 0),
            ("-0", 0, 0),
            ("1", 1000, 1),
            ("+1", 1000, 1),
            ("0.1", 100, 1),
            (".5", 500, 1),
            ("1.", 1000, 1),
            ("0001", 1000, 1),
            ("1m", 1, 1),
            ("500u", 1, 1),
            ("1000u", 1, 1),
            ("1001u", 2, 1),
            ("1n", 1, 1),
            ("0.1n", 1, 1),
            ("0.0000000000000000000000000001", 1, 1),
            ("1500m", 1500, 2),
            ("2000m", 2000, 2),
            ("1k", 1_000_000, 1000),
            ("1M", 1_000_000_000, 1_000_000),
            ("1G", 1_000_000_000_000, 1_000_000_000),
            ("1T", 1_000_000_000_000_000, 1_000_000_000_000),
            ("1P", 1_000_000_000_000_000_000, 1_000_000_000_000_000),
            ("1Ki", 1_024_000, 1024),
            ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
            ("0.5Ki", 512_000, 512),
            ("0.3Ki", 307_200, 308),
            ("1Ti", 1_099_511_627_776_000, 1_099_511_627_776),
            ("1e3", 1_000_000, 1000),
            ("1E3", 1_000_000, 1000),
            ("1E+3", 1_000_000, 1000),
            ("12e-1", 1200, 2),
            ("1e-100", 1, 1),
            ("0e100000000", 0, 0),
            ("123456789.123456789", 123_456_789_124, 123_456_790),
        ];
        for (text, in_millis, in_units) in cases {
            assert_eq!(millis(text), Ok(*in_millis), "millis of {text:?}");
            assert_eq!(value(text), Ok(*in_units), "value of {text:?}");
        }
    }

    #[test]
    fn large_quantities_are_exact_to_the_bound_and_refused_past_it() {
        assert_eq!(value("9223372036854775807"), Ok(9_223_372_036_854_775_807));
        assert_eq!(value("7Ei"), Ok(7 << 60));
        assert_eq!(value("1E"), Ok(1_000_000_000_000_000_000));
        assert_eq!(value("9.223372036854775807E"), Ok(9_223_372_036_854_775_807));
        assert_eq!(millis("9223372036854775.807"), Ok(9_223_372_036_854_775_807));
        for text in [
            "9223372036854775808",
            "8Ei",
            "1e19",
            "1e1000000000000",
            "9223372036854775807.1",
            "99E",
        ] {
            assert_eq!(value(text), Err(QuantityError::TooLarge(text::quoted(text))));
        }
        let cores = "9223372036854775.808";
        assert_eq!(millis(cores), Err(QuantityError::TooManyMillis(text::quoted(cores))));
        let error = millis("288230376151711744").unwrap_err().to_string();
        assert_eq!(
            error, "\"288230376151711744\" is larger than 2^63 - 1 thousandths",
            "the number itself is not"
        );
    }

    #[test]
    fn texts_that_are_no_quantity_are_refused_by_name() {
        for text in [
            "", "1..2", "1.2.3", "abc", "Gi", "+", ".", "1K", "1ki", "1 Gi", " 1", "1e", "1e+",
            "1e1.5", "1mm", "--1", "1g", "0x10", "1é",
        ] {
            assert_eq!(
                Quantity::parse(text),
                Err(QuantityError::Malformed(text::quoted(text))),
                "{text:?}"
            );
        }
        for text in ["-1", "-1n", "-1Gi"] {
            assert_eq!(Quantity::parse(text), Err(QuantityError::Negative(text::quoted(text))));
        }
        assert_eq!(value("1..2").unwrap_err().to_string(), "\"1..2\" is not a quantity");
    }

    #[test]
    fn sums_are_rounded_once() {
        let half = Quantity::parse("500u").unwrap();
        assert_eq!(half.plus(half).millis(), Some(1));
        let most = Quantity::parse("9223372036854775807").unwrap();
        assert_eq!(most.plus(Quantity::parse("1").unwrap()).value(), None);
    }

    #[test]
    fn an_allowance_is_rounded_down_and_never_too_large() {
        let cases = [
            ("cpu", "1E", u64::MAX),
            ("cpu", "1P", 1_000_000_000_000_000_000),
            ("cpu", "0.1", 100),
            ("cpu", "1.9999", 1999),
            ("memory", "7Ei", 7 << 60),
            ("memory", "14Ei", 14 << 60),
            ("memory", "16Ei", u64::MAX),
            ("ephemeral-storage", "10P", 10_000_000_000_000_000),
            ("memory", "1e9999", u64::MAX),
            ("memory", "99999999999999999999999999999999999999999", u64::MAX),
            ("example.com/gpu", "0.5", 0),
            ("example.com/gpu", "1500m", 1),
            ("example.com/gpu", "1e3", 1000),
            ("example.com/gpu", "-0", 0),
        ];
        for (resource, text, expected) in cases {
            assert_eq!(allowance(resource, text), Ok(expected), "{resource}: {text}");
        }
        for text in ["-1", "-1e9999"] {
            assert_eq!(allowance("cpu", text), Err(QuantityError::Negative(text::quoted(text))));
        }
        for text in ["2e3m", "32GB", "", "1e99999999999999999999"] {
            assert_eq!(
                allowance("memory", text),
                Err(QuantityError::Malformed(text::quoted(text)))
            );
        }
    }
}
