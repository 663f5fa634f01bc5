//! Asks the API server about the holder of a token, and about the holder's permissions: TokenReview
//! and SubjectAccessReview. Neither is stored, so both go past the fence, also from a process that
//! does not lead.
//!
//! Each unknown token costs the API server a question, and anyone can make up tokens. So questions
//! about tokens that were never allowed anything have a budget and a memory of their own, and no
//! flood of them affects a token that was allowed something.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fluxqueue_api::names;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::Method;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::request::{Content, send};
use crate::serve::{Deed, Gatekeeper, Verdict};

/// The time that one answer may take, and for which a known token waits for its turn to be
/// reviewed.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The time for which an answer counts, as in kube-scheduler.
const REMEMBERED_FOR: Duration = Duration::from_secs(10);

/// The time for which a token stays known after its last use: a Prometheus comes every minute or
/// so.
const KNOWN_FOR: Duration = Duration::from_hours(1);

/// The most tokens that are known because they were allowed something; the one that was used least
/// recently gives way to the next. At the rate at which tokens become known, that one has not been
/// used for 51 s.
const KNOWN_MAX: usize = 512;

/// The most other tokens with an answer that still counts: more than come in that time.
const STRANGERS_MAX: usize = 256;

/// The most questions about unknown tokens in any second.
const STRANGERS_PER_SECOND: usize = 10;

/// The most questions under way, of each of the two sorts.
const UNDER_WAY_MAX: usize = 4;

/// The longest token that is reviewed, in bytes: those of service accounts have 1 to 2 KiB, those
/// of identity providers more.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// The most answers that are remembered of one token; a what-if request needs 65.
const DEEDS_MAX: usize = 128;

/// Remembers the API server's answers for a while.
pub(crate) struct Reviews {
    client: Client,
    memory: Mutex<Memory>,
    known_turns: Semaphore,
    stranger_turns: Semaphore,
}

#[derive(Default)]
struct Memory {
    /// The tokens that were allowed something.
    known: HashMap<String, Bearer>,
    /// All other tokens.
    strangers: HashMap<String, Bearer>,
    /// The times of the last questions about strangers, the earliest first.
    asked: VecDeque<Instant>,
}

/// The holder of a token.
struct Bearer {
    /// The user as the API server describes it; `None` if the API server does not know the token.
    user: Option<Value>,
    /// The time of that answer.
    reviewed: Instant,
    /// The time of the token's last use.
    used: Instant,
    /// The answers about these deeds: the time, and true if allowed.
    deeds: HashMap<Deed, (Instant, bool)>,
}

/// A question about a token that has to be asked.
struct ToAsk {
    /// The user, if already known.
    user: Option<Value>,
    is_known: bool,
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
        let turns = || Semaphore::new(UNDER_WAY_MAX);
        Reviews { client, memory: Mutex::default(), known_turns: turns(), stranger_turns: turns() }
    }

    async fn decide(&self, token: &str, deed: &Deed) -> Result<Verdict, String> {
        if token.len() > TOKEN_BYTES_MAX {
            return Ok(Verdict::Unknown);
        }
        let recalled = self.memory().recall(token, deed);
        let ToAsk { user, is_known } = match recalled {
            Ok(verdict) => return Ok(verdict),
            Err(to_ask) => to_ask,
        };
        let _turn = if is_known {
            let turn = tokio::time::timeout(ANSWER_WITHIN, self.known_turns.acquire()).await;
            turn.map_err(|_| "too many other questions are under way".to_owned())?
                .map_err(|error| error.to_string())?
        } else {
            let Ok(turn) = self.stranger_turns.try_acquire() else { return Ok(Verdict::TooMany) };
            if !self.memory().may_ask_about_a_stranger() {
                return Ok(Verdict::TooMany);
            }
            turn
        };
        let user = match user {
            Some(user) => user,
            None => match self.ask_holder(token).await? {
                Some(user) => user,
                None => {
                    self.memory().remember(token, None, None);
                    return Ok(Verdict::Unknown);
                }
            },
        };
        let is_allowed = self.ask_permission(&user, deed).await?;
        let verdict = verdict(&user, is_allowed);
        self.memory().remember(token, Some(user), Some((deed, is_allowed)));
        Ok(verdict)
    }

    /// Asks for the holder of a token; `None` if the API server does not know the token.
    async fn ask_holder(&self, token: &str) -> Result<Option<Value>, String> {
        let question = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": { "token": token },
        });
        let holder: Review<TokenStatus> =
            self.post("/apis/authentication.k8s.io/v1/tokenreviews", &question).await?;
        Ok(Some(holder.status.user).filter(|_| holder.status.authenticated))
    }

    /// Asks if the API server lets this user do this.
    async fn ask_permission(&self, user: &Value, deed: &Deed) -> Result<bool, String> {
        let mut question = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user["username"], "uid": user["uid"], "groups": user["groups"],
                "extra": user["extra"],
            },
        });
        let (attributes, asked) = match deed {
            Deed::Get(path) => ("nonResourceAttributes", json!({ "path": path, "verb": "get" })),
            Deed::Post(path) => {
                ("nonResourceAttributes", json!({ "path": path, "verb": "create" }))
            }
            Deed::Create { group, resource, namespace } => {
                let object = json!({
                    "group": group, "resource": resource, "namespace": namespace, "verb": "create",
                });
                ("resourceAttributes", object)
            }
            Deed::ListFluxJobs(namespace) => {
                // An empty namespace stands for all of them.
                let namespace = namespace.as_deref().unwrap_or_default();
                let object = json!({
                    "group": names::GROUP, "resource": "fluxjobs", "namespace": namespace,
                    "verb": "list",
                });
                ("resourceAttributes", object)
            }
        };
        question["spec"][attributes] = asked;
        let may: Review<AccessStatus> =
            self.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &question).await?;
        Ok(may.status.allowed)
    }

    async fn post<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        question: &Value,
    ) -> Result<T, String> {
        let body = question.to_string().into_bytes();
        let reply =
            send(&self.client, Method::POST, path, Content::Json, body, ANSWER_WITHIN).await;
        let reply = reply.map_err(|error| error.to_string())?;
        if !reply.succeeded() {
            return Err(reply.explain());
        }
        reply.parse().map_err(|error| format!("reading the answer of POST {path}: {error}"))
    }

    /// Makes all answers too old to count.
    #[cfg(test)]
    pub(crate) fn forget(&self) {
        let mut memory = self.memory();
        if let Some(long_ago) = Instant::now().checked_sub(REMEMBERED_FOR) {
            memory.known.values_mut().for_each(|bearer| bearer.reviewed = long_ago);
            memory.strangers.clear();
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gatekeeper for Reviews {
    fn judge<'a>(&'a self, token: &'a str, deed: &'a Deed) -> BoxFuture<'a, Verdict> {
        async move { self.decide(token, deed).await.unwrap_or_else(Verdict::NoAnswer) }.boxed()
    }
}

