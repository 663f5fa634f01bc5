//! Lists of host names as RFC 29 writes them: `node[0-3,07],login`.

mod rfc;

use std::fmt::Write as _;

pub use rfc::{BYTES_MAX, HOSTS_MAX, HostlistError, decode, encode, encode_set};

/// The reason why a text is no hostlist for flux-sched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamHostlistError {
    /// A name is missing, or a bracket does not match or has something else than numbers.
    #[error("cannot be read")]
    Unreadable,
    /// A number has more digits than the budget allows.
    #[error("more digits in a number than allowed")]
    Digits,
    /// The names would be more, or longer, than the rest of the budget.
    #[error("more names, or bytes of names, than allowed")]
    TooMany,
}

/// The names that the lists of one document may still have.
#[derive(Debug, Clone)]
pub struct Budget {
    hosts: usize,
    bytes: usize,
    /// The most digits of a number, zeros in front included.
    digits: usize,
}

impl Budget {
    /// Allows `hosts` names with `bytes` bytes in all, and `digits` digits in each number.
    pub fn new(hosts: usize, bytes: usize, digits: usize) -> Self {
        Budget { hosts, bytes, digits }
    }

    /// Spends the bytes that `names` names grow to. `None`: there are not as many left, or not as
    /// many names.
    fn grow(&mut self, names: usize, bytes: usize) -> Option<()> {
        self.hosts.checked_sub(names)?;
        self.bytes = self.bytes.checked_sub(names.checked_mul(bytes)?)?;
        Some(())
    }

    /// Spends names that are finished. `None`: there are not as many left.
    fn finish(&mut self, names: usize) -> Option<()> {
        self.hosts = self.hosts.checked_sub(names)?;
        Some(())
    }
}

/// Reads a hostlist as flux-sched does, as far as the budget of the document goes.
pub fn decode_upstream(
    text: &str,
    budget: &mut Budget,
) -> Result<Vec<String>, UpstreamHostlistError> {
    let wrong = || UpstreamHostlistError::Unreadable;
    let too_much = || UpstreamHostlistError::TooMany;
    let mut hosts = Vec::new();
    for part in split(text).ok_or_else(wrong)? {
        let mut names = vec![String::new()];
        let mut rest = part;
        while let Some(open) = rest.find('[') {
            let close = rest.find(']').filter(|close| *close > open).ok_or_else(wrong)?;
            let inside = &rest[open + 1..close];
            if Bracket::has_too_long_a_one(inside, budget.digits) {
                return Err(UpstreamHostlistError::Digits);
            }
            let bracket = Bracket::read(inside).ok_or_else(wrong)?;
            let prefix = &rest[..open];
            // Each name grows by the text before the bracket, and by a number.
            let longest =
                names.iter().map(String::len).max().unwrap_or(0) + prefix.len() + bracket.digits;
            let more = bracket.count.checked_mul(names.len()).ok_or_else(too_much)?;
            budget.grow(more, longest).ok_or_else(too_much)?;
            let numbers = bracket.written();
            names = names
                .iter()
                .flat_map(|name| {
                    numbers.iter().map(move |number| format!("{name}{prefix}{number}"))
                })
                .collect();
            rest = &rest[close + 1..];
        }
        if rest.contains(']') || part.is_empty() {
            return Err(wrong());
        }
        let grown = budget.grow(names.len(), rest.len()).and_then(|()| budget.finish(names.len()));
        grown.ok_or_else(too_much)?;
        for name in &mut names {
            name.push_str(rest);
        }
        hosts.append(&mut names);
    }
    Ok(hosts)
}

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

/// The numbers of a bracket, not yet written out.
struct Bracket {
    /// First, last, and how many digits the first has at least.
    ranges: Vec<(u64, u64, usize)>,
    /// How many numbers these are.
    count: usize,
    /// The most digits that one of them has.
    digits: usize,
}

impl Bracket {
    /// True if a number in the text of a bracket has more digits than any may have.
    fn has_too_long_a_one(text: &str, digits_max: usize) -> bool {
        let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        // As upstream, which takes a plus sign in front of a number.
        let mut parts = text.split([',', '-']).map(|part| part.strip_prefix('+').unwrap_or(part));
        parts.any(|part| part.len() > digits_max && is_digits(part))
    }

    fn read(text: &str) -> Option<Self> {
        let mut bracket = Bracket { ranges: Vec::new(), count: 0, digits: 0 };
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (from, to): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            let more = usize::try_from(to.checked_sub(from)?).ok()?.checked_add(1)?;
            bracket.count = bracket.count.checked_add(more)?;
            bracket.digits = bracket.digits.max(first.len()).max(last.len());
            bracket.ranges.push((from, to, first.len()));
        }
        Some(bracket)
    }

    /// Each number as text, padded as written.
    fn written(&self) -> Vec<String> {
        let numbers = self
            .ranges
            .iter()
            .flat_map(|(from, to, width)| (*from..=*to).map(move |n| (n, *width)));
        numbers.map(|(number, width)| format!("{number:0width$}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All names of the only list of a document, with at most 20 digits in a number.
    fn expand(text: &str) -> Result<Vec<String>, UpstreamHostlistError> {
        decode_upstream(text, &mut Budget::new(1 << 20, 64 << 20, 20))
    }

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
    fn limits_digits_names_and_bytes_before_any_is_written() {
        // The digits of a number, in front of which zeros and a sign may stand.
        for sign in ["", "+"] {
            let text = format!("n[{sign}{}1]", "0".repeat(65_537));
            assert_eq!(expand(&text), Err(UpstreamHostlistError::Digits));
        }
        assert!(expand(&format!("n[{}1]", "0".repeat(19))).is_ok());
        assert!(expand(&format!("n[{}1]", "0".repeat(20))).is_err());
        // Few names, each long; many names; brackets that multiply.
        let long = "x".repeat(10_000);
        for text in [
            format!("{long}[0-9999]"),
            format!("n[0-9999]{long}"),
            "n[0-1048576]".to_owned(),
            "a[0-999]b[0-999]c[0-999]".to_owned(),
        ] {
            assert_eq!(expand(&text), Err(UpstreamHostlistError::TooMany), "{}", text.len());
        }
        let all = expand("n[0-18446744073709551615]");
        assert_eq!(all, Err(UpstreamHostlistError::Unreadable));
        // The lists of a document share one budget.
        let mut budget = Budget::new(1 << 20, 64 << 20, 20);
        assert!(decode_upstream("n[0-599999]", &mut budget).is_ok());
        assert!(decode_upstream("m[0-599999]", &mut budget).is_err());
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
        assert_eq!(written(&["n10", "n08"]), "n10,n08");
        assert_eq!(written(&["a", "b"]), "a,b");
        assert_eq!(written(&["n3"]), "n3");
    }
}
