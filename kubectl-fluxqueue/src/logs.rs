//! `logs`: shows the output of the pods of a job.
//!
//! Bounds: [`PODS_MAX`] pods are read at once, and a line on standard error says how many were left
//! out. On a terminal, control characters other than tabs are escaped, and colours are lost with
//! them; `--raw` leaves all as it is.

use anyhow::{Context as _, bail};
use futures::stream::{FuturesUnordered, StreamExt as _};
use futures::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

use fluxqueue_api::syntax::is_label_name;
use fluxqueue_api::{names, text};

use crate::api_path::{Query, Resource};
use crate::args::{Connection, LogsArgs};
use crate::cluster::{Cluster, Selection};
use crate::console::{Console, is_harmless};
use crate::exit::{DONE, FAILED};
use crate::find::{Found, Pod, find, group_of};
use crate::record::Record;

/// Most pods with logs on screen at once: more would be hard to read.
const PODS_MAX: usize = 20;

/// Most pods of a job that are listed.
const LISTED_MAX: usize = 1_000;

/// The longest line in bytes that is kept in one piece.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Shows the output of the pods of a job.
pub(crate) async fn run(
    connection: &Connection,
    args: LogsArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    let cluster = Cluster::connect(connection).await?;
    let (job, mut pods) = match find(&cluster, &args.job).await? {
        Found::Record(record, _) => (record.shown(), pods_of(&cluster, &record).await?),
        Found::Pod(pod) => (format!("pod/{}", text::name(&pod.metadata.name)), vec![*pod]),
    };
    if let Some(index) = args.index {
        pods.retain(|pod| index_of(pod) == Some(index));
        if pods.is_empty() {
            bail!("{job}: it has no pod with completion index {index}");
        }
    }
    let waiting = pods.iter().filter(|pod| pod.spec.node_name.is_empty()).count();
    pods.retain(|pod| !pod.spec.node_name.is_empty());
    if pods.is_empty() {
        bail!(
            "{job}: none of its pods has a node yet ({waiting} wait); see `kubectl fluxqueue why`"
        );
    }
    pods.sort_by_key(|pod| (index_of(pod), pod.metadata.name.clone()));
    if pods.len() > PODS_MAX {
        let more = pods.len() - PODS_MAX;
        console.note(&format!("The logs of {more} more pods are left out: name one by --index."));
        pods.truncate(PODS_MAX);
    }
    let is_escaped = console.look.width.is_some() && !args.raw;
    let tail = args.tail.or((pods.len() > 1).then_some(10)).filter(|lines| *lines >= 0);
    let mut failures = 0;
    let mut streams = FuturesUnordered::new();
    for pod in &pods {
        let prefix = if pods.len() > 1 {
            format!("{}: ", text::name(&pod.metadata.name))
        } else {
            String::new()
        };
        match cluster.stream(&path(pod, &args, tail)?).await {
            Ok(stream) => streams.push(next_line(Box::pin(stream), prefix)),
            Err(error) => {
                failures += 1;
                let error = error.context(format!("reading the log of pod {}", pod.metadata.name));
                console.note(&format!("error: {}", crate::console::said(&error)));
            }
        }
    }
    while let Some(read) = streams.next().await {
        let (line, stream, prefix) = read.context("reading a log")?;
        if line.is_empty() {
            continue;
        }
        console.print(&prefix)?;
        if is_escaped {
            console.print(&escaped(&line))?;
        } else {
            console.print_bytes(&line)?;
        }
        if args.follow {
            console.flush()?;
        }
        streams.push(next_line(stream, prefix));
    }
    Ok(if failures == 0 { DONE } else { FAILED })
}

type Stream = std::pin::Pin<Box<dyn AsyncBufRead>>;

/// Returns the next line of a log, with its end; nothing at the end of the log. A line that is too
/// long comes in parts.
async fn next_line(
    mut stream: Stream,
    prefix: String,
) -> std::io::Result<(Vec<u8>, Stream, String)> {
    let mut line = Vec::new();
    (&mut stream).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
    if !line.is_empty() && line.last() != Some(&b'\n') && (line.len() as u64) < LINE_BYTES_MAX {
        line.push(b'\n');
    }
    Ok((line, stream, prefix))
}

/// Returns a line for a terminal: without control characters other than tabs and its end.
fn escaped(line: &[u8]) -> String {
    let mut safe = String::with_capacity(line.len());
    // A carriage return before the end of a line has no effect.
    let text = String::from_utf8_lossy(line).replace("\r\n", "\n");
    for c in text.chars() {
        if matches!(c, '\n' | '\t') || is_harmless(c) {
            safe.push(c);
        } else {
            safe.extend(c.escape_default());
        }
    }
    safe
}

/// Returns the path of a pod's log.
fn path(pod: &Pod, args: &LogsArgs, tail: Option<i64>) -> anyhow::Result<String> {
    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
    crate::api_path::check_name(name)?;
    let first = pod.spec.containers.first().map(|container| container.name.as_str());
    let container = args.container.as_deref().or(first).unwrap_or_default();
    let query = Query::default()
        .with("container", container)
        .with("follow", if args.follow { "true" } else { "" })
        .with("previous", if args.previous { "true" } else { "" })
        .with("tailLines", &tail.map_or(String::new(), |lines| lines.to_string()));
    Ok(Resource::POD.path_of(Some(namespace), name) + "/log" + query.as_str())
}

/// Returns the completion index of a pod of an indexed Job.
fn index_of(pod: &Pod) -> Option<u32> {
    pod.metadata.annotations.get("batch.kubernetes.io/job-completion-index")?.parse().ok()
}

