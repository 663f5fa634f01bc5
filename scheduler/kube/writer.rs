//! Writes everything but Bindings and Events: FluxJobs, their status, the pods' gates, conditions
//! and nominated nodes, and suspended Jobs.
//!
//! There are two work queues. Bindings wait for the urgent writes. The trailing ones run in the
//! background: while Bindings are under way they get little of the API server's time (see
//! `throttle`).

use std::sync::Arc;

use fluxqueue_api::{FluxJob, names, placement};
use http::Method;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;

use super::fenced::{FencedClient, NotWritten, WRITE_TIMEOUT_MAX};
use super::request::{Content, Refusal, Reply};
use super::trailing_statuses::TrailingStatuses;
use crate::serve::Metrics;
use fluxqueue_core::{ActionId, Outcome, Write, WriteOutcome};
use fluxqueue_workload::pod_group::{API_GROUP, GroupCondition};
use fluxqueue_workload::storage::{BOUND_BY_CONTROLLER, SELECTED_NODE};
use fluxqueue_workload::{ObjectKey, ObjectRef, Uid};

/// One write to do.
#[derive(Debug)]
pub struct WriteRequest {
    /// The number that goes back with the outcome.
    pub id: ActionId,
    /// The write.
    pub write: Write,
    /// A trailing write of the same FluxJob that was sent before, and that this urgent one waits
    /// for.
    pub after: Option<ActionId>,
}

/// The state that the workers of both queues share.
pub struct Writer {
    /// The channel for outcomes.
    pub outcomes: mpsc::Sender<(ActionId, Outcome)>,
    /// The client, which writes while this process leads.
    pub client: FencedClient,
    /// The counters of results.
    pub metrics: Arc<Metrics>,
    /// The trailing status writes under way.
    pub trailing: Arc<TrailingStatuses>,
}

/// The subresource, applied by our field manager. `force` overwrites any of our fields that another
/// program has written.
const STATUS_BY_APPLY: &str = "/status?fieldManager=fluxqueue&force=true";

#[derive(Deserialize)]
struct Identity {
    metadata: IdentityMetadata,
}

#[derive(Deserialize)]
struct IdentityMetadata {
    uid: String,
}

// === impl WriteRequest ===

impl WriteRequest {
    /// Makes a request that waits for no other.
    pub fn new(id: ActionId, write: Write) -> Self {
        WriteRequest { id, write, after: None }
    }

    /// Returns the FluxJob of a status write.
    pub(super) fn status_of(&self) -> Option<&Uid> {
        match &self.write {
            Write::WriteStatus { job, .. } => Some(&job.uid),
            _ => None,
        }
    }
}

// === impl Writer ===

impl Writer {
    /// Does one write and reports its outcome. False once no task takes outcomes any more.
    pub async fn carry_out(&self, request: &WriteRequest) -> bool {
        if let (Some(job), Some(after)) = (request.status_of(), request.after) {
            self.trailing.wait_for(job, after).await;
        }
        let outcome = self.write(&request.write).await;
        if let Some(job) = request.status_of() {
            self.trailing.end(job, request.id);
        }
        self.metrics.count_write(request.write.operation(), outcome.result());
        if let WriteOutcome::Failed(reason)
        | WriteOutcome::Refused(reason)
        | WriteOutcome::Invalid(reason) = &outcome
        {
            tracing::warn!(operation = request.write.operation(), error = %reason, "write failed");
        }
        self.outcomes.send((request.id, Outcome::Write(outcome))).await.is_ok()
    }

