//! The walltime annotation: the longest time for which a pod or job runs.
//!
//! Three spellings are read: a Flux Standard Duration (RFC 23: a number and one of `ms s m h d`, or
//! `inf`), a Kubernetes duration (`1h30m`, `90s`), and a bare number of seconds. `unlimited` marks
//! a service.

use fluxqueue_api::names::WALLTIME;
use fluxqueue_api::text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::metadata::annotation;
use crate::unsupported::Unsupported;

/// The time for which a pod or job takes its resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lifetime {
    /// It ends this many seconds after its start at the latest.
    Seconds(u64),
    /// It ends some day (a restart policy other than Always), at an unknown time.
    Eventually,
    /// A service: it has no end.
    Endless,
}

impl Lifetime {
    /// The longest time for which anything is planned, in seconds: twice the longest walltime, 200
    /// years. A longer one, such as the largest `terminationGracePeriodSeconds`, counts as no known
    /// end: dates after the year 9999 cannot even be written.
    pub const SECS_MAX: u64 = 2 * WALLTIME_SECS_MAX;

    /// Returns this lifetime, longer by this many seconds if it has a known end.
    #[must_use]
    pub fn plus_secs(self, more: u64) -> Self {
        match self {
            Lifetime::Seconds(seconds) => match seconds.saturating_add(more) {
                sum @ ..=Self::SECS_MAX => Lifetime::Seconds(sum),
                _ => Lifetime::Eventually,
            },
            other => other,
        }
    }
}

/// The longest walltime, in seconds: 100 years. More is a typing error, or means `unlimited`.
pub const WALLTIME_SECS_MAX: u64 = 100 * 366 * 24 * 3600;

/// Returns the walltime annotation of an object; the error is about an unusable value.
pub fn of_object(metadata: &ObjectMeta) -> Option<Result<Lifetime, Unsupported>> {
    let value = annotation(metadata, WALLTIME)?;
    Some(parse(value).map_err(|reason| Unsupported {
        field: format!("metadata.annotations[{WALLTIME}]"),
        message: format!("{} {reason}", text::quoted(value)),
    }))
}

/// Reads a walltime. Parts of a second count as a whole one; the error continues a sentence that
/// begins with the text.
pub fn parse(text: &str) -> Result<Lifetime, &'static str> {
    let text = text.trim();
    if ["unlimited", "inf", "infinity"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Ok(Lifetime::Endless);
    }
    if text.starts_with('-') {
        return Err("is negative");
    }
    let micros = parse_micros(text)?;
    let seconds = micros.div_ceil(1_000_000);
    match u64::try_from(seconds) {
        Ok(0) => Err("is not more than 0 (write `unlimited` for a service)"),
        Ok(seconds) if seconds <= WALLTIME_SECS_MAX => Ok(Lifetime::Seconds(seconds)),
        _ => Err("is longer than 100 years (write `unlimited` for a service)"),
    }
}

/// Adds one or more numbers with units; a number alone is seconds.
fn parse_micros(text: &str) -> Result<u128, &'static str> {
    const MALFORMED: &str =
        "is not a duration: expected for example 90, 1.5h, 1h30m, 2d or `unlimited`";
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return Err(MALFORMED);
    }
    let mut total = 0_u128;
    let mut first = true;
    while !rest.is_empty() {
        let number_len = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(number_len);
        let unit_len = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_len);
        let unit_micros = match unit {
            // A number without a unit means seconds only if it stands alone: "1h30" is more likely
            // a mistake.
            "" if first && next.is_empty() => 1_000_000,
            "us" | "µs" | "μs" => 1,
            "ms" => 1000,
            "s" => 1_000_000,
            "m" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => 86_400_000_000,
            _ => return Err(MALFORMED),
        };
        total = total.saturating_add(times(number, unit_micros).ok_or(MALFORMED)?);
        first = false;
        rest = next;
    }
    Ok(total)
}

/// Returns a decimal number times `unit`, rounded up; saturates, so that a time that is far too
/// long is reported as such.
fn times(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
        return None;
    }
    let value = |text: &str| {
        text.bytes().fold(0_u128, |value, digit| {
            value.saturating_mul(10).saturating_add(u128::from(digit - b'0'))
        })
    };
    // After 18 digits a fraction is below a microsecond, whatever the unit.
    let fraction = &fraction[..fraction.len().min(18)];
    let part = (value(fraction) * unit).div_ceil(10_u128.pow(u32::try_from(fraction.len()).ok()?));
    Some(value(whole).saturating_mul(unit).saturating_add(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_duration_is_read() {
        let cases = [
            ("90", 90),
            ("0.5", 1),
            ("1.5h", 5400),
            ("30m", 1800),
            ("2d", 172_800),
            ("1h30m", 5400),
            ("1h30m15.5s", 5416),
            ("90s", 90),
            ("100ms", 1),
            ("1000ms", 1),
            ("1001ms", 2),
            ("1us", 1),
            (".5h", 1800),
            ("+5m", 300),
            (" 60 ", 60),
            ("3162240000", WALLTIME_SECS_MAX),
        ];
        for (text, seconds) in cases {
            assert_eq!(parse(text), Ok(Lifetime::Seconds(seconds)), "{text:?}");
        }
        for text in ["unlimited", "inf", "Infinity", "UNLIMITED"] {
            assert_eq!(parse(text), Ok(Lifetime::Endless), "{text:?}");
        }
    }

    #[test]
    fn texts_that_are_no_duration_are_refused() {
        for text in [
            "", " ", "abc", "1x", "1h30", "h", ".", "1..5h", "1 h", "1h 30m", "s30", "nan", "1e3",
            "5M",
        ] {
            assert!(
                parse(text).is_err_and(|reason| reason.starts_with("is not a duration")),
                "{text:?}"
            );
        }
        assert_eq!(parse("-5"), Err("is negative"));
        for text in ["0", "0s", "0.0h"] {
            assert!(
                parse(text).is_err_and(|reason| reason.starts_with("is not more than 0")),
                "{text:?}"
            );
        }
        for text in ["3162240001", "99999999999999999999999999999999999999999999d"] {
            assert!(parse(text).is_err_and(|reason| reason.starts_with("is longer")), "{text:?}");
        }
    }

    #[test]
    fn the_error_names_the_annotation_and_its_value() {
        let metadata = ObjectMeta {
            annotations: Some([(WALLTIME.to_owned(), "soon".to_owned())].into()),
            ..ObjectMeta::default()
        };
        let error = of_object(&metadata).unwrap().unwrap_err().to_string();
        let expected = "metadata.annotations[fluxqueue/walltime]: \"soon\" is not a duration";
        assert!(error.starts_with(expected), "{error}");
        assert_eq!(of_object(&ObjectMeta::default()), None);
    }
}
