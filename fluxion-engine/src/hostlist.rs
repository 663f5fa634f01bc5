//! Lists of host names as RFC 29 writes them: `node[0-3,07],login`.

use std::fmt::Write as _;

use crate::Error;

/// One list names at most this many hosts.
const HOSTS_MAX: usize = 1 << 20;

/// All names, in the order in which they are written.
pub(crate) fn expand(text: &str) -> Result<Vec<String>, Error> {
    let wrong = || Error::invalid(format!("hostlist {text:?}: cannot be read"));
    let mut hosts = Vec::new();
    for part in split(text).ok_or_else(wrong)? {
        let mut names = vec![String::new()];
        let mut rest = part;
        while let Some(open) = rest.find('[') {
            let close = rest.find(']').filter(|close| *close > open).ok_or_else(wrong)?;
            let numbers = numbers(&rest[open + 1..close], names.len()).ok_or_else(wrong)?;
            let prefix = &rest[..open];
            names = names
                .iter()
                .flat_map(|name| numbers.iter().map(move |number| format!("{name}{prefix}{number}")))
                .collect();
            rest = &rest[close + 1..];
        }
        if rest.contains(']') || part.is_empty() {
            return Err(wrong());
        }
        for name in &mut names {
            name.push_str(rest);
        }
        hosts.append(&mut names);
        if hosts.len() > HOSTS_MAX {
            return Err(wrong());
        }
    }
    Ok(hosts)
}

/// Appends `names` to `out`, joining neighbours whose names end in consecutive numbers.
pub(crate) fn write<'a>(out: &mut String, names: impl IntoIterator<Item = &'a str>) {
    let mut names = names.into_iter().map(Host::of).peekable();
    let mut separator = "";
    while let Some(first) = names.next() {
        let mut ranges = vec![(first.number, first.number)];
        while let Some(next) = names.next_if(|next| first.joins(next)) {
            match ranges.last_mut() {
                Some(open) if open.1.and_then(|last| last.checked_add(1)) == next.number => open.1 = next.number,
                _ => ranges.push((next.number, next.number)),
            }
        }
        out.push_str(separator);
        separator = ",";
        first.write(out, &ranges);
    }
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
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &name[stem.len()..];
        // Numbers too long for 64 bits stand for themselves.
        let number = if digits.len() < 19 { digits.parse().ok() } else { None };
        Host { stem: if number.is_none() { name } else { stem }, digits, number }
    }

    /// May stand in one bracket: same stem, and the same padding.
    fn joins(&self, other: &Host<'_>) -> bool {
        let padded = |host: &Host<'_>| host.digits.len() > 1 && host.digits.starts_with('0');
        self.number.is_some()
            && other.number.is_some()
            && self.stem == other.stem
            && (self.digits.len() == other.digits.len() || (!padded(self) && !padded(other)))
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
                (Some(first), Some(last)) if first != last => write!(out, "{separator}{first:0width$}-{last:0width$}"),
                (Some(first), _) => write!(out, "{separator}{first:0width$}"),
                (None, _) => Ok(()),
            };
        }
        if bracket {
            out.push(']');
        }
    }
}

/// Splits at commas outside of brackets.
fn split(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '[' if inside => return None,
            '[' => inside = true,
            ']' => inside = false,
            ',' if !inside => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    (!inside).then_some(parts)
}

/// The numbers of a bracket, padded as written; `None` if they, times the names so far, are too many.
fn numbers(text: &str, names: usize) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let width = first.len();
        let (from, to): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        let length = usize::try_from(to.checked_sub(from)?).ok()?;
        if length.checked_add(all.len())?.checked_mul(names)? >= HOSTS_MAX {
            return None;
        }
        all.extend((from..=to).map(|number| format!("{number:0width$}")));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expands_brackets_and_padding() {
        assert_eq!(expand("n[0-2,9],x").unwrap(), ["n0", "n1", "n2", "n9", "x"]);
        assert_eq!(expand("n[08-10]").unwrap(), ["n08", "n09", "n10"]);
        assert_eq!(expand("r[0-1]n[0-1]").unwrap(), ["r0n0", "r0n1", "r1n0", "r1n1"]);
        for wrong in ["n[", "n]", "n[1", "n[3-1]", "", "n[0-99999999999]", "n[x]"] {
            assert!(expand(wrong).is_err(), "{wrong}");
        }
    }

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
        assert_eq!(written(&["a", "b"]), "a,b");
        assert_eq!(written(&["n3"]), "n3");
    }
}
