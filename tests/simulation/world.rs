//! The users: they submit everything that people submit, change their minds, and edit objects that
//! they should leave alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use fluxqueue_api::names::QUEUE_NAME;
use fluxqueue_api::{FluxJob, FluxJobStatus, JobState};
use fluxqueue_workload::{
    Controller, GroupLabels, Lifetime, NamedGroup, ObjectKey, Owner, OwnerKind, Pod,
    SuspensionPhase, Time, Uid,
};

use crate::controllers::{Controllers, JobPlan, Plan, Workload, owner_of, waits_without_pods};
use crate::objects::{FOREIGN_GATE, NAMESPACE, Run, Template, is_ours};
use crate::pod_groups::Plans;
use crate::queues;
use crate::rng::Rng;
use crate::roles;
use crate::server::{PRIORITY_CLASSES, Server};
use crate::stats::Stats;

/// Most pods of ours that wait or run: beyond that, users only delete.
const PODS_MAX: usize = 28;

/// The intentions of the users, and the fates of their pods.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) controllers: Controllers,
    pub(crate) runs: BTreeMap<Uid, Run>,
    /// Members of bare groups that are still to come.
    coming: Vec<(String, Template)>,
    submitted: u64,
    /// The scheduler names that users choose from.
    schedulers: Vec<Arc<str>>,
    /// True if administrators make queues, and users name them.
    has_queues: bool,
    /// True if Jobs may wait without pods.
    has_suspended: bool,
    /// True if users make PodGroups.
    has_groups: bool,
    groups: Plans,
}

impl World {
    /// Makes a world without submissions.
    pub(crate) fn new(
        schedulers: Vec<Arc<str>>,
        has_queues: bool,
        has_suspended: bool,
        has_groups: bool,
    ) -> Self {
        World { schedulers, has_queues, has_suspended, has_groups, ..World::default() }
    }

    /// Lets a user act.
    pub(crate) fn act(&mut self, server: &mut Server, now: Time, rng: &mut Rng, stats: &mut Stats) {
        if self.has_queues && rng.chance(15) {
            queues::edit(server, rng, stats);
            return;
        }
        let alive =
            server.pods.values().filter(|pod| is_ours(pod) && !pod.phase.is_terminal()).count();
        let without_pods = server
            .controllers
            .values()
            .filter(|it| waits_without_pods(it))
            .map(|it| it.wants as usize);
        let crowded = alive + self.coming.len() + without_pods.sum::<usize>() >= PODS_MAX;
        if self.has_groups && rng.chance(45) {
            if crowded || rng.chance(50) {
                self.groups.edit(server, now, rng, stats);
            } else if rng.chance(30) {
                self.join_group(server, now, rng, stats);
            } else {
                self.submit_pod_group(server, now, rng, stats);
            }
        } else if !crowded && rng.chance(45) {
            self.submit(server, now, rng, stats);
        } else if !self.coming.is_empty() && rng.chance(70) {
            self.next_member(server, now, rng, stats);
        } else {
            self.change(server, now, rng, stats, crowded);
        }
    }

    /// Opens all queues, so that they hold up no job any more.
    pub(crate) fn open_queues(&self, server: &mut Server) {
        if self.has_queues {
            queues::open(server);
        }
    }

    /// Submits all members of groups that are still to come.
    pub(crate) fn complete_groups(
        &mut self,
        server: &mut Server,
        now: Time,
        rng: &mut Rng,
        stats: &mut Stats,
    ) {
        while !self.coming.is_empty() {
            self.next_member(server, now, rng, stats);
        }
    }

    /// Returns the fate of a pod once it runs.
    pub(crate) fn run_of(runs: &BTreeMap<Uid, Run>, uid: &Uid) -> Run {
        runs.get(uid).copied().unwrap_or(Run { seconds: Some(10), fails_percent: 0 })
    }

