//! Random traces, each made from its seed alone.

use crate::plain::Job;
use crate::splitmix::SplitMix;

struct Rng(SplitMix);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// Returns a number from `least` to `most`, both included.
    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// The bounds of a trace.
struct Scale {
    nodes: (u64, u64),
    jobs: (u64, u64),
    /// Seconds of which one is the latest at which the last job arrives.
    last_submits: [u64; 4],
    longest: u64,
}

const SMALL: Scale =
    Scale { nodes: (1, 12), jobs: (1, 40), last_submits: [0, 10, 60, 300], longest: 30 };

/// More nodes than a machine word has bits.
const LARGE: Scale =
    Scale { nodes: (60, 130), jobs: (60, 120), last_submits: [0, 500, 2_000, 6_000], longest: 500 };

/// Makes jobs, and nodes on which each of them fits. Traces differ in kind: many jobs at the same
/// instant or few, small jobs or those that need the whole machine, walltimes that are true, far
/// too long, or exceeded.
pub(crate) fn trace(seed: u64) -> (Vec<Job>, usize) {
    made(seed, &SMALL)
}

/// Makes such a trace of about a hundred jobs on about a hundred nodes.
pub(crate) fn large_trace(seed: u64) -> (Vec<Job>, usize) {
    made(seed, &LARGE)
}

fn made(seed: u64, scale: &Scale) -> (Vec<Job>, usize) {
    let mut rng = Rng(SplitMix(seed));
    let nodes = rng.between(scale.nodes.0, scale.nodes.1);
    let count = rng.between(scale.jobs.0, scale.jobs.1);
    let last_submit = scale.last_submits[usize::try_from(rng.between(0, 3)).unwrap()];
    let longest = rng.between(1, scale.longest);
    let large = rng.between(0, 100);
    let (early, overlong) = (rng.between(0, 100), rng.between(0, 30));
    let mut jobs: Vec<Job> = (1..=count)
        .map(|number| {
            let most = if rng.chance(large) { nodes } else { nodes.div_ceil(4) };
            let walltime = rng.between(1, longest);
            let run = match rng.next() % 100 {
                percent if percent < early => rng.between(1, walltime),
                percent if percent < early + overlong => walltime + rng.between(1, 20),
                _ => walltime,
            };
            let size = usize::try_from(rng.between(1, most)).unwrap();
            Job { number, submit: rng.between(0, last_submit), nodes: size, walltime, run }
        })
        .collect();
    // Lines of a trace are ordered neither by submit time nor by number.
    jobs.sort_by_key(|job| job.number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed));
    (jobs, usize::try_from(nodes).unwrap())
}
