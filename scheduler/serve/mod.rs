//! HTTP for probes, metrics, a look inside and what if: /livez, /readyz, /healthz, /metrics,
//! /debug/state, /what-if, /outlook.
//!
//! On the loopback address it is plain HTTP for every client. On other addresses it is HTTPS, and
//! all but the probes need a token that the API server allows to get the same path, since the state
//! shows every namespace, or to create the submitted objects. Probes are also answered on a
//! listener of their own, which other clients cannot keep busy ([`probes`]).
//!
//! Nothing here changes anything. The core's task answers questions about the core, within a time
//! limit, so that a busy core slows a scrape and not the other way round.

mod access;
mod address;
mod admission;
mod facts;
mod health;
mod metrics;
pub mod outlook;
mod places;
pub mod probes;
mod process;
mod questions;
mod tls;
pub mod what_if;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use prometheus_client::registry::Registry;
use rustls::ServerConfig;
use tokio::net::TcpListener;

pub use access::{Deed, Gatekeeper, TOKEN_HEADER, Verdict};
pub use address::{ListenAddress, ListenError, listen};
pub use admission::AdmissionSource;
pub use facts::Facts;
pub use fluxqueue_tls::Connections;
pub use fluxqueue_tls::files::CertificateFiles;
pub use health::{Health, Probe};
pub use metrics::{ESTIMATE_ERROR_LABELS, Labels, Metrics, PREFIX, WAIT_LABELS, registry, render};
pub use places::Places;
pub use questions::{Copied, DepthSource, Leading, Question};
pub use tls::{TlsError, configuration as tls_configuration};

use questions::ask;

/// Everything that a process without a core shows.
#[derive(Debug)]
pub struct Counters {
    /// All its counters.
    pub registry: Registry,
    /// Decides which clients may see them; without one every client may.
    pub gatekeeper: Option<Arc<dyn Gatekeeper>>,
}

/// The protection of metrics and state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exposure {
    /// Plain HTTP for every client that can reach the address.
    Open,
    /// HTTPS, with this certificate or one that is made at the start. Metrics and state are for the
    /// clients that the API server allows.
    Secured(Option<CertificateFiles>),
}

/// Serves until the future is dropped, over TLS if there is a configuration for it.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    connections: Connections,
    facts: Arc<Facts>,
) -> Infallible {
    fluxqueue_tls::serve(listener, tls, connections, router(facts)).await
}

/// Returns the routes, apart from the socket.
pub fn router(facts: Arc<Facts>) -> Router {
    Router::new()
        .route("/metrics", get(metrics_text))
        .route("/debug/state", get(state))
        .route(what_if::PATH, post(what_if::answer))
        .route(outlook::PATH, post(outlook_answer))
        .with_state(Arc::clone(&facts))
        .merge(probe_router(facts))
}

/// Returns the routes of probes alone.
pub fn probe_router(facts: Arc<Facts>) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/healthz", get(livez))
        .with_state(facts)
}

/// Returns the route for the metrics of a process that has no core, and answers probes elsewhere.
pub fn metrics_router(counters: Arc<Counters>) -> Router {
    Router::new().route("/metrics", get(counters_text)).with_state(counters)
}

async fn counters_text(State(counters): State<Arc<Counters>>, headers: HeaderMap) -> Response {
    match access::admit(counters.gatekeeper.as_deref(), &headers, &Deed::Get("/metrics")).await {
        Ok(()) => scraped(render(&counters.registry)),
        Err(refused) => *refused,
    }
}

async fn livez(State(facts): State<Arc<Facts>>, RawQuery(query): RawQuery) -> Response {
    probe_answer(Probe::Live, &facts.health, query.as_deref())
}

async fn readyz(State(facts): State<Arc<Facts>>, RawQuery(query): RawQuery) -> Response {
    probe_answer(Probe::Ready, &facts.health, query.as_deref())
}

fn probe_answer(probe: Probe, health: &Health, query: Option<&str>) -> Response {
    // As in the API server, `?verbose` and `?verbose=true` list the checks, and a failure always
    // does.
    let verbose = query.is_some_and(|query| {
        query.split('&').any(|part| part.split('=').next() == Some("verbose"))
    });
    let report = health.report(probe);
    let status = if report.passed() { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    let text = if verbose || !report.passed() { report.to_string() } else { "ok".to_owned() };
    (status, text).into_response()
}

async fn metrics_text(State(facts): State<Arc<Facts>>, headers: HeaderMap) -> Response {
    if let Err(refused) =
        access::admit(facts.gatekeeper.as_deref(), &headers, &Deed::Get("/metrics")).await
    {
        return *refused;
    }
    let mut core = None;
    let mut depths = Vec::new();
    if let Some(leading) = facts.leading.get() {
        depths = leading.depths.depths();
        core = ask(&leading.questions, Question::Gauges).await;
    }
    scraped(facts.metrics.render(core, depths))
}

fn scraped(text: Result<String, fmt::Error>) -> Response {
    match text {
        Ok(text) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn state(State(facts): State<Arc<Facts>>, headers: HeaderMap) -> Response {
    if let Err(refused) =
        access::admit(facts.gatekeeper.as_deref(), &headers, &Deed::Get("/debug/state")).await
    {
        return *refused;
    }
    let Some(leading) = facts.leading.get() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "this process does not lead\n").into_response();
    };
    match ask(&leading.questions, Question::State).await {
        Some(state) => axum::Json(state).into_response(),
        None => {
            (StatusCode::SERVICE_UNAVAILABLE, "the core did not answer in time\n").into_response()
        }
    }
}

async fn outlook_answer(State(facts): State<Arc<Facts>>, headers: HeaderMap) -> Response {
    let deed = Deed::Post(outlook::PATH);
    if let Err(refused) = access::admit(facts.gatekeeper.as_deref(), &headers, &deed).await {
        return *refused;
    }
    let Some(leading) = facts.leading.get() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "this process does not lead\n").into_response();
    };
    match facts.last_outlook.answer(ask(&leading.questions, Question::Outlook)).await {
        Some(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        None => {
            (StatusCode::SERVICE_UNAVAILABLE, "the core did not answer in time\n").into_response()
        }
    }
}

#[cfg(test)]
mod tests;
