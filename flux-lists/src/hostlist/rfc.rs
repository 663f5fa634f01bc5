//! Lists of host names as text: RFC 29 of the Flux project, such as `node[0-3],gpu7`.
//!
//! A list, not a set: order and repetition are kept. Names of Kubernetes nodes are DNS subdomains,
//! so the number that varies stands in the first label (`rack1-node0007.example.org`), and the
//! writer looks for numbers only there.

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

/// Writes names in their order; neighbours that differ in one number share their prefix and suffix.
///
/// The names must be host names: printable ASCII without space, comma and square brackets, and not
/// empty.
pub fn encode<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut text = String::new();
    let mut open: Option<Expression<'a>> = None;
    for name in names {
        debug_assert!(is_host_name(name), "{name:?} is not a host name");
        match (&mut open, Numbered::find(name)) {
            (Some(expression), Some(numbered)) if expression.takes(&numbered) => {
                expression.push(numbered.id);
            }
            (_, numbered) => {
                if let Some(done) = open.take() {
                    done.write(&mut text);
                }
                open = numbered.as_ref().map(Expression::new);
                if open.is_none() {
                    separate(&mut text);
                    text.push_str(name);
                }
            }
        }
    }
    if let Some(done) = open {
        done.write(&mut text);
    }
    text
}

/// Writes a set of names: by the numbers in them, each once, so that equal sets are equal texts.
pub fn encode_set<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_by_cached_key(|name| match Numbered::find(name) {
        Some(numbered) => (numbered.prefix, numbered.suffix, numbered.id, numbered.digits),
        None => (*name, "", 0, ""),
    });
    names.dedup();
    encode(names)
}

/// Reads a hostlist.
pub fn decode(text: &str) -> Result<Vec<String>, HostlistError> {
    let mut names = Names::default();
    for expression in expressions(text)? {
        if !expression.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(HostlistError::Character(expression.to_owned()));
        }
        let Some((prefix, rest)) = expression.split_once('[') else {
            // An empty expression is an empty list.
            if !expression.is_empty() {
                names.push(|name| name.push_str(expression), expression.len())?;
            }
            continue;
        };
        let bad = || HostlistError::Bracket(expression.to_owned());
        let (ids, suffix) = rest.split_once(']').ok_or_else(bad)?;
        if ids.contains('[') || suffix.contains(['[', ']']) {
            return Err(bad());
        }
        decode_ids(&mut names, prefix, ids, suffix)?;
    }
    Ok(names.all)
}

/// Reads the list between brackets. The leading zeros of the first element give the width of all.
fn decode_ids(
    names: &mut Names,
    prefix: &str,
    ids: &str,
    suffix: &str,
) -> Result<(), HostlistError> {
    let mut width = None;
    for element in ids.split(',') {
        let (first, last) = element.split_once('-').unwrap_or((element, element));
        let width = *width.get_or_insert_with(|| width_of(first));
        let parse = |digits: &str| {
            digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<u64>().ok())?
        };
        let range = parse(first).zip(parse(last)).filter(|(first, last)| first <= last);
        let (first, last) = range.ok_or_else(|| HostlistError::Id(element.to_owned()))?;
        for id in first..=last {
            let bytes = prefix.len() + suffix.len() + width.max(20);
            names.push(
                |name| {
                    name.push_str(prefix);
                    push_number(name, id, width);
                    name.push_str(suffix);
                },
                bytes,
            )?;
        }
    }
    Ok(())
}

/// Splits at the commas that are not between brackets.
fn expressions(text: &str) -> Result<Vec<&str>, HostlistError> {
    let mut parts = Vec::new();
    let (mut start, mut inside) = (0, false);
    for (at, byte) in text.bytes().enumerate() {
        match (byte, inside) {
            (b'[', false) => inside = true,
            (b']', true) => inside = false,
            (b'[', true) | (b']', false) => {
                return Err(HostlistError::Bracket(text[start..].to_owned()));
            }
            (b',', false) => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(HostlistError::Bracket(text[start..].to_owned()));
    }
    parts.push(&text[start..]);
    Ok(parts)
}

/// The names that were read, and the bounds on them.
#[derive(Default)]
struct Names {
    all: Vec<String>,
    bytes: usize,
}

impl Names {
    /// Adds the name that `write` makes, of at most `bytes` bytes.
    fn push(&mut self, write: impl FnOnce(&mut String), bytes: usize) -> Result<(), HostlistError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.all.len() >= HOSTS_MAX || self.bytes > BYTES_MAX {
            return Err(HostlistError::TooMany);
        }
        let mut name = String::with_capacity(bytes);
        write(&mut name);
        self.all.push(name);
        Ok(())
    }
}

/// A name taken apart at the last number of its first label.
struct Numbered<'a> {
    prefix: &'a str,
    digits: &'a str,
    suffix: &'a str,
    id: u64,
}

impl<'a> Numbered<'a> {
    /// Finds the number. `None` if there is none, or it is too large to count with.
    fn find(name: &'a str) -> Option<Self> {
        let label = name.split('.').next().unwrap_or(name);
        let end = label.rfind(|c: char| c.is_ascii_digit())? + 1;
        let start = label[..end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
        let digits = &name[start..end];
        Some(Numbered {
            prefix: &name[..start],
            digits,
            suffix: &name[end..],
            id: digits.parse().ok()?,
        })
    }
}

/// An expression that is being written: `prefix[ranges]suffix`.
struct Expression<'a> {
    prefix: &'a str,
    suffix: &'a str,
    /// The digits of the first name, with leading zeros.
    digits: &'a str,
    width: usize,
    ranges: Vec<(u64, u64)>,
}

