//! Sets of ids as text: RFC 22 of the Flux project, such as `0-3,7`.
//!
//! Strict: ids ascend, none is repeated, none has a leading zero. Square brackets around the set
//! are optional on the way in, and never written.

use std::fmt::Write as _;

/// The most ids that are read from one text, which may come from a person: `0-4294967295` is short.
pub const IDS_MAX: usize = 1_000_000;

/// The reason why a text is no idset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdsetError {
    /// A `[` without `]`, or the reverse.
    #[error("idset {0:?}: a bracket is missing")]
    Bracket(String),
    /// An element that is no id.
    #[error("idset: {0:?} is not a number below 2^32 without leading zeros")]
    Id(String),
    /// An id that is not larger than the one before.
    #[error("idset: {id} does not follow {before}")]
    Order {
        /// The id before.
        before: u32,
        /// The id.
        id: u32,
    },
    /// More than [`IDS_MAX`] ids.
    #[error("idset has more than {IDS_MAX} ids")]
    TooMany,
}

/// Writes ascending ids, with runs of them as ranges.
pub fn encode(ids: impl IntoIterator<Item = u32>) -> String {
    let mut text = String::new();
    let mut run: Option<(u32, u32)> = None;
    for id in ids {
        run = match run {
            Some((first, last)) if last.checked_add(1) == Some(id) => Some((first, id)),
            Some((first, last)) => {
                debug_assert!(last < id, "ids must ascend: {last}, {id}");
                push_range(&mut text, first, last);
                Some((id, id))
            }
            None => Some((id, id)),
        };
    }
    if let Some((first, last)) = run {
        push_range(&mut text, first, last);
    }
    text
}

/// Reads an idset.
pub fn decode(text: &str) -> Result<Vec<u32>, IdsetError> {
    let inner = match (text.strip_prefix('['), text.ends_with(']')) {
        (Some(rest), true) => &rest[..rest.len() - 1],
        (None, false) => text,
        _ => return Err(IdsetError::Bracket(text.to_owned())),
    };
    let mut ids: Vec<u32> = Vec::new();
    if inner.is_empty() {
        return Ok(ids);
    }
    for element in inner.split(',') {
        let (first, last) = element.split_once('-').unwrap_or((element, element));
        let (first, last) = (parse_id(first)?, parse_id(last)?);
        if let Some(&before) = ids.last().filter(|before| **before >= first) {
            return Err(IdsetError::Order { before, id: first });
        }
        if last < first {
            return Err(IdsetError::Order { before: first, id: last });
        }
        if (last - first) as usize >= IDS_MAX - ids.len() {
            return Err(IdsetError::TooMany);
        }
        ids.extend(first..=last);
    }
    Ok(ids)
}

fn parse_id(text: &str) -> Result<u32, IdsetError> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain).ok_or_else(|| IdsetError::Id(text.to_owned()))
}

/// Appends `first-last` to a comma-separated list; one id stands alone.
fn push_range(text: &mut String, first: u32, last: u32) {
    if !text.is_empty() {
        text.push(',');
    }
    let written =
        if first == last { write!(text, "{first}") } else { write!(text, "{first}-{last}") };
    written.expect("a String takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn examples_of_the_rfc() {
        assert_eq!(encode([1, 2, 3, 5, 6, 42]), "1-3,5-6,42");
        for text in ["1,2,3,5,6,42", "1-3,5-6,42", "[1-3,5-6,42]"] {
            assert_eq!(decode(text).unwrap(), [1, 2, 3, 5, 6, 42], "{text}");
        }
        assert_eq!(encode([]), "");
        assert_eq!(decode("").unwrap(), [0; 0]);
        assert_eq!(decode("[]").unwrap(), [0; 0]);
        assert_eq!(decode("4294967294-4294967295").unwrap(), [u32::MAX - 1, u32::MAX]);
        assert_eq!(encode([u32::MAX - 1, u32::MAX]), "4294967294-4294967295");
    }

    #[test]
    fn texts_that_are_no_idset() {
        for text in
            ["01", "1,", ",1", "1-", "-1", "1-2-3", " 1", "+1", "1 ", "a", "4294967296", "0x1"]
        {
            assert!(matches!(decode(text), Err(IdsetError::Id(_))), "{text:?}: {:?}", decode(text));
        }
        for text in ["1,1", "2,1", "1-3,3", "3-1"] {
            assert!(
                matches!(decode(text), Err(IdsetError::Order { .. })),
                "{text:?}: {:?}",
                decode(text)
            );
        }
        for text in ["[1", "1]", "[", "]"] {
            assert!(
                matches!(decode(text), Err(IdsetError::Bracket(_))),
                "{text:?}: {:?}",
                decode(text)
            );
        }
    }

    #[test]
    fn a_short_text_cannot_ask_for_much_memory() {
        assert_eq!(decode("0-999999").unwrap().len(), IDS_MAX);
        assert_eq!(decode("0-1000000"), Err(IdsetError::TooMany));
        assert_eq!(decode("0-999998,1000000,1000002"), Err(IdsetError::TooMany));
        assert_eq!(decode("0-4294967295"), Err(IdsetError::TooMany));
    }

    proptest! {
        #[test]
        fn reads_back_its_own_text(
            ids: BTreeSet<u32>,
            dense in prop::collection::btree_set(0_u32..64, 0..40),
        ) {
            for set in [ids, dense] {
                let text = encode(set.iter().copied());
                prop_assert_eq!(decode(&text).unwrap(), set.into_iter().collect::<Vec<_>>());
            }
        }

        #[test]
        fn never_panics(text in "[0-9,\\[\\]-]{0,20}") {
            let _ = decode(&text);
        }
    }
}
