use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::api::resource::v1::DeviceClass;

use crate::kube::kinds::{REQUIRED, WatchedKind};
use crate::kube::lean::Lean;
use crate::kube::storage;

/// The core waits for one list of each kind.
#[test]
fn no_kind_is_watched_twice() {
    let mut kinds = REQUIRED.to_vec();
    kinds.extend(storage::KINDS);
    let names: BTreeSet<&str> = kinds.iter().map(|kind| kind.name).collect();
    assert_eq!(names.len(), kinds.len(), "{names:?}");
}

#[test]
fn kinds_are_listed_where_they_are_served() {
    let paths: Vec<String> = storage::KINDS.iter().map(|kind| kind.path()).collect();
    assert_eq!(
        paths,
        [
            "/api/v1/persistentvolumeclaims",
            "/api/v1/persistentvolumes",
            "/apis/storage.k8s.io/v1/storageclasses",
            "/apis/storage.k8s.io/v1/csinodes",
            "/apis/storage.k8s.io/v1/csidrivers",
            "/apis/storage.k8s.io/v1/csistoragecapacities",
            "/apis/storage.k8s.io/v1/volumeattachments",
        ]
    );
    assert_eq!(WatchedKind::of::<Lean<ResourceQuota>>().path(), "/api/v1/resourcequotas");
    let device_classes = "/apis/resource.k8s.io/v1/deviceclasses";
    assert_eq!(WatchedKind::of::<DeviceClass>().path(), device_classes);
}