    /// Does one write and returns how that ended.
    pub async fn write(&self, write: &Write) -> WriteOutcome {
        match write {
            Write::CreateFluxJob { job, .. } => self.create(job).await,
            Write::WriteStatus { job, resource_version, status, .. } => {
                self.status(job, resource_version.as_deref(), status).await
            }
            Write::DeleteFluxJob { job, resource_version } => {
                self.delete(job, resource_version.as_deref()).await
            }
            Write::WriteQueueStatus { queue, uid, status } => {
                let key = ObjectKey::new("", Arc::clone(queue));
                self.queue_status(&ObjectRef { key, uid: uid.clone() }, status).await
            }
            Write::Ungate { pod, resource_version, gate } => {
                // Deleting by the merge key touches no other gate, wherever it stands in the list,
                // and is no error if it is gone already.
                let body = json!({
                    "metadata": identity(pod, resource_version.as_deref()),
                    "spec": { "schedulingGates": [{ "$patch": "delete", "name": &**gate }] },
                });
                let path = pod_path(&pod.key);
                done(self.patch(&path, "", Content::StrategicMergePatch, &body, pod).await)
            }
            Write::SelectNode { claim, resource_version, node } => {
                let mut metadata = identity(claim, resource_version.as_deref());
                metadata["annotations"] = json!({ SELECTED_NODE: &**node });
                let path = format!(
                    "/api/v1/namespaces/{}/persistentvolumeclaims/{}",
                    claim.key.namespace, claim.key.name
                );
                let body = json!({ "metadata": metadata });
                done(self.patch(&path, "", Content::MergePatch, &body, claim).await)
            }
            Write::ClaimVolume { volume, resource_version, claim, was_meant } => {
                let mut metadata = identity(volume, resource_version.as_deref());
                if !was_meant {
                    // With this, the controller releases the claim again when the volume is
                    // deleted.
                    metadata["annotations"] = json!({ BOUND_BY_CONTROLLER: "yes" });
                }
                let reference = json!({
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": &*claim.key.namespace,
                    "name": &*claim.key.name,
                    "uid": &*claim.uid,
                });
                let path = format!("/api/v1/persistentvolumes/{}", volume.key.name);
                let body = json!({ "metadata": metadata, "spec": { "claimRef": reference } });
                done(self.patch(&path, "", Content::MergePatch, &body, volume).await)
            }
            Write::ReleaseJob { job, resource_version, at } => {
                // The write names the version, and does both at once: a suspension that follows is
                // another user's, and stays.
                let mut metadata = identity(job, resource_version.as_deref());
                let at =
                    Timestamp::from_microsecond(at.0).unwrap_or(Timestamp::UNIX_EPOCH).to_string();
                metadata["annotations"] = json!({ names::SUSPENDED: null, names::RELEASED_AT: at });
                self.patch_job(job, &json!({ "metadata": metadata, "spec": { "suspend": false } }))
                    .await
            }
            Write::SuspendJob { job, resource_version } => {
                let metadata = identity(job, resource_version.as_deref());
                self.patch_job(job, &json!({ "metadata": metadata, "spec": { "suspend": true } }))
                    .await
            }
            Write::Nominate { pod, resource_version, node } => {
                let metadata = identity(pod, resource_version.as_deref());
                let body = json!({
                    "metadata": metadata, "status": { "nominatedNodeName": node.as_deref() },
                });
                done(
                    self.patch(
                        &pod_path(&pod.key),
                        "/status",
                        Content::StrategicMergePatch,
                        &body,
                        pod,
                    )
                    .await,
                )
            }
            Write::SetGroupCondition { group, resource_version, version, condition, newly } => {
                let GroupCondition { is_true, reason, message, observed_generation } = &**condition;
                let mut condition = json!({
                    "type": version.condition_type(),
                    "status": if *is_true { "True" } else { "False" },
                    "reason": reason,
                    "message": message,
                    "observedGeneration": observed_generation,
                });
                if *newly {
                    condition["lastTransitionTime"] = whole_seconds(Timestamp::now()).into();
                }
                let metadata = identity(group, resource_version.as_deref());
                let body = json!({ "metadata": metadata, "status": { "conditions": [condition] } });
                let path = format!(
                    "/apis/{API_GROUP}/{}/namespaces/{}/podgroups/{}",
                    version.as_str(),
                    group.key.namespace,
                    group.key.name
                );
                done(self.patch(&path, "/status", Content::StrategicMergePatch, &body, group).await)
            }
            Write::SetPodScheduled { pod, resource_version, reason, message, newly } => {
                // Conditions are merged by type: fields that are left out stay as they are.
                let mut condition = json!({
                    "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
                });
                if *newly {
                    condition["lastTransitionTime"] = whole_seconds(Timestamp::now()).into();
                }
                let metadata = identity(pod, resource_version.as_deref());
                let body = json!({ "metadata": metadata, "status": { "conditions": [condition] } });
                let path = pod_path(&pod.key);
                done(self.patch(&path, "/status", Content::StrategicMergePatch, &body, pod).await)
            }
        }
    }

