//! Asks the process that leads what would come of it if something was submitted now.
//!
//! From wherever kubectl works: the Lease says which pod leads, and the API server passes the
//! question on to it (`pods/proxy`). The token of the kubeconfig goes along, so that the leader can
//! ask the API server whose it is. A client certificate cannot be passed on: who has one gives a
//! token.

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

/// How much longer than it may look ahead the leader may take to answer: it copies, and others may
/// be before us.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// How often it is asked while others ask, and the pause between.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// Whom to ask, and how.
#[derive(Debug)]
pub struct AskSettings {
    /// The kubeconfig that was named, if one was.
    pub kubeconfig: Option<PathBuf>,
    /// A token instead of the kubeconfig's.
    pub token: Option<String>,
    /// Where the leader is.
    pub leader: Leader,
    /// How long it may look ahead.
    pub within: Duration,
}

/// Where the process that leads is.
#[derive(Debug)]
pub enum Leader {
    /// In the pod that a Lease names, reached through the API server.
    OfLease {
        /// The namespace of both.
        namespace: String,
        /// The Lease.
        lease: String,
        /// Where it listens, with TLS.
        port: u16,
    },
    /// Here.
    At {
        /// Its address.
        url: http::Uri,
        /// Who signed its certificate, as PEM.
        authority: Option<PathBuf>,
        /// Its certificate is not checked.
        is_trusted: bool,
    },
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// There is no way to the API server.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Nobody would know who asks.
    #[error(
        "the kubeconfig has no token to tell the leader who asks (a client certificate cannot be passed on): give --token, \
         such as \"$(kubectl create token NAME)\""
    )]
    NoToken,
    /// The token cannot be had, or not be sent.
    #[error("getting the token of the kubeconfig: {0}")]
    Token(String),
    /// The file cannot be read.
    #[error("reading {}", .path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The file is no certificate.
    #[error("{}: is no certificate in PEM", .0.display())]
    NoAuthority(PathBuf),
    /// The Lease cannot be read.
    #[error("reading lease {name}: {}", error_chain(.source))]
    Lease {
        /// The Lease.
        name: String,
        /// Why not.
        #[source]
        source: kube::Error,
    },
    /// Nobody holds it.
    #[error("nobody leads: lease {0} has no holder")]
    NobodyLeads(String),
    /// The question could not be sent, or the answer not be read.
    #[error("asking {whom}: {}", error_chain(.source))]
    NoReply {
        /// Whom.
        whom: String,
        /// Why not.
        #[source]
        source: kube::Error,
    },
    /// No answer came.
    #[error("asking {whom}: no answer within {} s", .within.as_secs())]
    Late {
        /// Whom.
        whom: String,
        /// How long it was waited for.
        within: Duration,
    },
    /// The leader, or the API server before it, has refused.
    #[error("{whom} answers {status}: {text}")]
    Refused {
        /// Who was asked.
        whom: String,
        /// The status.
        status: StatusCode,
        /// What it said.
        text: String,
    },
    /// It answers something else.
    #[error("reading the answer of {whom}")]
    Unreadable {
        /// Who was asked.
        whom: String,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
}

/// A way to the leader.
struct Way {
    client: Client,
    /// What the path begins with.
    prefix: String,
    token: Option<String>,
    /// For people.
    whom: String,
}

/// What would come of these objects. Those without a namespace are taken to be of the kubeconfig's,
/// or of `namespace`.
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
            // Without TLS there may be nobody who asks for one.
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
    // It begins with the name of the machine, which is that of the pod.
    let pod = holder
        .split('_')
        .next()
        .filter(|pod| !pod.is_empty())
        .ok_or(AskError::NobodyLeads(name))?;
    let prefix = format!("/api/v1/namespaces/{namespace}/pods/https:{pod}:{port}/proxy");
    let whom = format!("pod {namespace}/{pod}, through the API server");
    Ok(Way { client, prefix, token: Some(token), whom })
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
    let whom = url.to_string();
    let client = Client::try_from(config)
        .map_err(|source| ConnectError::Client { url: whom.clone(), source: Box::new(source) })?;
    Ok(Way { client, prefix: String::new(), token, whom })
}

/// The token with which a configuration says who asks; none if it says that in another way.
async fn token_of(config: &Config) -> Result<Option<String>, AskError> {
    let unusable = |error: &dyn std::fmt::Display| AskError::Token(error.to_string());
    let Some(layer) = config.auth_layer().map_err(|error| unusable(&error))? else {
        return Ok(None);
    };
    // What would be sent is sent back: a plugin is asked for it, or a file read.
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
        let whom = || self.whom.clone();
        let no_reply = |source| AskError::NoReply { whom: whom(), source };
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
            .map_err(|_| AskError::Late { whom: whom(), within: patience })?
            .map_err(no_reply)?;
        if !status.is_success() {
            return Err(AskError::Refused { whom: whom(), status, text: said(&body) });
        }
        serde_json::from_slice(&body)
            .map_err(|source| AskError::Unreadable { whom: whom(), source })
    }
}

/// What a refusal says: the API server's is a Status.
fn said(body: &[u8]) -> String {
    let status: Option<kube::core::Status> = serde_json::from_slice(body).ok();
    let message = status.map(|status| status.message).filter(|message| !message.is_empty());
    message.unwrap_or_else(|| String::from_utf8_lossy(body).trim().to_owned())
}
