//! How a pod is on a node.

/// Whether a pod is where it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It is there, or is about to be bound.
    There,
    /// Another scheduler means to put it there, and may yet put it elsewhere. As in kube-scheduler,
    /// it may keep others off that one node, but it attracts no pod.
    Nominated,
}
