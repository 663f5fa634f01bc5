//! Lists of objects, which tests request again and again while they wait.
//!
//! The requests go to the API server directly: a kubectl for each would take more CPU than the rest
//! of the test.

use std::path::Path;
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use tokio::runtime::Runtime;

/// Paths of the kinds that are listed like this.
const PATHS: [(&str, &str); 6] = [
    ("pods", "/api/v1"),
    ("events", "/api/v1"),
    ("pvc", "/api/v1"),
    ("jobs", "/apis/batch/v1"),
    ("replicasets", "/apis/apps/v1"),
    ("fluxjobs", "/apis/jobs.converged-computing.org/v1alpha1"),
];

/// Most requests for one list. A connection from before a restart of the API server gives no
/// answer.
const ATTEMPTS: u32 = 3;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

/// A client that lists objects of one API server, as the admin.
#[derive(Default)]
pub(crate) struct Lists {
    client: OnceLock<Client>,
}

impl Lists {
    /// Lists the objects of these kinds, such as `fluxjobs,pods`, in order of names. `None` if only
    /// kubectl can list one of them.
    pub(crate) fn of(&self, kubeconfig: &Path, namespace: &str, kinds: &str) -> Option<Vec<Value>> {
        let paths: Option<Vec<String>> =
            kinds.split(',').map(|kind| path(namespace, kind)).collect();
        let client = self.client.get_or_init(|| RUNTIME.block_on(client(kubeconfig)));
        Some(paths?.iter().flat_map(|path| RUNTIME.block_on(list(client, path))).collect())
    }
}

fn path(namespace: &str, kind: &str) -> Option<String> {
    let (_, group) = PATHS.iter().find(|(known, _)| *known == kind)?;
    let plural = if kind == "pvc" { "persistentvolumeclaims" } else { kind };
    Some(format!("{group}/namespaces/{namespace}/{plural}"))
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("a configuration");
    Client::try_from(config).expect("a client")
}

async fn list(client: &Client, path: &str) -> Vec<Value> {
    let mut attempt = 1;
    let mut list: Value = loop {
        let request = Request::get(path).body(Vec::new()).expect("a request");
        match client.request(request).await {
            Ok(list) => break list,
            Err(error) => assert!(attempt < ATTEMPTS, "listing {path}: {error}"),
        }
        attempt += 1;
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    // Items in lists of Kubernetes' own kinds do not name their kind.
    let kind =
        list["kind"].as_str().map_or(Value::Null, |kind| kind.trim_end_matches("List").into());
    let api_version = list["apiVersion"].clone();
    let mut items = match list["items"].take() {
        Value::Array(items) => items,
        other => panic!("listing {path}: {other}"),
    };
    for item in &mut items {
        (item["kind"], item["apiVersion"]) = (kind.clone(), api_version.clone());
    }
    items
}
