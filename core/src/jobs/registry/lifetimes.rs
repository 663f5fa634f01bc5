//! How long pods take their resources: their walltimes, and the deadlines at which the objects that
//! made them end them.

use crate::jobs::clock::Clock;
use crate::jobs::job::{Identity, Job};
use crate::jobs::registry::Jobs;
use fluxqueue_workload::{Controller, Lifetime, Pod, Time, Uid};

/// While a pod waits, its deadline is rounded up to a step of at most a sixteenth of the time that
/// the Job has in all.
const DEADLINE_STEPS: u64 = 16;

impl Jobs {
    /// Returns how long a pod of the job would take its resources if it started now.
    pub(crate) fn lifetime(&self, pod: &Pod, job: &Job, clock: Clock) -> Lifetime {
        ended_by(self.deadline(pod, clock), self.holds_from_binding(pod, job), clock.now)
    }

    /// Returns the same as it is planned while the pod waits: see [`Jobs::planned_deadline`].
    pub(crate) fn planned_lifetime(&self, pod: &Pod, job: &Job, clock: Clock) -> Lifetime {
        ended_by(self.planned_deadline(pod, clock), self.planned_time(pod, job), clock.now)
    }

    /// Returns how long resources are to be kept for a pod of the job that starts later, if the
    /// object that made it ends it at a deadline: as if the pod started at `since`, the time by the
    /// API server's clock since when it could have. The pod has no more time than that when it does
    /// start, and the promises behind it do not move with every second for which both wait.
    pub(crate) fn lifetime_later(
        &self,
        pod: &Pod,
        job: &Job,
        clock: Clock,
        since: Time,
    ) -> Option<Lifetime> {
        let deadline = clock.wall(self.planned_deadline(pod, clock)?);
        Some(ended_by(Some(deadline), self.planned_time(pod, job), since))
    }

    /// Returns how long a waiting pod is planned to take its resources, if its deadline does not
    /// end it before: no longer than from the start of the object that made it to that deadline.
    pub(crate) fn planned_time(&self, pod: &Pod, job: &Job) -> Lifetime {
        let own = self.holds_from_binding(pod, job);
        match self.deadline_by_wall(pod).and_then(|(made_by, _)| made_by.deadline_secs) {
            Some(secs) => ended_by(
                Some(Time::from_seconds(0).plus_secs(secs).plus_secs(pod.grace_secs)),
                own,
                Time::default(),
            ),
            None => own,
        }
    }

    /// Returns the two walltimes that go on record: the one that the workload states, and the one
    /// that counts. Where the workload states none, the object that made the pod may have a
    /// deadline.
    pub(crate) fn recorded_walltimes(&self, pod: &Pod, job: &Job) -> (Lifetime, Lifetime) {
        let made_by = self.controller(pod).filter(|made_by| !is_annotated(made_by));
        let ends_after = made_by.and_then(|made_by| made_by.deadline_secs);
        let until = |own: Lifetime| match (ends_after, own) {
            (Some(secs), Lifetime::Seconds(own)) => Lifetime::Seconds(own.min(secs)),
            (Some(secs), _) => Lifetime::Seconds(secs),
            (None, own) => own,
        };
        (until(self.said_walltime(pod)), until(self.walltime(pod, job)))
    }

    /// Returns when a pod has stopped that the object that made it ends in any case, in the core's
    /// time; `None` if that object states a walltime.
    pub(crate) fn deadline(&self, pod: &Pod, clock: Clock) -> Option<Time> {
        let (_, at) = self.deadline_by_wall(pod)?;
        Some(clock.core(at).plus_secs(pod.grace_secs))
    }

    /// Returns the same as it is planned while the pod waits: up to a sixteenth of the whole time
    /// later. Jobs that were made one after the other have deadlines that differ by seconds. If
    /// each deadline counted to the second, each Job would be a class of its own, and every walk
    /// would ask the graph about each class. Once the pod is on its node, the deadline itself
    /// counts.
    pub(crate) fn planned_deadline(&self, pod: &Pod, clock: Clock) -> Option<Time> {
        let (made_by, at) = self.deadline_by_wall(pod)?;
        let whole =
            || u64::try_from(at.seconds().saturating_sub(pod.created.seconds())).unwrap_or(0);
        let step_secs = 1_i64
            << (made_by.deadline_secs.unwrap_or_else(whole) / DEADLINE_STEPS)
                .max(1)
                .ilog2()
                .min(62);
        let steps = at.seconds().saturating_add(step_secs - 1).div_euclid(step_secs);
        Some(
            clock
                .core(Time::from_seconds(steps.saturating_mul(step_secs)))
                .plus_secs(pod.grace_secs),
        )
    }

    /// Returns when the object that made a pod ends it, by the API server's clock, and that object.
    fn deadline_by_wall(&self, pod: &Pod) -> Option<(&Controller, Time)> {
        let made_by = self.controller(pod).filter(|made_by| !is_annotated(made_by))?;
        let can_be_planned = pod.grace_secs <= Lifetime::SECS_MAX;
        Some((made_by, made_by.deadline.filter(|_| can_be_planned)?))
    }
}

/// True if the object itself states how long its pods run.
fn is_annotated(made_by: &Controller) -> bool {
    made_by.walltime.as_ref().is_some_and(Result::is_ok)
}

/// Returns how long a pod that starts now takes its resources, if it would take them for its `own`
/// time and is ended at its deadline.
pub(crate) fn ended_by(deadline: Option<Time>, own: Lifetime, now: Time) -> Lifetime {
    let left = deadline
        .map(|at| u64::try_from(at.seconds().saturating_sub(now.seconds())).unwrap_or(0).max(1));
    match (left, own) {
        (Some(left), Lifetime::Seconds(own)) => Lifetime::Seconds(left.min(own)),
        (Some(left), _) => Lifetime::Seconds(left),
        (None, own) => own,
    }
}

/// True if the job ended before a pod of it was bound, and not because its workload was complete.
pub(crate) fn was_given_up(jobs: &Jobs, job: &Job) -> bool {
    let is_complete = jobs.controllers.of_job(&job.workload.identity).is_some();
    let never_ran = job.start.at.is_none() && job.pods.succeeded == 0;
    job.record.seen.end.is_none() && never_ran && !is_complete
}

/// True if no object will make more pods of a job.
pub(crate) fn makes_no_more(jobs: &Jobs, job: &Job) -> bool {
    let namespace = &job.key.namespace;
    let done =
        |uid: &Uid| jobs.controllers.get(namespace, uid).is_none_or(|made_by| made_by.finished);
    match &job.workload.identity {
        Identity::Pod(_) => true,
        Identity::Controller(_, uid) => done(uid),
        Identity::Group(_) | Identity::PodGroup(..) => job
            .pods
            .all
            .iter()
            .filter_map(|uid| jobs.members.get(uid)?.pod.owner.as_ref())
            .map(|owner| &owner.uid)
            .chain(job.pods.makers.iter())
            .all(done),
    }
}
