//! How long one pod of a job takes its resources.

use crate::jobs::job::Job;
use crate::jobs::registry::Jobs;
use fluxqueue_workload::{Controller, Lifetime, Pod};

impl Jobs {
    /// Returns how long a pod of the job takes its resources from its start: its walltime, the
    /// grace period in which it stops, and the delay until the core sees its end. A promise that
    /// came due a moment before that would have to be broken.
    pub(crate) fn occupies(&self, pod: &Pod, job: &Job) -> Lifetime {
        self.walltime(pod, job).plus_secs(pod.grace_secs).plus_secs(self.times.end_slack)
    }

    /// Returns how long a pod of the job may take its resources from its Binding. This counts until
    /// the pod runs: if it began later than planned, a promise behind it would have to be broken.
    pub(crate) fn occupies_from_binding(&self, pod: &Pod, job: &Job) -> Lifetime {
        self.occupies(pod, job).plus_secs(self.times.start_slack)
    }

    /// Returns how long a pod of the job may run from its start: the wish of a user, else the
    /// walltime of the workload, else the default of the queue; and no more than the queue's
    /// maximum, if it clamps.
    pub(crate) fn walltime(&self, pod: &Pod, job: &Job) -> Lifetime {
        let wished =
            job.record.overrides.walltime_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        if let Some(seconds) = wished.filter(|seconds| *seconds > 0) {
            return job.queue.walltimes.of(Lifetime::Seconds(seconds), None);
        }
        job.queue.walltimes.of(self.said_walltime(pod), self.times.default_walltime)
    }

    /// Returns the walltime that the workload states: that of the object that made the pod, else
    /// that of the pod itself, of its PodGroup, of the Workload of that.
    pub(crate) fn said_walltime(&self, pod: &Pod) -> Lifetime {
        let said = |made_by: &Controller| made_by.walltime.as_ref()?.as_ref().ok().copied();
        let annotated = self.controllers.said_by_maker(pod, said);
        let of_group = || {
            let terms = self.controllers.groups.terms(pod).filter(|_| !pod.states_lifetime)?;
            terms.walltime?.ok()
        };
        annotated.or_else(of_group).unwrap_or(pod.lifetime)
    }
}
