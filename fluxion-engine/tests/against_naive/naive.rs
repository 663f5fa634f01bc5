//! The naive engine: every slot is an entry of its own, every question is answered by trying.

use std::collections::{BTreeMap, BTreeSet};

/// A full pool, in billionths.
const FULL: u128 = 1_000_000_000;

/// Units of each kind.
pub(crate) type Need = [u64; 3];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    After(i64),
    Eventually,
    Never,
}

/// With which other slots a slot may be on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tenancy {
    Shared,
    Alone(u64),
    Guest,
}

/// A request of one shape.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) count: u64,
    pub(crate) need: Need,
    pub(crate) end: End,
    pub(crate) ranks: Option<BTreeSet<u32>>,
    pub(crate) prefer: Vec<BTreeSet<u32>>,
    pub(crate) max_per_node: Option<u64>,
    pub(crate) order: Order,
    /// It may not start earlier; 0: whenever it likes.
    pub(crate) not_before: i64,
    pub(crate) tenancy: Tenancy,
}

/// Which node comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    LowestRank,
    HighestRank,
    Fullest,
    Emptiest,
}

/// One slot on a node. `end` counts from its start no more: `After` is an instant here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) job: u64,
    pub(crate) label: &'static str,
    pub(crate) need: Need,
    pub(crate) tenancy: Tenancy,
    pub(crate) start: i64,
    pub(crate) end: End,
    /// It has not begun.
    pub(crate) planned: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) sizes: Need,
    pub(crate) up: bool,
    pub(crate) slots: Vec<Slot>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Machine {
    pub(crate) nodes: BTreeMap<u32, Node>,
    pub(crate) now: i64,
    /// The request of each job that was reserved.
    pub(crate) wishes: BTreeMap<u64, Wish>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forecast {
    At(i64),
    Eventually,
    Blocked,
    Never,
}

impl Tenancy {
    /// Whether both may be on a node at once.
    pub(crate) fn suits(self, other: Tenancy) -> bool {
        self == other || self == Tenancy::Guest || other == Tenancy::Guest
    }
}

impl Wish {
    fn tier(&self, rank: u32) -> usize {
        self.prefer.iter().position(|tier| tier.contains(&rank)).unwrap_or(self.prefer.len())
    }
}

impl End {
    pub(crate) fn from(self, start: i64) -> End {
        match self {
            End::After(seconds) => End::After(start + seconds),
            other => other,
        }
    }
}

impl Slot {
    /// Whether it takes its units at this instant, as seen from `now`.
    pub(crate) fn counts(&self, at: i64, now: i64) -> bool {
        let ended = match self.end {
            End::After(end) => end.max(now + 1) <= at,
            End::Eventually | End::Never => false,
        };
        (!self.planned || self.start <= at) && !ended
    }
}

impl Machine {
    pub(crate) fn add(&mut self, rank: u32, sizes: Need) -> bool {
        let new = !self.nodes.contains_key(&rank);
        if new {
            self.nodes.insert(rank, Node { sizes, up: true, slots: Vec::new() });
        }
        new
    }

    pub(crate) fn remove(&mut self, rank: u32) -> bool {
        self.nodes.remove(&rank).is_some()
    }

    pub(crate) fn resize(&mut self, rank: u32, kind: usize, size: u64) -> bool {
        self.nodes.get_mut(&rank).map(|node| node.sizes[kind] = size).is_some()
    }

    pub(crate) fn set_up(&mut self, rank: u32, up: bool) {
        if let Some(node) = self.nodes.get_mut(&rank) {
            node.up = up;
        }
    }

    pub(crate) fn put(&mut self, rank: u32, slot: &Slot, count: u64) {
        let node = self.nodes.get_mut(&rank).unwrap();
        node.slots.extend((0..count).map(|_| *slot));
    }

    pub(crate) fn release(&mut self, job: u64, rank: u32, label: &str, count: u64) -> bool {
        let Some(node) = self.nodes.get_mut(&rank) else { return false };
        let mut mine: Vec<usize> = (0..node.slots.len())
            .filter(|at| node.slots[*at].job == job && node.slots[*at].label == label)
            .collect();
        if mine.len() < usize::try_from(count).unwrap() {
            return false;
        }
        for _ in 0..count {
            node.slots.remove(mine.pop().unwrap());
        }
        true
    }

    pub(crate) fn cancel(&mut self, job: u64) -> bool {
        let there = self.jobs().contains(&job);
        for node in self.nodes.values_mut() {
            node.slots.retain(|slot| slot.job != job);
        }
        there
    }

    pub(crate) fn jobs(&self) -> BTreeSet<u64> {
        self.nodes.values().flat_map(|node| node.slots.iter().map(|slot| slot.job)).collect()
    }

    pub(crate) fn used(&self, rank: u32, kind: usize) -> u64 {
        let slots = self.nodes[&rank].slots.iter();
        slots.filter(|slot| slot.counts(self.now, self.now)).map(|slot| slot.need[kind]).sum()
    }

    /// Where the slots go that start at `at`: one after the other, each to the node that then comes
    /// first.
    pub(crate) fn place(&self, wish: &Wish, at: i64) -> Option<BTreeMap<u32, u64>> {
        let instants: Vec<i64> = self.instants(wish, at);
        let counts =
            |slot: &Slot| instants.iter().map(|instant| slot.counts(*instant, self.now)).collect();
        self.fill(wish, false, instants.len(), counts)
    }

    /// Every instant at which the use of something may change while the job runs.
    fn instants(&self, wish: &Wish, at: i64) -> Vec<i64> {
        let last = match wish.end {
            End::After(seconds) => at + seconds,
            End::Eventually | End::Never => i64::MAX,
        };
        let planned =
            self.nodes.values().flat_map(|node| node.slots.iter().filter(|slot| slot.planned));
        let starts = planned.map(|slot| slot.start);
        starts.filter(|start| *start > at && *start < last).chain([at]).collect()
    }

    /// `counts` says of a slot at which of the instants it takes its units.
    fn fill(
        &self,
        wish: &Wish,
        also_down: bool,
        instants: usize,
        counts: impl Fn(&Slot) -> Vec<bool>,
    ) -> Option<BTreeMap<u32, u64>> {
        let nothing = BTreeMap::new();
        let mut places = BTreeMap::new();
        for _ in 0..wish.count {
            let rank = self.best(wish, also_down, instants, &counts, &places, &nothing)?;
            *places.entry(rank).or_insert(0) += 1;
        }
        Some(places)
    }

    /// Where the next slot goes. `before` are slots of another shape that were placed already, with
    /// what each takes.
    fn best(
        &self,
        wish: &Wish,
        also_down: bool,
        instants: usize,
        counts: &impl Fn(&Slot) -> Vec<bool>,
        places: &BTreeMap<u32, u64>,
        before: &BTreeMap<u32, (u64, Need)>,
    ) -> Option<u32> {
        let mut best = None;
        for rank in self.order(wish, also_down) {
            let node = &self.nodes[&rank];
            let there: Vec<(Need, Vec<bool>)> =
                node.slots.iter().map(|slot| (slot.need, counts(slot))).collect();
            let mut others = node.slots.iter().filter(|slot| counts(slot).contains(&true));
            if !others.all(|slot| slot.tenancy.suits(wish.tenancy)) {
                continue;
            }
            let mine = places.get(&rank).copied().unwrap_or(0);
            let (others, other_need) = before.get(&rank).copied().unwrap_or((0, [0; 3]));
            let used = |instant: usize, kind: usize, mine: u64| {
                let counted = there.iter().filter(|(_, counts)| counts[instant]);
                let used: u64 = counted.map(|(need, _)| need[kind]).sum();
                used + others * other_need[kind] + mine * wish.need[kind]
            };
            let fits = (0..instants).all(|instant| {
                // Pools that are not requested may well be overcharged.
                (0..3).all(|kind| {
                    wish.need[kind] == 0 || used(instant, kind, mine + 1) <= node.sizes[kind]
                })
            });
            if !fits || wish.max_per_node.is_some_and(|most| mine + others >= most) {
                continue;
            }
            // The last instant is the one at which the slots start.
            let fill = fill(node.sizes, [0, 1, 2].map(|kind| used(instants - 1, kind, mine)));
            let cost = match wish.order {
                Order::LowestRank | Order::HighestRank => 0,
                Order::Fullest => u64::MAX - fill,
                Order::Emptiest => fill,
            };
            // Of equal ones the first in order.
            let key = (wish.tier(rank), cost);
            if best.is_none_or(|(known, _)| key < known) {
                best = Some((key, rank));
            }
        }
        best.map(|(_, rank)| rank)
    }

    /// Where two shapes go now that are placed one after the other, slot by slot, the scarcer
    /// first; `None`: that does not work.
    pub(crate) fn place_both(
        &self,
        first: &Wish,
        second: &Wish,
    ) -> Option<[BTreeMap<u32, u64>; 2]> {
        let instants = self.instants(first, self.now);
        let counts = |slot: &Slot| {
            instants.iter().map(|instant| slot.counts(*instant, self.now)).collect::<Vec<_>>()
        };
        let mut wishes = [first, second];
        let room = |wish: &Wish| {
            let (nothing, mut places, mut room) = (BTreeMap::new(), BTreeMap::new(), 0_u64);
            while let Some(rank) =
                self.best(wish, false, instants.len(), &counts, &places, &nothing)
            {
                *places.entry(rank).or_insert(0) += 1;
                room += 1;
            }
            room
        };
        // More room than that makes no difference.
        let (a, b) = (room(first).min(16 * first.count), room(second).min(16 * second.count));
        let second_is_scarcer = b * first.count < a * second.count;
        if second_is_scarcer {
            wishes.reverse();
        }
        let (mut before, mut both) = (BTreeMap::new(), Vec::new());
        for wish in wishes {
            let mut places = BTreeMap::new();
            for _ in 0..wish.count {
                let rank = self.best(wish, false, instants.len(), &counts, &places, &before)?;
                *places.entry(rank).or_insert(0) += 1;
            }
            before = places.iter().map(|(rank, count)| (*rank, (*count, wish.need))).collect();
            both.push(places);
        }
        if second_is_scarcer {
            both.reverse();
        }
        both.try_into().ok()
    }

    pub(crate) fn order(&self, wish: &Wish, also_down: bool) -> Vec<u32> {
        let usable = |rank: &u32| wish.ranks.as_ref().is_none_or(|ranks| ranks.contains(rank));
        let up = |rank: &u32| also_down || self.nodes[rank].up;
        let mut ranks: Vec<u32> =
            self.nodes.keys().copied().filter(|rank| usable(rank) && up(rank)).collect();
        if wish.order == Order::HighestRank {
            ranks.reverse();
        }
        ranks.sort_by_key(|rank| wish.tier(*rank));
        ranks
    }

    /// Whether two shapes fit together now: every way to share out their slots over the nodes is
    /// tried.
    pub(crate) fn fits_both(&self, first: &Wish, second: &Wish) -> bool {
        let instants = self.instants(first, self.now);
        let mut ways = BTreeSet::from([(0, 0)]);
        for rank in self.order(first, false) {
            let node = &self.nodes[&rank];
            let counted = |instant: &i64| {
                let instant = *instant;
                node.slots.iter().filter(move |slot| slot.counts(instant, self.now))
            };
            let fits = |a: u64, b: u64| {
                let suits = |slot: &Slot| slot.tenancy.suits(first.tenancy);
                first.max_per_node.is_none_or(|most| a + b <= most)
                    && instants.iter().all(|instant| {
                        (0..3).all(|kind| {
                            let others: u64 = counted(instant).map(|slot| slot.need[kind]).sum();
                            let ours = a * first.need[kind] + b * second.need[kind];
                            ours == 0 || others + ours <= node.sizes[kind]
                        }) && (a + b == 0 || counted(instant).all(suits))
                    })
            };
            let here: Vec<(u64, u64)> = (0..=first.count)
                .flat_map(|a| (0..=second.count).map(move |b| (a, b)))
                .filter(|(a, b)| fits(*a, *b))
                .collect();
            let sums = ways.iter().flat_map(|(a, b)| here.iter().map(move |(c, d)| (a + c, b + d)));
            ways = sums.map(|(a, b)| (a.min(first.count), b.min(second.count))).collect();
        }
        ways.contains(&(first.count, second.count))
    }

    pub(crate) fn forecast(&self, wish: &Wish) -> Forecast {
        if wish.not_before <= self.now && self.place(wish, self.now).is_some() {
            return Forecast::At(self.now);
        }
        let slots = self.nodes.values().flat_map(|node| &node.slots);
        let mut ends: Vec<i64> = slots
            .filter_map(|slot| match slot.end {
                End::After(end) => Some(end.max(self.now + 1)),
                _ => None,
            })
            .chain((wish.not_before > self.now).then_some(wish.not_before))
            .filter(|at| *at >= wish.not_before)
            .collect();
        ends.sort_unstable();
        if let Some(at) = ends.into_iter().find(|end| self.place(wish, *end).is_some()) {
            return Forecast::At(at);
        }
        if self.fill(wish, false, 1, |slot| vec![slot.end == End::Never]).is_some() {
            return Forecast::Eventually;
        }
        if self.fill(wish, true, 1, |_| vec![false]).is_some() {
            Forecast::Blocked
        } else {
            Forecast::Never
        }
    }

    pub(crate) fn eligible(&self, wish: &Wish) -> Vec<u32> {
        let one = |rank: u32| Wish {
            count: 1,
            ranks: Some(BTreeSet::from([rank])),
            max_per_node: None,
            ..wish.clone()
        };
        let allowed = |rank: &u32| wish.ranks.as_ref().is_none_or(|ranks| ranks.contains(rank));
        let fits = |rank: &u32| {
            self.fill(&one(*rank), false, 1, |slot| vec![slot.end == End::Never]).is_some()
        };
        self.nodes.keys().copied().filter(|rank| allowed(rank) && fits(rank)).collect()
    }

    pub(crate) fn take(
        &mut self,
        job: u64,
        label: &'static str,
        wish: &Wish,
        places: &BTreeMap<u32, u64>,
        at: i64,
    ) {
        for (rank, count) in places {
            let planned = at > self.now;
            let (need, tenancy) = (wish.need, wish.tenancy);
            let slot =
                Slot { job, label, need, tenancy, start: at, end: wish.end.from(at), planned };
            self.put(*rank, &slot, *count);
        }
    }

    /// Takes places now that must be allowed and free; every pool asked for must hold all that
    /// counts from now on.
    pub(crate) fn take_checked(
        &mut self,
        job: u64,
        label: &'static str,
        wish: &Wish,
        places: &BTreeMap<u32, u64>,
    ) {
        let order = self.order(wish, false);
        self.take(job, label, wish, places, self.now);
        for rank in places.keys() {
            assert!(order.contains(rank), "rank {rank} may not be used");
            let node = &self.nodes[rank];
            let of_job = node.slots.iter().filter(|slot| slot.job == job).count();
            assert!(wish.max_per_node.is_none_or(|most| of_job as u64 <= most));
            for instant in self.instants(wish, self.now) {
                let mut counted = node.slots.iter().filter(|slot| slot.counts(instant, self.now));
                assert!(
                    counted.all(|slot| slot.tenancy.suits(wish.tenancy)),
                    "rank {rank}: with others"
                );
                for kind in (0..3).filter(|kind| wish.need[*kind] > 0) {
                    let counted = node.slots.iter().filter(|slot| slot.counts(instant, self.now));
                    let used: u64 = counted.map(|slot| slot.need[kind]).sum();
                    assert!(
                        used <= node.sizes[kind],
                        "rank {rank}: {used} of {}",
                        node.sizes[kind]
                    );
                }
            }
        }
    }
}

/// The mean over pools of the used part, in billionths, always rounded down.
fn fill(sizes: Need, used: Need) -> u64 {
    let pools = sizes.into_iter().zip(used).filter(|(size, used)| *size > 0 || *used > 0);
    let shares: Vec<u128> = pools
        .map(
            |(size, used)| {
                if used >= size { FULL } else { u128::from(used) * FULL / u128::from(size) }
            },
        )
        .collect();
    let mean =
        if shares.is_empty() { 0 } else { shares.iter().sum::<u128>() / shares.len() as u128 };
    u64::try_from(mean).unwrap()
}
