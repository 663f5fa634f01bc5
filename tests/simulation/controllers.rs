//! The controllers that make and replace pods: Jobs, `ReplicaSets`, `StatefulSets`, and the garbage
//! collector, which removes the objects that their deletion leaves behind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_workload::{
    Controller, JobGroup, ObjectRef, Owner, OwnerKind, Phase, Pod, Suspension, SuspensionPhase,
    Time, Uid,
};

use crate::objects::{Run, Template};
use crate::rng::Rng;
use crate::server::{Server, flux_job_key};
use crate::stats::Stats;

/// The controllers' state for each of their objects.
#[derive(Debug, Default)]
pub(crate) struct Controllers {
    pub(crate) workloads: BTreeMap<Uid, Workload>,
}

/// One object that makes pods.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) template: Template,
    pub(crate) plan: Plan,
    created: Time,
    pods_made: u64,
}

/// The size that the author of an object wants.
#[derive(Debug)]
pub(crate) enum Plan {
    Job(JobPlan),
    /// Replicas, all at once.
    Replicas(u32),
    /// Replicas, each after the one before it is ready if ordered.
    Stateful {
        replicas: u32,
        ordered: bool,
    },
    /// A Deployment, which makes no pods itself: its `ReplicaSet` does.
    Deployment {
        replicas: u32,
    },
}

/// A Job.
#[derive(Debug)]
pub(crate) struct JobPlan {
    pub(crate) parallelism: u32,
    pub(crate) completions: Option<u32>,
    pub(crate) indexed: bool,
    pub(crate) suspended: bool,
    pub(crate) backoff_limit: usize,
    pub(crate) deadline: Option<Time>,
    /// PriorityClass of its pods, if it waits without pods.
    pub(crate) marked: Option<Arc<str>>,
    /// The template that its pods really get, if it differs.
    pub(crate) pods: Option<Box<Template>>,
    /// Number of pods that cannot be made until the given time.
    pub(crate) short: Option<(u32, Time)>,
    succeeded: BTreeSet<Uid>,
    failed: BTreeSet<Uid>,
    indexes_done: BTreeSet<u32>,
    retry_at: Time,
    end: Option<JobEnd>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JobEnd {
    Complete,
    Failed,
}

impl JobPlan {
    pub(crate) fn new(
        parallelism: u32,
        completions: Option<u32>,
        indexed: bool,
        backoff_limit: usize,
    ) -> Self {
        JobPlan {
            parallelism,
            completions,
            indexed,
            suspended: false,
            backoff_limit,
            deadline: None,
            marked: None,
            pods: None,
            short: None,
            succeeded: BTreeSet::new(),
            failed: BTreeSet::new(),
            indexes_done: BTreeSet::new(),
            retry_at: Time::default(),
            end: None,
        }
    }

    fn at_most(&self) -> u32 {
        self.completions.map_or(self.parallelism, |completions| completions.min(self.parallelism))
    }

    fn wants(&self) -> u32 {
        if self.suspended || self.end.is_some() {
            return 0;
        }
        match self.completions {
            Some(completions) => {
                self.parallelism.min(completions.saturating_sub(self.succeeded_count()))
            }
            // Without completions, no pod is made after the first success.
            None if self.succeeded.is_empty() => self.parallelism,
            None => 0,
        }
    }

    /// Returns how many pods it can have now.
    fn may_have(&self, now: Time) -> u32 {
        let missing =
            self.short.filter(|(_, until)| now < *until).map_or(0, |(missing, _)| missing);
        self.wants().saturating_sub(missing)
    }

    fn succeeded_count(&self) -> u32 {
        u32::try_from(self.succeeded.len()).expect("a few pods")
    }
}

impl Controllers {
    /// Stores a new object that makes pods.
    pub(crate) fn add(
        &mut self,
        server: &mut Server,
        id: ObjectRef,
        owner: Option<Owner>,
        template: Template,
        plan: Plan,
        now: Time,
    ) {
        let uid = id.uid.clone();
        let is_marked = matches!(&plan, Plan::Job(JobPlan { marked: Some(_), .. }));
        let phase = is_marked
            .then_some(SuspensionPhase::Marked { resource_version: None, is_suspended: true });
        self.workloads.insert(uid.clone(), Workload { template, plan, created: now, pods_made: 0 });
        server.put_controller(self.describe(&id, owner, &uid, phase));
    }

