//! By which policy each queue is walked.

use crate::queue::QueueId;

/// The rule that decides which requests may start before others: Fluxion's queue policies, by their
/// names there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueuePolicy {
    /// No request that needs nodes which an earlier one could use.
    Fcfs,
    /// A request that does not delay the first one that waits.
    #[default]
    Easy,
    /// A request that does not delay any of the first ones that wait, up to a number.
    Hybrid,
    /// A request that delays no other.
    Conservative,
}

/// What goes for queues that do not say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueDefaults {
    /// The rule that decides which requests may start before others.
    pub policy: QueuePolicy,
    /// The most requests, from the first in the queue, that may hold a reservation.
    pub queue_depth: usize,
    /// The number of reservations under [`QueuePolicy::Hybrid`].
    pub reservation_depth: usize,
    /// The seconds for which others may go ahead of the first that waits, if its start is not
    /// known.
    pub bypass_secs: u64,
}

/// How all queues are walked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policies {
    /// There is one queue, or the graph keeps no reservations: a request that waits holds the nodes
    /// that it could use.
    FirstComeFirstServed,
    /// With reservations, by the number of the queue.
    PerQueue(Vec<Depths>),
}

/// The numbers that decide which requests of a queue may hold a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depths {
    /// The most requests that hold a reservation.
    pub reservations: usize,
    /// The most requests, from the first in the queue, that may hold one.
    pub queue: usize,
    /// True if no request may be passed by, not even for a moment.
    pub is_strict: bool,
    /// True if no request starts before one that waits ahead of it in the queue.
    pub in_order: bool,
}

impl QueuePolicy {
    /// All of them.
    pub const ALL: [QueuePolicy; 4] =
        [QueuePolicy::Fcfs, QueuePolicy::Easy, QueuePolicy::Hybrid, QueuePolicy::Conservative];

    /// The policy's name in Fluxion, in the settings file and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            QueuePolicy::Fcfs => "fcfs",
            QueuePolicy::Easy => "easy",
            QueuePolicy::Hybrid => "hybrid",
            QueuePolicy::Conservative => "conservative",
        }
    }

    /// The policy of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == name)
    }
}

impl QueueDefaults {
    /// Returns the policies of a single queue.
    pub(crate) fn policies(&self) -> Policies {
        match self.policy {
            QueuePolicy::Fcfs => Policies::FirstComeFirstServed,
            policy => Policies::PerQueue(vec![Depths::of(
                policy,
                self.queue_depth,
                self.reservation_depth,
                self.bypass_secs,
            )]),
        }
    }
}

impl Policies {
    /// True if no request of this queue starts before one that waits ahead of it there.
    pub fn is_in_order(&self, queue: QueueId) -> bool {
        match self {
            Policies::FirstComeFirstServed => true,
            Policies::PerQueue(depths) => Depths::for_queue(depths, queue).in_order,
        }
    }
}

impl Depths {
    /// Makes the depths of a policy.
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

    /// Returns the depths of a queue.
    pub(super) fn for_queue(all: &[Depths], queue: QueueId) -> Depths {
        // An unknown queue is walked as the default.
        all.get(queue.index()).copied().unwrap_or(all[QueueId::DEFAULT.index()])
    }
}
