//! With which pods a pod comes, and which of those that are there count.

/// The company in which a pod comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Company {
    /// No other pod.
    Alone,
    /// Other pods, some of which may come before it.
    Together,
}

/// How long pods have to stay to count when they keep a pod off a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// They are there now.
    Now,
    /// They never end.
    ForEver,
}
