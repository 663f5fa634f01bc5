//! How long a Job holds its slots: until its last wave has ended.

use crate::jobs::job::Job;
use crate::jobs::lifecycle::Lifecycle;
use crate::jobs::registry::{Jobs, is_made_by};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{Controller, Lifetime, Pod, Uid};

impl Jobs {
    /// Returns how long the slot of a pod is held if the pod starts now: its own time, once for
    /// each wave of its Job that is still to come.
    pub(crate) fn holds_from_binding(&self, pod: &Pod, job: &Job) -> Lifetime {
        times(self.occupies_from_binding(pod, job), self.waves(pod, job))
    }

    pub(crate) fn waves(&self, pod: &Pod, job: &Job) -> u64 {
        let left = self
            .controller(pod)
            .and_then(|made_by| Some((left_of(made_by, job)?, made_by.parallelism.max(1))));
        left.map_or(1, |(left, parallelism)| u64::from(left.div_ceil(parallelism).max(1)))
    }

    /// Marks the last wave of a pod's Job as due for planning, if waves are to come: a pod has
    /// begun, has ended, or is planned otherwise.
    pub(crate) fn note_wave(&mut self, pod: &Pod, id: JobId) {
        let made_by = self.controller(pod).map(|made_by| made_by.id.uid.clone());
        if let Some(uid) = made_by {
            self.note_waves(id, uid);
        }
    }

    /// Does the same for all pods of a job that one object has made.
    pub(crate) fn note_waves(&mut self, id: JobId, uid: Uid) {
        let made = self.all.get(&id).zip(self.made(&uid, id));
        let is_to_come = made.is_some_and(|(job, made_by)| has_waves(made_by, job));
        let of_it = (id, uid);
        if is_to_come || self.waves.ends.contains_key(&of_it) {
            self.waves.due.insert(of_it);
        }
    }

    /// Returns the core's second at which the last wave of a pod's Job ends, by the last plan.
    pub(crate) fn last_wave(&self, pod: &Pod, id: JobId) -> Option<i64> {
        if self.waves.ends.is_empty() {
            return None;
        }
        self.waves.ends.get(&(id, self.controller(pod)?.id.uid.clone())).copied()
    }

    pub(crate) fn made(&self, uid: &Uid, id: JobId) -> Option<&Controller> {
        let namespace = &self.all.get(&id)?.key.namespace;
        self.controllers.get(namespace, uid).map(|made_by| &**made_by)
    }

    /// Returns the second of the core's time at which the last wave of a Job has ended; `None` if
    /// no pod follows the running ones, or if the end of a running pod is not known. `start`
    /// returns when a pod has started, in the core's time.
    pub(crate) fn end_of_waves(
        &self,
        made_by: &Controller,
        job: &Job,
        start: impl Fn(&Pod) -> i64,
    ) -> Option<i64> {
        if !has_waves(made_by, job) {
            return None;
        }
        let left = left_of(made_by, job)? as usize;
        let mut each = Lifetime::Endless;
        let mut latest_start = None;
        let mut ends = Vec::new();
        for member in self.live(job) {
            if !member.is_bound() || !is_made_by(&member.pod, &made_by.id.uid) {
                continue;
            }
            let Lifetime::Seconds(seconds) = self.occupies(&member.pod, job) else { return None };
            let start = start(&member.pod);
            latest_start = latest_start.max(Some(start));
            ends.push(start.saturating_add_unsigned(seconds));
            each = self.occupies_from_binding(&member.pod, job);
        }
        let Lifetime::Seconds(each) = each else { return None };
        let follow = left.saturating_sub(ends.len());
        let free = (made_by.parallelism as usize).saturating_sub(ends.len()).min(follow);
        // A slot that has no pod is free since the last one started, as far as is known.
        ends.extend(latest_start.into_iter().flat_map(|start| std::iter::repeat_n(start, free)));
        last_end(&mut ends, follow, i64::try_from(each).unwrap_or(i64::MAX))
    }

    /// True if the pod replaces a pod of its Job that has failed, so that the Job takes longer than
    /// was planned.
    pub(crate) fn is_retry(&self, pod: &Pod, job: &Job) -> bool {
        let came_later = job.start.at.is_some_and(|started| pod.created > started);
        job.pods.failed > 0
            && came_later
            && job.life != Lifecycle::Waiting
            && self.controller(pod).is_some()
    }
}

/// True if more pods of a Job are to succeed than can run at once: a slot that becomes free is
/// taken again.
fn has_waves(made_by: &Controller, job: &Job) -> bool {
    left_of(made_by, job).is_some_and(|left| left > made_by.parallelism.max(1))
}

/// Returns how many pods of a Job are still to succeed, the running ones among them; `None` if the
/// Job has no number of completions.
fn left_of(made_by: &Controller, job: &Job) -> Option<u32> {
    let succeeded = made_by.succeeded.max(job.succeeded_seen());
    made_by.completions.map(|completions| completions.saturating_sub(succeeded))
}

fn times(lifetime: Lifetime, waves: u64) -> Lifetime {
    match lifetime {
        Lifetime::Seconds(seconds) => Lifetime::Seconds(seconds.saturating_mul(waves)),
        other => other,
    }
}

/// Returns when the last of `follow` pods ends. The pods take slots one after the other, each the
/// next free slot, for `each` seconds. The slots become free at `ends`. `None` without pods or
/// slots.
fn last_end(ends: &mut [i64], follow: usize, each: i64) -> Option<i64> {
    if follow == 0 || ends.is_empty() {
        return None;
    }
    // If the ends are no further apart than `each`, every slot gets one pod in each round.
    let (rounds, rest) = (follow / ends.len(), follow % ends.len());
    let after = |end: i64, pods: usize| {
        end.saturating_add(each.saturating_mul(i64::try_from(pods).unwrap_or(i64::MAX)))
    };
    let latest = ends.iter().copied().max().map(|end| after(end, rounds));
    let in_last_round =
        rest.checked_sub(1).map(|at| after(*ends.select_nth_unstable(at).1, rounds + 1));
    latest.max(in_last_round)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the same pod by pod.
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
                let ends: Vec<i64> =
                    (0..slots).map(|at| i64::try_from(at * 37 % 90).expect("small")).collect();
                assert_eq!(
                    last_end(&mut ends.clone(), follow, 100),
                    Some(one_by_one(ends.clone(), follow, 100)),
                    "{follow} pods after {ends:?}"
                );
            }
        }
    }
}
