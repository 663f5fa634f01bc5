//! The naive account: which job has which part of which node, in one list; every question is
//! answered by looking at all of it.

use std::collections::BTreeMap;

/// A part of the machine that a job has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Units of the node's CPU.
    Units(u64),
    Core(usize),
    /// The node and all that is in it.
    Node,
}

/// A job: from when until when it has what.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) from: i64,
    /// `None`: it never ends.
    pub(crate) to: Option<i64>,
    /// It has not begun.
    pub(crate) reserved: bool,
    pub(crate) parts: Vec<(u32, Part)>,
    /// Racks that it has with all that is in them.
    pub(crate) racks: Vec<u32>,
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) cpu: u64,
    pub(crate) cores: usize,
    pub(crate) up: bool,
}

/// A request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wish {
    /// Slots, and units of each.
    Slots(u64, u64),
    /// A number of nodes.
    Nodes(u64),
    /// A number of cores.
    Cores(u64),
    /// Slots of a core and units.
    Mixed(u64, u64),
    /// A rack.
    Rack,
    /// Slots, and units of each, all in one part of level "rack".
    Together(u64, u64),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Machine {
    pub(crate) nodes: BTreeMap<u32, Node>,
    pub(crate) jobs: BTreeMap<u64, Job>,
    /// 0: nodes lie below the cluster.
    pub(crate) racks: u32,
    /// Ranks that are in another part of level "rack" than that of their rack.
    pub(crate) moved: BTreeMap<u32, Option<u32>>,
    pub(crate) now: i64,
}

impl Job {
    /// Whether it has anything at an instant, as seen from `now`. Work past its end is taken to
    /// end in the next second.
    fn counts(&self, at: i64, now: i64) -> bool {
        (!self.reserved || self.from <= at) && self.to.is_none_or(|to| at < to.max(now + 1))
    }

    fn overlaps(&self, from: i64, to: i64, now: i64) -> bool {
        self.from < to && self.to.is_none_or(|end| from < end.max(now + 1))
    }
}

impl Machine {
    pub(crate) fn rack(&self, rank: u32) -> u32 {
        rank % self.racks.max(1)
    }

    /// The part of level "rack" that a rank is in.
    pub(crate) fn part(&self, rank: u32) -> Option<u32> {
        self.moved.get(&rank).copied().unwrap_or_else(|| (self.racks > 0).then(|| self.rack(rank)))
    }

    /// The ranks of each part, and their free units now if they are up.
    pub(crate) fn parts(&self) -> BTreeMap<u32, (Vec<u32>, u64)> {
        let mut parts: BTreeMap<u32, (Vec<u32>, u64)> = BTreeMap::new();
        for (rank, node) in &self.nodes {
            let Some(part) = self.part(*rank) else { continue };
            let (ranks, free) = parts.entry(part).or_default();
            ranks.push(*rank);
            *free += if node.up { node.cpu.saturating_sub(self.used(*rank)) } else { 0 };
        }
        parts
    }

    /// What overlaps a window on a node; whether the whole node is taken stands beside.
    fn on(&self, rank: u32, from: i64, to: i64) -> (Vec<(&Job, Part)>, bool) {
        let jobs = || self.jobs.values().filter(move |job| job.overlaps(from, to, self.now));
        let parts: Vec<(&Job, Part)> = jobs()
            .flat_map(|job| {
                job.parts
                    .iter()
                    .filter(move |(on, _)| *on == rank)
                    .map(move |(_, part)| (job, *part))
            })
            .collect();
        let shut = jobs().any(|job| self.racks > 0 && job.racks.contains(&self.rack(rank)))
            || parts.iter().any(|(_, part)| *part == Part::Node);
        (parts, shut)
    }

    /// Units of a node that are free throughout a window.
    fn units(&self, rank: u32, from: i64, to: i64) -> u64 {
        let (parts, shut) = self.on(rank, from, to);
        let starts =
            parts.iter().map(|(job, _)| job.from).filter(|start| *start > from && *start < to);
        let used = |at: i64| {
            let counted = parts.iter().filter(|(job, _)| job.counts(at, self.now));
            counted
                .map(|(_, part)| if let Part::Units(units) = part { *units } else { 0 })
                .sum::<u64>()
        };
        let most = starts.chain([from]).map(used).max().unwrap_or(0);
        if shut { 0 } else { self.nodes[&rank].cpu.saturating_sub(most) }
    }

    /// Cores of a node that are free throughout a window.
    fn cores(&self, rank: u32, from: i64, to: i64) -> u64 {
        let (parts, shut) = self.on(rank, from, to);
        let free = |core: &usize| !parts.iter().any(|(_, part)| *part == Part::Core(*core));
        if shut { 0 } else { (0..self.nodes[&rank].cores).filter(free).count() as u64 }
    }

    fn is_idle(&self, rank: u32, from: i64, to: i64) -> bool {
        let (parts, shut) = self.on(rank, from, to);
        parts.is_empty() && !shut
    }

    pub(crate) fn end(from: i64, seconds: i64) -> Option<i64> {
        (seconds > 0).then_some(from + seconds)
    }

