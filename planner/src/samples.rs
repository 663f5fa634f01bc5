//! Pods for tests, and groups of them.

use std::sync::Arc;

use crate::plan::{Group, Terms};
use crate::queue::QueueId;
use fluxqueue_machine::cluster::Company;
use fluxqueue_machine::ledger::SlotRequest;
use fluxqueue_workload::constraints::Constraints;
use fluxqueue_workload::{Lifetime, ObjectKey, ObjectRef, Pod, Shape, Time};

/// Makes a pod of the namespace `ns` that waits for this number of cores.
pub(crate) fn pod(name: &str, cores: u64) -> Pod {
    let key = ObjectKey::new("ns", name);
    let requests = [("cpu", cores * 1000), ("pods", 1)].into_iter().collect();
    let shape = Shape { requests, constraints: Constraints::default() };
    let id = ObjectRef { key, uid: format!("uid-{name}").into() };
    let mut pod = Pod::waiting(id, "fluxqueue".into(), shape.into());
    pod.created = Time::from_seconds(1000);
    pod
}

/// Makes a group of this number of pods like this one, without rules about other pods.
pub(crate) fn group(sample: Pod, count: usize, lifetime: Lifetime) -> Group {
    Group {
        wants: vec![SlotRequest::new(Arc::clone(&sample.shape), count)],
        pods: Vec::new(),
        lifetime,
        lifetime_later: None,
        sample: Arc::new(sample),
        terms: Terms::default(),
        company: Company::Together,
        queue: QueueId::DEFAULT,
        queue_nodes: None,
    }
}
