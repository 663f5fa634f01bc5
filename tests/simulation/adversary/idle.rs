//! Acts that request nothing: objects that can never start, or that are not for this scheduler, and
//! edits of these.

use std::sync::Arc;

use fluxqueue_api::{
    FluxJob, FluxJobSpec, FluxJobStatus, PlacementRange, Reservation, WorkloadKind, WorkloadRef,
    names,
};
use fluxqueue_workload::{Controller, GroupLabels, Lifetime, ObjectKey, ObjectRef, OwnerKind, Pod};
use k8s_openapi::api::core::v1::Pod as KubePod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::acts::Adversary;
use super::side::Side;
use crate::controllers::owner_of;
use crate::objects::{FOREIGN, FOREIGN_GATE, OURS};

impl Adversary {
    pub(super) fn submit_foreign(&mut self, side: &mut Side) -> bool {
        let Some(maker) = self.foreign_object(side) else { return false };
        let mut pod = self.gated(side, json!({}));
        pod.owner = Some(owner_of(&maker));
        pod.priority = [0, 50][self.rng.below(2)];
        if self.rng.chance(40) {
            side.finalizers.insert(pod.id.uid.clone());
        }
        self.put(side, pod);
        true
    }

    pub(super) fn make_foreign(&mut self, side: &mut Side) -> bool {
        let Some(maker) = self.foreign_object(side) else { return false };
        self.made += 1;
        let id =
            side.world.server.new_ref_in(&self.namespace, OURS, &format!("act-set-{}", self.made));
        let set = Controller {
            id,
            kind: OwnerKind::ReplicaSet,
            owner: Some(owner_of(&maker)),
            ..Controller::clone(&maker)
        };
        let owner = owner_of(&set);
        side.world.server.put_controller(Controller {
            suspension: None,
            wants: 2,
            parallelism: 2,
            ..set
        });
        let pod = self.gated(side, json!({}));
        self.put(side, Pod { owner: Some(owner), ..pod });
        true
    }

    pub(super) fn delete_in_vain(&mut self, side: &mut Side) -> bool {
        let pod = self.gated(side, json!({}));
        let key = pod.id.key.clone();
        side.finalizers.insert(pod.id.uid.clone());
        self.put(side, pod);
        side.delete_pod(&key);
        true
    }

    pub(super) fn relabel(&mut self, side: &mut Side) -> bool {
        let Some(pod) = self.pick_idle(side) else { return false };
        let mut pod = Pod::clone(&pod);
        match self.rng.below(3) {
            0 => {
                let size = Ok(u32::try_from(self.rng.between(1, 4)).expect("a few"));
                // Such a member would spoil a gang of the adversary's requests, and the twin would
                // then have another request.
                let name = if self.lies() { "spoiled" } else { "gang" };
                pod.group = Some(GroupLabels {
                    name: Arc::from(format!("{name}-{}", self.rng.below(9))),
                    size,
                });
            }
            1 => pod.group = None,
            _ => {
                let queue = ["nowhere", "default", "services"][self.rng.below(3)];
                pod.labels = Arc::from([(Arc::from(names::QUEUE_NAME), Arc::from(queue))]);
            }
        }
        side.world.server.put_pod(pod);
        true
    }

    pub(super) fn churn(&mut self, side: &mut Side) -> bool {
        let pods: Vec<Arc<Pod>> =
            self.idle.iter().filter_map(|key| side.world.server.pods.get(key).cloned()).collect();
        for pod in &pods {
            let labels =
                Arc::from([(Arc::from("turn"), Arc::from(self.rng.below(1_000).to_string()))]);
            side.world.server.put_pod(Pod { labels, ..Pod::clone(pod) });
        }
        !pods.is_empty()
    }

    pub(super) fn submit_texts(&mut self, side: &mut Side) -> bool {
        let annotations = self.odd_annotations();
        let labels =
            json!({ names::POD_GROUP: "x".repeat(63), names::GROUP_SIZE: self.odd_label() });
        let more = json!({ "metadata": { "annotations": annotations, "labels": labels } });
        let pod = self.gated(side, more);
        self.put(side, pod);
        true
    }

