//! Asked as the command asks, of a core with one node.

use std::sync::OnceLock;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use fluxion_sys::FunctionTable;
use fluxqueue_api::BlockedReason;
use fluxqueue_core::cluster::Node;
use fluxqueue_core::{Core, CoreSettings};
use fluxqueue_workload::{NodeName, Uid};
use serde_json::json;
use tokio::sync::mpsc;
use tower::ServiceExt;

use super::super::tests::Strict;
use super::super::{DepthSource, Health, Leading, Metrics, TOKEN_HEADER, router};
use super::*;

const TOKEN: (&str, &str) = ("authorization", "Bearer good");

const NOW: Time = Time(1_800_000_000_000_000);

#[derive(Debug)]
struct NoQueues;

impl DepthSource for NoQueues {
    fn depths(&self) -> Vec<(&'static str, usize)> {
        Vec::new()
    }
}

fn core() -> Core {
    let mut core = Core::new(CoreSettings::default(), FunctionTable::builtin(), 1).unwrap();
    let node = Node {
        name: NodeName::from("n"),
        uid: Uid::from("uid-n"),
        allocatable: [("cpu", 4_000), ("memory", 64 << 30), ("pods", 110)].into_iter().collect(),
        labels: Vec::new(),
        taints: Vec::new(),
        unschedulable: false,
        not_ready: false,
        declared_features: Vec::new(),
    };
    core.handle(Event::Node(Arc::new(node)), NOW);
    core.handle(Event::Synced, NOW);
    core.step(NOW);
    core
}

/// A process that leads, and answers so many questions; then copies are asked for too soon.
fn leader(answers: usize) -> Arc<Facts> {
    let facts = standby();
    let (questions, mut asked) = mpsc::channel(8);
    facts.leading.set(Leading { questions, depths: Box::new(NoQueues) }).unwrap();
    tokio::spawn(async move {
        let (mut core, mut left) = (core(), answers);
        while let Some(question) = asked.recv().await {
            if let Question::Preview(to) = question {
                let preview = core.preview(NOW).filter(|_| left > 0);
                left = left.saturating_sub(1);
                to.send(preview.map_or(Copied::TooSoon, |preview| Copied::Preview(Box::new(preview)))).unwrap();
            }
        }
    });
    facts
}

fn standby() -> Arc<Facts> {
    Arc::new(Facts {
        metrics: Arc::new(Metrics::new("0", "0")),
        health: Arc::new(Health::default()),
        leading: OnceLock::new(),
        gatekeeper: Some(Arc::new(Strict)),
        places: Places::default(),
    })
}

fn job(namespace: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": namespace}, "spec": spec,
    })
}

