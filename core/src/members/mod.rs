//! Pods as they appear, change and go.

pub(crate) mod adopting;
pub(crate) mod attaching;
pub(crate) mod pod_groups;
pub(crate) mod strays;

use std::sync::Arc;

use fluxqueue_api::{EventReason, names, text};

use crate::action::{EventKind, Subject};
use crate::agenda::Agenda;
use crate::intake::Intake;
use crate::jobs::clock::Clock;
use crate::jobs::member::Member;
use crate::jobs::order::PodOrder;
use crate::jobs::registry::Jobs;
use crate::jobs::stage::Cause;
use crate::notices::REPORT_MILLIS;
use crate::occupancy::{Foreign, Occupancy};
use crate::records::Records;
use crate::settings::CoreSettings;
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use fluxqueue_planner::Planner;
use fluxqueue_planner::queue::JobId;
use fluxqueue_planner::queues::Queues;
use fluxqueue_workload::{ObjectRef, Phase, Pod, Uid};

/// Takes up pods: finds the job of each, or makes one.
pub(crate) struct Members<'a> {
    pub clock: Clock,
    pub settings: &'a CoreSettings,
    pub intake: &'a mut Intake,
    pub jobs: &'a mut Jobs,
    pub records: &'a mut Records,
    pub planner: &'a mut Planner,
    pub queues: &'a mut Queues,
    pub occupancy: &'a mut Occupancy,
    pub agenda: &'a mut Agenda,
}

/// The age, in seconds, from which an earlier process has already reported that Fluxqueue's gate on
/// a pod of the first lists is ignored: longer than a Lease is without a leader.
const TOLD_SECS: u64 = 30;

