//! The server over a real socket, with the requests of a probe.

use std::sync::OnceLock;

use std::time::Duration;

use fluxqueue_core::Outlook;
use fluxqueue_core::report::Gauges;
use tokio::sync::mpsc;

use super::*;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

async fn start() -> (SocketAddr, Arc<Facts>) {
    let facts = Arc::new(Facts {
        metrics: Arc::new(Metrics::new("0", "0")),
        health: Arc::new(Health::default()),
        leading: OnceLock::new(),
        gatekeeper: None,
        places: Places::default(),
        last_outlook: outlook::LastOutlook::default(),
        admission: Arc::new(what_if::tests::Objects(Ok(None))),
    });
    let (listener, address) = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    tokio::spawn(serve(listener, None, Connections::with_places(16), Arc::clone(&facts)));
    (address, facts)
}

/// Returns the method of requests for a path.
fn method(path: &str) -> &'static str {
    if path == outlook::PATH { "POST" } else { "GET" }
}

/// Returns the status code, and the whole answer.
async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let request = format!("{} {path} HTTP/1.0\r\n\r\n", method(path));
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
    assert!(
        text.contains("[+]lists-received ok") && text.contains("readyz check passed"),
        "{text}"
    );
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
                Question::Outlook(to) => to.send(Outlook::default()).unwrap(),
                Question::Preview(to) => to.send(Copied::Impossible).unwrap(),
            }
        }
    });
    let (_, text) = get(address, "/metrics").await;
    assert!(text.contains("application/openmetrics-text; version=1.0.0"), "{text}");
    assert!(text.contains("fluxqueue_scheduler_cache_size{type=\"nodes\"} 5"), "{text}");
    assert!(text.contains("fluxqueue_lane_outstanding{lane=\"bind\"} 3"), "{text}");
    assert!(get(address, "/debug/state").await.1.ends_with("{\"jobs\":[1]}"));
}

#[tokio::test]
async fn the_core_makes_one_outlook_for_all_clients_at_once() {
    let (address, facts) = start().await;
    assert_eq!(get(address, outlook::PATH).await.0, 503);
    let (questions, mut asked) = mpsc::channel(2);
    facts.leading.set(Leading { questions, depths: Box::new(NoQueues) }).unwrap();
    tokio::spawn(async move {
        let mut seconds = 0;
        while let Some(Question::Outlook(to)) = asked.recv().await {
            seconds += 1;
            let as_of = Some(fluxqueue_workload::Time::from_seconds(seconds));
            to.send(Outlook { as_of, ..Outlook::default() }).unwrap();
        }
    });
    let answers = futures::future::join_all((0..8).map(|_| get(address, outlook::PATH))).await;
    for (code, text) in answers {
        let expected = r#"{"asOf":"1970-01-01T00:00:01Z","nodes":[],"queues":[]}"#;
        assert!(code == 200 && text.ends_with(expected), "{text}");
    }
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert!(get(address, outlook::PATH).await.1.contains("00:00:02Z"), "it is made again");
}

/// Knows one token that may read the metrics, and one that may read nothing.
#[derive(Debug)]
pub(super) struct Strict;

impl Gatekeeper for Strict {
    fn judge<'a>(
        &'a self,
        token: &'a str,
        deed: &'a Deed,
    ) -> futures::future::BoxFuture<'a, Verdict> {
        let verdict = match (token, deed) {
            ("good", Deed::Get("/metrics") | Deed::Post(what_if::PATH)) | ("all-seeing", _) => {
                Verdict::Allowed
            }
            ("good", Deed::Create { resource: "jobs", namespace, .. }) if namespace == "lab" => {
                Verdict::Allowed
            }
            ("good", Deed::ListFluxJobs(Some(namespace))) if namespace == "lab" => Verdict::Allowed,
            ("good" | "poor", _) => Verdict::Forbidden(token.to_owned()),
            ("lost", _) => Verdict::NoAnswer("no server there".to_owned()),
            _ => Verdict::Unknown,
        };
        Box::pin(std::future::ready(verdict))
    }
}

