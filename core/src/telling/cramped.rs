//! Levels of the machine that have no part with room for pods that must share one.

use std::collections::{BTreeMap, BTreeSet};

use crate::telling::obstacle::{CrampedLevel, LevelObstacle};
use fluxqueue_machine::cluster::{Cluster, readable};
use fluxqueue_machine::fluxion::{
    EvenSupply, LevelSupply, RankSet, ShapeReport, Supply, TogetherSupply, Within,
};
use fluxqueue_machine::ledger::{Ledger, LevelWants};
use fluxqueue_machine::rules::{self, Site};
use fluxqueue_planner::plan::{Group, Request};
use fluxqueue_workload::levels::{RuleScope, Spread};

/// Most parts that an explanation names: more would make it hard to read.
const NAMED_MAX: usize = 3;

/// Most slices with pods on different nodes that are checked for one explanation.
const SLICES_LOOKED_AT: usize = 32;

impl CrampedLevel {
    /// Returns the first of the wanted levels that is cramped, by the present supply or by that of
    /// the idle machine.
    pub(crate) fn of(
        asked: &LevelWants,
        shape: &ShapeReport,
        supply: &Supply,
        if_idle: bool,
    ) -> Option<Self> {
        let wants = asked.iter().flat_map(|levels| levels.iter());
        wants
            .zip(&supply.levels)
            .find_map(|(want, supply)| Self::under(&want.within, shape.wanted, supply, if_idle))
    }

    /// Returns the first level that has no part with room for all pods of several shapes that must
    /// share one.
    pub(crate) fn together(shapes: &[ShapeReport], if_idle: bool) -> Option<Self> {
        let supplies = shapes
            .iter()
            .flat_map(|shape| if if_idle { &shape.idle.levels } else { &shape.now.levels });
        supplies.filter_map(|supply| Some((supply, supply.together.clone()?))).find_map(
            |(supply, together)| {
                let TogetherSupply { wanted, largest, part } = together;
                let supply = LevelSupply { largest, part, ..supply.clone() };
                Self::under(&Within::One, wanted, &supply, if_idle)
            },
        )
    }

    /// Returns the first level in which some parts may have no more pods of a job than they have
    /// already.
    pub(crate) fn beside(group: &Group, site: &mut Site<'_>) -> Option<Self> {
        let pods = group.applicants(None);
        let mut wants = group.terms.level_wants();
        let (level, full) = wants.find_map(|want| {
            let full = rules::full_parts(site, &pods, want);
            (!full.is_empty()).then(|| (want.level.to_string(), full))
        })?;
        let named: Vec<String> = full.iter().take(NAMED_MAX).map(|part| readable(part)).collect();
        let are_more = full.len() > NAMED_MAX;
        let part = if full.len() == 1 { named.first().cloned() } else { None };
        Some(CrampedLevel {
            level,
            part,
            wanted: 1,
            room: 0,
            is_of_idle: false,
            why: LevelObstacle::Full { named, are_more },
        })
    }

    /// Returns the level of slices if there is a slice with pods that may use no part together,
    /// given the nodes that are open to each group. Their volumes may be in different parts, for
    /// example.
    pub(crate) fn cut(
        request: &Request,
        open: &[RankSet],
        ledger: &Ledger,
        cluster: &Cluster,
    ) -> Option<Self> {
        let is_slice = |of: &RuleScope| matches!(of, RuleScope::Slice(_));
        let mut wants = request.groups.iter().flat_map(|group| group.terms.level_wants());
        let level = &wants.find(|want| is_slice(&want.of) && want.within == Within::One)?.level;
        // For each slice: the name of one of its pods, the number of its pods, and the groups that
        // they belong to.
        let mut slices: BTreeMap<u32, (&str, usize, BTreeSet<usize>)> = BTreeMap::new();
        for (at, group) in request.groups.iter().enumerate() {
            for (want, pods) in group.wants.iter().zip(&group.pods) {
                let mut pods = pods.iter();
                for slice in &want.slices {
                    let Some(first) = pods.next() else { break };
                    let known = slices.entry(slice.number).or_insert((
                        &*first.id.key.name,
                        0,
                        BTreeSet::new(),
                    ));
                    known.1 += slice.count;
                    known.2.insert(at);
                    pods.by_ref().take(slice.count - 1).for_each(drop);
                }
            }
        }
        let mut known: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        let mut several =
            slices.into_values().filter(|(.., groups)| groups.len() > 1).take(SLICES_LOOKED_AT);
        let (pod, pods) = several.find_map(|(pod, pods, groups)| {
            for at in &groups {
                let parts = || {
                    open[*at]
                        .iter()
                        .filter_map(|rank| ledger.part_of(cluster, level, rank))
                        .collect()
                };
                known.entry(*at).or_insert_with(parts);
            }
            let mut parts = groups.iter().map(|at| &known[at]);
            let first = parts.next()?;
            let is_common = |part: &&String| parts.clone().all(|parts| parts.contains(*part));
            let is_cut = first.iter().find(is_common).is_none()
                && groups.iter().all(|at| !known[at].is_empty());
            is_cut.then_some((pod, pods))
        })?;
        Some(CrampedLevel {
            level: level.to_string(),
            part: None,
            wanted: pods as u64,
            room: 0,
            is_of_idle: false,
            why: LevelObstacle::CutSlice(pod.to_owned()),
        })
    }

    /// Returns the trouble under one rule, if there is any.
    fn under(rule: &Within, wanted: u64, supply: &LevelSupply, if_idle: bool) -> Option<Self> {
        let LevelSupply { level, parts, largest, part, even, .. } = supply;
        let is_too_small = *largest < wanted;
        let (part, room, why) = match (rule, part) {
            (Within::One, Some(part)) if is_too_small => {
                (Some(readable(part)), *largest, LevelObstacle::TooSmall)
            }
            (Within::One, None) if *parts == 0 => (None, 0, LevelObstacle::NoNode),
            (Within::One, None) if is_too_small => (None, 0, LevelObstacle::TooSmall),
            (Within::Part(of_job), _) if is_too_small => {
                (Some(readable(of_job)), *largest, LevelObstacle::RestOfJob)
            }
            (Within::Spread(Spread { max_per_part: Some(most), .. }), _)
                if parts.saturating_mul(u64::from(*most)) < wanted =>
            {
                let why = LevelObstacle::TooFewParts { most: *most, parts: *parts };
                (None, parts * u64::from(*most), why)
            }
            (Within::Spread(Spread { max_skew: Some(skew), .. }), _) => {
                let EvenSupply { room, least, part } =
                    even.as_ref().filter(|even| even.room < wanted)?;
                (Some(readable(part)), *room, LevelObstacle::Uneven { skew: *skew, least: *least })
            }
            _ => return None,
        };
        Some(CrampedLevel { level: level.clone(), part, wanted, room, is_of_idle: if_idle, why })
    }
}
