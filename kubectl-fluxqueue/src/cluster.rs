//! The API server, as one user sees it: lists in pages, single objects, writes.
//!
//! Bounds: a page has [`PAGE`] objects, and a list as many as its caller allows; the result tells
//! the caller if there are more. A request has an answer within [`ANSWER_WITHIN`], or fails.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use http::{HeaderName, HeaderValue, Request, header};
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use fluxqueue_api::text;

use crate::api_path::{Query, Resource, check_name, check_namespace};
use crate::args::Connection;
use crate::exit::usage;

/// The objects in one page of a list: a FluxJob has 256 KiB at most, and a few as a rule.
const PAGE: usize = 250;

/// How many times a list is begun again because the API server has forgotten its position.
const RESTARTS_MAX: usize = 3;

/// The time within which the API server must answer a request.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The time within which it must accept a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// The type of answers.
const JSON: &str = "application/json";

/// The type of lists of metadata alone.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// The API server, and the way to it.
pub(crate) struct Cluster {
    client: Client,
    /// The address of the API server, and the credentials for it.
    pub config: Config,
    /// The namespace for names without one.
    pub namespace: String,
}

/// The choice of the objects to list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    /// The namespace; `None`: all.
    pub namespace: Option<String>,
    /// The selector by labels.
    pub labels: String,
    /// The selector by fields.
    pub fields: String,
    /// True if only the metadata of the objects are read.
    pub is_metadata: bool,
}

/// Objects of a list, each as it came.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// The objects.
    pub items: Vec<Box<RawValue>>,
    /// True if there are more, which were not requested.
    pub is_cut: bool,
    /// The version of the list, from which a watch continues.
    pub version: String,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMeta,
    /// A list of metadata without objects has `null` here.
    items: Option<Vec<Box<RawValue>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMeta {
    r#continue: String,
    resource_version: String,
}

impl Cluster {
    /// Finds the API server as kubectl does.
    pub(crate) async fn connect(connection: &Connection) -> anyhow::Result<Self> {
        let config = configuration(connection).await?;
        let namespace = match &connection.namespace {
            Some(namespace) => {
                check_namespace(namespace).context("--namespace").map_err(usage)?;
                namespace.clone()
            }
            None => config.default_namespace.clone(),
        };
        check_namespace(&namespace).context("namespace")?;
        let url = config.cluster_url.to_string();
        let client = Client::try_from(config.clone())
            .with_context(|| format!("making a client for {url}"))?;
        Ok(Cluster { client, config, namespace })
    }

