//! Gangs with rules about other pods and levels at once, on small random machines: a place is found
//! where a search of all ways finds one, and a pod that joins later goes where it may.
//!
//! The judge here knows nothing of the core: it has numbers of pods per node, and applies each rule
//! to these.

use std::collections::{BTreeMap, HashSet};

use fluxqueue_workload::constraints::{PodTerm, SpreadConstraint};
use fluxqueue_workload::levels::{LevelBound, LevelRule, RuleScope, Spread};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::neighbours::{labelled, labels};
use super::*;

/// Label and level of what holds nodes together, the narrowest first.
const LEVELS: [(&str, &str); 3] = [
    ("kubernetes.io/hostname", "host"),
    ("topology.kubernetes.io/rack", "rack"),
    ("topology.kubernetes.io/zone", "zone"),
];

/// A rule of the gang's pods about pods with its label or another one, at a level by its place in
/// [`LEVELS`].
#[derive(Debug, Clone, Copy)]
enum Term {
    Apart { of_gang: bool, level: usize },
    Near { of_gang: bool, level: usize },
    Even { level: usize, skew: usize },
}

/// What they ask of levels.
#[derive(Debug, Clone, Copy)]
enum Ask {
    One { level: usize },
    Spread { level: usize, most: Option<u32>, skew: Option<u32> },
}

#[derive(Debug, Clone)]
struct Case {
    /// Per node its rack, of which two and two are a zone, and how many cores are free.
    nodes: Vec<(usize, usize)>,
    /// Nodes on which a pod is that terms may name, and whether it has the label of the gang.
    standing: Vec<(usize, bool)>,
    terms: Vec<Term>,
    asks: Vec<Ask>,
    /// The number of pods that want one core, and of those that want two.
    pods: [usize; 2],
    /// The size of a slice of pods of one kind, and the level in one domain of which each slice has
    /// to be.
    slices: Option<(usize, usize)>,
    /// The pods that are lost once they run, each with whether others take its room.
    lost: Vec<(usize, bool)>,
}

/// How many pods of each unit are on each node. A unit is a slice, or all pods of a kind.
type Places = Vec<Vec<usize>>;

/// Returns how many cores a pod of a kind wants.
fn cores(kind: usize) -> usize {
    kind + 1
}

fn with_one_more(places: &Places, node: usize, unit: usize) -> Places {
    let mut places = places.clone();
    places[node][unit] += 1;
    places
}

// --- the judge ---

impl Case {
    /// Per unit, of which kind its pods are, and how many there are.
    fn units(&self) -> Vec<(usize, usize)> {
        let mut units = Vec::new();
        for (kind, pods) in self.pods.into_iter().enumerate() {
            let size = self.slices.map_or(pods.max(1), |(_, size)| size);
            units.extend((0..pods).step_by(size).map(|first| (kind, size.min(pods - first))));
        }
        units
    }

    /// The unit of a pod, by its kind and number.
    fn unit_of(&self, kind: usize, number: usize) -> usize {
        let before = self.units().iter().filter(|(of, _)| *of < kind).count();
        before + self.slices.map_or(0, |(_, size)| number / size)
    }

    /// The pods of each slice are in one part.
    fn is_in_slices(&self, places: &Places) -> bool {
        let Some((level, _)) = self.slices else { return true };
        (0..self.units().len()).all(|unit| {
            let used = (0..places.len()).filter(|node| places[*node][unit] > 0);
            used.map(|node| self.domain(node, level)).collect::<HashSet<_>>().len() <= 1
        })
    }

    fn domain(&self, node: usize, level: usize) -> usize {
        let rack = self.nodes[node].0;
        [node, rack, rack / 2][level]
    }

    /// Nodes that are where this one is, by every level of which pods are to be in one part.
    fn around(&self, node: usize) -> Vec<usize> {
        let is_there = |other: &usize| {
            self.asks.iter().all(|ask| match *ask {
                Ask::One { level } => self.domain(*other, level) == self.domain(node, level),
                Ask::Spread { .. } => true,
            })
        };
        (0..self.nodes.len()).filter(is_there).collect()
    }

