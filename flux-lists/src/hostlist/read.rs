//! Reading a list of host names.

use super::numbers::{push_number, width_of};

/// The most names that are read from one text.
pub const HOSTS_MAX: usize = 1_000_000;

/// The most bytes of names that are read from one text, whatever their number.
pub const BYTES_MAX: usize = 256 << 20;

/// The reason why a text is no hostlist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostlistError {
    /// Brackets that do not match, or a second pair in one expression.
    #[error("hostlist: {0:?} has brackets that are not one pair")]
    Bracket(String),
    /// A character that no host name has.
    #[error("hostlist: {0:?} has a character that is not printable ASCII")]
    Character(String),
    /// A list element between brackets that is no number or ascending range.
    #[error("hostlist: {0:?} is neither a number nor an ascending range below 2^64")]
    Id(String),
    /// More than [`HOSTS_MAX`] names, or [`BYTES_MAX`] bytes.
    #[error("hostlist has more than {HOSTS_MAX} names or {BYTES_MAX} bytes")]
    TooMany,
}

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

    /// Spends the bytes that `names` names grow to. Fails if there are not as many left, or not as
    /// many names.
    fn grow(&mut self, names: usize, bytes: usize) -> Result<(), Fault<'static>> {
        let fits = names <= self.hosts;
        let spent = names.checked_mul(bytes).filter(|_| fits);
        let rest = spent.and_then(|spent| self.bytes.checked_sub(spent));
        self.bytes = rest.ok_or(Fault::TooMany)?;
        Ok(())
    }

    /// Spends names that are finished. Fails if there are not as many left.
    fn finish(&mut self, names: usize) -> Result<(), Fault<'static>> {
        self.hosts = self.hosts.checked_sub(names).ok_or(Fault::TooMany)?;
        Ok(())
    }
}

/// Reads a hostlist as RFC 29 has it.
pub fn decode(text: &str) -> Result<Vec<String>, HostlistError> {
    let bracket = |text: &str| HostlistError::Bracket(text.to_owned());
    let mut budget = Budget::new(HOSTS_MAX, BYTES_MAX, usize::MAX);
    let mut names = Vec::new();
    for expression in expressions(text).map_err(bracket)? {
        if !expression.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(HostlistError::Character(expression.to_owned()));
        }
        if expression.matches('[').count() > 1 {
            return Err(bracket(expression));
        }
        // An empty expression is an empty list.
        if expression.is_empty() {
            continue;
        }
        expand(expression, Dialect::Rfc, &mut budget, &mut names).map_err(|fault| match fault {
            Fault::Id(element) => HostlistError::Id(element.to_owned()),
            Fault::Digits | Fault::TooMany => HostlistError::TooMany,
        })?;
    }
    Ok(names)
}

/// Reads a hostlist as flux-sched does, as far as the budget of the document goes.
pub fn decode_upstream(
    text: &str,
    budget: &mut Budget,
) -> Result<Vec<String>, UpstreamHostlistError> {
    let mut names = Vec::new();
    for expression in expressions(text).map_err(|_| UpstreamHostlistError::Unreadable)? {
        if expression.is_empty() {
            return Err(UpstreamHostlistError::Unreadable);
        }
        expand(expression, Dialect::Upstream, budget, &mut names).map_err(|fault| match fault {
            Fault::Id(_) => UpstreamHostlistError::Unreadable,
            Fault::Digits => UpstreamHostlistError::Digits,
            Fault::TooMany => UpstreamHostlistError::TooMany,
        })?;
    }
    Ok(names)
}

/// How numbers are read between brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// As RFC 29 has it.
    Rfc,
    /// As flux-sched does.
    Upstream,
}

/// The fault of an expression.
enum Fault<'a> {
    /// An element between brackets that is no number or ascending range.
    Id(&'a str),
    /// A number with more digits than the budget allows.
    Digits,
    /// More names, or bytes of names, than are left of the budget.
    TooMany,
}

