//! Why a request was not given slots.

use std::sync::Arc;

use crate::queue::JobId;
use crate::queues::AtLimit;
use fluxqueue_machine::fluxion::RankSet;
use fluxqueue_workload::Time;

/// Why a request was not given slots.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It could start one day: it holds these nodes.
    Waits {
        /// The nodes.
        held: Arc<RankSet>,
        /// The instant of its start, if that is known.
        at: Option<Time>,
    },
    /// Pods with an end keep its pods away: it could start when these have ended, and holds these
    /// nodes.
    KeptAway {
        /// The nodes.
        held: Arc<RankSet>,
    },
    /// There is room for its pods, but not where they may be together by what they ask about other
    /// pods, each other included: it could start when work with an end has ended, and holds these
    /// nodes.
    Scattered {
        /// The nodes.
        held: Arc<RankSet>,
    },
    /// It would fit, but an earlier job holds the nodes.
    Behind {
        /// The nodes that it could use.
        held: Arc<RankSet>,
        /// The earlier job.
        job: JobId,
    },
    /// Work without an end is in the way: it holds nothing.
    PassedOver,
    /// The nodes that could hold it are cordoned, not ready or left alone for the moment: it holds
    /// nothing.
    NodesAway,
    /// No node may be used at all.
    NoNodes,
    /// It does not fit the idle cluster.
    Never,
    /// No placement was found, and it is not proved that there is none: it holds nothing.
    NotFound,
    /// Its queue has as much as it may have.
    AtLimit(Arc<AtLimit>),
}

impl Outcome {
    /// Returns the instant at which the request could start, if that is known.
    pub fn starts_at(&self) -> Option<Time> {
        match self {
            Outcome::Waits { at, .. } => *at,
            Outcome::AtLimit(limit) => limit.at.map(Time::from_seconds),
            Outcome::KeptAway { .. }
            | Outcome::Scattered { .. }
            | Outcome::Behind { .. }
            | Outcome::PassedOver
            | Outcome::NodesAway
            | Outcome::NoNodes
            | Outcome::Never
            | Outcome::NotFound => None,
        }
    }

    /// Returns the nodes that it holds, if it holds any.
    pub(super) fn held(&self) -> Option<&Arc<RankSet>> {
        match self {
            Outcome::Waits { held, .. }
            | Outcome::KeptAway { held }
            | Outcome::Scattered { held }
            | Outcome::Behind { held, .. } => Some(held),
            Outcome::PassedOver
            | Outcome::NodesAway
            | Outcome::NoNodes
            | Outcome::Never
            | Outcome::NotFound
            | Outcome::AtLimit(_) => None,
        }
    }

    /// True if the requests behind it in its class wait for the same, and so behind it.
    pub fn is_shared_by_those_behind(&self) -> bool {
        self.held().is_some() || matches!(self, Outcome::AtLimit(_))
    }

    /// True if it waits for nothing that will come by itself.
    pub(super) fn is_in_vain(&self) -> bool {
        self.needs_nodes() || matches!(self, Outcome::PassedOver | Outcome::NotFound)
    }

    /// True if only other nodes, or more of their resources, can change it.
    pub(super) fn needs_nodes(&self) -> bool {
        matches!(self, Outcome::Never | Outcome::NoNodes | Outcome::NodesAway)
    }
}
