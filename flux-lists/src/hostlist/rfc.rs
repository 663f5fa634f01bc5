//! Writing a list of names of Kubernetes nodes.
//!
//! They are DNS subdomains, so the number that varies stands in the first label
//! (`rack1-node0007.example.org`), and the writer looks for numbers only there.

use super::numbers::{push_number, width_of};

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
    use proptest::prelude::*;

    use super::super::read::decode;
    use super::*;

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
    }
}
