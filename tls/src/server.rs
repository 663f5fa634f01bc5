//! HTTP on a socket, within bounds: every step of a client has a time limit, and [`Connections`]
//! bounds how many there are.
//!
//! axum's own server gives hyper no timer, so that no limit of hyper's counts. This one is hyper's
//! HTTP/1 connection with all of its limits, behind a handshake that has one too.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::connections::{Connections, Place};

/// The time that a client has to agree on keys.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);

/// The time that a client has to send the head of a request. It counts from the end of the last
/// answer, so it ends idle connections too; clients open another one.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// The time that a request may take, its body included: what-if requests take 10 s and more by
/// themselves, all others milliseconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The time that a client has to receive an answer.
const TAKE_WITHIN: Duration = Duration::from_secs(30);

/// The most bytes in the head of a request. A token of 16 KiB fits in; a client that sends its head
/// slowly holds no more memory than this.
const HEAD_BYTES_MAX: usize = 32 << 10;

/// The time for which the rest of a body is taken and dropped, if the answer did not need all of
/// it: a client that is still sending would otherwise lose the answer, since closing a socket with
/// unread bytes resets the connection.
const REST_WITHIN: Duration = Duration::from_secs(1);
/// The most bytes that are dropped so; see [`REST_WITHIN`].
const REST_BYTES_MAX: usize = 16 << 20;

/// The pause after a failure to accept a connection: the process may be out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Answers clients with `routes`, over TLS if there is a configuration for it, until the future is
/// dropped.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    connections: Connections,
    routes: Router,
) -> Infallible {
    let tls = tls.map(TlsAcceptor::from);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.heard();
                // Where all connections are being answered, the client is turned away: it may try
                // again.
                if let Some(place) = connections.enter() {
                    tokio::spawn(hold(stream, tls.clone(), Arc::new(place), routes.clone()));
                }
            }
            // The client has closed the connection before it was accepted.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if connections.fell_deaf(&error.to_string()) {
                    tracing::warn!(%error, "accepting a connection");
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Attends to a connection until it ends, takes too long, or its place is needed.
async fn hold(stream: TcpStream, tls: Option<TlsAcceptor>, place: Arc<Place>, routes: Router) {
    // An answer goes out in several pieces; without this each would wait until the client has
    // acknowledged the one before, which it delays by 40 ms. On a system that cannot do it, answers
    // are only slower.
    let _ = stream.set_nodelay(true);
    let attend = async {
        match tls {
            None => attend(stream, &place, routes).await,
            Some(tls) => {
                // A failed handshake is the client's concern.
                if let Ok(Ok(stream)) = timeout(HANDSHAKE_WITHIN, tls.accept(stream)).await {
                    attend(stream, &place, routes).await;
                }
            }
        }
    };
    tokio::select! {
        () = attend => {}
        () = place.needed() => {}
        () = stalled(&place) => {}
    }
}

/// Resolves when the client has not taken its answer for too long. Its other delays have shorter
/// limits.
async fn stalled(place: &Place) {
    loop {
        let left = TAKE_WITHIN.saturating_sub(place.waits_for().unwrap_or_default());
        if left.is_zero() {
            return;
        }
        sleep(left).await;
    }
}

async fn attend<S>(stream: S, place: &Arc<Place>, routes: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request: Request<Incoming>| {
        let (answering, routes) = (place.answer(), routes.clone());
        async move {
            let answer = timeout(ANSWER_WITHIN, routes.oneshot(request.map(Body::new))).await;
            drop(answering);
            answer.unwrap_or_else(|_| Ok(late()))
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN).max_buf_size(HEAD_BYTES_MAX);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    // A client that breaks off, or sends no HTTP, has no answer to wait for.
    let Ok(parts) = connection.without_shutdown().await else { return };
    let mut stream = parts.io.into_inner();
    let rest = async {
        stream.shutdown().await?;
        let mut rest = (&mut stream).take(REST_BYTES_MAX as u64);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    let _ = timeout(REST_WITHIN, rest).await;
}

fn late() -> Response {
    let text = format!("there was no answer within {} s\n", ANSWER_WITHIN.as_secs());
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
