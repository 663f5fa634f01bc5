//! `support-bundle`: collects the material for looking into a fault in one file.
//!
//! These are never in it: Secrets, environments of containers, tokens, and the managers of fields.
//! With `--anonymous` numbers take the place of names (`anonymous.rs`), and there are no logs.
//!
//! Bounds: the file has [`BUNDLE_BYTES_MAX`] bytes, and a part [`PART_BYTES_MAX`]. A part that
//! cannot be had or does not fit is named in `index.txt`, with the reason.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::AsyncReadExt as _;
use jiff::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use fluxqueue_api::text;

use crate::anonymous::{Pseudonyms, without_labels};
use crate::api_path::{Query, Resource};
use crate::args::{BundleArgs, Connection, Leading};
use crate::cluster::{Cluster, Selection};
use crate::console::{Console, said};
use crate::exit::DONE;
use crate::leader::{self, Leader};
use crate::record::Record;

/// The largest bundle in bytes: most mail servers take an attachment of this size.
const BUNDLE_BYTES_MAX: usize = 20 << 20;

/// The largest part in bytes, before it is compressed.
const PART_BYTES_MAX: usize = 8 << 20;

/// Most objects of one kind: the rest would not fit into a part.
const OBJECTS_MAX: usize = 2_000;

/// The last lines and bytes of the log of a pod, and the most pods with logs in the bundle.
const LOG_LINES: usize = 5_000;
const LOG_BYTES_MAX: u64 = 2 << 20;
const LOGS_MAX: usize = 10;

/// The time within which the leader must answer for one part.
const WITHIN: Duration = Duration::from_secs(10);

/// The archive as it is made.
struct Bundle {
    archive: tar::Builder<GzEncoder<Vec<u8>>>,
    index: String,
    pseudonyms: Option<Pseudonyms>,
    now: u64,
}

/// Collects a bundle.
pub(crate) async fn run(
    connection: &Connection,
    args: BundleArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    leader::check(&args.leading)?;
    let cluster = Cluster::connect(connection).await?;
    let file = args.file.clone().unwrap_or_else(|| {
        let now = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
        PathBuf::from(format!("fluxqueue-support-{now}.tar.gz"))
    });
    let shown = text::message(&file.display().to_string()).into_owned();
    ensure!(!file.exists(), "--file: {shown} exists already");
    let mut bundle = Bundle::new(args.anonymous);
    versions(&cluster, &mut bundle).await;
    objects(&cluster, &args.leading, &mut bundle).await;
    of_leader(&cluster, &args, &mut bundle).await;
    if !args.anonymous {
        logs(&cluster, &args.leading.leader_namespace, &mut bundle).await;
    }
    let index = bundle.index.clone();
    let bytes = bundle.finish()?;
    write(&file, &bytes).with_context(|| format!("writing {shown}"))?;
    console.print(&index)?;
    console.print(&format!("{shown}: {} KiB\n", bytes.len().div_ceil(1024)))?;
    Ok(DONE)
}

/// Writes a file that its user alone may read.
fn write(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)?.write_all(bytes)
}

async fn versions(cluster: &Cluster, bundle: &mut Bundle) {
    let server =
        cluster.text("/version").await.and_then(|text| Ok(serde_json::from_str::<Value>(&text)?));
    let server = server.unwrap_or_else(|error| {
        bundle.not_read("the version of Kubernetes", &error);
        Value::Null
    });
    let versions = json!({ "kubectl-fluxqueue": env!("CARGO_PKG_VERSION"), "kubernetes": server });
    // A version is no secret, and all keys of it are ours.
    bundle.add_text("versions.json", Ok(format!("{versions:#}")));
}

/// Selects the objects of Fluxqueue in its namespace, which others may share with it.
fn of_fluxqueue(own: &str) -> Selection {
    let labels = "app.kubernetes.io/name=fluxqueue".to_owned();
    Selection { namespace: Some(own.to_owned()), labels, ..Selection::default() }
}

