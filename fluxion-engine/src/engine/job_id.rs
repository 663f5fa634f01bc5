//! The forms in which Flux writes the id of a job (RFC 19), as its `flux_job_id_parse` reads them;
//! but for words, which need its dictionary.

/// The digits of base 58: no 0, O, I and l.
const DIGITS: &[u8] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

/// Digits of base 58 that 64 bits take at most, and one more, as upstream counts.
const F58_DIGITS_MAX: usize = 12;

/// The id of a job: decimal, `0x` and hexadecimal, dotted hexadecimal, F58, or a key of the KVS.
pub(super) fn parse(text: &str) -> Option<u64> {
    let text = text.strip_prefix("job.").unwrap_or(text);
    if text.contains('.') {
        return dotted(text);
    }
    // Words have hyphens between them.
    if text.contains('-') {
        return None;
    }
    if let Some(digits) = text.strip_prefix('ƒ').or_else(|| text.strip_prefix('f')) {
        return base_58(digits);
    }
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Four hexadecimal numbers of 16 bits each; of a longer one, what stands above them is added to
/// those before it.
fn dotted(text: &str) -> Option<u64> {
    let mut id = 0;
    let mut parts = text.split('.');
    for shift in [48, 32, 16, 0] {
        let part = parts.next()?;
        let digits = part.strip_prefix("0x").unwrap_or(part);
        // strtoul takes no digits at all for 0.
        let number = if digits.is_empty() { 0 } else { u64::from_str_radix(digits, 16).ok()? };
        id |= number << shift;
    }
    parts.next().is_none().then_some(id)
}

fn base_58(digits: &str) -> Option<u64> {
    if digits.is_empty() || digits.len() > F58_DIGITS_MAX {
        return None;
    }
    digits.bytes().try_fold(0_u64, |id, byte| {
        let digit = DIGITS.iter().position(|digit| *digit == byte)?;
        // As upstream, what does not fit is cut off.
        Some(id.wrapping_mul(58).wrapping_add(digit as u64))
    })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn ids_are_read_in_the_forms_of_flux() {
        for (text, id) in [
            ("1", 1),
            ("0x1F", 31),
            ("ƒ2", 1),
            ("f2", 1),
            ("ƒ1", 0),
            ("ƒ21", 58),
            ("ƒZ", 32),
            ("ƒz", 57),
            ("0.0.0.1", 1),
            ("0000.0000.0001.000a", 0x1_000a),
            ("job.0000.0000.0000.0002", 2),
            ("job.3", 3),
            ("ffff.ffff.ffff.ffff", u64::MAX),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse(text), Some(id), "{text}");
        }
        for text in [
            "",
            "ƒ",
            "f",
            "ƒ0",
            "ƒl",
            "ƒ1111111111111",
            "0.0.1",
            "0.0.0.0.1",
            "0.0.0.g",
            "-1",
            "academy-adios",
            "x",
            "0x",
            "job.",
            "18446744073709551616",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
