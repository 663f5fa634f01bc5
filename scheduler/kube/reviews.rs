//! Asks the API server who has a token, and what he may do: TokenReview and SubjectAccessReview. Neither is stored, so both go
//! past the fence, also from a process that does not lead.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::Method;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use super::request::{Content, send};
use crate::serve::{Deed, Gatekeeper, Verdict};

/// How long one question may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How long an answer counts, as with kube-scheduler.
const REMEMBERED_FOR: Duration = Duration::from_secs(10);

/// Answers that are remembered: those who ask are few.
const REMEMBERED_MAX: usize = 256;

/// Remembers for a while what the API server said.
pub(crate) struct Reviews {
    client: Client,
    remembered: Mutex<HashMap<(String, Deed), (Instant, Verdict)>>,
}

#[derive(Deserialize)]
struct Review<S> {
    status: S,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct TokenStatus {
    authenticated: bool,
    user: Value,
}

#[derive(Deserialize)]
struct AccessStatus {
    allowed: bool,
}

// === impl Reviews ===

impl Reviews {
    pub(crate) fn new(client: Client) -> Self {
        Reviews { client, remembered: Mutex::default() }
    }

    async fn ask(&self, token: &str, deed: &Deed) -> Result<Verdict, String> {
        let question =
            json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": { "token": token } });
        let who: Review<TokenStatus> = self.post("/apis/authentication.k8s.io/v1/tokenreviews", &question).await?;
        if !who.status.authenticated {
            return Ok(Verdict::Unknown);
        }
        let user = who.status.user;
        let mut question = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": { "user": user["username"], "uid": user["uid"], "groups": user["groups"], "extra": user["extra"] },
        });
        let (attributes, asked) = match deed {
            Deed::Get(path) => ("nonResourceAttributes", json!({ "path": path, "verb": "get" })),
            Deed::Create { group, resource, namespace, name } => {
                let object = json!({ "group": group, "resource": resource, "namespace": namespace, "name": name, "verb": "create" });
                ("resourceAttributes", object)
            }
        };
        question["spec"][attributes] = asked;
        let may: Review<AccessStatus> =
            self.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &question).await?;
        let name = user["username"].as_str().unwrap_or_default();
        Ok(if may.status.allowed { Verdict::Allowed } else { Verdict::Forbidden(name.to_owned()) })
    }

    async fn post<T: serde::de::DeserializeOwned>(&self, path: &str, question: &Value) -> Result<T, String> {
        let body = question.to_string().into_bytes();
        let reply = send(&self.client, Method::POST, path, Content::Json, body, ANSWER_WITHIN).await;
        let reply = reply.map_err(|error| error.to_string())?;
        if !reply.succeeded() {
            return Err(reply.explain());
        }
        reply.parse().map_err(|error| format!("reading the answer of POST {path}: {error}"))
    }

    fn recall(&self, asked: &(String, Deed)) -> Option<Verdict> {
        let remembered = self.remembered.lock().ok()?;
        let (at, verdict) = remembered.get(asked)?;
        (at.elapsed() < REMEMBERED_FOR).then(|| verdict.clone())
    }

    fn remember(&self, asked: (String, Deed), verdict: &Verdict) {
        let Ok(mut remembered) = self.remembered.lock() else { return };
        remembered.retain(|_, (at, _)| at.elapsed() < REMEMBERED_FOR);
        if remembered.len() < REMEMBERED_MAX && !matches!(verdict, Verdict::NoAnswer(_)) {
            remembered.insert(asked, (Instant::now(), verdict.clone()));
        }
    }
}

impl Gatekeeper for Reviews {
    fn judge<'a>(&'a self, token: &'a str, deed: &'a Deed) -> BoxFuture<'a, Verdict> {
        async move {
            let asked = (token.to_owned(), deed.clone());
            if let Some(verdict) = self.recall(&asked) {
                return verdict;
            }
            let verdict = self.ask(token, deed).await.unwrap_or_else(Verdict::NoAnswer);
            self.remember(asked, &verdict);
            verdict
        }
        .boxed()
    }
}

impl std::fmt::Debug for Reviews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reviews").finish_non_exhaustive()
    }
}
