//! The search for places of all pods of a request.
//!
//! Places are proposed by the graph, or by a trial that puts the pods on nodes one after the other
//! by the rules that they have about each other (`trial`, `ways`). The graph books them, and each
//! pod is checked where it is. A pod that cannot have its volumes there beside the others is kept
//! from that node, and the search begins again. All of it is within one bound.
//!
//! A place that is found is a real one, but the search may miss one that exists. A request that
//! misses is reported as such, and holds up no other unless a search without the pods that have an
//! end finds places (`together`). No such request is promised a start, since its nodes depend on
//! pods that come and go.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::better_parts;
use super::cells::{Cells, Found, Question};
use super::domains::alternatives;
use super::excluding::{Places, ToldApart, by_pod, keep_away};
use super::limits::LevelLimits;
use super::pieces::pieces;
use super::{booking, trial, ways};
use crate::plan::nodes::union;
use crate::plan::request::Request;
use crate::plan::room::Room;
use fluxqueue_machine::cluster::Node;
use fluxqueue_machine::fluxion::{Fit, Forecast, Rank, RankSet};
use fluxqueue_machine::ledger::{Allocation, Allocations};
use fluxqueue_workload::Uid;

/// Proposals in one search at most, each of places for all pods. It bounds the time of a search.
const PROPOSALS_MAX: usize = 64;

/// Further proposals at most, in parts of levels that the request would rather have: a wish takes
/// nothing from the search for any places.
const BETTER_PROPOSALS_MAX: usize = 32;

/// A way in which places for all pods are proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The graph chooses the nodes.
    Graph,
    /// The pods are put on nodes one after the other.
    Trial,
    /// All orders of pods are searched up to a bound, and for each pod all cells.
    Exhaustive,
}

/// The purpose of a search.
trait Purpose {
    /// The place of a pod.
    type Place;

    /// True if the places are taken, with their volumes.
    const TAKES: bool;

    /// Returns the ways in which places are proposed, the first first.
    fn ways(request: &Request) -> &'static [Way];

    /// Returns the nodes in the order in which they are tried where they are alike.
    fn in_order(&self, nodes: &RankSet) -> Vec<Rank>;

    /// Has the graph propose places.
    fn propose_by_graph(
        room: &mut Room<'_>,
        request: &Request,
        nodes: &[RankSet],
    ) -> Fit<Places<Self::Place>>;

    /// Makes places of the seats that a trial has found.
    fn places_of(room: &mut Room<'_>, tried: &Tried<'_>) -> Fit<Places<Self::Place>>;

    /// Returns the node of a place.
    fn rank(place: &Self::Place) -> Rank;

    /// Gives a place back.
    fn give_back(room: &mut Room<'_>, place: Self::Place);
}

/// The seats that a trial has found.
struct Tried<'a> {
    asked: Question<'a>,
    found: Found,
}

/// To take slots, with volumes.
struct TakeSlots;

/// To find nodes alone, and to take nothing: of nodes that are alike, the first here come first.
struct FindNodes<'a>(&'a [Rank]);

/// Takes slots for all pods, with their volumes where they need some.
pub(crate) fn place(room: &mut Room<'_>, request: &Request, nodes: &[RankSet]) -> Fit<Allocations> {
    search(room, request, nodes, &TakeSlots)
}

/// Takes slots for all pods as they prefer, if such places are found: in the best parts that have
/// room for all now, or where they would rather be for each other.
pub(crate) fn place_as_preferred(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
) -> Option<Allocations> {
    let mut proposals = Proposals::new(&TakeSlots);
    if let Some(places) = proposals.in_better_parts(room, request, nodes) {
        return Some(places);
    }
    if !TakeSlots::ways(request).contains(&Way::Trial) {
        return None;
    }
    proposals.by(Way::Trial, room, request, nodes).placed()
}

/// Returns nodes on which all pods may be together, each with its volumes beside the others.
/// Nothing is taken or chosen, and the graph is not asked.
pub(crate) fn nodes_for_all(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
    ranks: &[Rank],
) -> Option<RankSet> {
    let places = search(room, request, nodes, &FindNodes(ranks)).placed()?;
    Some(places.into_iter().flatten().flatten().collect())
}

