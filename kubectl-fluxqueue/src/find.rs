//! Finds the FluxJob of a job by any of its names: the name of the workload, `KIND/NAME`, the name
//! of a pod of it, or that of the FluxJob itself.

use anyhow::{anyhow, bail, ensure};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use fluxqueue_api::syntax::is_label_name;
use fluxqueue_api::{WorkloadKind, names, text};

use crate::api_path::{Resource, check_name};
use crate::cluster::{Cluster, Selection};
use crate::events::events_of;
use crate::exit::usage;
use crate::record::{Condition, Meta, Record};
use crate::when_text::lenient;

/// The reasons of Events by which the Job controller says that it cannot make pods: the last two
/// where it gives each Job a Workload first.
const FAILED_TO_CREATE: [&str; 3] =
    ["FailedCreate", "FailedWorkloadCreate", "FailedWorkloadCompilation"];

/// Most FluxJobs of one workload name that are searched. A Job that is created again and again
/// under its name may have that many that ended within the last hour.
const SAME_NAME_MAX: usize = 250;

/// A job as the user calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The kind in lower case, if one was given.
    kind: Option<String>,
    name: String,
}

/// The result of a search.
pub(crate) enum Found {
    /// A FluxJob, and the object as it came.
    Record(Box<Record>, Box<RawValue>),
    /// A lone pod that has no FluxJob.
    Pod(Box<Pod>),
}

/// The result of a search that also knows Jobs.
pub(crate) enum Sought {
    /// A job that Fluxqueue knows.
    Found(Found),
    /// A Job without a FluxJob.
    Unseen(Box<Unseen>),
}

/// A Job without a FluxJob: it has no pods yet, or none that Fluxqueue places.
pub(crate) struct Unseen {
    /// The metadata of the Job.
    pub metadata: Meta,
    /// The reason for which it has no pods, from its Events.
    why: Option<String>,
}

impl Unseen {
    /// Says why the Job is not known.
    pub(crate) fn message(&self) -> String {
        let (name, namespace) =
            (text::name(&self.metadata.name), text::name(&self.metadata.namespace));
        let why = self.why.as_ref().map_or_else(
            || "Fluxqueue has seen no pod of it that it places".to_owned(),
            |why| format!("its pods cannot be created: {}", text::message(why)),
        );
        format!("job/{name} in namespace {namespace} has no FluxJob: {why}")
    }
}

/// The parts of a Job that are read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct JobObject {
    metadata: Meta,
    spec: JobSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JobSpec {
    template: Template,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Template {
    metadata: Meta,
}

/// The parts of a pod that are read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    /// Its metadata.
    pub metadata: Meta,
    /// Its spec.
    pub spec: PodSpec,
    /// Its status.
    pub status: PodStatus,
}

/// The spec of a [`Pod`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    /// Its node; empty while it has none.
    pub node_name: String,
    /// The name of the scheduler that places it.
    pub scheduler_name: String,
    /// Its containers.
    pub containers: Vec<Container>,
    /// The time in seconds that it may run on its node.
    pub active_deadline_seconds: Option<i64>,
    /// The PodGroup that it names.
    pub scheduling_group: SchedulingGroup,
}

/// The status of a container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerStatus {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: ContainerState,
}

/// The state of a container, as far as it is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerState {
    /// Its end.
    pub terminated: Option<Terminated>,
}

/// The end of a container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Terminated {
    /// The exit code of its process.
    pub exit_code: i64,
    /// Error, OOMKilled ...
    pub reason: String,
    /// The text that the process left, or that says why it could not run.
    pub message: String,
}

/// The PodGroup of a [`Pod`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SchedulingGroup {
    /// Its name; empty without one.
    pub pod_group_name: String,
}

/// A container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Container {
    /// Its name.
    pub name: String,
}

/// The status of a [`Pod`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus {
    /// Pending, Running, Succeeded or Failed.
    pub phase: String,
    /// The reason for which it failed.
    pub reason: String,
    /// The same reason for people.
    pub message: String,
    /// The states of its containers that run before the others.
    pub init_container_statuses: Vec<ContainerStatus>,
    /// The states of its other containers.
    pub container_statuses: Vec<ContainerStatus>,
    /// The time at which its node took it.
    #[serde(deserialize_with = "lenient")]
    pub start_time: Option<Timestamp>,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

impl Pod {
    /// True if it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Returns the state of a job that is this pod alone.
    pub(crate) fn state(&self) -> &'static str {
        match self.status.phase.as_str() {
            "Succeeded" => "Completed",
            "Failed" => "Failed",
            _ if self.spec.node_name.is_empty() => "Pending",
            _ => "Running",
        }
    }

    /// Returns the condition of this type.
    pub(crate) fn condition(&self, name: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.r#type == name)
    }
}

