//! The model: every way to share out the slots over the nodes is tried.

use std::collections::BTreeSet;

pub(crate) const NODES: u32 = 4;
/// Parts of each of the two levels.
pub(crate) const PARTS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    Seconds(i64),
    Eventually,
    Endless,
}

#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) count: u64,
    pub(crate) need: [u64; 2],
    pub(crate) hold: Hold,
    pub(crate) ranks: BTreeSet<u32>,
    /// More of them that make their parts count where the difference of parts is bounded.
    pub(crate) counted: BTreeSet<u32>,
    /// It is held as long as the whole request, which is endless, and may use all nodes.
    pub(crate) plain: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) shapes: Vec<Shape>,
    /// Which shapes it counts, and how many slots they may have together on a node.
    pub(crate) limits: Vec<([bool; 3], u64)>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) policy: &'static str,
}

/// A wish about a level for some shapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) level: usize,
    pub(crate) labels: [bool; 3],
    pub(crate) within: Within,
    /// The part that it gets does not say which parts count for a skew.
    pub(crate) is_slice: bool,
    pub(crate) most: Option<u64>,
    pub(crate) skew: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Within {
    Any,
    One,
    Fewest,
    Part(usize),
}

/// Slots by shape, and by rule and part.
type Way = (Vec<u64>, Vec<[u64; PARTS]>);

/// A slot on a node; `end` is an instant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) job: u64,
    pub(crate) rank: u32,
    pub(crate) need: [u64; 2],
    pub(crate) start: i64,
    pub(crate) end: Hold,
    /// It has not begun.
    pub(crate) planned: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    At(i64),
    Eventually,
    Idle,
}

pub(crate) struct Model {
    pub(crate) sizes: Vec<[u64; 2]>,
    pub(crate) up: Vec<bool>,
    /// By level and node.
    pub(crate) parts: [[Option<usize>; NODES as usize]; 2],
    pub(crate) slots: Vec<Slot>,
    pub(crate) now: i64,
}

impl Slot {
    pub(crate) fn counts(&self, at: i64, now: i64) -> bool {
        (!self.planned || self.start <= at)
            && !matches!(self.end, Hold::Seconds(end) if end.max(now + 1) <= at)
    }
}

impl Model {
    /// Whether these slots fit on a node beside the slots there.
    fn takes(&self, wish: &Wish, slots: &[u64], rank: u32, moment: Moment) -> bool {
        let limited = wish.limits.iter().all(|(labels, most)| {
            let of_limit = slots.iter().zip(labels).filter(|(_, named)| **named);
            of_limit.map(|(count, _)| count).sum::<u64>() <= *most
        });
        let others: Vec<Slot> =
            self.slots.iter().filter(|slot| slot.rank == rank).copied().collect();
        let used = |kind: usize, counts: &dyn Fn(&Slot) -> bool, ours: &dyn Fn(&Shape) -> bool| {
            let mine =
                wish.shapes.iter().zip(slots).filter(|(shape, count)| ours(shape) && **count > 0);
            let mine: u64 = mine.map(|(shape, count)| shape.need[kind] * count).sum();
            let there: u64 =
                others.iter().filter(|slot| counts(slot)).map(|slot| slot.need[kind]).sum();
            (mine, there)
        };
        let fits = |(mine, there): (u64, u64), kind: usize| {
            mine == 0 || mine + there <= self.sizes[rank as usize][kind]
        };
        limited
            && (0..2).all(|kind| match moment {
                Moment::Idle => fits(used(kind, &|_| false, &|_| true), kind),
                Moment::Eventually => fits(used(kind, &|slot| slot.end == Hold::Endless, &|_| true), kind),
                Moment::At(at) => {
                    let planned = others.iter().filter(|slot| slot.planned);
                    let starts = planned.map(|slot| slot.start).filter(|start| *start > at);
                    starts.chain([at]).all(|instant| {
                        let held =
                            |shape: &Shape| !matches!(shape.hold, Hold::Seconds(seconds) if at + seconds <= instant);
                        fits(used(kind, &|slot| slot.counts(instant, self.now), &held), kind)
                    })
                }
            })
    }

