//! Places in the queue that an earlier process has put on record.

use fluxqueue_api::FluxJob;

use crate::jobs::clock::Clock;
use crate::jobs::job::Identity;
use crate::jobs::registry::{CLOCKS_DIFFER_SECS, Jobs};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::Time;

impl Jobs {
    /// Returns when a job came to its place in the queue, by its FluxJob. An impossible time is
    /// ignored: one before any object of the job was made, or one in the future.
    pub(crate) fn place_on_record(
        &self,
        id: JobId,
        object: &FluxJob,
        clock: Clock,
    ) -> Option<Time> {
        let job = self.all.get(&id)?;
        let at = Time(object.status.as_ref()?.queued_at.as_ref()?.0.as_microsecond());
        // Without a time by the API server, the place cannot be checked.
        let Some(made) = object.metadata.creation_timestamp.as_ref() else { return Some(at) };
        let pods = job
            .pods
            .all
            .iter()
            .filter_map(|uid| self.members.get(uid))
            .map(|member| member.pod.created);
        let own = if let Identity::Controller(_, uid) = &job.workload.identity {
            Some(uid)
        } else {
            None
        };
        let makers = job.pods.makers.iter().chain(own);
        let makers = makers.filter_map(|uid| self.controllers.get(&job.key.namespace, uid));
        let makers = makers.map(|made_by| made_by.created);
        let made = pods.chain(makers).chain([Time(made.0.as_microsecond())]).min()?;
        let is_true = made <= at.plus_secs(CLOCKS_DIFFER_SECS)
            && at <= clock.wall_now().plus_secs(CLOCKS_DIFFER_SECS);
        if !is_true {
            tracing::warn!(job = %job.key, ?at, ?made, "status.queuedAt cannot be true, and is \
                ignored");
        }
        is_true.then_some(at)
    }
}
