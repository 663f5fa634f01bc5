use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::kube::ask::{AskError, AskSettings, Leader, ask};
use crate::kube::client::configuration;
use crate::serve::TOKEN_HEADER;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/fluxqueue-system/leases/fluxqueue";
const PROXY: &str =
    "/api/v1/namespaces/fluxqueue-system/pods/https:fluxqueue-0:10259/proxy/what-if";

/// An API server in front of a leader, as far as this test needs one: the holder of the Lease, how
/// often it is busy, and the requests through the proxy.
#[derive(Default)]
struct Behind {
    holder: String,
    busy: usize,
    seen: Vec<(String, HeaderMap, Value)>,
}

async fn answer(State(behind): State<Arc<Mutex<Behind>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let mut behind = behind.lock().unwrap();
    if parts.headers.get(header::AUTHORIZATION).is_none_or(|value| value != "Bearer of-alice") {
        return (StatusCode::UNAUTHORIZED, "unknown token").into_response();
    }
    if parts.uri.path() == LEASE {
        let lease = json!({
            "metadata": { "name": "fluxqueue" }, "spec": { "holderIdentity": behind.holder },
        });
        return axum::Json(lease).into_response();
    }
    assert_eq!(parts.uri.path(), PROXY);
    let body = serde_json::from_slice(&body).unwrap();
    behind.seen.push((parts.uri.query().unwrap_or_default().to_owned(), parts.headers, body));
    if behind.busy > 0 {
        behind.busy -= 1;
        return (StatusCode::TOO_MANY_REQUESTS, "busy").into_response();
    }
    let as_of = "2026-01-05T14:05:00.000000Z";
    axum::Json(json!({ "asOf": as_of, "submitted": [], "delayed": [], "delayedCount": 0 }))
        .into_response()
}

async fn start(behind: Behind) -> (Arc<Mutex<Behind>>, String) {
    let behind = Arc::new(Mutex::new(behind));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(answer).with_state(Arc::clone(&behind));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let _ = rustls::crypto::ring::default_provider().install_default();
    (behind, url)
}

/// Asks with the kubeconfig of a user with these credentials.
async fn ask_as(
    url: &str,
    user: &Value,
    file: &str,
) -> Result<crate::serve::what_if::Answer, AskError> {
    let kubeconfig =
        std::env::temp_dir().join(format!("fluxqueue-ask-{}-{file}.yaml", std::process::id()));
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "lab"}}],
    });
    std::fs::write(&kubeconfig, text.to_string()).unwrap();
    let (namespace, lease) = ("fluxqueue-system".to_owned(), "fluxqueue".to_owned());
    let settings = AskSettings {
        kubeconfig: Some(kubeconfig.clone()),
        token: None,
        leader: Leader::OfLease { namespace, lease, port: 10259 },
        within: Duration::from_millis(150),
    };
    let objects = vec![
        json!({"kind": "Job", "metadata": {"name": "j"}}),
        json!({"metadata": {"namespace": "mine"}}),
    ];
    let answer = ask(settings, objects, None).await;
    std::fs::remove_file(kubeconfig).unwrap();
    answer
}

#[tokio::test]
async fn the_pod_that_leads_is_asked_through_the_api_server_with_the_kubeconfigs_token() {
    let (behind, url) =
        start(Behind { holder: "fluxqueue-0_abc".to_owned(), busy: 1, ..Behind::default() }).await;
    ask_as(&url, &json!({"token": "of-alice"}), "token").await.unwrap();
    let seen = std::mem::take(&mut behind.lock().unwrap().seen);
    assert_eq!(seen.len(), 2, "a client that is turned away tries again");
    let (query, headers, body) = &seen[1];
    assert_eq!(
        (query.as_str(), headers[TOKEN_HEADER].to_str().unwrap()),
        ("within=150", "of-alice")
    );
    let namespaces =
        [&body["items"][0], &body["items"][1]].map(|it| it["metadata"]["namespace"].as_str());
    assert_eq!(namespaces, [Some("lab"), Some("mine")]);
    // A plugin provides the token, as for kubectl.
    let said = concat!(
        r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","#,
        r#""status":{"token":"of-alice"}}"#
    );
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "echo", "args": [said],
        "interactiveMode": "Never",
    });
    ask_as(&url, &json!({ "exec": exec }), "exec").await.unwrap();
    assert_eq!(behind.lock().unwrap().seen[0].1[TOKEN_HEADER].to_str().unwrap(), "of-alice");
}

#[tokio::test]
async fn a_missing_token_or_leader_is_an_error() {
    let (behind, url) = start(Behind::default()).await;
    let error = ask_as(&url, &json!({"token": "of-alice"}), "nobody").await.unwrap_err();
    assert!(
        matches!(&error, AskError::NoLeader(lease) if lease == "fluxqueue-system/fluxqueue"),
        "{error}"
    );
    assert!(matches!(ask_as(&url, &json!({}), "nothing").await, Err(AskError::NoToken)));
    behind.lock().unwrap().busy = usize::MAX;
    let error = ask_as(&url, &json!({"token": "of-bob"}), "unknown").await.unwrap_err();
    assert!(matches!(error, AskError::Lease { .. }), "{error}");
}

#[tokio::test]
async fn a_kubeconfig_that_is_missing_is_told_once() {
    let missing = std::path::Path::new("/nowhere/kubeconfig");
    let error = configuration(Some(missing)).await.expect_err("it is missing");
    let text = format!("{:#}", anyhow::Error::new(error));
    assert!(text.starts_with("reading kubeconfig /nowhere/kubeconfig: "), "{text}");
    assert_eq!(text.matches("No such file").count(), 1, "{text}");
}