fn pods(cpu: &str) -> Value {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}});
    json!({"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}})
}

async fn post(facts: &Arc<Facts>, (name, value): (&str, &str), body: &Value) -> (StatusCode, String) {
    let request = Request::post(PATH).header(name, value).body(Body::from(body.to_string())).unwrap();
    let response = router(Arc::clone(facts)).oneshot(request).await.unwrap();
    let (status, body) = (response.status(), to_bytes(response.into_body(), 1 << 20).await.unwrap());
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn who_may_create_it_there_is_answered_and_nobody_else() {
    let facts = leader(usize::MAX);
    let mine = job("lab", &pods("1"));
    let cases = [
        (("accept", "*/*"), &mine, 401),
        (("authorization", "Bearer nonsense"), &mine, 401),
        (("authorization", "Bearer poor"), &mine, 403),
        (("authorization", "Bearer lost"), &mine, 503),
        (TOKEN, &mine, 200),
        ((TOKEN_HEADER, "good"), &mine, 200),
        ((TOKEN_HEADER, "poor"), &mine, 403),
        (TOKEN, &job("office", &pods("1")), 403),
        // One that he may not create is enough.
        (TOKEN, &json!({"kind": "List", "items": [mine, job("office", &pods("1"))]}), 403),
    ];
    for (header, body, expected) in cases {
        let (status, text) = post(&facts, header, body).await;
        assert_eq!(status.as_u16(), expected, "{header:?}: {text}");
        if expected == 403 {
            assert!(text.contains("may not create jobs.batch in namespace"), "{text}");
        }
    }
}

#[tokio::test]
async fn the_answer_says_what_would_come_of_it() {
    let facts = leader(usize::MAX);
    let ask = async |spec: &Value| {
        let (status, text) = post(&facts, TOKEN, &job("lab", spec)).await;
        assert_eq!(status, StatusCode::OK, "{text}");
        let answer: Answer = serde_json::from_str(&text).unwrap();
        assert_eq!(answer.submitted.len(), 1, "{text}");
        (answer.as_of, answer.submitted.into_iter().next().unwrap())
    };
    let (as_of, fits) = ask(&pods("1")).await;
    assert_eq!((fits.kind, fits.name.as_str(), fits.queue.as_str()), (WorkloadKind::Job, "train", "default"));
    assert_eq!((fits.outcome, fits.start), (Outcome::Starts, Some(as_of)));
    let (_, vast) = ask(&pods("400")).await;
    assert_eq!((vast.outcome, vast.blocked_by[0].reason), (Outcome::NoDate, BlockedReason::Unsatisfiable));
    let mut claims = pods("1");
    claims["template"]["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": "gpu"}]);
    let (_, refused) = ask(&claims).await;
    assert_eq!((refused.outcome, refused.state), (Outcome::KeptOut, Some(JobState::Refused)));
    let why = &refused.blocked_by[0];
    assert!(why.message.contains("spec.resourceClaims"), "{}", why.message);
}

#[tokio::test]
async fn what_cannot_be_submitted_is_said() {
    let facts = leader(usize::MAX);
    let with = |path: &str, value: Value| {
        let mut spec = pods("1");
        *spec.pointer_mut("/template/spec").unwrap().as_object_mut().unwrap().entry(path).or_insert(Value::Null) =
            value;
        job("lab", &spec)
    };
    let mut suspended = pods("1");
    suspended["suspend"] = json!(true);
    let cases = [
        (json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}), 400, "is not of kind"),
        (json!({"apiVersion": "v1", "kind": "Job", "metadata": {"name": "c"}}), 400, "of another group"),
        (json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "c"}}), 400, "namespace is missing"),
        (json!({"kind": "List", "items": []}), 400, "nothing is submitted"),
        (job("lab", &suspended), 422, "asks for no pods"),
        (job("lab", &json!({"parallelism": 30_000, "template": pods("1")["template"]})), 422, "not looked at"),
        (with("priorityClassName", json!("lost")), 422, "there is no PriorityClass \"lost\""),
        (with("schedulerName", json!("default-scheduler")), 422, "\"default-scheduler\" is not served here"),
    ];
    for (body, expected, said) in cases {
        let (status, text) = post(&facts, TOKEN, &body).await;
        assert!(status.as_u16() == expected && text.contains(said), "{status} {text}, not {expected} {said}");
    }
}

#[tokio::test]
async fn few_ask_at_once_and_not_too_often() {
    let (facts, mine) = (leader(1), job("lab", &pods("1")));
    let taken = facts.places.0.acquire_many(u32::try_from(PLACES).unwrap()).await.unwrap();
    assert_eq!(post(&facts, TOKEN, &mine).await.0, StatusCode::TOO_MANY_REQUESTS);
    drop(taken);
    assert_eq!(post(&facts, TOKEN, &mine).await.0, StatusCode::OK);
    assert_eq!(post(&facts, TOKEN, &mine).await.0, StatusCode::TOO_MANY_REQUESTS, "the core was copied a moment ago");
    assert_eq!(post(&standby(), TOKEN, &mine).await.0, StatusCode::SERVICE_UNAVAILABLE);
}
