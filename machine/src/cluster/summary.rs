//! Why no node takes a pod, in kube-scheduler's words: people, and the programs that read its
//! messages, know them.

use std::collections::BTreeMap;

use super::filters::Rejection;

/// The text for a pod that fits no node: `0/5 nodes are available: 1 node(s) were unschedulable, 4
/// Insufficient cpu.`
///
/// `reasons` counts nodes by reason; a node short of two resources counts for both.
pub fn unavailable<R: AsRef<str>>(nodes: usize, reasons: &BTreeMap<R, usize>) -> String {
    if nodes == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    // A conflict of the pod itself, found before any node is visited.
    let conflict = Rejection::ConflictingNames.reason();
    let counted = reasons.iter().map(|(reason, count)| match reason.as_ref() {
        reason if reason == conflict => reason.to_owned(),
        reason => format!("{count} {reason}"),
    });
    let mut counted: Vec<String> = counted.collect();
    // By text, not by number: so does kube-scheduler.
    counted.sort_unstable();
    let counted =
        if counted.is_empty() { String::new() } else { format!(" {}.", counted.join(", ")) };
    format!("0/{nodes} nodes are available:{counted}")
}

/// Returns the text for a pod that no node could take because of the pod itself, however many nodes
/// there were.
pub fn unplaceable(nodes: usize, said: &str) -> String {
    if nodes == 0 {
        unavailable::<&str>(0, &BTreeMap::new())
    } else {
        format!("0/{nodes} nodes are available: {said}.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_and_sorted_as_texts() {
        let reasons = [
            ("node(s) were unschedulable", 2),
            ("Insufficient memory", 3),
            ("Insufficient cpu", 10),
        ];
        assert_eq!(
            unavailable(12, &reasons.into()),
            "0/12 nodes are available: 10 Insufficient cpu, 2 node(s) were unschedulable, 3 Insufficient memory."
        );
    }

    #[test]
    fn without_nodes_or_reasons_there_is_still_a_sentence() {
        assert_eq!(unavailable::<&str>(0, &BTreeMap::new()), "no nodes available to schedule pods");
        assert_eq!(unavailable::<&str>(3, &BTreeMap::new()), "0/3 nodes are available:");
    }
}