    /// Per domain the pods with a label.
    fn count(&self, places: &Places, of_gang: bool, level: usize) -> BTreeMap<usize, usize> {
        let mut counts = BTreeMap::new();
        for (node, of_kind) in places.iter().enumerate() {
            let standing =
                self.standing.iter().filter(|standing| **standing == (node, of_gang)).count();
            let ours = if of_gang { of_kind.iter().sum() } else { 0 };
            *counts.entry(self.domain(node, level)).or_default() += standing + ours;
        }
        counts
    }

    /// True if one more pod may come to a node, by room and by its rules about others.
    fn admits(&self, places: &Places, node: usize, unit: usize) -> bool {
        let units = self.units();
        let taken: usize =
            places[node].iter().zip(&units).map(|(count, (kind, _))| count * cores(*kind)).sum();
        let has_room = taken + cores(units[unit].0) <= self.nodes[node].1;
        let is_met = |term: &Term| match *term {
            Term::Apart { of_gang, level } => {
                self.count(places, of_gang, level)[&self.domain(node, level)] == 0
            }
            Term::Near { of_gang, level } => {
                let counts = self.count(places, of_gang, level);
                counts[&self.domain(node, level)] > 0
                    || of_gang && counts.values().all(|count| *count == 0)
            }
            Term::Even { level, skew } => {
                let counts = self.count(places, true, level);
                counts[&self.domain(node, level)] + 1 - counts.values().min().unwrap() <= skew
            }
        };
        has_room && self.terms.iter().all(is_met)
    }

    /// How many pods of the gang are in each part of a level, of those parts that count.
    fn in_parts(&self, places: &Places, nodes: &[usize], level: usize) -> BTreeMap<usize, u32> {
        let mut counts = BTreeMap::new();
        for node in nodes {
            let here = u32::try_from(places[*node].iter().sum::<usize>()).unwrap();
            *counts.entry(self.domain(*node, level)).or_default() += here;
        }
        counts
    }

    /// True if all pods of the gang are in one part, where a rule wants that.
    fn is_together(&self, places: &Places) -> bool {
        let mut used =
            (0..places.len()).filter(|node| places[*node].iter().any(|count| *count > 0));
        let Some(first) = used.next() else { return true };
        let around = self.around(first);
        used.all(|node| around.contains(&node))
    }

    /// All pods are where their levels let them be.
    fn is_within(&self, places: &Places) -> bool {
        let is_used = |node: &usize| places[*node].iter().any(|count| *count > 0);
        let first = (0..places.len()).find(is_used).expect("a pod is somewhere");
        let around = self.around(first);
        let is_kept = |ask: &Ask| {
            let Ask::Spread { level, most, skew } = *ask else { return true };
            let counts = self.in_parts(places, &around, level);
            let (least, fullest) = (counts.values().min().unwrap(), counts.values().max().unwrap());
            most.is_none_or(|most| *fullest <= most)
                && skew.is_none_or(|skew| fullest - least <= skew)
        };
        self.is_together(places) && self.is_in_slices(places) && self.asks.iter().all(is_kept)
    }

    /// True if one more pod may join the running ones: its own part has no more than it may have.
    fn may_join(&self, places: &Places, node: usize, unit: usize) -> bool {
        let after = with_one_more(places, node, unit);
        let is_kept = |ask: &Ask| {
            let Ask::Spread { level, most, skew } = *ask else { return true };
            let counts = self.in_parts(&after, &self.around(node), level);
            let (here, least) = (counts[&self.domain(node, level)], counts.values().min().unwrap());
            most.is_none_or(|most| here <= most) && skew.is_none_or(|skew| here - least <= skew)
        };
        let is_with_others = self.is_together(&after) && self.is_in_slices(&after);
        self.admits(places, node, unit) && is_with_others && self.asks.iter().all(is_kept)
    }

