//! Which job a pod becomes a part of, and the jobs that are made for that.

use std::sync::Arc;

use fluxqueue_api::{ConditionType, FluxJob, WorkloadKind, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::jobs::awaiting_owner::AwaitingPod;
use crate::jobs::controllers::MadeBy;
use crate::jobs::grouping;
use crate::jobs::grouping::Belonging;
use crate::jobs::job::{Identity, InQueue, Job, JobPods, JobStart, Style, Told, Wait, Workload};
use crate::jobs::lifecycle::{End, Lifecycle};
use crate::jobs::member::Member;
use crate::jobs::order::PodOrder;
use crate::jobs::pod_groups::{Grouped, key_of};
use crate::jobs::stage::Stage;
use crate::jobs::suspended::Suspended;
use crate::occupancy::Foreign;
use crate::parts::Members;
use crate::records::stored::{Record, completion_of};
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use fluxqueue_machine::defect::OrDefect;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::{ObjectKey, Owner, Phase, Pod, Time, Uid};

/// How long, in milliseconds, a pod waits for the object that made it; after that it counts as a
/// lone pod.
pub(crate) const OWNER_WAIT_MILLIS: i64 = 30_000;

impl Members<'_> {
    pub(crate) fn new_member(&mut self, pod: Arc<Pod>) -> Sound {
        if !self.intake.synced {
            self.intake.unsorted.put(pod);
            return Ok(());
        }
        if let Some(old) = self.intake.awaiting_owner.get(&pod.id.uid) {
            self.occupancy.by_node.unlist(&old.pod);
        }
        self.attach(pod, false)?;
        Ok(())
    }

    /// Gives a pod its job, or parks it until its controller is seen.
    pub(crate) fn attach(&mut self, pod: Arc<Pod>, orphan: bool) -> Sound {
        if let Some(stand_in) = self.occupancy.foreign.remove(&pod.id.uid) {
            self.slots().free_allocations(stand_in.allocation);
        }
        let pod = self.jobs.controllers.groups.with_topology(pod);
        self.occupancy.by_node.list(&pod);
        let left_behind = if orphan { self.left_behind(&pod) } else { None };
        let Some(belonging) = left_behind.or_else(|| self.belonging(&pod, orphan)) else {
            let until = self.clock.now.plus_millis(OWNER_WAIT_MILLIS);
            let uid = pod.id.uid.clone();
            let until =
                self.intake.awaiting_owner.insert(AwaitingPod { pod: Arc::clone(&pod), until });
            self.agenda.timers.wake(Timer::AwaitingPod(uid.clone()), until);
            // A pod on a node takes room there even while its job is not known.
            let foreign = Foreign { pod, allocation: None, reported: true };
            self.occupancy.foreign.insert(uid.clone(), foreign);
            return self.slots().settle(&uid);
        };
        self.intake.awaiting_owner.remove(&pod.id.uid);
        let id = self.job_of(&pod, &belonging);
        let uid = pod.id.uid.clone();
        // A pod that a new process finds came when it was made, not just now.
        let joined = if self.intake.taking_over {
            self.clock.core(pod.created).min(self.clock.now)
        } else {
            self.clock.now
        };
        let job = self.jobs.all.get_mut(&id).expect("job_of returns a job that is there");
        // An earlier process already waited for pods that cannot come, even if the API server's
        // clock differs by now.
        let was_waited_for =
            self.intake.taking_over && job.told.warnings.contains_key(&ConditionType::SizeClamped);
        let joined = if was_waited_for { Time(0) } else { joined };
        job.pods.joined_at =
            if job.pods.all.is_empty() { joined } else { job.pods.joined_at.max(joined) };
        job.pods.all.insert(uid.clone());
        job.pods.last_end = job.pods.last_end.max(pod.ended);
        let stage = if pod.phase.is_terminal() {
            match pod.phase {
                Phase::Succeeded => job.pods.succeeded += 1,
                _ => job.pods.failed += 1,
            }
            Stage::Ended
        } else if pod.node.is_some() {
            job.start.at = job.start.at.or(pod.started).or(Some(pod.created));
            Stage::OnUnknownNode
        } else {
            Stage::Waiting
        };
        if !stage.has_ended() {
            job.pods.live.insert(PodOrder::of(&pod), uid.clone());
        }
        let (ignored, half) = (pod.soft_ignored.join(", "), pod.half_group_label());
        // A lone pod on its node may have no record: its warnings were reported while it waited.
        let was_told =
            job.style == Style::Lone && !stage.is_waiting() && !self.settings.record_lone_pods;
        self.jobs.note_controller(id, &pod)?;
        self.jobs.members.insert(uid.clone(), Member::new(pod, id, stage));
        self.slots().note_volumes(&uid);
        self.slots().settle(&uid)?;
        if !ignored.is_empty() && !was_told {
            self.notices().warn_once(
                id,
                ConditionType::SoftTermsIgnored,
                format!("accepted, but not honoured yet: {ignored}"),
            )?;
        }
        if let Some(text) = half.filter(|_| !was_told) {
            self.notices().warn_once(id, ConditionType::IncompleteGroupLabels, text)?;
        }
        self.agenda.touched.insert(id);
        Ok(())
    }

    /// Returns the job of a pod with a controller that is gone, if that job is known, or its
    /// FluxJob still exists, or the pod is on a node. The pod is about to be deleted. Until then it
    /// is no job of its own: such a job could start although the former one was held, or had used
    /// up its time. Running pods stay one job, as they were before their controller went.
    fn left_behind(&self, pod: &Pod) -> Option<Belonging> {
        let MadeBy::Unseen(owner) = self.jobs.controllers.maker(pod) else { return None };
        let is_of_gang = self.jobs.controllers.groups.grouped(pod, None) == Grouped::Together;
        let Owner { kind, name, uid, .. } = owner;
        let belonging = grouping::of_maker(&pod.id.key.namespace, kind, name, uid)
            .filter(|_| pod.group.is_none() && !is_of_gang)?;
        let (key, _) = self.record_key(pod, &belonging);
        let is_known = self.jobs.index.by_identity.contains_key(&belonging.identity)
            || self.records.get(&key).is_some();
        (is_known || pod.node.is_some()).then_some(belonging)
    }

    fn belonging(&self, pod: &Pod, orphan: bool) -> Option<Belonging> {
        grouping::belonging(pod, &self.jobs.controllers, orphan, |now| self.began_alone(pod, now))
    }

    /// True if a pod that runs or has ended did not begin with the others of its PodGroup, by the
    /// records. While the group, which says it, is not there, a record of its own says so, or that
    /// of the group if it tells of no start. If the group is there, and starts its pods together by
    /// `now`, a record of the pod's own has to tell of its start: it may have waited by itself.
    fn began_alone(&self, pod: &Pod, now: Grouped) -> bool {
        let has_begun = pod.node.is_some() || pod.phase.is_terminal();
        let Some(named) = pod.scheduling_group.as_ref().filter(|_| has_begun) else { return false };
        let own = names::fluxjob_name(&pod.id.key.name, WorkloadKind::Pod, &pod.id.uid);
        let own = ObjectKey::new(Arc::clone(&pod.id.key.namespace), own);
        let group = Identity::PodGroup(key_of(pod, named), named.uid.clone());
        // A pod that runs counts as bound there; one that has ended does not any more.
        let tells_of_start = |object: &FluxJob| {
            object.status.as_ref().is_some_and(|status| {
                let is_past = pod.phase.is_terminal() && status.start_time.is_some();
                is_past || status.bound > 0 || !status.placement.is_empty()
            })
        };
        match (self.records.get(&own), now) {
            (own, Grouped::Together) => own.is_some_and(|object| tells_of_start(object)),
            (Some(_), _) => true,
            (None, _) => !self.records.of_group(&group).any(|(_, object)| tells_of_start(object)),
        }
    }

    fn job_of(&mut self, pod: &Arc<Pod>, belonging: &Belonging) -> JobId {
        if let Some(id) = self.ended_group_of(pod, belonging) {
            return id;
        }
        if let Some(id) = self.jobs.index.by_identity.get(&belonging.identity) {
            let id = *id;
            if let Some(job) = self.jobs.all.get_mut(&id).filter(|job| job.was_left()) {
                // Its pods had gone elsewhere, and come back before its record was removed.
                job.life = Lifecycle::Waiting;
            }
            // Several objects may make a group: its record goes with the last of them.
            if belonging.kind.is_group() {
                let more = grouping::owners(pod, belonging, &self.jobs.controllers);
                if let Some(job) = self.jobs.all.get_mut(&id) {
                    for owner in more {
                        if !job.workload.owners.iter().any(|known| known.uid == owner.uid) {
                            job.workload.owners.push(owner);
                        }
                    }
                }
            }
            return id;
        }
        let (key, named_after) = self.record_key(pod, belonging);
        let owners = grouping::owners(pod, belonging, &self.jobs.controllers);
        let uid = match (&belonging.identity, self.records.get(&key)) {
            // If its FluxJob has to be made again, its name and this uid still have to match.
            (Identity::PodGroup(_, None), Some(record)) => {
                Uid::from(record.spec.workload_ref.uid.as_str())
            }
            _ => named_after,
        };
        self.new_job(&belonging.named_after(uid), key, owners, Arc::clone(&pod.scheduler))
    }

    /// Returns the ended group that a pod belongs to after a restart, rather than to a new group of
    /// the name: the group that ended next after the pod was made, by the API server's clock. If
    /// that clock has been set back since, there may be none; then the pod belongs to the last one,
    /// unless a new group is there.
    fn ended_group_of(&mut self, pod: &Arc<Pod>, belonging: &Belonging) -> Option<JobId> {
        if !belonging.kind.is_group() || !pod.phase.is_terminal() {
            return None;
        }
        let ended = |object: &FluxJob| {
            let status = object.status.as_ref()?;
            let end = End::on_record(status)?;
            Some((completion_of(object)?, end))
        };
        let records = || self.records.of_group(&belonging.identity);
        let all =
            || records().filter_map(|(key, object)| ended(object).map(|(at, end)| (at, end, key)));
        let next = all().filter(|(at, ..)| *at >= pod.created).min_by_key(|(at, ..)| *at);
        let is_used_again = || {
            self.jobs.index.by_identity.contains_key(&belonging.identity)
                || records().any(|(_, object)| ended(object).is_none())
        };
        let (_, end, key) = match next {
            Some(next) => next,
            None if is_used_again() => return None,
            None => all().max_by_key(|(at, ..)| *at)?,
        };
        let key = key.clone();
        if let Some(id) = self.jobs.index.by_key.get(&key) {
            return self.jobs.all.get(id).filter(|job| job.is_finished()).map(|job| job.id);
        }
        let living = self.jobs.index.by_identity.remove(&belonging.identity);
        let id = self.new_job(belonging, key, Vec::new(), Arc::clone(&pod.scheduler));
        self.jobs.index.by_identity.remove(&belonging.identity);
        self.jobs
            .index
            .by_identity
            .extend(living.map(|living| (belonging.identity.clone(), living)));
        if let Some(job) = self.jobs.all.get_mut(&id) {
            job.life = Lifecycle::Finished(end);
        }
        Some(id)
    }

    pub(crate) fn new_job(
        &mut self,
        belonging: &Belonging,
        key: ObjectKey,
        owners: Vec<OwnerReference>,
        reporter: Arc<str>,
    ) -> JobId {
        let id = self.jobs.index.next;
        self.jobs.index.next = id.next();
        let workload = Workload {
            identity: belonging.identity.clone(),
            kind: belonging.kind,
            name: Arc::clone(&belonging.name),
            uid: belonging.uid.clone(),
            owners,
            reporter,
        };
        let job = Job {
            id,
            key: key.clone(),
            style: belonging.style,
            workload,
            pods: JobPods::none(self.clock.now),
            life: Lifecycle::Waiting,
            start: JobStart::default(),
            suspended: Suspended::No,
            queue: InQueue::default(),
            waiting: Wait::default(),
            told: Told::default(),
            record: Record::default(),
        };
        self.jobs.index.by_identity.insert(belonging.identity.clone(), id);
        self.jobs.index.by_key.insert(key.clone(), id);
        self.jobs.all.insert(id, Box::new(job));
        let done = self.adopt_record(id, &key);
        self.agenda.heed(done);
        id
    }

    /// Returns the FluxJob's name, and the uid after which it is named. A group has no uid of its
    /// own, so it takes a recorded group that has not ended, if there is one.
    fn record_key(&self, pod: &Pod, belonging: &Belonging) -> (ObjectKey, Uid) {
        let namespace = &pod.id.key.namespace;
        if belonging.kind.is_group() {
            let known = self.records.of_group(&belonging.identity).filter(|(key, object)| {
                object.metadata.deletion_timestamp.is_none()
                    && completion_of(object).is_none()
                    && !self.jobs.index.by_key.contains_key(key)
                    && !self.records.is_being_removed(key)
            });
            // A group that has begun is preferred: its running pods are recorded there.
            let known = known.max_by_key(|(_, object)| {
                let status = object.status.as_ref();
                status.map(|status| (!status.placement.is_empty(), status.bound))
            });
            if let Some((key, _)) = known {
                return (key.clone(), belonging.uid.clone());
            }
        }
        let named_after = |uid: Uid| {
            let name = names::fluxjob_name(&belonging.name, belonging.kind, &uid);
            (ObjectKey::new(Arc::clone(namespace), name), uid)
        };
        let own = named_after(belonging.uid.clone());
        if !belonging.kind.is_group() || !self.jobs.index.by_key.contains_key(&own.0) {
            return own;
        }
        // A job that the pod has left is named after it.
        let others = (2_u32..).map(|number| Uid::from(format!("{}-{number}", belonging.uid)));
        let mut others = others.map(named_after);
        others.find(|(key, _)| !self.jobs.index.by_key.contains_key(key)).unwrap_or(own)
    }

    pub(crate) fn regroup(&mut self, uid: &Uid) -> Sound {
        let is_orphan = self.intake.awaiting_owner.is_orphan(&self.jobs.members.known(uid)?.pod);
        if !self.belongs_elsewhere(uid)? {
            return Ok(());
        }
        let member = self.jobs.members.remove(uid).or_defect("a pod that moves is not there");
        let Some(member) = member else { return Ok(()) };
        let job = self.jobs.all.known_mut(&member.job)?;
        job.pods.all.remove(uid);
        job.pods.live.remove(&PodOrder::of(&member.pod));
        self.agenda.touched.insert(member.job);
        self.promise_keeping().forget_request(
            &fluxqueue_planner::queue::PendingRequest::Member(member.job, uid.clone()),
        )?;
        self.attach(member.pod, is_orphan)?;
        // A pod with an owner that is not there yet is in no job until that comes.
        if let Some(anew) = self.jobs.members.get_mut(uid) {
            anew.nomination = member.nomination;
            // The writes that are under way for it go on.
            (anew.telling, anew.reported) = (member.telling, member.reported);
            (anew.ungating, anew.ungated) = (member.ungating, member.ungated);
            (anew.failed, anew.retry_at) = (member.failed, member.retry_at);
        }
        Ok(())
    }

    /// True if a pod is a part of another job now than the one that it is in.
    pub(crate) fn belongs_elsewhere(&self, uid: &Uid) -> Sound<bool> {
        let member = self.jobs.members.known(uid)?;
        let identity = self.jobs.all.get(&member.job).map(|job| &job.workload.identity);
        let is_orphan = self.intake.awaiting_owner.is_orphan(&member.pod);
        let now = self.left_behind(&member.pod).filter(|_| is_orphan);
        let now = now.or_else(|| self.belonging(&member.pod, is_orphan));
        Ok(now.as_ref().map(|belonging| &belonging.identity) != identity)
    }
}
