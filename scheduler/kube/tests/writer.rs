use std::sync::Arc;
use std::time::Duration;

use fluxqueue_api::{FluxJob, FluxJobSpec, FluxJobStatus, FluxQueueStatus, WorkloadRef};
use serde_json::json;
use tokio::sync::mpsc;

use super::server::{Script, Server};
use crate::kube::fence::Fence;
use crate::kube::writer::Writer;
use crate::serve::Metrics;
use fluxqueue_core::{Urgency, Write, WriteOutcome};
use fluxqueue_workload::pod_group::{GroupCondition, GroupVersion};
use fluxqueue_workload::{ObjectKey, ObjectRef, Time};

const JOB: &str = "/apis/jobs.converged-computing.org/v1alpha1/namespaces/ns/fluxjobs/j";
const POD: &str = "/api/v1/namespaces/ns/pods/j";

/// The version on which a write was decided, if known.
type Version = Option<Arc<str>>;

fn writer(server: &Server) -> Writer {
    writer_behind(server, Fence::open())
}

fn writer_behind(server: &Server, fence: Fence) -> Writer {
    let metrics = Arc::new(Metrics::new("0", "0"));
    Writer {
        outcomes: mpsc::channel(8).0,
        client: server.fenced(fence),
        metrics,
        trailing: Arc::default(),
    }
}

/// Returns the version of an object on the server.
fn version(server: &Server, path: &str) -> Arc<str> {
    server.object(path).unwrap()["metadata"]["resourceVersion"].as_str().unwrap().into()
}

fn id(uid: &str) -> ObjectRef {
    ObjectRef { key: ObjectKey::new("ns", "j"), uid: uid.into() }
}

fn job() -> Box<FluxJob> {
    let workload_ref = WorkloadRef { name: "w".to_owned(), ..WorkloadRef::default() };
    let mut job = FluxJob::new("j", FluxJobSpec { workload_ref, ..FluxJobSpec::default() });
    job.metadata.namespace = Some("ns".to_owned());
    Box::new(job)
}

fn create() -> Write {
    Write::CreateFluxJob { job: job(), urgency: Urgency::Urgent }
}

fn write_status(uid: &str, resource_version: Version, status: Arc<FluxJobStatus>) -> Write {
    Write::WriteStatus { job: id(uid), resource_version, status, urgency: Urgency::Urgent }
}

fn delete(uid: &str, resource_version: Version) -> Write {
    Write::DeleteFluxJob { job: id(uid), resource_version }
}

fn ungate(uid: &str, resource_version: Version) -> Write {
    Write::Ungate { pod: id(uid), resource_version, gate: "fluxqueue".into() }
}

fn nominate(uid: &str, resource_version: Version, node: Option<&str>) -> Write {
    Write::Nominate { pod: id(uid), resource_version, node: node.map(Into::into) }
}

#[tokio::test]
async fn a_created_job_comes_back_as_stored() {
    let server = Server::start().await;
    let WriteOutcome::Written(Some(stored)) = writer(&server).write(&create()).await else {
        panic!("not written")
    };
    assert!(stored.metadata.uid.is_some());
    assert_eq!(stored.spec.workload_ref.name, "w");
    assert!(server.object(JOB).is_some());
    assert!(matches!(writer(&server).write(&create()).await, WriteOutcome::Exists));
}