impl Wanted {
    /// Reads `NAME` or `KIND/NAME`.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let (kind, name) =
            text.split_once('/').map_or((None, text), |(kind, name)| (Some(kind), name));
        let kind = kind.map(|kind| kind_of(kind, text)).transpose().map_err(usage)?;
        ensure!(
            is_label_name(name) || check_name(name).is_ok(),
            usage(anyhow!("{} is not the name of a job", text::quoted(name)))
        );
        Ok(Wanted { kind: kind.map(str::to_owned), name: name.to_owned() })
    }

    /// Returns its name in messages.
    fn shown(&self) -> String {
        let name = text::name(&self.name);
        self.kind.as_ref().map_or(name.to_string(), |kind| format!("{kind}/{name}"))
    }

    /// True if it may mean an object of this kind.
    fn may_be(&self, kind: &str) -> bool {
        self.kind.as_deref().is_none_or(|own| own == kind)
    }
}

/// Returns the kind that a user names, in the form in which FluxJobs have it in lower case. `job`
/// is all that the user wrote.
fn kind_of(kind: &str, job: &str) -> anyhow::Result<&'static str> {
    if let Some(kind) = WorkloadKind::of_word(kind) {
        return Ok(kind.suffix());
    }
    match kind.to_ascii_lowercase().as_str() {
        // The last one is written by `-o name`.
        "fluxjob" | "fluxjobs" | "fj" | "fluxjob.jobs.converged-computing.org" => Ok("fluxjob"),
        _ => bail!(
            "{}: the kind is one of {}, fluxjob",
            text::quoted(job),
            WorkloadKind::ALL.map(WorkloadKind::suffix).join(", ")
        ),
    }
}

/// Finds a job in the namespace. An error contains the name that was searched.
pub(crate) async fn find(cluster: &Cluster, wanted: &str) -> anyhow::Result<Found> {
    match seek(cluster, wanted).await? {
        Sought::Found(found) => Ok(found),
        Sought::Unseen(job) => bail!("{}", job.message()),
    }
}

/// Finds a job in the namespace, also if it is a Job that Fluxqueue does not know.
pub(crate) async fn seek(cluster: &Cluster, wanted: &str) -> anyhow::Result<Sought> {
    let wanted = Wanted::parse(wanted)?;
    let namespace = Some(cluster.namespace.as_str());
    if wanted.kind.as_deref() != Some("fluxjob") {
        let of_name = of_workload(cluster, &wanted).await?;
        if let Some((record, raw)) = choose(of_name, &wanted)? {
            return Ok(Sought::Found(Found::Record(Box::new(record), raw)));
        }
    }
    let is_object_name = check_name(&wanted.name).is_ok();
    if is_object_name && (wanted.kind.is_none() || wanted.may_be("fluxjob")) {
        let raw: Option<Box<RawValue>> =
            cluster.get(Resource::FLUX_JOB, namespace, &wanted.name).await?;
        if let Some(raw) = raw {
            return Ok(Sought::Found(Found::Record(Box::new(Record::read(&raw)), raw)));
        }
    }
    if is_object_name && wanted.may_be("pod") {
        let pod: Option<Pod> = cluster.get(Resource::POD, namespace, &wanted.name).await?;
        if let Some(pod) = pod {
            return of_pod(cluster, pod).await.map(Sought::Found);
        }
    }
    if is_object_name && wanted.may_be("job") {
        // A user may be allowed to see FluxJobs and no Jobs.
        let job: Option<JobObject> =
            cluster.get(Resource::JOB, namespace, &wanted.name).await.unwrap_or_default();
        if let Some(job) = job {
            return of_job(cluster, &wanted, job).await;
        }
    }
    bail!(
        "{} in namespace {}: there is no FluxJob of a workload of that name{}; `kubectl fluxqueue \
         queue` lists jobs, and `history` those that have ended",
        wanted.shown(),
        text::name(&cluster.namespace),
        if wanted.may_be("pod") { ", and no pod" } else { "" },
    )
}

/// Finds the FluxJob of a job; a lone pod without one is an error.
pub(crate) async fn find_record(cluster: &Cluster, wanted: &str) -> anyhow::Result<Record> {
    match find(cluster, wanted).await? {
        Found::Record(record, _) => Ok(*record),
        Found::Pod(pod) => bail!(
            "pod {}/{} has no FluxJob: {}",
            text::name(&pod.metadata.namespace),
            text::name(&pod.metadata.name),
            if pod.spec.node_name.is_empty() {
                "Fluxqueue has not seen it yet, or another scheduler places it"
            } else {
                "it was placed at once"
            },
        ),
    }
}

