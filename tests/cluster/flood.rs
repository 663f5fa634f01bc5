//! Clients that keep servers busy: many that are slow or silent, and a flood of requests that are
//! refused.
//!
//! The clients are tasks of this process. The test's own thread checks the servers meanwhile.

use std::io::{Read, Write};
use std::net::TcpStream as Blocking;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{interval, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::harness::{ControlPlane, Fluxqueue, Namespace, job, until};
use crate::webhook::{Files, free_port, install_trusting, process};

/// Number of clients of each sort, and of requests in a second, for each server.
const SLOW: usize = 200;
const SILENT: usize = 200;
const REQUESTS_PER_SECOND: usize = 200;

/// Number of connections that carry the requests of the flood.
const FLOODING: usize = 10;

/// Pause before a client with a closed connection opens another one.
const PAUSE: Duration = Duration::from_millis(500);

/// Most memory that a server may take above that at rest.
const GROWTH_KIB_MAX: u64 = 64 << 10;

/// Longest time for the answer to a probe, and for one to a question after the load has gone.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

const NODES: &str = "groups: [{namePrefix: n-, count: 4, cpu: '8', memory: 16Gi, pods: 110}]";

/// A server under load.
struct Target {
    port: u16,
    tls: TlsConnector,
    /// The beginning of a request with a body that comes slowly.
    slow_body: String,
    /// The requests of the flood.
    requests: Vec<Vec<u8>>,
    /// Answers to the flood.
    answered: AtomicUsize,
}

impl Target {
    fn new(
        port: u16,
        certificate: &rcgen::Certificate,
        path: &str,
        requests: Vec<Vec<u8>>,
    ) -> Arc<Self> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.der().clone()).expect("a certificate");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions();
        let client =
            client.expect("versions of TLS").with_root_certificates(roots).with_no_client_auth();
        let slow_body =
            format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\n\r\n");
        let tls = Arc::new(client).into();
        Arc::new(Target { port, tls, slow_body, requests, answered: AtomicUsize::new(0) })
    }

    async fn connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        self.tls.connect("localhost".try_into().expect("a name"), stream).await
    }

    /// Sends a byte a second, of the head of a request or of its body.
    async fn slow(self: Arc<Self>, in_body: bool) {
        loop {
            if let Ok(mut stream) = self.connect().await {
                let head =
                    if in_body { self.slow_body.as_str() } else { "GET /livez HTTP/1.1\r\nx: " };
                let mut sent = stream.write_all(head.as_bytes()).await;
                while sent.is_ok() {
                    sleep(Duration::from_secs(1)).await;
                    sent = stream.write_all(b"x").await;
                }
            }
            sleep(PAUSE).await;
        }
    }

    /// Opens a connection and stays silent, either at once or after the handshake.
    async fn silent(self: Arc<Self>, after_handshake: bool) {
        let mut byte = [0];
        loop {
            if after_handshake {
                if let Ok(mut stream) = self.connect().await {
                    let _ = stream.read(&mut byte).await;
                }
            } else if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)).await {
                let _ = stream.read(&mut byte).await;
            }
            sleep(PAUSE).await;
        }
    }

    /// Sends one request after the other.
    async fn flood(self: Arc<Self>, first: usize) {
        let mut turns =
            interval(Duration::from_secs(1) * u32::try_from(FLOODING).expect("few") / 200);
        let (mut stream, mut next) = (None, first);
        loop {
            turns.tick().await;
            if stream.is_none() {
                stream = timeout(ANSWER_WITHIN * 5, self.connect()).await.ok().and_then(Result::ok);
            }
            let Some(open) = &mut stream else { continue };
            let request = &self.requests[next % self.requests.len()];
            next += 1;
            match timeout(ANSWER_WITHIN * 5, exchange(open, request)).await {
                Ok(Ok(_)) => drop(self.answered.fetch_add(1, Ordering::Relaxed)),
                Ok(Err(_)) | Err(_) => stream = None,
            }
        }
    }

    /// Starts all clients, which go on until the runtime ends.
    fn besiege(self: &Arc<Self>, runtime: &tokio::runtime::Runtime) {
        for number in 0..SLOW {
            runtime.spawn(Arc::clone(self).slow(number % 2 == 0));
        }
        for number in 0..SILENT {
            runtime.spawn(Arc::clone(self).silent(number % 2 == 0));
        }
        for number in 0..FLOODING {
            runtime.spawn(Arc::clone(self).flood(number));
        }
    }
}

