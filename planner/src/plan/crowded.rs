//! Pods that have rules about other pods, each other included: near to some, apart from some,
//! spread among some.
//!
//! The graph knows nothing of pods. For one pod, the nodes that are open to it are the whole
//! answer. The pods of a gang are put on nodes in a trial first, one after the other, each where
//! the rule lets it with those before it: the emptiest domains first. The trial yields numbers of
//! slots per cell, which is a set of nodes that are alike to the rule, and these go to the
//! graph. Its answer is always checked pod by pod before it is taken. The trial also keeps the
//! rules of the pods about levels ([`limits`]). Where the trial fails although there would be room,
//! all ways are searched, up to a bound ([`ways`]).
//!
//! A place that is found is a real one, but the search may miss one that exists. A request that
//! misses is reported as such, and holds up no other unless a trial without the pods that have an
//! end finds a place (see [`super::together`]). No such request is promised a start, since its
//! nodes depend on pods that come and go.

mod limits;
mod line;
mod trial;
mod ways;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::nodes::union;
use super::pods::Part;
use super::together::{Wanted, first_and_widest, within};
use super::{Group, Live, Request};
use crate::plan::Capacity;
use fluxqueue_machine::cluster::{Cluster, CrowdId, KeyId};
use fluxqueue_machine::fluxion::{Fit, Forecast, Rank, RankSet, Within};
use fluxqueue_machine::ledger::{
    Allocation, Allocations, GroupRequest, LevelWant, LevelWants, Slice, SlotRequest,
};
use fluxqueue_workload::levels::RuleScope;
use fluxqueue_workload::{Pod, Uid};

use limits::{Limits, Parts};

/// Domains that are tried for pods that are to be in one, the tightest first; then some of the
/// others, the widest first.
const DOMAINS_TRIED_MAX: usize = 8;

/// Shares in one question to the graph at most; it looks for no place for more than 500 shapes.
const SHARES_MAX: usize = 400;

impl Request {
    /// Returns the number of its pods.
    pub fn pods(&self) -> usize {
        self.groups.iter().flat_map(|group| &group.wants).map(|want| want.count).sum()
    }

    /// A pod of it would rather be where others are, or are not.
    fn prefers_by_pods(&self) -> bool {
        self.groups.iter().any(|group| group.sample.shape.constraints.prefers_by_pods())
    }

    /// True if none of its pods is among those that its rules are about. Checked for one group
    /// only, else false.
    fn is_about_others(&self) -> bool {
        let [group] = &self.groups[..] else { return false };
        let constraints = &group.sample.shape.constraints;
        let is_plain = constraints.near.is_empty()
            && constraints.spreads.is_empty()
            && !constraints.prefers_by_pods();
        is_plain && !group.stance.own.apart.iter().any(|apart| *apart)
    }

    /// True if the graph does not know whether all its pods may be on some nodes.
    pub(super) fn asks_about_each_other(&self) -> bool {
        self.needs_a_trial()
            || (self.pods() > 1 && self.asks_about_pods() && !self.is_about_others())
    }

    /// True if pods that may not come to a node now may be let in by others that come before.
    pub(super) fn depends_on_order(&self) -> bool {
        let constraints = self.groups.iter().map(|group| &group.sample.shape.constraints);
        constraints.into_iter().any(|of| !of.near.is_empty() || !of.spreads.is_empty())
    }

    /// Its pods by want, or by slice, in the order in which they are tried: those that are to be
    /// near to each other may be the first of their like only before others of it are elsewhere.
    fn pieces(&self) -> Vec<Piece<'_>> {
        let mut pieces = Vec::new();
        for (group, of) in self.groups.iter().enumerate() {
            for (want, (slots, pods)) in of.wants.iter().zip(&of.pods).enumerate() {
                let mut left = pods.whole();
                for (count, slice) in slots.pieces() {
                    let (pods, others) = left.split_at(count);
                    pieces.push(Piece { group, want, slice, pods });
                    left = others;
                }
            }
        }
        pieces.sort_by_key(|piece| !self.groups[piece.group].is_near_its_own());
        pieces
    }

    /// A pod of it asks about other pods.
    pub fn asks_about_pods(&self) -> bool {
        self.groups.iter().any(|group| group.sample.shape.constraints.asks_about_pods())
    }
}