impl std::fmt::Debug for Reviews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reviews").finish_non_exhaustive()
    }
}

fn verdict(user: &Value, is_allowed: bool) -> Verdict {
    let name = user["username"].as_str().unwrap_or_default();
    if is_allowed { Verdict::Allowed } else { Verdict::Forbidden(name.to_owned()) }
}

// === impl Memory ===

impl Memory {
    /// Returns the verdict from answers that still count; otherwise the question that is to be
    /// asked.
    fn recall(&mut self, token: &str, deed: &Deed) -> Result<Verdict, ToAsk> {
        let is_known =
            self.known.get(token).is_some_and(|bearer| bearer.used.elapsed() < KNOWN_FOR);
        let of_token = if is_known { &mut self.known } else { &mut self.strangers };
        let Some(bearer) = of_token.get_mut(token) else {
            return Err(ToAsk { user: None, is_known });
        };
        bearer.used = Instant::now();
        let is_fresh = bearer.reviewed.elapsed() < REMEMBERED_FOR;
        let Some(user) = bearer.user.as_ref().filter(|_| is_fresh) else {
            return if is_fresh {
                Ok(Verdict::Unknown)
            } else {
                Err(ToAsk { user: None, is_known })
            };
        };
        match bearer.deeds.get(deed) {
            Some((at, is_allowed)) if at.elapsed() < REMEMBERED_FOR => {
                Ok(verdict(user, *is_allowed))
            }
            _ => Err(ToAsk { user: Some(user.clone()), is_known }),
        }
    }

    /// True if one more stranger may be reviewed in this second; then it counts as reviewed.
    fn may_ask_about_a_stranger(&mut self) -> bool {
        let now = Instant::now();
        if self.asked.len() == STRANGERS_PER_SECOND {
            if self.asked.front().is_some_and(|at| now.duration_since(*at) < Duration::from_secs(1))
            {
                return false;
            }
            self.asked.pop_front();
        }
        self.asked.push_back(now);
        true
    }

    /// Remembers an answer of the API server.
    fn remember(&mut self, token: &str, user: Option<Value>, deed: Option<(&Deed, bool)>) {
        let now = Instant::now();
        self.strangers.retain(|_, bearer| bearer.reviewed.elapsed() < REMEMBERED_FOR);
        let before = self.known.remove(token);
        let is_known =
            user.is_some() && (before.is_some() || deed.is_some_and(|(_, is_allowed)| is_allowed));
        let before = before.or_else(|| self.strangers.remove(token));
        let mut deeds = before.map(|bearer| bearer.deeds).unwrap_or_default();
        deeds.retain(|_, (at, _)| at.elapsed() < REMEMBERED_FOR);
        if let Some((deed, is_allowed)) = deed.filter(|_| deeds.len() < DEEDS_MAX) {
            deeds.insert(deed.clone(), (now, is_allowed));
        }
        let bearer = Bearer { user, reviewed: now, used: now, deeds };
        if is_known {
            if self.known.len() >= KNOWN_MAX {
                let oldest = self
                    .known
                    .iter()
                    .min_by_key(|(_, bearer)| bearer.used)
                    .map(|(token, _)| token.clone());
                oldest.map(|token| self.known.remove(&token));
            }
            self.known.insert(token.to_owned(), bearer);
        } else if self.strangers.len() < STRANGERS_MAX {
            self.strangers.insert(token.to_owned(), bearer);
        }
    }
}
