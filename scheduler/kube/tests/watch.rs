use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::server::{Script, Seen, Server, eventually};
use crate::kube::convert::Watched;
use crate::kube::lean::{Lean, LooseFluxJob};
use crate::kube::watch::Watches;
use crate::serve::Metrics;
use fluxqueue_core::Event;

const NODES: &str = "/api/v1/nodes";
const JOBS: &str = "/apis/jobs.converged-computing.org/v1alpha1/fluxjobs";

fn node(name: &str, uid: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "uid": uid,
            "managedFields": [{ "manager": "x", "fieldsV1": { "f:a": {} } }],
        },
        "spec": {}, "status": { "allocatable": { "cpu": "2" } } })
}

/// A watch of one kind, and its events.
struct Listener {
    batches: mpsc::Receiver<Vec<Event>>,
    pending: Vec<String>,
    metrics: Arc<Metrics>,
    task: tokio::task::JoinHandle<()>,
}

impl Listener {
    fn start<K>(server: &Server) -> Self
    where
        K: Watched,
        K::DynamicType: Default + Send + Sync,
    {
        let (sender, batches) = mpsc::channel(16);
        let metrics = Arc::new(Metrics::new("0", "0"));
        let watches = Watches {
            client: server.clients.watch.clone(),
            batches: sender,
            metrics: Arc::clone(&metrics),
            unlisted: Arc::new(AtomicUsize::new(1)),
        };
        let task = tokio::spawn(async move { watches.watch::<K>().await.unwrap() });
        Listener { batches, pending: Vec::new(), metrics, task }
    }

    /// Returns the next event, as a short text.
    async fn next(&mut self) -> String {
        while self.pending.is_empty() {
            let batch = tokio::time::timeout(Duration::from_secs(5), self.batches.recv())
                .await
                .expect("an event");
            self.pending.extend(batch.expect("the watch goes on").iter().map(short));
        }
        self.pending.remove(0)
    }