/// Pods of a want, or of one slice of it.
#[derive(Clone, Copy)]
struct Piece<'a> {
    group: usize,
    want: usize,
    slice: Option<u32>,
    pods: Part<'a>,
}

/// Slots of one want on the nodes of a cell, or of cells that are alike.
struct Share {
    group: usize,
    want: usize,
    count: usize,
    /// The slices that they are for, if they are for slices.
    slices: Vec<Slice>,
    nodes: RankSet,
    max_per_node: Option<u64>,
    /// True if these numbers on these nodes keep the rules about levels, wishes aside.
    keeps_levels: bool,
}

/// How many pods of a piece are in a cell.
type Slots = BTreeMap<(usize, usize), usize>;

/// A way in which all pods can come to nodes.
struct Found {
    slots: Slots,
    seats: Seats,
}

/// Pods and the nodes where they are to be.
pub(super) type Seats = Vec<(Uid, Rank)>;

impl Live<'_> {
    /// Takes slots for all pods on these nodes, and lets the pods in.
    pub(super) fn place_now(&mut self, request: &Request, nodes: &[RankSet]) -> Fit<Allocations> {
        if let Some(slots) = self.place_in_better_parts(request, nodes) {
            return Fit::Placed(slots);
        }
        self.place_as_asked(request, nodes)
    }

    /// The same in whatever parts of levels.
    pub(super) fn place_as_asked(
        &mut self,
        request: &Request,
        nodes: &[RankSet],
    ) -> Fit<Allocations> {
        if request.asks_about_pods() {
            return self.place_crowded(request, nodes);
        }
        if let Some(slots) = self.place_as_preferred(request, nodes) {
            return Fit::Placed(slots);
        }
        let groups = self.ordered_groups(request, nodes);
        let mut fit = self.ledger.allocate(self.cluster, &groups);
        if let Fit::Placed(slots) = &mut fit {
            self.house(request, slots);
        }
        fit
    }

    /// Slots for all pods where they would rather be for each other, if such a place is found.
    pub(super) fn place_as_preferred(
        &mut self,
        request: &Request,
        nodes: &[RankSet],
    ) -> Option<Allocations> {
        if !request.prefers_by_pods() || request.pods() == 1 {
            return None;
        }
        if self.forecast(request, nodes) != Forecast::Now {
            return None;
        }
        self.place_tried(request, nodes).placed()
    }

    /// Takes slots for all pods, such that each may be where it is.
    fn place_crowded(&mut self, request: &Request, nodes: &[RankSet]) -> Fit<Allocations> {
        // The nodes that are open to one pod say all.
        if request.pods() == 1 {
            return self.place_shares(request, &whole(request, nodes));
        }
        let fit = if request.is_about_others() {
            self.place_shares(request, &whole(request, nodes))
        } else {
            Fit::NotNow
        };
        let fit =
            if matches!(fit, Fit::Placed(_)) { fit } else { self.place_tried(request, nodes) };
        if matches!(fit, Fit::Placed(_)) || self.forecast(request, nodes) != Forecast::Now {
            return fit;
        }
        // There is room for the pods, so it is the rule that was in the way.
        self.place_by_all_ways(request, nodes).map_or(Fit::NotFound, Fit::Placed)
    }

    /// The same where some way is found on which the pods can come one after the other.
    fn place_by_all_ways(&mut self, request: &Request, nodes: &[RankSet]) -> Option<Allocations> {
        let nodes = self.open_to(request, nodes);
        let pieces = request.pieces();
        let mut limits = Limits::of(request, &pieces, self.cluster, self.ledger);
        let cells = Cells::of(request, &nodes, union(&nodes).iter(), &mut limits, self);
        let found = ways::find(request, &pieces, &nodes, &cells, &mut limits, self.cluster)?;
        self.place_shares(request, &cells.shares(request, &pieces, &nodes, &found.slots)).placed()
    }

    /// Returns the nodes that are open to a trial, which counts room and does not know which nodes
    /// have a single tenant.
    pub(super) fn open_to(&self, request: &Request, nodes: &[RankSet]) -> Vec<RankSet> {
        let groups = request.groups.iter().zip(nodes);
        groups.map(|(group, nodes)| self.ledger.open_to(group.tenancy, nodes)).collect()
    }

    /// Takes the slots that a trial gave to the pods.
    fn place_tried(&mut self, request: &Request, nodes: &[RankSet]) -> Fit<Allocations> {
        let mut fit = Fit::NotNow;
        let nodes = self.open_to(request, nodes);
        for nodes in self.alternatives(request, &nodes) {
            let Some(shares) = self.shares(request, &nodes) else { continue };
            fit = self.place_shares(request, &shares);
            if matches!(fit, Fit::Placed(_)) {
                break;
            }
        }
        fit
    }

    /// Returns the node sets per group that are to be tried, one after the other. Pods that want to
    /// be near to each other, and to no pod that is there, need one domain.
    fn alternatives(&mut self, request: &Request, nodes: &[RankSet]) -> Vec<Vec<RankSet>> {
        let Some((near, domains)) = self.domains_of_near(request) else {
            return self.alternative_parts(request, nodes);
        };
        self.tightest(request, nodes, &near, domains)
    }

    /// The same for pods that are to be in one part of a level.
    fn alternative_parts(&mut self, request: &Request, nodes: &[RankSet]) -> Vec<Vec<RankSet>> {
        let wants = |group: &Group| {
            let mut wants = group.levels.iter().flat_map(|wants| wants.iter());
            wants
                .find(|want| want.within == Within::One && !matches!(want.of, RuleScope::Slice(_)))
                .cloned()
        };
        let Some(want) = request.groups.iter().find_map(wants) else { return vec![nodes.to_vec()] };
        let together: Vec<usize> = (0..request.groups.len())
            .filter(|at| wants(&request.groups[*at]).as_ref() == Some(&want))
            .collect();
        let mut shapes =
            together.iter().flat_map(|at| &request.groups[*at].wants).map(|want| &want.shape);
        let is_one = shapes.next().is_none_or(|first| shapes.all(|shape| shape == first));
        if want.of == RuleScope::Role && want.role.is_none() && !is_one {
            // Each is to be in a part of its own choice.
            return vec![nodes.to_vec()];
        }
        let mut parts: BTreeMap<String, RankSet> = BTreeMap::new();
        for rank in together.iter().flat_map(|at| nodes[*at].iter()) {
            if let Some(part) = self.ledger.part_of(self.cluster, &want.level, rank) {
                parts.entry(part).or_default().insert(rank);
            }
        }
        self.tightest(request, nodes, &together, parts.into_values().collect())
    }

    /// Node sets per group, of which these groups are limited to one domain: those with room for
    /// them, the tightest first.
    fn tightest(
        &mut self,
        request: &Request,
        nodes: &[RankSet],
        near: &[usize],
        domains: Vec<RankSet>,
    ) -> Vec<Vec<RankSet>> {
        let mut shapes: Vec<(Wanted, u64, RankSet)> = Vec::new();
        let apart: Vec<Vec<KeyId>> =
            near.iter().map(|at| request.groups[*at].apart_by(self.cluster)).collect();
        for (at, apart) in near.iter().zip(&apart) {
            for want in &request.groups[*at].wants {
                match shapes.iter_mut().find(|(known, ..)| *known.shape == *want.shape) {
                    Some((_, count, usable)) => {
                        *count += want.count as u64;
                        usable.union_with(&nodes[*at]);
                    }
                    None => {
                        let wanted = Wanted { shape: &want.shape, apart };
                        shapes.push((wanted, want.count as u64, nodes[*at].clone()));
                    }
                }
            }
        }
        let mut by_room: Vec<(u64, usize, RankSet)> = Vec::new();
        for domain in domains {
            // That each shape has room for itself alone is enough to try: the graph knows the rest.
            let has_room = |(wanted, count, usable): &(Wanted, u64, RankSet)| {
                let mut left = *count;
                usable.intersection(&domain).iter().any(|rank| {
                    left = left.saturating_sub(wanted.on_node(
                        rank,
                        self.cluster.room(rank, wanted.shape),
                        self.cluster,
                    ));
                    left == 0
                })
            };
            if shapes.iter().all(has_room) {
                let (sample, _, usable) = &shapes[0];
                let rooms = domain.iter().map(|rank| (rank, self.cluster.room(rank, sample.shape)));
                let (mut free, mut width) = (0, 0);
                for (rank, room) in rooms {
                    free = u64::saturating_add(free, room);
                    width += usize::from(room > 0 && usable.contains(rank));
                }
                by_room.push((free, width, domain));
            }
        }
        let tried = first_and_widest(by_room, DOMAINS_TRIED_MAX);
        tried.iter().map(|domain| within(nodes, near, domain)).collect()
    }

    /// Puts all pods on nodes one after the other, and takes that back. `None` if one finds no
    /// node.
    fn shares(&mut self, request: &Request, nodes: &[RankSet]) -> Option<Vec<Share>> {
        let pieces = request.pieces();
        let mut limits = Limits::of(request, &pieces, self.cluster, self.ledger);
        let cells = Cells::of(request, nodes, union(nodes).iter(), &mut limits, self);
        self.count_trial(request.pods());
        let found = trial::find(request, &pieces, nodes, &cells, &mut limits, self.cluster)?;
        let shares = cells.shares(request, &pieces, nodes, &found.slots);
        (shares.len() <= SHARES_MAX).then_some(shares)
    }

    /// Nodes for all pods by a trial alone: the first of these that will do.
    pub(super) fn seats_by_trial(
        &mut self,
        request: &Request,
        nodes: &[RankSet],
        ranks: &[Rank],
    ) -> Option<Seats> {
        let pieces = request.pieces();
        self.alternatives(request, nodes).into_iter().find_map(|nodes| {
            self.count_trial(request.pods());
            let mut limits = Limits::of(request, &pieces, self.cluster, self.ledger);
            let usable = union(&nodes);
            let ranks = ranks.iter().copied().filter(|rank| usable.contains(*rank));
            let cells = Cells::of(request, &nodes, ranks, &mut limits, self);
            let (limits, cluster) = (&mut limits, &mut *self.cluster);
            let found = trial::find(request, &pieces, &nodes, &cells, limits, cluster);
            let found =
                found.or_else(|| ways::find(request, &pieces, &nodes, &cells, limits, cluster));
            found.map(|found| found.seats)
        })
    }

    fn place_shares(&mut self, request: &Request, shares: &[Share]) -> Fit<Allocations> {
        let mut groups = Vec::with_capacity(shares.len());
        for share in shares {
            let group = &request.groups[share.group];
            let shape = Arc::clone(&group.wants[share.want].shape);
            let all = group.ordered_request(&share.nodes, self.cluster);
            let wants = vec![SlotRequest {
                slices: share.slices.clone(),
                ..SlotRequest::new(shape, share.count)
            }];
            let max_per_node = [share.max_per_node, all.max_per_node].into_iter().flatten().min();
            let levels = if share.keeps_levels { wishes(&all.levels) } else { all.levels.clone() };
            groups.push(GroupRequest { wants, max_per_node, levels, ..all });
        }
        let placed = match self.ledger.allocate(self.cluster, &groups) {
            Fit::Placed(placed) => placed,
            Fit::NotNow => return Fit::NotNow,
            Fit::NotFound => return Fit::NotFound,
        };
        let mut slots: Allocations = request
            .groups
            .iter()
            .map(|group| group.wants.iter().map(|_| Vec::new()).collect())
            .collect();
        for (share, of_share) in shares.iter().zip(placed) {
            slots[share.group][share.want].extend(of_share.into_iter().flatten());
        }
        if self.house(request, &mut slots) {
            return Fit::Placed(slots);
        }
        for allocation in slots.into_iter().flatten().flatten() {
            self.ledger.free(self.cluster, allocation);
        }
        Fit::NotFound
    }

    /// Lets the pods into their slots. Of a request that asks about pods each is checked with those
    /// before it; false if there is no order in which all may come.
    pub(super) fn house(&mut self, request: &Request, slots: &mut Allocations) -> bool {
        let is_checked = request.asks_about_pods();
        let (mut left, mut others): (Vec<(&Arc<Pod>, &mut Allocation)>, Vec<_>) =
            (Vec::new(), Vec::new());
        for (group, of_wants) in request.groups.iter().zip(slots.iter_mut()) {
            let pods =
                group.pods.iter().zip(of_wants).flat_map(|(pods, slots)| pods.iter().zip(slots));
            // Pods that are to be near to each other may be the first of their like only before
            // others of it come elsewhere.
            if group.is_near_its_own() { left.extend(pods) } else { others.extend(pods) }
        }
        left.extend(others);
        while !left.is_empty() {
            let before = left.len();
            let mut later = Vec::new();
            for (pod, slot) in left {
                if is_checked && self.cluster.judge_neighbours(slot.rank, pod).is_some() {
                    later.push((pod, slot));
                } else {
                    self.ledger.house(self.cluster, slot, pod);
                }
            }
            left = later;
            if left.len() == before {
                return false;
            }
        }
        self.stay_near(request, slots)
    }

    /// True if pods that are to be near to each other would also be admitted beside the pods that
    /// come after them. The same is checked again before their Bindings leave.
    fn stay_near(&mut self, request: &Request, slots: &Allocations) -> bool {
        let near = request.groups.iter().zip(slots).filter(|(group, _)| group.is_near_its_own());
        let mut near = near
            .filter(|_| request.groups.len() > 1)
            .flat_map(|(group, slots)| group.pods.iter().zip(slots));
        near.all(|(pods, slots)| {
            pods.iter()
                .zip(slots)
                .all(|(pod, slot)| self.ledger.judge(self.cluster, slot, pod).is_none())
        })
    }
}

