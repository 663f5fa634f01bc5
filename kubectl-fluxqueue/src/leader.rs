//! Sends questions to the process that leads: the Lease names its pod, and the API server passes
//! the question on to that pod (`pods/proxy`).
//!
//! The leader has to know the user, and asks the API server for the owner of the token. A client
//! certificate cannot be passed on: users with one give a token.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use http::{HeaderValue, Method, Request, StatusCode, header};
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;
use tower::{BoxError, Layer as _, ServiceExt as _, service_fn};

use fluxqueue_api::text;

use crate::api_path::{Resource, check_name, check_namespace};
use crate::args::Leading;
use crate::cluster::{Cluster, told};
use crate::exit::usage;

/// The header in which the leader takes a token, since the proxy keeps `Authorization`.
const TOKEN_HEADER: &str = "x-fluxqueue-token";

/// The time that the leader may take beyond the time given to it: other questions may come first.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// How many times a question is sent while the leader is busy with others, and the pause between.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// The largest answer in bytes that is read: 5,000 nodes are about 2 MiB.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// A way to the leader.
pub(crate) struct Leader {
    client: Client,
    /// The beginning of all paths.
    prefix: String,
    token: String,
    /// Its name in messages.
    called: String,
}

/// Returns an error if the namespace or the Lease cannot have the name that the user gives.
pub(crate) fn check(leading: &Leading) -> anyhow::Result<()> {
    check_namespace(&leading.leader_namespace).context("--leader-namespace").map_err(usage)?;
    check_name(&leading.leader_lease).context("--leader-lease").map_err(usage)
}

impl Leader {
    /// Finds the leader; an error says which permission or token is missing.
    pub(crate) async fn find(cluster: &Cluster, leading: &Leading) -> anyhow::Result<Self> {
        check(leading)?;
        let namespace = leading.leader_namespace.as_str();
        let token = match &leading.token {
            Some(token) => token.clone(),
            None => token_of(&cluster.config).await?.context(
                "your credentials are no token, and the leader knows users by their tokens: give \
                 --token \"$(kubectl create token SERVICEACCOUNT)\"",
            )?,
        };
        if let Some(url) = &leading.leader {
            return straight(url, leading.leader_ca.as_deref(), token);
        }
        let lease: Option<Value> = cluster
            .get(Resource::LEASE, Some(namespace), &leading.leader_lease)
            .await
            .with_context(|| missing_role(namespace))?;
        let called = Resource::LEASE.called(Some(namespace), &leading.leader_lease);
        let lease = lease.with_context(|| {
            format!("{called} does not exist: is Fluxqueue in another --leader-namespace?")
        })?;
        // The holder begins with the name of the machine, which is that of the pod.
        let pod = holder_of(&lease).split('_').next().unwrap_or_default();
        if pod.is_empty() {
            bail!("no process leads: {called} has no holder");
        }
        check_name(pod).with_context(|| format!("{called}: spec.holderIdentity"))?;
        let port = leading.leader_port;
        // The leader says itself when a question may come again: no answer is a reason to retry.
        let mut config = cluster.config.clone();
        config.default_retry = false;
        let client = Client::try_from(config).context("making a client for the leader")?;
        Ok(Leader {
            client,
            prefix: format!("/api/v1/namespaces/{namespace}/pods/https:{pod}:{port}/proxy"),
            token,
            called: format!("the leader (pod {namespace}/{pod})"),
        })
    }

    /// Sends a question by POST; the answer is JSON. It is sent again while the leader is busy with
    /// others.
    pub(crate) async fn ask(
        &self,
        path: &str,
        body: &Value,
        within: Duration,
    ) -> anyhow::Result<Value> {
        let body = serde_json::to_vec(body)?;
        for _ in 1..ATTEMPTS {
            match self.post(path, &body, within).await {
                Err(Refusal::Busy) => tokio::time::sleep(PAUSE).await,
                Ok(answer) => return Ok(answer),
                Err(Refusal::Other(error)) => return Err(error),
            }
        }
        self.post(path, &body, within).await.map_err(|refusal| match refusal {
            Refusal::Busy => anyhow!("{}: others ask at the moment", self.called),
            Refusal::Other(error) => error,
        })
    }

