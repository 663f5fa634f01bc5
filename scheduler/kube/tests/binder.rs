use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::server::{Script, Server};
use crate::kube::binder::{BindRequest, Binder};
use crate::kube::fence::Fence;
use crate::kube::work_queue::WorkQueue;
use crate::serve::Metrics;
use fluxqueue_core::{BindOutcome, Outcome};
use fluxqueue_workload::{ObjectKey, ObjectRef};

const POD: &str = "/api/v1/namespaces/ns/pods/p";

fn pod() -> ObjectRef {
    ObjectRef { key: ObjectKey::new("ns", "p"), uid: "u1".into() }
}

fn object(uid: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "p", "namespace": "ns", "uid": uid }, "spec": spec })
}

fn binder(server: &Server) -> Binder {
    Binder {
        queue: Arc::new(WorkQueue::new(8)),
        outcomes: mpsc::channel(8).0,
        client: server.writes(),
        timeout: Duration::from_millis(1500),
        metrics: Arc::new(Metrics::new("0", "0")),
    }
}

#[tokio::test]
async fn binds_with_the_uid_as_precondition() {
    let server = Server::start().await;
    server.put(POD, object("u1", &json!({})));
    assert_eq!(binder(&server).bind(&pod(), &"n1".into(), "default").await, BindOutcome::Bound);
    assert_eq!(server.object(POD).unwrap()["spec"]["nodeName"], "n1");
    let sent = server.seen("POST");
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].path, "/api/v1/namespaces/ns/pods/p/binding");
    assert_eq!(sent[0].body["metadata"]["uid"], "u1");
    assert_eq!(
        sent[0].body["metadata"]["annotations"],
        json!({ "fluxqueue/charged-queue": "default" })
    );
    assert_eq!(sent[0].body["target"], json!({ "apiVersion": "v1", "kind": "Node", "name": "n1" }));
}

#[tokio::test]
async fn a_conflict_is_judged_by_the_present_pod() {
    for (now, expected) in [
        (object("u1", &json!({ "nodeName": "n1" })), BindOutcome::Bound),
        (object("u1", &json!({ "nodeName": "n2" })), BindOutcome::BoundElsewhere("n2".into())),
        (object("u2", &json!({})), BindOutcome::Gone),
        (object("u1", &json!({ "schedulingGates": [{ "name": "x" }] })), BindOutcome::Gated),
    ] {
        let server = Server::start().await;
        server.put(POD, now);
        assert_eq!(binder(&server).bind(&pod(), &"n1".into(), "default").await, expected);
    }
}

#[tokio::test]
async fn a_pod_that_is_being_deleted_is_told_apart() {
    let server = Server::start().await;
    let mut now = object("u1", &json!({}));
    now["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    server.put(POD, now);
    assert_eq!(binder(&server).bind(&pod(), &"n1".into(), "default").await, BindOutcome::Deleting);
}

#[tokio::test]
async fn a_pod_that_is_not_there_is_gone() {
    let server = Server::start().await;
    assert_eq!(binder(&server).bind(&pod(), &"n1".into(), "default").await, BindOutcome::Gone);
}

#[tokio::test]
async fn a_lost_answer_is_found_out_by_the_next_attempt() {
    let server = Server::start().await;
    server.put(POD, object("u1", &json!({})));
    // The gateway gives up although the Binding was written; the client asks again and meets its
    // own Binding.
    server.script("/binding", Script::DoAndRefuse(504, "Timeout"));
    assert_eq!(binder(&server).bind(&pod(), &"n1".into(), "default").await, BindOutcome::Bound);
    assert_eq!(server.seen("/binding").len(), 2);
}

#[tokio::test]
async fn throttling_is_waited_out() {
    let server = Server::start().await;
    server.put(POD, object("u1", &json!({})));
    server.script("/binding", Script::Refuse(429, "TooManyRequests"));
    server.script("/binding", Script::Refuse(429, "TooManyRequests"));
    assert_eq!(binder(&server).bind(&pod(), &"n1".into(), "default").await, BindOutcome::Bound);
}

#[tokio::test]
async fn a_refusal_differs_from_an_answer_that_leaves_the_outcome_open() {
    let refused = |code: u16| BindOutcome::Refused(format!("{code}: as scripted"));
    let failed = |code: u16| BindOutcome::Failed(format!("{code}: as scripted"));
    let cases = [
        (500, "InternalError", failed(500)),
        (403, "Forbidden", refused(403)),
        (422, "Invalid", refused(422)),
        (400, "BadRequest", refused(400)),
    ];
    for (code, reason, expected) in cases {
        let server = Server::start().await;
        server.put(POD, object("u1", &json!({})));
        server.script("/binding", Script::Refuse(code, reason));
        assert_eq!(binder(&server).bind(&pod(), &"n1".into(), "default").await, expected);
    }
}

#[tokio::test]
async fn a_silent_server_costs_no_more_than_the_timeout() {
    let server = Server::start().await;
    server.put(POD, object("u1", &json!({})));
    server.script("/binding", Script::Stall(Duration::from_secs(20)));
    let begun = Instant::now();
    let outcome = binder(&server).bind(&pod(), &"n1".into(), "default").await;
    assert_eq!(outcome, BindOutcome::Failed("no answer within 1500 ms".to_owned()));
    assert!(begun.elapsed() < Duration::from_secs(8));
}

#[tokio::test]
async fn nothing_is_sent_once_the_fence_has_fallen() {
    let server = Server::start().await;
    server.put(POD, object("u1", &json!({})));
    let mut binder = binder(&server);
    binder.client = server.fenced(Fence::with_term(Duration::ZERO));
    let outcome = binder.bind(&pod(), &"n1".into(), "default").await;
    assert_eq!(outcome, BindOutcome::Failed("not the leader any more".to_owned()));
    assert!(server.seen("/binding").is_empty());
}

#[tokio::test]
async fn workers_report_every_outcome() {
    let server = Server::start().await;
    let (sender, mut outcomes) = mpsc::channel(4);
    let mut binder = binder(&server);
    binder.outcomes = sender;
    let queue = Arc::clone(&binder.queue);
    server.put(POD, object("u1", &json!({})));
    for id in [1, 2] {
        queue
            .push(BindRequest {
                id,
                pod: pod(),
                node: "n1".into(),
                queue: "default".into(),
                decided: Instant::now(),
            })
            .unwrap();
    }
    let worker = tokio::spawn(Arc::new(binder).work());
    for expected in [1, 2] {
        let (id, outcome) = outcomes.recv().await.unwrap();
        assert_eq!(id, expected);
        assert!(matches!(outcome, Outcome::Bind(BindOutcome::Bound)));
    }
    queue.idle().await;
    queue.close();
    worker.await.unwrap();
}