/// Starts a server over TLS, with a certificate for localhost, and a client that trusts only that
/// one.
async fn start_tls() -> (SocketAddr, tokio_rustls::TlsConnector) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let dir = std::env::temp_dir().join(format!("fluxqueue-tls-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let files = CertificateFiles { certificate: dir.join("tls.crt"), key: dir.join("tls.key") };
    std::fs::write(&files.certificate, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    let config = tls_configuration(Some(&files)).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    let (listener, address) = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let facts = Arc::new(Facts {
        metrics: Arc::new(Metrics::new("0", "0")),
        health: Arc::new(Health::default()),
        leading: OnceLock::new(),
        gatekeeper: Some(Arc::new(Strict)),
        places: Places::default(),
        last_outlook: outlook::LastOutlook::default(),
        admission: Arc::new(what_if::tests::Objects(Ok(None))),
    });
    tokio::spawn(serve(listener, Some(config), Connections::with_places(16), facts));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let client = client.with_root_certificates(roots).with_no_client_auth();
    (address, Arc::new(client).into())
}

/// Returns the status code of an answer over TLS.
async fn code(
    address: SocketAddr,
    tls: &tokio_rustls::TlsConnector,
    path: &str,
    authorization: &str,
) -> u16 {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let mut stream = tls.connect("localhost".try_into().unwrap(), stream).await.unwrap();
    let header = if authorization.is_empty() {
        String::new()
    } else {
        format!("Authorization: {authorization}\r\n")
    };
    let request = format!("{} {path} HTTP/1.0\r\n{header}\r\n", method(path));
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = vec![0; 12];
    stream.read_exact(&mut text).await.unwrap();
    String::from_utf8(text).unwrap().split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn over_tls_metrics_and_state_need_permission_and_probes_none() {
    let (address, tls) = start_tls().await;
    // A client that never sends anything delays no other client.
    let _silent = tokio::net::TcpStream::connect(address).await.unwrap();
    let cases = [
        ("/livez", "", 200),
        ("/readyz", "", 200),
        ("/metrics", "", 401),
        ("/metrics", "Basic good", 401),
        ("/metrics", "Bearer nonsense", 401),
        ("/metrics", "Bearer poor", 403),
        ("/metrics", "Bearer lost", 503),
        ("/metrics", "bearer good", 200),
        ("/debug/state", "", 401),
        ("/debug/state", "Bearer good", 403),
        (outlook::PATH, "", 401),
        (outlook::PATH, "Bearer good", 403),
    ];
    for (path, authorization, expected) in cases {
        assert_eq!(
            code(address, &tls, path, authorization).await,
            expected,
            "{path} {authorization:?}"
        );
    }
}

#[tokio::test]
async fn a_process_without_a_certificate_makes_one() {
    assert!(tls_configuration(None).is_ok());
    let absent =
        CertificateFiles { certificate: "/nowhere/tls.crt".into(), key: "/nowhere/tls.key".into() };
    let error = tls_configuration(Some(&absent)).unwrap_err();
    assert_eq!(error.to_string(), "reading /nowhere/tls.crt");
}

/// The probes are answered although the runtime of the process does nothing at all, and although
/// other clients hold connections to them.
#[test]
fn probes_have_a_thread_of_their_own() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (address, _facts) = runtime.block_on(async {
        let (_, facts) = start().await;
        let (listener, address) = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        drop(probes::serve(listener, probe_router(Arc::clone(&facts))).unwrap());
        (address, facts)
    });
    let silent: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    for path in ["/livez", "/readyz", "/healthz"] {
        let begun = std::time::Instant::now();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(
            text.starts_with("HTTP/1.0 200") && begun.elapsed() < Duration::from_secs(1),
            "{text}"
        );
    }
    // That address answers nothing but probes.
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.0 404"), "{text}");
    drop(silent);
}
