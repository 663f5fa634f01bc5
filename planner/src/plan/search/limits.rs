//! The freedom that levels leave to the pods of a trial: the rules that the graph keeps, checked
//! pod by pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::pieces::Piece;
use crate::plan::request::Request;
use fluxqueue_machine::cluster::Cluster;
use fluxqueue_machine::fluxion::{Rank, Within};
use fluxqueue_machine::ledger::{Ledger, LevelWant};
use fluxqueue_workload::Shape;
use fluxqueue_workload::levels::RuleScope;

/// The parts that a node is in, by the levels that rules name; `None` where it is in none.
pub(super) type PartsOfNode = Vec<Option<u32>>;

/// The rules of a request, and how many pods of the trial are where under them.
#[derive(Default)]
pub(super) struct LevelLimits {
    /// The levels that rules name.
    levels: Vec<Arc<str>>,
    rules: Vec<LevelLimit>,
    /// Per piece the rules that it is under.
    of: Vec<Vec<usize>>,
    /// Numbers of parts, by level and name.
    numbers: BTreeMap<(Arc<str>, String), u32>,
}

struct LevelLimit {
    want: LevelWant,
    /// The number of its level.
    level: usize,
    /// The shape of the pods for which it counts, if each role counts by itself and no roles are
    /// given.
    shape: Option<Arc<Shape>>,
    /// Only for those of this slice, if each is for itself.
    slice: Option<u32>,
    /// Per part how many pods are in it.
    counts: BTreeMap<u32, u32>,
    /// The number of pods still to come.
    left: u32,
    /// The parts that count for a skew, where the pods that count them are to be in one part of
    /// other levels as well.
    counted: Vec<CountedParts>,
}

/// Parts in which there are nodes that count, and the rules that say which of them do.
struct CountedParts {
    under: Vec<usize>,
    parts: Vec<PartsOfNode>,
}

