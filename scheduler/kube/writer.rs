//! Writes everything but Bindings and Events: FluxJobs, their status, and the pods' gates and conditions.
//!
//! Two lanes. Urgent writes are those that Bindings wait for. The others trail: while Bindings are under way they get a
//! trickle of the API server's time, and all of it afterwards (`trail` says how).

use std::sync::Arc;
use std::time::Duration;

use fluxqueue_api::FluxJob;
use http::Method;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;

use super::request::{Content, NoReply, Reply, get, send};
use crate::serve::Metrics;
use fluxqueue_core::{ActionId, ActionKind, Outcome, Urgency, WriteOutcome};
use fluxqueue_workload::{ObjectKey, ObjectRef};

/// The total time of one write, the client's retries included. Longer than a Binding's: nobody waits for most of them.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);

/// One write to do.
#[derive(Debug)]
pub struct WriteRequest {
    /// Goes back with the outcome.
    pub id: ActionId,
    /// What to write.
    pub write: Write,
}

/// What to write.
#[derive(Debug)]
pub enum Write {
    /// Create a FluxJob.
    Create(Box<FluxJob>),
    /// Replace a FluxJob's status by this JSON.
    Status(ObjectRef, Box<fluxqueue_api::FluxJobStatus>),
    /// Delete a FluxJob.
    Delete(ObjectRef),
    /// Remove a pod's gate of this name.
    Ungate(ObjectRef, Arc<str>),
    /// Set a pod's condition PodScheduled to False with reason and message.
    Unscheduled {
        /// The pod.
        pod: ObjectRef,
        /// The condition's reason.
        reason: &'static str,
        /// The condition's message.
        message: String,
        /// It was not False before.
        newly: bool,
    },
}

/// What the workers of both lanes share.
pub struct Writer {
    /// Where the outcomes go.
    pub outcomes: mpsc::Sender<(ActionId, Outcome)>,
    /// To the API server.
    pub client: Client,
    /// Counts results.
    pub metrics: Arc<Metrics>,
}

#[derive(Deserialize)]
struct Identity {
    metadata: IdentityMetadata,
}

#[derive(Deserialize)]
struct IdentityMetadata {
    uid: String,
}

// === impl Write ===

impl Write {
    /// The write that an action asks for, and its lane. Bindings and Events are not written here.
    pub fn from_action(kind: ActionKind) -> Option<(Write, Urgency)> {
        Some(match kind {
            ActionKind::CreateFluxJob { job, urgency } => (Write::Create(job), urgency),
            ActionKind::WriteStatus { job, status, urgency } => (Write::Status(job, status), urgency),
            ActionKind::DeleteFluxJob { job } => (Write::Delete(job), Urgency::Trailing),
            ActionKind::Ungate { pod, gate } => (Write::Ungate(pod, gate), Urgency::Urgent),
            ActionKind::SetPodScheduled { pod, reason, message, newly } => {
                (Write::Unscheduled { pod, reason, message, newly }, Urgency::Trailing)
            }
            ActionKind::Bind { .. } | ActionKind::Note(_) => return None,
        })
    }

    fn operation(&self) -> &'static str {
        match self {
            Write::Create(_) => "create_fluxjob",
            Write::Status(..) => "write_status",
            Write::Delete(_) => "delete_fluxjob",
            Write::Ungate(..) => "ungate_pod",
            Write::Unscheduled { .. } => "set_pod_condition",
        }
    }
}

// === impl Writer ===

impl Writer {
    /// Does one write and reports its outcome. False once nobody wants outcomes any more.
    pub async fn carry_out(&self, request: &WriteRequest) -> bool {
        let outcome = self.write(&request.write).await;
        self.metrics.count_write(request.write.operation(), outcome.result());
        if let WriteOutcome::Failed(reason) | WriteOutcome::Invalid(reason) = &outcome {
            tracing::warn!(operation = request.write.operation(), error = %reason, "write failed");
        }
        self.outcomes.send((request.id, Outcome::Write(outcome))).await.is_ok()
    }

