//! The questions of a walk: where requests come from, and which room the machine has for them.

use super::group::Group;
use super::outcome::Outcome;
use super::request::Request;
use crate::queue::{ClassId, JobId, PendingRequest, Place};
use crate::queues::AtLimit;
use fluxqueue_machine::fluxion::{Fit, Forecast, Rank, RankSet};
use fluxqueue_machine::ledger::Change;

/// Where the requests come from.
pub trait Requests {
    /// True if it is to be left alone for a while, after something failed.
    fn is_put_off(&self, pending: &PendingRequest) -> bool;
    /// Returns the present demand of a request; `None` if it has none.
    fn request(&self, pending: &PendingRequest) -> Option<Request>;
}

/// What can be asked of the machine. Nodes are given per group of the request.
pub trait Capacity {
    /// Slots that were taken.
    type Slots;

    /// Returns the steps of the searches that gave up, up to now.
    fn steps_in_vain(&self) -> u64;
    /// Returns as of when answers for this request are given.
    fn version(&self, request: &Request) -> Version;
    /// The nodes that a group may use now.
    fn open(&mut self, group: &Group) -> RankSet;
    /// Returns the nodes that a group could use now if the pods with an end were gone that keep it
    /// away, or that occupy something it needs for itself.
    fn some_day(&mut self, group: &Group) -> RankSet;
    /// The nodes for which a request waits that has come to nothing for the only reason that pods
    /// with an end keep its pods away.
    fn waits_for_others(
        &mut self,
        request: &Request,
        open: &[RankSet],
        outcome: &Outcome,
    ) -> Option<RankSet>;
    /// True if nodes are held for this request no more: it keeps pods of other namespaces off whole
    /// domains, and has held them for long enough.
    fn has_held_its_time(&mut self, pending: &PendingRequest, request: &Request) -> bool;
    /// True if pods of a request may come to some of these nodes together now, by what they ask
    /// about other pods.
    fn are_allowed_together(&mut self, request: &Request, nodes: &[RankSet]) -> bool;
    /// True if they may come to some nodes together once everything with an end has ended.
    fn are_allowed_together_some_day(&mut self, request: &Request) -> bool;
    /// The nodes that a group could use if those that are cordoned or not ready came back.
    fn lasting(&mut self, group: &Group) -> RankSet;
    /// Takes slots for all pods on these nodes.
    fn place(&mut self, request: &Request, nodes: &[RankSet]) -> Fit<Self::Slots>;
    /// Returns when all pods could start on these nodes.
    fn forecast(&mut self, request: &Request, nodes: &[RankSet]) -> Forecast;
    /// The nodes that could hold a pod of it once everything with an end has ended.
    fn eligible(&mut self, request: &Request, nodes: &[RankSet]) -> RankSet;
    /// True if one of the changes since then matters, or there were too many to know.
    fn changed_since(&self, then: u64, matters: &mut dyn FnMut(Change) -> bool) -> bool;
    /// True if a pod of the request fits on this node now, as far as its amounts go.
    fn fits_one(&self, request: &Request, rank: Rank) -> bool;
    /// True if one pod fits there once all pods with a known end have ended.
    fn fits_one_some_day(&self, request: &Request, rank: Rank) -> bool;
    /// The limit of its queue that a request is at now, if it is at one. The start that the request
    /// itself was promised does not count.
    fn limit(&mut self, pending: &PendingRequest, request: &Request) -> Option<Limited>;
    /// The nodes on which pods of a group would keep pods of another request, which has these nodes
    /// for later, away from some of them.
    fn out_of_reach(&mut self, group: &Group, other: &Request, nodes: &RankSet) -> RankSet;
    /// The nodes on which pods of another request would count for the spread of a group that has
    /// these nodes for later, in the domains of these.
    fn crowded_by(&mut self, group: &Group, other: &Request, nodes: &RankSet) -> RankSet;
    /// The nodes on which pods of another request would draw a group that has these nodes for later
    /// away from them, since its pods are to be near to each other, and to those.
    fn drawn_away_by(&mut self, group: &Group, other: &Request, nodes: &RankSet) -> RankSet;
    /// Returns the nodes of a request that starts, if it is to be spread or near to its own: until
    /// it begins no other request may make it uneven, or draw it away.
    fn is_to_stay_undisturbed(&self, request: &Request, slots: &Self::Slots) -> Option<RankSet>;
    /// The nodes on which pods of a group would keep each request that is promised a start away
    /// from some of its nodes, with its job.
    fn out_of_reach_of_promises(&mut self, group: &Group) -> Vec<(RankSet, JobId)>;
    /// True if the request is known not to start now, without a question, and to wait for the same
    /// as before.
    fn rules_out(&self, request: &Request) -> bool;
    /// True if it can list the requests that are not ruled out, without visiting the others. It may
    /// say so only if every request that it rules out waits for work with a known end, and no
    /// request comes in ahead of others or is put off.
    fn knows_candidates(&self) -> bool;
    /// Returns, if it can, the next first of a class behind this place that it does not rule out.
    fn next_candidate(&self, behind: &Place) -> Option<(Place, ClassId)>;
}

/// A limit that keeps a request from starting now.
#[derive(Debug)]
pub struct Limited {
    /// The limit.
    pub at: AtLimit,
    /// True if it counts on all nodes, not only on some that it may use.
    pub is_everywhere: bool,
}

/// As of when something is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Version {
    /// Differs whenever the nodes that a request may use may be others.
    pub nodes: u64,
    /// The number of changes of taken room there, up to then.
    pub changes: u64,
}
