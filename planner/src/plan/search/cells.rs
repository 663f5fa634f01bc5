//! Nodes that are alike to the rules of a request, and the shares of a question to the graph.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::limits::{LevelLimits, PartsOfNode};
use super::pieces::Piece;
use crate::plan::group::Group;
use crate::plan::request::Request;
use crate::plan::room::Room;
use fluxqueue_machine::cluster::{Cluster, CrowdId, KeyId};
use fluxqueue_machine::fluxion::{Rank, RankSet};
use fluxqueue_machine::ledger::Slice;

/// Slots of one want on the nodes of a cell, or of cells that are alike.
pub(super) struct Share {
    pub(super) group: usize,
    pub(super) want: usize,
    pub(super) count: usize,
    /// The slices that they are for, if they are for slices.
    pub(super) slices: Vec<Slice>,
    pub(super) nodes: RankSet,
    pub(super) max_per_node: Option<u64>,
    /// True if these numbers on these nodes keep the rules about levels, wishes aside.
    pub(super) keeps_levels: bool,
}

/// The pods of a request that are to find nodes one after the other.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) request: &'a Request,
    pub(super) pieces: &'a [Piece<'a>],
    /// The nodes that each group may use.
    pub(super) nodes: &'a [RankSet],
    /// The same nodes, grouped by what they mean to the rules.
    pub(super) cells: &'a Cells,
}

/// How many pods of a piece are in a cell.
pub(super) type PodCounts = BTreeMap<(usize, usize), usize>;

/// A way in which all pods can come to nodes.
pub(super) struct Found {
    pub(super) slots: PodCounts,
    /// The pods in the order in which they came, each by its piece, with its node.
    pub(super) seats: Vec<(usize, Rank)>,
}

impl Found {
    /// Returns per group and want the nodes of its pods, in their order.
    pub(super) fn by_want(&self, asked: Question<'_>) -> Vec<Vec<Vec<Rank>>> {
        let Question { request, pieces, .. } = asked;
        let mut by_piece = vec![Vec::new(); pieces.len()];
        for (piece, rank) in &self.seats {
            by_piece[*piece].push(*rank);
        }
        let mut by_want: Vec<Vec<Vec<Rank>>> =
            request.groups.iter().map(|group| vec![Vec::new(); group.wants.len()]).collect();
        // The pieces of a want are in the order of its pods.
        for (piece, ranks) in pieces.iter().zip(by_piece) {
            by_want[piece.group][piece.want].extend(ranks);
        }
        by_want
    }
}

/// The nodes that the pods may use, grouped by their meaning to the rule: the nodes of a cell are
/// in the same domains of all labels that some term of the request names and in the same parts of
/// all levels that it names. If the pods have preferences about others, the nodes of a cell are
/// also equally good for each group by themselves.
#[derive(Default)]
pub(super) struct Cells {
    pub(super) nodes: Vec<Vec<Rank>>,
    /// Per cell the parts of levels.
    pub(super) parts: Vec<PartsOfNode>,
    /// True if all terms are about one label, of which no two of the nodes have the same value.
    pub(super) are_alone: bool,
    /// Per cell and group, the scores of its nodes for what they are themselves.
    pub(super) liked: Vec<Vec<i64>>,
    /// The label with most domains, if cells are in families of those that differ only by its
    /// domains.
    pub(super) narrowest: Option<KeyId>,
    /// Per cell, the number of its family.
    pub(super) family: Vec<usize>,
}

/// What nodes of a cell have in common.
#[derive(PartialEq, Eq, Hash)]
struct Kind {
    domains: Vec<Option<u32>>,
    parts: PartsOfNode,
    /// Per group.
    liked: Vec<i64>,
}

impl Cells {
    /// Makes the cells of these nodes, those of all groups in `ranks`: nodes that are alike are
    /// tried in this order.
    pub(super) fn of(
        request: &Request,
        nodes: &[RankSet],
        ranks: impl Iterator<Item = Rank>,
        limits: &mut LevelLimits,
        room: &mut Room<'_>,
    ) -> Self {
        let cluster = &mut *room.cluster;
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
            let (domains, parts) = (
                cluster.neighbours().domains(rank, &keys),
                limits.parts(rank, cluster, room.ledger),
            );
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
        if let Some(narrowest) = narrowest {
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
    }

    /// Returns how unwelcome a cell is for a pod of the group and piece, with its counts: the rules
    /// about levels come first.
    pub(super) fn cost(
        &self,
        cell: usize,
        of: (usize, usize),
        limits: &LevelLimits,
        cluster: &Cluster,
        crowd: Option<CrowdId>,
    ) -> i64 {
        self.common_cost(cell, of, limits, cluster, crowd) + self.own_cost(cell, cluster, crowd)
    }

    /// Returns the part of the cost that all cells of its family share.
    pub(super) fn common_cost(
        &self,
        cell: usize,
        (group, piece): (usize, usize),
        limits: &LevelLimits,
        cluster: &Cluster,
        crowd: Option<CrowdId>,
    ) -> i64 {
        let by_levels = limits.crowding(piece, &self.parts[cell]) << 32;
        let crowding = cluster
            .neighbours()
            .crowding(self.nodes[cell][0], crowd, |key| Some(key) != self.narrowest);
        crowding - self.liked[cell][group] + by_levels
    }

    /// Returns the part of the cost that comes from its own domain.
    pub(super) fn own_cost(&self, cell: usize, cluster: &Cluster, crowd: Option<CrowdId>) -> i64 {
        cluster.neighbours().crowding(self.nodes[cell][0], crowd, |key| Some(key) == self.narrowest)
    }
}

impl Question<'_> {
    /// Makes the shares of the question to the graph for these numbers of slots per piece and cell.
    pub(super) fn shares(self, slots: &PodCounts) -> Vec<Share> {
        let Question { request, pieces, nodes, cells } = self;
        let of_slice = |piece: &Piece<'_>, count| -> Vec<Slice> {
            piece.slice.map(|number| Slice { number, count }).into_iter().collect()
        };
        if slots.keys().any(|(_, cell)| cells.nodes[*cell].len() > 1) {
            let share = |((piece, cell), count): (&(usize, usize), &usize)| {
                let piece = &pieces[*piece];
                let of_cell: RankSet = cells.nodes[*cell].iter().copied().collect();
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
            by_number.entry((*piece, *count)).or_default().insert(cells.nodes[*cell][0]);
        }
        let is_alone = by_number.len() == 1;
        let share = |((piece, count), chosen): ((usize, usize), RankSet)| {
            let Piece { group, want, .. } = pieces[piece];
            let of = &request.groups[group];
            let constraints = &of.sample.shape.constraints;
            // One pod at most on a node, whichever: the graph may choose other nodes.
            let is_apart_only =
                constraints.spreads.is_empty() && constraints.near.is_empty() && cells.are_alone;
            let are_apart = is_apart_only && of.terms.stance.own.apart.iter().all(|apart| *apart);
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