/// Returns the FluxJobs of workloads of this name.
async fn of_workload(
    cluster: &Cluster,
    wanted: &Wanted,
) -> anyhow::Result<Vec<(Record, Box<RawValue>)>> {
    let mut selection =
        Selection { namespace: Some(cluster.namespace.clone()), ..Selection::default() };
    if is_label_name(&wanted.name) {
        selection.labels = format!("{}={}", names::WORKLOAD_NAME, wanted.name);
    } else {
        selection.fields = format!("spec.workloadRef.name={}", wanted.name);
    }
    records(cluster, &selection, |record| {
        let workload = &record.spec.workload_ref;
        workload.name == wanted.name && wanted.may_be(&workload.kind.to_ascii_lowercase())
    })
    .await
}

async fn records(
    cluster: &Cluster,
    selection: &Selection,
    is_meant: impl Fn(&Record) -> bool,
) -> anyhow::Result<Vec<(Record, Box<RawValue>)>> {
    let listed = cluster.list(Resource::FLUX_JOB, selection, SAME_NAME_MAX).await?;
    let read = listed.items.into_iter().map(|raw| (Record::read(&raw), raw));
    Ok(read.filter(|(record, _)| is_meant(record)).collect())
}

/// Returns the FluxJobs with these labels.
async fn with_labels(
    cluster: &Cluster,
    labels: String,
) -> anyhow::Result<Vec<(Record, Box<RawValue>)>> {
    let namespace = Some(cluster.namespace.clone());
    records(cluster, &Selection { namespace, labels, ..Selection::default() }, |_| true).await
}

/// Returns the labels of the FluxJob of a workload of this kind and name.
fn labels_of(kind: &str, name: &str) -> String {
    format!("{}={name},{}={kind}", names::WORKLOAD_NAME, names::WORKLOAD_KIND)
}

/// Chooses the FluxJob that is meant: one that has not ended, else the one that was made last.
fn choose(
    found: Vec<(Record, Box<RawValue>)>,
    wanted: &Wanted,
) -> anyhow::Result<Option<(Record, Box<RawValue>)>> {
    let newest = |(record, _): &(Record, Box<RawValue>)| {
        (!record.has_ended(), record.metadata.creation_timestamp)
    };
    let mut live: Vec<String> = found
        .iter()
        .filter(|(record, _)| !record.has_ended())
        .map(|(record, _)| record.shown())
        .collect();
    live.sort();
    live.dedup();
    if live.len() > 1 {
        bail!("{} is the name of several jobs: say {}", wanted.shown(), live.join(" or "));
    }
    Ok(found.into_iter().max_by_key(newest))
}

/// Returns the job that the pods of a Job belong to: that of their group if they name one, as the
/// tasks of an array do.
async fn of_job(cluster: &Cluster, wanted: &Wanted, job: JobObject) -> anyhow::Result<Sought> {
    if let Some(group) = group_of(&job.spec.template.metadata).filter(|name| is_label_name(name)) {
        let found = with_labels(cluster, labels_of("group", group)).await?;
        if let Some((record, raw)) = choose(found, wanted)? {
            return Ok(Sought::Found(Found::Record(Box::new(record), raw)));
        }
    }
    let events = events_of(cluster, &job.metadata.uid).await.unwrap_or_default();
    let failed =
        events.into_iter().rev().find(|event| FAILED_TO_CREATE.contains(&event.reason.as_str()));
    let why = failed.map(|event| event.message);
    Ok(Sought::Unseen(Box::new(Unseen { metadata: job.metadata, why })))
}

/// Returns the job of a pod.
async fn of_pod(cluster: &Cluster, pod: Pod) -> anyhow::Result<Found> {
    let labels = if let Some(group) = group_of(&pod.metadata).filter(|it| is_label_name(it)) {
        labels_of("group", group)
    } else if let Some(uid) = maker_of(cluster, &pod).await? {
        format!("{}={uid}", names::WORKLOAD_UID)
    } else {
        return Ok(Found::Pod(Box::new(pod)));
    };
    let found = with_labels(cluster, labels).await?;
    let wanted = Wanted { kind: None, name: pod.metadata.name.clone() };
    let of_group = match choose(found, &wanted)? {
        None => of_pod_group(cluster, &pod).await?,
        found => found,
    };
    Ok(match of_group {
        Some((record, raw)) => Found::Record(Box::new(record), raw),
        None => Found::Pod(Box::new(pod)),
    })
}

