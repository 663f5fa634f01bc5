//! The words for obstacles that the plan does not know.

use fluxqueue_api::{BlockedBy, BlockedReason, text};

use crate::telling::outside::{Outside, QueueObstacle, QueueTrouble, QuotaShortage};
use fluxqueue_workload::Lifetime;
use fluxqueue_workload::quantity::told;

/// Puts an obstacle in words, with the queue that it is about.
pub(crate) fn blocked_by(obstacle: &Outside) -> BlockedBy {
    let queue = match obstacle {
        // A queue that does not let it start holds it.
        Outside::Queue(it) if obstacle.reason() != BlockedReason::Held => {
            Some(it.queue.to_string())
        }
        _ => None,
    };
    BlockedBy { queue, ..BlockedBy::new(obstacle.reason(), message(obstacle)) }
}

/// Returns the message on an obstacle.
pub(crate) fn message(obstacle: &Outside) -> String {
    match obstacle {
        Outside::Held(text)
        | Outside::Paused(text)
        | Outside::Refused(_, text)
        | Outside::WriteFailed(text)
        | Outside::VolumesUnbound(text) => text.clone(),
        Outside::Queue(obstacle) => of_queue(obstacle),
        Outside::ReleasePaused { times, until } => {
            let jobs =
                if *times == 1 { "a Job was".to_owned() } else { format!("{times} Jobs were") };
            format!(
                "{jobs} released in its namespace, and the pods did not all come in time: the next \
                 release is not before {}",
                until.timestamp()
            )
        }
        Outside::Quota(shortage) => of_quota(shortage),
        Outside::Incomplete { there, size, gated: 0 } => {
            format!("{there} of {size} pods are there")
        }
        Outside::Incomplete { there, size, gated } => {
            format!("{there} of {size} pods are there, {gated} held by gates of others")
        }
        Outside::NoGroup(group, _, Some(hidden)) => {
            format!("PodGroup {group} is not there: {hidden}")
        }
        Outside::NoGroup(group, None, None) => format!("PodGroup {group} is not there yet"),
        Outside::NoGroup(group, Some(uid), None) => {
            format!("PodGroup {group} with uid {} is not there", text::name(uid))
        }
        Outside::TooFew(there) => {
            format!("{there} pods are there, and its group asks for more than can appear")
        }
        Outside::Gated(pod, gate) => format!("pod {pod} carries scheduling gate {gate:?}"),
        Outside::SearchesPause(until) => format!(
            "searches for places of jobs of its namespace took long and gave up: the next one is \
             not before {}",
            until.timestamp()
        ),
        Outside::Withdrawn(why) => {
            format!("the placement was withdrawn before the first Binding: {why}")
        }
        Outside::Misfit(pod, node) => format!(
            "pod {pod} does not fit on {node} any more; it is placed again, and bound after a pause"
        ),
        Outside::NotReleased(why) => format!("its Job cannot be released: {why}"),
    }
}

/// Returns the message on a quota.
pub(crate) fn of_quota(shortage: &QuotaShortage) -> String {
    let QuotaShortage { quota, name, resource, left, asked, is_beside_others } = shortage;
    let beside =
        if *is_beside_others { " beside those of Jobs that were just released" } else { "" };
    format!(
        "resourcequota {quota} leaves {} of {name}, and its pods ask for {}{beside}",
        told(resource, u128::from(*left)),
        told(resource, *asked)
    )
}

fn of_queue(QueueObstacle { queue, why }: &QueueObstacle) -> String {
    match why {
        QueueTrouble::Missing => format!("there is no FluxQueue {queue}"),
        QueueTrouble::Deleted => {
            format!("its queue was deleted: there is no FluxQueue {queue} any more")
        }
        QueueTrouble::Stopped => {
            format!("its queue is stopped: spec.stopPolicy of FluxQueue {queue} is Hold")
        }
        QueueTrouble::Invalid(trouble) => format!("FluxQueue {queue} cannot be used: {trouble}"),
        QueueTrouble::Closed(namespace) => format!(
            "FluxQueue {queue} is not for namespace {namespace}: see its spec.namespaceSelector"
        ),
        QueueTrouble::OtherKind(kind) => {
            format!("FluxQueue {queue} takes no {}: see its spec.workloadKinds", kind.as_str())
        }
        QueueTrouble::TooLong { asked, most } => {
            let asked = match asked {
                Lifetime::Seconds(seconds) => format!("a walltime of {seconds} s"),
                Lifetime::Eventually | Lifetime::Endless => "no end, as a service,".to_owned(),
            };
            format!(
                "it asks for {asked} and FluxQueue {queue} has {most} s at most \
                 (spec.maxWalltimeSeconds)"
            )
        }
        QueueTrouble::Full { most, path } => {
            format!("{most} jobs wait, as many as may: {path} of FluxQueue {queue}")
        }
    }
}
