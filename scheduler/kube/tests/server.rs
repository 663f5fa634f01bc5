//! An API server for tests, in this process and on loopback: objects by path, watches, and scripted misbehaviour.
//!
//! It knows as much of Kubernetes as the shell relies on: resource versions, uid preconditions, Bindings, and the text of
//! errors. What it answers to patches is scripted, since merging is the real server's matter.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// What the server does with a request instead of serving it.
#[derive(Debug, Clone)]
pub(super) enum Script {
    /// Answers with this status and reason.
    Refuse(u16, &'static str),
    /// Does what was asked, then answers with this status: the write whose answer was lost.
    DoAndRefuse(u16, &'static str),
    /// Answers nothing for this long.
    Stall(Duration),
}

/// A request as the server saw it.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) body: Value,
}

#[derive(Default)]
struct Store {
    version: u64,
    objects: BTreeMap<String, Value>,
    /// (part of "METHOD path?query", what to do), each used once.
    scripts: VecDeque<(String, Script)>,
    seen: Vec<Seen>,
    watchers: Vec<(String, mpsc::UnboundedSender<Result<Bytes, std::io::Error>>)>,
}

/// A running server. It ends with the test's runtime.
#[derive(Clone)]
pub(super) struct Server {
    store: Arc<Mutex<Store>>,
    pub(super) client: Client,
    pub(super) url: String,
}

// === impl Server ===

impl Server {
    pub(super) async fn start() -> Self {
        let store = Arc::new(Mutex::new(Store::default()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&store));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Server { store, client: crate::kube::client::plain(&url).unwrap(), url }
    }

    /// The next request whose "METHOD path?query" contains `pattern` meets this.
    pub(super) fn script(&self, pattern: &str, script: Script) {
        self.store.lock().unwrap().scripts.push_back((pattern.to_owned(), script));
    }

    /// Puts an object there, as if someone had written it, and tells the watchers.
    pub(super) fn put(&self, path: &str, object: Value) {
        self.store.lock().unwrap().put(path, object);
    }

    pub(super) fn remove(&self, path: &str) {
        self.store.lock().unwrap().remove(path);
    }

    /// Changes without telling the watchers: what happened while nobody was connected.
    pub(super) fn silently(&self, change: impl FnOnce(&mut BTreeMap<String, Value>)) {
        let mut store = self.store.lock().unwrap();
        store.version += 1;
        change(&mut store.objects);
    }

    pub(super) fn object(&self, path: &str) -> Option<Value> {
        self.store.lock().unwrap().objects.get(path).cloned()
    }

    /// Ends all watches of a collection, after sending this line, if any.
    pub(super) fn end_watches(&self, collection: &str, last_line: Option<&Value>) {
        let mut store = self.store.lock().unwrap();
        store.watchers.retain(|(watched, sender)| {
            if watched != collection {
                return true;
            }
            if let Some(line) = last_line {
                let _ = sender.send(Ok(format!("{line}\n").into()));
            }
            false
        });
    }

    pub(super) fn watchers(&self, collection: &str) -> usize {
        self.store.lock().unwrap().watchers.iter().filter(|(watched, _)| watched == collection).count()
    }

    /// Requests so far whose "METHOD path" contains `pattern`.
    pub(super) fn seen(&self, pattern: &str) -> Vec<Seen> {
        let store = self.store.lock().unwrap();
        store.seen.iter().filter(|seen| format!("{} {}", seen.method, seen.path).contains(pattern)).cloned().collect()
    }
}

/// Waits until `condition` holds; the test fails if it does not within a few seconds.
pub(super) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..500 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not come about");
}

async fn answer(State(store): State<Arc<Mutex<Store>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let path = parts.uri.path().to_owned();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let line = format!("{} {path}?{query}", parts.method);
    let script = {
        let mut store = store.lock().unwrap();
        let seen = Seen { method: parts.method.clone(), path: path.clone(), query: query.clone(), body: body.clone() };
        store.seen.push(seen);
        let at = store.scripts.iter().position(|(pattern, _)| line.contains(pattern.as_str()));
        at.and_then(|at| store.scripts.remove(at)).map(|(_, script)| script)
    };
    match script {
        Some(Script::Refuse(code, reason)) => return refusal(code, reason, "as scripted"),
        Some(Script::Stall(time)) => tokio::time::sleep(time).await,
        Some(Script::DoAndRefuse(code, reason)) => {
            serve(&mut store.lock().unwrap(), &parts.method, &path, &query, body);
            return refusal(code, reason, "as scripted");
        }
        None => {}
    }
    serve(&mut store.lock().unwrap(), &parts.method, &path, &query, body)
}

fn serve(store: &mut Store, method: &Method, path: &str, query: &str, body: Value) -> Response {
    match *method {
        Method::GET if query.contains("watch=true") => store.watch(path),
        Method::GET if Store::is_collection(path) => store.list(path),
        Method::GET => match store.objects.get(path) {
            Some(object) => reply(200, object),
            None => not_found(),
        },
        Method::POST if path.ends_with("/binding") => store.bind(path.trim_end_matches("/binding"), &body),
        Method::POST => store.create(path, body),
        Method::PUT => store.replace(path, body),
        Method::PATCH => store.patch(path.trim_end_matches("/status"), &body),
        Method::DELETE => store.delete(path, &body),
        _ => refusal(405, "MethodNotAllowed", "no such method"),
    }
}