/// Adds objects of the API server.
async fn objects(cluster: &Cluster, leading: &Leading, bundle: &mut Bundle) {
    let own = leading.leader_namespace.as_str();
    let (all, in_own) = (Selection::default(), of_fluxqueue(own));
    let lease = Selection {
        namespace: Some(own.to_owned()),
        fields: format!("metadata.name={}", leading.leader_lease),
        ..Selection::default()
    };
    let definitions = Resource {
        kind: "CustomResourceDefinition",
        api_version: "apiextensions.k8s.io/v1",
        plural: "customresourcedefinitions",
    };
    let config_maps = Resource { kind: "ConfigMap", api_version: "v1", plural: "configmaps" };
    let nodes = Resource { kind: "Node", api_version: "v1", plural: "nodes" };
    let parts: [(&str, Resource, &Selection); 7] = [
        ("fluxqueues.json", Resource::FLUX_QUEUE, &all),
        ("fluxjobs.json", Resource::FLUX_JOB, &all),
        ("nodes.json", nodes, &all),
        ("own/deployments.json", Resource::DEPLOYMENT, &in_own),
        ("own/pods.json", Resource::POD, &in_own),
        ("own/leases.json", Resource::LEASE, &lease),
        ("own/settings.json", config_maps, &in_own),
    ];
    let mut own_names = vec![leading.leader_lease.clone()];
    for (name, resource, selection) in parts {
        let listed = cluster.list(resource, selection, OBJECTS_MAX).await;
        if let (true, Ok(listed)) = (name.starts_with("own/"), &listed) {
            own_names.extend(listed.items.iter().map(|raw| Record::read(raw).metadata.name));
        }
        bundle.add_objects(name, listed.map(|listed| listed.items));
    }
    let in_namespace = Selection { namespace: Some(own.to_owned()), ..Selection::default() };
    let events = cluster.list(Resource::EVENT, &in_namespace, OBJECTS_MAX).await;
    let events = events.map(|listed| {
        listed.items.into_iter().filter(|event| is_about(event, &own_names)).collect()
    });
    bundle.add_objects("own/events.json", events);
    for name in ["fluxjobs", "fluxqueues"] {
        let crd: anyhow::Result<Option<Value>> =
            cluster.get(definitions, None, &format!("{name}.jobs.converged-computing.org")).await;
        let status = crd.map(|crd| crd.map_or(Value::Null, |mut crd| crd["status"].take()));
        bundle.add_value(&format!("definition-{name}.json"), status);
    }
}