/// Returns the job of the PodGroup that a pod names, if its pods start together.
async fn of_pod_group(
    cluster: &Cluster,
    pod: &Pod,
) -> anyhow::Result<Option<(Record, Box<RawValue>)>> {
    let group = pod.spec.scheduling_group.pod_group_name.as_str();
    if !is_label_name(group) {
        return Ok(None);
    }
    let found = with_labels(cluster, labels_of("podgroup", group)).await?;
    choose(found, &Wanted { kind: None, name: pod.metadata.name.clone() })
}

/// Returns the uid of the workload above a pod, or that of the pod.
async fn maker_of(cluster: &Cluster, pod: &Pod) -> anyhow::Result<Option<String>> {
    let Some(owner) = pod.metadata.controller() else {
        return Ok(Some(pod.metadata.uid.clone()).filter(|uid| is_label_name(uid)));
    };
    if owner.kind == "ReplicaSet" {
        #[derive(Deserialize)]
        struct Owned {
            #[serde(default)]
            metadata: Meta,
        }
        let namespace = Some(cluster.namespace.as_str());
        let set: Option<Owned> =
            cluster.get(Resource::REPLICA_SET, namespace, &owner.name).await.unwrap_or_default();
        if let Some(above) = set.as_ref().and_then(|set| set.metadata.controller()) {
            return Ok(Some(above.uid.clone()).filter(|uid| is_label_name(uid)));
        }
    }
    Ok(Some(owner.uid.clone()).filter(|uid| is_label_name(uid)))
}

/// Returns the group that a pod names in its labels.
pub(crate) fn group_of(metadata: &Meta) -> Option<&str> {
    names::GROUP_LABELS.iter().find_map(|(group, size)| {
        metadata.labels.get(*size)?;
        metadata.labels.get(*group).map(String::as_str)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;
    use serde_json::json;

    fn made(kind: &str, state: &str, created: &str) -> (Record, Box<RawValue>) {
        let value = json!({
            "metadata": { "name": format!("{kind}-{created}"), "creationTimestamp": created },
            "spec": { "workloadRef": { "kind": kind, "name": "a", "uid": "u" } },
            "status": { "state": state },
        });
        (record(&value), serde_json::value::to_raw_value(&value).unwrap())
    }

    #[test]
    fn kinds_are_those_of_kubectl() {
        let parse = |text| Wanted::parse(text).unwrap();
        assert_eq!(parse("solve"), Wanted { kind: None, name: "solve".to_owned() });
        assert_eq!(parse("jobs/solve"), parse("Job/solve"));
        assert_eq!(parse("deploy/web").shown(), "deployment/web");
        assert_eq!(parse("fluxjob.jobs.converged-computing.org/a"), parse("fluxjob/a"));
        let error = Wanted::parse("node/\u{1b}[2J").unwrap_err().to_string();
        assert_eq!(
            error,
            "\"node/\\u{1b}[2J\": the kind is one of job, pod, group, podgroup, deployment, \
             replicaset, statefulset, fluxjob"
        );
    }

    #[test]
    fn a_job_that_has_not_ended_goes_before_one_that_has() {
        let wanted = Wanted::parse("a").unwrap();
        let (old, new) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        let chosen = |found| {
            let chosen = choose(found, &wanted).unwrap();
            chosen.map(|(record, _)| record.metadata.name)
        };
        assert_eq!(chosen(vec![]), None);
        let ended = vec![made("Job", "Completed", new), made("Job", "Failed", old)];
        assert_eq!(chosen(ended).as_deref(), Some("Job-2026-01-02T00:00:00Z"));
        let both = vec![made("Job", "Completed", new), made("Job", "Pending", old)];
        assert_eq!(chosen(both).as_deref(), Some("Job-2026-01-01T00:00:00Z"));
    }

    #[test]
    fn two_kinds_of_one_name_are_told_apart() {
        let wanted = Wanted::parse("a").unwrap();
        let at = "2026-01-01T00:00:00Z";
        let both = vec![made("Job", "Running", at), made("Deployment", "Running", at)];
        let error = choose(both, &wanted).unwrap_err().to_string();
        assert_eq!(error, "a is the name of several jobs: say deployment/a or job/a");
    }

    #[test]
    fn a_pod_is_what_its_phase_and_its_node_say() {
        let pod = |value| serde_json::from_value::<Pod>(value).unwrap().state();
        assert_eq!(pod(json!({ "status": { "phase": "Pending" } })), "Pending");
        assert_eq!(
            pod(json!({ "spec": { "nodeName": "n" }, "status": { "phase": "Pending" } })),
            "Running"
        );
        assert_eq!(pod(json!({ "status": { "phase": "Succeeded" } })), "Completed");
    }
}