/// The request as it is.
fn whole(request: &Request, nodes: &[RankSet]) -> Vec<Share> {
    let mut shares = Vec::new();
    for (group, (of, nodes)) in request.groups.iter().zip(nodes).enumerate() {
        for (want, slots) in of.wants.iter().enumerate() {
            let (count, slices, nodes) = (slots.count, slots.slices.clone(), nodes.clone());
            shares.push(Share {
                group,
                want,
                count,
                slices,
                nodes,
                max_per_node: None,
                keeps_levels: false,
            });
        }
    }
    shares
}

/// Returns the wants about levels that are wishes, not conditions.
fn wishes(levels: &LevelWants) -> LevelWants {
    let wishes: Arc<[LevelWant]> = levels
        .iter()
        .flat_map(|wants| wants.iter())
        .filter(|want| want.within == Within::Fewest)
        .cloned()
        .collect();
    (!wishes.is_empty()).then_some(wishes)
}

/// The nodes that the pods may use, grouped by their meaning to the rule: the nodes of a cell are
/// in the same domains of all labels that some term of the request names and in the same parts of
/// all levels that it names. If the pods have preferences about others, the nodes of a cell are
/// also equally good for each group by themselves.
#[derive(Default)]
struct Cells {
    nodes: Vec<Vec<Rank>>,
    /// Per cell the parts of levels.
    parts: Vec<Parts>,
    /// True if all terms are about one label, of which no two of the nodes have the same value.
    are_alone: bool,
    /// Per cell and group, the scores of its nodes for what they are themselves.
    liked: Vec<Vec<i64>>,
    /// The label with most domains, if cells are in families of those that differ only by its
    /// domains.
    narrowest: Option<KeyId>,
    /// Per cell, the number of its family.
    family: Vec<usize>,
}

