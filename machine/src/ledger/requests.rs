//! Requests to the graph, and the form in which they are written for it.

use std::sync::Arc;

use super::role::Role;
use crate::fluxion::{LevelRule, RankSet, Request, SlotShape, Tenancy, Within};
use fluxqueue_workload::constraints::Constraints;
use fluxqueue_workload::levels::RuleScope;
use fluxqueue_workload::{Lifetime, Shape};

/// Pods of one shape that are wanted.
#[derive(Debug, Clone)]
pub struct SlotRequest {
    /// The requests of each of them.
    pub shape: Arc<Shape>,
    /// The number of pods.
    pub count: usize,
    /// The slices that its pods are of, in their order, if rules are about slices; else empty.
    pub slices: Vec<Slice>,
}

/// Pods of one want that are of one slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// The same for pods of other wants that are of it, and of no other slice of the request.
    pub number: u32,
    /// The number of pods.
    pub count: usize,
}

impl SlotRequest {
    /// Makes a request for `count` pods, all alike.
    pub fn new(shape: Arc<Shape>, count: usize) -> Self {
        SlotRequest { shape, count, slices: Vec::new() }
    }

    /// Returns the pods by piece, each with the slice that it belongs to; a piece is one shape in a
    /// question to the graph.
    pub fn pieces(&self) -> impl Iterator<Item = (usize, Option<u32>)> + '_ {
        let whole = self.slices.is_empty().then_some((self.count, None));
        whole.into_iter().chain(self.slices.iter().map(|slice| (slice.count, Some(slice.number))))
    }
}

/// Pods that share one set of nodes.
#[derive(Debug, Clone)]
pub struct GroupRequest {
    /// The pods, by shape.
    pub wants: Vec<SlotRequest>,
    /// `None`: every node.
    pub ranks: Option<RankSet>,
    /// Nodes that are taken before others, the best first.
    pub prefer: Vec<RankSet>,
    /// Nodes to which they are admitted, where it matters in how many parts of a level these are.
    pub counted: Option<RankSet>,
    /// The time for which the pods keep their places.
    pub lifetime: Lifetime,
    /// The most of them together on one node.
    pub max_per_node: Option<u64>,
    /// True if no two of them may be on one node, whatever they want.
    pub are_apart: bool,
    /// Rules about racks, zones and other levels.
    pub levels: LevelWants,
    /// The same for all groups of a request.
    pub tenancy: Tenancy,
}

impl GroupRequest {
    /// Removes the slices and the rules about them.
    #[must_use]
    pub fn unsliced(mut self) -> Self {
        if self.wants.iter().any(|want| !want.slices.is_empty()) {
            self.wants.iter_mut().for_each(|want| want.slices.clear());
            let of_all = |want: &&LevelWant| !matches!(want.of, RuleScope::Slice(_));
            self.levels = self.levels.map(|levels| levels.iter().filter(of_all).cloned().collect());
        }
        self
    }

    /// Returns the request for one slice of each want.
    #[must_use]
    pub fn one_slice(&self, size: u32) -> Self {
        let mut slice = self.clone();
        for (want, number) in slice.wants.iter_mut().zip(0..) {
            want.count = want.count.min(size as usize);
            want.slices = vec![Slice { number, count: want.count }];
        }
        slice
    }
}

/// The wants of pods about levels; most have none.
pub type LevelWants = Option<Arc<[LevelWant]>>;

/// Where pods want to lie in a level of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LevelWant {
    /// The level's name.
    pub level: Arc<str>,
    /// The rule for the parts in which the pods may be.
    pub within: Within,
    /// The other pods of the request that the rule is about together with these.
    pub of: RuleScope,
    /// Of which role, if that matters and is known.
    pub role: Option<Role>,
    /// True if others come later, and are to be where it is.
    pub leads: bool,
}