    /// Returns the object as the scheduler sees it.
    fn describe(
        &self,
        id: &ObjectRef,
        owner: Option<Owner>,
        uid: &Uid,
        phase: Option<SuspensionPhase>,
    ) -> Controller {
        let Workload { template, plan, created, .. } = &self.workloads[uid];
        let (kind, wants, together) = match plan {
            Plan::Job(job) => {
                let together = if job.suspended || job.end.is_some() { 0 } else { job.at_most() };
                (OwnerKind::Job, job.wants(), together)
            }
            Plan::Replicas(replicas) => (OwnerKind::ReplicaSet, *replicas, *replicas),
            Plan::Stateful { replicas, ordered } => (
                OwnerKind::StatefulSet,
                *replicas,
                if *ordered { (*replicas).min(1) } else { *replicas },
            ),
            Plan::Deployment { replicas } => (OwnerKind::Deployment, *replicas, *replicas),
        };
        let job = if let Plan::Job(job) = plan { Some(job) } else { None };
        Controller {
            id: id.clone(),
            kind,
            owner,
            created: *created,
            wants,
            can_start_together: together,
            succeeded: job.map_or(0, JobPlan::succeeded_count),
            completions: job.and_then(|job| job.completions),
            parallelism: job.map_or(wants, |job| job.parallelism),
            finished: job.is_some_and(|job| job.end.is_some()),
            failed: job.is_some_and(|job| job.end == Some(JobEnd::Failed)),
            deadline: job.and_then(|job| job.deadline),
            deadline_secs: None,
            group: template.group.clone(),
            queue: None,
            deleting: false,
            walltime: None,
            levels: Ok(None),
            exclusive: Ok(None),
            scheduling: None,
            said_of_group: JobGroup::Unsaid,
            suspension: job
                .zip(phase)
                .filter(|(job, _)| job.end.is_none())
                .map(|(job, phase)| suspension(job, template, id, *created, phase)),
        }
    }

    /// Writes the object as it is now.
    pub(crate) fn refresh(&mut self, server: &mut Server, uid: &Uid) {
        if let Some(old) = server.controllers.get(uid).cloned() {
            let deleting = old.deleting;
            let phase = old.suspension.as_ref().map(|it| it.phase.clone());
            server.put_controller(Controller {
                deleting,
                ..self.describe(&old.id, old.owner.clone(), uid, phase)
            });
        }
    }

    /// Lets a random controller do its next thing. False if it had nothing to do.
    pub(crate) fn sync(
        &mut self,
        server: &mut Server,
        now: Time,
        rng: &mut Rng,
        stats: &mut Stats,
    ) -> Option<(Uid, Run)> {
        let uids: Vec<Uid> = server.controllers.keys().cloned().collect();
        let uid = rng.pick(&uids)?.clone();
        self.sync_one(server, &uid, now, rng, stats).1
    }

    /// Lets this controller do its next thing. Returns whether there was one, and the pod that it
    /// made.
    pub(crate) fn sync_one(
        &mut self,
        server: &mut Server,
        uid: &Uid,
        now: Time,
        rng: &mut Rng,
        stats: &mut Stats,
    ) -> (bool, Option<(Uid, Run)>) {
        let Some(controller) = server.controllers.get(uid).cloned() else { return (false, None) };
        if controller.deleting {
            return (delete_foreground(server, &controller), None);
        }
        let pods: Vec<Arc<Pod>> = owned(server, &controller.id);
        let active: Vec<&Arc<Pod>> =
            pods.iter().filter(|pod| !pod.phase.is_terminal() && !pod.deleting).collect();
        let Some(workload) = self.workloads.get_mut(uid) else { return (false, None) };
        let (wants, ready) = match &mut workload.plan {
            Plan::Deployment { .. } => return (false, None),
            Plan::Job(job) => {
                if job.end.is_none() && note_ends(job, &pods, now, stats) {
                    self.refresh(server, uid);
                    return (true, None);
                }
                let wants = if waits_without_pods(&controller) { 0 } else { job.may_have(now) };
                (wants, now >= job.retry_at)
            }
            Plan::Replicas(replicas) => (*replicas, true),
            Plan::Stateful { replicas, ordered } => {
                // A StatefulSet makes a pod again only after the old one is gone.
                if let Some(ended) = pods.iter().find(|pod| pod.phase.is_terminal()) {
                    server.remove_pod(&ended.id.key);
                    return (true, None);
                }
                let ready = !*ordered || active.iter().all(|pod| pod.phase == Phase::Running);
                (*replicas, ready)
            }
        };
        if active.len() > wants as usize {
            let last = active.last().expect("more than none");
            server.delete_pod(&last.id.key);
            return (true, None);
        }
        if active.len() == wants as usize || !ready || controller.finished {
            return (false, None);
        }
        let made = workload.make_pod(server, &controller, &pods, now, rng);
        if made.is_some()
            && pods.iter().any(|pod| pod.phase.is_terminal())
            && !matches!(workload.plan, Plan::Job(_))
        {
            stats.count("service pod replaced");
        }
        (made.is_some(), made)
    }

