//! Random traces, each made by its seed alone.

use crate::plain::Job;
use crate::splitmix::SplitMix;

struct Rng(SplitMix);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// From `least` to `most`, both included.
    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// Jobs, and nodes on which each of them fits. Traces differ in kind: many jobs at the same instant or few, small jobs or such as
/// want the whole machine, walltimes that are true, far too long, or passed.
pub(crate) fn trace(seed: u64) -> (Vec<Job>, usize) {
    let mut rng = Rng(SplitMix(seed));
    let nodes = rng.between(1, 12);
    let count = rng.between(1, 40);
    let last_submit = [0, 10, 60, 300][usize::try_from(rng.between(0, 3)).unwrap()];
    let longest = rng.between(1, 30);
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
    // Lines of a trace are not in the order of submit times, nor of numbers.
    jobs.sort_by_key(|job| job.number.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed));
    (jobs, usize::try_from(nodes).unwrap())
}
