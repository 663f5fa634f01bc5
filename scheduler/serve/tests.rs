//! The server over a real socket, asked as a probe asks.

use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;

async fn start() -> (SocketAddr, Arc<Facts>) {
    let facts = Arc::new(Facts {
        metrics: Arc::new(Metrics::new("0", "0")),
        health: Arc::new(Health::default()),
        leading: OnceLock::new(),
    });
    let (listener, address) = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    tokio::spawn(serve(listener, Arc::clone(&facts)));
    (address, facts)
}

/// The status code, and the whole answer.
async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    let exchange = move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    let text = tokio::task::spawn_blocking(exchange).await.unwrap();
    let code = text.split(' ').nth(1).unwrap().parse().unwrap();
    (code, text)
}

#[derive(Debug)]
struct NoQueues;

impl DepthSource for NoQueues {
    fn depths(&self) -> Vec<(&'static str, usize)> {
        vec![("bind", 3)]
    }
}

#[tokio::test]
async fn a_standby_is_alive_and_ready() {
    let (address, _facts) = start().await;
    for path in ["/livez", "/readyz", "/healthz"] {
        let (code, text) = get(address, path).await;
        assert_eq!(code, 200);
        assert!(text.ends_with("\r\n\r\nok"), "{text}");
    }
    assert_eq!(get(address, "/debug/state").await.0, 503);
    assert!(get(address, "/metrics").await.1.contains("fluxqueue_leader 0"));
}

#[tokio::test]
async fn a_leader_is_ready_once_it_has_its_lists_and_until_it_ends() {
    let (address, facts) = start().await;
    facts.health.set_leads();
    let (code, text) = get(address, "/readyz").await;
    assert_eq!(code, 500);
    assert!(text.contains("[-]lists-received failed"), "{text}");
    facts.health.set_synced();
    let (code, text) = get(address, "/readyz?verbose").await;
    assert_eq!(code, 200);
    assert!(text.contains("[+]lists-received ok") && text.contains("readyz check passed"), "{text}");
    facts.health.set_stopping();
    assert_eq!(get(address, "/readyz").await.0, 500);
    assert_eq!(get(address, "/livez").await.0, 200);
}

#[tokio::test]
async fn the_core_is_asked_for_metrics_and_state() {
    let (address, facts) = start().await;
    let (questions, mut asked) = mpsc::channel(2);
    facts.leading.set(Leading { questions, depths: Box::new(NoQueues) }).unwrap();
    tokio::spawn(async move {
        while let Some(question) = asked.recv().await {
            match question {
                Question::Gauges(to) => to.send(Gauges { nodes: 5, ..Gauges::default() }).unwrap(),
                Question::State(to) => to.send(serde_json::json!({ "jobs": [1] })).unwrap(),
            }
        }
    });
    let (_, text) = get(address, "/metrics").await;
    assert!(text.contains("application/openmetrics-text; version=1.0.0"), "{text}");
    assert!(text.contains("fluxqueue_scheduler_cache_size{type=\"nodes\"} 5"), "{text}");
    assert!(text.contains("fluxqueue_lane_outstanding{lane=\"bind\"} 3"), "{text}");
    assert!(get(address, "/debug/state").await.1.ends_with("{\"jobs\":[1]}"));
}