    async fn patch_job(&self, job: &ObjectRef, body: &serde_json::Value) -> WriteOutcome {
        let path = format!("/apis/batch/v1/namespaces/{}/jobs/{}", job.key.namespace, job.key.name);
        done(self.patch(&path, "", Content::MergePatch, body, job).await)
    }

    async fn create(&self, job: &FluxJob) -> WriteOutcome {
        let Some(namespace) = job.metadata.namespace.as_deref() else {
            return WriteOutcome::Invalid("metadata.namespace: a FluxJob needs one".to_owned());
        };
        let body = match serde_json::to_vec(job) {
            Ok(body) => body,
            Err(error) => return WriteOutcome::Invalid(error.to_string()),
        };
        let path = jobs_path(namespace);
        match self.client.write(Method::POST, &path, Content::Json, &body, WRITE_TIMEOUT_MAX).await
        {
            Ok(reply) if reply.succeeded() => match reply.parse::<FluxJob>() {
                Ok(job) => WriteOutcome::Written(Some(stored(job))),
                // The object exists all the same; the watch will show how the server stored it.
                Err(error) => {
                    WriteOutcome::Failed(format!("reading the FluxJob as stored: {error}"))
                }
            },
            Ok(reply) if reply.code == 409 && reply.is_already_exists() => WriteOutcome::Exists,
            Ok(reply) => refused(&reply),
            Err(error) => failed(&error),
        }
    }

    async fn status(
        &self,
        id: &ObjectRef,
        version: Option<&str>,
        status: &fluxqueue_api::FluxJobStatus,
    ) -> WriteOutcome {
        // Server-side apply: fields that we wrote and write no more go, conditions of other
        // programs stay. A version that is set has to be the object's, or the server answers 409;
        // an object that is gone is not made by a write of its status.
        let mut metadata = identity(id, version);
        metadata["namespace"] = (*id.key.namespace).into();
        let mut written = status.clone();
        if let Err(error) = placement::compact(&mut written) {
            return WriteOutcome::Invalid(format!("status: {error}"));
        }
        let body = applied("FluxJob", metadata, id, &json!(written));
        match self.patch(&job_path(&id.key), STATUS_BY_APPLY, Content::Apply, &body, id).await {
            Ok(reply) => WriteOutcome::Written(reply.parse::<FluxJob>().ok().map(stored)),
            Err(refused) => refused,
        }
    }

    async fn queue_status(
        &self,
        id: &ObjectRef,
        status: &fluxqueue_api::FluxQueueStatus,
    ) -> WriteOutcome {
        let body = applied("FluxQueue", identity(id, None), id, &json!(status));
        let path = format!("/apis/{}/v1alpha1/fluxqueues/{}", names::GROUP, id.key.name);
        done(self.patch(&path, STATUS_BY_APPLY, Content::Apply, &body, id).await)
    }