/// Writes one request of all groups for the graph, and asks it: a shape for each want, or for each
/// slice of it.
pub(crate) fn with_request<T>(
    groups: &[GroupRequest],
    not_before: Option<i64>,
    ask: impl FnOnce(&Request<'_>) -> T,
) -> T {
    let all = || groups.iter().flat_map(|group| group.wants.iter().map(move |want| (group, want)));
    let pieces: Vec<(usize, Option<u32>)> = all().flat_map(|(_, want)| want.pieces()).collect();
    let of_pieces = all().flat_map(|of| std::iter::repeat_n(of, of.1.pieces().count()));
    let wants: Vec<(&GroupRequest, &SlotRequest)> = of_pieces.collect();
    let labels: Vec<String> = (0..wants.len()).map(label_of).collect();
    let mut shapes = Vec::with_capacity(wants.len());
    for (((group, want), (count, _)), label) in wants.iter().zip(&pieces).zip(&labels) {
        shapes.push(SlotShape {
            label,
            count: *count as u64,
            requests: &want.shape.requests,
            end: group.lifetime,
            ranks: group.ranks.as_ref(),
            prefer: &group.prefer,
            counted: group.counted.as_ref(),
        });
    }
    let mut max_per_node = exclusive_limits(&wants, &labels);
    let mut apart: Option<&GroupRequest> = None;
    for ((group, _), label) in wants.iter().zip(&labels).filter(|((group, _), _)| group.are_apart) {
        match max_per_node
            .last_mut()
            .filter(|_| apart.is_some_and(|apart| std::ptr::eq(apart, *group)))
        {
            Some((labels, _)) => labels.push(label.clone()),
            None => max_per_node.push((vec![label.clone()], 1)),
        }
        apart = Some(group);
    }
    let mut limited: Option<&SlotRequest> = None;
    for ((group, want), label) in wants.iter().zip(&labels) {
        // Pods that are apart have a limit of one already.
        let Some(limit) = group.max_per_node.filter(|_| !group.are_apart) else { continue };
        match max_per_node
            .last_mut()
            .filter(|_| limited.is_some_and(|limited| std::ptr::eq(limited, *want)))
        {
            // Slices of one want share its limit.
            Some((labels, _)) => labels.push(label.clone()),
            None => max_per_node.push((vec![label.clone()], limit)),
        }
        limited = Some(want);
    }
    let levels = level_rules(&wants, &pieces, &labels);
    let (shapes, max_per_node, levels) = (&shapes, &max_per_node, &levels);
    let tenancy = groups.first().map_or(Tenancy::Shared, |group| group.tenancy);
    ask(&Request { shapes, max_per_node, policy: None, not_before, levels, tenancy })
}

/// The label of a shape in the request: its place there.
pub(crate) fn label_of(at: usize) -> String {
    at.to_string()
}

/// The rules of all wants: those that want the same of a level together are under one.
fn level_rules(
    wants: &[(&GroupRequest, &SlotRequest)],
    pieces: &[(usize, Option<u32>)],
    labels: &[String],
) -> Vec<LevelRule> {
    let mut rules: Vec<(&LevelWant, &Arc<Shape>, Option<u32>, LevelRule)> = Vec::new();
    for (((group, want), (_, slice)), label) in wants.iter().zip(pieces).zip(labels) {
        for wanted in group.levels.iter().flat_map(|levels| levels.iter()) {
            let is_same = |known: &LevelWant, shape: &Arc<Shape>, of: Option<u32>| match wanted.of {
                RuleScope::Job | RuleScope::Group(_) => known == wanted,
                RuleScope::Role => {
                    known == wanted && (wanted.role.is_some() || *shape == want.shape)
                }
                RuleScope::Slice(_) => of == *slice && of.is_some() && known == wanted,
            };
            match rules.iter_mut().find(|(known, shape, of, _)| is_same(known, shape, *of)) {
                Some((.., rule)) => rule.labels.push(label.clone()),
                None => {
                    let (level, within) = (Arc::clone(&wanted.level), wanted.within.clone());
                    let is_slice = matches!(wanted.of, RuleScope::Slice(_));
                    rules.push((
                        wanted,
                        &want.shape,
                        *slice,
                        LevelRule { level, labels: vec![label.clone()], within, is_slice },
                    ));
                }
            }
        }
    }
    rules.into_iter().map(|(.., rule)| rule).collect()
}

/// Wants that exclude each other, themselves included, share a node at most once: their host ports
/// collide, or their disks. Wants with the same are one limit: a search over few limits is a short
/// one.
fn exclusive_limits(
    wants: &[(&GroupRequest, &SlotRequest)],
    labels: &[String],
) -> Vec<(Vec<String>, u64)> {
    let mut groups: Vec<(&Constraints, Vec<String>)> = Vec::new();
    for ((_, want), label) in wants.iter().zip(labels) {
        let own = &want.shape.constraints;
        let is_same =
            |other: &Constraints| other.host_ports == own.host_ports && other.disks == own.disks;
        match groups.iter_mut().find(|(known, _)| is_same(known)) {
            _ if own.host_ports.is_empty() && own.disks.is_empty() => {}
            Some((_, labels)) => labels.push(label.clone()),
            None => groups.push((own, vec![label.clone()])),
        }
    }
    let mut limits = Vec::new();
    for (at, (own, labels)) in groups.iter().enumerate() {
        // A disk that is only read is shared.
        if own.exclude(own) {
            limits.push((labels.clone(), 1));
        }
        for (others, more) in &groups[at + 1..] {
            if own.exclude(others) {
                limits.push(([&labels[..], more].concat(), 1));
            }
        }
    }
    limits
}
