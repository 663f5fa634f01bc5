//! Pods for tests.

use fluxqueue_workload::constraints::Constraints;
use fluxqueue_workload::{ObjectKey, ObjectRef, Pod, Shape, Time};

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