    /// Whatever becomes of places when pods come that are missing, one or all of them.
    fn ways(
        &self,
        from: Places,
        may_come: impl Fn(&Places, usize, usize) -> bool,
    ) -> HashSet<Places> {
        let mut all = HashSet::from([from]);
        let mut last: Vec<Places> = all.iter().cloned().collect();
        while let Some(places) = last.pop() {
            let units = 0..self.units().len();
            for (unit, node) in
                units.flat_map(|unit| (0..places.len()).map(move |node| (unit, node)))
            {
                if self.lacks(&places, unit) && may_come(&places, node, unit) {
                    let more = with_one_more(&places, node, unit);
                    if all.insert(more.clone()) {
                        last.push(more);
                    }
                }
            }
        }
        all
    }

    /// All places that the gang may have.
    fn all_ways(&self) -> HashSet<Places> {
        let units = self.units().len();
        let nowhere = vec![vec![0; units]; self.nodes.len()];
        let may_come = |places: &Places, node: usize, unit: usize| {
            self.admits(places, node, unit) && self.is_in_slices(&with_one_more(places, node, unit))
        };
        let mut ways = self.ways(nowhere, may_come);
        ways.retain(|places| {
            !(0..units).any(|unit| self.lacks(places, unit)) && self.is_within(places)
        });
        ways
    }

    fn lacks(&self, places: &Places, unit: usize) -> bool {
        places.iter().map(|of_unit| of_unit[unit]).sum::<usize>() < self.units()[unit].1
    }
}

// --- the core ---

impl Case {
    fn world(&self) -> World {
        let mut world = World::new(&[]);
        for (at, (_, cores)) in self.nodes.iter().enumerate() {
            let label = |(level, (key, _)): (usize, &(&str, &str))| {
                (Arc::from(*key), Arc::from(self.domain(at, level).to_string().as_str()))
            };
            let labels = LEVELS.iter().enumerate().map(label).collect();
            let node = node(&format!("n{at}"), *cores as u64);
            world.tell(Event::Node(Arc::new(Node { labels, ..Node::clone(&node) })));
        }
        for (at, (node, of_gang)) in self.standing.iter().enumerate() {
            // It takes no core of those that are free.
            let pod = neighbours::on(pod(&format!("standing{at}"), 0), &format!("n{node}"));
            world.submit(Pod { labels: labels(if *of_gang { "gang" } else { "other" }), ..pod });
        }
        world
    }

    /// A pod of the gang, which says by its name of which kind it is and which number it has; and
    /// how often it has come.
    fn pod(&self, kind: usize, number: usize, nth: usize) -> Pod {
        let mut pod = of_job(pod(&format!("j{kind}-{number}-{nth}"), cores(kind) as u64), "j");
        for term in &self.terms {
            let of_gang = !matches!(
                term,
                Term::Apart { of_gang: false, .. } | Term::Near { of_gang: false, .. }
            );
            pod = labelled(pod, if of_gang { "gang" } else { "other" }, |constraints, pods| {
                let key = |level: usize| LEVELS[level].0.into();
                match *term {
                    Term::Apart { level, .. } => {
                        constraints.repels.push(PodTerm { pods, topology_key: key(level) });
                    }
                    Term::Near { level, .. } => {
                        constraints.near.push(PodTerm { pods, topology_key: key(level) });
                    }
                    Term::Even { level, skew } => constraints.spreads.push(SpreadConstraint {
                        pods,
                        topology_key: key(level),
                        max_skew: u32::try_from(skew).unwrap(),
                        min_domains: 1,
                        honors_affinity: true,
                        honors_taints: false,
                    }),
                }
            });
        }
        let rule = |ask: &Ask| {
            let (level, bound) = match *ask {
                Ask::One { level } => (level, LevelBound::Required),
                Ask::Spread { level, most: max_per_part, skew: max_skew } => {
                    (level, LevelBound::Spread(Spread { max_per_part, max_skew }))
                }
            };
            let annotation = "fluxqueue/required-level";
            LevelRule { level: LEVELS[level].1.into(), bound, of: RuleScope::Job, annotation }
        };
        let slices = self.slices.map(|(level, size)| LevelRule {
            level: LEVELS[level].1.into(),
            bound: LevelBound::Required,
            of: RuleScope::Slice(u32::try_from(size).unwrap()),
            annotation: "fluxqueue/slice-level",
        });
        let levels: Arc<[LevelRule]> = self.asks.iter().map(rule).chain(slices).collect();
        // Those of the other kind are in slices of their own.
        let index = slices_begin_at(kind) + u32::try_from(number).unwrap();
        let completion_index = self.slices.map(|_| index);
        Pod {
            labels: labels("gang"),
            levels: Some(levels).filter(|levels| !levels.is_empty()),
            completion_index,
            ..pod
        }
    }

