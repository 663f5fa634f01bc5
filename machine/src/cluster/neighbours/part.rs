//! The parts of a pod's rules about other pods.

/// The part of a crowd that counts a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// Required affinity, all terms together.
    Near,
    /// A term of required anti-affinity.
    Apart(usize),
    /// A spread constraint.
    Spread(usize),
    /// A term of preferred affinity or anti-affinity.
    Preferred(usize),
    /// A spread constraint that may be broken.
    PreferredSpread(usize),
}

impl Part {
    /// True if it decides where a pod may go.
    pub(super) fn is_required(self) -> bool {
        !matches!(self, Part::Preferred(_) | Part::PreferredSpread(_))
    }
}
