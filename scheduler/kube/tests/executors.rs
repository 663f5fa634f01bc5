use std::sync::Arc;
use std::time::{Duration, Instant};

use fluxqueue_api::FluxJobStatus;
use serde_json::json;
use tokio::sync::mpsc;

use super::server::{Script, Server, eventually};
use crate::kube::executors::{ExecutorSettings, Executors};
use crate::kube::fence::Fence;
use crate::kube::tasks::Tasks;
use crate::kube::writer::WriteRequest;
use crate::serve::{DepthSource, Metrics};
use fluxqueue_core::{ActionId, Outcome, Urgency, Write, WriteOutcome};
use fluxqueue_workload::{ObjectKey, ObjectRef};

const JOB: &str = "/apis/jobs.converged-computing.org/v1alpha1/namespaces/ns/fluxjobs/j";

fn status(id: ActionId, uid: &str, bound: i32, urgency: Urgency) -> WriteRequest {
    let job = ObjectRef { key: ObjectKey::new("ns", "j"), uid: uid.into() };
    let status = FluxJobStatus { bound, ..FluxJobStatus::default() };
    let resource_version = Some("1".into());
    let status = Arc::new(status);
    WriteRequest::new(id, Write::WriteStatus { job, resource_version, status, urgency })
}

fn executors() -> Executors {
    Executors::new(Arc::new(Metrics::new("0", "0")))
}

fn waiting(executors: &Executors, queue: &str) -> usize {
    executors.depths().into_iter().find(|(name, _)| *name == queue).unwrap().1
}

/// The workers, and their reports.
struct House {
    executors: Executors,
    outcomes: mpsc::Receiver<(ActionId, Outcome)>,
    _tasks: Tasks,
}

impl House {
    fn start(server: &Server) -> Self {
        server.put(JOB, json!({ "metadata": { "name": "j", "namespace": "ns", "uid": "u1" } }));
        let (outcomes_in, outcomes) = mpsc::channel(8);
        let (executors, mut tasks) = (executors(), Tasks::default());
        let settings = ExecutorSettings {
            bind_concurrency: 1,
            bind_timeout: Duration::from_secs(1),
            instance: "test".to_owned(),
        };
        executors.start(&mut tasks, &settings, &server.clients, Fence::open(), &outcomes_in);
        House { executors, outcomes, _tasks: tasks }
    }

    async fn next(&mut self) -> (ActionId, WriteOutcome) {
        match tokio::time::timeout(Duration::from_secs(8), self.outcomes.recv()).await {
            Ok(Some((id, Outcome::Write(outcome)))) => (id, outcome),
            other => panic!("no outcome of a write: {other:?}"),
        }
    }
}

#[test]
fn an_urgent_status_takes_the_place_of_a_trailing_one_that_waits() {
    let executors = executors();
    assert_eq!(executors.write(status(1, "u1", 1, Urgency::Trailing)).replaced, None);
    assert_eq!(executors.write(status(2, "u2", 1, Urgency::Trailing)).replaced, None);
    let queued = executors.write(status(3, "u1", 2, Urgency::Urgent));
    assert_eq!((queued.replaced, queued.refused), (Some(1), None));
    assert_eq!((waiting(&executors, "trailing"), waiting(&executors, "urgent")), (1, 1));
    // The next trailing write may be queued again, and the urgent one before it does not wait for
    // it.
    assert_eq!(executors.write(status(4, "u1", 3, Urgency::Trailing)).replaced, None);
    assert_eq!(executors.write(status(5, "u3", 2, Urgency::Urgent)).replaced, None);
}

#[tokio::test]
async fn an_urgent_status_waits_for_a_trailing_one_that_was_sent() {
    let server = Server::start().await;
    let mut house = House::start(&server);
    server.script("PATCH", Script::Stall(Duration::from_millis(500)));
    house.executors.write(status(1, "u1", 1, Urgency::Trailing));
    eventually("the trailing write", || server.seen("PATCH").len() == 1).await;
    assert_eq!(house.executors.write(status(2, "u1", 2, Urgency::Urgent)).replaced, None);
    assert_eq!(house.next().await.0, 1);
    // Both were decided on the same version, so the second fails, and the core decides again.
    let (id, outcome) = house.next().await;
    assert!(id == 2 && matches!(outcome, WriteOutcome::Conflict), "{id}: {outcome:?}");
}

#[tokio::test]
async fn an_urgent_status_does_not_wait_for_long() {
    let server = Server::start().await;
    let mut house = House::start(&server);
    server.script("PATCH", Script::Stall(Duration::from_secs(4)));
    house.executors.write(status(1, "u1", 1, Urgency::Trailing));
    eventually("the trailing write", || server.seen("PATCH").len() == 1).await;
    let asked = Instant::now();
    house.executors.write(status(2, "u1", 2, Urgency::Urgent));
    let (id, outcome) = house.next().await;
    let waited = asked.elapsed();
    assert!(id == 2 && matches!(outcome, WriteOutcome::Written(_)), "{id}: {outcome:?}");
    assert!(waited >= Duration::from_secs(2) && waited < Duration::from_millis(3500), "{waited:?}");
    let (id, outcome) = house.next().await;
    assert!(id == 1 && matches!(outcome, WriteOutcome::Conflict), "{id}: {outcome:?}");
    assert_eq!(server.object(JOB).unwrap()["status"]["bound"], 2, "the placement stays");
}
