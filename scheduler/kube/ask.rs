//! Asks the process that leads about submissions that have not been made (what if).
//!
//! This works wherever kubectl works: the Lease names the pod that leads, and the API server passes
//! the request on to it (`pods/proxy`). The token of the kubeconfig goes along, so that the leader
//! can ask the API server about it. A client certificate cannot be passed on: its user passes a
//! token instead.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use k8s_openapi::api::coordination::v1::Lease;
use kube::client::{Body, ConfigExt};
use kube::{Api, Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tower::{BoxError, Layer, ServiceExt, service_fn};

use super::client::{ConnectError, configuration};
use super::error_chain::error_chain;
use crate::serve::{TOKEN_HEADER, what_if};

/// The time that the leader has for an answer, beyond the time for which it may look ahead: it
/// makes a copy, and other clients may be served first.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The most attempts while the leader serves other clients, and the pause between two of them.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// The address of the leader, and the credentials.
#[derive(Debug)]
pub struct AskSettings {
    /// The kubeconfig that a flag named, if one did.
    pub kubeconfig: Option<PathBuf>,
    /// A token instead of the kubeconfig's.
    pub token: Option<String>,
    /// The place of the leader.
    pub leader: Leader,
    /// The time for which it may look ahead.
    pub within: Duration,
}

/// The place of the process that leads.
#[derive(Debug)]
pub enum Leader {
    /// The pod that a Lease names, reached through the API server.
    OfLease {
        /// The namespace of the Lease and the pod.
        namespace: String,
        /// The name of the Lease.
        lease: String,
        /// The port at which the leader listens, with TLS.
        port: u16,
    },
    /// A given address.
    At {
        /// The address.
        url: http::Uri,
        /// The authority that signed its certificate, as PEM.
        authority: Option<PathBuf>,
        /// True if its certificate is not checked.
        is_trusted: bool,
    },
}

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The API server cannot be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The leader could not know the client.
    #[error(
        "the kubeconfig has no token for the leader (a client certificate cannot be passed on): \
         give --token, such as \"$(kubectl create token NAME)\""
    )]
    NoToken,
    /// The token cannot be read, or not be sent.
    #[error("getting the token of the kubeconfig: {0}")]
    Token(String),
    /// The file cannot be read.
    #[error("reading {}", .path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The file holds no certificate.
    #[error("{}: is not a certificate in PEM", .0.display())]
    NoAuthority(PathBuf),
    /// The Lease cannot be read.
    #[error("reading lease {name}: {}", error_chain(.source))]
    Lease {
        /// The Lease.
        name: String,
        /// The error of the API server.
        #[source]
        source: kube::Error,
    },
    /// No process holds the Lease.
    #[error("no process leads: lease {0} has no holder")]
    NoLeader(String),
    /// The request could not be sent, or the answer not be read.
    #[error("asking {peer}: {}", error_chain(.source))]
    NoReply {
        /// The leader, as people call it.
        peer: String,
        /// The error of the connection.
        #[source]
        source: kube::Error,
    },
    /// No answer came.
    #[error("asking {peer}: no answer within {} s", .within.as_secs())]
    Late {
        /// The leader, as people call it.
        peer: String,
        /// The time that it had for its answer.
        within: Duration,
    },
    /// The leader, or the API server in front of it, refuses the request.
    #[error("{peer} answers {status}: {text}")]
    Refused {
        /// The leader, as people call it.
        peer: String,
        /// The status.
        status: StatusCode,
        /// The text of the answer.
        text: String,
    },
    /// The answer has another form than expected.
    #[error("reading the answer of {peer}")]
    Unreadable {
        /// The leader, as people call it.
        peer: String,
        /// The fault in the answer.
        #[source]
        source: serde_json::Error,
    },
}

/// The connection to the leader.
struct Way {
    client: Client,
    /// The beginning of the path.
    prefix: String,
    token: Option<String>,
    /// The leader, as people call it.
    peer: String,
}

/// Asks for the fate of these objects. Objects without a namespace get `namespace`, or the one of
/// the kubeconfig.
pub async fn ask(
    settings: AskSettings,
    mut objects: Vec<serde_json::Value>,
    namespace: Option<String>,
) -> Result<what_if::Answer, AskError> {
    let AskSettings { kubeconfig, token, leader, within } = settings;
    let (way, default_namespace) = match leader {
        Leader::OfLease { namespace, lease, port } => {
            let config = configuration(kubeconfig.as_deref()).await?;
            let default_namespace = config.default_namespace.clone();
            (
                through_the_api_server(config, token, (&namespace, &lease, port)).await?,
                default_namespace,
            )
        }
        Leader::At { url, authority, is_trusted } => {
            let config = configuration(kubeconfig.as_deref()).await.ok();
            let default_namespace =
                config.as_ref().map_or("default".to_owned(), |it| it.default_namespace.clone());
            // Without TLS and a token, the leader may not ask for one.
            let token = match (token, config) {
                (Some(token), _) => Some(token),
                (None, Some(config)) => token_of(&config).await?,
                (None, None) => None,
            };
            (straight(url, authority, is_trusted, token)?, default_namespace)
        }
    };
    for object in &mut objects {
        if let Some(object) = object.as_object_mut() {
            let metadata = object.entry("metadata").or_insert_with(|| serde_json::json!({}));
            if metadata["namespace"].as_str().is_none_or(str::is_empty) {
                metadata["namespace"] = namespace.as_deref().unwrap_or(&default_namespace).into();
            }
        }
    }
    let list =
        serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": objects }).to_string();
    for attempt in 1.. {
        match way.post(&list, within).await {
            Err(AskError::Refused { status: StatusCode::TOO_MANY_REQUESTS, .. })
                if attempt < ATTEMPTS =>
            {
                tokio::time::sleep(PAUSE).await;
            }
            answer => return answer,
        }
    }
    unreachable!("the last attempt is returned")
}

