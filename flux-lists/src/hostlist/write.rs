//! Writing a list of host names.

use super::numbers::{push_number, width_of};

/// Writes names of Kubernetes nodes in their order; neighbours that differ in one number share
/// their prefix and suffix.
///
/// Such names are DNS subdomains, so the number that varies stands in the first label
/// (`rack1-node0007.example.org`). They must be host names: printable ASCII without space, comma
/// and square brackets, and not empty.
pub fn encode<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut text = String::new();
    let names = names.into_iter().inspect(|name| {
        debug_assert!(is_host_name(name), "{name:?} is not a host name");
    });
    write_as(&mut text, Style::Kubernetes, names);
    text
}

/// Writes a set of names: by the numbers in them, each once, so that equal sets are equal texts.
pub fn encode_set<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_by_cached_key(|name| match Style::Kubernetes.numbered(name) {
        Some(numbered) => (numbered.prefix, numbered.suffix, numbered.id, numbered.digits),
        None => (*name, "", 0, ""),
    });
    names.dedup();
    encode(names)
}

/// Appends names to `out` as flux-sched writes those of an R: neighbours that end in a number share
/// the text before it.
pub fn write<'a>(out: &mut String, names: impl IntoIterator<Item = &'a str>) {
    write_as(out, Style::Upstream, names);
}

/// Splits a name before the digits in which it ends.
pub fn stem_and_digits(name: &str) -> (&str, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    name.split_at(stem.len())
}

/// Which names are joined.
#[derive(Debug, Clone, Copy)]
enum Style {
    /// Names that are DNS subdomains.
    Kubernetes,
    /// As flux-sched writes the names of an R.
    Upstream,
}

impl Style {
    /// Takes a name apart at its number. `None`: it has none, or one that is too large.
    fn numbered(self, name: &str) -> Option<Numbered<'_>> {
        let (end, digits_max) = match self {
            Style::Kubernetes => {
                let label = name.split('.').next().unwrap_or(name);
                (label.rfind(|c: char| c.is_ascii_digit())? + 1, usize::MAX)
            }
            Style::Upstream => (name.len(), 18),
        };
        // A suffix without a character points into the name as well: to compare pieces of literals
        // without any takes ten times as long on some processors.
        let (start, suffix) = name.split_at(end);
        let (prefix, digits) = stem_and_digits(start);
        let id = digits.parse().ok().filter(|_| digits.len() <= digits_max)?;
        Some(Numbered { prefix, digits, suffix, id })
    }
}

/// Appends names to `out`.
fn write_as<'a>(out: &mut String, style: Style, names: impl IntoIterator<Item = &'a str>) {
    let mut separator = "";
    let mut names = names.into_iter().map(|name| (name, style.numbered(name))).peekable();
    while let Some((name, numbered)) = names.next() {
        out.push_str(separator);
        separator = ",";
        let Some(first) = numbered else {
            out.push_str(name);
            continue;
        };
        let mut ranges = vec![(first.id, first.id)];
        let joins = |next: &Numbered<'_>| first.joins(next, style);
        while let Some((_, Some(next))) =
            names.next_if(|(_, next)| next.as_ref().is_some_and(joins))
        {
            match ranges.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(next.id) => *last = next.id,
                _ => ranges.push((next.id, next.id)),
            }
        }
        first.write(out, &ranges);
    }
}

/// A name taken apart at its number.
struct Numbered<'a> {
    prefix: &'a str,
    digits: &'a str,
    suffix: &'a str,
    id: u64,
}