/// Sends a request and reads the whole answer. Returns its status.
async fn exchange(stream: &mut TlsStream<TcpStream>, request: &[u8]) -> std::io::Result<u16> {
    stream.write_all(request).await?;
    let mut answer = Vec::new();
    loop {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let text = String::from_utf8_lossy(&answer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if body.len() >= length.unwrap_or_default() {
            return Ok(head
                .split(' ')
                .nth(1)
                .and_then(|code| code.parse().ok())
                .unwrap_or_default());
        }
    }
}

/// Makes a request. It has a token only if one is among the headers.
fn request(method: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Makes JSON of this size that takes a hundred times as much memory when it is decoded.
fn bomb(bytes: usize) -> String {
    format!("[{}0]", r#"{"":0},"#.repeat(bytes / 7))
}

/// Makes an admission question about a Job.
fn review(more: &str) -> String {
    format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","kind":{{"group":"batch",
        "version":"v1","kind":"Job"}},"resource":{{"group":"batch","version":"v1","resource":"jobs"}},"name":"x",
        "namespace":"team-a","operation":"CREATE","userInfo":{{}},"object":{{"metadata":{{"name":"x"}},"spec":{{
        "template":{{"spec":{{"schedulerName":"fluxqueue","containers":[]}}}},"more":{more}}}}}}}}}"#
    )
}

