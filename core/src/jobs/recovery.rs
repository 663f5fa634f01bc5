//! Finding jobs again after a restart: what their FluxJobs say, where their placements put them,
//! and what belongs to nobody.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::{
    ConditionType, DegradedReason, FinishedReason, FluxJob, FluxJobStatus, WorkloadKind,
    conditions, names, placement, text,
};

use crate::in_flight::InFlight;
use crate::jobs::attach::completion_of;
use crate::jobs::grouping::{self, Belonging};
use crate::jobs::job::{Identity, Lifecycle, Member, RetainedSlot, Seating, Stalled, Style};
use crate::jobs::seats::PodIndex;
use crate::jobs::setbacks::Setback;
use crate::parts::{Members, Recovery, Refresh, Slots};
use crate::records::record::{self, pod_set_at, time_of};
use crate::records::recording::UNSEEN_MILLIS;
use crate::records::reference;
use crate::records::stored::Stored;
use crate::sound::{Lookup, Sound};
use crate::{ActionId, ActionKind, Core, Timer, WriteOutcome};
use fluxqueue_planner::queue::{JobId, PendingRequest};
use fluxqueue_workload::{Controller, NodeName, ObjectKey, OwnerKind, Pod, Time, Uid};

/// The reason of PodScheduled as long as a pod has gates, in the words of the API server.
const GATED: &str = "SchedulingGated";
/// The pause after a stray FluxJob could not be removed.
const STRAY_RETRY_MILLIS: i64 = 30_000;

impl Members<'_> {
    /// Takes up what the FluxJob of this name says, if there is one.
    pub(crate) fn adopt_record(&mut self, id: JobId, key: &ObjectKey) -> Sound {
        let Some(object) = self.records.get(key).cloned() else { return Ok(()) };
        let job = self.jobs.all.known_mut(&id)?;
        if object.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let Some(reference) = reference(&object) else { return Ok(()) };
        job.record.stored = match self.records.removal(&reference) {
            Some(action) => {
                Stored::Deleting { uid: reference.uid, action, based_on: version_of(&object) }
            }
            None => Stored::Present { uid: reference.uid },
        };
        job.record.observe(&object);
        self.heed_wishes(id, &object.spec.overrides)?;
        let place = self.jobs.place_on_record(id, &object, self.clock);
        let Some(status) = &object.status else { return Ok(()) };
        let job = self.jobs.all.known_mut(&id)?;
        job.pod_priority =
            job.pod_priority.or(status.workload.as_ref().and_then(|workload| workload.priority));
        job.seats.note_on_record(!status.placement.is_empty());
        job.queued_at = job.queued_at.or(place);
        job.is_late_entrant |= status.queued_at.is_some() && job.style != Style::Elastic;
        job.ended_as = ended_as(status);
        job.completed_at = status.completion_time.as_ref().map(time_of);
        job.started_at = status.start_time.as_ref().map(time_of).or(job.started_at);
        job.seats.placed_by(status.epoch);
        if job.ended_as.is_some() {
            // Of what has ended nobody counts any more how many there were.
            job.start_size = usize::try_from(status.total).unwrap_or(0);
        }
        if matches!(job.identity, Identity::Group(_)) && status.placement.is_empty() {
            // One whose pods are refused is not asked for its size.
            job.start_size = usize::try_from(status.total).unwrap_or(0);
        }
        for condition in &status.conditions {
            if let Some(warning) =
                ConditionType::from_name(&condition.type_).filter(|type_| type_.is_warning())
            {
                job.warnings.insert(warning, text::message(&condition.message).into_owned());
            }
        }
        Ok(())
    }

    /// One without an owner is removed by us: at once if its job never ended, else when its time is
    /// over; also one of a pod that is a part of another job by now. The others go with their
    /// owners. What people made themselves is not ours.
    pub(crate) fn consider_stray(&mut self, key: &ObjectKey) -> Sound {
        let Some(object) = self.records.get(key) else { return Ok(()) };
        let (label, value) = names::MANAGED_BY;
        let ours = object
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(label))
            .is_some_and(|by| by == value);
        if !ours {
            return Ok(());
        }
        let ended = completion_of(object);
        let owned =
            object.metadata.owner_references.as_ref().is_some_and(|owners| !owners.is_empty());
        let due = match ended {
            Some(at) if owned => self.sight().record_due(at),
            None if owned && !self.is_of_a_part(object) => return self.adopt_memberless(key),
            // The watch may show a FluxJob a little earlier than its pods.
            _ => self.clock.now.plus_millis(UNSEEN_MILLIS),
        };
        self.agenda.timers.wake(Timer::Stray(key.clone()), due.max(self.clock.now.plus_millis(1)));
        Ok(())
    }

    /// The FluxJob of an object that makes pods, of which there are none now: it is told of the
    /// object's end all the same.
    fn adopt_memberless(&mut self, key: &ObjectKey) -> Sound {
        let Some(object) = self.records.get(key).cloned() else { return Ok(()) };
        let workload = &object.spec.workload_ref;
        let is_workload = |made_by: &&Arc<Controller>| {
            grouping::workload_kind(&made_by.kind) == Some(workload.kind)
                && *made_by.id.key.name == *workload.name
        };
        let made_by = self.jobs.controllers.get(&key.namespace, &workload.uid).filter(is_workload);
        let Some(made_by) = made_by else { return Ok(()) };
        let style = if made_by.kind == OwnerKind::Job { Style::Gang } else { Style::Elastic };
        let belonging = Belonging {
            identity: Identity::Controller(Arc::clone(&key.namespace), made_by.id.uid.clone()),
            kind: object.spec.workload_ref.kind,
            style,
            name: Arc::clone(&made_by.id.key.name),
            uid: made_by.id.uid.clone(),
        };
        let Some(reporter) = self.settings.scheduler_names.first().cloned() else { return Ok(()) };
        if self.jobs.by_identity.contains_key(&belonging.identity) {
            return Ok(());
        }
        let owners = object.metadata.owner_references.clone().unwrap_or_default();
        let id = self.new_job(&belonging, key.clone(), owners, reporter);
        self.slots().restore_placement(id)?;
        self.agenda.touched.insert(id);
        Ok(())
    }

    /// The pod counted as lone, and is there still: with the pods of its controller, or of its
    /// group. Or nobody knows yet what it is a part of.
    fn is_of_a_part(&self, object: &FluxJob) -> bool {
        let pod = &*object.spec.workload_ref.uid;
        let is_of_pod = object.spec.workload_ref.kind == WorkloadKind::Pod;
        is_of_pod
            && (self.jobs.members.contains_key(pod) || self.intake.awaiting_owner.contains(pod))
    }
}

