//! `cancel`: deletes the objects that make the pods of a job, after showing them.
//!
//! The FluxJob alone is never deleted: that would send the job to the end of the queue. Services
//! are refused, because their users scale them; so are objects that an operator would make again.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{bail, ensure};
use serde::Deserialize;

use fluxqueue_api::text;

use crate::api_path::Resource;
use crate::args::{CancelArgs, Connection};
use crate::cluster::Cluster;
use crate::console::Console;
use crate::exit::{DONE, FAILED};
use crate::find::{Found, Pod, Sought, seek};
use crate::logs::pods_of;
use crate::record::{Meta, Record};
use crate::wish::each;

/// Most objects that one call deletes: more is a mistake, or the work of a selector.
const OBJECTS_MAX: usize = 1_000;

/// An object that is deleted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Doomed {
    kind: &'static str,
    namespace: String,
    name: String,
    uid: String,
    /// The text that shows it to the user.
    shown: String,
}

#[derive(Deserialize)]
struct Owned {
    #[serde(default)]
    metadata: Meta,
}

/// Deletes the objects that make the pods of jobs.
pub(crate) async fn run(
    connection: &Connection,
    args: CancelArgs,
    console: &mut Console<'_>,
) -> anyhow::Result<u8> {
    let cluster = Cluster::connect(connection).await?;
    let mut doomed = Vec::new();
    let code = each(&args.jobs, console, async |job, _| {
        doomed.extend(of_job(&cluster, job).await?);
        Ok(())
    })
    .await?;
    if code != DONE && doomed.is_empty() {
        return Ok(code);
    }
    doomed.sort();
    doomed.dedup();
    ensure!(doomed.len() <= OBJECTS_MAX, "more than {OBJECTS_MAX} objects would be deleted");
    ensure!(!doomed.is_empty(), "there is nothing to delete");
    if !args.yes {
        console.note(&listing(&doomed));
        ensure!(console.look.can_ask, "no terminal to ask on: say --yes to delete");
        if !console.confirm("Delete?")? {
            console.note("Nothing was deleted.");
            return Ok(FAILED);
        }
    }
    for object in doomed {
        let resource = if object.kind == "Job" { Resource::JOB } else { Resource::POD };
        let is_deleted =
            cluster.delete(resource, &object.namespace, (&object.name, &object.uid)).await?;
        let what = if is_deleted { "deleted" } else { "was gone already" };
        console.print(&format!("{} {what}\n", object.called()))?;
    }
    Ok(code)
}

impl Doomed {
    fn called(&self) -> String {
        format!("{}/{}", self.kind.to_ascii_lowercase(), text::name(&self.name))
    }
}

fn listing(doomed: &[Doomed]) -> String {
    let mut lines = "This deletes:".to_owned();
    for object in doomed {
        let _ =
            write!(lines, "\n  {} in namespace {}", object.called(), text::name(&object.namespace));
        if !object.shown.is_empty() {
            let _ = write!(lines, ", {}", object.shown);
        }
    }
    lines
}

/// Returns the objects that have to be deleted so that a job ends.
async fn of_job(cluster: &Cluster, wanted: &str) -> anyhow::Result<Vec<Doomed>> {
    let record = match seek(cluster, wanted).await? {
        Sought::Found(Found::Record(record, _)) => record,
        Sought::Found(Found::Pod(pod)) => return makers(cluster, "", vec![*pod]).await,
        Sought::Unseen(job) => {
            return Ok(vec![of_made("Job", &job.metadata, "not known to Fluxqueue".to_owned())?]);
        }
    };
    let job = record.shown();
    ensure!(!record.has_ended(), "{job} has ended: kubectl delete removes its objects");
    let workload = &record.spec.workload_ref;
    let namespace = record.metadata.namespace.as_str();
    match workload.kind.as_str() {
        "Job" => {
            let object: Option<Owned> =
                cluster.get(Resource::JOB, Some(namespace), &workload.name).await?;
            let Some(object) = object.filter(|object| object.metadata.uid == workload.uid) else {
                bail!("{job}: its Job is gone already");
            };
            Ok(vec![of_made("Job", &object.metadata, about(&record))?])
        }
        "Pod" | "Group" | "PodGroup" => {
            let pods = pods_of(cluster, &record).await?;
            ensure!(!pods.is_empty(), "{job}: it has no pods");
            makers(cluster, &about(&record), pods).await
        }
        kind => bail!(
            "{job} is a service: kubectl scale {} {} --replicas=0 stops it, kubectl delete removes \
             it",
            kind.to_ascii_lowercase(),
            text::name(&workload.name)
        ),
    }
}

/// Describes a job that is to be deleted.
fn about(record: &Record) -> String {
    format!("{}, {}", text::name(record.state()), record.told_bound())
}

/// Returns the objects that make these pods, or the pods themselves.
async fn makers(cluster: &Cluster, shown: &str, pods: Vec<Pod>) -> anyhow::Result<Vec<Doomed>> {
    let mut doomed = Vec::new();
    let mut jobs: BTreeMap<String, String> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod.has_ended()) {
        match pod.metadata.controller() {
            Some(owner) if owner.kind == "Job" => {
                jobs.insert(owner.name.clone(), owner.uid.clone());
            }
            _ => doomed.push(of_made("Pod", &pod.metadata, shown.to_owned())?),
        }
    }
    let namespace = pods.first().map_or("", |pod| pod.metadata.namespace.as_str());
    for (name, uid) in jobs {
        let object: Option<Owned> = cluster.get(Resource::JOB, Some(namespace), &name).await?;
        if let Some(object) = object.filter(|object| object.metadata.uid == uid) {
            doomed.push(of_made("Job", &object.metadata, shown.to_owned())?);
        }
    }
    Ok(doomed)
}

/// Returns an object to delete, or an error if another object would make it again.
fn of_made(kind: &'static str, metadata: &Meta, shown: String) -> anyhow::Result<Doomed> {
    // A CronJob makes a Job for each time, and none instead of one that was deleted.
    if let Some(owner) = metadata.controller().filter(|owner| owner.kind != "CronJob") {
        bail!(
            "{}/{} in namespace {} is made by {} {}, which would make it again: delete that",
            kind.to_ascii_lowercase(),
            text::name(&metadata.name),
            text::name(&metadata.namespace),
            text::name(&owner.kind),
            text::name(&owner.name)
        );
    }
    Ok(Doomed {
        kind,
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        shown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn meta(owner: Option<&str>) -> Meta {
        let owners: Vec<_> = owner
            .into_iter()
            .map(|kind| json!({ "kind": kind, "name": "above", "uid": "o", "controller": true }))
            .collect();
        serde_json::from_value(
            json!({ "name": "a", "namespace": "lab", "uid": "u", "ownerReferences": owners }),
        )
        .unwrap()
    }

    #[test]
    fn what_would_be_made_again_is_not_deleted() {
        assert_eq!(of_made("Job", &meta(None), String::new()).unwrap().called(), "job/a");
        of_made("Job", &meta(Some("CronJob")), String::new()).unwrap();
        for kind in ["JobSet", "ReplicaSet"] {
            let error = of_made("Pod", &meta(Some(kind)), String::new()).unwrap_err().to_string();
            assert!(error.contains(&format!("is made by {kind} above")), "{error}");
        }
    }

    #[test]
    fn a_user_sees_what_is_deleted() {
        let job =
            of_made("Job", &meta(None), "Running, 3 of its 4 pods have nodes".to_owned()).unwrap();
        assert_eq!(
            listing(&[job]),
            "This deletes:\n  job/a in namespace lab, Running, 3 of its 4 pods have nodes"
        );
    }
}