/// Looks for places of all pods, with their volumes: proposes places, checks the pods there, keeps
/// those from their nodes that do not fit, and begins again.
fn search<A: Purpose>(
    room: &mut Room<'_>,
    request: &Request,
    nodes: &[RankSet],
    purpose: &A,
) -> Fit<Places<A::Place>> {
    let mut proposals = Proposals::new(purpose);
    if !request.rests_on_volumes() {
        return proposals.first(room, request, nodes);
    }
    let (mut asked, mut within) = (request.clone(), nodes.to_vec());
    let (mut told_apart, mut is_narrowed) = (ToldApart::default(), false);
    let fit = loop {
        let places = match proposals.first(room, &asked, &within) {
            Fit::Placed(places) => places,
            // The nodes closed to some pods may keep out a request that would fit in another way.
            Fit::NotNow if is_narrowed => break Fit::NotFound,
            other => break other,
        };
        // There is room for all of them: volumes are for one pod each.
        told_apart.all_of(&mut asked, room.cluster.volumes_mut());
        let by_pod = by_pod(&asked, places);
        let misfits = misfits::<A>(room, by_pod.iter().map(|(uid, place)| (uid, A::rank(place))));
        if misfits.is_empty() {
            let places = told_apart.in_order(request, by_pod);
            if A::TAKES {
                // Pods told apart stay known: the core makes members of them.
                return Fit::Placed(places);
            }
            break Fit::Placed(places);
        }
        is_narrowed = true;
        for uid in &misfits {
            keep_away(&mut asked, &mut within, uid, A::rank(&by_pod[uid]));
        }
        for place in by_pod.into_values() {
            A::give_back(room, place);
        }
        if within.iter().any(RankSet::is_empty) {
            break Fit::NotFound;
        }
    };
    told_apart.forget(room.cluster.volumes_mut());
    fit
}

/// Returns the pods that cannot have their volumes on these nodes beside the others. If there are
/// none, and the places are taken, the volumes are chosen.
fn misfits<'a, A: Purpose>(
    room: &mut Room<'_>,
    seats: impl Iterator<Item = (&'a Uid, Rank)>,
) -> Vec<Uid> {
    let node =
        |(uid, rank): (&Uid, Rank)| Some((uid.clone(), Arc::clone(room.cluster.node(rank)?)));
    let seats: Vec<(Uid, Arc<Node>)> = seats.filter_map(node).collect();
    let together: BTreeSet<Uid> = seats.iter().map(|(uid, _)| uid.clone()).collect();
    let volumes = room.cluster.volumes_mut();
    if A::TAKES { volumes.choose(&seats, &together) } else { volumes.misfits(&seats, &together) }
}

/// The proposals of one search.
struct Proposals<'a, A> {
    purpose: &'a A,
    /// The number that may still be made.
    left: usize,
    /// The number that may still be made in better parts.
    left_in_better: usize,
}

impl<'a, A: Purpose> Proposals<'a, A> {
    fn new(purpose: &'a A) -> Self {
        Proposals { purpose, left: PROPOSALS_MAX, left_in_better: BETTER_PROPOSALS_MAX }
    }

    /// True if one more may be made; it counts.
    fn go_on(&mut self) -> bool {
        let may_go_on = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may_go_on
    }

    /// Makes proposals until one will do.
    fn first(
        &mut self,
        room: &mut Room<'_>,
        request: &Request,
        nodes: &[RankSet],
    ) -> Fit<Places<A::Place>> {
        if A::TAKES
            && let Some(places) = self.in_better_parts(room, request, nodes)
        {
            return Fit::Placed(places);
        }
        self.in_any_parts(room, request, nodes)
    }

    /// Makes proposals in the best parts that have room for all now, if the request would rather
    /// have these.
    fn in_better_parts(
        &mut self,
        room: &mut Room<'_>,
        request: &Request,
        nodes: &[RankSet],
    ) -> Option<Places<A::Place>> {
        let better = better_parts::of(room, request, nodes);
        std::mem::swap(&mut self.left, &mut self.left_in_better);
        let found =
            better.iter().find_map(|request| self.in_any_parts(room, request, nodes).placed());
        std::mem::swap(&mut self.left, &mut self.left_in_better);
        found
    }

    fn in_any_parts(
        &mut self,
        room: &mut Room<'_>,
        request: &Request,
        nodes: &[RankSet],
    ) -> Fit<Places<A::Place>> {
        let mut fit = Fit::NotNow;
        for way in A::ways(request) {
            fit = self.by(*way, room, request, nodes);
            if matches!(fit, Fit::Placed(_)) {
                break;
            }
        }
        fit
    }

