//! Alerts and dashboards of the chart: the objects, and each query of a Prometheus that scrapes a
//! control plane with Fluxqueue.
//!
//! `tests/alerts` has the tests that need no cluster: which metrics and labels they name, and
//! whether alerts fire.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::chart::{find, templated, the, try_template};
use crate::harness::{ControlPlane, Fluxqueue, NODES, Namespace, job, pod, root, testbed, until};
use crate::promised::timed;
use crate::webhook::{Webhook, free_port};

fn file(name: &str) -> String {
    let path = root().join("manifests/chart/files/monitoring").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn alerts() -> Value {
    serde_saphyr::from_str(&file("alerts.yaml")).expect("YAML")
}

#[test]
fn alerts_and_dashboards_are_off_unless_values_say_otherwise() {
    let all = templated("");
    assert!(find(&all, "PrometheusRule", "fluxqueue").is_none());
    assert!(!all.keys().any(|(_, name)| name.contains("dashboard")), "{:?}", all.keys());
}

#[test]
fn the_chart_has_the_alerts_as_they_are_tested() {
    let all = templated("metrics: {rules: {enabled: true, labels: {release: prometheus}}}");
    let rules = the(&all, "PrometheusRule", "fluxqueue");
    assert_eq!(rules["spec"], alerts());
    assert_eq!(rules["metadata"]["labels"]["release"], "prometheus");
    assert_eq!(rules["metadata"]["namespace"], "fluxqueue-system");
    let all = templated(
        "metrics: {rules: {enabled: true, namespace: monitoring, \
         runbookUrl: \"https://wiki.example.com/a?b=c:d/operations.md\"}}",
    );
    let rules = the(&all, "PrometheusRule", "fluxqueue");
    assert_eq!(rules["metadata"]["namespace"], "monitoring");
    for (rule, plain) in rules["spec"]["groups"][0]["rules"]
        .as_array()
        .into_iter()
        .flatten()
        .zip(alerts()["groups"][0]["rules"].as_array().expect("rules"))
    {
        let plain = plain["annotations"]["runbook_url"].as_str().expect("a text");
        let heading = plain.split_once('#').expect("a heading").1;
        let expected = format!("https://wiki.example.com/a?b=c:d/operations.md#{heading}");
        assert_eq!(rule["annotations"]["runbook_url"], expected);
    }
    for wrong in ["wiki", "https://x.org/#a", "https://x.org/ a", "https://x.org/'", "http://{{a}}"]
    {
        let values = json!({"metrics": {"rules": {"enabled": true, "runbookUrl": wrong}}});
        let (ok, _, err) = try_template(&values.to_string());
        assert!(!ok && err.contains("/metrics/rules/runbookUrl"), "{wrong}: {err}");
    }
}

#[test]
fn the_chart_has_the_dashboards_as_they_are_tested() {
    let all = templated(
        "metrics: {dashboards: {enabled: true, namespace: monitoring, \
         annotations: {grafana_folder: Fluxqueue}}}",
    );
    for name in ["operator", "queues"] {
        let dashboard = the(&all, "ConfigMap", &format!("fluxqueue-dashboard-{name}"));
        let of = &dashboard["metadata"];
        assert_eq!(of["labels"]["grafana_dashboard"], "1");
        assert_eq!(
            (&of["annotations"]["grafana_folder"], &of["namespace"]),
            (&json!("Fluxqueue"), &json!("monitoring"))
        );
        let expected = json!({format!("fluxqueue-{name}.json"): file(&format!("{name}.json"))});
        assert_eq!(dashboard["data"], expected);
    }
    let other = "metrics: {dashboards: {enabled: true, labels: {grafana_dashboard: null, d: x}}}";
    let all = templated(other);
    let labels = &the(&all, "ConfigMap", "fluxqueue-dashboard-queues")["metadata"]["labels"];
    assert_eq!((&labels["d"], labels.get("grafana_dashboard")), (&json!("x"), None));
}

// --- with Prometheus ---

/// Metrics without a series until something goes wrong that this test does not cause.
const AFTER_FAULTS: [&str; 2] = ["fluxqueue_watch_errors_total", "fluxqueue_invalid_objects_total"];

/// A queue with a limit of each kind that a dashboard shows.
const LIMITED: &str = "
apiVersion: jobs.converged-computing.org/v1alpha1
kind: FluxQueue
metadata: {name: limited}
spec:
  limits:
    runningJobs: 5
    waitingJobs: 100
    resources: {cpu: '16', memory: 64Gi, nvidia.com/gpu: '4'}
---";

/// A pod that uses some of each.
const ON_GPU: &str = "
apiVersion: v1
kind: Pod
metadata: {name: on-gpu, labels: {fluxqueue/queue-name: limited}}
spec:
  schedulerName: fluxqueue
  containers:
  - name: main
    image: busybox
    command: [sleep, infinity]
    resources: {requests: {cpu: '1', memory: 1Gi, nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}
---";

struct Prometheus {
    _process: Fluxqueue,
    url: String,
}

fn program(name: &str) -> PathBuf {
    let path = root().join("tests/alerts/bin").join(name);
    assert!(path.exists(), "{} is missing: run `make dashboards`", path.display());
    path
}

impl Prometheus {
    /// Starts Prometheus with these jobs to scrape, and the alerts.
    fn start(plane: &ControlPlane, scraped: &Value) -> Self {
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [root().join("manifests/chart/files/monitoring/alerts.yaml")],
            "scrape_configs": scraped,
        });
        let path = plane.dir.join("prometheus.json");
        std::fs::write(&path, config.to_string()).expect("it is written");
        let address = format!("127.0.0.1:{}", free_port());
        let mut command = Command::new(program("prometheus"));
        command.args([
            format!("--config.file={}", path.display()),
            format!("--storage.tsdb.path={}", plane.dir.join("tsdb").display()),
            format!("--web.listen-address={address}"),
        ]);
        let log = plane.dir.join("prometheus.log");
        let prometheus = Prometheus {
            _process: Fluxqueue::guarded(command, &log),
            url: format!("http://{address}"),
        };
        until("Prometheus to listen", || prometheus.series("vector(1)").ok());
        prometheus
    }

    /// Returns how many series an expression has now.
    fn series(&self, expression: &str) -> Result<usize, String> {
        let asked = Command::new(program("promtool"))
            .args(["query", "instant", "-o", "json", &self.url, expression])
            .output()
            .expect("promtool runs");
        if !asked.status.success() {
            return Err(String::from_utf8_lossy(&asked.stderr).into_owned());
        }
        let answer: Value = serde_json::from_slice(&asked.stdout).expect("JSON");
        Ok(answer.as_array().expect("a vector").len())
    }
}