impl LevelLimits {
    pub(super) fn of(
        request: &Request,
        pieces: &[Piece<'_>],
        cluster: &mut Cluster,
        ledger: &Ledger,
    ) -> Self {
        let mut limits = LevelLimits::default();
        if request.groups.iter().all(|group| group.terms.levels.is_none()) {
            return limits;
        }
        // Of many slices each has a rule of its own, and rules are looked for among those of the
        // same slice.
        let mut known: BTreeMap<Option<u32>, Vec<usize>> = BTreeMap::new();
        for piece in pieces {
            let group = &request.groups[piece.group];
            let wants = group.terms.level_wants();
            let shape = &group.wants[piece.want].shape;
            let of_piece =
                wants.map(|want| limits.add_rule(want, shape, piece, &mut known)).collect();
            limits.of.push(of_piece);
        }
        for (at, group) in request.groups.iter().enumerate() {
            // Only where parts may differ up to a limit it matters which of them count.
            let Some(counted) = group.counted(cluster) else { continue };
            let mut parts: Vec<PartsOfNode> =
                counted.iter().map(|rank| limits.parts(rank, cluster, ledger)).collect();
            let of_group = pieces.iter().zip(&limits.of).filter(|(piece, _)| piece.group == at);
            let own: BTreeSet<usize> =
                of_group.flat_map(|(_, rules)| rules.iter().copied()).collect();
            let levels: BTreeSet<usize> =
                own.iter().map(|rule| limits.rules[*rule].level).collect();
            // Of levels that no rule of the group's names the parts do not matter.
            for parts in &mut parts {
                (0..parts.len())
                    .filter(|level| !levels.contains(level))
                    .for_each(|level| parts[level] = None);
            }
            parts.sort_unstable();
            parts.dedup();
            parts.retain(|parts| levels.iter().all(|level| parts[*level].is_some()));
            // In which parts slices are does not say which parts count.
            let under: Vec<usize> =
                own.iter().copied().filter(|rule| limits.rules[*rule].slice.is_none()).collect();
            for rule in
                own.into_iter().filter(|rule| limits.skew(*rule).is_some()).collect::<Vec<_>>()
            {
                limits.rules[rule]
                    .counted
                    .push(CountedParts { under: under.clone(), parts: parts.clone() });
            }
        }
        limits
    }

    /// The number of the rule that this is.
    fn add_rule(
        &mut self,
        want: &LevelWant,
        shape: &Arc<Shape>,
        piece: &Piece<'_>,
        known: &mut BTreeMap<Option<u32>, Vec<usize>>,
    ) -> usize {
        let is_by_shape = want.of == RuleScope::Role && want.role.is_none();
        let shape = is_by_shape.then(|| Arc::clone(shape));
        let slice = piece.slice.filter(|_| matches!(want.of, RuleScope::Slice(_)));
        let known = known.entry(slice).or_default();
        let is_same =
            |at: &&usize| self.rules[**at].want == *want && self.rules[**at].shape == shape;
        let at = known.iter().find(is_same).copied().unwrap_or_else(|| {
            let level = self.level(&want.level).unwrap_or_else(|| {
                self.levels.push(Arc::clone(&want.level));
                self.levels.len() - 1
            });
            let (want, counts) = (want.clone(), BTreeMap::new());
            self.rules.push(LevelLimit {
                want,
                level,
                shape,
                slice,
                counts,
                left: 0,
                counted: Vec::new(),
            });
            known.push(self.rules.len() - 1);
            self.rules.len() - 1
        });
        self.rules[at].left += u32::try_from(piece.pods.len()).unwrap_or(u32::MAX);
        at
    }

    /// The number of a level that rules name.
    pub(super) fn level(&self, name: &Arc<str>) -> Option<usize> {
        self.levels.iter().position(|level| level == name)
    }

    /// Returns the rule of a piece, and its level, if pods are to be in one part of a level by
    /// roles, and there are several roles.
    pub(super) fn own_part(&self, piece: usize) -> Option<(usize, usize)> {
        let is_for_one = |rule: &usize| {
            let want = &self.rules[*rule].want;
            want.within == Within::One && !matches!(want.of, RuleScope::Slice(_))
        };
        if (0..self.rules.len()).filter(is_for_one).count() < 2 {
            return None;
        }
        let pieces = |rule: &usize| self.of.iter().filter(|of| of.contains(rule)).count();
        let narrowest =
            self.of.get(piece)?.iter().copied().filter(is_for_one).min_by_key(pieces)?;
        Some((narrowest, self.rules[narrowest].level))
    }

    /// Returns the parts in which a node is.
    pub(super) fn parts(&mut self, rank: Rank, cluster: &Cluster, ledger: &Ledger) -> PartsOfNode {
        let numbers = &mut self.numbers;
        let mut part = |level: &Arc<str>| {
            let part = ledger.part_of(cluster, level, rank)?;
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            Some(*numbers.entry((Arc::clone(level), part)).or_insert(next))
        };
        self.levels.iter().map(&mut part).collect()
    }

    /// Counts a pod of the piece in these parts. Returns true if every rule can still be kept.
    pub(super) fn put(&mut self, piece: usize, parts: &PartsOfNode) -> bool {
        let Some(of) = self.of.get(piece) else { return true };
        for rule in of {
            let limit = &mut self.rules[*rule];
            limit.left -= 1;
            if let Some(part) = parts[limit.level] {
                *limit.counts.entry(part).or_default() += 1;
            }
        }
        of.iter().all(|rule| {
            parts[self.rules[*rule].level].is_some_and(|part| self.is_kept(*rule, part))
        })
    }

    /// Takes back what [`LevelLimits::put`] has counted.
    pub(super) fn take_away(&mut self, piece: usize, parts: &PartsOfNode) {
        // Without rules about levels no piece has an entry.
        for rule in self.of.get(piece).into_iter().flatten() {
            let limit = &mut self.rules[*rule];
            limit.left += 1;
            if let Some(part) = parts[limit.level]
                && let Some(count) = limit.counts.get_mut(&part)
            {
                *count -= 1;
                if *count == 0 {
                    limit.counts.remove(&part);
                }
            }
        }
    }

    /// Returns how many pods are with a pod that comes there, over all rules that want them even.
    pub(super) fn crowding(&self, piece: usize, parts: &PartsOfNode) -> i64 {
        let Some(of) = self.of.get(piece) else { return 0 };
        let even =
            of.iter().filter(|rule| self.skew(**rule).is_some()).map(|rule| &self.rules[*rule]);
        even.filter_map(|rule| rule.counts.get(&parts[rule.level]?))
            .map(|count| i64::from(*count))
            .sum()
    }

    /// True if some rule wants pods to be even.
    pub(super) fn has_skew(&self) -> bool {
        (0..self.rules.len()).any(|rule| self.skew(rule).is_some())
    }

    fn skew(&self, rule: usize) -> Option<u32> {
        let Within::Spread(spread) = &self.rules[rule].want.within else { return None };
        spread.max_skew
    }

    /// True if a rule is kept after a pod came to this part, or can still be kept by the pods to
    /// come.
    fn is_kept(&self, rule: usize, part: u32) -> bool {
        let limit = &self.rules[rule];
        match &limit.want.within {
            Within::One => limit.counts.len() == 1,
            Within::Part(name) => self.is_named(&limit.want, name, part),
            Within::Spread(spread) => {
                let fits = spread
                    .max_per_part
                    .is_none_or(|most| limit.counts.get(&part).is_none_or(|n| *n <= most));
                fits && self.can_be_even(rule)
            }
            // A part that is full is not open.
            Within::Beside(..) | Within::Fewest => true,
        }
    }

    /// True if enough are still to come for the parts that have too few beside the fullest.
    fn can_be_even(&self, rule: usize) -> bool {
        let limit = &self.rules[rule];
        let Some(skew) = self.skew(rule) else { return true };
        let most = limit.counts.values().max().copied().unwrap_or(0);
        let floor = most.saturating_sub(skew);
        if floor == 0 {
            return true;
        }
        let (mut seen, mut missing) = (BTreeSet::new(), 0);
        for CountedParts { under, parts } in &limit.counted {
            let open = parts.iter().filter(|parts| self.is_open(under, parts));
            for part in open.filter_map(|parts| parts[limit.level]) {
                if seen.insert(part) {
                    missing += floor.saturating_sub(limit.counts.get(&part).copied().unwrap_or(0));
                }
            }
        }
        missing <= limit.left
    }

    /// True if a part counts: where pods are to be in one part of a wider level, only the parts
    /// within that one count. Before it is chosen, none does.
    fn is_open(&self, under: &[usize], parts: &PartsOfNode) -> bool {
        under.iter().map(|rule| &self.rules[*rule]).all(|rule| {
            match (&rule.want.within, parts[rule.level]) {
                (Within::One, Some(part)) => rule.counts.contains_key(&part),
                (Within::Part(name), Some(part)) => self.is_named(&rule.want, name, part),
                _ => true,
            }
        })
    }

    fn is_named(&self, want: &LevelWant, name: &str, part: u32) -> bool {
        self.numbers.get(&(Arc::clone(&want.level), name.to_owned())) == Some(&part)
    }
}