    /// Forgets deleted pods.
    pub(crate) fn tidy(&mut self, server: &Server) {
        let there: std::collections::BTreeSet<&Uid> =
            server.pods.values().map(|pod| &pod.id.uid).collect();
        self.runs.retain(|uid, _| there.contains(uid));
        self.controllers.workloads.retain(|uid, _| server.controllers.contains_key(uid));
        self.groups.tidy(server);
    }

    fn submit(&mut self, server: &mut Server, now: Time, rng: &mut Rng, stats: &mut Stats) {
        self.submitted += 1;
        let number = self.submitted;
        match rng.weighted(&[6, 5, 6, 2, 2]) {
            0 => {
                // Names are used again, once they are free.
                let name = if rng.chance(30) {
                    format!("pod-{}", rng.below(4))
                } else {
                    format!("lone-{number}")
                };
                let template = self.template(rng);
                self.submit_pod(server, &name, template, now, stats);
                stats.count("lone pod submitted");
            }
            1 => self.submit_group(rng, stats),
            2 => self.submit_job(server, now, rng, stats),
            3 => self.submit_service(server, now, rng, stats),
            _ => {
                let replicas = count(rng.between(1, 4));
                let plan = Plan::Stateful { replicas, ordered: rng.chance(60) };
                let name = if rng.chance(50) { "db".to_string() } else { format!("db-{number}") };
                if !server.controllers.values().any(|it| *it.id.key.name == *name) {
                    let template = self.template(rng).endless();
                    let id = server.new_ref_for(&template.scheduler, &name);
                    self.controllers.add(server, id, None, template, plan, now);
                    stats.count("StatefulSet submitted");
                }
            }
        }
    }

    /// A template of one of the schedulers under test.
    fn template(&self, rng: &mut Rng) -> Template {
        let mut template = Template::random(rng);
        if let [_, second] = self.schedulers.as_slice()
            && rng.chance(50)
        {
            template.scheduler = Arc::clone(second);
        }
        if self.has_queues && rng.chance(60) {
            let queue = rng.pick(&queues::NAMES).copied();
            template.labels = queues::named(&template.labels, queue);
        }
        template
    }

    fn submit_pod(
        &mut self,
        server: &mut Server,
        name: &str,
        template: Template,
        now: Time,
        stats: &mut Stats,
    ) {
        if template.exclusive {
            stats.count("pod that asks for its node alone submitted");
        }
        if let Some(old) = server.pods.get(&ObjectKey::new(NAMESPACE, name)) {
            // The name is taken: the user deletes the ended object, and comes back later.
            if old.phase.is_terminal() {
                let key = old.id.key.clone();
                server.remove_pod(&key);
                stats.count("pod name reused");
            } else {
                return;
            }
        }
        let id = server.new_ref_for(&template.scheduler, name);
        let named = template.pod_group.as_ref().map(|group| group.named(server));
        if let Some(named) = &named {
            stats.add("pod names the uid of its PodGroup", u64::from(named.uid.is_some()));
        }
        self.runs.insert(id.uid.clone(), template.run);
        let pod = template.pod(id, now, None, None);
        // Labels are in order, and that of the group is the first.
        let of_group = named.as_ref().map(NamedGroup::label);
        let labels = of_group.into_iter().chain(pod.labels.iter().cloned()).collect();
        server.put_pod(Pod { labels, scheduling_group: named, ..pod });
    }

    /// Submits pods that name a PodGroup, one after the other.
    fn submit_pod_group(
        &mut self,
        server: &mut Server,
        now: Time,
        rng: &mut Rng,
        stats: &mut Stats,
    ) {
        self.submitted += 1;
        let members = rng.between(2, 6);
        let base = self.template(rng);
        let templates = group_templates(base, members, rng, stats);
        let submission = (self.submitted, templates);
        let schedulers = &self.schedulers;
        let pods = self.groups.submit(server, submission, schedulers, now, rng, stats);
        self.coming.extend(pods);
    }