/// True if an Event is about one of these objects, or about one that a Deployment of them made.
fn is_about(event: &RawValue, names: &[String]) -> bool {
    let event: Value = serde_json::from_str(event.get()).unwrap_or_default();
    let about = event.pointer("/involvedObject/name").and_then(Value::as_str).unwrap_or_default();
    names.iter().any(|name| {
        let rest = about.strip_prefix(name.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    })
}

/// Adds the leader's outlook, state, readiness and metrics.
async fn of_leader(cluster: &Cluster, args: &BundleArgs, bundle: &mut Bundle) {
    let leader = match Leader::find(cluster, &args.leading).await {
        Ok(leader) => leader,
        Err(error) => {
            bundle.not_read("leader", &error);
            return;
        }
    };
    let outlook = leader.ask("/outlook", &json!({}), WITHIN).await;
    bundle.add_value("leader/outlook.json", outlook);
    let state = leader.get("/debug/state", WITHIN).await;
    let state = state.and_then(|text| Ok(serde_json::from_str::<Value>(&text)?));
    bundle.add_value("leader/state.json", state);
    let ready = leader.get("/readyz?verbose", WITHIN).await;
    bundle.add_text("leader/readyz.txt", ready);
    let metrics = leader.get("/metrics", WITHIN).await;
    let is_anonymous = bundle.pseudonyms.is_some();
    let metrics = metrics.map(|text| if is_anonymous { without_labels(&text) } else { text });
    bundle.add_text("leader/metrics.txt", metrics);
}

/// Adds the logs of Fluxqueue's own pods.
async fn logs(cluster: &Cluster, own: &str, bundle: &mut Bundle) {
    let listed = match cluster.list(Resource::POD, &of_fluxqueue(own), LOGS_MAX).await {
        Ok(listed) => listed,
        Err(error) => return bundle.not_read("own/logs", &error),
    };
    for raw in listed.items {
        let name = Record::read(&raw).metadata.name;
        if crate::api_path::check_name(&name).is_err() {
            continue;
        }
        let query = Query::default().with("tailLines", &LOG_LINES.to_string());
        let path = Resource::POD.path_of(Some(own), &name) + "/log" + query.as_str();
        let log = async {
            let stream = std::pin::pin!(cluster.stream(&path).await?);
            let mut bytes = Vec::new();
            stream.take(LOG_BYTES_MAX).read_to_end(&mut bytes).await?;
            Ok::<_, anyhow::Error>(String::from_utf8_lossy(&bytes).into_owned())
        };
        let log = log.await;
        bundle.add_text(&format!("own/logs/{name}.log"), log);
    }
}

impl Bundle {
    fn new(is_anonymous: bool) -> Self {
        let encoder = GzEncoder::new(Vec::new(), Compression::default());
        Bundle {
            archive: tar::Builder::new(encoder),
            index: String::new(),
            pseudonyms: is_anonymous.then(Pseudonyms::default),
            now: u64::try_from(Timestamp::now().as_second()).unwrap_or(0),
        }
    }

    fn add_objects(&mut self, name: &str, objects: anyhow::Result<Vec<Box<RawValue>>>) {
        let values = objects.and_then(|objects| {
            let values = objects.iter().map(|raw| serde_json::from_str(raw.get()));
            Ok(Value::Array(values.collect::<Result<_, _>>()?))
        });
        self.add_value(name, values);
    }

    /// Adds a value, without the members that no bundle may have.
    fn add_value(&mut self, name: &str, value: anyhow::Result<Value>) {
        let text = value.map(|mut value| {
            redact(&mut value);
            if let Some(pseudonyms) = &mut self.pseudonyms {
                pseudonyms.replace(&mut value, "");
            }
            format!("{value:#}")
        });
        self.add_text(name, text);
    }

    fn add_text(&mut self, name: &str, text: anyhow::Result<String>) {
        match text.map(|text| self.append(name, &text)) {
            Ok(Ok(())) => {
                let _ = writeln!(self.index, "{name}");
            }
            // It does not fit, and the error names no object.
            Ok(Err(error)) => self.left_out(name, &said(&error)),
            Err(error) => self.not_read(name, &error),
        }
    }

    /// Notes that a part could not be read, with the error unless that may name objects.
    fn not_read(&mut self, name: &str, error: &anyhow::Error) {
        let is_anonymous = self.pseudonyms.is_some();
        let why = if is_anonymous { "it could not be read".to_owned() } else { said(error) };
        self.left_out(name, &why);
    }

    fn left_out(&mut self, name: &str, why: &str) {
        let _ = writeln!(self.index, "{name}: left out: {why}");
    }

    fn append(&mut self, name: &str, text: &str) -> anyhow::Result<()> {
        ensure!(text.len() <= PART_BYTES_MAX, "it has more than {PART_BYTES_MAX} bytes");
        // Text that does not compress at all takes its length and a little more; the index comes
        // last.
        let taken = self.archive.get_ref().get_ref().len() + text.len() / 8;
        ensure!(taken <= BUNDLE_BYTES_MAX - PART_BYTES_MAX, "the bundle is full");
        self.write(name, text)
    }

    fn write(&mut self, name: &str, text: &str) -> anyhow::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(self.now);
        Ok(self.archive.append_data(&mut header, name, text.as_bytes())?)
    }

    fn finish(mut self) -> anyhow::Result<Vec<u8>> {
        let index = std::mem::take(&mut self.index);
        self.write("index.txt", &index)?;
        let bytes = self.archive.into_inner()?.finish()?;
        ensure!(bytes.len() <= BUNDLE_BYTES_MAX, "the bundle has {} bytes", bytes.len());
        Ok(bytes)
    }
}

