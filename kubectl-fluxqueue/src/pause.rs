//! `pause` and `resume`: no job starts while the namespace of Fluxqueue has an annotation.
//!
//! The annotation is on the namespace, and not on an object that a leader writes, so it outlives
//! leaders, upgrades and a removal of Fluxqueue.

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::json;

use fluxqueue_api::names::PAUSED;
use fluxqueue_api::pause;

use crate::api_path::{Resource, check_name};
use crate::args::{Connection, PauseArgs, ResumeArgs, check_reason};
use crate::cluster::Cluster;
use crate::console::Console;
use crate::exit::{DONE, usage};
use crate::record::Meta;

#[derive(Deserialize)]
struct Namespace {
    #[serde(default)]
    metadata: Meta,
}

/// Pauses Fluxqueue.
pub(crate) async fn pause(
    connection: &Connection,
    args: PauseArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    check_reason(&args.reason)?;
    let cluster = Cluster::connect(connection).await?;
    let own = cluster.own_name().await?;
    if let Some(paused) = state(&cluster, &args.leader_namespace).await? {
        bail!("no change: {}", pause::message(&paused));
    }
    let value = pause::value(&own, &args.reason);
    set(&cluster, &args.leader_namespace, json!(value)).await?;
    console.print(&format!(
        "{}\nNo job starts until `kubectl fluxqueue resume`; jobs that have begun go on.\n",
        pause::message(&value)
    ))?;
    Ok(DONE)
}

/// Resumes it.
pub(crate) async fn resume(
    connection: &Connection,
    args: ResumeArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    let cluster = Cluster::connect(connection).await?;
    let Some(paused) = state(&cluster, &args.leader_namespace).await? else {
        console.print("Fluxqueue is not paused\n")?;
        return Ok(DONE);
    };
    set(&cluster, &args.leader_namespace, json!(null)).await?;
    console.print(&format!("Fluxqueue goes on. Before: {}\n", pause::message(&paused)))?;
    Ok(DONE)
}

/// Returns the user that has paused Fluxqueue, and the reason.
async fn state(cluster: &Cluster, namespace: &str) -> anyhow::Result<Option<String>> {
    check_name(namespace).context("--leader-namespace").map_err(usage)?;
    let found: Option<Namespace> = cluster.get(Resource::NAMESPACE, None, namespace).await?;
    let found = found.with_context(|| {
        format!("namespace {namespace} does not exist: is Fluxqueue in another --leader-namespace?")
    })?;
    Ok(found.metadata.annotations.get(PAUSED).cloned())
}

async fn set(cluster: &Cluster, namespace: &str, value: serde_json::Value) -> anyhow::Result<()> {
    let patch = json!({ "metadata": { "annotations": { PAUSED: value } } });
    let written = cluster.merge(Resource::NAMESPACE, None, namespace, &patch).await?;
    written
        .map(drop)
        .with_context(|| format!("namespace {namespace}: it changes meanwhile; try again"))
}
