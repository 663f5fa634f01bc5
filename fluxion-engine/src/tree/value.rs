//! Values, and the numbers and texts that scalars are read as.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Display;

use crate::Error;

/// A value, and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Value<'a> {
    /// Its line, from 1; 0 in JSON, where values are found by their path.
    pub(crate) line: u32,
    /// Its value.
    pub(crate) content: Content<'a>,
}

/// The kinds of values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content<'a> {
    /// Nothing.
    Null,
    /// `true`, `false`: JSON's.
    Bool(bool),
    /// A whole number that is not negative: JSON's.
    Unsigned(u64),
    /// Another number: JSON's.
    Float(f64),
    /// A scalar as it was written: a string in quotes, or anything plain in YAML.
    Text { text: Cow<'a, str>, quoted: bool },
    /// A list.
    List(Vec<Value<'a>>),
    /// A mapping, in the document's order; each key once.
    Map(Vec<(Cow<'a, str>, Value<'a>)>),
}

/// Mappings with fewer keys are searched one key after the other.
const KEYS_FEW: usize = 16;

/// The keys of a mapping in the making, for the question whether a key is there. Mappings of a
/// jobspec have a handful; those of an environment have thousands.
#[derive(Debug, Default)]
pub(super) struct SeenKeys<'a>(HashSet<Cow<'a, str>>);

impl<'a> SeenKeys<'a> {
    /// Adds a key to those of `fields`. False if it is there already.
    #[expect(clippy::ptr_arg, reason = "a key that is borrowed from the text stays so")]
    pub(super) fn add(&mut self, key: &Cow<'a, str>, fields: &[(Cow<'a, str>, Value<'a>)]) -> bool {
        if fields.len() < KEYS_FEW {
            return !fields.iter().any(|(known, _)| known == key);
        }
        if self.0.is_empty() {
            self.0.extend(fields.iter().map(|(known, _)| known.clone()));
        }
        self.0.insert(key.clone())
    }
}

impl<'a> Value<'a> {
    pub(crate) fn is_null(&self) -> bool {
        self.content == Content::Null
    }

    /// Anything but a list, a mapping or nothing.
    pub(crate) fn is_scalar(&self) -> bool {
        !matches!(self.content, Content::Null | Content::List(_) | Content::Map(_))
    }

    /// The text of a scalar, as YAML has it: numbers too.
    pub(crate) fn text(&self) -> Option<Cow<'_, str>> {
        Some(match &self.content {
            Content::Bool(flag) => Cow::Borrowed(if *flag { "true" } else { "false" }),
            Content::Unsigned(number) => Cow::Owned(number.to_string()),
            Content::Float(number) => Cow::Owned(number.to_string()),
            Content::Text { text, .. } => Cow::Borrowed(text),
            Content::Null | Content::List(_) | Content::Map(_) => return None,
        })
    }

    /// A text that is a string beyond doubt: in quotes.
    pub(crate) fn quoted(&self) -> Option<&str> {
        match &self.content {
            Content::Text { text, quoted: true } => Some(text),
            _ => None,
        }
    }

    /// A whole number that is not negative: decimal, `0x` hexadecimal or `0` octal.
    pub(crate) fn unsigned(&self) -> Option<u64> {
        match &self.content {
            Content::Unsigned(number) => Some(*number),
            Content::Text { text, .. } => unsigned(text),
            _ => None,
        }
    }

    /// A number.
    pub(crate) fn float(&self) -> Option<f64> {
        match &self.content {
            // Beyond 2^53 a duration is refused anyway.
            #[expect(clippy::cast_precision_loss, reason = "as a decimal text would be rounded")]
            Content::Unsigned(number) => Some(*number as f64),
            Content::Float(number) => Some(*number),
            Content::Text { text, .. } => match text.trim() {
                ".inf" | ".Inf" | ".INF" | "+.inf" => Some(f64::INFINITY),
                "-.inf" => Some(f64::NEG_INFINITY),
                ".nan" | ".NaN" | ".NAN" => Some(f64::NAN),
                text => text.parse().ok(),
            },
            _ => None,
        }
    }

    pub(crate) fn list(&self) -> Option<&[Value<'a>]> {
        match &self.content {
            Content::List(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn map(&self) -> Option<&[(Cow<'a, str>, Value<'a>)]> {
        match &self.content {
            Content::Map(fields) => Some(fields),
            _ => None,
        }
    }
}

/// The fault of the field `at`; in YAML also on which line.
pub(crate) fn wrong(value: &Value<'_>, at: impl Display, what: impl Display) -> Error {
    let line = if value.line == 0 { String::new() } else { format!(" (line {})", value.line) };
    Error::invalid(format!("{at}: {what}{line}"))
}

/// As C's strtoull with base 0 reads it, without a minus and to the last character.
fn unsigned(text: &str) -> Option<u64> {
    let text = text.trim();
    let text = text.strip_prefix('+').unwrap_or(text);
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    if digits.is_empty() || !digits.bytes().all(|digit| char::from(digit).is_digit(radix)) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_does() {
        for (text, number) in
            [("4", Some(4)), ("+4", Some(4)), ("0x1F", Some(31)), ("010", Some(8)), ("0", Some(0))]
        {
            assert_eq!(unsigned(text), number, "{text}");
        }
        for text in [
            "",
            "-1",
            "08",
            "4.0",
            "1e2",
            "0x",
            "four",
            "4 5",
            "++4",
            "18446744073709551616",
            "0x+1",
        ] {
            assert_eq!(unsigned(text), None, "{text}");
        }
    }
}
