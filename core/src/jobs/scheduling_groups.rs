//! Groups of Kubernetes' own, as far as the object decides that made the pods.
//!
//! A question that `fluxqueue_workload::scheduling_group` leaves open for a pod of a Job is decided
//! by the Job: if it says nothing of groups, the PodGroup in its pods is the one that the Job
//! controller makes for every Job, and the job is a gang as ever.

use std::sync::Arc;

use fluxqueue_workload::{Controller, OwnerKind, scheduling_group};

use crate::jobs::controllers::{Controllers, MadeBy};
use crate::jobs::job::{Identity, Job};
use crate::jobs::member::Member;

/// Why pods of a job are refused for a group of Kubernetes' own. `makers` are the objects that made
/// its pods, and `live` those of them that have not ended.
pub(crate) fn refusal<'a>(
    mut makers: impl Iterator<Item = &'a Arc<Controller>>,
    controllers: &Controllers,
    job: &Job,
    live: &[&Member],
) -> Option<String> {
    let by_maker = makers.find_map(|made_by| {
        let refused = made_by.scheduling.as_ref()?;
        let (kind, id) = (made_by.kind.as_str(), &made_by.id);
        Some(format!("{kind} {id}: {}: {}", refused.field, refused.message))
    });
    by_maker.or_else(|| {
        live.iter().find_map(|member| {
            let group = member.pod.scheduling_group.as_ref()?;
            if is_made_for_a_job(controllers, job, member) {
                return None;
            }
            let refused = scheduling_group::refused(group);
            Some(format!("pod {}: {}: {}", member.pod.id, refused.field, refused.message))
        })
    })
}

/// True if the group of a pod is one of a Job that says nothing of groups: the Job is known, or it
/// is gone, and these are the pods that it has left behind.
fn is_made_for_a_job(controllers: &Controllers, job: &Job, member: &Member) -> bool {
    match controllers.maker(&member.pod) {
        MadeBy::Known(made_by) => made_by.kind == OwnerKind::Job,
        MadeBy::Unseen(owner) => {
            matches!(&job.workload.identity, Identity::Controller(_, uid) if *uid == owner.uid)
        }
        MadeBy::Nothing => false,
    }
}