impl Members<'_> {
    // --- pods ---

    pub(crate) fn pod(&mut self, pod: Arc<Pod>) -> Sound {
        let ours = self.settings.scheduler_names.contains(&pod.scheduler);
        if !ours {
            self.foreign_pod(pod)?;
            return Ok(());
        }
        let pod = self.sight().refused_by_machine(pod);
        if self.jobs.members.contains_key(&pod.id.uid) {
            let pod = self.jobs.controllers.groups.with_topology(pod);
            self.member_changed(pod)?;
        } else {
            self.new_member(pod)?;
        }
        Ok(())
    }

    pub(crate) fn pod_gone(&mut self, id: &ObjectRef) -> Sound {
        self.agenda.timers.forget_pod(&id.uid);
        self.intake.unsorted.remove(&id.uid);
        if let Some(awaiting_owner) = self.intake.awaiting_owner.remove(&id.uid) {
            self.occupancy.by_node.unlist(&awaiting_owner.pod);
        }
        if let Some(foreign) = self.occupancy.foreign.remove(&id.uid) {
            self.slots().free_allocations(foreign.allocation);
            self.occupancy.by_node.unlist(&foreign.pod);
        }
        self.slots().forget_volumes(&id.uid);
        if self.jobs.members.contains_key(&id.uid) {
            self.slots().end(&id.uid, Cause::Deleted)?;
            if let Some(member) = self.jobs.members.remove(&id.uid) {
                self.occupancy.by_node.unlist(&member.pod);
                self.intake.awaiting_owner.forget_orphan(&member.pod);
                self.agenda.touched.insert(member.job);
                let job = self.jobs.all.known_mut(&member.job)?;
                job.pods.all.remove(&id.uid);
                if member.pod.phase == Phase::Succeeded {
                    // Its controller has counted it by now, or never will.
                    job.pods.succeeded = job.pods.succeeded.saturating_sub(1);
                }
            }
        }
        Ok(())
    }

    /// Takes these pods out of their job, gives up their slots and those that are retained for the
    /// job, and returns the pods that exist. Stand-ins are made again with the job of their Job.
    pub(crate) fn take_out<'u>(
        &mut self,
        id: JobId,
        pods: impl IntoIterator<Item = &'u Uid>,
    ) -> Vec<Arc<Pod>> {
        self.slots().free_retained(id);
        let mut out = Vec::new();
        for uid in pods {
            let allocation = self.slots().take_allocation(uid);
            self.slots().free_allocations(allocation);
            if let Some(member) = self.jobs.members.remove(uid) {
                self.occupancy.by_node.unlist(&member.pod);
                out.push(member.pod);
            }
        }
        out.retain(|pod| !pod.stands_in);
        out
    }

    fn foreign_pod(&mut self, pod: Arc<Pod>) -> Sound {
        let uid = pod.id.uid.clone();
        let gated = pod.gates.iter().any(|gate| **gate == *names::GATE);
        let known = self.occupancy.foreign.get_mut(&uid);
        let reported = known.as_ref().is_some_and(|known| known.reported);
        let old = match known {
            Some(known) => {
                known.reported |= gated;
                Some(std::mem::replace(&mut known.pod, Arc::clone(&pod)))
            }
            None => {
                let foreign = Foreign { pod: Arc::clone(&pod), allocation: None, reported: gated };
                self.occupancy.foreign.insert(uid.clone(), foreign);
                None
            }
        };
        let has_begun = old.as_ref().is_some_and(|old| old.started != pod.started);
        if let Some(old) = old {
            self.occupancy.by_node.unlist(&old);
        }
        self.occupancy.by_node.list(&pod);
        self.slots().settle(&uid)?;
        self.slots().note_volumes(&uid);
        if has_begun {
            self.slots().replan_foreign_end(&uid);
        }
        // A pod that existed when this process began, and was not just made, was reported by an
        // earlier one.
        let since = self.clock.core(pod.created).plus_secs(TOLD_SECS);
        let was_told = reported || (!self.intake.listed && since < self.clock.now);
        if gated && !was_told {
            let text = format!(
                "gate {:?} is left alone: the pod's scheduler is {}, and a pod is only scheduled \
                 here if spec.schedulerName is one of {}",
                names::GATE,
                text::quoted(&pod.scheduler),
                self.served_names(),
            );
            let reporter = self.settings.reporter();
            self.agenda.note(
                Subject::Pod(pod.id.clone()),
                EventKind::Warning,
                EventReason::GateIgnored.as_str(),
                "Scheduling",
                text,
                &reporter,
            );
        }
        Ok(())
    }

    fn served_names(&self) -> String {
        self.settings
            .scheduler_names
            .iter()
            .map(|name| format!("{name:?}"))
            .collect::<Vec<_>>()
            .join(", ")
    }

    pub(crate) fn member_changed(&mut self, pod: Arc<Pod>) -> Sound {
        let uid = pod.id.uid.clone();
        let member = self.jobs.members.known_mut(&uid)?;
        let old = std::mem::replace(&mut member.pod, Arc::clone(&pod));
        let job = member.job;
        if let Some(job) = self.jobs.all.get_mut(&job)
            && let Some(uid) = job.pods.live.remove(&PodOrder::of(&old))
        {
            job.pods.live.insert(PodOrder::of(&pod), uid);
        }
        if old.owner != pod.owner {
            self.jobs.note_controller(job, &pod)?;
            self.intake.awaiting_owner.forget_orphan(&old);
        }
        // A start of its containers, or their readiness, changes nothing here.
        let asks_otherwise = asks_otherwise(&old, &pod);
        if asks_otherwise || old.deleting != pod.deleting || pod.phase.is_terminal() {
            self.agenda.touched.insert(job);
        }
        if old.node != pod.node || old.nominated != pod.nominated {
            self.occupancy.by_node.unlist(&old);
            self.occupancy.by_node.list(&pod);
        }
        if pod.phase.is_terminal() {
            let cause = match pod.phase {
                Phase::Succeeded => Cause::Succeeded,
                Phase::Refused { .. } => Cause::Refused,
                Phase::Disrupted { .. } => Cause::Disrupted,
                _ => Cause::Failed,
            };
            self.slots().end(&uid, cause)?;
            return Ok(());
        }
        if let Some(node) = &pod.node {
            if pod.phase == Phase::Running && old.phase != pod.phase {
                self.occupancy.suspects.forget_refusals(node);
            }
            self.slots().settle(&uid)?;
            // While the pod did not run, it was planned for longer by the start slack.
            let had_slack = old.phase != pod.phase && self.settings.start_slack_secs > 0;
            if old.lifetime != pod.lifetime {
                self.slots().plan_end_by_wish(job, &uid)?;
            } else if old.started != pod.started || had_slack {
                self.slots().replan_end(&uid)?;
            }
            return Ok(());
        }
        let member = self.jobs.members.known_mut(&uid)?;
        if let Some(allocation) = member.allocation() {
            // A change of its labels may matter to the rules of other pods.
            self.planner.ledger.house(&mut self.planner.cluster, allocation, &pod);
        }
        let stage = &member.stage;
        if stage.is_binding() && pod.deleting {
            // A Binding that has not taken effect by now never will.
            self.slots().end(&uid, Cause::Deleted)?;
        } else if stage.is_unsent() && pod.deleting {
            self.slots().lose_slot(&uid, &format!("pod {} is being deleted", pod.id))?;
        } else if stage.is_unsent() && asks_for_another_node(&old, &pod) {
            self.slots().lose_slot(&uid, &format!("pod {} asks for something else now", pod.id))?;
        } else if stage.is_waiting() && asks_otherwise {
            self.agenda.queue_changed = true;
        }
        let is_waiting =
            self.jobs.members.get(&uid).is_some_and(|member| member.stage.is_waiting());
        let parts =
            |pod: &Pod| (pod.group.clone(), pod.owner.clone(), pod.scheduling_group.clone());
        if is_waiting && parts(&old) != parts(&pod) {
            // The pod may be a part of another job now.
            self.regroup(&uid)?;
        }
        self.slots().see_to_nomination(&uid)?;
        self.see_to_condition(&old, &pod);
        Ok(())
    }

    /// Arranges a new report on a pod that waits with a reason that is not the one of the last
    /// report: a write of an earlier process has come late, or another client has written it.
    fn see_to_condition(&mut self, old: &Pod, pod: &Pod) {
        let (Some(before), Some(now)) = (&old.scheduled_condition, &pod.scheduled_condition) else {
            return;
        };
        let is_waiting = |member: &&mut Member| {
            member.stage.is_waiting() && member.telling.is_none() && !now.scheduled
        };
        let member = self.jobs.members.get_mut(&pod.id.uid).filter(is_waiting);
        if let Some(member) = member
            && before.reason != now.reason
            && member.reported.as_ref().is_some_and(|(said, _)| *said != now.message)
        {
            member.reported = Some((String::new(), self.clock.now));
            let at = self.clock.now.plus_millis(REPORT_MILLIS);
            self.agenda.timers.wake(Timer::Untold(pod.id.uid.clone()), at);
        }
    }
}

