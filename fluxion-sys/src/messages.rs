//! Texts about failures. Each context has its own.

/// Texts are kept up to this many bytes together; beyond it the older ones are dropped, so that a
/// program that never clears them does not grow.
const BYTES_MAX: usize = 64 * 1024;

/// The texts of the failures on a context since the last clear, oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Messages {
    text: String,
}

impl Messages {
    /// Adds a line, or as much of it as has room.
    pub(crate) fn note(&mut self, line: &str) {
        if self.text.len() + line.len() > BYTES_MAX {
            self.text.clear();
        }
        self.text.extend(line.chars().take(BYTES_MAX / 4));
    }

    /// The texts, joined.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Forgets the texts.
    pub(crate) fn clear(&mut self) {
        self.text = String::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_give_way_and_none_is_longer_than_all_may_be() {
        let mut messages = Messages::default();
        messages.note("one\n");
        messages.note("two\n");
        assert_eq!(messages.text(), "one\ntwo\n");
        messages.note(&"\u{10348}".repeat(BYTES_MAX));
        assert_eq!(messages.text().len(), BYTES_MAX);
        messages.note("three\n");
        assert_eq!(messages.text(), "three\n");
        messages.clear();
        assert_eq!(messages.text(), "");
    }
}
