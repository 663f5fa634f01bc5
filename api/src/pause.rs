//! The pause of all of Fluxqueue: the value of the annotation
//! [`PAUSED`](crate::names::PAUSED), and the message that is made of it.

use crate::text;

/// Returns the value of the annotation for a pause by this user.
pub fn value(by: &str, reason: &str) -> String {
    if reason.is_empty() { format!("by {by}") } else { format!("by {by}: {reason}") }
}

/// Returns the message for people, whatever the value is: users may write it by hand.
pub fn message(value: &str) -> String {
    let message = match value.trim() {
        "" => "Fluxqueue is paused".to_owned(),
        value if value.starts_with("by ") => format!("Fluxqueue is paused {value}"),
        value => format!("Fluxqueue is paused: {value}"),
    };
    text::into_message(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_says_by_whom_and_why_as_far_as_that_is_known() {
        let said = |by, reason| message(&value(by, reason));
        assert_eq!(said("ann", "new switch"), "Fluxqueue is paused by ann: new switch");
        assert_eq!(said("ann", ""), "Fluxqueue is paused by ann");
        assert_eq!(message("true"), "Fluxqueue is paused: true");
        assert_eq!(message(" "), "Fluxqueue is paused");
        assert_eq!(message("by \u{1b}[2J"), r"Fluxqueue is paused by \u{1b}[2J");
        assert!(message(&"x".repeat(1 << 18)).len() <= text::MESSAGE_BYTES_MAX);
    }
}
