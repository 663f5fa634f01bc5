//! Instants and durations for people: local time, and the distance from now.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer};

/// Reads an instant of an object; an unreadable one counts as absent.
pub(crate) fn lenient<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    let text: Option<serde_json::Value> = Option::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.as_str()?.parse().ok()))
}

/// Returns `at` in local time, without the parts that it shares with `now`: `14:05` today, `Mon
/// 14:05` within six days, else with its date.
pub(crate) fn clock(at: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let (local, today) = (at.to_zoned(zone.clone()), now.to_zoned(zone.clone()));
    let days = local.date().duration_since(today.date()).as_hours() / 24;
    let form = match days {
        0 => "%H:%M",
        -6..=6 => "%a %H:%M",
        _ => "%Y-%m-%d %H:%M",
    };
    local.strftime(form).to_string()
}

/// Returns the distance of `at` from now: `in 41 min`, `now`, `12 min ago`.
pub(crate) fn off(at: Timestamp, now: Timestamp) -> String {
    match at.as_second().saturating_sub(now.as_second()) {
        0 => "now".to_owned(),
        seconds @ 1.. => format!("in {}", roughly(seconds)),
        seconds => format!("{} ago", roughly(-seconds)),
    }
}

/// Returns both: `14:05, in 41 min`.
pub(crate) fn clock_and_off(at: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    format!("{}, {}", clock(at, now, zone), off(at, now))
}

/// Returns a number of seconds in its two largest units: `2 h 5 min`.
pub(crate) fn roughly(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let two = |first: i64, unit: &str, second: i64, smaller: &str| match second {
        0 => format!("{first} {unit}"),
        _ => format!("{first} {unit} {second} {smaller}"),
    };
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, ..) => two(hours, "h", minutes, "min"),
        _ => two(days, "d", hours, "h"),
    }
}

/// Returns a number of seconds as Slurm writes times: `1-02:03:04`, `2:03:04`, `3:04`.
pub(crate) fn slurm(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (days, hours, minutes, seconds) =
        (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{seconds:02}"),
        (0, _) => format!("{hours}:{minutes:02}:{seconds:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// Returns an age as kubectl writes it: `41s`, `12m`, `5h`, `3d`.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(since.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn an_instant_is_local_and_as_short_as_it_can_be() {
        let (now, zone) = (at("2026-01-05T13:24:00Z"), TimeZone::fixed(jiff::tz::offset(1)));
        let clock = |text| clock(at(text), now, &zone);
        assert_eq!(clock("2026-01-05T14:05:59.9Z"), "15:05");
        assert_eq!(clock("2026-01-05T23:30:00Z"), "Tue 00:30");
        assert_eq!(clock("2026-01-04T12:00:00Z"), "Sun 13:00");
        assert_eq!(clock("2026-01-12T12:00:00Z"), "2026-01-12 13:00");
        assert_eq!(clock("9999-12-30T12:00:00Z"), "9999-12-30 13:00");
    }

    #[test]
    fn how_far_off_it_is_has_two_units() {
        let now = at("2026-01-05T13:24:00Z");
        for (text, said) in [
            ("2026-01-05T14:05:00Z", "in 41 min"),
            ("2026-01-05T13:24:30Z", "in 30 s"),
            ("2026-01-05T13:24:00.5Z", "now"),
            ("2026-01-05T13:12:00Z", "12 min ago"),
            ("2026-01-05T15:29:00Z", "in 2 h 5 min"),
            ("2026-01-08T17:29:00Z", "in 3 d 4 h"),
            ("2026-01-06T13:24:00Z", "in 1 d"),
        ] {
            assert_eq!(off(at(text), now), said);
        }
        assert_eq!(off(Timestamp::MAX, Timestamp::MIN).split(' ').next(), Some("in"));
    }

    #[test]
    fn durations_are_written_as_slurm_and_kubectl_write_them() {
        assert_eq!([0, 65, 7_384, 93_784].map(slurm), ["0:00", "1:05", "2:03:04", "1-02:03:04"]);
        let now = at("2026-01-05T13:00:00Z");
        let ages = [1, 119, 120, 7_200, 172_800]
            .map(|ago| age(Timestamp::from_second(now.as_second() - ago).unwrap(), now));
        assert_eq!(ages, ["1s", "119s", "2m", "2h", "2d"]);
        assert_eq!(age(now, Timestamp::MIN), "0s");
    }
}