    async fn delete(&self, id: &ObjectRef, version: Option<&str>) -> WriteOutcome {
        let body = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": identity(id, version),
            "propagationPolicy": "Background",
        });
        let path = job_path(&id.key);
        let body = body.to_string().into_bytes();
        match self
            .client
            .write(Method::DELETE, &path, Content::Json, &body, WRITE_TIMEOUT_MAX)
            .await
        {
            Ok(reply) if reply.succeeded() => WriteOutcome::Written(None),
            Ok(reply) => self.refusal(&reply, &path, id).await,
            Err(error) => failed(&error),
        }
    }

    async fn patch(
        &self,
        object: &str,
        subresource: &str,
        content: Content,
        body: &serde_json::Value,
        id: &ObjectRef,
    ) -> Result<Reply, WriteOutcome> {
        let path = format!("{object}{subresource}");
        let body = body.to_string().into_bytes();
        match self.client.write(Method::PATCH, &path, content, &body, WRITE_TIMEOUT_MAX).await {
            Ok(reply) if reply.succeeded() => Ok(reply),
            Ok(reply) => Err(self.refusal(&reply, object, id).await),
            Err(error) => Err(failed(&error)),
        }
    }

    /// A failed precondition shows as 409 or as 422, and so do other errors: the present state of
    /// the object decides.
    async fn refusal(&self, reply: &Reply, object: &str, id: &ObjectRef) -> WriteOutcome {
        if matches!(reply.code, 409 | 422) {
            match self.client.get::<Identity>(object, WRITE_TIMEOUT_MAX).await {
                Ok(Ok(now)) if *now.metadata.uid != *id.uid => return WriteOutcome::Gone,
                Ok(Err(reply)) if reply.code == 404 => return WriteOutcome::Gone,
                _ => {}
            }
        }
        match reply.code {
            404 => WriteOutcome::Gone,
            409 => WriteOutcome::Conflict,
            _ => refused(reply),
        }
    }
}

/// Returns the status of an object of ours in the form in which it is applied.
fn applied(
    kind: &'static str,
    mut metadata: serde_json::Value,
    id: &ObjectRef,
    status: &serde_json::Value,
) -> serde_json::Value {
    metadata["name"] = (*id.key.name).into();
    let version = format!("{}/v1alpha1", names::GROUP);
    json!({ "apiVersion": version, "kind": kind, "metadata": metadata, "status": status })
}

/// Returns the uid and the version of an object: the server refuses to change another object, or
/// another version of it.
fn identity(id: &ObjectRef, version: Option<&str>) -> serde_json::Value {
    match version {
        Some(version) => json!({ "uid": &*id.uid, "resourceVersion": version }),
        None => json!({ "uid": &*id.uid }),
    }
}

fn stored(mut job: FluxJob) -> Arc<FluxJob> {
    job.metadata.managed_fields = None;
    job.metadata.annotations = None;
    if let Some(Err(error)) = job.status.as_mut().map(placement::spell_out) {
        tracing::warn!(%error, "the nodes of a FluxJob that was just written cannot be read");
    }
    Arc::new(job)
}

fn done(patched: Result<Reply, WriteOutcome>) -> WriteOutcome {
    patched.map_or_else(|refused| refused, |_| WriteOutcome::Written(None))
}

fn refused(reply: &Reply) -> WriteOutcome {
    match reply.refusal() {
        Some(Refusal::Content) => WriteOutcome::Invalid(reply.explain()),
        Some(Refusal::Request) => WriteOutcome::Refused(reply.explain()),
        None => WriteOutcome::Failed(reply.explain()),
    }
}

fn failed(error: &NotWritten) -> WriteOutcome {
    WriteOutcome::Failed(error.to_string())
}

fn jobs_path(namespace: &str) -> String {
    format!("/apis/{}/v1alpha1/namespaces/{namespace}/fluxjobs", names::GROUP)
}

fn job_path(key: &ObjectKey) -> String {
    format!("{}/{}", jobs_path(&key.namespace), key.name)
}

fn pod_path(key: &ObjectKey) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", key.namespace, key.name)
}

/// Formats a `metav1.Time`, which has no fractions.
fn whole_seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}
