//! What keeps a pod from being placed as it is. The scheduler refuses it for this, and admission
//! does before, where it is asked to.

use super::{Pod, Unsupported};

/// One thing that its author has to mend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal<'a> {
    /// A group label that says no size; the text names the label.
    GroupSize(&'a str),
    /// A field that is not honoured, or cannot be read.
    Unsupported(&'a Unsupported),
}

impl Pod {
    /// All that it is refused for, the first being what its author is told.
    pub fn refusals(&self) -> impl Iterator<Item = Refusal<'_>> {
        let size = self.group.as_ref().and_then(|group| group.size.as_ref().err());
        let size = size.map(|message| Refusal::GroupSize(message));
        size.into_iter().chain(self.unsupported.iter().map(Refusal::Unsupported))
    }
}