    fn start(&self, world: &mut World) {
        let all = u32::try_from(self.pods[0] + self.pods[1]).unwrap();
        world.tell(Event::Controller(Arc::new(job("j", all, all))));
        for (kind, pods) in self.pods.iter().enumerate() {
            (0..*pods).for_each(|number| world.submit(self.pod(kind, number, 0)));
        }
        world.settle();
    }

    /// Where the pods of the gang are.
    fn places(&self, world: &World) -> Places {
        let mut places = vec![vec![0; self.units().len()]; self.nodes.len()];
        for (name, pod) in world.pods.iter().filter(|(name, _)| name.starts_with('j')) {
            if let Some(node) = &pod.node {
                let (kind, number) = named(name);
                places[node[1..].parse::<usize>().unwrap()][self.unit_of(kind, number)] += 1;
            }
        }
        places
    }

    /// Pods are lost, and others come for them. The case as it is without the room that others have
    /// taken, and where the others were.
    fn lose_some(&self, world: &mut World) -> (Case, Places) {
        let mut case = self.clone();
        let mut gone: Vec<(usize, usize)> = Vec::new();
        for (at, is_taken) in &self.lost {
            let ours: Vec<String> =
                world.pods.keys().filter(|name| name.starts_with('j')).cloned().collect();
            let name = &ours[at % ours.len()];
            let (kind, number) = named(name);
            // One pod has to stay, for others to join it.
            if ours.len() == 1 {
                break;
            }
            let node = world.node_of(name).expect("it runs").to_owned();
            world.delete(name);
            if *is_taken {
                let other = pod(&format!("other{}", gone.len()), cores(kind) as u64);
                world.submit(neighbours::on(other, &node));
                case.nodes[node[1..].parse::<usize>().unwrap()].1 -= cores(kind);
            }
            gone.push((kind, number));
        }
        // Their slots are kept no longer.
        world.pass_seconds(60);
        world.settle();
        let stay = self.places(world);
        for (kind, number) in gone {
            world.submit(self.pod(kind, number, 1));
        }
        for _ in 0..5 {
            world.settle();
            world.pass_seconds(2);
        }
        (case, stay)
    }

    /// Returns the first fault of the core.
    fn fault(&self) -> Option<String> {
        let mut world = self.world();
        self.start(&mut world);
        let (ways, places) = (self.all_ways(), self.places(&world));
        let has_begun = places.iter().flatten().any(|count| *count > 0);
        match (has_begun, ways.iter().next()) {
            (false, None) => return None,
            (false, Some(way)) => {
                return Some(format!("it waits, and could have {way:?}: {:?}", world.blocked("j")));
            }
            (true, _) if !ways.contains(&places) => {
                return Some(format!("it may not be on {places:?}"));
            }
            (true, _) => {}
        }
        let (case, stay) = self.lose_some(&mut world);
        let after = case.places(&world);
        let may_come =
            |places: &Places, node: usize, unit: usize| case.may_join(places, node, unit);
        if !case.ways(stay.clone(), may_come).contains(&after) {
            return Some(format!("from {stay:?} they may not come to {after:?}"));
        }
        let mut could_come =
            (0..self.units().len()).flat_map(|unit| (0..after.len()).map(move |node| (unit, node)));
        let could = could_come
            .find(|(unit, node)| case.lacks(&after, *unit) && may_come(&after, *node, *unit));
        could.map(|(unit, node)| {
            format!("one of unit {unit} could join {after:?} on n{node}: {:?}", world.conditions)
        })
    }
}