    /// Returns the text that the leader serves at a path.
    pub(crate) async fn get(&self, path: &str, within: Duration) -> anyhow::Result<String> {
        let (status, bytes) = self.send(Method::GET, path, &[], within).await?;
        if !status.is_success() {
            return Err(refused(&self.called, &self.prefix, status, &bytes));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    async fn post(&self, path: &str, body: &[u8], within: Duration) -> Result<Value, Refusal> {
        let (status, bytes) = self.send(Method::POST, path, body, within).await?;
        if status == StatusCode::TOO_MANY_REQUESTS {
            return Err(Refusal::Busy);
        }
        if !status.is_success() {
            return Err(refused(&self.called, &self.prefix, status, &bytes).into());
        }
        let answer = serde_json::from_slice(&bytes);
        Ok(answer.with_context(|| format!("reading the answer of {}", self.called))?)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: &[u8],
        within: Duration,
    ) -> anyhow::Result<(StatusCode, Vec<u8>)> {
        let asking = || format!("asking {}", self.called);
        let token = HeaderValue::from_str(&self.token).context("--token");
        let mut token = token.map_err(usage)?;
        token.set_sensitive(true);
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header(header::CONTENT_TYPE, "application/json")
            .header(TOKEN_HEADER, token)
            .body(Body::from(body.to_vec()))
            .with_context(asking)?;
        let exchange = async {
            let response = self.client.send(request).await?;
            let status = response.status();
            // A longer text is no answer to a question of ours.
            let body = http_body_util::Limited::new(response.into_body(), ANSWER_BYTES_MAX);
            let bytes = http_body_util::BodyExt::collect(body).await;
            let bytes = bytes.map_err(kube::Error::Service)?.to_bytes();
            Ok::<_, kube::Error>((status, bytes.to_vec()))
        };
        let patience = within + ANSWER_WITHIN;
        let answer = tokio::time::timeout(patience, exchange).await;
        answer
            .map_err(|_| anyhow!("no answer within {} s", patience.as_secs()))
            .with_context(asking)?
            .map_err(told)
            .with_context(asking)
    }
}

/// Returns the process that holds a Lease; an empty text if none does.
pub(crate) fn holder_of(lease: &Value) -> &str {
    lease.pointer("/spec/holderIdentity").and_then(Value::as_str).unwrap_or_default()
}

/// Explains a refusal, and names the missing permission or token.
fn refused(called: &str, prefix: &str, status: StatusCode, bytes: &[u8]) -> anyhow::Error {
    let of_server: Option<Value> = serde_json::from_slice(bytes).ok();
    let message = of_server.as_ref().and_then(|it| it["message"].as_str()).map(str::to_owned);
    let is_servers = message.is_some();
    let said = message.unwrap_or_else(|| String::from_utf8_lossy(bytes).trim().to_owned());
    let said = text::message(&said).into_owned();
    let namespace = prefix.split('/').nth(4).unwrap_or_default();
    match (status, is_servers) {
        (StatusCode::FORBIDDEN, true) => anyhow!("{said}. {}", missing_role(namespace)),
        (StatusCode::FORBIDDEN, false) if said.contains("may not create /") => anyhow!(
            "{said}: you need a binding to ClusterRole fluxqueue-what-if, such as kubectl create \
             clusterrolebinding what-if --clusterrole=fluxqueue-what-if --user=YOU"
        ),
        (StatusCode::UNAUTHORIZED, _) => {
            anyhow!("{said}: give --token \"$(kubectl create token SERVICEACCOUNT)\"")
        }
        (StatusCode::NOT_FOUND, _) => {
            anyhow!("{called} is too old to answer that, or gone: {said}")
        }
        _ => anyhow!("{called} answers {status}: {said}"),
    }
}

/// Makes the way to an address, such as one of `kubectl port-forward`.
fn straight(url: &http::Uri, authority: Option<&Path>, token: String) -> anyhow::Result<Leader> {
    let called = text::message(&url.to_string()).into_owned();
    // The token would be readable on the way without TLS.
    ensure!(
        url.scheme() == Some(&http::uri::Scheme::HTTPS),
        usage(anyhow!("--leader: {called}: give an address such as https://127.0.0.1:10259"))
    );
    let mut config = Config::new(url.clone());
    config.default_retry = false;
    if let Some(path) = authority {
        let called = || format!("--leader-ca {}", path.display());
        let pem = std::fs::read(path).with_context(called)?;
        let authorities: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let authorities = authorities.ok().filter(|all| !all.is_empty());
        let authorities = authorities.context("is no certificate in PEM").with_context(called)?;
        config.root_cert = Some(authorities.iter().map(|der| der.to_vec()).collect());
    }
    let client =
        Client::try_from(config).with_context(|| format!("making a client for {called}"))?;
    Ok(Leader { client, prefix: String::new(), token, called: format!("the leader at {called}") })
}

/// The reason for which a question has no answer.
enum Refusal {
    /// The leader is busy with other questions.
    Busy,
    /// The question failed.
    Other(anyhow::Error),
}

impl From<anyhow::Error> for Refusal {
    fn from(error: anyhow::Error) -> Self {
        Refusal::Other(error)
    }
}

fn missing_role(namespace: &str) -> String {
    format!(
        "the way to the leader needs a binding to Role fluxqueue-what-if in namespace {namespace}, \
         such as kubectl -n {namespace} create rolebinding what-if --role=fluxqueue-what-if \
         --user=YOU"
    )
}

/// Returns the token of a configuration; none if it identifies the user in another way.
async fn token_of(config: &Config) -> anyhow::Result<Option<String>> {
    let Some(layer) = config.auth_layer().context("getting your token")? else {
        return Ok(None);
    };
    // The service returns the request itself: a plugin runs for it, or a file is read.
    let echo = service_fn(|request: Request<Body>| async move {
        let mut response = http::Response::new(Body::empty());
        response.headers_mut().extend(request.headers().clone());
        Ok::<_, BoxError>(response)
    });
    let sent = layer.layer(echo).oneshot(Request::new(Body::empty())).await;
    let sent = sent.map_err(|error| anyhow!("getting your token: {error}"))?;
    let value = sent.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    Ok(value.and_then(|value| value.strip_prefix("Bearer ")).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(status: StatusCode, text: &str) -> String {
        let prefix = "/api/v1/namespaces/fq/pods/https:f-0:10259/proxy";
        refused("the leader (pod fq/f-0)", prefix, status, text.as_bytes()).to_string()
    }

    #[test]
    fn an_address_has_its_scheme_and_no_token_goes_out_in_clear() {
        for url in ["foo", "127.0.0.1:10259", "http://127.0.0.1:10259", "/x"] {
            let url = url.parse().unwrap();
            let error = straight(&url, None, "t".to_owned()).err().unwrap().to_string();
            assert!(error.starts_with("--leader: ") && error.contains("https://"), "{error}");
        }
    }

    #[test]
    fn a_refusal_says_what_is_missing() {
        let of_server = r#"{"kind":"Status","message":"pods \"f-0\" is forbidden"}"#;
        assert!(
            said(StatusCode::FORBIDDEN, of_server)
                .contains("Role fluxqueue-what-if in namespace fq")
        );
        let of_leader = "\"bob\" may not create /what-if\n";
        assert!(said(StatusCode::FORBIDDEN, of_leader).contains("ClusterRole fluxqueue-what-if"));
        assert!(said(StatusCode::UNAUTHORIZED, "no").contains("kubectl create token"));
        let text = said(StatusCode::BAD_GATEWAY, "\u{1b}[2J");
        assert_eq!(text, r"the leader (pod fq/f-0) answers 502 Bad Gateway: \u{1b}[2J");
    }
}
