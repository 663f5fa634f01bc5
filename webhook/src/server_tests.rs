use axum::body::Body;
use axum::http::{Request, header};
use http_body_util::BodyExt;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;

fn routes() -> (Router, Arc<Readiness>, Arc<Serving>) {
    counting_in(&mut Registry::default())
}

fn counting_in(registry: &mut Registry) -> (Router, Arc<Readiness>, Arc<Serving>) {
    let admission =
        Admission::new(vec!["fluxqueue".to_owned()], "fluxqueue-system".to_owned()).unwrap();
    let serving = Arc::new(Serving::default());
    let readiness = Arc::new(Readiness::new(Arc::clone(&serving)));
    (router(admission, Metrics::new(registry), Arc::clone(&readiness)), readiness, serving)
}

async fn post(path: &str, body: String) -> (StatusCode, Value) {
    ask(routes().0, path, body).await
}

async fn ask(routes: Router, path: &str, body: String) -> (StatusCode, Value) {
    let request = Request::post(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body))
        .unwrap();
    let answer = routes.oneshot(request).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

/// Makes a question about a new pod.
fn review(spec: Value) -> String {
    let request = json!({
        "uid": "705ab4f5", "namespace": "team", "operation": "CREATE", "name": "p",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "userInfo": {"username": "u"}, "oldObject": null, "dryRun": true,
        "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec},
    });
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
        .to_string()
}

#[tokio::test]
async fn an_answer_is_of_the_version_and_uid_of_its_question() {
    let (status, answer) = post(Paths::MUTATE, review(json!({}))).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        (&answer["apiVersion"], &answer["kind"]),
        (&json!("admission.k8s.io/v1"), &json!("AdmissionReview"))
    );
    let response = &answer["response"];
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("705ab4f5"), &json!(true)));
    assert_eq!(response["patchType"], "JSONPatch");
    let (_, answer) = post(Paths::MUTATE, review(json!({"schedulerName": "volcano"}))).await;
    assert_eq!(
        (&answer["response"]["allowed"], &answer["response"]["patch"]),
        (&json!(true), &Value::Null)
    );
}

#[tokio::test]
async fn the_gate_is_on_a_path_of_its_own() {
    let length = async |path| {
        let (_, answer) = post(path, review(json!({}))).await;
        answer["response"]["patch"]
            .as_str()
            .map(str::len)
            .or(answer["response"]["patch"].as_array().map(Vec::len))
    };
    assert!(length(Paths::MUTATE_GATED).await > length(Paths::MUTATE).await);
}

#[tokio::test]
async fn a_refusal_names_each_field() {
    let spec = json!({
        "schedulerName": "fluxqueue", "containers": [],
        "workloadRef": {"name": "w", "podGroup": "g"},
        "resourceClaims": [{"name": "c", "resourceClaimName": "c"}],
    });
    let (_, answer) = post(Paths::VALIDATE, review(spec)).await;
    let response = &answer["response"];
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(422)));
    let causes = response["status"]["details"]["causes"].as_array().unwrap();
    let fields: Vec<_> = causes.iter().map(|cause| cause["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["spec.resourceClaims", "spec.workloadRef"]);
    let message = response["status"]["message"].as_str().unwrap();
    assert!(fields.iter().all(|field| message.contains(field)), "{message}");
}

#[tokio::test]
async fn an_invalid_question_gets_no_answer() {
    for body in
        ["", "{}", "null", r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}"#]
    {
        let (status, answer) = post(Paths::MUTATE, body.to_owned()).await;
        assert!(
            status != StatusCode::OK || answer["response"]["allowed"] == false,
            "{body:?}: {status} {answer}"
        );
    }
    let (status, _) = post(Paths::VALIDATE, "x".repeat(crate::bodies::REVIEW_BYTES_MAX + 1)).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_process_is_ready_from_its_certificate_until_it_is_about_to_end() {
    let (routes, readiness, serving) = routes();
    let get = async |path| {
        let request = Request::get(path).body(Body::empty()).unwrap();
        routes.clone().oneshot(request).await.unwrap().status()
    };
    assert_eq!(
        (get("/readyz").await, get("/livez").await),
        (StatusCode::SERVICE_UNAVAILABLE, StatusCode::OK)
    );
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    serving.set(fluxqueue_tls::certified(chain.as_bytes(), key.as_bytes()).unwrap());
    assert_eq!((get("/readyz").await, get("/livez").await), (StatusCode::OK, StatusCode::OK));
    readiness.set_stopping();
    assert_eq!(
        (get("/readyz").await, get("/livez").await),
        (StatusCode::SERVICE_UNAVAILABLE, StatusCode::OK)
    );
}

#[tokio::test]
async fn each_question_is_counted_by_its_answer() {
    let mut registry = Registry::default();
    let (routes, ..) = counting_in(&mut registry);
    let ours = |more: Value| {
        let mut spec = json!({"schedulerName": "fluxqueue", "containers": []});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        review(spec)
    };
    let questions = [
        (Paths::MUTATE, review(json!({}))),
        (Paths::MUTATE, review(json!({"schedulerName": "volcano"}))),
        (Paths::MUTATE, "nonsense".to_owned()),
        (Paths::MUTATE_GATED, review(json!({}))),
        (Paths::SUSPEND, review(json!({}))),
        (Paths::VALIDATE, ours(json!({}))),
        (Paths::VALIDATE, ours(json!({"workloadRef": {"name": "g", "podGroup": "g"}}))),
        (
            Paths::VALIDATE,
            r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}"#.to_owned(),
        ),
    ];
    for (path, question) in questions {
        ask(routes.clone(), path, question).await;
    }
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let counts: Vec<&str> =
        text.lines().filter(|line| line.starts_with("webhook_requests_total")).collect();
    let mut expected = Vec::new();
    for (question, answers) in [
        ("mutate", &["changed", "unchanged", "unreadable"][..]),
        ("validate", &["accepted", "refused", "unreadable"]),
    ] {
        for answer in answers {
            expected.push(format!(
                "webhook_requests_total{{question=\"{question}\",answer=\"{answer}\"}} 1"
            ));
        }
    }
    expected
        .push(r#"webhook_requests_total{question="mutate_gated",answer="changed"} 1"#.to_owned());
    expected.push(r#"webhook_requests_total{question="suspend",answer="unchanged"} 1"#.to_owned());
    for line in &expected {
        assert!(counts.contains(&line.as_str()), "{line} in {counts:?}");
    }
    for (question, count) in [("mutate", 3), ("mutate_gated", 1), ("validate", 3)] {
        let line =
            format!("webhook_request_duration_seconds_count{{question=\"{question}\"}} {count}");
        assert!(text.lines().any(|other| other == line), "{line} in {text}");
    }
}
