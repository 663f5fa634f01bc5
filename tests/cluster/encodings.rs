//! Pods and nodes, in both encodings in which the API server sends them.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use fluxqueue::kube::client::{configuration, connect};
use fluxqueue::kube::lean::Lean;
use fluxqueue::kube::protobuf::envelope::{self, News};
use fluxqueue::kube::protobuf::watch::CONTENT_TYPE as PROTOBUF;
use fluxqueue::kube::protobuf::{self, Decode};
use fluxqueue_machine::cluster::Node;
use fluxqueue_workload::{Pod, ShapeInterner};
use http::{Request, header};
use k8s_openapi::api::core::v1 as core_v1;
use kube::Client;
use kube::client::Body;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::harness::{Namespace, pod, shared, until};

/// Pods that no scheduler serves, with every field of a pod that Fluxqueue reads.
const RICH: &str = include_str!("encodings.yaml");

/// Fields that no author of a pod can set. The test patches them into the status.
const STATUS: &str = r#"{"status": {
    "phase": "Failed", "reason": "Evicted", "nominatedNodeName": "small-1", "startTime": "2026-01-02T03:04:05Z",
    "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room", "lastTransitionTime": "2026-01-02T03:04:06Z"},
        {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "lastTransitionTime": null}],
    "containerStatuses": [{"name": "main", "image": "x", "imageID": "x", "ready": false, "restartCount": 1,
        "allocatedResources": {"cpu": "1500m"}, "resources": {"requests": {"cpu": "1", "memory": "128974848"}},
        "state": {"terminated": {"exitCode": 3, "finishedAt": "2026-01-02T03:05:05Z"}}}],
    "initContainerStatuses": [{"name": "side", "image": "x", "imageID": "x", "ready": false, "restartCount": 0,
        "resources": {"requests": {"cpu": "12m"}}, "state": {"terminated": {"exitCode": 0, "finishedAt": "2026-01-02T03:05:06Z"}}}]
}}"#;

/// Objects by uid and version, so that an object that has changed between two answers is not
/// compared.
type Objects<T> = BTreeMap<(Option<String>, Option<String>), T>;

fn answer(client: &Client, path: &str, accept: &str) -> Bytes {
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1";
    let request =
        Request::get(format!("{path}?{query}")).header(header::ACCEPT, accept).body(Body::empty());
    let (client, request) = (client.clone(), request.expect("a request"));
    let exchange = async move { client.send(request).await?.into_body().collect_bytes().await };
    tokio::runtime::Handle::current().block_on(exchange).expect("the API server answers")
}

fn from_json<K: DeserializeOwned + kube::Resource>(answer: &Bytes) -> Objects<K> {
    let lines = answer.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let events = lines.map(|line| serde_json::from_slice::<Value>(line).expect("JSON"));
    let objects =
        events.filter(|event| event["type"] != "BOOKMARK").map(|mut event| event["object"].take());
    objects.map(|object| keyed(serde_json::from_value(object).expect("an object"))).collect()
}

fn from_protobuf<K: kube::Resource>(answer: &Bytes, decode: Decode<K>) -> Objects<K> {
    let (mut arrived, mut objects) = (BytesMut::from(&answer[..]), Objects::new());
    while let Some(frame) = envelope::take_frame(&mut arrived).expect("a frame") {
        match envelope::read_frame(frame).expect("a watch event") {
            News::There(object) => objects.extend([keyed(decode(object).expect("an object"))]),
            News::Bookmark(_) => {}
            other => panic!("unexpected {other:?}"),
        }
    }
    assert!(arrived.is_empty(), "{} bytes are left", arrived.len());
    objects
}

fn keyed<K: kube::Resource>(object: K) -> ((Option<String>, Option<String>), K) {
    let meta = object.meta();
    ((meta.uid.clone(), meta.resource_version.clone()), object)
}