// === impl Store ===

impl Store {
    /// Collections end in a plural, and nothing in the tests is named like one.
    fn is_collection(path: &str) -> bool {
        const PLURALS: [&str; 8] =
            ["nodes", "pods", "jobs", "replicasets", "deployments", "statefulsets", "fluxjobs", "leases"];
        path.rsplit('/').next().is_some_and(|last| PLURALS.contains(&last))
    }

    fn put(&mut self, path: &str, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let known = self.objects.insert(path.to_owned(), object.clone()).is_some();
        self.tell(path, if known { "MODIFIED" } else { "ADDED" }, &object);
    }

    fn remove(&mut self, path: &str) {
        self.version += 1;
        if let Some(mut object) = self.objects.remove(path) {
            object["metadata"]["resourceVersion"] = json!(self.version.to_string());
            self.tell(path, "DELETED", &object);
        }
    }

    /// Tells the watchers of the kind in all namespaces.
    fn tell(&mut self, path: &str, what: &str, object: &Value) {
        let line: Bytes = format!("{}\n", json!({ "type": what, "object": object })).into();
        self.watchers
            .retain(|(collection, sender)| !belongs(path, collection) || sender.send(Ok(line.clone())).is_ok());
    }

    fn watch(&mut self, path: &str) -> Response {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        self.watchers.push((path.to_owned(), sender));
        let lines = futures::stream::poll_fn(move |context| receiver.poll_recv(context));
        ([(header::CONTENT_TYPE, "application/json")], Body::from_stream(lines)).into_response()
    }

    fn list(&self, path: &str) -> Response {
        let items: Vec<&Value> =
            self.objects.iter().filter(|(at, _)| belongs(at, path)).map(|(_, object)| object).collect();
        let version = self.version.max(1).to_string();
        reply(
            200,
            &json!({ "kind": "List", "apiVersion": "v1",
            "metadata": { "resourceVersion": version }, "items": items }),
        )
    }

    fn create(&mut self, collection: &str, mut object: Value) -> Response {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let path = format!("{collection}/{name}");
        if self.objects.contains_key(&path) {
            return refusal(409, "AlreadyExists", "already exists");
        }
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{}", self.version));
        }
        self.put(&path, object);
        reply(201, &self.objects[&path])
    }

    fn replace(&mut self, path: &str, object: Value) -> Response {
        let Some(known) = self.objects.get(path) else { return not_found() };
        if known["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
            return refusal(409, "Conflict", "the object has been modified");
        }
        self.put(path, object);
        reply(200, &self.objects[path])
    }

    fn patch(&mut self, path: &str, body: &Value) -> Response {
        let Some(known) = self.objects.get(path) else { return not_found() };
        let uid = &known["metadata"]["uid"];
        let expected = body.pointer("/metadata/uid").or_else(|| body.pointer("/0/value"));
        if expected.is_some_and(|expected| expected != uid) {
            return match body {
                Value::Array(_) => refusal(422, "Invalid", "the server rejected our request"),
                _ => refusal(409, "Conflict", "Precondition failed: UID in precondition"),
            };
        }
        reply(200, known)
    }

    fn delete(&mut self, path: &str, body: &Value) -> Response {
        let Some(known) = self.objects.get(path) else { return not_found() };
        if body["preconditions"]["uid"].as_str().is_some_and(|uid| known["metadata"]["uid"] != *uid) {
            return refusal(409, "Conflict", "Precondition failed: UID in precondition");
        }
        self.remove(path);
        reply(200, &json!({ "kind": "Status", "status": "Success" }))
    }

    fn bind(&mut self, path: &str, binding: &Value) -> Response {
        let Some(pod) = self.objects.get(path) else { return not_found() };
        let mut pod = pod.clone();
        let refused = if pod["metadata"]["uid"] != binding["metadata"]["uid"] {
            "Precondition failed: UID in precondition"
        } else if !pod["metadata"]["deletionTimestamp"].is_null() {
            "is being deleted, cannot be assigned to a host"
        } else if pod["spec"]["nodeName"].is_string() {
            "is already assigned to node"
        } else if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
            "has non-empty .spec.schedulingGates"
        } else {
            pod["spec"]["nodeName"] = binding["target"]["name"].clone();
            self.put(path, pod);
            return reply(201, &json!({ "kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201 }));
        };
        refusal(409, "Conflict", refused)
    }
}

/// The object is of the collection, which spans all namespaces unless it names one.
fn belongs(object: &str, collection: &str) -> bool {
    let Some((parent, _)) = object.rsplit_once('/') else { return false };
    let Some((group, plural)) = collection.rsplit_once('/') else { return false };
    parent == collection
        || (parent.starts_with(&format!("{group}/namespaces/")) && parent.ends_with(&format!("/{plural}")))
}

fn reply(code: u16, object: &Value) -> Response {
    let status = StatusCode::from_u16(code).unwrap();
    (status, [(header::CONTENT_TYPE, "application/json")], object.to_string()).into_response()
}

fn refusal(code: u16, reason: &str, message: &str) -> Response {
    reply(
        code,
        &json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "message": message, "code": code }),
    )
}

fn not_found() -> Response {
    refusal(404, "NotFound", "not found")
}
