//! What levels let the pods of a trial do: the same that the graph is asked to keep, pod by pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Request;
use crate::cluster::Cluster;
use crate::fluxion::{Rank, Within};
use crate::ledger::{Ledger, LevelWant};
use fluxqueue_workload::Shape;
use fluxqueue_workload::levels::RuleScope;

/// The parts of all rules' levels that a node is in; `None` where it is in none.
pub(super) type Parts = Vec<Option<u32>>;

/// The rules of a request, and how many pods of the trial are where under them.
#[derive(Default)]
pub(super) struct Limits {
    rules: Vec<Limit>,
    /// Per group and want the rules that it is under.
    of: Vec<Vec<Vec<usize>>>,
    /// Numbers of parts, by level and name.
    numbers: BTreeMap<(Arc<str>, String), u32>,
}

struct Limit {
    want: LevelWant,
    /// Only for pods of this shape, if each pod set is for itself.
    shape: Option<Arc<Shape>>,
    /// Per part how many pods are in it.
    counts: BTreeMap<u32, u32>,
    /// How many are still to come.
    left: u32,
    /// The parts that count for a skew, each with the parts of the other rules.
    counted: Vec<Parts>,
}

impl Limits {
    pub(super) fn of(request: &Request, cluster: &mut Cluster, ledger: &Ledger) -> Self {
        let mut limits = Limits::default();
        if request.groups.iter().all(|group| group.levels.is_none()) {
            return limits;
        }
        for group in &request.groups {
            let of_group = group.wants.iter().map(|slots| {
                let wants = group.levels.iter().flat_map(|wants| wants.iter());
                wants.map(|want| limits.add_rule(want, &slots.shape, slots.count)).collect()
            });
            let of_group = of_group.collect();
            limits.of.push(of_group);
        }
        for (at, group) in request.groups.iter().enumerate() {
            let Some(counted) = group.counted(cluster) else { continue };
            let mut parts: Vec<Parts> = counted.iter().map(|rank| limits.parts(rank, cluster, ledger)).collect();
            parts.sort_unstable();
            parts.dedup();
            let own = limits.rules_of(at);
            parts.retain(|parts| own.iter().all(|rule| parts[*rule].is_some()));
            // Of rules that are not the group's the parts do not matter.
            for parts in &mut parts {
                (0..parts.len()).filter(|rule| !own.contains(rule)).for_each(|rule| parts[rule] = None);
            }
            for rule in own {
                limits.rules[rule].counted.extend(parts.iter().cloned());
            }
        }
        limits
    }

    /// The number of the rule that this is.
    fn add_rule(&mut self, want: &LevelWant, shape: &Arc<Shape>, pods: usize) -> usize {
        let shape = (want.of == RuleScope::PodSet).then(|| Arc::clone(shape));
        let known = self.rules.iter().position(|rule| rule.want == *want && rule.shape == shape);
        let at = known.unwrap_or_else(|| {
            let (want, counts) = (want.clone(), BTreeMap::new());
            self.rules.push(Limit { want, shape, counts, left: 0, counted: Vec::new() });
            self.rules.len() - 1
        });
        self.rules[at].left += u32::try_from(pods).unwrap_or(u32::MAX);
        at
    }

    fn rules_of(&self, group: usize) -> Vec<usize> {
        let mut rules: Vec<usize> = self.of[group].iter().flatten().copied().collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }

    /// Where a node is.
    pub(super) fn parts(&mut self, rank: Rank, cluster: &Cluster, ledger: &Ledger) -> Parts {
        let numbers = &mut self.numbers;
        let mut part = |rule: &Limit| {
            let level = &rule.want.level;
            let part = ledger.part_of(cluster, level, rank)?;
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            Some(*numbers.entry((Arc::clone(level), part)).or_insert(next))
        };
        self.rules.iter().map(&mut part).collect()
    }

    /// A pod comes to a node of these parts. Whether the rules can be kept then; it counts in any case.
    pub(super) fn put(&mut self, group: usize, want: usize, parts: &Parts) -> bool {
        let Some(of) = self.of.get(group) else { return true };
        for rule in &of[want] {
            let limit = &mut self.rules[*rule];
            limit.left -= 1;
            if let Some(part) = parts[*rule] {
                *limit.counts.entry(part).or_default() += 1;
            }
        }
        of[want].iter().all(|rule| parts[*rule].is_some_and(|part| self.is_kept(*rule, part)))
    }

    /// Takes back what [`Limits::put`] has counted.
    pub(super) fn take_away(&mut self, group: usize, want: usize, parts: &Parts) {
        let Some(of) = self.of.get(group) else { return };
        for rule in &of[want] {
            let limit = &mut self.rules[*rule];
            limit.left += 1;
            if let Some(part) = parts[*rule]
                && let Some(count) = limit.counts.get_mut(&part)
            {
                *count -= 1;
                if *count == 0 {
                    limit.counts.remove(&part);
                }
            }
        }
    }

    /// How many pods are with one that comes there, over all rules that want them even.
    pub(super) fn crowding(&self, group: usize, want: usize, parts: &Parts) -> i64 {
        let Some(of) = self.of.get(group) else { return 0 };
        let even = of[want].iter().filter(|rule| self.skew(**rule).is_some());
        even.filter_map(|rule| self.rules[*rule].counts.get(&parts[*rule]?)).map(|count| i64::from(*count)).sum()
    }

    fn skew(&self, rule: usize) -> Option<u32> {
        let Within::Spread(spread) = &self.rules[rule].want.within else { return None };
        spread.max_skew
    }

    /// Whether a rule is kept, or can be by those who are still to come, after a pod came to this part.
    fn is_kept(&self, rule: usize, part: u32) -> bool {
        let limit = &self.rules[rule];
        match &limit.want.within {
            Within::One => limit.counts.len() == 1,
            Within::Part(name) => self.is_named(&limit.want, name, part),
            Within::Spread(spread) => {
                let fits = spread.max_per_part.is_none_or(|most| limit.counts.get(&part).is_none_or(|n| *n <= most));
                fits && self.can_be_even(rule)
            }
            // What is full is not open.
            Within::Beside(..) | Within::Fewest => true,
        }
    }

    /// Enough are still to come for the parts that have too few beside the fullest.
    fn can_be_even(&self, rule: usize) -> bool {
        let limit = &self.rules[rule];
        let Some(skew) = self.skew(rule) else { return true };
        let most = limit.counts.values().max().copied().unwrap_or(0);
        let floor = most.saturating_sub(skew);
        if floor == 0 {
            return true;
        }
        let (mut seen, mut missing) = (BTreeSet::new(), 0);
        for parts in &limit.counted {
            let Some(part) = parts[rule].filter(|_| self.is_open(parts)) else { continue };
            if seen.insert(part) {
                missing += floor.saturating_sub(limit.counts.get(&part).copied().unwrap_or(0));
            }
        }
        missing <= limit.left
    }

    /// Of those who are to be in one part of a level, the parts count that are within it. Before it is chosen, none does.
    fn is_open(&self, parts: &Parts) -> bool {
        self.rules.iter().zip(parts).all(|(rule, part)| match (&rule.want.within, part) {
            (Within::One, Some(part)) => rule.counts.contains_key(part),
            (Within::Part(name), Some(part)) => self.is_named(&rule.want, name, *part),
            _ => true,
        })
    }

    fn is_named(&self, want: &LevelWant, name: &str, part: u32) -> bool {
        self.numbers.get(&(Arc::clone(&want.level), name.to_owned())) == Some(&part)
    }
}