    /// Whether a request fits from an instant on; 0 seconds: for ever.
    pub(crate) fn fits(&self, wish: Wish, at: i64, seconds: i64) -> bool {
        let to = Machine::end(at, seconds).unwrap_or(i64::MAX);
        let ranks = || self.nodes.iter().filter(|(_, node)| node.up).map(|(rank, _)| *rank);
        match wish {
            Wish::Slots(count, units) => {
                ranks().map(|rank| self.units(rank, at, to) / units).sum::<u64>() >= count
            }
            Wish::Nodes(count) => {
                ranks().filter(|rank| self.is_idle(*rank, at, to)).count() as u64 >= count
            }
            Wish::Cores(count) => {
                ranks().map(|rank| self.cores(rank, at, to)).sum::<u64>() >= count
            }
            Wish::Mixed(count, units) => {
                let room = |rank| self.cores(rank, at, to).min(self.units(rank, at, to) / units);
                ranks().map(room).sum::<u64>() >= count
            }
            Wish::Together(count, units) => self.parts().into_values().any(|(inside, _)| {
                let up = inside.into_iter().filter(|rank| self.nodes[rank].up);
                up.map(|rank| self.units(rank, at, to) / units).sum::<u64>() >= count
            }),
            Wish::Rack => (0..self.racks).any(|rack| {
                let mut inside = self.nodes.keys().filter(|rank| self.rack(**rank) == rack);
                let taken = self
                    .jobs
                    .values()
                    .any(|job| job.racks.contains(&rack) && job.overlaps(at, to, self.now));
                !taken && inside.all(|rank| self.is_idle(*rank, at, to))
            }),
        }
    }

    /// The first instant at which it fits: now, or when something ends.
    pub(crate) fn soonest(&self, wish: Wish, seconds: i64) -> Option<i64> {
        let mut ends: Vec<i64> =
            self.jobs.values().filter_map(|job| Some(job.to?.max(self.now + 1))).collect();
        ends.sort_unstable();
        std::iter::once(self.now).chain(ends).find(|at| self.fits(wish, *at, seconds))
    }

    /// Nothing is had twice by this job and any other.
    pub(crate) fn check(&self, id: u64) {
        let job = &self.jobs[&id];
        let (from, to) = (job.from, job.to.unwrap_or(i64::MAX));
        let mut others = self.clone();
        others.jobs.remove(&id);
        for rack in &job.racks {
            for rank in self.nodes.keys().filter(|rank| self.rack(**rank) == *rack) {
                assert!(
                    others.is_idle(*rank, from, to),
                    "job {id}: somebody is on rank {rank} of rack {rack}"
                );
            }
        }
        for (rank, part) in &job.parts {
            let (parts, shut) = others.on(*rank, from, to);
            assert!(!shut && self.nodes[rank].up, "job {id}: rank {rank} is another's, or down");
            match part {
                Part::Node => assert!(parts.is_empty(), "job {id}: somebody is on rank {rank}"),
                Part::Core(_) => {
                    assert!(
                        !parts.iter().any(|(_, other)| other == part),
                        "job {id}: a core twice"
                    );
                }
                Part::Units(units) => {
                    assert!(
                        others.units(*rank, from, to) >= *units,
                        "job {id}: units of rank {rank}"
                    );
                }
            }
        }
    }

    /// Moves the clock: reservations begin where there is room, in the order of starts and ids,
    /// else in the next second.
    pub(crate) fn advance(&mut self, seconds: i64) {
        self.now += seconds;
        let now = self.now;
        let due =
            |(id, job): (&u64, &Job)| (job.reserved && job.from <= now).then_some((job.from, *id));
        let mut due: Vec<(i64, u64)> = self.jobs.iter().filter_map(due).collect();
        due.sort_unstable();
        for (_, id) in due {
            let may = self.may_begin(id);
            let job = self.jobs.get_mut(&id).unwrap();
            if may {
                job.reserved = false;
            } else {
                let later = now + 1 - job.from;
                job.from += later;
                job.to = job.to.map(|to| to + later);
            }
        }
    }

    /// True if there is room now, beside slots that have begun.
    fn may_begin(&self, id: u64) -> bool {
        let mut begun = self.clone();
        begun.jobs.retain(|_, job| !job.reserved);
        let (from, to) = (self.now, self.now + 1);
        let job = &self.jobs[&id];
        let racks = job.racks.iter().all(|rack| {
            let mut inside = self.nodes.keys().filter(|rank| self.rack(**rank) == *rack);
            let taken = begun.jobs.values().any(|job| job.racks.contains(rack));
            !taken && inside.all(|rank| begun.is_idle(*rank, from, to))
        });
        racks
            && job.parts.iter().all(|(rank, part)| {
                let (parts, shut) = begun.on(*rank, from, to);
                let fits = match part {
                    Part::Node => parts.is_empty(),
                    Part::Core(_) => !parts.iter().any(|(_, other)| other == part),
                    Part::Units(units) => begun.units(*rank, from, to) >= *units,
                };
                self.nodes[rank].up && !shut && fits
            })
    }

    pub(crate) fn remove(&mut self, rank: u32) {
        self.nodes.remove(&rank);
        self.moved.remove(&rank);
        for job in self.jobs.values_mut() {
            job.parts.retain(|(on, _)| *on != rank);
        }
        self.jobs.retain(|_, job| !job.parts.is_empty() || !job.racks.is_empty());
    }

    /// Units of a node that are used now.
    pub(crate) fn used(&self, rank: u32) -> u64 {
        let begun = |job: &&Job| !job.reserved;
        let of = |(on, part): &(u32, Part)| {
            if let (true, Part::Units(units)) = (*on == rank, part) { *units } else { 0 }
        };
        let units: u64 =
            self.jobs.values().filter(begun).flat_map(|job| job.parts.iter().map(of)).sum();
        let whole = self.jobs.values().filter(begun).any(|job| {
            job.parts.contains(&(rank, Part::Node))
                || self.racks > 0 && job.racks.contains(&self.rack(rank))
        });
        if whole { units.max(self.nodes[&rank].cpu) } else { units }
    }
}
