//! What can go wrong, as a closed set of reasons that the C ABI turns into errno values.

/// An operation failed; nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    /// Which kind of failure.
    pub reason: Reason,
    /// For people: names the object and the field.
    pub text: String,
}

/// Kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The input is wrong (EINVAL).
    Invalid,
    /// It does not fit now (EBUSY).
    Busy,
    /// It does not fit even on the idle machine (ENODEV).
    Unsatisfiable,
    /// There is no such job, vertex or slot (ENOENT).
    NotFound,
    /// There already is such a job (EEXIST).
    Exists,
    /// No place was found, and it is not proved that there is none (EAGAIN).
    GaveUp,
    /// A number is out of range (EOVERFLOW).
    Overflow,
    /// The graph or the options cannot be used (EPROTO).
    Setup,
    /// It fits, and nothing of it would be taken (EINVAL).
    Nothing,
    /// It does not fit now, and one of its alternatives never does (ERANGE).
    Exceeded,
    /// Not possible with this kind of graph (ENOTSUP).
    NotSupported,
    /// Known, but not offered by this library (ENOSYS).
    NotOffered,
}

impl Error {
    /// The input is wrong.
    pub fn invalid(text: impl Into<String>) -> Self {
        Error { reason: Reason::Invalid, text: text.into() }
    }

    /// There is no such thing.
    pub fn not_found(text: impl Into<String>) -> Self {
        Error { reason: Reason::NotFound, text: text.into() }
    }

    /// It does not fit now.
    pub(crate) fn busy() -> Self {
        Error { reason: Reason::Busy, text: String::new() }
    }

    /// Whether the request was understood, and the answer is no.
    pub fn is_answer(&self) -> bool {
        matches!(self.reason, Reason::Busy | Reason::Unsatisfiable | Reason::GaveUp)
    }

    /// It never fits.
    pub(crate) fn unsatisfiable() -> Self {
        Error { reason: Reason::Unsatisfiable, text: String::new() }
    }

    /// The same failure as another kind.
    #[must_use]
    pub fn as_reason(mut self, reason: Reason) -> Self {
        self.reason = reason;
        self
    }
}