    /// Removes one object with a deleted owner. False if there is none.
    pub(crate) fn collect_garbage(&mut self, server: &mut Server, rng: &mut Rng) -> bool {
        let orphans: Vec<_> = server
            .pods
            .values()
            .filter(|pod| !pod.deleting || pod.phase.is_terminal())
            .filter(|pod| {
                pod.owner.as_ref().is_some_and(|owner| !server.controllers.contains_key(&owner.uid))
            })
            .map(|pod| pod.id.key.clone())
            .collect();
        let sets: Vec<Uid> = server
            .controllers
            .values()
            .filter(|it| {
                it.owner.as_ref().is_some_and(|owner| !server.controllers.contains_key(&owner.uid))
            })
            .map(|it| it.id.uid.clone())
            .collect();
        let jobs: Vec<_> = server
            .flux_jobs
            .values()
            .filter(|job| {
                job.metadata.owner_references.as_ref().is_some_and(|owners| {
                    !owners.is_empty() && owners.iter().all(|owner| !exists(server, &owner.uid))
                })
            })
            .map(|job| flux_job_key(job))
            .collect();
        let at = rng.below(orphans.len() + sets.len() + jobs.len());
        if let Some(key) = orphans.get(at) {
            server.delete_pod(key);
        } else if let Some(uid) = sets.get(at - orphans.len()) {
            server.remove_controller(uid);
            self.workloads.remove(uid);
        } else if let Some(key) = jobs.get(at - orphans.len() - sets.len()) {
            server.remove_flux_job(key);
        } else {
            return false;
        }
        true
    }

    /// Returns when a controller next acts by itself.
    pub(crate) fn next_retry(&self, server: &Server, now: Time) -> Option<Time> {
        let jobs = self.workloads.iter().filter(|(uid, _)| server.controllers.contains_key(*uid));
        let times = jobs.flat_map(|(_, workload)| match &workload.plan {
            Plan::Job(job) if job.end.is_none() => {
                [Some(job.retry_at), job.deadline, job.short.map(|(_, until)| until)]
            }
            _ => [None, None, None],
        });
        times.flatten().filter(|at| *at > now).min()
    }
}

impl Workload {
    /// Returns a Job of the same name and kind from its beginning, unless it waits without pods.
    pub(crate) fn again(self) -> Option<(Template, JobPlan)> {
        match self.plan {
            Plan::Job(JobPlan {
                parallelism,
                completions,
                indexed,
                backoff_limit,
                marked: None,
                ..
            }) => Some((
                self.template,
                JobPlan::new(parallelism, completions, indexed, backoff_limit),
            )),
            _ => None,
        }
    }

