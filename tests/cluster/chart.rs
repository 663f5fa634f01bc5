//! The Helm chart: it renders the same objects as the kustomizations, refuses values that make no
//! sense, and can be installed, upgraded and uninstalled.
//!
//! The tests need Helm's binary besides the testbed's (`make helm`).

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{ControlPlane, Namespace, job, pod, root, testbed, until};
use crate::webhook::{free_port, process, trusted};

/// Objects by kind and name. No two namespaced objects of ours have the same.
pub(crate) type Objects = BTreeMap<(String, String), Value>;

const NAMESPACE: &str = "fluxqueue-system";

/// Returns the values that tests install with besides their own: the chart names no image.
pub(crate) fn image() -> String {
    root().join("tests/helm/image.yaml").display().to_string()
}

pub(crate) fn chart() -> PathBuf {
    root().join("manifests/chart")
}

/// Runs Helm 4, or the program that `make helm3` names. Returns true if it succeeded, and its
/// output on stdout and stderr.
pub(crate) fn try_helm(args: &[&str], values: &str) -> (bool, String, String) {
    let named = std::env::var_os("FLUXQUEUE_HELM");
    let path = named.map_or_else(|| root().join("tests/helm/bin/helm"), PathBuf::from);
    assert!(
        path.exists(),
        "helm is not built: run `make helm` first ({} is missing)",
        path.display()
    );
    let mut helm = Command::new(path);
    helm.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = helm.spawn().expect("helm starts");
    child.stdin.take().expect("stdin is piped").write_all(values.as_bytes()).expect("helm reads");
    let out = child.wait_with_output().expect("helm ends");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (out.status.success(), text(out.stdout), text(out.stderr))
}

/// Runs `helm template`, without the objects of `helm test`.
pub(crate) fn try_template(values: &str) -> (bool, String, String) {
    let (chart, image) = (chart(), image());
    let chart = chart.to_str().expect("a path");
    let args = ["template", "fluxqueue", chart, "-n", NAMESPACE, "--skip-tests", "-f", &image];
    try_helm(&[&args[..], &["-f", "-"]].concat(), values)
}

/// Returns the objects that the chart renders with these values.
pub(crate) fn templated(values: &str) -> Objects {
    let (ok, out, err) = try_template(values);
    assert!(ok, "{values}: {err}");
    objects(&out)
}

pub(crate) fn objects(text: &str) -> Objects {
    let mut all = Objects::new();
    for object in serde_saphyr::from_multiple::<Value>(text).expect("YAML") {
        let of = |text: &Value| text.as_str().expect("a text").to_owned();
        let key = (of(&object["kind"]), of(&object["metadata"]["name"]));
        let before = all.insert(key, object);
        assert!(before.is_none(), "twice: {before:?}");
    }
    all
}

/// Finds the object of this kind and name.
pub(crate) fn find<'a>(objects: &'a Objects, kind: &str, name: &str) -> Option<&'a Value> {
    objects.get(&(kind.to_owned(), name.to_owned()))
}

/// Returns the object of this kind and name, which must be there.
pub(crate) fn the<'a>(objects: &'a Objects, kind: &str, name: &str) -> &'a Value {
    find(objects, kind, name).unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// Returns the objects of these kustomizations without the Namespace, which Helm makes itself.
fn kustomized(folders: &[&str]) -> Objects {
    let mut all = Objects::new();
    for folder in folders {
        let path = root().join("manifests").join(folder);
        let out = Command::new(testbed())
            .args(["kubectl", "kustomize"])
            .arg(path)
            .output()
            .expect("kubectl runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        all.extend(objects(std::str::from_utf8(&out.stdout).expect("text")));
    }
    let namespace = all.remove(&("Namespace".to_owned(), NAMESPACE.to_owned()));
    assert_eq!(namespace.is_some(), folders.contains(&"base"));
    for ((kind, _), object) in &mut all {
        // kustomize does not know yet that these kinds are cluster-scoped; the API server does.
        if kind.starts_with("ValidatingAdmissionPolicy") {
            object["metadata"].as_object_mut().expect("metadata").remove("namespace");
        }
    }
    all
}

#[test]
fn the_chart_gives_what_the_kustomizations_give() {
    let cases: [(&str, &[&str]); 4] = [
        ("", &["crds", "base"]),
        ("webhook: {enabled: true}", &["crds", "base", "webhook"]),
        (
            "webhook: {enabled: true, certManager: {enabled: true}}",
            &["crds", "base", "overlays/webhook-cert-manager"],
        ),
        (
            "{admissionPolicies: {enabled: true}, crds: {enabled: false}}",
            &["base", "admission-policies"],
        ),
    ];
    for (values, folders) in cases {
        let (mut chart, kustomizations) = (templated(values), kustomized(folders));
        for ((kind, name), object) in &mut chart {
            // Changed settings restart the replicas.
            if (kind.as_str(), name.as_str()) == ("Deployment", "fluxqueue") {
                let pod = object.pointer_mut("/spec/template/metadata").expect("a template");
                let annotations = pod.as_object_mut().expect("metadata").remove("annotations");
                let names: Vec<_> = annotations.iter().filter_map(Value::as_object).collect();
                assert!(names.iter().all(|all| all.keys().eq(["checksum/settings"])), "{names:?}");
            }
            if kind == "CustomResourceDefinition" {
                let annotations =
                    object["metadata"].as_object_mut().expect("metadata").remove("annotations");
                assert_eq!(annotations, Some(json!({"helm.sh/resource-policy": "keep"})), "{name}");
            }
        }
        let keys = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&chart), keys(&kustomizations), "{values}");
        for (key, object) in &chart {
            assert_eq!(object, &kustomizations[key], "{values}: {key:?}");
        }
    }
}