    /// Submits a further pod that names a PodGroup.
    fn join_group(&mut self, server: &mut Server, now: Time, rng: &mut Rng, stats: &mut Stats) {
        self.submitted += 1;
        if let Some(template) = self.groups.joiner(rng) {
            stats.count("pod joins its PodGroup");
            let name = format!("joiner-{}", self.submitted);
            self.submit_pod(server, &name, template, now, stats);
        }
    }

    fn submit_group(&mut self, rng: &mut Rng, stats: &mut Stats) {
        let number = self.submitted;
        let members = rng.between(2, 6);
        let name: Arc<str> = Arc::from(if rng.chance(25) {
            format!("gang-{}", rng.below(2))
        } else {
            format!("gang-{number}")
        });
        let base = self.template(rng);
        let queue = base
            .labels
            .iter()
            .find(|(name, _)| **name == *QUEUE_NAME)
            .map(|(_, queue)| Arc::clone(queue));
        let mut templates = group_templates(base, members, rng, stats);
        for template in &mut templates {
            template.labels = queues::named(&template.labels, queue.as_deref());
        }
        let size = |size: u64| Ok(count(size));
        let (what, sizes) = match rng.weighted(&[14, 2, 2, 1, 1]) {
            0 => ("bare group submitted", [size(members), size(members)]),
            1 => ("group larger than its size submitted", [size(members - 1), size(members - 1)]),
            2 => ("group smaller than its size submitted", [size(members + 1), size(members + 1)]),
            3 => ("contradicting group submitted", [size(members), size(members + 1)]),
            _ => {
                let bad = Err("label fluxqueue.group-size: \"many\" is no number".to_string());
                ("group without a valid size submitted", [bad.clone(), bad])
            }
        };
        stats.count(what);
        for (member, mut template) in (1..).zip(templates) {
            let size = sizes[usize::from(member == members)].clone();
            template.group = Some(GroupLabels { name: Arc::clone(&name), size });
            self.coming.push((format!("{name}-{number}-{member}"), template));
        }
    }

    fn next_member(&mut self, server: &mut Server, now: Time, rng: &mut Rng, stats: &mut Stats) {
        if let Some((name, template)) = rng.take(&mut self.coming) {
            self.submit_pod(server, &name, template, now, stats);
        }
    }

    fn submit_job(&mut self, server: &mut Server, now: Time, rng: &mut Rng, stats: &mut Stats) {
        let parallelism = count(rng.between(1, 5));
        let completions = match rng.weighted(&[3, 2, 1]) {
            0 => Some(parallelism),
            1 => Some(count(rng.between(1, 8))),
            _ => None,
        };
        let indexed = completions.is_some() && rng.chance(50);
        let mut plan = JobPlan::new(parallelism, completions, indexed, rng.below(4));
        plan.suspended = rng.chance(8);
        if rng.chance(20) {
            let seconds = rng.between(20, 300);
            plan.deadline = Some(now.plus_millis(i64::try_from(seconds * 1000).expect("minutes")));
        }
        let mut template = self.template(rng).ending(rng);
        let name = format!("job-{}", self.submitted);
        if rng.chance(10) {
            let size = u64::from(parallelism) + rng.between(0, 2);
            template.group =
                Some(GroupLabels { name: Arc::from(name.as_str()), size: Ok(count(size)) });
            stats.count("Job with group labels submitted");
        }
        if self.has_suspended && template.group.is_none() && rng.chance(60) {
            wait_without_pods(&mut plan, &mut template, now, rng, stats);
        }
        let id = server.new_ref_for(&template.scheduler, &name);
        self.controllers.add(server, id, None, template, Plan::Job(plan), now);
        stats.count("Job submitted");
    }