/// Returns the time until a probe succeeds.
fn probe(port: u16) -> Duration {
    let begun = Instant::now();
    let asked = || -> std::io::Result<String> {
        let mut stream = Blocking::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(ANSWER_WITHIN * 10))?;
        stream.write_all(b"GET /livez HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let text = asked().expect("an answer to a probe");
    assert!(text.starts_with("HTTP/1.0 200"), "{text}");
    begun.elapsed()
}

/// Returns the time from the submission of a one-pod job until it runs.
fn start_of_a_job(ns: &Namespace<'_>, name: &str) -> Duration {
    let begun = Instant::now();
    ns.apply(&job(name, 1, "100m", "infinity"));
    until("the job to start", || {
        let selector = format!("job-name={name}");
        let phase =
            ns.kubectl(&["get", "pods", "-l", &selector, "-o=jsonpath={.items[*].status.phase}"]);
        (phase == "Running").then_some(())
    });
    begun.elapsed()
}

/// Keeps both servers under load for this long, and checks them meanwhile and afterwards.
pub(crate) fn servers_hold_out(lasts: Duration) {
    let plane = ControlPlane::start(NODES, &[]);
    let (health, webhook_health) = (free_port(), free_port());
    let (fluxqueue, certificate, port) =
        plane.secured_fluxqueue(&[&format!("--health-bind-address=127.0.0.1:{health}")]);
    let (webhook, webhook_certificate, webhook_port) = webhook(&plane, webhook_health);
    let ns = plane.namespace("flooded");
    ns.kubectl(&["create", "serviceaccount", "prometheus"]);
    let token = ns.kubectl(&["create", "token", "prometheus"]).trim().to_owned();
    let who = format!("--serviceaccount={}:prometheus", ns.name);
    plane.kubectl(&[
        "create",
        "clusterrolebinding",
        "prometheus",
        "--clusterrole=fluxqueue-metrics-reader",
        &who,
    ]);

    let what_if = request("POST", "/what-if", "", &format!(r#"{{"items":{}}}"#, bomb(1 << 20)));
    let mut requests: Vec<Vec<u8>> = (0..20_000)
        .map(|number| {
            request("GET", "/metrics", &format!("authorization: Bearer made-up-{number}\r\n"), "")
        })
        .collect();
    for number in (0..requests.len()).step_by(25) {
        requests[number].clone_from(&what_if);
    }
    let scheduler = Target::new(port, &certificate, "/what-if", requests);
    let ordinary = request("POST", "/validate", "", &review("0"));
    let mut requests = vec![ordinary; 25];
    requests[0] = request("POST", "/validate", "", &review(&bomb(1 << 20)));
    let admission = Target::new(webhook_port, &webhook_certificate, "/validate", requests);

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let metrics = request("GET", "/metrics", &format!("authorization: Bearer {token}\r\n"), "");
    // This client is served before the load comes, and has to be served under it.
    let ask = |target: &Arc<Target>, request: &[u8]| {
        let begun = Instant::now();
        let asked = async { exchange(&mut target.connect().await?, request).await };
        let status = runtime.block_on(asked).expect("an answer");
        (status, begun.elapsed())
    };
    until("the role to count", || (ask(&scheduler, &metrics).0 == 200).then_some(()));
    let mut before: Vec<Duration> =
        (0..5).map(|number| start_of_a_job(&ns, &format!("before-{number}"))).collect();
    before.sort();
    let start_within = (before[2] * 3).max(Duration::from_secs(2));
    let at_rest = [fluxqueue.resident_kib(), webhook.resident_kib()];

    scheduler.besiege(&runtime);
    admission.besiege(&runtime);
    let (end, mut number) = (Instant::now() + lasts, 0);
    while Instant::now() < end {
        for port in [health, webhook_health] {
            let took = probe(port);
            assert!(took < ANSWER_WITHIN, "a probe took {took:?}");
        }
        assert_eq!(ask(&scheduler, &metrics).0, 200, "a known token");
        let now = [fluxqueue.resident_kib(), webhook.resident_kib()];
        assert!(
            now.iter().zip(at_rest).all(|(now, at_rest)| *now < at_rest + GROWTH_KIB_MAX),
            "{at_rest:?} {now:?} KiB"
        );
        if number % 5 == 0 {
            let took = start_of_a_job(&ns, &format!("during-{number}"));
            assert!(took < start_within, "a job started after {took:?}; before: {before:?}");
        }
        number += 1;
        std::thread::sleep(Duration::from_millis(200));
    }
    for target in [&scheduler, &admission] {
        let answered = target.answered.load(Ordering::Relaxed);
        let all = usize::try_from(lasts.as_secs()).expect("short") * REQUESTS_PER_SECOND;
        assert!(answered > all / 10, "{answered} answers: there was no flood");
    }
    runtime.shutdown_background();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let question =
        request("POST", "/validate", "", &review(&format!("\"{}\"", "x".repeat(10 << 10))));
    std::thread::sleep(Duration::from_secs(1));
    let begun = Instant::now();
    let asked = async { exchange(&mut admission.connect().await?, &question).await };
    let status = runtime.block_on(asked).expect("an answer");
    assert!(
        status == 200 && begun.elapsed() < ANSWER_WITHIN,
        "{status} after {:?}",
        begun.elapsed()
    );
}

/// Starts a webhook with a certificate that the test knows.
fn webhook(plane: &ControlPlane, health: u16) -> (Fluxqueue, rcgen::Certificate, u16) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (files, port) = (Files::in_dir(plane), free_port());
    files.write(&made.cert, &made.signing_key);
    install_trusting(plane, port, &made.cert.pem());
    let [certificate, key] = files.flags();
    let probes = format!("--health-bind-address=127.0.0.1:{health}");
    let webhook = process(plane, port, &[&probes, &certificate, &key]);
    until("the webhook", || Blocking::connect(("127.0.0.1", health)).ok());
    (webhook, made.cert, port)
}

#[test]
fn servers_hold_out_against_a_short_flood() {
    servers_hold_out(Duration::from_secs(6));
}
