//! Clients of the API server: its address, and the way in which requests are sent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{Request, Uri};
use kube::client::{Body, ClientBuilder};
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::util::MapRequestLayer;

/// The time in which a server has to accept a connection; after it, the server counts as down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The reason why there is no client.
///
/// Errors in kubeconfigs are no sources of these: their texts quote their own sources.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The file named by a flag cannot be used.
    #[error("reading kubeconfig {}: {fault}", .path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The fault in the file.
        fault: KubeconfigError,
    },
    /// Neither a kubeconfig nor a service account was found.
    #[error("finding out how to reach the API server: {0}")]
    Infer(InferConfigError),
    /// The configuration does not make a client.
    #[error("making a client for {url}")]
    Client {
        /// The API server.
        url: String,
        /// The error of the library.
        #[source]
        source: Box<kube::Error>,
    },
}

/// Clients for the parts of the process, so that one cannot fill the queue of another.
///
/// None has a rate limit of its own: the API server's priority and fairness decides. Each keeps as
/// many connections as it has requests in flight. kube-client leaves Nagle's algorithm on, which
/// costs nothing: a request is written in one piece, on a connection that has no answer
/// outstanding, so it is never held back.
#[derive(Clone)]
pub struct Clients {
    /// The client for watches.
    pub watch: Client,
    /// The client for Bindings. It repeats nothing by itself, and neither does the next one.
    pub bind: Client,
    /// The client for all other writes.
    pub write: Client,
}

/// Returns the configuration: of the given file, else as kubectl finds it, else in-cluster.
pub async fn configuration(kubeconfig: Option<&Path>) -> Result<Config, ConnectError> {
    let mut config = match kubeconfig {
        Some(path) => {
            let failed = |fault| ConnectError::Kubeconfig { path: path.to_owned(), fault };
            let file = Kubeconfig::read_from(path).map_err(failed)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .map_err(failed)?
        }
        None => Config::infer().await.map_err(ConnectError::Infer)?,
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Ok(config)
}

/// Makes the clients of one configuration.
pub fn connect(config: &Config) -> Result<Clients, ConnectError> {
    let failed = |source| ConnectError::Client {
        url: config.cluster_url.to_string(),
        source: Box::new(source),
    };
    // Before a write is repeated, the fence has to be checked: see `fenced`.
    let writing = || {
        let mut config = config.clone();
        config.default_retry = false;
        Client::try_from(config).map_err(failed)
    };
    Ok(Clients {
        watch: watching(config.clone()).map_err(failed)?,
        bind: writing()?,
        write: writing()?,
    })
}

/// Makes a client for watches.
fn watching(config: Config) -> Result<Client, kube::Error> {
    Ok(ClientBuilder::try_from(config)?.with_layer(&MapRequestLayer::new(up_to_now)).build())
}

/// Asks for a streamed list that has at least all objects of this moment, as a paged one has.
/// kube-client would accept the present content of the server's cache (`resourceVersion=0`), which
/// may lack the last leader's placements.
fn up_to_now(mut request: Request<Body>) -> Request<Body> {
    let uri = request.uri();
    let query = uri.query().unwrap_or_default();
    if query.split('&').any(|part| part == "sendInitialEvents=true") {
        let kept: Vec<&str> =
            query.split('&').filter(|part| *part != "resourceVersion=0").collect();
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = format!("{}?{}", uri.path(), kept.join("&")).parse().ok();
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}

/// Makes clients of a server without TLS and credentials.
#[cfg(test)]
pub(crate) fn plain(url: &str) -> Result<Clients, Box<dyn std::error::Error>> {
    // The first test that gets here installs it; the others find it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(connect(&Config::new(url.parse()?))?)
}

// === impl Clients ===

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients").finish_non_exhaustive()
    }
}
