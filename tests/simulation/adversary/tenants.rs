//! The acts of honest tenants: they submit pods, groups, Jobs and services with true walltimes,
//! change their minds, and leave.
//!
//! A tenant decides by its own stream of random numbers and by its own submissions, and looks at
//! nothing else, so it does the same at the same second in both worlds. The requests of the
//! adversary come from such a tenant, too; in its world they are decorated with lies
//! ([`super::acts::Adversary::decorate`]).

use std::sync::Arc;

use fluxqueue_api::FluxJob;
use fluxqueue_workload::constraints::{
    NamespaceScope, Operator, PodSelector, PodTerm, Requirement,
};
use fluxqueue_workload::{GroupLabels, Lifetime, ObjectKey, Uid};

use super::acts::Adversary;
use super::side::{CORE, Side, shape, walltime};
use crate::controllers::{JobPlan, Plan, owner_of};
use crate::objects::{HOST, OURS, Run, Template};
use crate::rng::Rng;
use crate::server::{PRIORITY_CLASSES, flux_job_key};

/// Seconds for which a tenant waits for a submission, and lets it run.
const PATIENCE_SECONDS: i64 = 200;

/// The pod label that anti-affinity selects by.
const APP: &str = "app";

/// One submission.
#[derive(Debug, Clone)]
enum What {
    /// Pods without a controller.
    Pods(Vec<ObjectKey>),
    /// Objects that make pods, in the order in which they are deleted.
    Makers(Vec<Uid>),
}

#[derive(Debug, Clone)]
struct Submitted {
    leaves_at: i64,
    what: What,
}

/// One tenant, which owns a namespace.
#[derive(Debug, Clone)]
pub(super) struct Tenant {
    pub(super) namespace: Arc<str>,
    rng: Rng,
    /// Percentage of seconds in which it submits something.
    percent: usize,
    made: u64,
    live: Vec<Submitted>,
    /// True if some of its pods run for longer than their walltime.
    pub(super) overruns: bool,
    /// True if it submits only lone pods.
    pub(super) only_lone: bool,
    /// True if some of its Jobs have more completions than pods at a time.
    pub(super) has_waves: bool,
    /// The priority of all its pods, unless they choose one.
    pub(super) priority: Option<i32>,
}

impl Tenant {
    /// Makes a tenant that submits something in `percent` of a hundred seconds.
    pub(super) fn new(namespace: &str, rng: Rng, percent: usize) -> Self {
        let namespace = Arc::from(namespace);
        Tenant {
            namespace,
            rng,
            percent,
            made: 0,
            live: Vec::new(),
            overruns: false,
            only_lone: false,
            has_waves: true,
            priority: None,
        }
    }

    /// Acts in this second. The adversary's tenant passes its liar, which decorates the requests.
    pub(super) fn act(&mut self, side: &mut Side, liar: Option<&mut Adversary>) {
        let now = side.world.now;
        let (leave, stay) =
            std::mem::take(&mut self.live).into_iter().partition(|it| it.leaves_at <= now);
        self.live = stay;
        for submitted in leave {
            remove(side, &submitted.what);
        }
        if self.rng.chance(self.percent) {
            self.submit(side, liar);
        }
        if self.rng.chance(2) {
            self.change(side);
        }
    }

    fn submit(&mut self, side: &mut Side, liar: Option<&mut Adversary>) {
        self.made += 1;
        let mut template = self.template();
        let patience = i64::try_from(self.rng.between(20, 60)).expect("seconds");
        let mut leaves_at = side.world.now + PATIENCE_SECONDS + patience;
        let kind = self.rng.weighted(&[9, 5, 3, 2, 2, 1]);
        let what = match if self.only_lone { 0 } else { kind } {
            0 => self.put_pods(side, &template, 1, liar),
            1 => {
                let count = self.rng.between(2, 3);
                self.put_pods(side, &template, count, liar)
            }
            kind @ (2 | 3) => {
                if let Some(liar) = liar {
                    liar.decorate_template(side, &mut template);
                }
                self.put_job(side, template, kind == 3)
            }
            kind => {
                leaves_at = side.world.now + patience;
                self.put_service(side, endless(template), kind == 4)
            }
        };
        self.live.push(Submitted { leaves_at, what });
    }

