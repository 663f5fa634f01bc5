//! Durations, for people.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "durations are rounded down to whole seconds, and are not negative"
)]

/// Formats a duration as `1d 02:03:04`; short ones are without leading zeros.
pub(super) fn duration(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (days, hours, minutes, rest) =
        (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest} s"),
        (0, 0, _) => format!("{minutes}:{rest:02}"),
        (0, ..) => format!("{hours}:{minutes:02}:{rest:02}"),
        _ => format!("{days}d {hours:02}:{minutes:02}:{rest:02}"),
    }
}