/// Starts `kubectl proxy`, by which Prometheus reaches the API server; returns its address.
fn proxy(plane: &ControlPlane) -> (Fluxqueue, String) {
    let port = free_port();
    // The guard reads the first line of output alone, which is its own.
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" >/dev/null", "proxy"]);
    command.arg(testbed()).arg("kubectl");
    command.arg("--kubeconfig").arg(plane.dir.join("admin.kubeconfig"));
    command.args(["proxy", "--address=127.0.0.1", &format!("--port={port}")]);
    (Fluxqueue::guarded(command, &plane.dir.join("proxy.log")), format!("127.0.0.1:{port}"))
}

/// Makes a reader of metrics as docs/operations.md says, and returns the path of its token.
fn reader(plane: &ControlPlane, ns: &Namespace<'_>) -> PathBuf {
    ns.kubectl(&["create", "serviceaccount", "reader"]);
    let who = format!("--serviceaccount={}:reader", ns.name);
    let role = "--clusterrole=fluxqueue-metrics-reader";
    plane.kubectl(&["create", "clusterrolebinding", "reader", role, &who]);
    ns.apply(
        "
apiVersion: v1
kind: Secret
type: kubernetes.io/service-account-token
metadata: {name: reader, annotations: {kubernetes.io/service-account.name: reader}}",
    );
    let token = until("the token of the Secret", || {
        let path = "-o=go-template={{with .data}}{{with .token}}{{. | base64decode}}{{end}}{{end}}";
        Some(ns.kubectl(&["get", "secret", "reader", path])).filter(|token| !token.is_empty())
    });
    let path = plane.dir.join("reader.token");
    std::fs::write(&path, token).expect("it is written");
    path
}

