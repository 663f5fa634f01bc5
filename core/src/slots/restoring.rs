//! Placements on record, put back after a restart or a change of the record.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::{
    ConditionType, DegradedReason, FluxJob, FluxJobStatus, conditions, names, placement,
};

use crate::jobs::job::{Identity, Lifecycle, Member, RetainedSlot, Seating, Stalled, Style};
use crate::jobs::seats::PodIndex;
use crate::jobs::setbacks::Setback;
use crate::parts::Slots;
use crate::records::record;
use crate::records::record::pod_set_at;
use crate::records::times::time_of;
use crate::recovery::ended_as;
use crate::sound::{Lookup, Sound};
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{NodeName, OwnerKind, Pod, Uid};

impl Slots<'_> {
    /// What another leader wrote while this one works is news like any other: a place in the queue
    /// that is on record stays, and so does an end; a placement is followed, or taken back before
    /// anything else is done.
    pub(crate) fn heed_status(&mut self, id: JobId, object: &FluxJob) -> Sound {
        let queued_at = self.jobs.place_on_record(id, object, self.clock);
        let Some(status) = &object.status else { return Ok(()) };
        let job = self.jobs.all.known_mut(&id)?;
        if job.style == Style::Elastic {
            // Its pods queue one by one, and may go on after its end.
            return Ok(());
        }
        if queued_at.is_some() && job.queued_at != queued_at {
            job.queued_at = queued_at;
            self.agenda.touched.insert(id);
        }
        if !status.placement.is_empty() && job.style == Style::Gang && !job.writes_ahead() {
            job.seats.note_on_record(true);
            self.withdraw(id, "an earlier leader has placed it since", Setback::LostRace)?;
        }
        let job = self.jobs.all.known_mut(&id)?;
        let Some(end) = ended_as(status) else { return Ok(()) };
        let completed_at = status.completion_time.as_ref().map(time_of);
        if job.ended_as.is_none() || job.completed_at != completed_at {
            job.ended_as = Some(end);
            job.completed_at = completed_at;
            if job.is_finished() {
                job.life = Lifecycle::Finished(end);
            }
            self.agenda.touched.insert(id);
        }
        Ok(())
    }

    /// A gang whose placement was written takes its seats again: bound pods where they are, the
    /// others where the placement says, if that still fits.
    pub(crate) fn restore_placement(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        if job.style != Style::Gang {
            return Ok(());
        }
        let counted = self.jobs.counted(job);
        let had_begun = job.record.status.as_deref().is_some_and(is_scheduled);
        let was_left =
            self.jobs.live(job).any(Member::is_bound) || (had_begun && !counted.is_empty());
        if was_left && !counted.iter().any(|member| member.is_bound()) {
            // What ran is gone or on its way out, and no Binding of those that follow has had an
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
        let written = job
            .record
            .status
            .as_deref()
            .map(|status| status.placement.as_slice())
            .unwrap_or_default();
        let seats: Vec<(usize, NodeName)> = match placement::expand(written) {
            Ok(seats) => seats
                .into_iter()
                .map(|(set, _, node)| (pod_set_at(set), NodeName::from(node)))
                .collect(),
            Err(error) => {
                tracing::error!(job = %job.key, %error, "status.placement cannot be read: pods that wait are placed anew");
                Vec::new()
            }
        };
        let (now, wanted) = (self.clock.now, self.jobs.wanted(job));
        let bound_on_record = job
            .record
            .status
            .as_deref()
            .map_or(0, |status| usize::try_from(status.bound).unwrap_or(0));
        let says_degraded = job.record.status.as_deref().is_some_and(|status| {
            conditions::of_type(&status.conditions, ConditionType::Degraded)
                .is_some_and(|it| it.status == "True")
        });
        let most_on_record =
            job.record.status.as_deref().and_then(|status| record::most_bound(&status.conditions));
        let nodes_total = job.record.status.as_deref().map_or(0, |status| status.total);
        let stalled = job.record.status.as_deref().and_then(stall_on_record);
        // One that somebody else began, or that has given seats up, is not whole with those that it
        // has.
        let is_group = matches!(job.identity, Identity::Group(_));
        let size =
            || wanted.max(self.sight().start_size_now(job).filter(|_| is_group).unwrap_or(0));
        let stalled_size = match &stalled {
            None => 0,
            // Of pods that nobody wants any more nobody can say how many there were to be: more
            // than it had by then.
            Some(_) => size().max(bound_on_record + 1),
        };
        let job = self.jobs.all.known_mut(&id)?;
        // It was whole if its record says that it runs, whatever it has lost since; unless it only
        // says so because none of its pods is left, and that it did not become whole in time.
        let ran = stalled.is_none() && job.record.status.as_deref().is_some_and(is_scheduled);
        if seats.is_empty() {
            // Not written ahead: it has started if anything of it runs.
            if !bound.is_empty() {
                let whole = ran || bound.len() >= wanted;
                job.life =
                    if whole { Lifecycle::Whole } else { Lifecycle::Starting { since: now } };
                job.start_size = if whole { 1 } else { wanted };
            }
            return Ok(());
        }
        // Of what has ended the record is all there is to keep.
        let has_ended = job.is_finished() || (job.ended_as.is_some() && job.live.is_empty());
        if !has_ended {
            job.start_size = seats.len().max(stalled_size);
            // One that never became whole and lost what was missing has not become whole by that.
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
            job.stalled = stalled;
        }
        job.most_bound = match (most_on_record, says_degraded) {
            (Some(most), _) => most,
            (None, true) => seats.len(),
            (None, false) => bound_on_record.max(bound.len()),
        };
        job.seats.restore(seats);
        for (uid, node, index) in bound {
            self.seat_bound(id, &uid, &node, index)?;
        }
        self.reseat_waiting(id)?;
        // Whole or not at all also holds for a placement that an earlier leader wrote and began
        // with nothing of.
        let job = self.jobs.all.known(&id)?;
        if job.life != Lifecycle::Placed {
            return Ok(());
        }
        let empty = job.seats.empty().count();
        // Where none of its pods is left there is nobody to take a slot from.
        if empty > 0 && !job.live.is_empty() {
            let why = format!("{empty} of its {} seats cannot be used any more", job.seats.len());
            self.withdraw(id, &why, Setback::LostRace)?;
        }
        Ok(())
    }

    /// A slot without a pod waits for the pod that the controller makes next, as it did before the
    /// restart.
    pub(crate) fn retain_free_seats(
        &mut self,
        id: JobId,
        elsewhere: &BTreeMap<Uid, usize>,
    ) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let Identity::Controller(namespace, uid) = &job.identity else { return Ok(()) };
        let made_by = self.jobs.controllers.get(namespace, uid);
        let Some(made_by) = made_by.filter(|made_by| made_by.kind == OwnerKind::Job) else {
            return Ok(());
        };
        if !job.life.is_placed() {
            return Ok(());
        }
        let controller = made_by.id.uid.clone();
        let there =
            self.jobs.live_members(job).len() + elsewhere.get(&controller).copied().unwrap_or(0);
        let missing = self.jobs.wanted(job).saturating_sub(there);
        let seats: Vec<(PodIndex, NodeName)> =
            job.seats.empty().take(missing).map(|(at, seat)| (at, seat.node().clone())).collect();
        // It was retained when its pod ended, if that is known.
        let left_at = |node: &NodeName| {
            let members = job.members.iter().filter_map(|uid| self.jobs.members.get(uid));
            let left = members.filter(|member| {
                member.stage.has_ended() && member.pod.node.as_ref() == Some(node)
            });
            left.filter_map(|member| member.pod.ended).max().map(|at| self.clock.core(at))
        };
        // By a clock that was set back since that may be still to come: then nobody knows how long
        // ago it was, and each process would count from its own start.
        let keep_secs = self.settings.slot_keep_secs_after(job.failed.saturating_sub(1));
        let is_over = |node: &NodeName| {
            left_at(node).is_some_and(|at| {
                at.plus_secs(keep_secs) <= self.clock.now
                    || self.clock.now.plus_secs(keep_secs) < at
            })
        };
        let seats: Vec<_> = seats.into_iter().filter(|(_, node)| !is_over(node)).collect();
        let Some(pod) = job
            .members
            .iter()
            .find_map(|uid| self.jobs.members.get(uid))
            .map(|m| Arc::clone(&m.pod))
        else {
            return Ok(());
        };
        let terms = (self.lifetime(&pod, id), self.sight().tenancy(&pod, id));
        for (at, node) in seats {
            let Some(rank) = self.planner.cluster.rank(&node) else { continue };
            if let Some(allocation) =
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
                self.retain_slot(id, slot);
            }
        }
        Ok(())
    }

    /// Pods that wait take the seats that nobody has, each the one of its number if it can. Of a
    /// gang that was whole somebody has left them: for so long as a slot would have been retained
    /// they are for the pods that its Job makes next. Whoever waits for longer to join it has a
    /// place in the queue, and the room may be another's by now.
    pub(crate) fn reseat_waiting(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let is_retained_for = |pod: &Pod| {
            let until = self.clock.core(pod.created).plus_secs(self.settings.slot_keep_secs);
            pod.owner.as_ref().is_some_and(|owner| owner.kind == OwnerKind::Job)
                && self.clock.now < until
        };
        let waiting: Vec<Uid> = self
            .jobs
            .live_members(job)
            .into_iter()
            .filter(|member| member.is_ready(names::GATE) && job.counts(member))
            .filter(|member| job.life != Lifecycle::Whole || is_retained_for(&member.pod))
            // Who still waits when a gang has said that it does not become whole waits for
            // something, in the queue.
            .filter(|_| job.stalled.is_none())
            .map(|member| member.pod.id.uid.clone())
            .collect();
        let mut reseated = Vec::new();
        for uid in waiting {
            let job = self.jobs.all.known(&id)?;
            let member = self.jobs.members.known(&uid)?;
            let pod = Arc::clone(&member.pod);
            let own = pod.completion_index.and_then(|number| job.seats.empty_of_number(number));
            let Some((at, seat)) = own.or_else(|| job.seats.empty().next()) else { break };
            let node = seat.node().clone();
            let terms = (self.lifetime(&pod, id), self.sight().tenancy(&pod, id));
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

    /// Who joins a gang that has begun is not sent to a seat that is in another part of a level by
    /// now: a node may have changed its labels since the seat was written. One that has not begun
    /// is looked at as a whole before its first Binding.
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

/// Why a gang that began did not become whole, as an earlier process said it.
fn stall_on_record(status: &FluxJobStatus) -> Option<Stalled> {
    let degraded = conditions::of_type(&status.conditions, ConditionType::Degraded)
        .filter(|it| it.status == "True")?;
    let reason = DegradedReason::from_name(&degraded.reason)
        .filter(|reason| *reason != DegradedReason::MemberLost)?;
    Some(Stalled { is_inherited: true, ..Stalled::new(reason, degraded.message.clone()) })
}

/// Its pods have been bound, by its record.
fn is_scheduled(status: &FluxJobStatus) -> bool {
    conditions::of_type(&status.conditions, ConditionType::Scheduled)
        .is_some_and(|it| it.status == "True")
}

impl Slots<'_> {
    /// Gives a pod that another scheduler has bound the seat on its node.
    pub(crate) fn seat_bound(
        &mut self,
        id: JobId,
        uid: &Uid,
        node: &NodeName,
        index: Option<u32>,
    ) -> Sound {
        let job = self.jobs.all.known_mut(&id)?;
        let at = job.seats.next_free_on(node, index, &job.retained_seats());
        job.seats.take(at, 0, node, uid);
        if let Some(member) = self.jobs.members.get_mut(uid) {
            member.seat = Some(at);
        }
        Ok(())
    }
}
