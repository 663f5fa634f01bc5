//! The words of commands.

use std::io;

use crate::session::Session;

/// The error of a command with words that are not as they should be.
pub(super) const MALFORMED: &str = "malformed command";

/// The text of a file that a command names; says so if there is none.
pub(super) fn read(session: &mut Session, path: &str) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) => {
            session.wrong(format_args!("can't open {path}: {error}"))?;
            Ok(None)
        }
    }
}

/// A number that a command names, as C's strtoll reads it: what follows the digits is ignored, no
/// digits are 0.
pub(super) fn number(word: &str) -> i64 {
    let (sign, digits) = match word.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, word.strip_prefix('+').unwrap_or(word)),
    };
    let digits = digits.bytes().take_while(u8::is_ascii_digit);
    digits.fold(0_i64, |number, digit| {
        number.saturating_mul(10).saturating_add(sign * i64::from(digit - b'0'))
    })
}

/// The id of a job.
pub(super) fn job_id(word: &str) -> u64 {
    number(word).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_in_c() {
        for (word, is) in
            [("7", 7), ("-7", -7), ("+7x", 7), ("x", 0), ("", 0), ("1e3", 1), ("0x10", 0)]
        {
            assert_eq!(number(word), is, "{word}");
        }
        assert_eq!(
            (number("9999999999999999999"), number("-9999999999999999999")),
            (i64::MAX, i64::MIN)
        );
        assert_eq!(job_id("-1"), u64::MAX);
    }
}
