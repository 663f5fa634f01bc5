//! Texts about failures.
//!
//! Upstream has one text for the process. Here contexts that one thread uses show each other's
//! texts. A context that moves to another thread takes its own along.

use std::cell::RefCell;
use std::thread::{self, ThreadId};

/// Texts are kept up to this many bytes together; beyond it the older ones are dropped.
const BYTES_MAX: usize = 64 * 1024;

thread_local! {
    /// The texts of the failures on this thread since the last clear, oldest first.
    static SHARED: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The texts of the failures on a context since the last clear, oldest first.
#[derive(Debug, Default)]
pub(super) struct Messages {
    text: String,
    /// The thread on which the first was noted.
    noted_on: Option<ThreadId>,
    /// Others were noted elsewhere.
    is_of_several: bool,
}

// A thread that is ending may have no text any more: nothing is noted then, and there is nothing to
// read.
fn with_shared<T>(work: impl FnOnce(&mut String) -> T) -> Option<T> {
    SHARED
        .try_with(|text| text.try_borrow_mut().ok().map(|mut text| work(&mut text)))
        .ok()
        .flatten()
}

/// Adds a line, or as much of it as has room.
fn add(text: &mut String, line: &str) {
    if text.len() + line.len() > BYTES_MAX {
        text.clear();
    }
    text.extend(line.chars().take(BYTES_MAX / 4));
}

impl Messages {
    pub(super) fn note(&mut self, line: &str) {
        let here = thread::current().id();
        self.is_of_several |= *self.noted_on.get_or_insert(here) != here;
        add(&mut self.text, line);
        with_shared(|text| add(text, line));
    }

    /// The text for a caller on this thread.
    pub(super) fn text(&self) -> String {
        let is_of_here = self.noted_on.is_none_or(|thread| thread == thread::current().id());
        if is_of_here && !self.is_of_several {
            return with_shared(|text| text.clone()).unwrap_or_default();
        }
        self.text.clone()
    }

    pub(super) fn clear(&mut self) {
        *self = Messages::default();
        with_shared(String::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_give_way_and_none_is_longer_than_all_may_be() {
        let mut messages = Messages::default();
        messages.clear();
        messages.note("one\n");
        messages.note("two\n");
        assert_eq!(messages.text(), "one\ntwo\n");
        messages.note(&"\u{10348}".repeat(BYTES_MAX));
        assert_eq!(messages.text().len(), BYTES_MAX);
        messages.note("three\n");
        assert_eq!(messages.text(), "three\n");
    }

    #[test]
    fn a_context_takes_its_text_to_another_thread() {
        let (mut moves, mut stays) = (Messages::default(), Messages::default());
        moves.clear();
        moves.note("here\n");
        stays.note("beside it\n");
        assert_eq!(moves.text(), "here\nbeside it\n");
        let moved = thread::spawn(move || {
            assert_eq!(Messages::default().text(), "");
            assert_eq!(moves.text(), "here\n");
            moves.note("there\n");
            assert_eq!(moves.text(), "here\nthere\n");
            moves.clear();
            assert_eq!(moves.text(), "");
            moves
        });
        assert_eq!(moved.join().expect("it does not panic").text(), "here\nbeside it\n");
        stays.clear();
        assert_eq!(stays.text(), "");
    }
}