/// The queries of both dashboards, as Grafana sends them.
fn queries() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for name in ["operator.json", "queues.json"] {
        let dashboard: Value = serde_json::from_str(&file(name)).expect("JSON");
        for panel in dashboard["panels"].as_array().expect("panels") {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let expression = target["expr"].as_str().expect("an expression");
                let expression =
                    expression.replace("$__rate_interval", "10s").replace("$queue", ".*");
                all.push((format!("{name}: {}", panel["title"]), expression));
            }
        }
    }
    all
}

#[test]
#[ignore = "needs Prometheus, which is built in some minutes: `make dashboards`"]
fn every_query_of_the_dashboards_has_a_series() {
    let plane = ControlPlane::start(NODES, &[]);
    let monitoring = plane.namespace("monitoring");
    let token = reader(&plane, &monitoring);
    let (_fluxqueue, _, port) = plane.secured_fluxqueue(&[]);
    let metrics = free_port();
    let mut webhook =
        Webhook::start(&plane, &[&format!("--metrics-bind-address=127.0.0.1:{metrics}")]);
    let (_proxy, api_server) = proxy(&plane);
    let target = |address: String| json!([{"targets": [address]}]);
    let prometheus = Prometheus::start(
        &plane,
        &json!([
            {
                "job_name": "fluxqueue-metrics", "scheme": "https",
                "authorization": {"type": "Bearer", "credentials_file": token},
                "tls_config": {"ca_file": plane.certificate(), "server_name": "localhost"},
                "static_configs": target(format!("127.0.0.1:{port}")),
            },
            {
                "job_name": "fluxqueue-webhook-metrics",
                "static_configs": target(format!("127.0.0.1:{metrics}")),
            },
            {"job_name": "apiserver", "static_configs": target(api_server)},
        ]),
    );
    until("all to be scraped", || (prometheus.series("up == 1") == Ok(3)).then_some(()));

    let ns = plane.namespace("shown");
    plane.kubectl(&["label", "namespace", &ns.name, "fluxqueue/admission=enabled"]);
    ns.apply(LIMITED);
    ns.apply(ON_GPU);
    // One job outlives its walltime, and the next one is promised a start meanwhile.
    ns.apply(&timed("first", 4, 3, 8.0));
    ns.state("first", "Running");
    ns.apply(&timed("second", 4, 5, 2.0));
    ns.state("second", "Completed");
    ns.apply(&pod("lone", "1", "infinity", ""));
    ns.apply(&job("waits", 60, "3", "1"));
    // The API server goes on without the webhook, and counts that.
    webhook.process.kill();
    ns.apply(&pod("unasked", "1", "1", "").replace("schedulerName: fluxqueue", ""));

    let queries = queries();
    assert!(queries.len() > 60, "{}", queries.len());
    let mut empty: Vec<&(String, String)> = queries.iter().collect();
    until("each query to have a series", || {
        empty.retain(|(_, expression)| prometheus.series(expression).expect("an answer") == 0);
        empty.retain(|(_, expression)| !AFTER_FAULTS.iter().any(|it| expression.contains(it)));
        eprintln!("without a series yet: {empty:#?}");
        empty.is_empty().then_some(())
    });
    let open = "ALERTS{alertname=\"FluxqueueWebhookFailsOpen\", alertstate=\"firing\"}";
    until("the alert on the webhook", || (prometheus.series(open) != Ok(0)).then_some(()));
    for rule in alerts()["groups"][0]["rules"].as_array().expect("rules") {
        let alert = rule["alert"].as_str().expect("a name");
        let query = format!("ALERTS{{alertname=\"{alert}\", alertstate=\"firing\"}}");
        let is_wrong = alert == "FluxqueueWebhookFailsOpen";
        assert_eq!(prometheus.series(&query).expect("an answer") > 0, is_wrong, "{alert}");
    }
}
