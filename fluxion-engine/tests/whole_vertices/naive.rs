//! The naive engine: vertices that could serve a request, found by looking everywhere, and the
//! choice of the policy among them.
//!
//! No pruning filters, no planners, no index, no scratch: every candidate carries the whole list of
//! the vertices that it would take, and is thrown away when it is not chosen. Where two candidates
//! that are in the way of each other have the same score, upstream's choice is an accident of its
//! sort; then it is known that there are candidates enough, and not which are chosen.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine::Machine;

/// How many are wanted, and how the number grows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count {
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) operator: char,
    pub(crate) operand: u64,
}

/// A level of a request. Levels below a slot, and those that say so, are exclusive.
#[derive(Debug, Clone)]
pub(crate) struct Level {
    pub(crate) kind: &'static str,
    pub(crate) count: Count,
    pub(crate) exclusive: bool,
    pub(crate) with: Vec<Level>,
}

#[derive(Debug, Clone)]
pub(crate) enum Constraint {
    Has,
    HasNot,
    Ranks(BTreeSet<i64>),
}

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) levels: Vec<Level>,
    pub(crate) seconds: i64,
    pub(crate) constraint: Option<Constraint>,
}

/// In which order candidates are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    Low,
    High,
    Lonode,
    Hinode,
    First,
}

/// A place for a request: the vertices that it has for itself, one choice of many where it is not
/// defined.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) own: BTreeSet<usize>,
    pub(crate) defined: bool,
    /// How many of each level on top.
    pub(crate) counts: Vec<u64>,
}

/// When something is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum When {
    At(i64),
    /// On the idle machine, all of it up.
    Ever,
}

#[derive(Debug, Clone)]
struct Candidate {
    score: i64,
    count: u64,
    own: BTreeSet<usize>,
    defined: bool,
}

type Candidates = BTreeMap<&'static str, Vec<Candidate>>;

impl Count {
    /// The largest number of the sequence that is to be had; 0: not even the smallest.
    pub(crate) fn choose(self, available: u64) -> u64 {
        let mut best = 0;
        let mut next = self.min;
        while next <= self.max && next <= available {
            best = next;
            next = match self.operator {
                '+' => next + self.operand,
                '*' => next * self.operand,
                _ => next.saturating_pow(u32::try_from(self.operand).unwrap()),
            };
        }
        best
    }
}

/// One search.
struct Search<'a> {
    machine: &'a Machine,
    request: &'a Request,
    policy: Policy,
    when: When,
}

impl Machine {
    /// Where a request is served.
    pub(crate) fn place(&self, request: &Request, policy: Policy, when: When) -> Option<Place> {
        let search = Search { machine: self, request, policy, when };
        let mut found = search.look(0, &request.levels, true, false, 0)?;
        search.choose(&request.levels, &mut found)
    }

    /// The first instant at which it fits: now, or when something begins or ends.
    pub(crate) fn soonest(&self, request: &Request, policy: Policy) -> Option<(i64, Place)> {
        let instants = self.instants();
        let mut all = std::iter::once(self.now).chain(instants);
        all.find_map(|at| self.place(request, policy, When::At(at)).map(|place| (at, place)))
    }
}