/// With another namespace, every reference to ours names that one.
#[test]
fn the_chart_goes_where_it_is_told() {
    let (chart, image) = (chart(), image());
    let args = [
        "template",
        "fluxqueue",
        chart.to_str().expect("a path"),
        "-n",
        "hpc",
        "-f",
        &image,
        "--set",
        "webhook.enabled=true",
    ];
    let (ok, out, err) = try_helm(&args, "");
    assert!(ok, "{err}");
    assert!(!out.contains(NAMESPACE), "{out}");
    for object in
        objects(&out).values().filter(|object| object["kind"].as_str() == Some("Deployment"))
    {
        assert_eq!(object["metadata"]["namespace"], "hpc");
    }
}

/// The simulated kubelets run no programs, so our pods would end at once and never be available.
const LASTING: &str = "podAnnotations: {testbed/run-seconds: '100000'}";

/// Helm, run as the admin of a control plane.
struct Release<'a>(&'a ControlPlane);

impl Release<'_> {
    fn attempt(&self, command: &str, more: &[&str], values: &str) -> (bool, String, String) {
        let kubeconfig = self.0.dir.join("admin.kubeconfig");
        let own =
            ["-n", NAMESPACE, "--timeout=2m", "--kubeconfig", kubeconfig.to_str().expect("a path")];
        try_helm(&[&[command, "fluxqueue"], more, &own].concat(), values)
    }

    fn run(&self, command: &str, more: &[&str], values: &str) {
        let (ok, out, err) = self.attempt(command, more, values);
        assert!(ok, "helm {command}: {out}{err}");
    }

    fn install(&self, chart: &Path, values: &str) {
        let (chart, image) = (chart.to_str().expect("a path"), image());
        let more = [chart, "--create-namespace", "--wait", "-f", &image, "-f", "-"];
        self.run("install", &more, values);
    }

    fn upgrade(&self, values: &str) -> (bool, String, String) {
        let (chart, image) = (chart(), image());
        let more = [chart.to_str().expect("a path"), "--wait", "-f", &image, "-f", "-"];
        self.attempt("upgrade", &more, values)
    }
}

/// Makes the chart of an older release, in which FluxJobs had no estimates.
fn older_chart(plane: &ControlPlane) -> PathBuf {
    let copy = plane.dir.join("older-chart");
    let copied = Command::new("cp").arg("-r").arg(chart()).arg(&copy).status().expect("cp runs");
    assert!(copied.success());
    let path = copy.join("files/crds/fluxjobs.yaml");
    let text = std::fs::read_to_string(&path).expect("the definition");
    let mut definition: Value = serde_saphyr::from_str(&text).expect("YAML");
    let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
    let status = definition
        .pointer_mut(status)
        .and_then(Value::as_object_mut)
        .expect("the schema of the status");
    status.remove("estimatedStart").expect("the field");
    std::fs::write(path, definition.to_string()).expect("it is written");
    copy
}

fn secret(plane: &ControlPlane) -> String {
    plane.kubectl(&["get", "secret", "fluxqueue-webhook", "-n", NAMESPACE, "-o=jsonpath={.data}"])
}

fn leader(plane: &ControlPlane) -> String {
    plane
        .try_kubectl(
            &["get", "lease", "fluxqueue", "-n", NAMESPACE, "-o=jsonpath={.spec.holderIdentity}"],
            "",
        )
        .1
}

