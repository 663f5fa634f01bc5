//! One of the two worlds: a control plane with several namespaces, its controllers and its
//! kubelets.
//!
//! Everything that happens in it follows from the acts of tenants and from streams of random
//! numbers that each belong to one object. So an act of one tenant changes something for the others
//! only through the scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fluxqueue_core::{ActionKind, Note};
use fluxqueue_workload::{
    Lifetime, ObjectKey, ObjectRef, Owner, OwnerKind, Phase, Pod, Resources, Shape, Uid,
};

use crate::controllers::{Controllers, Plan};
use crate::machine::{Factory, Start};
use crate::objects::{OURS, Run, Template};
use crate::punctual::{Punctual, ROUNDS_MAX};
use crate::rng::Rng;
use crate::server::flux_job_key;
use crate::stats::Stats;
use crate::violation::{Violation, broken};

/// Millicores of a core.
pub(super) const CORE: u64 = 1_000;
/// The name of an object that makes no pods and is never deleted. There is one in each namespace.
pub(super) const LASTING: &str = "lasting";
/// Seconds after which an ended pod without a controller is deleted.
const ENDED_KEEP_SECONDS: i64 = 5;
/// Seconds for which the garbage collector keeps an object without an owner.
const ORPHAN_SECONDS: i64 = 3;

/// One world.
pub(super) struct Side<'a> {
    pub(super) world: Punctual<'a>,
    pub(super) controllers: Controllers,
    /// Random streams, one for each object that makes pods.
    streams: BTreeMap<Uid, Rng>,
    /// Pods that stay when they are deleted, until their finalizer is taken off.
    pub(super) finalizers: BTreeSet<Uid>,
    /// Pods that the garbage collector never visits, though their owner is gone.
    pub(super) spared: BTreeSet<Uid>,
    /// The creation time of each pod, by the simulation's own account.
    made_at: BTreeMap<Uid, i64>,
    /// The Events of this second.
    pub(super) events: Vec<Note>,
    /// The number of Bindings that were refused in this second.
    pub(super) refused: usize,
}

impl<'a> Side<'a> {
    pub(super) fn new(start: Start, factory: &'a Factory, traced: bool) -> Self {
        Side {
            world: Punctual::new(start, factory, traced),
            controllers: Controllers::default(),
            streams: BTreeMap::new(),
            finalizers: BTreeSet::new(),
            spared: BTreeSet::new(),
            made_at: BTreeMap::new(),
            events: Vec::new(),
            refused: 0,
        }
    }

    /// Adds a node.
    pub(super) fn join(&mut self, name: &str, zone: &str, cores: u64) {
        let mut allocatable = Resources::new();
        allocatable.set("pods", 110);
        allocatable.set("cpu", CORE * cores);
        self.world.join(name, zone, allocatable);
    }

    /// Adds a Deployment without pods that stays.
    pub(super) fn put_lasting(&mut self, namespace: &str) {
        let id = self.world.server.new_ref_in(&Arc::from(namespace), OURS, LASTING);
        let template = Template {
            scheduler: Arc::from(OURS),
            shape: Arc::new(shape(CORE)),
            lifetime: Lifetime::Endless,
            priority: 0,
            gates: Vec::new(),
            labels: Arc::from([]),
            group: None,
            pod_group: None,
            unsupported: Vec::new(),
            levels: None,
            exclusive: false,
            run: Run { seconds: None, fails_percent: 0 },
        };
        let now = self.world.time();
        self.controllers.add(
            &mut self.world.server,
            id,
            None,
            template,
            Plan::Deployment { replicas: 0 },
            now,
        );
    }

    /// Submits a pod that runs for `run` seconds once it has a node. Without a number it runs until
    /// it is deleted.
    pub(super) fn put_pod(&mut self, pod: Pod, run: Option<i64>) {
        self.world.runs.extend(run.map(|run| (pod.id.uid.clone(), run)));
        self.world.server.put_pod(pod);
    }

    /// Deletes a pod on behalf of a user. A pod with a finalizer stays, with a deletion timestamp.
    pub(super) fn delete_pod(&mut self, key: &ObjectKey) {
        let Some(pod) = self.world.server.pods.get(key).cloned() else { return };
        if self.finalizers.contains(&pod.id.uid) {
            self.world.server.put_pod(Pod { deleting: true, ..Pod::clone(&pod) });
        } else {
            self.world.server.delete_pod(key);
        }
    }

    /// Deletes an object that makes pods, on behalf of a user. Its pods go afterwards.
    pub(super) fn delete_controller(&mut self, uid: &Uid) {
        self.world.server.remove_controller(uid);
        self.controllers.workloads.remove(uid);
        self.streams.remove(uid);
    }

    /// Carries out everything that follows within this second.
    pub(super) fn settle(&mut self) -> Result<(), Violation> {
        for _ in 0..ROUNDS_MAX {
            self.run_controllers();
            let Some(actions) = self.world.round() else { return Ok(()) };
            for action in actions {
                match &action.kind {
                    ActionKind::Note(note) => {
                        let (steps, now) = (self.world.steps, self.world.now);
                        self.world.trace.add(|| {
                            format!("{steps:>6} {now} <- {}", crate::trace::action(&action))
                        });
                        self.events.push(note.clone());
                    }
                    kind => {
                        self.refused += usize::from(self.is_refused_binding(kind));
                        self.world.carry_out(&action);
                    }
                }
            }
            self.world.run_pods();
        }
        broken("the core becomes quiet", format!("{ROUNDS_MAX} rounds in one instant"))
    }