/// What nodes of a cell have in common.
#[derive(PartialEq, Eq, Hash)]
struct Kind {
    domains: Vec<Option<u32>>,
    parts: Parts,
    /// Per group.
    liked: Vec<i64>,
}

impl Cells {
    /// Makes the cells of these nodes, those of all groups in `ranks`: nodes that are alike are
    /// tried in this order.
    fn of(
        request: &Request,
        nodes: &[RankSet],
        ranks: impl Iterator<Item = Rank>,
        limits: &mut Limits,
        live: &mut Live<'_>,
    ) -> Self {
        let cluster = &mut *live.cluster;
        let constraints = request.groups.iter().map(|group| &group.sample.shape.constraints);
        let keys = cluster.topology_keys(constraints);
        let mut liked: Vec<HashMap<Rank, i64>> = vec![HashMap::new(); nodes.len()];
        if request.prefers_by_pods() {
            let groups = request.groups.iter().zip(nodes);
            liked = groups.map(|(group, nodes)| cluster.liked(&group.sample, nodes)).collect();
        }
        let mut cells = Cells { are_alone: keys.len() == 1, ..Cells::default() };
        let mut numbers: HashMap<Kind, usize> = HashMap::new();
        let mut known: HashSet<Option<u32>> = HashSet::new();
        for rank in ranks {
            let liked: Vec<i64> =
                liked.iter().map(|liked| liked.get(&rank).copied().unwrap_or(0)).collect();
            let (domains, parts) =
                (cluster.domains(rank, &keys), limits.parts(rank, cluster, live.ledger));
            cells.are_alone = cells.are_alone && known.insert(domains[0]);
            let kind = Kind { domains, parts, liked };
            let number = numbers.get(&kind).copied().unwrap_or_else(|| {
                let number = cells.nodes.len();
                cells.nodes.push(Vec::new());
                cells.parts.push(kind.parts.clone());
                cells.liked.push(kind.liked.clone());
                numbers.insert(kind, number);
                number
            });
            cells.nodes[number].push(rank);
        }
        cells.find_families(request, &keys, numbers);
        cells
    }

