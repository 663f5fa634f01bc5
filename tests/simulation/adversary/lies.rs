//! Lies about requests that an honest tenant could make, too. The twin has these requests without
//! the lies.
//!
//! Some lies come with the submission of a pod ([`Adversary::decorate`]), and others concern
//! waiting and running pods.

use std::sync::Arc;

use fluxqueue_api::{FluxJob, JobState, names};
use fluxqueue_workload::metadata::Labels;
use fluxqueue_workload::{Controller, GroupLabels, Owner, Pod};
use serde_json::json;

use super::acts::{Act, Adversary, is_idle};
use super::side::{LASTING, Side};
use crate::controllers::owner_of;
use crate::objects::{FOREIGN_GATE, OURS, Template};
use crate::server::flux_job_key;

/// Seconds for which a spark is a member of its gang.
const SPARK_SECONDS: i64 = 3;

/// Priority that lying members add to the priority of the others.
const RAISED: i32 = 50;

impl Adversary {
    /// True if it has requests and lies about them.
    pub(super) fn lies(&self) -> bool {
        self.acts.iter().any(|act| (Act::LieAboutOwner..Act::Overrun).contains(act))
    }

    /// Lies about a pod with a request.
    pub(super) fn decorate(&mut self, side: &mut Side, pod: &mut Pod) {
        for (act, percent) in LIES {
            if self.acts.contains(&act) && self.rng.chance(percent) {
                self.lie(act, side, pod);
            }
        }
    }

    fn lie(&mut self, act: Act, side: &mut Side, pod: &mut Pod) {
        let is_told = match act {
            Act::LieAboutOwner => {
                pod.owner = self.false_owner(side);
                side.spared.insert(pod.id.uid.clone());
                true
            }
            Act::LieByLabels => {
                pod.labels = self.lying_labels(&pod.labels, pod.group.is_some());
                true
            }
            Act::LieByTexts => {
                *pod = self.with_texts(pod);
                true
            }
            Act::Disagree => self.disagree(pod),
            Act::KeepEnded => side.finalizers.insert(pod.id.uid.clone()),
            _ => false,
        };
        side.world.stats.add(act.name(), u64::from(is_told));
    }

    /// Returns a false owner: an object of another namespace, or one of its own under another name.
    /// The object stays: a missing one could still arrive as far as a new process knows, and the
    /// pod would wait for it.
    fn false_owner(&mut self, side: &Side) -> Option<Owner> {
        let lasting =
            side.world.server.controllers.values().filter(|it| *it.id.key.name == *LASTING);
        let lasting: Vec<&Arc<Controller>> = lasting.collect();
        let object = self.rng.pick(&lasting)?;
        let owner = owner_of(object);
        let is_own = object.id.key.namespace == self.namespace;
        Some(if is_own { Owner { name: Arc::from("another"), ..owner } } else { owner })
    }

    /// Lies about the pods that an object is going to make.
    pub(super) fn decorate_template(&mut self, side: &mut Side, template: &mut Template) {
        if self.acts.contains(&Act::LieByLabels) && self.rng.chance(50) {
            template.labels = self.lying_labels(&template.labels, false);
            side.world.stats.count(Act::LieByLabels.name());
        }
    }

    /// Returns labels of others, or half of a group's labels.
    fn lying_labels(&mut self, labels: &Labels, is_grouped: bool) -> Labels {
        let mut all: Vec<(Arc<str>, Arc<str>)> = labels.to_vec();
        all.push((Arc::from("zz-app"), Arc::from("a")));
        if !is_grouped {
            all.push((
                Arc::from(names::POD_GROUP),
                Arc::from(format!("gang-{}", self.rng.below(9))),
            ));
        }
        all.sort();
        all.into()
    }

    /// Returns the pod with meaningless annotations and labels. It is read as the scheduler reads
    /// it, except for its request.
    fn with_texts(&mut self, pod: &Pod) -> Pod {
        let mut annotations = serde_json::Map::new();
        for key in
            [names::CHARGED_QUEUE, names::RELEASED_AT, names::SUSPENDED, COMPLETION_INDEX, NOTE]
        {
            annotations.insert(key.to_owned(), json!(self.odd_text()));
        }
        let mut labels: serde_json::Map<_, _> =
            pod.labels.iter().map(|(key, value)| (key.to_string(), json!(&**value))).collect();
        labels.insert(names::GROUP_LABELS[1].1.to_owned(), json!(self.odd_label()));
        let mut read = self
            .read(&pod.id, json!({ "metadata": { "annotations": annotations, "labels": labels } }));
        read.unsupported.clear();
        let (owner, group, shape) = (pod.owner.clone(), pod.group.clone(), Arc::clone(&pod.shape));
        let (created, lifetime, grace_secs) = (pod.created, pod.lifetime, pod.grace_secs);
        let (priority, exclusive, gates) = (pod.priority, pod.exclusive, pod.gates.clone());
        Pod {
            owner,
            group,
            shape,
            created,
            lifetime,
            grace_secs,
            priority,
            exclusive,
            gates,
            ..read
        }
    }