    fn is_refused_binding(&self, kind: &ActionKind) -> bool {
        let ActionKind::Bind { pod, .. } = kind else { return false };
        self.world.server.refusals.get(&pod.key.namespace).is_some_and(|refusal| refusal.bindings)
    }

    /// Begins the next second: pods end, and deleted objects go.
    pub(super) fn pass_second(&mut self) {
        self.events.clear();
        self.refused = 0;
        self.world.pass_time(self.world.now + 1);
        self.world.steps += 1;
        self.let_go();
        self.collect_garbage();
    }

    /// Lets the controllers do all of their work.
    fn run_controllers(&mut self) {
        let uids: Vec<Uid> = self.controllers.workloads.keys().cloned().collect();
        let now = self.world.time();
        for uid in uids {
            let stream = self.streams.entry(uid.clone()).or_insert_with(|| Rng::new(hash_of(&uid)));
            loop {
                let stats = &mut Stats::default();
                let (did, made) =
                    self.controllers.sync_one(&mut self.world.server, &uid, now, stream, stats);
                if let Some((pod, run)) = made {
                    let seconds = run.seconds.and_then(|seconds| i64::try_from(seconds).ok());
                    self.world.runs.extend(seconds.map(|seconds| (pod, seconds)));
                }
                if !did {
                    break;
                }
            }
        }
    }

    /// Removes pods that are being deleted, and ended ones after a while, except those with a
    /// finalizer.
    fn let_go(&mut self) {
        let now = self.world.now;
        let is_over = |pod: &Pod| {
            let has_ended = pod.ended.is_some_and(|at| at.seconds() + ENDED_KEEP_SECONDS <= now);
            let is_owned = pod.owner.as_ref().is_some_and(|owner| owner.kind == OwnerKind::Job);
            pod.deleting || (has_ended && !is_owned)
        };
        let over: Vec<Arc<Pod>> =
            self.world.server.pods.values().filter(|pod| is_over(pod)).cloned().collect();
        for pod in over {
            if !self.finalizers.contains(&pod.id.uid) {
                self.world.server.remove_pod(&pod.id.key);
            } else if pod.uses_node() {
                // Its kubelet ends it nevertheless.
                let ended = Some(self.world.time());
                self.world.server.put_pod(Pod {
                    phase: Phase::Failed,
                    ended,
                    deleting: true,
                    ..Pod::clone(&pod)
                });
            } else if !pod.deleting {
                self.world.server.put_pod(Pod { deleting: true, ..Pod::clone(&pod) });
            }
        }
        let pods: BTreeSet<&Uid> = self.world.server.pods.values().map(|pod| &pod.id.uid).collect();
        self.world.runs.retain(|uid, _| pods.contains(uid));
        self.made_at.retain(|uid, _| pods.contains(uid));
        for uid in pods {
            self.made_at.entry(uid.clone()).or_insert(now);
        }
    }

    /// Removes objects without an owner in their own namespace.
    fn collect_garbage(&mut self) {
        let now = self.world.now;
        let server = &self.world.server;
        let sets = server.controllers.values().filter(|it| {
            it.owner
                .as_ref()
                .is_some_and(|owner| !has_controller(self, &it.id.key.namespace, &owner.uid))
        });
        let sets: Vec<Uid> = sets.map(|it| it.id.uid.clone()).collect();
        for uid in &sets {
            self.delete_controller(uid);
        }
        let is_orphan = |pod: &&Arc<Pod>| {
            let owned_by_none = |owner: &Owner| {
                !matches!(owner.kind, OwnerKind::Other(_))
                    && !has_controller(self, &pod.id.key.namespace, &owner.uid)
            };
            let is_old = self.made_at.get(&pod.id.uid).is_some_and(|at| at + ORPHAN_SECONDS <= now);
            let is_spared = self.spared.contains(&pod.id.uid);
            !pod.deleting && is_old && !is_spared && pod.owner.as_ref().is_some_and(owned_by_none)
        };
        let orphans = self.world.server.pods.values().filter(is_orphan);
        let orphans: Vec<ObjectKey> = orphans.map(|pod| pod.id.key.clone()).collect();
        for key in &orphans {
            self.delete_pod(key);
        }
        let records = self.world.server.flux_jobs.values().filter(|job| {
            let owners = job.metadata.owner_references.as_deref().unwrap_or_default();
            let key = flux_job_key(job);
            !owners.is_empty()
                && owners.iter().all(|owner| !self.has_object(&key.namespace, &owner.uid))
        });
        let records: Vec<ObjectKey> = records.map(|job| flux_job_key(job)).collect();
        for key in &records {
            self.world.server.remove_flux_job(key);
        }
    }

    pub(super) fn has_object(&self, namespace: &str, uid: &str) -> bool {
        let is_it = |id: &ObjectRef| *id.key.namespace == *namespace && *id.uid == *uid;
        self.world.server.pods.values().any(|pod| is_it(&pod.id))
            || has_controller(self, namespace, uid)
    }
}

fn has_controller(side: &Side, namespace: &str, uid: &str) -> bool {
    let controller = side.world.server.controllers.values().find(|it| *it.id.uid == *uid);
    controller.is_some_and(|it| *it.id.key.namespace == *namespace)
}

/// Returns a seed that depends only on a name.
fn hash_of(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns the shape of a pod that requests this many millicores and has no constraint.
pub(super) fn shape(millicores: u64) -> Shape {
    let mut requests = Resources::new();
    requests.set("pods", 1);
    requests.set("cpu", millicores);
    Shape { requests, constraints: fluxqueue_workload::constraints::Constraints::default() }
}

/// Returns the walltime of a pod.
pub(super) fn walltime(seconds: i64) -> Lifetime {
    Lifetime::Seconds(u64::try_from(seconds).expect("minutes"))
}
