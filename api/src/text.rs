//! Texts from outside, cut and escaped where they enter a message.
//!
//! Annotations may have 256 KiB, and error messages of other servers have no bound at all. Quoted
//! in full, they make objects that the API server refuses and log lines that can be forged, and let
//! any tenant fill our memory. Every such text passes through one of the functions here at the
//! place where it is read.

use std::borrow::Cow;

/// The longest name of a Kubernetes object, in bytes: longer texts are no names.
pub const NAME_BYTES_MAX: usize = 253;

/// The longest key of a label, name of a resource, or topology key, in bytes: a DNS subdomain, a
/// slash, and 63 characters.
pub const KEY_BYTES_MAX: usize = 317;

/// The most bytes that a quoted value takes in a message, quotes and mark included: enough to
/// recognize the value.
pub const VALUE_BYTES_MAX: usize = 256;

/// The most bytes of a message: the API server refuses longer notes of Events, and conditions
/// repeat the text of Events.
pub const MESSAGE_BYTES_MAX: usize = 1024;

/// Returns `text` as a name in a message.
pub fn name(text: &str) -> Cow<'_, str> {
    bounded(text, NAME_BYTES_MAX)
}

/// Returns `text` as a whole message: of a condition, an Event, an error, or a line of a log.
///
/// A message that was cut stays as it is when it is cut again.
pub fn message(text: &str) -> Cow<'_, str> {
    bounded(text, MESSAGE_BYTES_MAX)
}

/// Does the same as [`message`] with an owned text: one that is short and plain is not copied.
pub fn into_message(text: String) -> String {
    match message(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(cut) => cut,
    }
}

/// Returns `text` as a value in a message: in quotes, with quotes and backslashes escaped too. The
/// mark of a cut stands behind the quotes, where no value can imitate it.
pub fn quoted(text: &str) -> String {
    /// The bytes of the quotes.
    const QUOTES: usize = 2;
    let escape = |c: char| {
        if matches!(c, '"' | '\\') { Some(c.escape_default().collect()) } else { escaped(c) }
    };
    let (mut value, cut) = cut(text, VALUE_BYTES_MAX - QUOTES, escape);
    value.insert(0, '"');
    value.push('"');
    value + &cut
}

/// Returns `text` in at most `bytes_max` bytes, with control characters escaped. A text that is
/// longer ends in a mark: an ellipsis, and the number of bytes that are left out. Characters are
/// never split.
pub fn bounded(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max && is_plain(text) {
        return Cow::Borrowed(text);
    }
    let (kept, mark) = cut(text, bytes_max, escaped);
    Cow::Owned(kept + &mark)
}

/// Returns the beginning of `text` with some characters escaped, and a mark if that is not all of
/// it: together at most `bytes_max` bytes, unless the mark alone is longer.
fn cut(text: &str, bytes_max: usize, escape: impl Fn(char) -> Option<String>) -> (String, String) {
    let with_mark = bytes_max.saturating_sub(mark(text.len()).len());
    let mut kept = String::new();
    // The lengths of both that stay if the rest does not fit.
    let (mut fits, mut read) = (0, 0);
    for (at, c) in text.char_indices() {
        match escape(c) {
            Some(escape) => kept.push_str(&escape),
            None => kept.push(c),
        }
        if kept.len() <= with_mark {
            (fits, read) = (kept.len(), at + c.len_utf8());
        }
        if kept.len() > bytes_max {
            kept.truncate(fits);
            return (kept, mark(text.len() - read));
        }
    }
    (kept, String::new())
}

fn mark(left_out: usize) -> String {
    format!("… ({left_out} more bytes)")
}

/// True if no character is escaped. Nearly all texts are ASCII, which is checked byte by byte, many
/// at once.
fn is_plain(text: &str) -> bool {
    // Without a branch per byte, many bytes are compared at once.
    let is_ascii = text.bytes().fold(true, |all, byte| all & matches!(byte, b' '..=b'~'));
    is_ascii || text.chars().all(|c| escaped(c).is_none())
}

/// Returns the escape of a character that would end a line, move a cursor, or reorder or hide its
/// neighbours; `None` for all other characters.
fn escaped(c: char) -> Option<String> {
    let is_hidden = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}');
    (c.is_control() || is_hidden).then(|| c.escape_default().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_plain_texts_stay() {
        for text in ["", "n1", "größer", "a \"b\" \\ c", &"x".repeat(MESSAGE_BYTES_MAX)] {
            assert!(matches!(message(text), Cow::Borrowed(same) if same == text), "{text}");
        }
        for text in ["", "soon", "größer", "a\"b\\c", "two\nlines", "tab\t"] {
            assert_eq!(quoted(text), format!("{text:?}"));
        }
    }

    #[test]
    fn long_texts_are_cut_with_a_mark_of_the_length() {
        let cut = message(&"x".repeat(5000)).into_owned();
        let kept = cut.matches('x').count();
        assert_eq!(cut.len(), MESSAGE_BYTES_MAX);
        assert_eq!(cut, format!("{}… ({} more bytes)", "x".repeat(kept), 5000 - kept));
        let cut = quoted(&"z".repeat(262_144));
        let kept = cut.matches('z').count();
        assert_eq!(cut.len(), VALUE_BYTES_MAX);
        assert_eq!(cut, format!("\"{}\"… ({} more bytes)", "z".repeat(kept), 262_144 - kept));
        assert!(
            quoted(&"\"… (9 more bytes)".repeat(2)).starts_with("\"\\\"… (9 more"),
            "a value does not end its quotes"
        );
    }

    #[test]
    fn control_characters_and_characters_that_hide_others_are_escaped() {
        assert_eq!(
            message("a\nb\u{7f}\u{1b}[31m\u{202e}\u{2028}\u{0}"),
            r"a\nb\u{7f}\u{1b}[31m\u{202e}\u{2028}\u{0}"
        );
        let long = quoted(&"\u{7f}".repeat(200_000));
        assert!(long.len() <= VALUE_BYTES_MAX, "{}", long.len());
        assert!(
            long.contains(r"\u{7f}") && long.contains(r#"}"… (1999"#),
            "an escape is not split: {long}"
        );
    }

    #[test]
    fn every_text_is_within_every_bound_and_cut_once() {
        let texts = ["x", "ü", "€", "😀", "\u{7f}", "\n", "\"", "a\u{301}", "xü€😀\n"];
        for text in texts.iter().flat_map(|text| {
            [1, 60, 85, 250, 253, 254, 1023, 1024, 1025, 9000].map(|n| text.repeat(n))
        }) {
            for bytes in [NAME_BYTES_MAX, VALUE_BYTES_MAX, MESSAGE_BYTES_MAX] {
                let once = bounded(&text, bytes);
                assert!(once.len() <= bytes && !once.contains(char::is_control), "{bytes}: {once}");
                assert_eq!(bounded(&once, bytes), once);
            }
            assert!(quoted(&text).len() <= VALUE_BYTES_MAX);
        }
    }
}