/// Returns the pods of a job.
pub(crate) async fn pods_of(cluster: &Cluster, record: &Record) -> anyhow::Result<Vec<Pod>> {
    let namespace = record.metadata.namespace.as_str();
    let workload = &record.spec.workload_ref;
    let mut selection = Selection { namespace: Some(namespace.to_owned()), ..Selection::default() };
    let is_meant: Box<dyn Fn(&Pod) -> bool> = match workload.kind.as_str() {
        "Pod" => {
            let pod = cluster.get(Resource::POD, Some(namespace), &workload.name).await?;
            return Ok(pod.into_iter().collect());
        }
        "Job" => {
            anyhow::ensure!(is_label_name(&workload.uid), "{}: its uid is none", record.shown());
            selection.labels = format!("batch.kubernetes.io/controller-uid={}", workload.uid);
            Box::new(|_: &Pod| true)
        }
        "Group" => return group_pods(cluster, namespace, &workload.name).await,
        "PodGroup" => {
            let (name, uid) = (workload.name.clone(), workload.uid.clone());
            Box::new(move |pod: &Pod| {
                let mut owners = pod.metadata.owner_references.iter();
                let group = owners.find(|owner| owner.kind == "PodGroup" && owner.name == name);
                pod.spec.scheduling_group.pod_group_name == name
                    && group.is_none_or(|group| group.uid == uid)
            })
        }
        kind => {
            let Some(resource) = Resource::of_controller(kind) else {
                bail!("{}: pods of this kind are not known here", record.shown());
            };
            selection.labels = selector_of(cluster, resource, namespace, &workload.name).await?;
            Box::new(|pod: &Pod| pod.metadata.controller().is_some())
        }
    };
    let listed = cluster.list(Resource::POD, &selection, LISTED_MAX).await?;
    let pods = listed.items.iter().filter_map(|raw| serde_json::from_str(raw.get()).ok());
    Ok(pods.filter(|pod| is_meant(pod)).collect())
}

/// Returns the pods of a group, by either of the labels that name it.
async fn group_pods(cluster: &Cluster, namespace: &str, group: &str) -> anyhow::Result<Vec<Pod>> {
    anyhow::ensure!(is_label_name(group), "group/{}: no label has this value", text::name(group));
    let mut labels: Vec<&str> = names::GROUP_LABELS.iter().map(|(label, _)| *label).collect();
    labels.dedup();
    let mut pods: Vec<Pod> = Vec::new();
    for label in labels {
        let selection = Selection {
            namespace: Some(namespace.to_owned()),
            labels: format!("{label}={group}"),
            ..Selection::default()
        };
        let listed = cluster.list(Resource::POD, &selection, LISTED_MAX).await?;
        let read =
            listed.items.iter().filter_map(|raw| serde_json::from_str::<Pod>(raw.get()).ok());
        for pod in read.filter(|pod| group_of(&pod.metadata) == Some(group)) {
            if pods.iter().all(|known| known.metadata.uid != pod.metadata.uid) {
                pods.push(pod);
            }
        }
    }
    Ok(pods)
}

/// Returns the selector by which an object finds its pods, as a query has it.
async fn selector_of(
    cluster: &Cluster,
    resource: Resource,
    namespace: &str,
    name: &str,
) -> anyhow::Result<String> {
    let called = resource.called(Some(namespace), name);
    let object: Option<serde_json::Value> = cluster.get(resource, Some(namespace), name).await?;
    let object = object.with_context(|| format!("{called} does not exist"))?;
    let labels =
        object.pointer("/spec/selector/matchLabels").and_then(serde_json::Value::as_object);
    let pairs = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    let selector = pairs.collect::<Vec<_>>().join(",");
    anyhow::ensure!(!selector.is_empty(), "{called}: spec.selector.matchLabels is empty");
    Ok(selector)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_container_writes_no_control_characters_to_a_terminal() {
        let line = escaped(b"ok\t\x1b[2J\xc2\x9b31m \xff\r\n");
        assert_eq!(line, "ok\t\\u{1b}[2J\\u{9b}31m \u{fffd}\n");
    }

    #[test]
    fn the_path_of_a_log_says_what_is_asked_for() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "a-0", "namespace": "lab", "annotations": {
                "batch.kubernetes.io/job-completion-index": "7" } },
            "spec": { "containers": [{ "name": "main" }, { "name": "side" }] },
        }))
        .unwrap();
        assert_eq!(index_of(&pod), Some(7));
        let args = LogsArgs { follow: true, ..LogsArgs::default() };
        assert_eq!(
            path(&pod, &args, Some(10)).unwrap(),
            "/api/v1/namespaces/lab/pods/a-0/log?container=main&follow=true&tailLines=10"
        );
        let args = LogsArgs { container: Some("side".to_owned()), ..LogsArgs::default() };
        assert!(path(&pod, &args, None).unwrap().ends_with("/log?container=side"));
    }

    #[test]
    fn a_line_without_end_comes_in_parts() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let endless = vec![b'x'; 100_000];
        let stream: Stream = Box::pin(futures::io::Cursor::new(endless));
        let (line, stream, _) = runtime.block_on(next_line(stream, String::new())).unwrap();
        assert_eq!(line.len(), 65_536);
        let (line, stream, _) = runtime.block_on(next_line(stream, String::new())).unwrap();
        assert_eq!((line.len(), line.last()), (100_000 - 65_536 + 1, Some(&b'\n')));
        assert!(runtime.block_on(next_line(stream, String::new())).unwrap().0.is_empty());
    }
}
