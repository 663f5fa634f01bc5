//! The breach of a rule.

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: &'static str,
    pub(crate) text: String,
}

/// Returns a broken rule, as an error.
pub(crate) fn broken<T>(rule: &'static str, text: impl Into<String>) -> Result<T, Violation> {
    Err(Violation { rule, text: text.into() })
}