    fn submit_service(&mut self, server: &mut Server, now: Time, rng: &mut Rng, stats: &mut Stats) {
        let replicas = count(rng.between(1, 4));
        let name = format!("service-{}", self.submitted);
        let mut template = self.template(rng).endless();
        if rng.chance(15) {
            let size = Ok(count(u64::from(replicas) + rng.between(0, 2)));
            template.group = Some(GroupLabels { name: Arc::from(name.as_str()), size });
            stats.count("Deployment with group labels submitted");
        }
        let mut owner = None;
        if rng.chance(70) {
            let id = server.new_ref_for(&template.scheduler, &name);
            self.controllers.add(
                server,
                id.clone(),
                None,
                template.clone(),
                Plan::Deployment { replicas },
                now,
            );
            let deployment = &server.controllers[&id.uid];
            owner = Some(owner_of(deployment));
        }
        let set = server.new_ref_for(&template.scheduler, &format!("{name}-5d8f"));
        self.controllers.add(server, set, owner, template, Plan::Replicas(replicas), now);
        stats.count("service submitted");
    }

    /// Lets a user change, delete or edit something.
    fn change(
        &mut self,
        server: &mut Server,
        now: Time,
        rng: &mut Rng,
        stats: &mut Stats,
        crowded: bool,
    ) {
        match rng.weighted(&[5, if crowded { 9 } else { 3 }, 3, 2, 3, 3, 6]) {
            0 => delete_pod(server, rng, stats),
            1 => self.delete_owner(server, now, rng, stats),
            2 => self.scale(server, rng, stats),
            3 => self.suspend(server, rng, stats),
            4 => edit_flux_job(server, rng, stats),
            5 => remove_foreign_gate(server, rng, stats),
            _ => clear_ended_pod(server, rng),
        }
    }

    fn delete_owner(&mut self, server: &mut Server, now: Time, rng: &mut Rng, stats: &mut Stats) {
        let owners: Vec<Arc<Controller>> =
            server.controllers.values().filter(|it| it.owner.is_none()).cloned().collect();
        let Some(owner) = rng.pick(&owners) else { return };
        stats.count("owner deleted");
        if rng.chance(30) && !matches!(owner.kind, OwnerKind::Deployment) {
            server.put_controller(Controller { deleting: true, ..Controller::clone(owner) });
        } else {
            server.remove_controller(&owner.id.uid);
            let gone = self.controllers.workloads.remove(&owner.id.uid);
            if let Some(again) = gone.and_then(Workload::again).filter(|_| rng.chance(60)) {
                // The pods of the first may still be stopping.
                let id = server.new_ref_for(&again.0.scheduler, &owner.id.key.name);
                self.controllers.add(server, id, None, again.0, Plan::Job(again.1), now);
                stats.count("Job made again under its name");
            }
        }
    }

    fn scale(&mut self, server: &mut Server, rng: &mut Rng, stats: &mut Stats) {
        let uids: Vec<Uid> = self.controllers.workloads.keys().cloned().collect();
        let Some(uid) = rng.pick(&uids) else { return };
        let wanted = count(rng.between(0, 5));
        match &mut self.controllers.workloads.get_mut(uid).expect("just listed").plan {
            Plan::Job(job) => job.parallelism = wanted.max(1),
            Plan::Replicas(replicas)
            | Plan::Stateful { replicas, .. }
            | Plan::Deployment { replicas } => {
                *replicas = wanted;
            }
        }
        stats.count("controller scaled");
        self.controllers.refresh(server, uid);
        // The ReplicaSet does the work of a Deployment.
        let owned = |it: &&Arc<Controller>| {
            it.owner.as_ref().is_some_and(|owner: &Owner| owner.uid == *uid)
        };
        if let Some(set) = server.controllers.values().find(owned).map(|set| set.id.uid.clone()) {
            if let Some(workload) = self.controllers.workloads.get_mut(&set) {
                workload.plan = Plan::Replicas(wanted);
            }
            self.controllers.refresh(server, &set);
        }
    }

