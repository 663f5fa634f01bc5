//! The claims that keep the pods of a job from having their volumes.

use fluxqueue_api::BlockedReason;

use crate::jobs::member::Member;

/// Returns the message on the first pod with claims that are not ready.
pub(crate) fn not_mountable(live: &[&Member]) -> Option<(BlockedReason, String)> {
    let (pod, unready) =
        live.iter().find_map(|member| Some((&member.pod, member.unready.as_ref()?)))?;
    let claim = format!("{}/{}", pod.id.key.namespace, unready.claim);
    Some((
        BlockedReason::VolumesNotReady,
        format!("pod {}, claim {claim}: {}", pod.id, unready.said),
    ))
}