#[tokio::test]
async fn a_status_is_applied_only_to_the_object_that_was_meant() {
    let server = Server::start().await;
    server.put(JOB, json!({ "metadata": { "name": "j", "namespace": "ns", "uid": "u1" } }));
    let status = Arc::new(FluxJobStatus { bound: 2, ..FluxJobStatus::default() });
    let outcome = writer(&server).write(&write_status("u1", None, status.clone())).await;
    assert!(matches!(outcome, WriteOutcome::Written(_)));
    let sent = server.seen("PATCH").pop().unwrap();
    assert_eq!(sent.path, format!("{JOB}/status"));
    assert_eq!(sent.query, "fieldManager=fluxqueue&force=true");
    assert_eq!(sent.body["metadata"], json!({ "namespace": "ns", "name": "j", "uid": "u1" }));
    assert_eq!((&sent.body["kind"], &sent.body["status"]["bound"]), (&json!("FluxJob"), &json!(2)));
    let outcome = writer(&server).write(&write_status("u0", None, status.clone())).await;
    assert!(matches!(outcome, WriteOutcome::Gone), "{outcome:?}");
    // The same code stands for content that the server does not take: the object shows the
    // difference.
    server.script("PATCH", Script::Refuse(422, "Invalid"));
    let outcome = writer(&server).write(&write_status("u1", None, status.clone())).await;
    assert!(matches!(outcome, WriteOutcome::Invalid(_)), "{outcome:?}");
    server.remove(JOB);
    assert!(matches!(
        writer(&server).write(&write_status("u1", None, status)).await,
        WriteOutcome::Gone
    ));
}

#[tokio::test]
async fn the_status_of_a_queue_is_applied_to_the_queue_that_was_meant() {
    const QUEUE: &str = "/apis/jobs.converged-computing.org/v1alpha1/fluxqueues/gpu";
    let server = Server::start().await;
    server.put(QUEUE, json!({ "metadata": { "name": "gpu", "uid": "u1" } }));
    let status = Box::new(FluxQueueStatus { waiting: 3, ..FluxQueueStatus::default() });
    let write = |uid: &str| Write::WriteQueueStatus {
        queue: "gpu".into(),
        uid: uid.into(),
        status: status.clone(),
    };
    assert!(matches!(writer(&server).write(&write("u1")).await, WriteOutcome::Written(None)));
    let sent = server.seen("PATCH").pop().unwrap();
    assert_eq!(
        (sent.path, &*sent.query),
        (format!("{QUEUE}/status"), "fieldManager=fluxqueue&force=true")
    );
    assert_eq!(
        (&sent.body["kind"], &sent.body["metadata"]),
        (&json!("FluxQueue"), &json!({ "name": "gpu", "uid": "u1" }))
    );
    assert_eq!(sent.body["status"], json!({ "waiting": 3, "running": 0 }));
    assert!(matches!(writer(&server).write(&write("u0")).await, WriteOutcome::Gone));
}

