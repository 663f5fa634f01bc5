//! Placements on record, restored after a restart or a change of the record.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::{
    ConditionType, DegradedReason, FluxJob, FluxJobStatus, conditions, names, placement,
};

use crate::jobs::job::Style;
use crate::jobs::lifecycle::{End, Lifecycle};
use crate::jobs::member::Member;
use crate::jobs::retained::RetainedSlot;
use crate::jobs::seats::PodIndex;
use crate::jobs::seats::Seating;
use crate::jobs::setbacks::Setback;
use crate::jobs::stalled::Stalled;
use crate::parts::Slots;
use crate::records::record;
use crate::records::record::pod_set_at;
use crate::sound::{Lookup, Sound};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{NodeName, Pod, Uid};

impl Slots<'_> {
    /// Takes up a status that another leader wrote while this one works: a place in the queue that
    /// is on record stays, and so does an end; a placement is followed, or taken back before any
    /// other step.
    pub(crate) fn heed_status(&mut self, id: JobId, object: &FluxJob) -> Sound {
        let queued_at = self.jobs.place_on_record(id, object, self.clock);
        // A FluxJob without a status says nothing about its job yet.
        let Some(status) = &object.status else { return Ok(()) };
        let job = self.jobs.all.known_mut(&id)?;
        if job.style == Style::Elastic {
            // Its pods queue one by one, and may go on after its end.
            return Ok(());
        }
        if queued_at.is_some() && job.waiting.since != queued_at {
            job.waiting.since = queued_at;
            self.agenda.touched.insert(id);
        }
        if !status.placement.is_empty() && job.style == Style::Gang && !job.writes_ahead() {
            job.start.seats.note_on_record(true);
            self.withdraw(id, "an earlier leader has placed it since", Setback::LostRace)?;
        }
        let job = self.jobs.all.known_mut(&id)?;
        if let Some(end) = End::on_record(status)
            && (job.record.seen.end.is_none() || job.completed_at() != end.at)
        {
            job.record.seen.end = Some(end);
            if job.is_finished() {
                job.life = Lifecycle::Finished(end);
            }
            self.agenda.touched.insert(id);
        }
        Ok(())
    }

    /// Restores the seats of a gang with a written placement: bound pods stay where they are, the
    /// others go where the placement says, if that still fits.
    pub(crate) fn restore_placement(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if job.style != Style::Gang {
            return Ok(());
        }
        let counted = self.jobs.counted(job);
        let had_begun = job.status_on_record().is_some_and(is_scheduled);
        let was_left =
            self.jobs.live(job).any(Member::is_bound) || (had_begun && !counted.is_empty());
        if was_left && !counted.iter().any(|member| member.is_bound()) {
            // The pods that ran are gone or leaving, and no Binding of their successors has had an
            // effect: these start together.
            return Ok(());
        }
        let bound: Vec<(Uid, NodeName, Option<u32>)> = counted
            .into_iter()
            .filter(|member| member.is_bound())
            .filter_map(|m| {
                Some((m.pod.id.uid.clone(), m.pod.node.clone()?, m.pod.completion_index))
            })
            .collect();
        let written =
            job.status_on_record().map(|status| status.placement.as_slice()).unwrap_or_default();
        let seats: Vec<(usize, NodeName)> = match placement::expand(written) {
            Ok(seats) => seats
                .into_iter()
                .map(|(set, _, node)| (pod_set_at(set), NodeName::from(node)))
                .collect(),
            Err(error) => {
                tracing::error!(job = %job.key, %error, "status.placement cannot be read: pods \
                    that wait are placed again");
                Vec::new()
            }
        };
        let (now, wanted) = (self.clock.now, self.jobs.wanted(job));
        let bound_on_record =
            job.status_on_record().map_or(0, |status| usize::try_from(status.bound).unwrap_or(0));
        let says_degraded = job.status_on_record().is_some_and(|status| {
            conditions::of_type(&status.conditions, ConditionType::Degraded)
                .is_some_and(|it| it.status == "True")
        });
        let most_on_record = job.status_on_record().and_then(record::most_bound);
        let nodes_total = job.status_on_record().map_or(0, |status| status.total);
        let stalled = job.status_on_record().and_then(stall_on_record);
        // A gang that another client began, or that has given seats up, is not whole with its
        // present seats.
        let is_group = job.workload.identity.is_group();
        let size =
            || wanted.max(self.sight().start_size_now(job).filter(|_| is_group).unwrap_or(0));
        let stalled_size = match &stalled {
            None => 0,
            // If no pods are wanted any more, the size of the start is not known: it was larger
            // than the number of pods bound by then.
            Some(_) => size().max(bound_on_record + 1),
        };
        let is_any_staying = self.jobs.remaining(job).into_iter().any(Member::is_bound);
        let job = self.jobs.all.known_mut(&id)?;
        // The gang was whole if its record says that it runs, even if it has lost pods since. It
        // was not if the record says that only because none of its pods is left, and also that it
        // did not become whole in time.
        let ran = stalled.is_none() && job.status_on_record().is_some_and(is_scheduled);
        if seats.is_empty() {
            // The job was not written ahead: it has started if any of its pods runs. Pods that
            // leave are what an earlier start has left behind.
            if is_any_staying {
                let whole = ran || bound.len() >= wanted;
                job.life =
                    if whole { Lifecycle::Whole } else { Lifecycle::Starting { since: now } };
                job.start.size = if whole { 1 } else { wanted };
            }
            return Ok(());
        }
        // After the end, the record is all that is kept.
        let has_ended =
            job.is_finished() || (job.record.seen.end.is_some() && job.pods.live.is_empty());
        if !has_ended {
            job.start.size = seats.len().max(stalled_size);
            // A gang that never became whole has not become whole by the loss of its missing pods.
            let all_left_are_bound =
                i32::try_from(bound.len()).is_ok_and(|n| n >= nodes_total && n > 0);
            let is_there = bound.len() >= seats.len().max(stalled_size)
                || (all_left_are_bound && stalled.is_none());
            let whole = is_there || ran;
            job.life = match bound.len() {
                _ if whole => Lifecycle::Whole,
                0 => Lifecycle::Placed,
                _ => Lifecycle::Starting { since: now },
            };
        }
        if job.life != Lifecycle::Whole {
            job.start.stalled = stalled;
        }
        job.start.most_bound = match (most_on_record, says_degraded) {
            (Some(most), _) => most,
            (None, true) => seats.len(),
            (None, false) => bound_on_record.max(bound.len()),
        };
        job.start.seats.restore(seats);
        for (uid, node, index) in bound {
            self.seat_bound(id, &uid, &node, index)?;
        }
        self.reseat_waiting(id)?;
        // A placement that an earlier leader wrote, and of which no pod began, is whole or not at
        // all too.
        let job = self.jobs.all.known(&id)?;
        if job.life != Lifecycle::Placed {
            return Ok(());
        }
        let empty = job.start.seats.empty().count();
        // If none of its pods is left, there is no slot to take back.
        if empty > 0 && !job.pods.live.is_empty() {
            let why =
                format!("{empty} of its {} seats cannot be used any more", job.start.seats.len());
            self.withdraw(id, &why, Setback::LostRace)?;
        }
        Ok(())
    }

    /// Retains slots without pods for the pods that the controller makes next, as before the
    /// restart.
    pub(crate) fn retain_free_seats(
        &mut self,
        id: JobId,
        elsewhere: &BTreeMap<Uid, usize>,
    ) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let made_by = self.jobs.controllers.of_job(&job.workload.identity);
        // Only the pods of a Job are sure to have successors: a group may have none, a Job that is
        // gone makes no pods, and the pods of other controllers have no seats.
        let Some(made_by) = made_by.filter(|made_by| made_by.kind.runs_to_completion()) else {
            return Ok(());
        };
        if !job.life.is_placed() {
            return Ok(());
        }
        let controller = made_by.id.uid.clone();
        let there =
            self.jobs.live_members(job).len() + elsewhere.get(&controller).copied().unwrap_or(0);
        let missing = self.jobs.wanted(job).saturating_sub(there);
        let seats: Vec<(PodIndex, NodeName)> = job
            .start
            .seats
            .empty()
            .take(missing)
            .map(|(at, seat)| (at, seat.node().clone()))
            .collect();
        // A slot was retained from the end of its pod, if that is known.
        let left_at = |node: &NodeName| {
            let members = job.pods.all.iter().filter_map(|uid| self.jobs.members.get(uid));
            let left = members.filter(|member| {
                member.stage.has_ended() && member.pod.node.as_ref() == Some(node)
            });
            left.filter_map(|member| member.pod.ended).max().map(|at| self.clock.core(at))
        };
        // If the clock was set back, that end may be in the future: then its age is not known, and
        // each process would count from its own start.
        let keep_secs = self.settings.slot_keep_secs_after(job.pods.failed.saturating_sub(1));
        let is_over = |node: &NodeName| {
            left_at(node).is_some_and(|at| {
                at.plus_secs(keep_secs) <= self.clock.now
                    || self.clock.now.plus_secs(keep_secs) < at
            })
        };
        let seats: Vec<_> = seats.into_iter().filter(|(_, node)| !is_over(node)).collect();
        // Without a pod of the job, the demand of the next one is not known.
        let Some(pod) = job
            .pods
            .all
            .iter()
            .find_map(|uid| self.jobs.members.get(uid))
            .map(|m| Arc::clone(&m.pod))
        else {
            return Ok(());
        };
        let terms = (self.lifetime(&pod, id), self.sight().tenancy(&pod, id));
        for (at, node) in seats {
            if let Some(rank) = self.planner.cluster.rank(&node)
                && let Some(allocation) =
                    self.planner.ledger.allocate_on(&mut self.planner.cluster, rank, &pod, terms)
            {
                self.queueing().counts_are_unsure_for(
                    i64::try_from(keep_secs).unwrap_or(i64::MAX / 1000) * 1000,
                );
                let (controller, until) = (controller.clone(), self.clock.now.plus_secs(keep_secs));
                let slot = RetainedSlot {
                    allocation,
                    seat: Some(at),
                    controller,
                    is_of_unknown_kind: false,
                    until,
                };
                self.retain_slot(id, slot)?;
            }
        }
        Ok(())
    }

    /// Gives waiting pods the free seats, each the seat of its number if possible. If a gang was
    /// whole, pods have left these seats: for as long as a slot would have been retained, they are
    /// for the pods that its Job makes next. A pod that waits for longer to join the gang has a
    /// place in the queue, and the room may have been given to another job.
    pub(crate) fn reseat_waiting(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let is_retained_for = |pod: &Pod| {
            let until = self.clock.core(pod.created).plus_secs(self.settings.slot_keep_secs);
            pod.owner.as_ref().is_some_and(|owner| owner.kind.runs_to_completion())
                && self.clock.now < until
        };
        let waiting: Vec<Uid> = self
            .jobs
            .live_members(job)
            .into_iter()
            .filter(|member| member.is_ready(names::GATE) && job.counts(member))
            .filter(|member| job.life != Lifecycle::Whole || is_retained_for(&member.pod))
            // A pod that still waits after its gang has reported a stall waits in the queue.
            .filter(|_| job.start.stalled.is_none())
            .map(|member| member.pod.id.uid.clone())
            .collect();
        let mut reseated = Vec::new();
        for uid in waiting {
            let job = self.jobs.all.known(&id)?;
            let member = self.jobs.members.known(&uid)?;
            let pod = Arc::clone(&member.pod);
            let own =
                pod.completion_index.and_then(|number| job.start.seats.empty_of_number(number));
            let Some((at, seat)) = own.or_else(|| job.start.seats.empty().next()) else { break };
            let node = seat.node().clone();
            let terms = (self.lifetime(&pod, id), self.sight().tenancy(&pod, id));
            // The node of the seat may be gone.
            let Some(rank) = self.planner.cluster.rank(&node) else { continue };
            if !self.planner.cluster.class(&pod.shape.constraints).now.contains(rank) {
                continue;
            }
            if let Some(allocation) =
                self.planner.ledger.allocate_on(&mut self.planner.cluster, rank, &pod, terms)
            {
                self.assign(&uid, allocation, Seating::At(at))?;
                reseated.push(uid);
            }
        }
        self.leave_seats_elsewhere(id, reseated)?;
        Ok(())
    }

    /// Takes seats back from pods that join a gang that has begun, if a seat is in another part of
    /// a level by now: a node may have changed its labels since the seat was written. A gang that
    /// has not begun is checked as a whole before its first Binding.
    fn leave_seats_elsewhere(&mut self, id: JobId, reseated: Vec<Uid>) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if job.life == Lifecycle::Placed {
            return Ok(());
        }
        let placed =
            self.jobs.live_members(job).into_iter().filter(|member| member.allocation().is_some());
        let placed: Vec<Uid> = placed.map(|member| member.pod.id.uid.clone()).collect();
        if reseated.is_empty() || self.torn_apart(id, &placed).is_none() {
            return Ok(());
        }
        for uid in reseated {
            self.unassign(&uid)?;
        }
        Ok(())
    }
}

