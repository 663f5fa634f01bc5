//! Writing a list of host names as flux-sched writes those of an R.

use std::fmt::Write as _;

/// Appends `names` to `out`, joining neighbours with names that end in consecutive numbers.
pub fn write<'a>(out: &mut String, names: impl IntoIterator<Item = &'a str>) {
    let mut names = names.into_iter().map(Host::of).peekable();
    let mut separator = "";
    while let Some(first) = names.next() {
        let mut ranges = vec![(first.number, first.number)];
        while let Some(next) = names.next_if(|next| first.joins(next)) {
            match ranges.last_mut() {
                Some(open) if open.1.and_then(|last| last.checked_add(1)) == next.number => {
                    open.1 = next.number;
                }
                _ => ranges.push((next.number, next.number)),
            }
        }
        out.push_str(separator);
        separator = ",";
        first.write(out, &ranges);
    }
}

/// Splits a name before the digits in which it ends.
pub fn stem_and_digits(name: &str) -> (&str, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    name.split_at(stem.len())
}

/// A name, cut before its trailing digits.
struct Host<'a> {
    stem: &'a str,
    digits: &'a str,
    number: Option<u64>,
}

type Range = (Option<u64>, Option<u64>);

impl<'a> Host<'a> {
    fn of(name: &'a str) -> Self {
        let (stem, digits) = stem_and_digits(name);
        // Numbers too long for 64 bits stand for themselves.
        let number = if digits.len() < 19 { digits.parse().ok() } else { None };
        Host { stem: if number.is_none() { name } else { stem }, digits, number }
    }

    /// May stand in one bracket behind this one: same stem, and the same padding.
    fn joins(&self, other: &Host<'_>) -> bool {
        let padded = |host: &Host<'_>| host.digits.len() > 1 && host.digits.starts_with('0');
        let width_fits =
            if padded(self) { self.digits.len() == other.digits.len() } else { !padded(other) };
        self.number.is_some() && other.number.is_some() && self.stem == other.stem && width_fits
    }

    fn write(&self, out: &mut String, ranges: &[Range]) {
        out.push_str(self.stem);
        let width = if self.digits.starts_with('0') { self.digits.len() } else { 0 };
        let bracket = ranges.len() > 1 || ranges.iter().any(|(first, last)| first != last);
        if bracket {
            out.push('[');
        }
        for (at, (first, last)) in ranges.iter().enumerate() {
            let separator = if at == 0 { "" } else { "," };
            // Writing into a String cannot fail.
            let _ = match (first, last) {
                (Some(first), Some(last)) if first != last => {
                    write!(out, "{separator}{first:0width$}-{last:0width$}")
                }
                (Some(first), _) => write!(out, "{separator}{first:0width$}"),
                (None, _) => Ok(()),
            };
        }
        if bracket {
            out.push(']');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compresses_neighbours() {
        let written = |names: &[&str]| {
            let mut out = String::new();
            write(&mut out, names.iter().copied());
            out
        };
        assert_eq!(written(&["n0", "n1", "n2", "n9", "x"]), "n[0-2,9],x");
        assert_eq!(written(&["n08", "n09", "n10"]), "n[08-10]");
        assert_eq!(written(&["n9", "n10"]), "n[9-10]");
        assert_eq!(written(&["n10", "n08"]), "n10,n08");
        assert_eq!(written(&["a", "b"]), "a,b");
        assert_eq!(written(&["n3"]), "n3");
    }
}
