//! Sets of ids as text: `0-3,7`, with or without square brackets around it.
//!
//! One reader takes a text apart ([`elements`]). Which elements make a set depends on the dialect:
//!
//! | text | [`decode`]: RFC 22 | [`decode_upstream`]: flux-sched | [`elements`] |
//! |---|---|---|---|
//! | blanks around the set: ` 0-3 ` | refused | passed over | refused |
//! | zeros in front: `07` | refused | taken | taken |
//! | a range of one: `3-3` | taken | refused | taken |
//! | any order: `7,0-3` | refused | sorted | taken |
//! | an id twice: `3,0-4` | refused | refused | taken |
//! | a backward range: `3-1` | refused | refused | taken |
//! | many ids: `0-4294967295` | refused beyond [`IDS_MAX`] | a range | a range |
//! | a bracket alone, an empty element, a sign, an id of 2^32 | refused | refused | refused |
//!
//! One writer has the text that RFC 22 asks for: ascending, runs of ids as ranges, no brackets.

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

/// Reads an idset as RFC 22 has it: each id, in ascending order.
pub fn decode(text: &str) -> Result<Vec<u32>, IdsetError> {
    let bracket = || IdsetError::Bracket(text.to_owned());
    let mut ids: Vec<u32> = Vec::new();
    for element in (Elements { zeros: false, ..elements(text).ok_or_else(bracket)? }) {
        let (first, last) = element.map_err(|text| IdsetError::Id(text.to_owned()))?;
        if let Some(&before) = ids.last().filter(|before| **before >= first) {
            return Err(IdsetError::Order { before, id: first });
        }
        let last = last.unwrap_or(first);
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

/// Reads an idset as flux-sched does: its ranges, each inclusive, in ascending order and disjoint.
pub fn decode_upstream(text: &str) -> Result<Vec<(u32, u32)>, UpstreamIdsetError> {
    let mut ranges = Vec::new();
    for element in elements(text.trim()).ok_or(UpstreamIdsetError::Unreadable)? {
        let (first, last) = element.map_err(|_| UpstreamIdsetError::Unreadable)?;
        if last.is_some_and(|last| last <= first) {
            return Err(UpstreamIdsetError::Unreadable);
        }
        ranges.push((first, last.unwrap_or(first)));
    }
    if !ranges.is_sorted() {
        ranges.sort_unstable();
    }
    if ranges.windows(2).any(|pair| pair[0].1 >= pair[1].0) {
        return Err(UpstreamIdsetError::Twice);
    }
    Ok(ranges)
}

/// Takes a text apart at its commas. `None`: one of its two brackets is missing.
pub fn elements(text: &str) -> Option<Elements<'_>> {
    let inner = match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None if text.ends_with(']') => return None,
        None => text,
    };
    Some(Elements { rest: Some(inner).filter(|inner| !inner.is_empty()), zeros: true })
}

/// The elements of a text as they are written, in any order: an id, and behind it the last id of a
/// range, which may be a backward one. An error has the text that is no id, and is the last item.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    /// The text that begins with the next element.
    rest: Option<&'a str>,
    /// True if ids may have zeros in front.
    zeros: bool,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<(u32, Option<u32>), &'a str>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        Some(self.element(rest))
    }
}

impl<'a> Elements<'a> {
    /// Reads the element with which a text begins, and keeps the text behind it.
    fn element(&mut self, text: &'a str) -> Result<(u32, Option<u32>), &'a str> {
        let (first, mut behind) = self.id(text, b"-,")?;
        let mut last = None;
        if let Some(range) = behind.strip_prefix('-') {
            let (id, rest) = self.id(range, b",")?;
            (last, behind) = (Some(id), rest);
        }
        // Only a comma can be left.
        self.rest = behind.get(1..);
        Ok((first, last))
    }

    /// Reads the digits with which a text begins, up to one of `ends` or the end, and returns the
    /// text behind them: no sign, no blank.
    fn id(&self, text: &'a str, ends: &[u8]) -> Result<(u32, &'a str), &'a str> {
        let is_end = |byte: &u8| ends.contains(byte);
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (id, behind) = text.split_at(digits);
        let is_id = !id.is_empty()
            && (self.zeros || id.len() == 1 || !id.starts_with('0'))
            && behind.as_bytes().first().is_none_or(is_end);
        let next = |id: u32, digit: u8| id.checked_mul(10)?.checked_add(u32::from(digit - b'0'));
        let number = if is_id { id.bytes().try_fold(0, next) } else { None };
        number.map(|number| (number, behind)).ok_or_else(|| {
            let end = text.as_bytes().iter().position(is_end).unwrap_or(text.len());
            &text[..end]
        })
    }
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

/// Returns ascending ids as text.
pub fn encode(ids: impl IntoIterator<Item = u32>) -> String {
    let mut text = String::new();
    write(&mut text, ids);
    text
}

/// Appends ascending ids to `out`.
pub fn write(out: &mut String, ids: impl IntoIterator<Item = u32>) {
    let mut ranges = RangeWriter::new(out);
    let mut open: Option<(u32, u32)> = None;
    for id in ids {
        open = match open {
            Some((first, last)) if last.checked_add(1) == Some(id) => Some((first, id)),
            Some((first, last)) => {
                debug_assert!(last < id, "ids must ascend: {last}, {id}");
                ranges.push(first, last);
                Some((id, id))
            }
            None => Some((id, id)),
        };
    }
    if let Some((first, last)) = open {
        ranges.push(first, last);
    }
}

/// Appends ranges to a text, each behind the one before.
#[derive(Debug)]
pub struct RangeWriter<'a> {
    out: &'a mut String,
    separator: &'static str,
}

