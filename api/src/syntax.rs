//! The syntax of Kubernetes' names: those of objects, and of labels and their values.

use crate::text::NAME_BYTES_MAX;

/// The longest value of a label.
pub(crate) const LABEL_LENGTH_MAX: usize = 63;

/// The rule of [`is_object_name`] for people.
pub const OBJECT_RULE: &str = "at most 253 lower-case letters, digits, - and ., with a letter or \
                               digit at both ends of each part between dots";

/// The rule of [`is_namespace_name`] for people.
pub const NAMESPACE_RULE: &str =
    "at most 63 lower-case letters, digits and -, with a letter or digit at both ends";

/// The rule of [`is_label_name`] for people.
pub const NAME_RULE: &str =
    "at most 63 letters, digits, -, _ and ., with a letter or digit at both ends";

/// True if this can be the name of most objects (a DNS subdomain, RFC 1123): lower-case letters,
/// digits, `-` and `.`, with a letter or digit at both ends of each part between dots.
pub fn is_object_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX && name.split('.').all(is_dns_name)
}

/// True if this can be the name of a namespace (a DNS label, RFC 1123): an object's name of at most
/// 63 bytes without dots.
pub fn is_namespace_name(name: &str) -> bool {
    name.len() <= LABEL_LENGTH_MAX && is_dns_name(name)
}

/// True if this can be the name in the key of a label, and so the name of a queue or a scheduler:
/// at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
pub fn is_label_name(name: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let is_end = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    bytes.len() <= LABEL_LENGTH_MAX
        && bytes.iter().all(|b| is_inner(*b))
        && is_end(bytes.first())
        && is_end(bytes.last())
}

/// True if this can be the value of a label: what can be a name in a key, or nothing.
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_label_name(value)
}

/// True if this can be the key of a label: a name, maybe behind a DNS subdomain and `/`.
pub fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_object_name(prefix) && is_label_name(name),
        None => is_label_name(key),
    }
}

fn is_dns_name(part: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !part.is_empty() && part.bytes().all(is_inner) && !part.starts_with('-') && !part.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_objects_are_dns_subdomains() {
        for name in ["a", "0", "a.b-c", "a--b", &"a".repeat(253)] {
            assert!(is_object_name(name), "{name}");
        }
        let wrong = ["", "a/b", "..", "a..b", ".a", "a.", "-a", "a-", "A", "a_b", "ä", "a b"];
        for name in wrong.iter().chain(&[&*"a".repeat(254)]) {
            assert!(!is_object_name(name), "{name}");
        }
        assert!(is_namespace_name("a-b") && !is_namespace_name("a.b"));
        assert!(is_namespace_name(&"a".repeat(63)) && !is_namespace_name(&"a".repeat(64)));
    }

    #[test]
    fn labels_have_keys_and_values() {
        for value in ["a", "A-b_c.d", "0", &"a".repeat(63)] {
            assert!(is_label_value(value) && is_label_key(value), "{value}");
        }
        for value in ["a b", "-a", "a-", ".", "ä", "a/b/c", &"a".repeat(64)] {
            assert!(!is_label_value(value) && !is_label_key(value), "{value}");
        }
        assert!(is_label_value("") && !is_label_key(""));
        assert!(is_label_key("example.com/A_b") && !is_label_value("example.com/A_b"));
        for key in ["/a", "example.com/", "Example.com/a", "a b/c"] {
            assert!(!is_label_key(key), "{key}");
        }
    }
}
