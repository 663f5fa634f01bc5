//! An API server for tests, in this process and on loopback: objects by path, watches, and scripted
//! misbehaviour.
//!
//! It knows as much of Kubernetes as the shell relies on: resource versions, preconditions,
//! Bindings, the patches that the shell sends, and the codes of errors. Its refusals were compared
//! with those of a real API server (1.36).

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use fluxqueue_api::{FluxJob, FluxQueue};
use kube::core::CustomResourceExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::binary;
use crate::kube::client::{Clients, plain};
use crate::kube::fence::Fence;
use crate::kube::fenced::FencedClient;
use crate::kube::protobuf::watch::CONTENT_TYPE as PROTOBUF;

/// The CustomResourceDefinition of FluxJobs.
pub(super) const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/fluxjobs.jobs.converged-computing.org";

/// The CustomResourceDefinition of FluxQueues.
pub(super) const QUEUE_DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/\
     customresourcedefinitions/fluxqueues.jobs.converged-computing.org";

/// The reaction to a request instead of serving it.
#[derive(Debug, Clone)]
pub(super) enum Script {
    /// Answers with this status and reason.
    Refuse(u16, &'static str),
    /// Does the write, then answers with this status: the answer of the write is lost.
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
    /// The seconds by which the server's clock is ahead.
    ahead_secs: i64,
    /// True if it has the encoding, for watches of nodes.
    speaks_protobuf: bool,
    watchers: Vec<Watcher>,
}

struct Watcher {
    collection: String,
    lines: mpsc::UnboundedSender<Result<Bytes, std::io::Error>>,
    protobuf: bool,
}

/// A running server. It ends with the test's runtime.
#[derive(Clone)]
pub(super) struct Server {
    store: Arc<Mutex<Store>>,
    pub(super) clients: Clients,
    pub(super) url: String,
}

// === impl Server ===

impl Server {
    pub(super) async fn start() -> Self {
        let definitions = [(DEFINITION, FluxJob::crd()), (QUEUE_DEFINITION, FluxQueue::crd())];
        let definitions =
            definitions.map(|(path, crd)| (path.to_owned(), serde_json::to_value(crd).unwrap()));
        let objects = BTreeMap::from(definitions);
        let store = Arc::new(Mutex::new(Store { objects, ..Store::default() }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&store));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Server { store, clients: plain(&url).unwrap(), url }
    }

    /// Starts a server that has only JSON, and one that also has protobuf.
    pub(super) async fn of_each_encoding() -> [Self; 2] {
        let both = Self::start().await;
        both.store.lock().unwrap().speaks_protobuf = true;
        [Self::start().await, both]
    }

    /// Returns a client for writes, with no other process that could lead.
    pub(super) fn writes(&self) -> FencedClient {
        self.fenced(Fence::open())
    }

    pub(super) fn fenced(&self, fence: Fence) -> FencedClient {
        FencedClient::new(self.clients.write.clone(), fence)
    }

    /// Sets the reaction to the next request with a "METHOD path?query" that contains `pattern`.
    pub(super) fn script(&self, pattern: &str, script: Script) {
        self.store.lock().unwrap().scripts.push_back((pattern.to_owned(), script));
    }

    /// Puts an object there, as if a client had written it, and tells the watchers.
    pub(super) fn put(&self, path: &str, object: Value) {
        self.store.lock().unwrap().put(path, object);
    }

    pub(super) fn remove(&self, path: &str) {
        self.store.lock().unwrap().remove(path);
    }

    /// Puts the server's clock forward by this much.
    pub(super) fn set_clock(&self, ahead_secs: i64) {
        self.store.lock().unwrap().ahead_secs = ahead_secs;
    }

    /// Changes objects without telling the watchers, as if while they were disconnected.
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
        store.watchers.retain(|watcher| {
            if watcher.collection != collection {
                return true;
            }
            if let Some(line) = last_line {
                watcher.tell(line["type"].as_str().unwrap(), &line["object"]);
            }
            false
        });
    }

    pub(super) fn watchers(&self, collection: &str) -> usize {
        self.store
            .lock()
            .unwrap()
            .watchers
            .iter()
            .filter(|watcher| watcher.collection == collection)
            .count()
    }

    pub(super) fn protobuf_watchers(&self, collection: &str) -> usize {
        let store = self.store.lock().unwrap();
        store
            .watchers
            .iter()
            .filter(|watcher| watcher.collection == collection && watcher.protobuf)
            .count()
    }