#[test]
fn the_chart_is_installed_upgraded_uninstalled_and_installed_again() {
    let nodes = "groups:\n- {namePrefix: n-, count: 3, cpu: '4', memory: 16Gi, pods: 110}\n";
    let plane = ControlPlane::bare(nodes, &["--kube-scheduler"]);
    let release = Release(&plane);
    // The older release's definition lacks a field, so this process does not lead.
    let lasting = |scheduler: &str, webhook: &str| {
        let test = "test: {podAnnotations: {testbed/run-seconds: '1'}}";
        format!(
            "{test}\nscheduler: {{{scheduler}, {LASTING}}}\nwebhook: {{{webhook}, {LASTING}}}\n"
        )
    };
    release.install(&older_chart(&plane), &lasting("replicas: 2", "enabled: true"));
    let mut fluxqueue = plane.fluxqueue(&["--leader-elect=true"]);
    let log = plane.dir.join("fluxqueue.log");
    until("the older definition to be noticed", || {
        std::fs::read_to_string(&log).is_ok_and(|log| log.contains("estimatedStart")).then_some(())
    });
    assert_eq!(leader(&plane), "");
    let webhook = process(&plane, free_port(), &[]);
    until("certificates", || (!trusted(&plane).is_empty()).then_some(()));
    let (authority, certificate) = (trusted(&plane), secret(&plane));

    // The upgrade brings the new definition, and keeps the fields that the webhook has written.
    let settings = "settings: {queuePolicy: conservative, recordLonePods: true}";
    let (ok, _, err) = release.upgrade(&(lasting("replicas: 1", "enabled: true") + settings));
    assert!(ok, "{err}");
    until("a leader", || (!leader(&plane).is_empty()).then_some(()));
    assert_eq!((trusted(&plane), secret(&plane)), (authority, certificate));
    let replicas =
        ["get", "deployment", "fluxqueue", "-n", NAMESPACE, "-o=jsonpath={.spec.replicas}"];
    assert_eq!(plane.kubectl(&replicas), "1");

    // Nonsensical values change nothing.
    let (ok, _, err) = release.upgrade("scheduler: {replicas: 0}");
    assert!(!ok && err.contains("/scheduler/replicas"), "{err}");
    assert_eq!(plane.kubectl(&replicas), "1");

    // The process reads the settings as they were written.
    fluxqueue.terminate();
    let file = plane.dir.join("settings.yaml");
    let text = plane.kubectl(&[
        "get",
        "configmap",
        "fluxqueue",
        "-n",
        NAMESPACE,
        "-o=jsonpath={.data.config\\.yaml}",
    ]);
    std::fs::write(&file, text).expect("it is written");
    let config = format!("--config={}", file.display());
    let mut fluxqueue = plane.fluxqueue(&[&config]);
    let ns = plane.namespace("chart");
    ns.apply(&pod("lone", "500m", "infinity", ""));
    ns.apply(&job("solve", 2, "3", "infinity"));
    ns.running(3);
    ns.apply(&job("waits", 3, "3", "1"));
    let before =
        [ns.state("lone", "Running"), ns.state("solve", "Running"), ns.state("waits", "Pending")];
    fluxqueue.terminate();
    drop(webhook);

    // Uninstalling leaves running pods and the order of the queue as they are.
    release.run("uninstall", &["--wait"], "");
    for object in [
        "clusterrole/fluxqueue",
        "clusterrole/fluxqueue-view",
        "mutatingwebhookconfiguration/fluxqueue",
    ] {
        assert!(!plane.try_kubectl(&["get", object], "").0, "{object} is still there");
    }
    assert!(
        plane
            .kubectl(&["get", "deployments,configmaps", "-n", NAMESPACE, "-o=name"])
            .lines()
            .all(is_kubernetes_own)
    );
    ns.running(3);
    assert_eq!(identities(&ns).len(), 3);
    release.install(&chart(), &lasting("replicas: 2", "enabled: false"));
    let _fluxqueue = plane.fluxqueue(&[]);
    release.run("test", &[], "");
    ns.apply(&job("later", 3, "3", "1"));
    ns.flux_job("later", "waits behind the other", |job| job["status"]["position"] == 2);
    let ids: Vec<_> = before.iter().map(|job| job["metadata"]["uid"].clone()).collect();
    let now = identities(&ns);
    assert!(ids.iter().all(|id| now.contains(id)), "{ids:?} and {now:?}");
}

#[test]
fn a_release_takes_over_what_kubectl_has_installed() {
    let plane = ControlPlane::start(crate::harness::NODES, &["--kube-scheduler"]);
    let path = root().join("manifests/base");
    plane.kubectl(&["apply", "--server-side", "-k", path.to_str().expect("a path")]);
    let (chart, image) = (chart(), image());
    let release = Release(&plane);
    let install = [chart.to_str().expect("a path"), "--wait", "-f", &image];
    let (ok, _, err) = release.attempt("install", &install, "");
    assert!(!ok && err.contains("invalid ownership metadata"), "{err}");
    let values = format!("scheduler: {{{LASTING}}}");
    // Helm 3 does not apply on the server's side: it has no such conflicts, and no such flag.
    let (_, version, _) = try_helm(&["version", "--short"], "");
    let force: &[&str] = if version.starts_with("v3.") { &[] } else { &["--force-conflicts"] };
    let take_over = ["--take-ownership", "-f", "-"];
    release.run("install", &[&install[..], &take_over, force].concat(), &values);
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("taken-over");
    ns.apply(&job("solve", 2, "1", "infinity"));
    ns.running(2);
}

/// True for a ConfigMap that every namespace has.
fn is_kubernetes_own(name: &str) -> bool {
    name == "configmap/kube-root-ca.crt"
}

/// Returns the uids of all FluxJobs in this namespace.
fn identities(ns: &Namespace<'_>) -> Vec<Value> {
    ns.list("fluxjobs").into_iter().map(|job| job["metadata"]["uid"].clone()).collect()
}