impl Refresh<'_> {
    /// The place of a job of which none is on record: from now on. What a new process finds waiting
    /// has waited since the last of these pods was made, but when other gates than ours were taken
    /// off one is not known.
    pub(crate) fn new_place(&self, pods: &[Uid]) -> Time {
        let now = self.clock.wall_now();
        let since = |pod: &Pod| {
            let was_gated =
                pod.scheduled_condition.as_ref().is_some_and(|condition| condition.reason == GATED);
            if was_gated { now } else { pod.created.min(now) }
        };
        let pods = pods.iter().filter_map(|uid| self.jobs.members.get(uid));
        pods.map(|member| since(&member.pod))
            .max()
            .filter(|_| self.intake.taking_over)
            .unwrap_or(now)
    }
}

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
    fn restore_placement(&mut self, id: JobId) -> Sound {
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
            self.jobs.seat_bound(id, &uid, &node, index)?;
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
    fn retain_free_seats(&mut self, id: JobId, elsewhere: &BTreeMap<Uid, usize>) -> Sound {
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

impl Recovery<'_> {
    /// Gives these pods their jobs, and takes up what is stored of those jobs that are new.
    pub(crate) fn find_jobs(&mut self, mut pods: Vec<Arc<Pod>>) {
        // Without a record, age is the order; names make it the same each time.
        pods.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        self.jobs.members.reserve(pods.len());
        let first_new = self.jobs.next_job;
        for pod in pods {
            let done = self.members().attach(pod, false);
            self.agenda.heed(done);
        }
        self.stand_ins().stand_in_for_all(|_| true);
        let ids: Vec<JobId> = self.jobs.all.range(first_new..).map(|(id, _)| *id).collect();
        for id in &ids {
            let done = self.slots().restore_placement(*id);
            self.agenda.heed(done);
        }
        // Pods that wait come first: what nobody sits on is retained after that.
        let elsewhere = self.pods_elsewhere();
        for id in ids {
            let done = self.slots().retain_free_seats(id, &elsewhere);
            self.agenda.heed(done);
        }
    }

    /// How many pods of each Job have nodes as pods of another job, by labels that say so since:
    /// each takes a slot of its Job all the same.
    fn pods_elsewhere(&self) -> BTreeMap<Uid, usize> {
        let mut elsewhere = BTreeMap::new();
        for member in self.jobs.members.values().filter(|member| member.is_bound()) {
            let made_by = self
                .jobs
                .controllers
                .that_made(&member.pod)
                .filter(|made_by| made_by.kind == OwnerKind::Job);
            let job = self.jobs.all.get(&member.job);
            let is_of = |uid: &Uid| {
                job.is_some_and(
                    |job| matches!(&job.identity, Identity::Controller(_, of) if of == uid),
                )
            };
            if let Some(made_by) = made_by.filter(|made_by| !is_of(&made_by.id.uid)) {
                *elsewhere.entry(made_by.id.uid.clone()).or_default() += 1;
            }
        }
        elsewhere
    }

    /// Who has begun nothing of what his placement says, and is to be spread or near, is disturbed
    /// by nobody in this process either.
    pub(crate) fn find_who_is_to_begin(&mut self) {
        let placed = self.jobs.all.values().filter(|job| job.life == Lifecycle::Placed);
        let ids: Vec<JobId> = placed.map(|job| job.id).collect();
        for id in ids {
            let live: Vec<Uid> = self
                .jobs
                .all
                .get(&id)
                .map(|job| job.live.values().cloned().collect())
                .unwrap_or_default();
            for uid in live {
                if let Some(member) = self.jobs.members.get_mut(&uid) {
                    member.stance = self.planner.cluster.stance(&member.pod);
                }
            }
            let placed = self.jobs.all.get(&id).and_then(|job| self.sight().asking().placed(job));
            if let Some((request, nodes)) =
                placed.filter(|(request, _)| request.is_to_stay_undisturbed())
            {
                self.planner.held_nodes.note_beginning(nodes, &request, &PendingRequest::Start(id));
            }
        }
    }

    /// FluxJobs that nobody's pods belong to.
    pub(crate) fn sort_out_strays(&mut self) {
        let keys: Vec<ObjectKey> = self
            .records
            .keys()
            .filter(|key| !self.jobs.by_key.contains_key(*key))
            .cloned()
            .collect();
        for key in keys {
            let done = self.members().consider_stray(&key);
            self.agenda.heed(done);
        }
    }

    pub(crate) fn remove_stray(&mut self, key: &ObjectKey) {
        if self.jobs.by_key.contains_key(key) {
            return;
        }
        let Some(object) = self.records.get(key) else { return };
        if self.intake.awaiting_owner.contains(&object.spec.workload_ref.uid) {
            return self
                .agenda
                .timers
                .wake(Timer::Stray(key.clone()), self.clock.now.plus_millis(UNSEEN_MILLIS));
        }
        let Some(reference) = reference(object) else { return };
        let kind = ActionKind::DeleteFluxJob {
            job: reference.clone(),
            resource_version: version_of(object),
        };
        let action = self.agenda.actions.ask(kind, InFlight::Stray(key.clone()));
        self.records.note_removal(reference, action);
    }
}

impl Core {
    /// How the removal of a stray FluxJob ended. If a job has taken that up since, the outcome is
    /// about its record.
    pub(crate) fn stray_done(
        &mut self,
        key: ObjectKey,
        action: ActionId,
        outcome: WriteOutcome,
    ) -> Sound {
        self.records.end_removal(&key, action);
        let adopted = self.jobs.by_key.get(&key).copied();
        if let Some(id) = adopted {
            self.recording().record_done(id, action, outcome)?;
        } else if let WriteOutcome::Failed(_) | WriteOutcome::Conflict = outcome {
            self.agenda
                .timers
                .wake(Timer::Stray(key), self.clock.now.plus_millis(STRAY_RETRY_MILLIS));
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

/// How the job ended, by its record.
pub(crate) fn ended_as(status: &FluxJobStatus) -> Option<FinishedReason> {
    FinishedReason::among(&status.conditions)
}

fn version_of(object: &FluxJob) -> Option<Arc<str>> {
    object.metadata.resource_version.as_deref().map(Arc::from)
}
