//! Pods with an owner that is seen late, or never.

use crate::parts::Recovery;
use crate::sound::Sound;
use fluxqueue_workload::Uid;

impl Recovery<'_> {
    pub(crate) fn stop_awaiting_owner(&mut self, uid: &Uid) -> Sound {
        if let Some(awaiting_owner) = self.intake.awaiting_owner.remove(uid) {
            let orphan = awaiting_owner.until <= self.clock.now;
            if orphan {
                self.intake.awaiting_owner.note_orphan(&awaiting_owner.pod);
            }
            self.members().attach(awaiting_owner.pod, orphan)?;
        }
        Ok(())
    }

    /// Handles the late appearance of the controller of a pod that counted as a lone pod. If no
    /// write has left for the pod, it belongs to its job again, which starts whole or not at all.
    pub(crate) fn join_late_owner(&mut self, uid: &Uid) -> Sound {
        if self.jobs.members.get(uid).is_some_and(|member| !member.is_in_doubt(self.clock.now)) {
            self.slots().replan(uid)?;
        }
        if self.jobs.members.get(uid).is_some_and(|member| member.stage.is_waiting()) {
            self.members().regroup(uid)?;
        }
        Ok(())
    }
}