    pub(crate) fn fits(&self, wish: &Wish, moment: Moment) -> bool {
        self.fewest(wish, moment).is_some()
    }

    /// By how many parts, of all rules that want few of them, a request can be served.
    pub(crate) fn fewest(&self, wish: &Wish, moment: Moment) -> Option<usize> {
        let counts: Vec<u64> = wish.shapes.iter().map(|shape| shape.count).collect();
        let nothing = (vec![0; counts.len()], vec![[0; PARTS]; wish.rules.len()]);
        let mut ways: BTreeSet<Way> = BTreeSet::from([nothing]);
        for rank in (0..NODES).filter(|rank| self.up[*rank as usize] || moment == Moment::Idle) {
            let mut here: Vec<Vec<u64>> = vec![Vec::new()];
            for shape in &wish.shapes {
                let most = if shape.ranks.contains(&rank) { shape.count } else { 0 };
                here = here
                    .iter()
                    .flat_map(|slots| {
                        (0..=most).map(move |count| [slots.clone(), vec![count]].concat())
                    })
                    .collect();
            }
            here.retain(|slots| self.takes(wish, slots, rank, moment));
            let with = |way: &Way, slots: &Vec<u64>| {
                let (mut sums, mut parts) = way.clone();
                sums.iter_mut().zip(slots).for_each(|(sum, more)| *sum += more);
                for (rule, parts) in wish.rules.iter().zip(&mut parts) {
                    let under = rule.slots(slots);
                    match self.parts[rule.level][rank as usize] {
                        Some(part) => parts[part] += under,
                        None if under > 0 => return None,
                        None => {}
                    }
                }
                sums.iter().zip(&counts).all(|(sum, most)| sum <= most).then_some((sums, parts))
            };
            ways = ways
                .iter()
                .flat_map(|way| here.iter().filter_map(|slots| with(way, slots)))
                .collect();
        }
        let full = ways.into_iter().filter(|(sums, _)| *sums == counts);
        full.filter_map(|(_, parts)| self.judge(wish, &parts, moment)).min()
    }

    /// How many parts are used that are to be few; `None`: the rules forbid it.
    pub(crate) fn judge(
        &self,
        wish: &Wish,
        parts: &[[u64; PARTS]],
        moment: Moment,
    ) -> Option<usize> {
        // Of parts that are chosen, the other rules only count slots within them.
        let counts = |shape: usize, rank: u32| {
            let mut rules = wish.rules.iter().zip(parts).filter(|(rule, _)| rule.labels[shape]);
            let is_up = self.up[rank as usize] || moment == Moment::Idle;
            let Shape { ranks, counted, .. } = &wish.shapes[shape];
            (counted.contains(&rank) || is_up && ranks.contains(&rank))
                && rules.all(|(rule, slots)| {
                    match (self.parts[rule.level][rank as usize], rule.within) {
                        (None, _) => false,
                        _ if rule.is_slice => true,
                        (Some(part), Within::One) => slots[part] > 0,
                        (Some(part), Within::Part(wanted)) => part == wanted,
                        _ => true,
                    }
                })
        };
        let mut cost = 0;
        for (rule, slots) in wish.rules.iter().zip(parts) {
            let used = || (0..PARTS).filter(|part| slots[*part] > 0);
            let within = match rule.within {
                Within::Any | Within::Fewest => true,
                Within::One => used().count() <= 1,
                Within::Part(wanted) => used().all(|part| part == wanted),
            };
            let may = |part: &usize| {
                (0..NODES).any(|rank| {
                    self.parts[rule.level][rank as usize] == Some(*part)
                        && (0..wish.shapes.len())
                            .any(|shape| rule.labels[shape] && counts(shape, rank))
                })
            };
            let eligible = || (0..PARTS).filter(may).map(|part| slots[part]);
            let difference = eligible().max().unwrap_or(0) - eligible().min().unwrap_or(0);
            if !within
                || rule.most.is_some_and(|most| slots.iter().any(|slots| *slots > most))
                || rule.skew.is_some_and(|skew| difference > skew)
            {
                return None;
            }
            cost += if rule.within == Within::Fewest { used().count() } else { 0 };
        }
        Some(cost)
    }