impl Numbered<'_> {
    /// True if reading one bracket that begins with this name gives exactly the other one back.
    fn joins(&self, other: &Self, style: Style) -> bool {
        let width = width_of(self.digits);
        // Padding may not be missing on a narrower number, and adds no digit to a wider one.
        let fits = match style {
            _ if width_of(other.digits) > 0 => other.digits.len() == width,
            Style::Kubernetes => other.digits.len() >= width,
            Style::Upstream => width == 0 || other.digits.len() == width,
        };
        self.prefix == other.prefix && self.suffix == other.suffix && fits
    }

    /// Appends the expression that begins with this name.
    fn write(&self, out: &mut String, ranges: &[(u64, u64)]) {
        out.push_str(self.prefix);
        if let [(first, last)] = ranges
            && first == last
        {
            out.push_str(self.digits);
        } else {
            let width = width_of(self.digits);
            for (at, (first, last)) in ranges.iter().enumerate() {
                out.push(if at == 0 { '[' } else { ',' });
                push_number(out, *first, width);
                if first != last {
                    out.push('-');
                    push_number(out, *last, width);
                }
            }
            out.push(']');
        }
        out.push_str(self.suffix);
    }
}

fn is_host_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'[' | b']' | b','))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::read::{Budget, decode, decode_upstream};
    use super::*;

    fn round_trip(names: &[&str]) -> String {
        let text = encode(names.iter().copied());
        assert_eq!(decode(&text).unwrap(), names, "{text}");
        text
    }

    /// The names as in an R, read back.
    fn round_trip_of_r(names: &[&str]) -> String {
        let mut text = String::new();
        write(&mut text, names.iter().copied());
        let read = decode_upstream(&text, &mut Budget::new(10_000, 1 << 20, 20)).unwrap();
        assert_eq!(read, names, "{text}");
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
        assert_eq!(round_trip(&["n1", "n0"]), "n[1,0]");
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
        let (a, b) = ("n1000000000000000000", "n1000000000000000001");
        assert_eq!(round_trip_of_r(&[a, b]), format!("{a},{b}"));
    }

    #[test]
    fn a_number_may_have_more_zeros_than_a_format() {
        let names = ["1", "2"].map(|digit| format!("n{}{digit}", "0".repeat(70_000)));
        let names = names.each_ref().map(String::as_str);
        assert_eq!(round_trip(&names).len(), "n[-]".len() + 2 * 70_001);
    }

    #[test]
    fn names_of_the_rfc_are_read_back() {
        for names in ["foox,fooy,fooz", "1,2,3,5,6", "foo0-eth2,foo1-eth2", "005,004,011,012,013"] {
            let names: Vec<&str> = names.split(',').collect();
            round_trip(&names);
            round_trip_of_r(&names);
        }
    }

    #[test]
    fn an_r_has_names_that_end_in_a_number_in_brackets() {
        assert_eq!(round_trip_of_r(&["n0", "n1", "n2", "n9", "x"]), "n[0-2,9],x");
        assert_eq!(round_trip_of_r(&["n08", "n09", "n10"]), "n[08-10]");
        assert_eq!(round_trip_of_r(&["n9", "n10"]), "n[9-10]");
        assert_eq!(round_trip_of_r(&["n10", "n08"]), "n10,n08");
        assert_eq!(round_trip_of_r(&["n1", "n0"]), "n[1,0]");
        assert_eq!(round_trip_of_r(&["n098", "n099", "n1000"]), "n[098-099],n1000");
        assert_eq!(round_trip_of_r(&["a1.x1.org", "a2.x1.org"]), "a1.x1.org,a2.x1.org");
        assert_eq!(round_trip_of_r(&["a1.x1", "a1.x2"]), "a1.x[1-2]");
        assert_eq!(round_trip_of_r(&["a", "b"]), "a,b");
        assert_eq!(round_trip_of_r(&["n3"]), "n3");
    }

    proptest! {
        #[test]
        fn reads_back_its_own_text(
            names in prop::collection::vec("(a|b|a-1-)?0{0,2}[0-9]{0,3}(a|-b)?(\\.x0?1)?", 0..40),
        ) {
            let names: Vec<&str> =
                names.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
            round_trip(&names);
            if !names.is_empty() {
                round_trip_of_r(&names);
            }
        }

        #[test]
        fn consecutive_names_are_short(start in 0_u64..100_000, count in 2_usize..2000) {
            let names: Vec<String> =
                (start..).take(count).map(|id| format!("pool-{id:04}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            prop_assert!(round_trip(&names).len() < 40);
            prop_assert!(round_trip_of_r(&names).len() < 60);
        }
    }
}