    /// Lets every member of a group but the first claim a higher priority, or another size of the
    /// group.
    fn disagree(&mut self, pod: &mut Pod) -> bool {
        let is_first = pod.id.key.name.ends_with("-0");
        let Some(group) = pod.group.clone().filter(|_| !is_first) else { return false };
        if self.rng.chance(50) {
            pod.priority += RAISED;
        } else {
            let size = Ok(u32::try_from(self.rng.between(1, 9)).expect("a few"));
            pod.group = Some(GroupLabels { size, ..group });
        }
        true
    }

    /// Lets a pod of higher priority join a waiting gang for a while.
    pub(super) fn spark(&mut self, side: &mut Side) -> bool {
        let waits = |pod: &&Arc<Pod>| {
            pod.id.key.namespace == self.namespace
                && pod.node.is_none()
                && pod.gates.is_empty()
                && pod.id.key.name.starts_with("gang-")
        };
        let waiting: Vec<Arc<Pod>> =
            side.world.server.pods.values().filter(waits).cloned().collect();
        let Some(member) = self.rng.pick(&waiting).cloned() else { return false };
        self.made += 1;
        let id =
            side.world.server.new_ref_in(&self.namespace, OURS, &format!("spark-{}", self.made));
        self.sparks.push((side.world.now + SPARK_SECONDS, id.key.clone()));
        let (created, gates) = (side.world.time(), vec![Arc::from(FOREIGN_GATE)]);
        side.put_pod(Pod { id, created, gates, priority: RAISED, ..Pod::clone(&member) }, None);
        true
    }

    /// Lets a pod with a node claim to be of another group, of none, or of a queue that does not
    /// exist. For pods of Jobs only the queue changes: a process that starts then would keep the
    /// slot of such a pod for its Job for a while.
    pub(super) fn relabel_running(&mut self, side: &mut Side) -> bool {
        let is_there =
            |pod: &&Arc<Pod>| pod.id.key.namespace == self.namespace && pod.node.is_some();
        let there: Vec<Arc<Pod>> =
            side.world.server.pods.values().filter(is_there).cloned().collect();
        let Some(pod) = self.rng.pick(&there) else { return false };
        let mut pod = Pod::clone(pod);
        let is_bare = pod.owner.is_none();
        match self.rng.below(3) {
            0 if is_bare => {
                let size = Ok(u32::try_from(self.rng.between(1, 4)).expect("a few"));
                pod.group = Some(GroupLabels {
                    name: Arc::from(format!("gone-{}", self.rng.below(3))),
                    size,
                });
            }
            1 if is_bare => pod.group = None,
            _ => pod.labels = Arc::from([(Arc::from(names::QUEUE_NAME), Arc::from("nowhere"))]),
        }
        side.world.server.put_pod(pod);
        true
    }

    /// Sets overrides that make no difference: a class that does not exist, the queue in which the
    /// job waits, a hold of a running job.
    pub(super) fn wish_in_vain(&mut self, side: &mut Side) -> bool {
        let is_lone = |name: &str| name.starts_with("pod-");
        let own = side
            .world
            .server
            .flux_jobs
            .values()
            .filter(|job| flux_job_key(job).namespace == self.namespace);
        let own: Vec<_> = own.filter(|job| !is_idle(job)).cloned().collect();
        let Some(job) = self.rng.pick(&own) else { return false };
        let mut job = FluxJob::clone(job);
        let runs =
            job.status.as_ref().is_some_and(|status| status.state == Some(JobState::Running));
        let wishes = &mut job.spec.overrides;
        match self.rng.below(3) {
            0 if wishes.priority_class_name.is_none() => {
                wishes.priority_class_name = Some("unknown".to_owned());
            }
            1 => wishes.queue_name = Some(names::QUEUE_DEFAULT.to_owned()),
            _ if runs && is_lone(&job.spec.workload_ref.name) => wishes.hold = !wishes.hold,
            _ => return false,
        }
        job.metadata.generation = job.metadata.generation.map(|generation| generation + 1);
        side.world.server.put_flux_job(job);
        true
    }
}

/// Lies at the submission of a pod, each with its percentage of pods.
const LIES: [(Act, usize); 5] = [
    (Act::LieAboutOwner, 60),
    (Act::LieByTexts, 40),
    (Act::LieByLabels, 60),
    (Act::Disagree, 60),
    (Act::KeepEnded, 40),
];

const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
const NOTE: &str = "example.com/note";