    fn suspend(&mut self, server: &mut Server, rng: &mut Rng, stats: &mut Stats) {
        let jobs =
            self.controllers.workloads.iter().filter(|(_, it)| matches!(it.plan, Plan::Job(_)));
        let uids: Vec<Uid> = jobs.map(|(uid, _)| uid.clone()).collect();
        let Some(uid) = rng.pick(&uids) else { return };
        let suspension = server.controllers.get(uid).and_then(|job| job.suspension.as_ref());
        if let Some(SuspensionPhase::Marked { .. }) = suspension.map(|it| &it.phase) {
            // Most often that is turned back within the same write.
            if rng.chance(50) {
                server.let_go(uid);
                stats.count("Job let go past us");
            }
            return;
        }
        if let Plan::Job(job) =
            &mut self.controllers.workloads.get_mut(uid).expect("just listed").plan
        {
            job.suspended = !job.suspended;
            stats.count(if job.suspended { "Job suspended" } else { "Job resumed" });
        }
        self.controllers.refresh(server, uid);
    }

    /// Removes everything that holds something back: suspension, foreign gates, holds.
    pub(crate) fn release_everything(&mut self, server: &mut Server) {
        let uids: Vec<Uid> = self.controllers.workloads.keys().cloned().collect();
        for uid in uids {
            if let Plan::Job(job) =
                &mut self.controllers.workloads.get_mut(&uid).expect("just listed").plan
            {
                job.suspended = false;
            }
            self.controllers.refresh(server, &uid);
        }
        let gated: Vec<Arc<Pod>> =
            server.pods.values().filter(|pod| has_foreign_gate(pod)).cloned().collect();
        for pod in &gated {
            ungate(server, pod);
        }
        let held: Vec<Arc<FluxJob>> =
            server.flux_jobs.values().filter(|job| job.spec.overrides.hold).cloned().collect();
        for job in held {
            let mut job = FluxJob::clone(&job);
            job.spec.overrides.hold = false;
            job.metadata.generation = job.metadata.generation.map(|n| n + 1);
            server.put_flux_job(job);
        }
    }
}

/// Lets the Job wait without pods. Its pods may differ from the template, and not all of them may
/// come.
fn wait_without_pods(
    plan: &mut JobPlan,
    template: &mut Template,
    now: Time,
    rng: &mut Rng,
    stats: &mut Stats,
) {
    let (class, priority) = *rng.pick(&PRIORITY_CLASSES).expect("there are some");
    (plan.suspended, plan.deadline, plan.marked) = (false, None, Some(Arc::from(class)));
    template.priority = priority;
    template.gates.retain(|gate| **gate != *FOREIGN_GATE);
    stats.count("Job that waits without pods submitted");
    if rng.chance(25) {
        let mut other = template.clone();
        let shape = Arc::make_mut(&mut other.shape);
        shape.requests.set("cpu", shape.requests.get("cpu") + rng.between(1, 3) * 1000);
        plan.pods = Some(Box::new(other));
        stats.count("pods come out other than their template");
    }
    if rng.chance(25) {
        let until = now.plus_secs(rng.between(10, 200));
        plan.short = Some((count(rng.between(1, u64::from(plan.parallelism))), until));
        stats.count("too few pods can be made");
    }
}

fn count(number: u64) -> u32 {
    u32::try_from(number).expect("a few")
}

/// Returns the templates of a group's members: all alike, or with a launcher of another shape, or
/// of several roles.
fn group_templates(
    base: Template,
    members: u64,
    rng: &mut Rng,
    stats: &mut Stats,
) -> Vec<Template> {
    if rng.chance(35) {
        stats.count("group of several roles submitted");
        return roles::several(&base, members, rng);
    }
    let mut launcher = if rng.chance(25) { Template::random(rng) } else { base.clone() };
    launcher.priority = base.priority;
    // Either all pods of a gang require their nodes alone, or none.
    launcher.exclusive = base.exclusive;
    launcher.scheduler = Arc::clone(&base.scheduler);
    (0..members).map(|member| if member == 0 { launcher.clone() } else { base.clone() }).collect()
}