    /// Cells that differ only by their domains of one label become more crowded together, but for
    /// what each has of its own. Not where pods may draw others to them: then a cell may become
    /// less crowded, too.
    fn find_families(&mut self, request: &Request, keys: &[KeyId], kinds: HashMap<Kind, usize>) {
        let draws = |group: &Group| {
            group.sample.shape.constraints.preferred_pods.iter().any(|(weight, _)| *weight > 0)
        };
        let domains =
            |at: &usize| kinds.keys().map(|kind| kind.domains[*at]).collect::<HashSet<_>>().len();
        let draws = request.groups.iter().any(draws);
        let narrowest = (0..keys.len()).filter(|_| !draws).max_by_key(domains);
        self.narrowest = narrowest.map(|at| keys[at]);
        self.family = (0..self.nodes.len()).collect();
        let Some(narrowest) = narrowest else { return };
        let mut by_number: Vec<(usize, Kind)> =
            kinds.into_iter().map(|(kind, number)| (number, kind)).collect();
        by_number.sort_unstable_by_key(|(number, _)| *number);
        let mut families: HashMap<Kind, usize> = HashMap::new();
        for (number, mut kind) in by_number {
            kind.domains[narrowest] = None;
            let next = families.len();
            self.family[number] = *families.entry(kind).or_insert(next);
        }
    }