/// The first index of pods of this kind, where it matters.
fn slices_begin_at(kind: usize) -> u32 {
    if kind == 0 { 0 } else { 120 }
}

/// The kind and the number of a pod of the gang, by its name.
fn named(name: &str) -> (usize, usize) {
    let mut parts = name[1..].split('-').map(|part| part.parse().expect("a number"));
    (parts.next().expect("a kind"), parts.next().expect("a number"))
}

fn cases(has_slices: bool) -> impl Strategy<Value = Case> {
    let term = prop_oneof![
        3 => (any::<bool>(), 0..2_usize).prop_map(|(of_gang, level)| Term::Apart { of_gang, level }),
        2 => (prop::bool::weighted(0.7), 1..3_usize).prop_map(|(of_gang, level)| Term::Near { of_gang, level }),
        3 => (0..3_usize, 1..3_usize).prop_map(|(level, skew)| Term::Even { level, skew }),
    ];
    let one = (1..3_usize).prop_map(|level| Ask::One { level });
    let spread =
        (0..3_usize, 0..3, 1..4_u32, 1..3_u32).prop_map(|(level, which, most, skew)| Ask::Spread {
            level,
            most: (which != 1).then_some(most),
            skew: (which != 0).then_some(skew),
        });
    let of_slices = if has_slices { 4 } else { 0 };
    let asks = prop_oneof![
        of_slices => Just(Vec::new()),
        2 => one.clone().prop_map(|one| vec![one]),
        4 => spread.clone().prop_map(|spread| vec![spread]),
        2 => (one, spread).prop_map(|(one, spread)| vec![one, spread]),
    ];
    let most = if has_slices { 7_usize } else { 5 };
    let pods = prop_oneof![3 => (2..most, Just(0)), 2 => (1..4_usize, 1..3_usize), 1 => (Just(0), 2..4_usize)];
    let nodes = prop::collection::vec((0..4_usize, 0..4_usize), 2..7);
    let of_nodes = move |nodes: Vec<(usize, usize)>| {
        let standing = prop::collection::vec((0..nodes.len(), any::<bool>()), 0..3);
        let lost = prop::collection::vec((0..6_usize, any::<bool>()), 1..3);
        let slices = if has_slices {
            (1..3_usize, 1..4_usize).prop_map(Some).boxed()
        } else {
            Just(None).boxed()
        };
        let terms = prop::collection::vec(term.clone(), 1..3);
        (Just(nodes), standing, terms, asks.clone(), pods.clone(), slices, lost)
    };
    nodes.prop_flat_map(of_nodes).prop_map(
        |(nodes, standing, mut terms, asks, (small, large), slices, lost)| {
            // A pod that is near to several has to be near to pods that all of the terms select.
            let mut nears = 0;
            terms.retain(|term| {
                nears += usize::from(matches!(term, Term::Near { .. }));
                nears <= 1 || !matches!(term, Term::Near { .. })
            });
            Case { nodes, standing, terms, asks, pods: [small, large], slices, lost }
        },
    )
}

/// Always the same; of more with PROPTEST_CASES.
fn try_all(cases: impl Strategy<Value = Case>) {
    let config = Config {
        cases: 4 * Config::default().cases,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let outcome = runner.run(&cases, |case| match case.fault() {
        None => Ok(()),
        Some(fault) => Err(TestCaseError::fail(fault)),
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn a_place_is_found_where_there_is_one_by_both_kinds_of_rules() {
    try_all(cases(false));
}

#[test]
fn a_place_is_found_where_there_is_one_for_slices_of_pods_that_ask_about_others() {
    try_all(cases(true));
}