    /// Returns the requests so far with a "METHOD path" that contains `pattern`.
    pub(super) fn seen(&self, pattern: &str) -> Vec<Seen> {
        let store = self.store.lock().unwrap();
        store
            .seen
            .iter()
            .filter(|seen| format!("{} {}", seen.method, seen.path).contains(pattern))
            .cloned()
            .collect()
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
    let protobuf = parts.headers.get(header::ACCEPT).is_some_and(|accept| accept == PROTOBUF);
    let script = {
        let mut store = store.lock().unwrap();
        if protobuf && !store.speaks_protobuf {
            return refusal(
                406,
                "NotAcceptable",
                "only the following media types are accepted: application/json",
            );
        }
        let seen = Seen {
            method: parts.method.clone(),
            path: path.clone(),
            query: query.clone(),
            body: body.clone(),
        };
        store.seen.push(seen);
        let at = store.scripts.iter().position(|(pattern, _)| line.contains(pattern.as_str()));
        at.and_then(|at| store.scripts.remove(at)).map(|(_, script)| script)
    };
    match script {
        Some(Script::Refuse(code, reason)) => return refusal(code, reason, "as scripted"),
        Some(Script::Stall(time)) => tokio::time::sleep(time).await,
        Some(Script::DoAndRefuse(code, reason)) => {
            serve(&mut store.lock().unwrap(), &parts.method, &path, &query, body, protobuf);
            return refusal(code, reason, "as scripted");
        }
        None => {}
    }
    serve(&mut store.lock().unwrap(), &parts.method, &path, &query, body, protobuf)
}

fn serve(
    store: &mut Store,
    method: &Method,
    path: &str,
    query: &str,
    body: Value,
    protobuf: bool,
) -> Response {
    match *method {
        Method::GET if path == "/version" => store.version(),
        Method::GET if query.contains("watch=true") => {
            store.watch(path, query.contains("sendInitialEvents=true"), protobuf)
        }
        Method::GET if Store::is_collection(path) => store.list(path),
        Method::GET => match store.objects.get(path) {
            Some(object) => reply(200, object),
            None => not_found(),
        },
        Method::POST if path.ends_with("/binding") => {
            store.bind(path.trim_end_matches("/binding"), &body)
        }
        Method::POST if path.ends_with("reviews") => reply(201, &reviewed(&body)),
        Method::POST => store.create(path, body),
        Method::PUT => store.replace(path, body),
        Method::PATCH => store.patch(path.trim_end_matches("/status"), query, &body),
        Method::DELETE => store.delete(path, &body),
        _ => refusal(405, "MethodNotAllowed", "no such method"),
    }
}

// === impl Store ===

impl Store {
    /// True if the path is that of a collection: these end in a plural, and no object in the tests
    /// is named like one.
    fn is_collection(path: &str) -> bool {
        const PLURALS: [&str; 12] = [
            "nodes",
            "pods",
            "jobs",
            "replicasets",
            "deployments",
            "statefulsets",
            "fluxjobs",
            "leases",
            "priorityclasses",
            "limitranges",
            "podgroups",
            "workloads",
        ];
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
        self.watchers
            .retain(|watcher| !belongs(path, &watcher.collection) || watcher.tell(what, object));
    }

    fn watch(&mut self, path: &str, with_list: bool, protobuf: bool) -> Response {
        let (lines, mut receiver) = mpsc::unbounded_channel();
        let watcher = Watcher { collection: path.to_owned(), lines, protobuf };
        if with_list {
            for (_, object) in self.objects.iter().filter(|(at, _)| belongs(at, path)) {
                watcher.tell("ADDED", object);
            }
            let metadata = json!({ "resourceVersion": self.version.max(1).to_string(),
                "annotations": { "k8s.io/initial-events-end": "true" } });
            let end = json!({ "kind": "Any", "apiVersion": "v1", "metadata": metadata });
            watcher.tell("BOOKMARK", &end);
        }
        self.watchers.push(watcher);
        let lines = futures::stream::poll_fn(move |context| receiver.poll_recv(context));
        let encoding = if protobuf {
            format!("{PROTOBUF};stream=watch")
        } else {
            "application/json".to_owned()
        };
        ([(header::CONTENT_TYPE, encoding)], Body::from_stream(lines)).into_response()
    }

    fn version(&self) -> Response {
        let now = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(self.ahead_secs);
        let date = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        ([(header::DATE, date)], "{}").into_response()
    }