    /// The part that a single rule for one part gets.
    pub(crate) fn tightest(&self, wish: &Wish, rule: usize, at: i64) -> usize {
        let of = &wish.rules[rule];
        let fits = |part: &usize| {
            let mut given = wish.clone();
            given.rules[rule].within = Within::Part(*part);
            self.fits(&given, Moment::At(at))
        };
        let inside = |part: usize| {
            (0..NODES).filter(move |rank| self.parts[of.level][*rank as usize] == Some(part))
        };
        let times = |part: usize| {
            let of_kind = |kind: usize| {
                let shapes = wish.shapes.iter().zip(of.labels).filter(|(_, named)| *named);
                let wanted: u64 = shapes.map(|(shape, _)| shape.need[kind] * shape.count).sum();
                let free = |rank: u32| {
                    let counted = self
                        .slots
                        .iter()
                        .filter(|slot| slot.rank == rank && slot.counts(at, self.now));
                    self.sizes[rank as usize][kind]
                        .saturating_sub(counted.map(|slot| slot.need[kind]).sum())
                };
                let free: u64 = inside(part).filter(|rank| self.up[*rank as usize]).map(free).sum();
                (free * 1_000_000_000).checked_div(wanted)
            };
            (0..2).filter_map(of_kind).min()
        };
        let order = |part: usize| {
            let (first, last) = (inside(part).min(), inside(part).max());
            if wish.policy == "hinode" { last.map(|last| NODES - last) } else { first }
        };
        (0..PARTS).filter(fits).min_by_key(|part| (times(*part), order(*part))).unwrap()
    }

    /// The first instant after now at which something ends and it fits.
    pub(crate) fn later(&self, wish: &Wish) -> Option<i64> {
        let ends: BTreeSet<i64> = self
            .slots
            .iter()
            .filter_map(|slot| {
                if let Hold::Seconds(end) = slot.end { Some(end.max(self.now + 1)) } else { None }
            })
            .collect();
        ends.into_iter().find(|end| self.fits(wish, Moment::At(*end)))
    }

    /// Moves the clock: jobs that are due begin where there is room for all that they get,
    /// else in the next second.
    pub(crate) fn advance(&mut self, seconds: i64) {
        self.now += seconds;
        let due = self.slots.iter().filter(|slot| slot.planned && slot.start <= self.now);
        for (start, job) in due.map(|slot| (slot.start, slot.job)).collect::<BTreeSet<_>>() {
            let used = |rank: u32, kind: usize, of: &dyn Fn(&&Slot) -> bool| -> u64 {
                self.slots
                    .iter()
                    .filter(|slot| slot.rank == rank)
                    .filter(of)
                    .map(|slot| slot.need[kind])
                    .sum()
            };
            let begins =
                self.slots.iter().filter(|slot| slot.planned && slot.job == job).all(|slot| {
                    let fits = |kind: usize| {
                        let ours =
                            used(slot.rank, kind, &|other| other.planned && other.job == job);
                        let there = used(slot.rank, kind, &|other| !other.planned);
                        ours == 0 || ours + there <= self.sizes[slot.rank as usize][kind]
                    };
                    self.up[slot.rank as usize] && fits(0) && fits(1)
                });
            let later = self.now + 1 - start;
            for slot in self.slots.iter_mut().filter(|slot| slot.planned && slot.job == job) {
                slot.planned = !begins;
                if !begins {
                    slot.start += later;
                    slot.end = if let Hold::Seconds(end) = slot.end {
                        Hold::Seconds(end + later)
                    } else {
                        slot.end
                    };
                }
            }
        }
    }