    async fn expect(&mut self, events: &[&str]) {
        for expected in events {
            assert_eq!(self.next().await, *expected);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn short(event: &Event) -> String {
    match event {
        Event::Node(node) => format!("+{}/{}", node.name, node.uid),
        Event::NodeGone(name, uid) => format!("-{name}/{uid}"),
        Event::FluxJob(job) => {
            format!("+{} {:?}", job.metadata.name.as_deref().unwrap(), job.spec.workload_ref.kind)
        }
        Event::FluxJobGone(job) => format!("-{}", job.key.name),
        Event::Synced => "synced".to_owned(),
        other => panic!("unexpected {other:?}"),
    }
}

#[tokio::test]
async fn lists_then_follows_changes() {
    for server in Server::of_each_encoding().await {
        server.put("/api/v1/nodes/a", node("a", "1"));
        let mut nodes = Listener::start::<Lean<Node>>(&server);
        nodes.expect(&["+a/1", "synced"]).await;
        eventually("the watch", || server.watchers(NODES) == 1).await;
        server.put("/api/v1/nodes/b", node("b", "2"));
        server.remove("/api/v1/nodes/a");
        nodes.expect(&["+b/2", "-a/1"]).await;
        // A heartbeat that changes no field that we read is not passed on; the change after it is.
        server.put("/api/v1/nodes/b", node("b", "2"));
        server.put("/api/v1/nodes/c", node("c", "3"));
        nodes.expect(&["+c/3"]).await;
    }
}

#[tokio::test]
async fn a_closed_watch_is_resumed() {
    for server in Server::of_each_encoding().await {
        let mut nodes = Listener::start::<Lean<Node>>(&server);
        nodes.expect(&["synced"]).await;
        eventually("the watch", || server.watchers(NODES) == 1).await;
        server.end_watches(NODES, None);
        eventually("a second watch", || server.watchers(NODES) == 1).await;
        server.put("/api/v1/nodes/a", node("a", "1"));
        nodes.expect(&["+a/1"]).await;
        let asked = server.seen("GET /api/v1/nodes");
        let lists = |seen: &&Seen| {
            !seen.query.contains("watch=true") || seen.query.contains("sendInitialEvents=true")
        };
        assert_eq!(asked.iter().filter(lists).count(), 1);
    }
}

#[tokio::test]
async fn a_streamed_list_is_not_of_the_past() {
    for server in Server::of_each_encoding().await {
        let mut nodes = Listener::start::<Lean<Node>>(&server);
        nodes.expect(&["synced"]).await;
        let asked = server.seen("GET /api/v1/nodes");
        let query: Vec<&str> = asked[0].query.split('&').collect();
        assert!(
            query.contains(&"sendInitialEvents=true")
                && query.contains(&"resourceVersionMatch=NotOlderThan")
        );
        assert!(!query.iter().any(|part| part.starts_with("resourceVersion=")), "{query:?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_lists_is_asked_for_pages() {
    for (refusals, server) in (1..).zip(Server::of_each_encoding().await) {
        server.put("/api/v1/nodes/a", node("a", "1"));
        for _ in 0..refusals {
            server.script("sendInitialEvents=true", Script::Refuse(422, "Invalid"));
        }
        let mut nodes = Listener::start::<Lean<Node>>(&server);
        nodes.expect(&["+a/1", "synced"]).await;
        eventually("the watch", || server.watchers(NODES) == 1).await;
        server.put("/api/v1/nodes/b", node("b", "2"));
        nodes.expect(&["+b/2"]).await;
        let asked = server.seen("GET /api/v1/nodes");
        assert!(asked.iter().any(|seen| seen.query.contains("limit=")), "{asked:?}");
        assert_eq!(nodes.metrics.watch_errors.get_or_create(&[("kind", "Node")]).get(), 0);
    }
}

#[tokio::test]
async fn an_expired_watch_lists_again_and_reports_missed_changes() {
    for server in Server::of_each_encoding().await {
        server.put("/api/v1/nodes/gone", node("gone", "1"));
        server.put("/api/v1/nodes/reused", node("reused", "2"));
        let mut nodes = Listener::start::<Lean<Node>>(&server);
        nodes.expect(&["+gone/1", "+reused/2", "synced"]).await;
        eventually("the watch", || server.watchers(NODES) == 1).await;
        server.silently(|objects| {
            objects.remove("/api/v1/nodes/gone");
            objects.insert("/api/v1/nodes/reused".to_owned(), node("reused", "3"));
            objects.insert("/api/v1/nodes/new".to_owned(), node("new", "4"));
        });
        let expired = json!({ "type": "ERROR", "object": {
        "kind": "Status", "status": "Failure", "code": 410,
        "reason": "Expired", "message": "too old resource version" } });
        server.end_watches(NODES, Some(&expired));
        nodes.expect(&["+new/4", "-reused/2", "+reused/3", "-gone/1"]).await;
        assert_eq!(nodes.metrics.watch_errors.get_or_create(&[("kind", "Node")]).get(), 1);
    }
}

#[tokio::test]
async fn lists_survive_a_server_that_refuses() {
    for server in Server::of_each_encoding().await {
        server.put("/api/v1/nodes/a", node("a", "1"));
        server.script("GET /api/v1/nodes", Script::Refuse(429, "TooManyRequests"));
        server.script("GET /api/v1/nodes", Script::Refuse(500, "InternalError"));
        server.script("watch=true", Script::Refuse(500, "InternalError"));
        let mut nodes = Listener::start::<Lean<Node>>(&server);
        nodes.expect(&["+a/1", "synced"]).await;
        eventually("the watch", || server.watchers(NODES) == 1).await;
        // The 429 was waited out by the client, both 500 by the watch.
        assert_eq!(nodes.metrics.watch_errors.get_or_create(&[("kind", "Node")]).get(), 2);
    }
}

#[tokio::test]
async fn a_fluxjob_that_cannot_be_read_does_not_end_the_watch() {
    let server = Server::start().await;
    let path = |name: &str| {
        format!("/apis/jobs.converged-computing.org/v1alpha1/namespaces/ns/fluxjobs/{name}")
    };
    let job = |name: &str, kind: Value| {
        let spec = json!({ "workloadRef": { "kind": kind, "name": "w", "uid": "u" } });
        json!({ "metadata": { "name": name, "namespace": "ns", "uid": name }, "spec": spec })
    };
    server.put(&path("bad"), job("bad", json!("Seven")));
    server.put(&path("good"), job("good", json!("Job")));
    let mut jobs = Listener::start::<LooseFluxJob>(&server);
    jobs.expect(&["+good Job", "synced"]).await;
    eventually("the watch", || server.watchers(JOBS) == 1).await;
    server.put(&path("good"), job("good", json!(99)));
    server.put(&path("bad"), job("bad", json!("Deployment")));
    // The last known value of the good one stays: it exists, and only cannot be understood.
    jobs.expect(&["+bad Deployment"]).await;
    server.remove(&path("good"));
    jobs.expect(&["-good"]).await;
    assert_eq!(jobs.metrics.invalid_objects.get_or_create(&[("kind", "FluxJob")]).get(), 2);
}

#[test]
fn managed_fields_are_never_built() {
    let Lean(node) = serde_json::from_value::<Lean<Node>>(node("a", "1")).unwrap();
    assert_eq!(node.metadata.managed_fields, None);
    assert_eq!(node.metadata.name.as_deref(), Some("a"));
    assert_eq!(node.status.unwrap().allocatable.unwrap()["cpu"].0, "2");
}

#[tokio::test]
async fn protobuf_is_asked_for_where_it_is_read_and_json_where_it_is_not_spoken() {
    for (at, server) in Server::of_each_encoding().await.into_iter().enumerate() {
        let mut nodes = Listener::start::<Lean<Node>>(&server);
        nodes.expect(&["synced"]).await;
        eventually("the watch", || server.watchers(NODES) == 1).await;
        assert_eq!(server.protobuf_watchers(NODES), at);
        assert_eq!(nodes.metrics.watch_errors.get_or_create(&[("kind", "Node")]).get(), 0);
    }
}

#[tokio::test]
async fn a_watch_that_cannot_be_taken_up_any_more_lists_again() {
    let [_, server] = Server::of_each_encoding().await;
    server.put("/api/v1/nodes/gone", node("gone", "1"));
    let mut nodes = Listener::start::<Lean<Node>>(&server);
    nodes.expect(&["+gone/1", "synced"]).await;
    eventually("the watch", || server.watchers(NODES) == 1).await;
    server.silently(|objects| drop(objects.remove("/api/v1/nodes/gone")));
    server.script("&resourceVersion=", Script::Refuse(410, "Expired"));
    server.end_watches(NODES, None);
    nodes.expect(&["-gone/1"]).await;
}