/// Removes the members that no bundle may have, at any depth.
fn redact(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|key, _| {
                !matches!(
                    key.as_str(),
                    "env"
                        | "envFrom"
                        | "managedFields"
                        | "token"
                        | "password"
                        | "caBundle"
                        | "kubectl.kubernetes.io/last-applied-configuration"
                )
            });
            if members.get("kind").and_then(Value::as_str) == Some("Secret") {
                members.retain(|key, _| key == "kind");
            }
            members.values_mut().for_each(redact);
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::io::Read as _;

    fn job() -> Value {
        json!({
            "kind": "FluxJob", "apiVersion": "jobs.converged-computing.org/v1alpha1",
            "metadata": { "name": "secret-project-job-1", "namespace": "lab", "managedFields": [{
                "manager": "ann" }],
                "labels": { "fluxqueue/workload-name": "secret-project", "team": "moon" } },
            "spec": { "overrides": { "holds": [{ "by": "ann@example.com",
                "reason": "audit of moon" }] },
                "workloadRef": { "kind": "Job", "name": "secret-project", "uid": "u-1" } },
            "status": { "state": "Held", "queueName": "moon", "walltimeSeconds": 60,
                "blockedBy": [{ "reason": "Held", "message": "held by ann@example.com" }] },
        })
    }

    #[test]
    fn secrets_environments_and_managers_are_in_no_bundle() {
        let mut value = json!({ "items": [
            { "kind": "Secret", "data": { "a": "aaaa" } },
            { "kind": "Pod", "spec": { "containers": [{ "env": [{ "name": "TOKEN",
                "value": "bbbb" }], "args": ["run"] }] },
              "metadata": { "managedFields": ["cccc"],
                "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "dddd" } } },
        ]});
        redact(&mut value);
        let text = value.to_string();
        for hidden in ["aaaa", "bbbb", "cccc", "dddd"] {
            assert!(!text.contains(hidden), "{text}");
        }
        assert!(text.contains("run"));
    }

    #[test]
    fn an_anonymous_bundle_names_nothing_and_is_still_of_use() {
        let mut value = json!({ "one": job(), "jobs": { "lab/secret-project-job-1": {
            "state": "Held" } },
            "nodes": { "moon-node-1": { "rank": 3 } }, "addresses": ["10.1.2.3"] });
        let mut pseudonyms = Pseudonyms::default();
        redact(&mut value);
        pseudonyms.replace(&mut value, "");
        let text = value.to_string();
        for hidden in ["secret", "\"lab\"", "lab/", "moon", "ann@", "audit", "u-1", "10.1.2.3"] {
            assert!(!text.contains(hidden), "{hidden} in {text}");
        }
        assert_eq!(value["one"]["status"]["state"], "Held");
        assert_eq!(value["one"]["status"]["walltimeSeconds"], 60);
        let labels = &value["one"]["metadata"]["labels"];
        assert_eq!(
            labels["fluxqueue/workload-name"], value["one"]["spec"]["workloadRef"]["name"],
            "the same text has the same number"
        );
    }

    #[test]
    fn an_anonymous_bundle_says_whether_a_part_is_missing_or_too_large() {
        let mut bundle = Bundle::new(true);
        bundle.add_text("large.txt", Ok("x".repeat(PART_BYTES_MAX + 1)));
        bundle.add_value("state.json", Err(anyhow::anyhow!("ann@example.com may not")));
        assert_eq!(
            bundle.index,
            "large.txt: left out: it has more than 8388608 bytes\n\
             state.json: left out: it could not be read\n"
        );
    }

    #[test]
    fn a_bundle_is_an_archive_with_an_index_of_what_is_left_out() {
        let mut bundle = Bundle::new(false);
        bundle.add_value("fluxjobs.json", Ok(json!([job()])));
        bundle.add_text("large.txt", Ok("x".repeat(PART_BYTES_MAX + 1)));
        bundle.add_value("state.json", Err(anyhow::anyhow!("forbidden\u{1b}[2J")));
        let bytes = bundle.finish().unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let mut parts = HashMap::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            parts.insert(entry.path().unwrap().display().to_string(), text);
        }
        assert!(parts["fluxjobs.json"].contains("secret-project"));
        assert_eq!(
            parts["index.txt"],
            "fluxjobs.json\nlarge.txt: left out: it has more than 8388608 bytes\n\
             state.json: left out: forbidden\\u{1b}[2J\n"
        );
    }

    #[test]
    fn a_bundle_never_grows_beyond_its_bound() {
        let mut bundle = Bundle::new(false);
        // Text that hardly compresses.
        let mut state = 1_u64;
        let mut noise = String::new();
        while noise.len() < 6 << 20 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let _ = write!(noise, "{state:x}");
        }
        for at in 0..8 {
            bundle.add_text(&format!("{at}"), Ok(noise.clone()));
        }
        assert!(bundle.index.contains("the bundle is full"));
        assert!(bundle.finish().unwrap().len() <= BUNDLE_BYTES_MAX);
    }
}
