//! Sets of ids as RFC 22 writes them: `0-3,7`, brackets allowed.

use std::fmt::Write as _;

use crate::Error;

/// The ranges of an idset, each inclusive, in ascending order and disjoint.
pub(crate) fn parse(text: &str) -> Result<Vec<(u32, u32)>, Error> {
    let wrong = || Error::invalid(format!("idset {:?}: not a set of ids", shorten(text)));
    let mut body = text.trim();
    if let Some(rest) = body.strip_prefix('[') {
        body = rest.strip_suffix(']').ok_or_else(wrong)?;
    }
    if body.is_empty() {
        return Ok(Vec::new());
    }
    let mut ranges = Vec::new();
    for part in body.split(',') {
        let (first, last) = match part.split_once('-') {
            None => (id(part), id(part)),
            Some((first, last)) => (id(first), id(last)),
        };
        let (first, last) = (first.ok_or_else(wrong)?, last.ok_or_else(wrong)?);
        // As upstream, which takes "3-3" for no range.
        if first > last || (first == last && part.contains('-')) {
            return Err(wrong());
        }
        ranges.push((first, last));
    }
    ranges.sort_unstable();
    if ranges.windows(2).any(|pair| pair[0].1 >= pair[1].0) {
        return Err(Error::invalid(format!("idset {:?}: names an id twice", shorten(text))));
    }
    Ok(ranges)
}

/// Appends the ids, which must ascend, to `out`.
pub(crate) fn write(out: &mut String, ids: impl IntoIterator<Item = u32>) {
    let mut open: Option<(u32, u32)> = None;
    let mut separator = "";
    let mut flush = |out: &mut String, (first, last): (u32, u32)| {
        // Writing into a String cannot fail.
        let _ =
            if first == last { write!(out, "{separator}{first}") } else { write!(out, "{separator}{first}-{last}") };
        separator = ",";
    };
    for id in ids {
        open = match open {
            Some((first, last)) if last.checked_add(1) == Some(id) => Some((first, id)),
            Some(range) => {
                flush(out, range);
                Some((id, id))
            }
            None => Some((id, id)),
        };
    }
    if let Some(range) = open {
        flush(out, range);
    }
}

/// Digits only: no sign, no blank.
fn id(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) { None } else { text.parse().ok() }
}

fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_ranges_and_brackets() {
        assert_eq!(parse("7,0-3").unwrap(), [(0, 3), (7, 7)]);
        assert_eq!(parse("[1,2]").unwrap(), [(1, 1), (2, 2)]);
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn refuses_what_is_no_idset() {
        for wrong in ["a", "1-", "-1", "3-1", "3-3", "1,,2", "[1", "+1", "1,1", "0-4,3", "4294967296"] {
            assert_eq!(parse(wrong).unwrap_err().reason, crate::Reason::Invalid, "{wrong}");
        }
    }

    #[test]
    fn writes_what_it_reads() {
        let mut out = String::new();
        write(&mut out, [0, 1, 2, 5, 7, 8, u32::MAX]);
        assert_eq!(out, "0-2,5,7-8,4294967295");
    }
}