    pub(super) fn wish(&mut self, side: &mut Side) -> bool {
        let Some(mut job) = self.pick_record(side, true) else { return false };
        let wishes = &mut job.spec.overrides;
        match self.rng.below(4) {
            0 => wishes.hold = !wishes.hold,
            1 => {
                wishes.priority_class_name =
                    Some(["high", "unknown"][self.rng.below(2)].to_owned());
            }
            2 => {
                wishes.walltime_seconds = Some([1, i64::MAX, 1_000_000_000_000][self.rng.below(3)]);
            }
            _ => wishes.queue_name = Some(["default", "nowhere"][self.rng.below(2)].to_owned()),
        }
        job.metadata.generation = job.metadata.generation.map(|generation| generation + 1);
        side.world.server.put_flux_job(job);
        true
    }

    pub(super) fn submit_refused(&mut self, side: &mut Side) -> bool {
        let annotations = self.odd_annotations();
        let mut pod = self.gated(side, json!({ "metadata": { "annotations": annotations } }));
        if pod.unsupported.is_empty() {
            return false;
        }
        pod.gates.clear();
        pod.priority = [0, 50][self.rng.below(2)];
        self.put(side, pod);
        true
    }

    pub(super) fn submit_never(&mut self, side: &mut Side) -> bool {
        let group = self.rng.chance(40).then(|| format!("never-{}", self.made));
        for _ in 0..if group.is_some() { 2 } else { 1 } {
            let cpu = ["1000000", "9223372036854775807m", "1"][self.rng.below(3)];
            let spec = json!({
                "nodeSelector": { "zone": "nowhere" },
                "containers": [{ "name": "main", "resources": { "requests": { "cpu": cpu } } }],
            });
            let mut pod = self.gated(side, json!({ "spec": spec }));
            pod.gates.clear();
            pod.priority = [0, 50][self.rng.below(2)];
            pod.lifetime = Lifetime::Seconds(20);
            pod.group =
                group.as_deref().map(|name| GroupLabels { name: Arc::from(name), size: Ok(2) });
            self.put(side, pod);
        }
        true
    }

    pub(super) fn submit_half(&mut self, side: &mut Side) -> bool {
        let size = u32::try_from(self.rng.between(2, 200)).expect("a few");
        let name: Arc<str> = Arc::from(format!("half-{}", self.made));
        let mut pod = self.gated(side, json!({}));
        pod.gates.clear();
        pod.priority = [0, 50][self.rng.below(2)];
        pod.group = Some(GroupLabels { name, size: Ok(size) });
        self.put(side, pod);
        true
    }

    pub(super) fn submit_other(&mut self, side: &mut Side) -> bool {
        let mut pod = self.gated(side, json!({ "spec": { "schedulerName": FOREIGN } }));
        pod.gates = vec![Arc::from(names::GATE)];
        self.put(side, pod);
        true
    }

    pub(super) fn forge(&mut self, side: &mut Side) -> bool {
        let Some(maker) = self.foreign_object(side) else { return false };
        self.made += 1;
        let kind = match maker.kind {
            OwnerKind::Job => WorkloadKind::Job,
            OwnerKind::StatefulSet => WorkloadKind::StatefulSet,
            _ => WorkloadKind::Deployment,
        };
        let workload_ref = WorkloadRef {
            api_version: None,
            kind,
            name: maker.id.key.name.to_string(),
            uid: maker.id.uid.to_string(),
        };
        let spec = FluxJobSpec {
            workload_ref,
            scheduler_name: Some(OURS.to_owned()),
            ..FluxJobSpec::default()
        };
        // Half of them have the name that the FluxJob of the other has in its own namespace.
        let theirs = names::fluxjob_name(&maker.id.key.name, kind, &maker.id.uid);
        let name = if self.rng.chance(50) { theirs } else { format!("forged-{}", self.made) };
        let key = ObjectKey::new(Arc::clone(&self.namespace), name.as_str());
        if side.world.server.flux_jobs.contains_key(&key) {
            return false;
        }
        let mut job = FluxJob::new(&name, spec);
        job.metadata.namespace = Some(self.namespace.to_string());
        job.metadata.uid =
            Some(side.world.server.new_uid_of(&format!("{}.forged", self.namespace)).to_string());
        job.metadata.generation = Some(1);
        job.status = Some(forged_status(side));
        side.world.server.put_flux_job(job);
        true
    }

