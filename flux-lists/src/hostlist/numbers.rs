//! Numbers of hosts, with zeros in front.

/// Returns the width to which numbers are padded in a list that begins with these digits; 0 if they
/// are not.
pub(super) fn width_of(digits: &str) -> usize {
    if digits.len() > 1 && digits.starts_with('0') { digits.len() } else { 0 }
}

/// Appends a number with zeros in front, so that it has at least `width` digits. Widths of formats
/// end at 65,535, those of texts do not.
pub(super) fn push_number(out: &mut String, number: u64, width: usize) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number);
    out.extend(std::iter::repeat_n('0', width.saturating_sub(digits.len())));
    out.push_str(digits);
}
