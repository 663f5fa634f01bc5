//! Overruns, and nodes that the adversary takes past Fluxqueue: they delay others, and Events name
//! the true cause.
//!
//! Every promise on record is kept, or an Event names the cause for which it is not. The possible
//! causes are `walltime`, where a pod has outlived its planned end by then, and `capacity`, where a
//! node was closed or taken by a pod of another scheduler; `priority` and `edit` come from honest
//! tenants. If an Event names a pod, the cause is true of that pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::{FluxJob, JobState, WorkloadKind};
use fluxqueue_core::{Note, Subject};
use fluxqueue_workload::{Lifetime, ObjectKey, Pod};

use super::side::Side;
use crate::objects::FOREIGN;
use crate::server::flux_job_key;
use crate::violation::{Violation, broken};

pub(crate) const TOLD: &str =
    "a tenant delays others only for a cause that an Event names and that is true";

/// Seconds by which a start may be put off before an Event says so.
const PUT_OFF_SECONDS: i64 = 1;
/// Seconds for which a loss is the cause of delays: within that time every delayed job is looked
/// at.
const RECENT_SECONDS: i64 = 10;

/// The known promises, and the events that may break them.
#[derive(Debug, Default)]
pub(super) struct Judge {
    /// The starts on record of jobs that wait.
    promised: BTreeMap<ObjectKey, i64>,
    /// When a node was last closed, opened or taken.
    lost_at: Option<i64>,
}

impl Judge {
    /// Notes that a node was closed or opened, or that the record does not contain all promises.
    pub(super) fn capacity_changed(&mut self, now: i64) {
        self.lost_at = Some(now);
    }

    /// Judges that each Event is true, and that each promise is kept unless an Event says
    /// otherwise.
    pub(super) fn judge(&mut self, side: &mut Side, others: &[&str]) -> Result<(), Violation> {
        let now = side.world.now;
        let pods = side.world.server.pods.values();
        let mut taken =
            pods.filter(|pod| *pod.scheduler == *FOREIGN && pod.started == Some(side.world.time()));
        if taken.next().is_some() {
            self.lost_at = Some(now);
        }
        let mut told = Vec::new();
        for note in side.events.clone() {
            let ("ReservationDelayed", Subject::FluxJob(job)) = (note.reason, &note.subject) else {
                continue;
            };
            if !others.contains(&&*job.key.namespace) {
                continue;
            }
            self.hear(side, &note)?;
            told.push(job.key.clone());
        }
        let mut promised = BTreeMap::new();
        for job in side.world.server.flux_jobs.values() {
            let key = flux_job_key(job);
            let Some(status) = job.status.as_ref().filter(|_| others.contains(&&*key.namespace))
            else {
                continue;
            };
            let start =
                status.reservation.as_ref().and_then(|reservation| reservation.start.as_ref());
            let start = start.map(|at| at.0.as_microsecond().div_euclid(1_000_000));
            let began =
                status.start_time.as_ref().map(|at| at.0.as_microsecond().div_euclid(1_000_000));
            let is_waiting = status.state == Some(JobState::Pending)
                && !job.spec.overrides.hold
                && is_there(side, job);
            if let Some(was) = self.promised.get(&key).copied() {
                let is_kept = match (began, start) {
                    (Some(began), _) => began <= was + PUT_OFF_SECONDS,
                    (None, Some(start)) => {
                        start <= was + PUT_OFF_SECONDS && now <= start + PUT_OFF_SECONDS
                    }
                    (None, None) => !is_waiting,
                };
                if !is_kept && !told.contains(&key) {
                    let text = format!(
                        "{key} was to start at {was}, now {now}: {start:?}, began {began:?}"
                    );
                    return broken(TOLD, text);
                }
            }
            if let Some(start) = start.filter(|_| is_waiting) {
                promised.insert(key, start);
            }
        }
        self.promised = promised;
        Ok(())
    }

    fn hear(&self, side: &mut Side, note: &Note) -> Result<(), Violation> {
        let now = side.world.now;
        let pods = side.world.server.pods.values();
        let named = pods.filter(|pod| note.note.contains(&format!("{} ", pod.id.key)));
        let named: Vec<Arc<Pod>> = named.cloned().collect();
        let is_recent = self.lost_at.is_some_and(|at| now - at <= RECENT_SECONDS);
        let is_true = match note.note.split(':').next() {
            Some("walltime") => {
                side.world.stats.count("delay by an overrun told");
                let is_over = |pod: &Arc<Pod>| planned_end(pod).is_some_and(|end| end <= now);
                let mut pods = side.world.server.pods.values();
                named.iter().all(is_over) && pods.any(is_over)
            }
            Some("capacity") => {
                side.world.stats.count("delay by a node taken past us told");
                is_recent && named.iter().all(|pod| *pod.scheduler == *FOREIGN)
            }
            Some("priority" | "edit") => named.iter().all(|pod| *pod.id.key.namespace != *"rival"),
            _ => false,
        };
        if is_true {
            Ok(())
        } else {
            broken(TOLD, format!("{}: {:?}, now {now}", note.subject.key(), note.note))
        }
    }
}

/// The workload of a FluxJob has not been deleted by its author.
fn is_there(side: &Side, job: &FluxJob) -> bool {
    let (namespace, of) = (flux_job_key(job).namespace, &job.spec.workload_ref);
    let is_member = |pod: &Pod| {
        pod.id.key.namespace == namespace
            && pod.group.as_ref().is_some_and(|group| *group.name == *of.name)
    };
    match of.kind {
        WorkloadKind::Group => side.world.server.pods.values().any(|pod| is_member(pod)),
        _ => side.has_object(&namespace, &of.uid),
    }
}

/// Returns the time at which a running pod should end.
fn planned_end(pod: &Pod) -> Option<i64> {
    let Lifetime::Seconds(seconds) = pod.lifetime else { return None };
    let started = pod.started.filter(|_| pod.node.is_some())?;
    Some(started.seconds() + i64::try_from(seconds).unwrap_or(i64::MAX / 2))
}
