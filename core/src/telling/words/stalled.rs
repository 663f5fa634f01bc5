//! The words for gangs that have begun and do not become whole.

use crate::jobs::stalled::{Stall, StallCause, Stalled};

/// The largest number of jobs of a ring that a message names.
const RING_NAMED_MAX: usize = 8;

/// Returns the message of the condition Degraded.
pub(crate) fn message(stalled: &Stalled) -> String {
    match stalled {
        Stalled::OnRecord { message, .. } => message.clone(),
        Stalled::Found(Stall { bound, size, why }) => {
            let state = format!("{bound} of {size} pods are bound");
            match why {
                StallCause::Obstacles(None) => state,
                StallCause::Obstacles(Some(blockers)) => format!("{state}; {}", blockers.text()),
                StallCause::Ring(others) => format!("{state}; {}", of_ring(others)),
            }
        }
    }
}

/// Returns the sentence on a ring of jobs that wait for each other; `others` are the other jobs in
/// order, at least one.
fn of_ring(others: &[String]) -> String {
    let mut text = "the others need nodes that ".to_owned();
    for other in others.iter().take(RING_NAMED_MAX) {
        text.push_str(other);
        text.push_str(" holds; its missing pods need nodes that ");
    }
    if others.len() > RING_NAMED_MAX {
        text.push_str("more jobs hold; the last of them needs nodes that ");
    }
    let all = if others.len() == 1 { "the two" } else { "them" };
    text + &format!("this job holds: one of {all} has to be deleted")
}