    /// Does one write and says how that ended.
    pub async fn write(&self, write: &Write) -> WriteOutcome {
        match write {
            Write::Create(job) => self.create(job).await,
            Write::Status(id, status) => self.status(id, status).await,
            Write::Delete(id) => self.delete(id).await,
            Write::Ungate(pod, gate) => {
                // Deleting by the merge key touches no other gate, wherever it stands in the list, and is no error if it
                // has gone already.
                let body = json!({
                    "metadata": { "uid": &*pod.uid },
                    "spec": { "schedulingGates": [{ "$patch": "delete", "name": &**gate }] },
                });
                self.patch(&pod_path(&pod.key), "", Content::StrategicMergePatch, &body, pod).await
            }
            Write::Unscheduled { pod, reason, message, newly } => {
                // Merged by type: what is left out stays as it is.
                let mut condition =
                    json!({ "type": "PodScheduled", "status": "False", "reason": reason, "message": message });
                if *newly {
                    condition["lastTransitionTime"] = whole_seconds(Timestamp::now()).into();
                }
                let body = json!({ "metadata": { "uid": &*pod.uid }, "status": { "conditions": [condition] } });
                self.patch(&pod_path(&pod.key), "/status", Content::StrategicMergePatch, &body, pod).await
            }
        }
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
        match send(&self.client, Method::POST, &path, Content::Json, body, WRITE_TIMEOUT).await {
            Ok(reply) if reply.succeeded() => match reply.parse::<FluxJob>() {
                Ok(mut stored) => {
                    stored.metadata.managed_fields = None;
                    WriteOutcome::Written(Some(Arc::new(stored)))
                }
                // It is there all the same; the watch will tell how the server stored it.
                Err(error) => WriteOutcome::Failed(format!("reading the FluxJob as stored: {error}")),
            },
            Ok(reply) if reply.code == 409 && reply.is_already_exists() => WriteOutcome::Exists,
            Ok(reply) => refused(&reply),
            Err(error) => failed(&error),
        }
    }

    async fn status(&self, id: &ObjectRef, status: &fluxqueue_api::FluxJobStatus) -> WriteOutcome {
        // A merge could not remove what is no longer said, so the status is replaced as a whole.
        let body = json!([
            { "op": "test", "path": "/metadata/uid", "value": &*id.uid },
            { "op": "add", "path": "/status", "value": status },
        ]);
        self.patch(&job_path(&id.key), "/status", Content::JsonPatch, &body, id).await
    }

    async fn delete(&self, id: &ObjectRef) -> WriteOutcome {
        let body = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": { "uid": &*id.uid },
            "propagationPolicy": "Background",
        });
        let path = job_path(&id.key);
        let body = body.to_string().into_bytes();
        match send(&self.client, Method::DELETE, &path, Content::Json, body, WRITE_TIMEOUT).await {
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
    ) -> WriteOutcome {
        let path = format!("{object}{subresource}");
        let body = body.to_string().into_bytes();
        match send(&self.client, Method::PATCH, &path, content, body, WRITE_TIMEOUT).await {
            Ok(reply) if reply.succeeded() => WriteOutcome::Written(None),
            Ok(reply) => self.refusal(&reply, object, id).await,
            Err(error) => failed(&error),
        }
    }

    /// A failed precondition shows as 409 or as 422, and so do other things: what the object is now decides.
    async fn refusal(&self, reply: &Reply, object: &str, id: &ObjectRef) -> WriteOutcome {
        if matches!(reply.code, 409 | 422) {
            match get::<Identity>(&self.client, object, WRITE_TIMEOUT).await {
                Ok(Ok(now)) if *now.metadata.uid != *id.uid => return WriteOutcome::Gone,
                Ok(Err(reply)) if reply.code == 404 => return WriteOutcome::Gone,
                _ => {}
            }
        }
        if reply.code == 404 { WriteOutcome::Gone } else { refused(reply) }
    }
}

fn refused(reply: &Reply) -> WriteOutcome {
    match reply.code {
        400 | 422 => WriteOutcome::Invalid(reply.explain()),
        _ => WriteOutcome::Failed(reply.explain()),
    }
}

fn failed(error: &NoReply) -> WriteOutcome {
    WriteOutcome::Failed(error.to_string())
}

fn jobs_path(namespace: &str) -> String {
    format!("/apis/{}/v1alpha1/namespaces/{namespace}/fluxjobs", fluxqueue_api::names::GROUP)
}

fn job_path(key: &ObjectKey) -> String {
    format!("{}/{}", jobs_path(&key.namespace), key.name)
}

fn pod_path(key: &ObjectKey) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", key.namespace, key.name)
}

/// `metav1.Time` has no fractions.
fn whole_seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}