/// Splits at the commas that are not between brackets. An error has the text from the expression on
/// in which a bracket stands alone or in another one.
fn expressions(text: &str) -> Result<Vec<&str>, &str> {
    let mut parts = Vec::new();
    let (mut start, mut inside) = (0, false);
    for (at, byte) in text.bytes().enumerate() {
        match (byte, inside) {
            (b'[', false) => inside = true,
            (b']', true) => inside = false,
            (b'[', true) | (b']', false) => return Err(&text[start..]),
            (b',', false) => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(&text[start..]);
    }
    parts.push(&text[start..]);
    Ok(parts)
}

/// Appends the names of an expression to `out`. All that they take is spent from the budget before
/// any of them is written.
fn expand<'a>(
    expression: &'a str,
    dialect: Dialect,
    budget: &mut Budget,
    out: &mut Vec<String>,
) -> Result<(), Fault<'a>> {
    let Some(mut parts) = first_bracket(expression) else {
        budget.grow(1, expression.len())?;
        budget.finish(1)?;
        out.push(expression.to_owned());
        return Ok(());
    };
    let mut names = vec![String::new()];
    loop {
        let (prefix, inside, behind) = parts;
        let bracket = Bracket::read(inside, dialect, budget.digits)?;
        // Each name grows by the text before the bracket, and by a number.
        let longest =
            names.iter().map(String::len).max().unwrap_or(0) + prefix.len() + bracket.digits;
        let count = bracket.count.saturating_mul(names.len());
        budget.grow(count, longest)?;
        let Some(next) = first_bracket(behind) else {
            budget.grow(count, behind.len())?;
            budget.finish(count)?;
            out.reserve(count);
            bracket.append_to(&names, prefix, behind, out);
            return Ok(());
        };
        let mut grown = Vec::with_capacity(count);
        bracket.append_to(&names, prefix, "", &mut grown);
        (names, parts) = (grown, next);
    }
}

/// Splits an expression at its first pair of brackets: the text before, inside, and behind it.
fn first_bracket(text: &str) -> Option<(&str, &str, &str)> {
    let (prefix, rest) = text.split_once('[')?;
    let (inside, behind) = rest.split_once(']')?;
    Some((prefix, inside, behind))
}

/// The numbers of a bracket, not yet written out.
struct Bracket {
    /// First, last, and how many digits each number has at least.
    ranges: Vec<(u64, u64, usize)>,
    /// How many numbers these are; at the limit of the type also more.
    count: usize,
    /// The most digits that one of them has, as it is written in the bracket.
    digits: usize,
}