    /// Makes the common properties of a workload's pods.
    fn template(&mut self) -> Template {
        let seconds = self.rng.between(5, 60);
        // Most pods end early or on time.
        let run = if self.rng.chance(50) {
            seconds
        } else {
            self.rng.between(seconds.div_ceil(3), seconds)
        };
        let late = self.rng.between(5, 60);
        let run = if self.overruns && self.rng.chance(40) { seconds + late } else { run };
        let mut shape = shape(CORE * self.rng.between(1, 3));
        let is_apart = self.rng.chance(12);
        if is_apart {
            shape.constraints.repels.push(apart(&self.namespace));
        }
        let exclusive = self.rng.chance(6);
        let labels = if is_apart || self.rng.chance(20) { labels() } else { Arc::from([]) };
        let priority = if self.rng.chance(10) { 5 } else { 0 };
        Template {
            scheduler: Arc::from(OURS),
            shape: Arc::new(shape),
            lifetime: walltime(i64::try_from(seconds).expect("a minute")),
            priority: self.priority.unwrap_or(priority),
            gates: Vec::new(),
            labels,
            group: None,
            pod_group: None,
            unsupported: Vec::new(),
            levels: None,
            exclusive,
            run: Run { seconds: Some(run), fails_percent: 0 },
        }
    }

    /// Submits a pod, or a group of pods.
    fn put_pods(
        &mut self,
        side: &mut Side,
        template: &Template,
        count: u64,
        mut liar: Option<&mut Adversary>,
    ) -> What {
        let name: Arc<str> =
            Arc::from(format!("{}-{}", if count > 1 { "gang" } else { "pod" }, self.made));
        let size = u32::try_from(count).expect("a few");
        let mut pods = Vec::new();
        for at in 0..count {
            let id = side.world.server.new_ref_in(&self.namespace, OURS, &format!("{name}-{at}"));
            let mut pod = template.pod(id.clone(), side.world.time(), None, None);
            pod.group =
                (count > 1).then(|| GroupLabels { name: Arc::clone(&name), size: Ok(size) });
            if let Some(liar) = &mut liar {
                liar.decorate(side, &mut pod);
            }
            side.put_pod(pod, template.run.seconds.and_then(|run| i64::try_from(run).ok()));
            pods.push(id.key);
        }
        What::Pods(pods)
    }

    fn put_job(
        &mut self,
        side: &mut Side,
        mut template: Template,
        waits_without_pods: bool,
    ) -> What {
        let parallelism = count(self.rng.between(1, 3));
        let waves = count(self.rng.between(0, 2));
        let completions =
            self.rng.chance(50).then_some(parallelism + if self.has_waves { waves } else { 0 });
        let mut plan =
            JobPlan::new(parallelism, completions.or(Some(parallelism)), completions.is_some(), 2);
        if waits_without_pods {
            plan.marked = Some(Arc::from("none"));
            template.priority = 0;
        }
        let id = side.world.server.new_ref_in(&self.namespace, OURS, &format!("job-{}", self.made));
        let uid = id.uid.clone();
        let now = side.world.time();
        side.controllers.add(&mut side.world.server, id, None, template, Plan::Job(plan), now);
        What::Makers(vec![uid])
    }

    /// Submits a Deployment with its ReplicaSet, or a StatefulSet.
    fn put_service(&mut self, side: &mut Side, template: Template, is_deployment: bool) -> What {
        let replicas = count(self.rng.between(0, 2));
        let now = side.world.time();
        let (name, server) = (format!("service-{}", self.made), &mut side.world.server);
        let id = server.new_ref_in(&self.namespace, OURS, &name);
        let uid = id.uid.clone();
        if !is_deployment {
            let plan = Plan::Stateful { replicas, ordered: self.rng.chance(50) };
            side.controllers.add(server, id, None, template, plan, now);
            return What::Makers(vec![uid]);
        }
        side.controllers.add(
            server,
            id,
            None,
            template.clone(),
            Plan::Deployment { replicas },
            now,
        );
        let owner = owner_of(&server.controllers[&uid]);
        let set = server.new_ref_in(&self.namespace, OURS, &format!("{name}-5d8f"));
        let set_uid = set.uid.clone();
        side.controllers.add(server, set, Some(owner), template, Plan::Replicas(replicas), now);
        What::Makers(vec![uid, set_uid])
    }

