//! Requests of the command `simulate --from-cluster`, to a core with one node.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::{Body, to_bytes};
use axum::http::Request;
use fluxion_sys::FunctionTable;
use fluxqueue_api::BlockedReason;
use fluxqueue_core::{Core, CoreSettings};
use fluxqueue_machine::cluster::{Node, Readiness};
use fluxqueue_workload::{NodeName, Uid};
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::LimitRange;
use k8s_openapi::api::node::v1::RuntimeClass;
use serde_json::json;
use tokio::sync::mpsc;
use tower::ServiceExt;

use super::super::places::{PLACES, Places};
use super::super::tests::Strict;
use super::super::{AdmissionSource, DepthSource, Health, Leading, Metrics, TOKEN_HEADER, router};
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
        readiness: Readiness::Ready,
        declared_features: Vec::new(),
    };
    core.handle(Event::Node(Arc::new(node)), NOW);
    core.handle(Event::Synced, NOW);
    core.step(NOW);
    core
}

/// Starts a process that leads, and copies the core this many times; after that each copy comes too
/// soon.
fn leader(answers: usize) -> Arc<Facts> {
    leader_beside(answers, Objects(Ok(None)))
}

/// Does the same with an API server that has these objects.
fn leader_beside(answers: usize, objects: Objects) -> Arc<Facts> {
    let facts = standby_beside(objects);
    let (questions, mut asked) = mpsc::channel(8);
    facts.leading.set(Leading { questions, depths: Box::new(NoQueues) }).unwrap();
    tokio::spawn(async move {
        let (mut core, mut left) = (core(), answers);
        while let Some(question) = asked.recv().await {
            if let Question::Preview(to) = question {
                let preview = core.preview(NOW).filter(|_| left > 0);
                left = left.saturating_sub(1);
                to.send(
                    preview.map_or(Copied::TooSoon, |preview| Copied::Preview(Box::new(preview))),
                )
                .unwrap();
            }
        }
    });
    facts
}

fn standby() -> Arc<Facts> {
    standby_beside(Objects(Ok(None)))
}

fn standby_beside(objects: Objects) -> Arc<Facts> {
    Arc::new(Facts {
        metrics: Arc::new(Metrics::new("0", "0")),
        health: Arc::new(Health::default()),
        leading: OnceLock::new(),
        gatekeeper: Some(Arc::new(Strict)),
        places: Places::default(),
        last_outlook: crate::serve::outlook::LastOutlook::default(),
        admission: Arc::new(objects),
    })
}

/// The default requests of containers, or the error of the API server.
#[derive(Debug, Clone, Copy)]
pub(in crate::serve) struct Objects(pub Result<Option<&'static str>, &'static str>);

impl AdmissionSource for Objects {
    fn limit_ranges<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<LimitRange>, String>> {
        let limit_range = |cpu: &str| {
            let item = json!({"type": "Container", "defaultRequest": {"cpu": cpu}});
            serde_json::from_value(json!({"metadata": {}, "spec": {"limits": [item]}})).unwrap()
        };
        let found = self.0.map(|cpu| cpu.map(limit_range).into_iter().collect());
        async { found.map_err(str::to_owned) }.boxed()
    }

    fn runtime_class<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<RuntimeClass>, String>> {
        let class = json!({
            "metadata": {"name": "heavy"}, "handler": "h", "overhead": {"podFixed": {"cpu": "2"}},
        });
        let found = (name == "heavy").then(|| serde_json::from_value(class).unwrap());
        async { Ok(found) }.boxed()
    }
}

fn job(namespace: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "train", "namespace": namespace}, "spec": spec,
    })
}