    fn list(&self, path: &str) -> Response {
        let items: Vec<&Value> = self
            .objects
            .iter()
            .filter(|(at, _)| belongs(at, path))
            .map(|(_, object)| object)
            .collect();
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

    /// Patches as the real server: a status is applied to a FluxJob, a patch is merged into a Job,
    /// and strategically into a pod.
    fn patch(&mut self, path: &str, query: &str, body: &Value) -> Response {
        let Some(known) = self.objects.get(path) else { return not_found() };
        let patched = if query.contains("fieldManager=") {
            status_applied(known, body)
        } else if path.starts_with("/apis/batch/") {
            merged(known, body)
        } else {
            strategically_merged(known, body)
        };
        match patched {
            Ok(patched) if patched == *known => reply(200, known),
            Ok(patched) => {
                self.put(path, patched);
                reply(200, &self.objects[path])
            }
            Err((code, reason, message)) => refusal(code, reason, message),
        }
    }

    fn delete(&mut self, path: &str, body: &Value) -> Response {
        let Some(known) = self.objects.get(path) else { return not_found() };
        let metadata = &known["metadata"];
        for (field, name) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let expected = &body["preconditions"][field];
            if !expected.is_null() && *expected != metadata[field] {
                return refusal(
                    409,
                    "Conflict",
                    &format!("the {name} in the precondition does not match"),
                );
            }
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
            return reply(
                201,
                &json!({ "kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201 }),
            );
        };
        refusal(409, "Conflict", refused)
    }
}

/// Reviews a token, which is known if it names its holder; every known user may read metrics.
fn reviewed(review: &Value) -> Value {
    let spec = &review["spec"];
    let status = match spec["token"].as_str() {
        Some(token) => match token.strip_prefix("token-of-") {
            Some(name) => {
                json!({
                    "authenticated": true,
                    "user": { "username": name, "groups": ["system:authenticated"] },
                })
            }
            None => json!({ "user": {}, "error": "invalid bearer token" }),
        },
        None => json!({ "allowed": spec["nonResourceAttributes"]["path"] == "/metrics" }),
    };
    json!({
        "kind": review["kind"], "apiVersion": review["apiVersion"], "spec": spec, "status": status,
    })
}

/// Code, reason and message of a refusal.
type Refused = (u16, &'static str, &'static str);

/// Applies a status. There is one field manager, which owns all of the status but the conditions
/// that it never applied: those with a slash.
fn status_applied(known: &Value, config: &Value) -> Result<Value, Refused> {
    same_identity(known, config)?;
    let mut object = known.clone();
    let of_others =
        |condition: &Value| condition["type"].as_str().is_some_and(|type_| type_.contains('/'));
    let others = known["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|it| of_others(it))
        .cloned();
    let ours = config["status"]["conditions"].as_array().into_iter().flatten().cloned();
    let conditions: Vec<Value> = others.chain(ours).collect();
    object["status"] = config["status"].clone();
    if !conditions.is_empty() {
        object["status"]["conditions"] = conditions.into();
    }
    Ok(object)
}

/// Merges a patch. Uid and version in it are preconditions.
fn merged(known: &Value, patch: &Value) -> Result<Value, Refused> {
    same_identity(known, patch)?;
    let mut object = known.clone();
    json_patch::merge(&mut object, patch);
    Ok(object)
}

/// Merges a patch strategically. The two lists that are patched are merged by their keys, and a
/// field is set; of the metadata only preconditions are sent.
fn strategically_merged(known: &Value, patch: &Value) -> Result<Value, Refused> {
    same_identity(known, patch)?;
    let mut object = known.clone();
    for gone in patch["spec"]["schedulingGates"].as_array().into_iter().flatten() {
        if let Some(gates) = object["spec"]["schedulingGates"].as_array_mut() {
            gates.retain(|gate| gate["name"] != gone["name"]);
        }
    }
    for condition in patch["status"]["conditions"].as_array().into_iter().flatten() {
        let mut others = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        others.retain(|other| other["type"] != condition["type"]);
        others.push(condition.clone());
        object["status"]["conditions"] = others.into();
    }
    if let Some(node) = patch["status"].get("nominatedNodeName") {
        json_patch::merge(&mut object, &json!({ "status": { "nominatedNodeName": node } }));
    }
    if patch.get("series").is_some() {
        object["series"] = patch["series"].clone();
    }
    Ok(object)
}

/// Compares uid and version, which are preconditions where they are sent.
fn same_identity(known: &Value, sent: &Value) -> Result<(), Refused> {
    let version = &sent["metadata"]["resourceVersion"];
    if !version.is_null() && *version != known["metadata"]["resourceVersion"] {
        return Err((
            409,
            "Conflict",
            "the object has been modified; please apply your changes to the latest version",
        ));
    }
    let uid = &sent["metadata"]["uid"];
    if !uid.is_null() && *uid != known["metadata"]["uid"] {
        return Err((422, "Invalid", "metadata.uid: Invalid value: field is immutable"));
    }
    Ok(())
}

/// True if the object is in the collection, which spans all namespaces unless it names one.
fn belongs(object: &str, collection: &str) -> bool {
    let Some((parent, _)) = object.rsplit_once('/') else { return false };
    let Some((group, plural)) = collection.rsplit_once('/') else { return false };
    parent == collection
        || (parent.starts_with(&format!("{group}/namespaces/"))
            && parent.ends_with(&format!("/{plural}")))
}

impl Watcher {
    /// False if no client listens any more.
    fn tell(&self, what: &str, object: &Value) -> bool {
        let line = if self.protobuf {
            binary::frame(what, object)
        } else {
            format!("{}\n", json!({ "type": what, "object": object })).into()
        };
        self.lines.send(Ok(line)).is_ok()
    }
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
