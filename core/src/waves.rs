//! How long a Job holds its slots that needs more pods than it has at once: each slot passes from pod to pod, in waves.
//!
//! What others are promised behind such a Job has to be behind its last wave. Pods that take their walltimes at most keep to that end in
//! whatever order they end, since each of them begins when a slot is free.

use super::job::{Job, Lifecycle};
use super::jobs::{Jobs, is_made_by, succeeded_of};
use fluxqueue_workload::{Controller, Lifetime, OwnerKind, Pod, Uid};

impl Jobs {
    /// How long the slot of a pod is held if the pod starts now: its own time, once for each wave of its Job that is still to come.
    pub(super) fn holds_from_binding(&self, pod: &Pod, job: &Job) -> Lifetime {
        times(self.occupies_from_binding(pod, job), self.waves(pod, job))
    }

    /// The same from its start, for telling requests apart.
    pub(super) fn holds(&self, pod: &Pod, job: &Job) -> Lifetime {
        times(self.occupies(pod, job), self.waves(pod, job))
    }

    fn waves(&self, pod: &Pod, job: &Job) -> u64 {
        let left = self.controller(pod).and_then(|made_by| Some((left_of(made_by, job)?, made_by.parallelism.max(1))));
        left.map_or(1, |(left, parallelism)| u64::from(left.div_ceil(parallelism).max(1)))
    }

    /// The second of the core's time at which the last wave of a pod's Job has ended; `None` if no pod follows those that run, or if
    /// nobody knows when these end. `start` says when a pod has started, in the core's time. The present is not asked for: that would
    /// be another end each time.
    pub(super) fn end_of_waves(&self, pod: &Pod, job: &Job, start: impl Fn(&Pod) -> i64) -> Option<i64> {
        let made_by = self.controller(pod)?;
        let left = left_of(made_by, job)? as usize;
        let run = self.live(job).filter(|member| member.is_bound() && is_made_by(&member.pod, &made_by.id.uid));
        let mut latest_start = None;
        let ends: Option<Vec<i64>> = run
            .map(|member| match self.occupies(&member.pod, job) {
                Lifetime::Seconds(seconds) => {
                    let start = start(&member.pod);
                    latest_start = latest_start.max(Some(start));
                    Some(start.saturating_add_unsigned(seconds))
                }
                Lifetime::Eventually | Lifetime::Endless => None,
            })
            .collect();
        let Lifetime::Seconds(each) = self.occupies_from_binding(pod, job) else { return None };
        let mut ends = ends?;
        let follow = left.saturating_sub(ends.len());
        let free = (made_by.parallelism as usize).saturating_sub(ends.len()).min(follow);
        // A slot that has no pod is free since the last one started, as far as is known.
        ends.extend(latest_start.into_iter().flat_map(|start| std::iter::repeat_n(start, free)));
        last_end(&mut ends, follow, i64::try_from(each).unwrap_or(i64::MAX))
    }

    /// The pods that have their nodes, in order of uid.
    pub(super) fn bound_pods(&self) -> Vec<Uid> {
        let bound = self.members.iter().filter(|(_, member)| member.is_bound());
        let mut bound: Vec<Uid> = bound.map(|(uid, _)| uid.clone()).collect();
        bound.sort_unstable();
        bound
    }

    /// The pod takes the place of one of its Job that has failed, so that the Job takes longer than was planned.
    pub(super) fn is_retry(&self, pod: &Pod, job: &Job) -> bool {
        let came_later = job.started_at.is_some_and(|started| pod.created > started);
        job.failed > 0 && came_later && job.life != Lifecycle::Waiting && self.controller(pod).is_some()
    }
}

/// How many pods of a Job are still to succeed, those that run among them; `None` if nobody says.
fn left_of(made_by: &Controller, job: &Job) -> Option<u32> {
    let seen = succeeded_of(job, made_by.kind == OwnerKind::Job, job.succeeded);
    made_by.completions.map(|completions| completions.saturating_sub(made_by.succeeded.max(seen)))
}

fn times(lifetime: Lifetime, waves: u64) -> Lifetime {
    match lifetime {
        Lifetime::Seconds(seconds) => Lifetime::Seconds(seconds.saturating_mul(waves)),
        other => other,
    }
}

/// When the last of `follow` pods ends that take slots one after the other, each the next that is free, for `each` seconds. The slots are
/// free at `ends`. `None` without such pods.
fn last_end(ends: &mut [i64], follow: usize, each: i64) -> Option<i64> {
    if follow == 0 || ends.is_empty() {
        return None;
    }
    // Of ends that are no further apart than `each`, as many pods as there are slots take one each.
    let (rounds, rest) = (follow / ends.len(), follow % ends.len());
    let after =
        |end: i64, pods: usize| end.saturating_add(each.saturating_mul(i64::try_from(pods).unwrap_or(i64::MAX)));
    let latest = ends.iter().copied().max().map(|end| after(end, rounds));
    let in_last_round = rest.checked_sub(1).map(|at| after(*ends.select_nth_unstable(at).1, rounds + 1));
    latest.max(in_last_round)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same pod by pod.
    fn one_by_one(mut ends: Vec<i64>, follow: usize, each: i64) -> i64 {
        for _ in 0..follow {
            let next = ends.iter_mut().min().expect("a slot");
            *next += each;
        }
        ends.into_iter().max().expect("a slot")
    }

    #[test]
    fn the_last_wave_ends_as_if_pods_were_put_one_by_one() {
        assert_eq!(last_end(&mut [10, 20], 0, 100), None);
        assert_eq!(last_end(&mut [], 3, 100), None);
        for slots in 1..6_usize {
            for follow in 1..14 {
                let ends: Vec<i64> = (0..slots).map(|at| i64::try_from(at * 37 % 90).expect("small")).collect();
                assert_eq!(
                    last_end(&mut ends.clone(), follow, 100),
                    Some(one_by_one(ends.clone(), follow, 100)),
                    "{follow} pods after {ends:?}"
                );
            }
        }
    }
}
