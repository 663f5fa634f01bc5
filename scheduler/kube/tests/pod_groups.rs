use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::server::{Script, Server};
use crate::kube::pod_groups::{self, Served};
use crate::kube::watch::Watches;
use crate::serve::Metrics;
use fluxqueue_core::Event;
use fluxqueue_workload::pod_group::{GroupPolicy, GroupVersion};

const GROUP: &str = "/apis/scheduling.k8s.io";

/// Serves PodGroups and Workloads in these versions, the oldest first as API servers may.
fn serve(server: &Server, versions: &[&str]) {
    let named: Vec<Value> = versions.iter().map(|version| json!({ "version": version })).collect();
    server.put(GROUP, json!({ "kind": "APIGroup", "versions": named }));
    for version in versions {
        let resources = json!([{ "name": "podgroups" }, { "name": "workloads" }]);
        server.put(&format!("{GROUP}/{version}"), json!({ "resources": resources }));
    }
}

fn group(version: &str, name: &str, count: u32) -> (String, Value) {
    let path = format!("{GROUP}/{version}/namespaces/ns/podgroups/{name}");
    let metadata = json!({ "name": name, "namespace": "ns", "uid": format!("uid-{name}") });
    let spec = json!({ "schedulingPolicy": { "gang": { "minCount": count } } });
    (path, json!({ "metadata": metadata, "spec": spec }))
}

async fn look(server: &Server) -> Served {
    Served::look(&server.clients.watch).await.unwrap()
}

#[tokio::test]
async fn the_newest_version_is_taken_that_has_pod_groups() {
    let server = Server::start().await;
    let none = || Served::Hidden("the API server serves no PodGroups".into());
    assert_eq!(look(&server).await, none());
    // The group has PriorityClasses in v1 for long.
    serve(&server, &[]);
    server.put(GROUP, json!({ "versions": [{ "version": "v1" }] }));
    server.put(&format!("{GROUP}/v1"), json!({ "resources": [{ "name": "priorityclasses" }] }));
    assert_eq!(look(&server).await, none());
    let versions = ["v1alpha2", "v1alpha3", "v1beta1", "v1"];
    let expected =
        [GroupVersion::V1alpha2, GroupVersion::V1alpha3, GroupVersion::V1beta1, GroupVersion::V1];
    for (at, version) in expected.into_iter().enumerate() {
        serve(&server, &versions[..=at]);
        assert_eq!(look(&server).await, Served::In(version, true));
    }
    server.script("v1/workloads", Script::Refuse(403, "Forbidden"));
    assert_eq!(look(&server).await, Served::In(GroupVersion::V1, false));
    server.script("v1/podgroups", Script::Refuse(403, "Forbidden"));
    let Served::Hidden(why) = look(&server).await else { panic!("it may not read them") };
    assert!(why.starts_with("fluxqueue may not read PodGroups (listing "), "{why}");
    server.script(GROUP, Script::Refuse(500, "InternalError"));
    assert!(Served::look(&server.clients.watch).await.is_err(), "it is not known");
}

/// The watches of a server, and their events as short texts.
struct Listener {
    batches: mpsc::Receiver<Vec<Event>>,
    pending: Vec<String>,
    task: tokio::task::JoinHandle<()>,
}

impl Listener {
    async fn start(server: &Server, others: usize) -> Self {
        let served = look(server).await;
        let (sender, batches) = mpsc::channel(16);
        let watches = Watches {
            client: server.clients.watch.clone(),
            batches: sender,
            metrics: Arc::new(Metrics::new("0", "0")),
            unlisted: Arc::new(AtomicUsize::new(others + served.kinds())),
        };
        let pause = Duration::from_millis(20);
        let watch = pod_groups::watch(watches, served, pause);
        let task = tokio::spawn(async move { watch.await.unwrap() });
        Listener { batches, pending: Vec::new(), task }
    }

    async fn expect(&mut self, expected: &str) {
        while self.pending.is_empty() {
            let batch = tokio::time::timeout(Duration::from_secs(5), self.batches.recv()).await;
            let batch = batch.unwrap_or_else(|_| panic!("no {expected}")).expect("it goes on");
            self.pending.extend(batch.iter().map(short));
        }
        assert_eq!(self.pending.remove(0), expected);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn short(event: &Event) -> String {
    match event {
        Event::PodGroupsHidden(why) => if why.is_some() { "hidden" } else { "served" }.to_owned(),
        Event::PodGroup(group) => {
            let Ok(GroupPolicy::Gang(count)) = group.policy else { panic!("{group:?}") };
            format!("+{} {} {count}", group.id, group.version.as_str())
        }
        Event::PodGroupGone(group) => format!("-{group}"),
        Event::Synced => "synced".to_owned(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn groups_are_followed_from_one_version_to_the_next_and_into_none() {
    let server = Server::start().await;
    serve(&server, &["v1beta1"]);
    let (path, object) = group("v1beta1", "g", 2);
    server.put(&path, object);
    let (other, object) = group("v1beta1", "h", 3);
    server.put(&other, object);
    let mut listener = Listener::start(&server, 0).await;
    listener.expect("served").await;
    listener.expect("+ns/g v1beta1 2").await;
    listener.expect("+ns/h v1beta1 3").await;
    listener.expect("synced").await;
    // An upgrade: the same objects in another version, but for one that is gone.
    serve(&server, &["v1beta1", "v1"]);
    let (path, object) = group("v1", "g", 2);
    server.put(&path, object);
    listener.expect("served").await;
    listener.expect("+ns/g v1 2").await;
    listener.expect("-ns/h").await;
    server.put(GROUP, json!({ "versions": [] }));
    listener.expect("hidden").await;
    listener.expect("-ns/g").await;
}

#[tokio::test]
async fn groups_that_are_served_later_are_watched_then() {
    let server = Server::start().await;
    let mut listener = Listener::start(&server, 1).await;
    listener.expect("hidden").await;
    let (path, object) = group("v1alpha2", "g", 2);
    server.put(&path, object);
    serve(&server, &["v1alpha2"]);
    listener.expect("served").await;
    // The other kind has not been listed, so the first lists are not complete.
    listener.expect("+ns/g v1alpha2 2").await;
    server.remove(&path);
    listener.expect("-ns/g").await;
}