    /// Makes proposals in this way until one will do.
    fn by(
        &mut self,
        way: Way,
        room: &mut Room<'_>,
        request: &Request,
        nodes: &[RankSet],
    ) -> Fit<Places<A::Place>> {
        if way == Way::Graph {
            return if self.go_on() {
                A::propose_by_graph(room, request, nodes)
            } else {
                Fit::NotFound
            };
        }
        // If room is missing, no rule is in the way, and a trial would find nothing.
        let is_cheap = way == Way::Trial && request.asks_about_pods();
        if A::TAKES && !is_cheap && room.forecast(request, nodes) != Forecast::Now {
            return Fit::NotNow;
        }
        let mut fit = Fit::NotNow;
        let open = if A::TAKES { room.open_to(request, nodes) } else { nodes.to_vec() };
        for nodes in alternatives(room, request, &open) {
            fit = if self.go_on() { self.tried(way, room, request, &nodes) } else { Fit::NotFound };
            if matches!(fit, Fit::Placed(_)) {
                return fit;
            }
        }
        if way == Way::Exhaustive { Fit::NotFound } else { fit }
    }

    /// Puts all pods on these nodes one after the other, and takes them away.
    fn tried(
        &mut self,
        way: Way,
        room: &mut Room<'_>,
        request: &Request,
        nodes: &[RankSet],
    ) -> Fit<Places<A::Place>> {
        let pieces = pieces(request);
        let mut limits = LevelLimits::of(request, &pieces, room.cluster, room.ledger);
        let ranks = self.purpose.in_order(&union(nodes));
        let cells = Cells::of(request, nodes, ranks.into_iter(), &mut limits, room);
        room.count_trial(request.pods());
        let find = if way == Way::Trial { trial::find } else { ways::find };
        let asked = Question { request, pieces: &pieces, nodes, cells: &cells };
        match find(asked, &mut limits, room.cluster) {
            Some(found) => A::places_of(room, &Tried { asked, found }),
            None => Fit::NotNow,
        }
    }
}

impl Purpose for TakeSlots {
    type Place = Allocation;

    const TAKES: bool = true;

    fn ways(request: &Request) -> &'static [Way] {
        // For one pod, the nodes that are open to it say all.
        match (request.pods() > 1, request.asks_about_pods()) {
            (true, true) if request.is_about_others() => &[Way::Graph, Way::Trial, Way::Exhaustive],
            (true, true) => &[Way::Trial, Way::Exhaustive],
            (true, false) if request.prefers_by_pods() => &[Way::Trial, Way::Graph],
            _ => &[Way::Graph],
        }
    }

    fn in_order(&self, nodes: &RankSet) -> Vec<Rank> {
        nodes.iter().collect()
    }

    fn propose_by_graph(
        room: &mut Room<'_>,
        request: &Request,
        nodes: &[RankSet],
    ) -> Fit<Allocations> {
        let groups = room.ordered_groups(request, nodes);
        booking::housed(room.ledger.allocate(room.cluster, &groups), room, request)
    }

    fn places_of(room: &mut Room<'_>, tried: &Tried<'_>) -> Fit<Allocations> {
        let Tried { asked, found } = tried;
        booking::book(room, asked.request, &asked.shares(&found.slots))
    }

    fn rank(place: &Allocation) -> Rank {
        place.rank
    }

    fn give_back(room: &mut Room<'_>, place: Allocation) {
        room.ledger.free(room.cluster, place);
    }
}

impl Purpose for FindNodes<'_> {
    type Place = Rank;

    const TAKES: bool = false;

    fn ways(_: &Request) -> &'static [Way] {
        &[Way::Trial, Way::Exhaustive]
    }

    fn in_order(&self, nodes: &RankSet) -> Vec<Rank> {
        self.0.iter().copied().filter(|rank| nodes.contains(*rank)).collect()
    }

    fn propose_by_graph(_: &mut Room<'_>, _: &Request, _: &[RankSet]) -> Fit<Places<Rank>> {
        Fit::NotFound
    }

    fn places_of(_: &mut Room<'_>, tried: &Tried<'_>) -> Fit<Places<Rank>> {
        Fit::Placed(tried.found.by_want(tried.asked))
    }

    fn rank(place: &Rank) -> Rank {
        *place
    }

    fn give_back(_: &mut Room<'_>, _: Rank) {}
}
