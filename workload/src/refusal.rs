//! The faults that keep a pod from being placed. The scheduler refuses the pod for them, and
//! admission does so earlier in strict namespaces.

use crate::pod::Pod;
use crate::unsupported::Unsupported;

/// A fault that the pod's author has to correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal<'a> {
    /// A group label without a usable size; the text names the label.
    GroupSize(&'a str),
    /// A field that is not honoured, or cannot be read.
    Unsupported(&'a Unsupported),
}

impl Pod {
    /// Returns all faults; the first one is in the pod's condition.
    pub fn refusals(&self) -> impl Iterator<Item = Refusal<'_>> {
        let size = self.group.as_ref().and_then(|group| group.size.as_ref().err());
        let size = size.map(|message| Refusal::GroupSize(message));
        size.into_iter().chain(self.unsupported.iter().map(Refusal::Unsupported))
    }
}
