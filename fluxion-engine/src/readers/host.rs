//! The name of a host, as readers take it apart.

use flux_lists::hostlist::stem_and_digits;

/// The basename and the id of a node by the name of its host; the id of a name without a number
/// is -1. `None`: the number is beyond 63 bits.
pub(super) fn basename_and_id(host: &str) -> Option<(&str, i64)> {
    let (stem, digits) = stem_and_digits(host);
    let id = if digits.is_empty() { -1 } else { digits.parse().ok()? };
    Some((if stem.is_empty() { host } else { stem }, id))
}

#[cfg(test)]
mod tests {
    use super::basename_and_id;

    #[test]
    fn a_host_gives_its_node_a_basename_and_an_id() {
        for (host, basename, id) in [
            ("node07", "node", 7),
            ("login", "login", -1),
            ("12", "12", 12),
            ("n1a", "n1a", -1),
            ("", "", -1),
        ] {
            assert_eq!(basename_and_id(host), Some((basename, id)), "{host}");
        }
        assert_eq!(basename_and_id("n9223372036854775807"), Some(("n", i64::MAX)));
        assert_eq!(basename_and_id("n9223372036854775808"), None);
    }
}