    /// Changes one of its submissions.
    fn change(&mut self, side: &mut Side) {
        let (what, choice) = (self.rng.below(4), self.rng.below(1_000));
        let class = self.rng.pick(&PRIORITY_CLASSES).expect("there are four").0;
        if self.live.is_empty() {
            return;
        }
        let at = choice % self.live.len();
        match what {
            0 => {
                let submitted = self.live.swap_remove(at);
                remove(side, &submitted.what);
            }
            1 => self.scale(side, at, count(u64::try_from(choice % 3).expect("a few"))),
            2 => self.wish(side, at, |job| job.spec.overrides.hold = !job.spec.overrides.hold),
            _ if self.priority.is_some() => {}
            _ => self.wish(side, at, |job| {
                job.spec.overrides.priority_class_name = Some(class.to_owned());
            }),
        }
    }

    fn scale(&self, side: &mut Side, at: usize, wanted: u32) {
        let What::Makers(makers) = &self.live[at].what else { return };
        for uid in makers {
            let Some(workload) = side.controllers.workloads.get_mut(uid) else { continue };
            match &mut workload.plan {
                Plan::Job(job) if self.has_waves => job.parallelism = wanted.max(1),
                Plan::Job(_) => {}
                Plan::Replicas(replicas)
                | Plan::Stateful { replicas, .. }
                | Plan::Deployment { replicas } => {
                    *replicas = wanted;
                }
            }
            side.controllers.refresh(&mut side.world.server, uid);
        }
    }

    /// Edits the overrides of a submission, if it has a FluxJob by now.
    fn wish(&self, side: &mut Side, at: usize, edit: impl Fn(&mut FluxJob)) {
        let server = &side.world.server;
        let (uids, names): (Vec<Uid>, Vec<Arc<str>>) = match &self.live[at].what {
            What::Makers(makers) => (makers.clone(), Vec::new()),
            What::Pods(pods) => {
                let pods = || pods.iter().filter_map(|key| server.pods.get(key));
                let groups = pods()
                    .filter_map(|pod| pod.group.as_ref().map(|group| Arc::clone(&group.name)));
                (pods().map(|pod| pod.id.uid.clone()).collect(), groups.collect())
            }
        };
        let records = server.flux_jobs.values().filter(|job| {
            let of = &job.spec.workload_ref;
            flux_job_key(job).namespace == self.namespace
                && (uids.iter().any(|uid| **uid == *of.uid)
                    || names.iter().any(|name| **name == *of.name))
        });
        let Some(mut job) = records.map(|job| FluxJob::clone(job)).next() else { return };
        edit(&mut job);
        job.metadata.generation = job.metadata.generation.map(|generation| generation + 1);
        side.world.server.put_flux_job(job);
    }
}

fn remove(side: &mut Side, what: &What) {
    match what {
        What::Pods(pods) => pods.iter().for_each(|pod| side.delete_pod(pod)),
        What::Makers(makers) => makers.iter().for_each(|uid| side.delete_controller(uid)),
    }
}

fn endless(template: Template) -> Template {
    Template {
        lifetime: Lifetime::Endless,
        run: Run { seconds: None, fails_percent: 0 },
        ..template
    }
}

fn labels() -> fluxqueue_workload::metadata::Labels {
    Arc::from([(Arc::from(APP), Arc::from("a"))])
}

/// Returns a term that keeps the pods of an app of this namespace off its node.
fn apart(namespace: &Arc<str>) -> PodTerm {
    let app =
        Requirement { key: Arc::from(APP), operator: Operator::In, values: vec![Arc::from("a")] };
    let namespaces = NamespaceScope { named: vec![Arc::clone(namespace)], selected: None };
    PodTerm {
        pods: PodSelector { namespaces, labels: Some(vec![app]) },
        topology_key: Arc::from(HOST),
    }
}

fn count(number: u64) -> u32 {
    u32::try_from(number).expect("a few")
}