impl Search<'_> {
    fn window(&self, at: i64) -> (i64, i64) {
        (at, at + self.request.seconds)
    }

    /// The candidates of a vertex and all below it. `pristine`: nothing has matched above it.
    fn look(
        &self,
        vertex: usize,
        levels: &[Level],
        pristine: bool,
        exclusive: bool,
        prefix: i64,
    ) -> Option<Candidates> {
        let this = &self.machine.vertices[vertex];
        let level = levels.iter().find(|level| level.kind == this.kind);
        let slot = level.and_then(|level| slot_of(&level.with)).or_else(|| slot_of(levels));
        let slot = slot.filter(|slot| self.has_parts(vertex, slot));
        if slot.is_none() && level.is_none() && !pristine {
            return None;
        }
        let exclusive = exclusive || level.is_some_and(|level| level.exclusive);
        let for_itself = exclusive && (level.is_some() || slot_of(levels).is_some());
        if !self.may_enter(vertex, for_itself) {
            return None;
        }
        let prefix = prefix + self.factor(vertex);
        let mut found = match (slot, level) {
            (Some(slot), _) => self.slots(vertex, slot, prefix)?,
            (None, Some(level)) => {
                self.look_below(vertex, &level.with, false, exclusive, prefix, 1)
            }
            (None, None) => self.look_below(vertex, levels, pristine, exclusive, prefix, 1),
        };
        let Some(level) = level else { return Some(found) };
        let (mut own, mut defined) = (BTreeSet::new(), true);
        if !level.with.is_empty() {
            Place { own, defined, .. } = self.choose(&level.with, &mut found)?;
            found.clear();
        }
        if level.exclusive {
            own.extend(self.machine.subtree(vertex));
        } else if exclusive {
            own.insert(vertex);
        }
        let score = prefix - self.factor(vertex) + this.id + 2;
        found.entry(this.kind).or_default().push(Candidate {
            score,
            count: this.size,
            own,
            defined,
        });
        Some(found)
    }

    /// Up, admitted, not taken; and if it is to be had alone, no job has anything below it.
    fn may_enter(&self, vertex: usize, for_itself: bool) -> bool {
        let (machine, this) = (self.machine, &self.machine.vertices[vertex]);
        let admitted = this.kind != "node"
            || match &self.request.constraint {
                None => true,
                Some(Constraint::Has) => this.has_property,
                Some(Constraint::HasNot) => !this.has_property,
                Some(Constraint::Ranks(ranks)) => ranks.contains(&this.rank),
            };
        let When::At(at) = self.when else { return admitted };
        let (from, to) = self.window(at);
        admitted
            && this.up
            && !machine.is_taken(vertex, from, to)
            && !(for_itself && machine.is_in_use(vertex, from, to))
    }

    /// A part of a slot must have its type right below the vertex.
    fn has_parts(&self, vertex: usize, slot: &Level) -> bool {
        let children = &self.machine.vertices[vertex].children;
        slot.with.iter().all(|part| {
            children.iter().any(|child| self.machine.vertices[*child].kind == part.kind)
        })
    }

    /// `slots`: how many are wanted of all levels together.
    fn look_below(
        &self,
        vertex: usize,
        levels: &[Level],
        pristine: bool,
        exclusive: bool,
        prefix: i64,
        slots: u64,
    ) -> Candidates {
        let mut found = Candidates::new();
        let mut children = self.machine.vertices[vertex].children.clone();
        if levels.is_empty() {
            return found;
        }
        if self.policy == Policy::First {
            let weight = |child: &usize| {
                (self.machine.weights.get(child).copied().unwrap_or(u64::MAX), *child)
            };
            children.sort_by_key(weight);
            children.reverse();
        }
        for child in children {
            let is_enough = |level: &Level| shares(level, found.get(level.kind)) >= slots;
            if self.policy == Policy::First
                && (levels.iter().all(is_enough)
                    || levels.iter().any(|level| {
                        level.kind == self.machine.vertices[child].kind && is_enough(level)
                    }))
            {
                continue;
            }
            for (kind, more) in
                self.look(child, levels, pristine, exclusive, prefix).into_iter().flatten()
            {
                found.entry(kind).or_default().extend(more);
            }
        }
        found
    }

    /// As many slots as can be formed of what lies right below a vertex.
    fn slots(&self, vertex: usize, slot: &Level, prefix: i64) -> Option<Candidates> {
        let wanted = slot.count.choose(u64::from(u32::MAX));
        let mut found = self.look_below(vertex, &slot.with, false, true, prefix, wanted);
        let mut defined = true;
        let mut lanes = Vec::new();
        for part in &slot.with {
            let mut all = found.remove(part.kind).unwrap_or_default();
            let count = part.count.choose(all.iter().map(|candidate| candidate.count).sum());
            if count == 0 {
                return Some(Candidates::new());
            }
            defined &= self.sort(&mut all);
            lanes.push((all.into_iter(), count));
        }
        let mut slots = Vec::new();
        loop {
            let mut slot = Candidate { score: 1, count: 1, own: BTreeSet::new(), defined };
            for (lane, count) in &mut lanes {
                let mut have = 0;
                while have < *count {
                    let Some(next) = lane.next() else {
                        return Some(Candidates::from([("slot", slots)]));
                    };
                    have += next.count;
                    slot.score += next.score;
                    slot.own.extend(next.own);
                    slot.defined &= next.defined;
                }
            }
            slots.push(slot);
        }
    }

    /// The best for each level, or nothing.
    fn choose(&self, levels: &[Level], found: &mut Candidates) -> Option<Place> {
        let mut place = Place { own: BTreeSet::new(), defined: true, counts: Vec::new() };
        for level in levels {
            let mut all = found.remove(level.kind).unwrap_or_default();
            let available = all.iter().map(|candidate| candidate.count).sum();
            let count = level.count.choose(available);
            if count == 0 {
                return None;
            }
            place.defined &= self.sort(&mut all) || available == count;
            place.counts.push(count);
            let mut have = 0;
            for candidate in all {
                if have < count {
                    have += candidate.count;
                    place.own.extend(candidate.own);
                    place.defined &= candidate.defined;
                }
            }
        }
        Some(place)
    }

    /// Best first. Returns whether all scores differ.
    fn sort(&self, all: &mut [Candidate]) -> bool {
        all.sort_by_key(|candidate| candidate.score);
        if matches!(self.policy, Policy::High | Policy::Hinode | Policy::First) {
            all.reverse();
        }
        all.windows(2).all(|pair| pair[0].score != pair[1].score)
    }

    /// The part that a node adds to the scores of all below it.
    fn factor(&self, vertex: usize) -> i64 {
        let this = &self.machine.vertices[vertex];
        if this.kind != "node" || matches!(self.policy, Policy::Low | Policy::High) {
            return 0;
        }
        (this.id + 2) * 10_000 + (i64::try_from(vertex % 10_000).unwrap() - 1).abs()
    }
}

fn slot_of(levels: &[Level]) -> Option<&Level> {
    levels.iter().find(|level| level.kind == "slot")
}

/// How often all that a level wants can be had of whole candidates.
fn shares(level: &Level, found: Option<&Vec<Candidate>>) -> u64 {
    let share = level.count.choose(u64::from(u32::MAX));
    let (mut whole, mut have) = (0, 0);
    for candidate in found.into_iter().flatten() {
        have += candidate.count;
        if have >= share {
            whole += 1;
            have = 0;
        }
    }
    whole
}