/// Returns both answers about these objects, once they are about the same versions.
fn both<K: DeserializeOwned + kube::Resource>(
    client: &Client,
    path: &str,
    decode: Decode<K>,
) -> ([Bytes; 2], Vec<(K, K)>) {
    until("two answers about the same objects", || {
        let answers = [answer(client, path, "application/json"), answer(client, path, PROTOBUF)];
        let (json, mut protobuf) =
            (from_json::<K>(&answers[0]), from_protobuf(&answers[1], decode));
        let all = json.len().max(protobuf.len());
        let pairs: Vec<_> = json
            .into_iter()
            .filter_map(|(key, object)| Some((object, protobuf.remove(&key)?)))
            .collect();
        (pairs.len() == all).then_some((answers, pairs))
    })
}

/// With `UPDATE_GOLDEN=1` the answers are stored for `scheduler/kube/tests/encodings.rs`.
fn keep(name: &str, [json, protobuf]: &[Bytes; 2]) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scheduler/kube/tests/answers");
        std::fs::create_dir_all(&directory).expect("a directory");
        std::fs::write(directory.join(format!("{name}.json")), json).expect("it is written");
        std::fs::write(directory.join(format!("{name}.protobuf")), protobuf)
            .expect("it is written");
    }
}

fn make_pods(ns: &Namespace<'_>) {
    let features = r#"{"status": {"declaredFeatures": ["SomeFeature"]}}"#;
    ns.plane.kubectl(&[
        "patch",
        "node",
        "small-3",
        "--subresource=status",
        "--type=merge",
        "-p",
        features,
    ]);
    ns.plane.kubectl(&["cordon", "closed-0"]);
    let account: Value =
        serde_json::from_str(&ns.kubectl(&["get", "serviceaccount", "default", "-o", "json"]))
            .expect("JSON");
    let owner = account["metadata"]["uid"].as_str().expect("a uid");
    ns.apply(&RICH.replace("NAMESPACE", &ns.name).replace("OWNER", owner));
    ns.apply(&pod("runs", "100m", "infinity", ""));
    ns.apply(&pod("ends", "100m", "0", ""));
    ns.kubectl(&["patch", "pod", "rich", "--subresource=status", "--type=merge", "-p", STATUS]);
    ns.kubectl(&["delete", "pod", "leaving", "--wait=false"]);
    ns.running(2);
    ns.succeeded(1);
}

#[test]
fn pods_and_nodes_read_the_same_from_both_encodings() {
    let plane = shared();
    let ns = plane.namespace("encodings");
    make_pods(&ns);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let kubeconfig = plane.dir.join("admin.kubeconfig");
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = runtime.block_on(configuration(Some(&kubeconfig))).expect("a configuration");
    let _in_runtime = runtime.enter();
    let client = connect(&config).expect("clients").watch;

    let path = format!("/api/v1/namespaces/{}/pods", ns.name);
    let (answers, pods) = both::<Lean<core_v1::Pod>>(&client, &path, protobuf::pod);
    keep("pods", &answers);
    assert_eq!(pods.len(), 6);
    for (json, protobuf) in pods {
        let read =
            |pod: &Lean<core_v1::Pod>| Pod::from_kubernetes(&pod.0, &mut ShapeInterner::default());
        assert_eq!(read(&json).expect("a pod"), read(&protobuf).expect("a pod"));
    }
    let (answers, nodes) = both::<Lean<core_v1::Node>>(&client, "/api/v1/nodes", protobuf::node);
    keep("nodes", &answers);
    for (json, protobuf) in nodes {
        let read = |node: &Lean<core_v1::Node>| Node::from_kubernetes(&node.0).expect("a node");
        assert_eq!(read(&json), read(&protobuf));
    }
    plane.kubectl(&["uncordon", "closed-0"]);
    ns.kubectl(&[
        "patch",
        "pod",
        "leaving",
        "--type=merge",
        "-p",
        r#"{"metadata": {"finalizers": null}}"#,
    ]);
}