impl Bracket {
    /// Reads the text between two brackets.
    fn read(text: &str, dialect: Dialect, digits_max: usize) -> Result<Self, Fault<'_>> {
        let digits = |part: &str| {
            let digits = part.strip_prefix('+').unwrap_or(part);
            digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(digits.len())
        };
        if text.split([',', '-']).any(|part| digits(part).is_some_and(|count| count > digits_max)) {
            return Err(Fault::Digits);
        }
        let number = |text: &str| -> Option<u64> {
            // The parser takes a sign, as upstream does.
            let is_number = dialect == Dialect::Upstream || !text.starts_with('+');
            text.parse().ok().filter(|_| is_number)
        };
        let mut bracket = Bracket { ranges: Vec::new(), count: 0, digits: 0 };
        let mut width_of_all = None;
        for element in text.split(',') {
            let (first, last) = element.split_once('-').unwrap_or((element, element));
            let range = number(first).zip(number(last)).filter(|(first, last)| first <= last);
            let (from, to) = range.ok_or(Fault::Id(element))?;
            let width = match dialect {
                Dialect::Rfc => *width_of_all.get_or_insert_with(|| width_of(first)),
                Dialect::Upstream => first.len(),
            };
            let more = usize::try_from(to - from).unwrap_or(usize::MAX).saturating_add(1);
            bracket.count = bracket.count.saturating_add(more);
            bracket.digits = bracket.digits.max(width).max(first.len()).max(last.len());
            bracket.ranges.push((from, to, width));
        }
        Ok(bracket)
    }

    /// Appends each name with each number behind it to `out`, with a text before the number and one
    /// behind it.
    fn append_to(&self, names: &[String], prefix: &str, suffix: &str, out: &mut Vec<String>) {
        for name in names {
            for &(from, to, width) in &self.ranges {
                out.extend((from..=to).map(|number| {
                    let bytes = name.len() + prefix.len() + self.digits + suffix.len();
                    let mut longer = String::with_capacity(bytes);
                    longer.push_str(name);
                    longer.push_str(prefix);
                    push_number(&mut longer, number, width);
                    longer.push_str(suffix);
                    longer
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All names of the only list of a document, with at most 20 digits in a number.
    fn upstream(text: &str) -> Result<Vec<String>, UpstreamHostlistError> {
        decode_upstream(text, &mut Budget::new(1 << 20, 64 << 20, 20))
    }

    #[test]
    fn test_vectors_of_the_rfc() {
        let vectors = [
            ("", ""),
            ("foox,fooy,fooz", "foox,fooy,fooz"),
            ("[1-3,5-6]", "1,2,3,5,6"),
            ("foo[1-5]", "foo1,foo2,foo3,foo4,foo5"),
            ("foo[0-4]-eth2", "foo0-eth2,foo1-eth2,foo2-eth2,foo3-eth2,foo4-eth2"),
            ("foo1,foo1,foo1", "foo1,foo1,foo1"),
            ("[00-02]", "00,01,02"),
            ("[00-2]", "00,01,02"),
            ("foo[1,1,2,1]", "foo1,foo1,foo2,foo1"),
            ("[005,4,11-13]", "005,004,011,012,013"),
        ];
        for (short, long) in vectors {
            let names: Vec<_> = long.split(',').filter(|name| !name.is_empty()).collect();
            assert_eq!(decode(short).unwrap(), names, "{short}");
        }
    }

    #[test]
    fn texts_that_are_no_hostlist() {
        for text in ["a[", "a]", "a[1", "a1]", "a[1]]", "a[[1]]", "a[1]b[2]"] {
            assert!(
                matches!(decode(text), Err(HostlistError::Bracket(_))),
                "{text:?}: {:?}",
                decode(text)
            );
        }
        for text in
            ["a[]", "a[x]", "a[1-]", "a[-1]", "a[3-1]", "a[+1]", "a[1,]", "a[18446744073709551616]"]
        {
            assert!(
                matches!(decode(text), Err(HostlistError::Id(_))),
                "{text:?}: {:?}",
                decode(text)
            );
        }
        for text in ["a b", "a,b\n", "\u{e9}"] {
            assert!(
                matches!(decode(text), Err(HostlistError::Character(_))),
                "{text:?}: {:?}",
                decode(text)
            );
        }
    }

    #[test]
    fn a_short_text_cannot_ask_for_much_memory() {
        assert_eq!(decode("n[0-999999]").unwrap().len(), HOSTS_MAX);
        assert_eq!(decode("n[0-1000000]"), Err(HostlistError::TooMany));
        assert_eq!(decode("n[0-18446744073709551615]"), Err(HostlistError::TooMany));
        let wide = format!("{}[0-999999]", "n".repeat(1000));
        assert_eq!(decode(&wide), Err(HostlistError::TooMany));
        let padded = format!("n[{}1-999999]", "0".repeat(1000));
        assert_eq!(decode(&padded), Err(HostlistError::TooMany));
    }

    #[test]
    fn bytes_are_those_of_the_names() {
        // 268 bytes a name, with numbers of up to 6 digits: as many as there may be.
        let longest = BYTES_MAX / HOSTS_MAX - 6;
        assert!(decode(&format!("{}[0-999999]", "n".repeat(longest))).is_ok());
        assert_eq!(
            decode(&format!("{}[0-999999]", "n".repeat(longest + 1))),
            Err(HostlistError::TooMany)
        );
    }

    #[test]
    fn an_element_that_is_no_number_is_found_before_others_are_expanded() {
        assert_eq!(decode("n[0-1000000,x]"), Err(HostlistError::Id("x".to_owned())));
        assert_eq!(upstream("n[0-1048576,x]"), Err(UpstreamHostlistError::Unreadable));
        assert_eq!(upstream("n[0-1048576],x]"), Err(UpstreamHostlistError::Unreadable));
    }

    #[test]
    fn a_number_may_have_more_zeros_than_a_format() {
        let name = format!("n{}1", "0".repeat(70_000));
        assert_eq!(decode(&format!("n[{}1]", "0".repeat(70_000))).unwrap(), [name]);
    }

    #[test]
    fn upstream_expands_brackets_and_padding() {
        assert_eq!(upstream("n[0-2,9],x").unwrap(), ["n0", "n1", "n2", "n9", "x"]);
        assert_eq!(upstream("n[08-10]").unwrap(), ["n08", "n09", "n10"]);
        assert_eq!(upstream("r[0-1]n[0-1]x").unwrap(), ["r0n0x", "r0n1x", "r1n0x", "r1n1x"]);
        for wrong in ["n[", "n]", "n[1", "n[3-1]", "", "n[x]", "n[]", "a,,b", "n[[1]]", "n[1]]"] {
            assert_eq!(upstream(wrong), Err(UpstreamHostlistError::Unreadable), "{wrong}");
        }
    }

    #[test]
    fn each_row_of_the_table_differs_between_the_dialects() {
        assert_eq!(decode("a,,b").unwrap(), ["a", "b"]);
        assert_eq!(upstream("a,,b"), Err(UpstreamHostlistError::Unreadable));
        assert!(decode("r[0-1]n[0-1]").is_err());
        assert_eq!(upstream("r[0-1]n[0-1]").unwrap().len(), 4);
        assert_eq!(decode("n[08,9]").unwrap(), ["n08", "n09"]);
        assert_eq!(upstream("n[08,9]").unwrap(), ["n08", "n9"]);
        assert!(decode("n[+1]").is_err());
        assert_eq!(upstream("n[+1,+8-10]").unwrap(), ["n01", "n08", "n09", "n10"]);
        assert!(decode("a b").is_err() && decode("\u{e9}").is_err());
        assert_eq!(upstream("a b,\u{e9}[1]").unwrap(), ["a b", "\u{e9}1"]);
    }

    #[test]
    fn upstream_limits_digits_names_and_bytes_before_any_is_written() {
        // The digits of a number, in front of which zeros and a sign may stand.
        for zeros in [20, 65_537] {
            let zeros = "0".repeat(zeros);
            for text in [format!("n[{zeros}1]"), format!("n[+{zeros}1]"), format!("n[1-{zeros}2]")]
            {
                assert_eq!(upstream(&text), Err(UpstreamHostlistError::Digits), "{}", text.len());
            }
        }
        assert!(upstream(&format!("n[{}1]", "0".repeat(19))).is_ok());
        // Few names, each long; many names; brackets that multiply.
        let long = "x".repeat(10_000);
        for text in [
            format!("{long}[0-9999]"),
            format!("n[0-9999]{long}"),
            format!("{long}[0]n[0-9999]"),
            "n[0-1048576]".to_owned(),
            "n[0-18446744073709551615]".to_owned(),
            "a[0-999]b[0-999]c[0-999]".to_owned(),
        ] {
            assert_eq!(upstream(&text), Err(UpstreamHostlistError::TooMany), "{}", text.len());
        }
    }

    #[test]
    fn the_lists_of_a_document_share_one_budget() {
        let mut budget = Budget::new(10, 1_000, 20);
        assert!(decode_upstream("n[0-5]", &mut budget).is_ok());
        assert!(decode_upstream("m[0-4]", &mut budget).is_err());
        assert!(decode_upstream("m[0-3]", &mut budget).is_ok());
        assert!(decode_upstream("x", &mut budget).is_err());
    }

    proptest! {
        #[test]
        fn upstream_reads_texts_of_the_rfc_alike_but_for_empty_names_and_zeros(
            text in "([ab]{0,2}(\\[[0-9]{1,3}(-[0-9]{1,3})?(,[0-9]{1,2}){0,2}\\])?b?,?){0,4}",
        ) {
            let has_empty = text.split(',').any(str::is_empty);
            let padded = text.split(['[', '-', ',']).any(|part| part.starts_with('0'));
            match decode(&text) {
                Ok(names) if !has_empty && !padded => prop_assert_eq!(upstream(&text), Ok(names)),
                Ok(names) if !has_empty => {
                    prop_assert_eq!(upstream(&text).map(|it| it.len()), Ok(names.len()));
                }
                _ => {}
            }
        }

        #[test]
        fn never_panics(text in "[ab0-9,+\\[\\]-]{0,20}") {
            let _ = (decode(&text), upstream(&text));
        }
    }
}