fn delete_pod(server: &mut Server, rng: &mut Rng, stats: &mut Stats) {
    let keys: Vec<&ObjectKey> =
        server.pods.iter().filter(|(_, pod)| !pod.deleting).map(|(key, _)| key).collect();
    if let Some(key) = rng.pick(&keys).map(|key| ObjectKey::clone(key)) {
        stats.count("pod deleted by its user");
        server.delete_pod(&key);
    }
}

/// Lets users clear away bare pods that have ended.
fn clear_ended_pod(server: &mut Server, rng: &mut Rng) {
    let ended = server.pods.values().filter(|pod| pod.phase.is_terminal());
    let ended: Vec<ObjectKey> =
        ended.filter(|pod| !of_job(pod)).map(|pod| pod.id.key.clone()).collect();
    if let Some(key) = rng.pick(&ended) {
        server.remove_pod(key);
    }
}

fn of_job(pod: &Pod) -> bool {
    pod.owner.as_ref().is_some_and(|owner| owner.kind == OwnerKind::Job)
}

fn has_foreign_gate(pod: &Pod) -> bool {
    pod.gates.iter().any(|gate| **gate == *FOREIGN_GATE)
}

fn ungate(server: &mut Server, pod: &Pod) {
    let mut pod = pod.clone();
    pod.gates.retain(|gate| **gate != *FOREIGN_GATE);
    server.put_pod(pod);
}

fn remove_foreign_gate(server: &mut Server, rng: &mut Rng, stats: &mut Stats) {
    let gated: Vec<Arc<Pod>> =
        server.pods.values().filter(|pod| has_foreign_gate(pod)).cloned().collect();
    if let Some(pod) = rng.pick(&gated) {
        stats.count("foreign gate removed");
        ungate(server, pod);
    }
}

fn edit_flux_job(server: &mut Server, rng: &mut Rng, stats: &mut Stats) {
    // Most users care for waiting jobs.
    let waits = |job: &FluxJob| {
        job.status.as_ref().is_some_and(|status| status.state == Some(JobState::Pending))
    };
    let only_waiting = rng.chance(60);
    let jobs = server.flux_jobs.iter().filter(|(_, job)| !only_waiting || waits(job));
    let keys: Vec<ObjectKey> = jobs.map(|(key, _)| key.clone()).collect();
    let Some(key) = rng.pick(&keys) else { return };
    let mut job = FluxJob::clone(&server.flux_jobs[key]);
    match rng.weighted(&[3, 3, 2]) {
        0 => {
            job.spec.overrides.hold = !job.spec.overrides.hold;
            stats.count(if job.spec.overrides.hold {
                "FluxJob held by hand"
            } else {
                "FluxJob released by hand"
            });
            // Another controller writes a note about it.
            if let Some(status) = &mut job.status {
                note_by_another(status);
                stats.count("condition of another controller set");
            }
        }
        1 => {
            let classes = PRIORITY_CLASSES.map(|(name, _)| name);
            // Sometimes the override is removed, or names a class that does not exist.
            let wished = match rng.weighted(&[6, 2, 1]) {
                0 => rng.pick(&classes).copied(),
                1 => None,
                _ => Some("unknown"),
            };
            job.spec.overrides.priority_class_name = wished.map(str::to_owned);
            stats.count("FluxJob priority edited by hand");
        }
        _ => {
            stats.count("FluxJob deleted by hand");
            server.remove_flux_job(key);
            return;
        }
    }
    job.metadata.generation = job.metadata.generation.map(|n| n + 1);
    server.put_flux_job(job);
}

/// Lets another controller write to a FluxJob.
fn note_by_another(status: &mut FluxJobStatus) {
    let Some(mut condition) = status.conditions.first().cloned() else { return };
    (condition.type_, condition.reason) = ("example.com/Billed".to_owned(), "Paid".to_owned());
    status.conditions.retain(|known| known.type_ != condition.type_);
    status.conditions.push(condition);
}

/// True if the pod is expected to end at some time, known or not.
pub(crate) fn ends(pod: &Pod) -> bool {
    pod.lifetime != Lifetime::Endless
}
