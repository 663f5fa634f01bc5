//! Output of commands as a page shows it, compared with the real one.

use std::collections::BTreeMap;

/// Replaces each time as objects have it, such as `2026-01-05T14:05:00.000000Z`, by `STAMP`.
fn without_stamps(line: &str) -> String {
    const FORM: &str = "0000-00-00T00:00:00";
    let is_stamp = |text: &str| {
        text.len() >= FORM.len()
            && text.bytes().zip(FORM.bytes()).all(|(byte, form)| match form {
                b'0' => byte.is_ascii_digit(),
                _ => byte == form,
            })
    };
    let mut rest = line;
    let mut without = String::new();
    while let Some(next) = rest.chars().next() {
        if is_stamp(rest) {
            let end =
                rest[FORM.len()..].trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
            without.push_str("STAMP");
            rest = end.strip_prefix('Z').unwrap_or(end);
        } else {
            without.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    without
}

/// Replaces words that are times and ages by their kinds: `14:05` by `CLOCK`, `2 h 5 min` by
/// `TIME`, `12m` by `AGE`. The seconds of a duration such as `1:00:05` do not count, and neither
/// does the space between words.
fn words(line: &str) -> Vec<String> {
    let line = without_stamps(line);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let bare = word.trim_end_matches(['.', ',', ':', ';']);
        let end = &word[bare.len()..];
        let clock = bare.trim_start_matches('~').split_once(':');
        let is_slurms = clock.is_some() && bare.split(':').all(is_number);
        let before = words.last().map(String::as_str);
        if is_slurms && before == Some("in") {
            // It was `in 1:00:05` a moment before, and is `in 59:55` now.
            words.push(format!("TIME{end}"));
        } else if clock
            .is_some_and(|(h, m)| h.len() == 2 && m.len() == 2 && is_number(h) && is_number(m))
        {
            // After midnight the day comes first: `~Mon 14:05`.
            let day = before.map(str::to_owned).filter(|it| is_day(it.trim_start_matches('~')));
            if day.is_some() {
                words.pop();
            }
            let is_forecast = word.starts_with('~') || day.is_some_and(|it| it.starts_with('~'));
            words.push(format!("{}CLOCK{end}", if is_forecast { "~" } else { "" }));
        } else if is_slurms && bare.len() > 5 {
            words.push(format!("{}SECONDS{end}", &bare[..bare.len() - 2]));
        } else if matches!(bare, "s" | "min" | "h" | "d") && before.is_some_and(is_number) {
            words.pop();
            if words.last().is_some_and(|it| it == "TIME") {
                words.pop();
            }
            words.push(format!("TIME{end}"));
        } else if bare == "now" {
            words.extend(["TIME".to_owned(), format!("ago{end}")]);
        } else if bare.strip_suffix(['s', 'm', 'h', 'd']).is_some_and(is_number) {
            words.push(format!("AGE{end}"));
        } else {
            words.push(word.to_owned());
        }
    }
    words
}

fn is_day(word: &str) -> bool {
    ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].contains(&word)
}

/// Returns the name that the API server made, if the word of the page is one like it: the same but
/// for its last five characters.
fn made_name(shown: &str, real: &str) -> Option<(String, String)> {
    let name = |word: &str| {
        let word = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        word.rsplit('/').next().unwrap_or_default().to_owned()
    };
    let (shown, real) = (name(shown), name(real));
    let (of_shown, of_real) = (shown.rsplit_once('-')?, real.rsplit_once('-')?);
    let is_made = of_shown.0 == of_real.0 && of_shown.1.len() == 5 && of_real.1.len() == 5;
    is_made.then_some((shown, real))
}

/// True if the output is that of the page, but for times, ages, the width of columns, and names
/// that the API server makes. A line `...` in the page stands for any lines. Notes which names of
/// the page are which.
pub(super) fn is_output(
    shown: &[String],
    real: &[&str],
    names: &mut BTreeMap<String, String>,
) -> bool {
    let Some((first, rest)) = shown.split_first() else { return real.is_empty() };
    if first == "..." {
        return (0..=real.len()).any(|skipped| is_output(rest, &real[skipped..], names));
    }
    let Some((line, others)) = real.split_first() else { return false };
    let (shown, real) = (words(first), words(line));
    let mut found = names.clone();
    let is_same = |(shown, real): (&String, &String)| {
        if shown == real {
            return true;
        }
        let Some((name, made)) = made_name(shown, real) else { return false };
        let before = found.entry(name.clone()).or_insert_with(|| made.clone()).clone();
        before == made && shown.replace(&name, &made) == *real
    };
    if shown.len() != real.len() || !shown.iter().zip(&real).all(is_same) {
        return false;
    }
    let is_all = is_output(rest, others, &mut found);
    if is_all {
        *names = found;
    }
    is_all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_ages_and_made_names_may_differ() {
        let is = |shown: &[&str], real: &[&str]| {
            let shown: Vec<String> = shown.iter().map(|line| (*line).to_owned()).collect();
            let mut names = BTreeMap::new();
            is_output(&shown, real, &mut names).then_some(names.into_values().collect::<Vec<_>>())
        };
        let same = is(
            &["job/a-x7k2d  14:05, in 41 min   3s", "a-x7k2d."],
            &["job/a-bbbbb Sat 09:00, in 1 h 2 min 4m", "a-bbbbb."],
        );
        assert_eq!(same, Some(vec!["a-bbbbb".to_owned()]));
        let stamp = r#"{"time":"2026-01-05T14:05:00.000000Z"} 2026-01-05T14:05:00Z"#;
        let other = r#"{"time":"2027-11-28T00:00:01.123456Z"} 2027-11-28T00:00:01Z"#;
        assert!(is(&[stamp], &[other]).is_some());
        assert!(is(&[stamp], &[&other.replace("time", "asOf")]).is_none());
        assert!(is(&["in 1:00:05, BY 2:00:33,"], &["in 59:55, BY 2:00:34,"]).is_some());
        assert!(is(&["at ~14:05, now"], &["at ~Mon 00:01, 2 s ago"]).is_some());
        assert!(is(&["a", "...", "z"], &["a", "b", "c", "z"]).is_some());
        for (shown, real) in [
            (["a-x7k2d a-x7k2d"], ["a-bbbbb a-ccccc"]),
            (["14:05"], ["~14:05"]),
            (["1:00:00"], ["2:00:00"]),
            (["1:00:00"], ["1:01:00"]),
            (["Running"], ["Pending"]),
            (["b-x7k2d"], ["a-bbbbb"]),
        ] {
            assert!(is(&shown, &real).is_none(), "{shown:?}");
        }
        assert!(is(&["a"], &["a", "b"]).is_none());
    }
}