fn pods(cpu: &str) -> Value {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}});
    json!({"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}})
}

async fn post(facts: &Arc<Facts>, header: (&str, &str), body: &Value) -> (StatusCode, String) {
    post_to(PATH, facts, header, body).await
}

async fn post_to(
    path: &str,
    facts: &Arc<Facts>,
    (name, value): (&str, &str),
    body: &Value,
) -> (StatusCode, String) {
    let request =
        Request::post(path).header(name, value).body(Body::from(body.to_string())).unwrap();
    let response = router(Arc::clone(facts)).oneshot(request).await.unwrap();
    let (status, body) =
        (response.status(), to_bytes(response.into_body(), 1 << 20).await.unwrap());
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn only_clients_that_may_create_the_objects_are_answered() {
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
        // One object that the client may not create is enough.
        (TOKEN, &json!({"kind": "List", "items": [mine, job("office", &pods("1"))]}), 403),
    ];
    for (header, body, expected) in cases {
        let (status, text) = post(&facts, header, body).await;
        assert_eq!(status.as_u16(), expected, "{header:?}: {text}");
        if expected == 403 {
            // That token allows nothing at all; this one does not allow the objects.
            let may_not = if header.1 == "poor" || header.1 == "Bearer poor" {
                "/what-if"
            } else {
                "jobs.batch in namespace"
            };
            assert!(text.contains(&format!("may not create {may_not}")), "{text}");
        }
    }
}

/// Makes a body that notes when it is read.
fn noting(length: Option<usize>, looked_at: &Arc<AtomicBool>) -> Request<Body> {
    let looked_at = Arc::clone(looked_at);
    let body = futures::stream::poll_fn(move |_| {
        looked_at.store(true, Ordering::SeqCst);
        std::task::Poll::Ready(None::<Result<axum::body::Bytes, std::io::Error>>)
    });
    let mut request = Request::post(PATH);
    if let Some(length) = length {
        request = request.header("content-length", length);
    }
    request.body(Body::from_stream(body)).unwrap()
}

#[tokio::test]
async fn a_body_is_left_alone_until_its_sender_may_ask_and_there_is_room_for_it() {
    let facts = leader(usize::MAX);
    let looked_at = Arc::new(AtomicBool::new(false));
    let ask = async |token: Option<&str>, length: Option<usize>| {
        looked_at.store(false, Ordering::SeqCst);
        let mut request = noting(length, &looked_at);
        if let Some(token) = token {
            request
                .headers_mut()
                .insert("authorization", format!("Bearer {token}").parse().unwrap());
        }
        let status = router(Arc::clone(&facts)).oneshot(request).await.unwrap().status();
        (status.as_u16(), looked_at.load(Ordering::SeqCst))
    };
    for (token, expected) in
        [(None, 401), (Some("nonsense"), 401), (Some("poor"), 403), (Some("lost"), 503)]
    {
        assert_eq!(ask(token, None).await, (expected, false), "{token:?}");
    }
    assert_eq!(ask(Some("good"), Some(BODY_BYTES + 1)).await, (413, false));
    let taken = Arc::clone(&facts.places.0)
        .acquire_many_owned(u32::try_from(PLACES).unwrap())
        .await
        .unwrap();
    assert_eq!(ask(Some("good"), None).await, (429, false));
    drop(taken);
    assert_eq!(ask(Some("good"), None).await, (400, true));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_gives_its_place_back() {
    let facts = leader(usize::MAX);
    let silent =
        Body::from_stream(futures::stream::pending::<Result<axum::body::Bytes, std::io::Error>>());
    let request = Request::post(PATH).header(TOKEN.0, TOKEN.1).body(silent).unwrap();
    let answer = router(Arc::clone(&facts)).oneshot(request).await.unwrap();
    assert_eq!((answer.status().as_u16(), facts.places.0.available_permits()), (408, PLACES));
}

#[tokio::test]
async fn a_body_of_many_values_or_objects_is_refused() {
    let facts = leader(usize::MAX);
    let bomb = format!(r#"{{"items":[{}0]}}"#, r#"{"":0},"#.repeat(BODY_BYTES / 7 - 10));
    let many =
        json!({"kind": "List", "items": vec![job("lab", &pods("1")); OBJECTS_MAX + 1]}).to_string();
    let yaml = "- {kind: Job}".to_owned();
    for (body, expected, said) in
        [(bomb, 422, "values"), (many, 422, "objects"), (yaml, 400, "not a JSON object")]
    {
        let request = Request::post(PATH).header(TOKEN.0, TOKEN.1).body(Body::from(body)).unwrap();
        let answer = router(Arc::clone(&facts)).oneshot(request).await.unwrap();
        let status = answer.status().as_u16();
        let text = String::from_utf8(to_bytes(answer.into_body(), 1 << 20).await.unwrap().to_vec())
            .unwrap();
        assert!(status == expected && text.contains(said), "{status} {text}");
    }
}

/// Delayed jobs are named if the client could list them; the others are counted.
#[tokio::test]
async fn delayed_jobs_are_named_to_clients_that_may_list_them() {
    let delayed = |namespace: &str| Delayed {
        namespace: namespace.to_owned(),
        flux_job: "train".to_owned(),
        from: instant(NOW),
        to: None,
        not_by: None,
        seconds: None,
        promised: false,
    };
    let elsewhere: Vec<String> = (0..100).map(|number| format!("team-{number}")).collect();
    let all = || {
        elsewhere
            .iter()
            .map(|namespace| delayed(namespace))
            .chain([delayed("lab")])
            .rev()
            .collect::<Vec<_>>()
    };
    let shown = async |token: &str, delayed: Vec<Delayed>| {
        let mut answer = Answer {
            as_of: instant(NOW),
            submitted: Vec::new(),
            delayed_count: delayed.len(),
            delayed,
            looked_until: None,
        };
        let headers = HeaderMap::from_iter([(
            header::AUTHORIZATION,
            format!("Bearer {token}").parse().unwrap(),
        )]);
        veil(&standby(), &headers, &mut answer).await;
        (
            answer.delayed.len(),
            answer.delayed_count,
            answer.delayed.first().map(|job| job.namespace.clone()),
        )
    };
    assert_eq!(shown("good", all()).await, (1, 101, Some("lab".to_owned())));
    assert_eq!(shown("all-seeing", all()).await, (101, 101, Some("lab".to_owned())));
    assert_eq!(shown("poor", all()).await, (0, 101, None));
    // The server asks the API server about this many namespaces; jobs in others are counted,
    // whatever the answer would be.
    let mut late = all();
    late.reverse();
    assert_eq!(shown("good", late).await, (0, 101, None));
}

#[tokio::test]
async fn the_answer_has_the_fate_of_each_object() {
    let facts = leader(usize::MAX);
    let ask = async |spec: &Value| {
        let (status, text) = post(&facts, TOKEN, &job("lab", spec)).await;
        assert_eq!(status, StatusCode::OK, "{text}");
        let answer: Answer = serde_json::from_str(&text).unwrap();
        assert_eq!(answer.submitted.len(), 1, "{text}");
        (answer.as_of, answer.submitted.into_iter().next().unwrap())
    };
    let (as_of, fits) = ask(&pods("1")).await;
    assert_eq!(
        (fits.kind, fits.name.as_str(), fits.queue.as_str()),
        (WorkloadKind::Job, "train", "default")
    );
    assert_eq!((fits.outcome, fits.start), (WhatIfOutcome::Starts, Some(as_of)));
    let (_, vast) = ask(&pods("400")).await;
    assert_eq!(
        (vast.outcome, vast.blocked_by[0].reason),
        (WhatIfOutcome::NoDate, BlockedReason::Unsatisfiable)
    );
    let mut claims = pods("1");
    claims["template"]["spec"]["resourceClaims"] =
        json!([{"name": "gpu", "resourceClaimName": "gpu"}]);
    let (_, refused) = ask(&claims).await;
    assert_eq!((refused.outcome, refused.state), (WhatIfOutcome::KeptOut, Some(JobState::Refused)));
    let why = &refused.blocked_by[0];
    assert!(why.message.contains("spec.resourceClaims"), "{}", why.message);
    // Groups of Kubernetes' own, in the template and in the Job.
    let mut group = pods("1");
    group["template"]["spec"]["schedulingGroup"] = json!({"podGroupName": "ring"});
    let (_, waits) = ask(&group).await;
    assert_eq!((waits.outcome, waits.state), (WhatIfOutcome::KeptOut, Some(JobState::Incomplete)));
    let said = &waits.blocked_by[0].message;
    assert!(said.starts_with("PodGroup lab/ring is not there"), "{said}");
    let mut workload = pods("1");
    workload["template"]["spec"]["workloadRef"] = json!({"name": "ring", "podGroup": "x"});
    let mut claims = pods("1");
    claims["scheduling"] = json!({"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]});
    for (spec, field) in
        [(workload, "spec.workloadRef"), (claims, "spec.scheduling.resourceClaims")]
    {
        let (_, refused) = ask(&spec).await;
        assert_eq!(
            (refused.outcome, refused.state),
            (WhatIfOutcome::KeptOut, Some(JobState::Refused))
        );
        let why = &refused.blocked_by[0];
        assert!(why.message.contains(&format!("{field}: ")), "{}", why.message);
    }
}

#[tokio::test]
async fn pods_are_completed_as_admission_would() {
    let ask = async |objects: Objects, count: u32, class: Option<&str>| {
        let template = json!({"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
            "runtimeClassName": class,
        }});
        let spec = json!({"parallelism": count, "completions": count, "template": template});
        let (status, text) =
            post(&leader_beside(usize::MAX, objects), TOKEN, &job("lab", &spec)).await;
        if status != StatusCode::OK {
            return Err((status.as_u16(), text));
        }
        Ok(serde_json::from_str::<Answer>(&text).unwrap().submitted.remove(0).outcome)
    };
    // The node has four cores.
    let (none, given, hidden) =
        (Objects(Ok(None)), Objects(Ok(Some("3"))), Objects(Err("403: no")));
    assert_eq!(ask(none, 2, None).await, Ok(WhatIfOutcome::Starts));
    assert_eq!(ask(given, 1, None).await, Ok(WhatIfOutcome::Starts));
    assert_eq!(ask(given, 2, None).await, Ok(WhatIfOutcome::NoDate), "each is given three cores");
    assert_eq!(ask(none, 2, Some("heavy")).await, Ok(WhatIfOutcome::Starts));
    assert_eq!(
        ask(given, 1, Some("heavy")).await,
        Ok(WhatIfOutcome::NoDate),
        "and two to run at all"
    );
    let cases = [
        (none, Some("lost"), 422, "no RuntimeClass"),
        (none, Some("../x"), 422, "cannot be the name"),
        (hidden, None, 503, "403: no"),
    ];
    for (objects, class, expected, said) in cases {
        let (status, text) = ask(objects, 1, class).await.unwrap_err();
        assert!(
            status == expected && text.contains(said),
            "{status} {text}, not {expected} {said}"
        );
    }
}

#[tokio::test]
async fn objects_that_cannot_be_submitted_are_refused_by_name() {
    let facts = leader(usize::MAX);
    let with = |path: &str, value: Value| {
        let mut spec = pods("1");
        *spec
            .pointer_mut("/template/spec")
            .unwrap()
            .as_object_mut()
            .unwrap()
            .entry(path)
            .or_insert(Value::Null) = value;
        job("lab", &spec)
    };
    let mut suspended = pods("1");
    suspended["suspend"] = json!(true);
    let cases = [
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}),
            400,
            "is not of kind",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Job", "metadata": {"name": "c"}}),
            400,
            "of another group",
        ),
        (
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "c"}}),
            400,
            "namespace is missing",
        ),
        (json!({"kind": "List", "items": []}), 400, "there are no objects"),
        (job("lab", &suspended), 422, "asks for no pods"),
        (
            job("lab", &json!({"parallelism": 30_000, "template": pods("1")["template"]})),
            422,
            "more than",
        ),
        (with("priorityClassName", json!("lost")), 422, "there is no PriorityClass \"lost\""),
        (
            with("schedulerName", json!("default-scheduler")),
            422,
            "\"default-scheduler\" is not served here",
        ),
    ];
    for (body, expected, said) in cases {
        let (status, text) = post(&facts, TOKEN, &body).await;
        assert!(
            status.as_u16() == expected && text.contains(said),
            "{status} {text}, not {expected} {said}"
        );
    }
}

