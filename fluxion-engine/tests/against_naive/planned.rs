//! Reservations of the naive engine: when they begin, and where they are moved.

use std::collections::{BTreeMap, BTreeSet};

use crate::naive::Wish;
use crate::naive::{End, Forecast, Machine, Node, Slot};

/// What becomes of a reservation that is to be moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Moved {
    Stays(i64),
    To(i64, BTreeMap<u32, u64>),
    /// Its room is gone, and there is none elsewhere.
    Nowhere,
}

impl Node {
    /// Whether the slots that a job is to have here fit beside slots that have begun.
    fn may_begin(&self, job: u64) -> bool {
        let of = |planned: bool, kind: usize| -> u64 {
            let slots = self
                .slots
                .iter()
                .filter(|slot| slot.planned == planned && (!planned || slot.job == job));
            slots.map(|slot| slot.need[kind]).sum()
        };
        let mut own = self.slots.iter().filter(|slot| slot.planned && slot.job == job);
        let mut begun = self.slots.iter().filter(|slot| !slot.planned);
        let Some(one) = own.next() else { return true };
        begun.all(|slot| slot.tenancy.suits(one.tenancy))
            && self.up
            && (0..3).all(|kind| {
                of(true, kind) == 0 || of(true, kind) + of(false, kind) <= self.sizes[kind]
            })
    }
}

impl Machine {
    /// When a job starts that has not begun.
    pub(crate) fn planned_start(&self, job: u64) -> Option<i64> {
        let mut slots = self.nodes.values().flat_map(|node| &node.slots);
        slots.find(|slot| slot.job == job && slot.planned).map(|slot| slot.start)
    }

    /// Moves a reservation to the earliest instant, as if it were requested now. It starts no later
    /// if its room is free.
    pub(crate) fn move_job(&mut self, job: u64) -> Moved {
        let (wish, before) =
            (Wish { not_before: 0, ..self.wishes[&job].clone() }, self.planned_start(job).unwrap());
        let with = self.clone();
        self.cancel(job);
        let found = match self.forecast(&wish) {
            Forecast::At(at) => Some(at),
            _ => None,
        };
        let stays = found.is_none_or(|at| at > before) && with.is_intact(job, &wish);
        match found {
            Some(at) if !stays => {
                let places = self.place(&wish, at).unwrap();
                self.take(job, "a", &wish, &places, at);
                if at == before && places == with.places_of(job) {
                    Moved::Stays(at)
                } else {
                    Moved::To(at, places)
                }
            }
            _ => {
                *self = with;
                if stays { Moved::Stays(before) } else { Moved::Nowhere }
            }
        }
    }

    /// How many slots a job has on which rank.
    fn places_of(&self, job: u64) -> BTreeMap<u32, u64> {
        let on = |node: &Node| node.slots.iter().filter(|slot| slot.job == job).count() as u64;
        self.nodes
            .iter()
            .map(|(rank, node)| (*rank, on(node)))
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    /// All that a reservation is to have is there, may be used, and is not another's at that time.
    fn is_intact(&self, job: u64, wish: &Wish) -> bool {
        let usable = self.order(wish, false);
        let on = |node: &Node| node.slots.iter().filter(|slot| slot.job == job).count() as u64;
        let here = self.nodes.iter().filter(|(_, node)| on(node) > 0);
        let start = self.planned_start(job).unwrap();
        let end = |slot: &&Slot| slot.job == job && slot.planned;
        let end = self.nodes.values().flat_map(|node| &node.slots).find(end).unwrap().end;
        let last = if let End::After(end) = end { end } else { i64::MAX };
        self.nodes.values().map(on).sum::<u64>() == wish.count
            && here.into_iter().all(|(rank, node)| {
                let starts = node.slots.iter().filter(|slot| slot.planned).map(|slot| slot.start);
                let mut instants = starts.filter(|at| *at > start && *at < last).chain([start]);
                let fits = |at: i64, kind: usize| {
                    let counted = node.slots.iter().filter(|slot| slot.counts(at, self.now));
                    wish.need[kind] == 0
                        || counted.map(|slot| slot.need[kind]).sum::<u64>() <= node.sizes[kind]
                };
                let suits = |at: i64| {
                    let mut counted = node.slots.iter().filter(|slot| slot.counts(at, self.now));
                    counted.all(|slot| slot.tenancy.suits(wish.tenancy))
                };
                usable.contains(rank)
                    && instants.all(|at| suits(at) && (0..3).all(|kind| fits(at, kind)))
            })
    }

    /// Moves the clock. Jobs that are to start by now begin in the order of starts and ids where
    /// there is room for all of them, else they are put off to the next second.
    pub(crate) fn advance(&mut self, seconds: i64) {
        self.now += seconds;
        let slots = self.nodes.values().flat_map(|node| &node.slots);
        let due: BTreeSet<(i64, u64)> = slots
            .filter(|slot| slot.planned && slot.start <= self.now)
            .map(|slot| (slot.start, slot.job))
            .collect();
        for (start, job) in due {
            let begins = self.nodes.values().all(|node| node.may_begin(job));
            let later = self.now + 1 - start;
            for slot in self.nodes.values_mut().flat_map(|node| &mut node.slots) {
                if slot.job == job && slot.planned {
                    slot.planned = !begins;
                    slot.start += if begins { 0 } else { later };
                    slot.end = if begins { slot.end } else { slot.end.from(later) };
                }
            }
        }
    }
}
