use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::server::{Script, Server};
use crate::kube::events::Announcer;
use crate::kube::fence::Fence;
use crate::serve::Metrics;
use fluxqueue_core::{EventKind, Note, Subject};
use fluxqueue_workload::{ObjectKey, ObjectRef};

fn note(text: &str) -> Note {
    Note {
        subject: Subject::Pod(ObjectRef { key: ObjectKey::new("ns", "p"), uid: "u1".into() }),
        kind: EventKind::Normal,
        reason: "Scheduled",
        action: "Binding",
        note: text.to_owned(),
        reporter: "fluxqueue".into(),
    }
}

#[tokio::test]
async fn a_note_becomes_an_event_beside_its_object() {
    let server = Server::start().await;
    let metrics = Arc::new(Metrics::new("0", "0"));
    let announcer = Announcer::new(server.writes(), Arc::clone(&metrics), "host_1".to_owned());
    announcer.announce(&note("Successfully assigned ns/p to n1")).await;
    let sent = server.seen("POST").pop().unwrap();
    assert_eq!(sent.path, "/apis/events.k8s.io/v1/namespaces/ns/events");
    assert!(sent.body["metadata"]["name"].as_str().unwrap().starts_with("p."));
    assert_eq!(sent.body["reportingController"], "fluxqueue");
    assert_eq!(sent.body["regarding"]["kind"], "Pod");
    assert_eq!((metrics.notes_sent.get(), metrics.notes_dropped.get()), (1, 0));
    // An equal note is only counted.
    announcer.announce(&note("Successfully assigned ns/p to n1")).await;
    assert_eq!((server.seen("POST").len(), metrics.notes_repeated.get()), (1, 1));
}

#[tokio::test]
async fn an_event_that_is_refused_is_given_up_and_counted() {
    let server = Server::start().await;
    let metrics = Arc::new(Metrics::new("0", "0"));
    let announcer = Announcer::new(server.writes(), Arc::clone(&metrics), "host_1".to_owned());
    server.script("POST", Script::Refuse(403, "Forbidden"));
    announcer.announce(&note("a")).await;
    assert_eq!((metrics.notes_sent.get(), metrics.notes_dropped.get()), (0, 1));
}

#[tokio::test]
async fn no_event_is_sent_once_the_fence_has_fallen() {
    let server = Server::start().await;
    let metrics = Arc::new(Metrics::new("0", "0"));
    let fallen = server.fenced(Fence::with_term(Duration::ZERO));
    Announcer::new(fallen, Arc::clone(&metrics), "host_1".to_owned()).announce(&note("a")).await;
    assert_eq!((server.seen("").len(), metrics.notes_dropped.get()), (0, 1));
}

#[tokio::test]
async fn a_series_begins_again_when_the_server_has_forgotten_its_event() {
    let server = Server::start().await;
    let metrics = Arc::new(Metrics::new("0", "0"));
    let announcer = Announcer::new(server.writes(), Arc::clone(&metrics), "host_1".to_owned());
    announcer.announce(&note("a")).await;
    let path =
        format!("{}/{}", "/apis/events.k8s.io/v1/namespaces/ns/events", name_of_last(&server));
    announcer.age_by_a_series_interval();
    announcer.announce(&note("a")).await;
    let patch = server.seen("PATCH").pop().unwrap();
    assert_eq!((patch.path.as_str(), &patch.body["series"]["count"]), (path.as_str(), &json!(2)));
    server.remove(&path);
    announcer.age_by_a_series_interval();
    announcer.announce(&note("a")).await;
    assert_eq!(server.seen("POST").len(), 2);
    assert!(server.object(&path).is_some());
}

fn name_of_last(server: &Server) -> String {
    server.seen("POST").pop().unwrap().body["metadata"]["name"].as_str().unwrap().to_owned()
}
