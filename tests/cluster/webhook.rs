//! A webhook process beside a control plane, and the manifests that make the API server call it.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::harness::{ControlPlane, Fluxqueue, root, until};

/// A running `fluxqueue webhook`. It is killed when the value is dropped.
pub(crate) struct Webhook {
    pub(crate) process: Fluxqueue,
    /// The port on the loopback address.
    pub(crate) port: u16,
}

/// Returns a port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port()
}

/// Returns the manifests of a kustomization, with the API server directed to this port: the webhook
/// is in no cluster network here.
fn manifests(plane: &ControlPlane, kustomization: &str, port: u16) -> String {
    let path = root().join("manifests").join(kustomization);
    let text = plane.kubectl(&["kustomize", &path.display().to_string()]);
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    // There are no containers here, and no Service leads anywhere.
    objects.retain(|object| object["kind"] != "Deployment");
    for object in &mut objects {
        for webhook in webhooks_of(object) {
            let path =
                webhook["clientConfig"]["service"]["path"].as_str().expect("a path").to_owned();
            webhook["clientConfig"] =
                serde_json::json!({"url": format!("https://localhost:{port}{path}")});
        }
    }
    serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}

/// Returns the webhooks of a configuration. Other objects have none.
fn webhooks_of(object: &mut Value) -> impl Iterator<Item = &mut Value> {
    object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten()
}

/// Applies manifests as `kubectl apply --server-side` does.
fn install(plane: &ControlPlane, manifests: &str) {
    let (ok, _, err) = plane.try_kubectl(&["apply", "--server-side", "-f", "-"], manifests);
    assert!(ok, "kubectl apply: {err}");
}

/// Installs `manifests/webhook` with this PEM as the trusted authority, as cert-manager would set
/// it.
pub(crate) fn install_trusting(plane: &ControlPlane, port: u16, trusted: &str) {
    let bundle =
        serde_json::to_value(k8s_openapi::ByteString(trusted.as_bytes().to_vec())).expect("text");
    let mut objects: Value =
        serde_json::from_str(&manifests(plane, "webhook", port)).expect("JSON");
    for object in objects["items"].as_array_mut().expect("a list") {
        for webhook in webhooks_of(object) {
            webhook["clientConfig"]["caBundle"] = bundle.clone();
        }
    }
    install(plane, &objects.to_string());
}

impl Webhook {
    /// Installs `manifests/webhook`, starts a process with its rights, and returns when the API
    /// server trusts it.
    pub(crate) fn start(plane: &ControlPlane, flags: &[&str]) -> Self {
        let port = free_port();
        install(plane, &manifests(plane, "webhook", port));
        let webhook = Webhook { process: process(plane, port, flags), port };
        until("the API server to trust the webhook", || (!trusted(plane).is_empty()).then_some(()));
        webhook
    }
}

/// Starts a process at this port, under the service account of `manifests/webhook`.
pub(crate) fn process(plane: &ControlPlane, port: u16, flags: &[&str]) -> Fluxqueue {
    let kubeconfig = plane.account("fluxqueue-webhook");
    let mut args = vec!["webhook".to_owned(), format!("--bind-address=127.0.0.1:{port}")];
    if !flags.iter().any(|flag| flag.starts_with("--tls-cert-file=")) {
        args.push(format!("--kubeconfig={}", kubeconfig.display()));
    }
    args.extend(flags.iter().map(|flag| (*flag).to_owned()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_fluxqueue"));
    command.args(args);
    Fluxqueue::guarded(command, &plane.dir.join("webhook.log"))
}

/// Returns the authority that the API server trusts, as PEM. All webhooks name the same one.
pub(crate) fn trusted(plane: &ControlPlane) -> String {
    let path = "-o=jsonpath={.items[*].webhooks[*].clientConfig.caBundle}";
    let text = plane.kubectl(&[
        "get",
        "mutatingwebhookconfigurations,validatingwebhookconfigurations",
        path,
    ]);
    let mut bundles: Vec<&str> = text.split_whitespace().collect();
    let of_each = bundles.len();
    bundles.dedup();
    if bundles.len() == 1 && of_each == 6 { bundles[0].to_owned() } else { String::new() }
}

/// A certificate and its key, in files.
pub(crate) struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    pub(crate) fn in_dir(plane: &ControlPlane) -> Self {
        Files { certificate: plane.dir.join("webhook.crt"), key: plane.dir.join("webhook.key") }
    }

    pub(crate) fn write(&self, certificate: &rcgen::Certificate, key: &rcgen::KeyPair) {
        fs::write(&self.certificate, certificate.pem()).expect("it is written");
        fs::write(&self.key, key.serialize_pem()).expect("it is written");
    }

    pub(crate) fn flags(&self) -> [String; 2] {
        [
            format!("--tls-cert-file={}", self.certificate.display()),
            format!("--tls-private-key-file={}", self.key.display()),
        ]
    }
}
