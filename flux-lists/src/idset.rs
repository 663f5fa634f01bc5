//! Sets of ids as RFC 22 writes them: `0-3,7`, brackets allowed.

mod rfc;

pub use rfc::{IDS_MAX, IdsetError, decode, encode};

/// The reason why a text is no idset for flux-sched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamIdsetError {
    /// Something in it is no id and no range.
    #[error("not a set of ids")]
    Unreadable,
    /// Two elements share an id.
    #[error("names an id twice")]
    Twice,
}

/// Reads an idset as flux-sched does: its ranges, each inclusive, in ascending order and disjoint.
pub fn decode_upstream(text: &str) -> Result<Vec<(u32, u32)>, UpstreamIdsetError> {
    let wrong = || UpstreamIdsetError::Unreadable;
    let mut body = text.trim();
    if let Some(rest) = body.strip_prefix('[') {
        body = rest.strip_suffix(']').ok_or_else(wrong)?;
    }
    let mut ranges = Vec::new();
    let mut rest = body.as_bytes();
    while !rest.is_empty() || !ranges.is_empty() {
        let first = take_id(&mut rest).ok_or_else(wrong)?;
        let last = match rest {
            [b'-', behind @ ..] => {
                rest = behind;
                // As upstream, which takes "3-3" for no range.
                take_id(&mut rest).filter(|last| first < *last).ok_or_else(wrong)?
            }
            _ => first,
        };
        ranges.push((first, last));
        rest = match rest {
            [] => break,
            [b',', behind @ ..] => behind,
            _ => return Err(wrong()),
        };
    }
    if !ranges.is_sorted() {
        ranges.sort_unstable();
    }
    if ranges.windows(2).any(|pair| pair[0].1 >= pair[1].0) {
        return Err(UpstreamIdsetError::Twice);
    }
    Ok(ranges)
}

/// True if ascending, disjoint ranges hold an id.
pub fn holds(ranges: &[(u32, u32)], id: u32) -> bool {
    let at = ranges.partition_point(|(_, last)| *last < id);
    ranges.get(at).is_some_and(|(first, _)| *first <= id)
}

/// Sorts ranges and joins those that overlap.
pub fn merge(mut ranges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    if ranges.windows(2).all(|pair| pair[0].1 < pair[1].0) {
        return ranges;
    }
    ranges.sort_unstable();
    let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(open) if first <= open.1 => open.1 = open.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    merged
}

/// Takes the digits at the beginning: no sign, no blank.
fn take_id(rest: &mut &[u8]) -> Option<u32> {
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (id, behind) = rest.split_at(digits);
    *rest = behind;
    let next = |id: u32, digit: &u8| id.checked_mul(10)?.checked_add(u32::from(digit - b'0'));
    if id.is_empty() { None } else { id.iter().try_fold(0, next) }
}

/// Appends the ids, which must ascend, to `out`.
pub fn write(out: &mut String, ids: impl IntoIterator<Item = u32>) {
    let mut open: Option<(u32, u32)> = None;
    let mut separator = "";
    let mut flush = |out: &mut String, (first, last): (u32, u32)| {
        out.push_str(separator);
        separator = ",";
        let mut digits = itoa::Buffer::new();
        out.push_str(digits.format(first));
        if first != last {
            out.push('-');
            out.push_str(digits.format(last));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_ranges_and_brackets() {
        assert_eq!(decode_upstream("7,0-3").unwrap(), [(0, 3), (7, 7)]);
        assert_eq!(decode_upstream("[1,2]").unwrap(), [(1, 1), (2, 2)]);
        assert_eq!(decode_upstream("").unwrap(), []);
    }

    #[test]
    fn refuses_what_is_no_idset() {
        for wrong in [
            "a",
            "1-",
            "-1",
            "1-2-3",
            "1-,2",
            ",",
            "1,",
            "3-1",
            "3-3",
            "1,,2",
            "[1",
            "+1",
            "1,1",
            "0-4,3",
            "4294967296",
        ] {
            assert!(decode_upstream(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn finds_ids_in_merged_ranges() {
        let ranges = merge(vec![(7, 9), (0, 3), (2, 5), (9, 9)]);
        assert_eq!(ranges, [(0, 5), (7, 9)]);
        let held: Vec<u32> = (0..12).filter(|id| holds(&ranges, *id)).collect();
        assert_eq!(held, [0, 1, 2, 3, 4, 5, 7, 8, 9]);
        assert!(!holds(&[], 0));
    }

    #[test]
    fn writes_what_it_reads() {
        let mut out = String::new();
        write(&mut out, [0, 1, 2, 5, 7, 8, u32::MAX]);
        assert_eq!(out, "0-2,5,7-8,4294967295");
    }
}
