//! The server over a real socket, with clients that do not keep to the rules.

use std::net::SocketAddr;
use std::time::Instant;

use axum::routing::{get, post};

use super::*;

/// Starts a plain server with this many places.
async fn start(places: usize, routes: Router) -> (SocketAddr, Connections) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, connections) = (listener.local_addr().unwrap(), Connections::with_places(places));
    tokio::spawn(serve(listener, None, connections.clone(), routes));
    (address, connections)
}

fn routes() -> Router {
    Router::new()
        .route("/livez", get(async || "ok"))
        .route("/deaf", post(async || StatusCode::UNAUTHORIZED))
}

async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}

/// Reads all answers until the server closes the connection.
async fn read_all(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text).await;
    String::from_utf8(text).unwrap()
}

async fn ask(address: SocketAddr) -> String {
    let mut stream = connect(address).await;
    stream.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    read_all(&mut stream).await
}

#[tokio::test]
async fn silent_clients_make_room_for_others() {
    let (address, _) = start(8, routes()).await;
    let mut silent = Vec::new();
    for count in 0..40 {
        let mut stream = connect(address).await;
        // Every second one has had an answer, and begins another request.
        if count % 2 == 0 {
            stream.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\nGET /livez").await.unwrap();
        }
        silent.push(stream);
    }
    let begun = Instant::now();
    for _ in 0..20 {
        assert!(ask(address).await.ends_with("ok"));
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    // All are closed but as many as there are places, which were the last to come.
    let mut open = 0;
    for mut stream in silent {
        let mut byte = [0; 512];
        let closed = async { while stream.read(&mut byte).await.is_ok_and(|read| read > 0) {} };
        open += usize::from(timeout(Duration::from_millis(20), closed).await.is_err());
    }
    assert!(open <= 8, "{open} are open");
}

#[tokio::test(start_paused = true)]
async fn each_step_of_a_client_has_its_time() {
    let (address, _) = start(8, routes()).await;
    for begun in ["", "GET /livez HTTP/1.1\r\nhost:", "GET /livez HTTP/1.1\r\nhost: x\r\n\r\n"] {
        let mut stream = connect(address).await;
        stream.write_all(begun.as_bytes()).await.unwrap();
        let since = tokio::time::Instant::now();
        read_all(&mut stream).await;
        let open = since.elapsed();
        assert!((HEAD_WITHIN..HEAD_WITHIN * 3).contains(&open), "{begun:?}: {open:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_takes_too_long_is_answered_so() {
    let routes = Router::new().route("/livez", get(async || std::future::pending::<&str>().await));
    let (address, _) = start(8, routes).await;
    let answer = ask(address).await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.ends_with("within 30 s\n"), "{answer}");
}

#[tokio::test]
async fn an_answer_arrives_although_its_client_is_still_sending() {
    let (address, _) = start(8, routes()).await;
    for _ in 0..5 {
        let mut stream = connect(address).await;
        let head = format!("POST /deaf HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", 3 << 20);
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&vec![b' '; 3 << 20]).await.unwrap();
        let answer = read_all(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    }
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused() {
    let (address, _) = start(8, routes()).await;
    let mut stream = connect(address).await;
    let head =
        format!("GET /livez HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(2 * HEAD_BYTES_MAX));
    let _ = stream.write_all(head.as_bytes()).await;
    let answer = read_all(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}