/// Returns why a gang that began did not become whole, by the record of an earlier process.
fn stall_on_record(status: &FluxJobStatus) -> Option<Stalled> {
    let degraded = conditions::of_type(&status.conditions, ConditionType::Degraded)
        .filter(|it| it.status == "True")?;
    let reason = DegradedReason::from_name(&degraded.reason)
        .filter(|reason| *reason != DegradedReason::MemberLost)?;
    Some(Stalled::OnRecord { reason, message: degraded.message.clone(), found_first: None })
}

/// True if its pods have been bound, by its record.
fn is_scheduled(status: &FluxJobStatus) -> bool {
    conditions::of_type(&status.conditions, ConditionType::Scheduled)
        .is_some_and(|it| it.status == "True")
}

impl Slots<'_> {
    /// Gives a pod the seat on the node to which it was bound, by another scheduler or before a
    /// restart.
    pub(crate) fn seat_bound(
        &mut self,
        id: JobId,
        uid: &Uid,
        node: &NodeName,
        index: Option<u32>,
    ) -> Sound {
        let job = self.jobs.all.known_mut(&id)?;
        let at = job.start.seats.next_free_on(node, index);
        job.start.seats.take(at, 0, node, uid);
        let member = self.jobs.members.known_mut(uid)?;
        member.seat = Some(at);
        Ok(())
    }
}