    /// Takes a grant, which must be as requested, and fit.
    pub(crate) fn take(&mut self, job: u64, wish: &Wish, r: &str, start: i64) {
        let read: serde_json::Value = serde_json::from_str(r).unwrap();
        let mut placed = vec![vec![0; wish.shapes.len()]; NODES as usize];
        for group in read["slots"].as_array().unwrap() {
            let shape: usize = group["label"].as_str().unwrap().parse().unwrap();
            for part in group["ranks"].as_str().unwrap().split(',') {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                for rank in first.parse().unwrap()..=last.parse::<u32>().unwrap() {
                    placed[rank as usize][shape] += group["per_rank"].as_u64().unwrap();
                }
            }
        }
        for (shape, wanted) in wish.shapes.iter().enumerate() {
            assert_eq!(placed.iter().map(|slots| slots[shape]).sum::<u64>(), wanted.count);
        }
        for (rank, slots) in (0..).zip(&placed) {
            assert!(self.takes(wish, slots, rank, Moment::At(start)), "rank {rank}: {slots:?}");
        }
        self.check_parts(wish, &placed, start);
        let planned = start > self.now;
        for (rank, slots) in (0..).zip(&placed) {
            for (shape, count) in wish.shapes.iter().zip(slots).filter(|(_, count)| **count > 0) {
                assert!(shape.ranks.contains(&rank) && self.up[rank as usize], "rank {rank}");
                let end = match shape.hold {
                    Hold::Seconds(seconds) => Hold::Seconds(start + seconds),
                    other => other,
                };
                self.slots.extend((0..*count).map(|_| Slot {
                    job,
                    rank,
                    need: shape.need,
                    start,
                    end,
                    planned,
                }));
            }
        }
    }

    fn check_parts(&self, wish: &Wish, placed: &[Vec<u64>], start: i64) {
        let mut parts = vec![[0; PARTS]; wish.rules.len()];
        for (rank, slots) in placed.iter().enumerate() {
            for (rule, parts) in wish.rules.iter().zip(&mut parts) {
                match self.parts[rule.level][rank] {
                    Some(part) => parts[part] += rule.slots(slots),
                    None => assert_eq!(rule.slots(slots), 0, "rank {rank} is in no part"),
                }
            }
        }
        let moment = Moment::At(start);
        let used = self.judge(wish, &parts, moment);
        assert!(used.is_some(), "{parts:?}");
        let ones: Vec<usize> =
            (0..parts.len()).filter(|at| wish.rules[*at].within == Within::One).collect();
        if let [one] = ones[..]
            && wish.rules.iter().all(|rule| rule.within != Within::Fewest)
            && wish.is_exact()
            && wish.rules[one].slots(&vec![1; wish.shapes.len()]) > 0
        {
            assert!(
                parts[one][self.tightest(wish, one, start)] > 0,
                "{parts:?}: not in the tightest part"
            );
        }
        if ones.is_empty() && wish.is_exact() && wish.rules.iter().all(|rule| rule.skew.is_none()) {
            assert_eq!(used, self.fewest(wish, moment), "{parts:?}: more parts than needed");
        }
    }
}

impl Rule {
    /// Of slots by shape those under the rule.
    fn slots(&self, slots: &[u64]) -> u64 {
        slots.iter().zip(self.labels).filter(|(_, named)| *named).map(|(slots, _)| slots).sum()
    }

    fn is_bound(&self) -> bool {
        self.most.is_some() || self.skew.is_some() || self.within == Within::Fewest
    }
}

impl Wish {
    /// Whether the engine finds a place wherever there is one: all that bounds what parts get is of
    /// one level.
    pub(crate) fn is_exact(&self) -> bool {
        let mut bound = self.rules.iter().filter(|rule| rule.is_bound()).map(|rule| rule.level);
        let first = bound.next();
        bound.all(|level| Some(level) == first)
    }
}
