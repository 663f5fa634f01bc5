//! PodGroups as they appear, change and go, and the pods that name them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::jobs::controllers::MadeBy;
use crate::jobs::job::Identity;
use crate::jobs::member::Member;
use crate::jobs::pod_groups::Change;
use crate::parts::Members;
use crate::sound::{Lookup, Sound};
use crate::timers::Timer;
use fluxqueue_planner::queue::JobId;
use fluxqueue_workload::pod_group::{GroupWorkload, PodGroup};
use fluxqueue_workload::{ObjectKey, ObjectRef, Pod, Time, Uid};

impl Members<'_> {
    /// Takes up a PodGroup that is new or has changed.
    pub(crate) fn pod_group(&mut self, group: Arc<PodGroup>) {
        let key = group.id.key.clone();
        if self.jobs.controllers.groups.get(&key, Some(&group.id.uid)).is_none() {
            self.keep_terms_of(&key);
        }
        let change = self.jobs.controllers.groups.put(group);
        self.look_at_pods_of(&key, change);
    }

    /// Takes up that a PodGroup is gone. Its pods wait for another one of its name, unless they
    /// name its uid.
    pub(crate) fn pod_group_gone(&mut self, gone: &ObjectRef) {
        if self.jobs.controllers.groups.get(&gone.key, Some(&gone.uid)).is_some() {
            self.keep_terms_of(&gone.key);
        }
        if self.jobs.controllers.groups.remove(gone) {
            self.look_at_pods_of(&gone.key, Change::Terms);
        }
    }

    /// Takes up why no group is to be read, or that they are read.
    pub(crate) fn pod_groups_hidden(&mut self, why: Option<Arc<str>>) {
        if self.jobs.controllers.groups.hidden == why {
            return;
        }
        self.jobs.controllers.groups.hidden = why;
        for group in self.jobs.controllers.groups.unseen() {
            self.look_at_pods_of(&group, Change::Start);
        }
    }

    /// Takes up a Workload that is new, has changed or is gone.
    pub(crate) fn group_workload(&mut self, key: &ObjectKey, workload: Option<Arc<GroupWorkload>>) {
        let groups = &self.jobs.controllers.groups;
        for group in groups.of_replaced_workload(key, workload.as_deref()) {
            self.keep_terms_of(&group);
        }
        for group in self.jobs.controllers.groups.put_workload(key, workload) {
            self.look_at_pods_of(&group, Change::Terms);
        }
    }

    /// Keeps the terms of the pods of a group that are on nodes, before it or its Workload goes.
    fn keep_terms_of(&mut self, group: &ObjectKey) {
        for uid in self.jobs.controllers.groups.pods(group) {
            let member = self.jobs.members.get(&uid).filter(|member| member.is_bound());
            if let Some(member) = member
                && let Some(terms) = self.jobs.controllers.groups.terms(&member.pod)
            {
                self.jobs.controllers.groups.keep_terms(&uid, terms);
            }
        }
    }

    /// Takes note of the group that a pod names.
    pub(crate) fn note_group_of(&mut self, pod: &Pod) {
        if pod.scheduling_group.is_some() {
            let before = self.jobs.controllers.groups.helped_by(&pod.id.uid);
            let is_ours = self.settings.scheduler_names.contains(&pod.scheduler);
            let changed = self.jobs.controllers.groups.note(pod, is_ours);
            self.follow_pod_of_group(&pod.id.uid, before, changed);
        }
    }

    /// Forgets the group that a pod names, which is gone.
    pub(crate) fn forget_group_of(&mut self, pod: &Uid) {
        let before = self.jobs.controllers.groups.helped_by(pod);
        let changed = self.jobs.controllers.groups.forget(pod);
        self.follow_pod_of_group(pod, before, changed);
    }

    /// Looks at the job that needs fewer pods because of this one, or did `before`; and at all pods
    /// of a group that has changed.
    fn follow_pod_of_group(
        &mut self,
        pod: &Uid,
        before: Option<Identity>,
        changed: Option<ObjectKey>,
    ) {
        let now = self.jobs.controllers.groups.helped_by(pod);
        if now != before {
            let jobs = now.iter().chain(&before);
            let ids = jobs.filter_map(|identity| self.jobs.index.by_identity.get(identity));
            self.agenda.touched.extend(ids.copied());
        }
        if let Some(group) = changed {
            self.look_at_pods_of(&group, Change::Start);
        }
    }

    /// Looks at the pods that name a group of this name: those that wait may be parts of another
    /// job now, or have to be elsewhere.
    fn look_at_pods_of(&mut self, group: &ObjectKey, change: Change) {
        if change == Change::Nothing || !self.intake.synced {
            return;
        }
        let pods = self.jobs.controllers.groups.pods(group);
        let jobs = pods.iter().filter_map(|uid| Some(self.jobs.members.get(uid)?.job));
        let jobs: BTreeSet<JobId> = jobs.collect();
        if change == Change::Terms {
            for id in &jobs {
                let done = self.slots().plan_ends_of(*id);
                self.agenda.heed(done);
            }
        }
        self.agenda.touched.extend(jobs);
        self.agenda.queue_changed = true;
        for uid in pods {
            let done = self.look_at_pod_of_group(&uid);
            self.agenda.heed(done);
        }
    }

    /// Looks at the pods of a job with a group that changed while they were on their way, and that
    /// have not arrived.
    pub(crate) fn look_at_late_pods(&mut self, id: JobId) -> Sound {
        let (job, now) = (self.jobs.all.known(&id)?, self.clock.now);
        let concerned = || self.jobs.live(job).filter(|member| member.group_has_changed);
        let free = concerned().filter(|member| is_free(member, now));
        let late: Vec<Uid> = free.map(|member| member.pod.id.uid.clone()).collect();
        let in_doubt =
            concerned().filter(|member| member.stage.is_unsent() && member.is_in_doubt(now));
        if let Some(at) = in_doubt.map(|member| member.doubt_until).min() {
            self.agenda.timers.wake(Timer::Job(id), at);
        }
        late.iter().try_for_each(|uid| self.look_at_pod_of_group(uid))
    }

    fn look_at_pod_of_group(&mut self, uid: &Uid) -> Sound {
        let now = self.clock.now;
        let pod = self.jobs.members.get_mut(uid).and_then(|member| {
            member.group_has_changed = !is_free(member, now);
            if !is_free(member, now) {
                return None;
            }
            // A Binding with a lost answer had no effect: it would have shown by now.
            member.maybe_bound = false;
            Some(Arc::clone(&member.pod))
        });
        let is_left_behind = |pod: &Pod| {
            // Its maker is gone, and the pod is about to be deleted: it stays in its job.
            matches!(self.jobs.controllers.maker(pod), MadeBy::Unseen(_))
                && !self.intake.awaiting_owner.is_orphan(pod)
        };
        if let Some(pod) = pod.filter(|pod| !is_left_behind(pod)) {
            let with = self.jobs.controllers.groups.with_topology(Arc::clone(&pod));
            if with.shape != pod.shape {
                self.member_changed(with)?;
            }
            let is_unsent = |member: &Member| member.stage.is_unsent();
            if self.jobs.members.get(uid).is_some_and(is_unsent) && self.belongs_elsewhere(uid)? {
                self.slots().lose_slot(uid, &format!("the PodGroup of pod {} changes", pod.id))?;
            }
            self.regroup(uid)?;
        }
        Ok(())
    }
}

/// True if a pod can become a part of another job. One with a Binding that has just failed may be
/// on its node after all.
fn is_free(member: &Member, now: Time) -> bool {
    member.stage.is_waiting() || (member.stage.is_unsent() && !member.is_in_doubt(now))
}
