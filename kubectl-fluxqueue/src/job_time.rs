//! Time limits as users of Slurm and of Fluxqueue write them.
//!
//! A number alone is in minutes, as with `sbatch --time`; a time with colons and dashes is read as
//! in Slurm too. A time with units has the form of the annotation `fluxqueue/walltime` (`90s`,
//! `1h30m`, `2d`). The annotation itself is always written in seconds with their unit, so that no
//! number changes its meaning.

use fluxqueue_workload::Lifetime;
use fluxqueue_workload::walltime::{WALLTIME_SECS_MAX, parse as parse_units};

/// Reads a time limit, in seconds; the error continues a sentence that begins with the text.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let malformed = || {
        "is no time limit: expected minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S, or with units such \
         as 1h30m"
            .to_owned()
    };
    let is_slurms = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'-'))
        && text.starts_with(|c: char| c.is_ascii_digit());
    if !is_slurms {
        // The annotation reads a number without a unit as seconds; here a number is minutes.
        if !text.ends_with(|c: char| c.is_alphabetic()) {
            return Err(malformed());
        }
        return match parse_units(text).map_err(|_| malformed())? {
            Lifetime::Seconds(seconds) => Ok(seconds),
            _ => {
                Err("has no end: leave the time limit out, and see the default of the queue"
                    .to_owned())
            }
        };
    }
    let number = |text: &str| -> Result<u64, String> {
        text.parse().ok().filter(|number| *number <= WALLTIME_SECS_MAX).ok_or_else(malformed)
    };
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(number(days)?), rest),
        None => (None, text),
    };
    let parts: Vec<u64> = rest.split(':').map(number).collect::<Result<_, _>>()?;
    let seconds = match (days, parts.as_slice()) {
        (None, [minutes]) => minutes * 60,
        (None, [minutes, seconds]) => minutes * 60 + seconds,
        (None, [hours, minutes, seconds]) => hours * 3_600 + minutes * 60 + seconds,
        (Some(days), [hours]) => days * 86_400 + hours * 3_600,
        (Some(days), [hours, minutes]) => days * 86_400 + hours * 3_600 + minutes * 60,
        (Some(days), [hours, minutes, seconds]) => {
            days * 86_400 + hours * 3_600 + minutes * 60 + seconds
        }
        _ => return Err(malformed()),
    };
    match seconds {
        0 => Err("is 0: in Slurm that means no limit; leave it out instead".to_owned()),
        1..=WALLTIME_SECS_MAX => Ok(seconds),
        _ => Err("is longer than 100 years".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slurms_and_fluxqueues_times_are_read() {
        for (text, seconds) in [
            ("90", 5_400),
            ("30:15", 1_815),
            ("1:30:00", 5_400),
            ("1-0", 86_400),
            ("1-12:30", 131_400),
            ("2-01:00:05", 176_405),
            ("1h30m", 5_400),
            ("90s", 90),
            ("1.5h", 5_400),
            ("2d", 172_800),
        ] {
            assert_eq!(parse(text), Ok(seconds), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_says_so() {
        for text in ["", "-5", "1-", "1:2:3:4", "1-2:3:4:5", "1--2", ":", "9999999999999999999999"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        // Here a number is minutes, and not seconds as in the annotation.
        for text in ["1.5", ".5", "+5", "1h30"] {
            assert_eq!(parse(text), parse("soon"), "{text}");
        }
        assert!(parse("soon").unwrap_err().starts_with("is no time limit: expected minutes"));
        assert!(parse("0").unwrap_err().contains("no limit"));
        assert!(parse("unlimited").unwrap_err().contains("no end"));
        assert!(parse("40000-0").unwrap_err().contains("100 years"));
    }

    proptest! {
        #[test]
        fn no_text_is_too_much(text in "[0-9:.dhms-]{0,40}") {
            if let Ok(seconds) = parse(&text) {
                prop_assert!((1..=WALLTIME_SECS_MAX).contains(&seconds));
            }
        }
    }
}