impl<'a> Expression<'a> {
    fn new(name: &Numbered<'a>) -> Self {
        Expression {
            prefix: name.prefix,
            suffix: name.suffix,
            digits: name.digits,
            width: width_of(name.digits),
            ranges: vec![(name.id, name.id)],
        }
    }

    /// True if reading the expression gives exactly this name back.
    fn takes(&self, name: &Numbered<'_>) -> bool {
        let padded = || {
            let zeros =
                name.digits.bytes().take_while(|b| *b == b'0').count().min(name.digits.len() - 1);
            // Padding adds no digit to a number that is wide enough, and may not be missing on a
            // narrower one.
            if zeros == 0 {
                name.digits.len() >= self.width
            } else {
                name.digits.len() == self.width
            }
        };
        self.prefix == name.prefix && self.suffix == name.suffix && padded()
    }

    fn push(&mut self, id: u64) {
        match self.ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(id) => *last = id,
            _ => self.ranges.push((id, id)),
        }
    }

    fn write(&self, text: &mut String) {
        separate(text);
        text.push_str(self.prefix);
        if let [(first, last)] = self.ranges[..]
            && first == last
        {
            text.push_str(self.digits);
        } else {
            for (at, &(first, last)) in self.ranges.iter().enumerate() {
                let width = self.width;
                text.push(if at == 0 { '[' } else { ',' });
                push_number(text, first, width);
                if first != last {
                    text.push('-');
                    push_number(text, last, width);
                }
            }
            text.push(']');
        }
        text.push_str(self.suffix);
    }
}

/// Returns the width to which numbers are padded in a list that begins with these digits; 0 if they
/// are not.
fn width_of(digits: &str) -> usize {
    if digits.len() > 1 && digits.starts_with('0') { digits.len() } else { 0 }
}

/// Appends a number with zeros in front, so that it has at least `width` digits. Widths of formats
/// end at 65,535, those of texts do not.
fn push_number(text: &mut String, number: u64, width: usize) {
    let digits = number.to_string();
    text.extend(std::iter::repeat_n('0', width.saturating_sub(digits.len())));
    text.push_str(&digits);
}

fn separate(text: &mut String) {
    if !text.is_empty() {
        text.push(',');
    }
}

fn is_host_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'[' | b']' | b','))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(names: &[&str]) -> String {
        let text = encode(names.iter().copied());
        assert_eq!(decode(&text).unwrap(), names, "{text}");
        text
    }

    #[test]
    fn equal_sets_are_equal_texts() {
        let text = encode_set(["node-10", "node-2", "login", "node-3", "node-2"]);
        assert_eq!(text, "login,node-[2-3,10]");
        assert_eq!(encode_set(["node-3", "login", "node-2", "node-10"]), text);
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
            round_trip(&names);
        }
    }

    #[test]
    fn neighbours_share_prefix_and_suffix() {
        assert_eq!(
            round_trip(&["gke-pool-1-abc-0007", "gke-pool-1-abc-0008"]),
            "gke-pool-1-abc-[0007-0008]"
        );
        assert_eq!(round_trip(&["n9", "n10", "n11"]), "n[9-11]");
        assert_eq!(round_trip(&["n2", "n1", "n2", "n2"]), "n[2,1-2,2]");
        assert_eq!(round_trip(&["a1.x1.org", "a2.x1.org"]), "a[1-2].x1.org");
        assert_eq!(round_trip(&["node", "node", "n7"]), "node,node,n7");
    }

    #[test]
    fn leading_zeros_are_kept_or_the_list_is_split() {
        assert_eq!(round_trip(&["n08", "n09", "n10", "n11"]), "n[08-11]");
        assert_eq!(round_trip(&["n99", "n100", "n0101"]), "n[99-100],n0101");
        assert_eq!(round_trip(&["n098", "n099", "n100", "n1000"]), "n[098-100,1000]");
        assert_eq!(round_trip(&["n7", "n08"]), "n7,n08");
        assert_eq!(round_trip(&["n08", "n7"]), "n08,n7");
        assert_eq!(round_trip(&["n0", "n00", "n000", "n1"]), "n0,n00,n000,n1");
    }

    #[test]
    fn numbers_too_large_to_count_with_stay_text() {
        let (a, b) = ("n18446744073709551615", "n18446744073709551616");
        assert_eq!(round_trip(&[a, b, b]), format!("{a},{b},{b}"));
        assert_eq!(
            round_trip(&["n18446744073709551614", a]),
            "n[18446744073709551614-18446744073709551615]"
        );
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
    fn a_number_may_have_more_zeros_than_a_format() {
        let names = ["1", "2"].map(|digit| format!("n{}{digit}", "0".repeat(70_000)));
        let names = names.each_ref().map(String::as_str);
        assert_eq!(round_trip(&names).len(), "n[-]".len() + 2 * 70_001);
    }

    proptest! {
        #[test]
        fn reads_back_its_own_text(
            names in prop::collection::vec("(a|b|a-1-)?0{0,2}[0-9]{0,3}(a|-b)?(\\.x0?1)?", 0..40),
        ) {
            let names: Vec<&str> =
                names.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
            let text = encode(names.iter().copied());
            prop_assert_eq!(decode(&text).unwrap(), names, "{}", text);
        }

        #[test]
        fn consecutive_names_are_short(start in 0_u64..100_000, count in 2_usize..2000) {
            let names: Vec<String> =
                (start..).take(count).map(|id| format!("pool-{id:04}")).collect();
            let text = encode(names.iter().map(String::as_str));
            prop_assert!(text.len() < 40, "{}", text);
            prop_assert_eq!(decode(&text).unwrap(), names);
        }

        #[test]
        fn never_panics(text in "[ab0-9,\\[\\]-]{0,20}") {
            let _ = decode(&text);
        }
    }
}