    /// Returns how unwelcome a cell is for a pod of the group and piece, with its counts: the rules
    /// about levels come first.
    fn cost(
        &self,
        cell: usize,
        of: (usize, usize),
        limits: &Limits,
        cluster: &Cluster,
        crowd: Option<CrowdId>,
    ) -> i64 {
        self.common_cost(cell, of, limits, cluster, crowd) + self.own_cost(cell, cluster, crowd)
    }

    /// Returns the part of the cost that all cells of its family share.
    fn common_cost(
        &self,
        cell: usize,
        (group, piece): (usize, usize),
        limits: &Limits,
        cluster: &Cluster,
        crowd: Option<CrowdId>,
    ) -> i64 {
        let by_levels = limits.crowding(piece, &self.parts[cell]) << 32;
        let crowding =
            cluster.crowding(self.nodes[cell][0], crowd, |key| Some(key) != self.narrowest);
        crowding - self.liked[cell][group] + by_levels
    }

    /// Returns the part of the cost that comes from its own domain.
    fn own_cost(&self, cell: usize, cluster: &Cluster, crowd: Option<CrowdId>) -> i64 {
        cluster.crowding(self.nodes[cell][0], crowd, |key| Some(key) == self.narrowest)
    }

    /// Makes the shares of a question to the graph for these numbers of slots per piece and cell.
    fn shares(
        &self,
        request: &Request,
        pieces: &[Piece<'_>],
        nodes: &[RankSet],
        slots: &Slots,
    ) -> Vec<Share> {
        let of_slice = |piece: &Piece<'_>, count| -> Vec<Slice> {
            piece.slice.map(|number| Slice { number, count }).into_iter().collect()
        };
        if slots.keys().any(|(_, cell)| self.nodes[*cell].len() > 1) {
            let share = |((piece, cell), count): (&(usize, usize), &usize)| {
                let piece = &pieces[*piece];
                let of_cell: RankSet = self.nodes[*cell].iter().copied().collect();
                let nodes = of_cell.intersection(&nodes[piece.group]);
                let (group, want, count, slices) =
                    (piece.group, piece.want, *count, of_slice(piece, *count));
                Share { group, want, count, slices, nodes, max_per_node: None, keeps_levels: true }
            };
            return slots.iter().map(share).collect();
        }
        // Each cell is a node: those with as many slots are one share.
        let mut by_number: BTreeMap<(usize, usize), RankSet> = BTreeMap::new();
        for ((piece, cell), count) in slots {
            by_number.entry((*piece, *count)).or_default().insert(self.nodes[*cell][0]);
        }
        let is_alone = by_number.len() == 1;
        let share = |((piece, count), chosen): ((usize, usize), RankSet)| {
            let Piece { group, want, .. } = pieces[piece];
            let of = &request.groups[group];
            let constraints = &of.sample.shape.constraints;
            // One pod at most on a node, whichever: the graph may choose other nodes.
            let is_apart_only =
                constraints.spreads.is_empty() && constraints.near.is_empty() && self.are_alone;
            let are_apart = is_apart_only && of.stance.own.apart.iter().all(|apart| *apart);
            let any_will_do = is_alone && count == 1 && are_apart && !constraints.prefers_by_pods();
            let (slots, slices) =
                (count * chosen.len(), of_slice(&pieces[piece], count * chosen.len()));
            let nodes = if any_will_do { nodes[group].clone() } else { chosen };
            let max_per_node = Some(count as u64);
            Share {
                group,
                want,
                count: slots,
                slices,
                nodes,
                max_per_node,
                keeps_levels: !any_will_do,
            }
        };
        by_number.into_iter().map(share).collect()
    }
}