impl<'a> RangeWriter<'a> {
    /// Begins an idset at the end of `out`.
    pub fn new(out: &'a mut String) -> Self {
        RangeWriter { out, separator: "" }
    }

    /// Appends `first..=last`, which must neither overlap nor touch the range before.
    pub fn push(&mut self, first: u32, last: u32) {
        self.out.push_str(self.separator);
        self.separator = ",";
        let mut digits = itoa::Buffer::new();
        self.out.push_str(digits.format(first));
        if first != last {
            self.out.push('-');
            self.out.push_str(digits.format(last));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

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
        assert_eq!(encode([0, 1, 2, 5, 7, 8, u32::MAX]), "0-2,5,7-8,4294967295");
    }

    #[test]
    fn texts_that_are_no_idset() {
        let ids = [
            ("01", "01"),
            ("1,", ""),
            (",1", ""),
            ("1-", ""),
            ("1-,2", ""),
            ("-1", ""),
            ("1-2-3", "2-3"),
            (" 1", " 1"),
            ("+1", "+1"),
            ("1 ", "1 "),
            ("a", "a"),
            ("4294967296", "4294967296"),
            ("0x1", "0x1"),
            ("1,2x-3", "2x"),
            ("02-x", "02"),
            ("[1]]", "1]"),
        ];
        for (text, id) in ids {
            assert_eq!(decode(text), Err(IdsetError::Id(id.to_owned())), "{text:?}");
        }
        for (text, before, id) in
            [("1,1", 1, 1), ("2,1", 2, 1), ("1-3,3", 3, 3), ("3-1", 3, 1), ("5,4-3", 5, 4)]
        {
            assert_eq!(decode(text), Err(IdsetError::Order { before, id }), "{text:?}");
        }
        for text in ["[1", "1]", "[", "]", "[1,a", "x]"] {
            assert_eq!(decode(text), Err(IdsetError::Bracket(text.to_owned())), "{text:?}");
        }
    }

    #[test]
    fn a_short_text_cannot_ask_for_much_memory() {
        assert_eq!(decode("0-999999").unwrap().len(), IDS_MAX);
        assert_eq!(decode("0-1000000"), Err(IdsetError::TooMany));
        assert_eq!(decode("0-999998,1000000,1000002"), Err(IdsetError::TooMany));
        assert_eq!(decode("0-4294967295"), Err(IdsetError::TooMany));
    }

    #[test]
    fn upstream_reads_ranges_and_brackets() {
        assert_eq!(decode_upstream("7,0-3").unwrap(), [(0, 3), (7, 7)]);
        assert_eq!(decode_upstream("[1,2]").unwrap(), [(1, 1), (2, 2)]);
        assert_eq!(decode_upstream("").unwrap(), []);
        let wrong = [
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
            "1]",
            "+1",
            "1, 2",
            "4294967296",
        ];
        for text in wrong {
            assert_eq!(decode_upstream(text), Err(UpstreamIdsetError::Unreadable), "{text}");
        }
        for text in ["1,1", "0-4,3", "3,0-4"] {
            assert_eq!(decode_upstream(text), Err(UpstreamIdsetError::Twice), "{text}");
        }
    }

    #[test]
    fn each_row_of_the_table_differs_between_the_dialects() {
        for text in [" 0-3 ", "07", "7,0-3", "0-4294967295"] {
            assert!(decode(text).is_err() && decode_upstream(text).is_ok(), "{text}");
        }
        assert!(decode("3-3").is_ok() && decode_upstream("3-3").is_err());
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
    fn a_text_is_written_behind_another() {
        let mut out = "ranks ".to_owned();
        write(&mut out, [1, 3]);
        assert_eq!(out, "ranks 1,3");
    }

    proptest! {
        #[test]
        fn reads_back_its_own_text(
            ids: BTreeSet<u32>,
            dense in prop::collection::btree_set(0_u32..64, 0..40),
        ) {
            for set in [ids, dense] {
                let text = encode(set.iter().copied());
                let ranges = decode_upstream(&text).unwrap();
                let expanded: Vec<u32> = ranges.into_iter().flat_map(|(a, b)| a..=b).collect();
                let ids: Vec<u32> = set.into_iter().collect();
                prop_assert_eq!(&decode(&text).unwrap(), &ids);
                prop_assert_eq!(expanded, ids);
            }
        }

        #[test]
        fn upstream_takes_what_the_rfc_takes_but_ranges_of_one(
            text in "\\[?[0-9]{1,2}(-[0-9]{1,2})?(,[0-9]{1,2}(-[0-9]{1,2})?){0,3}\\]?",
        ) {
            let of_one = elements(&text).is_some_and(|mut elements| {
                elements.any(|element| element.is_ok_and(|(first, last)| last == Some(first)))
            });
            let ids = |ranges: Vec<(u32, u32)>| -> Vec<u32> {
                ranges.into_iter().flat_map(|(first, last)| first..=last).collect()
            };
            match (decode(&text), decode_upstream(&text).map(ids)) {
                (Ok(strict), Ok(upstream)) => prop_assert_eq!(strict, upstream),
                (Ok(_), Err(error)) => prop_assert!(of_one, "{error}"),
                // The set is one, and was written in another way than the RFC asks for.
                (Err(_), Ok(ids)) => {
                    prop_assert_eq!(&decode(&encode(ids.iter().copied())).unwrap(), &ids);
                }
                (Err(_), Err(_)) => {}
            }
        }

        #[test]
        fn never_panics(text in "[0-9,\\[\\]-]{0,20}") {
            let _ = (decode(&text), decode_upstream(&text));
        }
    }
}