/// True if a pod has other requirements than before, or is to be placed in another way. Every field
/// is listed here, so that none is forgotten: those with `_` tell where the pod is in its life, or
/// never change.
fn asks_otherwise(old: &Pod, new: &Pod) -> bool {
    let Pod {
        resource_version: _,
        id: _,
        scheduler: _,
        node: _,
        nominated: _,
        phase: _,
        deleting: _,
        gates,
        owner,
        group,
        scheduling_group,
        completion_index,
        priority,
        created: _,
        started: _,
        ended: _,
        labels,
        shape,
        levels,
        exclusive,
        claims,
        lifetime,
        states_lifetime,
        grace_secs,
        unsupported,
        soft_ignored,
        scheduled_condition: _,
        stands_in: _,
        charged_queue: _,
    } = new;
    (&old.gates, &old.owner, &old.group, &old.scheduling_group, old.completion_index)
        != (gates, owner, group, scheduling_group, *completion_index)
        || (old.priority, &old.labels, &old.shape, &old.levels)
            != (*priority, labels, shape, levels)
        || (old.exclusive, &old.claims, old.lifetime, old.states_lifetime, old.grace_secs)
            != (*exclusive, claims, *lifetime, *states_lifetime, *grace_secs)
        || (&old.unsupported, &old.soft_ignored) != (unsupported, soft_ignored)
}

/// True if the node that a pod was given may not meet its requirements any more, or if the pod may
/// belong to another job.
fn asks_for_another_node(old: &Pod, new: &Pod) -> bool {
    (&old.shape, &old.levels, &old.claims) != (&new.shape, &new.levels, &new.claims)
        || (&old.group, &old.owner, old.exclusive) != (&new.group, &new.owner, new.exclusive)
}