    // --- what they are made of ---

    /// Makes a pod with a gate that is never removed.
    fn gated(&mut self, side: &mut Side, more: Value) -> Pod {
        self.made += 1;
        let id = side.world.server.new_ref_in(&self.namespace, OURS, &format!("act-{}", self.made));
        let pod = self.read(&id, more);
        Pod { created: side.world.time(), ..pod }
    }

    /// Reads such a pod as the scheduler does.
    pub(super) fn read(&mut self, id: &ObjectRef, more: Value) -> Pod {
        let mut object = json!({
            "metadata": { "name": &*id.key.name, "namespace": &*id.key.namespace, "uid": &*id.uid },
            "spec": {
                "schedulerName": OURS,
                "restartPolicy": "Never",
                "schedulingGates": [{ "name": FOREIGN_GATE }],
                "containers": [{ "name": "main", "resources": { "requests": { "cpu": "1" } } }],
            },
        });
        merge(&mut object, more);
        let object: KubePod = serde_json::from_value(object).expect("it is a pod");
        Pod::from_kubernetes(&object, &mut self.shapes).expect("it has a name and a uid")
    }

    fn put(&mut self, side: &mut Side, pod: Pod) {
        self.idle.push(pod.id.key.clone());
        side.put_pod(pod, None);
    }

    fn pick_idle(&mut self, side: &Side) -> Option<Arc<Pod>> {
        let pods = self.idle.iter().filter_map(|key| side.world.server.pods.get(key));
        let gated: Vec<&Arc<Pod>> = pods.filter(|pod| !pod.gates.is_empty()).collect();
        self.rng.pick(&gated).map(|pod| Arc::clone(pod))
    }

    fn odd_annotations(&mut self) -> Value {
        let keys = [
            names::WALLTIME,
            names::EXCLUSIVE,
            names::REQUIRED_LEVEL,
            names::LEVEL_SCOPE,
            names::SLICE_LEVEL,
            names::SLICE_SIZE,
            names::SPREAD_LEVEL,
            names::MAX_PER_PART,
            names::MAX_SKEW,
            names::SUSPENDED,
            names::RELEASED_AT,
        ];
        let mut annotations = serde_json::Map::new();
        for _ in 0..self.rng.between(1, 4) {
            let key = (*self.rng.pick(&keys).expect("there are some")).to_owned();
            annotations.insert(key, Value::String(self.odd_text()));
        }
        Value::Object(annotations)
    }

    pub(super) fn odd_text(&mut self) -> String {
        let texts = [
            "",
            "0",
            "-1",
            "1e999",
            "99999999999999999999",
            "\u{7f}\u{1b}[2J\r\n",
            "true",
            "zone",
            "nowhere",
            "24:00:00",
        ];
        match self.rng.below(4) {
            0 => "x".repeat(32_768),
            1 => "\u{7f}".repeat(5_440),
            _ => (*self.rng.pick(&texts).expect("there are some")).to_owned(),
        }
    }

    pub(super) fn odd_label(&mut self) -> &'static str {
        ["", "0", "-1", "many", "100001", "4294967296", "00002"][self.rng.below(7)]
    }
}

/// Makes a status that claims every node, from the beginning of time.
fn forged_status(side: &Side) -> FluxJobStatus {
    let nodes: Vec<&str> = side.world.server.nodes.keys().map(|name| &**name).collect();
    let at = MicroTime(Timestamp::UNIX_EPOCH);
    let range = PlacementRange {
        pod_set: "main".to_owned(),
        pod_indexes: "0-3".to_owned(),
        nodes: nodes.join(","),
        node_indexes: String::new(),
        pods_per_node: 1,
    };
    FluxJobStatus {
        queued_at: Some(at.clone()),
        priority: Some(1_000_000),
        reservation: Some(Reservation {
            start: Some(at),
            nodes: nodes.join(","),
            node_indexes: String::new(),
        }),
        placement: vec![range],
        epoch: Some(1),
        total: 4,
        ..FluxJobStatus::default()
    }
}

/// Adds fields to an object. Existing values are replaced, except for objects, which are merged.
fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}
