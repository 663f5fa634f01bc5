//! The words for delays of promised starts.

use std::sync::Arc;

use crate::telling::delay::DelayedBy;
use crate::telling::lost::{Loss, NodeLoss, QueueChange};
use crate::telling::readers::Reader;

/// Puts the cause of a delay in words for this reader.
pub(crate) fn message(by: &DelayedBy, reader: &Reader<'_>) -> String {
    match by {
        DelayedBy::Overdue(named) => format!("{} outlived its planned end", reader.name(named)),
        DelayedBy::OverdueJob => "a job outlived its planned end".to_owned(),
        DelayedBy::Retried(pod) => {
            format!("{} takes the place of a pod that failed", reader.pod(pod))
        }
        DelayedBy::Claim(text) | DelayedBy::Paused(text) | DelayedBy::PutOff(text) => text.clone(),
        DelayedBy::Loss(Loss::Node(node, loss)) => format!("node {node} {}", of_node(*loss)),
        DelayedBy::Loss(Loss::Pod(pod, node)) => {
            format!("{} took room on node {node}", reader.pod(pod))
        }
        DelayedBy::LimitsOf(queue) => {
            format!("there is less room within the limits of FluxQueue {queue}")
        }
        DelayedBy::LessRoom(nodes) => format!("there is less room on {nodes}"),
        DelayedBy::EndsLater(named) => {
            format!("{} started later than planned, and ends later", reader.name(named))
        }
        DelayedBy::NodesGone => "its nodes are gone".to_owned(),
        DelayedBy::Priority(job) => format!("{} came in with higher priority", reader.job(job)),
        DelayedBy::Edited(job) => format!("{} was changed", reader.job(job)),
        DelayedBy::QueueOf(queue, change, job) => {
            format!("{}, in which {} is", of_queue(queue, *change), reader.job(job))
        }
        DelayedBy::Queue(queue, change) => of_queue(queue, *change),
        DelayedBy::EditedItself => "the job itself was changed".to_owned(),
    }
}

fn of_node(loss: NodeLoss) -> &'static str {
    match loss {
        NodeLoss::Gone => "is gone",
        NodeLoss::Cordoned => "was cordoned",
        NodeLoss::NotReady => "is not ready",
        NodeLoss::Smaller => "has fewer resources",
        NodeLoss::OtherTaints => "has other taints",
        NodeLoss::OtherLabels => "has other labels",
        NodeLoss::RefusedPod => "refused a pod",
    }
}

fn of_queue(queue: &Arc<str>, change: QueueChange) -> String {
    match change {
        QueueChange::Edited => format!("FluxQueue {queue} was changed"),
        QueueChange::Deleted => format!("FluxQueue {queue} was deleted"),
    }
}