async fn through_the_api_server(
    config: Config,
    token: Option<String>,
    (namespace, lease, port): (&str, &str, u16),
) -> Result<Way, AskError> {
    let token = match token {
        Some(token) => token,
        None => token_of(&config).await?.ok_or(AskError::NoToken)?,
    };
    let url = config.cluster_url.to_string();
    let client = Client::try_from(config)
        .map_err(|source| ConnectError::Client { url, source: Box::new(source) })?;
    let name = format!("{namespace}/{lease}");
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let lease =
        leases.get(lease).await.map_err(|source| AskError::Lease { name: name.clone(), source })?;
    let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    // The identity begins with the name of the machine, which is that of the pod.
    let pod =
        holder.split('_').next().filter(|pod| !pod.is_empty()).ok_or(AskError::NoLeader(name))?;
    let prefix = format!("/api/v1/namespaces/{namespace}/pods/https:{pod}:{port}/proxy");
    let peer = format!("pod {namespace}/{pod}, through the API server");
    Ok(Way { client, prefix, token: Some(token), peer })
}

fn straight(
    url: http::Uri,
    authority: Option<PathBuf>,
    is_trusted: bool,
    token: Option<String>,
) -> Result<Way, AskError> {
    let mut config = Config::new(url.clone());
    config.accept_invalid_certs = is_trusted;
    if let Some(path) = authority {
        let pem = std::fs::read(&path)
            .map_err(|source| AskError::Authority { path: path.clone(), source })?;
        let authorities: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let authorities =
            authorities.ok().filter(|all| !all.is_empty()).ok_or(AskError::NoAuthority(path))?;
        config.root_cert = Some(authorities.iter().map(|der| der.to_vec()).collect());
    }
    let peer = url.to_string();
    let client = Client::try_from(config)
        .map_err(|source| ConnectError::Client { url: peer.clone(), source: Box::new(source) })?;
    Ok(Way { client, prefix: String::new(), token, peer })
}

/// Returns the token by which a configuration authenticates; none if it uses something else.
async fn token_of(config: &Config) -> Result<Option<String>, AskError> {
    let unusable = |error: &dyn std::fmt::Display| AskError::Token(error.to_string());
    let Some(layer) = config.auth_layer().map_err(|error| unusable(&error))? else {
        return Ok(None);
    };
    // The request is sent back instead of out: this calls a plugin, or reads a file, if the
    // configuration needs it.
    let echo = service_fn(|request: Request<Body>| async move {
        let mut response = Response::new(Body::empty());
        response.headers_mut().extend(request.headers().clone());
        Ok::<_, BoxError>(response)
    });
    let sent = layer
        .layer(echo)
        .oneshot(Request::new(Body::empty()))
        .await
        .map_err(|error| unusable(&error))?;
    let value = sent.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = value.and_then(|value| value.strip_prefix("Bearer "));
    Ok(token.map(str::to_owned))
}

impl Way {
    async fn post(&self, body: &str, within: Duration) -> Result<what_if::Answer, AskError> {
        let peer = || self.peer.clone();
        let no_reply = |source| AskError::NoReply { peer: peer(), source };
        let path = format!("{}{}?within={}", self.prefix, what_if::PATH, within.as_millis());
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(Body::from(body.as_bytes().to_vec()))
            .map_err(|error| no_reply(kube::Error::HttpError(error)))?;
        if let Some(token) = &self.token {
            let mut value =
                HeaderValue::from_str(token).map_err(|error| AskError::Token(error.to_string()))?;
            value.set_sensitive(true);
            request.headers_mut().insert(TOKEN_HEADER, value);
        }
        let exchange = async {
            let response = self.client.send(request).await?;
            let status = response.status();
            Ok((status, response.into_body().collect_bytes().await?))
        };
        let patience = within + ANSWER_WITHIN;
        let answer = tokio::time::timeout(patience, exchange).await;
        let (status, body) = answer
            .map_err(|_| AskError::Late { peer: peer(), within: patience })?
            .map_err(no_reply)?;
        if !status.is_success() {
            return Err(AskError::Refused { peer: peer(), status, text: said(&body) });
        }
        serde_json::from_slice(&body)
            .map_err(|source| AskError::Unreadable { peer: peer(), source })
    }
}

/// Returns the text of a refusal; the API server's is in a Status.
fn said(body: &[u8]) -> String {
    let status: Option<kube::core::Status> = serde_json::from_slice(body).ok();
    let message = status.map(|status| status.message).filter(|message| !message.is_empty());
    message.unwrap_or_else(|| String::from_utf8_lossy(body).trim().to_owned())
}
