//! Obstacles: the things in the way of a job, as values. [`words`](super::words) puts them in
//! words.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::{BlockedBy, BlockedReason};

use crate::telling::outside::Outside;
use crate::telling::readers::{Named, Reader};
use fluxqueue_workload::constraints::HostPort;
use fluxqueue_workload::{ResourceName, Time};

/// One thing that is in the way of a job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Obstacle {
    /// A finding that an earlier process has put on record: its words are given.
    Stated(BlockedBy),
    /// A finding outside the plan: a gate, a hold, a refused write.
    Outside(Outside),
    /// The API server refuses the job's FluxJob, with these words.
    RecordRefused(String),
    /// An earlier job, which is known by its name unless it is gone.
    Behind(Option<Party>),
    /// A job for which nodes are kept from an instant on, by the wall clock.
    KeptFor(Party, Time),
    /// Work of which the end is unknown.
    UnknownEnd {
        /// The job or pod.
        party: Party,
        /// True if there are more of them.
        and_others: bool,
    },
    /// A limit of a queue.
    Limit(ReachedLimit),
    /// Nodes: none will do.
    Nodes(Box<NoNodes>),
    /// A resource of which all usable nodes together have too little.
    Resource(BlockedReason, Amounts),
    /// A level of the machine without a part that will do.
    Level(CrampedLevel),
}

/// A job or pod that is in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Party {
    named: Named,
    /// True if the reader may not learn its name.
    is_hidden: bool,
}

/// A limit that a job has reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReachedLimit {
    /// The queue that sets it.
    pub queue: String,
    /// The field of the FluxQueue. `None`: the limit has changed meanwhile.
    pub numbers: Option<LimitNumbers>,
}

/// A limit with its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LimitNumbers {
    /// The field of the FluxQueue.
    pub path: String,
    /// The limited resource; `None` if jobs are counted.
    pub resource: Option<ResourceName>,
    /// The namespace, if each has the limit for itself.
    pub namespace: Option<Arc<str>>,
    pub asked: u128,
    pub used: u128,
    pub most: u64,
    /// True if the job asks for more than the limit.
    pub never: bool,
}

/// An amount of a resource that pods request, and the free amount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub resource: String,
    pub requested: u128,
    pub free: u64,
}

/// Why no node will do for all pods that start together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NoNodes {
    pub reason: BlockedReason,
    /// The number of pods.
    pub pods: usize,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of closed nodes by reason, as kube-scheduler words these.
    pub closed: BTreeMap<String, usize>,
    /// A pod that may use no node, if others of its gang may use some.
    pub stuck: Option<Arc<str>>,
    /// The scarcest resource, and the number of pods that request it.
    pub scarcest: Option<(Amounts, u64)>,
    /// True if the numbers are those of the idle machine: the pods never fit.
    pub is_of_idle: bool,
    /// True if the pods of some shape do not all fit on the nodes, whatever is free there in all.
    pub is_divided: bool,
    /// For pods that ask for nodes alone: the nodes that others use, and all usable ones.
    pub used_by_others: Option<(u64, u64)>,
    /// For pods that may share no nodes with each other: the number that they need, and the number
    /// that they may use.
    pub apart: Option<(u64, usize)>,
    /// A host port, the pods that need a node of their own for it, and the nodes that they may use.
    pub port: Option<(HostPort, u64, usize)>,
    /// Claims that tie pods to some nodes.
    pub tied: TiedClaims,
    /// What else the plan found.
    pub finding: Option<Finding>,
}

/// Claims of pods with volumes that only some nodes can use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TiedClaims {
    /// The first of them, each as a clause with its nodes.
    pub clauses: Vec<String>,
    /// True if there are more.
    pub are_more: bool,
}

/// A finding about pods for which there would be room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// No domain has room for all pods that want to be near to each other.
    NoDomain,
    /// There is no place where they may be together.
    NotTogether {
        /// True if they have rules about other pods; otherwise it is for their volumes.
        ask_about_pods: bool,
    },
    /// Work without an end is in the way, so that no job is held back.
    WorkWithoutEnd,
    /// No placement was found, and none proved impossible.
    NotFound {
        /// True if they have rules about other pods.
        ask_about_pods: bool,
    },
}

/// A level that has too small or too full parts for all pods under one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CrampedLevel {
    pub level: String,
    /// The part with the most room, or the only one that will do.
    pub part: Option<String>,
    pub wanted: u64,
    pub room: u64,
    /// True if the numbers are those of the idle machine.
    pub is_of_idle: bool,
    pub why: LevelObstacle,
}

/// Why a level has no part that will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LevelObstacle {
    /// The largest part is too small, or none has room.
    TooSmall,
    /// No node that the pods may use is in a part.
    NoNode,
    /// The part with the rest of the job is too small.
    RestOfJob,
    /// The number of parts is too small for the most pods that one may have.
    TooFewParts { most: u32, parts: u64 },
    /// The parts differ too much: the named part has room for this number.
    Uneven { skew: u32, least: u64 },
    /// These parts have as many pods of the job as they may have.
    Full { named: Vec<String>, are_more: bool },
    /// The pods of the slice of this pod may use no part together.
    CutSlice(String),
}

impl Party {
    /// Returns it without its name, if the reader may not learn that.
    fn hidden_from(&self, reader: &Reader<'_>) -> Option<Party> {
        let may_learn = self.is_hidden || reader.may_read(&self.named.key().namespace);
        (!may_learn).then(|| Party { named: self.named.clone(), is_hidden: true })
    }

    /// Returns the words for it.
    pub(crate) fn name(&self) -> String {
        if self.is_hidden { self.named.unnamed().to_owned() } else { self.named.key().to_string() }
    }

    /// Returns the name of a job, for programs.
    pub(crate) fn job(&self) -> Option<String> {
        match &self.named {
            Named::Job(key) if !self.is_hidden => Some(key.to_string()),
            _ => None,
        }
    }

    /// True if the reader may not learn its name.
    pub(crate) fn is_hidden(&self) -> bool {
        self.is_hidden
    }
}

impl From<Named> for Party {
    fn from(named: Named) -> Self {
        Party { named, is_hidden: false }
    }
}

impl Obstacle {
    /// Returns the reason, in one word.
    pub(crate) fn reason(&self) -> BlockedReason {
        match self {
            Obstacle::Stated(stated) => stated.reason,
            Obstacle::Outside(it) => it.reason(),
            Obstacle::RecordRefused(_) => BlockedReason::BindFailed,
            Obstacle::Behind(_) | Obstacle::KeptFor(..) => BlockedReason::QueuedBehind,
            Obstacle::UnknownEnd { .. } => BlockedReason::UnknownEnd,
            Obstacle::Limit(_) => BlockedReason::QueueLimit,
            Obstacle::Nodes(nodes) => nodes.reason,
            Obstacle::Resource(reason, _) => *reason,
            Obstacle::Level(_) => BlockedReason::NoRoomInLevel,
        }
    }

    /// Returns the obstacle without a name that this reader may not learn; `None` if it has none.
    pub(crate) fn without_names(&self, reader: &Reader<'_>) -> Option<Obstacle> {
        Some(match self {
            Obstacle::Behind(Some(party)) => Obstacle::Behind(Some(party.hidden_from(reader)?)),
            Obstacle::KeptFor(party, from) => Obstacle::KeptFor(party.hidden_from(reader)?, *from),
            Obstacle::UnknownEnd { party, and_others } => {
                Obstacle::UnknownEnd { party: party.hidden_from(reader)?, and_others: *and_others }
            }
            _ => return None,
        })
    }
}
