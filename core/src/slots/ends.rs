//! Planned ends of pods that run, when walltimes or rules of queues change.

use std::sync::Arc;

use fluxqueue_api::names;

use crate::jobs::job::{InQueue, Job, Style};
use crate::parts::Slots;
use crate::sight::PlannedEnd;
use crate::sound::{Lookup, Sound};
use fluxqueue_machine::fluxion::End;
use fluxqueue_planner::queue::{JobId, QueueId};
use fluxqueue_workload::{Lifetime, Phase, Pod, Uid};

impl Slots<'_> {
    // --- jobs ---

    /// Determines the queue of a job again, and the queue's rules for it.
    pub(crate) fn look_at_queue(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let namespace = &*job.key.namespace;
        let said = self.said_queue(job);
        let on_record = || job.status_on_record().and_then(|status| status.queue_name.as_deref());
        // Without pods, the last known queue counts.
        let has_pods = self.jobs.live(job).next().is_some();
        let last = || Some(&*job.queue.name).filter(|name| !name.is_empty()).or_else(on_record);
        let last = if has_pods { None } else { last() };
        let wished = || job.record.overrides.queue_name.as_deref().or(said.as_deref()).or(last);
        let charged = self.jobs.charged_queue(job);
        let name = charged.as_deref().or_else(wished);
        let name = name.unwrap_or_else(|| {
            let services = Some(names::QUEUE_SERVICES).filter(|services| {
                let standing = self.queues.standing(services, namespace, job.workload.kind);
                standing.gives_place() && self.is_service(job)
            });
            services.unwrap_or_else(|| self.queues.default_of(namespace))
        });
        let (standing, walltimes) =
            (self.queues.standing(name, namespace, job.workload.kind), self.queues.walltimes(name));
        // A place in the queue is kept over a restart, and when the queue is deleted.
        let had_place = job.queue.had_place && *job.queue.name == *name
            || job.queue.name.is_empty()
                && job.waiting.since.is_some()
                && on_record() == Some(name);
        let had_place = had_place || standing.gives_place();
        let name =
            if *job.queue.name == *name { Arc::clone(&job.queue.name) } else { Arc::from(name) };
        let id_of_queue = if had_place { self.queues.number(&name) } else { QueueId::DEFAULT };
        let job = self.jobs.all.known(&id)?;
        let has_new_ends = job.queue.walltimes != walltimes && !job.queue.name.is_empty();
        let job = self.jobs.all.known_mut(&id)?;
        job.queue = InQueue { name, id: id_of_queue, said, standing, walltimes, had_place };
        if has_new_ends {
            self.plan_ends_of(id)?;
        }
        Ok(())
    }

    /// Plans the running pods of a job by another walltime, which a user wished for. If the job
    /// ends later by that, jobs with promises behind it are informed of this cause.
    pub(crate) fn plan_ends_of(&mut self, id: JobId) -> Sound {
        let job = self.jobs.all.known(&id)?;
        let live: Vec<Uid> = job.pods.live.values().cloned().collect();
        for uid in live {
            self.plan_end_by_wish(id, &uid)?;
        }
        Ok(())
    }

    /// Does the same for one pod.
    pub(crate) fn plan_end_by_wish(&mut self, id: JobId, uid: &Uid) -> Sound {
        let before = self.jobs.members.known(uid)?.booked_end();
        self.replan_end(uid)?;
        if let (Some(before), Some(after)) = (before, self.jobs.members.known(uid)?.booked_end())
            && after.is_later_than(before)
        {
            self.agenda.extended.insert(id);
        }
        Ok(())
    }

    /// True if the job has no planned end: a Deployment, ReplicaSet or StatefulSet, or a pod that
    /// declares itself endless.
    fn is_service(&self, job: &Job) -> bool {
        let Some(first) = self.jobs.live(job).next() else { return job.style == Style::Elastic };
        job.record.overrides.walltime_seconds.is_none()
            && self.jobs.said_walltime(&first.pod) == Lifetime::Endless
    }

    /// Returns the queue that the workload names: the label of its pods, else of their maker, of
    /// the maker's maker, of their PodGroup, or of the Workload of that.
    fn said_queue(&self, job: &Job) -> Option<Arc<str>> {
        let Some(first) = self.jobs.live(job).next() else {
            let on_record =
                || job.status_on_record()?.workload.as_ref()?.queue_name.as_deref().map(Arc::from);
            return job.queue.said.clone().or_else(on_record);
        };
        if let Some(named) = first.pod.label(names::QUEUE_NAME).filter(|named| !named.is_empty()) {
            let known = job.queue.said.as_ref().filter(|known| ***known == *named);
            return Some(known.cloned().unwrap_or_else(|| Arc::from(named)));
        }
        let of_makers = || {
            let mut makers = self.jobs.controllers.chain(&first.pod);
            makers.find_map(|made_by| made_by.queue.clone()).filter(|named| !named.is_empty())
        };
        of_makers().or_else(|| self.jobs.controllers.groups.terms(&first.pod)?.queue)
    }

    /// Plans the ends of the pods of Jobs with changed waves.
    pub(crate) fn plan_due_waves(&mut self) {
        while let Some((id, uid)) = self.jobs.waves.due.pop_first() {
            let now = self.clock.now;
            let start = |pod: &Pod| pod.started.map_or(now, |at| self.clock.core(at)).seconds();
            let job = self.jobs.all.get(&id).zip(self.jobs.made(&uid, id));
            let end = job.and_then(|(job, made_by)| self.jobs.end_of_waves(made_by, job, start));
            let of_it = (id, uid);
            let before = match end {
                Some(end) => self.jobs.waves.ends.insert(of_it.clone(), end),
                None => self.jobs.waves.ends.remove(&of_it),
            };
            if before != end {
                for pod in self.jobs.bound_pods_of(&of_it) {
                    let done = self.replan_end(&pod);
                    self.agenda.heed(done);
                }
                self.jobs.waves.due.remove(&of_it);
            }
        }
    }

    /// Returns how long a pod of the job would take its resources if it started now.
    pub(crate) fn lifetime(&self, pod: &Pod, job: JobId) -> Lifetime {
        self.jobs.all.get(&job).map_or(pod.lifetime, |job| self.jobs.lifetime(pod, job, self.clock))
    }

    pub(crate) fn walltime(&self, pod: &Pod, job: JobId) -> Lifetime {
        self.jobs.all.get(&job).map_or(pod.lifetime, |job| self.jobs.walltime(pod, job))
    }

    /// Returns how long a pod of the job takes its resources from its start, or from its Binding
    /// while it does not run.
    pub(crate) fn occupies(&self, pod: &Pod, job: JobId) -> Lifetime {
        self.jobs.all.get(&job).map_or(pod.lifetime, |job| match pod.phase {
            Phase::Pending => self.jobs.occupies_from_binding(pod, job),
            _ => self.jobs.occupies(pod, job),
        })
    }

    // --- planned ends ---

    /// Returns the planned end of a bound member, as far as it is known: its walltime counts from
    /// its own start once it runs.
    pub(crate) fn member_end(&self, pod: &Pod, job: JobId) -> PlannedEnd {
        // If the clock was set back, the start may be in the future. It counts all the same, as it
        // does for a controller that ends pods by their deadlines: the present would give another
        // end in each process.
        let started = pod.started.map_or(self.clock.now, |at| self.clock.core(at));
        let mut planned = End::of(self.occupies(pod, job), started.seconds());
        if let (End::At(own), Some(last)) = (planned, self.jobs.last_wave(pod, job)) {
            planned = End::At(own.max(last));
        }
        self.sight().unless_past(match (self.jobs.deadline(pod, self.clock), planned) {
            (Some(deadline), End::At(at)) => End::At(at.min(deadline.seconds())),
            (Some(deadline), End::Eventually | End::Never) => End::At(deadline.seconds()),
            (None, planned) => planned,
        })
    }

    /// Books a running pod with its present planned end, if that differs from the booked one.
    pub(crate) fn replan_end(&mut self, uid: &Uid) -> Sound {
        let member = self.jobs.members.known(uid)?;
        if !member.stage.is_bound() {
            return Ok(());
        }
        let (pod, id) = (Arc::clone(&member.pod), member.job);
        self.jobs.note_wave(&pod, id);
        let PlannedEnd { end, is_over } = self.member_end(&pod, id);
        let slack = i64::try_from(self.settings.start_slack_secs).unwrap_or(i64::MAX);
        let member = self.jobs.members.known_mut(uid)?;
        // The pod starts a little later than it was bound, which the plan already includes.
        let is_later_by_slack = |booked: End| match (booked, end) {
            (End::At(booked), End::At(end)) => end > booked && end <= booked.saturating_add(slack),
            _ => false,
        };
        let is_planned_for =
            |booked: End| member.pod.phase == Phase::Pending && is_later_by_slack(booked);
        if let Some(allocation) =
            member.allocation().filter(|allocation| is_planned_for(allocation.end))
        {
            let booked = allocation.end;
            self.agenda.watch_end(uid, booked);
            return Ok(());
        }
        if let Some(allocation) =
            member.stage.allocation_mut().filter(|allocation| allocation.end != end)
        {
            self.planner.ledger.set_end(&mut self.planner.cluster, allocation, end);
            allocation.is_overdue = is_over;
            let id = member.job;
            self.queueing().note_other_end(id);
        }
        self.agenda.watch_end(uid, end);
        Ok(())
    }

    /// Does the same for a pod of another scheduler.
    pub(crate) fn replan_foreign_end(&mut self, uid: &Uid) {
        // It may have ended since.
        let Some(pod) = self.occupancy.foreign.get(uid).map(|foreign| Arc::clone(&foreign.pod))
        else {
            return;
        };
        let PlannedEnd { end, is_over } = self.sight().pod_end(&pod);
        let allocation =
            self.occupancy.foreign.get_mut(uid).and_then(|foreign| foreign.allocation.as_mut());
        if let Some(allocation) = allocation.filter(|allocation| allocation.end != end) {
            self.planner.ledger.set_end(&mut self.planner.cluster, allocation, end);
            allocation.is_overdue = is_over;
            self.agenda.watch_end(uid, end);
        }
    }
}
