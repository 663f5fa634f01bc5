//! `pause` and `resume`: no job starts while the namespace of Fluxqueue has an annotation.
//!
//! The annotation is on the namespace, and not on an object that a leader writes, so it outlives
//! leaders, upgrades and a removal of Fluxqueue.

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use fluxqueue_api::names::PAUSED;
use fluxqueue_api::pause;

use crate::api_path::{Resource, check_name, check_namespace};
use crate::args::{Connection, PauseArgs, ResumeArgs, check_reason};
use crate::cluster::Cluster;
use crate::console::Console;
use crate::exit::{DONE, usage};
use crate::leader::holder_of;
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
    check_name(&args.leader_lease).context("--leader-lease").map_err(usage)?;
    let cluster = Cluster::connect(connection).await?;
    pause_in(&cluster, &args, console).await
}

/// Pauses Fluxqueue in this cluster, and says if no process leads there.
async fn pause_in(
    cluster: &Cluster,
    args: &PauseArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    let own = cluster.own_name().await?;
    let namespace = args.leader_namespace.as_str();
    if let Some(paused) = state(cluster, namespace).await? {
        bail!("no change: {}", pause::message(&paused));
    }
    let value = pause::value(&own, &args.reason);
    set(cluster, namespace, json!(value)).await?;
    // A user may be allowed to pause Fluxqueue, and not to read its Lease.
    let lease: anyhow::Result<Option<Value>> =
        cluster.get(Resource::LEASE, Some(namespace), &args.leader_lease).await;
    if lease.is_ok_and(|lease| lease.is_none_or(|lease| holder_of(&lease).is_empty())) {
        console.note(&format!(
            "No process holds {}: does Fluxqueue run in another namespace (--leader-namespace), or \
             has its Lease another name (--leader-lease)?",
            Resource::LEASE.called(Some(namespace), &args.leader_lease)
        ));
    }
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
    let before = pause::message(&paused).replacen("Fluxqueue is", "It was", 1);
    console.print(&format!("Fluxqueue goes on. {before}\n"))?;
    Ok(DONE)
}

/// Prints a note if Fluxqueue is paused. A user may not be allowed to read its namespace: then it
/// is silent, and each job that waits says so itself.
pub(crate) async fn note_pause(cluster: &Cluster, namespace: &str, console: &mut Console<'_>) {
    if let Ok(Some(paused)) = state(cluster, namespace).await {
        console.note(&format!("{}: no job starts", pause::message(&paused)));
    }
}

/// Returns the user that has paused Fluxqueue, and the reason.
async fn state(cluster: &Cluster, namespace: &str) -> anyhow::Result<Option<String>> {
    check_namespace(namespace).context("--leader-namespace").map_err(usage)?;
    let found: Option<Namespace> = cluster.get(Resource::NAMESPACE, None, namespace).await?;
    let found = found.with_context(|| {
        format!("namespace {namespace} does not exist: is Fluxqueue in another --leader-namespace?")
    })?;
    Ok(found.metadata.annotations.get(PAUSED).cloned())
}

async fn set(cluster: &Cluster, namespace: &str, value: Value) -> anyhow::Result<()> {
    let patch = json!({ "metadata": { "annotations": { PAUSED: value } } });
    let written = cluster.merge(Resource::NAMESPACE, None, namespace, &patch).await?;
    written
        .map(drop)
        .with_context(|| format!("namespace {namespace}: it changes meanwhile; try again"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::tests::cluster_of;
    use crate::console::Look;

    #[tokio::test]
    async fn a_paused_fluxqueue_is_noted_where_its_namespace_can_be_read() {
        let noted = async |objects: &[(&str, Value)]| {
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let mut console = Console::new(std::io::empty(), &mut out, &mut err, Look::plain());
            note_pause(&cluster_of(objects), "fq", &mut console).await;
            drop(console);
            String::from_utf8(err).unwrap()
        };
        let namespace = |annotations| json!({ "metadata": { "annotations": annotations } });
        let path = "/api/v1/namespaces/fq";
        let paused = namespace(json!({ PAUSED: "by ann: disks" }));
        assert_eq!(
            noted(&[(path, paused)]).await,
            "Fluxqueue is paused by ann: disks: no job starts\n"
        );
        assert_eq!(noted(&[(path, namespace(json!({})))]).await, "");
        assert_eq!(noted(&[]).await, "");
    }

    #[tokio::test]
    async fn a_pause_where_no_process_has_led_says_so() {
        let user = json!({ "status": { "userInfo": { "username": "ann" } } });
        let mut objects = vec![
            ("/apis/authentication.k8s.io/v1/selfsubjectreviews", user),
            ("/api/v1/namespaces/fq", json!({ "metadata": { "name": "fq" } })),
        ];
        let args = PauseArgs {
            reason: String::new(),
            leader_namespace: "fq".to_owned(),
            leader_lease: "leads".to_owned(),
        };
        let said = async |objects: &[(&str, Value)]| {
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let mut console = Console::new(std::io::empty(), &mut out, &mut err, Look::plain());
            let paused = pause_in(&cluster_of(objects), &args, &mut console).await;
            drop(console);
            assert_eq!(paused.unwrap(), DONE);
            assert!(out.starts_with(b"Fluxqueue is paused by ann"));
            String::from_utf8(err).unwrap()
        };
        assert_eq!(
            said(&objects).await,
            "No process holds lease fq/leads: does Fluxqueue run in another namespace \
             (--leader-namespace), or has its Lease another name (--leader-lease)?\n"
        );
        let lease = |holder| json!({ "spec": { "holderIdentity": holder } });
        let path = "/apis/coordination.k8s.io/v1/namespaces/fq/leases/leads";
        objects.push((path, lease("")));
        assert!(said(&objects).await.starts_with("No process holds"));
        objects.pop();
        objects.push((path, lease("one")));
        assert_eq!(said(&objects).await, "");
    }
}