#[tokio::test]
async fn conditions_of_others_stay_and_fields_that_we_drop_go() {
    let server = Server::start().await;
    let mut whole = serde_json::to_value(job()).unwrap();
    whole["metadata"]["uid"] = json!("u1");
    let billed = json!({
        "type": "example.com/Billed", "status": "True", "reason": "Paid", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z" });
    whole["status"] = json!({ "bound": 1, "total": 2, "position": 7, "conditions": [billed] });
    server.put(JOB, whole);
    let status = Arc::new(FluxJobStatus { bound: 2, ..FluxJobStatus::default() });
    let outcome =
        writer(&server).write(&write_status("u1", Some(version(&server, JOB)), status)).await;
    let WriteOutcome::Written(Some(stored)) = outcome else { panic!("{outcome:?}") };
    let status = stored.status.clone().unwrap();
    assert_eq!((status.bound, status.position), (2, None));
    assert_eq!(
        status.conditions.iter().map(|it| &*it.type_).collect::<Vec<_>>(),
        ["example.com/Billed"]
    );
}

#[tokio::test]
async fn a_successor_of_the_same_name_is_not_deleted() {
    let server = Server::start().await;
    server.put(JOB, json!({ "metadata": { "name": "j", "namespace": "ns", "uid": "u2" } }));
    assert!(matches!(writer(&server).write(&delete("u1", None)).await, WriteOutcome::Gone));
    assert!(server.object(JOB).is_some());
    assert!(matches!(
        writer(&server).write(&delete("u2", None)).await,
        WriteOutcome::Written(None)
    ));
    assert!(server.object(JOB).is_none());
    assert!(matches!(writer(&server).write(&delete("u2", None)).await, WriteOutcome::Gone));
}

#[tokio::test]
async fn pods_are_patched_by_uid() {
    let server = Server::start().await;
    let gates = json!([{ "name": "other" }, { "name": "fluxqueue" }]);
    let metadata = json!({ "name": "j", "namespace": "ns", "uid": "u1" });
    server.put(POD, json!({ "metadata": metadata, "spec": { "schedulingGates": gates } }));

    assert!(matches!(
        writer(&server).write(&ungate("u1", None)).await,
        WriteOutcome::Written(None)
    ));
    assert!(matches!(writer(&server).write(&ungate("u0", None)).await, WriteOutcome::Gone));
    let sent = &server.seen("PATCH")[0];
    assert_eq!(sent.path, POD);
    assert_eq!(
        sent.body["spec"]["schedulingGates"],
        json!([{ "$patch": "delete", "name": "fluxqueue" }])
    );
    assert_eq!(
        server.object(POD).unwrap()["spec"]["schedulingGates"],
        json!([{ "name": "other" }])
    );
    let condition = |newly| Write::SetPodScheduled {
        pod: id("u1"),
        resource_version: None,
        reason: "Unschedulable",
        message: "0/3 nodes are available".to_owned(),
        newly,
    };
    for newly in [true, false] {
        assert!(matches!(
            writer(&server).write(&condition(newly)).await,
            WriteOutcome::Written(None)
        ));
        let sent = server.seen("PATCH").pop().unwrap();
        assert_eq!(sent.path, format!("{POD}/status"));
        let condition = &sent.body["status"]["conditions"][0];
        assert_eq!(condition["reason"], "Unschedulable");
        assert_eq!(
            condition.get("lastTransitionTime").is_some(),
            newly,
            "the server keeps it otherwise"
        );
    }
}

#[tokio::test]
async fn the_node_that_a_pod_is_meant_for_is_written_and_taken_away() {
    let server = Server::start().await;
    let metadata = json!({ "name": "j", "namespace": "ns", "uid": "u1" });
    server.put(POD, json!({ "metadata": metadata, "status": { "phase": "Pending" } }));
    for node in [Some("n1"), None] {
        assert!(matches!(
            writer(&server).write(&nominate("u1", Some(version(&server, POD)), node)).await,
            WriteOutcome::Written(None)
        ));
        assert_eq!(server.seen("PATCH").pop().unwrap().path, format!("{POD}/status"));
        let status = &server.object(POD).unwrap()["status"];
        assert_eq!(
            (status.get("nominatedNodeName"), &status["phase"]),
            (node.map(|it| json!(it)).as_ref(), &json!("Pending"))
        );
    }
}

#[tokio::test]
async fn a_suspended_job_is_released_by_one_write_to_the_version_that_was_seen() {
    const SUSPENDED: &str = "/apis/batch/v1/namespaces/ns/jobs/j";
    let server = Server::start().await;
    let metadata = json!({
        "name": "j", "namespace": "ns", "uid": "u1",
        "annotations": {"a": "b", "fluxqueue/suspended": "true"},
    });
    server.put(SUSPENDED, json!({ "metadata": metadata, "spec": { "suspend": true } }));
    let release = Write::ReleaseJob {
        job: id("u1"),
        resource_version: Some(version(&server, SUSPENDED)),
        at: Time(1_500_000),
    };
    assert!(matches!(writer(&server).write(&release).await, WriteOutcome::Written(None)));
    let released = server.object(SUSPENDED).unwrap();
    let annotations = json!({"a": "b", "fluxqueue/released-at": "1970-01-01T00:00:01.5Z"});
    assert_eq!(
        (&released["metadata"]["annotations"], &released["spec"]["suspend"]),
        (&annotations, &json!(false))
    );
    // A user's change in between is not overruled.
    assert!(matches!(writer(&server).write(&release).await, WriteOutcome::Conflict));
    let resource_version = Some(version(&server, SUSPENDED));
    let again = Write::SuspendJob { job: id("u1"), resource_version };
    assert!(matches!(writer(&server).write(&again).await, WriteOutcome::Written(None)));
    assert_eq!(server.object(SUSPENDED).unwrap()["spec"]["suspend"], true);
}

#[tokio::test]
async fn a_server_that_breaks_is_told_as_a_failure() {
    let server = Server::start().await;
    server.put(JOB, json!({ "metadata": { "name": "j", "namespace": "ns", "uid": "u1" } }));
    server.script("DELETE", Script::Refuse(500, "InternalError"));
    let outcome = writer(&server).write(&delete("u1", None)).await;
    assert!(matches!(outcome, WriteOutcome::Failed(_)), "{outcome:?}");
}

#[tokio::test]
async fn a_write_decided_on_an_older_version_is_a_conflict_and_changes_nothing() {
    let server = Server::start().await;
    let mut whole = serde_json::to_value(job()).unwrap();
    whole["metadata"]["uid"] = json!("u1");
    server.put(JOB, whole);
    server.put(POD, json!({ "metadata": { "name": "j", "namespace": "ns", "uid": "u1" } }));
    let (old_job, old_pod) = (version(&server, JOB), version(&server, POD));
    let status = |bound| Arc::new(FluxJobStatus { bound, ..FluxJobStatus::default() });
    let condition = |version| Write::SetPodScheduled {
        pod: id("u1"),
        resource_version: Some(version),
        reason: "Unschedulable",
        message: "0/3 nodes are available".to_owned(),
        newly: true,
    };
    let first =
        writer(&server).write(&write_status("u1", Some(Arc::clone(&old_job)), status(2))).await;
    let WriteOutcome::Written(Some(stored)) = first else { panic!("{first:?}") };
    assert_eq!(stored.metadata.resource_version.as_deref(), Some(&*version(&server, JOB)));
    let first = writer(&server).write(&condition(Arc::clone(&old_pod))).await;
    assert!(matches!(first, WriteOutcome::Written(None)), "{first:?}");
    let stale = [
        write_status("u1", Some(Arc::clone(&old_job)), status(7)),
        delete("u1", Some(Arc::clone(&old_job))),
        ungate("u1", Some(Arc::clone(&old_pod))),
        nominate("u1", Some(Arc::clone(&old_pod)), Some("n1")),
        condition(old_pod),
    ];
    let before = (version(&server, JOB), version(&server, POD));
    for write in stale {
        let outcome = writer(&server).write(&write).await;
        assert!(matches!(outcome, WriteOutcome::Conflict), "{write:?}: {outcome:?}");
    }
    assert_eq!(server.object(JOB).unwrap()["status"]["bound"], 2);
    assert_eq!((version(&server, JOB), version(&server, POD)), before);
    // This is another object of the same name: it counts, whatever its version is.
    let gone = writer(&server).write(&write_status("u0", Some(old_job), status(7))).await;
    assert!(matches!(gone, WriteOutcome::Gone), "{gone:?}");
}

#[tokio::test]
async fn nothing_is_written_once_the_fence_has_fallen() {
    let server = Server::start().await;
    for path in [JOB, POD] {
        server.put(path, json!({ "metadata": { "name": "j", "namespace": "ns", "uid": "u1" } }));
    }
    let fallen = writer_behind(&server, Fence::with_term(Duration::ZERO));
    let writes = [
        create(),
        write_status("u1", Some(version(&server, JOB)), Arc::default()),
        delete("u1", Some(version(&server, JOB))),
        ungate("u1", None),
        nominate("u1", None, Some("n1")),
        Write::SetPodScheduled {
            pod: id("u1"),
            resource_version: None,
            reason: "Unschedulable",
            message: String::new(),
            newly: true,
        },
    ];
    for write in writes {
        let outcome = fallen.write(&write).await;
        assert!(
            matches!(&outcome, WriteOutcome::Failed(why) if why == "not the leader any more"),
            "{outcome:?}"
        );
    }
    assert!(server.seen("").is_empty());
}

#[tokio::test]
async fn nothing_is_repeated_once_the_fence_has_fallen() {
    let server = Server::start().await;
    server.put(JOB, json!({ "metadata": { "name": "j", "namespace": "ns", "uid": "u1" } }));
    for _ in 0..8 {
        server.script("DELETE", Script::Refuse(429, "TooManyRequests"));
    }
    // This is enough time for some attempts, and far from enough for all.
    let falling = writer_behind(&server, Fence::with_term(Duration::from_millis(150)));
    let outcome = falling.write(&delete("u1", Some(version(&server, JOB)))).await;
    assert!(
        matches!(&outcome, WriteOutcome::Failed(why) if why == "not the leader any more"),
        "{outcome:?}"
    );
    assert!(!server.seen("DELETE").is_empty());
    assert!(server.object(JOB).is_some());
}

#[tokio::test]
async fn the_condition_of_a_group_is_merged_into_the_group_that_was_meant() {
    for (version, type_) in [
        (GroupVersion::V1beta1, "PodGroupInitiallyScheduled"),
        (GroupVersion::V1alpha2, "PodGroupScheduled"),
    ] {
        let name = version.as_str();
        let path = format!("/apis/scheduling.k8s.io/{name}/namespaces/ns/podgroups/j");
        let server = Server::start().await;
        let other = json!({ "type": "DisruptionTarget", "status": "False" });
        server.put(
            &path,
            json!({
                "metadata": { "name": "j", "namespace": "ns", "uid": "u1" },
                "status": { "conditions": [other] },
            }),
        );
        let condition = |is_true| {
            Box::new(GroupCondition {
                is_true,
                reason: "Unschedulable".to_owned(),
                message: "full".to_owned(),
                observed_generation: 3,
            })
        };
        let write = |uid: &str, is_true: bool, newly: bool| Write::SetGroupCondition {
            group: id(uid),
            resource_version: Some(self::version(&server, &path)),
            version,
            condition: condition(is_true),
            newly,
        };
        let outcome = writer(&server).write(&write("u1", false, true)).await;
        assert!(matches!(outcome, WriteOutcome::Written(None)), "{outcome:?}");
        let sent = server.seen("PATCH").pop().unwrap();
        assert_eq!(sent.path, format!("{path}/status"));
        let conditions = &server.object(&path).unwrap()["status"]["conditions"];
        assert_eq!(conditions[0], other);
        let since = &conditions[1]["lastTransitionTime"];
        assert!(since.is_string());
        let expected = json!({
            "type": type_, "status": "False", "reason": "Unschedulable", "message": "full",
            "observedGeneration": 3, "lastTransitionTime": since,
        });
        assert_eq!(conditions[1], expected);
        // The time of the transition stays without one.
        let outcome = writer(&server).write(&write("u1", false, false)).await;
        assert!(matches!(outcome, WriteOutcome::Written(None)), "{outcome:?}");
        assert!(
            server.seen("PATCH").pop().unwrap().body["status"]["conditions"][0]
                .get("lastTransitionTime")
                .is_none()
        );
        let outcome = writer(&server).write(&write("u0", true, true)).await;
        assert!(matches!(outcome, WriteOutcome::Gone), "{outcome:?}");
        let mut old = write("u1", true, true);
        let Write::SetGroupCondition { resource_version, .. } = &mut old else { unreachable!() };
        *resource_version = Some("0".into());
        let outcome = writer(&server).write(&old).await;
        assert!(matches!(outcome, WriteOutcome::Conflict), "{outcome:?}");
    }
}