    /// Sends a request with a body of this type, and returns the answer.
    async fn exchange(
        &self,
        method: &str,
        path: &str,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<String, kube::Error> {
        self.exchange_as(JSON, method, path, body).await
    }

    /// Does the same, with an answer of this type.
    async fn exchange_as(
        &self,
        accepted: &'static str,
        method: &str,
        path: &str,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<String, kube::Error> {
        let mut request =
            Request::builder().method(method).uri(path).header(header::ACCEPT, accepted);
        let mut bytes = Vec::new();
        if let Some((kind, body)) = body {
            request = request.header(header::CONTENT_TYPE, kind);
            bytes = body;
        }
        let request = request.body(bytes).map_err(kube::Error::HttpError)?;
        let answer = tokio::time::timeout(ANSWER_WITHIN, self.client.request_text(request)).await;
        answer.unwrap_or_else(|_| {
            let text = format!("no answer within {} s", ANSWER_WITHIN.as_secs());
            Err(kube::Error::Service(text.into()))
        })
    }

    /// Returns the text that is served at a path.
    pub(crate) async fn text(&self, path: &str) -> anyhow::Result<String> {
        let answer = self.exchange("GET", path, None).await.map_err(told);
        answer.with_context(|| format!("reading {path}"))
    }

    /// Returns a stream of bytes, such as a log.
    pub(crate) async fn stream(
        &self,
        path: &str,
    ) -> anyhow::Result<impl futures::AsyncBufRead + use<>> {
        let request = Request::get(path).body(Vec::new())?;
        let begun = tokio::time::timeout(ANSWER_WITHIN, self.client.request_stream(request)).await;
        begun
            .with_context(|| format!("no answer within {} s", ANSWER_WITHIN.as_secs()))?
            .map_err(told)
    }

    /// Returns up to `max` objects, page by page.
    pub(crate) async fn list(
        &self,
        resource: Resource,
        selection: &Selection,
        max: usize,
    ) -> anyhow::Result<Listed> {
        let within = match &selection.namespace {
            Some(namespace) => format!("namespace {}", text::name(namespace)),
            None => "all namespaces".to_owned(),
        };
        let listing = || format!("listing {} in {within}", resource.plural);
        let accepted = if selection.is_metadata { METADATA } else { JSON };
        let mut restarts = 0;
        let mut listed = Listed::default();
        let mut token = String::new();
        loop {
            let limit = PAGE.min(max.saturating_sub(listed.items.len())).max(1);
            let query = Query::default()
                .with("limit", &limit.to_string())
                .with("labelSelector", &selection.labels)
                .with("fieldSelector", &selection.fields)
                .with("continue", &token);
            let path = resource.path(selection.namespace.as_deref()) + query.as_str();
            let answer = match self.exchange_as(accepted, "GET", &path, None).await {
                Err(error)
                    if code_of(&error) == 410 && !token.is_empty() && restarts < RESTARTS_MAX =>
                {
                    restarts += 1;
                    listed = Listed::default();
                    token.clear();
                    continue;
                }
                answer => answer.map_err(told).with_context(listing)?,
            };
            let page: Page = serde_json::from_str(&answer).with_context(listing)?;
            listed.items.extend(page.items.unwrap_or_default());
            listed.version = page.metadata.resource_version;
            token = page.metadata.r#continue;
            if token.is_empty() {
                return Ok(listed);
            }
            if listed.items.len() >= max {
                listed.is_cut = true;
                return Ok(listed);
            }
        }
    }

    /// Returns one object; `None` if it does not exist.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        name: &str,
    ) -> anyhow::Result<Option<T>> {
        check_name(name)?;
        let reading = || format!("reading {}", resource.called(namespace, name));
        match self.exchange("GET", &resource.path_of(namespace, name), None).await {
            Ok(answer) => Ok(Some(serde_json::from_str(&answer).with_context(reading)?)),
            Err(error) if code_of(&error) == 404 => Ok(None),
            Err(error) => Err(told(error)).with_context(reading),
        }
    }

    /// Creates an object; returns it as it is stored. `what` is its name in messages.
    pub(crate) async fn create(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        object: &Value,
        dry_run: bool,
    ) -> anyhow::Result<Value> {
        let query = Query::default()
            .with("fieldManager", FIELD_MANAGER)
            .with("fieldValidation", "Strict")
            .with("dryRun", if dry_run { "All" } else { "" });
        let path = resource.path(namespace) + query.as_str();
        let body = Some(("application/json", serde_json::to_vec(object)?));
        let answer = self.exchange("POST", &path, body).await.map_err(told);
        let answer = answer.with_context(|| {
            let name = ["/metadata/name", "/metadata/generateName"];
            let name = name.iter().find_map(|path| object.pointer(path)?.as_str());
            format!("creating {}", resource.called(namespace, name.unwrap_or("")))
        })?;
        Ok(serde_json::from_str(&answer)?)
    }

    /// Changes an object by a JSON merge patch. Returns `Ok(None)` if it has changed meanwhile, by
    /// the resourceVersion in the patch.
    pub(crate) async fn merge(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        name: &str,
        patch: &Value,
    ) -> anyhow::Result<Option<String>> {
        check_name(name)?;
        let query = Query::default().with("fieldManager", FIELD_MANAGER);
        let path = resource.path_of(namespace, name) + query.as_str();
        let body = Some(("application/merge-patch+json", serde_json::to_vec(patch)?));
        match self.exchange("PATCH", &path, body).await {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if code_of(&error) == 409 => Ok(None),
            Err(error) => Err(told(error))
                .with_context(|| format!("changing {}", resource.called(namespace, name))),
        }
    }

    /// Deletes an object of this uid, and in the background the objects that it owns. Returns false
    /// if it is gone.
    pub(crate) async fn delete(
        &self,
        resource: Resource,
        namespace: &str,
        (name, uid): (&str, &str),
    ) -> anyhow::Result<bool> {
        check_name(name)?;
        let options = serde_json::json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
            "preconditions": { "uid": uid },
        });
        let body = Some(("application/json", serde_json::to_vec(&options)?));
        match self.exchange("DELETE", &resource.path_of(Some(namespace), name), body).await {
            Ok(_) => Ok(true),
            // A conflict says that another object has the name by now.
            Err(error) if matches!(code_of(&error), 404 | 409) => Ok(false),
            Err(error) => Err(told(error))
                .with_context(|| format!("deleting {}", resource.called(Some(namespace), name))),
        }
    }

    /// Returns the name of the user, as the API server knows it.
    pub(crate) async fn own_name(&self) -> anyhow::Result<String> {
        let review = Resource::SELF_REVIEW;
        let object = serde_json::json!({ "apiVersion": review.api_version, "kind": review.kind });
        let body = Some(("application/json", serde_json::to_vec(&object)?));
        let asking = "asking the API server for your name";
        let answer =
            self.exchange("POST", &review.path(None), body).await.map_err(told).context(asking)?;
        let answer: Value = serde_json::from_str(&answer).context(asking)?;
        let name = answer.pointer("/status/userInfo/username").and_then(Value::as_str);
        name.filter(|name| !name.is_empty())
            .map(str::to_owned)
            .with_context(|| format!("{asking}: it names none"))
    }
}

