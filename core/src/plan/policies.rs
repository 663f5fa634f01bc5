//! By which policy each queue is walked.

use crate::queue::QueueId;
use crate::settings::QueuePolicy;

/// How all queues are walked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Policies {
    /// There is one queue, or the graph keeps no reservations: whoever waits holds the nodes that
    /// he could use.
    FirstComeFirstServed,
    /// With reservations, by the number of the queue.
    PerQueue(Vec<Depths>),
}

/// Who of a queue may hold a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Depths {
    /// So many of those who wait hold one.
    pub reservations: usize,
    /// Only the first so many in the queue may.
    pub queue: usize,
    /// Nobody is passed by for a moment.
    pub is_strict: bool,
    /// Within the queue nobody starts before one who waits ahead of him.
    pub in_order: bool,
}

impl Policies {
    /// Nobody of this queue starts before one who waits ahead of him there.
    pub(crate) fn is_in_order(&self, queue: QueueId) -> bool {
        match self {
            Policies::FirstComeFirstServed => true,
            Policies::PerQueue(depths) => Depths::for_queue(depths, queue).in_order,
        }
    }
}

impl Depths {
    /// Those of a policy.
    pub(crate) fn of(policy: QueuePolicy, queue: usize, hybrid: usize, bypass_secs: u64) -> Self {
        let reservations = match policy {
            QueuePolicy::Fcfs | QueuePolicy::Easy => 1,
            QueuePolicy::Hybrid => hybrid,
            QueuePolicy::Conservative => usize::MAX,
        };
        Depths {
            reservations,
            queue,
            is_strict: bypass_secs == 0,
            in_order: policy == QueuePolicy::Fcfs,
        }
    }

    /// Those of a queue.
    pub(super) fn for_queue(all: &[Depths], queue: QueueId) -> Depths {
        // A queue that nobody knows is walked as the default.
        all.get(queue.index()).copied().unwrap_or(all[QueueId::DEFAULT.index()])
    }
}