    fn make_pod(
        &mut self,
        server: &mut Server,
        controller: &Controller,
        pods: &[Arc<Pod>],
        now: Time,
        rng: &mut Rng,
    ) -> Option<(Uid, Run)> {
        let name = &controller.id.key.name;
        self.pods_made += 1;
        let mut index = None;
        let name = match &self.plan {
            Plan::Stateful { replicas, .. } => (0..*replicas)
                .map(|n| format!("{name}-{n}"))
                .find(|name| pods.iter().all(|pod| *pod.id.key.name != **name))?,
            Plan::Job(job) if job.indexed => {
                let taken = |n: &u32| {
                    let has = |pod: &&Arc<Pod>| {
                        pod.completion_index == Some(*n) && !pod.phase.is_terminal()
                    };
                    job.indexes_done.contains(n) || pods.iter().any(|pod| has(&pod))
                };
                let free = (0..job.completions.unwrap_or(0)).find(|n| !taken(n))?;
                index = Some(free);
                format!("{name}-{free}-{}", self.pods_made)
            }
            _ => format!("{name}-{}-{}", rng.below(10), self.pods_made),
        };
        let id = server.new_ref_in(&controller.id.key.namespace, &self.template.scheduler, &name);
        if server.pods.contains_key(&id.key) {
            // The pod is left over from an earlier object of this name.
            return None;
        }
        let other = if let Plan::Job(job) = &self.plan { job.pods.as_deref() } else { None };
        let template = other.unwrap_or(&self.template);
        server.put_pod(template.pod(id.clone(), now, Some(owner_of(controller)), index));
        Some((id.uid, template.run))
    }
}

/// Returns the suspension in a Job that waits without pods.
fn suspension(
    job: &JobPlan,
    template: &Template,
    id: &ObjectRef,
    created: Time,
    phase: SuspensionPhase,
) -> Suspension {
    let owner = Owner {
        kind: OwnerKind::Job,
        name: Arc::clone(&id.key.name),
        uid: id.uid.clone(),
        api_version: Arc::from("batch/v1"),
    };
    let sample = Pod {
        gates: Vec::new(),
        stands_in: true,
        ..template.pod(id.clone(), created, Some(owner), None)
    };
    Suspension { phase, sample, priority_class: job.marked.clone(), is_indexed: job.indexed }
}

/// True if the Job is suspended until Fluxqueue has a place for it.
pub(crate) fn waits_without_pods(controller: &Controller) -> bool {
    let phase = controller.suspension.as_ref().map(|it| &it.phase);
    matches!(phase, Some(SuspensionPhase::Marked { is_suspended: true, .. }))
}

/// The owner reference to this object.
pub(crate) fn owner_of(controller: &Controller) -> Owner {
    let api_version = if controller.kind == OwnerKind::Job { "batch/v1" } else { "apps/v1" };
    Owner {
        kind: controller.kind.clone(),
        name: Arc::clone(&controller.id.key.name),
        uid: controller.id.uid.clone(),
        api_version: Arc::from(api_version),
    }
}

/// Counts ended pods, and ends the Job with the last. False if nothing is new.
fn note_ends(job: &mut JobPlan, pods: &[Arc<Pod>], now: Time, stats: &mut Stats) -> bool {
    let mut news = false;
    for pod in pods.iter().filter(|pod| pod.phase.is_terminal()) {
        if pod.phase == Phase::Succeeded {
            if job.succeeded.insert(pod.id.uid.clone()) {
                news = true;
                job.indexes_done.extend(pod.completion_index);
            }
        } else if job.failed.insert(pod.id.uid.clone()) {
            news = true;
            let doublings = u32::try_from(job.failed.len().min(4)).expect("4 at most");
            job.retry_at = now.plus_millis(5_000 << doublings);
        }
    }
    let active = pods.iter().any(|pod| !pod.phase.is_terminal());
    let done = match job.completions {
        Some(completions) => job.succeeded_count() >= completions,
        None => !job.succeeded.is_empty() && !active,
    };
    if done {
        job.end = Some(JobEnd::Complete);
        stats.count("Job finished");
    } else if job.failed.len() > job.backoff_limit || job.deadline.is_some_and(|at| at <= now) {
        job.end = Some(JobEnd::Failed);
        stats.count("Job failed");
    }
    news || job.end.is_some()
}

/// Deletes an object in the foreground: it goes after its pods.
fn delete_foreground(server: &mut Server, controller: &Controller) -> bool {
    let pods = owned(server, &controller.id);
    if let Some(pod) = pods.iter().find(|pod| !pod.deleting || pod.phase.is_terminal()) {
        server.delete_pod(&pod.id.key);
        return true;
    }
    if pods.is_empty() {
        server.remove_controller(&controller.id.uid);
    }
    pods.is_empty()
}

/// Returns the pods of an object: those of its namespace that name it as their owner.
fn owned(server: &Server, of: &ObjectRef) -> Vec<Arc<Pod>> {
    let is_of = |pod: &&Arc<Pod>| {
        pod.id.key.namespace == of.key.namespace
            && pod.owner.as_ref().is_some_and(|owner| owner.uid == of.uid)
    };
    server.pods.values().filter(is_of).cloned().collect()
}

fn exists(server: &Server, uid: &str) -> bool {
    server.controllers.contains_key(uid) || server.pods.values().any(|pod| *pod.id.uid == *uid)
}