/// The name of our changes in `managedFields`.
const FIELD_MANAGER: &str = "kubectl-fluxqueue";

async fn configuration(connection: &Connection) -> anyhow::Result<Config> {
    let options =
        KubeConfigOptions { context: connection.context.clone(), ..KubeConfigOptions::default() };
    let mut config = match &connection.kubeconfig {
        Some(path) => {
            let reading = || format!("reading kubeconfig {}", path.display());
            let file = Kubeconfig::read_from(path).map_err(|error| match error {
                // Its message would name the file again.
                KubeconfigError::ReadConfig(error, _) => anyhow::Error::new(error),
                error => anyhow::Error::new(error),
            });
            let file = file.with_context(reading)?;
            Config::from_custom_kubeconfig(file, &options).await.with_context(reading)?
        }
        None if connection.context.is_some() => {
            Config::from_kubeconfig(&options).await.context("reading the kubeconfig")?
        }
        None => Config::infer().await.map_err(not_found)?,
    };
    config.connect_timeout = Some(CONNECT_WITHIN);
    let groups = connection.as_group.iter().map(|group| ("impersonate-group", group));
    for (name, value) in
        connection.as_user.iter().map(|user| ("impersonate-user", user)).chain(groups)
    {
        let value = HeaderValue::from_str(value).with_context(|| format!("header {name}"));
        let value = value.map_err(usage)?;
        config.headers.push((HeaderName::from_static(name), value));
    }
    Ok(config)
}

/// Says that no API server is known. Its source is the reason for which no kubeconfig was read; the
/// other reason, that this is no pod, is of interest to pods alone.
fn not_found(error: InferConfigError) -> anyhow::Error {
    let reason = std::error::Error::source(&error).map_or(String::new(), ToString::to_string);
    anyhow::anyhow!(
        "no API server is known: name a kubeconfig by --kubeconfig or $KUBECONFIG, or write \
         ~/.kube/config: {reason}"
    )
}

/// Returns the status of an answer; 0 if there was none.
fn code_of(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

/// Turns an error of the client into one with the message of the API server and nothing else of its
/// answer.
pub(crate) fn told(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if status.reason.is_empty() => {
            anyhow!(text::into_message(status.message))
        }
        kube::Error::Api(status) => {
            anyhow!(text::into_message(format!("{}: {}", status.reason, status.message)))
        }
        error => anyhow::Error::new(error),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use http::{Response, StatusCode};
    use kube::client::Body;
    use serde_json::json;

    #[tokio::test]
    async fn a_kubeconfig_that_is_not_there_is_named_once() {
        let kubeconfig = Some("/nowhere/config".into());
        let connection = Connection { kubeconfig, ..Connection::default() };
        let error = Cluster::connect(&connection).await.err().unwrap();
        assert_eq!(
            crate::console::said(&error),
            "reading kubeconfig /nowhere/config: No such file or directory (os error 2)"
        );
    }

    /// Makes a cluster of these objects, by their paths. It answers each write with the object as
    /// it was.
    pub(crate) fn cluster_of(objects: &[(&str, Value)]) -> Cluster {
        let objects = objects.iter().map(|(path, object)| ((*path).to_owned(), object.clone()));
        let objects: BTreeMap<String, Value> = objects.collect();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (status, object) = match objects.get(request.uri().path()) {
                Some(object) => (StatusCode::OK, object.clone()),
                None => (StatusCode::NOT_FOUND, json!({ "status": "Failure", "code": 404 })),
            };
            let mut response = Response::new(Body::from(object.to_string().into_bytes()));
            *response.status_mut() = status;
            std::future::ready(Ok::<_, Infallible>(response))
        });
        let config = Config::new("http://127.0.0.1:1".parse().unwrap());
        Cluster { client: Client::new(service, "lab"), config, namespace: "lab".to_owned() }
    }
}