#[tokio::test]
async fn few_ask_at_once_and_not_too_often() {
    let (facts, mine) = (leader(1), job("lab", &pods("1")));
    let taken = facts.places.0.acquire_many(u32::try_from(PLACES).unwrap()).await.unwrap();
    assert_eq!(post(&facts, TOKEN, &mine).await.0, StatusCode::TOO_MANY_REQUESTS);
    drop(taken);
    assert_eq!(post(&facts, TOKEN, &mine).await.0, StatusCode::OK);
    assert_eq!(
        post(&facts, TOKEN, &mine).await.0,
        StatusCode::TOO_MANY_REQUESTS,
        "the core was copied a moment ago"
    );
    assert_eq!(post(&standby(), TOKEN, &mine).await.0, StatusCode::SERVICE_UNAVAILABLE);
}

#[test]
fn the_time_for_the_copy_counts() {
    let (asked, ms) = (Instant::now(), Duration::from_millis);
    for (copied, within, until) in [
        (0, 150, 150),
        (97, 150, 150),
        (120, 150, 170),
        (400, 150, 450),
        (97, 3_000, 3_000),
        (97, 0, 97),
    ] {
        let looks = looks_until(asked, asked + ms(copied), ms(within));
        assert_eq!(looks - asked, ms(until), "{copied} ms of {within}");
    }
}

/// An answer without any time still knows the starts at once, and says that it considered no more.
#[tokio::test]
async fn an_answer_that_was_cut_short_says_so() {
    let facts = leader(usize::MAX);
    let one_after_the_other = ["first", "second"].map(|name| {
        let mut job = job("lab", &pods("3"));
        job["metadata"]["name"] = name.into();
        job["spec"]["template"]["spec"]["activeDeadlineSeconds"] = 600.into();
        job
    });
    let list = json!({"kind": "List", "items": one_after_the_other});
    for (within, second) in [(0, WhatIfOutcome::NotFound), (10_000, WhatIfOutcome::Starts)] {
        let path = format!("{PATH}?within={within}");
        let (status, text) = post_to(&path, &facts, TOKEN, &list).await;
        assert_eq!(status, StatusCode::OK, "{text}");
        let answer: Answer = serde_json::from_str(&text).unwrap();
        let outcomes: Vec<_> =
            answer.submitted.iter().map(|job| (job.name.as_str(), job.outcome)).collect();
        assert_eq!(outcomes, [("first", WhatIfOutcome::Starts), ("second", second)], "{text}");
        assert_eq!(answer.looked_until.is_some(), second == WhatIfOutcome::NotFound, "{text}");
    }
}
